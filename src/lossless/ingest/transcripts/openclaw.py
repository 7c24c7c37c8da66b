"""Reads OpenClaw sessions: a header, then records with ids and parents; those of type `message` are messages. And those
of pi, the origin of this format: the same records, in older files without ids.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lossless.ingest.transcripts import fields
from lossless.ingest.transcripts.entries import Reader, RecordPosition, TranscriptEntry, TranscriptHeader

KIND, PI = "openclaw", "pi"

_ROLES = frozenset(("user", "assistant", "system", "tool", "toolResult"))
#: Fields that only headers of pi have.
_PI_HEADER_KEYS = frozenset(("provider", "modelId", "thinkingLevel", "branchedFrom"))


def recognises(records: list[dict[str, Any]]) -> bool:
    """A session header, or a record whose message is in an envelope with an id."""
    return any(record.get("type") == "session" or _is_enveloped(record) for record in records)


def header(records: list[dict[str, Any]]) -> TranscriptHeader:
    """From the record of type `session`."""
    head = next((record for record in records if record.get("type") == "session"), {})
    return TranscriptHeader(
        id=fields.text(head, "id"),
        version=fields.integer(head, "version"),
        parent=fields.text(head, "parentSession", "branchedFrom"),
        started_at=fields.time(head.get("timestamp")),
        cwd=fields.text(head, "cwd"),
        title=fields.text(head, "name", "title"),
    )


def entries(record: dict[str, Any], line: RecordPosition) -> list[TranscriptEntry]:
    """A message in its envelope or bare; everything else is opaque, the header outside the tree."""
    if "type" not in record and _is_message(record):
        written = fields.message_time(record)
        return [TranscriptEntry(line, "message", fields.text(record, "id"), None, written, message=record)]
    kind, message = fields.kind(record), fields.object(record, "message")
    place = (fields.text(record, "id"), fields.text(record, "parentId"))
    if kind == "message" and _is_message(message):
        written = fields.message_time(message, record.get("timestamp"))
        return [TranscriptEntry(line, kind, *place, written, message=message)]
    written = fields.time(record.get("timestamp"))
    return [TranscriptEntry(line, kind, *place, written, record=record, is_loose=kind == "session")]


def title(record: dict[str, Any]) -> str | None:
    """The name that a user gave the session."""
    return fields.text(record, "name") if record.get("type") == "session_info" else None


def _is_message(message: dict[str, Any]) -> bool:
    return fields.text(message, "role") in _ROLES and "content" in message


def _is_enveloped(record: dict[str, Any]) -> bool:
    return record.get("type") == "message" and isinstance(record.get("message"), dict)


READER = Reader(KIND, recognises, entries, header, title=title)


def is_pi(records: list[dict[str, Any]]) -> bool:
    """A header that names a model, or records without ids."""
    if not recognises(records):
        return False
    if any(is_pi_header(record) for record in records if record.get("type") == "session"):
        return True
    others = [record for record in records if record.get("type") == "message"]
    return bool(others) and all("id" not in record for record in others)


def is_pi_header(head: dict[str, Any]) -> bool:
    """Whether a header has a field that OpenClaw's never have, such as the model's name."""
    return not _PI_HEADER_KEYS.isdisjoint(head)


PI_READER = replace(READER, kind=PI, recognises=is_pi)
