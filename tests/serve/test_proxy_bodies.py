"""Bodies are read as any reader of JSON does, and what did not change is written as it came."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lossless
from lossless.errors import BadInput
from lossless.providers.chat_completions import ChatCompletions
from lossless.providers.turn import TurnRecorder
from lossless.serve.proxy_bodies import JsonLists, RequestBody, read_body, rewrite_body
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


def read(text: str | bytes, lists: JsonLists | None = None) -> RequestBody:
    body = read_body(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"), "", lists)
    assert body is not None
    return body


@given(OBJECTS, st.sampled_from(WRITERS), st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]))
def test_an_object_is_read_as_json_is(value: dict[str, Any], how: dict[str, Any], encoding: str) -> None:
    body = read(f" {json.dumps(value, **how)}\r\n".encode(encoding))
    assert body.raw == value
    assert json.loads(rewrite_body(body, body.raw)) == value
    for key, (start, end) in body.places.items():
        assert json.loads(body.text[start:end]) == value[key]


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
    assert (None if body is None else body.raw) == (expected if isinstance(expected, dict) else None)


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{", '{"a"}', "{1: 2}", '{"a": 1,}', '{"a": 1} x', '{"a" 1}', "{,}"]
)
def test_what_is_no_object_is_none(text: str) -> None:
    assert read_body(text.encode(), "") is None


@given(MESSAGES, MESSAGES, MESSAGES, st.sampled_from(WRITERS))
def test_a_changed_list_is_written_with_what_is_new(
    before: list[Any], head: list[Any], tail: list[Any], how: dict[str, Any]
) -> None:
    body = read(json.dumps({"model": "m", "messages": before, "n": 1.5}, **how))
    old = body.raw["messages"]
    cut = len(old) // 2
    for messages in ([*head, *old, *tail], [*old[:cut], *head, *old[cut:], *tail], old[cut:], [*old[1:], *old[:1]], []):
        changed = body.raw | {"messages": messages, "tools": tail}
        assert json.loads(rewrite_body(body, changed)) == changed


@given(
    st.lists(st.dictionaries(ANY_TEXTS, VALUES | ANY_TEXTS, max_size=3), min_size=1, max_size=5),
    st.lists(st.integers(0, 4) | st.dictionaries(ANY_TEXTS, ANY_TEXTS, max_size=2), max_size=8),
    st.sampled_from(WRITERS),
    st.sampled_from(["utf-8", "utf-16-le", "utf-32-be"]),
)
def test_any_choice_of_old_and_new_members_is_written_as_meant(
    before: list[Any], choice: list[Any], how: dict[str, Any], encoding: str
) -> None:
    """Members may be left out, come twice, stand in another order; half surrogate pairs are escapes, which is JSON."""
    body = read(json.dumps({"messages": before, "n": 1}, **how).encode(encoding, "surrogatepass"))
    old = body.raw["messages"]
    changed = body.raw | {"messages": [old[one % len(old)] if isinstance(one, int) else one for one in choice]}
    assert json.loads(rewrite_body(body, changed).decode("utf-8")) == json.loads(json.dumps(changed))


def test_what_did_not_change_is_written_as_it_came() -> None:
    text = '{"temperature" : 1.50, "messages": [ {"a":  1e1}, {"b":\t"\\u00e9"} ], "x": {"y":  0}}'
    body = read(text)
    old = body.raw["messages"]
    new = rewrite_body(body, body.raw | {"messages": [old[0], {"c": "é"}, old[1]], "tools": []}).decode()
    assert new == '{"temperature":1.50,"messages":[ {"a":  1e1},{"c":"é"},{"b":\t"\\u00e9"} ],"x":{"y":  0},"tools":[]}'


@given(st.lists(MESSAGES, min_size=1, max_size=4), st.sampled_from(WRITERS), st.booleans())
def test_a_list_that_grows_is_read_as_if_it_were_new(
    steps: list[list[Any]], how: dict[str, Any], is_forked: bool
) -> None:
    lists: JsonLists = []
    messages: list[Any] = [{"role": "user", "content": LONG * 3}]
    for step in steps:
        messages = [*(messages[:1] if is_forked else messages), *step, {"role": "user", "content": "ü"}]
        request = {"model": "m", "messages": messages, "stream": True}
        assert read(json.dumps(request, **how), lists).raw == request


def test_a_list_shares_its_members_with_the_one_it_goes_on_from() -> None:
    lists: JsonLists = []
    messages: list[Any] = [{"role": "user", "content": LONG * 3}]
    first = read(json.dumps({"messages": messages}), lists).raw["messages"]
    second = read(json.dumps({"messages": [*messages, {"role": "user", "content": "more"}]}), lists).raw["messages"]
    assert second[0] is first[0]
    assert (len(first), len(second)) == (1, 2)
    with pytest.raises(BadInput):
        read_body(json.dumps({"messages": [*messages, {"n": float("nan")}]}).encode(), "", lists)
    broken = json.dumps({"messages": messages})[:-2].encode()
    assert all(read_body(broken + end, "", lists) is None for end in (b"", b"}", b",]}", b"{}]}", b"]"))


def test_readers_at_the_same_time_read_what_there_is() -> None:
    lists: JsonLists = []
    base = [{"role": "user", "content": LONG * 3}]

    def grows(name: int) -> bool:
        messages: list[Any] = list(base)
        for step in range(40):
            messages.append({"role": "user", "content": f"{name % 2}:{step}"})
            if read(json.dumps({"messages": messages}), lists).raw["messages"] != messages:
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(grows, range(8)))


@pytest.mark.parametrize("tools", ["auto", "always"])
def test_a_turn_leaves_what_was_read_as_it_was(path: Path, tools: Any) -> None:
    """The next request shares these objects: whoever changed one would change what was said."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    lists: JsonLists = []
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
            body = read(text, lists)
            turn = keeping.turn(body.raw, body.most_tokens)
            sent = json.loads(rewrite_body(body, turn.body))
            assert sent == json.loads(json.dumps(turn.body))
            reply = {"role": "assistant", "content": f"Reply {n}."}
            turn.take({"id": "x", "choices": [{"index": 0, "message": reply}]})
            assert body.raw == json.loads(text)
            messages.append(reply)
        assert turn.is_assembled
