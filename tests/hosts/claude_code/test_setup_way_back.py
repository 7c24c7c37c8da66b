"""Installing and taking it away again leaves files as they were, byte by byte; keys of other people stay meanwhile."""

from __future__ import annotations

import json
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.errors import BadInput
from lossless.hosts import codex
from lossless.hosts.claude_code import setup
from lossless.hosts.config_files import apply_edits, record_path
from tests.hosts.claude_code.test_setup import lcm

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.hosts.hook_config import HostFiles

NOW = datetime(2026, 7, 1, tzinfo=UTC)
OLD = (("/old/lcm-hook",), ("/old/lcm", "mcp"))
NEW = (("/new/lcm-hook",), ("/new/lcm", "--db", "/data/lcm.db", "mcp"))


def claude(folder: Path, settings: str | None, servers: str | None) -> HostFiles:
    places = setup.project_files(folder)
    write(places.settings, settings)
    write(places.servers, servers)
    return places


def of_codex(folder: Path, config: str | None, hooks: str | None = None) -> HostFiles:
    places = codex.project_files(folder)
    write(places.servers, config)
    write(places.settings, hooks)
    return places


def write(path: Path, text: str | None) -> None:
    if text is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def files(folder: Path) -> dict[str, bytes]:
    """All files but the copies."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".bak")
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def goes_there_and_back(folder: Path, host: Any, places: Any) -> None:
    before = files(folder)
    for commands in (OLD, NEW, NEW):
        apply_edits(host.install_edits(places, commands), NOW)
    assert {edit.change for edit in host.install_edits(places, NEW)} == {"unchanged"}
    assert files(folder) != before
    apply_edits(host.uninstall_edits(places), NOW)
    assert files(folder) == before
    assert {edit.change for edit in host.uninstall_edits(places)} == {"unchanged"}


JSON_TEXTS = [
    *(None, "", "  \n", "{}", "{}\n", "{ }", "{\n}\n", '{"model": "x"}', "\r\n{\r\n}\r\n"),
    *(
        '{"hooks": {}, "mcpServers": {}}\n',
        '{"hooks": {"Stop": []},"mcpServers":{ }}',
        '{"mcpServers":{"lossless":null}}',
    ),
    '{\n  "hooks": {\n    "Stop": [],\n    "PreToolUse": [ ]\n  },\n  "mcpServers": {\n  }\n}',
    '{"hooks": {"Stop": [{"hooks": []}]}, "far": 1e3, "u": "\\u00e9\\/"}',
]
TOML_TEXTS = [
    *(None, "", "\n\n", 'model = "x"', 'model = "x"\r\n[a]\r\nb = 1', "# only a remark\n\n\n", "[mcp_servers]"),
    'notes = """\n[mcp_servers.lossless]\ncommand = "lcm"\n"""\n',
]


@pytest.mark.parametrize("text", JSON_TEXTS)
def test_json_files_are_as_they_were(tmp_path: Path, text: str | None) -> None:
    goes_there_and_back(tmp_path, setup, claude(tmp_path, text, text))


@pytest.mark.parametrize("text", TOML_TEXTS)
def test_a_config_of_codex_is_as_it_was(tmp_path: Path, text: str | None) -> None:
    goes_there_and_back(tmp_path, codex, of_codex(tmp_path, text, "{}"))


SPACE = st.sampled_from(["", " ", "\n", "\n  ", "\r\n\t"])
EMPTY = st.builds(lambda pair, space: pair[0] + space + pair[1], st.just("[]"), SPACE)
GROUPS = EMPTY | st.just('[{"hooks":[{"type":"command","command":"say"}]}]')


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Settings as people and programs write them, with much that is empty."""
    events = draw(st.dictionaries(st.sampled_from([*setup.EVENTS, "PreToolUse"]), GROUPS, max_size=3))
    members = {}
    if draw(st.booleans()):
        members["hooks"] = _object(draw, events)
    if draw(st.booleans()):
        members["mcpServers"] = _object(draw, {"docs": '{"command":"docs"}'} if draw(st.booleans()) else {})
    if draw(st.booleans()):
        members["model"] = '"o9"'
    return draw(SPACE) + _object(draw, members) + draw(SPACE)


def _object(draw: st.DrawFn, members: dict[str, str]) -> str:
    held = (draw(SPACE) + json.dumps(key) + ":" + draw(SPACE) + value for key, value in members.items())
    return "{" + ",".join(held) + draw(SPACE) + "}"


@given(documents(), documents())
def test_any_settings_are_as_they_were(settings: str, servers: str) -> None:
    with TemporaryDirectory() as folder:
        goes_there_and_back(Path(folder), setup, claude(Path(folder), settings, servers))


def test_what_somebody_has_changed_since_stays(tmp_path: Path) -> None:
    places = claude(tmp_path, '{"hooks": {"Stop": []}}', "{}")
    apply_edits(setup.install_edits(places, OLD), NOW)
    grown = json.loads(places.servers.read_text()) | {"numStartups": 3}
    places.servers.write_text(json.dumps(grown))
    apply_edits(setup.uninstall_edits(places), NOW)
    assert json.loads(places.servers.read_text()) == {"numStartups": 3}
    assert places.settings.read_text() == '{"hooks": {"Stop": []}}'
    assert not record_path(places.servers).exists()


