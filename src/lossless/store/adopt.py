"""Making a lossless-claw file ours alone: its search tables go, and the room they took is given back."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.errors import ArchiveCorrupt, ArchiveLocked
from lossless.store.sql import load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lossless.store.database import Database

_QUERIES = load("adopt")


@dataclass(frozen=True, slots=True)
class Reclaimable:
    """Upstream's search tables in a file, and the bytes that they take."""

    tables: tuple[str, ...]
    bytes: int


def survey(database: Database) -> Reclaimable:
    """What adopting the file would drop; reads only."""
    tables = tuple(row[0] for row in database.rows(_QUERIES["tables"]))
    taken = database.row(_QUERIES["bytes"]) if tables else None
    return Reclaimable(tables, taken[0] if taken else 0)


@contextmanager
def alone(database: Database) -> Iterator[None]:
    """Hold the file so that nobody else can open it; `ArchiveLocked` when somebody has it open, busy or idle."""
    database.run(_QUERIES["hold"])
    try:
        try:
            mode = database.row(_QUERIES["leave_wal"])
        except ArchiveLocked as error:
            raise _held(database) from error
        if mode is None or mode[0] != "delete":
            raise _held(database)
        with database.transaction(exclusive=True):
            pass
        yield
    finally:
        database.run(_QUERIES["let_go"])
        database.row(_QUERIES["read_once"])
        database.row(_QUERIES["enter_wal"])


def reclaim(database: Database) -> None:
    """Drop upstream's search tables and give the room back; needs `alone`."""
    with database.transaction(exclusive=True):
        for name, sql in _QUERIES.items():
            if name.startswith("drop_"):
                database.run(sql)
    database.run(_QUERIES["spill_to_disk"])
    database.run(_QUERIES["vacuum"])
    found = database.row(_QUERIES["check"])
    if found is None or found[0] != "ok":
        raise ArchiveCorrupt(f"archive {database.path!r}: {found[0] if found else 'it cannot be checked'}")


def _held(database: Database) -> ArchiveLocked:
    return ArchiveLocked(f"archive {database.path!r}: another process has it open; stop that process first")
