from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless import formats
from lossless.context.render import SHORTENED_ARGUMENT, encode_for_model, shorten_message, shorten_text
from lossless.formats.synthetic import parse_shortened
from lossless.model.messages import File, Message, Reasoning, Text, ToolCall, ToolResult
from lossless.model.tokens import estimate_tokens

FORMATS = ("openai-chat", "anthropic", "openai-responses", "openclaw")
TEXTS = st.text(st.sampled_from('ab \n"\\ä潮🚢'), max_size=60).flatmap(
    lambda piece: st.integers(1, 200).map(lambda times: piece * times)
)


@given(TEXTS, st.integers(0, 400))
def test_a_text_keeps_its_ends_and_says_what_is_missing(text: str, room: int) -> None:
    short = shorten_text(text, room, "msg#7")
    assert short == shorten_text(text, room, "msg#7")
    assert len(short) <= len(text)
    assert short == text or estimate_tokens(short) <= room + 40
    if (found := parse_shortened(short)) is not None and short != text:
        message_id, head, tail, chars = found
        assert (message_id, chars) == (7, len(text))
        assert text.startswith(head)
        assert text.endswith(tail)


@pytest.mark.parametrize("format", FORMATS)
@given(TEXTS, TEXTS, st.integers(320, 2_000))
def test_whatever_a_message_holds_it_gets_as_short_as_it_has_to_be(
    format: str, words: str, more: str, most: int
) -> None:
    messages = [
        Message("user", words),
        Message("assistant", words, (Text(words), ToolCall("c1", "run", json.dumps({"code": more, "n": 1})))),
        Message("assistant", "", (ToolCall("c1", "run", {"deep": [{"code": more}, words]}),), "anthropic"),
        Message("tool", more, (ToolResult("c1", "run", more, is_error=True),), "openai-chat"),
        Message("assistant", words, (Reasoning(more), Text(words)), "openai-chat"),
    ]
    for message in messages:
        short = shorten_message(message, 812, most, format)
        assert encode_for_model(short, format).tokens <= most
        assert [part.id for part in short.tool_calls] == [part.id for part in message.tool_calls]
        assert [(r.call_id, r.is_error) for r in short.tool_results] == [
            (r.call_id, r.is_error) for r in message.tool_results
        ]
        for call, asked in zip(short.tool_calls, message.tool_calls, strict=True):
            given_back = json.loads(call.input) if isinstance(call.input, str) else call.input
            assert isinstance(given_back, dict)
            assert type(call.input) is type(asked.input)
        assert formats.encode([short], format) == formats.encode([shorten_message(message, 812, most, format)], format)


def test_arguments_keep_their_names_where_one_text_is_too_long() -> None:
    call = ToolCall("c1", "write", {"path": "a.py", "content": "x = 1\n" * 4_000})
    (short,) = shorten_message(Message("assistant", "", (call,)), 5, 500, "openai-chat").tool_calls
    assert isinstance(short.input, dict)
    assert short.input["path"] == "a.py"
    assert "[LCM Shortened: msg#5 | " in str(short.input["content"])


def test_arguments_of_many_small_things_become_one_text() -> None:
    call = ToolCall("c1", "write", json.dumps({"rows": list(range(9_000))}))
    (short,) = shorten_message(Message("assistant", "", (call,)), 5, 500, "openai-chat").tool_calls
    assert list(json.loads(str(short.input))) == [SHORTENED_ARGUMENT]


def test_arguments_that_are_no_json_become_some() -> None:
    call = ToolCall("c1", "write", '{"rows": [' + "1, " * 9_000)
    (short,) = shorten_message(Message("assistant", "", (call,)), 5, 500, "openai-chat").tool_calls
    assert str(json.loads(str(short.input))[SHORTENED_ARGUMENT]).startswith('{"rows": [1, ')


def test_a_cut_is_at_the_end_of_a_line_where_that_costs_little() -> None:
    found = parse_shortened(shorten_text("a line of words\n" * 500, 200, "msg#1"))
    assert found is not None
    assert found[1].endswith("words\n")
    assert found[2].startswith("a line")


def test_what_cannot_be_cut_stays() -> None:
    picture = File({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}, "image/png")
    signed = Reasoning("so " * 900, "proof")
    message = Message("assistant", "w" * 9_000, (signed, Text("w" * 9_000), picture), "anthropic")
    short = shorten_message(message, 1, 200, "anthropic")
    assert (short.parts[0], short.parts[2]) == (signed, picture)
    assert len(short.content) < 300
