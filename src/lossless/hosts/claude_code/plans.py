"""The list of open work that an agent keeps with a tool of its host: what of it is not done yet."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lossless.hosts.claude_code.reference import Quoted
from lossless.model.times import state_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lossless.model.messages import Json, StoredMessage, ToolCall
    from lossless.store.archive import Archive

#: The tools that replace the whole list at each call: Claude Code's, Codex's, and those of their kin.
_TOOLS = frozenset(("TodoWrite", "update_plan", "todowrite", "todo_write", "write_todos"))
_LISTS = ("todos", "plan")
_WORDS = ("content", "step", "description", "title")
_DONE = frozenset(("completed", "done", "cancelled", "canceled"))
#: How many of the newest messages of the assistant are looked through, so many at a time.
_LOOKED_AT, _PAGE = 2_000, 250


def open_work(archive: Archive, conversation_id: int) -> Quoted | None:
    """What the newest list says is still to be done, from the messages themselves; None when nothing is."""
    start = None
    for _ in range(_LOOKED_AT // _PAGE):
        page = archive.listings.messages(conversation_id, _PAGE, start, roles=("assistant",))
        for row in page.rows:
            if _TOOLS.intersection(row.tools):
                return _open(archive.messages.get(row.message_id))
        if page.next is None:
            return None
        start = page.next
    return None


def _open(stored: StoredMessage) -> Quoted | None:
    call = next(call for call in reversed(stored.message.tool_calls) if call.name in _TOOLS)
    lines = [f"- [{status}] {words}" for status, words in items(call) if status not in _DONE]
    return Quoted(f"msg#{stored.id}", state_time(stored.created_at), "\n".join(lines)) if lines else None


def items(call: ToolCall) -> Iterator[tuple[str, str]]:
    """What a call puts on the list, with the state of each; nothing of what is no list."""
    given = _parsed(call.input)
    listed = next((given[name] for name in _LISTS if name in given), None) if isinstance(given, dict) else None
    for item in listed if isinstance(listed, list) else []:
        if not isinstance(item, dict):
            continue
        words = next((item[name] for name in _WORDS if isinstance(item.get(name), str) and item[name].strip()), None)
        if words is not None:
            status = item.get("status")
            yield (status if isinstance(status, str) and status else "pending"), " ".join(words.split())


def _parsed(given: Json) -> object:
    """An input as it was meant: Codex sends it as a JSON text."""
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given)
    except (ValueError, RecursionError):
        return None
