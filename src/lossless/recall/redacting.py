"""What masks secrets in messages before they are stored: the shapes that are built in, and a person's own patterns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lossless.errors import BadPattern
from lossless.model.secrets import MASK, mask_secrets, masked
from lossless.recall.regexes import Regex

if TYPE_CHECKING:
    from lossless.model.masking import Cut
    from lossless.settings import Settings

_KIND = "pattern"
_MASKED = re.compile(re.escape(MASK) + r"[a-z0-9-]+\]")


def redactor(settings: Settings) -> Cut | None:
    """What the settings ask to mask, None for nothing; `BadPattern` names a pattern that cannot be used."""
    own = [Regex(pattern, settings.regex_engine) for pattern in settings.redact_patterns]
    seconds = settings.regex_timeout_ms / 1000
    if not own and not settings.redact_secrets:
        return None

    def redact(text: str) -> str:
        text = mask_secrets(text) if settings.redact_secrets else text
        for pattern in own:
            text = _without(pattern, text, seconds)
        return text

    return redact


def _without(pattern: Regex, text: str, seconds: float) -> str:
    """A text with all that a pattern matches masked. One that takes too long is refused: nothing is stored unmasked."""
    try:
        spans = pattern.spans(text, seconds)
    except TimeoutError:
        why = f"of redactPatterns takes more than {seconds:g} s for a message; nothing was stored"
        raise BadPattern(pattern.pattern, why) from None
    masks = [found.span() for found in _MASKED.finditer(text)] if MASK in text else []
    pieces: list[str] = []
    end = 0
    for start, stop in spans:
        if stop > start and not any(start < last and first < stop for first, last in masks):
            pieces += [text[end:start], masked(_KIND)]
            end = stop
    return "".join([*pieces, text[end:]]) if pieces else text
