"""Our MCP server in Codex's `config.toml`: its table is added, its command changed, and it is taken away, as text.

All other lines stay as they are: comments, and the keys that people and Codex put beside and below ours.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING, Any

from lossless.hosts.hook_files import SERVER
from lossless.settings.json5_edit import line_end

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MARK = "# Written by `lcm install codex`; `lcm uninstall codex` takes it away."
_OURS = rf"""\s*\[\s*(["']?)mcp_servers\1\s*\.\s*(["']?){SERVER}\2\s*"""
#: The header of our table; and of those that are kept below it, too.
_TABLE, _HEADER = re.compile(_OURS + r"\]"), re.compile(_OURS + r"(?:\.[^\]]*)?\]")
_LINES = re.compile(r"[^\n]*\n|[^\n]+")


def with_table(text: str, command: Sequence[str]) -> str:
    """A config with our table behind everything else."""
    end = line_end(text)
    gap = "" if not text else end if text.endswith("\n") else end + end
    keys = (f"{name} = {written}" for name, written in _written(command).items())
    return text + gap + end.join((_MARK, f"[mcp_servers.{SERVER}]", *keys, ""))


def with_command(text: str, command: Sequence[str]) -> str | None:
    """A config in which our table starts this command, and all else is as it was; None when lines cannot do that."""
    wanted, lines = tomllib.loads(text), _LINES.findall(text)
    wanted["mcp_servers"][SERVER] |= {"command": command[0], "args": list(command[1:])}
    headers = (at for at, line in enumerate(lines) if _TABLE.match(line))
    made = (_commanded(lines, at + 1, _written(command)) for at in headers)
    return next((after for after in made if _value(after) == wanted), None)


def _commanded(lines: Sequence[str], place: int, written: Mapping[str, str]) -> str:
    """A config with other values for these keys in the table whose first line this is."""
    new = list(lines)
    while place < len(new) and not new[place].lstrip().startswith("["):
        end, found = _statement(new, place)
        for name in written.keys() & found.keys():
            new[place:end] = ["".join(new[place:end])]
            new[place], end = _assigned(new[place], name, written[name]), place + 1
        place = end
    return "".join(new)


def without_table(text: str) -> str | None:
    """A config without our tables, all other lines as they are; None when lines alone cannot take them away."""
    kept: list[str] = []
    lines = _LINES.findall(text)
    place = 0
    while place < len(lines):
        if not _HEADER.match(lines[place]):
            kept.append(lines[place])
            place += 1
            continue
        if kept and kept[-1].strip() == _MARK:
            kept.pop()
            if kept and not kept[-1].strip():
                kept.pop()
        end = place + 1
        while end < len(lines) and not lines[end].lstrip().startswith("["):
            end += 1
        while end > place + 1 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
            end -= 1
        place = end
    after = "".join(kept)
    return after if _is_all_but_ours(text, after) else None


def _is_all_but_ours(before: str, after: str) -> bool:
    wanted, found = tomllib.loads(before), _value(after)
    if found is None:
        return False
    wanted.get("mcp_servers", {}).pop(SERVER, None)
    for value in (wanted, found):
        if not value.get("mcp_servers"):
            value.pop("mcp_servers", None)
    return found == wanted


def _statement(lines: Sequence[str], start: int) -> tuple[int, Mapping[str, Any]]:
    """Where what begins at a line ends, and what it sets; a line that begins nothing sets nothing."""
    for end in range(start + 1, len(lines) + 1):
        found = _value("".join(lines[start:end]))
        if found is not None:
            return end, found
    return start + 1, {}


def _assigned(statement: str, name: str, written: str) -> str:
    """A statement with another value; a remark behind it and its line end stay."""
    body = statement.rstrip("\r\n")
    marks = (found.start() for found in re.finditer(r"[ \t]*#", body))
    at = next((at for at in marks if (_value(body[:at]) or {}).keys() == {name}), len(body))
    lead = body[: len(body) - len(body.lstrip())]
    return f"{lead}{name} = {written}{body[at:]}{statement[len(body) :]}"


def _value(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _written(command: Sequence[str]) -> dict[str, str]:
    return {"command": _quoted(command[0]), "args": f"[{', '.join(map(_quoted, command[1:]))}]"}


def _quoted(text: str) -> str:
    """A TOML string; JSON's are, but for the delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
