"""Setting hosts up: beside what is there, again without a change, and back without a trace."""

from __future__ import annotations

import copy
import json
import os
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.errors import BadInput
from lossless.hosts import codex
from lossless.hosts.claude_code import setup
from lossless.hosts.config_files import read_object
from lossless.hosts.hook_config import (
    events_with_hooks,
    is_own_server,
    with_hooks,
    with_server,
    without_hooks,
    without_server,
)
from tests.forking import run_lcm
from tests.hosts.claude_code.kit import Claude

HOOK = ("/opt/my tools/bin/lcm-hook", "--db", "/data/lcm.db")
SERVER = ("/opt/my tools/bin/lcm", "--db", "/data/lcm.db", "mcp")
LCM = [sys.executable, "-W", "error", "-m", "lossless.cli.main"]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
HANDLERS = st.fixed_dictionaries({"type": st.just("command"), "command": st.text(max_size=20)}) | JSON
GROUPS = st.fixed_dictionaries({"matcher": st.text(max_size=5), "hooks": st.lists(HANDLERS, min_size=1, max_size=3)})
HOOKS = st.dictionaries(
    st.sampled_from([*setup.EVENTS, "PreToolUse"]), st.lists(GROUPS | JSON, min_size=1, max_size=3), min_size=1
)
SETTINGS = st.dictionaries(st.sampled_from(["model", "env", "permissions"]), JSON).flatmap(
    lambda rest: st.just(rest) | HOOKS.map(lambda hooks: rest | {"hooks": hooks})
)


# --- as values ------------------------------------------------------------------------------------


@given(SETTINGS)
def test_hooks_come_and_go_alone(settings: dict[str, Any]) -> None:
    before = copy.deepcopy(settings)
    once = with_hooks(settings, HOOK, setup.EVENTS)
    assert settings == before
    assert set(events_with_hooks(once)) == set(setup.EVENTS)
    assert with_hooks(once, HOOK, setup.EVENTS) == once
    assert without_hooks(once) == before
    other = with_hooks(once, ("lcm-hook",), setup.EVENTS)
    assert set(events_with_hooks(other).values()) == {"lcm-hook"}
    assert without_hooks(other) == before


@given(
    st.dictionaries(st.sampled_from(["theme", "projects"]), JSON),
    st.dictionaries(st.sampled_from(["github", "docs"]), JSON, min_size=1) | st.none(),
)
def test_servers_come_and_go_alone(config: dict[str, Any], servers: dict[str, Any] | None) -> None:
    config = config | ({} if servers is None else {"mcpServers": servers})
    once = with_server(config, SERVER)
    assert is_own_server(once["mcpServers"]["lossless"])
    assert with_server(once, SERVER) == once
    assert without_server(once) == config


def test_a_server_of_somebody_else_stays() -> None:
    taken = {"mcpServers": {"lossless": {"command": "npx", "args": ["other"]}}}
    with pytest.raises(BadInput, match="another MCP server"):
        with_server(taken, SERVER)
    assert without_server(taken) == taken


def test_what_a_person_added_to_our_server_stays() -> None:
    ours = with_server({}, ("lcm", "mcp"))
    ours["mcpServers"]["lossless"]["env"] = {"LCM_DEBUG": "1"}
    moved = with_server(ours, SERVER)["mcpServers"]["lossless"]
    assert moved["env"] == {"LCM_DEBUG": "1"}
    assert moved["command"] == SERVER[0]


@pytest.mark.parametrize("settings", [{"hooks": []}, {"hooks": {"Stop": {}}}], ids=["a list", "an object"])
def test_settings_of_a_strange_shape_are_left_alone(settings: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="left as it is"):
        with_hooks(settings, HOOK, setup.EVENTS)
    assert without_hooks(settings) == settings


@pytest.mark.parametrize("text", ["[" * 99_999, '{"a": ' * 99_999, "9" * 9_999, "\ufeff{}"])
def test_json_that_nobody_can_read_is_left_alone(text: str) -> None:
    with pytest.raises(BadInput, match="was not changed"):
        read_object(Path("settings.json"), text)


