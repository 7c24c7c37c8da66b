"""Transcripts as people and programs open them: a file, its kind, its entries."""

from __future__ import annotations

from array import array
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput
from lossless.transcripts.arrays import is_array, read_items
from lossless.transcripts.entries import BadLine, Entry, FileState, Header, Line
from lossless.transcripts.index import Index, index
from lossless.transcripts.kinds import KINDS
from lossless.transcripts.lines import file_state, lines_of, read_lines

if TYPE_CHECKING:
    import os
    from collections import Counter
    from collections.abc import Iterator

    from lossless.transcripts.entries import Reader, Record
    from lossless.transcripts.growth import Growth
    from lossless.transcripts.index import Lane
    from lossless.transcripts.tree import LeafPath

__all__ = [
    "Transcript",
    "added_to",
    "head_of",
    "kind_of_head",
    "known_transcript",
    "open_transcript",
    "other_kind",
]

#: So many records, or bytes of them, are looked at to see what a file is.
_HEAD_RECORDS = 24
_HEAD_BYTES = 4 << 20


def open_transcript(path: str | os.PathLike[str], kind: str | None = None) -> Transcript:
    """The transcript at `path`, as far as it is written now; its kind is seen from its first records.

    Raises BadInput for a file that cannot be read, an unknown kind, or a file of no known kind. A file
    without a record yet is an empty transcript.
    """
    if kind is not None and kind not in KINDS:
        raise BadInput(f"unknown kind of transcript {kind!r}; allowed: {', '.join(sorted(KINDS))}")
    state = file_state(Path(path))
    in_array = is_array(state.path, state.size)
    head, is_blank = _head(_records(state, in_array=in_array))
    reader = KINDS[kind] if kind is not None else _recognised(head)
    if reader is None:
        if not is_blank:
            raise BadInput(f"{str(path)!r} is no transcript of a known kind: {', '.join(sorted(KINDS))}")
        reader = KINDS["jsonl"]
    return Transcript(reader, state, reader.header(head), is_array=in_array)


def other_kind(path: Path, kind: str) -> str | None:
    """The kind that a file is, when it cannot be of the one that is named; None also for a file that cannot be read.

    Kinds that share records are told apart by whether anything can be read. Plain messages may stand in any envelope
    but Claude Code's, whose lines are more than the messages in them.
    """
    try:
        state = file_state(path)
        head, _ = _head(_records(state, in_array=is_array(path, state.size)))
    except BadInput:
        return None
    found = kind_of_head(head)
    if found is None or found == kind or {found, kind} == {"openclaw", "pi"}:
        return None
    if kind != "jsonl" and KINDS[kind].recognises(head):
        return None
    own = _said_in(head, kind)
    return found if not own or (found == "claude-code" and _said_in(head, found) >= own) else None


def _said_in(head: list[dict[str, Any]], kind: str) -> int:
    """How many messages a kind's reader finds in these records."""
    place = Line(1, 0, 0)
    return sum(entry.message is not None for record in head for entry in KINDS[kind].entries(record, place))


def kind_of_head(head: list[dict[str, Any]]) -> str | None:
    """The kind of transcript that begins with these records; None for no known kind."""
    reader = _recognised(head)
    return None if reader is None else reader.KIND


def head_of(data: bytes) -> list[dict[str, Any]]:
    """The first records of a file of lines."""
    return _head(lines_of(BytesIO(data), len(data), 0, 1))[0]


def known_transcript(kind: str, state: FileState, header: Header) -> Transcript:
    """A transcript of lines that was opened before; nothing of it is read yet."""
    return Transcript(KINDS[kind], state, header, is_array=False)


def added_to(path: Path, kind: str, start: int, number: int) -> Iterator[Entry | BadLine]:
    """What a file of lines has from byte `start` on, where line `number` begins."""
    return known_transcript(kind, file_state(path), Header()).appended(start, number)


