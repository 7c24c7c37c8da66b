"""Shortening the transcripts that sessions follow: on demand, at a host's start, between turns."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.compaction.trigger import FAILED_STOPS
from lossless.lifecycle.naming import imported_from

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lossless.desk import EngineParts
    from lossless.lifecycle.autorotate import Action, Limits, Mode, StartReport, Tools
    from lossless.lifecycle.reports import TranscriptReport
    from lossless.lifecycle.rotate import RotateReport
    from lossless.lifecycle.transcribing import Transcripts
    from lossless.lifecycle.transcript_gc import CollectReport, Replacement
    from lossless.model.conversations import Conversation, Session, SessionRef

#: Sweeps that fold what is outside the tail before a transcript is rewritten.
_SWEEPS = 50
#: Endings of a sweep after which no transcript is rewritten.
_REFUSALS = FAILED_STOPS | {"busy", "stale"}


class Rotation:
    """`engine.rotation`: rewrites transcripts to their tails, once all of them is stored. Deletes nothing stored."""

    def __init__(self, parts: EngineParts, transcripts: Transcripts) -> None:
        self._parts, self._transcripts = parts, transcripts
        #: From which size on a transcript that is too large is worth another line in the log.
        self._noted_sizes: dict[str, int] = {}

    def follow(self, session: Session, transcript: str | os.PathLike[str]) -> TranscriptReport:
        """Read a transcript on a turn's path, write down what kept it from being stored, and look at its size."""
        report = self._transcripts.reconcile(session, transcript)
        if report.status in ("failed", "held"):
            fields = {"conversationId": report.conversation_id, "status": report.status, "reason": report.reason}
            self._parts.log.log("transcript", "warning", path=str(transcript), **fields)
        size, name = report.size or 0, str(transcript)
        if size > self._noted_sizes.get(name, self._parts.settings.auto_rotate_session_files_size_bytes):
            self._noted_sizes[name] = size + size // 4
            self.between_turns(session, transcript, unsafe="a turn is going on")
        return report

    def rotate(
        self,
        session: SessionRef,
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

        found = self._parts.find(session)
        found = None if found is None else self._parts.archive.conversations.get(found.id)
        point = None if found is None else self._parts.archive.transcripts.checkpoint(found.id)
        followed = None if point is None or not point.path else Path(point.path)
        place = followed or Path() if path is None else Path(path)
        reason = self._why_not(found, place, place if reconcile else followed)
        if reason is not None or found is None:
            return RotateReport(place, reason=reason)
        conversation = found
        tail_count = self._parts.loop.policy(self._parts.request(conversation, None)).fresh_tail_count
        if dry_run:
            return plan(place, tail_count)
        steps = Steps(
            unstored_in(self._parts.archive, conversation.id),
            reconcile or (lambda: self._reconciled(conversation, place)),
            lambda: self._folded(conversation),
            keep_in(self._parts.archive, conversation.id),
            (lambda: self._parts.copy(ROLLING).path) if backup else lambda: None,
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
        if (reason := self._parts.no_writes(found)) is not None:
            return reason
        if followed is None or os.path.realpath(place) != os.path.realpath(followed):
            return "the conversation does not follow this transcript"
        if (blocked := self._parts.archive.ingest.state(found.id).blocked_reason) is not None:
            return f"input is refused: {blocked}"
        if any(epoch.conversation_id == found.id for epoch in self._parts.archive.transcripts.held()):
            return "a transcript is held back and waits for a decision"
        return self._model_rests(found.id)

    def _model_rests(self, conversation_id: int) -> str | None:
        """Why no model would be asked now, if one is configured."""
        summariser = self._parts.loop.summariser
        return summariser.gate(self._parts.archive, conversation_id, self._parts.clock).resting(summariser.candidates())

    def _reconciled(self, conversation: Conversation, place: Path) -> str | None:
        """Bring the transcript into the archive; why that did not work, or None."""
        report = self._transcripts.bootstrap(conversation.session, place)
        if report.conversation_id != conversation.id:
            return "the session goes on in another conversation"
        if report.status in ("stored", "up to date") and not report.bad_lines:
            return None
        return f"the transcript is not in the archive: {report.reason or report.status}"

    def _checkpointed(self, conversation: Conversation, place: Path) -> int | None:
        from lossless.lifecycle.ages import count_anew
        from lossless.transcripts.read import open_transcript

        count_anew(self._parts.archive, conversation.id, open_transcript(place).path())
        self._transcripts.bootstrap(conversation.session, place)
        point = self._parts.archive.transcripts.checkpoint(conversation.id)
        return None if point is None else point.size

    def _folded(self, conversation: Conversation) -> str | None:
        """Fold everything outside the tail into leaves; why that did not work, or None."""
        from lossless.compaction.run import Job, compact
        from lossless.compaction.trigger import threshold_chain

        situation = self._parts.request(conversation, None)
        policy = self._parts.loop.policy(situation)
        for _ in range(_SWEEPS):
            decision = self._parts.loop.evaluate(situation)
            job = Job(
                archive=self._parts.archive,
                conversation_id=conversation.id,
                policy=policy,
                decision=decision,
                summariser=self._parts.loop.summariser,
                clock=self._parts.clock,
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

    def at_start(self, state_dir: str | os.PathLike[str]) -> StartReport:
        """Shorten the transcripts below a host's state folder that grew too large, as the settings say."""
        from lossless.lifecycle import autorotate

        limits = self._limits(self._parts.settings.auto_rotate_session_files_startup)
        if limits.mode == "off":
            return autorotate.StartReport()
        indexed = autorotate.indexed_sessions(Path(state_dir))
        followed = {
            os.path.realpath(path): self._parts.archive.conversations.get(id_)
            for id_, path, *_ in self._parts.archive.transcripts.tracked()
        }
        found = autorotate.candidates(indexed, followed, lambda item: self._parts.no_writes(item) is not None)
        return autorotate.at_start(found, len(indexed), limits, self._tools("auto-rotate"))

    def between_turns(self, session: SessionRef, path: str | os.PathLike[str], *, unsafe: str | None = None) -> Action:
        """Look at the transcript's size after a turn; `unsafe` says why this is not the moment to rewrite it."""
        from lossless.lifecycle import autorotate

        limits, found = self._limits(self._parts.settings.auto_rotate_session_files_runtime), self._parts.find(session)
        size = autorotate.size_of(Path(path))
        if found is None or not found.active or size is None or self._parts.no_writes(found) is not None:
            return "off"
        item = autorotate.Candidate(found, Path(path), size)
        blocked = self._parts.archive.ingest.state(found.id).blocked_reason
        return autorotate.between_turns(item, limits, self._tools("rotate-latest"), unsafe or blocked)

    def _limits(self, mode: Mode) -> Limits:
        from lossless.lifecycle.autorotate import Limits

        enabled = self._parts.settings.auto_rotate_session_files_enabled
        return Limits(self._parts.settings.auto_rotate_session_files_size_bytes, mode if enabled else "off")

    def _tools(self, label: str) -> Tools:
        from lossless.lifecycle.autorotate import Tools

        wants = self._parts.settings.auto_rotate_session_files_create_backups

        def copy() -> Path | None:
            return self._parts.copy(label).path if wants else None

        return Tools(lambda who, path: self.rotate(who, path, backup=False), copy, self._parts.log)

    def collect(
        self,
        session: SessionRef,
        path: str | os.PathLike[str],
        rewrite_entries: Callable[[Sequence[Replacement]], int],
        *,
        approved: bool,
    ) -> CollectReport:
        """Ask the host to replace old answers of tools in its transcript by their short form, if all agree to it."""
        from lossless.lifecycle import transcript_gc
        from lossless.lifecycle.tail import Unsafe, messages_of, path_of, records_of

        enabled = self._parts.settings.transcript_gc_enabled
        try:
            data = Path(path).read_bytes() if enabled and approved else b""
            messages = list(messages_of(data, path_of(records_of(data)))) if data else []
        except (OSError, Unsafe) as error:
            return transcript_gc.CollectReport(reason=f"the transcript cannot be read: {error}")
        id_ = self._parts.conversation(session).id
        return transcript_gc.collect(
            self._parts.archive, id_, messages, rewrite_entries, enabled=enabled, approved=approved
        )
