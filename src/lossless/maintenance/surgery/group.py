"""`engine.surgery`: dissolve, rewrite, repair, transplant, merge and focus; backed up, transactional, undoable."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from lossless.errors import BadInput
from lossless.maintenance import repair
from lossless.maintenance.engine_parts import EngineGroup, EngineParts, forward, forward_session
from lossless.maintenance.surgery import common, dissolve, focus, merge, rewriting
from lossless.maintenance.surgery.rewriting import DraftWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lossless.compaction.summarise import SummaryPrompt, SummarySource
    from lossless.maintenance.surgery.common import BackupMaker, OperationReport
    from lossless.maintenance.surgery.dissolve import DissolvePlan, UndoPlan
    from lossless.maintenance.surgery.focus import FocusDraft, FocusPlan, FocusStatus
    from lossless.maintenance.surgery.merge import MergePlan, TransplantPlan
    from lossless.maintenance.surgery.rewriting import DraftedPlan, RewritePlan, SummaryDraft
    from lossless.model.conversations import SessionRef

    #: The plans that `Surgery.apply` carries out.
    OperationPlan: TypeAlias = DissolvePlan | TransplantPlan | MergePlan | UndoPlan


class Surgery(EngineGroup):
    """`engine.surgery`: changes the text and position of summaries; with backup, in one transaction, undoable."""

    backups = forward(lambda parts: parts, EngineParts.backups)
    plan_dissolve = forward(lambda parts: parts.archive, dissolve.plan_dissolve)
    plan_merge = forward(lambda parts: parts.archive, merge.plan_merge)
    splits = forward(lambda parts: parts.archive, merge.find_splits)
    plan_undo = forward_session(dissolve.plan_undo)
    plan_rewrite = forward_session(rewriting.plan_rewrite)
    plan_unfocus = forward_session(focus.plan_unfocus)
    focus_status = forward_session(focus.focus_status)
    diff = forward_session(common.diff_context)

    def plan_transplant(
        self, source: SessionRef | int, target: SessionRef | int, summary_ids: Sequence[str] = ()
    ) -> TransplantPlan:
        """What a transplant of the summaries in a context, or of some of them, would copy."""
        ids = self._parts.conversation_id(source), self._parts.conversation_id(target)
        return merge.plan_transplant(self._archive, *ids, summary_ids)

    def earlier_transplant(self, source: SessionRef | int, target: SessionRef | int) -> tuple[str, ...] | None:
        """What the newest transplant between two conversations copied, unless it was undone; None without one."""
        ids = self._parts.conversation_id(source), self._parts.conversation_id(target)
        return merge.earlier_transplant(self._archive, *ids)

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

    def unfocus(self, session: SessionRef) -> OperationReport:
        """Deactivate the brief: the summaries that it replaced are shown again."""
        return focus.unfocus(self._archive, self._parts.conversation_id(session), self._parts.clock())

    @property
    def writer(self) -> DraftWriter:
        """Writes drafts of summaries."""
        return DraftWriter(self._archive, self._parts.loop.summariser, self._parts.clock)

    def _rewritten(
        self, work: RewritePlan, accept: Callable[[SummaryDraft], bool] | None
    ) -> tuple[OperationReport | None, list[SummaryDraft]]:
        made = self.write_drafts(work, accept)
        done = self.place_drafts(made)
        if made.stop == rewriting.INTERRUPTED:
            raise KeyboardInterrupt
        return done, made.drafts

    def plan_repair(
        self, session: SessionRef | int, budget: int | None = None, *, summary_ids: Sequence[str] = ()
    ) -> tuple[RewritePlan, list[str]]:
        """Which broken summaries would be rewritten, and why that needs confirmation."""
        budget = budget or self._parts.settings.default_token_budget
        id_ = self._parts.conversation_id(session)
        return repair.plan_repair(self._archive, id_, budget, summary_ids=summary_ids)

    def broken_conversations(self) -> list[int]:
        """The ids of conversations with broken summaries."""
        return sorted({id_ for id_, _, _ in repair.find_broken(self._archive)})

    def plan_focus(self, session: SessionRef | int, prompt: str | None = None) -> FocusPlan:
        """What a brief for a question would cover; without one, the active brief is updated."""
        settings, id_ = self._parts.settings, self._parts.conversation_id(session)
        seconds = settings.delegation_timeout_ms / 1000
        return focus.plan_focus(self._archive, id_, prompt, settings.max_expand_tokens, seconds)

    def summary_source(self, summary_id: str) -> SummarySource:
        """What a summary was made of, as a model would get it."""
        return rewriting.summary_source(self._archive, self._parts.loop.summariser, summary_id, {})

    def preview_prompt(self, source: SummarySource) -> SummaryPrompt:
        """The first prompt for a summary of a source, as a model would get it."""
        return rewriting.preview_prompt(self._parts.loop.summariser, source)

    def apply(self, plan: OperationPlan, backup: BackupMaker = None) -> OperationReport:
        """Carry a plan out, after a backup and in one transaction; `Stale` when it is no longer current."""
        archive, now, copy = self._archive, self._parts.clock(), backup or self._parts.backups()
        if isinstance(plan, dissolve.DissolvePlan):
            return dissolve.apply_dissolve(archive, plan, now, copy)
        if isinstance(plan, merge.TransplantPlan):
            return merge.apply_transplant(archive, self._parts.vault, plan, now, copy)
        if isinstance(plan, merge.MergePlan):
            return merge.apply_merge(archive, plan, now, copy, reviewed=plan.split.review is not None)
        return dissolve.apply_undo(archive, plan, now, copy)

    def write_focus(self, plan: FocusPlan) -> FocusDraft:
        """Write the planned brief without activating it; `.error` says why it could not be written."""
        parts, summariser = self._parts, self._parts.loop.summariser
        gate = summariser.gate(parts.archive, plan.conversation_id, parts.clock)
        chain = summariser.chain(gate) if summariser.has_model else None
        return focus.write_focus(parts.archive, plan, summariser, parts.clock(), chain)

    def apply_focus(self, plan: FocusPlan, made: FocusDraft) -> OperationReport:
        """Activate a brief, in place of the previous one; one with an error is only recorded."""
        return focus.apply_focus(self._archive, plan, made, self._parts.clock())

    def write_drafts(
        self,
        plan: RewritePlan,
        accept: Callable[[SummaryDraft], bool] | None = None,
        on_draft: Callable[[SummaryDraft], None] | None = None,
    ) -> DraftedPlan:
        """Write a plan's drafts, without storing them; see `rewriting.write_drafts`."""
        return rewriting.write_drafts(self.writer, plan, accept, on_draft)

    def place_drafts(self, made: DraftedPlan, backup: BackupMaker = None) -> OperationReport | None:
        """Store the usable drafts, after a backup, in one transaction; None when there are none."""
        if not made.usable:
            return None
        copy, now = backup or self._parts.backups(), self._parts.clock()
        return rewriting.apply_rewrite(self._archive, made.work, made.usable, now, copy, remaining=made.left)
