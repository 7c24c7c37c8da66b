"""Reconciling a transcript with the archive: everything in it is stored once, and the checkpoint never runs ahead.

Bytes are read outside of transactions. Each transaction stores a chunk of entries and moves the checkpoint to
where that chunk ends; whatever happens in between, the next pass goes on from there.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lossless.errors import ArchiveLocked
from lossless.ingest import entries as ingest
from lossless.lifecycle import epochs
from lossless.lifecycle.left import hide_left
from lossless.lifecycle.reports import TranscriptReport
from lossless.lifecycle.stream import (
    CHUNK,
    body_of,
    chunks,
    entry_hash,
    from_message,
    messages_of,
    of_lane,
    records_of,
    said,
    take_messages,
    tokens_of,
)
from lossless.lifecycle.survey import Survey, survey
from lossless.store.transcripts import Checkpoint
from lossless.transcripts.entries import BadLine, Entry
from lossless.transcripts.growth import tail_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from lossless.ingest.payloads import Payloads
    from lossless.ingest.plan import IngestPlan
    from lossless.ingest.run import AppendReport
    from lossless.model.conversations import Conversation, Session
    from lossless.store.archive import Archive
    from lossless.transcripts.entries import FileState, Header, Line

#: Known messages before the first unknown one that show where it belongs.
_MARGIN = 32
#: A history that may be written again under new ids is compared as a whole up to so many messages.
_MOST_ROWS = 20_000
#: How often a pass begins again when other processes read the same transcript.
TRIES = 5


class Source(Protocol):
    """A transcript as a pass reads it."""

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
    def appended(self, start: int = 0, number: int = 1) -> Iterator[Entry | BadLine]: ...


@dataclass(slots=True)
class Pass:
    """One pass over a transcript: what it works on, and how far it has come."""

    archive: Archive
    conversation: Conversation
    transcript: Source
    lane: str | None
    now: datetime
    payloads: Payloads | None
    report: TranscriptReport
    point: Checkpoint
    #: The checkpoint as it is stored; another process that moves it makes this pass begin again.
    stored: Checkpoint | None = None
    progress: Callable[[int], None] | None = None
    #: The row of the last entry that was laid over what is stored; 0 when none was.
    behind: int = 0

    @property
    def id(self) -> int:
        return self.conversation.id

    @property
    def front(self) -> epochs.Front:
        """The newest records before the checkpoint."""
        return epochs.Front(tuple(tuple(record) for record in json.loads(self.point.front or "[]")))

    def path(self) -> Iterator[Entry | BadLine]:
        return self.transcript.path(self.lane)


class Moved(Exception):
    """Another process has read the transcript meanwhile."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a pass over a transcript is asked for."""

    archive: Archive
    session: Session
    lane: str | None
    #: Take a transcript over that would be held back.
    accept: bool
    #: How much is kept of a fork whose parent is stored already.
    fork_tokens: int
    now: datetime
    payloads: Payloads | None
    progress: Callable[[int], None] | None = None


def bootstrap(asked: Asked, transcript: Source) -> TranscriptReport:
    """Store what a transcript has that the archive does not; a second pass over the same file changes nothing."""
    for _ in range(TRIES):
        try:
            return _bootstrap(asked, transcript)
        except Moved:
            continue
    raise ArchiveLocked(f"transcript {str(transcript.state.path)!r}: other processes keep reading it; try again")


def _bootstrap(asked: Asked, transcript: Source) -> TranscriptReport:
    archive, state, header_id = asked.archive, transcript.state, transcript.header.id
    with archive.reading():
        found = archive.conversations.find(asked.session)
        if found is not None and begins_anew(asked.session, found):
            found = None
        point = None if found is None else archive.transcripts.checkpoint(found.id)
        how = epochs.approach(point, state, header_id, asked.lane)
        if found is not None and not asked.accept:
            if how.reading == "nothing":
                return TranscriptReport(found.id, "up to date", how.change, size=state.size)
            last = archive.transcripts.last_decision(found.id, str(state.path))
            settled = epochs.is_settled(last, state, header_id)
            if settled in ("held", "refused"):
                return TranscriptReport(found.id, settled, how.change, last.reason if last else None)
    with archive.writing():
        conversation = archive.conversations.open(asked.session, asked.now)
    start = Checkpoint(str(state.path), 0, 0, 0, header_id, lane=asked.lane, kind=transcript.kind)
    report = TranscriptReport(conversation.id, "up to date", how.change, size=state.size)
    work = Pass(
        archive, conversation, transcript, asked.lane, asked.now, asked.payloads, report, start, point, asked.progress
    )
    if how.reading == "appended" and not transcript.is_array and point is not None and _is_untouched(point):
        work.point = point
        _read_appended(work)
    elif archive.messages.newest_id(conversation.id) is None:
        read_first(work, asked.fork_tokens)
    else:
        read_whole(work, accept=asked.accept)
    return work.report


def begins_anew(session: Session, found: Conversation) -> bool:
    """Whether opening the session will begin another conversation, as each run of a cron job does."""
    return session.is_cron and session.id is not None and session.id != found.session_id


