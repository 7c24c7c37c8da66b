"""Rows ⇄ values.

Upstream columns and metadata keys are translated here and nowhere else; the residual of a foreign message is what
its columns do not hold; columns of other programs never make a read fail.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from lossless.errors import ArchiveCorrupt
from lossless.model.conversations import Conversation
from lossless.model.messages import (
    UNNAMED,
    File,
    Message,
    ModelIdentity,
    Opaque,
    Part,
    Reasoning,
    Role,
    StoredMessage,
    Text,
    ToolCall,
    ToolResult,
)
from lossless.model.summaries import Summary
from lossless.model.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from _typeshed import DataclassInstance

    from lossless.model.messages import Json
    from lossless.store.database import Row

D = TypeVar("D", bound="DataclassInstance")


def column_text(raw: object) -> str:
    """A text; bytes that are no UTF-8 are marked."""
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else "" if raw is None else str(raw)


def column_time(raw: object) -> datetime | None:
    """A time, None for what is none."""
    try:
        return parse_time(column_text(raw))
    except (ValueError, OverflowError):
        return None


def column_texts(raw: object) -> tuple[str, ...]:
    """The texts of a list, or of the JSON of one; none for anything else."""
    if not isinstance(raw, tuple):
        try:
            raw = json.loads(column_text(raw))
        except (ValueError, RecursionError):
            return ()
    return tuple(item for item in raw if isinstance(item, str)) if isinstance(raw, list | tuple) else ()


def _maybe_text(raw: object) -> str | None:
    return None if raw is None else column_text(raw)


_READERS: dict[str, Callable[[Any], Any]] = {
    "str": column_text,
    "str | None": _maybe_text,
    "bool": bool,
    "datetime | None": column_time,
    "tuple[str, ...]": column_texts,
}


def record_from_row(kind: type[D], row: Sequence[object]) -> D:
    """A value whose fields are the columns of a row, in order; each is read as its type says."""
    columns = zip(fields(kind), row, strict=True)
    return kind(*[_READERS[field.type](raw) if field.type in _READERS else raw for field, raw in columns])


def column_count(value: object) -> int:
    """A count from a column; what is none counts nothing, and `lcm verify` names it."""
    return value if isinstance(value, int) else 0


#: Shorter texts stay in the skeleton: a reference would not be smaller.
_SHORT = 16

#: What skeletons are made of, most frequent last. Part of the file format: it never changes; a better one
#: would get another first byte.
_COMMON = (
    b'"cache_control":{"type":"ephemeral"}"signature":""redacted_thinking"input_text"output_text"function_call_output"'
    b'"function_call""call_id":""image_url""annotations":[]"refusal":null"audio":null"type":"function","function":{"name":"'
    b'","arguments":{"$":["i",0]}}]"tool_calls":[{"id":"call_"tool_call_id":"call_"stop_sequence":null"responseId":"'
    b'"thinkingSignature":""details":{"exitCode":0,"durationMs":"truncation":null"diff":"patch":"path":"error":"aborted"'
    b'"stopReason":"error"{"type":"thinking","thinking":{"$":["t",0]},{"type":"tool_use","id":"toolu_01","name":"","input":'
    b'{"type":"tool_result","tool_use_id":"toolu_01","content":"is_error":false{"type":"toolCall","id":"call_toolu_01","name":"'
    b'","arguments":{"$":["i",1]}}],"api":"openai-completions","anthropic-messages","openai-responses","provider":"anthropic",'
    b'"openai","model":"claude-opus-4-sonnet-4-5gpt-5","usage":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,'
    b'"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"toolUse","stopReason":"stop","timestamp":17'
    b'{"role":"toolResult","toolCallId":"call_toolu_01","toolName":"exec","content":[{"type":"text","text":{"$":"c"}}],"isError":false,'
    b'"timestamp":17{"role":"assistant","content":[{"type":"text","text":{"$":["t",1]}},{"role":"user","content":[{"type":"text",'
    b'"text":{"$":"c"}}],"timestamp":17'
)
_FIRST_BYTE = b"1"


def compress_residual(skeleton: str) -> bytes:
    """A skeleton as it is stored; `decompress_residual` gives it back."""
    squeezer = zlib.compressobj(6, zlib.DEFLATED, -13, 6, zdict=_COMMON)
    return _FIRST_BYTE + squeezer.compress(skeleton.encode()) + squeezer.flush()


def decompress_residual(stored: bytes) -> str:
    """The skeleton that `compress_residual` was given; ValueError when it is damaged."""
    if not isinstance(stored, bytes) or stored[:1] != _FIRST_BYTE:
        raise ValueError("a skeleton in a form that this version does not know")
    try:
        return zlib.decompressobj(-15, zdict=_COMMON).decompress(stored[1:]).decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise ValueError(f"a damaged skeleton: {error}") from error


@dataclass(frozen=True, slots=True)
class StoredColumns:
    """What is stored beside the skeleton: the content, and per part its text, input or raw block."""

    content: str
    texts: Mapping[int, str] = field(default_factory=dict)
    inputs: Mapping[int, Any] = field(default_factory=dict)
    raws: Mapping[int, Any] = field(default_factory=dict)
    signatures: Mapping[int, str] = field(default_factory=dict)


def storable_text(text: str) -> str:
    """`text` as SQLite can hold it: a surrogate without its other half becomes U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def storable_json(value: object) -> str:
    """Compact JSON that SQLite can hold: lone surrogates are written as escapes."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text


def strip_residual(body: Mapping[str, Any], kept: StoredColumns) -> str:
    """The skeleton of `body`: everything that `kept` does not hold, and where the rest belongs."""
    by_text = {text: ["s", ordinal] for ordinal, text in kept.signatures.items() if len(text) >= _SHORT}
    by_text |= {text: ["t", ordinal] for ordinal, text in kept.texts.items() if len(text) >= _SHORT}
    by_identity = {id(value): ["i", ordinal] for ordinal, value in kept.inputs.items()}
    by_identity |= {id(value): ["r", ordinal] for ordinal, value in kept.raws.items()}
    content, cursor = kept.content, 0

    def walk(value: Any) -> Any:
        nonlocal cursor
        if isinstance(value, str):
            if len(value) < _SHORT:
                return {"$": by_identity[id(value)]} if id(value) in by_identity and len(value) > 8 else value
            if value == content:
                return {"$": "c"}
            if value in by_text:
                return {"$": by_text[value]}
            if id(value) in by_identity:
                return {"$": by_identity[id(value)]}
            start = content.find(value, cursor)
            if start < 0:
                return value
            cursor = start + len(value)
            return {"$": [start, len(value)]}
        if isinstance(value, dict):
            if id(value) in by_identity:
                return {"$": by_identity[id(value)]}
            if "$" in value:
                return {"$": ["=", [[key, walk(item)] for key, item in value.items()]]}
            return {key: walk(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return {"$": by_identity[id(value)]} if id(value) in by_identity else [walk(item) for item in value]
        return value

    return storable_json(walk(dict(body)))


def restore_original(skeleton: str, kept: StoredColumns) -> dict[str, Any]:
    """The original that `strip_residual` was given; ValueError when something that it refers to is not there."""

    def resolve(value: dict[str, Any]) -> Any:
        if len(value) != 1 or "$" not in value:
            return value
        reference = value["$"]
        if reference == "c":
            return kept.content
        head, tail = reference
        if head == "=":
            return dict(tail)
        if isinstance(head, int):
            return kept.content[head : head + tail]
        return {"t": kept.texts, "i": kept.inputs, "r": kept.raws, "s": kept.signatures}[head][tail]

    try:
        body: dict[str, Any] = json.loads(skeleton, object_hook=resolve)
    except (KeyError, TypeError) as error:
        raise ValueError(f"a skeleton without the part that it refers to: {error}") from error
    if not isinstance(body, dict):
        raise ValueError("a skeleton of no message")
    return body


_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)
#: What to do about damage.
RESTORE_ADVICE = "restore a backup (`lcm backups` lists them)"

#: A part with this mark has its text in `messages.content`; upstream reads it from there, too.
_IN_CONTENT = "topLevelReasoningOnly"

_RAW_TYPES = {
    "anthropic": ("thinking", "tool_use", "tool_result"),
    "openai-responses": ("reasoning", "function_call", "function_call_output"),
}
#: Where a signed block has its words.
_WORDS = {"reasoning": "thinking", "text": "text"}
_ORIGINAL_ROLES = {"tool": "toolResult"}
_CALL_TYPES = ("tool_use", "toolCall", "function_call")
_RESULT_TYPES = ("tool_result", "toolResult", "function_call_output")
#: Metadata up to this length is mostly the same from part to part.
_COMMON_CHARS = 240
_RESULT_ROLES = ("tool", "toolResult")


@dataclass(frozen=True, slots=True)
class PartRow:
    """The columns of `message_parts` that are ever written."""

    ordinal: int
    part_type: str
    text_content: str | None
    tool_call_id: str | None
    tool_name: str | None
    tool_input: str | None
    tool_output: str | None
    metadata: str


@dataclass(frozen=True, slots=True)
class PackedMessage:
    """A message as columns: nothing stands in two of them but what upstream needs to read it."""

    content: str
    parts: tuple[PartRow, ...]
    skeleton: bytes | None


def pack_message(message: Message) -> PackedMessage:
    """Columns from which `unpack_message` rebuilds the message, its original included."""
    content = storable_text(message.content)
    rows = _part_rows(message, content)
    body = message.body
    if body is None and content != message.content:
        body = message.original
    if body is None:
        return PackedMessage(content, rows, None)
    texts = _texts(rows)
    inputs = {n: part.input for n, part in enumerate(message.parts) if isinstance(part, ToolCall)}
    raws = {n: part.raw for n, part in enumerate(message.parts) if isinstance(part, File | Opaque)}
    signatures = {n: part.signature for n, part in enumerate(message.parts) if isinstance(part, Reasoning)}
    signed = {n: signature for n, signature in signatures.items() if signature is not None}
    return PackedMessage(
        content, rows, compress_residual(strip_residual(body, StoredColumns(content, texts, inputs, raws, signed)))
    )


def _part_rows(message: Message, content: str) -> tuple[PartRow, ...]:
    if not message.parts and message.body is None and message.identity is None:
        return ()
    head: dict[str, Any] = {"originalRole": _ORIGINAL_ROLES.get(message.role, message.role)}
    identity = message.identity
    first = dict(head)
    if identity is not None:
        first |= {"modelProvider": identity.provider, "modelApi": identity.api, "modelId": identity.model}
        if identity.response_model is not None:
            first["responseModelId"] = identity.response_model
    if not message.parts:
        if isinstance(signature := _block(message, 0).get("textSignature"), str):
            return (_signed_text(0, content, signature, first),)
        if identity is None:
            return ()
        return (_row(0, "text", first | {_IN_CONTENT: True}),)
    return tuple(
        _part_row(n, part, first if n == 0 else head, message, content) for n, part in enumerate(message.parts)
    )


def _row(ordinal: int, part_type: str, metadata: dict[str, Any], **columns: str | None) -> PartRow:
    return PartRow(
        ordinal,
        part_type,
        columns.get("text"),
        columns.get("call_id"),
        columns.get("name"),
        columns.get("input"),
        columns.get("output"),
        storable_json(metadata),
    )


def _texts(rows: Sequence[PartRow]) -> dict[int, str]:
    """The words of parts by their places: in a column of their own, or inside of their block where that is signed."""
    found = {row.ordinal: row.text_content for row in rows if row.text_content is not None}
    for row in rows:
        if row.text_content is None and row.part_type in _WORDS and '"raw"' in row.metadata:
            raw = _object(row.metadata).get("raw")
            words = raw.get(_WORDS[row.part_type]) if isinstance(raw, dict) else None
            found |= {row.ordinal: words} if isinstance(words, str) else {}
    return found


def _block(message: Message, ordinal: int) -> dict[str, Any]:
    """The block that a part was read from, where the original has one for each part."""
    content = (message.body or {}).get("content")
    block = content[ordinal] if isinstance(content, list) and len(content) == max(1, len(message.parts)) else None
    return block if isinstance(block, dict) else {}


def _signed_text(ordinal: int, text: str, signature: str, head: dict[str, Any]) -> PartRow:
    raw = {"type": "text", "text": storable_text(text), "textSignature": signature}
    return _row(ordinal, "text", head | {"rawType": "text", "raw": raw})


def _part_row(ordinal: int, part: Part, head: dict[str, Any], message: Message, content: str) -> PartRow:
    thinking, call, result = _RAW_TYPES.get(message.format, ("thinking", "toolCall", "toolResult"))
    match part:
        case Text(text):
            if isinstance(signature := _block(message, ordinal).get("textSignature"), str):
                return _signed_text(ordinal, text, signature, head)
            if len(message.parts) == 1 and storable_text(text) == content:
                return _row(ordinal, "text", head | {_IN_CONTENT: True})
            return _row(ordinal, "text", head, text=storable_text(text))
        case Reasoning(text, signature):
            if signature is None:
                return _row(ordinal, "reasoning", head | {"rawType": thinking}, text=storable_text(text))
            # lossless-claw gives this block back as it is, so the words are in it, and only there
            block = _block(message, ordinal)
            is_redacted = block.get("redacted") is True or block.get("type") == "redacted_thinking"
            kept = {"type": thinking, "thinking": storable_text(text), "thinkingSignature": signature}
            told = head | {"rawType": thinking, "raw": kept | ({"redacted": True} if is_redacted else {})}
            return _row(ordinal, "reasoning", told)
        case ToolCall(id_, name, input_):
            return _row(
                ordinal,
                "tool",
                head | {"rawType": call},
                call_id=id_,
                name=storable_text(name),
                input=storable_json(input_),
            )
        case ToolResult(call_id, name, text, is_error):
            failed = {"isError": True} if is_error else {}
            metadata = head | failed | {"rawType": result}
            if storable_text(text) == content:
                told = head | failed if message.role == "tool" else metadata
                return _row(ordinal, "text", told | {_IN_CONTENT: True}, call_id=call_id, name=name)
            return _row(ordinal, "tool", metadata, call_id=call_id, name=name, output=storable_json(text))
        case File(raw, mime, name):
            known = {key: value for key, value in (("mime", mime), ("name", name)) if value is not None}
            return _row(ordinal, "file", head | {"rawType": str(raw.get("type", "file")), "raw": raw} | known)
        case Opaque(raw, type_):
            return _row(ordinal, "agent", head | {"rawType": type_, "raw": raw})


def part_values(message_id: int, parts: Sequence[PartRow]) -> list[tuple[object, ...]]:
    """The rows of `message_parts` for a message."""
    return [
        (f"{message_id}.{part.ordinal}", message_id, "", part.part_type, part.ordinal, part.text_content,
         part.tool_call_id, part.tool_name, part.tool_input, part.tool_output, part.metadata)
        for part in parts
    ]  # fmt: skip


def with_notes(parts: tuple[PartRow, ...], role: Role, notes: Mapping[int, Mapping[str, Json]]) -> tuple[PartRow, ...]:
    """Parts with more in their metadata, by ordinal; a message without parts gets one for it."""
    if not parts:
        together: dict[str, Any] = {"originalRole": _ORIGINAL_ROLES.get(role, role), _IN_CONTENT: True}
        for more in notes.values():
            together |= more
        return (_row(0, "text", together),)
    metadata = {part.ordinal: json.loads(part.metadata) for part in parts}
    for ordinal, more in notes.items():
        metadata[ordinal if ordinal in metadata else min(metadata)] |= more
    return tuple(replace(part, metadata=storable_json(metadata[part.ordinal])) for part in parts)


def unpack_part(row: PartRow, metadata: dict[str, Any], content: str) -> Part:
    """A part from its row, whoever wrote it: an unreadable one is kept as opaque."""
    raw = metadata.get("raw")
    if row.part_type == "reasoning":
        block = raw if isinstance(raw, dict) else {}
        signature = block.get("thinkingSignature") or block.get("signature")
        words = row.text_content if row.text_content is not None else block.get("thinking")
        return Reasoning(words if isinstance(words, str) else "", signature if isinstance(signature, str) else None)
    kind, is_told = metadata.get("rawType"), metadata.get("originalRole") in _RESULT_ROLES
    is_result = kind in _RESULT_TYPES or (is_told and kind not in _CALL_TYPES)
    if is_result and row.part_type in ("text", "tool"):
        return ToolResult(
            row.tool_call_id,
            row.tool_name,
            _result_text(row, metadata, content),
            metadata.get("isError") is True,
        )
    if row.part_type == "tool":
        return ToolCall(row.tool_call_id, row.tool_name or UNNAMED, _json(row.tool_input))
    if row.part_type == "text":
        if metadata.get(_IN_CONTENT):
            return Text(content)
        words = raw.get("text") if row.text_content is None and isinstance(raw, dict) else row.text_content
        return Text(words if isinstance(words, str) else "")
    if row.part_type == "file" and isinstance(raw, dict):
        mime = metadata.get("mime") or raw.get("mimeType") or raw.get("media_type")
        return File(raw, mime if isinstance(mime, str) else None, metadata.get("name"))
    is_kept = raw is not None or ("raw" in metadata and row.text_content is None)
    return Opaque(
        raw if is_kept else {"type": str(row.part_type), "text": row.text_content},
        str(metadata.get("rawType") or row.part_type),
    )


def _result_text(row: PartRow, metadata: dict[str, Any], content: str) -> str:
    if metadata.get(_IN_CONTENT):
        return content
    if row.text_content is not None:
        return row.text_content
    output = _json(row.tool_output)
    return output if isinstance(output, str) else content


def _object(text: str | None) -> dict[str, Any]:
    value = _json(text)
    return value if isinstance(value, dict) else {}


def _metadata(text: str) -> dict[str, Any]:
    """The metadata of a part, not to be changed: most say the same few things, which are read once."""
    return _common(text) if len(text) <= _COMMON_CHARS and '"raw"' not in text else _object(text)


@lru_cache(maxsize=512)
def _common(text: str) -> dict[str, Any]:
    return _object(text)


def _json(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def unpack_message(
    role: Role,
    content: str,
    tokens: int,
    rows: Sequence[PartRow],
    skeleton: bytes | None,
    format: str | None,
    event_key: str | None,
) -> Message:
    """The message that `pack_message` was given; for rows of other programs, as much as they kept.

    ValueError for what no program writes there: bytes where text belongs, or an original that cannot be rebuilt.
    """
    _check_texts(content, rows)
    metadata = [_metadata(row.metadata) for row in rows]
    parts = tuple([unpack_part(row, known, content) for row, known in zip(rows, metadata, strict=True)])
    identity = _identity(metadata[0]) if rows and "modelProvider" in metadata[0] else None
    if len(parts) == 1 and isinstance(parts[0], Text) and rows[0].text_content is None and parts[0].text == content:
        parts = ()
    body = None if skeleton is None else restore_original(decompress_residual(skeleton), _kept(content, rows, parts))
    size = tokens if isinstance(tokens, int) else -1
    return Message(role, content, parts, format or "plain", body, tokens=size, event_key=event_key, identity=identity)


def _check_texts(content: object, rows: Sequence[PartRow]) -> None:
    """SQLite keeps bytes in a column of texts as they are; nothing can be made of them."""
    if not isinstance(content, str):
        raise ValueError("its content is no text")
    for row in rows:
        columns = (row.text_content, row.tool_call_id, row.tool_name, row.tool_input, row.tool_output, row.metadata)
        if bytes in map(type, columns):
            raise ValueError(f"its part {row.ordinal} is no text")


@dataclass(frozen=True, slots=True)
class MessageSketch:
    """A stored message as it can be read and counted; its original is only rebuilt when it is asked for."""

    id: int
    message: Message
    file_id: str | None
    parts: Sequence[PartRow] = ()
    skeleton: bytes | None = None

    def exact(self) -> Message:
        """The message with its original; without it when that cannot be rebuilt, which `lcm verify` names."""
        message = self.message
        if self.skeleton is None:
            return message
        try:
            body = restore_original(
                decompress_residual(self.skeleton), _kept(message.content, self.parts, message.parts)
            )
        except ValueError:
            return message
        return replace(message, body=body)


def sketch_message(row: Row, parts: Sequence[PartRow]) -> MessageSketch:
    """A message from the columns of `sketches` in `context.sql`, and its parts."""
    id_, role, content, tokens, event_key, file_id, format_, skeleton = row
    if not parts and isinstance(content, str):
        plain = Message(role, content, (), format_ or "plain", None, column_count(tokens), event_key)
        return MessageSketch(id_, plain, file_id, (), skeleton)
    try:
        message = unpack_message(role, content, tokens, parts, None, format_, event_key)
    except ValueError as error:
        raise unreadable_message(id_, error) from error
    return MessageSketch(id_, message, file_id, parts, skeleton)


def unreadable_message(message_id: int, error: ValueError) -> ArchiveCorrupt:
    return ArchiveCorrupt(f"message {message_id} cannot be read back: {error}; {RESTORE_ADVICE}")


def _kept(content: str, rows: Sequence[PartRow], parts: tuple[Part, ...]) -> StoredColumns:
    texts = _texts(rows)
    inputs = {row.ordinal: part.input for row, part in zip(rows, parts, strict=False) if isinstance(part, ToolCall)}
    raws = {row.ordinal: part.raw for row, part in zip(rows, parts, strict=False) if isinstance(part, File | Opaque)}
    thoughts = ((row.ordinal, part) for row, part in zip(rows, parts, strict=False) if isinstance(part, Reasoning))
    signed = {ordinal: part.signature for ordinal, part in thoughts if part.signature is not None}
    return StoredColumns(content, texts, inputs, raws, signed)


def _identity(metadata: dict[str, Any]) -> ModelIdentity | None:
    names = [metadata.get(key) for key in ("modelProvider", "modelApi", "modelId")]
    if not all(isinstance(name, str) and name for name in names):
        return None
    response = metadata.get("responseModelId")
    provider, api, model = cast("list[str]", names)
    return ModelIdentity(provider, api, model, response if isinstance(response, str) else None)


@lru_cache(maxsize=64)
def conversation_from_row(row: Row) -> Conversation:
    """A conversation from `conversations.sql`'s columns; every call of a session reads its row again."""
    id_, session_id, key, active, created, updated, archived, cause, title, bootstrapped = row
    return Conversation(
        id_,
        session_id,
        key,
        bool(active),
        time_or_epoch(created),
        time_or_epoch(updated),
        time_or_none(archived),
        cause,
        title,
        time_or_none(bootstrapped),
    )


