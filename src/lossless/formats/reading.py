"""What all codecs share when they read a foreign object: roles, blocks, text, token counts, time and model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lossless.errors import BadMessage
from lossless.model.js_json import JSON_SPACE, RawObject, check_json, is_not_json, parse_js, stringify_js
from lossless.model.messages import (
    UNNAMED,
    File,
    Json,
    Message,
    ModelIdentity,
    Opaque,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from lossless.model.times import first_time
from lossless.model.tokens import estimate_tokens

__all__ = ["BLOB_CHARS", "BLOB_TOKENS", "boundary_tokens", "is_blob", "serialized_tokens", "stringify_js"]


def role_in(body: RawObject, roles: Mapping[str, Role]) -> Role:
    """Our name for the message's role; BadMessage when the format has no such role."""
    role = body.get("role")
    found = roles.get(role) if isinstance(role, str) else None
    if found is None:
        problem = "missing" if role is None else f"{role!r:.60}, which is not a role"
        raise BadMessage(f"{problem}; allowed: {', '.join(roles)}", field="role")
    return found


def blocks_in(content: Any, field: str = "content") -> list[RawObject]:
    """`content` as a list of blocks; BadMessage unless each is an object with a `type`, and text is text."""
    if not isinstance(content, list):
        raise BadMessage(f"must be a string or a list of blocks, not {json_name(content)}", field=field)
    for index, block in enumerate(content):
        if not isinstance(block, dict):
            raise BadMessage(f"must be an object, not {json_name(block)}", field=f"{field}[{index}]")
        kind = block.get("type")
        if not isinstance(kind, str):
            raise BadMessage(f"must be a string, not {json_name(kind)}", field=f"{field}[{index}].type")
        if kind in _TEXT_TYPES and not isinstance(block.get("text"), str):
            raise BadMessage(f"must be a string, not {json_name(block.get('text'))}", field=f"{field}[{index}].text")
    return content


_TEXT_TYPES = frozenset(("text", "input_text", "output_text"))


def string_in(block: RawObject, key: str, field: str, *, required: bool = True) -> str | None:
    """The string under `key`; BadMessage when it is not a string, or missing though required."""
    value = block.get(key)
    if isinstance(value, str) or (value is None and not required):
        return value
    raise BadMessage(f"must be a string, not {json_name(value)}", field=f"{field}.{key}" if field else key)


def json_name(value: object) -> str:
    """The JSON name of a value's type."""
    if value is None:
        return "null or missing"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), "an object")


REASONING_TYPES = frozenset(("thinking", "redacted_thinking", "reasoning"))
CALL_TYPES = frozenset(("tool_use", "toolUse", "tool-use", "toolCall", "functionCall", "function_call"))
RESULT_TYPES = frozenset(("tool_result", "toolResult", "function_call_output"))
#: Blocks without text; `tool` is a call or a result, for any role.
_SILENT_TYPES = REASONING_TYPES | CALL_TYPES | RESULT_TYPES | {"tool"}
_SPOKEN = ("text", "transcript", "transcription", "message", "summary")
_SEQUENCES = ("segments", "utterances", "paragraphs", "alternatives", "words", "items", "results")
_WRAPPERS = ("content", "output", "result", "payload", "data", "value")
#: Keys that may hold text, best first, and whether only a list there counts.
_PROBES = tuple((key, key in _SEQUENCES) for key in (*_SPOKEN, *_SEQUENCES, *_WRAPPERS))
_DEEPEST = 6


def content_text(content: Any) -> str:
    """The text of any content: a string, blocks or anything else; its JSON text when there is none."""
    if isinstance(content, str):
        return _words_or_whole(content)
    found = extract_text(content)
    return fallback_text(content) if found is None else found


def fallback_text(content: Any) -> str:
    """The text for content without words: its JSON; empty for null and for blocks that are blank or silent."""
    if content is None:
        return ""
    if isinstance(content, list):
        spoken = [block for block in content if not _is_silent(block)]
        texts = [block.get("text") for block in spoken if isinstance(block, dict) and block.get("type") == "text"]
        is_blank = len(texts) == len(spoken) and all(isinstance(text, str) and is_blank_text(text) for text in texts)
        if not spoken or (len(spoken) < len(content) and is_blank):
            return ""
    return stringify_js(content)


