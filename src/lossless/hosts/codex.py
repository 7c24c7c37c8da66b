"""Codex CLI: its hooks speak like Claude Code's; its MCP server is a table in `config.toml`, edited as text so that
all other lines stay as they are.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput
from lossless.hosts.claude_code.setup import json_edits_adding, json_edits_removing
from lossless.hosts.config_files import edits_adding, edits_restoring, read_object, read_text
from lossless.hosts.hook_config import SERVER_NAME, command_in, is_own_server, with_hooks, without_hooks
from lossless.model.paths import expand_path
from lossless.settings.json5 import line_ending

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lossless.hosts.config_files import FileEdit
    from lossless.hosts.hook_config import HostCommands

_MARK = "# Written by `lcm install codex`; `lcm uninstall codex` takes it away."
_OURS = rf"""\s*\[\s*(["']?)mcp_servers\1\s*\.\s*(["']?){SERVER_NAME}\2\s*"""
#: The header of our table; and of those that are kept below it, too.
_TABLE, _HEADER = re.compile(_OURS + r"\]"), re.compile(_OURS + r"(?:\.[^\]]*)?\]")
_LINES = re.compile(r"[^\n]*\n|[^\n]+")


def with_table(text: str, command: Sequence[str]) -> str:
    """A config with our table behind everything else."""
    end = line_ending(text)
    gap = "" if not text else end if text.endswith("\n") else end + end
    keys = (f"{name} = {written}" for name, written in _written(command).items())
    return text + gap + end.join((_MARK, f"[mcp_servers.{SERVER_NAME}]", *keys, ""))


def with_command(text: str, command: Sequence[str]) -> str | None:
    """A config in which our table starts this command, and all else is as it was; None when lines cannot do that."""
    wanted, lines = tomllib.loads(text), _LINES.findall(text)
    wanted["mcp_servers"][SERVER_NAME] |= {"command": command[0], "args": list(command[1:])}
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
    wanted.get("mcp_servers", {}).pop(SERVER_NAME, None)
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


#: The first with hooks.
MINIMUM_VERSION = (0, 114)
EVENTS = ("SessionStart", "UserPromptSubmit", "PreCompact", "Stop", "SubagentStop")
#: What Codex calls its hooks among its features, and called them before.
_FEATURES = ("codex_hooks", "hooks")


@dataclass(frozen=True, slots=True)
class CodexFiles:
    """The files of Codex that are changed."""

    hooks: Path
    config: Path


def user_files(env: Mapping[str, str] = os.environ) -> CodexFiles:
    """The files of a person."""
    home = env.get("CODEX_HOME")
    folder = expand_path(home) if home else Path(env.get("HOME") or Path.home()) / ".codex"
    return CodexFiles(folder / "hooks.json", folder / "config.toml")


def project_files(project: Path) -> CodexFiles:
    """The files of one project, which Codex reads when the project is trusted."""
    return CodexFiles(project / ".codex" / "hooks.json", project / ".codex" / "config.toml")


def install_edits(places: CodexFiles, commands: HostCommands) -> list[FileEdit]:
    """What is to be written; a second time there is nothing to write."""
    path = places.config
    hooks = json_edits_adding(places.hooks, lambda found: with_hooks(found, commands.hook, EVENTS), without_hooks)
    config = edits_adding(
        path, lambda text: with_server(path, text, commands.server), lambda text: without_server(path, text)
    )
    return [hooks[0], config[0], *hooks[1:], *config[1:]]


def uninstall_edits(places: CodexFiles) -> list[FileEdit]:
    """What is to be taken away: ours, and nothing else."""
    path = places.config
    hooks, config = (
        json_edits_removing(places.hooks, without_hooks),
        edits_restoring(path, lambda text: without_server(path, text)),
    )
    if is_own_server(servers_in(path, config[0].after or "").get(SERVER_NAME)):
        note = f"[mcp_servers.{SERVER_NAME}] cannot be taken away alone; remove it by hand"
        config = [replace(config[0], note=note), *config[1:]]
    return [hooks[0], config[0], *hooks[1:], *config[1:]]


def installed_command(places: CodexFiles) -> list[str] | None:
    """The command of hooks or server as it stands in the files; None where nothing is installed."""
    server = servers_in(places.config, read_text(places.config) or "").get(SERVER_NAME)
    return command_in(read_object(places.hooks, read_text(places.hooks)), server)


def with_server(path: Path, text: str | None, command: Sequence[str]) -> str:
    """A config with our MCP server; of one that is there only the command changes, what is beside and below stays."""
    found = servers_in(path, text or "").get(SERVER_NAME)
    if found is None:
        made = with_table(text or "", command)
        if SERVER_NAME not in servers_in(path, made):
            raise BadInput(f"'mcp_servers' in {str(path)!r} is no table, so the file is left as it is")
        return made
    if not is_own_server(found):
        raise BadInput(f"there is another MCP server named {SERVER_NAME!r} in {str(path)!r}; rename it first")
    if (found["command"], found["args"]) == (command[0], list(command[1:])):
        return text or ""
    changed = with_command(text or "", command)
    if changed is None:
        raise BadInput(f"[mcp_servers.{SERVER_NAME}] in {str(path)!r} cannot be changed safely; change it by hand")
    return changed


def without_server(path: Path, text: str | None) -> str | None:
    """A config without our MCP server and what is kept below it; as it is when it cannot be taken away alone."""
    if text is None or not is_own_server(servers_in(path, text).get(SERVER_NAME)):
        return text
    after = without_table(text)
    return text if after is None else after if after.strip() else None


def servers_in(path: Path, text: str) -> dict[str, Any]:
    """The MCP servers in a config; raises BadInput when it cannot be read."""
    return _table(_read(path, text), "mcp_servers")


def hooks_switched_off(*configs: Path) -> tuple[Path, str] | None:
    """Where Codex is told to run no hooks, and by which name; of configs that say it differently the last counts."""
    found = None
    for path in configs:
        features = _table(_read(path, read_text(path) or ""), "features")
        for name in _FEATURES:
            if name in features:
                found = (path, name) if features[name] is False else None
    return found


def _read(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{str(path)!r} cannot be changed safely and is left as it is: {error}") from error


def _table(config: dict[str, Any], name: str) -> dict[str, Any]:
    found = config.get(name, {})
    return found if isinstance(found, dict) else {}
