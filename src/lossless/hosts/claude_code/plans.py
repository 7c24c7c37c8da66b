"""The list of open work that an agent keeps with a tool of its host: what of it is not done yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.hosts.claude_code import tasks
from lossless.hosts.claude_code.reference import Quoted
from lossless.model.times import state_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lossless.model.messages import StoredMessage, ToolCall
    from lossless.store.archive import Archive

#: The tools that replace the whole list at each call: Claude Code's, Codex's, and those of their kin.
_LISTING = frozenset(("TodoWrite", "update_plan", "todowrite", "todo_write", "write_todos"))
_LISTS = ("todos", "plan")
_WORDS = ("content", "step", "description", "title")
#: How many of the newest calls are looked through that speak of one task each.
_LOOKED_AT = 1_000


def open_work(archive: Archive, conversation_id: int) -> Quoted | None:
    """What the newest list says is still to be done, from the messages themselves; None when nothing is.

    A list is told whole by one call, or task by task by many: the newest call says which of both counts.
    """
    newest = archive.listings.tool_calls(conversation_id, sorted(_LISTING | tasks.TOOLS), 1)
    if not newest:
        return None
    stored = archive.messages.get(newest[0])
    call = next((call for call in reversed(stored.message.tool_calls) if call.name in _LISTING | tasks.TOOLS), None)
    if call is not None and call.name in _LISTING:
        return _quoted(stored, [f"- [{status}] {words}" for status, words in items(call) if status not in tasks.DONE])
    ids = archive.listings.tool_calls(conversation_id, sorted(tasks.TOOLS), _LOOKED_AT)
    said = (found.message for found in archive.messages.many(ids, exact=False))
    return _quoted(stored, [task.line for task in tasks.tasks(said) if task.is_open])


def _quoted(stored: StoredMessage, lines: list[str]) -> Quoted | None:
    return Quoted(f"msg#{stored.id}", state_time(stored.created_at), "\n".join(lines)) if lines else None


def items(call: ToolCall) -> Iterator[tuple[str, str]]:
    """What a call puts on the list, with the state of each; nothing of what is no list."""
    given = tasks.parsed(call.input)
    listed = next((given[name] for name in _LISTS if name in given), None) if isinstance(given, dict) else None
    for item in listed if isinstance(listed, list) else []:
        if not isinstance(item, dict):
            continue
        words = next((item[name] for name in _WORDS if isinstance(item.get(name), str) and item[name].strip()), None)
        if words is not None:
            status = item.get("status")
            yield (status if isinstance(status, str) and status else "pending"), " ".join(words.split())
