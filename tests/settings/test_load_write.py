"""Writing one setting: checked, all or nothing, everything else untouched."""

from __future__ import annotations

import json
import os
import threading
import tomllib
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.errors import BadSetting
from lossless.settings import SETTINGS, load, to_config
from lossless.settings.write import remove_value, set_value

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)

TOML = """\
# my settings
freshTailCount = 5   # few
leaf_min_fanout = 6
customInstructions = "be # brief"  # always
other = 1

# rotation
[autoRotateSessionFiles]
enabled = true

[elsewhere]
freshTailCount = 7
"""


def put(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


def toml(folder: Path, text: str = TOML) -> Path:
    return put(folder / "lossless.toml", text)


def changed(before: str, after: str) -> list[str]:
    """The lines of a text that the other one does not have."""
    return [line for line in after.splitlines() if line not in before.splitlines()]


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("freshTailCount", 8, "freshTailCount = 8   # few"),
        ("freshTailCount", "8", "freshTailCount = 8   # few"),
        ("leafMinFanout", 9, "leaf_min_fanout = 9"),
        ("leaf_min_fanout", 9, "leaf_min_fanout = 9"),
        ("customInstructions", 'say "#1"\n\tok', 'customInstructions = "say \\"#1\\"\\n\\tok"  # always'),
        ("contextThreshold", 0.5, "contextThreshold = 0.5"),
        ("enabled", False, "enabled = false"),
        ("timezone", "Asia/Tokyo", 'timezone = "Asia/Tokyo"'),
        ("ignoreSessionPatterns", ["a:*", "ü\x7f"], 'ignoreSessionPatterns = ["a:*", "ü\\u007f"]'),
        ("autoRotateSessionFiles.enabled", False, "enabled = false"),
        ("autoRotateSessionFiles.sizeBytes", 9, "sizeBytes = 9"),
        ("independentLogFile.enabled", False, "independentLogFile.enabled = false"),
        (
            "fallbackProviders",
            [{"provider": "p", "model": "m"}],
            'fallbackProviders = [{provider = "p", model = "m"}]',
        ),
        (
            "contextThresholdOverrides",
            [{"match": {"model": "m"}, "contextThreshold": 0.5}],
            'contextThresholdOverrides = [{match = {model = "m"}, contextThreshold = 0.5}]',
        ),
    ],
)
def test_one_line_of_a_toml_file_changes(tmp_path: Path, key: str, value: object, line: str) -> None:
    path = toml(tmp_path)
    written_key, _, dumped, _ = set_value(path, key, value)
    after = path.read_text(encoding="utf-8")
    assert changed(TOML, after) == [line]
    assert len(changed(after, TOML)) <= 1
    assert tomllib.loads(after)["elsewhere"] == {"freshTailCount": 7}
    setting = next(setting for setting in SETTINGS if setting.key == written_key)
    loaded = load(path, env={})
    assert loaded.sources[setting.key].name == str(path)
    assert setting.dump(getattr(loaded.settings, setting.attribute)) == dumped


def test_a_new_top_line_stands_above_the_comments_of_the_first_table(tmp_path: Path) -> None:
    path = toml(tmp_path)
    set_value(path, "leafTargetTokens", 5)
    assert path.read_text().splitlines()[4:7] == ["other = 1", "leafTargetTokens = 5", ""]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "freshTailCount = 8\n"),
        ("# only a comment", "# only a comment\nfreshTailCount = 8\n"),
        ("[independentLogFile]\nenabled = true", "freshTailCount = 8\n[independentLogFile]\nenabled = true"),
        ("freshTailCount=5", "freshTailCount=8"),
        ("a = 1\r\nfreshTailCount = 5\r\n", "a = 1\r\nfreshTailCount = 8\r\n"),
        ("a = 1\r\n", "a = 1\r\nfreshTailCount = 8\r\n"),
        ("fresh_tail_count = 5 # x", "fresh_tail_count = 8 # x"),
    ],
)
def test_the_shapes_of_a_file(tmp_path: Path, before: str, after: str) -> None:
    path = toml(tmp_path, before)
    set_value(path, "freshTailCount", 8)
    assert path.read_bytes().decode() == after


