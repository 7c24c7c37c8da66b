"""Entries on their way from a transcript into the archive, in order and a chunk at a time."""

from __future__ import annotations

import json
import re
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

#: Entries that are stored at once, unless others are asked for.
CHUNK = 1000


def records_of(chunk: Iterable[Entry | BadLine]) -> Iterator[Entry]:
    """The entries, without lines that could not be read."""
    return (entry for entry in chunk if not isinstance(entry, BadLine))


def said(entries: Iterable[Entry | BadLine]) -> Iterator[Entry]:
    """The entries that are messages."""
    return (entry for entry in entries if not isinstance(entry, BadLine) and entry.message is not None)


def chunks(entries: Iterable[Entry | BadLine], size: int = CHUNK) -> Iterator[list[Entry | BadLine]]:
    stream = iter(entries)
    while chunk := list(islice(stream, size)):
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


def id_of(entry: Entry, age: int = 0) -> str | None:
    """The id of an entry; where the host gives none, the file's age, its line and what it says.

    Such an id holds for one file, and for one age of it: a file whose lines were counted anew is a time older.
    """
    if entry.id is not None or entry.line.end <= entry.line.start or entry.shares_line:
        return entry.id
    text = json.dumps(body_of(entry), ensure_ascii=False).encode("utf-8", "surrogatepass")
    return made_up(age, entry.line.number, blake2b(text, digest_size=8).hexdigest())


def made_up(age: int, line: int, digest: str) -> str:
    """The id that stands for a line of a file without ids."""
    return f"{MADE_UP}{f'{age}.' if age else ''}{line}:{digest}"


_MADE_UP = re.compile(re.escape(MADE_UP) + r"(?:(\d+)\.)?(\d+):([0-9a-f]{16})")


def age_of(entry_id: str | None) -> int:
    """The age of the file that an id was made up for; 0 for any other id."""
    found = None if entry_id is None else _MADE_UP.fullmatch(entry_id)
    return int(found[1] or 0) if found else 0


def made_up_parts(entry_id: str) -> tuple[int, int, str] | None:
    """Age, line and digest of an id that was made up for a line of a file; None for any other id."""
    found = _MADE_UP.fullmatch(entry_id)
    return (int(found[1] or 0), int(found[2]), found[3]) if found else None


def messages_of(chunk: Sequence[Entry | BadLine], age: int = 0) -> list[Incoming]:
    """The messages of a chunk as ingest takes them."""
    return [
        Incoming(entry.message, entry_id=id_of(entry, age), created_at=entry.created_at)
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
