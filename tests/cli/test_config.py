"""Settings from the shell: what holds, where it came from, and one key written safely."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lossless.settings import SETTINGS

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lcm


def host_config(folder: Path, config: dict[str, Any]) -> Path:
    """OpenClaw's file with our block and somebody else's secret."""
    path = folder / "openclaw.json"
    document = {
        "gateway": {"token": "somebody-elses-secret"},
        "plugins": {"entries": {"lossless-claw": {"config": config}}},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n")
    return path


def test_show_says_what_holds_and_why(lcm: Lcm, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = host_config(home / ".openclaw", {"contextThreshold": 0.7, "freshTailCount": 10, "freshTailCuont": 3})
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "12")
    answer = lcm("config", "show")
    data = answer.data
    assert data["raw"] == {"contextThreshold": 0.7, "freshTailCount": 10}
    assert (data["effective"]["contextThreshold"], data["effective"]["freshTailCount"]) == (0.7, 12)
    assert "LCM_FRESH_TAIL_COUNT" in data["environmentOverrides"]
    assert data["sources"]["contextThreshold"] == str(path)
    assert [notice["name"] for notice in data["diagnostics"]] == ["freshTailCuont"]
    assert "freshTailCount?" in data["diagnostics"][0]["message"]
    assert answer.envelope["meta"]["configPath"] == str(path)
    assert len(answer.envelope["meta"]["warnings"]) == 1
    assert "somebody-elses-secret" not in answer.out
    shown = lcm("config", "show", "--format", "table")
    assert "freshTailCuont" in shown.err
    assert "contextThreshold" in shown.out


def test_every_setting_can_be_asked_for(lcm: Lcm) -> None:
    for setting in SETTINGS:
        if not setting.env_only:
            data = lcm("config", "get", setting.key).data
            assert (data["path"], data["isSet"], data["rawValue"]) == (setting.key, False, None)


def test_get_tells_the_file_from_what_holds(lcm: Lcm, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host_config(home / ".openclaw", {"freshTailCount": 10, "autoRotateSessionFiles": {"enabled": False}})
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "12")
    assert lcm("config", "get", "freshTailCount").data == {
        "path": "freshTailCount", "isSet": True, "rawValue": 10, "effectiveValue": 12,
        "source": "environment variable LCM_FRESH_TAIL_COUNT",
    }  # fmt: skip
    assert lcm("config", "get", "autoRotateSessionFiles.enabled").data["effectiveValue"] is False
    group = lcm("config", "get", "autoRotateSessionFiles").data
    assert (group["rawValue"], group["effectiveValue"]["sizeBytes"]) == ({"enabled": False}, 2097152)
    assert lcm("config", "get", "freshTailCount", "--format", "table").out.startswith("12")


def test_passwords_are_never_shown(lcm: Lcm, home: Path) -> None:
    host_config(home / ".openclaw", {"summaryBaseUrl": "https://me:hunter2@host/v1"})
    for command in (("config", "show"), ("config", "get", "summaryBaseUrl")):
        for form in ("json", "table"):
            answer = lcm(*command, "--format", form)
            assert answer.code == 0
            assert "hunter2" not in answer.out + answer.err
    assert lcm("config", "get", "summaryBaseUrl").data["effectiveValue"] == "https://me:***@host/v1"


def test_set_writes_one_key_with_a_copy_of_the_old_file(lcm: Lcm, home: Path) -> None:
    path = host_config(home / ".openclaw", {"freshTailCount": 10, "contextThreshold": 0.7})
    path.chmod(0o600)
    before = path.read_text()
    data = lcm("config", "set", "freshTailCount", "24").data
    assert {name: data[name] for name in ("path", "oldValue", "newValue", "configPath")} == {
        "path": "freshTailCount", "oldValue": 10, "newValue": 24, "configPath": str(path),
    }  # fmt: skip
    assert (home / ".openclaw" / data["backupPath"]).read_text() == before
    assert path.read_text() == before.replace("10", "24")
    assert path.stat().st_mode & 0o777 == 0o600
    assert lcm("config", "get", "freshTailCount").data["effectiveValue"] == 24


def test_set_makes_a_file_where_there_is_none(lcm: Lcm, home: Path, tmp_path: Path) -> None:
    data = lcm("config", "set", "summaryModel", '"openai/gpt-5"').data
    assert (data["oldValue"], data["backupPath"]) == (None, None)
    assert data["configPath"] == str(home / ".config" / "lossless" / "lossless.toml")
    assert lcm("config", "get", "summaryModel").data["effectiveValue"] == "openai/gpt-5"
    named = tmp_path / "mine.toml"
    assert lcm("config", "set", "freshTailCount", "5", "--config", named).data["configPath"] == str(named)
    assert named.read_text() == "freshTailCount = 5\n"
    assert "5" in lcm("config", "set", "freshTailCount", "6", "--config", named, "--format", "table").out
    rules = lcm("config", "set", "recallScopeOverrides", "agent:a:**=session,b=all", "--config", named).data["newValue"]
    assert rules == ["agent:a:**=session", "b=all"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("set", "notASetting", "true"), 3),
        (("set", "__proto__", "{}"), 3),
        (("set", "contextThreshold", "2"), 2),
        (("set", "freshTailCount", "null"), 2),
        (("set", "freshTailCount", "twelve"), 2),
        (("set", "freshTailCount", "NaN"), 2),
        (("set", "freshTailCount", ""), 2),
        (("set", "freshTailCount"), 2),
        (("get",), 2),
        (("get", "notASetting"), 3),
        (("get", ""), 2),
        (("show", "--all"), 2),
        (("forget",), 2),
    ],
)
def test_things_done_wrong_change_nothing(lcm: Lcm, home: Path, arguments: tuple[str, ...], code: int) -> None:
    path = host_config(home / ".openclaw", {"contextThreshold": 0.7})
    before = path.read_bytes()
    answer = lcm("config", *arguments)
    assert answer.code == code
    assert answer.error["message"]
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_name_that_no_setting_has_is_told_what_is_near(lcm: Lcm, home: Path) -> None:
    error = lcm("config", "set", "freshTailCuont", "20").error
    assert (error["code"], error["message"]) == ("bad_setting", "There is no setting 'freshTailCuont'.")
    assert error["details"]["hint"] == "Did you mean freshTailCount?"


@pytest.mark.parametrize(
    "text", ["{ // a comment without an end", "not json", '{"$include": "./base.json", "plugins": {}}', "[]"]
)
def test_files_that_cannot_be_written_safely_are_refused(lcm: Lcm, home: Path, text: str) -> None:
    path = home / ".openclaw" / "openclaw.json"
    path.parent.mkdir()
    path.write_text(text)
    answer = lcm("config", "set", "freshTailCount", "20")
    assert (answer.code, answer.error["code"]) == (4, "bad_setting")
    assert (path.read_text(), list(path.parent.iterdir())) == (text, [path])


def test_comments_stay(lcm: Lcm, home: Path) -> None:
    path = home / ".openclaw" / "openclaw.json"
    path.parent.mkdir()
    path.write_text("{ // a comment\n}")
    assert lcm("config", "set", "freshTailCount", "20").code == 0
    assert "// a comment\n" in path.read_text()
    assert lcm("config", "show").data["effective"]["freshTailCount"] == 20


def test_a_link_is_refused(lcm: Lcm, home: Path) -> None:
    real = host_config(home / "elsewhere", {})
    (home / ".openclaw").mkdir()
    (home / ".openclaw" / "openclaw.json").symlink_to(real)
    before = real.read_text()
    assert lcm("config", "set", "freshTailCount", "20").code == 4
    assert real.read_text() == before


def test_a_setting_that_cannot_be_used_stops_every_command(lcm: Lcm, home: Path, archive: Path) -> None:
    host_config(home / ".openclaw", {"contextThreshold": 7})
    answer = lcm("status")
    assert (answer.code, answer.error["code"]) == (4, "bad_setting")
    assert answer.error["details"]["key"] == "contextThreshold"


def test_a_named_config_file_must_be_there(lcm: Lcm, archive: Path) -> None:
    answer = lcm("status", "--config", "nowhere.json")
    assert (answer.code, answer.error["code"]) == (3, "not_found")
    assert answer.error["details"] == {"configPath": "nowhere.json"}
