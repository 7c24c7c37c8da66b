"""Files of others, opened for reading: their bytes stay as they are."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from lossless.errors import ArchiveCorrupt, BadInput, NotAnArchive
from lossless.paths import expanded
from lossless.store.archive import Archive
from lossless.store.sql import load
from lossless.store.sqlite import SqliteDatabase

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_TABLES = load("migrate")["tables"]
CLAW_TABLES = ("conversations", "messages", "summaries", "summary_messages", "summary_parents")
REMNIC_TABLES = ("lcm_messages", "lcm_summary_nodes")


def open_claw(path: str | Path) -> Archive:
    """A lossless-claw database, or an archive of ours; an error names every table that is missing."""
    place = _file(path)
    _check_tables(place, CLAW_TABLES, "lossless-claw")
    archive = Archive.open(place, read_only=True)
    archive.database.is_strict = True  # words are brought as they are, or not at all
    return archive


def check_remnic(path: str | Path) -> Path:
    """The place of a Remnic database; an error names every table that is missing."""
    place = _file(path)
    _check_tables(place, REMNIC_TABLES, "Remnic")
    return place


@contextmanager
def texts_of(source: str | Path) -> Iterator[None]:
    """Say clearly that a database holds text which is none."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise ArchiveCorrupt(f"source {str(source)!r} holds text that is not valid UTF-8 ({error.reason})") from error


def _file(path: str | Path) -> Path:
    place = expanded(path)
    if place.is_dir():
        raise BadInput(f"source {str(path)!r} is a folder, not a file")
    if not place.exists():
        raise BadInput(f"there is no source database at {str(path)!r}")
    return place


def _check_tables(place: Path, wanted: tuple[str, ...], whose: str) -> None:
    database = SqliteDatabase(str(place), read_only=True)
    try:
        there = {row[0] for row in database.rows(_TABLES)}
    finally:
        database.close()
    missing = [table for table in wanted if table not in there]
    if missing:
        raise NotAnArchive(f"Source database is missing {whose} tables: {', '.join(missing)}")
