"""The plugin itself: its own tests, run by Node against the real Python. Without Node 20 or newer they are not run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hosts.openclaw.gateway import cache

PLUGIN = Path(__file__).parents[3] / "bridges" / "openclaw"
TESTS = sorted((PLUGIN / "test").glob("*.test.js"))


def node() -> str | None:
    kept = cache() / "node" / "bin" / "node"
    found = shutil.which("node") or (str(kept) if kept.exists() else None)
    if found is None:
        return None
    version = re.match(r"v(\d+)\.", subprocess.run([found, "--version"], capture_output=True, text=True).stdout)
    return found if version and int(version[1]) >= 20 else None


@pytest.mark.parametrize("test", TESTS, ids=lambda path: path.name)
def test_the_plugin(test: Path) -> None:
    program = node()
    if program is None:
        pytest.skip("there is no Node 20 or newer")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LCM_", "OPENCLAW_"))}
    done = subprocess.run(
        [program, "--test", "--test-reporter=tap", str(test)],
        env=env | {"LCM_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout[-6000:]


def test_every_file_of_the_plugin_is_small_and_finished() -> None:
    for file in [*PLUGIN.glob("*.js"), *PLUGIN.glob("*/*.js")]:
        text = file.read_text()
        assert len(text.splitlines()) <= 260, file
        assert not re.search(r"\b(TO" + r"DO|FIX" + r"ME)\b|registry\.", text), file
    assert not list(PLUGIN.rglob("package-lock.json"))
