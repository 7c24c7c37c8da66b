from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossless.context.choose import (
    TAIL_OVER_BUDGET,
    ContextCandidate,
    PromptSelection,
    SelectionPolicy,
    choose,
)
from tests.context.contexts import context, ids, message, policy, summary


def keep(shape: str, budget: int, tail: int = 2) -> list[str]:
    candidates = context(shape)
    return ids(choose(candidates, policy(candidates, budget, tail)))


@pytest.mark.parametrize(
    ("shape", "budget", "kept"),
    [
        pytest.param("u10 a10 u10 a10", 40, ["1", "2", "3", "4"], id="all of it when it fits"),
        pytest.param("u2 a2 u2 a2 u2 a2 u45 a45", 100, ["6", "7", "8"], id="the oldest go, in steps"),
        pytest.param("u90 a90 u10 a10", 100, ["3", "4"], id="the tail stays"),
        pytest.param("s10 u90 a90 u10 a10", 100, ["sum_1", "4", "5"], id="the widest summary is kept first"),
        pytest.param("s40 u30 a30 u10 a10", 100, ["2", "3", "4", "5"], id="not when it is too large"),
        pytest.param("s10 u10 a90 u80 a15", 100, ["4", "5"], id="the tail goes before the widest summary"),
        pytest.param(
            "u5 a5 u200 a5 u20 a20", 100, ["1", "2", "4", "5", "6"], id="one giant does not take others along"
        ),
    ],
)
def test_choose(shape: str, budget: int, kept: list[str]) -> None:
    assert keep(shape, budget) == kept


def test_the_newest_user_message_and_what_follows_stay_whatever_the_tail() -> None:
    assert keep("u50 a50 u50 a50", 100, tail=1) == ["3", "4"]
    assert keep("u50 a50 u50 a50", 100, tail=0) == ["3", "4"]


def test_a_tail_that_is_over_budget_gives_up_what_is_before_the_newest_user_message() -> None:
    candidates = context("u40 a40 u40 a40 u40 a40")
    chosen = choose(candidates, policy(candidates, 130, tail=6))
    assert (ids(chosen), chosen.fits) == (["4", "5", "6"], True)
    assert {reason for _, reason in chosen.left_out} == {TAIL_OVER_BUDGET}


def test_calls_and_results_stay_or_go_together() -> None:
    candidates = [
        message(1, 10),
        message(2, 10, "assistant", atom=1),
        message(3, 10),
        message(4, 60, "tool", atom=1),
        message(5, 10),
        message(6, 10, "assistant"),
    ]
    assert ids(choose(candidates, policy(candidates, 60))) == ["1", "3", "5", "6"]
    tail_has_the_result = policy(candidates, 105, tail=3)
    assert ids(choose(candidates, tail_has_the_result)) == ["2", "3", "4", "5", "6"]


def _all(candidates: list[ContextCandidate]) -> list[str]:
    return [candidate.id.removeprefix("msg#") for candidate in candidates]


def test_the_summary_that_covers_most_is_reserved() -> None:
    candidates = [summary(1, 10, covers=5), summary(2, 10, covers=90), *context("u1 a1 u90 a30 u10 a10")[2:]]
    chosen = choose(candidates, policy(candidates, 100))
    assert "sum_2" in ids(chosen)
    assert chosen.shares["widest summary"] == 0.1


def test_prompt_aware_keeps_what_the_prompt_is_about() -> None:
    candidates = [message(n, 20, score=score) for n, score in enumerate([0.0, 3.0, 0.0, 1.0, 0.0], 1)]
    candidates += context("u10 a10")
    aware = policy(candidates, 80, is_prompt_aware=True)
    assert ids(choose(candidates, aware)) == ["2", "4", "5", "1", "2"]
    plain = policy(candidates, 80)
    assert ids(choose(candidates, plain)) == ["3", "4", "5", "1", "2"]


def test_the_factor_and_what_is_reserved_shrink_the_limit() -> None:
    assert SelectionPolicy(1000, 0).limit == 1000
    assert SelectionPolicy(1000, 0, reserved=100, factor=1.25).limit == 700
    assert SelectionPolicy(1000, 0, factor=1.21).limit == SelectionPolicy(1000, 0, factor=1.25).limit
    assert SelectionPolicy(100, 0, reserved=200).limit == 0


def test_the_shares_are_shown() -> None:
    candidates = context("s10 s30 s30 u10 a10 u20 a5")
    chosen = choose(candidates, policy(candidates, 115, widest_share=0.10))
    assert chosen.shares == {
        "protected tail": 0.2174,
        "recent summaries": 0.2609,
        "widest summary": 0.087,
        "background": 0.4348,
    }
    assert chosen.tokens_by_kind == {"messages": 45, "summaries": 70}