def extract_text(value: Any, depth: int = 0) -> str | None:
    """The text in a value at `depth` levels inside a content; None when there is none."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, str):
        return None if is_blank_text(value) else value
    if isinstance(value, list):
        return join_texts(extract_text(item, depth + 1) for item in value)
    if not isinstance(value, dict) or (_is_silent(value) and value.get("toolOutputExternalized") is not True):
        return None
    for key, is_list in _PROBES:
        inner = value.get(key)
        if inner is None or (is_list and not isinstance(inner, list)):
            continue
        found = extract_text(inner, depth + 1)
        if found is not None:
            return found
    return None


def join_texts(texts: Iterable[str | None]) -> str | None:
    """The texts that are not blank, joined by line breaks; None when there are none."""
    kept = [text for text in texts if text is not None and not is_blank_text(text)]
    return "\n".join(kept) if kept else None


def is_blank_text(text: str) -> bool:
    return not text or text.isspace()


def _words_or_whole(text: str) -> str:
    """The text inside a string that is a JSON object or list and has some; any other string unchanged."""
    if is_not_json(text):
        return text
    bare = text.strip(JSON_SPACE)
    if bare[:1] + bare[-1:] not in ("{}", "[]"):
        return text
    try:
        found = extract_text(parse_js(bare))
    except ValueError:
        return text
    return text if found is None else found


def _is_silent(block: Any) -> bool:
    kind = block.get("type") if isinstance(block, dict) else None
    return isinstance(kind, str) and kind in _SILENT_TYPES


#: A base64 string of at least this length is an image or a file, not text.
BLOB_CHARS = 4096
#: The tokens counted for such a string.
BLOB_TOKENS = 1600
_BLOB_KEYS = frozenset(("data", "image", "imageData", "image_data", "base64", "bytes", "source"))
_BASE64_HEAD = re.compile(r"[A-Za-z0-9+/_=\s-]{512}")


def serialized_tokens(value: Json) -> int:
    """The estimate of `JSON.stringify(value)`."""
    return estimate_tokens(stringify_js(value))


def boundary_tokens(value: Json) -> int:
    """The token cost of `value` for a model: its serialisation, with each long binary string at a flat price."""
    blobs: list[str] = []
    return estimate_tokens(stringify_js(_without_blobs(value, "", blobs))) + BLOB_TOKENS * len(blobs)


def is_blob(text: str, key: str = "data") -> bool:
    """Whether a string under `key` is binary data rather than text."""
    if len(text) < BLOB_CHARS:
        return False
    return text.startswith("data:") or (key in _BLOB_KEYS and _BASE64_HEAD.match(text) is not None)


def _without_blobs(value: Json, key: str, blobs: list[str]) -> Json:
    if isinstance(value, str):
        if is_blob(value, key):
            blobs.append(key)
            return ""
        return value
    if isinstance(value, dict):
        return {name: _without_blobs(item, name, blobs) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_blobs(item, key, blobs) for item in value]
    return value


#: The serialisation of an empty list of blocks next to thinking, as the reference counts it.
_REASONING_ONLY_TOKENS = 6
_STABLE_CALL_ID = re.compile(r"(?:toolu_|call_)[A-Za-z0-9]{12,}")
_NO_TIMES = (None, None, None)


def message_from(
    body: RawObject, format: str, role: Role, content: str, parts: tuple[Part, ...], tokens: int, key: str | None = None
) -> Message:
    """The message, with time, model and stop reason from its body."""
    identity = None
    if role == "assistant":
        response = body.get("responseId") or body.get("response_id")
        is_known = isinstance(response, str) and not is_blank_text(response)
        key, identity = f"assistant-response:{response}" if is_known else None, _identity(body)
    stop = body.get("stopReason") or body.get("stop_reason") or body.get("finish_reason")
    says_it_all = tuple(body) == ("role", "content") and body["role"] == role and body["content"] == content
    kept, reason = None if says_it_all else body, stop if isinstance(stop, str) else None
    times = (body.get("timestamp"), body.get("createdAt"), body.get("created_at"))
    written = None if times == _NO_TIMES else first_time(times)
    return Message(role, content, parts, format, kept, tokens, key, written, identity, reason)


def read_content(content: Any, words: Callable[[Part], str | None]) -> tuple[str, list[Part]]:
    """The text and the parts of a content; `words` is what each part says, None for nothing."""
    if isinstance(content, str):
        return content, [Text(content)]
    parts = [read_block(block) for block in blocks_in(content)]
    if len(parts) == 1 and isinstance(parts[0], Text | ToolResult) and (text := words(parts[0])) is not None:
        return text, parts
    return join_texts(map(words, parts)) or "", parts


def parts_beyond_content(parts: list[Part], content: str) -> tuple[Part, ...]:
    """The parts to keep: none when the only one is a text that `content` holds."""
    if len(parts) == 1 and isinstance(parts[0], Text) and parts[0].text == content:
        return ()
    return tuple(parts)


def top_level_reasoning(body: RawObject, role: Role) -> list[Reasoning]:
    """The thinking that some chat providers send next to the content."""
    text = body.get("reasoning_content") if role == "assistant" else None
    return [Reasoning(text)] if isinstance(text, str) and not is_blank_text(text) else []


def content_tokens(body: RawObject, role: Role, text: str, parts: Iterable[Part]) -> int:
    """The reference's stored count: strings as text, block lists as JSON, plus thinking next to them."""
    content = body.get("content")
    extra = 0
    if "reasoning_content" in body and (thinking := top_level_reasoning(body, role)):
        extra = estimate_tokens(thinking[0].text) + (_REASONING_ONLY_TOKENS if content == [] else 0)
    if isinstance(content, str):
        return estimate_tokens(content) + extra
    if not content or not isinstance(content, list | dict):
        return estimate_tokens(text) + extra
    blocks = content if isinstance(content, list) else [content]
    if role in ("user", "system") and len(blocks) == 1 and isinstance(blocks[0], dict):
        only = blocks[0].get("text") if blocks[0].get("type") == "text" else None
        if isinstance(only, str):
            return estimate_tokens(only)
    return block_tokens(blocks, parts) + extra


