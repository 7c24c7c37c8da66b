"""How far our token estimate is off for a model, learned from the usage that its provider reports."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

#: Smaller requests say more about a provider's fixed overhead than about its tokenizer.
MIN_SAMPLE_TOKENS = 200
#: Requests seen before the learned ratio is trusted.
LEARNED_AFTER = 5
#: What is added until then, and the most and the least that is added afterwards.
MARGIN_UNLEARNED = 0.15
MARGIN_MAX = 0.15
MARGIN_MIN = 0.02
RATIO_MIN, RATIO_MAX = 0.4, 3.0
_SLOWEST_RATE = 0.1
_LEAST_STEP = 0.05
#: So much of an error is read.
_ERROR_CHARS = 4_000
_N = r"[\d,_]{1,20}"
#: How providers say that a prompt is too long: Anthropic, OpenAI and those that follow it, Google, vLLM and llama.cpp.
_TOO_LONG = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"too long:? (?P<sent>{_N}) tokens? > (?P<most>{_N})",
        rf"maximum context length (?:of this model )?is (?P<most>{_N})[^\n]{{0,80}}?"
        rf"(?:resulted in|requested(?: about)?|contains?|has) (?:at least )?(?P<sent>{_N})",
        rf"input token count \(?(?P<sent>{_N})\)? exceeds the maximum[^\d\n]{{0,60}}\(?(?P<most>{_N})",
        rf"(?:request|prompt) \(?(?P<sent>{_N}) tokens\)? exceeds[^\d\n]{{0,60}}\(?(?P<most>{_N})",
        rf"(?P<sent>{_N}) tokens?[^\n]{{0,40}}(?:exceed\w*|(?:great|larg|long)er than|more than)[^\d\n]{{0,60}}"
        rf"(?P<most>{_N})",
    )
)


@dataclass(frozen=True, slots=True)
class Calibration:
    """One model's record: reported tokens over estimated tokens, and how much that varies."""

    model: str
    ratio: float = 1.0
    #: Typical distance of a request's ratio from `ratio`, as a share of it.
    spread: float = MARGIN_UNLEARNED
    observations: int = 0

    @property
    def is_learned(self) -> bool:
        return self.observations >= LEARNED_AFTER


def observe(record: Calibration, estimated: int, reported: int) -> Calibration:
    """The record after one request: `estimated` tokens by our count, `reported` by its provider's.

    Both must count the same text. One odd request moves a learned ratio by less than a tenth; a lasting
    change is followed within some twenty requests. Requests too small to tell change nothing.
    """
    if estimated < MIN_SAMPLE_TOKENS or reported <= 0:
        return record
    sample = min(max(reported / estimated, RATIO_MIN), RATIO_MAX)
    if record.observations == 0:
        return replace(record, ratio=sample, observations=1)
    distance = math.log(sample / record.ratio)
    limit = max(3 * record.spread, _LEAST_STEP) if record.is_learned else math.inf
    step = min(max(distance, -limit), limit)
    rate = max(1 / (record.observations + 1), _SLOWEST_RATE)
    return replace(
        record,
        ratio=min(max(record.ratio * math.exp(rate * step), RATIO_MIN), RATIO_MAX),
        spread=min((1 - rate) * record.spread + rate * abs(step), 1.0),
        observations=record.observations + 1,
    )


def refused(record: Calibration, estimated: int, reported: int) -> Calibration:
    """The record after a request was refused as too long: from now on the ratio is at least what it showed."""
    if estimated < MIN_SAMPLE_TOKENS or reported <= 0:
        return record
    sample = min(max(reported / estimated, RATIO_MIN), RATIO_MAX)
    return replace(record, ratio=max(record.ratio, sample), observations=record.observations + 1)


def refused_tokens(text: str) -> tuple[int, int] | None:
    """How many tokens a refused prompt had, and how many it may have, where a provider's error says both.

    >>> refused_tokens("prompt is too long: 212345 tokens > 200000 maximum")
    (212345, 200000)
    >>> refused_tokens("This model's maximum context length is 8192 tokens. Your messages resulted in 9001 tokens.")
    (9001, 8192)
    """
    text = text[:_ERROR_CHARS]
    for pattern in _TOO_LONG:
        if found := pattern.search(text):
            sent, most = (int(found[name].replace(",", "").replace("_", "")) for name in ("sent", "most"))
            return (sent, most) if sent > most > 0 else None
    return None


def factor(record: Calibration) -> float:
    """What to multiply an estimate by before it is held against a budget: the ratio and a margin."""
    if not record.is_learned:
        return max(record.ratio, 1.0) * (1 + MARGIN_UNLEARNED)
    return record.ratio * (1 + min(max(record.spread, MARGIN_MIN), MARGIN_MAX))


def budget_in_estimate(budget: int, record: Calibration) -> int:
    """How many estimated tokens fit into a real budget of `budget` tokens."""
    return int(budget / factor(record))
