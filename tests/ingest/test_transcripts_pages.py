"""Entries of a page of OpenClaw's cursor, and of messages at hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from lossless.errors import BadMessage
from lossless.ingest.transcripts import RecordPosition, entries_from_objects
from lossless.model.messages import Incoming, Message

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
ISO = "2026-01-02T12:00:00.000Z"


def test_items_of_a_page() -> None:
    message = {"role": "user", "content": "hi", "timestamp": 1767355200000, "__openclaw": {"senderIsOwner": True}}
    reply = {"role": "assistant", "content": []}
    page: list[dict[str, Any]] = [
        {"entryId": "a", "parentId": "z", "seq": 4, "message": message, "role": "user", "createdAt": "2027-01-01"},
        {"entryId": "b", "parentId": "a", "seq": 5, "message": reply, "role": "assistant", "createdAt": ISO},
        {"entryId": "c", "parentId": "b", "seq": 6, "createdAt": ISO},
    ]
    first, second, opaque = entries_from_objects(page)
    assert (first.id, first.parent_id, first.line, first.created_at) == ("a", "z", RecordPosition(4, 0, 0), NOON)
    assert first.message is message
    assert (second.id, second.message, second.created_at) == ("b", reply, NOON)
    assert (opaque.id, opaque.message, opaque.record) == ("c", None, page[2])


def test_values_records_and_bare_messages() -> None:
    message = Message("user", "hi", created_at=NOON)
    bare = {"role": "user", "content": "hi", "created_at": ISO}
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    record = {"type": "message", "id": "r", "parentId": None, "message": bare}
    found = entries_from_objects(
        [Incoming(bare, "a"), Incoming(message, "b"), message, bare, call, record, {"type": "custom"}]
    )
    assert [entry.id for entry in found] == ["a", "b", None, None, None, "r", None]
    assert [entry.message for entry in found] == [bare, message, message, bare, call, bare, None]
    assert [entry.created_at for entry in found] == [NOON, NOON, NOON, NOON, None, NOON, None]
    assert [entry.line.number for entry in found] == [1, 2, 3, 4, 5, 6, 7]


def test_what_is_no_object_is_told_by_its_index() -> None:
    with pytest.raises(BadMessage, match="message 1"):
        entries_from_objects([{"role": "user", "content": "hi"}, "hi"])  # type: ignore[list-item]
