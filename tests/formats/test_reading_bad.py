"""A message that is wrong is refused with the path to what is wrong and what is allowed."""

from __future__ import annotations

from typing import Any

import pytest

from lossless.errors import BadInput, BadMessage
from lossless.formats import decode, encode
from lossless.model.js_json import MAX_JSON_DEPTH
from lossless.model.messages import Message

TEXT = {"type": "text", "text": "hi"}


@pytest.mark.parametrize(
    ("body", "format", "field", "says"),
    [
        (None, None, "", "not NoneType"),
        ("hello", None, "", "not str"),
        ([], None, "", "not list"),
        ({}, None, "role", "missing; allowed: user, assistant"),
        ({"content": "hi"}, None, "role", "missing"),
        ({"role": "robot", "content": "hi"}, None, "role", "'robot', which is not a role; allowed: system, user"),
        ({"role": ["user"], "content": "hi"}, None, "role", "not a role"),
        ({"role": "toolResult", "content": "hi"}, "anthropic", "role", "allowed: user, assistant, system"),
        ({"role": "user", "content": 5}, "openai-chat", "content", "a string or a list of blocks, not a number"),
        ({"role": "user", "content": None}, "anthropic", "content", "not null"),
        ({"role": "user", "content": {"a": 1}}, "openai-responses", "content", "not an object"),
        ({"role": "user", "content": [TEXT, TEXT, {}]}, "anthropic", "content[2].type", "not null or missing"),
        ({"role": "user", "content": [TEXT, "hi"]}, "openai-chat", "content[1]", "must be an object, not a string"),
        ({"role": "user", "content": [{"type": "text", "text": 1}]}, "anthropic", "content[0].text", "not a number"),
        ({"role": "assistant", "tool_calls": {}}, None, "tool_calls", "a list of calls, not an object"),
        ({"role": "assistant", "tool_calls": [1]}, None, "tool_calls[0]", "must be an object"),
        ({"role": "assistant", "tool_calls": [{}]}, None, "tool_calls[0].function", "must be an object"),
        ({"role": "assistant", "tool_calls": [{"function": {}}]}, None, "tool_calls[0].function.name", "a string"),
        ({"role": "assistant", "content": "a", "refusal": 1}, None, "refusal", "must be a string"),
        ({"role": "tool", "tool_call_id": 7, "content": "a"}, None, "tool_call_id", "not a number"),
        ({"role": "user", "content": [{"type": "tool_result"}]}, None, "content[0].tool_use_id", "a string"),
        ({"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]}, None, "content[0].name", "a string"),
        ({"type": "function_call", "name": "a"}, None, "call_id", "must be a string"),
        ({"type": "function_call_output", "call_id": "a", "output": 1}, None, "output", "a list of blocks"),
        ({"type": 1, "role": "user"}, "openai-responses", "type", "not a number"),
        ({"type": "session", "id": "a"}, None, "role", "missing"),
    ],
)
def test_a_wrong_shape(body: Any, format: str | None, field: str, says: str) -> None:
    with pytest.raises(BadMessage) as caught:
        decode(body, format)
    assert caught.value.field == field
    assert says in caught.value.reason
    assert caught.value.index is None


@pytest.mark.parametrize(
    ("body", "field", "says"),
    [
        ({"role": "user", "content": b"hi"}, "content", "bytes is not a JSON value"),
        ({"role": "user", "content": ("hi",)}, "content", "tuple is not a JSON value"),
        ({"role": "user", "content": "hi", "usage": {"cost": float("nan")}}, "usage.cost", "nan is not"),
        ({"role": "user", "content": [{"type": "text", "n": [1, float("inf")]}]}, "content[0].n[1]", "inf is not"),
        ({"role": "user", "content": "hi", "x": {1: "a"}}, "x", "keys must be strings, not int"),
        ({"role": "user", "content": "hi", "x": 10**5000}, "x", "too many digits"),
        ({"role": "user", "content": "hi", "x": object()}, "x", "object is not a JSON value"),
    ],
)
def test_a_value_that_json_cannot_hold(body: Any, field: str, says: str) -> None:
    with pytest.raises(BadMessage) as caught:
        decode(body)
    assert (caught.value.field, caught.value.index) == (field, None)
    assert says in caught.value.reason


def test_nesting_without_end_is_refused() -> None:
    deep: Any = "hi"
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(BadMessage, match=f"deeper than {MAX_JSON_DEPTH}"):
        decode({"role": "user", "content": deep})
    loop: dict[str, Any] = {"role": "user", "content": "hi"}
    loop["self"] = loop
    with pytest.raises(BadMessage, match="deeper"):
        decode(loop)


def test_nesting_up_to_the_limit_is_fine() -> None:
    deep: Any = "hi"
    for _ in range(MAX_JSON_DEPTH - 3):
        deep = [deep]
    body = {"role": "user", "content": [{"type": "x", "deep": deep}]}
    assert encode([decode(body)], "plain") == [body]


def test_an_object_of_an_sdk_is_refused_with_a_hint() -> None:
    class Answer:
        def model_dump(self) -> dict[str, str]:
            return {"role": "assistant", "content": "hi"}

    with pytest.raises(BadMessage, match="model_dump"):
        decode(Answer())


def test_derived_classes_of_json_values_are_fine() -> None:
    class Word(str):
        pass

    class Count(int):
        pass

    message = decode({"role": Word("user"), "content": Word("hi"), "n": Count(1)})
    assert (message.role, message.content) == ("user", "hi")


def test_a_format_that_does_not_exist() -> None:
    with pytest.raises(BadInput, match="unknown format 'xml'; allowed: plain, openai-chat"):
        decode({"role": "user", "content": "hi"}, "xml")
    with pytest.raises(BadInput, match="unknown format"):
        encode([Message("user", "hi")], "xml")
