"""Rows as JSON: bytes in base64, everything else as it is."""

from __future__ import annotations

import base64
import json
from typing import Any

from lossless.store.bundles import OURS
from lossless.store.tidy import row_of, scalars

_BYTES = "base64"


def dump(values: object) -> str:
    """One line of JSON."""
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"), default=_encode)


def restore(values: dict[str, Any]) -> dict[str, Any]:
    """Values whose bytes are bytes again."""
    return {name: _decode(value) for name, value in values.items()}


def beside_row(table: str, values: dict[str, Any]) -> dict[str, Any]:
    """A row of a table beside the messages, with values that its columns can hold."""
    row = restore(values)
    return scalars(row) if table in OURS else row_of(row)


def _encode(value: object) -> object:
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    raise TypeError(f"{type(value).__name__} has no place in JSON")


def _decode(value: Any) -> Any:
    if isinstance(value, dict) and list(value) == [_BYTES]:
        return base64.b64decode(value[_BYTES]) if isinstance(value[_BYTES], str) else None
    if isinstance(value, list):
        return [restore(item) if isinstance(item, dict) else item for item in value]
    return value
