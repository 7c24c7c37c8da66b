"""`{"role", "content"}`, and the tolerant reading of unusual content that it shares with OpenClaw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lossless.formats import reading
from lossless.model.js_json import stringify_js
from lossless.model.messages import File, Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from lossless.model.tokens import estimate_tokens

if TYPE_CHECKING:
    from lossless.model.js_json import RawObject
    from lossless.model.messages import Part, Role

#: Metadata keys of a message.
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
    ids = {
        found for found in (call_id, *(reading.first_string(block, reading.CALL_ID_KEYS) for block in inside)) if found
    }
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
