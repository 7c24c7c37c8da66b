"""Hooks when things are not as they should be: the host goes on, nothing is lost, and what is wrong is said."""

from __future__ import annotations

import json
import shlex
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from lossless.hosts.claude_code import session_cache
from lossless.hosts.claude_code.session_cache import holds_reference
from tests.hosts.claude_code.kit import HOOK, PROJECT, SESSION, Claude
from tests.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

KEY = f"claude-code:{PROJECT}:{SESSION}"


@pytest.fixture
def claude(tmp_path: Path) -> Claude:
    return Claude(tmp_path)


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
    told = claude.hook("Stop")
    other.execute("ROLLBACK")
    other.close()
    assert (told.code, told.out, told.err) == (0, "", "")
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


def is_compacted(claude: Claude) -> bool:
    """Whether the process behind the hook has written down that the context was compacted."""
    notes = (claude.home / ".local" / "state" / "lossless" / "hooks").glob("*.json")
    return any(json.loads(note.read_text()).get("compacted") for note in notes)


def test_a_compacted_session_that_has_lost_what_it_was_told_is_told_again(claude: Claude) -> None:
    """Claude Code before it wrote into transcripts what hooks tell the model."""
    claude.talk(3)
    claude.hook("PreCompact", trigger="auto")
    assert claude.hook("SessionStart", source="resume").context == ""  # the compaction was called off
    claude.hook("SessionStart", source="compact")
    wait_for(lambda: is_compacted(claude))
    claude.say("user", "And now the timetable.")
    claude.hook("Stop")
    told = claude.hook("SessionStart", source="resume")
    assert told.context.index("And now the timetable.") > told.context.index("Last request of the user")
    assert claude.hook("SessionStart", source="startup").context == ""


def test_a_compacted_session_that_knows_what_it_was_told_is_not_told_again(claude: Claude) -> None:
    claude.talk(3)
    claude.hook("PreCompact", trigger="manual")
    claude.add({"type": "system", "subtype": "compact_boundary", "content": "Conversation compacted"})
    told = claude.hook("SessionStart", source="compact").context
    claude.add(attachment(told))
    wait_for(lambda: is_compacted(claude))
    claude.say("user", "And now the timetable.")
    claude.hook("Stop")
    assert claude.hook("SessionStart", source="resume").context == ""
    claude.say("user", "And the fares.")
    assert claude.hook("SessionStart", source="resume").context == ""
    claude.hook("Stop")
    assert "And the fares." in claude.stored()[KEY]
    claude.hook("PreCompact", trigger="manual")
    claude.add({"type": "system", "subtype": "compact_boundary", "content": "Conversation compacted"})
    assert "And the fares." in claude.hook("SessionStart", source="compact").context
    assert "And the fares." in claude.hook("SessionStart", source="resume").context  # it was not written down


BOUNDARY = {"type": "system", "subtype": "compact_boundary"}
QUOTED = {"type": "user", "message": {"role": "user", "content": "compact_boundary <lossless_reference x"}}


def attachment(text: str) -> dict[str, Any]:
    told = {"type": "hook_additional_context", "content": [text], "hookEvent": "SessionStart"}
    return {"type": "attachment", "attachment": told}


@pytest.mark.parametrize(
    ("records", "holds"),
    [
        ([], False),
        ([QUOTED], False),
        ([BOUNDARY, attachment("<lossless_reference 1>"), QUOTED], True),
        ([attachment("<lossless_reference 1>"), BOUNDARY, QUOTED], False),
        ([BOUNDARY, attachment("something else"), QUOTED], False),
        ([BOUNDARY, attachment("<lossless_reference 1>"), *[QUOTED | {"x": "ü" * 999_999}] * 3], True),
        ([BOUNDARY, attachment("<lossless_reference " + "ü" * 999_999)], True),
    ],
)
def test_the_end_of_a_transcript_says_what_is_known(tmp_path: Path, records: list[Any], holds: bool) -> None:
    path = tmp_path / "x.jsonl"
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    path.write_text("".join(lines) + '{"half": "<lossless_reference ', encoding="utf-8")
    assert holds_reference(str(path)) == holds
    assert not holds_reference(str(tmp_path / "nowhere"))


def test_codex_remembers_by_itself_what_it_was_told() -> None:
    event: dict[str, object] = {"hook_event_name": "SessionStart", "source": "resume"}
    known: dict[str, object] = {"compacted": True}
    assert session_cache.needs_reference(event | {"transcript_path": "/x/11111111.jsonl"}, known)
    assert not session_cache.needs_reference(event | {"transcript_path": "/x/rollout-2026-07-01.jsonl"}, known)
    assert not session_cache.needs_reference(event | {"transcript_path": "/x/11111111.jsonl"}, {})
