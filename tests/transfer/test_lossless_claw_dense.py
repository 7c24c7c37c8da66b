"""Exported contexts have no gaps, which lossless-claw 1.0 cannot compact across."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import lossless
from lossless.store.archive import Archive
from lossless.transfer.archive_file import export_archive, import_archive
from lossless.transfer.lossless_claw import TransferOptions, export_lossless_claw

if TYPE_CHECKING:
    from pathlib import Path

_ORDINALS = "SELECT ordinal FROM context_items ORDER BY ordinal"


def test_both_exports_are_dense(tmp_path: Path) -> None:
    with lossless.open(tmp_path / "lcm.db", background=False) as engine:
        engine.append(lossless.Session(key="k"), [{"role": "user", "content": f"Number {n}."} for n in range(9)])
        with engine.archive.writing():
            engine.archive.database.run("UPDATE context_items SET ordinal = 3 * ordinal + 100 WHERE ordinal > 2")
            engine.archive.context.hide(1, [2], "removed", datetime.now(UTC))
        export_lossless_claw(engine.archive, engine.vault, tmp_path / "claw.db")
        export_archive(engine.archive, engine.vault, tmp_path / "x.lossless")
    with Archive.open(tmp_path / "other.db") as other:
        import_archive(tmp_path / "x.lossless", other, None, TransferOptions())
    for name in ("claw.db", "other.db"):
        with lossless.open(tmp_path / name, background=False) as engine:
            assert [row["ordinal"] for row in engine.sql(_ORDINALS)] == list(range(8)), name
