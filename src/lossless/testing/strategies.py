"""Generators for hypothesis: hostile text, messages of every format, broken tool streams."""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from hypothesis import strategies as st

from lossless.testing.conversations import read_data

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import DrawFn, SearchStrategy

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


@st.composite
def openclaw_messages(draw: DrawFn) -> JsonDict:
    """One OpenClaw agent message of any role."""
    time = draw(st.integers(1_700_000_000_000, 1_800_000_000_000))
    text: JsonDict = {"type": "text", "text": draw(_WORDS)}
    role = draw(st.sampled_from(("user", "user-string", "assistant", "toolResult")))
    if role == "user":
        return {"role": "user", "content": [text], "timestamp": time}
    if role == "user-string":
        return {"role": "user", "content": text["text"], "timestamp": time}
    if role == "toolResult":
        head = {"role": role, "toolCallId": draw(_IDS), "toolName": draw(_NAMES)}
        return head | {"content": [text], "isError": draw(st.booleans()), "timestamp": time}
    call = st.builds(
        lambda id, name, arguments: {"type": "toolCall", "id": id, "name": name, "arguments": arguments},
        _IDS, _NAMES, _arguments(),
    )  # fmt: skip
    thought = st.builds(lambda words: {"type": "thinking", "thinking": words, "thinkingSignature": "sig_1"}, _WORDS)
    content = [*draw(st.lists(thought, max_size=1)), text, *draw(st.lists(call, max_size=2))]
    stop = "toolUse" if content[-1]["type"] == "toolCall" else "stop"
    identity = {"api": "openai-completions", "provider": "fake", "model": "fake-1"}
    return {"role": "assistant", "content": content, **identity, "stopReason": stop, "timestamp": time}


@st.composite
def openai_chat_messages(draw: DrawFn) -> JsonDict:
    """One message of OpenAI's chat API of any role, as a string or in parts, with or without calls."""
    role = draw(st.sampled_from(("system", "user", "user-parts", "assistant", "assistant-calls", "tool")))
    words = draw(_WORDS)
    if role == "user-parts":
        image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
        return {
            "role": "user",
            "content": [{"type": "text", "text": words}, *draw(st.lists(st.just(image), max_size=1))],
        }
    if role == "assistant-calls":
        calls = st.builds(
            lambda id, name, arguments: {
                "id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}
            },
            _IDS, _NAMES, _arguments(),
        )  # fmt: skip
        content = draw(st.none() | st.just(words))
        return {"role": "assistant", "content": content, "tool_calls": draw(st.lists(calls, min_size=1, max_size=3))}
    if role == "tool":
        return {"role": "tool", "tool_call_id": draw(_IDS), "content": words}
    return {"role": role, "content": words}


@st.composite
def openai_responses_items(draw: DrawFn) -> JsonDict:
    """One item of OpenAI's Responses API: a message, a call, its output, or reasoning."""
    kind = draw(st.sampled_from(("input", "output", "function_call", "function_call_output", "reasoning")))
    words = draw(_WORDS)
    if kind == "input":
        return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": words}]}
    if kind == "output":
        content = [{"type": "output_text", "text": words, "annotations": []}]
        return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
    if kind == "function_call":
        arguments = json.dumps(draw(_arguments()))
        return {"type": kind, "id": "fc_1", "call_id": draw(_IDS), "name": draw(_NAMES), "arguments": arguments}
    if kind == "function_call_output":
        return {"type": kind, "call_id": draw(_IDS), "output": words}
    return {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": words}]}


@st.composite
def anthropic_messages(draw: DrawFn) -> JsonDict:
    """One message of Anthropic's API: a string, or blocks of text, thinking, calls or results."""
    kind = draw(st.sampled_from(("string", "user", "results", "assistant")))
    words = draw(_WORDS)
    text = {"type": "text", "text": words}
    if kind == "string":
        return {"role": draw(st.sampled_from(("user", "assistant"))), "content": words}
    if kind == "user":
        return {"role": "user", "content": [text]}
    if kind == "results":
        body = draw(st.sampled_from((words, [text])))
        result: JsonDict = {"type": "tool_result", "tool_use_id": draw(_IDS), "content": body}
        return {"role": "user", "content": [result | draw(st.sampled_from(({}, {"is_error": True})))]}
    thought = st.builds(lambda words: {"type": "thinking", "thinking": words, "signature": "c2ln"}, _WORDS)
    call = st.builds(
        lambda id, name, input: {"type": "tool_use", "id": id, "name": name, "input": input}, _IDS, _NAMES, _arguments()
    )
    return {
        "role": "assistant",
        "content": [*draw(st.lists(thought, max_size=1)), text, *draw(st.lists(call, max_size=2))],
    }


#: One message of each format, by the name that `assemble(format=…)` takes.
MESSAGES: dict[str, Callable[[], SearchStrategy[JsonDict]]] = {
    "openai-chat": openai_chat_messages,
    "openai-responses": openai_responses_items,
    "anthropic": anthropic_messages,
    "openclaw": openclaw_messages,
}


@st.composite
def tool_streams(draw: DrawFn, max_turns: int = 4, max_damage: int = 4) -> tuple[list[JsonDict], list[JsonDict]]:
    """Turns with calls and results, in OpenClaw's form; then with messages dropped, doubled or moved."""
    reuse = draw(st.booleans())
    clean: list[JsonDict] = []
    for turn in range(draw(st.integers(1, max_turns))):
        ids = [f"call_{0 if reuse else turn}_{number}" for number in range(draw(st.integers(0, 3)))]
        clean += _turn(turn, ids, draw(st.booleans()))
    damaged = list(clean)
    for _ in range(draw(st.integers(0, max_damage))):
        if damaged:
            kind = draw(st.sampled_from(("drop", "double", "move")))
            place = draw(st.integers(0, len(damaged) - 1))
            message = damaged[place] if kind == "double" else damaged.pop(place)
            if kind != "drop":
                damaged.insert(draw(st.integers(0, len(damaged))), message)
    return clean, damaged


def _turn(turn: int, ids: list[str], speaks: bool) -> list[JsonDict]:
    at = 1_767_603_600_000 + turn * 60_000

    def message(role: str, text: str, later: int, **fields: Any) -> JsonDict:
        content = [{"type": "text", "text": text}] if text else []
        return {"role": role, "content": content, **fields, "timestamp": at + later}

    first = message("assistant", f"looking {turn}" if speaks or not ids else "", 1000, stopReason="stop")
    if ids:
        first["stopReason"] = "toolUse"
    first["content"] += [{"type": "toolCall", "id": id, "name": "exec", "arguments": {"n": turn}} for id in ids]
    results = []
    for place, id in enumerate(ids):
        known = {"toolCallId": id, "toolName": "exec", "isError": False}
        results.append(message("toolResult", f"result {turn} of {id}", 2000 + place, **known))
    answer = [message("assistant", f"answer {turn}", 3000, stopReason="stop")] if ids else []
    return [message("user", f"question {turn}", 0), first, *results, *answer]
