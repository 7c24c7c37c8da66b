"""What a model gets: valid Unicode in the strict shape of its format, measured as it is sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossless import formats
from lossless.context.render import clean_text, encode_for_model, item_json, item_tokens
from lossless.formats.reading import BLOB_CHARS, boundary_tokens
from lossless.model.messages import Message
from lossless.model.tokens import estimate_tokens
from lossless.testing.strategies import MESSAGES
from tests.faults import SESSION, open_engine

if TYPE_CHECKING:
    from pathlib import Path

Raw = dict[str, Any]
FORMATS = ("openai-chat", "anthropic", "openai-responses", "openclaw", "plain")
HALF = "\ud800"
ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=40)
TEXTS = st.one_of(
    ANY_TEXT, ANY_TEXT.map(lambda text: (text + "w") * 200), st.just("data:image/png;base64," + "A" * 5000)
)


def tool_turn(arguments: object, text: str = "all well") -> list[Raw]:
    function = {"name": "look", "arguments": arguments}
    return [
        {"role": "user", "content": f"look: {text}"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c1", "content": text},
        {"role": "user", "content": "and now?"},
    ]


def _is_unicode(value: object) -> bool:
    text = json.dumps(value, ensure_ascii=False)
    return clean_text(text) == text


@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_whatever_was_said_goes_out_as_valid_unicode(format: str, data: st.DataObject) -> None:
    """And what was valid goes out as it is."""
    body = data.draw(MESSAGES[data.draw(st.sampled_from(sorted(MESSAGES)))]())
    message = formats.decode(body)
    made = encode_for_model(message, format)
    json.dumps(made.items, ensure_ascii=False).encode()
    strict = formats.strict(formats.encode_message(message, format), format).items
    if _is_unicode(strict):
        assert made.items == strict
    whole = sum(item_tokens(item, item_json(item)) for item in made.items)
    assert made.tokens <= whole if format == "openclaw" else made.tokens == whole  # its own marks reach no model


@given(st.sampled_from(["user", "assistant", "system"]), TEXTS)
def test_the_usual_message_is_measured_as_any_other(role: str, content: str) -> None:
    item: Raw = {"role": role, "content": clean_text(content)}
    text = json.dumps(item, ensure_ascii=False, separators=(",", ":")) + ","
    assert item_json(item) == text
    assert item_tokens(item, text) == (estimate_tokens(text) if len(text) < BLOB_CHARS else boundary_tokens(item) + 1)


def test_a_half_of_a_pair_is_replaced_and_a_pair_is_joined() -> None:
    message = Message("user", f"a {HALF} b \ud83d\ude00")
    (item,) = encode_for_model(message, "openai-chat").items
    assert item == {"role": "user", "content": "a \ufffd b 😀"}
    assert message.content == f"a {HALF} b \ud83d\ude00"
    assert formats.encode([message], "openai-chat") == [{"role": "user", "content": message.content}]


def test_keys_and_nested_values_are_cleaned() -> None:
    body = {"role": "user", "content": [{"type": "text", "text": "x", HALF: {"n": [1, HALF, None]}}]}
    (item,) = encode_for_model(formats.decode(body, "openai-chat"), "openai-chat").items
    assert item["content"] == [{"type": "text", "text": "x", "\ufffd": {"n": [1, "\ufffd", None]}}]
    assert HALF in body["content"][0]


@pytest.mark.parametrize(
    ("given_arguments", "wanted"),
    [({"a": [1, "é"]}, '{"a":[1,"é"]}'), ({}, "{}"), (None, "{}"), ('{"a": 1}', '{"a": 1}'), ([1], "[1]")],
)
def test_arguments_of_chat_calls_are_text(given_arguments: object, wanted: str) -> None:
    asked = tool_turn(given_arguments)[1]
    message = formats.decode(asked, "openai-chat")
    (item,) = encode_for_model(message, "openai-chat").items
    assert item["tool_calls"][0]["function"] == {"name": "look", "arguments": wanted}
    assert {key: value for key, value in item.items() if key != "tool_calls"} == {"role": "assistant", "content": None}
    assert formats.encode([message], "openai-chat") == [asked]
    assert (item is asked) == isinstance(given_arguments, str)


def test_so_are_those_of_older_calls_and_of_items() -> None:
    older = {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": {"a": 1}}}
    (item,) = encode_for_model(formats.decode(older, "openai-chat"), "openai-chat").items
    assert item["function_call"] == {"name": "look", "arguments": '{"a":1}'}
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": {"a": 1}}
    (item,) = encode_for_model(formats.decode(call, "openai-responses"), "openai-responses").items
    assert item == call | {"arguments": '{"a":1}'}


def test_calls_of_other_kinds_are_left_alone() -> None:
    custom = {"id": "c1", "type": "custom", "custom": {"name": "run", "input": "ls"}}
    body = {"role": "assistant", "content": None, "tool_calls": [custom]}
    (item,) = encode_for_model(formats.decode(body, "openai-chat"), "openai-chat").items
    assert item is body


@pytest.mark.parametrize("format", FORMATS)
def test_the_archive_keeps_what_the_prompt_may_not_hold(tmp_path: Path, format: str) -> None:
    turn = tool_turn({"a": HALF}, f"broken {HALF} text")
    system = {"role": "system", "content": f"rules {HALF}"}
    with open_engine(tmp_path / "lcm.db") as engine:
        ids = engine.append(SESSION, [system, *turn]).message_ids
        made = engine.assemble(SESSION, budget=10_000, format=format)
        json.dumps([made.messages, made.system], ensure_ascii=False).encode()
        kept = [stored.message.original for stored in engine.archive.messages.many(ids)]
        assert kept == [system, *turn]
        if format == "openai-chat":
            assert made.messages[2]["tool_calls"][0]["function"]["arguments"] == '{"a":"\ufffd"}'
            assert made.messages[3]["content"] == "broken \ufffd text"
            again = engine.sync(SESSION, [*made.messages, {"role": "assistant", "content": "done"}])
            assert (again.stored, again.replayed) == (1, 5)


def test_what_is_sent_is_the_same_in_every_prompt(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.append(SESSION, tool_turn({"a": HALF}, f"broken {HALF} text"))
        before = engine.assemble(SESSION, budget=10_000).messages
        engine.append(SESSION, [{"role": "assistant", "content": "well"}, {"role": "user", "content": "so?"}])
        after = engine.assemble(SESSION, budget=10_000).messages
    assert json.dumps(after[: len(before)]) == json.dumps(before)
