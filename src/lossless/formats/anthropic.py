"""Anthropic messages: a string or a list of blocks, tool results inside user messages."""

from __future__ import annotations

import re
from hashlib import blake2b
from operator import is_
from typing import TYPE_CHECKING, cast

from lossless.formats import reading
from lossless.formats.codec import Codec, anthropic_block, arguments_object, call_id_of, parts_for, results_in
from lossless.model.messages import File, Message, Opaque, Part, Reasoning, Role, Text, ToolCall, ToolResult

if TYPE_CHECKING:
    from lossless.model.js_json import RawObject

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
_NOT_IN_ID = re.compile(r"[^A-Za-z0-9_-]")
#: Where a block holds its call's id.
_ID_KEYS = {"tool_use": "id", "tool_result": "tool_use_id"}
_LONGEST_NAME = 128


def decode(body: RawObject) -> Message:
    """Read a message param or a response; a user message of tool results only becomes a tool message."""
    role = reading.role_in(body, _ROLES)
    content = body.get("content")
    if not isinstance(content, str):
        blocks = reading.blocks_in(content)
        for index, block in enumerate(blocks):
            kind, field = block["type"], f"content[{index}]"
            if kind == "tool_use":
                reading.string_in(block, "id", field)
                reading.string_in(block, "name", field)
            elif kind == "tool_result":
                reading.string_in(block, "tool_use_id", field)
    text, parts = reading.read_content(content, _words)
    key = None
    if role == "user" and parts and all(isinstance(part, ToolResult) for part in parts):
        role = "tool"
        key = reading.result_key({part.call_id for part in parts if isinstance(part, ToolResult) and part.call_id})
    tokens = reading.content_tokens(body, role, text, parts)
    return reading.message_from(body, "anthropic", role, text, reading.parts_beyond_content(parts, text), tokens, key)


def encode(message: Message) -> list[RawObject]:
    """The message from its parts: results first, as the provider requires."""
    parts = parts_for(message, "anthropic")
    blocks = [_result(result, files) for result, files in results_in(message, parts)]
    role = "user" if message.role == "tool" or blocks else message.role
    if message.role != "tool":
        blocks += [_block(part) for part in parts if not isinstance(part, ToolResult)]
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        return [{"role": role, "content": blocks[0]["text"]}]
    return [{"role": role, "content": blocks}] if blocks else []


def merge(left: RawObject, right: RawObject) -> RawObject | None:
    """Merges results of one round of calls into one user message, and calls into their assistant message."""
    if _holds_only(left, "tool_result") and _holds_only(right, "tool_result"):
        return {"role": "user", "content": [*left["content"], *right["content"]]}
    if left["role"] == "assistant" and _holds_only(right, "tool_use"):
        content = left["content"]
        blocks = [_text(content)] if isinstance(content, str) else content
        return {"role": "assistant", "content": [*blocks, *right["content"]]}
    return None


def _words(part: Part) -> str | None:
    if isinstance(part, Text | ToolResult):
        return part.text
    return reading.opaque_text(part.raw) if isinstance(part, Opaque) else None


def _block(part: Part) -> RawObject:
    match part:
        case ToolCall():
            name = _NOT_IN_ID.sub("_", part.name)[:_LONGEST_NAME]
            return {"type": "tool_use", "id": _id(part), "name": name, "input": arguments_object(part)}
        case Reasoning() if not part.text and part.signature:
            return {"type": "redacted_thinking", "data": part.signature}
        case Reasoning():
            return {"type": "thinking", "thinking": part.text, "signature": part.signature or ""}
        case File():
            return anthropic_block(part)
        case Opaque():
            return cast("RawObject", part.raw)
        case _:
            return _text(part.text)


def _result(part: ToolResult, files: tuple[File, ...]) -> RawObject:
    words = [_text(part.text)] if not reading.is_blank_text(part.text) else []
    content = [*words, *map(anthropic_block, files)] if files else part.text
    block: RawObject = {"type": "tool_result", "tool_use_id": _id(part), "content": content}
    return block | {"is_error": True} if part.is_error else block


def _text(text: str) -> RawObject:
    return {"type": "text", "text": text}


def _id(part: ToolCall | ToolResult) -> str:
    return tool_id(call_id_of(part))


def tool_id(id: str) -> str:
    """A call's id with only the characters that Anthropic allows; distinct per id, the same for call and result.

    >>> tool_id("toolu_01A"), tool_id("functions.sh:59")
    ('toolu_01A', 'functions_sh_59_ff0e84f6')
    """
    cleaned = _NOT_IN_ID.sub("_", id)
    if cleaned == id:
        return id
    return f"{cleaned}_{blake2b(id.encode('utf-8', 'surrogatepass'), digest_size=4).hexdigest()}"


def strict(body: RawObject) -> RawObject:
    """A message that came in this format, with valid tool ids."""
    content = body.get("content")
    if not isinstance(content, list):
        return body
    blocks = [_strict_block(block) for block in content]
    return body if all(map(is_, blocks, content)) else {**body, "content": blocks}


def _strict_block(block: RawObject) -> RawObject:
    key = _ID_KEYS.get(str(block.get("type")))
    if key is None or not isinstance(block.get(key), str):
        return block
    id_ = tool_id(block[key])
    return block if id_ == block[key] else {**block, key: id_}


def _holds_only(wire: RawObject, kind: str) -> bool:
    content = wire["content"]
    return isinstance(content, list) and all(block["type"] == kind for block in content)


CODEC = Codec(decode, encode, merge=merge, strict=strict)
