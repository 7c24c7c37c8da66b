"""The codec type, and what codecs share when they build a message from its parts, including files and images."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

from lossless.errors import BadMessage
from lossless.formats.reading import extract_text, is_blank_text
from lossless.model.js_json import RawObject, check_json, parse_js
from lossless.model.messages import File, Json, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult


@dataclass(frozen=True, slots=True)
class Codec:
    """How one foreign format is read and written."""

    #: A checked JSON object as a message; raises BadMessage.
    decode: Callable[[RawObject], Message]
    #: A message of another format in this one, from its parts: none, one or several objects.
    encode: Callable[[Message], list[RawObject]]
    #: Whether a message of the format `plain` is also valid in this one; None when any text is.
    takes_plain: Callable[[Message], bool] | None = None
    #: Merges two adjacent objects that `encode` built; None when they stay separate.
    merge: Callable[[RawObject, RawObject], RawObject | None] = lambda _left, _right: None
    #: Makes an original object acceptable to strict providers; None when all are.
    strict: Callable[[RawObject], RawObject] | None = None


@dataclass(frozen=True, slots=True)
class EncodedMessage:
    """A message as objects of a format: the original, or those built from its parts."""

    items: list[RawObject]
    is_built: bool
    #: Of all items as JSON, with trailing commas; 0 while not measured.
    tokens: int = 0


def parts_for(message: Message, format: str) -> tuple[Part, ...]:
    """The parts of a message that `format` can express: no blank text, and thinking only in its own format."""
    is_own = message.format == format
    parts = message.parts or (Text(message.content),)
    kept: list[Part] = []
    for part in parts:
        if isinstance(part, Reasoning | Opaque):
            if is_own:
                kept.append(part)
        elif isinstance(part, File) and message.role == "assistant" and not is_own:
            kept.append(Text(file_note(part)))
        elif not (isinstance(part, Text) and is_blank_text(part.text)):
            kept.append(part)
    if not kept and message.content and message.role != "tool":
        return (Text(message.content),)
    return tuple(kept)


def results_in(message: Message, parts: tuple[Part, ...]) -> list[tuple[ToolResult, tuple[File, ...]]]:
    """The tool results with their files; the text of a single one unchanged."""
    results = [part for part in parts if isinstance(part, ToolResult)]
    if len(results) != 1:
        return [(result, ()) for result in results]
    body: Any = message.body or {}
    raw = body.get("content", body.get("output"))
    files = tuple(part for part in parts if isinstance(part, File)) if message.role == "tool" else ()
    return [(replace(results[0], text=raw) if isinstance(raw, str) else results[0], files)]


def text_in(parts: tuple[Part, ...]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def arguments_object(call: ToolCall) -> dict[str, Json]:
    """A call's input as the object that Anthropic and OpenClaw require."""
    value = call.input
    if isinstance(value, str):
        try:
            value = check_json({"input": parse_js(value)})["input"] if value.strip() else {}
        except (ValueError, BadMessage):
            return {"input": value}
    if isinstance(value, dict):
        return value
    return {} if value is None else {"input": value}


def arguments_text(call: ToolCall) -> str:
    """A call's input as the JSON text that OpenAI requires."""
    value = call.input
    if not isinstance(value, str):
        return _json({} if value is None else value)
    try:
        parse_js(value)
    except ValueError:
        return _json({"input": value})
    return value


def with_text_arguments(function: RawObject) -> RawObject:
    """A function call with its arguments as text; the same object when they already are."""
    given = function.get("arguments")
    return function if isinstance(given, str) else function | {"arguments": arguments_text(ToolCall(None, "", given))}


def call_id_of(part: ToolCall | ToolResult) -> str:
    """The id that joins a call with its result; derived from the tool's name when there is none."""
    found = part.id if not isinstance(part, ToolResult) else part.call_id
    return found or f"call_{part.name or 'unknown'}"


def file_note(part: File) -> str:
    """The text that replaces a file where the format cannot carry it."""
    about = ", ".join(word for word in (part.name, part.mime) if word)
    return f"[attached file{': ' + about if about else ''}]"


