"""What to fold next. Pure: a context and what the sweep did so far in, the next summary to write out.

Messages go before summaries and shallow summaries before deep ones, so that detail is lost as late as
possible. The fresh tail is never a source, and a tool call is never parted from its result.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from itertools import groupby, islice, takewhile
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from lossless.compaction.chunks import raw_chunks, summary_chunks
from lossless.model.context import (
    FRAME_TOKENS,
    CallIds,
    ContextItem,
    MessageItem,
    SummaryItem,
    budget_sum,
    framed,
    fresh_tail_start,
    newest_user_index,
    pair_cuts,
    prompt_tokens,
    shown_sum,
    token_sum,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lossless.compaction.policy import CompactionPolicy
    from lossless.compaction.trigger import Decision, Stop
    from lossless.model.summaries import Kind

NO_CALLS: Final[CallIds] = MappingProxyType({})
#: How often a sweep plans again because the context changed under it.
MAX_REPLANS = 2
_RAW = -1
#: Of the history budget, so much is the summaries' when the newest turn would take all of it.
SUMMARY_SHARE = 0.15
#: A turn that is too long is folded until the context takes this share of the budget, so that it is not folded often.
_LONG_TURN_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Pass:
    """One summary to write: its sources, a contiguous run of the context, and what it should be."""

    items: tuple[ContextItem, ...]
    depth: int
    target_tokens: int
    _: KW_ONLY
    #: Summaries to show as what came before, oldest first.
    previous: tuple[str, ...] = ()
    #: Whether the sources belong to the turn that is still going on.
    within_turn: bool = False
    #: Whether it is written beside others and therefore without knowing what came before.
    batched: bool = False

    @property
    def kind(self) -> Kind:
        return "leaf" if self.depth == 0 else "condensed"

    @property
    def tokens(self) -> int:
        return token_sum(self.items)

    @property
    def key(self) -> str:
        return chunk_key(self.items)

    def frees(self, summary_tokens: int) -> int:
        """By how much a prompt gets smaller when a summary of so many tokens, as budgets count, is there instead."""
        return prompt_tokens(self.items) - framed(summary_tokens)


@dataclass(frozen=True, slots=True)
class Remembered:
    """What earlier passes found out, so that no sweep pays for it twice; chunks by `chunk_key`."""

    #: Chunks that no level of summarising made smaller: tried again only joined with the next one.
    unshrinkable: frozenset[str] = frozenset()
    #: Chunks without a word to summarise: left as they are.
    blank: frozenset[str] = frozenset()
    #: Ids of summaries without words: folded along, never counted.
    blank_summaries: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SweepState:
    """How far a sweep is and what ends it."""

    #: What the context takes in a prompt now.
    tokens: int
    prefix_target: int
    #: The history budget.
    budget: int = 0
    #: At this size messages stop being folded; None folds all of them before the tail.
    stop_at: int | None = None
    #: Set when the fresh tail alone fills the budget: then it is kept only up to this size …
    tail_target: int | None = None
    #: … and when the newest turn alone does, its older steps are folded, too.
    long_turn: bool = False
    #: On the caller's clock.
    deadline: float = inf
    leaf_only: bool = False
    #: Whether the newest messages before the tail are folded however few they are.
    takes_any: bool = False
    #: Passes that asked a summariser, whatever came of it.
    passes: int = 0
    folds: int = 0
    replans: int = 0
    last_leaf: str | None = None
    remembered: Remembered = Remembered()
    stopped: Stop | None = None


def chunk_key(items: Sequence[ContextItem]) -> str:
    """A name for exactly these sources at exactly these sizes."""
    first, last = items[0], items[-1]
    return f"{_id(first)}..{_id(last)}:{len(items)}:{token_sum(items)}"


def begin_sweep(
    context: Sequence[ContextItem],
    policy: CompactionPolicy,
    decision: Decision,
    *,
    now: float = 0.0,
    deadline: float = inf,
    remembered: Remembered | None = None,
    until: int | None = None,
) -> SweepState:
    """A sweep that has not begun; it ends at its own deadline or at the operation's, whichever is sooner.

    A tail that alone fills what the overhead and the summaries leave of the budget, or what shall be left (`until`),
    is kept only in part; but an overhead counts for half the budget at most, so that a wrong observation cannot eat
    the tail.
    """
    room = max(1, decision.budget // 2, decision.budget - decision.overhead)
    user, tail = newest_user_index(context), _tail_start(context, policy, None)
    most = room if until is None else min(room, until)
    long_turn = user is not None and prompt_tokens(context[user:]) >= min(most, room - int(SUMMARY_SHARE * room))
    tail_target = None
    if long_turn or prompt_tokens(context[tail:]) >= most:
        tail_target = int(_LONG_TURN_SHARE * room) if long_turn else policy.threshold_tokens(room)
        tail_target = tail_target if until is None else min(tail_target, until)
    limits = [limit for limit in (decision.stop_at, until) if limit is not None]
    stop_at = min(limits) if limits else tail_target
    return SweepState(
        tokens=prompt_tokens(context),
        prefix_target=policy.prefix_target(decision.budget),
        budget=decision.budget,
        stop_at=stop_at,
        tail_target=tail_target,
        long_turn=tail_target is not None and long_turn,
        takes_any=until is not None,
        deadline=min(deadline, now + policy.sweep_deadline_ms / 1000),
        remembered=remembered or Remembered(),
    )


def stop_reason(state: SweepState, policy: CompactionPolicy, now: float) -> Stop | None:
    """Why no more passes are allowed, whatever there would be to fold."""
    if state.stopped:
        return state.stopped
    if state.passes >= policy.max_sweep_iterations:
        return "iterations"
    return "deadline" if now >= state.deadline else None


def next_pass(
    context: Sequence[ContextItem],
    policy: CompactionPolicy,
    state: SweepState,
    *,
    call_ids: CallIds = NO_CALLS,
    now: float = 0.0,
) -> Pass | None:
    """Pick the next summary to write, or None when the sweep is over or nothing is worth folding."""
    if stop_reason(state, policy, now):
        return None
    for start, leaf in _leaf_passes(context, policy, state, call_ids):
        return replace(leaf, previous=_before_leaf(context, start, state.last_leaf))
    return _condensed_pass(context, policy, state)


def leaf_batch(
    context: Sequence[ContextItem],
    policy: CompactionPolicy,
    state: SweepState,
    size: int,
    *,
    call_ids: CallIds = NO_CALLS,
    now: float = 0.0,
    isolated: bool = True,
) -> tuple[Pass, ...]:
    """Up to `size` leaves over disjoint sources, to be written side by side; no more than are wanted.

    Linear in the context. Unless they are `isolated` they are those that `next_pass` would give one by one, as long
    as each is folded.
    """
    if stop_reason(state, policy, now):
        return ()
    batch: list[Pass] = []
    room = min(size, policy.max_sweep_iterations - state.passes)
    for _, work in islice(_leaf_passes(context, policy, state, call_ids), room):
        if batch and (work.within_turn or _has_reached(state.stop_at, state.tokens)):
            break
        batch.append(replace(work, batched=isolated and size > 1))
        state = replace(state, tokens=state.tokens - work.frees(expected_tokens(work)))
    return tuple(batch)


def wants_leaf(state: SweepState, policy: CompactionPolicy, now: float) -> bool:
    """Whether a leaf that was planned a while ago would still be planned now."""
    return stop_reason(state, policy, now) is None and not _has_reached(state.stop_at, state.tokens)


def after_pass(
    state: SweepState, work: Pass, summary_id: str, added_tokens: int, estimate: int | None = None
) -> SweepState:
    """The sweep after a fold. One that did not make the context smaller is the last.

    `estimate` is what the summary takes by the estimate for budgets, where that is more.
    """
    return replace(
        state,
        tokens=state.tokens - work.frees(max(added_tokens, estimate or 0)),
        passes=state.passes + 1,
        folds=state.folds + 1,
        last_leaf=summary_id if work.depth == 0 else state.last_leaf,
        stopped=state.stopped if added_tokens < work.tokens else "no progress",
    )


def after_unshrinkable(state: SweepState, work: Pass) -> SweepState:
    """The sweep after no level made the chunk smaller: it stays raw and will be joined with the next one."""
    known = replace(state.remembered, unshrinkable=state.remembered.unshrinkable | {work.key})
    return replace(state, passes=state.passes + 1, remembered=known, last_leaf=None)


def after_blank(state: SweepState, work: Pass) -> SweepState:
    """The sweep after a chunk turned out to hold no words: nobody was asked, nothing was written."""
    known = replace(state.remembered, blank=state.remembered.blank | {work.key})
    return replace(state, remembered=known, last_leaf=None)


def after_stale(state: SweepState, context: Sequence[ContextItem]) -> SweepState:
    """The sweep after its sources changed under it: charged, and allowed only so often."""
    replans = state.replans + 1
    return replace(
        state,
        tokens=prompt_tokens(context),
        passes=state.passes + 1,
        replans=replans,
        last_leaf=None,
        stopped="stale" if replans > MAX_REPLANS else state.stopped,
    )


def folded(
    context: Sequence[ContextItem], work: Pass, summary_id: str, tokens: int, estimate: int = -1
) -> tuple[ContextItem, ...]:
    """The context with a summary standing where its sources stood."""
    start = next(n for n, item in enumerate(context) if item.ordinal == work.items[0].ordinal)
    summary = SummaryItem(work.items[0].ordinal, summary_id, work.depth, tokens, estimate)
    return (*context[:start], summary, *context[start + len(work.items) :])


def expected_tokens(work: Pass) -> int:
    """How long the summary will probably be."""
    return min(work.target_tokens, work.tokens // 2)


def dry_run(
    context: Sequence[ContextItem],
    policy: CompactionPolicy,
    state: SweepState,
    *,
    call_ids: CallIds = NO_CALLS,
) -> list[Pass]:
    """The passes of a whole sweep if every summary has its expected size; `planned-1`… are its summaries."""
    planned: list[Pass] = []
    while work := next_pass(context, policy, state, call_ids=call_ids):
        size, summary_id = expected_tokens(work), f"planned-{len(planned) + 1}"
        if size >= work.tokens:
            state = after_unshrinkable(state, work)
            continue
        context, state = folded(context, work, summary_id, size), after_pass(state, work, summary_id, size)
        planned.append(work)
    return planned


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbours of one depth (messages: -1), as indexes of the context."""

    depth: int
    start: int
    stop: int
    within_turn: bool


