"""`lcm install openclaw` with configs that people really have: nothing that the host refuses, and all of it undone."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from lossless.cli.main import cli
from lossless.errors import BadInput
from lossless.hosts.config_files import apply_edits
from lossless.hosts.openclaw import manifest, setup
from lossless.settings.json5 import parse_json5

PLUGIN = Path(__file__).parents[3] / "bridges" / "openclaw"
NOW = datetime(2026, 7, 1, tzinfo=UTC)
SCHEMA = manifest.manifest()["configSchema"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5000) | st.floats() | st.sampled_from(["", "auto", "rotate", "model"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["match", "model", "provider", "contextThreshold", "enabled", "max", "sizeBytes"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)
CONFIGS = st.dictionaries(st.sampled_from([*SCHEMA["properties"], "anOldKey"]), VALUES, max_size=6)


def lcm(folder: Path, *arguments: str) -> dict[str, Any]:
    done = CliRunner().invoke(cli, [*arguments, "openclaw", "--state-dir", str(folder)])
    assert done.exit_code == 0, done.output
    data: dict[str, Any] = json.loads(done.stdout)["data"]
    return data


def written(folder: Path, plugins: dict[str, Any]) -> Path:
    path = folder / "openclaw.json"
    path.write_text(json.dumps({"plugins": plugins}, indent=2))
    return path


def now(path: Path) -> dict[str, Any]:
    plugins: dict[str, Any] = parse_json5(path.read_text()).value["plugins"]
    return plugins


# --- settings of lossless-claw --------------------------------------------------------------------


def test_only_settings_that_the_host_accepts_are_taken_over_and_the_rest_is_named(tmp_path: Path) -> None:
    old = {
        "freshTailCount": 9,
        "anOldKey": 3,
        "leafChunkTokens": "many",
        "contextThreshold": 7,
        "autoRotateSessionFiles": {"enabled": True, "colour": "blue"},
        "fallbackProviders": [{"provider": "openai"}],
    }
    path = written(tmp_path, {"entries": {"lossless-claw": {"enabled": True, "config": old}}})
    said = lcm(tmp_path, "install")["remarks"]
    entries = now(path)["entries"]
    assert entries["lossless"]["config"].keys() == {"python", "freshTailCount", "autoRotateSessionFiles"}
    assert entries["lossless"]["config"]["autoRotateSessionFiles"] == {"enabled": True}
    assert entries["lossless-claw"]["config"] == old
    place = "plugins.entries.lossless-claw.config"
    assert said == [
        f"{place}.anOldKey is not taken over: there is no such setting",
        f"{place}.leafChunkTokens is not taken over: it must be a whole number of at least 1",
        f"{place}.contextThreshold is not taken over: it must be a number from 0 to 1",
        f"{place}.autoRotateSessionFiles.colour is not taken over: there is no such setting",
        f"{place}.fallbackProviders is not taken over: it must be an object with both provider and model",
    ]


def test_a_person_at_a_terminal_reads_what_is_not_taken_over(tmp_path: Path) -> None:
    written(tmp_path, {"entries": {"lossless-claw": {"config": {"anOldKey": 3}}}})
    arguments = ["--format", "table", "install", "openclaw", "--state-dir", str(tmp_path), "--dry-run"]
    assert "anOldKey is not taken over" in " ".join(CliRunner().invoke(cli, arguments).output.split())


@given(CONFIGS)
def test_what_is_taken_over_is_what_the_schema_accepts(config: dict[str, Any]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    part, refused = manifest.accepted_config(config)
    assert not list(jsonschema.Draft202012Validator(SCHEMA).iter_errors(part))
    for key, value in config.items():
        is_blank = value in (None, "") or (
            isinstance(value, dict) and not any(one is not None for one in value.values())
        )
        assert is_blank or key in part or any(one.partition(".")[0] == key for one in refused)


# --- what is switched on and off ------------------------------------------------------------------


def test_plugins_that_were_all_off_are_off_again_afterwards(tmp_path: Path) -> None:
    before = {"enabled": False, "slots": {"contextEngine": "other"}, "entries": {"lossless-claw": {"config": {}}}}
    path = written(tmp_path, before)
    done = lcm(tmp_path, "install")
    assert any(change.startswith("plugins.enabled is true (was false)") for change in done["changes"])
    assert [file["change"] for file in done["files"]] == ["changed", "created"]
    assert lcm(tmp_path, "install")["files"][0]["change"] == "unchanged"
    undone = lcm(tmp_path, "uninstall")
    assert "plugins.enabled is false again" in undone["changes"]
    assert [file["change"] for file in undone["files"]] == ["changed", "removed"]
    assert now(path) == before


def test_what_somebody_has_changed_since_stays(tmp_path: Path) -> None:
    path = written(tmp_path, {"slots": {"contextEngine": "other"}})
    lcm(tmp_path, "install")
    path.write_text(path.read_text().replace('"contextEngine": "lossless"', '"contextEngine": "newer"'))
    lcm(tmp_path, "uninstall")
    assert now(path)["slots"] == {"contextEngine": "newer"}


def test_the_record_of_an_installation_that_was_taken_out_by_hand_counts_no_more(tmp_path: Path) -> None:
    written(tmp_path, {"enabled": False})
    lcm(tmp_path, "install")
    path = written(tmp_path, {"enabled": True})
    lcm(tmp_path, "install")
    lcm(tmp_path, "uninstall")
    assert now(path)["enabled"] is True


@pytest.mark.parametrize("record", [None, "[1", '{"a": 1}', '[{"path": 3, "after": 1}]'])
def test_without_a_record_lossless_claw_comes_back(tmp_path: Path, record: str | None) -> None:
    path = written(tmp_path, {"slots": {"contextEngine": "lossless-claw"}, "entries": {"lossless-claw": {}}})
    done = lcm(tmp_path, "install")
    kept = Path(done["files"][1]["path"])
    kept.unlink() if record is None else kept.write_text(record)
    lcm(tmp_path, "uninstall")
    assert now(path)["slots"] == {"contextEngine": "lossless-claw"}
    assert now(path)["entries"] == {"lossless-claw": {"enabled": True}}


def test_a_plugin_that_is_denied_is_spoken_of(tmp_path: Path) -> None:
    path = written(tmp_path, {"deny": ["lossless"]})
    assert "plugins.deny holds lossless" in lcm(tmp_path, "install")["remarks"][0]
    assert now(path)["deny"] == ["lossless"]


# --- the file itself ------------------------------------------------------------------------------


def test_line_ends_stay_and_the_copy_is_the_file_byte_by_byte(tmp_path: Path) -> None:
    path = tmp_path / "openclaw.json"
    kept = "    allow: ['x', ], // one\r\n    entries: {\r\n      a: {},\r\n    },\r\n"
    text = f"{{ // mine\r\n  plugins: {{\r\n{kept}  }},\r\n}}\r\n"
    path.write_bytes(text.encode())
    done = lcm(tmp_path, "install")
    assert Path(done["files"][0]["backup"]).read_bytes() == text.encode()
    made = path.read_bytes().decode()
    assert made.count("\n") == made.count("\r\n") == made.count("\r") > text.count("\n")
    lcm(tmp_path, "uninstall")
    after = path.read_bytes().decode()
    assert after == text


PARTS = st.fixed_dictionaries(
    {},
    optional={
        "enabled": st.booleans(),
        "allow": st.lists(st.sampled_from(["memory-core", "x"]), max_size=2),
        "load": st.just({}) | st.fixed_dictionaries({"paths": st.lists(st.sampled_from(["/a", "/b"]), max_size=2)}),
        "slots": st.dictionaries(st.sampled_from(["memory", "contextEngine"]), st.sampled_from(["x", "lossless-claw"])),
        "entries": st.dictionaries(
            st.sampled_from(["memory-core", "lossless-claw", "lossless"]),
            st.just({}) | st.fixed_dictionaries({"enabled": st.booleans()}),
        ),
    },
)


@given(PARTS, st.sampled_from([None, 2, "\t"]), st.sampled_from(["\n", "\r\n"]))
def test_there_and_back_is_where_it_began(plugins: dict[str, Any], indent: int | str | None, end: str) -> None:
    before = {"agents": {}, "plugins": plugins} if plugins else {"agents": {}}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "openclaw.json"
        text = json.dumps(before, indent=indent).replace("\n", end).encode()
        path.write_bytes(text)
        apply_edits(setup.install(path, PLUGIN, "/py").edits, NOW)
        assert not setup.install(path, PLUGIN, "/py").changes
        apply_edits(setup.uninstall(path).edits, NOW)
        assert path.read_bytes() == text
        assert not setup.uninstall(path).changes
        assert all(name.suffix == ".bak" or name == path for name in path.parent.iterdir())


@pytest.mark.parametrize(
    "text",
    [
        *(None, "", " \n", "{}\n", "{plugins:{}}\n", '\ufeff{"plugins":{ }}\n'),
        "{\n a: 'it\\'s \\\n more', b: +1, c: Infinity, plugins: {allow: []},\n}",
        "{plugins:{entries:{\n // mine\n lossless: { config: { /* q */ freshTailCount: 9 } , enabled: true }\n}}}",
    ],
)
def test_a_file_is_as_it_was_byte_by_byte(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "openclaw.json"
    if text is not None:
        path.write_bytes(text.encode())
    lcm(tmp_path, "install")
    apply_edits(setup.install(path, PLUGIN, "/another/python").edits, NOW)
    lcm(tmp_path, "install")
    assert (tmp_path / "openclaw.json.lcm-before.json").stat().st_mode & 0o777 == 0o600
    lcm(tmp_path, "uninstall")
    left = {one.name: one.read_bytes() for one in tmp_path.iterdir() if one.suffix != ".bak"}
    assert left == ({} if text is None else {path.name: text.encode()})


def test_an_entry_that_somebody_had_written_stays_without_what_was_put_into_it(tmp_path: Path) -> None:
    own = {"config": {"freshTailCount": 9}, "enabled": False, "hooks": {"allowPromptInjection": False}}
    path = written(tmp_path, {"entries": {"lossless": own}})
    lcm(tmp_path, "install")
    path.write_text(path.read_text().replace('"freshTailCount": 9', '"freshTailCount": 12'))
    lcm(tmp_path, "install")
    lcm(tmp_path, "uninstall")
    assert now(path) == {"entries": {"lossless": own | {"config": {"freshTailCount": 12}}}}


def test_what_is_empty_again_is_written_as_short_as_it_can_be(tmp_path: Path) -> None:
    path = tmp_path / "openclaw.json"
    path.write_text("{plugins: {load: {}}, a: 1}\n")
    lcm(tmp_path, "install")
    path.write_text(path.read_text().replace("a: 1", "a: 2"))
    lcm(tmp_path, "uninstall")
    assert path.read_text() == "{plugins: {load: {}}, a: 2}\n"


@pytest.mark.parametrize("record", ['[{"path": [], "after": 3}]', '[{"path": [], "before": 3, "after": null}]'])
def test_a_record_that_was_spoilt_does_no_harm(tmp_path: Path, record: str) -> None:
    path = written(tmp_path, {"allow": ["x"]})
    lcm(tmp_path, "install")
    (tmp_path / "openclaw.json.lcm-before.json").write_text(record)
    lcm(tmp_path, "uninstall")
    assert now(path)["allow"] == ["x"]
    assert "contextEngine" not in now(path)["slots"]


def test_a_file_with_a_key_twice_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "openclaw.json"
    text = "{plugins: {allow: ['a'], 'allow': ['b']}}"
    path.write_text(text)
    with pytest.raises(BadInput, match=r"openclaw\.json' has the key 'allow' twice"):
        setup.install(path, PLUGIN, "/py")
    with pytest.raises(BadInput, match=r"openclaw\.json' has the key 'allow' twice"):
        setup.uninstall(path)
    assert path.read_text() == text


def test_every_copy_has_a_name_of_its_own(tmp_path: Path) -> None:
    path = written(tmp_path, {"allow": ["x"]})
    first = path.read_text()
    copies = [lcm(tmp_path, command)["files"][0]["backup"] for command in ("install", "uninstall") * 3]
    assert len(set(copies)) == 6
    assert Path(copies[0]).read_text() == first


def test_what_to_do_by_hand_names_the_real_paths(tmp_path: Path) -> None:
    path = tmp_path / "openclaw.json"
    path.write_text('{"plugins": {"$include": "x"}}')
    with pytest.raises(BadInput, match=r"Add this by hand: .*bridges/openclaw.*/my/python") as caught:
        setup.install(path, PLUGIN, "/my/python")
    assert str(PLUGIN) in str(caught.value)
    with pytest.raises(BadInput, match="Take out by hand"):
        setup.uninstall(path)


def test_a_wrong_shape_is_said_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "openclaw.json"
    path.write_text('{"plugins": {"slots": []}}')
    with pytest.raises(BadInput, match=r"openclaw\.json': 'slots' must be an object"):
        setup.install(path, PLUGIN, "/py")
