"""Several processes that open a new archive at the same moment all get it."""

from __future__ import annotations

import os
import sys
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import apsw
import pytest

from lossless.errors import ArchiveLocked
from lossless.model.conversations import Session
from lossless.store.archive import Archive
from lossless.store.database import Database

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS, PROCESSES = 10, 6


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_processes_that_open_a_new_archive_at_once_all_succeed(tmp_path: Path) -> None:
    Archive.open(tmp_path / "first.db").close()  # what is loaded once is loaded, so that the others start together
    for number in range(ROUNDS):
        path = tmp_path / f"folder{number}" / "lcm.db"
        gate, start = os.pipe()
        children = [_child(path, gate, start, n) for n in range(PROCESSES)]
        os.close(gate)
        os.close(start)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert codes == [0] * PROCESSES, number
        with Archive.open(path, read_only=True) as archive:
            assert archive.listings.counts().conversations == PROCESSES


def _child(path: Path, gate: int, start: int, number: int) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(start)
            os.read(gate, 1)  # ends for all of them at once
            with Archive.open(path) as archive, archive.writing():
                archive.conversations.open(Session(key=f"k{number}"), datetime.now(UTC))
            code = 0
        finally:
            os._exit(code)
    return child


def test_a_new_file_that_stays_locked_is_refused_in_time(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "lcm.db"))
    with database.transaction(exclusive=True), pytest.raises(ArchiveLocked):
        Archive.open(tmp_path / "lcm.db", busy_timeout_ms=50)
    database.close()


def test_reading_waits_for_a_process_that_holds_the_file_for_a_moment(tmp_path: Path) -> None:
    """The last one that closes a file does, while it empties the log."""
    path = tmp_path / "lcm.db"
    Archive.open(path).close()
    holder = apsw.Connection(str(path))
    holder.execute("PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE").fetchall()
    with pytest.raises(ArchiveLocked):
        Archive.open(path, read_only=True, busy_timeout_ms=10)
    leaving = threading.Timer(0.3, holder.close)
    leaving.start()
    Archive.open(path, read_only=True).close()
    leaving.join()
