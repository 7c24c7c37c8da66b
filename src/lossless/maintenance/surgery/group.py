"""`engine.surgery`: dissolve, rewrite, repair, transplant, merge and focus, each backed up, in one transaction and
undoable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from lossless.maintenance.engine_parts import EngineParts
    from lossless.maintenance.surgery.common import BackupMaker, ContextDiff, OperationReport
    from lossless.maintenance.surgery.focus import FocusStatus
    from lossless.maintenance.surgery.rewriting import DraftWriter, RewritePlan, SummaryDraft
    from lossless.model.conversations import SessionRef


class Surgery:
    """`engine.surgery`: changes what summaries say and where they are; backed up, in one transaction, undoable."""

    def __init__(self, parts: EngineParts) -> None:
        self._parts = parts

    def diff(
        self,
        session: SessionRef,
        after: int | datetime | None = None,
        through: int | datetime | None = None,
    ) -> ContextDiff:
        """What left the context and what entered it between two points of its log; by default, by the last change."""
        from lossless.maintenance.surgery import common

        return common.diff_context(self._parts.archive, self._parts.conversation(session).id, after, through)

    def dissolve(self, summary_id: str, *, purge: bool = False) -> OperationReport:
        """Put what a summary was made of back into the context, at its place; `purge` deletes the summary."""
        from lossless.maintenance.surgery import dissolve

        work = dissolve.plan_dissolve(self._parts.archive, summary_id, purge=purge)
        return dissolve.apply_dissolve(self._parts.archive, work, self._parts.clock(), self._parts.backups())

    def rewrite(
        self,
        session: SessionRef,
        *,
        summary_id: str | None = None,
        subtree: str | None = None,
        depth: int | None = None,
        everything: bool = False,
        extractive: bool = False,
        upward: bool = False,
        accept: Callable[[SummaryDraft], bool] | None = None,
    ) -> tuple[OperationReport | None, list[SummaryDraft]]:
        """Write summaries anew, bottom-up; returns what was done and every draft, refused ones with their reason.

        With `upward` those above that would no longer be smaller than their sources are written anew as well.
        Interrupted, it keeps what goes together of what was written, and then passes the interrupt on.
        """
        from lossless.maintenance.surgery import rewriting

        work = rewriting.plan_rewrite(
            self._parts.archive,
            self._parts.conversation(session).id,
            summary_id=summary_id,
            subtree=subtree,
            depth=depth,
            everything=everything,
            extractive=extractive,
            upward=upward,
        )
        return self._rewritten(work, accept)

    def repair(
        self, session: SessionRef, *, confirm: bool = False, summary_ids: Sequence[str] = ()
    ) -> tuple[OperationReport | None, list[SummaryDraft]]:
        """Write broken summaries anew; what speaks against it is BadInput unless `confirm` overrules it."""
        from lossless.errors import BadInput
        from lossless.maintenance import repair

        budget = self._parts.settings.default_token_budget
        found = repair.plan_repair(
            self._parts.archive, self._parts.conversation(session).id, budget, summary_ids=summary_ids
        )
        if found.blocked and not confirm:
            raise BadInput(f"the repair wants your word first: {'; '.join(found.blocked)}")
        return self._rewritten(found.plan, None)

    def transplant(self, source: SessionRef, target: SessionRef) -> OperationReport:
        """Copy a conversation's summaries, with all that is below them, to the head of another one's context."""
        from lossless.maintenance.surgery import merge

        work = merge.plan_transplant(
            self._parts.archive, self._parts.conversation(source).id, self._parts.conversation(target).id
        )
        return merge.apply_transplant(
            self._parts.archive, self._parts.vault, work, self._parts.clock(), self._parts.backups()
        )

    def merge(self, session_key: str, *, reviewed: bool = False) -> OperationReport:
        """Put conversations that a rollover split back together, in the active one."""
        from lossless.maintenance.surgery import merge

        work = merge.plan_merge(self._parts.archive, session_key, reviewed=reviewed)
        return merge.apply_merge(
            self._parts.archive, work, self._parts.clock(), self._parts.backups(), reviewed=reviewed
        )

    def focus(self, session: SessionRef, prompt: str | None = None) -> FocusStatus | None:
        """Write a brief for a question that stands for older summaries; without one, bring the active one up to date.

        A brief that cannot be written is recorded as failed, and the one before stays in use.
        """
        from lossless.maintenance.surgery import focus

        id_, summariser = self._parts.conversation(session).id, self._parts.loop.summariser
        seconds = self._parts.settings.delegation_timeout_ms / 1000
        work = focus.plan_focus(self._parts.archive, id_, prompt, self._parts.settings.max_expand_tokens, seconds)
        gate = summariser.gate(self._parts.archive, id_, self._parts.clock)
        chain = summariser.chain(gate) if summariser.has_model else None
        made = focus.write_focus(self._parts.archive, work, summariser, self._parts.clock(), chain)
        focus.apply_focus(self._parts.archive, work, made, self._parts.clock())
        return focus.focus_status(self._parts.archive, id_)

    def unfocus(self, session: SessionRef) -> OperationReport:
        """Put the active brief away: the summaries that it stood for are shown again."""
        from lossless.maintenance.surgery import focus

        return focus.unfocus(self._parts.archive, self._parts.conversation(session).id, self._parts.clock())

    def backups(self) -> BackupMaker:
        """How to copy the archive before a surgery; None where there is no file to copy."""
        return self._parts.backups()

    @property
    def writer(self) -> DraftWriter:
        """Who writes drafts of summaries here."""
        from lossless.maintenance.surgery.rewriting import DraftWriter

        return DraftWriter(self._parts.archive, self._parts.loop.summariser, self._parts.clock)

    def _rewritten(
        self, work: RewritePlan, accept: Callable[[SummaryDraft], bool] | None
    ) -> tuple[OperationReport | None, list[SummaryDraft]]:
        from lossless.maintenance.surgery import rewriting as rewrite_run

        made = rewrite_run.write_drafts(self.writer, work, accept)
        done = rewrite_run.place_drafts(self.writer, made, self._parts.backups())
        if made.stop == rewrite_run.INTERRUPTED:
            raise KeyboardInterrupt
        return done, made.drafts
