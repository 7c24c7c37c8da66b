"""`lcm install openclaw`: the config says what is needed, everything else stays, and there is a way back."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lossless.cli.main import cli
from lossless.errors import BadInput
from lossless.hosts.openclaw import manifest, setup
from lossless.settings.json5 import parse_json5
from scripts import openclaw_manifest

PLUGIN = Path(__file__).parents[3] / "bridges" / "openclaw"


def installed(tmp_path: Path, config: dict[str, Any] | str | None, python: str = "/py") -> dict[str, Any]:
    path = tmp_path / "openclaw.json"
    if config is not None:
        path.write_text(config if isinstance(config, str) else json.dumps(config))
    made = setup.install(path, PLUGIN, python).edits[0].after
    assert made is not None
    found: dict[str, Any] = json.loads(made)
    return found


def test_the_generated_files_are_current() -> None:
    assert openclaw_manifest.main(["--check", str(PLUGIN)]) == 0


def test_the_plugin_declares_every_setting_and_tool() -> None:
    made = manifest.manifest()
    assert made["configSchema"]["additionalProperties"] is False
    assert {"python", "freshTailCount", "dbPath", "cacheAwareCompaction"} <= made["configSchema"]["properties"].keys()
    assert made["contracts"]["tools"] == [tool["name"] for tool in openclaw_manifest.declarations()["tools"]]
    package = json.loads((PLUGIN / "package.json").read_text())
    assert package["version"] == openclaw_manifest.declarations()["version"]
    assert not package.keys() & {"dependencies", "devDependencies", "scripts"}


def test_a_fresh_config_gets_what_is_needed(tmp_path: Path) -> None:
    plugins = installed(tmp_path, None)["plugins"]
    assert plugins["load"]["paths"] == [str(PLUGIN)]
    assert plugins["slots"] == {"contextEngine": "lossless"}
    entry = plugins["entries"]["lossless"]
    assert entry == {"enabled": True, "config": {"python": "/py"}, "hooks": {"allowConversationAccess": True}}
    assert "allow" not in plugins


def test_other_plugins_and_memory_stay(tmp_path: Path) -> None:
    config = {
        "agents": {"x": 1},
        "plugins": {
            "enabled": False,
            "allow": ["memory-core"],
            "load": {"paths": ["/other"]},
            "slots": {"memory": "memory-core"},
            "entries": {"memory-core": {"enabled": True}, "lossless": {"hooks": {"allowPromptInjection": False}}},
        },
    }
    made = installed(tmp_path, config)
    assert made["agents"] == {"x": 1}
    plugins = made["plugins"]
    assert plugins["enabled"] is True
    assert plugins["allow"] == ["memory-core", "lossless"]
    assert plugins["load"]["paths"] == ["/other", str(PLUGIN)]
    assert plugins["slots"] == {"memory": "memory-core", "contextEngine": "lossless"}
    assert plugins["entries"]["lossless"]["hooks"] == {"allowPromptInjection": False, "allowConversationAccess": True}


@pytest.mark.parametrize("place", [("entries", "lossless-claw", "config"), ("config", "lossless-claw")])
def test_settings_of_lossless_claw_are_taken_over(tmp_path: Path, place: tuple[str, ...]) -> None:
    plugins: dict[str, Any] = {"slots": {"contextEngine": "lossless-claw"}}
    inside = plugins
    for name in place:
        inside = inside.setdefault(name, {})
    inside |= {"dbPath": "/data/lcm.db", "freshTailCount": 9}
    found = installed(tmp_path, {"plugins": plugins})["plugins"]
    assert found["entries"]["lossless"]["config"] == {"dbPath": "/data/lcm.db", "freshTailCount": 9, "python": "/py"}
    if place[0] == "entries":
        assert found["entries"]["lossless-claw"]["enabled"] is False


def test_models_that_are_named_are_allowed(tmp_path: Path) -> None:
    config = {
        "summaryProvider": "anthropic",
        "summaryModel": "claude-h",
        "fallbackProviders": [{"provider": "openai", "model": "gpt-x"}],
        "expansionModel": "openai/gpt-y",
    }
    entries = installed(tmp_path, {"plugins": {"entries": {"lossless": {"config": config}}}})["plugins"]["entries"]
    assert entries["lossless"]["llm"] == {
        "allowModelOverride": True,
        "allowedModels": ["anthropic/claude-h", "openai/gpt-x"],
    }
    assert entries["lossless"]["subagent"] == {"allowModelOverride": True, "allowedModels": ["openai/gpt-y"]}


def test_again_changes_nothing_and_the_way_back_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "openclaw.json"
    claw = {"enabled": True, "config": {"freshTailCount": 9}}
    before = {
        "plugins": {"allow": ["x"], "slots": {"contextEngine": "lossless-claw"}, "entries": {"lossless-claw": claw}}
    }
    path.write_text(json.dumps(before))
    run = CliRunner()
    arguments = ["install", "openclaw", "--state-dir", str(tmp_path)]
    dry = json.loads(run.invoke(cli, [*arguments, "--dry-run"]).stdout)["data"]
    assert dry["changes"]
    assert json.loads(path.read_text()) == before
    done = json.loads(run.invoke(cli, arguments).stdout)["data"]["files"][0]
    assert json.loads(Path(done["backup"]).read_text()) == before
    assert json.loads(path.read_text())["plugins"]["entries"]["lossless"]["config"]["python"] == sys.executable
    again = json.loads(run.invoke(cli, arguments).stdout)["data"]
    assert (again["changes"], again["files"][0]["change"]) == ([], "unchanged")
    for _again in range(2):
        assert run.invoke(cli, ["uninstall", "openclaw", "--state-dir", str(tmp_path)]).exit_code == 0
        assert json.loads(path.read_text()) == before


@pytest.mark.parametrize(
    "text",
    [
        "{ plugins: ",
        "[]",
        '{"$include": "other.json"}',
        '{"plugins": {"entries": {"$include": "x"}}}',
        '{"plugins": []}',
    ],
)
def test_a_file_that_only_a_person_can_edit_is_left_alone(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadInput, match=r"left as it is|must be an object"):
        installed(tmp_path, text)
    assert (tmp_path / "openclaw.json").read_text() == text


def test_a_config_with_comments_is_edited_and_keeps_them(tmp_path: Path) -> None:
    text = """// Gateway of the office.
{
  agents: { $include: './agents.json5' }, // elsewhere
  plugins: {
    allow: ['memory-core'], // ask before you add
    slots: { memory: 'memory-core', contextEngine: 'lossless-claw' },
    entries: {
      'lossless-claw': { enabled: true, config: { freshTailCount: 9, }, }, /* tuned */
    },
  },
}
"""
    path = tmp_path / "openclaw.json"
    path.write_text(text)
    run, arguments = CliRunner(), ["install", "openclaw", "--state-dir", str(tmp_path)]
    done = json.loads(run.invoke(cli, arguments).stdout)["data"]["files"][0]
    assert Path(done["backup"]).read_text() == text
    made = path.read_text()
    for kept in (
        "// Gateway of the office.",
        "// elsewhere",
        "// ask before you add",
        "/* tuned */",
        "freshTailCount: 9, }",
    ):
        assert kept in made
    plugins = parse_json5(made).value["plugins"]
    assert plugins["slots"] == {"memory": "memory-core", "contextEngine": "lossless"}
    assert plugins["entries"]["lossless"]["config"]["freshTailCount"] == 9
    assert json.loads(run.invoke(cli, arguments).stdout)["data"]["files"][0]["change"] == "unchanged"
    status = run.invoke(cli, ["--openclaw-dir", str(tmp_path), "--format", "json", "config", "show"])
    assert status.exit_code == 0, status.output
    assert run.invoke(cli, ["uninstall", "openclaw", "--state-dir", str(tmp_path)]).exit_code == 0
    assert parse_json5(path.read_text()).value["plugins"]["slots"]["contextEngine"] == "lossless-claw"
    assert "/* tuned */" in path.read_text()
