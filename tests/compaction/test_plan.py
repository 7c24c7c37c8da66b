"""What is folded next, told in shapes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from lossless.compaction.compactor import CompactionPolicy, first_import_policy
from lossless.compaction.plan import (
    CompactionDecision,
    Pass,
    SweepState,
    after_blank,
    after_pass,
    after_stale,
    after_unshrinkable,
    begin_sweep,
    chunk_key,
    context_after_fold,
    dry_run,
    evaluate,
    expected_tokens,
    leaf_batch,
    next_pass,
    stop_reason,
)
from lossless.model.context import ContextItem, MessageItem, SummaryItem, framed_tokens, prompt_tokens, token_sum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.model.messages import Role

#: Small numbers: every item of a shape has 10 tokens unless a test says otherwise.
POLICY = CompactionPolicy(
    fresh_tail_count=2,
    leaf_chunk_tokens=30,
    leaf_min_fanout=3,
    condensed_min_fanout=2,
    condensed_target_tokens=5,
)
OPEN = SweepState(tokens=10_000, prefix_target=0)
ROLES: dict[str, Role] = {"u": "user", "r": "tool"}


def measured(
    context: Sequence[ContextItem], budget: int, policy: CompactionPolicy, observed: int | None = None
) -> CompactionDecision:
    return evaluate(token_sum(context), observed, budget, policy, framing=framed_tokens(0, len(context)))


@dataclass
class Shape:
    """A context from letters: `u`ser, `m`essage of the assistant, `c`all and its `r`esult, `x` a call
    that never gets one; digits are summaries of that depth.
    """

    letters: str
    tokens: int = 10
    items: list[ContextItem] = field(default_factory=list)
    call_ids: dict[int, frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        waiting: list[str] = []
        for n, letter in enumerate(self.letters):
            if letter.isdigit():
                self.items.append(SummaryItem(n, f"sum_{n}", int(letter), self.tokens))
                continue
            self.items.append(MessageItem(n, n, ROLES.get(letter, "assistant"), self.tokens, n))
            if letter in "cx":
                self.call_ids[n] = frozenset([f"call_{n}"])
            if letter == "c":
                waiting.append(f"call_{n}")
            if letter == "r" and waiting:
                self.call_ids[n] = frozenset([waiting.pop(0)])

    def next(self, policy: CompactionPolicy = POLICY, state: SweepState = OPEN) -> Pass | None:
        return next_pass(self.items, policy, replace(state, call_ids=self.call_ids))

    def show(self, work: Pass | None) -> str:
        """The context with the sources in brackets, and the depth of the new summary."""
        if work is None:
            return "nothing"
        first, last = work.items[0].ordinal, work.items[-1].ordinal
        assert work.items == tuple(self.items[first : last + 1])
        letters = self.letters
        return f"{letters[:first]}[{letters[first : last + 1]}]{letters[last + 1 :]} -> {work.depth}"


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        pytest.param("", "nothing", id="an empty context"),
        pytest.param("mu", "nothing", id="all tail"),
        pytest.param("mmu", "[m]mu -> 0", id="one message is enough for a leaf"),
        pytest.param("mmmmmmu", "[mmm]mmmu -> 0", id="a leaf stops at the chunk limit"),
        pytest.param("00mmmmu", "00[mmm]mu -> 0", id="messages fold before summaries"),
        pytest.param("mm0mmmu", "[mm]0mmmu -> 0", id="the oldest run first"),
        pytest.param("11000mu", "11[000]mu -> 1", id="shallow folds before deep"),
        pytest.param("000000mu", "[000]000mu -> 1", id="the chunk limit holds for summaries"),
        pytest.param("110mu", "[11]0mu -> 2", id="deep folds when shallow cannot"),
        pytest.param("0101mu", "nothing", id="only neighbours fold"),
        pytest.param("0m00mu", "0[m]00mu -> 0", id="a message between summaries"),
        pytest.param("01000mu", "01[000]mu -> 1", id="a lone summary does not block its depth"),
        pytest.param("00mu", "[00]mu -> 1", id="two fold under pressure"),
        pytest.param("muccrr", "[m]uccrr -> 0", id="the newest turn is tail whatever the count"),
        pytest.param("mmcrmu", "[mm]crmu -> 0", id="a pair that does not fit whole waits"),
        pytest.param("mcrmmu", "[mcr]mmu -> 0", id="a pair that fits is a unit"),
        pytest.param("ccrrmmu", "[ccrr]mmu -> 0", id="a unit may exceed the chunk limit"),
        pytest.param("mcmurmu", "[m]cmurmu -> 0", id="a result inside the tail holds its call back"),
        pytest.param("cu", "nothing", id="only a call before the tail"),
    ],
)
def test_next_pass(shape: str, expected: str) -> None:
    sketch = Shape(shape)
    policy = replace(POLICY, sweep_max_depth=-1)
    assert sketch.show(sketch.next(policy)) == expected


@pytest.mark.parametrize(
    ("shape", "depth", "expected"),
    [
        pytest.param("000mu", 1, "[000]mu -> 1", id="routine condenses leaves"),
        pytest.param("1100mu", 1, "11[00]mu -> 1", id="pressure takes two leaves before it goes deeper"),
        pytest.param("11000mu", 2, "11[000]mu -> 1", id="shallow first"),
        pytest.param("110mu", 1, "[11]0mu -> 2", id="beyond the depth only under pressure"),
        pytest.param("000mu", 0, "[000]mu -> 1", id="leaf-only yields to pressure"),
        pytest.param("2200mu", 3, "[22]00mu -> 3", id="a routine run comes before pressure"),
    ],
)
def test_sweep_max_depth(shape: str, depth: int, expected: str) -> None:
    sketch = Shape(shape)
    assert sketch.show(sketch.next(replace(POLICY, sweep_max_depth=depth))) == expected


def test_condensing_waits_for_its_target_and_is_worth_it() -> None:
    sketch = Shape("000mu")
    assert sketch.next(state=replace(OPEN, prefix_target=30)) is None
    assert sketch.next(state=replace(OPEN, prefix_target=29)) is not None
    under = replace(OPEN, prefix_target=30, tokens=50, stop_at=50)
    assert sketch.next(state=under) is None
    assert sketch.next(state=replace(under, stop_at=49)) is not None
    assert sketch.next(replace(POLICY, condensed_target_tokens=30)) is not None
    assert sketch.next(replace(POLICY, condensed_target_tokens=31)) is None, "too few tokens to condense"
    assert sketch.next(replace(POLICY, leaf_chunk_tokens=300)) is not None
    assert sketch.next(replace(POLICY, leaf_chunk_tokens=310)) is None, "less than a tenth of a chunk"
    assert sketch.next(state=replace(OPEN, leaf_only=True)) is None


def test_summaries_larger_than_the_chunk_limit_still_fold_two_at_a_time() -> None:
    sketch = Shape("000mu", tokens=100)
    assert sketch.show(sketch.next()) == "[00]0mu -> 1"


def test_leaves_stop_when_the_context_is_small_enough() -> None:
    sketch = Shape("mmmmmu")
    assert sketch.next(state=SweepState(tokens=60, prefix_target=0, stop_at=60)) is None
    assert sketch.next(state=SweepState(tokens=61, prefix_target=0, stop_at=60)) is not None


def test_targets() -> None:
    leaf = Shape("mmmmmu", tokens=1000).next(CompactionPolicy(fresh_tail_count=1))
    assert leaf is not None
    assert (leaf.kind, leaf.tokens, leaf.target_tokens) == ("leaf", 5000, 1750)
    condensed = Shape("00mu").next()
    assert condensed is not None
    assert (condensed.kind, condensed.depth, condensed.target_tokens) == ("condensed", 1, 512)


@pytest.mark.parametrize(
    ("shape", "last_leaf", "previous"),
    [
        pytest.param("mmmu", None, (), id="nothing before"),
        pytest.param("210mmmu", None, ("sum_1", "sum_2"), id="two summaries before it"),
        pytest.param("210mmmu", "sum_2", ("sum_2",), id="the leaf just made"),
        pytest.param("210mmmu", "sum_1", ("sum_1", "sum_2"), id="a leaf made elsewhere does not count"),
        pytest.param("1000mu", None, (), id="nothing of its depth before"),
        pytest.param("01000mu", None, ("sum_0",), id="condensing leaves shows earlier leaves"),
        pytest.param("10110mu", None, (), id="deeper ones are shown nothing"),
    ],
)
def test_previous(shape: str, last_leaf: str | None, previous: tuple[str, ...]) -> None:
    work = Shape(shape).next(replace(POLICY, sweep_max_depth=-1), replace(OPEN, last_leaf=last_leaf))
    assert work is not None
    assert work.previous == previous


def test_a_chunk_that_no_level_shrinks_is_joined_with_the_next_one() -> None:
    sketch, state = Shape("mmmmmmmmu"), OPEN
    for expected in ("[mmm]mmmmmu -> 0", "[mmmmmm]mmu -> 0", "[mmmmmmm]mu -> 0", "nothing"):
        work = sketch.next(state=state)
        assert sketch.show(work) == expected
        state = after_unshrinkable(state, work) if work else state
    assert state.passes == 3
    again = replace(OPEN, remembered=state.remembered)
    assert sketch.next(state=again) is None, "nobody is asked twice"
    longer = Shape("mmmmmmmmmu")
    assert longer.show(longer.next(state=again)) == "[mmmmmmmm]mu -> 0", "until there is more to join"


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        pytest.param("210mu", "[21]0mu -> 3", id="the oldest two"),
        pytest.param("2100mu", "21[00]mu -> 1", id="those of one depth first"),
        pytest.param("2m10mu", "2[m]10mu -> 0", id="messages first"),
        pytest.param("21mu", "nothing", id="not while one more than their target has room"),
    ],
)
def test_where_the_budget_is_small_summaries_of_different_depths_are_joined(shape: str, expected: str) -> None:
    plain = replace(POLICY, condensed_target_tokens=12, leaf_chunk_tokens=200)
    small = replace(plain, least_leaf_tokens=1, summary_prefix_target_tokens=10)
    sketch, state = Shape(shape), replace(OPEN, prefix_target=10)
    assert sketch.show(sketch.next(small, state)) == expected
    without = "nothing" if shape == "210mu" else expected
    assert sketch.show(sketch.next(plain, state)) == without, "only where the budget decides how long summaries are"


def test_summaries_that_could_not_be_joined_are_not_tried_again() -> None:
    sketch = Shape("3210mu")
    small = replace(POLICY, least_leaf_tokens=1, leaf_chunk_tokens=200, summary_prefix_target_tokens=10)
    first = sketch.next(small)
    assert sketch.show(first) == "[32]10mu -> 4"
    assert first is not None
    assert sketch.show(sketch.next(small, after_unshrinkable(OPEN, first))) == "3[21]0mu -> 3"


@pytest.mark.parametrize(("fewest", "expected"), [(2, "[32]10mu -> 4"), (3, "[321]0mu -> 4"), (5, "nothing")])
def test_fewer_summaries_than_the_settings_allow_are_not_joined_in_a_small_budget(fewest: int, expected: str) -> None:
    sketch = Shape("3210mu")
    small = replace(POLICY, least_leaf_tokens=1, leaf_chunk_tokens=200, summary_prefix_target_tokens=10)
    assert sketch.show(sketch.next(replace(small, condensed_min_fanout_hard=fewest))) == expected


def test_a_result_that_no_prompt_can_hold_makes_no_leaf_by_its_size() -> None:
    sketch = Shape("mcrmmu")
    sketch.items[2] = MessageItem(2, 2, "tool", 1_000, 2)
    waiting = replace(OPEN, budget=400)
    assert sketch.next(replace(POLICY, least_leaf_tokens=81), waiting) is None, "10 + 10 + an eighth of 400 + 10"
    assert sketch.next(replace(POLICY, least_leaf_tokens=80), waiting) is not None
    assert sketch.next(replace(POLICY, least_leaf_tokens=81), replace(waiting, takes_any=True)) is not None
    assert sketch.next(replace(POLICY, least_leaf_tokens=81), replace(waiting, budget=1_000)) is not None


def test_a_condensed_chunk_that_does_not_shrink_is_joined_too() -> None:
    sketch = Shape("00000mu")
    first = sketch.next()
    assert first is not None
    assert sketch.show(sketch.next(state=after_unshrinkable(OPEN, first))) == "[00000]mu -> 1"


def test_a_chunk_without_words_is_passed_over_without_a_call() -> None:
    sketch = Shape("mmmmmu")
    work = sketch.next()
    assert work is not None
    state = after_blank(replace(OPEN, last_leaf="sum_9"), work)
    assert (state.passes, state.last_leaf) == (0, None)
    assert sketch.show(sketch.next(state=state)) == "mmm[m]mu -> 0"


def test_a_key_names_sources_and_sizes() -> None:
    items = Shape("mmm0").items
    assert len({chunk_key(items[:2]), chunk_key(items[:3]), chunk_key(items[1:3]), chunk_key(items[3:])}) == 4
    assert chunk_key(items) == chunk_key([replace(item, ordinal=item.ordinal + 7) for item in items])
    assert chunk_key(items) != chunk_key([replace(item, tokens=11) for item in items])


def test_a_sweep_is_bounded_in_passes_and_time() -> None:
    sketch, decision = Shape("m" * 99), evaluate(990, None, 1000, POLICY)
    state = begin_sweep(sketch.items, POLICY, decision, now=5.0)
    assert state.deadline == 125.0
    assert begin_sweep(sketch.items, POLICY, decision, now=5.0, deadline=7.0).deadline == 7.0
    assert next_pass(sketch.items, POLICY, state, now=124.9) is not None
    assert next_pass(sketch.items, POLICY, state, now=125.0) is None
    assert stop_reason(state, POLICY, 125.0) == "deadline"
    spent = replace(state, passes=12)
    assert next_pass(sketch.items, POLICY, spent) is None
    assert stop_reason(spent, POLICY, 0.0) == "iterations"
    failed = replace(state, stopped="auth failure")
    assert next_pass(sketch.items, POLICY, failed) is None
    assert stop_reason(failed, POLICY, 0.0) == "auth failure"


def test_a_fold_that_saves_nothing_is_the_last() -> None:
    work = Shape("mmmmu").next()
    assert work is not None
    good = after_pass(OPEN, work, "sum_a", 19)
    assert (good.tokens, good.passes, good.last_leaf, good.stopped) == (
        9_969,
        1,
        "sum_a",
        None,
    )
    assert after_pass(OPEN, work, "sum_a", work.tokens).stopped == "no progress"


def test_a_changed_context_is_planned_again_twice_and_charged() -> None:
    state, items = OPEN, Shape("mmmu").items
    for stopped in (None, None, "stale"):
        state = after_stale(state, items, {})
        assert state.stopped == stopped
    assert (state.passes, state.tokens) == (3, 80)


def test_a_batch_is_disjoint_and_no_larger_than_wanted() -> None:
    sketch = Shape("m" * 13)
    batch = leaf_batch(sketch.items, POLICY, OPEN, 3)
    assert [sketch.show(work) for work in batch] == [
        "[mmm]mmmmmmmmmm -> 0",
        "mmm[mmm]mmmmmmm -> 0",
        "mmmmmm[mmm]mmmm -> 0",
    ]
    assert all(work.batched and work.previous == () for work in batch)
    assert len(leaf_batch(sketch.items, POLICY, replace(OPEN, passes=11), 3)) == 1
    assert leaf_batch(sketch.items, POLICY, replace(OPEN, passes=12), 3) == ()
    near = SweepState(tokens=260, prefix_target=0, stop_at=200)
    assert len(leaf_batch(sketch.items, POLICY, near, 3)) == 2, "two halved chunks are expected to do"


def test_a_batch_joins_what_did_not_shrink() -> None:
    sketch = Shape("m" * 12)
    first = sketch.next()
    assert first is not None
    batch = leaf_batch(sketch.items, POLICY, after_unshrinkable(OPEN, first), 9)
    assert [len(work.items) for work in batch] == [6, 3, 1]


def test_a_first_import_is_cut_into_leaves_at_once() -> None:
    items = Shape("um" * 5_000, tokens=50).items
    policy = first_import_policy(CompactionPolicy())
    state = begin_sweep(items, policy, evaluate(500_000, None, 128_000, policy))
    batch = leaf_batch(items, policy, replace(state, stop_at=None), 10_000)
    assert token_sum(item for work in batch for item in work.items) == 500_000 - 6_000
    assert all(work.tokens <= 20_000 for work in batch)


def test_a_dry_run_tells_the_whole_sweep() -> None:
    sketch = Shape("m" * 12 + "u", tokens=40)
    policy = replace(POLICY, leaf_chunk_tokens=120, leaf_min_fanout=2)
    planned, _ = dry_run(sketch.items, policy, replace(OPEN, prefix_target=130))
    assert [(work.depth, len(work.items), expected_tokens(work)) for work in planned] == [
        (0, 3, 60),
        (0, 3, 60),
        (0, 3, 60),
        (0, 2, 40),
        (1, 2, 60),
        (1, 2, 50),
    ]
    assert [item.summary_id for item in planned[-1].items if isinstance(item, SummaryItem)] == [
        "planned-3",
        "planned-4",
    ]
    tiny = Shape("mmu", tokens=0)
    assert dry_run(tiny.items, policy, OPEN)[0] == [], "what cannot shrink is not planned"


def test_a_tail_that_alone_exceeds_the_budget_is_kept_only_in_part() -> None:
    sketch = Shape("um" * 8)
    policy = replace(POLICY, fresh_tail_count=64)
    fits = begin_sweep(sketch.items, policy, measured(sketch.items, 321, policy))
    assert sketch.next(policy, fits) is None
    state = begin_sweep(sketch.items, policy, measured(sketch.items, 200, policy))
    assert (state.tail_target, state.stop_at, state.long_turn) == (150, 150, False)
    assert sketch.show(sketch.next(policy, state)) == "[umu]mumumumumumum -> 0"
    batch = leaf_batch(sketch.items, policy, replace(state, stop_at=None), 99)
    assert sum(len(work.items) for work in batch) == 9, "seven messages are within the threshold"


def test_an_overhead_counts_against_the_tail_for_half_the_budget_at_most() -> None:
    sketch, policy = Shape("um" * 4), replace(POLICY, fresh_tail_count=64)

    def tail_target(observed: int, budget: int) -> int | None:
        return begin_sweep(sketch.items, policy, measured(sketch.items, budget, policy, observed)).tail_target

    assert tail_target(observed=309, budget=310) is None, "161 tokens are left for a tail of 160, frames and all"
    assert tail_target(observed=310, budget=310) == 120, "160 are left: the tail fills them"
    assert tail_target(observed=10_000, budget=322) is None, "half of the budget is always left"
    assert tail_target(observed=10_000, budget=320) == 120


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        pytest.param("mmu" + "cr" * 8, "[mm]ucrcrcrcrcrcrcrcr -> 0", id="what is older than the turn goes first"),
        pytest.param("0u" + "cr" * 8, "0u[cr]crcrcrcrcrcrcr -> 0 in turn", id="then the oldest finished pairs"),
        pytest.param("0u00" + "cr" * 7, "0u00[cr]crcrcrcrcrcr -> 0 in turn", id="after what was folded before"),
        pytest.param("0u0" + "cr" * 2, "nothing", id="the newest messages stay"),
        pytest.param("u000" + "m" * 4, "u[000]mmmm -> 1 in turn", id="leaves of the turn are condensed"),
        pytest.param("ux" + "mcr" * 4, "u[xm]crmcrmcrmcr -> 0 in turn", id="a call that was given up"),
        pytest.param("ucrm" + "c" * 7, "u[crm]ccccccc -> 0 in turn", id="calls that wait stay with the newest"),
    ],
)
def test_the_long_single_turn(shape: str, expected: str) -> None:
    sketch = Shape(shape)
    policy = replace(POLICY, turn_verbatim_count=4)
    state = begin_sweep(sketch.items, policy, measured(sketch.items, 60, policy))
    assert state.long_turn
    work = sketch.next(policy, state)
    assert sketch.show(work) + (" in turn" if work and work.within_turn else "") == expected


def test_a_batch_takes_one_chunk_of_a_turn() -> None:
    sketch, policy = Shape("mmmmu" + "cr" * 8), replace(POLICY, turn_verbatim_count=4)
    state = begin_sweep(sketch.items, policy, measured(sketch.items, 60, policy))
    batch = leaf_batch(sketch.items, policy, replace(state, call_ids=sketch.call_ids), 9)
    assert [(len(work.items), work.within_turn) for work in batch] == [(3, False), (1, False)]
    later = Shape("0u" + "cr" * 8)
    batch = leaf_batch(later.items, policy, replace(state, call_ids=later.call_ids), 9)
    assert [(len(work.items), work.within_turn) for work in batch] == [(2, True)]


def test_a_turn_of_four_hundred_results_stays_inside_its_budget() -> None:
    """One user message and 400 results of 2 kB within 32k tokens; a sweep whenever the limit is reached."""
    policy, budget = CompactionPolicy(), 32_000
    sketch = Shape("u" + "cr" * 400, tokens=500)
    context: tuple[ContextItem, ...] = ()
    made = 0
    for item in sketch.items:
        context = (*context, item)
        decision = measured(context, budget, policy)
        if decision.pressure != "hard":
            continue
        state = begin_sweep(context, policy, decision, call_ids=sketch.call_ids)
        while work := next_pass(context, policy, state):
            made += 1
            context = context_after_fold(context, work, f"sum_{made}", work.target_tokens)
            state = after_pass(state, work, f"sum_{made}", work.target_tokens)
        assert stop_reason(state, policy, 0.0) is None
        assert prompt_tokens(context) <= decision.target_tokens < budget
        assert context[0] == sketch.items[0], "the user message stays"
        assert list(context[-8:]) == sketch.items[item.ordinal - 7 : item.ordinal + 1], "the newest eight stay"
    assert 10 < made < 60
