"""Every setting does something: it is read outside of this room, or the page says that it changes nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import lossless
from lossless.settings.declared import SETTINGS
from lossless.settings.load import RETIRED_KEYS
from lossless.settings.page import manifest_schema
from scripts.settings_page import settings_page

PACKAGE = Path(lossless.__file__).parent
BRIDGE = PACKAGE.parents[1] / "bridges" / "openclaw"


def sources() -> str:
    declared = [path for path in (PACKAGE / "settings").rglob("*.py") if path.stem != "event_log"]
    files = [path for path in PACKAGE.rglob("*.py") if path not in declared]
    files += [path for path in BRIDGE.rglob("*.js") if {"node_modules", "test"}.isdisjoint(path.parts)]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


@pytest.mark.skipif(not BRIDGE.exists(), reason="the plug-in of OpenClaw, which reads some of them, is not here")
def test_every_setting_is_read_somewhere() -> None:
    text = sources()
    unread = [
        setting.key
        for setting in SETTINGS
        if not re.search(rf"\.(?:{setting.attribute}|{re.escape(setting.key)})\b", text)
    ]
    assert unread == []


def test_what_changes_nothing_says_so_wherever_it_is_described() -> None:
    shown, hints = settings_page(), manifest_schema()["uiHints"]
    for retired in RETIRED_KEYS:
        (row,) = (line for line in shown.splitlines() if line.startswith(f"| `{retired.key}` |"))
        assert f"accepted, without effect: {retired.no_effect} |" in row
        assert hints[retired.key]["help"] == f"Accepted, without effect: {retired.no_effect}."


def test_settings_and_what_changes_nothing_are_apart() -> None:
    assert {setting.key for setting in SETTINGS}.isdisjoint(retired.key for retired in RETIRED_KEYS)
    assert {"replayFloodThresholdExternal", "replayFloodThresholdInternal"} <= {retired.key for retired in RETIRED_KEYS}
