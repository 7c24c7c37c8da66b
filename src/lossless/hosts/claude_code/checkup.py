"""Whether a host is set up: each thing that must be there, and what helps when it is not."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import time
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from lossless.hosts.hook_files import command_in, events_with_hooks, is_own_server
from lossless.hosts.programs import chosen_in
from lossless.paths import expanded

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any


_VERSION = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool
    said: str
    #: What helps.
    hint: str = ""


def check_host(name: str, least: tuple[int, ...], helps: str) -> Check:
    """Whether a host is new enough for its hooks; one that cannot be asked may be."""
    wanted = ".".join(map(str, least))
    place = shutil.which(name)
    if place is None:
        return Check("host", True, f"{name} is not on the path; it must be {wanted} or newer")
    try:
        done = subprocess.run([place, "--version"], capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check("host", True, f"{place} does not say which version it is: {error}")
    found = _VERSION.search(done.stdout.decode("utf-8", "replace"))
    if found is None:
        return Check("host", True, f"{place} does not say which version it is; it must be {wanted} or newer")
    ok = tuple(map(int, found[0].split("."))) >= least
    return Check("host", ok, f"{name} {found[0]}", "" if ok else f"Its hooks need {wanted} or newer: {helps}")


def archive_of(settings: dict[str, Any], default: str) -> str:
    """The archive that the hooks are told to use, else the one that everybody uses."""
    return chosen_in(command_in(settings, None) or ()).database or default


def check_hooks(settings: dict[str, Any], path: Path, events: Sequence[str], again: str) -> list[Check]:
    """Whether every event calls a hook that can be started, and how long that takes."""
    found = events_with_hooks(settings)
    missing = [event for event in events if event not in found]
    said = f"{path} calls lcm-hook for {', '.join(found) or 'nothing'}"
    checks = [Check("hooks", not missing, said, f"{', '.join(missing)} missing: run `{again}`" if missing else "")]
    if settings.get("disableAllHooks") is True:
        checks.append(switched_off("hooks enabled", path, "disableAllHooks"))
    return [*checks, *(_check_command(command) for command in sorted(set(found.values())))]


def switched_off(name: str, path: Path, key: str) -> Check:
    """A thing that is there, and that a key in a file keeps the host from using."""
    return Check(name, False, f"{path} has {key}", "Take it out.")


def _check_command(command: str) -> Check:
    words = shlex.split(command)
    if shutil.which(words[0]) is None:
        return Check("hook command", False, f"{words[0]} cannot be started", "Install lossless again, then run this.")
    event = json.dumps({"hook_event_name": "Checkup"}).encode()
    start = time.monotonic()
    try:
        done = subprocess.run(words, input=event, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check("hook command", False, f"{words[0]}: {error}", "Try it by hand.")
    took = (time.monotonic() - start) * 1000
    ok = done.returncode == 0 and not done.stderr
    return Check("hook command", ok, f"{command} answered in {took:.0f} ms", "" if ok else done.stderr.decode()[:200])


def check_server(server: Any, path: Path, again: str) -> list[Check]:
    """Whether the MCP server is known to the host and can be started."""
    checks = [Check("MCP server", is_own_server(server), f"{path}", "" if is_own_server(server) else f"Run `{again}`.")]
    if is_own_server(server):
        ok = shutil.which(server["command"]) is not None
        said = f"{server['command']} {' '.join(map(str, server['args']))}"
        checks.append(Check("MCP command", ok, said, "" if ok else "Install lossless again."))
        if server.get("enabled") is False:
            checks.append(switched_off("MCP enabled", path, "enabled = false for the server"))
    missing = missing_package()
    return [*checks, Check("package mcp", not missing, "", missing)]


def missing_package() -> str:
    """What helps when the package is missing without which the MCP server does not start; nothing when it is there."""
    if find_spec("mcp") is not None:
        return ""
    return "The MCP server cannot start without the package mcp: run `pip install 'lossless[mcp]'`."


def check_archive(path: str) -> Check:
    """Whether the archive can be read, or made."""
    place = expanded(path)
    if not place.exists():
        parent = next(folder for folder in place.absolute().parents if folder.exists())
        ok = os.access(parent, os.W_OK)
        return Check("archive", ok, f"{place} is made with the first turn", "" if ok else f"{parent} is not writable.")
    from lossless.errors import LosslessError
    from lossless.store.archive import Archive

    try:
        with Archive.open(place, read_only=True) as archive:
            counts = archive.care.counts()
            last = archive.care.liveness().last_stored_at
    except LosslessError as error:
        return Check("archive", False, str(error))
    ok = os.access(place, os.W_OK)
    said = f"{place}: {counts.messages:,} messages, last stored {last or 'never'}"
    return Check("archive", ok, said, "" if ok else "It is not writable.")
