"""The store contract holds for SQLite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lossless
from lossless.testing.contract import StoreContract

if TYPE_CHECKING:
    from pathlib import Path


class TestSqlite(StoreContract):
    def open(self, folder: Path) -> lossless.Engine:
        return lossless.open(folder / "lcm.db", background=False)
