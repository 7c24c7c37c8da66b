"""Reads Codex CLI rollouts: items of OpenAI's Responses in envelopes, or bare in the oldest files."""

from __future__ import annotations

from typing import Any

from lossless.ingest.transcripts import fields
from lossless.ingest.transcripts.entries import Reader, RecordPosition, TranscriptEntry, TranscriptHeader

KIND = "codex"

_ENVELOPES = frozenset(("session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"))
_ROLES = frozenset(("user", "assistant", "system", "developer"))
_CALLS = ("_call", "_call_output")
_OWN_TOOLS = frozenset(("function_call", "custom_tool_call"))


def recognises(records: list[dict[str, Any]]) -> bool:
    """An envelope, or the header and the marks that only the oldest rollouts have."""
    return any(
        (fields.text(record, "type") in _ENVELOPES and _is_enveloped(record)) or _is_old_head(record)
        for record in records
    )


def header(records: list[dict[str, Any]]) -> TranscriptHeader:
    """From the first `session_meta`, or the first line of an old rollout."""
    for record in records:
        meta = fields.object(record, "payload") if record.get("type") == "session_meta" else record
        if meta is not record or _is_old_head(record):
            return TranscriptHeader(
                id=fields.text(meta, "id", "session_id"),
                parent=fields.text(meta, "forked_from_id", "parent_thread_id"),
                started_at=fields.time(meta.get("timestamp"), record.get("timestamp")),
                cwd=fields.text(meta, "cwd"),
            )
    return TranscriptHeader()


def entries(record: dict[str, Any], line: RecordPosition) -> list[TranscriptEntry]:
    """A Responses item as a message; events, contexts and compactions are opaque.

    An item's `id` is its provider's, which may repeat it in every answer, so it is not an entry id: entries are
    identified by position and content.
    """
    written = fields.time(record.get("timestamp"))
    kind, item = fields.kind(record), record
    if _is_enveloped(record):
        item = fields.object(record, "payload") if kind == "response_item" else {}
    if item.get("role") == "developer" and (rest := fields.strip_evidence(item.get("content"))) != item.get("content"):
        if not rest:  # what a hook of ours has told the model, and nothing else
            return [TranscriptEntry(line, "hook_context", created_at=written, record={"type": "hook_context"})]
        item = item | {"content": rest}
    if is_item(item):
        return [TranscriptEntry(line, fields.kind(item), created_at=written, message=item)]
    if _is_old_head(record) and "record_type" not in record:
        kind = "session_meta"
    return [TranscriptEntry(line, kind, created_at=written, record=record)]


def opening(record: dict[str, Any]) -> str | None:
    """A person's prompt, without instructions and environment that Codex adds."""
    item = fields.object(record, "payload") if _is_enveloped(record) else record
    return fields.title(item.get("content")) if item.get("type") == "message" and item.get("role") == "user" else None


def is_item(item: dict[str, Any]) -> bool:
    """Whether an object is an item of a conversation: message, reasoning, call or output."""
    kind = item.get("type")
    if kind == "message":
        return fields.text(item, "role") in _ROLES and isinstance(item.get("content"), str | list)
    if not isinstance(kind, str) or "role" in item:
        return False
    if kind in _OWN_TOOLS:
        return fields.text(item, "call_id") is not None and fields.text(item, "name") is not None
    if kind.removesuffix("_output") in _OWN_TOOLS:
        return fields.text(item, "call_id") is not None and isinstance(item.get("output"), str | list)
    return kind in ("reasoning", "tool_search_output") or kind.endswith(_CALLS)


def _is_enveloped(record: dict[str, Any]) -> bool:
    return isinstance(record.get("type"), str) and isinstance(record.get("payload"), dict)


def _is_old_head(record: dict[str, Any]) -> bool:
    if "type" in record or "role" in record:
        return False
    return record.get("record_type") == "state" or {"id", "timestamp", "instructions"} <= record.keys()


READER = Reader(KIND, recognises, entries, header, opening=opening)
