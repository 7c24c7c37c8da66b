"""Entries that a host hands over page by page, with a mark of its own of how far it was read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.errors import ArchiveLocked
from lossless.lifecycle.bootstrap import read_first, read_whole, store_rest
from lossless.lifecycle.readings import TRIES, Moved, Reading, finish
from lossless.lifecycle.reports import TranscriptReport
from lossless.lifecycle.stream import said
from lossless.store.transcripts import Checkpoint
from lossless.transcripts.entries import FileState, Header

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from lossless.ingest.payloads import Payloads
    from lossless.model.conversations import Session
    from lossless.store.archive import Archive
    from lossless.transcripts.entries import BadLine, Entry, Line


@dataclass(frozen=True, slots=True)
class Listed:
    """Entries in memory, read as a transcript is."""

    entries: Sequence[Entry]
    header: Header = field(default_factory=Header)
    is_array: bool = False
    kind: str = "openclaw"

    @property
    def state(self) -> FileState:
        return FileState(Path(), len(self.entries), 0)

    @property
    def last_line(self) -> Line | None:
        return self.entries[-1].line if self.entries else None

    def path(self, lane: str | None = None) -> Iterator[Entry | BadLine]:
        return (entry for entry in self.entries if entry.lane == lane)

    def is_branched(self, lane: str | None = None) -> bool:  # noqa: ARG002
        return False

    def appended(self, start: int = 0, number: int = 1) -> Iterator[Entry | BadLine]:
        return (entry for entry in self.entries if entry.line.start >= start and entry.line.number >= number)


def take_page(
    archive: Archive,
    session: Session,
    entries: Sequence[Entry],
    *,
    after: str | None = None,
    cursor: str | None = None,
    accept: bool = False,
    now: datetime,
    payloads: Payloads | None,
) -> TranscriptReport:
    """Store a page. One that goes on `after` the stored cursor adds to what is there; any other is a whole path."""
    page = _Page(entries, after, cursor, accept)
    for _ in range(TRIES):
        try:
            return _take(archive, session, page, now, payloads)
        except Moved:
            continue
    raise ArchiveLocked(f"session {session.name!r}: other processes keep storing its entries; try again")


@dataclass(frozen=True, slots=True)
class _Page:
    """What a host hands over at once."""

    entries: Sequence[Entry]
    after: str | None
    cursor: str | None
    accept: bool


def _take(
    archive: Archive, session: Session, page: _Page, now: datetime, payloads: Payloads | None
) -> TranscriptReport:
    with archive.writing():
        conversation = archive.conversations.open(session, now)
    point = archive.transcripts.checkpoint(conversation.id)
    is_empty = archive.messages.newest_id(conversation.id) is None
    goes_on = page.after is not None and point is not None and point.cursor == page.after
    change = "same" if goes_on else "first" if is_empty else "new path"
    start = point if goes_on and point is not None else Checkpoint("", 0, 0, 0)
    start = replace(start, cursor=page.cursor or start.cursor)
    report = TranscriptReport(conversation.id, "up to date", change)
    work = Reading(archive, conversation, Listed(page.entries), None, now, payloads, report, start, point)
    if not goes_on and not is_empty and not page.accept and (reason := _gap(work, page)) is not None:
        with archive.writing():
            archive.ingest.block(conversation.id, reason, now)
        work.report = replace(report, status="failed", reason=reason)
    elif goes_on:
        store_rest(work, work.path())
        finish(work)
    elif is_empty:
        read_first(work, 0)
    else:
        read_whole(work, accept=page.accept)
    return work.report


def _gap(work: Reading, page: _Page) -> str | None:
    """Why a page that goes on after another mark than the stored one is not taken: what lies between is missing.

    One that begins with what is stored, or right behind it, leaves no gap.
    """
    first = next(said(page.entries), None)
    if page.after is None or work.stored is None or work.stored.cursor is None or first is None:
        return None
    ids = [id_ for id_ in (first.id, first.parent_id) if id_ is not None]
    if work.archive.messages.known_entries(work.id, ids):
        return None
    return (
        f"a page after {page.after!r} does not go on from what is stored, which ends at {work.stored.cursor!r}; "
        f"hand over the page after {work.stored.cursor!r}"
    )