def _runs(context: Sequence[ContextItem], policy: CompactionPolicy, state: SweepState) -> list[_Run]:
    found: list[_Run] = []
    for start, stop, within_turn in _foldable(context, policy, state):
        for depth, group in groupby(range(start, stop), key=lambda index: _depth(context[index])):
            indexes = list(group)
            found.append(_Run(depth, indexes[0], indexes[-1] + 1, within_turn))
    return found


def _foldable(
    context: Sequence[ContextItem], policy: CompactionPolicy, state: SweepState
) -> list[tuple[int, int, bool]]:
    """The stretches that may be folded: all between the system prompts and the tail, and the older steps of a
    turn too long.
    """
    head = sum(1 for _ in takewhile(_is_prompt, context))
    tail = _tail_start(context, policy, state.tail_target)
    stretches = [(head, max(head, tail), False)]
    user = newest_user_index(context) if state.long_turn else None
    if user is None or _has_reached(state.tail_target, prompt_tokens(context[user:])):
        return stretches
    raw = [index for index in range(user + 1, len(context)) if isinstance(context[index], MessageItem)]
    kept = raw[-policy.turn_verbatim_count :] if policy.turn_verbatim_count > 0 else []
    return [*stretches, (user + 1, kept[0] if kept else len(context), True)]