def test_the_record_is_for_its_owner_and_only_there_when_it_is_needed(tmp_path: Path) -> None:
    places = claude(tmp_path, '{"model": "x"}', "{}")
    edits = setup.install_edits(places, OLD)
    apply_edits(edits, NOW)
    assert [edit.path for edit in edits[3:]] == [record_path(places.servers)]
    assert record_path(places.servers).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("record", ["{", "[]", '{"before": 3, "after": null}', "null"])
def test_a_record_that_is_none_does_no_harm(tmp_path: Path, record: str) -> None:
    places = claude(tmp_path, '{"model": "x"}', "{}")
    apply_edits(setup.install_edits(places, OLD), NOW)
    record_path(places.servers).write_text(record)
    apply_edits(setup.uninstall_edits(places), NOW)
    assert files(tmp_path) == {".claude/settings.json": b'{"model": "x"}'}


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"hooks": {"Stop": [], "Stop": [{"x": {"b": 1, "b": 1}}]}}'])
@pytest.mark.parametrize("edits", [lambda places: setup.install_edits(places, OLD), setup.uninstall_edits])
def test_a_file_with_a_key_twice_is_left_alone(tmp_path: Path, text: str, edits: Callable[[HostFiles], object]) -> None:
    places = claude(tmp_path, text, None)
    with pytest.raises(BadInput, match=r"settings\.json' has the key '(a|b|Stop)' twice"):
        edits(places)
    assert places.settings.read_text() == text


# --- keys of other people in our table --------------------------------------------------------------

MINE = """\
# top
[mcp_servers.lossless] # mine
command = "/old/lcm" # was "/older/lcm"
startup_timeout_sec = 60
  args = [
  "mcp", # all of it
]
required = true
env = { LCM_DEBUG = "1" }
# about tools
[mcp_servers.lossless.tools.lcm_grep]
approval_mode = "approve"

[mcp_servers.b]
command = "z"
args = ["mcp"]
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_only_the_command_of_our_table_changes(end: str) -> None:
    made = codex.with_server(Path("c"), MINE.replace("\n", end), NEW[1])
    wanted = MINE.replace('command = "/old/lcm"', 'command = "/new/lcm"')
    wanted = wanted.replace('args = [\n  "mcp", # all of it\n]', 'args = ["--db", "/data/lcm.db", "mcp"]')
    assert made == wanted.replace("\n", end)
    assert codex.with_server(Path("c"), made, NEW[1]) == made


@pytest.mark.parametrize("header", ['[mcp_servers."lossless"]', "[ 'mcp_servers' . lossless ]"])
def test_a_header_with_quotes_is_ours_too(header: str) -> None:
    text = f'{header}\n"command" = "/old/lcm"\nargs = ["mcp"]\nrequired = true\n[x]\ny = 1\n'
    made = codex.with_server(Path("c"), text, NEW[1])
    assert tomllib.loads(made)["mcp_servers"]["lossless"] == {
        "command": "/new/lcm",
        "args": ["--db", "/data/lcm.db", "mcp"],
        "required": True,
    }
    assert codex.without_server(Path("c"), made) == "[x]\ny = 1\n"


def test_a_table_in_one_line_is_changed_where_it_stands() -> None:
    text = '[mcp_servers]\nlossless = { command = "/old/lcm", args = ["mcp"] }  # mine\n'
    after = codex.with_server(Path("c"), text, NEW[1])
    assert tomllib.loads(after)["mcp_servers"]["lossless"]["command"] == NEW[1][0]
    assert after.count("\n") == 2
    assert "# mine" in after


def test_installing_anew_keeps_what_a_person_added(tmp_path: Path) -> None:
    places = of_codex(tmp_path, MINE)
    apply_edits(codex.install_edits(places, NEW), NOW)
    wanted = tomllib.loads(MINE)
    wanted["mcp_servers"]["lossless"] |= {"command": NEW[1][0], "args": list(NEW[1][1:])}
    assert tomllib.loads(places.servers.read_text()) == wanted


# --- what is switched off ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hooks", "codex_hooks"])
def test_the_doctor_sees_what_codex_is_told_not_to_use(tmp_path: Path, name: str) -> None:
    lcm(tmp_path, "install", "codex")
    config = tmp_path / ".codex" / "config.toml"
    config.write_text(f"{config.read_text()}enabled = false\n\n[features]\n{name} = false\n")
    seen = lcm(tmp_path, "install", "codex", "--doctor", code=1)
    ill = {check["name"]: check["said"] for check in seen["checks"] if not check["ok"]}
    assert ill == {
        "hooks enabled": f"{config} has [features] {name} = false",
        "MCP enabled": f"{config} has enabled = false for the server",
    }


def test_a_project_may_switch_hooks_on_again(tmp_path: Path) -> None:
    user, project = tmp_path / "user.toml", tmp_path / "project.toml"
    user.write_text("[features]\nhooks = false\n")
    assert codex.hooks_switched_off(user, project) == (user, "hooks")
    project.write_text("[features]\nhooks = true\n")
    assert codex.hooks_switched_off(user, project) is None
    project.write_text("features = 3\n")
    assert codex.hooks_switched_off(project) is None