def block_tokens(blocks: list[Any], parts: Iterable[Part]) -> int:
    """The count of a list of blocks; file data has a flat price."""
    has_file = False
    for index, part in enumerate(parts):
        kind = type(part)
        if kind is File:
            has_file = True
        elif kind is Reasoning and (item := _openai_item(part)) is not None:
            blocks = [*blocks[:index], item, *blocks[index + 1 :]]
    return boundary_tokens(blocks) if has_file else serialized_tokens(blocks)


def result_key(call_ids: set[str]) -> str | None:
    """The event key of a tool result: its call's id, when there is exactly one and the provider assigned it."""
    if len(call_ids) != 1:
        return None
    (call_id,) = call_ids
    return f"tool-result:{call_id}" if is_provider_id(call_id) else None


def is_provider_id(call_id: str | None) -> bool:
    """Whether the provider assigned a call's id, so that it is unique; hosts may number theirs from one again."""
    return call_id is not None and _STABLE_CALL_ID.fullmatch(call_id) is not None


def _openai_item(part: Part) -> RawObject | None:
    """The item that OpenClaw sends to OpenAI for thinking whose signature is that item's JSON."""
    signature = part.signature if isinstance(part, Reasoning) else None
    if signature is None or not signature.startswith("{"):
        return None
    try:
        item = check_json(parse_js(signature))
    except (ValueError, BadMessage):
        return None
    return item if item.get("type") == "reasoning" and str(item.get("id")).startswith("rs_") else None


def _identity(body: RawObject) -> ModelIdentity | None:
    found = (body.get(key) for key in ("provider", "api", "model"))
    provider, api, model = (name if isinstance(name, str) else "" for name in found)
    if not (provider and api and model):
        return None
    answered = body.get("responseModel")
    return ModelIdentity(provider, api, model, answered if isinstance(answered, str) else None)


