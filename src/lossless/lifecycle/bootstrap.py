"""Reconciling a transcript with the archive: everything in it is stored once, and the checkpoint never runs ahead.

Bytes are read outside of transactions. Each transaction stores a chunk of entries and moves the checkpoint to
where that chunk ends; whatever happens in between, the next reading goes on from there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.errors import ArchiveLocked
from lossless.ingest import entries as ingest
from lossless.lifecycle import ages, epochs
from lossless.lifecycle.elsewhere import Whose, all_pruned
from lossless.lifecycle.left import hide_left, left_in, return_to_path, store_left
from lossless.lifecycle.readings import (
    TRIES,
    Moved,
    Reading,
    account,
    close,
    decide,
    finish,
    hold,
    last_said,
    note,
    set_checkpoint,
    settle,
    store,
)
from lossless.lifecycle.reports import TranscriptReport
from lossless.lifecycle.stream import (
    CHUNK,
    age_of,
    chunks,
    from_message,
    id_of,
    messages_of,
    of_lane,
    records_of,
    take_messages,
)
from lossless.lifecycle.survey import Survey, survey
from lossless.model.conversations import Conversation
from lossless.model.messages import line_alone
from lossless.store.transcripts import Checkpoint
from lossless.transcripts.growth import tail_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from lossless.ingest.payloads import Payloads
    from lossless.ingest.plan import IngestPlan
    from lossless.lifecycle.readings import Source
    from lossless.model.conversations import Session
    from lossless.store.archive import Archive
    from lossless.transcripts.entries import BadLine, Entry

#: Known messages before the first unknown one that show where it belongs.
_MARGIN = 32
#: A history that may be written again under new ids is compared as a whole up to so many messages.
_MOST_ROWS = 20_000
#: The number of a conversation that is not there yet: behind all others.
_NOT_YET = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Asked:
    """What a reading of a transcript is asked for."""

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
    #: The conversation that it is read into, where that is decided; else the active one of the session.
    into: Conversation | None = None
    #: What was deleted for good may come back.
    again: bool = False
    #: Entries that are stored in one transaction, and that are laid over what is stored at once.
    chunk: int = CHUNK


def bootstrap(asked: Asked, transcript: Source) -> TranscriptReport:
    """Store what a transcript has that the archive does not; reading the same file again changes nothing."""
    for _ in range(TRIES):
        try:
            return _bootstrap(asked, transcript)
        except Moved:
            continue
    raise ArchiveLocked(f"transcript {str(transcript.state.path)!r}: other processes keep reading it; try again")


def _bootstrap(asked: Asked, transcript: Source) -> TranscriptReport:
    archive, state, header_id = asked.archive, transcript.state, transcript.header.id
    with archive.reading():
        found = asked.into or archive.conversations.find(asked.session)
        if asked.into is None and found is not None and begins_anew(asked.session, found):
            found = None
        refused = False
        point = None if found is None else archive.transcripts.checkpoint(found.id)
        how = epochs.approach(point, state, header_id, asked.lane)
        if found is not None and not asked.accept:
            if how.reading == "nothing" and not asked.again:
                return TranscriptReport(found.id, "up to date", how.change, size=state.size)
            last = archive.transcripts.last_decision(found.id, str(state.path))
            settled = epochs.is_settled(last, state, header_id)
            refused = settled == "refused" and point is not None and point.path == str(state.path)
            if settled in ("held", "refused") and not refused:
                return TranscriptReport(found.id, settled, how.change, last.reason if last else None)
    if found is None and (pruned := _all_pruned(asked, transcript)):
        reason = f"all its messages ({pruned}) were deleted with `lcm prune`; --again brings them back"
        return TranscriptReport(None, "excluded", how.change, reason, state.size, pruned=pruned)
    with archive.writing():
        conversation = asked.into or archive.conversations.open(asked.session, asked.now)
        if asked.again:
            archive.histories.forget(conversation.session_key, str(state.path), header_id)
    start = Checkpoint(str(state.path), 0, 0, 0, header_id, lane=asked.lane, kind=transcript.kind)
    report = TranscriptReport(conversation.id, "up to date", how.change, size=state.size)
    work = Reading(
        archive, conversation, transcript, asked.lane, asked.now, asked.payloads, report, start, point, asked.progress
    )
    work.again, work.chunk = asked.again, asked.chunk
    goes_on = how.reading == "appended" and not (asked.accept or asked.again or transcript.is_array)
    if goes_on and point is not None and _is_untouched(point):
        work.point, work.age = point, age_of(point.entry_id)
        _read_appended(work)
    elif archive.messages.newest_id(conversation.id) is None:
        read_first(work, asked.fork_tokens)
    else:
        read_whole(work, accept=asked.accept, refused=refused)
    return work.report


def _all_pruned(asked: Asked, transcript: Source) -> int:
    """How many messages a transcript has, if all that a conversation could begin with was deleted for good; else 0."""
    session = asked.session
    begun = Conversation(_NOT_YET, session.id or session.name, session.key, True, asked.now, asked.now)
    path, header_id = str(transcript.state.path), transcript.header.id
    whose = Whose(asked.archive, begun, path, header_id, None, again=asked.again)
    return all_pruned(whose, lambda: transcript.path(asked.lane))


def begins_anew(session: Session, found: Conversation) -> bool:
    """Whether opening the session will begin another conversation, as each run of a cron job does."""
    return session.is_cron and session.id is not None and session.id != found.session_id


# --- the three ways to read ---


def _read_appended(work: Reading) -> None:
    """Read only what was added; a branch, or a host that moved back, makes it a whole reading."""
    point = work.point
    entries = work.transcript.appended(point.offset, (point.lines or 0) + 1)
    for chunk in chunks(of_lane(entries, work.lane), work.chunk):
        if epochs.follow(work.front, records_of(chunk)) is None:
            read_whole(work, accept=False)
            return
        store(work, chunk, is_last=len(chunk) < work.chunk)
        if len(chunk) < work.chunk:
            return
    close(work)


def read_first(work: Reading, fork_tokens: int) -> None:
    """Store a whole path into a conversation that holds nothing, but for what other conversations hold."""
    work.leave_out(fork_tokens)
    if work.apart is None:
        store_left(work)
    store_rest(work, work.path())
    shared = set() if work.apart is None else work.apart.sources
    if shared:
        reason = f"a fork of {work.transcript.header.parent}, where the history before it is stored"
        decide(work, "first", reason, work.report.stored)
        with work.archive.writing():
            work.archive.histories.rely(work.id, shared)
            work.archive.transcripts.set_fork(work.id, len(work.apart.flags) if work.apart else 0)
    elif work.report.stored:
        decide(work, "first", "nothing was stored before", work.report.stored)
    finish(work, is_cut=work.apart is not None and work.apart.is_last)


def read_whole(work: Reading, *, accept: bool, refused: bool = False) -> None:
    """Lay the whole path over what is stored: ids decide, then words; what is unrelated waits for a person."""
    work.age = ages.newest(work.archive, work.id)
    work.leave_out(None)
    looked = _surveyed(work)
    if not looked.messages and work.report.change in ("same", "shrunk") and _is_spoilt(work):
        return
    left = left_in(work.transcript.path(work.lane), of_lane(work.transcript.appended(), work.lane))
    if looked.first_unknown is not None:
        start = 0 if looked.last_known is None else max(0, looked.first_unknown - _MARGIN)
        length = max((looked.last_known or 0) + 1 - start, min(_stored(work)[0], _MOST_ROWS) + work.chunk)
        entries = from_message(work.path(), start)
        if not _lay_over(work, take_messages(entries, length), looked, left, accept=accept, refused=refused):
            return
        if looked.known:
            store_rest(work, entries)
        else:
            _lay_rest_over(work, entries)
    if looked.last is not None:
        last, digest = last_said(work, looked.last)
        work.point = replace(work.point, entry_id=last, entry_hash=digest)
    work.point = replace(work.point, front=json.dumps(looked.front.records))
    abandoned = return_to_path(work.archive, work.id, work.path(), work.now)
    abandoned += hide_left(work.archive, work.id, left, work.now)
    work.report = replace(work.report, abandoned=work.report.abandoned + abandoned)
    if accept or looked.known:
        settle(work, accept=accept)
    is_cut = _is_cut(work, looked)
    if work.apart is None:
        store_left(work, left)
    finish(work, is_cut=is_cut)


def _surveyed(work: Reading) -> Survey:
    """Look a path through; the lines of a file without ids that is not what was read are counted anew."""
    looked = survey(work.archive, work.id, work.path(), work.age)
    if looked.made_up and looked.known < ages.count(work.archive, work.id, work.age):
        work.age += 1
        looked = survey(work.archive, work.id, work.path(), work.age)
    return looked


def _is_spoilt(work: Reading) -> bool:
    """Say why a file that was followed has nothing to say any more; whether not even a line of it can be read."""
    is_spoilt = work.transcript.last_line is None and bool(work.transcript.state.size)
    reason = "nothing is said in it; what was stored stays"
    if is_spoilt:
        reason = "no line of it can be read: it was overwritten or is not finished; what was stored stays"
    work.report = replace(work.report, status="failed" if is_spoilt else work.report.status, reason=reason)
    return is_spoilt


def _lay_over(
    work: Reading,
    window: Sequence[Entry | BadLine],
    looked: Survey,
    left: frozenset[str],
    *,
    accept: bool,
    refused: bool,
) -> bool:
    """Store the window that decides where the path belongs; False when it is held back."""
    archive = work.archive
    with archive.writing():
        batch = ingest.read(archive, work.id, messages_of(window, work.age))
        plan, batch = ingest.lay_over(archive, work.conversation, batch, rewritten=not looked.known, in_use=left)
        if looked.made_up and plan.abandoned:  # the host went back, or it has begun again with the same words
            plan = replace(plan, ambiguous=max(1, plan.ambiguous))
        in_text = sum(place is not None for place in plan.places) - looked.known
        claim = epochs.Claim(
            looked.messages - looked.known, looked.known, max(0, in_text), looked.earliest_at, *_stored(work)
        )
        verdict, reason = epochs.judge(claim)
        is_strange = verdict == "held" or (refused and verdict != "continued")
        if is_strange and not accept:
            hold(work, reason, claim.new, refused=refused)
            return False
        if work.report.change != "same" or verdict != "continued":
            note(work, "accepted" if verdict == "held" else verdict, reason, claim.new)
        _carry_out(work, window, batch, plan)
    return True


def _stored(work: Reading) -> tuple[int, datetime | None]:
    """How many messages are stored, and when the newest was said."""
    newest = work.archive.messages.newest_id(work.id)
    if newest is None:
        return 0, None
    message = work.archive.messages.get(newest)
    return message.seq, message.created_at


def store_rest(work: Reading, entries: Iterator[Entry | BadLine]) -> None:
    """Store what follows, chunk by chunk."""
    for chunk in chunks(entries, work.chunk):
        store(work, chunk)


def _lay_rest_over(work: Reading, entries: Iterator[Entry | BadLine]) -> None:
    """Lay what follows over the rows behind the last known one, chunk by chunk: words alone decide."""
    for chunk in chunks(entries, work.chunk):
        with work.archive.writing():
            batch = ingest.read(work.archive, work.id, messages_of(chunk, work.age))
            plan, batch = ingest.lay_over(work.archive, work.conversation, batch, rewritten=True, after=work.behind)
            _carry_out(work, chunk, batch, plan)


def _carry_out(work: Reading, chunk: Sequence[Entry | BadLine], batch: ingest.Batch, plan: IngestPlan) -> None:
    """Store what was planned; one that reads what is appended has to begin again then."""
    report = ingest.carry_out(work.archive, work.conversation, plan, batch, now=work.now, payloads=work.payloads)
    account(work, chunk, batch, report)
    if plan.new:
        set_checkpoint(work, replace(work.point, offset=0, lines=0, size=0, mtime_ms=0, tail=None))
    if plan.new and plan.new[-1] is batch.events[-1]:
        work.behind = report.message_ids[-1]
    elif plan.places and plan.places[-1] is not None:
        work.behind = plan.places[-1]


def _is_cut(work: Reading, looked: Survey) -> bool:
    """Whether the path ends before the newest entry that is stored: how it goes on decides what that one is."""
    newest = work.archive.messages.tail(work.id, 1)
    last = "" if looked.last is None else id_of(looked.last, work.age) or ""
    if work.apart is not None and work.apart.is_last:
        return True
    return bool(newest) and newest[0].entry_id is not None and newest[0].entry_id not in (last, line_alone(last))


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
