"""What is made from the declarations: the page and the host manifest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from lossless.settings import SETTINGS
from lossless.settings.load import RETIRED_KEYS
from lossless.settings.page import form_label, manifest_schema, setting_texts
from scripts.settings_page import PATH_VARIABLES, main, settings_page

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


def test_the_page_is_up_to_date() -> None:
    assert main(["--check", str(PAGE)]) == 0


def test_the_page_names_everything() -> None:
    text = settings_page()
    for setting in SETTINGS:
        assert setting_texts()[setting.key][0] in text
        assert not setting.env or f"`{setting.env}`" in text
        assert setting.env_only or f"| `{setting.key}` |" in text
    for name in (*PATH_VARIABLES, *(item.key for item in RETIRED_KEYS), *(item.env for item in RETIRED_KEYS), "dbPath"):
        assert f"`{name}`" in text


def test_a_stale_page_is_found_and_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "docs" / "settings.md"
    command = [sys.executable, "-W", "error", "-m", "scripts.settings_page"]
    assert subprocess.run([*command, "--check", path], capture_output=True, check=False).returncode == 1
    assert subprocess.run([*command, path], capture_output=True, check=False).returncode == 0
    assert subprocess.run([*command, "--check", path], capture_output=True, check=False).returncode == 0
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    stale = subprocess.run([*command, "--check", path], capture_output=True, text=True, check=False)
    assert stale.returncode == 1
    assert "out of date" in stale.stderr
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2


def leaves(schema: dict[str, Any], prefix: str = "") -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    assert schema["additionalProperties"] is False
    for name, inner in schema["properties"].items():
        found |= leaves(inner, f"{prefix}{name}.") if "properties" in inner else {prefix + name: inner}
    return found


def test_the_manifest_has_every_key_and_no_other() -> None:
    manifest = manifest_schema()
    described = leaves(manifest["configSchema"])
    expected = {name for setting in SETTINGS for name in setting.config_names}
    assert described.keys() == expected | {retired.key for retired in RETIRED_KEYS} == manifest["uiHints"].keys()
    assert described["freshTailCount"] == {"type": "integer", "minimum": 1}
    assert described["contextThreshold"] == {"type": "number", "minimum": 0, "maximum": 1}
    assert described["hardLimitSummariser"] == {"type": "string", "enum": ["extractive", "model"]}
    assert described["incrementalMaxDepth"] == {"type": "integer", "minimum": -1, "deprecated": True}
    assert described["dbPath"] == {"type": "string"}
    rule = described["contextThresholdOverrides"]["items"]
    assert rule["additionalProperties"] is False
    assert rule["properties"]["match"]["minProperties"] == 1
    assert described["cacheAwareCompaction.hotCacheBudgetHeadroomRatio"]["maximum"] == 0.95


def test_hints_are_for_people() -> None:
    hints = manifest_schema()["uiHints"]
    assert hints["freshTailCount"]["label"] == "Fresh tail count"
    assert form_label("autoRotateSessionFiles.sizeBytes") == "Auto rotate session files: size bytes"
    assert all(hint["help"] and hint["label"] for hint in hints.values())
