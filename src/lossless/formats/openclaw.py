"""OpenClaw agent messages, and the tolerant reading of unusual content that `{"role", "content"}` shares with them."""

from __future__ import annotations

from typing import Any, cast

from lossless.formats import reading
from lossless.formats.codec import Codec, arguments_object, call_id_of, openclaw_block, parts_for, results_in, text_in
from lossless.formats.reading import role_in
from lossless.model.js_json import RawObject, stringify_js
from lossless.model.messages import File, Message, Opaque, Part, Reasoning, Role, Text, ToolCall, ToolResult
from lossless.model.tokens import estimate_tokens

_METADATA = frozenset(("role", "timestamp", "createdAt", "created_at", "usage", "provider", "api", "model"))


def read_loose(body: RawObject, format: str, role: Role) -> Message:
    """The message in `body`, by the reference's rules for text, tokens and event key."""
    if "content" not in body:
        return _without_content(body, format, role)
    content = body["content"]
    if isinstance(content, list):
        blocks = [reading.read_block(block) for block in content]
        text = _text_of(content, blocks)
    else:
        text = reading.content_text(content)
        blocks = [] if content is None else [Opaque(content, "non-array-content")]
        blocks = [Text(content)] if isinstance(content, str) else blocks
    tokens = reading.content_tokens(body, role, text, blocks)
    if role == "tool":
        return _tool_message(body, format, text, blocks, tokens)
    if "reasoning_content" in body:
        blocks = [*reading.top_level_reasoning(body, role), *blocks]
    return reading.message_from(body, format, role, text, reading.parts_beyond_content(blocks, text), tokens)


def _text_of(content: list[Any], parts: list[Part]) -> str:
    texts: list[str] = []
    has_file = False
    for block, part in zip(content, parts, strict=True):
        if isinstance(part, (ToolCall, Reasoning)):
            continue
        if isinstance(part, Text) and type(block) is dict:
            text: str | None = part.text
        else:
            text = reading.extract_text(block, 1)
        if isinstance(part, File):
            has_file = True
            text = reading.opaque_text(block)
        if text is not None and not reading.is_blank_text(text):
            texts.append(text)
    if texts:
        return "\n".join(texts)
    return "" if has_file else reading.fallback_text(content)


def _tool_message(body: RawObject, format: str, text: str, blocks: list[Part], tokens: int) -> Message:
    """A tool message: one result with all its text, then the non-text blocks."""
    results = [block for block in blocks if isinstance(block, ToolResult)]
    call_id = reading.first_string(body, reading.CALL_ID_KEYS)
    name = reading.first_string(body, ("toolName", "tool_name", "name"))
    failed = body.get("isError") is True or body.get("is_error") is True
    content = body["content"]
    inside = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    ids = {found for one in (body, *inside) if (found := reading.first_string(one, reading.CALL_ID_KEYS))}
    result = ToolResult(
        call_id or next((block.call_id for block in results if block.call_id), None),
        name or next((block.name for block in results if block.name), None),
        text or reading.join_texts(block.text for block in results) or "",
        failed or any(block.is_error for block in results),
    )
    rest = [block for block in blocks if not isinstance(block, Text | ToolResult)]
    return reading.message_from(body, format, "tool", text, (result, *rest), tokens, reading.result_key(ids))


def _without_content(body: RawObject, format: str, role: Role) -> Message:
    """A shell command with its output, or an unknown shape: kept whole."""
    parts: tuple[Part, ...] = ()
    text = ""
    if "output" in body:
        text = f"$ {_shown(body.get('command') or '')}\n{_shown(body['output'])}"
    else:
        unknown = {key: value for key, value in body.items() if key not in _METADATA}
        parts = (Opaque(unknown, "unknown-message-shape"),)
    if role == "tool":
        call_id = reading.first_string(body, reading.CALL_ID_KEYS)
        parts = (ToolResult(call_id, reading.first_string(body, ("toolName", "tool_name", "name")), text), *parts)
    return reading.message_from(body, format, role, text, parts, estimate_tokens(text))


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else stringify_js(value)


_ROLES: dict[str, Role] = {
    "user": "user", "assistant": "assistant", "toolResult": "tool", "system": "system", "tool": "tool",
    "developer": "system",
}  # fmt: skip


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
