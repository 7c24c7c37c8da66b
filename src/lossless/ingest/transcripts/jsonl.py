"""Reads plain messages, one per line or in an array, and records that each hold a whole list of messages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lossless.ingest.transcripts import fields
from lossless.ingest.transcripts.codex import is_item
from lossless.ingest.transcripts.entries import Reader, RecordPosition, TranscriptEntry, TranscriptHeader

KIND = "jsonl"

_ROLES = frozenset(("user", "assistant", "system", "developer", "tool", "function", "toolResult"))
_LISTS = ("messages", "traj", "conversation")
_CONTENTS = frozenset(("content", "tool_calls", "function_call", "refusal"))


def recognises(records: list[dict[str, Any]]) -> bool:
    """A message, or a record with a list of them."""
    return any(_spoken(record) is not None or _list_in(record) is not None for record in records)


def entries(record: dict[str, Any], line: RecordPosition) -> list[TranscriptEntry]:
    """A message with its own or its envelope's time; a list of them has its own lane.

    An `id` here may be a session's, a request's or shared by several lines, so it is not an entry id: entries are
    identified by position and content.
    """
    listed = _list_in(record)
    if listed is not None:
        lane = str(line.number)
        return [replace(_entry(item, line, lane), shares_line=True) for item in listed]
    return [_entry(record, line, None)]


def lane_header(record: dict[str, Any], lane: str) -> TranscriptHeader:
    """The other fields of a record with a list of messages."""
    return TranscriptHeader(
        id=fields.text(record, "id", "conversation_id", "session_id", "task_id") or lane,
        started_at=fields.time(record.get("created_at"), record.get("createdAt"), record.get("timestamp")),
        title=fields.text(record, "title", "name"),
    )


def is_message(value: Any) -> bool:
    """Whether a value has the shape of a message, or of an item of OpenAI's Responses."""
    if not isinstance(value, dict):
        return False
    is_said = fields.text(value, "role") in _ROLES and not _CONTENTS.isdisjoint(value)
    return is_said or ("role" not in value and is_item(value))


def _entry(record: Any, line: RecordPosition, lane: str | None) -> TranscriptEntry:
    if not isinstance(record, dict):
        return TranscriptEntry(line, "unknown", lane=lane, record={"value": record})
    message = _spoken(record)
    if message is None:
        return TranscriptEntry(line, fields.kind(record), lane=lane, record=record)
    written = fields.message_time(message, record.get("timestamp"), record.get("createdAt"), record.get("created_at"))
    return TranscriptEntry(line, "message", None, None, written, lane, message)


def _spoken(record: dict[str, Any]) -> dict[str, Any] | None:
    """The message that a record is or contains."""
    if is_message(record):
        return record
    message = record.get("message")
    return message if isinstance(message, dict) and is_message(message) else None


def _list_in(record: dict[str, Any]) -> list[Any] | None:
    """The list of messages in a record that is not itself a message."""
    for key in () if "role" in record else _LISTS:
        value = record.get(key)
        if isinstance(value, list) and (not value or any(isinstance(item, dict) for item in value)):
            return value
    return None


READER = Reader(KIND, recognises, entries, lane_header=lane_header)
