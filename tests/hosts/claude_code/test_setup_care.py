"""Files of other programs as they really are: odd characters, other line ends, no room; and what people are told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.errors import BadInput
from lossless.hosts import codex
from lossless.hosts.claude_code import setup
from lossless.hosts.config_files import FileEdit, apply_edits, read_object, write_object
from lossless.hosts.hook_config import SERVER_NAME, events_with_hooks, host_commands
from tests.hosts.claude_code.test_setup import changes, lcm

NOW = datetime(2026, 7, 1, tzinfo=UTC)
COMMANDS = (("/bin/lcm-hook",), ("/bin/lcm", "mcp"))


def args_of(home: Path) -> list[str]:
    found: list[str] = json.loads((home / ".claude.json").read_text())["mcpServers"][SERVER_NAME]["args"]
    return found


def hook_of(home: Path, file: str = ".claude/settings.json") -> str:
    (command,) = set(events_with_hooks(json.loads((home / file).read_text())).values())
    return command


# --- files ----------------------------------------------------------------------------------------


def test_half_a_character_in_the_history_of_prompts_stays_as_it_is(tmp_path: Path) -> None:
    servers = tmp_path / ".claude.json"
    text = '{\n  "history": ["cut \\ud83d here", "\\ud83d\\ude00", "ü"],\n  "cost": 1.10,\n  "far": 1e3\n}\n'
    servers.write_text(text)
    assert changes(lcm(tmp_path, "install", "claude-code")) == ["created", "changed", "created"]
    assert servers.read_text().startswith(text.removesuffix("\n}\n"))
    lcm(tmp_path, "uninstall", "claude-code")
    assert servers.read_text() == text


#: Files of other programs hold halves of characters, where a text was cut.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.just("\ud83d"), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=8), JSON, min_size=1), st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_any_json_that_was_read_can_be_written(value: dict[str, Any], is_ascii: bool, indent: int | str | None) -> None:
    text = write_object(value, None) if not is_ascii else json.dumps(value, indent=indent)
    assert json.loads(write_object(value, text).encode()) == read_object(Path("x"), text) == value


@pytest.mark.parametrize("text", ['{"a": 1}', '{\r\n\t"a": [1],\r\n\t"mcpServers": {\r\n\t\t"x": {}\r\n\t}\r\n}', "{}"])
def test_json_comes_back_as_it_was_written(tmp_path: Path, text: str) -> None:
    places = setup.project_files(tmp_path)
    places.servers.write_bytes(text.encode())
    apply_edits(setup.install_edits(places, COMMANDS), NOW)
    made = places.servers.read_bytes().decode()
    assert made.count("\r") == (made.count("\n") if "\r" in text else 0)
    apply_edits(setup.uninstall_edits(places), NOW)
    assert places.servers.read_bytes().decode() == text


def test_a_config_of_codex_keeps_its_line_ends(tmp_path: Path) -> None:
    places = codex.project_files(tmp_path)
    places.servers.parent.mkdir()
    text = b'model = "o9" # mine\r\n\r\n[tui]\r\nx = 1\r\n'
    places.servers.write_bytes(text)
    done = apply_edits(codex.install_edits(places, COMMANDS), NOW)
    made = places.servers.read_bytes()
    assert made.startswith(text)
    assert made.count(b"\n") == made.count(b"\r\n") > text.count(b"\n")
    assert done[1].backup is not None
    assert done[1].backup.read_bytes() == text
    apply_edits(codex.uninstall_edits(places), NOW)
    assert places.servers.read_bytes() == text


def test_a_skill_with_other_line_ends_is_not_taken_for_changed(tmp_path: Path) -> None:
    places = setup.project_files(tmp_path)
    apply_edits(setup.install_edits(places, COMMANDS), NOW)
    assert places.skill is not None
    places.skill.write_bytes(places.skill.read_bytes().replace(b"\n", b"\r\n"))
    assert [edit.change for edit in setup.install_edits(places, COMMANDS)] == ["unchanged"] * 3
    apply_edits(setup.uninstall_edits(places), NOW)
    assert not (tmp_path / ".claude" / "skills").exists()


def test_a_folder_of_skills_with_others_in_it_stays(tmp_path: Path) -> None:
    places = setup.project_files(tmp_path)
    apply_edits(setup.install_edits(places, COMMANDS), NOW)
    (tmp_path / ".claude" / "skills" / "mine").mkdir()
    apply_edits(setup.uninstall_edits(places), NOW)
    assert [path.name for path in (tmp_path / ".claude" / "skills").iterdir()] == ["mine"]


def test_every_copy_has_a_name_of_its_own_within_one_second(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("0")
    copies = [apply_edits([FileEdit(path, str(turn), str(turn + 1))], NOW)[0].backup for turn in range(4)]
    assert [copy.read_text() for copy in copies if copy is not None] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("last", ["changed", "a half", "a file for a folder"])
def test_when_one_file_cannot_be_written_none_is(tmp_path: Path, last: str) -> None:
    first, other = tmp_path / "new" / "first", tmp_path / "other"
    kept = tmp_path / "kept"
    kept.write_text("mine")
    edit = FileEdit(other, None, "x")
    if last == "changed":
        other.write_text("somebody else's")
    elif last == "a half":
        edit = FileEdit(other, None, "\ud83d")
    else:
        edit = FileEdit(kept / "below", None, "x")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    with pytest.raises(BadInput, match=r"another program|cannot be (written|read)"):
        apply_edits([FileEdit(first, None, "x"), FileEdit(kept, "mine", "ours"), edit], NOW)
    assert sorted(path.name for path in tmp_path.rglob("*")) == before
    assert kept.read_text() == "mine"


def test_permissions_stay_whatever_new_files_get(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("{}")
    path.chmod(0o666)
    (done,) = apply_edits([FileEdit(path, "{}", "{ }")], NOW)
    assert done.backup is not None
    assert [one.stat().st_mode & 0o777 for one in (path, done.backup)] == [0o666] * 2


# --- which archive --------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_the_archive_of_an_installation_stays_until_another_one_is_named(tmp_path: Path, host: str) -> None:
    mine, other = str(tmp_path / "my own.db"), str(tmp_path / "other.db")
    assert lcm(tmp_path, "--db", mine, "install", host)["archive"] == mine
    (tmp_path / "lossless.toml").write_text('databasePath = "/somewhere/else.db"\n')
    again = lcm(tmp_path, "install", host)
    assert (again["archive"], set(changes(again))) == (mine, {"unchanged"})
    moved = lcm(tmp_path, "--db", other, "install", host)
    assert (moved["archive"], changes(moved)[:2]) == (other, ["changed"] * 2)


def test_a_config_file_that_was_written_down_stays_and_names_the_archive(tmp_path: Path) -> None:
    config = tmp_path / "own" / "lossless.toml"
    config.parent.mkdir()
    config.write_text(f'databasePath = "{tmp_path}/named.db"\n')
    lcm(tmp_path, "--config", str(config), "install", "claude-code")
    again = lcm(tmp_path, "install", "claude-code")
    assert (again["archive"], set(changes(again))) == (f"{tmp_path}/named.db", {"unchanged"})
    assert args_of(tmp_path) == ["--config", str(config), "mcp"]
    lcm(tmp_path, "--db", "mine.db", "install", "claude-code")
    assert args_of(tmp_path) == ["--db", f"{tmp_path}/mine.db", "--config", str(config), "mcp"]
    lcm(tmp_path, "--config", str(config), "install", "claude-code")
    assert "--db" not in hook_of(tmp_path)


def test_the_archive_of_the_server_counts_when_no_hook_is_there(tmp_path: Path) -> None:
    lcm(tmp_path, "--db", "mine.db", "install", "claude-code")
    (tmp_path / ".claude" / "settings.json").unlink()
    lcm(tmp_path, "install", "claude-code")
    assert hook_of(tmp_path).endswith(f"--db {tmp_path}/mine.db")


def test_the_usual_archive_is_named_too(tmp_path: Path) -> None:
    assert lcm(tmp_path, "install", "codex", "--dry-run")["archive"] == f"{tmp_path}/.local/share/lossless/lcm.db"
    there = lcm(tmp_path, "--openclaw-dir", f"{tmp_path}/state", "install", "codex")
    assert there["archive"] == f"{tmp_path}/state/lcm.db"
    assert hook_of(tmp_path, ".codex/hooks.json").endswith(f"--db {tmp_path}/state/lcm.db")


# --- what people are told -------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_a_server_that_cannot_start_is_spoken_of(tmp_path: Path, host: str) -> None:
    code = "import sys; sys.modules['mcp'] = None; from lossless.cli.main import main; main()"
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LCM_", "OPENCLAW_", "XDG_", "C"))}
    command = [sys.executable, "-c", code, "install", host]
    done = subprocess.run(command, capture_output=True, env=env | {"HOME": str(tmp_path)}, cwd=tmp_path, check=True)
    (said,) = json.loads(done.stdout)["data"]["remarks"]
    assert "cannot start" in said
    assert "pip install 'lossless[mcp]'" in said
    command += ["--format", "table", "--dry-run"]
    shown = subprocess.run(command, capture_output=True, env=env | {"HOME": str(tmp_path)}, cwd=tmp_path, check=True)
    words = "".join(shown.stdout.decode().split())
    assert "lossless[mcp]" in words
    assert f"archive~/.local/share/lossless/lcm.dbanotherone:lcm--dbPATHconnect{host}" in words
    assert lcm(tmp_path, "install", host)["remarks"] == []


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        (".claude/settings.json", '{"hooks": []}', "`hooks` is not an object"),
        (".claude/settings.json", '{"hooks": {"Stop": {}}}', "`hooks.Stop` is not a list"),
        (".mcp.json", '{"mcpServers": {"lossless": {"command": "npx"}}}', "another MCP server"),
    ],
)
def test_a_wrong_shape_is_said_with_its_file(tmp_path: Path, file: str, text: str, said: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        setup.install_edits(setup.project_files(tmp_path), COMMANDS)
    assert str(path) in str(caught.value)
    assert said in str(caught.value)


def test_a_command_that_is_not_there_is_said_with_the_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput) as caught:
        host_commands()
    assert "'lcm-hook' is neither in" in str(caught.value)
    assert str(tmp_path / "bin") in str(caught.value)
    assert "-m pip install" in str(caught.value)