class Transcript:
    """A transcript as it stood when it was opened; what is appended later is not read."""

    def __init__(self, reader: Reader, state: FileState, header: Header, *, is_array: bool) -> None:
        self.kind: str = reader.KIND
        self.state = state
        #: What the first records say; `lane_header(None)` has read them all.
        self.header = header
        #: The file is one JSON array: it cannot be gone on with from an offset.
        self.is_array = is_array
        self._reader = reader
        self._found: Index | None = None

    def appended(self, start: int = 0, number: int = 1) -> Iterator[Entry | BadLine]:
        """All entries in the order of the file, of every lane; from byte `start` on, where line `number` begins.

        To go on later, give the `end` of the last line that came and its number plus one. An array is always
        read from its beginning.
        """
        where = (0, 1) if self.is_array else (start, number)
        return self._entries(_records(self.state, *where, in_array=self.is_array))

    def _entries(self, records: Iterator[Record]) -> Iterator[Entry | BadLine]:
        for record in records:
            if isinstance(record, BadLine):
                yield record
            else:
                yield from self._reader.entries(record[1], record[0])

    def grown(self, growth: Growth, start: int, number: int) -> Iterator[Entry | BadLine]:
        """What `appended` gives, from bytes that are read already."""
        return self._entries(growth.records(start, number))

    def path(self, lane: str | None = None) -> Iterator[Entry | BadLine]:
        """What was really said on a lane, from its root to its last entry, without abandoned branches.

        Opaque entries stand where they stood. Lines that cannot be read come with the main lane. Raises
        BadInput when the file is rewritten meanwhile.
        """
        found = self._index.lanes.get(lane)
        if found is None:
            return
        leaf_path = found.tree.leaf_path()
        if leaf_path is not None and leaf_path.order is not None:
            yield from self._reordered(lane, found, leaf_path.order)
        else:
            yield from (entry for entry, place in self._placed(lane, found) if _is_kept(place, leaf_path))

    def is_branched(self, lane: str | None = None) -> bool:
        """Whether a lane has entries that `path` leaves out: branches that were left."""
        found = self._index.lanes.get(lane)
        return found is not None and found.tree.is_branched()

    def lanes(self) -> list[str]:
        """The side lines, in the order in which they begin: sub-agents, or the conversations of an export."""
        return [lane for lane in self._index.lanes if lane is not None]

    def lane_header(self, lane: str | None = None) -> Header:
        """What the whole transcript says about a lane; an empty header for one that is not there."""
        found = self._index.lanes.get(lane)
        return Header() if found is None else found.header

    def counts(self) -> Counter[str]:
        """How many entries of each kind there are."""
        return self._index.counts.copy()

    @property
    def bad_lines(self) -> int:
        """How many lines could not be read."""
        return self._index.bad_lines

    @property
    def last_line(self) -> Line | None:
        """The last whole line, whichever lane and branch it belongs to."""
        return self._index.last

    def side_files(self) -> list[Path]:
        """Transcripts that belong to this one: those of its sub-agents."""
        return self._reader.side_files(self.state.path)

    @property
    def _index(self) -> Index:
        if self._found is None:
            records = _records(self.state, in_array=self.is_array)
            self._found = index(records, self._reader, self.header)
        return self._found

    def _placed(self, lane: str | None, found: Lane) -> Iterator[tuple[Entry | BadLine, int]]:
        """The entries of a lane, each with its place in the lane's tree; -1 for what stands outside it."""
        place = 0
        for span in found.spans():
            for record in _records(self.state, span.start, span.number, span.end, in_array=self.is_array):
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
                        raise self._rewritten()
                    yield entry, place
                    place += 1
        if place != len(found.tree):
            raise self._rewritten()

    def _rewritten(self) -> BadInput:
        return BadInput(f"{str(self.state.path)!r} was rewritten while it was read")

    def _reordered(self, lane: str | None, found: Lane, order: array[int]) -> Iterator[Entry | BadLine]:
        """The entries at these places, in this order; what stands outside the tree comes first."""
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
        line: Line = record.line if isinstance(record, BadLine) else record[0]
        if not isinstance(record, BadLine):
            found.append(record[1])
        if len(found) >= _HEAD_RECORDS or line.end >= _HEAD_BYTES:
            break
    return found, is_blank


def _recognised(head: list[dict[str, Any]]) -> Reader | None:
    return next((reader for reader in KINDS.values() if reader.recognises(head)), None)


def _is_kept(place: int, path: LeafPath | None) -> bool:
    return place < 0 or path is None or bool(path.kept[place])
