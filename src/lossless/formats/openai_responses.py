"""Items of the OpenAI Responses API: messages, calls, outputs, thinking, and others."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from lossless.errors import BadMessage
from lossless.formats import codec, reading
from lossless.model.messages import UNNAMED, File, Message, Opaque, Part, Role, Text, ToolCall, ToolResult
from lossless.model.tokens import estimate_tokens

if TYPE_CHECKING:
    from lossless.model.js_json import RawObject

_FORMAT = "openai-responses"
_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
#: A call's type with the key of its input.
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_OUTPUTS = frozenset(("function_call_output", "custom_tool_call_output"))


def decode(body: RawObject) -> Message:
    """Read one item; an unknown type is kept unchanged."""
    kind = body.get("type")
    if kind is None or kind == "message":
        role = reading.role_in(body, _ROLES)
        text, parts = reading.read_content(
            body.get("content"), lambda part: part.text if isinstance(part, Text) else None
        )
        tokens = reading.content_tokens(body, role, text, parts)
        return reading.message_from(body, _FORMAT, role, text, reading.parts_beyond_content(parts, text), tokens)
    if not isinstance(kind, str):
        raise BadMessage(f"must be a string, not {reading.json_name(kind)}", field="type")
    if kind in _CALLS:
        call = ToolCall(
            reading.string_in(body, "call_id", ""),
            reading.string_in(body, "name", "") or UNNAMED,
            body.get(_CALLS[kind]),
        )
        return reading.message_from(body, _FORMAT, "assistant", "", (call,), reading.boundary_tokens([body]))
    if kind in _OUTPUTS:
        return _output(body)
    if kind == "reasoning":
        return reading.message_from(
            body, _FORMAT, "assistant", "", (reading.read_block(body),), reading.boundary_tokens([body])
        )
    # specific to the provider: its own tools, its compaction, references to stored objects
    other: Role = "tool" if kind.endswith("_output") else "user" if kind == "mcp_approval_response" else "assistant"
    text = reading.opaque_text(body) or ""
    return reading.message_from(body, _FORMAT, other, text, (Opaque(body, kind),), reading.boundary_tokens([body]))


def encode(message: Message) -> list[RawObject]:
    """The message from its parts, one item per result and call; thinking without its item is dropped."""
    parts = codec.parts_for(message, _FORMAT)
    wire: list[RawObject] = []
    for result, files in codec.results_in(message, parts):
        output = [_wire_part(Text(result.text)), *map(codec.responses_block, files)] if files else result.text
        wire.append({"type": "function_call_output", "call_id": codec.call_id_of(result), "output": output})
    own_parts = [part for part in parts if isinstance(part, Text | File)] if message.role != "tool" else []
    if any(isinstance(part, File) for part in own_parts):
        content = [_wire_part(part) for part in own_parts]
        wire.append({"type": "message", "role": message.role, "content": content})
    elif own_parts:
        wire.append({"role": message.role, "content": codec.text_in(parts)})
    wire += [cast("RawObject", part.raw) for part in parts if isinstance(part, Opaque)]
    for part in parts:
        if isinstance(part, ToolCall):
            call = {"type": "function_call", "call_id": codec.call_id_of(part), "name": part.name}
            wire.append(call | {"arguments": codec.arguments_text(part)})
    return wire


def strict(body: RawObject) -> RawObject:
    """The item; a call with its arguments as text."""
    return codec.with_text_arguments(body) if body.get("type") == "function_call" else body


def _output(body: RawObject) -> Message:
    call_id = reading.string_in(body, "call_id", "") or ""
    output = body.get("output")
    if isinstance(output, str):
        parts: list[Part] = []
        text, tokens = output, estimate_tokens(output)
    else:
        blocks = reading.blocks_in(output, "output")
        parts = [part for part in map(reading.read_block, blocks) if not isinstance(part, Text)]
        text, tokens = reading.result_text(blocks), reading.block_tokens(blocks, parts)
    kept = (ToolResult(call_id, None, text), *parts)
    return reading.message_from(body, _FORMAT, "tool", text, kept, tokens, reading.result_key({call_id}))


def _wire_part(part: Text | File) -> RawObject:
    return codec.responses_block(part) if isinstance(part, File) else {"type": "input_text", "text": part.text}


def _takes_plain(message: Message) -> bool:
    return message.role != "tool" and message.is_text_only and isinstance(message.original["content"], str)


CODEC = codec.Codec(decode, encode, _takes_plain, strict=strict)
