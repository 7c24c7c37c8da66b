"""What messages take once they are sent: the estimate over their JSON, as a provider gets it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lossless.formats.js_json import BLOB_CHARS, boundary_tokens
from lossless.model.tokens import estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def wire_tokens(wire: Iterable[Any]) -> int:
    """The tokens of encoded messages and of the commas between them; data of files has a flat price."""
    return sum(map(_tokens, wire))


def _tokens(item: Any) -> int:
    text = _encode(item) + ","
    return estimate_tokens(text) if len(text) < BLOB_CHARS else boundary_tokens(item) + 1