# --- the three ways to read ---


def _read_appended(work: Pass) -> None:
    """Read only what was added; a branch, or a host that moved back, makes it a whole reading."""
    point = work.point
    entries = work.transcript.appended(point.offset, (point.lines or 0) + 1)
    for chunk in chunks(of_lane(entries, work.lane)):
        if epochs.follow(work.front, records_of(chunk)) is None:
            read_whole(work, accept=False)
            return
        store(work, chunk, is_last=len(chunk) < CHUNK)
        if len(chunk) < CHUNK:
            return
    _finish(work)


def read_first(work: Pass, fork_tokens: int) -> None:
    """Store a whole path into a conversation that holds nothing; of a fork only what its parent's copy lacks."""
    parent = work.transcript.header.parent
    if parent is not None and work.archive.transcripts.is_known(parent):
        _read_fork(work, parent, fork_tokens)
        return
    store_rest(work, work.path())
    if work.report.stored:
        _decide(work, "first", "nothing was stored before", work.report.stored)
    finish(work)


def _read_fork(work: Pass, parent: str, fork_tokens: int) -> None:
    newest: deque[Entry] = deque()
    tokens = total = 0
    for entry in said(work.path()):
        newest.append(entry)
        tokens, total = tokens + tokens_of(entry), total + 1
        while tokens > fork_tokens and len(newest) > 1:
            tokens -= tokens_of(newest.popleft())
    for chunk in chunks(iter(newest)):
        store(work, chunk)
    _decide(work, "first", f"a fork of {parent}, whose history is stored there", len(newest))
    if len(newest) < total:
        with work.archive.writing():
            work.archive.transcripts.set_fork(work.id, total)
    finish(work)


def read_whole(work: Pass, *, accept: bool) -> None:
    """Lay the whole path over what is stored: ids decide, then words; what is unrelated waits for a person."""
    looked = survey(work.archive, work.id, work.path())
    if looked.first_unknown is not None:
        start = 0 if looked.last_known is None else max(0, looked.first_unknown - _MARGIN)
        length = max((looked.last_known or 0) + 1 - start, min(_stored(work)[0], _MOST_ROWS) + CHUNK)
        entries = from_message(work.path(), start)
        if not _lay_over(work, take_messages(entries, length), looked, accept=accept):
            return
        if looked.known:
            store_rest(work, entries)
        else:
            _lay_rest_over(work, entries)
    if looked.last is not None:
        work.point = replace(work.point, entry_id=looked.last.id, entry_hash=entry_hash(looked.last))
    work.point = replace(work.point, front=json.dumps(looked.front.records))
    everything = of_lane(work.transcript.appended(), work.lane)
    abandoned = hide_left(work.archive, work.id, work.path(), everything, work.now)
    work.report = replace(work.report, abandoned=work.report.abandoned + abandoned)
    finish(work)


def _lay_over(work: Pass, window: Sequence[Entry | BadLine], looked: Survey, *, accept: bool) -> bool:
    """Store the window that decides where the path belongs; False when it is held back."""
    archive = work.archive
    with archive.writing():
        batch = ingest.read(messages_of(window))
        plan, batch = ingest.lay_over(archive, work.conversation, batch, rewritten=not looked.known)
        in_text = sum(place is not None for place in plan.places) - looked.known
        claim = epochs.Claim(
            looked.messages - looked.known, looked.known, max(0, in_text), looked.earliest_at, *_stored(work)
        )
        verdict, reason = epochs.judge(claim)
        if verdict == "held" and not accept:
            _note(work, "held", reason, claim.new)
            work.report = replace(work.report, status="held", reason=reason)
            return False
        if work.report.change != "same" or verdict != "continued":
            _note(work, "accepted" if verdict == "held" else verdict, reason, claim.new)
        _carry_out(work, window, batch, plan)
    return True


def _stored(work: Pass) -> tuple[int, datetime | None]:
    """How many messages are stored, and when the newest was said."""
    newest = work.archive.messages.newest_id(work.id)
    if newest is None:
        return 0, None
    message = work.archive.messages.get(newest)
    return message.seq, message.created_at


def store_rest(work: Pass, entries: Iterator[Entry | BadLine]) -> None:
    """Store what follows, chunk by chunk."""
    for chunk in chunks(entries):
        store(work, chunk)


def _lay_rest_over(work: Pass, entries: Iterator[Entry | BadLine]) -> None:
    """Lay what follows over the rows behind the last known one, chunk by chunk: words alone decide."""
    for chunk in chunks(entries):
        with work.archive.writing():
            batch = ingest.read(messages_of(chunk))
            plan, batch = ingest.lay_over(work.archive, work.conversation, batch, rewritten=True, after=work.behind)
            _carry_out(work, chunk, batch, plan)


def _carry_out(work: Pass, chunk: Sequence[Entry | BadLine], batch: ingest.Batch, plan: IngestPlan) -> None:
    """Store what was planned; a pass that reads what is appended has to begin again then."""
    report = ingest.carry_out(work.archive, work.conversation, plan, batch, now=work.now, payloads=work.payloads)
    _account(work, chunk, batch, report)
    if plan.new:
        _set_checkpoint(work, replace(work.point, offset=0, lines=0, size=0, mtime_ms=0, tail=None))
    if plan.new and plan.new[-1] is batch.events[-1]:
        work.behind = report.message_ids[-1]
    elif plan.places and plan.places[-1] is not None:
        work.behind = plan.places[-1]


