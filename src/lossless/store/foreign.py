"""Columns as another program may have left them: no text, time or list in a row can make a read fail."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from lossless.model.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from _typeshed import DataclassInstance

D = TypeVar("D", bound="DataclassInstance")


def text(raw: object) -> str:
    """A text; bytes that are no UTF-8 are marked."""
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else "" if raw is None else str(raw)


def moment(raw: object) -> datetime | None:
    """A time, None for what is none."""
    try:
        return parse_time(text(raw))
    except (ValueError, OverflowError):
        return None


def words(raw: object) -> tuple[str, ...]:
    """The texts of a list, or of the JSON of one; none for anything else."""
    if not isinstance(raw, tuple):
        try:
            raw = json.loads(text(raw))
        except (ValueError, RecursionError):
            return ()
    return tuple(item for item in raw if isinstance(item, str)) if isinstance(raw, list | tuple) else ()


def _maybe_text(raw: object) -> str | None:
    return None if raw is None else text(raw)


_READERS: dict[str, Callable[[Any], Any]] = {
    "str": text,
    "str | None": _maybe_text,
    "bool": bool,
    "datetime | None": moment,
    "tuple[str, ...]": words,
}


def record(kind: type[D], row: Sequence[object]) -> D:
    """A value whose fields are the columns of a row, in order; each is read as its type says."""
    columns = zip(fields(kind), row, strict=True)
    return kind(*[_READERS[field.type](raw) if field.type in _READERS else raw for field, raw in columns])


def number(value: object) -> int:
    """A count from a column; what is none counts nothing, and `lcm verify` names it."""
    return value if isinstance(value, int) else 0
