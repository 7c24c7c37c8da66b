"""Follows a transcript: how much of it is read, whether it belongs to the conversation, and a checkpoint that never
exceeds what is stored.

An epoch is the time in which a conversation follows one transcript: until its file changes identity, shrinks, or gets
another header.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lossless.errors import Stale
from lossless.ingest import transcript_entries as ingest
from lossless.ingest.events import mask_items, mask_records
from lossless.ingest.transcripts import entries as lines
from lossless.ingest.transcripts.entries import BadLine, FileState, TranscriptEntry, TranscriptLine
from lossless.ingest.transcripts.exclusions import Exclusions, find_exclusions, keep_other_wordings
from lossless.ingest.transcripts.reading import EntryTree, Transcript
from lossless.ingest.transcripts.records import tail_digest
from lossless.model.messages import FORGOTTEN_WORDS_DIGEST, without_words_digest

if TYPE_CHECKING:
    from lossless.ingest.run import AppendReport, PayloadPolicy
    from lossless.ingest.window import IncomingWindow
    from lossless.model.conversations import Conversation, Session
    from lossless.model.records import TranscriptDecision
    from lossless.store.archive import Archive
    from lossless.store.conversations import Checkpoint

ReadExtent = Literal["nothing", "appended", "whole"]
Change = Literal["first", "same", "new path", "shrunk", "new header"]
Verdict = Literal["continued", "fresh", "small", "held"]
#: A transcript without anything in common is accepted up to this many messages, or a fifth of what is stored.
_FLOOD_FLOOR, _FLOOD_SHARE = 50, 5
#: The maximum number of records written together.
_MAX_TOGETHER = 64
#: So many messages in common are not a coincidence.
_SURE = 3


def plan_reading(
    checkpoint: Checkpoint | None, state: FileState, header_id: str | None, lane: str | None
) -> tuple[ReadExtent, Change]:
    """How much of a transcript is read, and what has happened to it since the last reading."""
    if checkpoint is None or not checkpoint.path:
        return "whole", "first"
    if checkpoint.path != str(state.path) or checkpoint.lane != lane:
        return "whole", "new path"
    if state.size < max(checkpoint.offset, checkpoint.size):
        return "whole", "shrunk"
    if checkpoint.header_id is not None and header_id is not None and checkpoint.header_id != header_id:
        return "whole", "new header"
    if (state.size, state.mtime_ms) == (checkpoint.size, checkpoint.mtime_ms):
        return "nothing", "same"
    return "appended" if state.size > checkpoint.size else "whole", "same"


#: The newest records of a path: the last single one, and those written together after it. Each is its id, parent, tie,
#: and whether it is a message: enough to see whether appended entries continue the path without branching.
PathFront: TypeAlias = "tuple[tuple[str, str | None, str | None, bool], ...]"


def extend_front(front: PathFront, entries: Iterable[TranscriptEntry], *, on_path: bool = False) -> PathFront | None:
    """The front after more entries; None when they abandon a message on another branch, unless all are on the path."""
    for entry in entries:
        after = _front_after(front, entry)
        if after is None and not on_path:
            return None
        front = after or _front_after((), entry) or front
    return front


def _front_after(front: PathFront, entry: TranscriptEntry) -> PathFront | None:
    if entry.is_loose or entry.id is None:
        return front
    is_message = entry.message is not None
    newest = (entry.id, entry.parent_id, entry.tie, is_message)
    is_linked = any(parent is not None for _, parent, *_ in front)
    if not front or (entry.parent_id is None and not is_linked):
        return (newest,)
    records = (*front, newest)
    is_next = len(front) == 1 and entry.parent_id == front[0][0]
    if not is_next:
        if entry.parent_id not in {id_ for id_, *_ in front} or len(records) > _MAX_TOGETHER:
            return None
        tree = EntryTree()
        for place, (id_, parent, tie, _) in enumerate(records):
            tree.add(id_, parent if place else None, tie)
        path = tree.leaf_path()
        if path is not None and any(spoken and not path[0][place] for place, (*_, spoken) in enumerate(records)):
            return None
    return (newest,) if is_message and entry.tie is None else records


def judge_claim(
    new: int,
    known_by_id: int,
    known_by_text: int,
    earliest_at: datetime | None,
    stored: int,
    newest_at: datetime | None,
) -> tuple[Verdict, str]:
    """Whether a transcript is this conversation's, and why; `held` waits for the user's decision.

    `earliest_at` is the time of the first new message, None when one of them has no time; `stored` and `newest_at` are
    the number of stored messages, and the time of the newest.
    """
    if not stored or known_by_id or known_by_text >= min(_SURE, stored):
        return "continued", f"{known_by_id + known_by_text} messages are stored already"
    if earliest_at is not None and newest_at is not None and earliest_at > newest_at:
        return "fresh", "every message is later than what is stored"
    cap = max(_FLOOD_FLOOR, stored // _FLOOD_SHARE)
    if new <= cap:
        return "small", f"{new} messages with nothing in common, up to {cap} are accepted"
    return "held", (
        f"its {new} messages have nothing in common with the {stored} stored ones, "
        f"and not all of them are later; up to {cap} would be accepted"
    )


def earlier_verdict(
    last: TranscriptDecision | None, state: FileState, header_id: str | None
) -> Verdict | Literal["refused"] | None:
    """An earlier decision about exactly this file; None when it must be judged."""
    if last is None or last.header_id != header_id:
        return None
    if last.decision == "refused":
        return "refused"
    if last.decision == "held" and (last.size, last.mtime_ms) == (state.size, state.mtime_ms):
        return "held"
    return None


#: How often a reading is restarted when other processes read the same transcript.
MAX_TRIES = 5


@dataclass(frozen=True, slots=True)
class BootstrapRequest:
    """The arguments of a reading."""

    archive: Archive
    session: Session
    lane: str | None
    #: Accept a transcript that would be held.
    accept: bool
    #: How much is stored of a fork whose parent is already stored.
    fork_tokens: int
    now: datetime
    payloads: PayloadPolicy | None
    progress: Callable[[int], None] | None = None
    #: The target conversation, if decided; else the active one of the session.
    into: Conversation | None = None
    #: Import permanently deleted messages again.
    again: bool = False
    #: Entries per transaction.
    chunk: int = lines.CHUNK_ENTRIES


class TranscriptReading:
    """One reading of a transcript: its inputs and progress."""

    def __init__(
        self,
        asked: BootstrapRequest,
        conversation: Conversation,
        transcript: Transcript,
        report: TranscriptReport,
        point: Checkpoint,
        stored: Checkpoint | None = None,
    ) -> None:
        self.archive, self.lane, self.now, self.payloads = asked.archive, asked.lane, asked.now, asked.payloads
        self.accept, self.again, self.chunk, self._progress = asked.accept, asked.again, asked.chunk, asked.progress
        self.conversation, self.transcript = conversation, transcript
        self.report, self.point = report, point
        #: Whether the user has refused this transcript before.
        self.is_refused = False
        #: The stored checkpoint; when another process moves it, this reading starts again.
        self.stored = stored
        #: The row of the last aligned entry; 0 when there was none.
        self.behind = 0
        #: How often the lines of a file without ids were renumbered.
        self.age = 0
        #: Messages of the path that other conversations have.
        self.exclusions: Exclusions | None = None

    @property
    def id(self) -> int:
        return self.conversation.id

    @property
    def front(self) -> PathFront:
        """The newest records before the checkpoint."""
        return tuple(tuple(record) for record in json.loads(self.point.front or "[]"))

    def path(self) -> Iterator[TranscriptLine]:
        """The transcript's entries in this conversation."""
        entries = self.transcript.path(self.lane)
        return entries if self.exclusions is None else self.exclusions.rest(entries)

    def leave_out(self, fork_tokens: int | None) -> None:
        """Omit what other conversations have; of what a fork shares with its parent all but the newest part."""
        self.exclusions = found = find_exclusions(self, fork_tokens)
        self.report = replace(self.report, pruned=0 if found is None else found.pruned)
        if found is not None and found.stamps:
            with self.archive.writing():
                self.archive.messages.stamp(found.stamps)
        if found is not None and found.reworded:
            keep_other_wordings(self, found.reworded)

    @property
    def is_bounded(self) -> bool:
        """Whether this is a fork of which only its own part and the newest of its parent's are stored."""
        return self.stored is not None and self.stored.fork_bounded

    def store_chunk(self, chunk: Sequence[TranscriptLine], *, is_last: bool = False) -> None:
        """Store a chunk that follows what is stored, and move the checkpoint after it, or to the end of the file.

        Raises `Stale` when another process has read it meanwhile.
        """
        with self.archive.writing():
            if self.archive.transcripts.checkpoint(self.id) != self.stored:
                raise Stale("another process has read the transcript meanwhile")
            tail = tail_digest(self.transcript.state.path, chunk[-1].line.end) if is_last else None
            front = extend_front(self.front, lines.readable_entries(chunk), on_path=True) or ()
            self.write_chunk(chunk, front, tail)
        if self._progress:
            self._progress(self.point.offset)

    def write_chunk(self, chunk: Sequence[TranscriptLine], front: PathFront, tail: bytes | None) -> None:
        """Store a chunk inside the caller's transaction, and move the checkpoint after it.

        With the digest of the bytes before that position, the file counts as read to its end.
        """
        batch = ingest.read_entries(self.archive, self.id, lines.incoming_messages(chunk, self.age))
        line, point, state = chunk[-1].line, self.point, self.transcript.state
        report = ingest.append_entries(
            self.archive, self.conversation, batch, after=point.entry_id, now=self.now, payloads=self.payloads
        )
        self.count(chunk, batch, report)
        spoken = next(lines.message_entries(reversed(chunk)), None)
        entry_id, digest = (point.entry_id, point.entry_hash) if spoken is None else self.message_mark(spoken)
        self.point = replace(
            point,
            offset=line.end,
            lines=line.number,
            size=line.end if tail is None else state.size,
            mtime_ms=0 if tail is None else state.mtime_ms,
            front=json.dumps(front),
            entry_id=entry_id,
            entry_hash=digest,
            tail=point.tail if tail is None else tail,
        )
        self.set_checkpoint(self.point)

    def count(self, chunk: Sequence[TranscriptLine], batch: IncomingWindow, report: AppendReport) -> None:
        """Store records that are not messages, and add to the report."""
        messages = list(lines.message_entries(chunk))
        records = [
            (entry.id, entry.kind, entry.record)
            for entry in chunk
            if isinstance(entry, TranscriptEntry) and entry.message is None
        ]
        for skip in (*batch.unreadable, *report.skipped):
            entry = messages[skip.index]
            records.append((entry.id, entry.kind, lines.message_body(entry)))
        if records:
            self.archive.transcripts.keep_records(self.id, mask_records(self.archive, records))
        sums: dict[str, Any] = {name: getattr(self.report, name) + getattr(report, name) for name in _COUNTS}
        self.report = replace(self.report, status="stored", opaque=self.report.opaque + len(records), **sums)
        problems = [(messages[skip.index].line.number, skip.reason) for skip in batch.unreadable]
        problems += [(line.line.number, line.reason) for line in chunk if isinstance(line, BadLine)]
        if problems:
            named = [
                f"line {number}: {reason}" for number, reason in problems[: max(0, _NAMED - self.report.bad_lines)]
            ]
            bad_lines = self.report.bad_lines + len(problems)
            self.report = replace(self.report, bad_lines=bad_lines, problems=(*self.report.problems, *named))

    def message_mark(self, entry: TranscriptEntry) -> tuple[str | None, str | None]:
        """The id and the hash of the last message; no digest of text that must not be kept."""
        id_ = lines.entry_id_of(entry, self.age)
        if entry.message is None or mask_items(self.archive, self.id, [entry.message])[0] is entry.message:
            return id_, lines.entry_hash(entry)
        return None if id_ is None else without_words_digest(id_), None

    def finish(self, *, is_cut: bool = False, is_appended: bool = False) -> None:
        """Record that the whole file was read, on or off the path, with its state before; a cut one is read again."""
        line = None if is_appended else self.transcript.last_line
        if line is not None:
            self.point = replace(self.point, offset=line.end, lines=line.number)
        with self.archive.writing():
            state = self.transcript.state
            is_whole = is_cut or self.transcript.is_array  # the next reading cannot go on from there
            tail = None if is_whole else tail_digest(state.path, self.point.offset)
            self.set_checkpoint(replace(self.point, size=state.size, mtime_ms=state.mtime_ms, tail=tail))
            self.archive.conversations.mark_bootstrapped(self.id, self.now)

    def set_checkpoint(self, point: Checkpoint) -> None:
        """Move the checkpoint inside the caller's transaction."""
        self.archive.transcripts.set_checkpoint(self.id, point, self.now)
        before = self.stored
        if before is not None and (before.fork_bounded or (before.cursor and not point.cursor)):
            point = replace(point, cursor=point.cursor or before.cursor, fork_bounded=before.fork_bounded)
        self.stored = point

    def decide(self, decision: str, reason: str, messages: int) -> None:
        state = self.transcript.state
        seen = replace(self.point, size=state.size, mtime_ms=state.mtime_ms)
        with self.archive.writing():
            self.archive.transcripts.decide(self.id, seen, decision, reason, messages, self.now)

    def hold_back(self, reason: str, messages: int) -> None:
        """Hold a transcript inside the caller's transaction, unless the user has refused it before.

        The followed file is read as a whole from then on, so that the hold ends when its own text is back.
        """
        if not self.is_refused:
            self.decide("held", reason, messages)
        if self.stored is not None and self.stored.path == self.point.path and self.stored.tail is not None:
            self.set_checkpoint(replace(self.stored, tail=None, mtime_ms=0))
        status, reason = ("refused", "someone refused it") if self.is_refused else ("held", reason)
        self.report = replace(self.report, status=status, reason=reason)

    def settle_hold(self) -> None:
        """End the hold or refusal of a transcript that was now read.

        What it had meanwhile stays out of the context, without a pending decision.
        """
        last = self.archive.transcripts.last_decision(self.id, self.point.path)
        if last is not None and last.decision in ("held", "refused"):
            reason = "someone accepted it" if self.accept else "it contains the stored messages again"
            with self.archive.writing():
                self.decide("accepted" if self.accept else "continued", reason, self.report.stored)
                other = find_quarantine(self.archive, self.conversation, last.path, last.header_id)
                if other is not None:
                    self.archive.conversations.set_cause(other.id, "refused", self.now)


