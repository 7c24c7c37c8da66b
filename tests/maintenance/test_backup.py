"""Backups are whole while others write, and a restore is whole or did not happen."""

from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

import lossless
from lossless.errors import ArchiveCorrupt, ArchiveError, ArchiveLocked, BadInput, NotAnArchive, NotFound
from lossless.files.vault import Vault
from lossless.maintenance import backup
from lossless.maintenance.backup import backup_folder
from lossless.maintenance.prune import PruneFilter
from lossless.maintenance.verify import verify_archive
from lossless.store.archive import Archive
from tests.faults import SESSION
from tests.maintenance.keeping import NOW, fill, open_engine, problems

HOLDER = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("SELECT count(*) FROM messages").fetchall()
print("ready", flush=True)
sys.stdin.readline()
"""


def check(archive: Archive) -> list[str]:
    """What is wrong with a copy; its payloads are not beside it."""
    found = verify_archive(archive).problems
    return [str(problem) for problem in found if problem.severity == "error" and problem.check != "files"]


def counts(path: Path) -> int:
    with Archive.open(path, read_only=True) as archive:
        return archive.listings.counts().messages


def test_a_backup_is_a_whole_archive_under_the_usual_name(path: Path) -> None:
    with open_engine(path) as engine:
        fill(engine, 0)
        made = engine.backup()
        stored = engine.archive.listings.counts()
    assert made.path.name.startswith("lcm.db.backup-20260701T000000Z-")
    assert made.path.name.endswith(".bak")
    assert made.bytes == made.path.stat().st_size
    with open_engine(made.path) as copy:
        assert copy.archive.listings.counts() == stored
        assert problems(copy) == []
    assert not list(path.parent.glob(".*.tmp*"))


def test_a_backup_stands_alone_and_is_as_private_as_the_archive(path: Path) -> None:
    with open_engine(path) as engine:
        fill(engine, 0)
        path.chmod(0o600)
        made = engine.backup()
    assert made.path.stat().st_mode & 0o777 == 0o600
    before = made.path.read_bytes()
    assert counts(made.path) > 0
    assert made.path.read_bytes() == before
    assert not Path(f"{made.path}-wal").exists()


def test_the_rolling_backup_takes_the_place_of_the_one_before(path: Path) -> None:
    with open_engine(path) as engine:
        fill(engine, 0)
        first = engine.backup(rolling=True)
        fill(engine, 1)
        second = engine.backup(rolling=True)
        named = engine.backup()
    assert first.path == second.path == path.with_name("lcm.db.rotate-latest.bak")
    assert counts(second.path) == counts(path)
    found = backup.list_backups(str(path))
    assert {item.path for item in found} == {second.path, named.path}
    assert [item.is_rolling for item in found if item.path == second.path] == [True]
    assert {item.label for item in found} == {"rotate-latest", "backup"}


def test_backups_are_listed_newest_first_and_others_are_not(path: Path) -> None:
    with open_engine(path) as engine:
        old = backup.make_backup_beside(engine.archive, "weekly", datetime(2026, 1, 1, tzinfo=UTC), vault=None)
        new = backup.make_backup_beside(engine.archive, "weekly", datetime(2026, 3, 1, tzinfo=UTC), vault=None)
    path.with_name("other.db.weekly-20260101T000000Z-abcdef.bak").write_bytes(b"")
    path.with_name("lcm.db.note.txt").write_bytes(b"")
    assert [item.path for item in backup.list_backups(str(path))] == [new.path, old.path]
    assert backup.list_backups(str(path.parent / "nowhere" / "lcm.db")) == []


def test_what_is_there_is_not_overwritten(path: Path, tmp_path: Path) -> None:
    taken = tmp_path / "taken.db"
    taken.write_bytes(b"precious")
    with open_engine(path) as engine:
        with pytest.raises(BadInput, match="already exists"):
            engine.backup(taken)
        with pytest.raises(BadInput, match="already exists"):
            engine.backup(path)
        with pytest.raises(BadInput, match="fixed path"):
            engine.backup(taken, rolling=True)
        with pytest.raises(BadInput, match="label"):
            backup.backup_path(str(path), "../x", NOW)
    assert taken.read_bytes() == b"precious"
    with lossless.open(":memory:", background=False) as engine, pytest.raises(BadInput, match="in memory"):
        engine.backup()


def test_a_backup_holds_one_moment_while_others_write(path: Path) -> None:
    stop = threading.Event()
    with open_engine(path) as engine:
        fill(engine, 0)

        def write() -> None:
            n = 0
            while not stop.is_set():
                pair = [{"role": "user", "content": f"q{n}"}, {"role": "assistant", "content": f"a{n}"}]
                engine.append(lossless.Session(key="busy"), pair)
                n += 1

        writer = threading.Thread(target=write)
        writer.start()
        try:
            made = [engine.backup() for _ in range(5)]
        finally:
            stop.set()
            writer.join()
    for copy in made:
        with open_engine(copy.path) as opened:
            assert problems(opened) == []
            assert opened.archive.listings.counts().messages % 2 == 0, "no half turn"


def test_what_a_crash_left_is_swept_away(path: Path) -> None:
    old, young = (path.with_name(f".lcm.db.rotate-latest.bak.{name}.tmp") for name in ("0" * 8, "1" * 8))
    other = path.with_name(".lcm.db.mine.tmp")
    for leftover in (old, young, other):
        leftover.write_bytes(b"half")
    for leftover in (old, other):
        os.utime(leftover, (0, 0))
    with open_engine(path) as engine:
        engine.backup(rolling=True)
    assert [leftover.exists() for leftover in (old, young, other)] == [False, True, True]


# --- restoring ---


def test_a_restore_brings_back_what_was_and_keeps_what_is(path: Path) -> None:
    with open_engine(path) as engine:
        fill(engine, 0)
        made = engine.backup()
        fill(engine, 1)
    then, now_ = counts(made.path), counts(path)
    done = backup.restore_backup(made.path, str(path), check, NOW)
    assert done.before is not None
    assert (done.before.messages, done.after.messages) == (now_, then)
    assert counts(path) == then
    assert done.previous is not None
    assert counts(done.previous) == now_
    assert ".before-restore-" in done.previous.name
    with open_engine(path) as engine:
        assert problems(engine) == []
        fill(engine, 2)
        assert problems(engine) == []


LARGE = "a line of a long listing\n" * 10_000


def large(engine: lossless.Engine) -> tuple[int, Path]:
    """A message whose payload lies in a file: its id, and the file."""
    (id_,) = engine.append(SESSION, [{"role": "tool", "tool_call_id": "c1", "content": LARGE}]).message_ids
    (file,) = engine.archive.files.listed()
    return id_, Path(file.storage_uri)


@pytest.mark.parametrize("links", [True, False], ids=["links", "copies"])
def test_payloads_come_back_after_a_prune(path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    if not links:  # as on a disk that has none

        def refuse(*_: object, **__: object) -> None:
            raise OSError(errno.EPERM, "no links here")

        monkeypatch.setattr(os, "link", refuse)
    with open_engine(path) as engine:
        id_, file = large(engine)
        engine.admin.prune(engine.admin.prune_plan(PruneFilter(patterns=("**",), include_active=True)))
        assert not file.exists()
    (made,) = [item for item in backup.list_backups(str(path)) if item.label == "prune"]
    done = backup.restore_backup(made.path, str(path), check, NOW, vault=Vault(path.parent / "lcm-files"))
    assert done.files == 1
    with open_engine(path) as engine:
        assert file.read_text() == LARGE
        assert engine.verify().ok
        assert engine.archive.messages.get(id_).seq == 1


def test_the_rolling_backup_keeps_the_payloads_of_its_own_rows(path: Path) -> None:
    with open_engine(path) as engine:
        large(engine)
        made = engine.backup(rolling=True)
        assert made.files == 1
        folder = backup_folder(made.path)
        assert len(list(folder.glob("*/*"))) == 1
        assert engine.backup(rolling=True).files == 1
        engine.admin.prune(engine.admin.prune_plan(PruneFilter(patterns=("**",), include_active=True)), backup=False)
        assert engine.backup(rolling=True).files == 0
        assert not folder.exists()
        assert engine.backup().files == 0


def test_a_payload_that_is_missing_does_not_keep_the_rest_from_being_copied(path: Path) -> None:
    with open_engine(path) as engine:
        _, file = large(engine)
        file.unlink()
        made = engine.backup()
        assert (made.files, counts(made.path)) == (0, 1)


def test_what_is_kept_before_a_restore_has_its_payloads(path: Path) -> None:
    vault = Vault(path.parent / "lcm-files")
    with open_engine(path) as engine:
        empty = engine.backup().path
        _, file = large(engine)
    done = backup.restore_backup(empty, str(path), check, NOW, vault=vault)
    assert done.previous is not None
    file.unlink()
    assert backup.restore_backup(done.previous, str(path), check, NOW, vault=vault).files == 1
    assert file.read_text() == LARGE


def test_a_copy_of_a_read_only_archive_can_be_written(path: Path, tmp_path: Path) -> None:
    with open_engine(path) as engine:
        engine.append(SESSION, [{"role": "user", "content": "hello"}])
    path.chmod(0o444)
    with Archive.open(path, read_only=True) as archive:
        made = backup.make_backup(archive, tmp_path / "copy.db")
    assert stat.S_IMODE(made.path.stat().st_mode) & ~0o044 == 0o600  # the umask says whether others may read it


def test_a_copy_that_cannot_be_written_is_told_of_by_its_own_name(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    with open_engine(path) as engine:
        fill(engine, 0)
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
        try:
            with pytest.raises(ArchiveError, match=f"no copy can be made at '{target}': it could not be written"):
                backup.make_backup(engine.archive, target)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.glob("*copy.db*"))


def test_a_restore_makes_an_archive_that_is_gone(path: Path) -> None:
    with open_engine(path) as engine:
        fill(engine, 0)
        made = engine.backup()
    path.unlink()
    done = backup.restore_backup(made.path, str(path), check, NOW)
    assert (done.previous, done.before) == (None, None)
    with open_engine(path) as engine:
        assert problems(engine) == []


@pytest.mark.parametrize("damage", [b"no database at all", b"SQLite format 3\0" + b"\xff" * 400])
def test_a_damaged_archive_is_kept_aside(path: Path, damage: bytes) -> None:
    with open_engine(path) as engine:
        fill(engine, 0)
        made = engine.backup()
    path.write_bytes(damage)
    done = backup.restore_backup(made.path, str(path), check, NOW)
    assert done.previous is not None
    assert done.previous.read_bytes() == damage
    with open_engine(path) as engine:
        assert problems(engine) == []


def test_an_unsound_backup_is_refused_and_nothing_changes(path: Path, tmp_path: Path) -> None:
    with open_engine(path) as engine:
        fill(engine, 0)
        made = engine.backup()
    before = path.read_bytes()
    bad = tmp_path / "bad.bak"
    data = bytearray(made.path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 8192] = os.urandom(8192)
    bad.write_bytes(data)
    with pytest.raises(ArchiveCorrupt):
        backup.restore_backup(bad, str(path), check, NOW)
    bad.write_bytes(b"something else")
    with pytest.raises(NotAnArchive):
        backup.restore_backup(bad, str(path), check, NOW)
    with pytest.raises(ArchiveCorrupt, match="nothing was changed"):
        backup.restore_backup(made.path, str(path), lambda _: ["a row is missing", "another"], NOW)
    with pytest.raises(NotFound):
        backup.restore_backup(tmp_path / "none.bak", str(path), check, NOW)
    with pytest.raises(BadInput, match="archive itself"):
        backup.restore_backup(path, str(path), check, NOW)
    assert path.read_bytes() == before
    assert not list(path.parent.glob("*before-restore*"))


def test_a_restore_refuses_while_another_process_has_the_archive_open(path: Path) -> None:
    with open_engine(path) as engine:
        fill(engine, 0)
        made = engine.backup()
        fill(engine, 1)
    before = counts(path)
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        with pytest.raises(ArchiveLocked, match="stop that process"):
            backup.restore_backup(made.path, str(path), check, NOW)
        other.communicate("go\n", timeout=60)
    assert counts(path) == before
    assert not list(path.parent.glob("*before-restore*"))
    backup.restore_backup(made.path, str(path), check, NOW)
    assert counts(path) == counts(made.path)
