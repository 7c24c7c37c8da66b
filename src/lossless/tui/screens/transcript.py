"""A host's transcript file, a window of messages at a time; it follows the file while that grows."""

from __future__ import annotations

import os
import shlex
import time
from abc import abstractmethod
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar

from rich.text import Text

from lossless.errors import BadMessage
from lossless.ingest import events
from lossless.ingest.sessions import transcript_session
from lossless.ingest.transcripts import BadLine, TranscriptEntry, open_transcript
from lossless.ingest.transcripts.entries import entry_id_of
from lossless.ingest.transcripts.records import file_state
from lossless.model.messages import Incoming, Message
from lossless.tui import actions, screens
from lossless.tui.reads import DetailView, parts_text
from lossless.tui.screens.page import Cell, WindowScreen, in_background
from lossless.tui.screens.surgery import SurgeryScreen
from lossless.tui.text import LocalTimes, plural, right_cell, role_cell, shorten_middle, text_cell

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.ingest.events import Event


@dataclass(frozen=True, slots=True)
class SessionFileMessage:
    """One message of a file, or why it would not be stored."""

    #: Its place among the file's messages, from 0, and its line, from 1.
    place: int
    line: int
    id: str | None
    at: datetime | None
    #: What would be stored, else why nothing would be.
    event: Event | None = None
    problem: str = ""

    @property
    def message(self) -> Message | None:
        return None if self.event is None else self.event.message

    @property
    def role(self) -> str:
        return "–" if self.message is None else self.message.role

    @property
    def text(self) -> str:
        """The beginning of it, or why there is none."""
        if self.message is None:
            return f"({self.problem})"
        return self.message.content or parts_text(self.message.parts)

    def detail(self, times: LocalTimes) -> DetailView:
        """The message, whole."""
        text, tokens = f"It is not stored: {self.problem}.", ""
        if self.message is not None:
            tokens = f"{self.message.tokens:,}"
            text = parts_text(self.message.parts) or self.message.content or "(no text)"
        facts = ("role", self.role), ("said", times.minute(self.at)), ("tokens", tokens), ("entry", self.id or "")
        return DetailView(f"line {self.line:,}", facts, text)


class TranscriptReader:
    """What was said in a transcript, as far as it was written when it was opened, without branches that were left."""

    def __init__(self, path: Path) -> None:
        self.transcript = open_transcript(path)
        #: Of each message its line, where that begins, and its id where it shares the line with others.
        self._entries: list[tuple[int, int, str | None]] = []
        self.bad_lines = self.others = 0
        self.lanes = tuple(self.transcript.lanes())
        for lane in (None, *self.lanes[:1]):
            self._lane = lane
            for entry in self.transcript.path(self._lane):
                if isinstance(entry, BadLine):
                    self.bad_lines += 1
                elif entry.message is None:
                    self.others += 1
                else:
                    shared = entry.id if entry.shares_line else None
                    self._entries.append((entry.line.number, entry.line.start, shared))
            if len(self):
                break

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def path(self) -> Path:
        return self.transcript.state.path

    @property
    def is_current(self) -> bool:
        """Whether the file is still as it was."""
        return file_state(self.path) == self.transcript.state

    def window(self, first: int, count: int) -> list[SessionFileMessage]:
        """So many messages from a place on; only their stretch of the file is read."""
        part = self._entries[first : first + count]
        if not part:
            return []
        wanted = {(line, id_): place for place, (line, _, id_) in enumerate(part, first)}
        start, line = min((start, line) for line, start, _ in part)
        last, found = max(line for line, _, _ in part), dict[int, SessionFileMessage]()
        for entry in self.transcript.appended(start, line):
            if entry.line.number > last:
                break
            if not isinstance(entry, BadLine) and entry.lane == self._lane and entry.message is not None:
                place = wanted.get((entry.line.number, entry.id if entry.shares_line else None))
                if place is not None:
                    found[place] = _read_message(entry, place)
        return [found[place] for place in sorted(found)]


def _read_message(entry: TranscriptEntry, place: int) -> SessionFileMessage:
    assert entry.message is not None
    found = SessionFileMessage(place, entry.line.number, entry.id, entry.created_at)
    try:
        read, skips = events.read_events([Incoming(entry.message, entry_id_of(entry), entry.created_at)])
    except BadMessage as error:
        return replace(found, problem=str(error))
    if not read:
        return replace(found, problem=skips[0].reason)
    return replace(found, id=read[0].entry_id, at=found.at or read[0].created_at, event=read[0])


W = TypeVar("W")

#: A file that grows is read from its beginning: this takes no more than one part in so many of the time.
_PATIENCE = 10
_NAME_CHARS = 32


