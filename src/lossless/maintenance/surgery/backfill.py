"""Folds a stored history except its newest part, optionally from scratch or to a single root; and plans that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from lossless.compaction import plan
from lossless.compaction.compactor import CompactionRequest, Compactor, first_import_policy
from lossless.compaction.run import read_source
from lossless.compaction.source_text import SourceMessage, SourceSummary
from lossless.maintenance.surgery import dissolve
from lossless.model.context import CallIds, ContextItem, MessageItem, SummaryItem, budget_sum, fresh_tail_start

if TYPE_CHECKING:
    from lossless.compaction.plan import Pass
    from lossless.compaction.summarise import SummarySource, WrittenSummary
    from lossless.model.conversations import Conversation
    from lossless.store.archive import Archive

Progress: TypeAlias = "Callable[[Pass, WrittenSummary | None], None] | None"

#: No time limit: the user asked for all of it.
_UNLIMITED = 2**53 - 1
SHORT_ENOUGH = "it is already short enough"


@dataclass(frozen=True, slots=True)
class BackfillOptions:
    may_ask_model: bool = False
    #: How many of the newest messages stay verbatim; None keeps the newest `bootstrapMaxTokens`.
    fresh_tail: int | None = None
    #: Expand summaries to their messages first, and fold everything again.
    recompact: bool = False
    #: Fold until one summary covers all.
    single_root: bool = False


@dataclass(frozen=True, slots=True)
class BackfillReport:
    tokens_before: int
    tokens_after: int
    reason: str
    summary_ids: tuple[str, ...] = ()
    calls: int = 0
    #: The error code of a model failure; later summaries were extracted.
    failure: str | None = None
    #: How many summaries were expanded first.
    unfolded: int = 0
    #: How many summaries precede the fresh tail, when one was requested.
    roots: int | None = None
    #: Whether a repeated run would find nothing to do.
    ok: bool = True


def backfill_history(
    loop: Compactor,
    conversation: Conversation,
    how: BackfillOptions,
    *,
    limit: int | None = None,
    progress: Progress = None,
) -> BackfillReport:
    """Fold a history; a repeated run with the same options changes nothing, unless it is folded again from messages.

    Each summary is its own transaction: an interrupted run keeps its results, and the next call continues. The caller
    makes the backup.
    """
    archive, id_ = loop.archive, conversation.id
    before = archive.context.tokens(id_)
    unfolded = 0
    if how.recompact and (again := dissolve.plan_unfold(archive, id_)) is not None:
        dissolve.apply_unfold(archive, again, loop.clock())
        unfolded = len(again.summary_ids)
    tuned = unlimited_compactor(loop, archive.context.items(id_), how)
    if not how.single_root and archive.context_budget(id_) <= tuned.settings.bootstrap_max_tokens:
        return BackfillReport(before, archive.context.tokens(id_), SHORT_ENOUGH, unfolded=unfolded)
    gate = tuned.summariser.gate(archive, id_, tuned.clock)
    is_asked = how.may_ask_model and tuned.summariser.has_model
    request = CompactionRequest(conversation, tuned.settings.default_token_budget)
    try:
        if is_asked:
            gate.reset()
        done = tuned.fold_import(
            request, may_ask_model=how.may_ask_model, limit=limit, single_root=how.single_root, progress=progress
        )
    finally:
        if is_asked:
            gate.reset()
    ok = done.ok and done.stop != "busy"  # folded as far as possible, and not blocked
    policy = first_import_policy(tuned.policy(request))
    roots = plan.count_roots(archive.context.items(id_), policy) if how.single_root and ok else None
    made = done.reason, done.summary_ids, done.calls, done.failure
    return BackfillReport(before, archive.context.tokens(id_), *made, unfolded, roots, ok)


def unlimited_compactor(loop: Compactor, context: Sequence[ContextItem], how: BackfillOptions) -> Compactor:
    """A compactor without limits of time and calls, for work that a user asked for."""
    settings = replace(
        loop.settings,
        sweep_deadline_ms=_UNLIMITED,
        compact_until_under_deadline_ms=_UNLIMITED,
        summary_max_calls_per_window=_UNLIMITED,
    )
    if how.fresh_tail is not None:
        tail = context[fresh_tail_start(context, how.fresh_tail) :]
        raw = budget_sum(item for item in tail if isinstance(item, MessageItem))
        settings = replace(settings, bootstrap_max_tokens=max(1, raw))
    return Compactor(loop.archive, settings, replace(loop.summariser, settings=settings), loop.clock)


@dataclass(frozen=True, slots=True)
class BackfillPlan:
    """What would be done to one history; nothing is written yet."""

    conversation: Conversation
    passes: tuple[Pass, ...]
    unfolded: dissolve.UnfoldPlan | None = None
    roots: int | None = None

    @property
    def is_idle(self) -> bool:
        return not self.passes and self.unfolded is None


def plan_backfill(
    loop: Compactor, conversation: Conversation, how: BackfillOptions, *, extracts: bool, limit: int | None = None
) -> BackfillPlan:
    """The summaries that would be made, by folding in memory; with real sizes when they are extracted."""
    archive = loop.archive
    again = dissolve.plan_unfold(archive, conversation.id) if how.recompact else None
    context: Sequence[ContextItem] = archive.context.items(conversation.id) if again is None else again.context
    loop = unlimited_compactor(loop, context, how)
    request = CompactionRequest(conversation, loop.settings.default_token_budget)
    policy = first_import_policy(loop.policy(request), single_root=how.single_root)
    state = plan.begin_sweep(context, policy, loop.evaluate(request), call_ids=_call_ids(archive, context))
    passes: list[Pass] = []
    if how.single_root or budget_sum(context) > loop.settings.bootstrap_max_tokens:
        size_of = partial(_extracted_size, loop, {}) if extracts else None
        passes, context = plan.dry_run(context, policy, state, size_of=size_of, limit=limit)
    is_whole = limit is None or len(passes) < limit
    roots = plan.count_roots(context, policy) if how.single_root and is_whole else None
    return BackfillPlan(conversation, tuple(passes), again, roots)


def _extracted_size(loop: Compactor, made: dict[str, SourceSummary], work: Pass, name: str) -> tuple[int | None, bool]:
    """The tokens of the summary of a pass; None when there would be none, and whether its source has no text."""
    source = read_source(loop.archive, replace(work, previous=()), loop.summariser)
    if ids := [item.summary_id for item in work.items if isinstance(item, SummaryItem)]:
        stored = iter(source.parts)  # those of the plan are only in `made`
        parts = tuple(made[id_] if id_ in made else next(stored) for id_ in ids)
        source = replace(source, parts=parts)  # type: ignore[arg-type]
    written = loop.summariser.write(source)
    if written is None:
        return None, not any(part.is_meaningful for part in source.parts)
    made[name] = _section(source, written)
    return written.tokens, False


def _call_ids(archive: Archive, context: Sequence[ContextItem]) -> CallIds:
    found = archive.messages.many([item.message_id for item in context if isinstance(item, MessageItem)], exact=False)
    made = {one.id: [call.id for call in one.message.tool_calls] for one in found}
    answered = {one.id: [result.call_id for result in one.message.tool_results] for one in found}
    named = {id_: frozenset(filter(None, (*made[id_], *answered[id_]))) for id_ in made}
    return {id_: calls for id_, calls in named.items() if calls}


def _section(source: SummarySource, written: WrittenSummary) -> SourceSummary:
    spans = [
        (part.created_at, part.created_at) if isinstance(part, SourceMessage) else (part.earliest_at, part.latest_at)
        for part in source.parts
    ]
    first = min((at for at, _ in spans if at is not None), default=None)
    last = max((at for _, at in spans if at is not None), default=None)
    return SourceSummary(first, last, written.text, written.file_ids)
