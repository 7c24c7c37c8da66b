"""Archives, their logs, backups, exports and the folders made for them are their owner's alone, whatever the umask."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

import lossless
from lossless.maintenance import backup
from lossless.model.paths import create_private_file, make_private_folder
from lossless.transfer.archive_file import export_archive
from lossless.transfer.lossless_claw import TransferOptions, export_lossless_claw
from lossless.transfer.pages import export_pages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there are no modes")
SESSION = lossless.Session(key="k")


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o177])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    before = os.umask(request.param)
    try:
        yield tmp_path
    finally:
        os.umask(before)


def opened_to_others(folder: Path) -> dict[str, str]:
    """Files and folders with another mode than their owner's alone."""
    found = {}
    for path in folder.rglob("*"):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if mode != (0o700 if path.is_dir() else 0o600):
            found[str(path.relative_to(folder))] = oct(mode)
    return found


def test_an_archive_and_all_that_is_made_of_it(home: Path) -> None:
    path = home / "new" / "folder" / "lcm.db"
    with lossless.open(path, background=False) as engine:
        engine.append(SESSION, [{"role": "user", "content": f"Number {n}."} for n in range(30)])
        engine.append(SESSION, [{"role": "user", "content": "long " * 40_000}])
        engine.backup()
        assert {f"{path.name}{ending}" for ending in ("", "-wal", "-shm")} <= {
            file.name for file in path.parent.iterdir()
        }
        export_archive(engine.archive, engine.vault, home / "out" / "a" / "x.lossless")
        export_lossless_claw(engine.archive, engine.vault, home / "out" / "claw" / "lcm.db")
        export_pages(engine.archive, engine.vault, home / "out" / "pages", "markdown", TransferOptions())
        assert opened_to_others(home) == {}
    made = next(path.parent.glob("*.bak"))
    path.chmod(0o640)
    backup.restore_backup(made, str(path), lambda _: (), datetime.now(UTC))
    assert stat.S_IMODE(path.stat().st_mode) == 0o640  # whoever shares an archive still does


def test_a_file_that_is_there_keeps_its_mode(home: Path) -> None:
    path = home / "lcm.db"
    lossless.open(path, background=False).close()
    path.chmod(0o664)
    lossless.open(path, background=False).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o664
    with pytest.raises(FileExistsError):
        create_private_file(path)
    with pytest.raises(OSError, match="exist"):
        make_private_folder(path)
