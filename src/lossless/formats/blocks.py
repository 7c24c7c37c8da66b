"""One block of a message, in any format, as a part. The types of the formats do not overlap."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lossless.formats.js_json import is_blob
from lossless.formats.text import CALL_TYPES, REASONING_TYPES, RESULT_TYPES, extract, is_blank
from lossless.model.messages import UNNAMED, File, Opaque, Reasoning, Text, ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.formats.shape import Raw
    from lossless.model.messages import Part

#: Under which names a call's id is found, best first.
CALL_ID_KEYS = ("toolCallId", "tool_call_id", "toolUseId", "tool_use_id", "call_id")
_CALL_ID_SET = frozenset(CALL_ID_KEYS)
_NAME_KEYS = ("name", "toolName", "tool_name")
_INPUT_KEYS = ("input", "arguments", "toolInput")
_OUTPUT_KEYS = ("content", "output", "result", "text", "toolOutput")
_SIGNATURE_KEYS = ("thinkingSignature", "signature", "encrypted_content", "data")
_DATA_URL_MIME = re.compile(r"data:([A-Za-z0-9.+-]{1,64}/[A-Za-z0-9.+-]{1,64})[;,]")


def read_block(block: Any) -> Part:
    """The part that a block is; Opaque when no reader knows it. Null is a text without words."""
    if isinstance(block, dict):
        kind = block.get("type")
        if kind and isinstance(kind, str):
            reader = _READERS.get(kind)
            return reader(block) if reader is not None else Opaque(block, kind)
        return Opaque(block)
    if block is None or isinstance(block, str):
        return Text(block or "")
    return Opaque(block)


def first_string(block: Raw, keys: tuple[str, ...]) -> str | None:
    """The first of the keys that holds a string."""
    for key in keys:
        value = block.get(key)
        if isinstance(value, str):
            return value
    return None


def reasoning_text(block: Raw) -> str:
    """The readable part of a block of thinking: its text, or its summary."""
    for key in ("thinking", "text"):
        if isinstance(text := block.get(key), str):
            return text
    pieces = [*_listed(block.get("summary")), *_listed(block.get("content"))]
    texts = [piece["text"] for piece in pieces if isinstance(piece, dict) and isinstance(piece.get("text"), str)]
    return "\n".join(dict.fromkeys(text.strip() for text in texts if not is_blank(text)))


def data_url_mime(url: Any) -> str | None:
    """The type that a `data:` URL declares."""
    found = _DATA_URL_MIME.match(url) if isinstance(url, str) else None
    return found[1] if found else None


def result_text(content: Any) -> str:
    """The words of a tool's answer inside a block: a string as it is, the texts of a list."""
    return content if isinstance(content, str) else extract(content, 1) or ""


def opaque_text(raw: Any) -> str | None:
    """The words inside a block that no reader knows; data is not words."""
    text = extract(raw, 1)
    return None if text is None or is_blob(text) else text


def _first(block: Raw, keys: tuple[str, ...]) -> Any:
    for key in keys:
        if key in block:
            return block[key]
    return None


def _call_id(block: Raw) -> str | None:
    found = None if _CALL_ID_SET.isdisjoint(block) else first_string(block, CALL_ID_KEYS)
    return found or first_string(block, ("id",))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(block: Raw) -> Part:
    text = block.get("text")
    return Text(text) if isinstance(text, str) else Opaque(block, block["type"])


def _refusal(block: Raw) -> Part:
    text = block.get("refusal")
    return Text(text) if isinstance(text, str) else Opaque(block, "refusal")


def _reasoning(block: Raw) -> Part:
    return Reasoning(reasoning_text(block), first_string(block, _SIGNATURE_KEYS))


def _call(block: Raw) -> Part:
    return ToolCall(_call_id(block), first_string(block, _NAME_KEYS) or UNNAMED, _first(block, _INPUT_KEYS))


def _result(block: Raw) -> Part:
    text = result_text(_first(block, _OUTPUT_KEYS))
    failed = block.get("is_error") is True or block.get("isError") is True
    return ToolResult(_call_id(block), first_string(block, _NAME_KEYS), text, failed)


def _file(block: Raw) -> Part:
    source = block.get("source")
    inner = block.get("file")
    boxes = [box for box in (block, source, inner) if isinstance(box, dict)]
    mime = name = None
    for box in boxes:
        mime = mime or first_string(box, ("mimeType", "media_type", "mime_type", "mime"))
        name = name or first_string(box, ("filename", "file_name", "fileName", "name", "title"))
    for url in (box.get("file_data") for box in boxes):
        mime = mime or data_url_mime(url)
    return File(block, mime, name)


def _image_url(block: Raw) -> Part:
    url = block.get("image_url")
    return File(block, data_url_mime(url.get("url") if isinstance(url, dict) else url))


def _audio(block: Raw) -> Part:
    audio = block.get("input_audio")
    kind = audio.get("format") if isinstance(audio, dict) else None
    return File(block, f"audio/{kind}" if isinstance(kind, str) else None)


_READERS: dict[str, Callable[[Raw], Part]] = {
    **dict.fromkeys(("text", "input_text", "output_text"), _text),
    "refusal": _refusal,
    **dict.fromkeys(REASONING_TYPES, _reasoning),
    **dict.fromkeys(CALL_TYPES, _call),
    **dict.fromkeys(RESULT_TYPES, _result),
    **dict.fromkeys(("image", "file", "document", "input_file"), _file),
    **dict.fromkeys(("image_url", "input_image"), _image_url),
    "input_audio": _audio,
}
