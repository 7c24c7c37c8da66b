"""Opens a transcript: its kind, its lanes, and the entries on the path from its last entry to a root.

An id takes 24 bytes in the tree, whatever its length, so that histories of millions of entries fit into memory.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput, BadMessage, LosslessError
from lossless.ingest.transcripts import chatgpt, claude_code, codex, fields, gemini, jsonl, openclaw, opencode
from lossless.ingest.transcripts.entries import (
    ANSWER,
    BadLine,
    FileState,
    Reader,
    Record,
    RecordPosition,
    TranscriptEntry,
    TranscriptHeader,
    TranscriptLine,
    WholeTranscript,
)
from lossless.ingest.transcripts.records import (
    file_state,
    is_array,
    read_document,
    read_items,
    read_lines,
    read_lines_of,
)
from lossless.model.messages import Incoming, Message, MessageLike

if TYPE_CHECKING:
    import os


_READERS = (chatgpt.READER, codex.READER, claude_code.READER, openclaw.PI_READER, openclaw.READER, jsonl.READER)
KINDS = {reader.kind: reader for reader in _READERS}
#: Kinds whose files change in place, so that they are always read as a whole.
WHOLE_KINDS = {reader.kind: reader for reader in (opencode.READER, gemini.READER)}

_NONE = 0
_ANSWER = 1
_MISSING = -1


class EntryTree:
    """Ids and parents of entries, in file order."""

    def __init__(self) -> None:
        self._ids = array("q")
        self._parents = array("q")
        self._ties = array("q")
        self._is_linked = False
        self._is_complete = True

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, id: str | None, parent: str | None, tie: str | None = None) -> None:
        """Add the next entry; an empty id means none."""
        self._is_complete = self._is_complete and bool(id)
        self._is_linked = self._is_linked or bool(parent)
        self._ids.append(_hashed(id))
        self._parents.append(_hashed(parent))
        self._ties.append(_ANSWER if tie == ANSWER else _hashed(tie))

    def is_entry(self, place: int, id: str | None) -> bool:
        """Whether the entry at `place` has this id: False means that the file was rewritten meanwhile."""
        return place < len(self._ids) and self._ids[place] == _hashed(id)

    def leaf_path(self) -> tuple[bytearray, array[int] | None] | None:
        """The path from the last entry to its root; None when file order is all there is.

        Returns a byte for each entry of the file, 1 when it is on the path; and the positions from the root to the leaf
        when that is not the order of the file.

        That is so when an entry has no id, no entry names an existing parent, or the path has a missing parent or a
        cycle. Of entries with the same id, the last one counts.
        """
        if not (self._is_complete and self._is_linked):
            return None
        parent_of = _parent_finder(self._ids, self._parents)
        if all(parent_of(place) is None for place in range(len(self._ids))):
            return None
        kept, path = bytearray(len(self._ids)), array("q")
        place: int | None = len(self._ids) - 1
        while place is not None:
            if kept[place]:
                return None
            kept[place] = 1
            path.append(place)
            if self._parents[place] == _NONE:
                break
            place = parent_of(place)
        if place is None:
            return None
        path.reverse()
        if any(self._ties):
            self._keep_tied(kept, parent_of)
        elif any(after < before for before, after in pairwise(path)):
            return kept, path
        return kept, None

    def _keep_tied(self, kept: bytearray, parent_of: Callable[[int], int | None]) -> None:
        """Add what was written together with an entry of the path: parallel calls and their results."""
        for place, tie in enumerate(self._ties):
            if tie == _NONE or kept[place] or self._parents[place] == _NONE:
                continue
            parent = parent_of(place)
            if parent is not None and kept[parent] and tie in (_ANSWER, self._ties[parent]):
                kept[place] = 1


def _parent_finder(ids: array[int], parents: array[int]) -> Callable[[int], int | None]:
    """Finds the position of an entry's parent: usually right before it, so only other ids are looked up."""
    mask = (1 << (len(ids) * 8).bit_length()) - 1
    seen, last = bytearray(mask + 1), {}
    for id in ids:
        if seen[id & mask]:  # it occurs more than once, or seems to
            last[id] = _MISSING
        seen[id & mask] = 1
    before = _NONE
    for id, parent in zip(ids, parents, strict=True):
        if parent != before:
            last[parent] = _MISSING
        before = id
    for place, id in enumerate(ids):
        if id in last:
            last[id] = place

    def parent_of(place: int) -> int | None:
        parent = parents[place]
        found = last.get(parent)
        if found is not None:
            return None if found == _MISSING else found
        return place - 1 if place and ids[place - 1] == parent else None

    return parent_of


