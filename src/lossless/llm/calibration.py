"""The ratio of a provider's reported tokens to our estimate, learned per model."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

#: Smaller requests say more about a provider's fixed overhead than about its tokenizer.
MIN_SAMPLE_TOKENS = 200
#: Requests seen before the learned ratio is trusted.
LEARNED_AFTER_SAMPLES = 5
#: The margin until then, and its maximum and minimum afterwards.
MARGIN_UNLEARNED = 0.15
MARGIN_MAX = 0.15
MARGIN_MIN = 0.02
RATIO_MIN, RATIO_MAX = 0.4, 3.0
_SLOWEST_RATE = 0.1
_LEAST_STEP = 0.05


@dataclass(frozen=True, slots=True)
class Calibration:
    """One model's record: reported tokens over estimated tokens, and how much that varies."""

    model: str
    ratio: float = 1.0
    #: Typical deviation of a request's ratio from `ratio`, as a fraction of it.
    spread: float = MARGIN_UNLEARNED
    observations: int = 0

    @property
    def is_learned(self) -> bool:
        return self.observations >= LEARNED_AFTER_SAMPLES


def observe_count(record: Calibration, estimated: int, reported: int, *, refused: bool = False) -> Calibration:
    """The record after one request: `estimated` tokens by our count, `reported` by its provider's.

    Both must count the same text. One outlier moves a learned ratio by less than a tenth; a lasting change is followed
    within about twenty requests. Requests that are too small change nothing. After one that was `refused` as too long
    the ratio is at least the observed one.
    """
    if estimated < MIN_SAMPLE_TOKENS or reported <= 0:
        return record
    sample = min(max(reported / estimated, RATIO_MIN), RATIO_MAX)
    if refused:
        return replace(record, ratio=max(record.ratio, sample), observations=record.observations + 1)
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


def safety_factor(record: Calibration) -> float:
    """The factor for an estimate before it is compared with a budget: the ratio plus a margin.

    Never below 1: even if the estimate was too high for the texts so far, denser text may come with the next turn.
    """
    if not record.is_learned:
        return max(record.ratio, 1.0) * (1 + MARGIN_UNLEARNED)
    return max(1.0, record.ratio * (1 + min(max(record.spread, MARGIN_MIN), MARGIN_MAX)))
