"""What an engine does with hosts' transcripts, and with the beginning and the end of sessions."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.desk import Desk
from lossless.errors import LosslessError, NotFound
from lossless.lifecycle import sessions
from lossless.lifecycle.reports import TranscriptReport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lossless.compaction.escalate import Written
    from lossless.compaction.plan import Pass
    from lossless.compaction.run import CompactionReport
    from lossless.lifecycle.sessions import NewReport
    from lossless.model.conversations import Conversation, Session
    from lossless.model.messages import Incoming, JsonObject, Message
    from lossless.store.conversations import Quarantined
    from lossless.store.grants import Grant
    from lossless.store.transcripts import Checkpoint, Epoch
    from lossless.transcripts.entries import BadLine, Entry
    from lossless.transcripts.read import Transcript

#: More messages than this at once are no turn; a turn is folded when it is time to.
_TURN = 500


class Transcribing(Desk):
    """Keeps the host's transcripts and sessions and the archive one history."""

    def bootstrap(
        self,
        session: Session,
        transcript: str | os.PathLike[str] | Transcript | Iterable[Incoming | Message | JsonObject],
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
        """Store what a transcript has that the archive does not; again with the same one changes nothing.

        A transcript is a path, or the host's entries. What a first import brings stays as it is in its newest
        part; the older part is folded at once, without a model (`fold`). One that has nothing in common with what
        is stored is held back (`.status == "held"`) until someone accepts it. `after` and `cursor` are a host's
        own marks: entries that go on after the stored mark are new, and a page that leaves a gap is not taken
        (`.status == "failed"`). What was deleted for good comes back only with `again`.
        """
        if (reason := self._no_writes(session)) is not None:
            return TranscriptReport(None, "excluded", reason=reason)
        from lossless.transcripts import read

        is_first = fold and self._is_first(session)
        if isinstance(transcript, str | os.PathLike | read.Transcript):
            report = self._read_file(session, transcript, kind, lane, accept=accept, again=again, progress=progress)
        else:
            report = self._read_page(session, transcript, after, cursor, accept=accept)
        if report.conversation_id is not None:
            self._extract_stale(report.conversation_id)
        if fold:
            self._fold_after(report, 0 if is_first else _TURN)
        return report

    def _extract_stale(self, conversation_id: int) -> None:
        """Write summaries anew that were extracted from what has changed by now."""
        if self.archive.summaries.stale(conversation_id):
            from lossless.revising.stale import extract_stale

            extract_stale(self.archive, conversation_id, self.loop.summariser, self._clock())

    def _write_stale(self, conversation_id: int) -> None:
        """Before a sweep, write all summaries anew below which something changed."""
        if self.archive.summaries.stale(conversation_id):
            from lossless.revising.stale import write_stale

            write_stale(self.archive, conversation_id, self.loop.summariser, self._clock)

    def _is_first(self, session: Session) -> bool:
        """Whether nothing was said in a session before a transcript of it was read to its end for the first time."""
        found = self.archive.conversations.find(session)
        if found is None:
            return not self.archive.conversations.family(session)
        if found.bootstrapped_at is not None or self.archive.conversations.former(found) is not None:
            return False
        point = self.archive.transcripts.checkpoint(found.id)
        return (point is not None and bool(point.path)) or self.archive.messages.newest_id(found.id) is None

    def _fold_after(self, report: TranscriptReport, most: int) -> None:
        """Fold what a reading brought, if those are more messages than a turn may have."""
        if report.stored > most and report.conversation_id is not None:
            self.fold_import(self.archive.conversations.get(report.conversation_id))

    def _reconcile(self, session: Session, transcript: str | os.PathLike[str]) -> TranscriptReport:
        """Read a transcript after a turn; a failure is reported, and the turn is stored all the same."""
        try:
            report = self.bootstrap(session, transcript, fold=False)
            self._fold_after(report, _TURN)
        except (LosslessError, OSError) as error:
            found = self._find(session)
            return TranscriptReport(None if found is None else found.id, "failed", reason=str(error))
        return report

    def _read_file(
        self,
        session: Session,
        transcript: str | os.PathLike[str] | Transcript,
        kind: str | None,
        lane: str | None,
        *,
        accept: bool,
        again: bool = False,
        into: Conversation | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> TranscriptReport:
        from lossless.lifecycle.bootstrap import Asked, bootstrap
        from lossless.lifecycle.resume import resume
        from lossless.transcripts.read import open_transcript

        keep = self.settings.bootstrap_max_tokens
        asked = Asked(self.archive, session, lane, accept, keep, self._clock(), self._payloads, progress, into, again)
        found = into or self.archive.conversations.find(session)
        before = None if found is None else self.archive.transcripts.checkpoint(found.id)
        if isinstance(transcript, str | os.PathLike):
            place = Path(transcript).absolute()
            resumed = resume(asked, place) if kind is None and not accept and not again else None
            if resumed is not None:
                return self._with_grown(resumed, place, lane, before)
            transcript = open_transcript(place, kind)
        report = self._without_heartbeats(bootstrap(asked, transcript))
        return self._with_grown(report, transcript, lane, before)

    def _with_grown(
        self, report: TranscriptReport, read: Path | Transcript, lane: str | None, before: Checkpoint | None
    ) -> TranscriptReport:
        """Take over what was read before it was finished: of a whole transcript, or of what was added to a file."""
        from lossless.lifecycle.grown import Reread, take_grown
        from lossless.lifecycle.stream import of_lane
        from lossless.transcripts.read import added_to

        if report.conversation_id is None or report.status not in ("stored", "up to date"):
            return report
        entries: Callable[[], Iterable[Entry | BadLine]]
        if isinstance(read, Path):
            if before is None or report.replayed <= report.stamped:
                return report
            added = added_to(read, before.kind or "openclaw", before.offset, (before.lines or 0) + 1)
            entries = partial(iter, list(of_lane(added, lane)))
        else:
            after = self.archive.transcripts.checkpoint(report.conversation_id)
            if not report.replayed and (before is None or before == after):
                return report
            entries = partial(read.path, lane)
        conversation = self.archive.conversations.get(report.conversation_id)
        revised, stored = take_grown(Reread(self.archive, conversation, entries, self._clock(), self._payloads))
        if not revised and not stored:
            return report
        return replace(report, status="stored", revised=report.revised + revised, stored=report.stored + stored)

    def _without_heartbeats(self, report: TranscriptReport) -> TranscriptReport:
        """After a whole reading, hide old heartbeats where that is wanted."""
        from lossless.ingest.quiet import hide_quiet_history

        if self.settings.prune_heartbeat_ok and report.conversation_id is not None:
            with self.archive.writing():
                conversation = self.archive.conversations.get(report.conversation_id)
                hide_quiet_history(self.archive, conversation, self._clock())
        return report

    def _newest(self, session: Session) -> int:
        """The newest message of a session; 0 when there is none."""
        found = self._find(session)
        return 0 if found is None else self.archive.messages.newest_id(found.id) or 0

    def _hide_heartbeat(self, conversation_id: int, after: int) -> None:
        """Take a turn that the host calls a heartbeat out of the context, if it had nothing to say."""
        from lossless.ingest.quiet import hide_heartbeat

        with self.archive.writing():
            hide_heartbeat(self.archive, self.archive.conversations.get(conversation_id), after, self._clock())

    def _read_page(
        self,
        session: Session,
        items: Iterable[Incoming | Message | JsonObject],
        after: str | None,
        cursor: str | None,
        *,
        accept: bool,
    ) -> TranscriptReport:
        from lossless.lifecycle.pages import take_page
        from lossless.transcripts.pages import entries_of

        report = take_page(
            self.archive,
            session,
            entries_of(items),
            after=after,
            cursor=cursor,
            accept=accept,
            now=self._clock(),
            payloads=self._payloads,
        )
        return self._without_heartbeats(report) if after is None else report

    def cursor(self, session: Session | Conversation) -> str | None:
        """The host's own mark of how far its transcript is stored."""
        found = self._find(session)
        point = None if found is None else self.archive.transcripts.checkpoint(found.id)
        return None if point is None else point.cursor

    def held_transcripts(self) -> list[Epoch]:
        """Transcripts that wait for a decision: `accept_transcript` or `refuse_transcript`."""
        return self.archive.transcripts.held()

    def accept_transcript(self, conversation: Conversation, path: str) -> TranscriptReport:
        """Take a transcript over that was held back or refused, into the conversation for which it was."""
        transcripts = self.archive.transcripts
        self._waiting(conversation, path, [*transcripts.held(), *transcripts.refused()])
        if (reason := self._no_writes(conversation)) is not None:
            return TranscriptReport(None, "excluded", reason=reason)
        report = self._read_file(conversation.session, path, None, None, accept=True, into=conversation)
        self._fold_after(report, _TURN)
        return report

    def refuse_transcript(self, conversation: Conversation, path: str) -> None:
        """Store nothing strange of this transcript, unless it begins with another header or somebody accepts it."""
        epoch = self._waiting(conversation, path, self.archive.transcripts.held())
        with self.archive.writing():
            self.archive.transcripts.settle(epoch, "refused", "someone refused it", self._clock())

    def refused_transcripts(self) -> list[Epoch]:
        """Transcripts that were refused; `accept_transcript` takes that back."""
        return self.archive.transcripts.refused()

    def _waiting(self, conversation: Conversation, path: str, epochs: list[Epoch]) -> Epoch:
        for epoch in epochs:
            if (epoch.conversation_id, epoch.path) == (conversation.id, path):
                return epoch
        raise NotFound("transcript that is held back", path)

    # --- what is quarantined ---

    def quarantined(self) -> list[Quarantined]:
        """Conversations of windows that had nothing in common with their sessions, and what was decided about each."""
        return self.archive.conversations.quarantined()

    def accept_quarantined(self, conversation_id: int) -> Conversation:
        """Let a quarantined conversation be its session's active one; the one that was it is closed, and is kept."""
        from lossless.lifecycle.quarantine import accept

        return accept(self.archive, conversation_id, self._clock())

    def refuse_quarantined(self, conversation_id: int) -> Quarantined:
        """Keep a quarantined conversation out of every prompt; it stays in the archive."""
        from lossless.lifecycle.quarantine import refuse

        return refuse(self.archive, conversation_id, self._clock())

    # --- sessions ---

    def new(self, session: Session | Conversation, *, retain_depth: int | None = None) -> NewReport:
        """Begin afresh in the same conversation: the context keeps only summaries of at least `retain_depth`."""
        depth = self.settings.new_session_retain_depth if retain_depth is None else retain_depth
        return sessions.new(self.archive, self._conversation(session), depth, self._clock())

    def reset(self, session: Session | Conversation, *, cause: str = "manual-reset") -> Conversation:
        """Close the conversation with a cause and begin another under the same key; recall still finds the old one."""
        return sessions.reset(self.archive, session, cause, self._clock())

    def end(self, session: Session, reason: str) -> Conversation | None:
        """A host says that a session has ended: restarts change nothing, `deleted` closes it, others begin afresh."""
        if self._no_writes(session) is not None:
            return None
        return sessions.end(self.archive, session, reason, self._clock())

    def subagent_starts(self, parent: Session, child: str) -> Grant | None:
        """Let a sub-agent read what its parent may read, until it ends; None when there is nothing to read."""
        from lossless.recall.grants import issue_for_child

        family = [] if self._no_writes(parent) else self.archive.conversations.family(parent)
        if not family:
            return None
        ids = [conversation.id for conversation in family]
        limit = self.settings.max_expand_tokens
        return issue_for_child(self.archive, parent.name, child, ids, limit, self._clock())

    def subagent_ended(self, child: str, *, deleted: bool = False) -> None:
        """A sub-agent has ended, and with it what it may read."""
        from lossless.recall.grants import end_child

        end_child(self.archive, child, self._clock(), deleted=deleted)

    def fold_import(
        self,
        conversation: Conversation,
        *,
        may_ask_model: bool = False,
        most: int | None = None,
        progress: Callable[[Pass, Written | None], None] | None = None,
    ) -> CompactionReport | None:
        """Fold what an import brought but for its newest part, so that all of it is at hand; None if it is short.

        Without a model unless one may be asked; `most` is how many summaries are made at most.
        """
        if self.archive.context_tokens(conversation.id) <= self.settings.bootstrap_max_tokens:
            return None
        situation = self._situation(conversation, None)
        return self.loop.fold_import(situation, may_ask_model=may_ask_model, most=most, progress=progress)
