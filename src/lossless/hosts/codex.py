"""Codex CLI: its hooks speak like Claude Code's; its MCP server is a table in `config.toml`, of which all other lines
stay as they are.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from lossless.errors import BadInput
from lossless.hosts.claude_code.setup import hooks_part
from lossless.hosts.config_files import ConfigPart, FileEdit, plan_edits, read_text
from lossless.hosts.hook_config import SERVER_NAME, HostCommands, HostFiles, is_own_server
from lossless.model.paths import expand_path
from lossless.settings.json5 import line_ending
from lossless.settings.write import toml_text

_MARK = "# Written by `lcm connect codex`; `lcm disconnect codex` takes it away."
#: Our table and those that are kept below it, each with its keys and the comments between them; and the mark above it,
#: as earlier versions wrote it, too, with the blank line before that.
_TABLES = re.compile(
    r"(?:(?:^[ \t\r]*\n)?^# Written by `lcm (?:connect|install) codex`; .*\n)?"
    rf"""^[ \t]*\[\s*(["']?)mcp_servers\1\s*\.\s*(["']?){SERVER_NAME}\2\s*(?:\.[^\]]*)?\].*\n?"""
    r"(?:(?:^[ \t\r]*(?:#.*)?\n)*^[ \t]*[^\s\[#].*\n?)*",
    re.MULTILINE,
)


def without_table(text: str) -> str | None:
    """A config without our tables, all other lines as they are; None when lines alone cannot take them away.

    Lines, as tomlkit counts the remarks behind a table as a part of it, and they are a person's.
    """
    after = _TABLES.sub("", text)
    wanted, found = tomllib.loads(text), _value(after)
    wanted.get("mcp_servers", {}).pop(SERVER_NAME, None)
    for value in (wanted, found or {}):
        if not value.get("mcp_servers"):
            value.pop("mcp_servers", None)
    return after if found == wanted else None


def _value(text: str) -> dict[str, Any] | None:
    with suppress(tomllib.TOMLDecodeError):
        return tomllib.loads(text)
    return None


#: The command, the first version with hooks, and what helps when it is older.
PROGRAM = ("codex", (0, 114), 'update it, or set `notify = ["lcm-hook"]` in its config.toml.')
EVENTS = ("SessionStart", "UserPromptSubmit", "PreCompact", "Stop", "SubagentStop")
#: What Codex calls its hooks among its features, and called them before.
_FEATURES = ("codex_hooks", "hooks")


def user_files(env: Mapping[str, str] = os.environ) -> HostFiles:
    home = env.get("CODEX_HOME")
    folder = expand_path(home) if home else Path(env.get("HOME") or Path.home()) / ".codex"
    return HostFiles(folder / "hooks.json", folder / "config.toml")


def project_files(project: Path) -> HostFiles:
    """The files of one project, which Codex reads when the project is trusted."""
    return HostFiles(project / ".codex" / "hooks.json", project / ".codex" / "config.toml")


def install_edits(places: HostFiles, commands: HostCommands) -> list[FileEdit]:
    return plan_edits(_parts(places, commands))


def uninstall_edits(places: HostFiles) -> list[FileEdit]:
    hooks, config, *records = plan_edits(_parts(places), is_removal=True)
    if is_own_server(_table(config.path, config.after or "", "mcp_servers").get(SERVER_NAME)):
        config = replace(config, note=f"[mcp_servers.{SERVER_NAME}] cannot be taken away alone; remove it by hand")
    return [hooks, config, *records]


def _parts(places: HostFiles, commands: HostCommands = ((), ())) -> list[ConfigPart]:
    path = places.servers
    servers = ConfigPart(path, partial(with_server, path, command=commands[1]), partial(without_server, path))
    return [hooks_part(places, commands, EVENTS), servers]


def own_server(places: HostFiles) -> Any:
    """The table of our MCP server; None where there is none."""
    return _table(places.servers, read_text(places.servers) or "", "mcp_servers").get(SERVER_NAME)


def with_server(path: Path, text: str | None, command: Sequence[str]) -> str:
    """A config with our MCP server; of one that is there only the command changes, all else stays."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    text, new = text or "", {"command": command[0], "args": list(command[1:])}
    found = _table(path, text, "mcp_servers").get(SERVER_NAME)
    if found is None:  # our table goes behind everything else
        end = line_ending(text)
        gap = "" if not text else end if text.endswith("\n") else end + end
        keys = (f"command = {toml_text(command[0])}", f"args = {toml_text(list(command[1:]))}")
        made = text + gap + end.join((_MARK, f"[mcp_servers.{SERVER_NAME}]", *keys, ""))
        if SERVER_NAME not in _table(path, made, "mcp_servers"):
            raise BadInput(f"'mcp_servers' in {str(path)!r} is no table, so the file is left as it is")
        return made
    if not is_own_server(found):
        raise BadInput(f"there is another MCP server named {SERVER_NAME!r} in {str(path)!r}; rename it first")
    if found | new == found:
        return text
    wanted = tomllib.loads(text)
    wanted["mcp_servers"][SERVER_NAME] |= new
    try:
        document = tomlkit.parse(text)
        document["mcp_servers"][SERVER_NAME].update(new)
        if _value(after := document.as_string()) == wanted:
            return after
    except TOMLKitError:
        pass
    raise BadInput(f"[mcp_servers.{SERVER_NAME}] in {str(path)!r} cannot be changed safely; change it by hand")


def without_server(path: Path, text: str | None) -> str | None:
    """A config without our MCP server and what is kept below it; as it is when it cannot be taken away alone."""
    if text is None or not is_own_server(_table(path, text, "mcp_servers").get(SERVER_NAME)):
        return text
    after = without_table(text)
    return text if after is None else after if after.strip() else None


def hooks_switched_off(*configs: Path) -> tuple[Path, str] | None:
    """Where Codex is told to run no hooks, and by which name; of configs that say it differently the last counts."""
    found = None
    for path in configs:
        features = _table(path, read_text(path) or "", "features")
        for name in _FEATURES:
            if name in features:
                found = (path, name) if features[name] is False else None
    return found


def _table(path: Path, text: str, name: str) -> dict[str, Any]:
    try:
        found = tomllib.loads(text).get(name, {})
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{str(path)!r} cannot be changed safely and is left as it is: {error}") from error
    return found if isinstance(found, dict) else {}
