"""What a provider says when a request is too long for its model."""

from __future__ import annotations

import re
from dataclasses import dataclass

_STATUSES = frozenset((400, 413, 422))
_SIGNS = re.compile(
    r"prompt is too long|context[ _-]?(?:length|window|limit|size)|too many (?:input )?tokens|input is too long"
    r"|maximum (?:context|prompt) length|exceeds? the (?:model's )?(?:maximum|limit|context)",
    re.IGNORECASE,
)
#: A prompt that was refused without a count is thought to be so much of the window.
REFUSED_IS = 1.1
#: So much of an error is read.
_MOST_CHARS = 4_000
_N = r"[\d,_]{1,20}"
#: The provider's count of the prompt, and the window: Anthropic, OpenAI and those that follow it, Google, vLLM and
#: llama.cpp.
_COUNTS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?P<prompt>{_N}) tokens? > (?P<window>{_N})",
        rf"maximum context length (?:of this model )?is (?P<window>{_N})[^\n]{{0,80}}?"
        rf"(?:resulted in|requested(?: about)?|contains?|has) (?:at least )?(?P<prompt>{_N})",
        rf"context length is (?P<window>{_N}) tokens[^\n]{{0,120}}?(?P<prompt>{_N}) (?:input )?tokens",
        rf"input token count \(?(?P<prompt>{_N})\)? exceeds the maximum[^\d\n]{{0,60}}\(?(?P<window>{_N})",
        rf"(?:request|prompt) \(?(?P<prompt>{_N}) tokens\)? exceeds[^\d\n]{{0,60}}\(?(?P<window>{_N})",
        rf"(?P<prompt>{_N}) (?:input )?tokens?[^\n]{{0,80}}?"
        rf"(?:exceed\w*|(?:great|larg|long)er than|more than|limit|maximum|window)[^\d\n]{{0,60}}(?P<window>{_N})",
    )
)


@dataclass(frozen=True, slots=True)
class TooLong:
    """A refusal; the provider's count of the prompt and the window that it holds it against, where it says so."""

    prompt: int | None = None
    window: int | None = None


def too_long(answer: str, status: int | None = None) -> TooLong | None:
    """What a refusal says when it is about the length of the prompt; else None. A status may be known, or not.

    >>> too_long("prompt is too long: 210,431 tokens > 200,000 maximum", 400)
    TooLong(prompt=210431, window=200000)
    """
    answer = answer[:_MOST_CHARS]
    if (status is not None and status not in _STATUSES) or not _SIGNS.search(answer):
        return None
    for pattern in _COUNTS:
        if (found := pattern.search(answer)) is not None:
            prompt, window = (int(re.sub(r"\D", "", found[name]) or 0) for name in ("prompt", "window"))
            if prompt > window > 0:
                return TooLong(prompt, window)
    return TooLong()
