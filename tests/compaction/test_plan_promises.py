"""What holds after any sequence of appends and sweeps, whatever the summariser answers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from lossless.compaction.compactor import CompactionPolicy
from lossless.compaction.plan import (
    CompactionDecision,
    Pass,
    SweepState,
    after_blank,
    after_pass,
    after_unshrinkable,
    begin_sweep,
    context_after_fold,
    evaluate,
    expected_tokens,
    leaf_batch,
    next_pass,
    wants_leaf,
)
from lossless.model.context import (
    FRAME_TOKENS,
    ContextItem,
    MessageItem,
    SummaryItem,
    framed_tokens,
    fresh_tail_start,
    prompt_tokens,
    token_sum,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lossless.model.messages import Role

ROLES: dict[str, Role] = {"u": "user", "m": "assistant"}


def measured(context: Sequence[ContextItem], budget: int, policy: CompactionPolicy) -> CompactionDecision:
    return evaluate(token_sum(context), None, budget, policy, framing=framed_tokens(0, len(context)))


@dataclass
class World:
    """A context, the messages below each summary, and who belongs together."""

    context: tuple[ContextItem, ...] = ()
    below: dict[str, list[int]] = field(default_factory=dict)
    partner: dict[int, int] = field(default_factory=dict)
    call_ids: dict[int, frozenset[str]] = field(default_factory=dict)
    remembered: Mapping[str, str] = field(default_factory=dict)
    messages: int = 0

    def append(self, letter: str, tokens: int, reuse: int) -> None:
        """A message, or a call with its results; call ids repeat on purpose."""
        if letter != "c":
            self._item(ROLES[letter], tokens)
            return
        call = self._item("assistant", tokens)
        ids = [f"call_{reuse}_{n}" for n in range(1 + reuse % 2)]
        self.call_ids[call] = frozenset(ids)
        for call_id in ids:
            result = self._item("tool", tokens)
            self.call_ids[result] = frozenset([call_id])
            self.partner[result] = call

    def _item(self, role: Role, tokens: int) -> int:
        self.messages += 1
        self.context += (MessageItem(len(self.context) + 1000 * self.messages, self.messages, role, tokens, 0),)
        return self.messages

    def covered(self, items: Sequence[ContextItem]) -> list[int]:
        return [
            message
            for item in items
            for message in ([item.message_id] if isinstance(item, MessageItem) else self.below[item.summary_id])
        ]

    def sweep(self, policy: CompactionPolicy, budget: int, answers: list[int]) -> SweepState:
        """A sweep whose summariser answers in per cent of the source; 100 does not shrink, 0 has no words."""
        state = begin_sweep(
            self.context,
            policy,
            measured(self.context, budget, policy),
            remembered=self.remembered,
            call_ids=self.call_ids,
            leaves_until=policy.sweep_target(budget),
        )
        tried = 0
        while work := next_pass(self.context, policy, state):
            self.check(work, policy, state)
            answer = answers[tried % len(answers)]
            tried += 1
            size = max(1, work.tokens * answer // 100)
            if answer == 0 and work.depth == 0:
                state = after_blank(state, work)
            elif size >= work.tokens:
                state = after_unshrinkable(state, work)
            else:
                summary_id = f"sum_{len(self.below)}"
                self.below[summary_id] = self.covered(work.items)
                self.context = context_after_fold(self.context, work, summary_id, size)
                state = after_pass(state, work, summary_id, size)
            assert tried < 500, "the sweep does not end"
        self.remembered = state.remembered
        assert state.tokens == prompt_tokens(self.context)
        assert state.passes <= policy.max_sweep_iterations
        return state

    def check(self, work: Pass, policy: CompactionPolicy, state: SweepState) -> None:
        """The promises about one pass."""
        if work.depth == 0 and state.leaves_until is not None:
            assert state.tokens > state.leaves_until, "no message is folded once the context is small enough"
        start = self.context.index(work.items[0])
        assert self.context[start : start + len(work.items)] == work.items, "contiguous"
        depths = {item.depth if isinstance(item, SummaryItem) else -1 for item in work.items}
        assert depths == {work.depth - 1}, "of one depth"
        messages = {item.message_id for item in work.items if isinstance(item, MessageItem)}
        for result, call in self.partner.items():
            assert (result in messages) == (call in messages), "pairs stay together"
        tail = fresh_tail_start(self.context, policy.fresh_tail_count, policy.fresh_tail_max_tokens)
        if state.tail_target is not None:
            least = fresh_tail_start(self.context, policy.fresh_tail_count, state.tail_target, frame=FRAME_TOKENS)
            tail = max(tail, least)
        newest = [item for item in self.context if isinstance(item, MessageItem)][-policy.turn_verbatim_count :]
        if work.within_turn:
            assert state.long_turn
            assert not any(isinstance(item, MessageItem) and item.role == "user" for item in work.items)
            assert not set(work.items) & set(newest), "the newest of a long turn stay"
        else:
            assert start + len(work.items) <= tail, "the fresh tail is never a source"


policies = st.builds(
    CompactionPolicy,
    context_threshold=st.sampled_from((0.25, 0.5, 0.75)),
    fresh_tail_count=st.integers(0, 6),
    fresh_tail_max_tokens=st.none() | st.integers(0, 60),
    leaf_chunk_tokens=st.integers(1, 80),
    leaf_min_fanout=st.integers(2, 4),
    condensed_min_fanout=st.integers(2, 3),
    sweep_max_depth=st.integers(-1, 2),
    condensed_target_tokens=st.integers(1, 20),
    max_sweep_iterations=st.integers(1, 30),
    sweep_target_fraction=st.sampled_from((0.0, 0.0, 0.2, 0.6, 1.0)),
    turn_verbatim_count=st.integers(1, 4),
)
appends = st.tuples(st.sampled_from("umccc"), st.integers(0, 30), st.integers(0, 3))
answers = st.lists(st.sampled_from((0, 10, 40, 90, 100)), min_size=1, max_size=6)
rounds = st.lists(st.tuples(st.lists(appends, max_size=12), st.integers(20, 400), answers), min_size=1, max_size=4)


@settings(max_examples=35, deadline=None)
@given(policies, rounds)
def test_every_message_stays_reachable_once_and_in_order(
    policy: CompactionPolicy, story: list[tuple[list[tuple[str, int, int]], int, list[int]]]
) -> None:
    world = World()
    for said, budget, answer in story:
        for letter, tokens, reuse in said:
            world.append(letter, tokens, reuse)
        world.sweep(policy, budget, answer)
        assert world.covered(world.context) == list(range(1, world.messages + 1))
        assert [item.ordinal for item in world.context] == sorted({item.ordinal for item in world.context})


@settings(max_examples=35, deadline=None)
@given(policies, st.lists(appends, max_size=40), st.integers(20, 400), answers)
def test_a_second_sweep_over_unchanged_history_asks_nobody_and_writes_nothing(
    policy: CompactionPolicy, said: list[tuple[str, int, int]], budget: int, answer: list[int]
) -> None:
    world, policy = World(), replace(policy, max_sweep_iterations=400)
    for letter, tokens, reuse in said:
        world.append(letter, tokens, reuse)
    first = world.sweep(policy, budget, answer)
    assert first.stopped is None
    context, folds = world.context, len(world.below)
    over = measured(context, budget, policy).should_compact
    if first.tail_target is None or over:
        second = world.sweep(policy, budget, answer)
        assert second.passes == 0
        assert (world.context, len(world.below)) == (context, folds)


@settings(max_examples=25, deadline=None)
@given(policies, st.lists(appends, max_size=40), st.integers(20, 400), st.integers(1, 9))
def test_a_batch_keeps_the_same_promises_and_shares_no_source(
    policy: CompactionPolicy, said: list[tuple[str, int, int]], budget: int, size: int
) -> None:
    world = World()
    for letter, tokens, reuse in said:
        world.append(letter, tokens, reuse)
    decision = measured(world.context, budget, policy)
    state = begin_sweep(world.context, policy, decision, call_ids=world.call_ids)
    batch = leaf_batch(world.context, policy, state, size)
    assert len(batch) <= min(size, policy.max_sweep_iterations)
    for work in batch:
        world.check(work, policy, state)
    sources = world.covered([item for work in batch for item in work.items])
    assert sources == sorted(set(sources))


@settings(max_examples=35, deadline=None)
@given(policies, st.lists(appends, max_size=40), st.integers(20, 400))
def test_leaves_planned_at_once_are_those_planned_one_by_one(
    policy: CompactionPolicy, said: list[tuple[str, int, int]], budget: int
) -> None:
    world = World()
    for letter, tokens, reuse in said:
        world.append(letter, tokens, reuse)
    context: Sequence[ContextItem] = world.context
    state = begin_sweep(context, policy, measured(context, budget, policy), call_ids=world.call_ids)
    batch = leaf_batch(context, policy, state, 400, isolated=False)
    for number, planned in enumerate(batch):
        assert wants_leaf(state, policy, 0.0)
        work = next_pass(context, policy, state)
        assert work is not None
        assert (work.items, work.target_tokens, work.within_turn) == (
            planned.items,
            planned.target_tokens,
            planned.within_turn,
        )
        assert not planned.batched
        if expected_tokens(work) >= work.tokens:
            break
        context = context_after_fold(context, work, f"leaf-{number}", expected_tokens(work))
        state = after_pass(state, work, f"leaf-{number}", expected_tokens(work))


@settings(max_examples=60, deadline=None)
@given(policies, st.lists(appends, min_size=20, max_size=60), st.floats(0.05, 1))
def test_a_target_leaves_the_newest_history_verbatim_and_the_context_under_its_threshold(
    policy: CompactionPolicy, said: list[tuple[str, int, int]], fraction: float
) -> None:
    budget, left = 400, {}
    for share in (0.0, fraction):
        world = World()
        for letter, tokens, reuse in said:
            world.append(letter, tokens + 2, reuse)
        held = replace(policy, max_sweep_iterations=400, sweep_target_fraction=share)
        state = world.sweep(held, budget, [10])
        left[share] = [item.message_id for item in world.context if isinstance(item, MessageItem)]
    assert left[fraction][len(left[fraction]) - len(left[0.0]) :] == left[0.0], "never less than without a target"
    target = held.sweep_target(budget)
    assert target is not None
    assert target <= held.threshold_tokens(budget)
    assert state.tokens <= target or left[fraction] == left[0.0], "it stops early only when it is there"
