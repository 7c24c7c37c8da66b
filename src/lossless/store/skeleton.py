"""The part of a foreign message that content and parts do not already hold.

A skeleton is the original as JSON in which each long text, tool input or block that lies in `messages.content` or in a
part row is replaced by a reference, so that it is stored once. `restore(strip(x)) == x`, key order and numbers kept.

References: `{"$": "c"}` the whole content · `{"$": [start, length]}` a piece of it · `{"$": ["t", n]}` text of part n ·
`{"$": ["i", n]}` input of part n · `{"$": ["r", n]}` raw block of part n · `{"$": ["s", n]}` its signature ·
`{"$": ["=", [[key, value], …]]}` an object that itself has a key `$`.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Shorter texts stay in the skeleton: a reference would not be smaller.
_SHORT = 16

#: What skeletons are made of, most frequent last. Part of the file format: it never changes; a better one
#: would get another first byte.
_COMMON = (
    b'"cache_control":{"type":"ephemeral"}"signature":""redacted_thinking"input_text"output_text"function_call_output"'
    b'"function_call""call_id":""image_url""annotations":[]"refusal":null"audio":null"type":"function","function":{"name":"'
    b'","arguments":{"$":["i",0]}}]"tool_calls":[{"id":"call_"tool_call_id":"call_"stop_sequence":null"responseId":"'
    b'"thinkingSignature":""details":{"exitCode":0,"durationMs":"truncation":null"diff":"patch":"path":"error":"aborted"'
    b'"stopReason":"error"{"type":"thinking","thinking":{"$":["t",0]},{"type":"tool_use","id":"toolu_01","name":"","input":'
    b'{"type":"tool_result","tool_use_id":"toolu_01","content":"is_error":false{"type":"toolCall","id":"call_toolu_01","name":"'
    b'","arguments":{"$":["i",1]}}],"api":"openai-completions","anthropic-messages","openai-responses","provider":"anthropic",'
    b'"openai","model":"claude-opus-4-sonnet-4-5gpt-5","usage":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,'
    b'"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"toolUse","stopReason":"stop","timestamp":17'
    b'{"role":"toolResult","toolCallId":"call_toolu_01","toolName":"exec","content":[{"type":"text","text":{"$":"c"}}],"isError":false,'
    b'"timestamp":17{"role":"assistant","content":[{"type":"text","text":{"$":["t",1]}},{"role":"user","content":[{"type":"text",'
    b'"text":{"$":"c"}}],"timestamp":17'
)
_FIRST_BYTE = b"1"


def squeeze(skeleton: str) -> bytes:
    """A skeleton as it is stored; `unsqueeze` gives it back."""
    squeezer = zlib.compressobj(6, zlib.DEFLATED, -13, 6, zdict=_COMMON)
    return _FIRST_BYTE + squeezer.compress(skeleton.encode()) + squeezer.flush()


def unsqueeze(stored: bytes) -> str:
    """The skeleton that `squeeze` was given; ValueError when it is damaged."""
    if not isinstance(stored, bytes) or stored[:1] != _FIRST_BYTE:
        raise ValueError("a skeleton in a form that this version does not know")
    try:
        return zlib.decompressobj(-15, zdict=_COMMON).decompress(stored[1:]).decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise ValueError(f"a damaged skeleton: {error}") from error


@dataclass(frozen=True, slots=True)
class Kept:
    """What is stored beside the skeleton: the content, and per part its text, input or raw block."""

    content: str
    texts: Mapping[int, str] = field(default_factory=dict)
    inputs: Mapping[int, Any] = field(default_factory=dict)
    raws: Mapping[int, Any] = field(default_factory=dict)
    signatures: Mapping[int, str] = field(default_factory=dict)


def storable(text: str) -> str:
    """`text` as SQLite can hold it: a surrogate without its other half becomes U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def to_json(value: object) -> str:
    """Compact JSON that SQLite can hold: lone surrogates are written as escapes."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text


def strip(body: Mapping[str, Any], kept: Kept) -> str:
    """The skeleton of `body`: everything that `kept` does not hold, and where the rest belongs."""
    by_text = {text: ["s", ordinal] for ordinal, text in kept.signatures.items() if len(text) >= _SHORT}
    by_text |= {text: ["t", ordinal] for ordinal, text in kept.texts.items() if len(text) >= _SHORT}
    by_identity = {id(value): ["i", ordinal] for ordinal, value in kept.inputs.items()}
    by_identity |= {id(value): ["r", ordinal] for ordinal, value in kept.raws.items()}
    content, cursor = kept.content, 0

    def walk(value: Any) -> Any:
        nonlocal cursor
        if isinstance(value, str):
            if len(value) < _SHORT:
                return {"$": by_identity[id(value)]} if id(value) in by_identity and len(value) > 8 else value
            if value == content:
                return {"$": "c"}
            if value in by_text:
                return {"$": by_text[value]}
            if id(value) in by_identity:
                return {"$": by_identity[id(value)]}
            start = content.find(value, cursor)
            if start < 0:
                return value
            cursor = start + len(value)
            return {"$": [start, len(value)]}
        if isinstance(value, dict):
            if id(value) in by_identity:
                return {"$": by_identity[id(value)]}
            if "$" in value:
                return {"$": ["=", [[key, walk(item)] for key, item in value.items()]]}
            return {key: walk(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return {"$": by_identity[id(value)]} if id(value) in by_identity else [walk(item) for item in value]
        return value

    return to_json(walk(dict(body)))


def restore(skeleton: str, kept: Kept) -> dict[str, Any]:
    """The original that `strip` was given; ValueError when something that it refers to is not there."""

    def resolve(value: dict[str, Any]) -> Any:
        if len(value) != 1 or "$" not in value:
            return value
        reference = value["$"]
        if reference == "c":
            return kept.content
        head, tail = reference
        if head == "=":
            return dict(tail)
        if isinstance(head, int):
            return kept.content[head : head + tail]
        return {"t": kept.texts, "i": kept.inputs, "r": kept.raws, "s": kept.signatures}[head][tail]

    try:
        body: dict[str, Any] = json.loads(skeleton, object_hook=resolve)
    except (KeyError, TypeError) as error:
        raise ValueError(f"a skeleton without the part that it refers to: {error}") from error
    if not isinstance(body, dict):
        raise ValueError("a skeleton of no message")
    return body
