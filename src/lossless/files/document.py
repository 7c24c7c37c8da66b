"""A message as the JSON document that interception rewrites, and where in it payloads may stand.

The document is the foreign body; a message without one is `{"role", "content"}`, with its parts beside it
when it was made from parts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from lossless.model.messages import File, Text, ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lossless.files.recipe import Path
    from lossless.model.messages import Message, Part

#: Reads a foreign body of a named format: `lossless.formats.decode`.
Decode: TypeAlias = "Callable[[dict[str, Any], str], Message]"

TEXT_TYPES = frozenset(("text", "input_text", "output_text"))
_RESULT_TYPES = frozenset(
    ("tool_result", "toolResult", "tool_use_result", "function_call_output", "custom_tool_call_output")
)
_UNTOUCHED = frozenset(
    ("thinking", "redacted_thinking", "reasoning", "tool_use", "toolUse", "tool-use", "toolCall", "tool_call")
) | {"functionCall", "function_call", "custom_tool_call"}
_FILE_TYPES = frozenset(("image", "image_url", "input_image", "file", "input_file", "document", "input_audio"))
#: Under which key the answer of a tool stands, best first.
_OUTPUT_KEYS = ("content", "output", "result", "text", "toolOutput")
_CALL_ID_KEYS = ("toolCallId", "tool_call_id", "toolUseId", "tool_use_id", "call_id")
_NAME_KEYS = ("toolName", "tool_name", "name")
_MAX_DEPTH = 12


@dataclass(frozen=True, slots=True)
class Spot:
    """A text, or the block of a file, somewhere in a document."""

    path: Path
    value: Any
    #: Whether it is a block that carries a file.
    is_file: bool
    #: Whether it stands in the answer of a tool.
    in_result: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """The whole answer of a tool: a text, a list of blocks, or any other value."""

    path: Path
    value: Any
    call_id: str | None
    tool: str | None


def document_of(message: Message) -> dict[str, Any]:
    """The document that stands for a message."""
    if message.body is not None:
        return cast("dict[str, Any]", message.body)
    if not message.parts:
        return {"role": message.role, "content": message.content}
    content = None if message.content == _words(message.parts) else message.content
    return {"role": message.role, "content": content, "parts": [_part_json(part) for part in message.parts]}


def message_from(message: Message, document: dict[str, Any], decode: Decode) -> Message:
    """The message that a rewritten document stands for; who said it, when and under which key stays."""
    if message.body is not None:
        read = decode(document, message.format)
        return replace(message, content=read.content, parts=read.parts, body=document, tokens=read.tokens)
    if not message.parts:
        return replace(message, content=document["content"], tokens=-1)
    parts = tuple(_part(part, value) for part, value in zip(message.parts, document["parts"], strict=True))
    content = document["content"]
    return replace(message, parts=parts, content=_words(parts) if content is None else content, tokens=-1)


def spots(document: dict[str, Any], role: str) -> Iterator[Spot]:
    """Every text and every file that somebody said or a tool answered, in order."""
    in_result = role == "tool" or document.get("type") in _RESULT_TYPES
    yield from _spots(document.get("parts"), ("parts",), in_result, 0)
    key = "content" if "content" in document else "output"
    yield from _spots(document.get(key), (key,), in_result, 0)


def _spots(value: Any, path: Path, in_result: bool, depth: int) -> Iterator[Spot]:
    if isinstance(value, str):
        yield Spot(path, value, False, in_result)
    elif depth > _MAX_DEPTH:
        return
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _spots(item, (*path, number), in_result, depth + 1)
    elif isinstance(value, dict):
        yield from _spots_in_block(value, path, in_result, depth)


def _spots_in_block(block: dict[str, Any], path: Path, in_result: bool, depth: int) -> Iterator[Spot]:
    kind = block.get("type")
    if kind in _UNTOUCHED:
        return
    if kind in TEXT_TYPES:
        if isinstance(block.get("text"), str):
            yield Spot((*path, "text"), block["text"], False, in_result)
    elif kind in _FILE_TYPES:
        yield Spot(path, block, True, in_result)
    elif kind in _RESULT_TYPES:
        if (key := _output_key(block)) is not None:
            yield from _spots(block[key], (*path, key), True, depth + 1)
    elif in_result:
        for key in ("output", "content", "result"):
            if key in block:
                yield from _spots(block[key], (*path, key), True, depth + 1)


def answers(document: dict[str, Any], message: Message) -> Iterator[Answer]:
    """The answers of tools in a document, each as a whole."""
    if document.get("type") in _RESULT_TYPES or (message.role == "tool" and "parts" not in document):
        inner = list(_answer_blocks(document.get("content"), ("content",)))
        if inner:
            yield from inner
            return
        key = _output_key(document)
        result = message.tool_results[0] if message.tool_results else None
        if key is not None:
            tool = _first(document, _NAME_KEYS) or (result.name if result else None)
            yield Answer((key,), document[key], _first(document, _CALL_ID_KEYS), tool)
        return
    key = "parts" if "parts" in document else "content"
    yield from _answer_blocks(document.get(key), (key,))


def _answer_blocks(blocks: Any, path: Path) -> Iterator[Answer]:
    for number, block in enumerate(blocks if isinstance(blocks, list) else ()):
        if isinstance(block, dict) and block.get("type") in _RESULT_TYPES and (key := _output_key(block)) is not None:
            tool = _first(block, ("name", "toolName", "tool_name"))
            yield Answer((*path, number, key), block[key], _first(block, _CALL_ID_KEYS), tool)


def holds_only_words(document: dict[str, Any]) -> bool:
    """Whether nothing in a document calls a tool, answers one, or thinks."""
    if "tool_calls" in document or "function_call" in document or "reasoning_content" in document:
        return False
    if document.get("type") in _RESULT_TYPES | _UNTOUCHED or "parts" in document:
        return False
    blocks = document.get("content")
    kinds = {block.get("type") for block in blocks if isinstance(block, dict)} if isinstance(blocks, list) else set()
    return not any(isinstance(kind, str) and kind in _RESULT_TYPES | _UNTOUCHED for kind in kinds)


def text_block(text: str, format: str, role: str) -> dict[str, Any]:
    """A block that says `text`, in a list of blocks of this format."""
    if format != "openai-responses":
        return {"type": "text", "text": text}
    return {"type": "output_text" if role == "assistant" else "input_text", "text": text}


def _output_key(block: dict[str, Any]) -> str | None:
    return next((key for key in _OUTPUT_KEYS if key in block), None)


def _first(block: dict[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((block[key] for key in keys if isinstance(block.get(key), str) and block[key]), None)


# --- messages that were made from parts ---------------------------------------------------------


def _part_json(part: Part) -> dict[str, Any]:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case ToolResult(call_id, name, text, is_error):
            found = {"tool_use_id": call_id, "name": name, "is_error": is_error}
            return {"type": "tool_result", "content": text, **found}
        case File(raw, mime, name):
            kind = raw.get("type")
            return {"type": kind if kind in _FILE_TYPES else "file", "raw": raw, "mime": mime, "name": name}
        case _:
            return {"type": "reasoning"}  # thinking, calls and unknown blocks stay as they are


def _part(part: Part, value: dict[str, Any]) -> Part:
    """The part that `value` says; `part` itself where it says the same."""
    new: Part = part
    match value["type"]:
        case "text":
            new = Text(value["text"])
        case "tool_result":
            new = ToolResult(value["tool_use_id"], value["name"], value["content"], value["is_error"])
        case kind if kind in _FILE_TYPES:
            new = File(value["raw"], value["mime"], value["name"])
    return part if new == part else new


def _words(parts: tuple[Part, ...]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, Text | ToolResult))