def _hashed(text: str | None) -> int:
    return hash(text) if text else _NONE


@dataclass(slots=True)
class Lane:
    """One lane of a conversation: the main one, or a sub-agent's."""

    header: TranscriptHeader
    tree: EntryTree = field(default_factory=EntryTree)
    #: The first prompt, as a title when there is no other.
    opening: str | None = None
    #: Where all records are this lane's: the number of the first line, start and end, three values each.
    spans: array[int] = field(default_factory=lambda: array("Q"))


@dataclass(slots=True)
class _Survey:
    """What one reading of all records found: lanes in order, entries by kind, and the last complete line of any."""

    lanes: dict[str | None, Lane]
    counts: Counter[str] = field(default_factory=Counter)
    bad_lines: int = 0
    last_line: RecordPosition | None = None


#: How many records, or bytes of them, are read to detect a file's kind.
_HEAD_RECORDS = 24
_HEAD_BYTES = 4 << 20


def open_transcript(path: str | os.PathLike[str], kind: str | None = None) -> Transcript:
    """The transcript at `path`, up to its current end; its kind is detected from its first records.

    Raises BadInput for a file that cannot be read, an unknown kind, a file of no known kind, or one with several
    sessions. A file without a record yet is an empty transcript.
    """
    known = sorted((*KINDS, *WHOLE_KINDS))
    if kind is not None and kind not in known:
        raise BadInput(f"unknown kind of transcript {kind!r}; allowed: {', '.join(known)}")
    state = file_state(Path(path))
    found, head, is_blank, in_array = _look_at(state)
    kind = kind or found
    if kind is not None and kind in WHOLE_KINDS:
        sessions = open_whole_transcripts(state.path, kind)
        if len(sessions) != 1:
            raise BadInput(f"{str(path)!r} holds {len(sessions)} sessions; `lcm import` reads them all")
        return sessions[0]
    if kind is None and not is_blank:
        raise BadInput(f"{str(path)!r} is not a transcript of a known kind: {', '.join(known)}")
    reader = KINDS[kind or "jsonl"]
    return Transcript(reader, state, reader.header(head), is_array=in_array)


def open_whole_transcripts(path: Path, kind: str) -> list[ListedTranscript]:
    """The sessions in a file of a kind that is read as a whole; their entries are read when they are needed."""
    return [ListedTranscript(kind, session) for session in WHOLE_KINDS[kind].sessions(path)]


def detect_kind(path: Path) -> str | None:
    """The kind of transcript that a file is; None for one of no known kind, and for one that cannot be read."""
    try:
        return _look_at(file_state(path))[0]
    except LosslessError:
        return None


def _look_at(state: FileState) -> tuple[str | None, list[dict[str, Any]], bool, bool]:
    """The kind of a file, its first records, whether it has not even a bad line, and whether it is one array."""
    in_array = is_array(state.path, state.size)
    head, is_blank = _head(_records(state, in_array=in_array))
    kind = kind_of_head(head)
    if kind is None and not in_array and state.size:
        if opencode.is_database(state.path):
            return opencode.KIND, [], False, False
        document = read_document(state.path)
        if document is not None:
            return kind_of_head([document]), [document], False, False
    return kind, head, is_blank, in_array


