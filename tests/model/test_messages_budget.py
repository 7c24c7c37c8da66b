"""The estimate for budgets against what tokenizers counted of the same texts."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.token_texts import made_up
from lossless.model import budget
from lossless.model.budget import PICTURE_TOKENS, budget_tokens, json_budget_tokens, message_budget_tokens
from lossless.model.messages import File, Json, Message, Text, ToolCall, ToolResult
from lossless.model.tokens import estimate_tokens

#: Of the first 2,400 characters of each text: tokens by cl100k and by o200k.
COUNTED = {
    "English": (487, 484),
    "logs": (1121, 1120),
    "hex dump": (1517, 1516),
    "hex": (1357, 1357),
    "SHA-256": (1285, 1289),
    "UUIDs": (1553, 1554),
    "base64": (1722, 1638),
    "base64 in lines": (1724, 1652),
    "JSON": (1028, 1026),
    "JSON, indented": (950, 948),
    "numbers": (1121, 1121),
    "Chinese": (2551, 1660),
    "Japanese": (2180, 1643),
    "Korean": (1881, 1151),
    "Russian": (1085, 608),
}
TEXTS = {kind: text[:2_400] for kind, text in made_up().items()}


@pytest.mark.parametrize("kind", COUNTED)
def test_no_tokenizer_counts_more_than_the_estimate(kind: str) -> None:
    assert max(COUNTED[kind]) <= 1.02 * budget_tokens(TEXTS[kind])


def test_english_is_not_estimated_far_too_high() -> None:
    assert min(COUNTED["English"]) >= 0.85 * budget_tokens(TEXTS["English"])


def test_stored_counts_would_not_do() -> None:
    short = {kind for kind, real in COUNTED.items() if max(real) > 1.5 * estimate_tokens(TEXTS[kind])}
    assert short >= {"logs", "hex dump", "hex", "SHA-256", "UUIDs", "base64", "JSON", "numbers"}


@given(st.text(), st.text())
def test_it_is_never_more_than_bytes_and_never_nothing(one: str, other: str) -> None:
    size = len(one.encode("utf-8", "surrogatepass"))
    assert budget_tokens(one) <= size
    assert (budget_tokens(one) > 0) == bool(one)
    assert budget_tokens(one + "\n" + other) > 0


def test_half_a_character_is_counted() -> None:
    assert budget_tokens("\ud800 and more") > 0


def test_pictures_cost_the_same_whatever_their_size() -> None:
    def picture(size: int) -> Message:
        block: dict[str, Json] = {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0K" * size},
        }
        return Message("user", "See:", (Text("See:"), File(block, "image/png")))

    assert message_budget_tokens(picture(100)) == message_budget_tokens(picture(100_000))
    assert message_budget_tokens(picture(100)) == PICTURE_TOKENS + budget_tokens("See:")


def test_binary_strings_of_unknown_blocks_have_their_own_price() -> None:
    small = json_budget_tokens({"type": "audio", "data": "UklGRi" * 1_000})
    assert PICTURE_TOKENS < small < 2 * PICTURE_TOKENS
    words = "some words " * 1_000
    assert json_budget_tokens({"type": "note", "text": words}) > budget_tokens(words)


def test_calls_and_results_count_their_names_and_arguments() -> None:
    call = Message("assistant", "", (ToolCall("call_1", "run", {"command": "ls -la /var/log"}),))
    result = Message("tool", "a.log", (ToolResult("call_1", None, "a.log"),))
    assert message_budget_tokens(call) > budget_tokens('{"command":"ls -la /var/log"}')
    assert message_budget_tokens(result) > budget_tokens("a.log")


def test_tool_schemas_are_counted_as_json() -> None:
    schema: dict[str, Json] = {
        "name": "read",
        "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
    }
    assert 20 <= json_budget_tokens(schema) <= 80


def _weighed_by_hand(text: str) -> int:
    """The estimate, one byte after the other."""
    raw = text.encode("utf-8", "surrogatepass")
    by_byte = {byte: name for name, members in budget._CLASSES.items() for byte in members}
    names = [by_byte.get(byte, "x") for byte in raw]
    weights = budget._PROSE if names.count("s") >= 0.08 * len(raw) else budget._UNSPACED
    if sum(name in "Udp" for name in names) >= 0.11 * len(raw):
        weights = budget._DENSE
    codes = list(budget._CLASSES)
    total = sum(weights[16 * codes.index(name) + codes.index(other)] for name, other in pairwise([*names, "x"]))
    by_first = {byte: name for name, members in budget._FIRST_BYTES.items() for byte in members}
    total += sum(budget._SCRIPTS[by_first[byte]] for byte in raw if byte in by_first)
    return min(max(-(-total // 100), -(-len(raw) // 8)), len(raw))


@pytest.mark.parametrize("kind", TEXTS)
def test_the_estimate_of_a_long_text_is_that_of_its_pairs(kind: str) -> None:
    assert budget_tokens(TEXTS[kind]) == _weighed_by_hand(TEXTS[kind])


@given(
    st.lists(
        st.sampled_from(
            ["str", "a" * 13, " ", "\n", "\n7", "_A", "Go", "x1", '{"', "é", "你", "😀", "\ud800", "\0", "t "]
        )
    )
)
def test_the_estimate_is_what_counting_by_hand_gives(pieces: list[str]) -> None:
    for text in ("".join(pieces), "".join(pieces) * 30):
        assert budget.budget_tokens(text) == _weighed_by_hand(text)


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_room_is_what_is_left_or_it_is_said_how_much_is_missing(window: int, reply: int, overhead: int) -> None:
    made = budget.HistoryBudget(window, overhead, reply=reply)
    assert made.tokens > 0
    assert made.tokens + reply + overhead == window + made.over
    assert (made.over > 0) == bool(made.why_over)
