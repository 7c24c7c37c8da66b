"""One reading of a transcript: storing it chunk by chunk, and a checkpoint that never runs ahead of what is stored."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from lossless.ingest import entries as ingest
from lossless.ingest.masking import masked, masked_records
from lossless.lifecycle import epochs
from lossless.lifecycle.elsewhere import Whose, apart, keep_words
from lossless.lifecycle.stream import CHUNK, body_of, entry_hash, id_of, messages_of, records_of, said
from lossless.model.messages import line_alone
from lossless.transcripts.entries import BadLine, Entry
from lossless.transcripts.growth import tail_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from lossless.ingest.payloads import Payloads
    from lossless.ingest.run import AppendReport
    from lossless.lifecycle.elsewhere import Apart
    from lossless.lifecycle.reports import TranscriptReport
    from lossless.model.conversations import Conversation
    from lossless.store.archive import Archive
    from lossless.store.transcripts import Checkpoint
    from lossless.transcripts.entries import FileState, Header, Line

#: How often a reading begins again when other processes read the same transcript.
TRIES = 5


class Source(Protocol):
    """A transcript as it is read."""

    @property
    def kind(self) -> str: ...
    @property
    def state(self) -> FileState: ...
    @property
    def header(self) -> Header: ...
    @property
    def is_array(self) -> bool: ...
    @property
    def last_line(self) -> Line | None: ...
    def path(self, lane: str | None = None) -> Iterator[Entry | BadLine]: ...
    def is_branched(self, lane: str | None = None) -> bool: ...
    def appended(self, start: int = 0, number: int = 1) -> Iterator[Entry | BadLine]: ...


@dataclass(slots=True)
class Reading:
    """One reading of a transcript: what it works on, and how far it has come."""

    archive: Archive
    conversation: Conversation
    transcript: Source
    lane: str | None
    now: datetime
    payloads: Payloads | None
    report: TranscriptReport
    point: Checkpoint
    #: The checkpoint as it is stored; another process that moves it makes this reading begin again.
    stored: Checkpoint | None = None
    progress: Callable[[int], None] | None = None
    #: The row of the last entry that was laid over what is stored; 0 when none was.
    behind: int = 0
    #: How often the lines of a file without ids were counted anew.
    age: int = 0
    #: What was deleted for good may come back.
    again: bool = False
    #: Messages of the path that other conversations hold.
    apart: Apart | None = None
    #: How many entries are stored at once.
    chunk: int = CHUNK

    @property
    def id(self) -> int:
        return self.conversation.id

    @property
    def front(self) -> epochs.Front:
        """The newest records before the checkpoint."""
        return epochs.Front(tuple(tuple(record) for record in json.loads(self.point.front or "[]")))

    def path(self) -> Iterator[Entry | BadLine]:
        """What the transcript says in this conversation."""
        entries = self.transcript.path(self.lane)
        return entries if self.apart is None else self.apart.rest(entries)

    def leave_out(self, fork_tokens: int | None) -> None:
        """Leave out what other conversations hold; of what a fork shares with its parent all but the newest part."""
        header = self.transcript.header
        parent = header.parent if fork_tokens is not None or self.is_bounded else None
        whose = Whose(
            self.archive, self.conversation, self.point.path, header.id, parent, age=self.age, again=self.again
        )
        self.apart = apart(whose, lambda: self.transcript.path(self.lane), fork_tokens)
        self.report = replace(self.report, pruned=0 if self.apart is None else self.apart.pruned)
        if self.apart is not None and self.apart.stamps:
            with self.archive.writing():
                self.archive.messages.stamp(self.apart.stamps)
        if self.apart is not None and self.apart.reworded:
            keep_words(self.archive, self.transcript.path(self.lane), self.apart.reworded, self.now, self.payloads)

    @property
    def is_bounded(self) -> bool:
        """Whether this is a fork of which only its own part and the newest of its parent's are kept."""
        return self.stored is not None and self.stored.fork_bounded


class Moved(Exception):
    """Another process has read the transcript meanwhile."""


def store(work: Reading, chunk: Sequence[Entry | BadLine], *, is_last: bool = False) -> None:
    """Store a chunk that follows what is stored, and move the checkpoint behind it, or to the end of the file."""
    with work.archive.writing():
        if work.archive.transcripts.checkpoint(work.id) != work.stored:
            raise Moved
        tail = tail_of(work.transcript.state.path, chunk[-1].line.end) if is_last else None
        put(work, chunk, work.front.along(records_of(chunk)), tail)
    if work.progress:
        work.progress(work.point.offset)


def put(work: Reading, chunk: Sequence[Entry | BadLine], front: epochs.Front, tail: bytes | None) -> None:
    """Store a chunk inside of the caller's transaction, and move the checkpoint behind it.

    With the digest of the bytes before that place, the file counts as seen to its end.
    """
    batch = ingest.read(work.archive, work.id, messages_of(chunk, work.age))
    report = ingest.follow(work.archive, work.conversation, batch, now=work.now, payloads=work.payloads)
    account(work, chunk, batch, report)
    _advance(work, chunk, front, tail)
    set_checkpoint(work, work.point)


