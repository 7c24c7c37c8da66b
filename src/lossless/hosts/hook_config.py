"""Hooks and MCP servers in the JSON config of hosts, and the commands that are written there."""

from __future__ import annotations

import copy
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Any, TypeAlias

from lossless.errors import BadInput
from lossless.model.paths import expand_path

#: Under this name hosts know the MCP server.
SERVER_NAME = "lossless"
#: Hosts give up on a hook after so many seconds; ours is done long before.
_TIMEOUT_SECONDS = 15


def with_hooks(settings: dict[str, Any], command: Sequence[str], events: Sequence[str]) -> dict[str, Any]:
    """Settings in which each of the events calls the command once; everything else is as it was."""
    line = shlex.join(command)
    if events_with_hooks(settings) == dict.fromkeys(events, line):
        return copy.deepcopy(settings)
    new = without_hooks(settings)
    hooks = new.setdefault("hooks", {})
    if not isinstance(hooks, dict):
        raise BadInput("`hooks` is not an object; the file is left as it is")
    for event in events:
        groups = hooks.setdefault(event, [])
        if not isinstance(groups, list):
            raise BadInput(f"`hooks.{event}` is not a list; the file is left as it is")
        handler = {"type": "command", "command": line, "timeout": _TIMEOUT_SECONDS}
        groups.append({"hooks": [handler]})
    return new


def without_hooks(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings in which nothing calls `lcm-hook`; what held nothing else is gone, too."""
    new = copy.deepcopy(settings)
    for event in events_with_hooks(settings):
        kept = []
        for group in new["hooks"][event]:
            ours = _handlers(group)
            rest = [handler for handler in group["hooks"] if handler not in ours] if ours else []
            kept += [group | {"hooks": rest}] if rest else [] if ours else [group]
        if kept:
            new["hooks"][event] = kept
        else:
            del new["hooks"][event]
    if settings.get("hooks") and not new["hooks"]:
        del new["hooks"]
    return new


def events_with_hooks(settings: dict[str, Any]) -> dict[str, str]:
    """The events that call `lcm-hook`, each with its command."""
    hooks = settings.get("hooks")
    found = {}
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        for group in groups if isinstance(groups, list) else ():
            for handler in _handlers(group):
                found[str(event)] = str(handler["command"])
    return found


def command_in(settings: dict[str, Any], server: Any) -> list[str] | None:
    """What calls us: the words of a hook's command, else those of our MCP server; None when nothing does."""
    for command in events_with_hooks(settings).values():
        return shlex.split(command)
    return [str(server["command"]), *map(str, server["args"])] if is_own_server(server) else None


def _handlers(group: Any) -> list[dict[str, Any]]:
    handlers = group.get("hooks") if isinstance(group, dict) else None
    if not isinstance(handlers, list):
        return []
    return [handler for handler in handlers if isinstance(handler, dict) and is_hook_command(handler.get("command"))]


def is_hook_command(command: Any) -> bool:
    """Whether a command line calls `lcm-hook`.

    >>> [is_hook_command(c) for c in ("/opt/x/lcm-hook --db a", "lcm-hook", "echo lcm-hook", None)]
    [True, True, False, False]
    """
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return False
    return bool(words) and PurePath(words[0]).name.removesuffix(".exe") == "lcm-hook"


def with_server(config: dict[str, Any], command: Sequence[str]) -> dict[str, Any]:
    """A config with our MCP server; raises BadInput when the name is taken by another one."""
    new = copy.deepcopy(config)
    servers = new.setdefault("mcpServers", {})
    if not isinstance(servers, dict):
        raise BadInput("`mcpServers` is not an object; the file is left as it is")
    taken = servers.get(SERVER_NAME)
    if taken is not None and not is_own_server(taken):
        raise BadInput(f"there is another MCP server named {SERVER_NAME!r}; rename it first")
    servers[SERVER_NAME] = (taken or {}) | {"type": "stdio", "command": command[0], "args": list(command[1:])}
    return new


def without_server(config: dict[str, Any]) -> dict[str, Any]:
    """A config without our MCP server; another one of the same name stays."""
    new = copy.deepcopy(config)
    servers = new.get("mcpServers")
    if isinstance(servers, dict) and is_own_server(servers.get(SERVER_NAME)):
        del servers[SERVER_NAME]
        if not servers:
            del new["mcpServers"]
    return new


def is_own_server(server: Any) -> bool:
    """Whether an entry starts `lcm mcp`."""
    if not isinstance(server, dict) or not isinstance(server.get("command"), str):
        return False
    args = server.get("args")
    name = PurePath(server["command"]).name.removesuffix(".exe")
    return name == "lcm" and isinstance(args, list) and "mcp" in args


@dataclass(frozen=True, slots=True)
class HostFiles:
    """The files of a host that are changed: those with hooks and MCP servers, and the skill where it has one."""

    settings: Path
    servers: Path
    skill: Path | None = None


#: The commands of the hook and of the MCP server, with the archive that they are to use.
HostCommands: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]


def options_in(command: Sequence[str]) -> tuple[str | None, str | None]:
    """The archive and the config file that a command in a host's file is told, None where it is not.

    >>> options_in(["lcm", "--db", "/a b.db", "mcp"])
    ('/a b.db', None)
    """
    found = dict(pairwise(command))
    return found.get("--db"), found.get("--config")


def host_commands(*, database: str | None = None, config: str | None = None, by_name: bool = False) -> HostCommands:
    """The commands of this installation; by their bare names for files that others share, if the path finds them."""
    chosen: list[str] = []
    for option, value in (("--db", database), ("--config", config)):
        chosen += [option, str(expand_path(value).absolute())] if value else []
    return (_find("lcm-hook", by_name), *chosen), (_find("lcm", by_name), *chosen, "mcp")


def _find(name: str, by_name: bool) -> str:
    on_path, folder = shutil.which(name), Path(sys.executable).parent
    found = name if by_name and on_path else shutil.which(name, path=str(folder)) or on_path
    if found is None:
        raise BadInput(
            f"the command {name!r} is neither in {str(folder)!r} nor on the PATH, so no host could start it; "
            f"install lossless with its commands: {sys.executable} -m pip install --force-reinstall lossless"
        )
    return found