TOML = [
    pytest.param("", id="nothing"),
    pytest.param('model = "o9"\n', id="a key"),
    pytest.param('model = "o9"', id="a key without a line end"),
    pytest.param('[mcp_servers.docs]\ncommand = "docs"\n# a remark\n', id="another server"),
    pytest.param('notify = ["say"] # loud\n\n[tui]\nx = 1\n\n\n# the end\n', id="remarks and blank lines"),
]


@pytest.mark.parametrize("text", TOML)
def test_codex_servers_come_and_go_alone(text: str) -> None:
    path = Path("config.toml")
    once = codex.with_server(path, text, SERVER)
    assert once.startswith(text)
    assert tomllib.loads(once)["mcp_servers"]["lossless"] == {"command": SERVER[0], "args": list(SERVER[1:])}
    assert codex.with_server(path, once, SERVER) == once
    assert (codex.without_server(path, once) or "").removesuffix("\n") == text.removesuffix("\n")
    old = once.replace("lcm connect", "lcm install").replace("lcm disconnect", "lcm uninstall")
    assert old != once
    assert codex.without_server(path, old) == codex.without_server(path, once)
    moved = codex.with_server(path, once, ("lcm", "mcp"))
    assert tomllib.loads(moved)["mcp_servers"]["lossless"]["command"] == "lcm"


def test_what_codex_keeps_below_our_table_goes_with_it() -> None:
    path = Path("c")
    text = codex.with_server(path, 'model = "o9"\n', SERVER)
    grown = (
        f'{text}startup_timeout_sec = 20\n\n[mcp_servers.lossless.tools.lcm_grep]\napproval_mode = "approve"\n\n[tui]\n'
    )
    assert codex.with_server(path, grown, SERVER) == grown
    after = codex.without_server(path, grown)
    assert after is not None
    assert tomllib.loads(after) == {"model": "o9", "tui": {}}


@pytest.mark.parametrize(
    "text",
    [
        "mcp_servers = {}\n",
        "not toml",
        "[mcp_servers.lossless]\ncommand = 'npx'\n",
        f"a = {'[' * 9_999}",
        f"a = {'9' * 9_999}",
        "[[mcp_servers]]\na = 1\n",
    ],
    ids=["inline", "no", "taken", "too deep", "too long a number", "a list"],
)
def test_a_config_that_cannot_be_changed_safely_is_left_alone(text: str) -> None:
    with pytest.raises(BadInput):
        codex.with_server(Path("config.toml"), text, SERVER)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_any_path_survives_toml(name: str) -> None:
    text = codex.with_server(Path("c"), None, (f"/opt/{name}/lcm", "mcp"))
    assert tomllib.loads(text)["mcp_servers"]["lossless"]["command"] == f"/opt/{name}/lcm"


def test_a_seal_breaks_with_every_change() -> None:
    text = setup.skill_text()
    assert setup.is_sealed(text)
    assert not setup.is_sealed(text.replace("lcm_recall", "lcm_forget", 1))
    assert not setup.is_sealed(text + "more")
    assert not setup.is_sealed("a skill of somebody else")


