"""Hooks when things are not as they should be: the host goes on, nothing is lost, and what is wrong is said."""

from __future__ import annotations

import json
import shlex
import sqlite3
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from lossless.hosts.claude_code import notes
from tests.hosts.claude_code.kit import HOOK, PROJECT, SESSION, Claude

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEY = f"claude-code:{PROJECT}:{SESSION}"


@pytest.fixture
def claude(tmp_path: Path) -> Claude:
    return Claude(tmp_path)


def wait_for(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.05)


def warning(out: str) -> str:
    return str(json.loads(out)["systemMessage"])


@pytest.mark.parametrize("name", ["Stop", "PreCompact", "SessionEnd"])
def test_without_a_place_for_notes_everything_is_stored(claude: Claude, name: str) -> None:
    (claude.home / "state").write_text("a file where a folder should be")
    claude.more["XDG_STATE_HOME"] = str(claude.home / "state")
    claude.talk(3)
    told = claude.hook(name)
    assert (told.code, told.out, told.err) == (0, "", "")
    assert len(claude.stored()[KEY]) == 6
    assert "Last request" in claude.hook("SessionStart", source="compact").context


def test_an_archive_that_is_locked_gets_it_when_it_is_free(claude: Claude) -> None:
    claude.talk(1)
    claude.hook("Stop")
    claude.talk(1, start=1)
    claude.more["LCM_HOOK_WAIT_MS"] = "300"
    other = sqlite3.connect(claude.archive, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    start = time.monotonic()
    told = claude.hook("Stop")
    took = time.monotonic() - start
    other.execute("ROLLBACK")
    other.close()
    assert (told.code, told.out, told.err) == (0, "", "")
    assert took < 5
    wait_for(lambda: len(claude.stored()[KEY]) == 4)


@pytest.mark.parametrize("content", [b"this is no database " * 300, b"SQLite format 3\0" + b"\x55" * 9000])
def test_a_broken_archive_is_said_and_left_alone(claude: Claude, content: bytes) -> None:
    claude.talk(1)
    claude.archive.write_bytes(content)
    told = claude.hook("Stop")
    assert told.code == 0
    assert str(claude.archive) in told.err
    assert "not everything was stored" in warning(told.out)
    assert claude.hook("UserPromptSubmit", prompt="Go on.").code == 0
    assert claude.hook("SessionStart", source="compact").code == 0
    assert claude.archive.read_bytes() == content


def test_what_went_wrong_behind_a_hooks_back_is_said_by_the_next(claude: Claude) -> None:
    claude.more["LCM_HOOK_WAIT_MS"] = "0"
    claude.talk(1)
    claude.archive.write_bytes(b"this is no database " * 300)
    assert claude.hook("Stop").out == ""
    folder = claude.home / ".local" / "state" / "lossless" / "hooks"
    wait_for(lambda: any("not a SQLite database" in note.read_text() for note in folder.glob("*.json")))
    told = claude.hook("Stop")
    assert "not a SQLite database" in told.err
    assert "not a SQLite database" in warning(told.out)
    claude.archive.unlink()
    claude.hook("Stop")
    wait_for(lambda: not any("not a SQLite database" in note.read_text() for note in folder.glob("*.json")))
    assert claude.hook("Stop").out == ""
    assert len(claude.stored()[KEY]) == 2


def test_an_event_without_end_is_read_to_its_end(claude: Claude) -> None:
    claude.talk(1)
    huge = json.dumps(claude.event("UserPromptSubmit", prompt="x" * (33 << 20))).encode()
    told = claude.send(huge)
    assert (told.code, told.out) == (0, "")
    assert "less than 32 MB" in told.err
    claude.hook("Stop")
    assert len(claude.stored()[KEY]) == 2


def test_streams_that_are_closed_are_no_reason_to_fail(claude: Claude) -> None:
    command = f"exec {shlex.join(HOOK)} 0<&- 1>&- 2>&-"
    assert subprocess.run(["sh", "-c", command], env=claude.environment, check=False, timeout=60).returncode == 0


@pytest.mark.parametrize("arguments", [["--no-such-option"], ["{"], []], ids=["an option", "half an event", "nothing"])
def test_the_slower_command_does_not_fail_either(claude: Claude, arguments: list[str]) -> None:
    command = [sys.executable, "-m", "lossless.cli.main", "hook", *arguments]
    done = subprocess.run(command, input=b"", capture_output=True, env=claude.environment, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr.startswith(b"lcm-hook: ")


def test_the_slower_command_takes_an_event_as_an_argument(claude: Claude) -> None:
    claude.talk(1)
    command = [sys.executable, "-m", "lossless.cli.main", "hook", json.dumps(claude.event("Stop"))]
    subprocess.run(command, input=b"", env=claude.environment, check=True, timeout=60)
    assert len(claude.stored()[KEY]) == 2


# --- a session that goes on another day -----------------------------------------------------------


def test_a_compacted_session_that_is_resumed_is_told_where_things_stand(claude: Claude) -> None:
    claude.talk(3)
    claude.hook("PreCompact", trigger="auto")
    assert claude.hook("SessionStart", source="resume").context == ""  # the compaction was called off
    claude.hook("SessionStart", source="compact")
    claude.say("user", "And now the timetable.")
    claude.hook("Stop")
    told = claude.hook("SessionStart", source="resume")
    assert told.context.index("And now the timetable.") > told.context.index("Last request of the user")
    assert claude.hook("SessionStart", source="startup").context == ""


def test_codex_remembers_by_itself_what_it_was_told() -> None:
    event: dict[str, object] = {"hook_event_name": "SessionStart", "source": "resume"}
    known: dict[str, object] = {"compacted": True}
    assert notes.comes_back(event | {"transcript_path": "/x/11111111.jsonl"}, known)
    assert not notes.comes_back(event | {"transcript_path": "/x/rollout-2026-07-01.jsonl"}, known)
    assert not notes.comes_back(event | {"transcript_path": "/x/11111111.jsonl"}, {})
