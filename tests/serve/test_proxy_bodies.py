"""Bodies are read as any reader of JSON does, and written as they were meant."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lossless
from lossless.errors import BadInput
from lossless.providers.chat_completions import ChatCompletions
from lossless.providers.turn import TurnRecorder
from lossless.serve.proxy_bodies import read_body, write_body
from tests.compaction.loop_kit import settings

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
#: Also with halves of surrogate pairs, which JSON can say and UTF-8 cannot.
ANY_TEXTS = st.text(st.characters(exclude_categories=()) | st.sampled_from('\ud83d\ude00\\"'), max_size=6)
MESSAGES = st.lists(st.dictionaries(TEXTS, VALUES, max_size=3), max_size=5)
OBJECTS = st.dictionaries(TEXTS | st.sampled_from(["messages", "tools"]), VALUES | MESSAGES, max_size=5)
#: How clients write: dense, airy, in ASCII only.
WRITERS: tuple[dict[str, Any], ...] = (
    {"separators": (",", ":"), "ensure_ascii": False},
    {"indent": 2},
    {"separators": (" ,\t", " :\n")},
)
LONG = "word " * 300


def read(text: str | bytes) -> dict[str, Any]:
    body = read_body(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"), "")
    assert body is not None
    return body


@given(OBJECTS, st.sampled_from(WRITERS), st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]))
def test_an_object_is_read_as_json_is(value: dict[str, Any], how: dict[str, Any], encoding: str) -> None:
    body = read(f" {json.dumps(value, **how)}\r\n".encode(encoding))
    assert body == value
    assert json.loads(write_body(body)) == value


@given(OBJECTS, st.sampled_from(WRITERS), st.integers(0, 200), st.sampled_from(['"', ",", "}", "]", "", " ", "1", ":"]))
def test_what_is_no_json_for_others_is_none_for_us(value: Any, how: dict[str, Any], at: int, put: str) -> None:
    text = json.dumps(value, **how)
    spoiled = (text[:at] + put + text[at + 1 :]).encode("utf-8", "surrogatepass")
    try:
        expected = json.loads(spoiled)
    except ValueError:
        expected = None
    try:
        body = read_body(spoiled, "")
    except BadInput:
        return
    assert body == (expected if isinstance(expected, dict) else None)


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{", '{"a"}', "{1: 2}", '{"a": 1,}', '{"a": 1} x', '{"a" 1}', "{,}"]
)
def test_what_is_no_object_is_none(text: str) -> None:
    assert read_body(text.encode(), "") is None


@given(st.dictionaries(TEXTS, VALUES | ANY_TEXTS, max_size=5), st.sampled_from(["utf-8", "utf-16-le", "utf-32-be"]))
def test_what_was_read_is_written_as_meant(value: dict[str, Any], encoding: str) -> None:
    """Half surrogate pairs are written as escapes, which is JSON."""
    body = read(json.dumps(value).encode(encoding))
    assert json.loads(write_body(body).decode("utf-8")) == json.loads(json.dumps(value))


@pytest.mark.parametrize("tools", ["auto", "always"])
def test_a_turn_leaves_what_was_read_as_it_was(path: Path, tools: Any) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    messages: list[Any] = [{"role": "system", "content": "Be kind."}]
    with lossless.open(path, settings(), background=False) as engine:
        keeping = TurnRecorder(engine, lossless.Session(key="s"), ChatCompletions(), window=6_000, tools=tools)
        for n in range(8):
            messages += [
                {"role": "user", "content": [{"type": "text", "text": f"{n} {LONG}"}, picture]},
                {"role": "assistant", "content": None, "tool_calls": [call | {"id": f"c{n}"}]},
                {"role": "tool", "tool_call_id": f"c{n}", "content": LONG},
            ]
            text = json.dumps({"model": "m", "messages": messages, "tools": [{"type": "function", "function": call}]})
            body = read(text)
            turn = keeping.turn(body)
            assert json.loads(write_body(turn.body)) == json.loads(json.dumps(turn.body))
            reply = {"role": "assistant", "content": f"Reply {n}."}
            turn.take({"id": "x", "choices": [{"index": 0, "message": reply}]})
            assert body == json.loads(text)
            messages.append(reply)
        assert turn.is_assembled
