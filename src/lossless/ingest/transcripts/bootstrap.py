"""Reconciles a transcript with the archive: everything in it is stored once, from a file, from its appended bytes, or
from pages of a host.

Bytes are read outside of transactions. Each transaction stores a chunk of entries and moves the checkpoint to its end;
after an interruption the next reading continues from there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.errors import ArchiveLocked, Stale
from lossless.ingest import transcript_entries as ingest
from lossless.ingest.plan import IngestPlan
from lossless.ingest.transcripts import entries as lines
from lossless.ingest.transcripts import exclusions, following
from lossless.ingest.transcripts.entries import (
    FileState,
    TranscriptEntry,
    TranscriptHeader,
    TranscriptLine,
    WholeTranscript,
)
from lossless.ingest.transcripts.following import BootstrapRequest, TranscriptReading, TranscriptReport
from lossless.ingest.transcripts.reading import KINDS, ListedTranscript, Transcript
from lossless.ingest.transcripts.records import digest_before, file_state, read_appended, tail_digest
from lossless.ingest.window import IncomingWindow
from lossless.model.conversations import Conversation, Session
from lossless.model.messages import Incoming, without_words_digest
from lossless.store.conversations import Checkpoint

if TYPE_CHECKING:
    from lossless.ingest.events import Event
    from lossless.store.archive import Archive

#: Known messages before the first unknown one that determine its position.
_MARGIN = 32
#: A history that may be rewritten under new ids is compared as a whole up to so many messages.
_MAX_ROWS = 20_000
#: The number of a conversation that does not exist yet: after all others.
_NOT_YET = (1 << 63) - 1


def bootstrap(asked: BootstrapRequest, transcript: Transcript) -> TranscriptReport:
    """Store what a transcript has that the archive does not; idempotent."""
    what = f"transcript {str(transcript.state.path)!r}: other processes keep reading it"
    return _until_not_stale(partial(_bootstrap, asked, transcript), what)


def _until_not_stale(read: Callable[[], TranscriptReport], what: str) -> TranscriptReport:
    for _ in range(following.MAX_TRIES):
        with suppress(Stale):
            return read()
    raise ArchiveLocked(f"{what}; try again")


def _bootstrap(asked: BootstrapRequest, transcript: Transcript) -> TranscriptReport:
    archive, state, header_id = asked.archive, transcript.state, transcript.header.id
    separate: TranscriptReport | None = None
    with archive.reading():
        found = asked.into or archive.conversations.find(asked.session)
        if asked.into is None and found is not None and starts_new_conversation(asked.session, found):
            found = None
        refused = False
        point = None if found is None else archive.transcripts.checkpoint(found.id)
        extent, change = following.plan_reading(point, state, header_id, asked.lane)
        if found is not None and not asked.accept:
            if extent == "nothing" and not asked.again:
                return TranscriptReport(found.id, "up to date", change, size=state.size)
            last = archive.transcripts.last_decision(found.id, str(state.path))
            settled = following.earlier_verdict(last, state, header_id)
            refused = settled == "refused" and point is not None and point.path == str(state.path)
            if settled in ("held", "refused") and not refused:
                separate = TranscriptReport(found.id, settled, change, last.reason if last else None)
    if separate is not None and found is not None:
        return _keep_separate(asked, transcript, found, separate)
    if found is None and (pruned := _all_pruned(asked, transcript)):
        reason = f"all its messages ({pruned}) were deleted with `lcm prune`; --again brings them back"
        return TranscriptReport(None, "excluded", change, reason, state.size, pruned=pruned)
    with archive.writing():
        conversation = asked.into or archive.conversations.open(asked.session, asked.now)
        if asked.again:
            archive.transcripts.forget(conversation.session_key, str(state.path), header_id)
    start = Checkpoint(str(state.path), 0, 0, 0, header_id, lane=asked.lane, kind=transcript.kind)
    report = TranscriptReport(conversation.id, "up to date", change, size=state.size)
    work = TranscriptReading(asked, conversation, transcript, report, start, point)
    goes_on = extent == "appended" and not (asked.accept or asked.again or transcript.is_array)
    is_untouched = point is not None and can_resume_from(point)
    if goes_on and is_untouched and point is not None and point.tail == tail_digest(Path(point.path), point.offset):
        work.point, work.age = point, lines.line_generation_of(point.entry_id)
        _read_appended(work)
    elif archive.messages.newest_id(conversation.id) is None:
        read_first(work, asked.fork_tokens)
    else:
        work.is_refused = refused
        read_whole(work)
    if work.report.status in ("held", "refused"):
        return _keep_separate(asked, transcript, conversation, work.report)
    return work.report


def _keep_separate(
    asked: BootstrapRequest, transcript: Transcript, conversation: Conversation, report: TranscriptReport
) -> TranscriptReport:
    """Store a transcript that is not the conversation's in a quarantined one, as far as it is new."""
    archive, state = asked.archive, transcript.state
    start = Checkpoint(str(state.path), 0, 0, 0, transcript.header.id, lane=asked.lane, kind=transcript.kind)
    quarantined = following.quarantine(archive, conversation, start, asked.now)
    point = archive.transcripts.checkpoint(quarantined.id)
    if following.plan_reading(point, state, transcript.header.id, asked.lane)[0] != "nothing":
        _bootstrap(replace(asked, into=quarantined, accept=True), transcript)
    if report.status == "refused" and quarantined.archive_cause != "refused":
        with archive.writing():
            archive.conversations.set_cause(quarantined.id, "refused", asked.now)
    return replace(report, quarantine_id=quarantined.id)


