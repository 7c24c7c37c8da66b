"""Cursors: opaque words that say where a text goes on. Whoever holds one still needs leave to read."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from lossless.errors import BadInput

_VERSION = 1
_BAD = "the cursor cannot be used; take one from an earlier result, whole, or begin again without it"
_MAX_CHARS = 8_000


def encode(resource: str, fields: dict[str, Any]) -> str:
    """The word for a place."""
    body = json.dumps({"v": _VERSION, "r": resource} | fields, separators=(",", ":"))
    return base64.urlsafe_b64encode(body.encode()).decode().rstrip("=")


def decode(resource: str, word: str, kinds: dict[str, type]) -> dict[str, Any]:
    """The fields of a cursor, each of the kind that it should be; `BadInput` when it is none of this resource's."""
    word = word.strip()
    if len(word) > _MAX_CHARS:
        raise BadInput(_BAD)
    try:
        fields = json.loads(base64.b64decode(word + "=" * (-len(word) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        raise BadInput(_BAD) from None
    if not isinstance(fields, dict) or fields.get("v") != _VERSION or fields.get("r") != resource:
        raise BadInput(_BAD)
    if any(type(fields.get(name)) is not kind for name, kind in kinds.items()):
        raise BadInput(_BAD)
    return fields


def spoilt() -> BadInput:
    """The error for a cursor whose place is not there."""
    return BadInput(_BAD)