def find_quarantine(
    archive: Archive, conversation: Conversation, path: str, header_id: str | None
) -> Conversation | None:
    """The quarantined conversation of a transcript that was held or refused."""
    for other in archive.conversations.quarantined_of(conversation):
        point = archive.transcripts.checkpoint(other.id)
        if point is not None and (point.path, point.header_id) == (path, header_id):
            return other
    return None


def quarantine(archive: Archive, conversation: Conversation, start: Checkpoint, now: datetime) -> Conversation:
    """The same, created when there is none yet: empty, and following the transcript from its start."""
    with archive.writing():
        found = find_quarantine(archive, conversation, start.path, start.header_id)
        if found is None:
            found = archive.conversations.quarantine(conversation, now)
            archive.transcripts.set_checkpoint(found.id, start, now)
        return found


def newest_generation(archive: Archive, conversation_id: int) -> int:
    """The generation of the newest generated ids; 0 without any."""
    return max((lines.line_generation_of(id_) for _, id_ in archive.messages.made_up(conversation_id)), default=0)


def with_generation(entry_id: str | None, age: int) -> str | None:
    """The id of the same line in a file of another generation; a host's own id is unchanged."""
    part = None if entry_id is None else lines.parse_line_id(entry_id)
    return entry_id if part is None else lines.make_line_id(age, part[1], part[2])