def _all_pruned(asked: BootstrapRequest, transcript: Transcript) -> int:
    """How many messages a transcript has, if everything that a conversation could begin with was deleted; else 0."""
    session = asked.session
    begun = Conversation(_NOT_YET, session.id or session.name, session.key, True, asked.now, asked.now)
    point, report = Checkpoint(str(transcript.state.path), 0, 0, 0), TranscriptReport(None, "up to date")
    return exclusions.count_all_pruned(TranscriptReading(asked, begun, transcript, report, point))


def starts_new_conversation(session: Session, found: Conversation) -> bool:
    """Whether opening the session will start another conversation, as for each run of a cron job."""
    return session.is_cron and session.id is not None and session.id != found.session_id


def _read_appended(work: TranscriptReading) -> None:
    """Read only what was appended; a branch, or a host that moved back, requires a whole reading."""
    point = work.point
    entries = work.transcript.appended(point.offset, (point.lines or 0) + 1)
    for chunk in lines.chunks(lines.entries_of_lane(entries, work.lane), work.chunk):
        if following.extend_front(work.front, lines.readable_entries(chunk)) is None:
            read_whole(work)
            return
        work.store_chunk(chunk, is_last=len(chunk) < work.chunk)
        if len(chunk) < work.chunk:
            return
    work.finish(is_appended=True)


def read_first(work: TranscriptReading, fork_tokens: int) -> None:
    """Store a whole path into an empty conversation, except what other conversations have."""
    work.leave_out(fork_tokens)
    if work.exclusions is None:
        exclusions.store_abandoned(work)
    store_rest(work, work.path())
    shared = set() if work.exclusions is None else work.exclusions.sources
    if shared:
        reason = f"a fork of {work.transcript.header.parent}, where the history before it is stored"
        work.decide("first", reason, work.report.stored)
        with work.archive.writing():
            work.archive.transcripts.rely(work.id, shared)
            work.archive.transcripts.set_fork(work.id, len(work.exclusions.flags) if work.exclusions else 0)
    elif work.report.stored:
        work.decide("first", "nothing was stored before", work.report.stored)
    work.finish(is_cut=work.exclusions is not None and work.exclusions.is_last)


