"""Generators for hypothesis: hostile text, messages of every format."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from hypothesis import strategies as st

from lossless.testing.sample import read_data

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

JsonDict: TypeAlias = dict[str, Any]

#: Pieces that have broken search, markup, storage or counting somewhere, all of them valid Unicode.
NASTY: tuple[str, ...] = tuple(chain(*json.loads(read_data("nasty_texts.json")).values()))
#: Pieces that UTF-8 or C strings cannot carry.
UNENCODABLE = ("\ud800", "\udfff", "a\ud83d", "\udc00\ud800", "\x00", "a\x00b")


def _pieces(pieces: tuple[str, ...], max_pieces: int) -> SearchStrategy[str]:
    piece = st.sampled_from(pieces) | st.text(max_size=12) | st.sampled_from(("the", "port", "deploy", "ok", "error"))
    joined = st.tuples(st.lists(piece, max_size=max_pieces), st.sampled_from(("", " ", "\n")))
    return joined.map(lambda drawn: drawn[1].join(drawn[0]))


def hostile_text(max_pieces: int = 8) -> SearchStrategy[str]:
    """Any text that a user or a tool might send, lone surrogates and NUL included; it may be empty."""
    return _pieces(NASTY + UNENCODABLE, max_pieces)


def nasty_text(max_pieces: int = 8) -> SearchStrategy[str]:
    """Hostile text that UTF-8 can carry and that has no NUL; it may be empty."""
    return _pieces(NASTY, max_pieces).map(lambda text: text.replace("\x00", ""))


def json_values(max_leaves: int = 8) -> SearchStrategy[Any]:
    """Anything that JSON can hold: tool arguments, unknown fields."""
    leaves = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    return st.recursive(
        leaves | nasty_text(3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(nasty_text(1), inner, max_size=3),
        max_leaves=max_leaves,
    )


def _arguments() -> SearchStrategy[JsonDict]:
    return st.dictionaries(st.sampled_from(("path", "command", "n", "текст")), json_values(4), max_size=3)


_IDS = st.from_regex(r"(call|toolu)_[A-Za-z0-9]{12,20}", fullmatch=True)
_NAMES = st.sampled_from(("exec", "read", "grep", "web_fetch", "lcm_grep"))
_WORDS = nasty_text().filter(lambda text: bool(text.strip()))


def _object(**fields: Any) -> SearchStrategy[JsonDict]:
    """An object with these fields: each is a value, or a strategy for one."""
    return st.fixed_dictionaries({
        name: field if isinstance(field, st.SearchStrategy) else st.just(field) for name, field in fields.items()
    })  # fmt: skip


def _text_block(kind: str = "text", **more: Any) -> SearchStrategy[JsonDict]:
    return _object(type=kind, text=_WORDS, **more)


def _answer(thought: SearchStrategy[JsonDict], call: SearchStrategy[JsonDict]) -> SearchStrategy[list[JsonDict]]:
    """The blocks of an assistant's message: thinking, words, calls."""
    parts = st.tuples(st.lists(thought, max_size=1), _text_block(), st.lists(call, max_size=2))
    return parts.map(lambda drawn: [*drawn[0], drawn[1], *drawn[2]])


def openclaw_messages() -> SearchStrategy[JsonDict]:
    """One OpenClaw agent message of any role."""
    time, texts = st.integers(1_700_000_000_000, 1_800_000_000_000), st.tuples(_text_block()).map(list)
    call = _object(type="toolCall", id=_IDS, name=_NAMES, arguments=_arguments())
    blocks = _answer(_object(type="thinking", thinking=_WORDS, thinkingSignature="sig_1"), call)
    known = {"api": "openai-completions", "provider": "fake", "model": "fake-1", "timestamp": time}
    result = {"toolCallId": _IDS, "toolName": _NAMES, "isError": st.booleans(), "timestamp": time}

    def with_stop(message: JsonDict) -> JsonDict:
        return message | {"stopReason": "toolUse" if message["content"][-1]["type"] == "toolCall" else "stop"}

    return st.one_of(
        _object(role="user", content=texts | _WORDS, timestamp=time),
        _object(role="toolResult", content=texts, **result),
        _object(role="assistant", content=blocks, **known).map(with_stop),
    )


def openai_chat_messages() -> SearchStrategy[JsonDict]:
    """One message of OpenAI's chat API of any role, as a string or in parts, with or without calls."""
    image = st.just({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}})
    parts = st.tuples(_text_block(), st.lists(image, max_size=1)).map(lambda drawn: [drawn[0], *drawn[1]])
    call = _object(id=_IDS, type="function", function=_object(name=_NAMES, arguments=_arguments().map(json.dumps)))
    calls = st.lists(call, min_size=1, max_size=3)
    return st.one_of(
        _object(role=st.sampled_from(("system", "user", "assistant")), content=_WORDS),
        _object(role="user", content=parts),
        _object(role="assistant", content=st.none() | _WORDS, tool_calls=calls),
        _object(role="tool", tool_call_id=_IDS, content=_WORDS),
    )


def openai_responses_items() -> SearchStrategy[JsonDict]:
    """One item of OpenAI's Responses API: a message, a call, its output, or reasoning."""
    said, shown = _text_block("input_text"), _text_block("output_text", annotations=[])
    arguments = _arguments().map(json.dumps)
    return st.one_of(
        _object(type="message", role="user", content=st.tuples(said).map(list)),
        _object(type="message", id="msg_1", role="assistant", status="completed", content=st.tuples(shown).map(list)),
        _object(type="function_call", id="fc_1", call_id=_IDS, name=_NAMES, arguments=arguments),
        _object(type="function_call_output", call_id=_IDS, output=_WORDS),
        _object(type="reasoning", id="rs_1", summary=st.tuples(_text_block("summary_text")).map(list)),
    )


def anthropic_messages() -> SearchStrategy[JsonDict]:
    """One message of Anthropic's API: a string, or blocks of text, thinking, calls or results."""
    texts = st.tuples(_text_block()).map(list)
    result = _object(type="tool_result", tool_use_id=_IDS, content=_WORDS | texts)
    failed = result.map(lambda block: block | {"is_error": True})
    call = _object(type="tool_use", id=_IDS, name=_NAMES, input=_arguments())
    return st.one_of(
        _object(role=st.sampled_from(("user", "assistant")), content=_WORDS),
        _object(role="user", content=texts),
        _object(role="user", content=st.tuples(result | failed).map(list)),
        _object(role="assistant", content=_answer(_object(type="thinking", thinking=_WORDS, signature="c2ln"), call)),
    )


#: One message of each format, by the name that `assemble(format=…)` takes.
MESSAGES: dict[str, Callable[[], SearchStrategy[JsonDict]]] = {
    "openai-chat": openai_chat_messages,
    "openai-responses": openai_responses_items,
    "anthropic": anthropic_messages,
    "openclaw": openclaw_messages,
}