def detect_other_kind(path: Path, kind: str) -> str | None:
    """The actual kind of a file, when it cannot be the named one; None also for a file that cannot be read.

    Kinds that share records are distinguished by whether anything can be read. Plain messages may be in any envelope
    but Claude Code's, whose lines are more than the messages in them.
    """
    try:
        found, head, *_ = _look_at(file_state(path))
    except LosslessError:
        return None
    if found is None or found == kind or {found, kind} == {"openclaw", "pi"}:
        return None
    if kind in WHOLE_KINDS or found in WHOLE_KINDS:
        return found
    if kind != "jsonl" and KINDS[kind].recognises(head):
        return None
    own = _count_messages(head, kind)
    return found if not own or (found == "claude-code" and _count_messages(head, found) >= own) else None


def _count_messages(head: list[dict[str, Any]], kind: str) -> int:
    place = RecordPosition(1, 0, 0)
    return sum(entry.message is not None for record in head for entry in KINDS[kind].entries(record, place))


def kind_of_head(head: list[dict[str, Any]]) -> str | None:
    """The kind of a transcript with these first records; None for no known kind."""
    return next((kind for kind, reader in (WHOLE_KINDS | KINDS).items() if reader.recognises(head)), None)


def first_records(data: bytes) -> list[dict[str, Any]]:
    return _head(read_lines_of(BytesIO(data), len(data), 0, 1))[0]


def appended_entries(path: Path, kind: str, start: int, number: int) -> Iterator[TranscriptLine]:
    """The entries of a file of lines from byte `start` on, where line `number` begins."""
    return Transcript(KINDS[kind], file_state(path), TranscriptHeader()).appended(start, number)