# --- promises -------------------------------------------------------------------------------------


@st.composite
def contexts(draw: st.DrawFn) -> list[ContextCandidate]:
    kinds = draw(st.lists(st.sampled_from("suuaat"), min_size=1, max_size=30))
    roles = {"u": "user", "a": "assistant", "t": "tool"}
    made: list[ContextCandidate] = []
    for number, kind in enumerate(kinds, 1):
        tokens = draw(st.integers(1, 300))
        score = draw(st.sampled_from([0.0, 0.5, 2.0]))
        if kind == "s":
            covers = draw(st.integers(1, 50))
            made.append(summary(number, tokens, covers, score=score))
            continue
        atom = draw(st.sampled_from([None, None, 1, 2, 3])) if kind != "u" else None
        stub = min(tokens, 20) if kind == "t" else None
        made.append(message(number, tokens, roles[kind], score=score, atom=atom, stub_tokens=stub))  # type: ignore[arg-type]
    return made


@given(contexts(), st.integers(50, 4000), st.integers(0, 12), st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_promises_of_a_choice(candidates: list[ContextCandidate], budget: int, tail: int, is_aware: bool) -> None:
    rules = policy(candidates, budget, tail, is_prompt_aware=is_aware)
    chosen = choose(candidates, rules)
    protected = _protected(candidates, rules)
    fits = sum(candidates[i].tokens for i in protected) <= rules.limit
    assert chosen.fits or not fits, "within budget whenever the protected tail fits"
    order = [candidate.id for candidate in candidates]
    places = [order.index(kept.candidate.id) for kept in chosen.kept]
    assert places == sorted(places), "the context's order is kept"
    gone = [order.index(out[0].id) for out in chosen.left_out]
    assert sorted(places + gone) == list(range(len(candidates))), "each candidate is in or out, with a reason"
    assert all(reason for _, reason in chosen.left_out)
    verbatim = {order.index(kept.candidate.id) for kept in chosen.kept if kept.form == "verbatim"}
    if fits:
        assert protected <= verbatim, "the tail is in, as it is"
    users = [i for i, c in enumerate(candidates) if getattr(c.item, "role", None) == "user"]
    assert not users or users[-1] in verbatim, "the newest user message is in, always"
    for atom in (1, 2, 3):
        members = {i for i, c in enumerate(candidates) if c.atom == atom}
        assert not members & set(places) or members <= set(places) or _has_run(chosen), "atoms are whole"
    assert chosen == choose(candidates, rules), "the same every time"


def _protected(candidates: list[ContextCandidate], rules: SelectionPolicy) -> set[int]:
    users = [i for i, c in enumerate(candidates) if getattr(c.item, "role", None) == "user"]
    start = min([rules.tail_start, *users[-1:]])
    atoms = {c.atom for c in candidates[start:]} - {None}
    return {i for i, c in enumerate(candidates) if i >= start or c.atom in atoms}


def _has_run(chosen: PromptSelection) -> bool:
    return any(kept.form == "run" for kept in chosen.kept)


@given(st.lists(st.integers(20, 600), min_size=200, max_size=200), st.booleans(), st.sampled_from([4, 8, 16]))
@settings(max_examples=8, deadline=None)
def test_two_hundred_growing_turns_change_the_prefix_once_per_step(sizes: list[int], has_root: bool, tail: int) -> None:
    """Promise 7 over budget: at most one change of the beginning for each tenth of the budget that was added."""
    budget = 20_000
    candidates = [summary(0, 2_000, covers=500)] if has_root else []
    candidates += [message(n, 400, "user" if n % 2 else "assistant") for n in range(1, 50)]
    before: list[str] = []
    changes = added = 0
    step = policy(candidates, budget).step
    for turn, size in enumerate(sizes):
        candidates += [message(100 + 2 * turn, size), message(101 + 2 * turn, size // 2 + 1, "assistant")]
        added += size + size // 2 + 1
        chosen = choose(candidates, policy(candidates, budget, tail))
        assert chosen.fits
        now = ids(chosen)
        changes += now[: len(before)] != before
        before = now
    assert changes <= math.ceil(added / step)
    assert not has_root or before[0] == "sum_0"


def test_a_tail_that_never_fits_still_moves_in_steps() -> None:
    candidates: list[ContextCandidate] = []
    before: list[str] = []
    changes = 0
    for turn in range(200):
        candidates += [message(2 * turn, 100), message(2 * turn + 1, 100, "assistant")]
        chosen = choose(candidates, policy(candidates, 4_000, tail=64))
        assert chosen.fits
        now = ids(chosen)
        changes += now[: len(before)] != before
        before = now
    assert changes <= 40_000 / 400
