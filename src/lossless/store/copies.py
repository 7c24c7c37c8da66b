"""Copies of a database, made and put back through SQLite itself, so that nobody who uses it is disturbed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw

from lossless.errors import ArchiveError, ArchiveFull
from lossless.store.sqlite import SqliteDatabase, refused

if TYPE_CHECKING:
    from collections.abc import Callable

#: Pages between two reports of progress.
_STEP = 4096


def open_readable(path: str, busy_timeout_ms: int) -> SqliteDatabase:
    """A database that SQLite can read, whatever it holds, as it is; `NotAnArchive` for what is none."""
    database = SqliteDatabase(path, busy_timeout_ms=busy_timeout_ms)
    try:
        database.row("PRAGMA schema_version")
    except BaseException:
        database.close()
        raise
    return database


def copy_to(
    database: SqliteDatabase, target: str, progress: Callable[[int], None] | None = None, *, name: str | None = None
) -> None:
    """Copy one state of a live database into `target`, which becomes a file that needs no log beside it.

    Others may write meanwhile. `progress` hears how many more bytes were copied. What goes wrong with the copy is
    told of `name`, where that is not yet the name of the file.
    """
    shown = name or target
    try:
        copy = apsw.Connection(target)
    except apsw.Error as error:
        raise _no_copy(error, shown) from error
    try:
        with database.snapshot():
            size = database.row("PRAGMA page_size") or (0,)
            database.row("SELECT count(*) FROM sqlite_master")
            try:
                _copy(copy, database.connection(), size[0], progress)
            except apsw.Error as error:
                raise _no_copy(error, shown) from error
        copy.execute("PRAGMA journal_mode = DELETE").fetchall()
    except apsw.Error as error:
        raise _no_copy(error, shown) from error
    finally:
        copy.close()


def without_log(database: SqliteDatabase) -> None:
    """Make a file one that needs no log beside it."""
    database.row("PRAGMA journal_mode = DELETE")


def _no_copy(error: apsw.Error, target: str) -> ArchiveError:
    """Why a copy could not be written, in our words."""
    if isinstance(error, apsw.FullError):
        return ArchiveFull(f"no copy can be made at {target!r}: the disk is full; free some room and repeat")
    if isinstance(error, apsw.IOError):
        return ArchiveError(
            f"no copy can be made at {target!r}: it could not be written; "
            "is there room for it, and may a file be that large?"
        )
    return refused(error, target)


def replace_with(database: SqliteDatabase, source: str, progress: Callable[[int], None] | None = None) -> None:
    """Make a database equal to the one in `source`, in one transaction: all of it or nothing.

    The caller holds the file (`adopt.alone`).
    """
    original = apsw.Connection(source, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        size = int(str(original.pragma("page_size")))
        _copy(database.connection(), original, size, progress)
    except apsw.Error as error:
        raise refused(error, database.path) from error
    finally:
        original.close()


def _copy(
    target: apsw.Connection, source: apsw.Connection, page_size: int, progress: Callable[[int], None] | None
) -> None:
    with target.backup("main", source, "main") as copy:
        left: int | None = None
        while not copy.done:
            copy.step(_STEP)
            if progress:
                done = copy.page_count if left is None else left
                progress((done - copy.remaining) * page_size)
            left = copy.remaining
