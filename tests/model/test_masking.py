"""Texts that must not be kept: cut out where they stand, and known again without their words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.errors import BadInput
from lossless.model.masking import (
    FORGOTTEN,
    CutText,
    PhraseMarker,
    check_phrase,
    cut_json,
    empty_message,
    exact_cutter,
    loose_cutter,
    mark_cutter,
    phrase_forms,
)
from lossless.model.messages import Message, Reasoning, Text, ToolCall, ToolResult
from lossless.testing.strategies import nasty_text

KEY = b"k" * 32
LETTERS = st.text('ab "\\\né', max_size=30)
PHRASES = st.lists(st.text('ab "\\\né', min_size=2, max_size=4), min_size=1, max_size=3)


def cutter_of(phrases: list[str], key: bytes = KEY) -> CutText:
    marker = PhraseMarker(key)
    return mark_cutter(marker, [[marker.mark(form) for form in phrase_forms(phrase)] for phrase in phrases])


@given(LETTERS, PHRASES)
def test_marks_cut_what_the_words_themselves_cut(text: str, phrases: list[str]) -> None:
    assert cutter_of(phrases)(text) == exact_cutter(phrases)(text)


@given(nasty_text(), nasty_text(2).filter(lambda text: len(text) > 2 and text not in FORGOTTEN), nasty_text())
def test_a_phrase_is_found_wherever_it_stands(before: str, phrase: str, after: str) -> None:
    cut = exact_cutter([phrase])(before + phrase + after)
    assert FORGOTTEN in cut
    assert cut == cutter_of([phrase])(before + phrase + after)
    told = json.dumps({"a": json.dumps([before + phrase + after])})
    assert phrase not in str(json.loads(json.loads(exact_cutter([phrase])(told))["a"])) or phrase in FORGOTTEN


def test_marks_hold_no_words_and_mean_nothing_under_another_key() -> None:
    mark, other = PhraseMarker(KEY).mark("hunter2-and-more"), PhraseMarker(b"o" * 32).mark("hunter2-and-more")
    length, roll, digest = mark
    assert length == other[0] == 16
    assert (roll, digest) != other[1:]
    assert 0 <= roll < 1 << 16
    assert b"hunter" not in digest


def test_a_text_without_them_is_the_same_object() -> None:
    text = "nothing of it, " * 100
    assert cutter_of(["hunter2"])(text) is text
    assert cutter_of(["hunter2"])(text) is text
    assert exact_cutter(["hunter2"])(text) is text
    assert cut_json({"role": "user", "content": [text]}, exact_cutter(["hunter2"])) is not None


def test_structure_stays_and_proofs_of_other_words_go() -> None:
    said: dict[str, Any] = {
        "role": "user",
        "content": [
            {"type": "thinking", "thinking": "user said so", "signature": "proof"},
            {"type": "tool_use", "id": "user-1", "name": "user", "input": {"user": ["a user", 1]}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "user"}},
        ],
    }
    assert cut_json(said, exact_cutter(["user"])) == {
        "role": "user",
        "content": [
            {"type": "thinking", "thinking": "[forgotten] said so"},
            {"type": "tool_use", "id": "user-1", "name": "user", "input": {"[forgotten]": ["a [forgotten]", 1]}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "user"}},
        ],
    }


def test_of_an_emptied_message_only_its_calls_are_left() -> None:
    parts = (
        Text("words"),
        Reasoning("more words"),
        ToolCall("c1", "read", {"a": "words"}),
        ToolResult("c0", None, "w"),
    )
    left = empty_message(Message("assistant", "words", parts, body={"role": "assistant", "content": "words"}))
    assert left == Message(
        "assistant", FORGOTTEN, (ToolCall("c1", "read", {}), ToolResult("c0", None, FORGOTTEN)), tokens=left.tokens
    )


def test_a_model_says_it_in_its_own_way() -> None:
    cut = loose_cutter(["Code Word  is Zebra"])
    assert cut("the code word\nis zebra, so") == "the [forgotten], so"
    assert cut("the code word") == "the code word"


@pytest.mark.parametrize("phrase", ["", "  ", "ab", "forgotten", "[forgotten]", "a [forgotten] b", "half\ud800"])
def test_what_cannot_be_forgotten_is_refused(phrase: str) -> None:
    with pytest.raises(BadInput):
        check_phrase(phrase)
    assert check_phrase("東京") == "東京"