def _is_prompt(item: ContextItem) -> bool:
    return isinstance(item, MessageItem) and item.role == "system"


def _tail_start(context: Sequence[ContextItem], policy: CompactionPolicy, cap: int | None) -> int:
    start = fresh_tail_start(context, policy.fresh_tail_count, policy.fresh_tail_max_tokens)
    if cap is None:
        return start
    return max(start, fresh_tail_start(context, policy.fresh_tail_count, cap, frame=FRAME_TOKENS))


def _leaf_passes(
    context: Sequence[ContextItem], policy: CompactionPolicy, state: SweepState, call_ids: CallIds
) -> Iterator[tuple[int, Pass]]:
    """Leaves over messages and where they start, oldest first, each over other messages."""
    if _has_reached(state.stop_at, state.tokens):
        return
    cuts = pair_cuts(context, call_ids)
    for run in _runs(context, policy, state):
        if run.depth != _RAW or _waits(context, run, run.start, run.stop, policy, state):
            continue
        chunks = raw_chunks(context, (run.start, run.stop), policy.leaf_chunk_tokens, cuts)
        for start, stop in _untried(context, chunks, state.remembered):
            if _waits(context, run, start, stop, policy, state):
                continue
            items = tuple(context[start:stop])
            target = policy.leaf_target(token_sum(items))
            yield start, Pass(items, depth=0, target_tokens=target, within_turn=run.within_turn)


def _waits(
    context: Sequence[ContextItem], run: _Run, start: int, stop: int, policy: CompactionPolicy, state: SweepState
) -> bool:
    """Whether a part of a run is too little for a leaf, and the messages after it will join it one day."""
    may_grow = stop == run.stop and stop < len(context) and isinstance(context[stop], MessageItem)
    if state.takes_any or not may_grow:
        return False
    return shown_sum(context[start:stop], state.budget) < policy.least_leaf_tokens


