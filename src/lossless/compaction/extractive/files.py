"""The `Files:` line: which files a chunk touched, and how."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from lossless.compaction.fallback import is_directive

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lossless.compaction.source_text import Line, ToolInput
    from lossless.model.messages import Json

PREFIX = "Files: "
NONE = "Files: none"

PATH_KEYS = ("path", "file_path", "filePath", "filename", "file", "notebook_path", "target_file", "target")
_NEW_PATH_KEYS = ("new_path", "newPath", "destination", "to")
_COMMAND_KEYS = ("command", "cmd", "script", "shell")
_OPERATIONS = (
    ("deleted", re.compile(r"delete|remove|unlink", re.IGNORECASE)),
    ("renamed", re.compile(r"rename|move", re.IGNORECASE)),
    ("modified", re.compile(r"edit|patch|replace|update|insert|append", re.IGNORECASE)),
    ("created", re.compile(r"write|create|save|touch", re.IGNORECASE)),
    ("read", re.compile(r"read|view|open|cat\b", re.IGNORECASE)),
)
_SHELL = (
    ("deleted", re.compile(r"(?:^|[;&|]\s*)(?:git\s+)?rm\s+(?:-\w+\s+)*([^\s;&|<>]+)")),
    ("renamed", re.compile(r"(?:^|[;&|]\s*)(?:git\s+)?mv\s+(?:-\w+\s+)*[^\s;&|<>]+\s+([^\s;&|<>]+)")),
    ("modified", re.compile(r"(?:^|[;&|]\s*)sed\s+-i\S*\s+[^;&|]*?\s([^\s;&|<>'\"]+\.\w+)")),
    ("created", re.compile(r"(?:^|[;&|]\s*)touch\s+([^\s;&|<>]+)|[^0-9&]>{1,2}\s*([\w./~-]*[./][\w./-]+)")),
)
_MAX_PATH = 160
_ITEM = re.compile(r"(.+?)(?: \(([^()]+)\))?")


def touched(lines: Iterable[Line]) -> dict[str, str]:
    """Paths that tool calls name → what was done to each; a failed call says so.

    The last change wins, and a read never hides a change.
    """
    found: dict[str, str] = {}
    waiting: dict[str, list[str]] = {}
    for line in lines:
        for call in line.inputs:
            operations = _operations(call)
            for path, operation in operations:
                merge(found, path, operation)
            if call.call_id and operations:
                waiting[call.call_id] = [path for path, _ in operations]
        for output in line.outputs:
            for path in waiting.pop(output.call_id or "", []) if output.is_error else ():
                found[path] = f"{found[path].removesuffix(' failed')} failed"
    return found


def merge(found: dict[str, str], path: str, operation: str) -> None:
    """Note what was done to a path, after what is already known of it."""
    known = found.get(path)
    if operation == "modified" and known == "created":
        return
    if known is None or operation != "read":
        found[path] = operation


def files_line(found: dict[str, str], room: int) -> str:
    """The line for some files within `room` characters: changes first, then reads; `Files: none` for none."""
    named = ((path, operation) for path, operation in found.items() if not is_directive(path))
    ordered = sorted(named, key=lambda item: item[1].startswith("read"))
    items: list[str] = []
    used = len(PREFIX)
    for place, (path, operation) in enumerate(ordered):
        item = f"{path} ({operation})" if operation else path
        rest = f"+{len(ordered) - place} more"
        more = len(item) + 2 + (len(rest) + 2 if place + 1 < len(ordered) else 0)
        if used + more > room:
            items.append(rest)
            break
        items.append(item)
        used += len(item) + 2
    return PREFIX + ", ".join(items) if items else NONE


def parse_files_line(row: str) -> list[tuple[str, str]]:
    """Paths and operations of a `Files:` line, whoever wrote it."""
    items = (item.strip() for item in row.removeprefix(PREFIX.strip()).split(","))
    named = (_ITEM.fullmatch(item) for item in items if item and item.lower() != "none" and item[0] != "+")
    return [(match[1], match[2] or "") for match in named if match and len(match[1]) <= _MAX_PATH]


def arguments(call: ToolInput) -> Mapping[str, Json]:
    """The arguments of a call by name; nothing when they are not an object."""
    value = call.input
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, Mapping) else {}


def _operations(call: ToolInput) -> list[tuple[str, str]]:
    given = arguments(call)
    command = next((given[key] for key in _COMMAND_KEYS if isinstance(given.get(key), str)), None)
    path = _first_path(given, _NEW_PATH_KEYS) or _first_path(given, PATH_KEYS)
    if path is not None:
        kind = _operation(f"{call.name} {command or ''}"[:80])
        return [(path, kind)] if kind else []
    if not isinstance(command, str):
        return []
    rows = command[:1000]
    return [
        (target, kind)
        for kind, pattern in _SHELL
        for match in pattern.finditer(rows)
        if (target := next(filter(None, match.groups()), "")) and not target.startswith(("/dev/", "$", "-"))
    ]


@lru_cache(maxsize=1024)
def _operation(words: str) -> str:
    """What a tool of this name does to a file; '' when its name does not say."""
    return next((kind for kind, pattern in _OPERATIONS if pattern.search(words)), "")


def _first_path(given: Mapping[str, Json], keys: Iterable[str]) -> str | None:
    for key in keys:
        value = given.get(key)
        if isinstance(value, str) and value.strip() and len(value) <= _MAX_PATH and "\n" not in value:
            return value.strip()
    return None
