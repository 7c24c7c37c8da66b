"""What a codec is, and what all of them share when they build a message from its parts."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lossless.errors import BadMessage
from lossless.formats.shape import check_json
from lossless.formats.text import is_blank
from lossless.model.js_json import parse
from lossless.model.messages import File, Opaque, Reasoning, Text, ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.formats.shape import Raw
    from lossless.model.messages import Json, Message, Part


def _never(_left: Raw, _right: Raw) -> Raw | None:
    return None


@dataclass(frozen=True, slots=True)
class Codec:
    """How one foreign format is read and written."""

    #: A checked JSON object as a message; raises BadMessage.
    decode: Callable[[Raw], Message]
    #: A message of another format in this one, from its parts: none, one or several objects.
    encode: Callable[[Message], list[Raw]]
    #: Whether a message of the format `plain` is valid in this one as it is.
    takes_plain: Callable[[Message], bool]
    #: Two neighbours that `encode` made, as one; None when they stay two.
    merge: Callable[[Raw, Raw], Raw | None] = _never
    #: An object that came in this format, as a strict provider takes it; None when each is taken as it came.
    strict: Callable[[Raw], Raw] | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """A message as objects of a format: the one that came, or those that were built from its parts."""

    items: list[Raw]
    is_built: bool


def parts_for(message: Message, format: str) -> tuple[Part, ...]:
    """The parts of a message that `format` can express, blank text left out.

    Thinking and unknown blocks only mean something in the format that they came in.
    """
    is_own = message.format == format
    parts = message.parts or (Text(message.content),)
    kept: list[Part] = []
    for part in parts:
        if isinstance(part, Reasoning | Opaque):
            if is_own:
                kept.append(part)
        elif isinstance(part, File) and message.role == "assistant" and not is_own:
            kept.append(Text(file_note(part)))
        elif not (isinstance(part, Text) and is_blank(part.text)):
            kept.append(part)
    if not kept and message.content and message.role != "tool":
        return (Text(message.content),)
    return tuple(kept)


def results_in(message: Message, parts: tuple[Part, ...]) -> list[tuple[ToolResult, tuple[File, ...]]]:
    """The tool results with the files that came in them; the text of a lone one as it came."""
    results = [part for part in parts if isinstance(part, ToolResult)]
    if len(results) != 1:
        return [(result, ()) for result in results]
    raw = _raw_result(message)
    files = tuple(part for part in parts if isinstance(part, File)) if message.role == "tool" else ()
    return [(results[0] if raw is None else replace(results[0], text=raw), files)]


def text_in(parts: tuple[Part, ...]) -> str:
    """What was said in the parts, a line break between them."""
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def is_text_only(message: Message) -> bool:
    """Whether the original is a string or a list of plain text blocks: what most formats share."""
    if not message.parts and message.body is None:
        return True
    if not all(isinstance(part, Text) for part in message.parts):
        return False
    content = message.original.get("content")
    if isinstance(content, str):
        return True
    return isinstance(content, list) and bool(content) and all(map(_is_text_block, content))


def arguments_object(call: ToolCall) -> dict[str, Json]:
    """A call's input as the object that Anthropic and OpenClaw want."""
    value = call.input
    if isinstance(value, str):
        try:
            value = check_json({"input": parse(value)})["input"] if value.strip() else {}
        except (ValueError, BadMessage):
            return {"input": value}
    if isinstance(value, dict):
        return value
    return {} if value is None else {"input": value}


def arguments_text(call: ToolCall) -> str:
    """A call's input as the JSON text that OpenAI wants."""
    value = call.input
    if not isinstance(value, str):
        return _json({} if value is None else value)
    try:
        parse(value)
    except ValueError:
        return _json({"input": value})
    return value


def with_text_arguments(function: Raw) -> Raw:
    """A function that is called, its arguments as text; the same object when they are."""
    given = function.get("arguments")
    return function if isinstance(given, str) else function | {"arguments": arguments_text(ToolCall(None, "", given))}


def call_id_of(part: ToolCall | ToolResult) -> str:
    """The id that joins a call with its result; made from the tool's name where there is none."""
    found = part.id if not isinstance(part, ToolResult) else part.call_id
    return found or f"call_{part.name or 'unknown'}"


def file_note(part: File) -> str:
    """The words that stand for a file where the format cannot carry it."""
    about = ", ".join(word for word in (part.name, part.mime) if word)
    return f"[attached file{': ' + about if about else ''}]"


def _json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _raw_result(message: Message) -> str | None:
    body: Any = message.body or {}
    raw = body.get("content", body.get("output"))
    return raw if isinstance(raw, str) else None


def _is_text_block(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
