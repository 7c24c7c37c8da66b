"""What cannot be opened or written is refused with one clear error, and nothing is half written."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest

from lossless import errors
from lossless.maintenance.verify import verify_archive
from lossless.store.archive import Archive
from tests.faults import SESSION, TURN, append_as_nobody, contents, dump, open_engine, problems
from tests.forking import run_forked
from tests.store import older
from tests.transfer import claws
from tests.transfer.moves import bring

if TYPE_CHECKING:
    from collections.abc import Iterator

    import lossless


def change(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()


def digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


@pytest.fixture
def newer(path: Path) -> Path:
    """A current file that lossless-claw wrote."""
    older.make(path, older.AGES["with entry ids, steps and advancements"])
    return path


# --- what a newer program may have done -----------------------------------------------------------


UNKNOWN = {
    "a column that must be filled": (
        "CREATE TABLE pieces AS SELECT * FROM large_files",
        "DROP TABLE large_files",
        "CREATE TABLE large_files (file_id TEXT PRIMARY KEY, conversation_id INTEGER NOT NULL,"
        " storage_uri TEXT NOT NULL, checksum TEXT NOT NULL)",
    ),
    "another rule": (
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = replace(sql, '''tool'')', '''tool'', ''wizard'')') WHERE name = 'messages'",
    ),
    "an unknown step": ("INSERT INTO lcm_migration_state (step_name, algorithm_version) VALUES ('splitMessages', 1)",),
    "a known step in a higher version": (
        "INSERT INTO lcm_migration_state (step_name, algorithm_version) VALUES ('backfillSummaryDepths', 2)",
    ),
    "our own tables of a later version": (
        "CREATE TABLE archive_state (name TEXT PRIMARY KEY, value) WITHOUT ROWID",
        "INSERT INTO archive_state VALUES ('schema', 999)",
    ),
}


def test_a_file_whose_ids_are_texts_is_not_written_but_can_be_imported(path: Path) -> None:
    talk = [("c1", 0, "hello", 1, "2026-03-01 10:00:00"), ("c1", 1, "hi", 1, "2026-03-01 10:00:01")]
    source = claws.toy(path.with_name("their file.db"), {"c1": "run-1"}, talk)
    before = digest(source)
    with pytest.raises(errors.SchemaUnknown, match="'conversation_id' of table 'conversations' is TEXT") as caught:
        Archive.open(source)
    assert f"`lcm import lossless-claw '{source}'` copies what it holds into an archive" in str(caught.value)
    assert digest(source) == before
    assert [place.name for place in path.parent.iterdir()] == [source.name]
    with Archive.open(source, read_only=True) as archive:
        assert archive.listings.counts().messages == 2
        assert [row.message_count for row in archive.listings.conversations(9).rows] == [2]
    assert bring("claw", source, path).messages_inserted == 2
    assert digest(source) == before


@pytest.mark.parametrize("how", UNKNOWN)
def test_a_file_that_a_newer_program_changed_is_not_written(how: str, newer: Path) -> None:
    change(newer, *UNKNOWN[how])
    before, rows = digest(newer), dump(newer)
    with pytest.raises(errors.SchemaUnknown, match=r"it can be read .* but not written"):
        Archive.open(newer)
    assert (digest(newer), dump(newer)) == (before, rows)
    with Archive.open(newer, read_only=True) as archive:
        assert len(archive.messages.in_order(1)) == len(older.TEXTS)
    assert digest(newer) == before


def test_what_does_not_matter_is_no_reason_to_refuse(newer: Path) -> None:
    change(
        newer,
        "CREATE TABLE pending_compaction_batches (batch_id TEXT PRIMARY KEY, note TEXT NOT NULL)",
        "ALTER TABLE messages ADD COLUMN mood TEXT",
        "ALTER TABLE messages ADD COLUMN weight INTEGER NOT NULL DEFAULT 0",
        "CREATE INDEX extra_idx ON messages (created_at)",
    )
    with open_engine(newer) as engine:
        engine.append(SESSION, TURN)
        assert problems(engine) == []


# --- what is no archive ---------------------------------------------------------------------------


def test_another_database_is_refused_and_left_alone(path: Path) -> None:
    change(path, "CREATE TABLE bookmarks (url TEXT)", "INSERT INTO bookmarks VALUES ('https://example.org')")
    before = digest(path)
    for read_only in (False, True):
        with pytest.raises(errors.NotAnArchive, match=r"a database of another program .*bookmarks"):
            Archive.open(path, read_only=read_only)
    assert digest(path) == before
    assert sorted(entry.name for entry in path.parent.iterdir()) == [path.name]


@pytest.mark.parametrize(
    "data", [b"just some text that is long enough to be looked at" * 40, b"SQLite format 3\x00" * 80]
)
def test_a_file_that_is_no_database_is_refused_and_left_alone(data: bytes, path: Path) -> None:
    path.write_bytes(data)
    for read_only in (False, True):
        with pytest.raises((errors.NotAnArchive, errors.ArchiveCorrupt)):
            Archive.open(path, read_only=read_only)
    assert path.read_bytes() == data


def test_a_folder_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(errors.ArchiveDenied, match="it is a folder"):
        Archive.open(tmp_path)


@pytest.mark.parametrize("read_only", [False, True])
def test_an_address_makes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_only: bool) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.ArchiveDenied, match="it is an address; name a file") as refused:
        Archive.open("postgresql://me:secret@host/db", read_only=read_only)
    assert "secret" not in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    place = tmp_path / "file" / "below"
    with pytest.raises(errors.ArchiveDenied) as refused:
        Archive.open(place / "lcm.db")
    said = str(refused.value)
    assert f"its folder {str(place)!r} cannot be made (Not a directory)" in said
    assert "choose another path with databasePath, LCM_DATABASE_PATH or --db" in said


def test_reading_what_is_not_there_makes_nothing(path: Path) -> None:
    with pytest.raises(errors.NotFound, match=r"there is no archive at '.*' yet: .* --db or LCM_DATABASE_PATH"):
        Archive.open(path, read_only=True)
    assert not path.exists()
    path.touch()
    with pytest.raises(errors.NotAnArchive, match="it is empty"):
        Archive.open(path, read_only=True)
    assert path.stat().st_size == 0


# --- what goes wrong ------------------------------------------------------------------------------


@pytest.fixture
def filled(path: Path) -> Iterator[lossless.Engine]:
    with open_engine(path) as engine:
        engine.append(SESSION, TURN)
        yield engine


def test_a_full_disk_writes_nothing(filled: lossless.Engine, path: Path) -> None:
    before = dump(path)
    rows = filled.archive.database.rows
    pages: int = rows("PRAGMA page_count")[0][0]
    rows(f"PRAGMA max_page_count = {pages + 2}")
    big = {"role": "user", "content": "word " * 200_000}
    with pytest.raises(errors.ArchiveFull, match="the disk is full; nothing was written"):
        filled.append(SESSION, [*TURN, big], key="big")
    assert dump(path) == before
    rows(f"PRAGMA max_page_count = {pages + 2_000}")
    filled.append(SESSION, [big], key="big")
    filled.append(SESSION, [big], key="big")
    assert contents(filled).count(str(big["content"])) == 1
    assert problems(filled) == []


def test_a_damaged_file_says_so(filled: lossless.Engine, path: Path) -> None:
    for n in range(200):
        filled.append(SESSION, [{"role": "user", "content": f"message {n} " * 20}])
    filled.close()
    data = bytearray(path.read_bytes())
    for page in range(2, len(data) // 4096):
        data[page * 4096 : page * 4096 + 64] = os.urandom(64)
    path.write_bytes(bytes(data))
    with (
        pytest.raises(errors.ArchiveCorrupt, match="the file is damaged; restore a backup"),
        open_engine(path) as engine,
    ):
        contents(engine)


def test_a_damaged_file_is_a_finding_of_verify(filled: lossless.Engine, path: Path) -> None:
    filled.close()
    rootpage = "SELECT rootpage FROM sqlite_master WHERE name = 'messages_conv_identity_hash_idx'"
    connection = apsw.Connection(str(path))
    page = int(str(connection.execute(rootpage).fetchall()[0][0]))
    connection.close()
    data = bytearray(path.read_bytes())
    data[(page - 1) * 4096 : (page - 1) * 4096 + 64] = os.urandom(64)
    path.write_bytes(bytes(data))
    with Archive.open(path, read_only=True) as archive:
        verification = verify_archive(archive)
    assert not verification.ok
    assert verification.problems[0].table == "database"


def test_a_file_that_another_holds_is_named_as_locked(path: Path) -> None:
    Archive.open(path).close()
    other = apsw.Connection(str(path))
    with Archive.open(path, busy_timeout_ms=50) as archive:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(errors.ArchiveLocked, match="another process holds it"), archive.writing():
            pass
        assert archive.listings.counts().messages == 0
        other.execute("ROLLBACK")
        with archive.writing():
            pass
    other.close()


def test_opening_waits_for_the_lock_and_then_says_who_has_it(path: Path) -> None:
    older.make(path, older.AGES["the first tables"])
    other = apsw.Connection(str(path))
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(errors.ArchiveLocked):
        Archive.open(path, busy_timeout_ms=50)
    other.execute("ROLLBACK")
    other.close()
    Archive.open(path, busy_timeout_ms=50).close()


def test_the_usual_patience_is_thirty_seconds(path: Path) -> None:
    with Archive.open(path) as archive:
        assert archive.database.rows("PRAGMA busy_timeout") == [(30_000,)]
        assert archive.database.rows("PRAGMA journal_mode") == [("wal",)]
        assert archive.database.rows("PRAGMA synchronous") == [(2,)]
        assert archive.database.rows("PRAGMA foreign_keys") == [(1,)]


@pytest.mark.parametrize("reachable", [True, False], ids=["a file that may be read", "a folder that may not"])
def test_without_permission_nothing_is_written(reachable: bool, nobodys: Path) -> None:
    with open_engine(nobodys) as engine:
        engine.append(SESSION, TURN)
    before = dump(nobodys)
    nobodys.chmod(stat.S_IRUSR)
    nobodys.parent.chmod(stat.S_IRUSR | (stat.S_IXUSR if reachable else 0))
    _, out, err = run_forked(append_as_nobody, str(nobodys))
    nobodys.parent.chmod(stat.S_IRWXU)
    nobodys.chmod(stat.S_IRUSR | stat.S_IWUSR)
    assert out == "ArchiveDenied\n", err
    assert dump(nobodys) == before


@pytest.fixture
def nobodys() -> Iterator[Path]:
    """A place for a file whose owner has no privileges, whoever runs the tests."""
    folder = Path(tempfile.mkdtemp())
    yield folder / "lcm.db"
    shutil.rmtree(folder)


def test_a_read_only_archive_takes_no_writes(filled: lossless.Engine, path: Path) -> None:
    with Archive.open(path, read_only=True) as archive:
        with pytest.raises(errors.ArchiveDenied, match="it was opened read-only"), archive.writing():
            pass
        with pytest.raises(errors.ArchiveDenied):
            archive.database.run("INSERT INTO archive_state VALUES ('x', 1)")


def test_reading_only_leaves_the_bytes_while_others_write(filled: lossless.Engine, path: Path) -> None:
    """What lies in the log of another process is read, and stays there."""
    before = digest(path)
    with Archive.open(path, read_only=True) as archive:
        assert archive.listings.counts().messages == 4
        filled.append(SESSION, [{"role": "user", "content": "one more"}])
        assert archive.listings.counts().messages == 5
        assert verify_archive(archive).ok
    assert digest(path) == before


def test_a_closed_archive_says_so(path: Path) -> None:
    archive = Archive.open(path)
    archive.close()
    archive.close()
    with pytest.raises(errors.ArchiveError, match="it was closed"):
        archive.listings.counts()
