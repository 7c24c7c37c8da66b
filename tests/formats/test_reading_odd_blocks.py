"""Blocks that no provider writes but programs do: a message is refused, or kept exactly, and the archive is sound."""

from __future__ import annotations

import json
from itertools import count, product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lossless
from lossless.errors import BadMessage
from lossless.formats import FORMATS, decode, encode
from lossless.model.identity import fingerprint
from tests.formats.shapes import Body, texts, values

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT = {"type": "text", "text": "hi"}
ROLES = ("user", "assistant", "system", "tool", "toolResult")
NUMBERS = count()
odd_types = st.one_of(
    st.none(), st.integers(), texts, st.sampled_from(["text", "input_text", "refusal", "image", "file"])
)
typed = st.builds(lambda kind, rest: {"type": kind} | rest, odd_types, st.dictionaries(st.just("text"), values))
blocks = st.one_of(st.just(TEXT), st.none(), values, typed)


@pytest.fixture(scope="module")
def shared() -> Iterator[lossless.Engine]:
    """One archive for all cases; it is verified at the end."""
    with lossless.open(":memory:", background=False) as engine:
        yield engine
        assert engine.verify().problems == ()


def kept(engine: lossless.Engine, body: Body, format: str | None) -> bool:
    """Whether a message is taken; if so, it is asserted to be the one that came."""
    try:
        message = decode(body, format)
    except BadMessage:
        return False
    report = engine.append(lossless.Session(key=f"case {next(NUMBERS)}"), [message])
    (stored,) = engine.archive.messages.many(report.message_ids)
    assert json.dumps(stored.message.original) == json.dumps(body)
    assert fingerprint(stored.message) == fingerprint(message)
    for target in FORMATS:
        json.dumps(encode([stored.message], target))
    return True


@pytest.mark.parametrize("format", [None, *FORMATS])
@given(role=st.sampled_from(ROLES), content=st.lists(blocks, max_size=3))
def test_any_blocks(shared: lossless.Engine, format: str | None, role: str, content: list[Any]) -> None:
    kept(shared, {"role": role, "content": content}, format)


@pytest.mark.parametrize("block", [None, True, 0, -1.5, "", "x", [], [None], [[1]], {}, {"type": None}, {"type": ""}])
def test_every_odd_block_is_kept(shared: lossless.Engine, block: Any) -> None:
    for role, more in product(ROLES, ([], [TEXT])):
        assert kept(shared, {"role": role, "content": [block, *more]}, None), (role, more)


@pytest.mark.parametrize(
    "body",
    [
        {
            "role": "assistant",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "", "arguments": ""}}],
        },
        {"role": "assistant", "function_call": {"name": "", "arguments": "{}"}},
        {"type": "function_call", "call_id": "c", "name": "", "arguments": "{}"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "", "input": {}}]},
    ],
)
def test_a_call_without_a_name_is_kept(shared: lossless.Engine, body: Body) -> None:
    assert kept(shared, body, None)


@pytest.mark.parametrize("kind", ["toolCall", "tool_use", "function_call", "toolResult", "tool_result"])
def test_calls_and_results_where_none_belong(shared: lossless.Engine, kind: str) -> None:
    named = {"type": kind, "id": "c", "name": "n", "tool_use_id": "c"}
    for content in ([{"type": kind}], [named], [named | {"content": ""}, TEXT], [None, named]):
        for role, format in product(ROLES, FORMATS):
            kept(shared, {"role": role, "content": content}, format)


@pytest.mark.parametrize("format", ["openai-chat", "openai-responses", "anthropic"])
@pytest.mark.parametrize("block", [None, 5, "x", [1]])
def test_strict_formats_say_where_it_is(format: str, block: Any) -> None:
    with pytest.raises(BadMessage, match=r"content\[1\].*must be an object") as caught:
        decode({"role": "user", "content": [TEXT, block]}, format)
    assert caught.value.field == "content[1]"
