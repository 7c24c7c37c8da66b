"""Is it time to compact, what to fold next, and is it enough.

Pure: a context and the state of the sweep in, the next summary to write out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import StrEnum
from itertools import groupby, islice, pairwise, takewhile
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless.errors import BadInput
from lossless.model.context import (
    FRAME_TOKENS,
    CallIds,
    ContextItem,
    MessageItem,
    SummaryItem,
    SummaryKind,
    budget_sum,
    cuts_splitting_pairs,
    framed_tokens,
    fresh_tail_start,
    newest_user_index,
    prompt_tokens,
    shown_tokens,
    token_sum,
)

if TYPE_CHECKING:
    from lossless.compaction.compactor import CompactionPolicy


def raw_chunks(
    context: Sequence[ContextItem], run: tuple[int, int], limit: int, cuts: Sequence[bool], max_shown: float = inf
) -> Iterator[tuple[int, int]]:
    """Cut a run of messages where no pair is parted: each chunk within the limit, or one unit.

    `max_shown` is the limit on what a chunk takes in a prompt.
    """
    borders = [border for border in range(run[0], run[1] + 1) if not cuts[border]]
    start = stop = borders[0] if borders else run[0]
    tokens = shown = 0
    for low, high in pairwise(borders):
        unit = token_sum(context[low:high])
        space = prompt_tokens(context[low:high]) if max_shown < inf else 0
        if stop > start and (tokens + unit > limit or shown + space > max_shown):
            yield start, stop
            start, tokens, shown = low, 0, 0
        stop, tokens, shown = high, tokens + unit, shown + space
    if stop > start:
        yield start, stop


def summary_chunks(
    context: Sequence[ContextItem], run: tuple[int, int], limit: int, minimum: int, least_tokens: int
) -> Iterator[tuple[int, int]]:
    """Cut a run of summaries: each chunk within the limit, but for the fewest and the least that are worth it."""
    start, tokens = run[0], 0
    for index in range(run[0], run[1]):
        is_enough = index - start >= minimum and tokens >= least_tokens
        if is_enough and tokens + context[index].tokens > limit:
            yield start, index
            start, tokens = index, 0
        tokens += context[index].tokens
    yield start, run[1]


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
    #: Whether it is written at the same time as others, and so without knowing what came before.
    batched: bool = False

    @property
    def kind(self) -> SummaryKind:
        return "leaf" if self.depth == 0 else "condensed"

    @property
    def tokens(self) -> int:
        return token_sum(self.items)

    @property
    def key(self) -> str:
        return chunk_key(self.items)

    def frees(self, summary_tokens: int) -> int:
        """By how much a prompt gets smaller when a summary of so many tokens, as budgets count, is there instead."""
        return prompt_tokens(self.items) - framed_tokens(summary_tokens)


#: What earlier passes found out, so that no sweep pays for it twice; by `chunk_key`. `unshrinkable`: no level of
#: summarising made the chunk smaller, it is tried again only joined with the next one. `blank`: it has no word to
#: summarise and is left as it is.
Remembered: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SweepState:
    """How far a sweep is and what ends it."""

    #: What the context takes in a prompt now.
    tokens: int
    prefix_target: int
    budget: int = 0
    #: At this size messages stop being folded; None folds all of them before the tail.
    stop_at: int | None = None
    #: The same, where condensing need not go on until then.
    leaves_until: int | None = None
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
    replans: int = 0
    last_leaf: str | None = None
    remembered: Remembered = field(default_factory=dict)
    #: The tool calls of the context, whose pairs are not parted.
    call_ids: CallIds = field(default_factory=dict)
    stopped: StopReason | None = None


def chunk_key(items: Sequence[ContextItem]) -> str:
    """A name for exactly these sources at exactly these sizes."""
    first, last = items[0], items[-1]
    return f"{_id(first)}..{_id(last)}:{len(items)}:{token_sum(items)}"


def begin_sweep(
    context: Sequence[ContextItem],
    policy: CompactionPolicy,
    decision: CompactionDecision,
    *,
    now: float = 0.0,
    deadline: float = inf,
    remembered: Remembered | None = None,
    call_ids: CallIds | None = None,
    until: int | None = None,
    leaves_until: int | None = None,
) -> SweepState:
    """A sweep that has not begun; it ends at its own deadline or at the operation's, whichever is sooner.

    A tail that alone fills what the overhead and the summaries leave of the budget, or what shall be left (`until`),
    is kept only in part; but an overhead counts for half the budget at most, so that a wrong observation cannot eat
    the tail. With `leaves_until` messages are folded only until so many tokens are left.
    """
    space = max(1, decision.budget // 2, decision.budget - decision.overhead)
    user, tail = newest_user_index(context), _tail_start(context, policy, None)
    max_shown = space if until is None else min(space, until)
    long_turn = user is not None and prompt_tokens(context[user:]) >= min(max_shown, space - int(SUMMARY_SHARE * space))
    tail_target = None
    if long_turn or prompt_tokens(context[tail:]) >= max_shown:
        tail_target = int(_LONG_TURN_SHARE * space) if long_turn else policy.threshold_tokens(space)
        tail_target = tail_target if until is None else min(tail_target, until)
    limits = [limit for limit in (decision.stop_at, until) if limit is not None]
    stop_at = min(limits) if limits else tail_target
    return SweepState(
        tokens=prompt_tokens(context),
        prefix_target=policy.prefix_target(decision.budget),
        budget=decision.budget,
        stop_at=stop_at,
        leaves_until=leaves_until,
        tail_target=tail_target,
        long_turn=tail_target is not None and long_turn,
        takes_any=until is not None,
        deadline=min(deadline, now + policy.sweep_deadline_ms / 1000),
        remembered=remembered or {},
        call_ids=call_ids or {},
    )


def stop_reason(state: SweepState, policy: CompactionPolicy, now: float) -> StopReason | None:
    """Why no more passes are allowed, whatever there would be to fold."""
    if state.stopped:
        return state.stopped
    if state.passes >= policy.max_sweep_iterations:
        return "iterations"
    return "deadline" if now >= state.deadline else None


def next_pass(
    context: Sequence[ContextItem], policy: CompactionPolicy, state: SweepState, *, now: float = 0.0
) -> Pass | None:
    """Pick the next summary to write, or None when the sweep is over or nothing is worth folding."""
    if stop_reason(state, policy, now):
        return None
    for start, leaf in _leaf_passes(context, policy, state):
        before = _neighbours_before(context, start, None)  # or only the leaf that this sweep made just before
        return replace(leaf, previous=before[-1:] if before and before[-1] == state.last_leaf else before)
    work = _condensed_pass(context, policy, state)
    return next_root(context, policy, state.remembered) if work is None and policy.single_root else work


def leaf_batch(
    context: Sequence[ContextItem],
    policy: CompactionPolicy,
    state: SweepState,
    size: int,
    *,
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
    space = min(size, policy.max_sweep_iterations - state.passes)
    for _, work in islice(_leaf_passes(context, policy, state), space):
        if batch and (work.within_turn or _leaves_are_done(state)):
            break
        batch.append(replace(work, batched=isolated and size > 1))
        state = replace(state, tokens=state.tokens - work.frees(expected_tokens(work)))
    return tuple(batch)


def wants_leaf(state: SweepState, policy: CompactionPolicy, now: float) -> bool:
    """Whether a leaf that was planned a while ago would still be planned now."""
    return stop_reason(state, policy, now) is None and not _leaves_are_done(state)


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
        last_leaf=summary_id if work.depth == 0 else state.last_leaf,
        stopped=state.stopped if added_tokens < work.tokens else "no progress",
    )


def after_unshrinkable(state: SweepState, work: Pass) -> SweepState:
    """The sweep after no level made the chunk smaller: it stays raw and will be joined with the next one."""
    known = {**state.remembered, work.key: "unshrinkable"}
    return replace(state, passes=state.passes + 1, remembered=known, last_leaf=None)


def after_blank(state: SweepState, work: Pass) -> SweepState:
    """The sweep after a chunk turned out to hold no words: no model was asked, nothing was written."""
    return replace(state, remembered={**state.remembered, work.key: "blank"}, last_leaf=None)


def after_stale(state: SweepState, context: Sequence[ContextItem], call_ids: CallIds) -> SweepState:
    """The sweep after its sources changed under it: charged, and allowed only so often."""
    state = replace(state, call_ids=call_ids, tokens=prompt_tokens(context), passes=state.passes + 1, last_leaf=None)
    stopped: StopReason | None = "stale" if state.replans >= MAX_REPLANS else state.stopped
    return replace(state, replans=state.replans + 1, stopped=stopped)


def context_after_fold(
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
    size_of: Callable[[Pass, str], tuple[int | None, bool]] | None = None,
    limit: int | None = None,
) -> tuple[list[Pass], Sequence[ContextItem]]:
    """The passes of a whole sweep, at most so many, and the context after it; `planned-1`… are its summaries.

    `size_of` has the tokens of a summary, None when there would be none, and whether its source has no words; without
    it every summary has its expected size.
    """
    planned: list[Pass] = []
    while len(planned) != limit and (work := next_pass(context, policy, state)):
        summary_id = f"planned-{len(planned) + 1}"
        size, is_blank = size_of(work, summary_id) if size_of else (expected_tokens(work), False)
        if size is None or size >= work.tokens:
            state = (after_blank if is_blank else after_unshrinkable)(state, work)
            continue
        context, state = context_after_fold(context, work, summary_id, size), after_pass(state, work, summary_id, size)
        planned.append(work)
    return planned, context


#: Neighbours of one depth (messages: -1): the depth, their first and last index + 1, whether they are in the turn.
_DepthRun: TypeAlias = tuple[int, int, int, bool]


def _runs(context: Sequence[ContextItem], policy: CompactionPolicy, state: SweepState) -> list[_DepthRun]:
    depths = [item.depth if isinstance(item, SummaryItem) else _RAW for item in context]
    found: list[_DepthRun] = []
    for start, stop, within_turn in _foldable(context, policy, state):
        for depth, group in groupby(range(start, stop), key=depths.__getitem__):
            first, *others = group
            found.append((depth, first, first + len(others) + 1, within_turn))
    return found


def _foldable(
    context: Sequence[ContextItem], policy: CompactionPolicy, state: SweepState
) -> list[tuple[int, int, bool]]:
    """The stretches that may be folded: all between the system prompts and the tail, and the older steps of a
    turn too long.
    """
    stretches = [(*_older_part(context, policy, state.tail_target), False)]
    user = newest_user_index(context) if state.long_turn else None
    if user is None or (state.tail_target is not None and prompt_tokens(context[user:]) <= state.tail_target):
        return stretches
    raw = [index for index in range(user + 1, len(context)) if isinstance(context[index], MessageItem)]
    kept = raw[-policy.turn_verbatim_count :] if policy.turn_verbatim_count > 0 else []
    return [*stretches, (user + 1, kept[0] if kept else len(context), True)]


def _older_part(context: Sequence[ContextItem], policy: CompactionPolicy, cap: int | None) -> tuple[int, int]:
    """What is between the system prompts and the tail."""
    is_prompt = (isinstance(item, MessageItem) and item.role == "system" for item in context)
    head = sum(takewhile(bool, is_prompt))
    return head, max(head, _tail_start(context, policy, cap))


def _tail_start(context: Sequence[ContextItem], policy: CompactionPolicy, cap: int | None) -> int:
    start = fresh_tail_start(context, policy.fresh_tail_count, policy.fresh_tail_max_tokens)
    if cap is None:
        return start
    return max(start, fresh_tail_start(context, policy.fresh_tail_count, cap, frame=FRAME_TOKENS))


def _leaf_passes(
    context: Sequence[ContextItem], policy: CompactionPolicy, state: SweepState
) -> Iterator[tuple[int, Pass]]:
    """Leaves over messages and where they start, oldest first, each over other messages."""
    if _leaves_are_done(state):
        return
    max_shown = inf if state.leaves_until is None else policy.leaf_most(state.leaves_until, state.budget)
    cuts = cuts_splitting_pairs(context, state.call_ids)
    for depth, first, end, within_turn in _runs(context, policy, state):
        # What is too little for a leaf waits, where messages after it will join it one day.
        may_grow = not state.takes_any and end < len(context) and isinstance(context[end], MessageItem)
        minimum = policy.least_leaf_tokens if may_grow else 0
        if depth != _RAW or (minimum and _shown(context[first:end], policy, state) < minimum):
            continue
        chunks = raw_chunks(context, (first, end), policy.leaf_chunk_tokens, cuts, max_shown)
        for start, stop in _untried(context, chunks, state.remembered):
            if minimum and stop == end and _shown(context[start:stop], policy, state) < minimum:
                continue
            items = tuple(context[start:stop])
            target = policy.leaf_target(token_sum(items))
            yield start, Pass(items, depth=0, target_tokens=target, within_turn=within_turn)


def _shown(items: Iterable[ContextItem], policy: CompactionPolicy, state: SweepState) -> int:
    return sum(
        shown_tokens(item.role, item.budget_tokens, state.budget, is_past=policy.has_capped_tail)
        for item in items
        if isinstance(item, MessageItem)
    )


def _untried(
    context: Sequence[ContextItem], chunks: Iterable[tuple[int, int]], remembered: Remembered
) -> Iterator[tuple[int, int]]:
    """The chunks worth a try: what could not be shrunk is joined with the next one, blanks are left out."""
    joined_from: int | None = None
    for first, stop in chunks:
        start = first if joined_from is None else joined_from
        key = chunk_key(context[start:stop])
        joined_from = start if remembered.get(key) == "unshrinkable" else None
        if key not in remembered:
            yield start, stop


def _condensed_pass(context: Sequence[ContextItem], policy: CompactionPolicy, state: SweepState) -> Pass | None:
    """The oldest run of the shallowest depth that can be condensed; deeper and fewer only at need."""
    if state.leaf_only:
        return None
    runs = sorted((run for run in _runs(context, policy, state) if run[0] != _RAW), key=itemgetter(0))
    prefix = sum(budget_sum(context[start:stop]) for _, start, stop, _ in runs)
    if prefix <= state.prefix_target and (state.stop_at is None or state.tokens <= state.stop_at):
        return None
    for pressure in (False, True):
        for run in runs:
            depth, _, _, within_turn = run
            if not pressure and 0 <= policy.sweep_max_depth <= depth:
                continue
            chunk = _condensable(context, run, policy, state.remembered, pressure=pressure)
            if chunk:
                previous = _neighbours_before(context, chunk[0], 0) if depth == 0 else ()
                items = tuple(context[chunk[0] : chunk[1]])
                target = policy.condensed_target()
                return Pass(items, depth + 1, target, previous=previous, within_turn=within_turn)
    if not policy.least_leaf_tokens or policy.summary_prefix_target_tokens is None:
        return None
    # Of a small budget, summaries of different depths may take their target, and one more of them.
    max_shown = policy.summary_prefix_target_tokens + policy.condensed_target_tokens
    return _mixed_pass(context, policy, state) if prefix > max_shown else None


def _mixed_pass(context: Sequence[ContextItem], policy: CompactionPolicy, state: SweepState) -> Pass | None:
    """The fewest oldest neighbours that may be condensed, whatever their depths.

    Else a small budget fills with one summary of each depth.
    """
    fewest = max(2, policy.condensed_min_fanout_hard)
    for start, stop, within_turn in _foldable(context, policy, state):
        for first in range(start, stop - fewest + 1):
            items = tuple(context[first : first + fewest])
            depths = [item.depth for item in items if isinstance(item, SummaryItem)]
            is_tried = chunk_key(items) in state.remembered
            if len(depths) == len(items) and not is_tried and token_sum(items) >= policy.condensed_least_tokens():
                return Pass(items, max(depths) + 1, policy.condensed_target(), within_turn=within_turn)
    return None


def next_root(context: Sequence[ContextItem], policy: CompactionPolicy, remembered: Remembered) -> Pass | None:
    """The next summary on the way to a single root: all that fit into one chunk, else the shallowest first."""
    for run in _summary_runs(context, policy):
        items = run if token_sum(run) <= policy.leaf_chunk_tokens else _part_of_run(run, policy)
        if len(run) > 1 and chunk_key(items) not in remembered:
            return Pass(tuple(items), max(item.depth for item in items) + 1, policy.condensed_target())
    return None


def count_roots(context: Sequence[ContextItem], policy: CompactionPolicy) -> int:
    """How many summaries precede the fresh tail."""
    return sum(map(len, _summary_runs(context, policy)))


def _summary_runs(context: Sequence[ContextItem], policy: CompactionPolicy) -> Iterator[list[SummaryItem]]:
    """Runs of adjacent summaries of any depth before the tail."""
    start, stop = _older_part(context, policy, None)
    for is_summary, items in groupby(context[start:stop], key=lambda item: isinstance(item, SummaryItem)):
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


def _condensable(
    context: Sequence[ContextItem], run: _DepthRun, policy: CompactionPolicy, remembered: Remembered, *, pressure: bool
) -> tuple[int, int] | None:
    """The oldest part of a run that is worth condensing; under pressure enough are taken however long."""
    depth, first, end, _ = run
    fanout = policy.fanout(depth, pressure=pressure)
    minimum = (fanout, policy.condensed_least_tokens()) if pressure else (1, 0)
    chunks = summary_chunks(context, (first, end), policy.leaf_chunk_tokens, *minimum)
    chunk = next(_untried(context, chunks, remembered), None)
    if chunk is None:
        return None
    sources = context[chunk[0] : chunk[1]]
    worth_it = len(sources) >= fanout and token_sum(sources) >= policy.condensed_least_tokens()
    return chunk if worth_it else None


def _neighbours_before(context: Sequence[ContextItem], start: int, depth: int | None) -> tuple[str, ...]:
    earlier = (context[index] for index in range(start - 1, -1, -1))
    summaries = (item for item in earlier if isinstance(item, SummaryItem) and depth in (None, item.depth))
    return tuple(reversed([item.summary_id for item in islice(summaries, 2)]))


def _leaves_are_done(state: SweepState) -> bool:
    """Whether the context is small enough by every size that messages are folded down to."""
    limits = [limit for limit in (state.stop_at, state.leaves_until) if limit is not None]
    return bool(limits) and state.tokens <= min(limits)


def _id(item: ContextItem) -> str:
    return item.summary_id if isinstance(item, SummaryItem) else str(item.message_id)


#: Under the threshold, over it, or at the budget itself.
Pressure = Literal["none", "soft", "hard"]
SweepRunner = Literal["nobody", "background", "turn"]

#: Why a sweep ended.
StopReason = Literal[
    "nothing left", "no progress", "iterations", "deadline", "stale", "busy", "auth failure", "model failure",
    "model denied", "breaker open", "spend backoff",
]  # fmt: skip


class CompactionReason(StrEnum):
    """What a compaction says about itself."""

    BELOW_THRESHOLD = "below threshold"
    COMPACTED = "compacted"
    STILL_OVER = "compacted but still over target"
    ALREADY_UNDER = "already under target"
    NOTHING = "nothing to compact"
    LIVE_OVER = "live context still exceeds target"
    EXHAUSTED = "stored compaction exhausted but live context still exceeds target; transcript reset required"
    NOT_REACHED = "could not reach target"
    AUTH = "provider auth failure"
    AUTH_PARTIAL = "provider auth failure after partial compaction"
    MODEL_FAILED = "summary model failed"
    MODEL_DENIED = "summary model denied"
    BREAKER = "circuit breaker open"
    SPEND = "summary spend backoff open"
    BUSY = "another worker is compacting this conversation"
    NO_CONVERSATION = "no conversation found for session"
    EXCLUDED = "session excluded"
    STATELESS = "stateless session"
    NO_BUDGET = "missing token budget in compact params"
    OFF = "lossless is switched off"


@dataclass(frozen=True, slots=True)
class CompactionDecision:
    """How full a context is, measured once; everything else follows from it."""

    stored_tokens: int
    #: What the host says it sent; None when unknown.
    observed_tokens: int | None
    budget: int
    #: The threshold in tokens: more than this is too much.
    target_tokens: int
    #: What the frames around the items take in a prompt.
    framing: int = 0

    @property
    def current_tokens(self) -> int:
        return max(self.stored_tokens + self.framing, self.observed_tokens or 0)

    @property
    def overhead(self) -> int:
        """Tokens of the prompt that are not in the context and cannot be folded."""
        return self.current_tokens - self.stored_tokens - self.framing

    @property
    def should_compact(self) -> bool:
        return self.current_tokens > self.target_tokens

    @property
    def pressure(self) -> Pressure:
        if self.current_tokens >= self.budget:
            return "hard"
        return "soft" if self.should_compact else "none"

    @property
    def stop_at(self) -> int | None:
        """Where a sweep may stop folding messages: set when the observed count is what is too large."""
        if self.observed_tokens is None or self.observed_tokens <= self.target_tokens:
            return None
        return max(1, self.target_tokens - self.overhead)

    def is_under(self, tokens: int) -> bool:
        """Whether a context that takes so many tokens, frames and all, with the same overhead is within the target."""
        return tokens + self.overhead <= self.target_tokens


def evaluate(
    stored_tokens: int, observed_tokens: int | None, budget: int, policy: CompactionPolicy, *, framing: int = 0
) -> CompactionDecision:
    """Measure a context against its budget: strictly more than the threshold is too much.

    The frames around its items count as they do in a prompt (`model.context.framed`). A budget that is not
    positive raises BadInput: a session without one would never be compacted, without a sign of it.
    """
    if budget <= 0:
        raise BadInput(CompactionReason.NO_BUDGET.value)
    observed = None if observed_tokens is None or observed_tokens < 0 else observed_tokens
    return CompactionDecision(stored_tokens, observed, policy.capped(budget), policy.threshold_tokens(budget), framing)


def schedule_sweep(decision: CompactionDecision, policy: CompactionPolicy) -> tuple[SweepRunner, bool]:
    """Who runs the sweep, and whether it may ask a model.

    Below the budget a turn never waits (unless inline mode was chosen); at it, it folds extractively.
    """
    if decision.pressure == "none":
        return "nobody", False
    if decision.pressure == "hard":
        return "turn", policy.hard_limit_summariser == "model"
    return "turn" if policy.proactive_threshold_compaction_mode == "inline" else "background", True


@dataclass(frozen=True, slots=True)
class SweepRounds:
    """Sweeps in a row until the context is small enough: bounded in number, in time and by progress."""

    target_tokens: int
    #: The context and the overhead after the last sweep.
    tokens: int
    overhead: int
    max_rounds: int
    deadline: float
    #: Whether, before the first sweep, exactly the target is still too much.
    strict: bool = False
    rounds: int = 0
    progressed: bool = True

    @property
    def is_under(self) -> bool:
        if self.strict and not self.rounds:
            return self.tokens < self.target_tokens
        return self.tokens <= self.target_tokens


def threshold_rounds(decision: CompactionDecision, policy: CompactionPolicy, now: float) -> SweepRounds:
    """Sweeps that bring a context back under its threshold."""
    sizes = decision.target_tokens, decision.current_tokens, decision.overhead
    deadline = now + policy.compact_until_under_deadline_ms / 1000
    return SweepRounds(*sizes, policy.max_sweep_iterations, deadline)


def recovery_rounds(
    decision: CompactionDecision,
    policy: CompactionPolicy,
    now: float,
    *,
    target: int | None = None,
    force: bool = False,
) -> SweepRounds:
    """Sweeps that bring a context under `target`, by default the budget, after the host overflowed.

    A forced recovery without an observed count believes the host: the context fills the budget.
    """
    assumed = decision.budget if force and decision.observed_tokens is None else 0
    wanted, tokens = decision.budget if target is None else target, max(decision.current_tokens, assumed)
    deadline = now + policy.compact_until_under_deadline_ms / 1000
    return SweepRounds(wanted, tokens, decision.overhead, policy.max_rounds, deadline, strict=True)


def another_round(chain: SweepRounds, now: float) -> bool:
    """Whether one more sweep is wanted, allowed, and likely to help."""
    allowed = chain.rounds < chain.max_rounds and now < chain.deadline
    return allowed and chain.progressed and not chain.is_under


def after_round(chain: SweepRounds, tokens: int) -> SweepRounds:
    """The chain after a sweep left a context that takes so many tokens."""
    tokens += chain.overhead
    return replace(chain, tokens=tokens, rounds=chain.rounds + 1, progressed=tokens < chain.tokens)