# --- storing ---


def store(work: Pass, chunk: Sequence[Entry | BadLine], *, is_last: bool = False) -> None:
    """Store a chunk that follows what is stored, and move the checkpoint behind it, or to the end of the file."""
    with work.archive.writing():
        if work.archive.transcripts.checkpoint(work.id) != work.stored:
            raise Moved
        tail = tail_of(work.transcript.state.path, chunk[-1].line.end) if is_last else None
        put(work, chunk, work.front.along(records_of(chunk)), tail)
    if work.progress:
        work.progress(work.point.offset)


def put(work: Pass, chunk: Sequence[Entry | BadLine], front: epochs.Front, tail: bytes | None) -> None:
    """Store a chunk inside of the caller's transaction, and move the checkpoint behind it.

    With the digest of the bytes before that place, the file counts as seen to its end.
    """
    batch = ingest.read(messages_of(chunk))
    report = ingest.follow(work.archive, work.conversation, batch, now=work.now, payloads=work.payloads)
    _account(work, chunk, batch, report)
    _advance(work, chunk, front, tail)
    _set_checkpoint(work, work.point)


def _account(work: Pass, chunk: Sequence[Entry | BadLine], batch: ingest.Batch, report: AppendReport) -> None:
    """Keep what is no message, and add to the report."""
    messages = list(said(chunk))
    records = [
        (entry.id, entry.kind, entry.record) for entry in chunk if isinstance(entry, Entry) and entry.message is None
    ]
    for skip in (*batch.unreadable, *report.skipped):
        entry = messages[skip.index]
        records.append((entry.id, entry.kind, body_of(entry)))
    if records:
        work.archive.transcripts.keep_records(work.id, records)
    work.report = work.report.plus(report, len(records))
    for skip in batch.unreadable:
        work.report = work.report.noting(messages[skip.index].line.number, skip.reason)
    for line in chunk:
        if isinstance(line, BadLine):
            work.report = work.report.noting(line.line.number, line.reason)


def _advance(work: Pass, chunk: Sequence[Entry | BadLine], front: epochs.Front, tail: bytes | None) -> None:
    """Move the checkpoint to the end of a chunk; only with the last one the whole file counts as seen."""
    line, point, state = chunk[-1].line, work.point, work.transcript.state
    spoken = next(said(reversed(chunk)), None)
    work.point = replace(
        point,
        offset=line.end,
        lines=line.number,
        size=line.end if tail is None else state.size,
        mtime_ms=0 if tail is None else state.mtime_ms,
        front=json.dumps(front.records),
        entry_id=point.entry_id if spoken is None else spoken.id,
        entry_hash=point.entry_hash if spoken is None else entry_hash(spoken),
        tail=point.tail if tail is None else tail,
    )


def finish(work: Pass) -> None:
    """Note that all of the file is read, whichever lines of it are on the path."""
    line = work.transcript.last_line
    if line is not None:
        work.point = replace(work.point, offset=line.end, lines=line.number)
    _finish(work)


def _finish(work: Pass) -> None:
    with work.archive.writing():
        _set_checkpoint(work, _at_end(work))
        work.archive.conversations.mark_bootstrapped(work.id, work.now)


def _at_end(work: Pass) -> Checkpoint:
    """The checkpoint of a file that was seen as it was before it was read."""
    state = work.transcript.state
    return replace(work.point, size=state.size, mtime_ms=state.mtime_ms, tail=tail_of(state.path, work.point.offset))


def _set_checkpoint(work: Pass, point: Checkpoint) -> None:
    work.archive.transcripts.set_checkpoint(work.id, point, work.now)
    if work.stored is not None and (work.stored.fork_bounded or (work.stored.cursor and not point.cursor)):
        point = replace(point, cursor=point.cursor or work.stored.cursor, fork_bounded=work.stored.fork_bounded)
    work.stored = point


def _decide(work: Pass, decision: str, reason: str, messages: int) -> None:
    with work.archive.writing():
        _note(work, decision, reason, messages)


def _note(work: Pass, decision: str, reason: str, messages: int) -> None:
    state = work.transcript.state
    seen = replace(work.point, size=state.size, mtime_ms=state.mtime_ms)
    work.archive.transcripts.decide(work.id, seen, decision, reason, messages, work.now)


def is_begun(point: Checkpoint) -> bool:
    """Whether a message was read before a checkpoint, and it is known which bytes were.

    Behind a header alone a transcript only begins, and what it begins with may be stored already.
    """
    return point.tail is not None and (
        point.entry_id is not None or point.entry_hash is not None or (point.lines or 0) > 1
    )


def _is_untouched(point: Checkpoint) -> bool:
    """Whether the bytes before a checkpoint are still those that were read."""
    return is_begun(point) and point.tail == tail_of(Path(point.path), point.offset)
