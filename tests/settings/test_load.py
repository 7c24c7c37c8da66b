"""Finding and reading config files, precedence, and what a person is told."""

from __future__ import annotations

import json
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import platformdirs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.errors import BadSetting
from lossless.settings import SETTINGS, LoadedSettings, Settings, load, to_config
from lossless.settings.load import ProcessEnvironment, key_spellings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A home and a working folder with nothing in them."""
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    return tmp_path


def load_in(world: Path, config: Any = None, **options: Any) -> LoadedSettings:
    options.setdefault("env", {})
    return load(config, cwd=world / "work", home=world / "home", **options)


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def host_config(tail: int, plugin: str = "lossless-claw") -> str:
    return json.dumps({"plugins": {"entries": {plugin: {"config": {"freshTailCount": tail}}}}})


def test_without_anything_the_defaults_hold_and_the_archive_is_in_the_data_folder(world: Path) -> None:
    loaded = load_in(world)
    place = ProcessEnvironment.of({}, home=world / "home").data_dir
    assert loaded.settings == Settings(database_path=str(place / "lcm.db"), large_files_dir=str(place / "lcm-files"))
    assert {source.kind for source in loaded.sources.values()} == {"default"}
    assert (loaded.config_path, loaded.warnings, loaded.config) == (None, (), {})


def test_the_data_folder_is_the_one_of_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert ProcessEnvironment.of().data_dir == platformdirs.user_data_path("lossless", appauthor=False)
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert ProcessEnvironment.of().data_dir == platformdirs.user_data_path("lossless", appauthor=False)


def test_an_archive_that_exists_is_used_before_a_new_one_is_made(world: Path) -> None:
    data = {"XDG_DATA_HOME": str(world / "data")}
    own, shared = world / "data" / "lossless" / "lcm.db", world / "home" / ".openclaw" / "lcm.db"

    def place(**env: str) -> str | None:
        return load_in(world, env=data | env).settings.database_path

    assert place() == str(own), "no OpenClaw on this machine"
    shared.parent.mkdir(parents=True)
    assert place() == str(shared), "OpenClaw is here"
    assert place(XDG_DATA_HOME="relative") == str(shared)
    put(own, "")
    assert place() == str(own), "ours exists already"
    assert place(OPENCLAW_STATE_DIR=str(shared.parent)) == str(own), "the gateway names its usual folder"
    assert place(LCM_OPENCLAW_DIR=str(shared.parent)) == str(shared), "a person names it"
    put(shared, "")
    assert place() == str(shared), "both exist"


def test_environment_then_config_then_default(world: Path) -> None:
    path = put(world / "work" / "lossless.toml", "freshTailCount = 5\nleafMinFanout = 6\n")
    loaded = load_in(world, env={"LCM_FRESH_TAIL_COUNT": "9"})
    settings = loaded.settings
    assert (settings.fresh_tail_count, settings.leaf_min_fanout, settings.condensed_min_fanout) == (9, 6, 4)
    assert loaded.sources["freshTailCount"] == ("env", "LCM_FRESH_TAIL_COUNT")
    assert loaded.sources["leafMinFanout"] == ("config", str(path))
    assert loaded.sources["condensedMinFanout"] == ("default", "")
    assert loaded.config_path == path
    assert loaded.config == {"freshTailCount": 5, "leafMinFanout": 6}


def test_the_first_config_file_that_exists_is_the_only_one(world: Path) -> None:
    xdg = {"XDG_CONFIG_HOME": str(world / "xdg")}
    put(world / "home" / ".openclaw" / "openclaw.json", host_config(1))
    assert load_in(world, env=xdg).settings.fresh_tail_count == 1
    put(world / "home" / ".config" / "lossless" / "lossless.toml", "freshTailCount = 2")
    assert load_in(world, env=xdg).settings.fresh_tail_count == 2
    put(world / "xdg" / "lossless" / "lossless.toml", "freshTailCount = 3")
    assert load_in(world, env=xdg).settings.fresh_tail_count == 3
    assert load_in(world, env={"XDG_CONFIG_HOME": "xdg"}).settings.fresh_tail_count == 2
    put(world / "work" / "lossless.toml", "leafMinFanout = 4")
    assert load_in(world, env=xdg).settings.fresh_tail_count == 64
    explicit = put(world / "other.json", host_config(5))
    assert load_in(world, explicit, env=xdg).settings.fresh_tail_count == 5
    assert load_in(world, "~/.config/lossless/lossless.toml").settings.fresh_tail_count == 2


@pytest.mark.parametrize(
    ("env", "folder"),
    [
        ({}, "home/.openclaw"),
        ({"OPENCLAW_HOME": "{world}/other"}, "other/.openclaw"),
        ({"OPENCLAW_HOME": "{world}/other", "OPENCLAW_STATE_DIR": "{world}/state"}, "state"),
        ({"OPENCLAW_STATE_DIR": "{world}/state", "LCM_OPENCLAW_DIR": "~/lcm"}, "home/lcm"),
        ({"OPENCLAW_STATE_DIR": "  ", "LCM_OPENCLAW_DIR": ""}, "home/.openclaw"),
    ],
)
def test_the_state_folder(world: Path, env: dict[str, str], folder: str) -> None:
    env = {name: text.format(world=world) for name, text in env.items()}
    put(world / folder / "openclaw.json", host_config(7))
    settings = load_in(world, env=env).settings
    assert settings.fresh_tail_count == 7
    assert settings.database_path == str(world / folder / "lcm.db")
    chosen = load_in(world, env=env, openclaw_dir=world / "chosen").settings
    assert (chosen.database_path, chosen.fresh_tail_count) == (str(world / "chosen" / "lcm.db"), 64)


def test_the_hosts_file_can_be_named_by_a_variable(world: Path) -> None:
    env = {"OPENCLAW_CONFIG_PATH": str(world / "else.json")}
    missing = load_in(world, env=env)
    assert [str(notice) for notice in missing.warnings] == [
        f"{world / 'else.json'} (from environment variable OPENCLAW_CONFIG_PATH) is not there"
    ]
    put(world / "else.json", host_config(3))
    assert load_in(world, env=env).settings.fresh_tail_count == 3


def test_the_archive_is_the_option_then_the_variable_then_the_two_keys(world: Path) -> None:
    config = {"dbPath": "~/a.db", "databasePath": "/b.db"}
    env = {"LCM_DATABASE_PATH": "/c.db"}
    loaded = load_in(world, config)
    assert loaded.settings.database_path == str(world / "home" / "a.db")
    assert [(notice.kind, notice.name) for notice in loaded.warnings] == [("ignored", "databasePath")]
    assert load_in(world, {"databasePath": "/b.db"}).settings.database_path == "/b.db"
    assert load_in(world, {"dbPath": " ", "databasePath": "/b.db"}).settings.database_path == "/b.db"
    assert load_in(world, config, env=env).settings.database_path == "/c.db"
    chosen = load_in(world, config, env=env, database="/d.db")
    assert (chosen.settings.database_path, str(chosen.sources["databasePath"])) == ("/d.db", "--db")


@pytest.mark.parametrize("place", ["config", "database", "env"])
def test_an_archive_is_a_file_and_no_address(world: Path, place: str) -> None:
    address = "postgresql://me:hunter2@host/db"
    options = {"config": {"databasePath": address}, "env": {"LCM_DATABASE_PATH": address}, "database": address}
    with pytest.raises(BadSetting, match="not an address") as refused:
        load_in(world, **{place: options[place]})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("target", "env", "zone"),
    [
        ("usr/share/zoneinfo/Europe/Berlin", {}, "Europe/Berlin"),
        ("var/db/timezone/zoneinfo/America/Argentina/Ushuaia", {}, "America/Argentina/Ushuaia"),
        ("usr/share/zoneinfo/Europe/Berlin", {"TZ": "Asia/Tokyo"}, "Asia/Tokyo"),
        ("usr/share/zoneinfo/Europe/Berlin", {"TZ": ":/etc/localtime"}, "Europe/Berlin"),
        ("usr/share/zoneinfo/Etc/UTC", {}, None),
        ("usr/share/zoneinfo/Mars/Crater", {}, None),
        ("a copy of the zone's file", {}, None),
    ],
)
def test_the_zone_is_the_machines(
    world: Path, monkeypatch: pytest.MonkeyPatch, target: str, env: dict[str, str], zone: str | None
) -> None:
    put(world / target, "")
    link = world / "localtime"
    link.symlink_to(world / target)
    monkeypatch.setattr(import_module("lossless.settings.load"), "_LOCALTIME", link)
    places = env, world / "work", world / "home"
    assert load(None, *places).settings.timezone == zone
    chosen = load({"timezone": "Asia/Seoul"}, *places).settings.timezone
    assert chosen == ("Asia/Tokyo" if zone == "Asia/Tokyo" else "Asia/Seoul")


OURS = {"freshTailCount": 5}


@pytest.mark.parametrize(
    "plugins",
    [
        {"entries": {"lossless": {"config": OURS}, "lossless-claw": {"config": {}}}},
        {"entries": {"lossless-claw": {"config": OURS}}},
        {"entries": {"lossless-claw": {"enabled": True}}, "config": {"lossless": OURS}},
        {"entries": [], "config": {"lossless-claw": OURS}},
    ],
)
def test_where_a_hosts_file_holds_our_settings(world: Path, plugins: object) -> None:
    path = put(world / "openclaw.json", json.dumps({"plugins": plugins}))
    assert load_in(world, path).settings.fresh_tail_count == 5


def test_a_hosts_file_without_our_block_changes_nothing(world: Path) -> None:
    path = put(world / "openclaw.json", '{"plugins": null, "gateway": {"port": 1}}')
    loaded = load_in(world, path)
    assert (loaded.config_path, loaded.config, loaded.warnings) == (path, {}, ())


def test_an_include_is_not_followed_and_that_is_said(world: Path) -> None:
    path = put(world / "openclaw.json", '{"plugins": {"$include": "plugins.json"}}')
    assert [notice.name for notice in load_in(world, path).warnings] == ["$include"]


def test_a_hosts_file_may_have_comments_and_bare_names(world: Path) -> None:
    text = "{ plugins: { entries: { lossless: { config: { freshTailCount: 9, /* few */ }, }, }, }, } // mine"
    assert load_in(world, put(world / "openclaw.json", text)).settings.fresh_tail_count == 9


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("openclaw.json", '{"plugins": {}, "open', "JSON or JSON5: a text is not terminated: line 1"),
        ("openclaw.json", '{"a": 1 "b": 2}', "a comma or } is missing"),
        ("openclaw.json", "[]", "must hold a JSON object"),
        ("openclaw.json", "[" * 100_000, "nested too deeply"),
        ("openclaw.json", '{"plugins": {"entries": {"lossless": {"config": 5}}}}', "must be an object"),
        ("lossless.toml", "a = ", "must be TOML"),
        ("lossless.toml", "a = " + "[" * 100_000, "must be TOML"),
    ],
)
def test_a_file_that_cannot_be_parsed_is_a_clear_error(world: Path, name: str, text: str, why: str) -> None:
    path = put(world / name, text)
    with pytest.raises(BadSetting) as caught:
        load_in(world, path)
    assert why in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_text_not_there_or_a_folder_is_a_clear_error(world: Path) -> None:
    (world / "binary.toml").write_bytes(b"\xff\xfe")
    for path, why in (
        ("binary.toml", "must be TOML"),
        ("none.toml", "must exist"),
        ("home", "must be readable"),
    ):
        with pytest.raises(BadSetting, match=why):
            load_in(world, world / path)


def test_toml_takes_both_spellings_and_tables(world: Path) -> None:
    path = put(
        world / "lossless.toml",
        """
        fresh_tail_count = 3
        leafMinFanout = "9"
        auto_rotate_session_files_startup = "warn"
        fallback_providers = [{provider = "p", model = "m"}]
        [auto_rotate_session_files]
        size_bytes = 5
        [independentLogFile]
        enabled = false
        [[context_threshold_overrides]]
        match = {session_pattern = "agent:*"}
        context_threshold = 0.2
        """,
    )
    loaded = load_in(world, path)
    settings = loaded.settings
    assert (settings.fresh_tail_count, settings.leaf_min_fanout) == (3, 9)
    assert (settings.auto_rotate_session_files_size_bytes, settings.auto_rotate_session_files_startup) == (
        5,
        "warn",
    )
    assert settings.independent_log_file_enabled is False
    assert settings.context_threshold_overrides[0].session_pattern == "agent:*"
    assert str(settings.fallback_providers[0]) == "p/m"
    assert loaded.warnings == ()


@pytest.mark.parametrize(
    ("config", "key", "value", "allowed"),
    [
        ({"freshTailCount": 0}, "freshTailCount", 0, "a whole number of at least 1"),
        ({"freshTailCount": 2.5}, "freshTailCount", 2.5, "a whole number of at least 1"),
        ({"freshTailCount": "2k"}, "freshTailCount", "2k", "a whole number of at least 1"),
        ({"freshTailCount": True}, "freshTailCount", True, "a whole number of at least 1"),
        ({"contextThreshold": [0.5]}, "contextThreshold", [0.5], "a number from 0 to 1"),
        ({"enabled": "yes"}, "enabled", "yes", "true or false"),
        ({"timezone": "Mars"}, "timezone", "Mars", "an IANA time zone such as Europe/Berlin"),
        ({"autoRotateSessionFiles": True}, "autoRotateSessionFiles", True, "an object with"),
        ({"autoRotateSessionFiles": {"sizeBytes": 0}}, "autoRotateSessionFiles.sizeBytes", 0, "at least 1"),
        ({"ignoreSessionPatterns": ["a", 5]}, "ignoreSessionPatterns[1]", 5, "a text that is not blank"),
        ({"fallbackProviders": [{"provider": "p"}]}, "fallbackProviders[0].model", None, "both"),
        ({"fallbackProviders": ["p/m"]}, "fallbackProviders[0]", "p/m", "an object {provider, model}"),
        ({"freshTailCount": 3, "fresh_tail_count": 3}, "freshTailCount", 3, "two spellings"),
        ({"largeFileTokenThreshold": 5}, "largeFileThresholdTokens", 5, "at least 1000"),
    ],
)
def test_a_wrong_value_in_a_config_names_everything(
    world: Path, config: dict[str, object], key: str, value: object, allowed: str
) -> None:
    path = put(world / "lossless.toml", "")
    path.with_suffix(".json").write_text(json.dumps({"plugins": {"entries": {"lossless": {"config": config}}}}))
    with pytest.raises(BadSetting) as caught:
        load_in(world, path.with_suffix(".json"))
    assert (caught.value.key, caught.value.value) == (key, value)
    assert caught.value.source == str(path.with_suffix(".json"))
    assert allowed in caught.value.allowed


@pytest.mark.parametrize(
    ("config", "attribute", "value"),
    [
        ({"freshTailCount": " 12 "}, "fresh_tail_count", 12),
        ({"freshTailCount": "1e1"}, "fresh_tail_count", 10),
        ({"freshTailCount": 12.0}, "fresh_tail_count", 12),
        ({"freshTailCount": None}, "fresh_tail_count", 64),
        ({"autoRotateSessionFiles": None}, "auto_rotate_session_files_enabled", True),
        ({"enabled": "false"}, "enabled", False),
        ({"hostFallbackMode": "Capture-Only"}, "host_fallback_mode", "capture-only"),
        ({"summaryModel": "  "}, "summary_model", ""),
        ({"timezone": ""}, "timezone", None),
        ({"ignoreSessionPatterns": "a, b"}, "ignore_session_patterns", ("a", "b")),
        ({"ignoreSessionPatterns": [" a ", ""]}, "ignore_session_patterns", ("a",)),
        (
            {"largeFileThresholdTokens": 2000, "largeFileTokenThreshold": 3000},
            "large_file_threshold_tokens",
            2000,
        ),
        ({"largeFileTokenThreshold": 3000}, "large_file_threshold_tokens", 3000),
    ],
)
def test_what_a_config_may_also_say(config: dict[str, object], attribute: str, value: object) -> None:
    assert getattr(load(config, env={}).settings, attribute) == value


def test_unknown_old_and_inert_keys_are_reported_and_do_not_stop(world: Path) -> None:
    config = {
        "freshTailCuont": 5,
        "zzz": 1,
        "autoRotateSessionFiles": {"size": 5},
        "incrementalMaxDepth": 2,
        "cacheAwareCompaction": {"enabled": "anything", "cacheTTLSeconds": []},
        "tui.conversationWindowSize": 5,
    }
    loaded = load_in(world, config)
    told = {(notice.kind, notice.name): notice.text for notice in loaded.warnings}
    assert told[("unknown", "freshTailCuont")] == "is not a setting; did you mean freshTailCount?"
    assert told[("unknown", "zzz")] == "is not a setting"
    assert told[("unknown", "autoRotateSessionFiles.size")].endswith("autoRotateSessionFiles.sizeBytes?")
    assert told[("deprecated", "incrementalMaxDepth")] == "is an old name; write sweepMaxDepth"
    assert told[("retired", "cacheAwareCompaction.cacheTTLSeconds")] == "has no effect any more"
    assert ("unknown", "tui.conversationWindowSize") in told
    assert len(told) == 7
    assert loaded.settings.sweep_max_depth == 2


def test_a_host_may_pass_its_config_object() -> None:
    loaded = load({"freshTailCount": 3}, env={})
    assert (loaded.settings.fresh_tail_count, loaded.config_path) == (3, None)
    assert str(loaded.sources["freshTailCount"]) == "the host's config"


def test_settings_written_as_a_config_load_as_the_same_settings(world: Path) -> None:
    config = {
        "fallbackProviders": [{"provider": "p", "model": "m"}],
        "contextThresholdOverrides": [{"name": "n", "match": {"model": "m"}, "contextThreshold": 0.1}],
        "autoRotateSessionFiles": {"runtime": "off"},
        "timezone": "UTC",
    }
    settings = load_in(world, config).settings
    written = to_config(settings)
    assert written["contextThresholdOverrides"] == config["contextThresholdOverrides"]
    assert written["autoRotateSessionFiles"] == {
        "enabled": True,
        "createBackups": False,
        "sizeBytes": 2097152,
        "startup": "rotate",
        "runtime": "off",
    }
    assert load_in(world, json.loads(json.dumps(written))).settings == settings


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
RULE = st.fixed_dictionaries(
    {},
    optional={
        "match": st.dictionaries(
            st.sampled_from(["model", "modelContextWindowMin", "modelContextWindowMax", "sessionPattern"]),
            JSON,
        ),
        "contextThreshold": JSON,
        "freshTailCount": JSON,
    },
)


@given(st.dictionaries(st.sampled_from(sorted(key_spellings())), JSON | st.lists(RULE, max_size=2), max_size=3))
def test_any_json_for_any_key_loads_or_is_a_bad_setting(config: dict[str, object]) -> None:
    try:
        settings = load(config, env={}, cwd="/nowhere", home="/nowhere").settings
    except BadSetting:
        return
    assert load(to_config(settings), env={}).settings == settings


@given(
    st.dictionaries(
        st.sampled_from([name for setting in SETTINGS for name in setting.env_names]),
        st.text(st.characters(exclude_characters="\0")) | st.integers().map(str) | st.floats().map(str),
        max_size=3,
    )
)
def test_any_environment_loads_or_is_a_bad_setting(env: dict[str, str]) -> None:
    with suppress(BadSetting):
        assert load({}, env=env, cwd="/nowhere", home="/nowhere").settings.enabled in (True, False)
