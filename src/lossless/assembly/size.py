"""What messages take once they are sent: the estimate over their JSON, as a provider gets it."""

from __future__ import annotations

import json
from json.encoder import encode_basestring
from typing import Any

from lossless.formats.js_json import BLOB_CHARS, boundary_tokens, is_blob
from lossless.model.tokens import estimate_tokens

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def json_text(item: dict[str, Any]) -> str:
    """An encoded message as JSON, with the comma behind it."""
    if _is_role_and_text(item):
        # Most messages: written without the machinery for whatever else may be in one.
        return f'{{"role":{encode_basestring(item["role"])},"content":{encode_basestring(item["content"])}}},'
    return _encode(item) + ","


def item_tokens(item: dict[str, Any], text: str) -> int:
    """The tokens of an encoded message whose `json_text` is `text`; data of files has a flat price."""
    if len(text) < BLOB_CHARS:
        return estimate_tokens(text)
    if _is_role_and_text(item) and not is_blob(item["content"], "content"):
        return estimate_tokens(text[:-1]) + 1
    return boundary_tokens(item) + 1


def _is_role_and_text(item: dict[str, Any]) -> bool:
    return len(item) == 2 and type(item.get("role")) is str and type(item.get("content")) is str