def read_whole(work: TranscriptReading) -> None:
    """Align the whole path with what is stored: by ids, then by text; an unrelated path waits for a decision."""
    work.age = following.newest_generation(work.archive, work.id)
    work.leave_out(None)
    survey = following.survey_path(work.archive, work.id, work.path(), work.age)
    if survey.made_up and survey.known < len(following.lines_of_generation(work.archive, work.id, work.age)):
        work.age += 1  # the lines of a file without ids that differs from what was read are renumbered
        survey = following.survey_path(work.archive, work.id, work.path(), work.age)
    if not survey.messages and work.report.change in ("same", "shrunk") and _is_unreadable(work):
        return
    abandoned = exclusions.abandoned_ids(
        work.transcript.path(work.lane), lines.entries_of_lane(work.transcript.appended(), work.lane)
    )
    if survey.first_unknown is not None:
        start = 0 if survey.last_known is None else max(0, survey.first_unknown - _MARGIN)
        length = max((survey.last_known or 0) + 1 - start, min(_stored(work)[0], _MAX_ROWS) + work.chunk)
        entries = work.path()
        if not _store_path(work, lines.take_messages(entries, start, length), survey, abandoned):
            return
        if survey.known:
            store_rest(work, entries)
        else:
            # by text alone: aligned with the rows after the last known one
            for chunk in lines.chunks(entries, work.chunk):
                with work.archive.writing():
                    batch = ingest.read_entries(work.archive, work.id, lines.incoming_messages(chunk, work.age))
                    plan, batch = ingest.plan_path(
                        work.archive, work.conversation, batch, rewritten=True, after=work.behind
                    )
                    _store_planned(work, chunk, batch, plan)
    if survey.last is not None:
        last, digest = work.message_mark(survey.last)
        work.point = replace(work.point, entry_id=last, entry_hash=digest)
    work.point = replace(work.point, front=json.dumps(survey.front))
    hidden = exclusions.return_to_path(work) + exclusions.hide_abandoned(work, abandoned)
    work.report = replace(work.report, abandoned=work.report.abandoned + hidden)
    if work.accept or survey.known:
        work.settle_hold()
    is_cut = _is_cut(work, survey)
    if work.exclusions is None:
        exclusions.store_abandoned(work, abandoned)
    work.finish(is_cut=is_cut)


def _is_unreadable(work: TranscriptReading) -> bool:
    """Report why a followed file has no content any more; returns whether not even a line can be read."""
    is_spoilt = work.transcript.last_line is None and bool(work.transcript.state.size)
    reason = "it has no messages; stored messages stay"
    if is_spoilt:
        reason = "no line of it can be read: it was overwritten or is not finished; stored messages stay"
    work.report = replace(work.report, status="failed" if is_spoilt else work.report.status, reason=reason)
    return is_spoilt


def _store_path(
    work: TranscriptReading, window: Sequence[TranscriptLine], survey: following.PathSurvey, abandoned: frozenset[str]
) -> bool:
    """Store the window that decides where the path belongs; False when it is held."""
    archive = work.archive
    with archive.writing():
        batch = ingest.read_entries(archive, work.id, lines.incoming_messages(window, work.age))
        plan, batch = ingest.plan_path(archive, work.conversation, batch, rewritten=not survey.known, in_use=abandoned)
        if survey.made_up and plan.abandoned:  # the host went back, or started again with the same text
            plan = replace(plan, ambiguous=max(1, plan.ambiguous))
        in_text = sum(place is not None for place in plan.places) - survey.known
        new = survey.messages - survey.known
        verdict, reason = following.judge_claim(new, survey.known, max(0, in_text), survey.earliest_at, *_stored(work))
        is_strange = verdict == "held" or (work.is_refused and verdict != "continued")
        if is_strange and not work.accept:
            work.hold_back(reason, new)
            return False
        if work.report.change != "same" or verdict != "continued":
            work.decide("accepted" if verdict == "held" else verdict, reason, new)
        _store_planned(work, window, batch, plan)
    return True


def _stored(work: TranscriptReading) -> tuple[int, datetime | None]:
    newest = work.archive.messages.newest_id(work.id)
    if newest is None:
        return 0, None
    message = work.archive.messages.get(newest)
    return message.seq, message.created_at


def store_rest(work: TranscriptReading, entries: Iterator[TranscriptLine]) -> None:
    """Store what follows, in chunks."""
    for chunk in lines.chunks(entries, work.chunk):
        work.store_chunk(chunk)


