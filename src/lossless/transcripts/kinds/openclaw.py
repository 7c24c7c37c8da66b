"""OpenClaw's sessions: a header, then records with ids and parents, of which `message` was said."""

from __future__ import annotations

from typing import Any

from lossless.transcripts.entries import Entry, Header, Line
from lossless.transcripts.kinds.fields import (
    inner,
    kind_of,
    moment,
    no_lane_header,
    no_opening,
    no_side_files,
    said_at,
    text,
    whole,
)

__all__ = ["KIND", "entries", "header", "lane_header", "opening", "recognises", "side_files", "title"]

KIND = "openclaw"
lane_header, opening, side_files = no_lane_header, no_opening, no_side_files

_ROLES = frozenset(("user", "assistant", "system", "tool", "toolResult"))


def recognises(records: list[dict[str, Any]]) -> bool:
    """A session header, or a record whose message stands in an envelope with an id."""
    return any(record.get("type") == "session" or _is_enveloped(record) for record in records)


def header(records: list[dict[str, Any]]) -> Header:
    """What the record of type `session` says."""
    for record in records:
        if record.get("type") == "session":
            return Header(
                id=text(record, "id"),
                version=whole(record, "version"),
                parent=text(record, "parentSession", "branchedFrom"),
                started_at=moment(record.get("timestamp")),
                cwd=text(record, "cwd"),
                title=text(record, "name", "title"),
            )
    return Header()


def entries(record: dict[str, Any], line: Line) -> list[Entry]:
    """A message in its envelope or bare; everything else is opaque, the header outside the tree."""
    if "type" not in record and _is_message(record):
        return [Entry(line, "message", text(record, "id"), created_at=said_at(record), message=record)]
    kind, message = kind_of(record), inner(record, "message")
    place = (text(record, "id"), text(record, "parentId"))
    if kind == "message" and _is_message(message):
        return [Entry(line, kind, *place, said_at(message, record.get("timestamp")), message=message)]
    written = moment(record.get("timestamp"))
    return [Entry(line, kind, *place, written, record=record, is_loose=kind == "session")]


def title(record: dict[str, Any]) -> str | None:
    """The name that somebody gave the session."""
    return text(record, "name") if record.get("type") == "session_info" else None


def _is_message(message: dict[str, Any]) -> bool:
    return text(message, "role") in _ROLES and "content" in message


def _is_enveloped(record: dict[str, Any]) -> bool:
    return record.get("type") == "message" and isinstance(record.get("message"), dict)
