"""What the owner of an archive does to it by name: surgery, focus and the doctor, as methods of an engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from lossless.desk import Desk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from lossless.doctor.examine import Examination
    from lossless.model.conversations import Conversation, Session
    from lossless.revising.focus import FocusStatus
    from lossless.revising.rewriting import Draft, RewritePlan, Writer
    from lossless.surgery.history import ContextDiff
    from lossless.surgery.outcome import Backup, Operated


class Operating(Desk, ABC):
    """Changes what summaries say and where they stand: each call after a backup, in one transaction, undoable."""

    def undo(self, session: Session | Conversation) -> Operated:
        """Take back the last fold, surgery or focus of a conversation; called again, the one before it."""
        from lossless.surgery import undo

        id_ = self._number(session)
        return undo.apply(self.archive, undo.plan(self.archive, id_), self._clock(), self._backups())

    def context_diff(
        self,
        session: Session | Conversation,
        after: int | datetime | None = None,
        through: int | datetime | None = None,
    ) -> ContextDiff:
        """What left the context and what entered it between two points of its log; by default, by the last change."""
        from lossless.surgery import history

        return history.between(self.archive, self._number(session), after, through)

    def dissolve(self, summary_id: str, *, purge: bool = False) -> Operated:
        """Put what a summary was made of back into the context, at its place; `purge` deletes the summary."""
        from lossless.surgery import dissolve

        work = dissolve.plan(self.archive, summary_id, purge=purge)
        return dissolve.apply(self.archive, work, self._clock(), self._backups())

    def rewrite(
        self,
        session: Session | Conversation,
        *,
        summary_id: str | None = None,
        subtree: str | None = None,
        depth: int | None = None,
        everything: bool = False,
        extractive: bool = False,
        upward: bool = False,
        accept: Callable[[Draft], bool] | None = None,
    ) -> tuple[Operated | None, list[Draft]]:
        """Write summaries anew, bottom-up; returns what was done and every draft, refused ones with their reason.

        With `upward` those above that would no longer be smaller than their sources are written anew as well.
        Interrupted, it keeps what goes together of what was written, and then passes the interrupt on.
        """
        from lossless.revising import rewriting

        work = rewriting.plan(
            self.archive,
            self._number(session),
            summary_id=summary_id,
            subtree=subtree,
            depth=depth,
            everything=everything,
            extractive=extractive,
            upward=upward,
        )
        return self._rewritten(work, accept)

    def repair(
        self, session: Session | Conversation, *, confirm: bool = False, summary_ids: Sequence[str] = ()
    ) -> tuple[Operated | None, list[Draft]]:
        """Write broken summaries anew; what speaks against it is BadInput unless `confirm` overrules it."""
        from lossless.doctor import repair
        from lossless.errors import BadInput

        budget = self.settings.default_token_budget
        found = repair.plan(self.archive, self._number(session), budget, summary_ids=summary_ids)
        if found.blocked and not confirm:
            raise BadInput(f"the repair wants your word first: {'; '.join(found.blocked)}")
        return self._rewritten(found.plan, None)

    def transplant(self, source: Session | Conversation, target: Session | Conversation) -> Operated:
        """Copy a conversation's summaries, with all that is below them, to the head of another one's context."""
        from lossless.surgery import transplant

        work = transplant.plan(self.archive, self._number(source), self._number(target))
        return transplant.apply(self.archive, self.vault, work, self._clock(), self._backups())

    def merge(self, session_key: str, *, reviewed: bool = False) -> Operated:
        """Put conversations that a rollover split back together, in the active one."""
        from lossless.surgery import merge

        work = merge.plan(self.archive, session_key, reviewed=reviewed)
        return merge.apply(self.archive, work, self._clock(), self._backups(), reviewed=reviewed)

    def focus(self, session: Session | Conversation, prompt: str | None = None) -> FocusStatus | None:
        """Write a brief for a question that stands for older summaries; without one, bring the active one up to date.

        A brief that cannot be written is recorded as failed, and the one before stays in use.
        """
        from lossless.revising import focus

        id_, summariser = self._number(session), self.loop.summariser
        seconds = self.settings.delegation_timeout_ms / 1000
        work = focus.plan(self.archive, id_, prompt, self.settings.max_expand_tokens, seconds)
        gate = summariser.gate(self.archive, id_, self._clock)
        chain = summariser.chain(gate) if summariser.has_model else None
        made = focus.write(self.archive, work, summariser, self._clock(), chain)
        focus.apply(self.archive, work, made, self._clock())
        return focus.status(self.archive, id_)

    def unfocus(self, session: Session | Conversation) -> Operated:
        """Put the active brief away: the summaries that it stood for are shown again."""
        from lossless.revising import focus

        return focus.unfocus(self.archive, self._number(session), self._clock())

    def examine(self, *, ask_models: bool = False) -> Examination:
        """Everything that can be wrong with the archive, each with what helps; reads only."""
        from lossless.doctor.examine import examine

        summariser = self.loop.summariser if ask_models else None
        return examine(self.archive, self._clock(), vault=self.vault, summariser=summariser)

    @property
    def writer(self) -> Writer:
        """Who writes drafts of summaries here."""
        from lossless.revising.rewriting import Writer

        return Writer(self.archive, self.loop.summariser, self._clock)

    def _rewritten(
        self, work: RewritePlan, accept: Callable[[Draft], bool] | None
    ) -> tuple[Operated | None, list[Draft]]:
        from lossless.revising import run as rewrite_run

        made = rewrite_run.write(self.writer, work, accept)
        done = rewrite_run.place(self.writer, made, self._backups())
        if made.stop == rewrite_run.INTERRUPTED:
            raise KeyboardInterrupt
        return done, made.drafts

    def _number(self, session: Session | Conversation) -> int:
        return self._conversation(session).id

    @abstractmethod
    def _backups(self) -> Backup:
        """Who makes the copy before a surgery; None where there is no file to copy."""
