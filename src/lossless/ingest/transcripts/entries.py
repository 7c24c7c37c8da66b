"""The common form of transcripts: a header, entries in file order, and unreadable lines; and the steps that
store entries in chunks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

from lossless.model.identity import checkpoint_hash
from lossless.model.messages import GENERATED_ID_PREFIX, Incoming, JsonObject, Message

if TYPE_CHECKING:
    from pathlib import Path

#: A readable record, or its replacement; and the same for an entry.
Record: TypeAlias = "tuple[RecordPosition, dict[str, Any]] | BadLine"
TranscriptLine: TypeAlias = "TranscriptEntry | BadLine"

#: The tie of a tool result: it is on the path whenever its call is.
ANSWER = "*"


@dataclass(frozen=True, slots=True)
class RecordPosition:
    """The position of a record: its number from 1, and its bytes from `start` to `end` (after the line feed)."""

    number: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TranscriptHeader:
    """A transcript's own metadata."""

    id: str | None = None
    version: int | None = None
    #: The transcript that this one was forked from.
    parent: str | None = None
    started_at: datetime | None = None
    cwd: str | None = None
    title: str | None = None


@dataclass(frozen=True, slots=True)
class TranscriptEntry:
    """One record of a transcript. `message` is set for messages; everything else is opaque and kept unchanged."""

    line: RecordPosition
    #: The record's own type; `message` for a bare message.
    kind: str
    id: str | None = None
    parent_id: str | None = None
    created_at: datetime | None = None
    #: None on the main line; else its lane (a sub-agent's).
    lane: str | None = None
    message: Mapping[str, object] | Message | None = None
    #: The whole record of an opaque entry.
    record: JsonObject = field(default_factory=dict)
    #: It is outside the tree of ids (a header, a title, a snapshot), and so on every path.
    is_loose: bool = False
    #: It is on the path whenever its parent is and has the same tie; `ANSWER` matches any parent.
    tie: str | None = None
    #: Its record has other entries, too.
    shares_line: bool = False


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is not a record, and why it was skipped."""

    line: RecordPosition
    reason: str
    message: ClassVar[None] = None


@dataclass(frozen=True, slots=True)
class FileState:
    """The file system's metadata of a transcript, read before its bytes."""

    path: Path
    size: int
    mtime_ms: int


@dataclass(frozen=True, slots=True)
class WholeTranscript:
    """A conversation in a file that its program changes in place: read as a whole, and matched by entry ids."""

    #: With a size and a time that change whenever the conversation does.
    state: FileState
    header: TranscriptHeader
    #: Reads all its entries in order, and the ids of those that the user took back.
    read: Callable[[], tuple[Sequence[TranscriptLine], frozenset[str]]]
    #: The id of the session that this one is a sub-agent's of.
    agent_of: str | None = None


@dataclass(frozen=True, slots=True)
class Reader:
    """One kind of transcript."""

    #: Its name in `lcm import`: `openclaw`, `claude-code`, …
    kind: str
    #: Whether a file with these first records is of this kind.
    recognises: Callable[[list[dict[str, Any]]], bool]
    #: One record as entries: one, or those of a whole conversation, the end of its path last.
    entries: Callable[[dict[str, Any], RecordPosition], list[TranscriptEntry]] = lambda _record, _line: []
    #: The transcript's header, from the first records.
    header: Callable[[list[dict[str, Any]]], TranscriptHeader] = lambda _records: TranscriptHeader()
    #: The header of a lane, from its first record.
    lane_header: Callable[[dict[str, Any], str], TranscriptHeader] = lambda _record, lane: TranscriptHeader(id=lane)
    #: The title of the whole transcript, if the record has one.
    title: Callable[[dict[str, Any]], str | None] = lambda _record: None
    #: The prompt in this record, as a title for a conversation without one.
    opening: Callable[[dict[str, Any]], str | None] = lambda _record: None
    #: Other transcripts that belong to the one at a path: its sub-agents'.
    side_files: Callable[[Path], list[Path]] = lambda _path: []
    #: The sessions in a file, of a kind whose files change in place; they have no records of their own.
    sessions: Callable[[Path], list[WholeTranscript]] = lambda _path: []


#: The default number of entries per transaction.
CHUNK_ENTRIES = 1000


def readable_entries(chunk: Iterable[TranscriptLine]) -> Iterator[TranscriptEntry]:
    return (entry for entry in chunk if not isinstance(entry, BadLine))


def message_entries(entries: Iterable[TranscriptLine]) -> Iterator[TranscriptEntry]:
    return (entry for entry in entries if not isinstance(entry, BadLine) and entry.message is not None)


def chunks(entries: Iterable[TranscriptLine], size: int = CHUNK_ENTRIES) -> Iterator[list[TranscriptLine]]:
    stream = iter(entries)
    while chunk := list(islice(stream, size)):
        yield chunk


def entries_of_lane(entries: Iterable[TranscriptLine], lane: str | None) -> Iterator[TranscriptLine]:
    return (entry for entry in entries if isinstance(entry, BadLine) or entry.lane == lane)


def take_messages(entries: Iterator[TranscriptLine], first: int, count: int) -> list[TranscriptLine]:
    """The entries from the nth message on, counted from 0, with so many messages; the iterator goes on behind them."""
    taken: list[TranscriptLine] = []
    for entry in entries:
        first -= entry.message is not None
        if first < 0:
            taken.append(entry)
        if first <= -count:
            break
    return taken


def entry_id_of(entry: TranscriptEntry, age: int = 0) -> str | None:
    """The id of an entry; without one from the host, from the file's generation, its line and its content.

    Such an id is valid for one generation of one file: when its lines are renumbered, the generation increases.
    """
    if entry.id is not None or entry.line.end <= entry.line.start or entry.shares_line:
        return entry.id
    text = json.dumps(message_body(entry), ensure_ascii=False).encode("utf-8", "surrogatepass")
    return make_line_id(age, entry.line.number, blake2b(text, digest_size=8).hexdigest())


def make_line_id(age: int, line: int, digest: str) -> str:
    """The generated id of a line of a file without ids."""
    return f"{GENERATED_ID_PREFIX}{f'{age}.' if age else ''}{line}:{digest}"


_LINE_ID = re.compile(re.escape(GENERATED_ID_PREFIX) + r"(?:(\d+)\.)?(\d+):([0-9a-f]{16})")


def line_generation_of(entry_id: str | None) -> int:
    """The generation of the file in a generated id; 0 for any other id."""
    return (parse_line_id(entry_id or "") or (0,))[0]


def parse_line_id(entry_id: str) -> tuple[int, int, str] | None:
    """Generation, line and digest of a generated id; None for any other id."""
    found = _LINE_ID.fullmatch(entry_id)
    return (int(found[1] or 0), int(found[2]), found[3]) if found else None


def incoming_messages(chunk: Sequence[TranscriptLine], age: int = 0) -> list[Incoming]:
    """The messages of a chunk for ingest."""
    return [
        Incoming(entry.message, entry_id=entry_id_of(entry, age), created_at=entry.created_at)
        for entry in message_entries(chunk)
        if entry.message is not None
    ]


def message_body(entry: TranscriptEntry) -> JsonObject:
    """The message as its host wrote it."""
    message = entry.message
    return cast("JsonObject", (message.original if isinstance(message, Message) else message) or {})


def entry_hash(entry: TranscriptEntry) -> str | None:
    """Upstream's hash of the last message; None where the message is not plain text to it."""
    body = message_body(entry)
    role, content = body.get("role"), body.get("content")
    return checkpoint_hash(role, content) if isinstance(role, str) and isinstance(content, str) else None
