"""Codex CLI's rollouts: items of OpenAI's Responses in envelopes, or bare in the oldest files."""

from __future__ import annotations

from typing import Any

from lossless.transcripts.entries import Entry, Header, Line
from lossless.transcripts.kinds.fields import (
    inner,
    kind_of,
    moment,
    no_lane_header,
    no_side_files,
    no_title,
    text,
)
from lossless.transcripts.kinds.prompts import prompt_of

__all__ = ["KIND", "entries", "header", "is_item", "lane_header", "opening", "recognises", "side_files", "title"]

KIND = "codex"
lane_header, title, side_files = no_lane_header, no_title, no_side_files

_ENVELOPES = frozenset(("session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"))
_ROLES = frozenset(("user", "assistant", "system", "developer"))
_CALLS = ("_call", "_call_output")
_OWN_TOOLS = frozenset(("function_call", "custom_tool_call"))


def recognises(records: list[dict[str, Any]]) -> bool:
    """An envelope, or the header and the marks that only the oldest rollouts have."""
    return any(
        (text(record, "type") in _ENVELOPES and _is_enveloped(record)) or _is_old_head(record) for record in records
    )


def header(records: list[dict[str, Any]]) -> Header:
    """What the first `session_meta`, or the first line of an old rollout, says."""
    for record in records:
        meta = inner(record, "payload") if record.get("type") == "session_meta" else record
        if meta is not record or _is_old_head(record):
            return Header(
                id=text(meta, "id", "session_id"),
                parent=text(meta, "forked_from_id", "parent_thread_id"),
                started_at=moment(meta.get("timestamp"), record.get("timestamp")),
                cwd=text(meta, "cwd"),
            )
    return Header()


def entries(record: dict[str, Any], line: Line) -> list[Entry]:
    """A Responses item as a message; events, contexts and compactions are opaque.

    An item's `id` is its provider's, who may give the same one to every answer, so it does not count as an entry's:
    what tells entries apart is where they stand and what they say.
    """
    written = moment(record.get("timestamp"))
    kind, item = kind_of(record), record
    if _is_enveloped(record):
        item = inner(record, "payload") if kind == "response_item" else {}
    if is_item(item):
        return [Entry(line, kind_of(item), created_at=written, message=item)]
    if _is_old_head(record) and "record_type" not in record:
        kind = "session_meta"
    return [Entry(line, kind, created_at=written, record=record)]


def opening(record: dict[str, Any]) -> str | None:
    """What a person asked; instructions and surroundings that Codex puts in front are left out."""
    item = inner(record, "payload") if _is_enveloped(record) else record
    return prompt_of(item.get("content")) if item.get("type") == "message" and item.get("role") == "user" else None


def is_item(item: dict[str, Any]) -> bool:
    """Whether an object is an item of a conversation: something said, thought, called or answered."""
    kind = item.get("type")
    if kind == "message":
        return text(item, "role") in _ROLES and isinstance(item.get("content"), str | list)
    if not isinstance(kind, str) or "role" in item:
        return False
    if kind in _OWN_TOOLS:
        return text(item, "call_id") is not None and text(item, "name") is not None
    if kind.removesuffix("_output") in _OWN_TOOLS:
        return text(item, "call_id") is not None and isinstance(item.get("output"), str | list)
    return kind in ("reasoning", "tool_search_output") or kind.endswith(_CALLS)


def _is_enveloped(record: dict[str, Any]) -> bool:
    return isinstance(record.get("type"), str) and isinstance(record.get("payload"), dict)


def _is_old_head(record: dict[str, Any]) -> bool:
    if "type" in record or "role" in record:
        return False
    return record.get("record_type") == "state" or {"id", "timestamp", "instructions"} <= record.keys()
