"""A transcript file in windows: where its messages stand is remembered, what they say is read when it is looked at."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.errors import BadMessage
from lossless.ingest import events
from lossless.lifecycle.stream import id_of
from lossless.model.messages import Incoming
from lossless.transcripts import BadLine, open_transcript
from lossless.transcripts.lines import file_state
from lossless.tui.reads import Detail, parts_text
from lossless.tui.words import number

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    from lossless.model.messages import Message
    from lossless.transcripts import Entry
    from lossless.tui.words import Times


@dataclass(frozen=True, slots=True)
class Said:
    """One message of a file, or why it would not be stored."""

    #: Its place among the file's messages, from 0, and its line, from 1.
    place: int
    line: int
    id: str | None
    at: datetime | None
    message: Message | None
    fingerprint: bytes = b""
    identity: str = ""
    problem: str = ""

    @property
    def role(self) -> str:
        return "–" if self.message is None else self.message.role

    @property
    def text(self) -> str:
        """The beginning of it, or why there is none."""
        if self.message is None:
            return f"({self.problem})"
        return self.message.content or parts_text(self.message.parts)

    def detail(self, times: Times) -> Detail:
        """The message, whole."""
        facts = [("role", self.role), ("said", times.minute(self.at)), ("entry", self.id or "")]
        if self.message is not None:
            facts.insert(2, ("tokens", number(self.message.tokens)))
            text = parts_text(self.message.parts) or self.message.content or "(no text)"
        else:
            text = f"It is not stored: {self.problem}."
        return Detail(f"line {number(self.line)}", tuple(fact for fact in facts if fact[1]), text)


class Scroll:
    """What was said in a transcript, as far as it was written when it was opened, without branches that were left."""

    def __init__(self, path: Path) -> None:
        self.transcript = open_transcript(path)
        self._lines, self._starts = array("Q"), array("Q")
        #: Ids of messages that share their line with others.
        self._shared: dict[int, str | None] = {}
        self.bad_lines = self.others = 0
        self.lanes = tuple(self.transcript.lanes())
        for lane in (None, *self.lanes[:1]):
            self._lane = lane
            self._survey()
            if len(self):
                break

    def _survey(self) -> None:
        for entry in self.transcript.path(self._lane):
            if isinstance(entry, BadLine):
                self.bad_lines += 1
            elif entry.message is None:
                self.others += 1
            else:
                if entry.shares_line:
                    self._shared[len(self)] = entry.id
                self._lines.append(entry.line.number)
                self._starts.append(entry.line.start)

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def path(self) -> Path:
        return self.transcript.state.path

    @property
    def is_current(self) -> bool:
        """Whether the file is still as it was."""
        return file_state(self.path) == self.transcript.state

    def window(self, first: int, count: int) -> list[Said]:
        """So many messages from a place on; only their stretch of the file is read."""
        places = range(max(0, first), min(len(self), first + count))
        if not places:
            return []
        wanted = {(self._lines[place], self._shared.get(place)): place for place in places}
        begin = min(places, key=lambda place: self._starts[place])
        last = max(self._lines[place] for place in places)
        found = {}
        for entry in self._from(begin, last):
            place = wanted.get((entry.line.number, entry.id if entry.shares_line else None))
            if place is not None:
                found[place] = _said(entry, place)
        return [found[place] for place in places if place in found]

    def _from(self, place: int, last: int) -> Iterator[Entry]:
        for entry in self.transcript.appended(self._starts[place], self._lines[place]):
            if entry.line.number > last:
                return
            if not isinstance(entry, BadLine) and entry.lane == self._lane and entry.message is not None:
                yield entry


def _said(entry: Entry, place: int) -> Said:
    line, id_, at = entry.line.number, entry.id, entry.created_at
    assert entry.message is not None
    try:
        read, skips = events.read([Incoming(entry.message, id_of(entry), at)])
    except BadMessage as error:
        return Said(place, line, id_, at, None, problem=str(error))
    if not read:
        return Said(place, line, id_, at, None, problem=skips[0].reason)
    event = read[0]
    return Said(place, line, event.entry_id, at or event.created_at, event.message, event.fingerprint, event.identity)