class TranscriptWindowScreen(WindowScreen, Generic[W]):
    """A window of a file; the newest first, which follows the file while it is written."""

    def __init__(self, path: Path, conversation_id: int | None = None) -> None:
        super().__init__(conversation_id)
        self.path = path
        self._scroll: TranscriptReader | None = None
        #: Where the window begins; None is where the newest one does.
        self._first: int | None = None
        self._window_size = 0

    @abstractmethod
    def read_window(self, scroll: TranscriptReader, first: int, size: int) -> W:
        """Read a window; not on the UI's thread."""

    @abstractmethod
    def show_window(self, found: W, choose: str | None) -> None:
        """Show a window; `choose` is `first`, `last`, or None for the row that was chosen."""

    @property
    def name_of_file(self) -> str:
        return shorten_middle(self.path.name, _NAME_CHARS)

    @property
    def mark(self) -> object:
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return (super().mark, found.st_size, found.st_mtime_ns)

    def tick(self) -> None:
        if time.monotonic() - self._loaded_at >= _PATIENCE * self._seconds:
            super().tick()

    def complain(self, message: str) -> None:
        super().complain(message)
        if self._scroll is None and self.is_attached:
            self.where(self.name_of_file, "it cannot be read")

    def load(self) -> None:
        if self._scroll is None:
            self.where(self.name_of_file, "reading …")
        if self._scroll is None or (self._is_newest and self.rows.is_at_end):
            self._turn(None, "last")
        else:
            self._turn(self._first, None)

    @property
    def _is_newest(self) -> bool:
        return self._scroll is None or self._first is None or self._first + self._window_size >= len(self._scroll)

    @in_background("read")
    async def _turn(self, first: int | None, choose: str | None) -> None:
        known, path, size = self._scroll, self.path, self.access.settings.tui_conversation_window_size

        def read() -> tuple[TranscriptReader, int, W]:
            scroll = known if known is not None and known.is_current else TranscriptReader(path)
            place = max(0, len(scroll) - size if first is None else min(first, len(scroll) - 1))
            return scroll, place, self.read_window(scroll, place, size)

        self._scroll, self._first, window = await self.read_list(read)
        self._window_size = size
        self.has_older, self.has_newer = bool(self._first), not self._is_newest
        self.show_window(window, choose)

    def span(self) -> str:
        """Which messages are shown, of how many, and which way there are more."""
        if self._scroll is None or self._first is None or not len(self._scroll):
            return "no messages"
        last = min(len(self._scroll), self._first + self._window_size)
        older, newer = "[ older  " if self.has_older else "", "  newer ]" if self.has_newer else ""
        return f"{older}{self._first + 1:,} … {last:,} of {len(self._scroll):,}{newer}"

    def turn(self, way: Literal["first", "older", "newer", "last"]) -> None:
        first, size = self._first or 0, self._window_size
        places = {"first": 0, "older": first - size, "newer": first + size, "last": None}
        self._turn(places[way], "first" if way in ("first", "newer") else "last")


#: Messages, and the conversation that they are in.
_Found: TypeAlias = tuple[list[SessionFileMessage], int | None]


class TranscriptScreen(TranscriptWindowScreen[_Found], SurgeryScreen):
    """What a file says, stored or not; nothing of it is stored before that is confirmed."""

    COLUMNS = ("line", "role", "time", "tokens", "text")
    LIST_TITLE = "Transcript"

    def __init__(self, path: Path, conversation_id: int | None = None) -> None:
        super().__init__(path, conversation_id)
        self._given = conversation_id

    def read_window(self, scroll: TranscriptReader, first: int, size: int) -> _Found:
        header = scroll.transcript.header
        session = transcript_session(scroll.transcript.kind, scroll.path.absolute(), header.id, header.cwd)
        stored = None if self._given is not None else self.access.browse.find(session)
        return scroll.window(first, size), self._given if stored is None else stored.id

    def show_window(self, found: _Found, choose: str | None) -> None:
        messages, self.conversation_id = found
        self.show_rows({str(one.place): one for one in messages}, "This file has no messages.", choose=choose)
        self.where(self.name_of_file, self.span())
        self.about(self._figures())

    def _figures(self) -> Text | None:
        if (scroll := self._scroll) is None:
            return None
        pieces = [scroll.transcript.kind]
        pieces += [plural(scroll.others, "other record")] if scroll.others else []
        pieces += [f"{plural(scroll.bad_lines, 'line')} that cannot be read"] if scroll.bad_lines else []
        pieces += [plural(len(scroll.lanes), "side line")] if scroll.lanes else []
        text = Text(" · ".join(pieces), "dim", end="\n")
        if self.conversation_id is not None:
            return text.append(f"\nIt is conversation {self.conversation_id}. Press v to compare them.", "not dim")
        command = f"lcm import {scroll.transcript.kind} {shlex.quote(str(self.path))} --apply"
        text.append("\nThe archive does not have it. Press i to import it, or run ", "not dim")
        return text.append_text(text_cell(command))

    def cells(self, one: SessionFileMessage) -> tuple[Cell, ...]:
        tokens = right_cell(one.message.tokens if one.message else "–", 6)
        return right_cell(str(one.line), 5), role_cell(one.role), one.at, tokens, one.text

    def detail(self, one: SessionFileMessage) -> DetailView:
        return one.detail(self.lcm.times)

    def action_import(self) -> None:
        self.propose(lambda: actions.plan_import(self.access, self.path))

    def action_compare(self) -> None:
        if self.conversation_id is None:
            self.tell("The archive does not have this session yet. Press i to import it.")
        else:
            self.app.push_screen(screens.compare.CompareScreen(self.path, self.conversation_id))
