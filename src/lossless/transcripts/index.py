"""A transcript looked through once: where each lane's records stand, and how its ids hang together."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lossless.transcripts.entries import BadLine, Header, Line
from lossless.transcripts.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lossless.transcripts.entries import Reader, Record


@dataclass(slots=True)
class Lane:
    """One line of a conversation: the main one, or a sub-agent's."""

    header: Header
    tree: Tree = field(default_factory=Tree)
    #: What was asked first, as a title where nothing gives another.
    opening: str | None = None
    _spans: array[int] = field(default_factory=lambda: array("Q"))

    def spans(self) -> Iterator[Line]:
        """The stretches of the file in which all records are this lane's, with the number of their first line."""
        spans = self._spans
        return (Line(spans[at], spans[at + 1], spans[at + 2]) for at in range(0, len(spans), 3))

    def cover(self, line: Line, *, is_next: bool) -> None:
        """Take in a line; `is_next` when the record before was this lane's as well."""
        if is_next:
            self._spans[-1] = line.end
        else:
            self._spans.extend((line.number, line.start, line.end))


@dataclass(slots=True)
class Index:
    """All lanes in the order in which they begin, and how many entries of each kind there are."""

    lanes: dict[str | None, Lane]
    counts: Counter[str] = field(default_factory=Counter)
    bad_lines: int = 0
    #: The last whole line of the file.
    last: Line | None = None


def index(records: Iterable[Record], reader: Reader, header: Header) -> Index:
    """Read all records once; what they say is forgotten again."""
    found = Index({None: Lane(header)})
    owners: set[str | None] = set()
    for record in records:
        now: set[str | None] = {None}
        if isinstance(record, BadLine):
            found.bad_lines += 1
            line = record.line
        else:
            line = record[0]
            now = _entered(found, record[1], line, reader)
        for name in now:
            found.lanes[name].cover(line, is_next=name in owners)
        owners, found.last = now, line
    for lane in found.lanes.values():
        if lane.header.title is None and lane.opening is not None:
            lane.header = replace(lane.header, title=lane.opening)
    return found


def _entered(found: Index, body: dict[str, Any], line: Line, reader: Reader) -> set[str | None]:
    """Note the entries of a record; the lanes that they are in."""
    now: set[str | None] = set()
    for entry in reader.entries(body, line):
        lane = found.lanes.get(entry.lane)
        if lane is None:
            about = reader.lane_header(body, entry.lane) if entry.lane is not None else Header()
            lane = found.lanes[entry.lane] = Lane(about)
        if not entry.is_loose:
            lane.tree.add(entry.id, entry.parent_id, entry.tie)
        if lane.opening is None and entry.message is not None:
            lane.opening = reader.opening(body)
        found.counts[entry.kind] += 1
        now.add(entry.lane)
    title = reader.title(body)
    if title is not None:
        main = found.lanes[None]
        main.header = replace(main.header, title=title)
    return now
