"""What an engine does with hosts' transcripts, and with the beginning and the end of sessions."""

from __future__ import annotations

import os
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
    from lossless.store.grants import Grant
    from lossless.store.transcripts import Epoch
    from lossless.transcripts.read import Transcript

#: More messages than this at once are an import; fewer are a turn, which is folded when it is time to.
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
        progress: Callable[[int], None] | None = None,
    ) -> TranscriptReport:
        """Store what a transcript has that the archive does not; again with the same one changes nothing.

        A transcript is a path, or the host's entries. What a first import brings stays as it is in its newest
        part; the older part is folded at once, without a model (`fold`). One that has nothing in common with what
        is stored is held back (`.status == "held"`) until someone accepts it. `after` and `cursor` are a host's
        own marks: entries that go on after the stored mark are new.
        """
        if (reason := self._no_writes(session)) is not None:
            return TranscriptReport(None, "excluded", reason=reason)
        from lossless.transcripts import read

        if isinstance(transcript, str | os.PathLike | read.Transcript):
            report = self._read_file(session, transcript, kind, lane, accept=accept, progress=progress)
        else:
            report = self._read_page(session, transcript, after, cursor, accept=accept)
        if fold and report.stored > _TURN and report.conversation_id is not None:
            self.fold_import(self.archive.conversations.get(report.conversation_id))
        return report

    def _reconcile(self, session: Session, transcript: str | os.PathLike[str]) -> TranscriptReport:
        """Read a transcript after a turn; a failure is reported, and the turn is stored all the same."""
        try:
            return self.bootstrap(session, transcript)
        except (LosslessError, OSError) as error:
            found = self._find(session)
            return TranscriptReport(None if found is None else found.id, "failed", reason=str(error))

    def _read_file(
        self,
        session: Session,
        transcript: str | os.PathLike[str] | Transcript,
        kind: str | None,
        lane: str | None,
        *,
        accept: bool,
        progress: Callable[[int], None] | None,
    ) -> TranscriptReport:
        from lossless.lifecycle.bootstrap import Asked, bootstrap
        from lossless.lifecycle.resume import resume
        from lossless.transcripts.read import open_transcript

        keep = self.settings.bootstrap_max_tokens
        asked = Asked(self.archive, session, lane, accept, keep, self._clock(), self._payloads, progress)
        if isinstance(transcript, str | os.PathLike):
            place = Path(transcript).absolute()
            resumed = resume(asked, place) if kind is None and not accept else None
            if resumed is not None:
                return resumed
            transcript = open_transcript(place, kind)
        return self._without_heartbeats(bootstrap(asked, transcript))

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
        """Take a transcript over that was held back."""
        self._held(conversation, path)
        return self.bootstrap(conversation.session, path, accept=True)

    def refuse_transcript(self, conversation: Conversation, path: str) -> None:
        """Never store anything of this transcript in this conversation, unless it begins with another header."""
        epoch = self._held(conversation, path)
        with self.archive.writing():
            self.archive.transcripts.settle(epoch, "refused", "someone refused it", self._clock())

    def _held(self, conversation: Conversation, path: str) -> Epoch:
        for epoch in self.archive.transcripts.held():
            if (epoch.conversation_id, epoch.path) == (conversation.id, path):
                return epoch
        raise NotFound("transcript that is held back", path)

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