def _store_planned(
    work: TranscriptReading, chunk: Sequence[TranscriptLine], batch: IncomingWindow, plan: IngestPlan
) -> None:
    """Store what was planned; a reading of appended bytes must then start again."""
    report = ingest.write_entries(work.archive, work.conversation, plan, batch, now=work.now, payloads=work.payloads)
    work.count(chunk, batch, report)
    if plan.new:
        work.set_checkpoint(replace(work.point, offset=0, lines=0, size=0, mtime_ms=0, tail=None))
    if plan.new and plan.new[-1] is batch.events[-1]:
        work.behind = report.message_ids[-1]
    elif plan.places and plan.places[-1] is not None:
        work.behind = plan.places[-1]


def _is_cut(work: TranscriptReading, survey: following.PathSurvey) -> bool:
    """Whether the path ends before the newest stored entry: how it continues decides what that one is."""
    if work.exclusions is not None and work.exclusions.is_last:
        return True
    newest = next((row.entry_id for row in work.archive.messages.tail(work.id, 1)), None)
    last = "" if survey.last is None else lines.entry_id_of(survey.last, work.age) or ""
    return newest is not None and newest not in (last, without_words_digest(last))


def can_resume_from(point: Checkpoint) -> bool:
    """Whether a message was read before a checkpoint, and its bytes are known.

    After a header alone a transcript only begins, and its first messages may already be stored.
    """
    return point.tail is not None and (
        point.entry_id is not None or point.entry_hash is not None or (point.lines or 0) > 1
    )


#: More than this is not a turn, and is not read within a transaction.
_MAX_BYTES = 1 << 20


def resume(asked: BootstrapRequest, path: Path) -> TranscriptReport | None:
    """Store what was appended to a transcript after its checkpoint; None when it must be read as a whole."""
    archive = asked.archive
    state = file_state(path)
    with archive.writing():
        found = archive.conversations.find(asked.session)
        if found is None or starts_new_conversation(asked.session, found):
            return None
        point = archive.transcripts.checkpoint(found.id)
        if point is None or point.kind is None or point.path != str(path):
            return None
        extent, change = following.plan_reading(point, state, point.header_id, asked.lane)
        if extent == "nothing":
            return TranscriptReport(found.id, "up to date", change, size=state.size)
        if extent != "appended" or state.size - point.offset > _MAX_BYTES:
            return None
        return _read_from_checkpoint(asked, found, point, state, change)


def _read_from_checkpoint(
    asked: BootstrapRequest, found: Conversation, point: Checkpoint, state: FileState, change: str
) -> TranscriptReport | None:
    """Store what follows the checkpoint, if the bytes before it are unchanged."""
    growth = read_appended(state.path, point.offset, state.size) if can_resume_from(point) else None
    if point.kind is None or growth is None or digest_before(growth, point.offset) != point.tail:
        return None
    transcript = Transcript(KINDS[point.kind], state, TranscriptHeader(id=point.header_id))
    entries = list(lines.entries_of_lane(transcript.grown(growth, point.offset, (point.lines or 0) + 1), asked.lane))
    report = TranscriptReport(found.id, "up to date", change, size=state.size, conversation=found)
    work = TranscriptReading(asked, found, transcript, report, point, point)
    work.age = lines.line_generation_of(point.entry_id)
    front = following.extend_front(work.front, lines.readable_entries(entries))
    if not entries or front is None:
        return None
    if asked.session.id not in (None, found.session_id) or found.session_key != asked.session.key:
        work.conversation = asked.archive.conversations.open(asked.session, asked.now)
    work.write_chunk(entries, front, digest_before(growth, entries[-1].line.end))
    return work.report


