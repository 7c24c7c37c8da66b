"""Setting Claude Code up: hooks in its settings, the MCP server in its config, a skill that says how to recall."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.errors import BadInput
from lossless.hosts.config_files import Edit, read_object, read_text, write_object
from lossless.hosts.hook_files import (
    SERVER,
    command_in,
    with_hooks,
    with_server,
    without_hooks,
    without_server,
)
from lossless.hosts.way_back import back, there
from lossless.paths import expanded
from lossless.settings.json5 import NotJson5
from lossless.settings.json5_edit import edited

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from lossless.hosts.programs import Programs

    Change = Callable[[dict[str, Any]], dict[str, Any]]

#: The first with all these events.
LEAST_VERSION = (1, 0, 85)
EVENTS = ("SessionStart", "UserPromptSubmit", "PreCompact", "Stop", "SubagentStop", "SessionEnd")
_SEAL = re.compile(r"\n<!-- lcm install: ([0-9a-f]{16}) -->\n\Z")
_SKILL = """\
---
name: lossless-recall
description: >-
  Get back what was said earlier, word for word, also before a compaction and in other sessions: exact commands,
  paths, numbers, decisions, error messages, what the user asked for. Use it before saying that something is not
  remembered, after the context was compacted, and when the user speaks of earlier work.
---

"""
_NOTE = "it was changed by hand and is left as it is"


@dataclass(frozen=True, slots=True)
class Places:
    """The files of Claude Code that are changed."""

    settings: Path
    servers: Path
    skill: Path


def user_places(env: Mapping[str, str] = os.environ) -> Places:
    """The files of a person, for all projects."""
    home = Path(env.get("HOME") or Path.home())
    chosen = env.get("CLAUDE_CONFIG_DIR")
    folder = expanded(chosen) if chosen else home / ".claude"
    servers = folder / ".claude.json" if chosen else home / ".claude.json"
    return Places(folder / "settings.json", servers, _skill_in(folder))


def project_places(project: Path) -> Places:
    """The files of one project."""
    folder = project / ".claude"
    return Places(folder / "settings.json", project / ".mcp.json", _skill_in(folder))


def _skill_in(folder: Path) -> Path:
    return folder / "skills" / "lossless-recall" / "SKILL.md"


def install_edits(places: Places, commands: Programs) -> list[Edit]:
    """What is to be written; a second time there is nothing to write."""
    return _in_order(
        edits_there(places.settings, lambda settings: with_hooks(settings, commands.hook, EVENTS), without_hooks),
        edits_there(places.servers, lambda config: with_server(config, commands.server), without_server),
        [_skill_edit(places.skill, skill_text())],
    )


def uninstall_edits(places: Places) -> list[Edit]:
    """What is to be taken away: ours, and nothing else."""
    return _in_order(
        edits_back(places.settings, without_hooks),
        edits_back(places.servers, without_server),
        [_skill_edit(places.skill, None)],
    )


def _in_order(*groups: list[Edit]) -> list[Edit]:
    """The files of the host first, then the records of what they held."""
    return [group[0] for group in groups] + [edit for group in groups for edit in group[1:]]


def installed_command(places: Places) -> list[str] | None:
    """The command of hooks or server as it stands in the files; None where nothing is installed."""
    servers = read_object(places.servers, read_text(places.servers)).get("mcpServers")
    server = servers.get(SERVER) if isinstance(servers, dict) else None
    return command_in(read_object(places.settings, read_text(places.settings)), server)


def edits_there(path: Path, put: Change, take: Change) -> list[Edit]:
    """The edits that make a change to a JSON file; `take` is the way back from it."""
    return there(path, lambda text: _with(path, text, put), lambda text: _with(path, text, take))


def edits_back(path: Path, take: Change) -> list[Edit]:
    """The edits that take a change back; a file that ends up empty is removed, if it was not there before."""
    return back(path, lambda text: _with(path, text, take))


def _with(path: Path, text: str | None, change: Change) -> str | None:
    """A JSON file's text after a change to its value; None when nothing is left of it."""
    before = read_object(path, text)
    try:
        after = change(before)
    except BadInput as error:
        raise BadInput(f"{str(path)!r}: {error}") from error
    if after == before:
        return text
    return _changed(text, after) if after else None


def _changed(text: str | None, after: dict[str, Any]) -> str:
    """A file's new text; what does not change stays as it was written."""
    try:
        return edited(text or "", after)
    except NotJson5:
        return write_object(after, text)


def skill_text() -> str:
    """The skill, sealed so that a later version knows whether somebody has changed it."""
    from lossless.assembly.policy_text import RECALL_POLICY

    return sealed(_SKILL + RECALL_POLICY)


def sealed(text: str) -> str:
    """A text that says at its end what it was when it was written."""
    return f"{text}\n<!-- lcm install: {_digest(text)} -->\n"


def is_sealed(text: str) -> bool:
    """Whether a text is as it was written."""
    found = _SEAL.search(text)
    return found is not None and _digest(text[: found.start()]) == found[1]


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def _skill_edit(path: Path, after: str | None) -> Edit:
    before = read_text(path)
    plain = before.replace("\r\n", "\n") if before is not None else None
    if plain is not None and not is_sealed(plain):
        return Edit(path, before, before, _NOTE)
    return Edit(path, before, before if plain == after else after, folders=2)