def lines_of_generation(archive: Archive, conversation_id: int, age: int) -> list[tuple[int, str, int]]:
    """Line, digest and row of the generated ids of one generation, in their order."""
    rows = ((lines.parse_line_id(id_), row) for row, id_ in archive.messages.made_up(conversation_id))
    return sorted((part[1], part[2], row) for part, row in rows if part is not None and part[0] == age)


def renumber_lines(archive: Archive, conversation_id: int, entries: Iterable[TranscriptLine]) -> bool:
    """Renumber the ids of a file that we have just rotated to its tail; returns whether its rows matched.

    So repeated texts do not have to be compared.
    """
    age = newest_generation(archive, conversation_id)
    kept = [
        id_
        for entry in lines.message_entries(entries)
        if entry.id is None and (id_ := lines.entry_id_of(entry, age + 1)) is not None
    ]
    if not kept:
        return False
    with archive.writing():
        last = lines_of_generation(archive, conversation_id, age)[-len(kept) :]
        digests = [part[2] for id_ in kept if (part := lines.parse_line_id(id_))]
        if len(digests) != len(last) or any(
            theirs not in (mine, FORGOTTEN_WORDS_DIGEST) for mine, (_, theirs, _) in zip(digests, last, strict=True)
        ):
            return False
        named = zip(last, kept, strict=True)
        archive.messages.stamp(
            [(row, without_words_digest(id_) if was == FORGOTTEN_WORDS_DIGEST else id_) for (_, was, row), id_ in named]
        )
    return True


