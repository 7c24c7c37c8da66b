"""Plain messages, one a line or in an array; and records that hold a whole list of messages each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lossless.transcripts.entries import Entry, Header, Line
from lossless.transcripts.kinds.codex import is_item
from lossless.transcripts.kinds.fields import (
    conversation_of,
    kind_of,
    moment,
    no_opening,
    no_side_files,
    no_title,
    said_at,
    text,
)

__all__ = ["KIND", "entries", "header", "is_message", "lane_header", "opening", "recognises", "side_files", "title"]

KIND = "jsonl"
title, opening, side_files = no_title, no_opening, no_side_files

_ROLES = frozenset(("user", "assistant", "system", "developer", "tool", "function", "toolResult"))
_LISTS = ("messages", "traj", "conversation")
_CONTENTS = frozenset(("content", "tool_calls", "function_call", "refusal"))


def recognises(records: list[dict[str, Any]]) -> bool:
    """A message, or a record with a list of them."""
    return any(_spoken(record) is not None or _list_in(record) is not None for record in records)


def header(_records: list[dict[str, Any]]) -> Header:
    """Messages say nothing about the whole."""
    return Header()


def entries(record: dict[str, Any], line: Line) -> list[Entry]:
    """A message with the time that it or its envelope carries; a list of them has a lane of its own.

    An `id` here may be a session's, a request's or one that several lines share, so none counts as an entry's: what
    tells entries apart is where they stand and what they say.
    """
    listed = _list_in(record)
    if listed is not None:
        lane = conversation_of(line)
        return [replace(_entry(item, line, lane), shares_line=True) for item in listed]
    return [_entry(record, line, None)]


def lane_header(record: dict[str, Any], lane: str) -> Header:
    """What a record with a list of messages says beside the list."""
    return Header(
        id=text(record, "id", "conversation_id", "session_id", "task_id") or lane,
        started_at=moment(record.get("created_at"), record.get("createdAt"), record.get("timestamp")),
        title=text(record, "title", "name"),
    )


def is_message(value: Any) -> bool:
    """Whether a value has the shape of a message, or of an item of OpenAI's Responses."""
    if not isinstance(value, dict):
        return False
    is_said = text(value, "role") in _ROLES and not _CONTENTS.isdisjoint(value)
    return is_said or ("role" not in value and is_item(value))


def _entry(record: Any, line: Line, lane: str | None) -> Entry:
    if not isinstance(record, dict):
        return Entry(line, "unknown", lane=lane, record={"value": record})
    message = _spoken(record)
    if message is None:
        return Entry(line, kind_of(record), lane=lane, record=record)
    written = said_at(message, record.get("timestamp"), record.get("createdAt"), record.get("created_at"))
    return Entry(line, "message", None, None, written, lane, message)


def _spoken(record: dict[str, Any]) -> dict[str, Any] | None:
    """The message that a record is or holds."""
    if is_message(record):
        return record
    message = record.get("message")
    return message if isinstance(message, dict) and is_message(message) else None


def _list_in(record: dict[str, Any]) -> list[Any] | None:
    """The list of messages in a record that is no message itself."""
    for key in () if "role" in record else _LISTS:
        value = record.get(key)
        if isinstance(value, list) and (not value or any(isinstance(item, dict) for item in value)):
            return value
    return None
