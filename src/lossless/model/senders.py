"""Who spoke in a group, as a host reports it: untrusted, one line, never more than a name."""

from __future__ import annotations

import json
from functools import lru_cache

#: The best name first; lossless-claw's own spellings, and those of other hosts.
_KEYS = (
    "senderName", "name", "displayName", "display_name", "senderUsername", "username", "label", "senderId", "id",
)  # fmt: skip
LONGEST = 40


@lru_cache(maxsize=256)
def sender_name(sender: str | None) -> str:
    """The name in a sender's metadata, on one short line; '' when there is none.

    >>> sender_name('{"senderId": "7", "senderName": "Ada"}')
    'Ada'
    """
    if not sender:
        return ""
    try:
        known = json.loads(sender)
    except (ValueError, RecursionError):
        known = sender
    if isinstance(known, dict):
        known = next((known[key] for key in _KEYS if known.get(key)), "")
    return " ".join(str(known).split())[:LONGEST]