@dataclass(slots=True)
class PathSurvey:
    """How the messages of a path relate to a conversation. Positions count messages from 0."""

    messages: int = 0
    known: int = 0
    first_unknown: int | None = None
    last_known: int | None = None
    #: How many have a generated id.
    made_up: int = 0
    #: The last message, and the newest records of the path.
    last: TranscriptEntry | None = None
    front: PathFront = ()
    #: The time of the first unknown message; None when one of them has no time.
    earliest_at: datetime | None = None


def survey_path(archive: Archive, conversation_id: int, entries: Iterable[TranscriptLine], age: int = 0) -> PathSurvey:
    """Look up the ids of all messages of a path, in constant memory."""
    found, is_untimed = PathSurvey(), False
    for chunk in lines.chunks(entries):
        messages = list(lines.message_entries(chunk))
        ids = [lines.entry_id_of(entry, age) for entry in messages]
        stored = archive.messages.known_entries(conversation_id, [id_ for id_ in ids if id_ is not None])
        for place, (entry, id_) in enumerate(zip(messages, ids, strict=True), found.messages):
            found.made_up += entry.id is None and id_ is not None
            if id_ in stored:
                found.known += 1
                found.last_known = place
                continue
            found.first_unknown = place if found.first_unknown is None else found.first_unknown
            is_untimed = is_untimed or entry.created_at is None
            if entry.created_at is not None and (found.earliest_at is None or entry.created_at < found.earliest_at):
                found.earliest_at = entry.created_at
        found.messages += len(messages)
        found.last = messages[-1] if messages else found.last
        found.front = extend_front(found.front, lines.readable_entries(chunk), on_path=True) or ()
    found.earliest_at = None if is_untimed else found.earliest_at
    return found


