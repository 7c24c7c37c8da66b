"""What the kinds of transcripts share: reading a field that may be missing or of another type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lossless.model.times import from_epoch, parse_time
from lossless.transcripts.entries import Header

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from lossless.transcripts.entries import Line


def text(record: dict[str, Any], *keys: str) -> str | None:
    """The first of these fields that is a string with something in it."""
    for key in keys:
        value = record.get(key)
        if isinstance(value, str) and value:
            return value
    return None


def whole(record: dict[str, Any], key: str) -> int | None:
    """The field, when it is a whole number."""
    value = record.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def inner(record: dict[str, Any], key: str) -> dict[str, Any]:
    """The object under `key`; an empty one when there is none."""
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def moment(*values: Any) -> datetime | None:
    """The first of these that is a time: ISO-8601, or seconds or milliseconds since 1970."""
    for value in values:
        try:
            if isinstance(value, str):
                return parse_time(value)
            if isinstance(value, int | float) and not isinstance(value, bool):
                return from_epoch(value)
        except (ValueError, OverflowError, OSError):
            continue
    return None


def said_at(message: dict[str, Any], *others: Any) -> datetime | None:
    """When a message was said: what it says itself, else what its envelope says."""
    return moment(message.get("timestamp"), message.get("createdAt"), message.get("created_at"), *others)


def kind_of(record: dict[str, Any]) -> str:
    """The record's own type."""
    return text(record, "type") or "unknown"


def conversation_of(line: Line) -> str:
    """The side line of a record that holds a whole conversation of its own."""
    return str(line.number)


def no_lane_header(_record: dict[str, Any], lane: str) -> Header:
    """For kinds without side lines."""
    return Header(id=lane)


def no_title(_record: dict[str, Any]) -> str | None:
    """For kinds whose records give no title."""
    return None


def no_opening(_record: dict[str, Any]) -> str | None:
    """For kinds whose conversations are not named after what was asked first."""
    return None


def no_side_files(_path: Path) -> list[Path]:
    """For kinds that keep everything in one file."""
    return []
