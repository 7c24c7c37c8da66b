"""What a provider says when a request is too long for its model."""

from __future__ import annotations

import re
from dataclasses import dataclass

_STATUSES = frozenset((400, 413, 422))
_SIGNS = re.compile(
    r"prompt is too long|context[ _-]?(?:length|window|limit)|too many (?:input )?tokens|input is too long"
    r"|maximum (?:context|prompt) length|exceeds? the (?:model's )?(?:maximum|limit|context)",
    re.IGNORECASE,
)
#: The provider's count of the prompt, and the window, as their messages word it.
_COUNTS = (
    re.compile(r"(?P<prompt>\d[\d,]*) tokens > (?P<window>\d[\d,]*)"),
    re.compile(
        r"context length is (?P<window>\d[\d,]*) tokens.{0,120}?(?P<prompt>\d[\d,]*) (?:input )?tokens", re.DOTALL
    ),
    re.compile(
        r"(?P<prompt>\d[\d,]*) (?:input )?tokens.{0,80}?(?:limit|maximum|window)\D{0,40}(?P<window>\d[\d,]*)", re.DOTALL
    ),
)


@dataclass(frozen=True, slots=True)
class TooLong:
    """A refusal; the provider's count of the prompt and the window that it holds it against, where it says so."""

    prompt: int | None = None
    window: int | None = None


def too_long(status: int, answer: str) -> TooLong | None:
    """What a refusal says when it is about the length of the prompt; else None.

    >>> too_long(400, "prompt is too long: 210,431 tokens > 200,000 maximum")
    TooLong(prompt=210431, window=200000)
    """
    if status not in _STATUSES or not _SIGNS.search(answer):
        return None
    for pattern in _COUNTS:
        if (found := pattern.search(answer)) is not None:
            prompt, window = (int(found[name].replace(",", "")) for name in ("prompt", "window"))
            if prompt > window:
                return TooLong(prompt, window)
    return TooLong()