#: How many unreadable lines a report lists; the others are counted.
_NAMED = 20
#: The counters that the reports of a chunk and of a whole reading share.
_COUNTS = ("stored", "replayed", "stamped", "abandoned", "revised", "likely", "ambiguous")


@dataclass(frozen=True, slots=True)
class TranscriptReport:
    """The result of one reading of a transcript."""

    conversation_id: int | None
    #: `stored`, `up to date`, `held`, `refused`, `excluded`, or `failed`.
    status: str
    #: What happened to the transcript since the last reading: `first`, `same`, `new path`, `shrunk`, `new header`.
    change: str | None = None
    reason: str | None = None
    #: Bytes of the file when it was read.
    size: int | None = None
    stored: int = 0
    replayed: int = 0
    #: Rows that got an entry id: they had none, or one that is gone.
    stamped: int = 0
    abandoned: int = 0
    #: Rows with new text, decisions by similarity, and repeats that may be missing.
    revised: int = 0
    likely: int = 0
    ambiguous: int = 0
    #: Messages that were omitted because they were permanently deleted.
    pruned: int = 0
    #: The conversation of a transcript that is held or was refused, outside the context.
    quarantine_id: int | None = None
    #: Records that are not messages.
    opaque: int = 0
    bad_lines: int = 0
    #: The first of them, with their numbers.
    problems: tuple[str, ...] = field(default=(), repr=False)
    #: The conversation itself, if available.
    conversation: Conversation | None = field(default=None, repr=False, compare=False)