def _untried(
    context: Sequence[ContextItem], chunks: Iterable[tuple[int, int]], remembered: Remembered
) -> Iterator[tuple[int, int]]:
    """The chunks worth a try: what could not be shrunk is joined with the next one, blanks are left out."""
    joined_from: int | None = None
    for first, stop in chunks:
        start = first if joined_from is None else joined_from
        key = chunk_key(context[start:stop])
        joined_from = start if key in remembered.unshrinkable else None
        if joined_from is None and key not in remembered.blank:
            yield start, stop


def _condensed_pass(context: Sequence[ContextItem], policy: CompactionPolicy, state: SweepState) -> Pass | None:
    """The oldest run of the shallowest depth that can be condensed; deeper and fewer only at need."""
    if state.leaf_only:
        return None
    runs = [run for run in _runs(context, policy, state) if run.depth != _RAW]
    prefix = sum(budget_sum(context[run.start : run.stop]) for run in runs)
    if prefix <= state.prefix_target and (state.stop_at is None or state.tokens <= state.stop_at):
        return None
    runs.sort(key=lambda run: run.depth)
    for pressure in (False, True):
        for run in runs:
            if not pressure and 0 <= policy.sweep_max_depth <= run.depth:
                continue
            chunk = _condensable(context, run, policy, state.remembered, pressure=pressure)
            if chunk:
                previous = _neighbours_before(context, chunk[0], 0) if run.depth == 0 else ()
                items = tuple(context[chunk[0] : chunk[1]])
                target = policy.condensed_target()
                return Pass(items, run.depth + 1, target, previous=previous, within_turn=run.within_turn)
    is_tight = policy.least_leaf_tokens > 0 and policy.summary_prefix_target_tokens is not None
    return _mixed_pass(context, policy, state) if is_tight and prefix > _most_summaries(policy) else None


def _most_summaries(policy: CompactionPolicy) -> int:
    """What summaries of different depths may take of a small budget: their target, and one more of them."""
    return (policy.summary_prefix_target_tokens or 0) + policy.condensed_target_tokens


def _mixed_pass(context: Sequence[ContextItem], policy: CompactionPolicy, state: SweepState) -> Pass | None:
    """The two oldest neighbours, whatever their depths: else a small budget fills with one summary of each depth."""
    for start, stop, within_turn in _foldable(context, policy, state):
        for first in range(start, stop - 1):
            pair = tuple(context[first : first + 2])
            depths = [item.depth for item in pair if isinstance(item, SummaryItem)]
            is_tried = chunk_key(pair) in state.remembered.unshrinkable | state.remembered.blank
            if len(depths) == len(pair) and not is_tried and token_sum(pair) >= policy.condensed_least_tokens():
                return Pass(pair, max(depths) + 1, policy.condensed_target(), within_turn=within_turn)
    return None


def _condensable(
    context: Sequence[ContextItem],
    run: _Run,
    policy: CompactionPolicy,
    remembered: Remembered,
    *,
    pressure: bool,
) -> tuple[int, int] | None:
    """The oldest part of a run that is worth condensing; under pressure enough are taken however long."""
    fanout = policy.fanout(run.depth, pressure=pressure)
    least = (fanout, policy.condensed_least_tokens()) if pressure else (1, 0)
    chunks = summary_chunks(context, (run.start, run.stop), policy.leaf_chunk_tokens, *least)
    chunk = next(_untried(context, chunks, remembered), None)
    if chunk is None:
        return None
    sources = context[chunk[0] : chunk[1]]
    counted = sum(_id(item) not in remembered.blank_summaries for item in sources)
    worth_it = counted >= fanout and token_sum(sources) >= policy.condensed_least_tokens()
    return chunk if worth_it else None


def _before_leaf(context: Sequence[ContextItem], start: int, last_leaf: str | None) -> tuple[str, ...]:
    """The leaf that this sweep made just before, else up to two summaries that precede the chunk."""
    before = _neighbours_before(context, start, None)
    return before[-1:] if before and before[-1] == last_leaf else before


def _neighbours_before(context: Sequence[ContextItem], start: int, depth: int | None) -> tuple[str, ...]:
    earlier = (context[index] for index in range(start - 1, -1, -1))
    summaries = (item for item in earlier if isinstance(item, SummaryItem) and depth in (None, item.depth))
    return tuple(reversed([item.summary_id for item in islice(summaries, 2)]))


def _has_reached(limit: int | None, tokens: int) -> bool:
    return limit is not None and tokens <= limit


def _depth(item: ContextItem) -> int:
    return item.depth if isinstance(item, SummaryItem) else _RAW


def _id(item: ContextItem) -> str:
    return item.summary_id if isinstance(item, SummaryItem) else str(item.message_id)