def _json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_DATA_URL = re.compile(r"data:([^;,]{1,129});base64,")
_IMAGE_TYPES = frozenset(("image", "image_url", "input_image"))


@dataclass(frozen=True, slots=True)
class MediaFile:
    """A file in common form: base64 data or a URL."""

    is_image: bool
    mime: str
    data: str | None
    url: str | None
    name: str | None

    @property
    def address(self) -> str | None:
        return self.url if self.data is None else f"data:{self.mime};base64,{self.data}"


def document_text(part: File) -> str | None:
    """The text of a document that carries text rather than data."""
    raw: Any = part.raw
    source = raw.get("source")
    if not isinstance(source, dict) or source.get("type") not in ("text", "content"):
        return None
    return extract_text(source, 1)


def read_media(part: File) -> MediaFile | None:
    """The file in a block; None when only its own provider can resolve it."""
    if document_text(part) is not None:
        return None
    raw: Any = part.raw
    kind = raw.get("type")
    is_image = kind in _IMAGE_TYPES or (part.mime or "").startswith("image/")
    for box in (raw, raw.get("source"), raw.get("image_url"), raw.get("file"), raw.get("input_audio")):
        found = _carried(box)
        if found is None:
            continue
        is_base64 = isinstance(box, dict) and found in (box.get("data"), box.get("file_data"))
        url = None if found.startswith("data:") or is_base64 else found
        inline = _DATA_URL.match(found)
        data = None if url is not None else found[inline.end() :] if inline else found
        mime = (inline[1] if inline else part.mime) or ("image/png" if is_image else "application/octet-stream")
        return MediaFile(is_image, mime, data, url, part.name)
    return None


def chat_block(part: File) -> RawObject:
    if part.raw.get("type") in ("image_url", "input_audio") or "file" in part.raw:
        return cast("RawObject", part.raw)
    media = read_media(part)
    if media is not None and media.is_image:
        return {"type": "image_url", "image_url": {"url": media.address}}
    if media is not None and media.data is not None:
        return {"type": "file", "file": {"filename": media.name or "file", "file_data": media.address}}
    return {"type": "text", "text": media_text(part)}


def responses_block(part: File) -> RawObject:
    if part.raw.get("type") in ("input_image", "input_file"):
        return cast("RawObject", part.raw)
    media = read_media(part)
    if media is not None and media.is_image:
        return {"type": "input_image", "detail": "auto", "image_url": media.address}
    if media is not None and media.data is not None:
        return {"type": "input_file", "filename": media.name or "file", "file_data": media.address}
    if media is not None:
        return {"type": "input_file", "file_url": media.url}
    return {"type": "input_text", "text": media_text(part)}


def anthropic_block(part: File) -> RawObject:
    if "source" in part.raw:
        return cast("RawObject", part.raw)
    media = read_media(part)
    if media is None or not (media.is_image or media.mime == "application/pdf" or media.url):
        return {"type": "text", "text": media_text(part)}
    kind = "image" if media.is_image else "document"
    if media.data is None:
        return {"type": kind, "source": {"type": "url", "url": media.url}}
    return {"type": kind, "source": {"type": "base64", "media_type": media.mime, "data": media.data}}


def openclaw_block(part: File) -> RawObject:
    if "data" in part.raw:
        return cast("RawObject", part.raw)
    media = read_media(part)
    if media is not None and media.is_image and media.data is not None:
        return {"type": "image", "data": media.data, "mimeType": media.mime}
    return {"type": "text", "text": media_text(part)}


def media_text(part: File) -> str:
    """The text that replaces a file where the format cannot carry it."""
    return document_text(part) or file_note(part)


def _carried(box: Any) -> str | None:
    if isinstance(box, str):
        return box or None
    if not isinstance(box, dict):
        return None
    for key in ("data", "file_data", "url", "image_url", "file_url"):
        value = box.get(key)
        if isinstance(value, str) and value:
            return value
    return None
