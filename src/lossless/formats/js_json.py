"""Token counts of JSON as JavaScript serialises it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lossless.model.js_json import stringify
from lossless.model.tokens import estimate_tokens

if TYPE_CHECKING:
    from lossless.model.messages import Json

__all__ = ["BLOB_CHARS", "BLOB_TOKENS", "boundary_tokens", "is_blob", "serialized_tokens", "stringify"]

#: From this length on, a string of base64 is a picture or a file, not text.
BLOB_CHARS = 4096
#: What such a string is reckoned to cost.
BLOB_TOKENS = 1600

_BLOB_KEYS = frozenset(("data", "image", "imageData", "image_data", "base64", "bytes", "source"))
_BASE64_HEAD = re.compile(r"[A-Za-z0-9+/_=\s-]{512}")


def serialized_tokens(value: Json) -> int:
    """The estimate of `JSON.stringify(value)`."""
    return estimate_tokens(stringify(value))


def boundary_tokens(value: Json) -> int:
    """What `value` costs a model: its serialisation, with each long binary string at a flat price."""
    blobs: list[str] = []
    return estimate_tokens(stringify(_without_blobs(value, "", blobs))) + BLOB_TOKENS * len(blobs)


def is_blob(text: str, key: str = "data") -> bool:
    """Whether a string under `key` is binary data rather than words."""
    if len(text) < BLOB_CHARS:
        return False
    return text.startswith("data:") or (key in _BLOB_KEYS and _BASE64_HEAD.match(text) is not None)


def _without_blobs(value: Json, key: str, blobs: list[str]) -> Json:
    if isinstance(value, str):
        if is_blob(value, key):
            blobs.append(key)
            return ""
        return value
    if isinstance(value, dict):
        return {name: _without_blobs(item, name, blobs) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_blobs(item, key, blobs) for item in value]
    return value
