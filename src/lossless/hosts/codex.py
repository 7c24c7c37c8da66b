"""Codex CLI: its hooks speak as Claude Code's do; its MCP servers stand in `config.toml`."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput
from lossless.hosts.claude_code.setup import edits_back, edits_there
from lossless.hosts.codex_table import with_command, with_table, without_table
from lossless.hosts.config_files import read_object, read_text
from lossless.hosts.hook_files import SERVER, command_in, is_own_server, with_hooks, without_hooks
from lossless.hosts.way_back import back, there
from lossless.paths import expanded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lossless.hosts.config_files import Edit
    from lossless.hosts.programs import Programs

#: The first with hooks.
LEAST_VERSION = (0, 114)
EVENTS = ("SessionStart", "UserPromptSubmit", "PreCompact", "Stop", "SubagentStop")
#: What Codex calls its hooks among its features, and called them before.
_FEATURES = ("codex_hooks", "hooks")


@dataclass(frozen=True, slots=True)
class Places:
    """The files of Codex that are changed."""

    hooks: Path
    config: Path


def user_places(env: Mapping[str, str] = os.environ) -> Places:
    """The files of a person."""
    home = env.get("CODEX_HOME")
    folder = expanded(home) if home else Path(env.get("HOME") or Path.home()) / ".codex"
    return Places(folder / "hooks.json", folder / "config.toml")


def project_places(project: Path) -> Places:
    """The files of one project, which Codex reads when the project is trusted."""
    return Places(project / ".codex" / "hooks.json", project / ".codex" / "config.toml")


def install_edits(places: Places, commands: Programs) -> list[Edit]:
    """What is to be written; a second time there is nothing to write."""
    path = places.config
    hooks = edits_there(places.hooks, lambda found: with_hooks(found, commands.hook, EVENTS), without_hooks)
    config = there(path, lambda text: with_server(path, text, commands.server), lambda text: without_server(path, text))
    return [hooks[0], config[0], *hooks[1:], *config[1:]]


def uninstall_edits(places: Places) -> list[Edit]:
    """What is to be taken away: ours, and nothing else."""
    path = places.config
    hooks, config = edits_back(places.hooks, without_hooks), back(path, lambda text: without_server(path, text))
    if is_own_server(servers_in(path, config[0].after or "").get(SERVER)):
        note = f"[mcp_servers.{SERVER}] cannot be taken away alone; remove it by hand"
        config = [replace(config[0], note=note), *config[1:]]
    return [hooks[0], config[0], *hooks[1:], *config[1:]]


def installed_command(places: Places) -> list[str] | None:
    """The command of hooks or server as it stands in the files; None where nothing is installed."""
    server = servers_in(places.config, read_text(places.config) or "").get(SERVER)
    return command_in(read_object(places.hooks, read_text(places.hooks)), server)


def with_server(path: Path, text: str | None, command: Sequence[str]) -> str:
    """A config with our MCP server; of one that is there only the command changes, what is beside and below stays."""
    found = servers_in(path, text or "").get(SERVER)
    if found is None:
        made = with_table(text or "", command)
        if SERVER not in servers_in(path, made):
            raise BadInput(f"'mcp_servers' in {str(path)!r} is no table, so the file is left as it is")
        return made
    if not is_own_server(found):
        raise BadInput(f"there is another MCP server named {SERVER!r} in {str(path)!r}; rename it first")
    if (found["command"], found["args"]) == (command[0], list(command[1:])):
        return text or ""
    changed = with_command(text or "", command)
    if changed is None:
        raise BadInput(f"[mcp_servers.{SERVER}] in {str(path)!r} cannot be changed safely; change it by hand")
    return changed


def without_server(path: Path, text: str | None) -> str | None:
    """A config without our MCP server and what is kept below it; as it is when it cannot be taken away alone."""
    if text is None or not is_own_server(servers_in(path, text).get(SERVER)):
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