#: Keys that may hold a call's id, best first.
CALL_ID_KEYS = ("toolCallId", "tool_call_id", "toolUseId", "tool_use_id", "call_id")
_CALL_ID_SET = frozenset(CALL_ID_KEYS)
_NAME_KEYS = ("name", "toolName", "tool_name")
_INPUT_KEYS = ("input", "arguments", "toolInput")
_OUTPUT_KEYS = ("content", "output", "result", "text", "toolOutput")
_SIGNATURE_KEYS = ("thinkingSignature", "signature", "encrypted_content", "data")
_DATA_URL_MIME = re.compile(r"data:([A-Za-z0-9.+-]{1,64}/[A-Za-z0-9.+-]{1,64})[;,]")


def read_block(block: Any) -> Part:
    """The part for a block; Opaque when its type is unknown. Null is an empty text."""
    if isinstance(block, dict):
        kind = block.get("type")
        if kind and isinstance(kind, str):
            reader = _READERS.get(kind)
            return reader(block) if reader is not None else Opaque(block, kind)
        return Opaque(block)
    if block is None or isinstance(block, str):
        return Text(block or "")
    return Opaque(block)


def first_string(block: RawObject, keys: tuple[str, ...]) -> str | None:
    for key in keys:
        value = block.get(key)
        if isinstance(value, str):
            return value
    return None


def reasoning_text(block: RawObject) -> str:
    """The readable part of a thinking block: its text, or its summary."""
    for key in ("thinking", "text"):
        if isinstance(text := block.get(key), str):
            return text
    lists = [value for key in ("summary", "content") if isinstance(value := block.get(key), list)]
    pieces = [piece for pieces in lists for piece in pieces if isinstance(piece, dict)]
    texts = [piece["text"] for piece in pieces if isinstance(piece.get("text"), str)]
    return "\n".join(dict.fromkeys(text.strip() for text in texts if not is_blank_text(text)))


def data_url_mime(url: Any) -> str | None:
    found = _DATA_URL_MIME.match(url) if isinstance(url, str) else None
    return found[1] if found else None


def result_text(content: Any) -> str:
    """The text of a tool result inside a block: a string unchanged, the texts of a list."""
    return content if isinstance(content, str) else extract_text(content, 1) or ""


def opaque_text(raw: Any) -> str | None:
    """The text inside a block of unknown type, without binary data."""
    text = extract_text(raw, 1)
    return None if text is None or is_blob(text) else text


def _first(block: RawObject, keys: tuple[str, ...]) -> Any:
    for key in keys:
        if key in block:
            return block[key]
    return None


def _call_id(block: RawObject) -> str | None:
    found = None if _CALL_ID_SET.isdisjoint(block) else first_string(block, CALL_ID_KEYS)
    return found or first_string(block, ("id",))


def _text(block: RawObject, key: str = "text") -> Part:
    text = block.get(key)
    return Text(text) if isinstance(text, str) else Opaque(block, block["type"])


def _call(block: RawObject) -> Part:
    return ToolCall(_call_id(block), first_string(block, _NAME_KEYS) or UNNAMED, _first(block, _INPUT_KEYS))


def _result(block: RawObject) -> Part:
    text = result_text(_first(block, _OUTPUT_KEYS))
    failed = block.get("is_error") is True or block.get("isError") is True
    return ToolResult(_call_id(block), first_string(block, _NAME_KEYS), text, failed)


def _file(block: RawObject) -> Part:
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


def _image_url(block: RawObject) -> Part:
    url = block.get("image_url")
    return File(block, data_url_mime(url.get("url") if isinstance(url, dict) else url))


def _audio(block: RawObject) -> Part:
    audio = block.get("input_audio")
    kind = audio.get("format") if isinstance(audio, dict) else None
    return File(block, f"audio/{kind}" if isinstance(kind, str) else None)


_READERS: dict[str, Callable[[RawObject], Part]] = {
    **dict.fromkeys(("text", "input_text", "output_text"), _text),
    "refusal": lambda block: _text(block, "refusal"),
    **dict.fromkeys(
        REASONING_TYPES, lambda block: Reasoning(reasoning_text(block), first_string(block, _SIGNATURE_KEYS))
    ),
    **dict.fromkeys(CALL_TYPES, _call),
    **dict.fromkeys(RESULT_TYPES, _result),
    **dict.fromkeys(("image", "file", "document", "input_file"), _file),
    **dict.fromkeys(("image_url", "input_image"), _image_url),
    "input_audio": _audio,
}
