from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lossless.context.render import RECALL_POLICY
from lossless.providers.token_limits import conversation_budget, overhead_tokens, recall_tool_tokens


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_room_is_what_is_left_or_it_is_said_how_much_is_missing(window: int, reply: int, overhead: int) -> None:
    budget, over, why_over = conversation_budget(window, reply, overhead)
    assert budget > 0
    assert budget + reply + overhead == window + over
    assert (over > 0) == bool(why_over)


def test_a_reply_of_a_whole_window_leaves_a_quarter() -> None:
    assert conversation_budget(8_000, reply=8_000)[0] == 2_000
    assert conversation_budget(8_000, reply=7_000)[0] == 1_000
    assert conversation_budget(8_000, overhead=9_000)[0] == 500


def test_what_we_add_is_counted() -> None:
    assert overhead_tokens() == 0
    assert recall_tool_tokens() == recall_tool_tokens(policy=False) + overhead_tokens(RECALL_POLICY)
    assert 1_000 < recall_tool_tokens() < 4_000
