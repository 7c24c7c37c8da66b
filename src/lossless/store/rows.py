"""Rows ⇄ values. Upstream's columns and metadata keys are translated here and nowhere else."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

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
from lossless.store import foreign
from lossless.store.foreign import number, words
from lossless.store.skeleton import Kept, restore, squeeze, storable, strip, to_json, unsqueeze

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lossless.model.messages import Json
    from lossless.store.database import Row

_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)
#: What to do about damage.
DAMAGED = "restore a backup (`lcm backups` lists them)"

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


def pack(message: Message) -> PackedMessage:
    """Columns from which `unpack` rebuilds the message, its original included."""
    content = storable(message.content)
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
    return PackedMessage(content, rows, squeeze(strip(body, Kept(content, texts, inputs, raws, signed))))


def _part_rows(message: Message, content: str) -> tuple[PartRow, ...]:
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
        to_json(metadata),
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
    raw = {"type": "text", "text": storable(text), "textSignature": signature}
    return _row(ordinal, "text", head | {"rawType": "text", "raw": raw})


def _part_row(ordinal: int, part: Part, head: dict[str, Any], message: Message, content: str) -> PartRow:
    thinking, call, result = _RAW_TYPES.get(message.format, ("thinking", "toolCall", "toolResult"))
    match part:
        case Text(text):
            if isinstance(signature := _block(message, ordinal).get("textSignature"), str):
                return _signed_text(ordinal, text, signature, head)
            if len(message.parts) == 1 and storable(text) == content:
                return _row(ordinal, "text", head | {_IN_CONTENT: True})
            return _row(ordinal, "text", head, text=storable(text))
        case Reasoning(text, signature):
            if signature is None:
                return _row(ordinal, "reasoning", head | {"rawType": thinking}, text=storable(text))
            # lossless-claw gives this block back as it is, so the words are in it, and only there
            block = _block(message, ordinal)
            is_redacted = block.get("redacted") is True or block.get("type") == "redacted_thinking"
            kept = {"type": thinking, "thinking": storable(text), "thinkingSignature": signature}
            told = head | {"rawType": thinking, "raw": kept | ({"redacted": True} if is_redacted else {})}
            return _row(ordinal, "reasoning", told)
        case ToolCall(id_, name, input_):
            return _row(
                ordinal,
                "tool",
                head | {"rawType": call},
                call_id=id_,
                name=storable(name),
                input=to_json(input_),
            )
        case ToolResult(call_id, name, text, is_error):
            failed = {"isError": True} if is_error else {}
            metadata = head | failed | {"rawType": result}
            if storable(text) == content:
                told = head | failed if message.role == "tool" else metadata
                return _row(ordinal, "text", told | {_IN_CONTENT: True}, call_id=call_id, name=name)
            return _row(ordinal, "tool", metadata, call_id=call_id, name=name, output=to_json(text))
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


def noted(parts: tuple[PartRow, ...], role: Role, notes: Mapping[int, Mapping[str, Json]]) -> tuple[PartRow, ...]:
    """Parts with more in their metadata, by ordinal; a message without parts gets one for it."""
    if not parts:
        together: dict[str, Any] = {"originalRole": _ORIGINAL_ROLES.get(role, role), _IN_CONTENT: True}
        for more in notes.values():
            together |= more
        return (_row(0, "text", together),)
    metadata = {part.ordinal: json.loads(part.metadata) for part in parts}
    for ordinal, more in notes.items():
        metadata[ordinal if ordinal in metadata else min(metadata)] |= more
    return tuple(replace(part, metadata=to_json(metadata[part.ordinal])) for part in parts)


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


def unpack(
    role: Role,
    content: str,
    tokens: int,
    rows: Sequence[PartRow],
    skeleton: bytes | None,
    format: str | None,
    event_key: str | None,
) -> Message:
    """The message that `pack` was given; for rows of other programs, as much as they kept.

    ValueError for what no program writes there: bytes where text belongs, or an original that cannot be rebuilt.
    """
    _check_texts(content, rows)
    metadata = [_metadata(row.metadata) for row in rows]
    parts = tuple([unpack_part(row, known, content) for row, known in zip(rows, metadata, strict=True)])
    identity = _identity(metadata[0]) if rows and "modelProvider" in metadata[0] else None
    if len(parts) == 1 and isinstance(parts[0], Text) and rows[0].text_content is None and parts[0].text == content:
        parts = ()
    body = None if skeleton is None else restore(unsqueeze(skeleton), _kept(content, rows, parts))
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
class Sketch:
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
            body = restore(unsqueeze(self.skeleton), _kept(message.content, self.parts, message.parts))
        except ValueError:
            return message
        return replace(message, body=body)


def sketch(row: Row, parts: Sequence[PartRow]) -> Sketch:
    """A message from the columns of `sketches` in `context.sql`, and its parts."""
    id_, role, content, tokens, event_key, file_id, format_, skeleton = row
    if not parts and isinstance(content, str):
        plain = Message(role, content, (), format_ or "plain", None, number(tokens), event_key)
        return Sketch(id_, plain, file_id, (), skeleton)
    try:
        message = unpack(role, content, tokens, parts, None, format_, event_key)
    except ValueError as error:
        raise unreadable(id_, error) from error
    return Sketch(id_, message, file_id, parts, skeleton)


def unreadable(message_id: int, error: ValueError) -> ArchiveCorrupt:
    return ArchiveCorrupt(f"message {message_id} cannot be read back: {error}; {DAMAGED}")


def _kept(content: str, rows: Sequence[PartRow], parts: tuple[Part, ...]) -> Kept:
    texts = _texts(rows)
    inputs = {row.ordinal: part.input for row, part in zip(rows, parts, strict=False) if isinstance(part, ToolCall)}
    raws = {row.ordinal: part.raw for row, part in zip(rows, parts, strict=False) if isinstance(part, File | Opaque)}
    thoughts = ((row.ordinal, part) for row, part in zip(rows, parts, strict=False) if isinstance(part, Reasoning))
    signed = {ordinal: part.signature for ordinal, part in thoughts if part.signature is not None}
    return Kept(content, texts, inputs, raws, signed)


def _identity(metadata: dict[str, Any]) -> ModelIdentity | None:
    names = [metadata.get(key) for key in ("modelProvider", "modelApi", "modelId")]
    if not all(isinstance(name, str) and name for name in names):
        return None
    response = metadata.get("responseModelId")
    provider, api, model = cast("list[str]", names)
    return ModelIdentity(provider, api, model, response if isinstance(response, str) else None)


def conversation(row: Row) -> Conversation:
    """A conversation from `conversations.sql`'s columns."""
    id_, session_id, key, active, created, updated, archived, cause, title, bootstrapped = row
    return Conversation(
        id_,
        session_id,
        key,
        bool(active),
        moment(created),
        moment(updated),
        time(archived),
        cause,
        title,
        time(bootstrapped),
    )


def summary(row: Row, source_ids: tuple[str, ...] = ()) -> Summary:
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
        raise ArchiveCorrupt(f"summary {id_} cannot be read back: its content is no text; {DAMAGED}")
    return Summary(
        id_,
        conversation_id,
        foreign.number(depth),
        content,
        foreign.number(tokens),
        time(earliest),
        time(latest),
        foreign.number(count),
        foreign.number(below),
        foreign.number(source),
        moment(created),
        words(files),
        model,
        source_ids,
    )


def stored_message(row: Row, message: Message) -> StoredMessage:
    """A stored message from `messages.sql`'s columns and its rebuilt value."""
    id_, conversation_id, seq, created, entry_id, file_id, sender = row
    return StoredMessage(id_, conversation_id, seq, message, moment(created), entry_id, file_id, sender)


def time(text: str | None) -> datetime | None:
    """A time from a column; None for what is none, which `lcm verify` names."""
    return foreign.moment(text) if text else None


def moment(text: str) -> datetime:
    """A time that a row must have; the first second of 1970 for what is none, which `lcm verify` names."""
    return foreign.moment(text) or _NO_TIME
