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


def _class_of(byte: int) -> str:
    name = chr(byte)
    if byte >= 0xC0:
        return next(script for script, members in budget._FIRST_BYTES.items() if byte in members)
    if not name.isascii() or byte < 32 or byte == 127:
        return "n" if name == "\n" else "t" if name in "\t\r\v\f" else "x"
    if name.isalpha():
        return "a" if name.islower() else "U"
    return "d" if name.isdigit() else "s" if name == " " else "p"


def _counted_run_by_run(text: str) -> int:
    """The estimate by its definition: every run is looked for on its own."""
    raw = text.encode("utf-8", "surrogatepass")
    classes = "".join(map(_class_of, raw))
    is_prose = sum(classes.count(name) for name in "pdU") < budget._PROSE_SHARE * len(raw)
    runs, by_sound = (budget._PROSE, budget._SOUNDS_OF_PROSE) if is_prose else (budget._DENSE, budget._SOUNDS)
    sounds = "".join("c" if chr(byte) in "bcdfghjklmnpqrstvwxz" else "." for byte in raw)
    total = 60 * raw.count(b"_")
    total += sum(weight * classes.count(run) for run, weight in (runs | budget._SCRIPTS).items())
    total += sum(weight * sounds.count(run) for run, weight in by_sound.items())
    return min(max(-(-total // 100), -(-len(raw) // 8)), len(raw))


@given(st.text(st.characters() | st.sampled_from("abcst AB12\n\t_.,{}é漢😀\ud800"), max_size=60))
def test_neighbours_that_are_weighed_in_one_pass_weigh_what_they_weigh_one_by_one(text: str) -> None:
    assert budget_tokens(text) == _counted_run_by_run(text)


@pytest.mark.parametrize("kind", TEXTS)
def test_the_estimate_of_a_long_text_is_that_of_its_runs(kind: str) -> None:
    assert budget_tokens(TEXTS[kind]) == _counted_run_by_run(TEXTS[kind])


def _weighed_by_hand(text: str) -> int:
    """The estimate, one byte after the other."""
    raw = text.encode("utf-8", "surrogatepass")
    by_byte = {byte: name for name, members in budget._CLASSES.items() for byte in members}
    names = [by_byte.get(byte, "x") for byte in raw]
    is_prose = sum(name in "pdU_" for name in names) < budget._PROSE_SHARE * len(raw)
    by_run, by_sound = (budget._PROSE, budget._SOUNDS_OF_PROSE) if is_prose else (budget._DENSE, budget._SOUNDS)
    total = 0
    for name, other in pairwise([*names, "x"]):
        total += budget._pair_weight(by_run, name, other)
    total += sum("".join(names).count(run) * by_run[run] for run in by_run if len(run) > 1 and len(set(run)) == 1)
    sounds = "".join("c" if chr(byte) in "bcdfghjklmnpqrstvwxz" else "." for byte in raw)
    total += sum(sounds.count(run) * weight for run, weight in by_sound.items())
    by_first = {byte: name for name, members in budget._FIRST_BYTES.items() for byte in members}
    total += sum(budget._SCRIPTS[by_first[byte]] for byte in raw if byte in by_first)
    return min(max(-(-total // 100), -(-len(raw) // budget._MOST_BYTES)), len(raw))


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
