"""A stored message as text: everything that was said and done in it, and nothing that was only thought."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lossless.model.messages import File, Opaque, Reasoning, Text, ToolCall, ToolResult
from lossless.model.times import row_time

if TYPE_CHECKING:
    from datetime import datetime

    from lossless.model.messages import Json, Message, Part, StoredMessage

_REASONING_TYPES = frozenset({"thinking", "redacted_thinking", "reasoning", "think"})


def said(message: Message) -> str:
    """The words of a message, its tool calls and their results, in the order of its parts.

    Reasoning is left out. A block that no codec knows is shown as its JSON.
    """
    if not message.parts:
        return message.content
    texts = [text for part in message.parts if (text := _part_text(part))]
    if message.content.strip() and not any(isinstance(part, Text | ToolResult) for part in message.parts):
        texts.insert(0, message.content)
    return "\n".join(texts)


def part_line(part: Part) -> str:
    """What a part is, in a few words.

    >>> part_line(ToolCall("call_1", "read", {"path": "a.py"}))
    'tool call read (call_1)'
    """
    match part:
        case Text(text):
            return f"text, {len(text):,} characters"
        case Reasoning():
            return "reasoning, not shown"
        case ToolCall(id_, name, _):
            return f"tool call {name}{f' ({id_})' if id_ else ''}"
        case ToolResult(call_id, name, text, is_error):
            failed = ", failed" if is_error else ""
            return (
                f"tool result {name or 'unnamed'}{f' ({call_id})' if call_id else ''}{failed}, {len(text):,} characters"
            )
        case File(_, mime, name):
            return f"file {name or 'unnamed'} ({mime or 'unknown type'})"
        case Opaque(_, type_):
            return f"{type_} block"


def header(stored: StoredMessage) -> str:
    """The line over a message: how it is named, who said it, when.

    >>> from lossless.model.messages import Message, StoredMessage
    >>> from datetime import UTC, datetime
    >>> header(StoredMessage(12, 1, 7, Message("user", "hi"), datetime(2026, 1, 5, 9, tzinfo=UTC)))
    '[msg#12 | user | 2026-01-05 09:00:00Z]'
    """
    return f"[msg#{stored.id} | {stored.message.role} | {moment(stored.created_at)}]"


def moment(at: datetime | None) -> str:
    """A time to the second, in UTC; `undated` when it is not known."""
    return "undated" if at is None else f"{row_time(at)}Z"


def span(earliest: datetime | None, latest: datetime | None) -> str:
    """A range of time in the form of ids and tables, without blanks.

    >>> span(None, None)
    'unknown'
    """
    if earliest is not None and latest is not None:
        return f"{row_time(earliest, 'T')}Z..{row_time(latest, 'T')}Z"
    known = earliest or latest
    return "unknown" if known is None else f"{row_time(known, 'T')}Z"


def _part_text(part: Part) -> str:
    match part:
        case Text(text):
            return text
        case Reasoning():
            return ""
        case ToolCall(_, name, input_):
            return f"Tool call ({name}): {_json(input_)}"
        case ToolResult(_, name, text, is_error):
            label = ", ".join(filter(None, (name, "failed" if is_error else "")))
            return f"Tool result{f' ({label})' if label else ''}: {text}"
        case File(_, mime, name):
            return f"[{name or 'file'} ({mime or 'unknown type'})]"
        case Opaque(raw, type_):
            return "" if type_ in _REASONING_TYPES else _json(raw)


def _json(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
