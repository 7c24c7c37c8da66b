"""`engine.surgery`: dissolve, rewrite, repair, transplant, merge and focus; backed up, transactional, undoable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from lossless.errors import BadInput
from lossless.maintenance import repair
from lossless.maintenance.engine_parts import EngineGroup, EngineParts, forward, of_parts
from lossless.maintenance.surgery import common, dissolve, focus, merge, rewriting

if TYPE_CHECKING:
    from lossless.compaction.compactor import Compactor
    from lossless.compaction.summarise import SummaryPrompt, SummarySource
    from lossless.maintenance.surgery.common import BackupMaker, OperationReport
    from lossless.maintenance.surgery.dissolve import DissolvePlan, UndoPlan
    from lossless.maintenance.surgery.focus import FocusStatus
    from lossless.maintenance.surgery.merge import MergePlan, TransplantPlan
    from lossless.maintenance.surgery.rewriting import RewritePlan, SummaryDraft
    from lossless.model.conversations import SessionRef

    #: The plans that `Surgery.apply` carries out.
    OperationPlan: TypeAlias = DissolvePlan | TransplantPlan | MergePlan | UndoPlan

_APPLY: dict[type, Callable[..., OperationReport]] = {
    dissolve.DissolvePlan: dissolve.apply_dissolve,
    dissolve.UndoPlan: dissolve.apply_undo,
    merge.MergePlan: merge.apply_merge,
    merge.TransplantPlan: merge.apply_transplant,
}


class Surgery(EngineGroup):
    """`engine.surgery`: changes the text and position of summaries; with backup, in one transaction, undoable."""

    backups = of_parts(EngineParts.backups)
    plan_dissolve = forward(lambda parts: parts.archive, dissolve.plan_dissolve)
    plan_transplant = of_parts(merge.plan_transplant)
    earlier_transplant = of_parts(merge.earlier_transplant)
    plan_merge = forward(lambda parts: parts.archive, merge.plan_merge)
    splits = forward(lambda parts: parts.archive, merge.find_splits)
    plan_undo = of_parts(dissolve.plan_undo)
    plan_rewrite = of_parts(rewriting.plan_rewrite)
    plan_repair = of_parts(repair.plan_repair)
    plan_focus = of_parts(focus.plan_focus)
    plan_unfocus = of_parts(focus.plan_unfocus)
    focus_status = of_parts(focus.focus_status)
    diff = of_parts(common.diff_context)
    write_focus = of_parts(focus.write_focus)
    apply_focus = of_parts(focus.apply_focus)
    unfocus = of_parts(focus.unfocus)
    write_drafts = forward(lambda parts: parts.loop, rewriting.write_drafts)
    place_drafts = of_parts(rewriting.place_drafts)

    def dissolve(self, summary_id: str, *, purge: bool = False) -> OperationReport:
        """Put the sources of a summary back into the context, in its place; `purge` deletes the summary."""
        return self.apply(self.plan_dissolve(summary_id, purge=purge))

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
        """Rewrite summaries bottom-up; returns the result and every draft, refused ones with their reason.

        With `upward`, summaries above that would no longer be smaller than their sources are rewritten as well. When
        interrupted, it keeps the consistent part of what was written, and then raises the interrupt again.
        """
        work = self.plan_rewrite(
            session,
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
        """Rewrite broken summaries; raises BadInput when that needs confirmation and `confirm` is not set."""
        plan, blocked = self.plan_repair(session, summary_ids=summary_ids)
        if blocked and not confirm:
            raise BadInput(f"the repair needs confirmation: {'; '.join(blocked)}")
        return self._rewritten(plan, None)

    def transplant(self, source: SessionRef, target: SessionRef) -> OperationReport:
        """Copy a conversation's summaries, with everything under them, to the start of another one's context."""
        return self.apply(self.plan_transplant(source, target))

    def merge(self, session_key: str, *, reviewed: bool = False) -> OperationReport:
        """Merge conversations that a rollover split into the active one."""
        return self.apply(self.plan_merge(session_key, reviewed=reviewed))

    def focus(self, session: SessionRef, prompt: str | None = None) -> FocusStatus | None:
        """Write a brief for a question that replaces older summaries; without one, update the active one.

        A brief that cannot be written is recorded as failed, and the previous one stays in use.
        """
        work = self.plan_focus(session, prompt)
        self.apply_focus(work, self.write_focus(work))
        return self.focus_status(work.conversation_id)

    def apply(self, plan: OperationPlan, backup: BackupMaker = None) -> OperationReport:
        """Carry a plan out, after a backup and in one transaction; `Stale` when it is no longer current."""
        return _APPLY[type(plan)](self._parts, plan, backup)

    @property
    def writer(self) -> Compactor:
        """Writes drafts of summaries."""
        return self._parts.loop

    def broken_conversations(self) -> list[int]:
        """The ids of conversations with broken summaries."""
        return sorted({id_ for id_, _, _ in repair.find_broken(self._archive)})

    def summary_source(self, summary_id: str) -> SummarySource:
        """What a summary was made of, as a model would get it."""
        return rewriting.summary_source(self._archive, self._parts.loop.summariser, summary_id, {})

    def preview_prompt(self, source: SummarySource) -> SummaryPrompt:
        """The first prompt for a summary of a source, as a model would get it."""
        return rewriting.preview_prompt(self._parts.loop.summariser, source)

    def _rewritten(
        self, work: RewritePlan, accept: Callable[[SummaryDraft], bool] | None
    ) -> tuple[OperationReport | None, list[SummaryDraft]]:
        made = self.write_drafts(work, accept)
        done = self.place_drafts(made)
        if made.stop == rewriting.INTERRUPTED:
            raise KeyboardInterrupt
        return done, made.drafts
