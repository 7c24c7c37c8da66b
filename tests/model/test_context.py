"""The fresh tail is one rule for everybody; tool pairs say where a context may be cut."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.model.context import (
    ContextItem,
    MessageItem,
    SummaryItem,
    cuts_splitting_pairs,
    fresh_tail_start,
    newest_user_index,
    token_sum,
)

if TYPE_CHECKING:
    from lossless.model.messages import Role

ROLES: dict[str, Role] = {"u": "user", "a": "assistant", "t": "tool", "s": "system"}


def context(shape: str, tokens: int = 10) -> list[ContextItem]:
    """`u`ser, `a`ssistant, `t`ool and `s`ystem messages; a digit is a summary of that depth."""
    items: list[ContextItem] = []
    for n, letter in enumerate(shape):
        if letter.isdigit():
            items.append(SummaryItem(n, f"sum_{n}", int(letter), tokens))
        else:
            items.append(MessageItem(n, n + 1, ROLES[letter], tokens, n + 1))
    return items


@pytest.mark.parametrize(
    ("shape", "count", "max_tokens", "tail"),
    [
        pytest.param("", 4, None, "", id="an empty context has no tail"),
        pytest.param("uaua", 0, None, "", id="no count, no tail"),
        pytest.param("000", 4, None, "", id="summaries are no tail"),
        pytest.param("uaua", 8, None, "uaua", id="a short context is all tail"),
        pytest.param("uauaua", 3, None, "aua", id="the count caps the tail"),
        pytest.param("uaatatat", 2, None, "uaatatat", id="the newest user-led suffix is above the count"),
        pytest.param("uauatat", 2, 10, "uatat", id="the newest user-led suffix is above the tokens"),
        pytest.param("uauaua", 6, 40, "uaua", id="the token cap is inclusive"),
        pytest.param("uauaua", 6, 39, "aua", id="a message that would exceed the tokens stays out"),
        pytest.param("uauaua", 6, 0, "ua", id="no tokens at all still keep the newest turn"),
        pytest.param("uau", 1, None, "u", id="a user message at the end is a turn of its own"),
        pytest.param("0aatat", 2, None, "at", id="without a user message the count decides"),
        pytest.param("aatat", 9, 10, "t", id="without a user message the tokens decide"),
        pytest.param("aat", 9, 0, "t", id="without a user message the newest stays"),
        pytest.param("00ua0aa", 8, None, "ua0aa", id="a summary inside the turn belongs to the tail"),
        pytest.param("00ua", 2, None, "ua", id="summaries are not counted"),
        pytest.param("aa0aaua", 8, None, "aaua", id="what is older than a summary is not fresh"),
        pytest.param("a0a1", 8, None, "a1", id="nor without a user message"),
    ],
)
def test_fresh_tail(shape: str, count: int, max_tokens: int | None, tail: str) -> None:
    start = fresh_tail_start(context(shape), count, max_tokens)
    assert shape[start:] == tail


shapes = st.text("uats012", max_size=30)


@given(shapes, st.integers(0, 12), st.none() | st.integers(0, 120))
def test_the_tail_is_the_newest_turn_or_the_longest_within_the_caps(
    shape: str, count: int, max_tokens: int | None
) -> None:
    items = context(shape)
    start = fresh_tail_start(items, count, max_tokens)
    raw = [n for n, item in enumerate(items) if isinstance(item, MessageItem)]
    if count == 0 or not raw:
        assert start == len(items)
        return
    turn = newest_user_index(items)
    must = raw[-1] if turn is None else turn

    def fits(index: int) -> bool:
        kept = [items[n] for n in raw if n >= index]
        return len(kept) <= count and (max_tokens is None or token_sum(kept) <= max_tokens)

    assert start in raw
    assert start <= must
    unbroken = len(shape[:must].rstrip("uats"))
    assert start == min([must, *(n for n in range(unbroken, must) if fits(n))])


@given(shapes, st.integers(1, 12), st.none() | st.integers(0, 120), st.data())
def test_a_fold_before_the_tail_does_not_move_it(
    shape: str, count: int, max_tokens: int | None, data: st.DataObject
) -> None:
    items = context(shape)
    tail = fresh_tail_start(items, count, max_tokens)
    first = data.draw(st.integers(0, tail))
    last = data.draw(st.integers(first, tail))
    folded = [*items[:first], SummaryItem(first, "sum_new", 0, 1), *items[last:]]
    assert folded[fresh_tail_start(folded, count, max_tokens) :] == items[tail:]


@given(shapes, st.integers(1, 12))
def test_a_message_more_never_moves_the_tail_back(shape: str, count: int) -> None:
    assert fresh_tail_start(context(shape + "a"), count) >= fresh_tail_start(context(shape), count)


def free_borders(shape: str, calls: dict[int, set[str]]) -> list[int]:
    """`calls` by index in the shape; message ids are one more."""
    cuts = cuts_splitting_pairs(context(shape), {index + 1: frozenset(ids) for index, ids in calls.items()})
    assert len(cuts) == len(shape) + 1
    return [border for border, cut in enumerate(cuts) if not cut]


@pytest.mark.parametrize(
    ("shape", "calls", "borders"),
    [
        pytest.param("uau", {}, [0, 1, 2, 3], id="no calls, any border"),
        pytest.param("uatu", {1: {"x"}, 2: {"x"}}, [0, 1, 3, 4], id="a pair is a unit"),
        pytest.param("attu", {0: {"x", "y"}, 1: {"x"}, 2: {"y"}}, [0, 3, 4], id="parallel calls are a unit"),
        pytest.param("aattu", {0: {"x"}, 1: {"y"}, 2: {"x"}, 3: {"y"}}, [0, 4, 5], id="interleaved calls"),
        pytest.param("auatu", {0: {"x"}, 3: {"x"}}, [0, 4, 5], id="a displaced result holds what is between"),
        pytest.param("atatu", {n: {"x"} for n in range(4)}, [0, 2, 4, 5], id="ids may be used again"),
        pytest.param("attu", {0: {"x"}, 1: {"x"}, 2: {"x"}}, [0, 2, 3, 4], id="the first result is the result"),
        pytest.param("tau", {0: {"x"}}, [0, 1, 2, 3], id="a result without its call"),
        pytest.param("uaua", {1: {"x"}}, [0, 1, 2, 3, 4], id="a call that was given up"),
        pytest.param("uatat", {1: {"x"}, 3: {"y"}, 4: {"y"}}, [0, 1, 2, 3, 5], id="given up inside the turn"),
        pytest.param("ua", {1: {"x"}}, [0, 1], id="a call that waits for its result"),
        pytest.param("uaaat", {2: {"x"}, 3: {"y"}, 4: {"x"}}, [0, 1, 2], id="one of two still waits"),
        pytest.param("uau", {1: {"x"}}, [0, 1], id="a user may speak while a call waits"),
        pytest.param("ut", {0: {"x"}, 1: {"x"}}, [0, 1, 2], id="only assistants call"),
    ],
)
def test_pair_cuts(shape: str, calls: dict[int, set[str]], borders: list[int]) -> None:
    assert free_borders(shape, calls) == borders


@given(st.lists(st.tuples(st.sampled_from("uatt0"), st.sets(st.sampled_from("xyz"), max_size=2)), max_size=16))
def test_a_free_border_parts_no_call_from_the_result_after_it(row: list[tuple[str, set[str]]]) -> None:
    shape = "".join(letter for letter, _ in row)
    calls = {n: ids for n, (letter, ids) in enumerate(row) if letter != "0"}
    free = free_borders(shape, calls)
    for call, result in combinations(range(len(row)), 2):
        if shape[call] != "a" or shape[result] not in "ut":
            continue
        shared = calls[call] & calls[result]
        between = [n for n in range(call + 1, result) if n in calls]
        theirs = {x for x in shared if not any(x in calls[n] for n in between)}
        if theirs:
            assert not [border for border in free if call < border <= result]