def summary_from_row(row: Row, source_ids: tuple[str, ...] = ()) -> Summary:
    """A summary from `summaries.sql`'s columns."""
    (
        id_,
        conversation_id,
        depth,
        content,
        tokens,
        earliest,
        latest,
        count,
        below,
        source,
        created,
        files,
        model,
    ) = row
    if not isinstance(content, str):
        raise ArchiveCorrupt(f"summary {id_} cannot be read back: its content is no text; {RESTORE_ADVICE}")
    return Summary(
        id_,
        conversation_id,
        column_count(depth),
        content,
        column_count(tokens),
        time_or_none(earliest),
        time_or_none(latest),
        column_count(count),
        column_count(below),
        column_count(source),
        time_or_epoch(created),
        column_texts(files),
        model,
        source_ids,
    )


def stored_message_from_row(row: Row, message: Message) -> StoredMessage:
    """A stored message from `messages.sql`'s columns and its rebuilt value."""
    id_, conversation_id, seq, created, entry_id, file_id, sender = row
    return StoredMessage(id_, conversation_id, seq, message, time_or_epoch(created), entry_id, file_id, sender)


def time_or_none(text: str | None) -> datetime | None:
    """A time from a column; None for what is none, which `lcm verify` names."""
    return column_time(text) if text else None


def time_or_epoch(text: str) -> datetime:
    """A time that a row must have; the first second of 1970 for what is none, which `lcm verify` names."""
    return column_time(text) or _NO_TIME
