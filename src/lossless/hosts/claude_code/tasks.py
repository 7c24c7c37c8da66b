"""Work that an agent notes task by task: what the calls of its host's tools, and their answers, leave open."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lossless.model.messages import Json, Message, ToolCall, ToolResult

#: The tools that change, or tell, single tasks.
TOOLS = frozenset(("TaskCreate", "TaskUpdate", "TaskList"))
#: What is said of work that is not open any more.
DONE = frozenset(("completed", "done", "resolved", "deleted", "cancelled", "canceled"))
_MADE = re.compile(r"#(\w[\w-]*) created\b")
_LISTED = re.compile(r"#(\w[\w-]*) \[(\w+)\] (.*?)(?: \[blocked by [^\]]*\])?")
_REFUSED = re.compile(r"\bnot found\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Task:
    """A task as the last call left it; it may be known by its id alone."""

    id: str
    status: str = "pending"
    subject: str = ""

    @property
    def is_open(self) -> bool:
        """Whether it is still to be done."""
        return self.status not in DONE

    @property
    def line(self) -> str:
        """The task for its list."""
        return f"- [{self.status}] #{self.id}" + (f" {self.subject}" if self.subject else "")


def tasks(messages: Iterable[Message]) -> list[Task]:
    """All tasks after these messages, in the order of their making. A call counts when it was answered."""
    asked: dict[str, ToolCall] = {}
    found: dict[str, Task] = {}
    for message in messages:
        asked |= {call.id: call for call in message.tool_calls if call.id is not None and call.name in TOOLS}
        for result in message.tool_results:
            call = asked.pop(result.call_id or "", None)
            if call is not None and not result.is_error:
                found = _after(found, call, result)
    return list(found.values())


def _after(found: dict[str, Task], call: ToolCall, result: ToolResult) -> dict[str, Task]:
    if call.name == "TaskList":
        return _told(found, result.text)
    given = parsed(call.input)
    if not isinstance(given, Mapping):
        return found
    subject = _words(given, "subject")
    if call.name == "TaskCreate":
        made = _MADE.search(result.text)
        words = subject or _words(given, "description")
        return found if made is None else found | {made[1]: Task(made[1], subject=words)}
    id_ = given.get("taskId")
    if not isinstance(id_, (str, int)) or _REFUSED.search(result.text):
        return found
    task = found.get(str(id_), Task(str(id_)))
    status = _words(given, "status") or task.status
    return found | {task.id: replace(task, status=status, subject=subject or task.subject)}


def _told(found: dict[str, Task], text: str) -> dict[str, Task]:
    """The tasks that a whole list names; those that we have keep our words. What is no such list changes nothing."""
    lines = [] if text.lower().startswith("no tasks") else [line for line in text.splitlines() if line.strip()]
    named = [match for line in lines if (match := _LISTED.fullmatch(line.strip()))]
    told = {id_: Task(id_, status, _subject(found, id_) or words) for id_, status, words in (m.groups() for m in named)}
    return told if len(named) == len(lines) else found | told


def _subject(found: Mapping[str, Task], id_: str) -> str:
    return found[id_].subject if id_ in found else ""


def _words(given: Mapping[object, object], name: str) -> str:
    value = given.get(name)
    return " ".join(value.split()) if isinstance(value, str) else ""


def parsed(given: Json) -> object:
    """An input as it was meant: Codex sends it as a JSON text."""
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given)
    except (ValueError, RecursionError):
        return None
