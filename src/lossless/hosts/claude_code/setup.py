"""Install Claude Code's hooks, MCP server and skill, and check whether a host is set up."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import time
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.errors import BadInput
from lossless.hosts import hook_config
from lossless.hosts.config_files import FileEdit, edits_adding, edits_restoring, read_object, read_text, write_object
from lossless.model.paths import expand_path
from lossless.settings.json5 import edit_json5
from lossless.settings.load import value_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from lossless.hosts.hook_config import HostCommands

    Change = Callable[[dict[str, Any]], dict[str, Any]]

#: The command, the first version with all these events, and what helps when it is older.
PROGRAM = ("claude", (1, 0, 85), "run `claude update`, or use npm to install it again.")
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


def user_files(env: Mapping[str, str] = os.environ) -> hook_config.HostFiles:
    """The files of a person, for all projects."""
    home = Path(env.get("HOME") or Path.home())
    chosen = env.get("CLAUDE_CONFIG_DIR")
    folder = expand_path(chosen) if chosen else home / ".claude"
    servers = folder / ".claude.json" if chosen else home / ".claude.json"
    return hook_config.HostFiles(folder / "settings.json", servers, _skill_in(folder))


def project_files(project: Path) -> hook_config.HostFiles:
    """The files of one project."""
    folder = project / ".claude"
    return hook_config.HostFiles(folder / "settings.json", project / ".mcp.json", _skill_in(folder))


def _skill_in(folder: Path) -> Path:
    return folder / "skills" / "lossless-recall" / "SKILL.md"


def install_edits(places: hook_config.HostFiles, commands: HostCommands) -> list[FileEdit]:
    """What is to be written; a second time there is nothing to write."""
    settings, servers, (hook, server) = places.settings, places.servers, commands
    put_hooks = json_change(settings, lambda found: hook_config.with_hooks(found, hook, EVENTS))
    put_server = json_change(servers, lambda found: hook_config.with_server(found, server))
    return in_order(
        edits_adding(settings, put_hooks, json_change(settings, hook_config.without_hooks)),
        edits_adding(servers, put_server, json_change(servers, hook_config.without_server)),
        [_skill_edit(places.skill, skill_text())],
    )


def uninstall_edits(places: hook_config.HostFiles) -> list[FileEdit]:
    """What is to be taken away: ours, and nothing else."""
    return in_order(
        edits_restoring(places.settings, json_change(places.settings, hook_config.without_hooks)),
        edits_restoring(places.servers, json_change(places.servers, hook_config.without_server)),
        [_skill_edit(places.skill, None)],
    )


def in_order(*groups: list[FileEdit]) -> list[FileEdit]:
    """The files of the host first, then the records of what they held."""
    return [group[0] for group in groups] + [edit for group in groups for edit in group[1:]]


def own_server(places: hook_config.HostFiles) -> Any:
    """The entry of our MCP server; None where there is none."""
    return value_at(read_object(places.servers, read_text(places.servers)), ("mcpServers", hook_config.SERVER_NAME))


def json_change(path: Path, change: Change) -> Callable[[str | None], str | None]:
    """What a change to the value of a JSON file does to its text: None when nothing is left of it."""

    def changed(text: str | None) -> str | None:
        before = read_object(path, text)
        try:
            after = change(before)
        except BadInput as error:
            raise BadInput(f"{str(path)!r}: {error}") from error
        if after == before:
            return text
        if not after:
            return None
        try:
            return edit_json5(text or "", after)
        except ValueError:
            return write_object(after, text)

    return changed


def skill_text() -> str:
    """The skill, sealed so that a later version knows whether it was changed."""
    from lossless.context.render import RECALL_POLICY

    text = _SKILL + RECALL_POLICY
    return f"{text}\n<!-- lcm install: {_digest(text)} -->\n"


def is_sealed(text: str) -> bool:
    found = _SEAL.search(text)
    return found is not None and _digest(text[: found.start()]) == found[1]


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def _skill_edit(path: Path | None, after: str | None) -> FileEdit:
    assert path is not None
    before = read_text(path)
    plain = None if before is None else before.replace("\r\n", "\n")
    if plain is not None and not is_sealed(plain):
        return FileEdit(path, before, before, _NOTE)
    return FileEdit(path, before, before if plain == after else after, folders=2)


_VERSION = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True, slots=True)
class SetupCheck:
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str
    #: What helps.
    hint: str = ""
    #: Whether it could be looked at; if not, it may well be as it should.
    is_known: bool = True


def _check(name: str, ok: bool, detail: str, hint: str) -> SetupCheck:
    return SetupCheck(name, ok, detail, "" if ok else hint)


def check_setup(host: Any, places: hook_config.HostFiles, again: str, archive: str) -> list[SetupCheck]:
    """Whether all that a host needs is there; `again` is the command that puts it there, `archive` the usual one."""
    hooks = read_object(places.settings, read_text(places.settings))
    checks = [check_host(*host.PROGRAM), *check_hooks(hooks, places.settings, host.EVENTS, again)]
    configs = dict.fromkeys((host.user_files().servers, places.servers))
    if hasattr(host, "hooks_switched_off") and (off := host.hooks_switched_off(*configs)):
        checks.append(disabled_check("hooks enabled", off[0], f"[features] {off[1]} = false"))
    checks += check_server(host.own_server(places), places.servers, again)
    if places.skill is not None:
        is_there = read_text(places.skill) is not None
        checks.append(_check("skill", is_there, str(places.skill), f"Run `{again}`."))
    return [*checks, check_archive(hook_config.options_in(hook_config.command_in(hooks, None) or ())[0] or archive)]


def check_host(name: str, minimum: tuple[int, ...], helps: str) -> SetupCheck:
    """Whether a host is new enough for its hooks; one that cannot be asked may be."""
    wanted = ".".join(map(str, minimum))
    place = shutil.which(name)
    detail = f"{name} is not on the path; it must be {wanted} or newer"
    if place is not None:
        detail = f"{place} does not say which version it is; it must be {wanted} or newer"
        try:
            done = subprocess.run([place, "--version"], capture_output=True, timeout=20, check=False)
            if found := _VERSION.search(done.stdout.decode("utf-8", "replace")):
                ok = tuple(map(int, found[0].split("."))) >= minimum
                return _check("host", ok, f"{name} {found[0]}", f"Its hooks need {wanted} or newer: {helps}")
        except (OSError, subprocess.TimeoutExpired) as error:
            detail = f"{place} does not say which version it is: {error}"
    return SetupCheck("host", True, detail, is_known=False)


def check_hooks(settings: dict[str, Any], path: Path, events: Sequence[str], again: str) -> list[SetupCheck]:
    """Whether every event calls a hook that can be started, and how long that takes."""
    found = hook_config.events_with_hooks(settings)
    missing = [event for event in events if event not in found]
    detail = f"{path} calls lcm-hook for {', '.join(found) or 'nothing'}"
    checks = [_check("hooks", not missing, detail, f"{', '.join(missing)} missing: run `{again}`")]
    if settings.get("disableAllHooks") is True:
        checks.append(disabled_check("hooks enabled", path, "disableAllHooks"))
    return [*checks, *(_check_command(command) for command in sorted(set(found.values())))]


def disabled_check(name: str, path: Path, key: str) -> SetupCheck:
    """A thing that is there, and that a key in a file keeps the host from using."""
    return SetupCheck(name, False, f"{path} has {key}", "Take it out.")


def _check_command(command: str) -> SetupCheck:
    words = shlex.split(command)
    if shutil.which(words[0]) is None:
        detail = f"{words[0]} cannot be started"
        return SetupCheck("hook command", False, detail, "Install lossless again, then run this.")
    event = json.dumps({"hook_event_name": "Checkup"}).encode()
    start = time.monotonic()
    try:
        done = subprocess.run(words, input=event, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return SetupCheck("hook command", False, f"{words[0]}: {error}", "Try it by hand.")
    took = (time.monotonic() - start) * 1000
    ok = done.returncode == 0 and not done.stderr
    return _check("hook command", ok, f"{command} answered in {took:.0f} ms", done.stderr.decode()[:200])


def check_server(server: Any, path: Path, again: str) -> list[SetupCheck]:
    """Whether the MCP server is known to the host and can be started."""
    checks = [_check("MCP server", hook_config.is_own_server(server), str(path), f"Run `{again}`.")]
    if hook_config.is_own_server(server):
        detail = f"{server['command']} {' '.join(map(str, server['args']))}"
        can_start = shutil.which(server["command"]) is not None
        checks.append(_check("MCP command", can_start, detail, "Install lossless again."))
        if server.get("enabled") is False:
            checks.append(disabled_check("MCP enabled", path, "enabled = false for the server"))
    missing = missing_package()
    return [*checks, SetupCheck("package mcp", not missing, "", missing)]


def missing_package() -> str:
    """What helps when the package is missing without which the MCP server does not start; nothing when it is there."""
    if find_spec("mcp") is not None:
        return ""
    return "The MCP server cannot start without the package mcp: run `pip install 'lossless[mcp]'`."


def check_archive(path: str) -> SetupCheck:
    """Whether the archive can be read, or made."""
    place = expand_path(path)
    if not place.exists():
        parent = next(folder for folder in place.absolute().parents if folder.exists())
        detail = f"{place} is made with the first turn"
        return _check("archive", os.access(parent, os.W_OK), detail, f"{parent} is not writable.")
    from lossless.engine import open_engine
    from lossless.errors import LosslessError

    try:
        with open_engine(place, background=False, read_only=True) as engine:
            counts, last = engine.browse.counts(), engine.browse.health().last_stored_at
    except LosslessError as error:
        return SetupCheck("archive", False, str(error))
    detail = f"{place}: {counts.messages:,} messages, last stored {last or 'never'}"
    return _check("archive", os.access(place, os.W_OK), detail, "It is not writable.")
