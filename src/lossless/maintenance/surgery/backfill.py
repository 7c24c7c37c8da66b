"""Folds a stored history except its newest part, optionally from scratch or to a single root; and plans that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from typing import TYPE_CHECKING, TypeAlias
from uuid import uuid4

from lossless.compaction import plan
from lossless.compaction.compactor import CompactionRequest, Compactor, first_import_policy
from lossless.compaction.plan import Pass
from lossless.compaction.run import fold, read_source
from lossless.compaction.source_text import SourceMessage, SourceSummary
from lossless.errors import ModelAuth
from lossless.maintenance.surgery import dissolve
from lossless.model.context import MessageItem, NewSummary, SummaryItem, budget_sum, fresh_tail_start, token_sum
from lossless.model.identity import summary_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lossless.compaction.compactor import CompactionPolicy
    from lossless.compaction.summarise import SummarySource, WrittenSummary
    from lossless.maintenance.surgery.dissolve import UnfoldPlan
    from lossless.model.context import CallIds, ContextItem
    from lossless.model.conversations import Conversation
    from lossless.store.archive import Archive

BUSY = "another worker is summarising this conversation"
NOT_SMALLER = "no text was produced that is smaller than these summaries together"
APART = "messages that cannot be made smaller are between the summaries"


def plan_next_root(context: Sequence[ContextItem], policy: CompactionPolicy) -> Pass | None:
    """The next summary on the way to a single root: all that fit into one chunk, else the shallowest first."""
    for run in _runs(context, policy):
        if len(run) > 1:
            items = run if token_sum(run) <= policy.leaf_chunk_tokens else _part_of_run(run, policy)
            depth = max(item.depth for item in items) + 1
            return Pass(tuple(items), depth, policy.condensed_target())
    return None


def count_roots(context: Sequence[ContextItem], policy: CompactionPolicy) -> int:
    """How many summaries precede the fresh tail."""
    return sum(len(run) for run in _runs(context, policy))


def _fold_to_single_root(
    loop: Compactor,
    conversation_id: int,
    policy: CompactionPolicy,
    report: BackfillReport,
    *,
    may_ask_model: bool,
    limit: int | None = None,
    progress: Callable[[Pass, WrittenSummary | None], None] | None = None,
) -> BackfillReport:
    """Fold until one root precedes the fresh tail, or so many summaries are made, one transaction each."""
    archive = loop.archive

    def root_report(calls: int = 0, reason: str | None = None, failure: str | None = None) -> BackfillReport:
        context = archive.context.items(conversation_id)
        roots = count_roots(context, policy)
        if roots > 1 and reason is None and plan_next_root(context, policy) is None:
            reason = APART
        return replace(
            report,
            reason=reason or report.reason,
            summary_ids=(*report.summary_ids, *made),
            calls=report.calls + calls,
            failure=report.failure or failure,
            roots=roots,
            ok=report.ok and reason in (None, APART, NOT_SMALLER),
        )

    made: list[str] = []
    if plan_next_root(archive.context.items(conversation_id), policy) is None:
        return root_report()
    gate = loop.summariser.gate(archive, conversation_id, loop.clock)
    ask = loop.summariser.ask(gate) if may_ask_model and loop.summariser.has_model else None
    failure = reason = None
    with loop.summariser.lease(archive, conversation_id, loop.clock) as prolong:
        if not prolong():
            return root_report(reason=BUSY)
        while work := None if len(made) == limit else plan_next_root(archive.context.items(conversation_id), policy):
            source = read_source(archive, work, loop.summariser)
            try:
                written = loop.summariser.write(source, ask)
            except ModelAuth as error:  # extracted when a model refuses
                found = loop.summariser.write(source)
                written = None if found is None else replace(found, failure=error.code)
            if written is None or not prolong():
                reason = NOT_SMALLER if written is None else BUSY
                break
            id_ = summary_id(written.text, str(uuid4()))
            new = NewSummary(id_, work.depth, written.text, written.tokens, written.model, written.file_ids)
            fold(archive, conversation_id, work.items, new, loop.clock(), actor="import")
            made.append(id_)
            failure = failure or written.failure
            ask = None if written.failure else ask
            if progress:
                progress(work, written)
    return root_report(len(gate.tickets), reason, failure)


def _runs(context: Sequence[ContextItem], policy: CompactionPolicy) -> Iterator[list[SummaryItem]]:
    """Runs of adjacent summaries, between the system prompts and the fresh tail."""
    prompts = takewhile(lambda item: isinstance(item, MessageItem) and item.role == "system", context)
    head = sum(1 for _ in prompts)
    tail = fresh_tail_start(context, policy.fresh_tail_count, policy.fresh_tail_max_tokens)
    for is_summary, items in groupby(context[head:tail], key=lambda item: isinstance(item, SummaryItem)):
        if is_summary:
            yield [item for item in items if isinstance(item, SummaryItem)]


def _part_of_run(run: list[SummaryItem], policy: CompactionPolicy) -> list[SummaryItem]:
    """Of a run that is too large: as many of its oldest shallowest ones as fit, or a single one with another."""
    minimum = min(item.depth for item in run)
    groups = [list(group) for _, group in groupby(run, key=lambda item: item.depth)]
    shallow = next((group for group in groups if group[0].depth == minimum and len(group) > 1), None)
    if shallow is None:
        start = max(0, next(n for n, item in enumerate(run) if item.depth == minimum) - 1)
        return run[start : start + 2]
    count = tokens = 0
    for item in shallow:
        if count >= policy.fanout(item.depth, pressure=True) and tokens + item.tokens > policy.leaf_chunk_tokens:
            break
        count, tokens = count + 1, tokens + item.tokens
    return shallow[:count]


PassProgress: TypeAlias = "Callable[[Pass, WrittenSummary | None], None]"

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
    progress: PassProgress | None = None,
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
    gate = tuned.summariser.gate(archive, id_, tuned.clock)
    is_asked = how.may_ask_model and tuned.summariser.has_model
    try:
        if is_asked:
            gate.reset()
        report = BackfillReport(before, before, SHORT_ENOUGH, unfolded=unfolded)
        request = CompactionRequest(conversation, tuned.settings.default_token_budget)
        if archive.context_budget(id_) > tuned.settings.bootstrap_max_tokens:
            done = tuned.fold_import(request, may_ask_model=how.may_ask_model, limit=limit, progress=progress)
            is_over = done.ok and done.stop != "busy"  # folded as far as possible, and not blocked
            report = BackfillReport(
                before, before, done.reason, done.summary_ids, done.calls, done.failure, unfolded, ok=is_over
            )
        remaining = None if limit is None else limit - len(report.summary_ids)
        if how.single_root and remaining != 0 and report.ok:
            policy, may_ask = first_import_policy(tuned.policy(request)), how.may_ask_model
            report = _fold_to_single_root(
                tuned, id_, policy, report, may_ask_model=may_ask, limit=remaining, progress=progress
            )
    finally:
        if is_asked:
            gate.reset()
    return replace(report, tokens_after=archive.context.tokens(id_))


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
    unfolded: UnfoldPlan | None = None
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
    policy = first_import_policy(loop.policy(request))
    state = plan.begin_sweep(context, policy, loop.evaluate(request))
    is_sweeping = budget_sum(context) > loop.settings.bootstrap_max_tokens
    calls = _call_ids(archive, context) if is_sweeping else {}
    made: dict[str, SourceSummary] = {}
    passes: list[Pass] = []
    while limit is None or len(passes) < limit:
        work = plan.next_pass(context, policy, state, call_ids=calls) if is_sweeping else None
        if work is None:
            is_sweeping, work = False, plan_next_root(context, policy) if how.single_root else None
        if work is None:
            break
        name = f"planned-{len(passes) + 1}"
        size, is_blank = _expected_size(loop, work, made, name, extracts=extracts)
        if size is not None:
            state = plan.after_pass(state, work, name, size) if is_sweeping else state
            context = plan.context_after_fold(context, work, name, size)
            passes.append(work)
        elif is_sweeping:
            state = (plan.after_blank if is_blank else plan.after_unshrinkable)(state, work)
        else:
            break
    is_whole = limit is None or len(passes) < limit
    roots = count_roots(context, policy) if how.single_root and is_whole else None
    return BackfillPlan(conversation, tuple(passes), again, roots)


def _expected_size(
    loop: Compactor, work: Pass, made: dict[str, SourceSummary], name: str, *, extracts: bool
) -> tuple[int | None, bool]:
    """The tokens of the summary of a pass; None when there would be none, and whether its source has no text."""
    if not extracts:
        size = plan.expected_tokens(work)
        return (size if size < work.tokens else None), False
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
    named = {
        one.id: frozenset(
            [call.id for call in one.message.tool_calls if call.id]
            + [result.call_id for result in one.message.tool_results if result.call_id]
        )
        for one in found
    }
    return {id_: calls for id_, calls in named.items() if calls}


def _section(source: SummarySource, written: WrittenSummary) -> SourceSummary:
    spans = [
        (part.created_at, part.created_at) if isinstance(part, SourceMessage) else (part.earliest_at, part.latest_at)
        for part in source.parts
    ]
    first = min((at for at, _ in spans if at is not None), default=None)
    last = max((at for _, at in spans if at is not None), default=None)
    return SourceSummary(first, last, written.text, written.file_ids)
