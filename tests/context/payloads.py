"""Messages as plain requests of three providers, written as simply as can be, for the strict checker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lossless.model.messages import Message, Part, Reasoning, Text, ToolCall, ToolResult
from tests.context.strict_checker import check_anthropic, check_openai_chat, check_openai_responses

if TYPE_CHECKING:
    from collections.abc import Sequence

Raw = dict[str, Any]
PROVIDERS = ("openai-chat", "openai-responses", "anthropic")


def complaints(messages: Sequence[Message], provider: str) -> list[str]:
    """What a strict provider says about these messages."""
    if provider == "openai-chat":
        return check_openai_chat(openai_chat(messages))
    if provider == "openai-responses":
        return check_openai_responses(openai_responses(messages))
    return check_anthropic(anthropic(messages))


def parts_of(message: Message) -> tuple[Part, ...]:
    return message.parts or (Text(message.content),)


def openai_chat(messages: Sequence[Message]) -> list[Raw]:
    out: list[Raw] = []
    for message in messages:
        text: list[str] = []
        calls: list[Raw] = []
        for part in parts_of(message):
            if isinstance(part, ToolResult):
                out.append({"role": "tool", "tool_call_id": part.call_id, "content": part.text})
            elif isinstance(part, Text):
                text.append(part.text)
            elif isinstance(part, ToolCall):
                function = {"name": part.name, "arguments": json.dumps(part.input)}
                calls.append({"id": part.id, "type": "function", "function": function})
        if not message.tool_results or text:
            body: Raw = {"role": message.role, "content": "\n".join(text)}
            out.append({**body, "tool_calls": calls} if calls else body)
    return out


def openai_responses(messages: Sequence[Message]) -> list[Raw]:
    out: list[Raw] = []
    for message in messages:
        for part in parts_of(message):
            if isinstance(part, ToolCall):
                arguments = json.dumps(part.input)
                out.append({"type": "function_call", "call_id": part.id, "name": part.name, "arguments": arguments})
            elif isinstance(part, ToolResult):
                out.append({"type": "function_call_output", "call_id": part.call_id, "output": part.text})
            elif isinstance(part, Reasoning):
                out.append({"type": "reasoning", "summary": [], "encrypted_content": part.signature})
            elif isinstance(part, Text):
                out.append({"role": message.role, "content": part.text})
    return out


def anthropic(messages: Sequence[Message]) -> Raw:
    start = next((i for i, m in enumerate(messages) if m.role != "system"), len(messages))
    system = "\n".join(message.content for message in messages[:start])
    role = {"tool": "user"}
    talk = [
        {"role": role.get(m.role, m.role), "content": [_block(part) for part in parts_of(m)]} for m in messages[start:]
    ]
    return {"system": system, "messages": talk}


def _block(part: Part) -> Raw:
    if isinstance(part, ToolCall):
        return {"type": "tool_use", "id": part.id, "name": part.name, "input": part.input}
    if isinstance(part, ToolResult):
        return {"type": "tool_result", "tool_use_id": part.call_id, "content": part.text}
    if isinstance(part, Reasoning):
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}
    assert isinstance(part, Text)
    return {"type": "text", "text": part.text}
