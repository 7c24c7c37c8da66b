"""Install Claude Code's hooks, MCP server and skill, and check whether a host is set up."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput
from lossless.hosts import hook_config
from lossless.hosts.config_files import ConfigPart, FileEdit, plan_edits, read_object, read_text, write_object
from lossless.model.paths import expand_path
from lossless.settings.json5 import edit_json5
from lossless.settings.load import value_at

if TYPE_CHECKING:
    from lossless.hosts.hook_config import HostCommands

    Change = Callable[[dict[str, Any]], dict[str, Any]]

#: The command, the first version with all these events, and what helps when it is older.
PROGRAM = ("claude", (1, 0, 85), "run `claude update`, or use npm to install it again.")
EVENTS = ("SessionStart", "UserPromptSubmit", "PreCompact", "Stop", "SubagentStop", "SessionEnd")
_SEAL = re.compile(r"\n<!-- lcm install: ([0-9a-f]{16}) -->\n\Z")
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
    return plan_edits(_parts(places, commands), _skill_edit(places.skill, skill_text()))


def uninstall_edits(places: hook_config.HostFiles) -> list[FileEdit]:
    """What is to be taken away: ours, and nothing else."""
    return plan_edits(_parts(places), _skill_edit(places.skill, None), is_removal=True)


def _parts(places: hook_config.HostFiles, commands: HostCommands = ((), ())) -> list[ConfigPart]:
    put_server = partial(hook_config.with_server, command=commands[1])
    return [hooks_part(places, commands, EVENTS), json_part(places.servers, put_server, hook_config.without_server)]


def hooks_part(places: hook_config.HostFiles, commands: HostCommands, events: Sequence[str]) -> ConfigPart:
    """The hooks in a host's settings."""
    put = partial(hook_config.with_hooks, command=commands[0], events=events)
    return json_part(places.settings, put, hook_config.without_hooks)


def json_part(path: Path, put: Change, take: Change) -> ConfigPart:
    """What is ours in a JSON file, by what happens to its value."""
    return ConfigPart(path, partial(_changed, path, put), partial(_changed, path, take))


def _changed(path: Path, change: Change, text: str | None) -> str | None:
    """The text of a JSON file after a change to its value: None when nothing is left of it."""
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


def own_server(places: hook_config.HostFiles) -> Any:
    """The entry of our MCP server; None where there is none."""
    return value_at(read_object(places.servers, read_text(places.servers)), ("mcpServers", hook_config.SERVER_NAME))


def skill_text() -> str:
    """The skill, sealed so that a later version knows whether it was changed."""
    from lossless.context.render import RECALL_POLICY

    text = Path(__file__).with_name("skill.md").read_text("utf-8") + RECALL_POLICY
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


def check_setup(host: Any, places: hook_config.HostFiles, again: str, archive: str) -> list[SetupCheck]:
    """Whether all that a host needs is there; `again` is the command that puts it there, `archive` the usual one."""
    return [replace(one, hint="" if one.ok else one.hint) for one in _checks(host, places, again, archive)]


def _checks(host: Any, places: hook_config.HostFiles, again: str, archive: str) -> Iterator[SetupCheck]:
    yield check_host(*host.PROGRAM)
    hooks = read_object(places.settings, read_text(places.settings))
    found, server = hook_config.events_with_hooks(hooks), host.own_server(places)
    missing = ", ".join(event for event in host.EVENTS if event not in found)
    called = f"{places.settings} calls lcm-hook for {', '.join(found) or 'nothing'}"
    yield SetupCheck("hooks", not missing, called, f"{missing} missing: run `{again}`")
    if hooks.get("disableAllHooks") is True:
        yield disabled_check("hooks enabled", places.settings, "disableAllHooks")
    yield from map(_check_command, sorted(set(found.values())))
    configs = dict.fromkeys((host.user_files().servers, places.servers))
    if hasattr(host, "hooks_switched_off") and (off := host.hooks_switched_off(*configs)):
        yield disabled_check("hooks enabled", off[0], f"[features] {off[1]} = false")
    yield SetupCheck("MCP server", hook_config.is_own_server(server), str(places.servers), f"Run `{again}`.")
    if hook_config.is_own_server(server):
        command = f"{server['command']} {' '.join(map(str, server['args']))}"
        yield SetupCheck("MCP command", shutil.which(server["command"]) is not None, command, "Install lossless again.")
        if server.get("enabled") is False:
            yield disabled_check("MCP enabled", places.servers, "enabled = false for the server")
    yield SetupCheck("package mcp", not missing_package(), "", missing_package())
    if places.skill is not None:
        yield SetupCheck("skill", read_text(places.skill) is not None, str(places.skill), f"Run `{again}`.")
    yield check_archive(hook_config.options_in(hook_config.command_in(hooks, None) or ())[0] or archive)


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
                return SetupCheck("host", ok, f"{name} {found[0]}", f"Its hooks need {wanted} or newer: {helps}")
        except (OSError, subprocess.TimeoutExpired) as error:
            detail = f"{place} does not say which version it is: {error}"
    return SetupCheck("host", True, detail, is_known=False)


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
    return SetupCheck("hook command", ok, f"{command} answered in {took:.0f} ms", done.stderr.decode()[:200])


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
        return SetupCheck("archive", os.access(parent, os.W_OK), detail, f"{parent} is not writable.")
    from lossless.engine import open_engine
    from lossless.errors import LosslessError

    try:
        with open_engine(place, background=False, read_only=True) as engine:
            counts, last = engine.browse.counts(), engine.browse.health().last_stored_at
    except LosslessError as error:
        return SetupCheck("archive", False, str(error))
    detail = f"{place}: {counts.messages:,} messages, last stored {last or 'never'}"
    return SetupCheck("archive", os.access(place, os.W_OK), detail, "It is not writable.")
