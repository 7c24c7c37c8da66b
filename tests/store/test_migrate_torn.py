"""A file whose declarations were changed: verify and the doctor name the table, and nothing is written over it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import apsw
import pytest

from lossless import errors
from lossless.maintenance.doctor import examine
from lossless.maintenance.verify import verify_archive
from lossless.store import migrate
from lossless.store.archive import Archive
from lossless.store.migrate import affinity, base_tables, own_tables
from lossless.testing import VirtualClock
from tests.faults import SESSION, TURN, open_engine, problems
from tests.store import older

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = {table: list(columns) for table, columns in (base_tables() | own_tables()).items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("torn") / "lcm.db"
    with open_engine(path) as engine:
        engine.append(SESSION, TURN)
        assert problems(engine) == []
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    return path


def rewrite(path: Path, table: str, old: str, new: str) -> None:
    """Change the text by which a table is declared, as a flipped bit does."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA writable_schema = ON")
    ((declared,),) = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchall()
    sql = str(declared)
    assert sql.count(old) == 1, sql
    connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (sql.replace(old, new), table))
    connection.close()


def found_in(path: Path) -> tuple[set[str], set[str]]:
    """The tables that verify and the doctor name, which must agree that something is wrong."""
    with Archive.open(path, read_only=True) as archive:
        found, examined = verify_archive(archive), examine(archive, VirtualClock()())
    assert found.ok == examined.healthy
    return {one.table for one in found.problems if one.check == "schema"}, {
        id_ for one in examined.findings if one.kind == "tables" and one.severity == "problem" for id_ in one.ids
    }


def rename(path: Path, table: str, column: str, name: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "{name}"')
    connection.close()


@pytest.mark.parametrize("table", COLUMNS)
def test_every_column_under_another_name_is_found(table: str, whole: Path, path: Path) -> None:
    shutil.copy(whole, path)
    for column in COLUMNS[table]:
        rename(path, table, column, "other")
        with Archive.open(path, read_only=True) as archive:
            ((named, detail),) = migrate.damage(archive.database)
        assert named == table
        assert detail.startswith(f"column {column!r} is missing, and 'other' is unknown")
        rename(path, table, "other", column)


@pytest.mark.parametrize(
    ("table", "column"),
    [("messages", "content"), ("summaries", "kind"), ("message_extras", "skeleton"), ("archive_state", "value")],
)
def test_a_column_under_another_name_is_told_and_can_be_mended(
    table: str, column: str, whole: Path, path: Path
) -> None:
    shutil.copy(whole, path)
    rename(path, table, column, f"{column[:-1]}~")
    assert found_in(path) == ({table}, {table})
    before = path.read_bytes()
    with pytest.raises(errors.ArchiveCorrupt, match=f"table '{table}': column '{column}' is missing") as caught:
        Archive.open(path)
    assert path.read_bytes() == before
    advice = str(caught.value).split("`")[1]
    connection = apsw.Connection(str(path))
    connection.execute(advice)
    connection.close()
    with Archive.open(path) as archive:
        assert verify_archive(archive).problems == ()


@pytest.mark.parametrize("table", ["pins", "archive_state", "context_items", "summaries"])
def test_a_table_under_another_name_is_found(table: str, whole: Path, path: Path) -> None:
    shutil.copy(whole, path)
    connection = apsw.Connection(str(path))
    connection.execute(f'ALTER TABLE "{table}" RENAME TO "{table}~"')
    connection.close()
    assert found_in(path) == ({table}, {table})
    with pytest.raises(errors.ArchiveCorrupt, match=f"table '{table}': it is missing, and '{table}~' has its columns"):
        Archive.open(path)


@pytest.mark.parametrize(
    ("table", "old", "new"),
    [
        ("messages", "content                  TEXT", "content                  TEXU"),  # it would take "007" for 7
        ("summary_extras", "budget_tokens INTEGER", "budget_tokens IOTEGER"),
        ("message_versions", "length     INTEGER,", "length     INTEGERl"),  # the next column is now a part of its type
        ("ingest_state", "context_tokens  INTEGER,", "context_tokens  INTEGERl"),
    ],
)
def test_a_column_of_another_kind_is_found(table: str, old: str, new: str, whole: Path, path: Path) -> None:
    shutil.copy(whole, path)
    rewrite(path, table, old, new)
    assert found_in(path) == ({table}, {table})
    with pytest.raises(errors.ArchiveCorrupt, match=table):
        Archive.open(path)


@pytest.mark.parametrize("age", older.AGES)
def test_a_file_of_any_age_is_no_torn_one(age: str, path: Path) -> None:
    older.make(path, older.AGES[age])
    assert found_in(path) == (set(), set())
    with Archive.open(path) as archive:
        archive.close()
    assert found_in(path) == (set(), set())


def test_columns_and_tables_of_other_programs_are_none(whole: Path, path: Path) -> None:
    shutil.copy(whole, path)
    connection = apsw.Connection(str(path))
    connection.execute("ALTER TABLE messages ADD COLUMN mood TEXT; CREATE TABLE moods (mood TEXT)")
    connection.close()
    assert found_in(path) == (set(), set())
    Archive.open(path).close()


def test_what_lossless_claw_can_do_without_may_be_gone(whole: Path, path: Path) -> None:
    shutil.copy(whole, path)
    connection = apsw.Connection(str(path))
    connection.execute("DROP TABLE conversation_bootstrap_state")
    connection.execute("ALTER TABLE messages DROP COLUMN openclaw_sender_metadata")
    connection.close()
    assert found_in(path) == (set(), set())
    with Archive.open(path) as archive:
        assert verify_archive(archive).ok


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ("INTEGER", "INTEGER"),
        ("bigint", "INTEGER"),
        ("TEXT", "TEXT"),
        ("", "BLOB"),
        ("REAL", "REAL"),
        ("DATE", "NUMERIC"),
    ],
)
def test_kinds_of_columns_are_those_of_sqlite(declared: str, kind: str) -> None:
    assert affinity(declared) == kind
