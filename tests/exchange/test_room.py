from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lossless.assembly.policy_text import RECALL_POLICY
from lossless.exchange.room import beside_tokens, recall_tokens, room


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_room_is_what_is_left_or_it_is_said_how_much_is_missing(window: int, reply: int, beside: int) -> None:
    there = room(window, reply, beside)
    assert there.budget > 0
    assert there.budget + reply + beside == window + there.over
    assert (there.over > 0) == bool(there.why_over)


def test_a_reply_of_a_whole_window_leaves_a_quarter() -> None:
    assert room(8_000, reply=8_000).budget == 2_000
    assert room(8_000, reply=7_000).budget == 1_000
    assert room(8_000, beside=9_000).budget == 500


def test_what_we_add_is_counted() -> None:
    assert beside_tokens() == 0
    assert recall_tokens() == recall_tokens(policy=False) + beside_tokens(RECALL_POLICY)
    assert 1_000 < recall_tokens() < 4_000