def account(work: Reading, chunk: Sequence[Entry | BadLine], batch: ingest.Batch, report: AppendReport) -> None:
    """Keep what is no message, and add to the report."""
    messages = list(said(chunk))
    records = [
        (entry.id, entry.kind, entry.record) for entry in chunk if isinstance(entry, Entry) and entry.message is None
    ]
    for skip in (*batch.unreadable, *report.skipped):
        entry = messages[skip.index]
        records.append((entry.id, entry.kind, body_of(entry)))
    if records:
        work.archive.transcripts.keep_records(work.id, masked_records(work.archive, records))
    work.report = work.report.plus(report, len(records))
    for skip in batch.unreadable:
        work.report = work.report.noting(messages[skip.index].line.number, skip.reason)
    for line in chunk:
        if isinstance(line, BadLine):
            work.report = work.report.noting(line.line.number, line.reason)


def _advance(work: Reading, chunk: Sequence[Entry | BadLine], front: epochs.Front, tail: bytes | None) -> None:
    """Move the checkpoint to the end of a chunk; only with the last one the whole file counts as seen."""
    line, point, state = chunk[-1].line, work.point, work.transcript.state
    spoken = next(said(reversed(chunk)), None)
    entry_id, digest = (point.entry_id, point.entry_hash) if spoken is None else last_said(work, spoken)
    work.point = replace(
        point,
        offset=line.end,
        lines=line.number,
        size=line.end if tail is None else state.size,
        mtime_ms=0 if tail is None else state.mtime_ms,
        front=json.dumps(front.records),
        entry_id=entry_id,
        entry_hash=digest,
        tail=point.tail if tail is None else tail,
    )


def last_said(work: Reading, entry: Entry) -> tuple[str | None, str | None]:
    """The id and the hash under which the last message is remembered; no digest of words that must not be kept."""
    id_ = id_of(entry, work.age)
    if entry.message is None or masked(work.archive, work.id, [entry.message])[0] is entry.message:
        return id_, entry_hash(entry)
    return None if id_ is None else line_alone(id_), None


def finish(work: Reading, *, is_cut: bool = False) -> None:
    """Note that all of the file is read, whichever lines of it are on the path; a cut one is read as a whole again."""
    line = work.transcript.last_line
    if line is not None:
        work.point = replace(work.point, offset=line.end, lines=line.number)
    close(work, is_cut=is_cut)


def close(work: Reading, *, is_cut: bool = False) -> None:
    """Note that the file was seen to its end, as it was before it was read."""
    with work.archive.writing():
        point = _at_end(work)
        set_checkpoint(work, replace(point, tail=None) if is_cut else point)
        work.archive.conversations.mark_bootstrapped(work.id, work.now)


def _at_end(work: Reading) -> Checkpoint:
    """The checkpoint of a file that was seen as it was before it was read."""
    state = work.transcript.state
    return replace(work.point, size=state.size, mtime_ms=state.mtime_ms, tail=tail_of(state.path, work.point.offset))


def set_checkpoint(work: Reading, point: Checkpoint) -> None:
    """Move the checkpoint inside of the caller's transaction."""
    work.archive.transcripts.set_checkpoint(work.id, point, work.now)
    if work.stored is not None and (work.stored.fork_bounded or (work.stored.cursor and not point.cursor)):
        point = replace(point, cursor=point.cursor or work.stored.cursor, fork_bounded=work.stored.fork_bounded)
    work.stored = point


def decide(work: Reading, decision: str, reason: str, messages: int) -> None:
    """Record what was decided about the transcript."""
    with work.archive.writing():
        note(work, decision, reason, messages)


def note(work: Reading, decision: str, reason: str, messages: int) -> None:
    """The same inside of the caller's transaction."""
    state = work.transcript.state
    seen = replace(work.point, size=state.size, mtime_ms=state.mtime_ms)
    work.archive.transcripts.decide(work.id, seen, decision, reason, messages, work.now)


def hold(work: Reading, reason: str, messages: int, *, refused: bool) -> None:
    """Hold a transcript back inside of the caller's transaction, unless a person has refused it before.

    The file that is followed is read as a whole from then on, so that its own words end that when they are back.
    """
    if not refused:
        note(work, "held", reason, messages)
    if work.stored is not None and work.stored.path == work.point.path and work.stored.tail is not None:
        set_checkpoint(work, replace(work.stored, tail=None, mtime_ms=0))
    reason = "someone refused it" if refused else reason
    work.report = replace(work.report, status="refused" if refused else "held", reason=reason)


def settle(work: Reading, *, accept: bool) -> None:
    """What was read ends the time in which its transcript was held back or refused."""
    last = work.archive.transcripts.last_decision(work.id, work.point.path)
    if last is not None and last.decision in ("held", "refused"):
        reason = "someone accepted it" if accept else "what is stored is in it again"
        decide(work, "accepted" if accept else "continued", reason, work.report.stored)
