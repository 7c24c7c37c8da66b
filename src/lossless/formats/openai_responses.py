"""Items of the OpenAI Responses API: messages, calls, outputs, thinking, and others."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from lossless.errors import BadMessage
from lossless.formats.codec import (
    Codec,
    arguments_text,
    call_id_of,
    parts_for,
    responses_block,
    results_in,
    text_in,
    with_text_arguments,
)
from lossless.formats.reading import (
    block_tokens,
    blocks_in,
    boundary_tokens,
    content_tokens,
    json_name,
    message_from,
    opaque_text,
    parts_beyond_content,
    read_block,
    read_content,
    result_key,
    result_text,
    role_in,
    string_in,
)
from lossless.model.messages import UNNAMED, File, Opaque, Text, ToolCall, ToolResult
from lossless.model.tokens import estimate_tokens

if TYPE_CHECKING:
    from lossless.model.js_json import RawObject
    from lossless.model.messages import Message, Part, Role

_FORMAT = "openai-responses"
_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
#: A call's type with the key of its input.
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_OUTPUTS = frozenset(("function_call_output", "custom_tool_call_output"))


def decode(body: RawObject) -> Message:
    """Read one item; an unknown type is kept unchanged."""
    kind = body.get("type")
    if kind is None or kind == "message":
        role = role_in(body, _ROLES)
        text, parts = read_content(body.get("content"), lambda part: part.text if isinstance(part, Text) else None)
        tokens = content_tokens(body, role, text, parts)
        return message_from(body, _FORMAT, role, text, parts_beyond_content(parts, text), tokens)
    if not isinstance(kind, str):
        raise BadMessage(f"must be a string, not {json_name(kind)}", field="type")
    if kind in _CALLS:
        call = ToolCall(string_in(body, "call_id", ""), string_in(body, "name", "") or UNNAMED, body.get(_CALLS[kind]))
        return message_from(body, _FORMAT, "assistant", "", (call,), boundary_tokens([body]))
    if kind in _OUTPUTS:
        return _output(body)
    if kind == "reasoning":
        return message_from(body, _FORMAT, "assistant", "", (read_block(body),), boundary_tokens([body]))
    # specific to the provider: its own tools, its compaction, references to stored objects
    other: Role = "tool" if kind.endswith("_output") else "user" if kind == "mcp_approval_response" else "assistant"
    text = opaque_text(body) or ""
    return message_from(body, _FORMAT, other, text, (Opaque(body, kind),), boundary_tokens([body]))


def encode(message: Message) -> list[RawObject]:
    """The message from its parts, one item per result and call; thinking without its item is dropped."""
    parts = parts_for(message, _FORMAT)
    wire = [_wire_output(result, files) for result, files in results_in(message, parts)]
    own_parts = [part for part in parts if isinstance(part, Text | File)] if message.role != "tool" else []
    if any(isinstance(part, File) for part in own_parts):
        content = [_wire_part(part) for part in own_parts]
        wire.append({"type": "message", "role": message.role, "content": content})
    elif own_parts:
        wire.append({"role": message.role, "content": text_in(parts)})
    wire += [cast("RawObject", part.raw) for part in parts if isinstance(part, Opaque)]
    return [*wire, *(_wire_call(part) for part in parts if isinstance(part, ToolCall))]


def strict(body: RawObject) -> RawObject:
    """The item; a call with its arguments as text."""
    return with_text_arguments(body) if body.get("type") == "function_call" else body


def _output(body: RawObject) -> Message:
    call_id = string_in(body, "call_id", "") or ""
    output = body.get("output")
    if isinstance(output, str):
        parts: list[Part] = []
        text, tokens = output, estimate_tokens(output)
    else:
        blocks = blocks_in(output, "output")
        parts = [part for part in map(read_block, blocks) if not isinstance(part, Text)]
        text, tokens = result_text(blocks), block_tokens(blocks, parts)
    kept = (ToolResult(call_id, None, text), *parts)
    return message_from(body, _FORMAT, "tool", text, kept, tokens, result_key({call_id}))


def _wire_part(part: Text | File) -> RawObject:
    return responses_block(part) if isinstance(part, File) else {"type": "input_text", "text": part.text}


def _wire_call(part: ToolCall) -> RawObject:
    return {"type": "function_call", "call_id": call_id_of(part), "name": part.name, "arguments": arguments_text(part)}


def _wire_output(part: ToolResult, files: tuple[File, ...]) -> RawObject:
    output = [_wire_part(Text(part.text)), *map(responses_block, files)] if files else part.text
    return {"type": "function_call_output", "call_id": call_id_of(part), "output": output}


def _takes_plain(message: Message) -> bool:
    return message.role != "tool" and message.is_text_only and isinstance(message.original["content"], str)


CODEC = Codec(decode, encode, _takes_plain, strict=strict)