@pytest.mark.parametrize(
    ("before", "key", "value", "after"),
    [
        ('"freshTailCount" = 5\n', "freshTailCount", 8, '"freshTailCount" = 8\n'),
        (
            "ignoreSessionPatterns = [\n 'a',\n]\n# z",
            "ignoreSessionPatterns",
            ["b"],
            'ignoreSessionPatterns = ["b"]\n# z',
        ),
        (
            "independentLogFile = {enabled = true}",
            "independentLogFile.file",
            "/log",
            'independentLogFile = {enabled = true, file = "/log"}',
        ),
        (
            'customInstructions = """\nfreshTailCount = 5\n"""\n',
            "freshTailCount",
            8,
            'customInstructions = """\nfreshTailCount = 5\n"""\nfreshTailCount = 8\n',
        ),
        (
            "[a]\nx = 1\n[[contextThresholdOverrides]]\nmatch = {model = 'm'}\ncontextThreshold = 1\n",
            "contextThresholdOverrides",
            [],
            "contextThresholdOverrides = []\n\n[a]\nx = 1\n",
        ),
        (
            "[auto_rotate_session_files]\n# why\n\n# next\n[other]\n",
            "autoRotateSessionFiles.sizeBytes",
            9,
            "[auto_rotate_session_files]\nsize_bytes = 9\n# why\n\n# next\n[other]\n",
        ),
        (
            "[autoRotateSessionFiles] # at the end",
            "autoRotateSessionFiles.sizeBytes",
            9,
            "[autoRotateSessionFiles] # at the end\nsizeBytes = 9\n",
        ),
    ],
)
def test_every_form_of_a_value_is_edited(tmp_path: Path, before: str, key: str, value: object, after: str) -> None:
    path = toml(tmp_path, before)
    set_value(path, key, value)
    assert path.read_text(encoding="utf-8") == after


def test_no_comment_goes_with_a_list_of_tables(tmp_path: Path) -> None:
    rules = "[[contextThresholdOverrides]]\nmatch = {model = 'm'}\ncontextThreshold = 1\n\n# next\n[other]\n"
    path, key = toml(tmp_path, rules), "contextThresholdOverrides"
    with pytest.raises(BadSetting, match="by hand"):
        set_value(path, key, [])
    with pytest.raises(BadSetting, match="by hand"):
        remove_value(path, key)
    assert path.read_text() == rules


def test_the_name_that_wins_is_the_one_that_is_written(tmp_path: Path) -> None:
    path = toml(tmp_path, 'dbPath = "/a"\ndatabasePath = "/b"\nincrementalMaxDepth = 3\n')
    set_value(path, "databasePath", "/c")
    set_value(path, "incrementalMaxDepth", 4)
    assert path.read_text() == ('dbPath = "/c"\ndatabasePath = "/b"\nincrementalMaxDepth = 3\nsweepMaxDepth = 4\n')
    settings = load(path, env={}).settings
    assert (settings.database_path, settings.sweep_max_depth) == ("/c", 4)


