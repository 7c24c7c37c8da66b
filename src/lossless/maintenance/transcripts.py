"""`engine.transcripts`: reads, holds, accepts and refuses hosts' transcripts, and folds imported history."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lossless.errors import BadInput, LosslessError
from lossless.maintenance.engine_parts import EngineGroup, LazyModule, forward
from lossless.model.conversations import Conversation, Session, SessionRef, as_session
from lossless.store.conversations import Checkpoint, Conversations, TranscriptRecords
from lossless.store.database import only

if TYPE_CHECKING:
    from lossless.compaction.plan import Pass
    from lossless.compaction.run import CompactionReport
    from lossless.compaction.summarise import WrittenSummary
    from lossless.ingest import run as ingest_run
    from lossless.ingest import sessions
    from lossless.ingest.transcripts import bootstrap as bootstrapping
    from lossless.ingest.transcripts import entries as transcript_entries
    from lossless.ingest.transcripts import following, reading
    from lossless.ingest.transcripts.following import BootstrapRequest, PathSurvey, TranscriptReport
    from lossless.ingest.transcripts.reading import Transcript
    from lossless.model.messages import MessageLike
    from lossless.model.records import QuarantinedConversation, TranscriptDecision
else:
    bootstrapping = LazyModule("lossless.ingest.transcripts.bootstrap")
    following = LazyModule("lossless.ingest.transcripts.following")
    ingest_run = LazyModule("lossless.ingest.run")
    reading = LazyModule("lossless.ingest.transcripts.reading")
    sessions = LazyModule("lossless.ingest.sessions")
    transcript_entries = LazyModule("lossless.ingest.transcripts.entries")

#: More messages than this at once are not a turn; turns are compacted when due.
_TURN = 500


class HostTranscripts(EngineGroup):
    """`engine.transcripts`: keeps hosts' transcripts and the archive in sync."""

    held = forward(lambda parts: parts.archive.transcripts, TranscriptRecords.held)
    refused = forward(lambda parts: parts.archive.transcripts, TranscriptRecords.refused)
    quarantined = forward(lambda parts: parts.archive.conversations, Conversations.quarantined)

    def bootstrap(
        self,
        session: Session | str,
        transcript: str | os.PathLike[str] | Transcript | Iterable[MessageLike],
        *,
        kind: str | None = None,
        lane: str | None = None,
        accept: bool = False,
        after: str | None = None,
        cursor: str | None = None,
        fold: bool = True,
        again: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> TranscriptReport:
        """Store what a transcript has and the archive does not; idempotent.

        A transcript is a path, or the host's entries. On a first import the newest part stays verbatim and the older
        part is folded at once, without a model (`fold`). A transcript that has nothing in common with the stored
        conversation is quarantined (`.status == "held"`) until it is accepted. `after` and `cursor` are a host's own
        marks: entries after the stored mark are new, and a page that leaves a gap is rejected (`.status == "failed"`).
        Permanently deleted messages are imported only with `again`.
        """
        session = as_session(session)
        if (reason := self._parts.no_writes(session)) is not None:
            return following.TranscriptReport(None, "excluded", reason=reason)
        if accept and (waiting := self._held_for(session, transcript)) is not None:
            return self.accept(*waiting)
        is_first = fold and self._is_first(session)
        if isinstance(transcript, str | os.PathLike | reading.Transcript):
            asked = self._asked(session, lane, accept=accept, again=again, progress=progress)
            report = self._read_file(asked, transcript, kind)
        elif isinstance(transcript, bytes | Mapping) or not isinstance(transcript, Iterable):
            raise BadInput(f"transcript must be the path of a file or its entries, not {type(transcript).__name__}")
        else:
            entries = reading.entries_from_objects(transcript)
            report = bootstrapping.store_page(self._asked(session, accept=accept), entries, after, cursor)
            report = self._without_heartbeats(report) if after is None else report
        if report.conversation_id is not None:
            self._parts.extract_stale(report.conversation_id)
        if fold:
            self._fold_after(report, 0 if is_first else _TURN)
        return report

    def _held_for(self, session: Session, transcript: object) -> tuple[Conversation, str] | None:
        """The conversation and the path of a quarantined transcript that waits to be accepted."""
        found = self._archive.conversations.find(session)
        path = ""
        if isinstance(transcript, str | os.PathLike):
            path = str(Path(transcript).absolute())
        elif isinstance(transcript, reading.Transcript):
            path = str(transcript.state.path)
        last = None if found is None else self._archive.transcripts.last_decision(found.id, path)
        if found is None or last is None or last.decision not in ("held", "refused"):
            return None
        quarantine = following.find_quarantine(self._archive, found, path, last.header_id)
        return None if quarantine is None else (found, path)

    def _is_first(self, session: Session) -> bool:
        """Whether a session was empty before a transcript of it was read completely for the first time."""
        found = self._archive.conversations.find(session)
        if found is None:
            return not self._archive.conversations.family(session)
        if found.bootstrapped_at is not None or self._archive.conversations.former(found) is not None:
            return False
        point = self._archive.transcripts.checkpoint(found.id)
        return (point is not None and bool(point.path)) or self._archive.messages.newest_id(found.id) is None

    def _fold_after(self, report: TranscriptReport, limit: int) -> None:
        if report.stored > limit and report.conversation_id is not None:
            self.fold_import(report.conversation_id)

    def reconcile(self, session: SessionRef, transcript: str | os.PathLike[str]) -> TranscriptReport:
        """Read a transcript after a turn; a failure is reported, and the turn is stored nevertheless."""
        try:
            report = self.bootstrap(as_session(session), transcript, fold=False)
            self._fold_after(report, _TURN)
        except (LosslessError, OSError) as error:
            found = self._parts.find(session)
            return following.TranscriptReport(None if found is None else found.id, "failed", reason=str(error))
        return report

    def _asked(
        self, session: Session, lane: str | None = None, *, accept: bool = False, **more: Any
    ) -> BootstrapRequest:
        keep, now, payloads = self._parts.settings.bootstrap_max_tokens, self._parts.clock(), self._parts.payloads
        return following.BootstrapRequest(self._archive, session, lane, accept, keep, now, payloads, **more)

    def _read_file(
        self, asked: BootstrapRequest, transcript: str | os.PathLike[str] | Transcript, kind: str | None = None
    ) -> TranscriptReport:
        found = asked.into or self._archive.conversations.find(asked.session)
        before = None if found is None else self._archive.transcripts.checkpoint(found.id)
        if isinstance(transcript, str | os.PathLike):
            place = Path(transcript).absolute()
            may_resume = kind is None and not asked.accept and not asked.again
            resumed = bootstrapping.resume(asked, place) if may_resume else None
            if resumed is not None:
                return self._with_grown(asked, resumed, place, before)
            transcript = reading.open_transcript(place, kind)
        report = self._without_heartbeats(bootstrapping.bootstrap(asked, transcript))
        return self._with_grown(asked, report, transcript, before)

    def _with_grown(
        self, asked: BootstrapRequest, report: TranscriptReport, read: Path | Transcript, before: Checkpoint | None
    ) -> TranscriptReport:
        """Update messages that were read before they were finished: of a whole transcript, or of appended bytes."""
        if report.conversation_id is None or report.status not in ("stored", "up to date"):
            return report
        entries: Iterable[transcript_entries.TranscriptLine]
        if isinstance(read, Path):
            if before is None or report.replayed <= report.stamped:
                return report
            added = reading.appended_entries(read, before.kind or "openclaw", before.offset, (before.lines or 0) + 1)
            entries = list(transcript_entries.entries_of_lane(added, asked.lane))
        else:
            after = self._archive.transcripts.checkpoint(report.conversation_id)
            is_new = before is None and report.status == "stored"
            if not report.replayed and (is_new or before == after):
                return report
            entries = read.path(asked.lane)
        conversation = self._archive.conversations.get(report.conversation_id)
        revised, stored = bootstrapping.store_grown_entries(asked, conversation, entries, is_first=before is None)
        if not revised and not stored:
            return report
        return replace(report, status="stored", revised=report.revised + revised, stored=report.stored + stored)

    def _without_heartbeats(self, report: TranscriptReport) -> TranscriptReport:
        if self._parts.settings.prune_heartbeat_ok and report.conversation_id is not None:
            with self._archive.writing():
                conversation = self._archive.conversations.get(report.conversation_id)
                ingest_run.ConversationWriter(self._archive, conversation, self._parts.clock()).hide_quiet_history()
        return report

    def newest(self, session: SessionRef) -> int:
        """The id of the newest message of a session; 0 when there is none."""
        found = self._parts.find(session)
        return 0 if found is None else self._archive.messages.newest_id(found.id) or 0

    def hide_heartbeat(self, session: SessionRef | int, after: int) -> None:
        """Hide the turn after a message if it is a heartbeat that had nothing to report."""
        with self._archive.writing():
            conversation = self._parts.conversation(session)
            ingest_run.ConversationWriter(self._archive, conversation, self._parts.clock()).hide_heartbeat(after)

    def cursor(self, session: SessionRef) -> str | None:
        """The host's own mark of how far its transcript is stored."""
        found = self._parts.find(session)
        point = None if found is None else self._archive.transcripts.checkpoint(found.id)
        return None if point is None else point.cursor

    def seen(self, path: str | os.PathLike[str]) -> dict[int, tuple[int, int]]:
        """The conversations that have read a file, with its size and its time in milliseconds then."""
        return self._archive.transcripts.seen(os.fspath(path))

    def survey(self, session: SessionRef, transcript: Transcript) -> PathSurvey:
        """How many messages the main path of a transcript has, and how many of them are stored in a session."""
        found = self._parts.find(session)
        return following.survey_path(self._archive, 0 if found is None else found.id, transcript.path())

    def decisions(self, session: SessionRef | int | None = None) -> list[TranscriptDecision]:
        """What was decided about the transcripts of a session, or of all, oldest first."""
        return self._archive.transcripts.decisions(None if session is None else self._parts.conversation_id(session))

    def followed(self, session: SessionRef | int) -> Checkpoint | None:
        """The transcript that a session follows, and how far it is stored; None when it follows none."""
        return self._archive.transcripts.checkpoint(self._parts.conversation_id(session))

    def accept(self, session: SessionRef | int, path: str) -> TranscriptReport:
        """Accept a held or refused transcript: its conversation becomes active, if the former one still is."""
        archive, conversation = self._archive, self._parts.conversation(session)
        epoch = self._waiting(conversation, path, [*archive.transcripts.held(), *archive.transcripts.refused()])
        if (reason := self._parts.no_writes(conversation)) is not None:
            return following.TranscriptReport(None, "excluded", reason=reason)
        quarantine = following.find_quarantine(archive, conversation, path, epoch.header_id)
        if quarantine is None:  # it was held by a version that stored nothing of it
            report = self._read_file(self._asked(conversation.session, accept=True, into=conversation), path)
        else:
            report = self._accept_quarantine(conversation, epoch, quarantine)
        self._fold_after(report, _TURN)
        return report

    def _accept_quarantine(
        self, conversation: Conversation, epoch: TranscriptDecision, quarantine: Conversation
    ) -> TranscriptReport:
        """The same for one with stored messages; entries appended to the file since are stored, too."""
        archive, now = self._archive, self._parts.clock()
        with archive.writing():
            stored = archive.messages.last_seq(quarantine.id)
            archive.transcripts.settle(epoch, "accepted", "someone accepted it", now)
            if archive.conversations.get(conversation.id).active:
                sessions.accept_quarantined(archive, quarantine.id, now)
            else:
                archive.conversations.set_cause(quarantine.id, "quarantine-accepted", now)
        report = following.TranscriptReport(quarantine.id, "stored", stored=stored)
        if not Path(epoch.path).is_file():
            return report
        point = archive.transcripts.checkpoint(quarantine.id)
        transcript = reading.open_transcript(Path(epoch.path), None if point is None else point.kind)
        lane = None if point is None else point.lane
        added = self._read_file(self._asked(quarantine.session, lane, into=quarantine), transcript)
        return replace(report, stored=stored + added.stored)

    def refuse(self, session: SessionRef | int, path: str) -> None:
        """Keep this transcript out of every prompt, unless it gets another header or is accepted."""
        archive, now, conversation = self._archive, self._parts.clock(), self._parts.conversation(session)
        epoch = self._waiting(conversation, path, archive.transcripts.held())
        with archive.writing():
            archive.transcripts.settle(epoch, "refused", "someone refused it", now)
            if (quarantine := following.find_quarantine(archive, conversation, path, epoch.header_id)) is not None:
                archive.conversations.set_cause(quarantine.id, "refused", now)

    def _waiting(self, conversation: Conversation, path: str, epochs: list[TranscriptDecision]) -> TranscriptDecision:
        mine = (epoch for epoch in epochs if (epoch.conversation_id, epoch.path) == (conversation.id, path))
        return only(mine, "transcript that is held back", path)

    def accept_quarantined(self, conversation_id: int) -> Conversation:
        """Make a quarantined conversation its session's active one; the former one is closed, and stays stored."""
        with self._archive.writing():
            self._settle_for(conversation_id, "accepted")
            return sessions.accept_quarantined(self._archive, conversation_id, self._parts.clock())

    def refuse_quarantined(self, conversation_id: int) -> QuarantinedConversation:
        """Keep a quarantined conversation out of every prompt; it stays in the archive."""
        with self._archive.writing():
            self._settle_for(conversation_id, "refused")
            return sessions.refuse_quarantined(self._archive, conversation_id, self._parts.clock())

    def _settle_for(self, conversation_id: int, decision: Literal["accepted", "refused"]) -> None:
        """Record a decision about a quarantined conversation for its transcript, too."""
        archive = self._archive
        held = archive.transcripts.held()
        for epoch in held if decision == "refused" else [*held, *archive.transcripts.refused()]:
            conversation = archive.conversations.get(epoch.conversation_id)
            quarantine = following.find_quarantine(archive, conversation, epoch.path, epoch.header_id)
            if quarantine is not None and quarantine.id == conversation_id:
                archive.transcripts.settle(epoch, decision, f"someone {decision} it", self._parts.clock())

    def fold_import(
        self,
        session: SessionRef | int,
        *,
        may_ask_model: bool = False,
        most: int | None = None,
        progress: Callable[[Pass, WrittenSummary | None], None] | None = None,
    ) -> CompactionReport | None:
        """Fold an import except its newest part, by default without a model; None if it is short."""
        conversation = self._parts.conversation(session)
        if self._archive.context_tokens(conversation.id) <= self._parts.settings.bootstrap_max_tokens:
            return None
        request = self._parts.request(conversation, None)
        return self._parts.loop.fold_import(request, may_ask_model=may_ask_model, limit=most, progress=progress)
