"""How a broken summary is known: by the marks that fallbacks leave, by its writer, or because it says nothing."""

from __future__ import annotations

from typing import Literal, TypeAlias

from lossless.compaction.fallback import DIRECTIVE_MARKER, FALLBACK_MARKER, TRUNCATED_PREFIX

Marker: TypeAlias = Literal["old", "fallback", "new", "emergency", "empty"]

EMERGENCY_MODEL = "emergency-fallback"
EMERGENCY_TEXT = "[Truncated for context management]"
_NEW_WITHIN = 40
_FALLBACK_WITHIN = 80

#: What each kind means, for people.
MEANING: dict[Marker, str] = {
    "old": "it begins with the fallback mark of older versions",
    "fallback": "its source was cut short by rule because no model wrote it",
    "new": "it ends where its source was truncated",
    "emergency": "it was made when no model could be found",
    "empty": "it says nothing",
}


def marker_of(content: str, model: str) -> Marker | None:
    """What kind of broken a summary is, None when it is sound.

    >>> marker_of("The build\\n[Truncated from 900 tokens]", "m"), marker_of(" ", "m"), marker_of("All is well.", "m")
    ('new', 'empty', None)
    """
    text = content.strip()
    if not text:
        return "empty"
    if text.startswith(FALLBACK_MARKER):
        return "old"
    if DIRECTIVE_MARKER in text:
        return "fallback"
    if TRUNCATED_PREFIX in text[-_NEW_WITHIN:]:
        return "new"
    if FALLBACK_MARKER in text[-_FALLBACK_WITHIN:]:
        return "fallback"
    if model == EMERGENCY_MODEL or (model == "unknown" and EMERGENCY_TEXT in text):
        return "emergency"
    return None
