"""Codex CLI: its hooks speak as Claude Code's do; its MCP servers stand in `config.toml`."""

from __future__ import annotations

import json
import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput
from lossless.hosts.claude_code.setup import object_edit
from lossless.hosts.config_files import Edit, read_object, read_text
from lossless.hosts.hook_files import SERVER, command_in, is_own_server, with_hooks, without_hooks
from lossless.settings.json5_edit import line_end

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lossless.hosts.programs import Programs

#: The first with hooks.
LEAST_VERSION = (0, 114)
EVENTS = ("SessionStart", "UserPromptSubmit", "PreCompact", "Stop", "SubagentStop")
_MARK = "# Written by `lcm install codex`; `lcm uninstall codex` takes it away."
#: The header of our table, and of those that Codex keeps below it.
_HEADER = re.compile(rf"\s*\[\s*mcp_servers\s*\.\s*{SERVER}\s*(?:\.[^\]]*)?\]")


@dataclass(frozen=True, slots=True)
class Places:
    """The files of Codex that are changed."""

    hooks: Path
    config: Path


def user_places(env: Mapping[str, str] = os.environ) -> Places:
    """The files of a person."""
    home = env.get("CODEX_HOME")
    folder = Path(home).expanduser() if home else Path(env.get("HOME") or Path.home()) / ".codex"
    return Places(folder / "hooks.json", folder / "config.toml")


def project_places(project: Path) -> Places:
    """The files of one project, which Codex reads when the project is trusted."""
    return Places(project / ".codex" / "hooks.json", project / ".codex" / "config.toml")


def install_edits(places: Places, commands: Programs) -> list[Edit]:
    """What is to be written; a second time there is nothing to write."""
    hooks = object_edit(places.hooks, lambda found: with_hooks(found, commands.hook, EVENTS))
    text = read_text(places.config)
    return [hooks, Edit(places.config, text, with_server(places.config, text, commands.server))]


def uninstall_edits(places: Places) -> list[Edit]:
    """What is to be taken away: ours, and nothing else."""
    hooks = object_edit(places.hooks, without_hooks)
    text = read_text(places.config)
    if text is None or not is_own_server(servers_in(places.config, text).get(SERVER)):
        return [hooks, Edit(places.config, text, text)]
    after = without_server(text)
    if after is None:
        note = f"[mcp_servers.{SERVER}] cannot be taken away alone; remove it by hand"
        return [hooks, Edit(places.config, text, text, note)]
    return [hooks, Edit(places.config, text, after if after.strip() else None)]


def installed_command(places: Places) -> list[str] | None:
    """The command of hooks or server as it stands in the files; None where nothing is installed."""
    server = servers_in(places.config, read_text(places.config) or "").get(SERVER)
    return command_in(read_object(places.hooks, read_text(places.hooks)), server)


def with_server(path: Path, text: str | None, command: Sequence[str]) -> str:
    """A config with our MCP server; one that is there already as it should be, or was changed by hand, stays."""
    found = servers_in(path, text or "").get(SERVER)
    wanted = {"command": command[0], "args": list(command[1:])}
    if found is not None and not is_own_server(found):
        raise BadInput(f"there is another MCP server named {SERVER!r} in {str(path)!r}; rename it first")
    if found is not None and {name: found.get(name) for name in wanted} == wanted:
        return text or ""
    rest = without_server(text or "") if found is not None else text or ""
    if rest is None:
        raise BadInput(f"[mcp_servers.{SERVER}] in {str(path)!r} cannot be changed safely; change it by hand")
    args = ", ".join(map(_quoted, command[1:]))
    end = line_end(text or "")
    gap = "" if not rest else end if rest.endswith("\n") else end + end
    lines = (_MARK, f"[mcp_servers.{SERVER}]", f"command = {_quoted(command[0])}", f"args = [{args}]", "")
    new = rest + gap + end.join(lines)
    servers_in(path, new)
    return new


def without_server(text: str) -> str | None:
    """A config without our tables, all other lines as they are; None when lines alone cannot take them away."""
    kept: list[str] = []
    lines = text.splitlines(keepends=True)
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
    wanted = tomllib.loads(before)
    servers = wanted.get("mcp_servers", {})
    servers.pop(SERVER, None)
    if not servers:
        wanted.pop("mcp_servers", None)
    try:
        found = tomllib.loads(after)
    except tomllib.TOMLDecodeError:
        return False
    if not found.get("mcp_servers"):
        found.pop("mcp_servers", None)
    return found == wanted


def servers_in(path: Path, text: str) -> dict[str, Any]:
    """The MCP servers in a config; raises BadInput when it cannot be read."""
    try:
        found = tomllib.loads(text).get("mcp_servers", {})
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{str(path)!r} cannot be changed safely and is left as it is: {error}") from error
    return found if isinstance(found, dict) else {}


def _quoted(text: str) -> str:
    """A TOML string; JSON's are, but for the delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
