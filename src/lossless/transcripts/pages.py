"""Entries that do not come from a file: pages of OpenClaw's cursor, and messages that a program has at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lossless.errors import BadMessage
from lossless.model.messages import Incoming, Message
from lossless.transcripts.entries import Entry, Line
from lossless.transcripts.kinds import jsonl, openclaw
from lossless.transcripts.kinds.fields import inner, said_at, text, whole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lossless.model.messages import JsonObject

__all__ = ["entries_of"]


def entries_of(objects: Iterable[Incoming | Message | JsonObject]) -> list[Entry]:
    """Each object as an entry, in the order given; its line has a number and no bytes.

    An object is an item of a page (`entryId`, `message`), a record of an OpenClaw transcript, a bare
    message, or a value of ours. Anything that is no object is a BadMessage with its index.
    """
    return [_entry(value, index) for index, value in enumerate(objects)]


def _entry(value: Any, index: int) -> Entry:
    line = Line(index + 1, 0, 0)
    if isinstance(value, Incoming):
        found = value.message.created_at if isinstance(value.message, Message) else said_at(dict(value.message))
        return Entry(line, "message", value.entry_id, created_at=value.created_at or found, message=value.message)
    if isinstance(value, Message):
        return Entry(line, "message", created_at=value.created_at, message=value)
    if not isinstance(value, dict):
        raise BadMessage(f"a message is an object (a dict), not {type(value).__name__}", index=index)
    if "entryId" in value:
        return _page_item(value, line)
    if jsonl.is_message(value):
        return Entry(line, "message", text(value, "id"), created_at=said_at(value), message=value)
    return openclaw.entries(value, line)[0]


def _page_item(item: dict[str, Any], line: Line) -> Entry:
    """An item of a page; one without a message is opaque."""
    place = Line(whole(item, "seq") or line.number, 0, 0)
    message = inner(item, "message")
    written = said_at(message, item.get("createdAt"))
    if not jsonl.is_message(message):
        return Entry(place, "unknown", text(item, "entryId"), text(item, "parentId"), written, record=item)
    return Entry(place, "message", text(item, "entryId"), text(item, "parentId"), written, message=message)