def test_a_new_file_is_made_with_its_folder_and_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "lossless" / "lossless.toml"
    assert set_value(path, "freshTailCount", 8) == ("freshTailCount", None, 8, None)
    assert path.read_text() == "freshTailCount = 8\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_old_file_is_kept_beside_with_its_time(tmp_path: Path) -> None:
    path = toml(tmp_path)
    path.chmod(0o640)
    _, before, after, backup = set_value(path, "freshTailCount", 8, now=NOW)
    assert backup == tmp_path / "lossless.toml.20310506T070809.123456Z.bak"
    assert backup.read_text() == TOML
    assert (before, after) == (5, 8)
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(file.name for file in tmp_path.iterdir()) == [path.name, backup.name]


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("freshTailCount", 0, "a whole number of at least 1"),
        ("freshTailCount", None, "a whole number of at least 1"),
        ("freshTailCount", [], "a whole number of at least 1"),
        ("summaryModel", " ", "a text"),
        ("freshTailCuont", 5, "the name of a setting, such as freshTailCount"),
        ("autoRotateSessionFiles", {}, "the name of a setting"),
        ("cacheAwareCompaction.enabled", True, "still has an effect"),
        ("tui.summaryBaseUrl", "http://x", "only the environment variable LCM_TUI_SUMMARY_BASE_URL"),
        ("contextThresholdOverrides", [{"match": {}, "contextThreshold": 1}], "at least one of model"),
    ],
)
@pytest.mark.parametrize("name", ["lossless.toml", "openclaw.json"])
def test_a_wrong_key_or_value_leaves_the_file_alone(
    tmp_path: Path, name: str, key: str, value: object, why: str
) -> None:
    path = put(tmp_path / name, "{}" if name.endswith("json") else TOML)
    before = path.read_bytes()
    with pytest.raises(BadSetting) as caught:
        set_value(path, key, value)
    assert why in caught.value.allowed
    assert caught.value.key.startswith(key)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "text", "key", "why"),
    [
        ("lossless.toml", "freshTailCount = [", "freshTailCount", "must be TOML"),
        ("openclaw.json", '{"plugins": {}, ', "freshTailCount", "JSON or JSON5"),
        ("openclaw.json", '{"gateway": [{"$include": "x"}]}', "freshTailCount", "$include"),
        ("openclaw.json", '{"plugins": []}', "freshTailCount", "plugins must be an object"),
    ],
)
def test_a_file_that_cannot_be_edited_safely_is_left_alone(
    tmp_path: Path, name: str, text: str, key: str, why: str
) -> None:
    path = put(tmp_path / name, text)
    with pytest.raises(BadSetting) as caught:
        set_value(path, key, 8)
    assert why in str(caught.value)
    assert path.read_text() == text
    assert list(tmp_path.iterdir()) == [path]


def test_links_missing_host_files_and_folders_are_refused(tmp_path: Path) -> None:
    path = toml(tmp_path)
    link = tmp_path / "link.toml"
    link.symlink_to(path)
    with pytest.raises(BadSetting, match="must not be a link"):
        set_value(link, "freshTailCount", 8)
    with pytest.raises(BadSetting, match="the host's file must exist"):
        set_value(tmp_path / "openclaw.json", "freshTailCount", 8)
    with pytest.raises(BadSetting, match="must be readable"):
        set_value(tmp_path, "freshTailCount", 8)
    assert path.read_text() == TOML


@pytest.mark.skipif(os.name != "posix", reason="a file where a folder is needed")
def test_a_failing_write_leaves_nothing_behind(tmp_path: Path) -> None:
    blocked = tmp_path / "lossless.toml.20310506T070809.123456Z.bak"
    blocked.mkdir()
    path = toml(tmp_path)
    with pytest.raises(BadSetting, match="must be writable"):
        set_value(path, "freshTailCount", 8, now=NOW)
    assert path.read_text() == TOML
    assert sorted(tmp_path.iterdir()) == sorted([path, blocked])
    with pytest.raises(BadSetting, match="Not a directory"):
        set_value(path / "lossless.toml", "freshTailCount", 8)


def test_a_reader_sees_the_old_file_or_the_new_one_never_a_part(tmp_path: Path) -> None:
    path = toml(tmp_path, TOML + "# filler\n" * 2_000)
    seen: set[int] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            text = path.read_text(encoding="utf-8")
            assert text.count("# filler") == 2_000
            seen.add(int(text.split("freshTailCount = ")[1].split()[0]))

    with ThreadPoolExecutor() as pool:
        reading = pool.submit(read)
        for count in range(6, 16):
            set_value(path, "freshTailCount", count)
        done.set()
        reading.result()
    assert seen <= set(range(5, 16))
    assert load(path, env={}).settings.fresh_tail_count == 15


