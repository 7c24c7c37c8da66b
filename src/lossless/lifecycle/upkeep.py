"""What an engine does for an archive that grows: backups, rotation, retention, sizes."""

from __future__ import annotations

import os
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.compaction.trigger import FAILED_STOPS
from lossless.desk import session_of
from lossless.errors import BadInput
from lossless.lifecycle.naming import imported_from
from lossless.lifecycle.transcribing import Transcribing
from lossless.logbook import Logbook

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lossless.compaction.run import CompactionReport
    from lossless.lifecycle.autorotate import Action, Limits, Mode, StartReport, Tools
    from lossless.lifecycle.backup import Backup
    from lossless.lifecycle.forget import ForgetReport
    from lossless.lifecycle.forgetting import Tools as ForgetTools
    from lossless.lifecycle.forgetting import Wanted
    from lossless.lifecycle.prune import Choice, PrunePlan, PruneReport
    from lossless.lifecycle.reports import TranscriptReport
    from lossless.lifecycle.rotate import RotateReport
    from lossless.lifecycle.size import SizeReport
    from lossless.lifecycle.standing import Standing
    from lossless.lifecycle.transcript_gc import CollectReport, Replacement
    from lossless.model.conversations import Conversation, Session

#: Sweeps that fold what is outside the tail before a transcript is rewritten.
_SWEEPS = 50
#: Endings of a sweep after which no transcript is rewritten.
_REFUSALS = FAILED_STOPS | {"busy", "stale"}


