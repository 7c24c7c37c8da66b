"""Writing and reading rows: a message as columns plus the residual of its original, and digests that detect outside
changes.

Upstream columns and metadata keys are translated here only.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from importlib.resources import files
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from lossless.errors import ArchiveCorrupt
from lossless.model.js_json import storable_json, storable_text
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
from lossless.store.database import Database, Row, TableAccess, column_count, group_rows, load_queries

if TYPE_CHECKING:
    _MessageDigest: TypeAlias = Callable[[Sequence[object], Sequence[Sequence[object]]], bytes]

#: Shorter texts stay in the skeleton: a reference would not be smaller.
_SHORT = 16
#: Even if it is a raw block.
_VERY_SHORT = 8
_LITERALS = frozenset((int, float, bool, type(None)))
#: Types whose equal values are the same in JSON: 1 and true are not.
_PLAIN = frozenset((str, bool))
#: Frequent substrings of skeletons, most frequent last. Part of the file format: a new list needs another first byte.
_COMMON = files(__package__).joinpath("schema", "frequent_substrings.txt").read_bytes().replace(b"\n", b"")
_FIRST_BYTE = b"1"


#: To be copied: a new one would read the substrings again.
_SQUEEZER = zlib.compressobj(6, zlib.DEFLATED, -13, 6, zdict=_COMMON)


def compress_residual(skeleton: str) -> bytes:
    """The stored form of a skeleton; `decompress_residual` reverses it."""
    squeezer = _SQUEEZER.copy()
    return _FIRST_BYTE + squeezer.compress(skeleton.encode()) + squeezer.flush()


def decompress_residual(stored: bytes) -> str:
    """The inverse of `compress_residual`; ValueError when the data is damaged."""
    if not isinstance(stored, bytes) or stored[:1] != _FIRST_BYTE:
        raise ValueError("a skeleton in a form that this version does not know")
    try:
        return zlib.decompressobj(-15, zdict=_COMMON).decompress(stored[1:]).decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise ValueError(f"a damaged skeleton: {error}") from error


#: Additional metadata of parts, by ordinal.
PartNotes: TypeAlias = "Mapping[int, Mapping[str, Json]]"
#: What is stored outside of a skeleton, by part: `t` texts, `i` inputs, `r` raw blocks, `s` signatures.
StoredColumns: TypeAlias = dict[str, dict[int, Any]]


def strip_residual(body: Mapping[str, Any], content: str, kept: StoredColumns) -> str:
    """The skeleton of `body`: everything that the columns do not have, and where the rest belongs."""
    by_text = {text: [kind, n] for kind in "st" for n, text in kept[kind].items() if len(text) >= _SHORT}
    by_identity = {id(value): [kind, n] for kind in "ir" for n, value in kept[kind].items()}
    cursor = 0

    def walk(value: Any) -> Any:
        nonlocal cursor
        if isinstance(value, str):
            if len(value) < _SHORT:
                return {"$": by_identity[id(value)]} if id(value) in by_identity and len(value) > _VERY_SHORT else value
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
            # most values are numbers and very short texts, which stay as they are
            return {
                key: item
                if (kind := type(item)) in _LITERALS or (kind is str and len(item) <= _VERY_SHORT)
                else walk(item)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return {"$": by_identity[id(value)]} if id(value) in by_identity else [walk(item) for item in value]
        return value

    return storable_json(walk(dict(body)))


def restore_original(skeleton: str, content: str, kept: StoredColumns) -> dict[str, Any]:
    """The inverse of `strip_residual`; ValueError when something it refers to is missing."""

    def resolve(value: dict[str, Any]) -> Any:
        if len(value) != 1 or "$" not in value:
            return value
        reference = value["$"]
        if reference == "c":
            return content
        head, tail = reference
        if head == "=":
            return dict(tail)
        if isinstance(head, int):
            return content[head : head + tail]
        return kept[head][tail]

    try:
        body: dict[str, Any] = json.loads(skeleton, object_hook=resolve)
    except (KeyError, TypeError) as error:
        raise ValueError(f"a skeleton without the part that it refers to: {error}") from error
    if not isinstance(body, dict):
        raise ValueError("a skeleton of no message")
    return body


#: The advice for damage.
RESTORE_ADVICE = "restore a backup (`lcm backups` lists them)"
#: A part with this mark has its text in `messages.content`; upstream reads it from there, too.
_IN_CONTENT = "topLevelReasoningOnly"
_RAW_TYPES = {
    "anthropic": ("thinking", "tool_use", "tool_result"),
    "openai-responses": ("reasoning", "function_call", "function_call_output"),
}
#: The key of a signed block's text.
_WORDS = {"reasoning": "thinking", "text": "text"}
_ORIGINAL_ROLES = {"tool": "toolResult"}
_CALL_TYPES = ("tool_use", "toolCall", "function_call")
_RESULT_TYPES = ("tool_result", "toolResult", "function_call_output")
#: Metadata up to this length is mostly the same from part to part, so it is cached.
_COMMON_CHARS = 240
_RESULT_ROLES = ("tool", "toolResult")


class PartRow(NamedTuple):
    """The columns of `message_parts` that are written."""

    ordinal: int
    part_type: str
    text_content: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    tool_input: str | None = None
    tool_output: str | None = None
    metadata: str = "{}"


def pack_message(message: Message) -> tuple[str, tuple[PartRow, ...], bytes | None]:
    """Content, parts and skeleton, from which `unpack_message` rebuilds the message, its original included.

    There is no redundancy except what upstream needs to read it.
    """
    content = storable_text(message.content)
    rows = _part_rows(message, content)
    body = message.body
    if body is None and content != message.content:
        body = message.original
    if body is None:
        return content, rows, None
    skeleton = strip_residual(body, content, _kept(rows, message.parts))
    return content, rows, compress_residual(skeleton)


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
    is_plain = _PLAIN.issuperset(map(type, metadata.values()))
    text = _metadata_text(*metadata.items()) if is_plain else storable_json(metadata)
    return PartRow(ordinal, part_type, metadata=text, **columns)


@lru_cache(maxsize=512)
def _metadata_text(*metadata: tuple[str, str | bool]) -> str:
    """The metadata of a part without a block of its own: mostly the same from part to part."""
    return storable_json(dict(metadata))


def _texts(rows: Sequence[PartRow]) -> dict[int, str]:
    """The texts of parts by position: in a separate column, or inside their block when that is signed."""
    found = {row.ordinal: row.text_content for row in rows if row.text_content is not None}
    for row in rows:
        if row.text_content is None and row.part_type in _WORDS and '"raw"' in row.metadata:
            raw = json_object(row.metadata).get("raw")
            words = raw.get(_WORDS[row.part_type]) if isinstance(raw, dict) else None
            found |= {row.ordinal: words} if isinstance(words, str) else {}
    return found


def _block(message: Message, ordinal: int) -> dict[str, Any]:
    """The original block of a part, where the original has one for each part."""
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
            return _row(ordinal, "text", head, text_content=storable_text(text))
        case Reasoning(text, signature):
            if signature is None:
                return _row(ordinal, "reasoning", head | {"rawType": thinking}, text_content=storable_text(text))
            # lossless-claw returns this block unchanged, so the text is only there
            block = _block(message, ordinal)
            is_redacted = block.get("redacted") is True or block.get("type") == "redacted_thinking"
            kept = {"type": thinking, "thinking": storable_text(text), "thinkingSignature": signature}
            raw_block = kept | ({"redacted": True} if is_redacted else {})
            return _row(ordinal, "reasoning", head | {"rawType": thinking, "raw": raw_block})
        case ToolCall(id_, name, input_):
            columns = {"tool_call_id": id_, "tool_name": storable_text(name), "tool_input": storable_json(input_)}
            return _row(ordinal, "tool", head | {"rawType": call}, **columns)
        case ToolResult(call_id, name, text, is_error):
            failed = {"isError": True} if is_error else {}
            metadata = head | failed | {"rawType": result}
            if storable_text(text) == content:
                known = head | failed if message.role == "tool" else metadata
                return _row(ordinal, "text", known | {_IN_CONTENT: True}, tool_call_id=call_id, tool_name=name)
            output = storable_json(text)
            return _row(ordinal, "tool", metadata, tool_call_id=call_id, tool_name=name, tool_output=output)
        case File(raw, mime, name):
            known = {key: value for key, value in (("mime", mime), ("name", name)) if value is not None}
            return _row(ordinal, "file", head | {"rawType": str(raw.get("type", "file")), "raw": raw} | known)
        case Opaque(raw, type_):
            return _row(ordinal, "agent", head | {"rawType": type_, "raw": raw})


def part_values(message_id: int, parts: Sequence[PartRow]) -> list[tuple[object, ...]]:
    return [
        (f"{message_id}.{part.ordinal}", message_id, "", part.part_type, part.ordinal, part.text_content,
         part.tool_call_id, part.tool_name, part.tool_input, part.tool_output, part.metadata)
        for part in parts
    ]  # fmt: skip


def with_notes(parts: tuple[PartRow, ...], role: Role, notes: PartNotes) -> tuple[PartRow, ...]:
    """Parts with additional metadata, by ordinal; a message without parts gets one."""
    if not parts:
        together: dict[str, Any] = {"originalRole": _ORIGINAL_ROLES.get(role, role), _IN_CONTENT: True}
        for more in notes.values():
            together |= more
        return (PartRow(0, "text", metadata=storable_json(together)),)
    metadata = {part.ordinal: json.loads(part.metadata) for part in parts}
    for ordinal, more in notes.items():
        metadata[ordinal if ordinal in metadata else min(metadata)] |= more
    return tuple(part._replace(metadata=storable_json(metadata[part.ordinal])) for part in parts)


def unpack_part(row: PartRow, metadata: dict[str, Any], content: str) -> Part:
    """A part from its row, written by any program; an unreadable one becomes opaque."""
    raw = metadata.get("raw")
    if row.part_type == "reasoning":
        block = raw if isinstance(raw, dict) else {}
        signature = block.get("thinkingSignature") or block.get("signature")
        words = row.text_content if row.text_content is not None else block.get("thinking")
        return Reasoning(words if isinstance(words, str) else "", signature if isinstance(signature, str) else None)
    kind, is_result = metadata.get("rawType"), metadata.get("originalRole") in _RESULT_ROLES
    if (kind in _RESULT_TYPES or (is_result and kind not in _CALL_TYPES)) and row.part_type in ("text", "tool"):
        text = content if metadata.get(_IN_CONTENT) else row.text_content
        if text is None:
            output = _json(row.tool_output)
            text = output if isinstance(output, str) else content
        return ToolResult(row.tool_call_id, row.tool_name, text, metadata.get("isError") is True)
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


def json_object(text: str | None) -> dict[str, Any]:
    """An object from its JSON; empty for anything else."""
    value = _json(text)
    return value if isinstance(value, dict) else {}


@lru_cache(maxsize=512)
def _common(text: str) -> dict[str, Any]:
    return json_object(text)


def _json(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def unpack_message(
    role: Role, content: str, tokens: int, rows: Sequence[PartRow], skeleton: bytes | None, format: str | None,
    event_key: str | None,
) -> Message:  # fmt: skip
    """The inverse of `pack_message`; for rows of other programs, as much as they kept.

    ValueError for invalid rows: bytes where text belongs, or an original that cannot be rebuilt.
    """
    if not isinstance(content, str):
        raise ValueError("its content is not text")
    parts, identity = _unpack_parts(rows, content) if rows else ((), None)
    body = None
    if skeleton is not None:
        body = restore_original(decompress_residual(skeleton), content, _kept(rows, parts))
    size = tokens if isinstance(tokens, int) else -1
    return Message(role, content, parts, format or "plain", body, tokens=size, event_key=event_key, identity=identity)


def _unpack_parts(rows: Sequence[PartRow], content: str) -> tuple[tuple[Part, ...], ModelIdentity | None]:
    """The parts of a message, none for one of its text alone, and the model that wrote it."""
    for row in rows:
        columns = (row.text_content, row.tool_call_id, row.tool_name, row.tool_input, row.tool_output, row.metadata)
        if bytes in map(type, columns):
            raise ValueError(f"its part {row.ordinal} is not text")
    # common metadata are parsed once, and only read
    metadata = [
        _common(text) if len(text := row.metadata) <= _COMMON_CHARS and '"raw"' not in text else json_object(text)
        for row in rows
    ]
    parts = tuple([unpack_part(row, known, content) for row, known in zip(rows, metadata, strict=True)])
    identity = _identity(metadata[0]) if "modelProvider" in metadata[0] else None
    if len(parts) == 1 and isinstance(parts[0], Text) and rows[0].text_content is None and parts[0].text == content:
        return (), identity
    return parts, identity


@dataclass(frozen=True, slots=True)
class MessageSketch:
    """A stored message that can be read and counted; its original is rebuilt on demand."""

    id: int
    message: Message
    file_id: str | None
    parts: Sequence[PartRow] = ()
    skeleton: bytes | None = None

    def exact(self) -> Message:
        """The message with its original; without it when that cannot be rebuilt, which `lcm verify` reports."""
        row = self.message
        if self.skeleton is None:
            return row
        try:
            return unpack_message(
                row.role, row.content, row.tokens, self.parts, self.skeleton, row.format, row.event_key
            )
        except ValueError:
            return row


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


def _kept(rows: Sequence[PartRow], parts: tuple[Part, ...]) -> StoredColumns:
    found: StoredColumns = {"t": _texts(rows), "i": {}, "r": {}, "s": {}}
    for row, part in zip(rows, parts, strict=False):
        if isinstance(part, ToolCall):
            found["i"][row.ordinal] = part.input
        elif isinstance(part, File | Opaque):
            found["r"][row.ordinal] = part.raw
        elif isinstance(part, Reasoning) and part.signature is not None:
            found["s"][row.ordinal] = part.signature
    return found


def _identity(metadata: dict[str, Any]) -> ModelIdentity | None:
    names = [metadata.get(key) for key in ("modelProvider", "modelApi", "modelId")]
    if not all(isinstance(name, str) and name for name in names):
        return None
    response = metadata.get("responseModelId")
    provider, api, model = cast("list[str]", names)
    return ModelIdentity(provider, api, model, response if isinstance(response, str) else None)


_DIGEST_QUERIES = load_queries("row_digests")
_DIGEST_PAGE = 500
#: Bytes of each part of `message_extras.digest`: for the indexed text, for everything that is rebuilt, for versions.
DIGEST_BYTES = 8
_TEXT, _MESSAGE, _VERSIONS = (slice(n * DIGEST_BYTES, (n + 1) * DIGEST_BYTES) for n in range(3))
#: The state key that says that all rows of our own tables have digests.
COMPLETE_KEY = "row_digests"
#: The key of payload digests.
PAYLOADS_KEY = "payloads"
_MESSAGES_NAME, _VERSIONS_NAME = "messages", "message_versions"


@dataclass(frozen=True, slots=True)
class DigestedTable:
    """A table whose rows have digests; rows with the same key share one."""

    table: str
    key: tuple[str, ...]
    #: Whether no other program writes it: a row without a digest was not written by us.
    is_ours: bool
    #: Columns that a program may change at any time.
    free: tuple[str, ...] = ()
    #: If given, only these columns.
    only: tuple[str, ...] = ()

    def columns(self, database: Database) -> tuple[str, ...]:
        found = [str(row[0]) for row in database.rows(_DIGEST_QUERIES["columns"], {"table": self.table})]
        return tuple(name for name in found if (name in self.only if self.only else name not in self.free))


#: lossless-claw moves rows to another conversation, and supersedes briefs.
_BRIEF_STATE = (
    "conversation_id", "session_key", "status", "updated_at", "superseded_at", "covered_message_seq", "raw_result_json",
)  # fmt: skip
DIGESTED_TABLES = {
    one.table: one
    for one in (
        DigestedTable("conversations", ("conversation_id",), False, only=("conversation_id", "created_at")),
        DigestedTable("summaries", ("summary_id",), False, free=("conversation_id",)),
        DigestedTable("large_files", ("file_id",), False, free=("conversation_id",)),
        DigestedTable("focus_briefs", ("brief_id",), False, free=_BRIEF_STATE),
        DigestedTable("focus_brief_sources", ("brief_id", "summary_id", "role"), False),
        DigestedTable("conversation_extras", ("conversation_id",), True),
        DigestedTable("pins", ("pin_id",), True),
        DigestedTable("hidden_items", ("conversation_id", "item"), True),
        DigestedTable("context_log", ("log_id",), True),
        DigestedTable("former_summaries", ("log_id", "summary_id"), True),
        DigestedTable("transcript_records", ("conversation_id", "record_key"), True),
        DigestedTable(_VERSIONS_NAME, ("message_id",), True),
        DigestedTable("stale_summaries", ("summary_id", "message_id"), True),
        DigestedTable("fork_sources", ("conversation_id", "source_id"), True),
        DigestedTable("pruned_histories", ("number",), True),
        DigestedTable("tombstones", ("round",), True),
    )
}
DIGESTED_PART_COLUMNS = (
    "part_id", "session_id", "part_type", "ordinal", "text_content", "tool_call_id", "tool_name", "tool_input",
    "tool_output", "metadata",
)  # fmt: skip


def _hex(value: object) -> str:
    if isinstance(value, bytes):
        return f"x{value.hex()}"
    raise TypeError(f"{type(value).__name__} is in no column")


_encode = json.JSONEncoder(default=_hex, separators=(",", ":"), check_circular=False).encode


def digest_of(values: object) -> bytes:
    """Eight bytes that change when any of these values does."""
    return blake2b(_encode(values).encode(), digest_size=DIGEST_BYTES).digest()


def message_digest(row: Sequence[object], parts: Sequence[Sequence[object]]) -> bytes:
    """The digest of a message: role, content, tokens, identity, sender, time, file, fingerprint, preamble mark,
    format, skeleton, budget estimate; and of each part the columns of `DIGESTED_PART_COLUMNS`, plus others that are
    filled.
    """
    role, content, *others = row
    rest = [role, *others, [*map(list, parts)]]
    if not isinstance(content, str):
        return blake2b(ascii([content, rest]).encode(), digest_size=DIGEST_BYTES).digest()
    text = content.encode("utf-8", "surrogatepass")
    return blake2b(ascii(rest).encode() + text, digest_size=DIGEST_BYTES).digest()


def digest_triggers() -> Iterator[str]:
    """The triggers that record which rows our connection writes."""
    yield from (sql for name, sql in _DIGEST_QUERIES.items() if name.startswith("note."))
    for one in DIGESTED_TABLES.values():
        changed = f" OF {', '.join(one.only)}" if one.only else ""
        for verb, rows in (("INSERT", ["new"]), (f"UPDATE{changed}", ["old", "new"]), ("DELETE", ["old"])):
            keys = [f"json_array({', '.join(f'{row}.{name}' for name in one.key)})" for row in rows]
            notes = [f"SELECT note('{one.table}', {key});" for key in keys]
            label = f"note_{one.table}_{verb[:6].lower()}_all"
            yield f"CREATE TEMP TRIGGER {label} AFTER {verb} ON main.{one.table} BEGIN {' '.join(notes)} END"


class RowDigests(TableAccess):
    """Writes and checks the digests of rows."""

    queries = load_queries("row_digests")

    def __init__(self, database: Database) -> None:
        self._db = database
        self._columns: dict[str, tuple[str, ...]] = {}

    def settle(self) -> None:
        """Update the digests of all rows written in this transaction."""
        rows = iter([*self._db.noted])
        self._db.noted.clear()
        while found := [*islice(rows, _DIGEST_PAGE)]:
            for name, some in group_rows(found, lambda key: key).items():
                if name == _MESSAGES_NAME:
                    self._put_messages(some)
                    continue
                is_inside = name == _VERSIONS_NAME
                inside = self._put_messages(chain(*map(json.loads, some)), revised=True) if is_inside else ()
                self._put(DIGESTED_TABLES[name], [key for key in some if key not in inside])

    def forget_note(self, name: str, key: str) -> None:
        """Keep the digest of a row, though the row was written in this transaction."""
        self._db.noted.pop((name, key), None)

    def put_payloads(self, digests: Mapping[str, bytes]) -> None:
        """Store the digests of file contents, by file id; needs a transaction."""
        self._write(PAYLOADS_KEY, digests.items())

    def fill(self) -> int:
        """Add digests to all rows without one; returns how many. Needs a transaction."""
        done = 0
        while ids := self._column("messages_without", limit=_DIGEST_PAGE, half=DIGEST_BYTES):
            self._put_messages(ids)
            done += len(ids)
        for one in DIGESTED_TABLES.values():
            known = set(self._column("all_known", name=one.table))
            lacking = [key for key, _ in self._digests(one) if key not in known]
            self._put(one, lacking)
            done += len(lacking)
        self._run("set_complete", name=COMPLETE_KEY)
        return done

    def _put_messages(self, ids: Iterable[int], *, revised: bool = False) -> Collection[str]:
        """Write the digests of messages with indexed text, and of their versions if these are new to it.

        Returns the keys of those versions; digests of other versions are rows like those of other tables.
        """
        found = [(id_, known, digest) for id_, known, digest in self._messages(list(ids)) if known is not None]
        new = {id_ for id_, known, _ in found if revised or len(known) == DIGEST_BYTES}
        keys = {f"[{id_}]" for id_ in (new if revised else self._column("versioned", ids=new))}
        versions = dict(self._digests(DIGESTED_TABLES[_VERSIONS_NAME], keys))
        self._run_many("drop", [{"name": _VERSIONS_NAME, "key": key} for key in keys])
        digests = [
            (known[_TEXT] + digest + (versions.get(f"[{id_}]", b"") if id_ in new else known[_VERSIONS]), id_)
            for id_, known, digest in found
        ]
        self._run_many("set_message", digests)
        return keys

    def _put(self, one: DigestedTable, keys: Sequence[str]) -> None:
        found = dict(self._digests(one, keys))
        self._write(one.table, list(found.items()))
        self._run_many("drop", [{"name": one.table, "key": key} for key in keys if key not in found])

    def _write(self, name: str, digests: Iterable[tuple[str, bytes]]) -> None:
        self._run_many("put", [(name, key, digest) for key, digest in digests])

    @property
    def is_complete(self) -> bool:
        """Whether every row of our own tables has a digest, because the archive was new, or they were filled in."""
        return self._value("complete", name=COMPLETE_KEY) == 1

    def changed_messages(self) -> Iterator[int]:
        """Messages that differ from what was written."""
        for page in self._pages("page", _DIGEST_PAGE, half=DIGEST_BYTES):
            differ = self._differing([row[0] for row in page], message_digest)
            # archives that were written before `message_digest` was made faster have this one
            yield from self._differing(differ, lambda row, parts: digest_of([row, parts])) if differ else ()

    def _differing(self, ids: Sequence[int], digest_function: _MessageDigest) -> list[int]:
        found = self._messages(ids, digest_function)
        return [id_ for id_, known, digest in found if known is not None and known[_MESSAGE] != digest]

    def changed_rows(self, tables: Collection[str] = DIGESTED_TABLES) -> Iterator[tuple[str, str, str]]:
        """Rows of other tables that differ from what was written: table, key, what is wrong."""
        is_complete = self.is_complete
        for one in (DIGESTED_TABLES[name] for name in tables):
            known: dict[str, bytes] = dict(self._rows("all_known", name=one.table))
            for key, digest in self._digests(one):
                written = known.pop(key, None)
                if written is None and one.is_ours and is_complete:
                    yield one.table, key, "it was not written by lossless"
                elif written is not None and written != digest:
                    yield one.table, key, "it differs from what was written"
            # lossless-claw's tools dissolve summaries, and the check of reachability covers the rest
            if one.table != "summaries":
                yield from ((one.table, key, "it is gone") for key in known)

    def payloads(self) -> tuple[dict[str, bytes], frozenset[str]]:
        """The digests of file contents, by file id, and the keys of the rows that we have written."""
        ours = frozenset(self._column("all_known", name="large_files"))
        return dict(self._rows("all_known", name=PAYLOADS_KEY)), ours

    def _messages(
        self, ids: Sequence[int], digest_function: _MessageDigest = message_digest
    ) -> Iterator[tuple[int, bytes | None, bytes]]:
        """Messages with their stored and their expected digest."""
        wanted = {"ids": ids}
        parts = group_rows(self._rows("parts", wanted), lambda *part: digested_part(part))
        for row in self._rows("messages", wanted):
            yield row[0], row[1], digest_function(row[2:], parts.get(row[0], ()))

    def _digests(self, one: DigestedTable, keys: Collection[str] | None = None) -> Iterator[tuple[str, bytes]]:
        """Rows of a table, all or some: their keys and expected digests."""
        if one.table not in self._columns:
            self._columns[one.table] = one.columns(self._db)
        names = self._columns[one.table]
        columns = ", ".join(f't."{name}"' for name in names)
        # the key as the triggers write it; bytes, which JSON cannot represent, as hex
        safe = ", ".join(f"iif(typeof(t.{name}) = 'blob', hex(t.{name}), t.{name})" for name in one.key)
        sql = f"SELECT json_array({safe}), {columns} FROM {one.table} t"
        order = f"ORDER BY {', '.join(f't.{name}' for name in (*one.key, names[0]))}"
        if keys is None:
            found = self._db.rows(f"{sql} {order}")
        else:
            where = f"{sql} WHERE {' AND '.join(f't.{name} IS ?' for name in one.key)} {order}"
            found = [row for key in keys for row in self._db.rows(where, json.loads(key))]
        sources: Mapping[str, list[Row]] = {}  # of summaries, in order, and their budget estimates
        if one.table == "summaries":
            keys = [row[0] for row in found]
            sources = group_rows(self._rows("sources", keys=keys), lambda *source: source)
        for key, rows in groupby(found, key=itemgetter(0)):
            values = [{n: value for n, value in zip(names, row[1:], strict=True) if value is not None} for row in rows]
            yield key, digest_of([*values, *sources.get(key, ())])


def digested_part(row: Sequence[Any]) -> list[object]:
    """A part for the digest of its message: the columns that we write, and others that are filled."""
    count = len(DIGESTED_PART_COLUMNS)
    more = [value for value in row[count:] if value is not None]
    return [*row[:count], more] if more else list(row[:count])