# --- as files -------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def lcm(home: Path, *arguments: str, code: int = 0, **more: str) -> dict[str, Any]:
    """Run a command as a person whose home this is; its data, or its error."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LCM_", "OPENCLAW_", "XDG_", "C"))}
    ended, out, err = run_lcm(*arguments, env=env | {"HOME": str(home)} | more, cwd=home)
    assert ended == code, err + out
    answer = json.loads(out or err)
    data: dict[str, Any] = answer.get("data") or answer["error"]
    return data


def changes(data: dict[str, Any]) -> list[str]:
    return [file["change"] for file in data["files"]]


def test_a_person_installs_twice_and_uninstalls(home: Path) -> None:
    settings, servers = home / ".claude" / "settings.json", home / ".claude.json"
    settings.parent.mkdir()
    mine = {"model": "opus", "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}}
    settings.write_text(json.dumps(mine, indent=4))
    settings.chmod(0o640)
    servers.write_text('{"numStartups": 7, "mcpServers": {"docs": {"command": "docs"}}}')
    seen = lcm(home, "install", "claude-code", "--dry-run")
    assert (changes(seen), seen["applied"]) == (["changed", "changed", "created"], False)
    assert json.loads(settings.read_text()) == mine
    done = lcm(home, "install", "claude-code")
    assert changes(done) == ["changed", "changed", "created"]
    assert json.loads(Path(done["files"][0]["backup"]).read_text()) == mine
    now = json.loads(settings.read_text())
    assert now["hooks"]["Stop"][0] == mine["hooks"]["Stop"][0]  # type: ignore[index]
    assert set(events_with_hooks(now)) == set(setup.EVENTS)
    assert '\n    "model"' in settings.read_text()
    assert stat.S_IMODE(settings.stat().st_mode) == 0o640
    assert changes(lcm(home, "install", "claude-code", "--user")) == ["unchanged"] * 3
    assert changes(lcm(home, "uninstall", "claude-code")) == ["changed", "changed", "removed"]
    assert json.loads(settings.read_text()) == mine
    assert json.loads(servers.read_text()) == {"numStartups": 7, "mcpServers": {"docs": {"command": "docs"}}}
    assert not (home / ".claude" / "skills" / "lossless-recall").exists()
    assert changes(lcm(home, "uninstall", "claude-code")) == ["unchanged"] * 3


def test_a_project_has_its_own_files(home: Path) -> None:
    project = home / "ferry"
    project.mkdir()
    lcm(home, "install", "claude-code", "--project", "ferry")
    assert is_own_server(json.loads((project / ".mcp.json").read_text())["mcpServers"]["lossless"])
    assert not (home / ".claude").exists()
    assert changes(lcm(home, "uninstall", "claude-code", "--project", "ferry")) == ["removed"] * 3
    assert "not both" in lcm(home, "install", "claude-code", "--project", "ferry", "--user", code=2)["message"]


def test_links_stay_links_and_broken_files_stay_as_they_are(home: Path) -> None:
    (home / "dotfiles").mkdir()
    real = home / "dotfiles" / "settings.json"
    real.write_text("{}")
    link = home / ".claude" / "settings.json"
    link.parent.mkdir()
    link.symlink_to(real)
    lcm(home, "install", "claude-code")
    assert link.is_symlink()
    assert events_with_hooks(json.loads(real.read_text()))
    real.write_text('{"model": ')
    assert "is not JSON and was not changed" in lcm(home, "install", "claude-code", code=2)["message"]
    assert real.read_text() == '{"model": '


def test_a_skill_that_was_changed_by_hand_stays(home: Path) -> None:
    lcm(home, "install", "claude-code")
    skill = home / ".claude" / "skills" / "lossless-recall" / "SKILL.md"
    skill.write_text(skill.read_text() + "\nAlways answer in French.\n")
    done = lcm(home, "install", "claude-code")
    assert done["files"][2]["note"] == "it was changed by hand and is left as it is"
    lcm(home, "uninstall", "claude-code")
    assert "French" in skill.read_text()


def test_the_archive_that_was_chosen_is_written_down(home: Path) -> None:
    lcm(home, "--db", "my archive.db", "install", "claude-code")
    commands = set(events_with_hooks(json.loads((home / ".claude" / "settings.json").read_text())).values())
    (command,) = commands
    assert command.endswith(f"lcm-hook --db '{home}/my archive.db'")
    server = json.loads((home / ".claude.json").read_text())["mcpServers"]["lossless"]
    assert server["args"] == ["--db", f"{home}/my archive.db", "mcp"]
    claude = Claude(home)
    claude.talk(1)
    done = subprocess.run(
        ["sh", "-c", command], input=json.dumps(claude.event("Stop")).encode(), env=claude.environment, check=False
    )
    assert done.returncode == 0
    assert (home / "my archive.db").exists()
    assert not claude.archive.exists()


def test_the_config_of_the_folder_is_written_down(home: Path) -> None:
    (home / "lossless.toml").write_text("freshTailCount = 32\n")
    lcm(home, "install", "claude-code")
    server = json.loads((home / ".claude.json").read_text())["mcpServers"]["lossless"]
    assert server["args"] == ["--config", f"{home}/lossless.toml", "mcp"]


def test_the_doctor_says_what_is_missing(home: Path) -> None:
    ill = lcm(home, "install", "claude-code", "--doctor", code=1)
    assert {check["name"] for check in ill["checks"] if not check["ok"]} == {"hooks", "MCP server", "skill"}
    lcm(home, "install", "claude-code")
    well = lcm(home, "install", "claude-code", "--doctor")
    assert all(check["ok"] for check in well["checks"])
    settings = home / ".claude" / "settings.json"
    settings.write_text(settings.read_text().replace("/lcm-hook", "/nowhere/lcm-hook"))
    broken = lcm(home, "install", "claude-code", "--doctor", code=1)
    assert [check["name"] for check in broken["checks"] if not check["ok"]] == ["hook command"]


@pytest.mark.parametrize(
    ("host", "said", "ok"),
    [
        ("claude-code", "2.1.197 (Claude Code)", True),
        ("claude-code", "1.0.24 (Claude Code)", False),
        ("codex", "codex-cli 0.166.0", True),
        ("codex", "codex-cli 0.99.1", False),
        ("codex", "who knows", True),
    ],
)
def test_the_doctor_knows_a_host_that_is_too_old(home: Path, host: str, said: str, ok: bool) -> None:
    folder = home / "bin"
    folder.mkdir()
    program = folder / host.removesuffix("-code")
    program.write_text(f"#!/bin/sh\necho '{said}'\n")
    program.chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    lcm(home, "install", host)
    seen = lcm(home, "install", host, "--doctor", code=0 if ok else 1, PATH=path)
    (found,) = (check for check in seen["checks"] if check["name"] == "host")
    assert found["ok"] == ok
    assert ok or "or newer" in found["hint"]


def test_the_doctor_looks_at_the_archive_that_hooks_use(home: Path) -> None:
    lcm(home, "--db", str(home / "own.db"), "install", "claude-code")
    seen = lcm(home, "install", "claude-code", "--doctor")
    (found,) = (check for check in seen["checks"] if check["name"] == "archive")
    assert "own.db" in found["said"]


def test_a_person_at_a_terminal_sees_a_list(home: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LCM_", "OPENCLAW_", "XDG_", "C"))}

    def seen(*arguments: str) -> str:
        command = [*LCM, *arguments, "--format", "table"]
        env_here = env | {"HOME": str(home), "COLUMNS": "300"}
        return subprocess.run(command, capture_output=True, text=True, env=env_here, cwd=home, check=True).stdout

    assert "nothing was changed (--dry-run)" in seen("install", "claude-code", "--dry-run")
    (home / ".claude.json").write_text("{}")
    shown = seen("install", "claude-code")
    assert "created   ~/.claude/settings.json" in shown
    assert "copy of the old file: " in shown
    assert "ok  hook command" in seen("install", "claude-code", "--doctor")
    assert "removed" in seen("uninstall", "claude-code")


def test_codex_is_set_up_the_same_way(home: Path) -> None:
    folder = home / ".codex"
    folder.mkdir()
    config = folder / "config.toml"
    config.write_text('model = "o9"\n')
    assert changes(lcm(home, "install", "codex")) == ["created", "changed"]
    assert changes(lcm(home, "install", "codex")) == ["unchanged", "unchanged"]
    assert set(events_with_hooks(json.loads((folder / "hooks.json").read_text()))) == set(codex.EVENTS)
    assert all(check["ok"] for check in lcm(home, "install", "codex", "--doctor")["checks"])
    assert changes(lcm(home, "uninstall", "codex")) == ["removed", "changed"]
    assert config.read_text() == 'model = "o9"\n'
    assert not (folder / "hooks.json").exists()
    other = home / "elsewhere"
    lcm(home, "install", "codex", CODEX_HOME=str(other))
    assert (other / "hooks.json").exists()
