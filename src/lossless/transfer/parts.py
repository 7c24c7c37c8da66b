"""Parts between lossless-claw's columns and Remnic's kind and payload: nothing of either is lost. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lossless.store.bundles import Values

#: What a part of lossless-claw is called in Remnic; a tool is a call or a result, all others keep their names.
_KINDS = {"file": "file_read"}
_TYPES = {"tool_call": "tool", "tool_result": "tool", "file_read": "file", "file_write": "file"}
_PART_TYPES = frozenset(
    ("text", "reasoning", "tool", "patch", "file", "subtask", "compaction", "step_start", "step_finish", "snapshot",
     "agent", "retry")
)  # fmt: skip
_ROLES = {"toolResult": "tool", "developer": "system", "function": "tool"}
ROLES = frozenset(("system", "user", "assistant", "tool"))
#: Columns of a part that are its place, not its content.
_PLACE = frozenset(("part_id", "session_id", "ordinal"))


def role_of(given: object) -> str:
    """One of the four roles that both archives know; what is none of them is a user's."""
    name = str(given)
    return name if name in ROLES else _ROLES.get(name, "user")


def as_remnic(part: Values) -> Values:
    """A part of lossless-claw as Remnic keeps it; its payload holds every column that says something."""
    if "part_type" not in part:
        payload = _object(part.get("payload"))
        return {
            "ordinal": part["ordinal"], "kind": part.get("kind", "tool_call"), "payload": _json(payload),
            "tool_name": part.get("tool_name"), "file_path": part.get("file_path"),
            "created_at": part.get("created_at"),
        }  # fmt: skip
    payload = {name: value for name, value in part.items() if name not in _PLACE and value is not None}
    return {
        "ordinal": part["ordinal"], "kind": _kind(part), "payload": _json(payload), "tool_name": part.get("tool_name"),
        "file_path": part.get("file_name") or part.get("file_url"), "created_at": None,
    }  # fmt: skip


def _kind(part: Values) -> str:
    kind: str = part["part_type"]
    if kind != "tool":
        return _KINDS.get(kind, kind)
    is_result = part.get("tool_output") is not None or part.get("tool_error") is not None
    return "tool_result" if is_result else "tool_call"


def as_columns(part: Values, role: str) -> Values:
    """A part of Remnic as lossless-claw keeps it: the columns that it was made of, or as near as its kind comes."""
    if "part_type" in part:
        return part
    payload = _object(part.get("payload"))
    place = {name: part[name] for name in (*_PLACE, "message_id") if part.get(name) is not None}
    if payload.get("part_type") in _PART_TYPES:
        return place | {name: value for name, value in payload.items() if name != "message_id"}
    kind = str(part.get("kind") or "tool_call")
    part_type = _TYPES.get(kind, kind if kind in _PART_TYPES else "agent")
    columns: Values = {"part_type": part_type, "tool_name": part.get("tool_name"), "file_name": part.get("file_path")}
    text = next((payload[name] for name in ("text", "content", "value") if isinstance(payload.get(name), str)), None)
    if part_type in ("text", "reasoning"):
        columns["text_content"] = text or ""
    if kind == "tool_call":
        columns |= {"tool_call_id": _text(payload, "id", "call_id"), "tool_input": _some(payload, "input", "arguments")}
    if kind == "tool_result":
        columns |= {"tool_call_id": _text(payload, "call_id", "id"), "tool_output": _some(payload, "output", "content")}
    raw_type = {"tool_call": "toolCall", "tool_result": "toolResult"}.get(kind, kind)
    said_by = "toolResult" if role == "tool" else role
    columns["metadata"] = _json({"originalRole": said_by, "rawType": raw_type, "raw": {"type": raw_type} | payload})
    return place | {name: value for name, value in columns.items() if value is not None}


def _object(payload: object) -> dict[str, Any]:
    """A payload as an object; anything else becomes the value of one."""
    value = payload
    if isinstance(payload, str):
        try:
            value = json.loads(payload)
        except ValueError:
            value = payload
    return value if isinstance(value, dict) else {} if value is None else {"value": value}


def _text(payload: dict[str, Any], *names: str) -> str | None:
    return next((payload[name] for name in names if isinstance(payload.get(name), str)), None)


def _some(payload: dict[str, Any], *names: str) -> str | None:
    return next((_json(payload[name]) for name in names if payload.get(name) is not None), None)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