def store_page(
    asked: BootstrapRequest, entries: Sequence[TranscriptEntry], after: str | None = None, cursor: str | None = None
) -> TranscriptReport:
    """Store a page. One that continues `after` the stored cursor is appended; any other is a whole path."""
    archive, session, now = asked.archive, asked.session, asked.now
    page = WholeTranscript(FileState(Path(), len(entries), 0), TranscriptHeader(), lambda: (entries, frozenset()))

    def store(asked: BootstrapRequest, conversation: Conversation, after: str | None) -> TranscriptReport:
        point = archive.transcripts.checkpoint(conversation.id)
        is_empty = archive.messages.newest_id(conversation.id) is None
        goes_on = after is not None and point is not None and point.cursor == after
        change = "same" if goes_on else "first" if is_empty else "new path"
        start = point if goes_on and point is not None else Checkpoint("", 0, 0, 0)
        start = replace(start, cursor=cursor or start.cursor)
        report = TranscriptReport(conversation.id, "up to date", change)
        work = TranscriptReading(asked, conversation, ListedTranscript("openclaw", page), report, start, point)
        if not goes_on and not is_empty and not asked.accept and (reason := _gap(work, after)) is not None:
            with archive.writing():
                archive.ingest.block(conversation.id, reason, now)
            return replace(report, status="failed", reason=reason)
        if goes_on:
            store_rest(work, work.path())
            work.finish()
        elif is_empty:
            read_first(work, 0)
        else:
            read_whole(work)
        return work.report

    def store_once() -> TranscriptReport:
        with archive.writing():
            conversation = archive.conversations.open(session, now)
        report = store(asked, conversation, after)
        if report.status != "held":
            return report
        quarantined = following.quarantine(archive, conversation, Checkpoint("", 0, 0, 0), now)
        store(replace(asked, accept=True), quarantined, None)
        return replace(report, quarantine_id=quarantined.id)

    return _until_not_stale(store_once, f"session {session.name!r}: other processes keep storing its entries")


def _gap(work: TranscriptReading, after: str | None) -> str | None:
    """Why a page that continues after another mark than the stored one is rejected: messages between are missing.

    One that begins with what is stored, or right after it, leaves no gap.
    """
    first = next(lines.message_entries(work.transcript.appended()), None)
    if after is None or work.stored is None or work.stored.cursor is None or first is None:
        return None
    ids = [id_ for id_ in (first.id, first.parent_id) if id_ is not None]
    if work.archive.messages.known_entries(work.id, ids):
        return None
    return (
        f"a page after {after!r} does not continue from what is stored, which ends at {work.stored.cursor!r}; "
        f"pass the page after {work.stored.cursor!r}"
    )


def store_grown_entries(
    asked: BootstrapRequest, conversation: Conversation, entries: Iterable[TranscriptLine], *, is_first: bool = False
) -> tuple[int, int]:
    """Store the text of known entries that has changed since they were read.

    At the first reading rows keep the text that was sent to the archive, and the transcript's becomes a version.
    Returns how many rows have new text, and how many rows are new: another role under a known id is another message.
    """
    archive, now, payloads, revised, stored = asked.archive, asked.now, asked.payloads, 0, 0
    for chunk in lines.chunks(entries):
        items = lines.incoming_messages([entry for entry in lines.message_entries(chunk) if entry.id is not None])
        versions, strangers = _changed_entries(archive, conversation.id, items)
        if strangers:
            with archive.writing():
                batch = IncomingWindow((), strangers, (), 0)
                report = ingest.append_entries(archive, conversation, batch, after=None, now=now, payloads=payloads)
                stored += report.stored
        if versions:
            events = tuple(event for _, event in versions)
            plan = IngestPlan(versions=versions, is_running=False, replayed=len(events))
            with archive.writing():
                if is_first:
                    without_ids = tuple((id_, replace(event, entry_id=None)) for id_, event in versions)
                    plan = replace(plan, versions=without_ids)
                batch = IncomingWindow((), events, (), 0)
                revised += ingest.write_entries(archive, conversation, plan, batch, now=now, payloads=payloads).revised
    return revised, stored


def _changed_entries(
    archive: Archive, conversation_id: int, items: list[Incoming]
) -> tuple[tuple[tuple[int, Event], ...], tuple[Event, ...]]:
    """The rows whose entry has different text, and the events whose id names a row of another role.

    For a row that a running session has also sent, the entry's text is stored as a version only.
    """
    known = archive.messages.known_entries(conversation_id, [item.entry_id or "" for item in items])
    found: list[tuple[int, Event]] = []
    strangers: list[Event] = []
    there = [item for item in items if item.entry_id in known]
    for event in ingest.read_entries(archive, conversation_id, there).events:
        row = known[event.entry_id or ""]
        if row.role != event.message.role:
            strangers.append(event)
        elif row.fingerprint != event.fingerprint:
            found.append((row.id, replace(event, entry_id=None) if row.claimed else event))
    return tuple(found), tuple(strangers)
