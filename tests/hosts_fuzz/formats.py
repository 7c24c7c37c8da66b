"""Messages in the formats of hosts, and back: written for the judge, from the formats' own documents."""

from __future__ import annotations

import json
from typing import Any

from tests.hosts_fuzz.words import Words


def write(words: Words, format_: str) -> dict[str, Any]:
    """The message as a host of that kind has it."""
    return {"openai-chat": _openai, "anthropic": _anthropic, "openclaw": _openclaw}[format_](words)


def _openai(words: Words) -> dict[str, Any]:
    message: dict[str, Any] = {"role": words.role, "content": words.text}
    if words.calls:
        message["content"] = words.text or None
        message["tool_calls"] = [
            {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
            for id_, name, arguments in words.calls
        ]
    return message | ({"tool_call_id": words.answers} if words.role == "tool" else {})


def _anthropic(words: Words) -> dict[str, Any]:
    if words.role == "tool":
        block = {"type": "tool_result", "tool_use_id": words.answers, "content": words.text}
        return {"role": "user", "content": [block]}
    if words.role != "assistant":
        return {"role": words.role, "content": words.text}
    blocks: list[dict[str, Any]] = []
    if words.thinking:
        blocks.append({"type": "thinking", "thinking": words.thinking, "signature": "c2ln"})
    if words.text:
        blocks.append({"type": "text", "text": words.text})
    for id_, name, arguments in words.calls:
        blocks.append({"type": "tool_use", "id": id_, "name": name, "input": json.loads(arguments)})
    return {"role": "assistant", "content": blocks}


def _openclaw(words: Words) -> dict[str, Any]:
    text = [{"type": "text", "text": words.text}] if words.text or words.role != "assistant" else []
    if words.role == "tool":
        return {"role": "toolResult", "toolCallId": words.answers, "toolName": "sh", "content": text}
    thinking = [{"type": "thinking", "thinking": words.thinking}] if words.thinking else []
    calls = [
        {"type": "toolCall", "id": id_, "name": name, "arguments": json.loads(arguments)}
        for id_, name, arguments in words.calls
    ]
    return {"role": words.role, "content": [*thinking, *text, *calls]}


def read(message: dict[str, Any]) -> list[Words]:
    """What a message of a prompt says, in whichever of the formats; a list, as it may hold what were several."""
    content = message.get("content") or ""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    results = [block for block in blocks if block["type"] == "tool_result"]
    found = [Words("tool", _text(block.get("content")), answers=block["tool_use_id"]) for block in results]
    role = {"toolResult": "tool"}.get(message["role"], message["role"])
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    thinking = "".join(block["thinking"] for block in blocks if block["type"] == "thinking")
    calls = tuple(_call(one) for one in [*blocks, *message.get("tool_calls", ())] if _is_call(one))
    answers = message.get("tool_call_id") or message.get("toolCallId") or ""
    if calls or not results:
        texts = texts or [""]
        found += [Words(role, text) for text in texts[:-1]]
        found.append(Words(role, texts[-1], calls, thinking, answers))
        return found
    return found + [Words(role, text) for text in texts]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content or ())


def _is_call(block: dict[str, Any]) -> bool:
    return block["type"] in ("tool_use", "toolCall", "function")


def _call(block: dict[str, Any]) -> tuple[str, str, str]:
    if "function" in block:
        return block["id"], block["function"]["name"], block["function"]["arguments"]
    arguments = block.get("input", block.get("arguments"))
    return block["id"], block["name"], json.dumps(arguments, ensure_ascii=False)