HOST = {
    "gateway": {"port": 18997, "ü": "\u2028"},
    "plugins": {"entries": {"lossless-claw": {"enabled": True, "config": {"leaf_min_fanout": 3, "mine": 1}}}},
    "last": [1.5, None],
}


@pytest.mark.parametrize("indent", [None, 2, 4, "\t"])
def test_a_hosts_file_keeps_everything_else_in_order(tmp_path: Path, indent: int | str | None) -> None:
    path = put(tmp_path / "openclaw.json", json.dumps(HOST, indent=indent, ensure_ascii=False) + "\n")
    _, before, after, _ = set_value(path, "leafMinFanout", 9)
    set_value(path, "autoRotateSessionFiles.sizeBytes", 7)
    set_value(path, "autoRotateSessionFiles.startup", "off")
    expected = json.loads(json.dumps(HOST))
    config = expected["plugins"]["entries"]["lossless-claw"]["config"]
    config |= {"leaf_min_fanout": 9, "autoRotateSessionFiles": {"sizeBytes": 7, "startup": "off"}}
    assert path.read_text(encoding="utf-8") == json.dumps(expected, indent=indent, ensure_ascii=False) + "\n"
    assert (before, after) == (3, 9)
    assert load(path, env={}).settings.auto_rotate_session_files_size_bytes == 7


def test_a_hosts_file_gets_our_block_where_it_has_none(tmp_path: Path) -> None:
    path = put(tmp_path / "openclaw.json", '{"plugins": {"entries": {"other": {}}}}')
    set_value(path, "freshTailCount", 9)
    entries = {"other": {}, "lossless": {"config": {"freshTailCount": 9}}}
    assert json.loads(path.read_text()) == {"plugins": {"entries": entries}}
    path.write_text('{"plugins": {"entries": {"lossless": {"config": {"independentLogFile": null}}}}}')
    set_value(path, "independentLogFile.enabled", False)
    assert load(path, env={}).settings.independent_log_file_enabled is False


WRITABLE = [setting for setting in SETTINGS if setting.config_names]
VALUES = st.one_of(
    st.booleans(),
    st.integers(-2, 10**7),
    st.floats(0, 2),
    st.text(max_size=12),
    st.sampled_from(["rotate", "UTC", "model", "auto", "off", "re2", "capture-only", "inline"]),
    st.lists(st.text(max_size=5), max_size=3),
    st.lists(st.fixed_dictionaries({"provider": st.text(max_size=4), "model": st.text(max_size=4)}), max_size=2),
)


@given(st.lists(st.tuples(st.sampled_from(WRITABLE), VALUES), max_size=6), st.booleans())
def test_what_is_written_is_what_loads(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, object]], is_toml: bool
) -> None:
    folder = tmp_path_factory.mktemp("settings")
    path = put(folder / "lossless.toml", TOML) if is_toml else put(folder / "openclaw.json", "{}")
    for setting, value in steps:
        before, held = path.read_bytes(), load(path, env={}, home="/nowhere").settings
        try:
            _, _, after, _ = set_value(path, setting.key, value)
        except BadSetting:
            assert path.read_bytes() == before
            continue
        now = to_config(load(path, env={}, home="/nowhere").settings)
        expected = to_config(held)
        *outer, name = setting.key.split(".")
        inside: Any = expected[outer[0]] if outer else expected
        inside[name] = after
        if setting.key == "leafChunkTokens":
            now.pop("bootstrapMaxTokens"), expected.pop("bootstrapMaxTokens")
        assert now == expected


def test_a_hosts_file_keeps_its_comments(tmp_path: Path) -> None:
    text = (
        "{\n  // mine\n  plugins: { entries: { lossless: { config: { freshTailCount: 4, }, }, }, },\n  big: 1e999,\n}\n"
    )
    path = put(tmp_path / "openclaw.json", text)
    set_value(path, "freshTailCount", 8)
    assert path.read_text() == text.replace("4", "8")