class Upkeep(Transcribing):
    """Looks after an archive and the transcripts that it follows. Nothing is deleted unless somebody says so."""

    @cached_property
    def log(self) -> Logbook:
        """Where this engine writes down what it decided and did; see `lossless.logbook`."""
        return Logbook.of(self.settings)

    @cached_property
    def _noted_sizes(self) -> dict[str, int]:
        """From which size on a transcript that is too large is worth another line."""
        return {}

    def _logged(self, event: str, conversation_id: int, report: CompactionReport) -> CompactionReport:
        """Write down what a compaction came to."""
        self.log.log(
            event,
            "info" if report.ok else "warning",
            conversationId=conversation_id,
            reason=report.reason,
            stop=report.stop,
            summaries=len(report.summary_ids),
            calls=report.calls,
            tokensBefore=report.tokens_before,
            tokensAfter=report.tokens_after,
            historyBudget=None if report.history is None else report.history.tokens,
        )
        return report

    def _follow(self, session: Session, transcript: str | os.PathLike[str]) -> TranscriptReport:
        """Read a transcript on a turn's path, write down what kept it from being stored, and look at its size."""
        report = self._reconcile(session, transcript)
        if report.status in ("failed", "held"):
            fields = {"conversationId": report.conversation_id, "status": report.status, "reason": report.reason}
            self.log.log("transcript", "warning", path=str(transcript), **fields)
        size, name = report.size or 0, str(transcript)
        if size > self._noted_sizes.get(name, self.settings.auto_rotate_session_files_size_bytes):
            self._noted_sizes[name] = size + size // 4
            self.rotate_between_turns(session, transcript, unsafe="a turn is going on")
        return report

    def status(self, session: Session | Conversation) -> Standing:
        """How a session stands: stored, seen, owed, refused and why."""
        from lossless.lifecycle.standing import standing_of

        conversation = self._conversation(session)
        return standing_of(self.archive, conversation, self.loop.debt(conversation.id))

    # --- the archive ---

    def backup(self, path: str | os.PathLike[str] | None = None, *, rolling: bool = False) -> Backup:
        """Copy the archive while it is used: to `path`, else beside it; the rolling copy replaces the one before."""
        from lossless.lifecycle import backup

        if path is not None and rolling:
            raise BadInput("the rolling backup has its own place; name a path or ask for the rolling one")
        if path is not None:
            return backup.make(self.archive, Path(path), vault=self.vault)
        return self.copy(backup.ROLLING if rolling else "backup")

    def copy(self, label: str) -> Backup:
        """A backup beside the archive under a label, as it is made before something is changed; with its payloads."""
        from lossless.lifecycle.backup import make_beside

        return make_beside(self.archive, label, self._clock(), vault=self.vault)

    def size(self) -> SizeReport:
        """What takes the room, and what of it could go."""
        from lossless.lifecycle.size import survey

        return survey(self.archive, self.vault, self._clock())

    def prune_plan(self, choice: Choice) -> PrunePlan:
        """Which conversations a choice would delete, and how much that is; changes nothing."""
        from lossless.lifecycle import prune

        return prune.plan(self.archive, choice, self._clock())

    def prune(
        self, work: PrunePlan, *, backup: bool = True, progress: Callable[[int], None] | None = None
    ) -> PruneReport:
        """Delete what a plan chose, for good, with its files; by default a backup is made first."""
        from lossless.lifecycle import prune

        now = self._clock()
        if backup and work.chosen:
            self.copy("prune")
        report = prune.apply(self.archive, self.vault, work, now, progress)
        self.log.log("prune", conversations=report.conversations, messages=report.messages, files=report.files)
        return report

    def forget_plan(
        self,
        phrases: Sequence[str] = (),
        *,
        message_ids: Sequence[int] = (),
        sessions: Sequence[Session | Conversation] = (),
    ) -> ForgetReport:
        """What `forget` would change, in the archive and its backups; changes nothing."""
        from lossless.lifecycle import forget

        return forget.forget(self._forgetting(), self._wanted(phrases, message_ids, sessions), dry_run=True)

    def forget(
        self,
        phrases: Sequence[str] = (),
        *,
        message_ids: Sequence[int] = (),
        sessions: Sequence[Session | Conversation] = (),
        progress: Callable[[int], None] | None = None,
    ) -> ForgetReport:
        """Remove phrases, messages or sessions for good, from the archive, its files and its backups.

        A phrase leaves `[forgotten]` where it stood, a message keeps nothing but that. A tombstone without words keeps
        hosts from bringing it back. `.left` of the report names what could not be reached.
        """
        from lossless.lifecycle import forget

        report = forget.forget(self._forgetting(progress), self._wanted(phrases, message_ids, sessions))
        self.log.log("forget", messages=len(report.archive.message_ids), backups=len(report.backups))
        return report

    def _wanted(
        self, phrases: Sequence[str], message_ids: Sequence[int], sessions: Sequence[Session | Conversation]
    ) -> Wanted:
        from lossless.lifecycle.forget import wanted

        return wanted(self.archive, phrases, message_ids, [session_of(one).name for one in sessions])

    def _forgetting(self, progress: Callable[[int], None] | None = None) -> ForgetTools:
        from lossless.lifecycle.forgetting import Tools

        settings, now = self.settings, self._clock()
        threshold = settings.large_file_threshold_tokens
        return Tools(self.archive, self.vault, self.loop.summariser, threshold, now, progress)

    # --- transcripts ---

    def rotate(
        self,
        session: Session | Conversation,
        path: str | os.PathLike[str] | None = None,
        *,
        reconcile: Callable[[], str | None] | None = None,
        checkpoint: Callable[[], int | None] | None = None,
        backup: bool = True,
        dry_run: bool = False,
    ) -> RotateReport:
        """Rewrite the transcript that a session follows to its tail, once all of it is stored; `.reason` says why not.

        A host that reads its transcripts itself brings this one into the archive with `reconcile`, and again
        afterwards with `checkpoint`.
        """
        from lossless.lifecycle.backup import ROLLING
        from lossless.lifecycle.rotate import RotateReport, Steps, keep_in, plan, rotate, unstored_in

        found = self._find(session)
        found = None if found is None else self.archive.conversations.get(found.id)
        point = None if found is None else self.archive.transcripts.checkpoint(found.id)
        followed = None if point is None or not point.path else Path(point.path)
        place = followed or Path() if path is None else Path(path)
        reason = self._why_not(found, place, place if reconcile else followed)
        if reason is not None or found is None:
            return RotateReport(place, reason=reason)
        conversation = found
        tail_count = self.loop.policy(self._situation(conversation, None)).fresh_tail_count
        if dry_run:
            return plan(place, tail_count)
        steps = Steps(
            unstored_in(self.archive, conversation.id),
            reconcile or (lambda: self._reconciled(conversation, place)),
            lambda: self._folded(conversation),
            keep_in(self.archive, conversation.id),
            (lambda: self.copy(ROLLING).path) if backup else lambda: None,
            checkpoint or (lambda: self._checkpointed(conversation, place)),
        )
        return rotate(place, tail_count, steps)

    def _why_not(self, found: Conversation | None, place: Path, followed: Path | None) -> str | None:
        """Why a transcript of this conversation is not rewritten now, before anything is read."""
        if found is None or not found.active:
            return "no active conversation"
        if (kind := imported_from(found.session)) is not None:
            from lossless.lifecycle.rotate import foreign

            return foreign(kind)
        if (reason := self._no_writes(found)) is not None:
            return reason
        if followed is None or os.path.realpath(place) != os.path.realpath(followed):
            return "the conversation does not follow this transcript"
        if (blocked := self.archive.ingest.state(found.id).blocked_reason) is not None:
            return f"input is refused: {blocked}"
        if any(epoch.conversation_id == found.id for epoch in self.archive.transcripts.held()):
            return "a transcript is held back and waits for a decision"
        return self._model_rests(found.id)

    def _model_rests(self, conversation_id: int) -> str | None:
        """Why no model would be asked now, if one is configured."""
        summariser = self.loop.summariser
        return summariser.gate(self.archive, conversation_id, self._clock).resting(summariser.candidates())

    def _reconciled(self, conversation: Conversation, place: Path) -> str | None:
        """Bring the transcript into the archive; why that did not work, or None."""
        report = self.bootstrap(conversation.session, place)
        if report.conversation_id != conversation.id:
            return "the session goes on in another conversation"
        if report.status in ("stored", "up to date") and not report.bad_lines:
            return None
        return f"the transcript is not in the archive: {report.reason or report.status}"

    def _checkpointed(self, conversation: Conversation, place: Path) -> int | None:
        from lossless.lifecycle.ages import count_anew
        from lossless.transcripts.read import open_transcript

        count_anew(self.archive, conversation.id, open_transcript(place).path())
        self.bootstrap(conversation.session, place)
        point = self.archive.transcripts.checkpoint(conversation.id)
        return None if point is None else point.size

    def _folded(self, conversation: Conversation) -> str | None:
        """Fold everything outside the tail into leaves; why that did not work, or None."""
        from lossless.compaction.run import Job, compact
        from lossless.compaction.trigger import threshold_chain

        situation = self._situation(conversation, None)
        policy = self.loop.policy(situation)
        for _ in range(_SWEEPS):
            decision = self.loop.evaluate(situation)
            job = Job(
                archive=self.archive,
                conversation_id=conversation.id,
                policy=policy,
                decision=decision,
                summariser=self.loop.summariser,
                clock=self._clock,
                actor="rotate",
                on_failure="raise",
                leaf_only=True,
                manual=True,
                is_forced=True,
            )
            report = compact(job, threshold_chain(decision, policy, time.monotonic()))
            if report.stop in _REFUSALS:
                return report.stop
            if not report.summary_ids or report.stop == "nothing left":
                return None
        return None

    # --- transcripts, without being asked ---

    def rotate_at_start(self, state_dir: str | os.PathLike[str]) -> StartReport:
        """Shorten the transcripts below a host's state folder that grew too large, as the settings say."""
        from lossless.lifecycle import autorotate

        limits = self._limits(self.settings.auto_rotate_session_files_startup)
        if limits.mode == "off":
            return autorotate.StartReport()
        indexed = autorotate.indexed_sessions(Path(state_dir))
        followed = {
            os.path.realpath(path): self.archive.conversations.get(id_)
            for id_, path, *_ in self.archive.transcripts.tracked()
        }
        found = autorotate.candidates(indexed, followed, lambda item: self._no_writes(item) is not None)
        return autorotate.at_start(found, len(indexed), limits, self._tools("auto-rotate"))

    def rotate_between_turns(
        self, session: Session | Conversation, path: str | os.PathLike[str], *, unsafe: str | None = None
    ) -> Action:
        """Look at the transcript's size after a turn; `unsafe` says why this is not the moment to rewrite it."""
        from lossless.lifecycle import autorotate

        limits, found = self._limits(self.settings.auto_rotate_session_files_runtime), self._find(session)
        size = autorotate.size_of(Path(path))
        if found is None or not found.active or size is None or self._no_writes(found) is not None:
            return "off"
        item = autorotate.Candidate(found, Path(path), size)
        blocked = self.archive.ingest.state(found.id).blocked_reason
        return autorotate.between_turns(item, limits, self._tools("rotate-latest"), unsafe or blocked)

    def _limits(self, mode: Mode) -> Limits:
        from lossless.lifecycle.autorotate import Limits

        enabled = self.settings.auto_rotate_session_files_enabled
        return Limits(self.settings.auto_rotate_session_files_size_bytes, mode if enabled else "off")

    def _tools(self, label: str) -> Tools:
        from lossless.lifecycle.autorotate import Tools

        wants = self.settings.auto_rotate_session_files_create_backups

        def copy() -> Path | None:
            return self.copy(label).path if wants else None

        return Tools(lambda who, path: self.rotate(who, path, backup=False), copy, self.log)

    def collect_transcript(
        self,
        session: Session | Conversation,
        path: str | os.PathLike[str],
        rewrite_entries: Callable[[Sequence[Replacement]], int],
        *,
        approved: bool,
    ) -> CollectReport:
        """Ask the host to replace old answers of tools in its transcript by their short form, if all agree to it."""
        from lossless.lifecycle import transcript_gc
        from lossless.lifecycle.tail import Unsafe, messages_of, path_of, records_of

        enabled = self.settings.transcript_gc_enabled
        try:
            data = Path(path).read_bytes() if enabled and approved else b""
            messages = list(messages_of(data, path_of(records_of(data)))) if data else []
        except (OSError, Unsafe) as error:
            return transcript_gc.CollectReport(reason=f"the transcript cannot be read: {error}")
        id_ = self._conversation(session).id
        return transcript_gc.collect(self.archive, id_, messages, rewrite_entries, enabled=enabled, approved=approved)
