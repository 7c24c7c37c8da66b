"""OpenAI chat completions, and compatible servers."""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Any

from lossless.errors import BadMessage
from lossless.formats import codec, reading
from lossless.model.messages import UNNAMED, File, Message, Opaque, Part, Reasoning, Role, Text, ToolCall, ToolResult
from lossless.model.tokens import estimate_tokens

if TYPE_CHECKING:
    from lossless.model.js_json import RawObject

_ROLES: dict[str, Role] = {
    "system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool",
    "function": "tool",
}  # fmt: skip


def decode(body: RawObject) -> Message:
    """Read a chat message: content as string, parts or null, and its calls."""
    role = reading.role_in(body, _ROLES)
    content = body.get("content")
    text = ""
    parts: list[Part] = []
    if content != "" and not (content is None and role in ("assistant", "tool")):
        text, parts = reading.read_content(content, _spoken)
    tokens = reading.content_tokens(body, role, text, parts)
    if role == "tool":
        return _tool_message(body, text, parts, tokens)
    if role == "assistant" and not (len(body) == 2 and "content" in body):
        more = _other_parts(body)
        text = text or reading.join_texts(_spoken(part) for part in more) or ""
        tokens += sum(reading.serialized_tokens(body[key]) for key in ("tool_calls", "function_call") if body.get(key))
        tokens += sum(estimate_tokens(part.text) for part in more if isinstance(part, Text))
        parts = [*reading.top_level_reasoning(body, role), *parts, *more]
    return reading.message_from(body, "openai-chat", role, text, reading.parts_beyond_content(parts, text), tokens)


def encode(message: Message) -> list[RawObject]:
    """The message from its parts: each tool result is a separate message, with its files only named."""
    parts = codec.parts_for(message, "openai-chat")
    wire: list[RawObject] = []
    for result, files in codec.results_in(message, parts):
        content = "\n".join([result.text, *map(codec.media_text, files)])
        wire.append({"role": "tool", "tool_call_id": codec.call_id_of(result), "content": content})
    text = codec.text_in(parts)
    calls = [
        {
            "id": codec.call_id_of(part),
            "type": "function",
            "function": {"name": part.name, "arguments": codec.arguments_text(part)},
        }
        for part in parts
        if isinstance(part, ToolCall)
    ]
    if message.role == "assistant":
        answer: RawObject = {"role": "assistant", "content": text or None}
        if thinking := "\n".join(part.text for part in parts if isinstance(part, Reasoning)):
            answer["reasoning_content"] = thinking
        if calls:
            answer["tool_calls"] = calls
        return [*wire, answer] if text or calls else wire
    own_parts = [part for part in parts if isinstance(part, Text | File)] if message.role != "tool" else []
    if any(isinstance(part, File) for part in own_parts):
        blocks = [
            codec.chat_block(one) if isinstance(one, File) else {"type": "text", "text": one.text} for one in own_parts
        ]
        wire.append({"role": message.role, "content": blocks})
    elif own_parts:
        wire.append({"role": message.role, "content": text})
    return wire


def merge(left: RawObject, right: RawObject) -> RawObject | None:
    """Merges calls that came as separate messages into the preceding assistant message."""
    if left["role"] == "assistant" and right.get("tool_calls") and right["content"] is None:
        return left | {"tool_calls": [*left.get("tool_calls", ()), *right["tool_calls"]]}
    return None


def strict(body: RawObject) -> RawObject:
    """The message with its calls' arguments as text: some servers send objects."""
    made, calls = _strict_function(body, "function_call"), body.get("tool_calls")
    if isinstance(calls, list):
        strict_calls = [_strict_function(call, "function") for call in calls]
        return made if all(map(is_, strict_calls, calls)) else made | {"tool_calls": strict_calls}
    return made


def _strict_function(holder: RawObject, key: str) -> RawObject:
    """An object with a function call under a key; the same one when its arguments are text."""
    function = holder.get(key)
    text = codec.with_text_arguments(function) if isinstance(function, dict) else function
    return holder if text is function else holder | {key: text}


def _tool_message(body: RawObject, text: str, parts: list[Part], tokens: int) -> Message:
    call_id = reading.string_in(body, "tool_call_id", "", required=False)
    name = reading.string_in(body, "name", "", required=False)
    rest = [part for part in parts if not isinstance(part, Text)]
    kept = (ToolResult(call_id, name, text), *rest)
    key = reading.result_key({call_id}) if call_id else None
    return reading.message_from(body, "openai-chat", "tool", text, kept, tokens, key)


def _spoken(part: Part) -> str | None:
    if isinstance(part, Text):
        return part.text
    if not isinstance(part, Opaque):
        return None
    if part.type == "audio" and isinstance(part.raw, dict):
        transcript = part.raw.get("transcript")
        return transcript if isinstance(transcript, str) else None
    return reading.opaque_text(part.raw)


def _other_parts(body: RawObject) -> list[Part]:
    """Refusal, audio and calls of an assistant message, in this order."""
    parts: list[Part] = []
    if refusal := reading.string_in(body, "refusal", "", required=False):
        parts.append(Text(refusal))
    if isinstance(audio := body.get("audio"), dict):
        parts.append(Opaque(audio, "audio"))
    calls = body.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        raise BadMessage(f"must be a list of calls, not {reading.json_name(calls)}", field="tool_calls")
    for index, call in enumerate(calls or ()):
        field = f"tool_calls[{index}]"
        if not isinstance(call, dict):
            raise BadMessage(f"must be an object, not {reading.json_name(call)}", field=field)
        kind = "custom" if "custom" in call else "function"
        id_ = reading.string_in(call, "id", field, required=False)
        parts.append(_read_function(call.get(kind), id_, f"{field}.{kind}"))
    legacy = body.get("function_call")
    if legacy is not None:
        parts.append(_read_function(legacy, None, "function_call"))
    return parts


def _read_function(function: Any, call_id: str | None, field: str) -> ToolCall:
    if not isinstance(function, dict):
        raise BadMessage(f"must be an object, not {reading.json_name(function)}", field=field)
    name = reading.string_in(function, "name", field)
    return ToolCall(call_id, name or UNNAMED, function.get("arguments", function.get("input")))


CODEC = codec.Codec(decode, encode, merge=merge, strict=strict)
