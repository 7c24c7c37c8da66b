"""OpenClaw agent messages, as its transcripts and its context engine carry them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from lossless.formats.codec import Codec, arguments_object, call_id_of, openclaw_block, parts_for, results_in, text_in
from lossless.formats.plain import read_loose
from lossless.formats.reading import role_in
from lossless.model.messages import File, Opaque, Reasoning, Text, ToolCall, ToolResult

if TYPE_CHECKING:
    from lossless.model.js_json import RawObject
    from lossless.model.messages import Message, Part, Role

_ROLES: dict[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "toolResult": "tool",
    "system": "system",
    "tool": "tool",
    "developer": "system",
}


def decode(body: RawObject) -> Message:
    """Read an agent message; content of any shape, or none, is kept."""
    return read_loose(body, "openclaw", role_in(body, _ROLES))


def encode(message: Message) -> list[RawObject]:
    """A message as the host expects it: assistant messages as blocks with usage, system text as a user message."""
    parts = parts_for(message, "openclaw")
    wire: list[RawObject] = [
        {
            "role": "toolResult",
            "content": [{"type": "text", "text": result.text}, *map(openclaw_block, files)],
            "toolCallId": call_id_of(result),
            "toolName": result.name or "unknown",
            "isError": result.is_error,
        }
        for result, files in results_in(message, parts)
    ]
    others = tuple(part for part in parts if not isinstance(part, ToolResult)) if message.role != "tool" else ()
    if message.role == "assistant":
        answer: RawObject = {"role": "assistant", "content": [_block(part) for part in others]}
        if (who := message.identity) is not None:
            answer |= {"provider": who.provider, "api": who.api, "model": who.model}
        return [*wire, answer | {"usage": _usage(message.tokens)}] if others else wire
    if any(not isinstance(part, Text) for part in others):
        wire.append({"role": "user", "content": [_block(part) for part in others]})
    elif others:
        wire.append({"role": "user", "content": text_in(others)})
    return wire


def merge(left: RawObject, right: RawObject) -> RawObject | None:
    """Merges calls that came as separate messages into the preceding assistant message."""
    if left["role"] != "assistant" or right["role"] != "assistant" or right["content"][0]["type"] != "toolCall":
        return None
    usage = _usage(left["usage"]["output"] + right["usage"]["output"])
    return left | {"content": [*left["content"], *right["content"]], "usage": usage}


def _block(part: Part) -> RawObject:
    match part:
        case ToolCall():
            arguments = arguments_object(part)
            return {"type": "toolCall", "id": call_id_of(part), "name": part.name, "arguments": arguments}
        case Reasoning():
            block = {"type": "thinking", "thinking": part.text}
            return block if part.signature is None else block | {"thinkingSignature": part.signature}
        case File():
            return openclaw_block(part)
        case Opaque():
            return cast("RawObject", part.raw)
        case _:
            return {"type": "text", "text": part.text}


def _usage(tokens: int) -> RawObject:
    """The usage that the host requires in every assistant message: all zero."""
    free = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0)
    return {"input": 0, "output": tokens, "cacheRead": 0, "cacheWrite": 0, "totalTokens": tokens, "cost": free}


def _takes_plain(message: Message) -> bool:
    if message.role == "assistant":
        return isinstance(message.original.get("content"), list) and message.is_text_only
    return message.role == "user" and message.is_text_only


CODEC = Codec(decode, encode, _takes_plain, merge)
