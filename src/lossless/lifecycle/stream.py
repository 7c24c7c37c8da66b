"""Entries on their way from a transcript into the archive, in order and a chunk at a time."""

from __future__ import annotations

import json
from hashlib import blake2b
from itertools import chain, islice
from typing import TYPE_CHECKING

from lossless.model.identity import checkpoint_hash
from lossless.model.messages import MADE_UP, Incoming, Message
from lossless.model.tokens import estimate_tokens
from lossless.transcripts.entries import BadLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lossless.model.messages import JsonObject
    from lossless.transcripts.entries import Entry

#: Entries that are stored in one transaction, and that are laid over what is stored at once.
CHUNK = 1000


def records_of(chunk: Iterable[Entry | BadLine]) -> Iterator[Entry]:
    """The entries, without lines that could not be read."""
    return (entry for entry in chunk if not isinstance(entry, BadLine))


def said(entries: Iterable[Entry | BadLine]) -> Iterator[Entry]:
    """The entries that are messages."""
    return (entry for entry in entries if not isinstance(entry, BadLine) and entry.message is not None)


def chunks(entries: Iterable[Entry | BadLine]) -> Iterator[list[Entry | BadLine]]:
    stream = iter(entries)
    while chunk := list(islice(stream, CHUNK)):
        yield chunk


def of_lane(entries: Iterable[Entry | BadLine], lane: str | None) -> Iterator[Entry | BadLine]:
    return (entry for entry in entries if isinstance(entry, BadLine) or entry.lane == lane)


def from_message(entries: Iterator[Entry | BadLine], place: int) -> Iterator[Entry | BadLine]:
    """The entries from a message on, counted from 0."""
    for entry in entries:
        is_message = not isinstance(entry, BadLine) and entry.message is not None
        if place == 0 and is_message:
            return chain((entry,), entries)
        place -= is_message
    return iter(())


def take_messages(entries: Iterator[Entry | BadLine], count: int) -> list[Entry | BadLine]:
    """The next entries up to so many messages."""
    taken: list[Entry | BadLine] = []
    for entry in entries:
        taken.append(entry)
        count -= not isinstance(entry, BadLine) and entry.message is not None
        if count <= 0:
            break
    return taken


def id_of(entry: Entry) -> str | None:
    """The id of an entry; where the host gives none, its line and what it says, which only this file has."""
    if entry.id is not None or entry.line.end <= entry.line.start or entry.shares_line:
        return entry.id
    text = json.dumps(body_of(entry), ensure_ascii=False).encode("utf-8", "surrogatepass")
    return f"{MADE_UP}{entry.line.number}:{blake2b(text, digest_size=8).hexdigest()}"


def messages_of(chunk: Sequence[Entry | BadLine]) -> list[Incoming]:
    """The messages of a chunk as ingest takes them."""
    return [
        Incoming(entry.message, entry_id=id_of(entry), created_at=entry.created_at)
        for entry in said(chunk)
        if entry.message is not None
    ]


def body_of(entry: Entry) -> JsonObject:
    """The message as its host wrote it."""
    message = entry.message
    return (message.original if isinstance(message, Message) else message) or {}


def entry_hash(entry: Entry) -> str | None:
    """The hash under which upstream remembers the last message; None where the message is not plain to it."""
    body = body_of(entry)
    role, content = body.get("role"), body.get("content")
    return checkpoint_hash(role, content) if isinstance(role, str) and isinstance(content, str) else None


def tokens_of(entry: Entry) -> int:
    return estimate_tokens(str(body_of(entry).get("content", "")))