class Transcript:
    """A transcript as of its opening; later appended lines are not read."""

    def __init__(self, reader: Reader, state: FileState, header: TranscriptHeader, *, is_array: bool = False) -> None:
        self.kind = reader.kind
        self.state = state
        #: The header from the first records; `lane_header(None)` has read them all.
        self.header = header
        #: Whether the file is one JSON array, which cannot be continued from an offset.
        self.is_array = is_array
        self._reader = reader

    def appended(self, start: int = 0, number: int = 1) -> Iterator[TranscriptLine]:
        """All entries in file order, of every lane; from byte `start` on, where line `number` begins.

        To continue later, pass the `end` of the last line and its number plus one. An array is always read from its
        start.
        """
        where = (0, 1) if self.is_array else (start, number)
        return self._entries(_records(self.state, *where, in_array=self.is_array))

    def _entries(self, records: Iterator[Record]) -> Iterator[TranscriptLine]:
        for record in records:
            if isinstance(record, BadLine):
                yield record
            else:
                yield from self._reader.entries(record[1], record[0])

    def grown(self, growth: tuple[int, bytes], start: int, number: int) -> Iterator[TranscriptLine]:
        """Like `appended`, from bytes that are already read: their position in the file, and they themselves."""
        base, data = growth
        return self._entries(read_lines_of(BytesIO(data), base + len(data), start, number, base=base))

    def path(self, lane: str | None = None) -> Iterator[TranscriptLine]:
        """The messages of a lane, from its root to its last entry, without abandoned branches.

        Opaque entries keep their positions. Unreadable lines come with the main lane. Raises BadInput when the file is
        rewritten meanwhile.
        """
        found = self._survey.lanes.get(lane)
        if found is None:
            return
        kept, order = found.tree.leaf_path() or (None, None)
        if order is not None:
            yield from self._reordered(lane, found, order)
        else:
            yield from (entry for entry, n in self._placed(lane, found) if n < 0 or kept is None or kept[n])

    def is_branched(self, lane: str | None = None) -> bool:
        """Whether a lane has entries that `path` omits: abandoned branches."""
        found = self._survey.lanes.get(lane)
        path = None if found is None else found.tree.leaf_path()
        return path is not None and not all(path[0])

    def lanes(self) -> list[str]:
        """The lanes, in order: sub-agents, or the conversations of an export."""
        return [lane for lane in self._survey.lanes if lane is not None]

    def lane_header(self, lane: str | None = None) -> TranscriptHeader:
        """The header of a lane from the whole transcript; an empty one for an unknown lane."""
        found = self._survey.lanes.get(lane)
        return TranscriptHeader() if found is None else found.header

    def counts(self) -> Counter[str]:
        return self._survey.counts

    @property
    def bad_lines(self) -> int:
        return self._survey.bad_lines

    @property
    def last_line(self) -> RecordPosition | None:
        """The last complete line, of any lane and branch."""
        return self._survey.last_line

    def side_files(self) -> list[Path]:
        return self._reader.side_files(self.state.path)

    @cached_property
    def _survey(self) -> _Survey:
        """Reads all records once, without keeping their content."""
        lanes: dict[str | None, Lane] = {None: Lane(self.header)}
        survey = _Survey(lanes)
        owners: set[str | None] = set()
        for record in _records(self.state, in_array=self.is_array):
            now: set[str | None] = {None}
            if isinstance(record, BadLine):
                survey.bad_lines += 1
                line = record.line
            else:
                line = record[0]
                now = self._add_entries(survey, record[1], line)
            for name in now:
                if name in owners:  # the record before was this lane's, too
                    lanes[name].spans[-1] = line.end
                else:
                    lanes[name].spans.extend((line.number, line.start, line.end))
            owners, survey.last_line = now, line
        for lane in lanes.values():
            if lane.header.title is None and lane.opening is not None:
                lane.header = replace(lane.header, title=lane.opening)
        return survey

    def _add_entries(self, survey: _Survey, body: dict[str, Any], line: RecordPosition) -> set[str | None]:
        """Add the entries of a record; returns their lanes."""
        lanes = survey.lanes
        now: set[str | None] = set()
        for entry in self._reader.entries(body, line):
            lane = lanes.get(entry.lane)
            if lane is None:
                about = TranscriptHeader() if entry.lane is None else self._reader.lane_header(body, entry.lane)
                lane = lanes[entry.lane] = Lane(about)
            if not entry.is_loose:
                lane.tree.add(entry.id, entry.parent_id, entry.tie)
            if lane.opening is None and entry.message is not None:
                lane.opening = self._reader.opening(body)
            survey.counts[entry.kind] += 1
            now.add(entry.lane)
        if (title := self._reader.title(body)) is not None:
            lanes[None].header = replace(lanes[None].header, title=title)
        return now

    def _placed(self, lane: str | None, found: Lane) -> Iterator[tuple[TranscriptLine, int]]:
        """The entries of a lane, each with its position in the lane's tree; -1 outside it."""
        place, rewritten = 0, BadInput(f"{str(self.state.path)!r} was rewritten while it was read")
        for at in range(0, len(found.spans), 3):
            number, start, end = found.spans[at : at + 3]
            for record in _records(self.state, start, number, end, in_array=self.is_array):
                if isinstance(record, BadLine):
                    if lane is None:
                        yield record, -1
                    continue
                for entry in self._reader.entries(record[1], record[0]):
                    if entry.lane != lane or entry.is_loose:
                        if entry.lane == lane:
                            yield entry, -1
                        continue
                    if not found.tree.is_entry(place, entry.id):
                        raise rewritten
                    yield entry, place
                    place += 1
        if place != len(found.tree):
            raise rewritten

    def _reordered(self, lane: str | None, found: Lane, order: array[int]) -> Iterator[TranscriptLine]:
        """The entries at these positions, in this order; those outside the tree come first."""
        lines: array[int] = array("Q")
        for entry, place in self._placed(lane, found):
            if place < 0:
                yield entry
            else:
                lines.extend((entry.line.start, entry.line.number, entry.line.end))
        for place in order:
            at = lines[place * 3 : place * 3 + 3]
            for record in _records(self.state, *at, in_array=self.is_array):
                entries = [] if isinstance(record, BadLine) else self._reader.entries(record[1], record[0])
                yield from (entry for entry in entries if found.tree.is_entry(place, entry.id))


