"""Archives are made once and copied: they are only looked at, or each test has its own."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.tui.kit import build

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("tui") / "lcm.db")


@pytest.fixture
def archive(made: Path, tmp_path: Path) -> Path:
    """An archive of one's own."""
    path = tmp_path / "lcm.db"
    shutil.copy(made, path)
    return path


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine says about its colours is not seen."""
    for name in ("COLORFGBG", "NO_COLOR", "FORCE_COLOR", "TEXTUAL_THEME", "LCM_DEBUG"):
        monkeypatch.delenv(name, raising=False)
