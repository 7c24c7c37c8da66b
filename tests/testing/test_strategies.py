"""The generators for property tests produce what they promise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings

from lossless.testing import openai_chat
from lossless.testing.strategies import MESSAGES, hostile_text, nasty_text
from tests.tool_streams import tool_streams

_QUICK = settings(max_examples=25, database=None, deadline=None)

_WIDE = settings(max_examples=5000, derandomize=True, deadline=None, phases=[Phase.generate])


def test_hostile_text_reaches_everything() -> None:
    missing = {"\ud800", "\x00", "👩‍💻", "NEAR(a b)", "你好，世界", "שלום", "</summary>"}

    def is_last(text: str) -> bool:
        missing.difference_update([piece for piece in missing if piece in text])
        return not missing

    find(hostile_text(), is_last, settings=_WIDE)


@_QUICK
@given(text=nasty_text())
def test_nasty_text_can_be_encoded(text: str) -> None:
    assert "\x00" not in text
    assert text.encode().decode() == text


@pytest.mark.parametrize("format", MESSAGES)
def test_messages_of_a_format_are_json(format: str) -> None:
    @_QUICK
    @given(message=MESSAGES[format]())
    def check(message: dict[str, Any]) -> None:
        assert json.loads(json.dumps(message)) == message
        assert message.get("role") or message.get("type")

    check()


@_QUICK
@given(stream=tool_streams())
def test_a_clean_stream_is_paired_and_a_damaged_one_holds_nothing_new(stream: tuple[list[Any], list[Any]]) -> None:
    waiting: list[str] = []
    for message in openai_chat(stream[0]):
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            continue
        assert not waiting
        calls: Any = message.get("tool_calls", ())
        waiting = [call["id"] for call in calls]
    assert all(message in stream[0] for message in stream[1])


def test_streams_are_dropped_doubled_and_moved() -> None:

    def results(messages: list[dict[str, Any]]) -> int:
        return sum(message["role"] == "toolResult" for message in messages)

    find(tool_streams(), lambda stream: results(stream[1]) < results(stream[0]), settings=_WIDE)
    find(tool_streams(), lambda stream: results(stream[1]) > results(stream[0]), settings=_WIDE)
    find(
        tool_streams(),
        lambda stream: len(stream[1]) == len(stream[0]) and stream[1] != stream[0],
        settings=_WIDE,
    )