class ListedTranscript(Transcript):
    """A transcript that is read at once: a session of a file that changes in place, or the entries of a page."""

    def __init__(self, kind: str, source: WholeTranscript) -> None:
        self.kind, self.state, self.header, self.is_array = kind, source.state, source.header, True
        self.source, self._reader = source, (KINDS | WHOLE_KINDS)[kind]

    @cached_property
    def _listed(self) -> tuple[Sequence[TranscriptLine], frozenset[str]]:
        return self.source.read()

    def appended(self, start: int = 0, number: int = 1) -> Iterator[TranscriptLine]:  # noqa: ARG002
        return iter(self._listed[0])

    def path(self, lane: str | None = None) -> Iterator[TranscriptLine]:  # noqa: ARG002
        entries, taken_back = self._listed
        return (entry for entry in entries if isinstance(entry, BadLine) or entry.id not in taken_back)

    def is_branched(self, lane: str | None = None) -> bool:  # noqa: ARG002
        return bool(self._listed[1])

    @cached_property
    def _survey(self) -> _Survey:
        """The same of what was listed; a header without a title is titled with the first prompt."""
        listed, header = self._listed[0], self.header
        if header.title is None:
            said = (entry.message for entry in self.path() if isinstance(entry.message, dict))
            prompts = (fields.title(message["content"]) for message in said if message["role"] == "user")
            header = replace(header, title=next(filter(None, prompts), None))
        kinds = Counter([entry.kind for entry in listed if not isinstance(entry, BadLine)])
        last = listed[-1].line if listed else None
        return _Survey({None: Lane(header)}, kinds, len(listed) - kinds.total(), last)


def _records(
    state: FileState, start: int = 0, number: int = 1, end: int | None = None, *, in_array: bool
) -> Iterator[Record]:
    read = read_items if in_array else read_lines
    return read(state.path, state.size if end is None else end, start, number)


def _head(records: Iterator[Record]) -> tuple[list[dict[str, Any]], bool]:
    """The first records, and whether there is not even a bad line."""
    found: list[dict[str, Any]] = []
    is_blank = True
    for record in records:
        is_blank = False
        line: RecordPosition = record.line if isinstance(record, BadLine) else record[0]
        if not isinstance(record, BadLine):
            found.append(record[1])
        if len(found) >= _HEAD_RECORDS or line.end >= _HEAD_BYTES:
            break
    return found, is_blank


def entries_from_objects(objects: Iterable[MessageLike]) -> list[TranscriptEntry]:
    """Each object as an entry, in the given order; its line has a number and no bytes.

    An object is an item of a page (`entryId`, `message`), a record of an OpenClaw transcript, a bare message, or one of
    our values. Anything else is a BadMessage with its index.
    """
    return [_object_entry(value, index) for index, value in enumerate(objects)]


def _object_entry(value: Any, index: int) -> TranscriptEntry:
    line = RecordPosition(index + 1, 0, 0)
    if isinstance(value, Incoming):
        message = value.message
        found = message.created_at if isinstance(message, Message) else fields.message_time(dict(message))
        return TranscriptEntry(line, "message", value.entry_id, None, value.created_at or found, message=message)
    if isinstance(value, Message):
        return TranscriptEntry(line, "message", created_at=value.created_at, message=value)
    if not isinstance(value, dict):
        raise BadMessage(f"a message is an object (a dict), not {type(value).__name__}", index=index)
    if "entryId" in value:
        message = fields.object(value, "message")
        is_message = jsonl.is_message(message)
        return TranscriptEntry(
            RecordPosition(fields.integer(value, "seq") or line.number, 0, 0),
            "message" if is_message else "unknown",
            fields.text(value, "entryId"),
            fields.text(value, "parentId"),
            fields.message_time(message, value.get("createdAt")),
            message=message if is_message else None,
            record={} if is_message else value,
        )
    if jsonl.is_message(value):
        written = fields.message_time(value)
        return TranscriptEntry(line, "message", fields.text(value, "id"), None, written, message=value)
    return openclaw.entries(value, line)[0]
