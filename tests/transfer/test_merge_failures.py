"""What goes wrong on the way: it is named, nothing half lies under a final name, and the next try ends well."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

import lossless
from lossless.cli.main import cli
from lossless.errors import ArchiveCorrupt, ArchiveDenied, ArchiveLocked, BadInput, NotAnArchive
from lossless.store.bundles.other_programs import ClawFile, RemnicFile
from lossless.transfer import lossless_claw, remnic
from lossless.transfer import pages as transfer_pages
from lossless.transfer.files import check_written
from lossless.transfer.lossless_claw import TransferOptions
from lossless.transfer.pages import export_pages
from tests.built import built
from tests.forking import Fork

from . import claws
from .claws import Line, Talk, bytes_of, real, rows, run
from .moves import bring, nothing_new, said, to_claw, to_file, to_remnic, vault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

EXPORTS: dict[str, Callable[..., Any]] = {"claw": to_claw, "remnic": to_remnic, "archive": to_file}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive to be exported."""
    return built(tmp_path / "here" / "lcm.db", _build_archive)


def _build_archive(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bring("claw", real(Path(folder) / "source.db", [claws.tree_of_24(), Talk("run-2", [Line("b")])]), path)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Conversations enough for an import to be hit in the middle."""
    talks = [
        Talk(f"run-{n}", [Line(f"{n}: {m} " + "words " * 40) for m in range(50)], f"key {n}", {f"sum_{n}": range(20)})
        for n in range(24)
    ]
    return real(tmp_path_factory.mktemp("many") / "lcm.db", talks)


def lcm(target: Path, *arguments: object, limit: int | None = None) -> Fork:
    """The command in a process of its own, with files no larger than `limit`."""

    def child() -> None:
        if limit is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        cli.main(list(map(str, arguments)))

    return Fork(child, os.environ | {"LCM_DATABASE_PATH": str(target), "HOME": str(target.parent)})


def stored(path: Path) -> int:
    """How many conversations an archive has that may not be there yet."""
    try:
        count: int = rows(path, "SELECT count(*) FROM conversations")[0][0]
    except apsw.Error:
        return 0
    return count


def kill_when(process: Fork, is_time: Callable[[], bool]) -> None:
    """Kill a process in the middle of its work."""
    until = time.monotonic() + 60
    while not is_time() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.002)
    process.kill()
    process.communicate()


def names(target: Path) -> list[str]:
    """What is to be seen of an export."""
    if target.is_file():
        return [target.name]
    return sorted(path.name for path in target.glob("*") if not path.name.startswith("."))


# --- killed ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["lossless-claw", "remnic", "archive"])
def test_an_import_that_is_killed_is_finished_by_the_next(many: Path, tmp_path: Path, kind: str) -> None:
    source = tmp_path / f"source.{kind}"
    if kind == "lossless-claw":
        shutil.copy(many, source)
    else:
        (to_remnic if kind == "remnic" else to_file)(many, source)
    target = tmp_path / "here" / "lcm.db"
    before = bytes_of(source)
    for some in (1, 9):
        kill_when(lcm(target, "import", kind, source), lambda least=some: stored(target) >= least)  # type: ignore[misc]
    assert 1 <= stored(target) <= 24
    process = lcm(target, "import", kind, source, "--verify")
    out, err = process.communicate()
    assert process.returncode == 0, err + out
    assert said(target) == said(many)
    assert bytes_of(source) == before
    assert nothing_new(bring(kind.removeprefix("lossless-"), source, target))


@pytest.mark.parametrize("kind", ["lossless-claw", "remnic", "archive", "jsonl", "html"])
def test_an_export_that_is_killed_leaves_nothing_half(many: Path, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "out" / "copy"

    def has_begun() -> bool:
        with suppress(FileNotFoundError):  # what was seen may have got its final name meanwhile
            found = [*target.parent.glob(".*.tmp"), *target.parent.glob(".*.tmp/*")]
            return any(path.is_file() and path.stat().st_size > 0 for path in found)
        return False

    kill_when(lcm(many, "export", kind, target), has_begun)
    there = names(target)
    process = lcm(many, "export", kind, target, *([] if kind == "remnic" else ["--overwrite"]))
    out, err = process.communicate()
    assert process.returncode == 0, err + out
    assert there in ([], names(target)), "nothing, or all of it when the kill came too late"


# --- no room, no place -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["lossless-claw", "remnic", "archive", "jsonl", "markdown", "html"])
def test_a_disk_that_is_full(many: Path, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "out" / "copy"
    process = lcm(many, "export", kind, target, limit=9_000)
    out, err = process.communicate()
    assert (process.returncode, out) == (5, ""), err
    assert "Traceback" not in err
    assert not target.exists()
    assert list(target.parent.glob(".*.tmp*")) == []


def test_what_lies_there_stays(archive: Path, tmp_path: Path) -> None:
    target = tmp_path / "out" / "copy"
    target.parent.mkdir()
    target.write_text("mine")
    for put in (to_claw, to_file):
        with pytest.raises(BadInput, match="already exists"):
            put(archive, target)
    with pytest.raises(NotAnArchive, match="not a SQLite database"):
        to_remnic(archive, target)
    with pytest.raises(BadInput, match="is a file; name a folder"):
        pages(archive, target)
    assert target.read_text() == "mine"
    assert [path.name for path in target.parent.iterdir()] == ["copy"]


@pytest.mark.parametrize("put", EXPORTS.values(), ids=EXPORTS)
def test_an_archive_is_not_written_over_itself(archive: Path, tmp_path: Path, put: Callable[..., Any]) -> None:
    before = bytes_of(archive)[archive.name]
    (tmp_path / "link.db").symlink_to(archive)
    os.link(archive, tmp_path / "hard.db")
    for target in (archive, tmp_path / "link.db", tmp_path / "hard.db"):
        with pytest.raises(BadInput, match="itself; choose another name"):
            put(archive, target, **({} if put is to_remnic else {"overwrite": True}))
    assert bytes_of(archive)[archive.name] == before


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
@pytest.mark.parametrize("put", EXPORTS.values(), ids=EXPORTS)
def test_the_files_beside_an_open_archive_are_not_replaced(
    archive: Path, tmp_path: Path, put: Callable[..., Any], ending: str
) -> None:
    (tmp_path / "link.db").symlink_to(archive)
    with lossless.open(tmp_path / "link.db", background=False) as engine:
        engine.append(lossless.Session(key="agent:main:open"), [{"role": "user", "content": "it is in the log"}])
        beside = Path(f"{archive}{ending}")
        before = beside.stat().st_ino if beside.exists() else None
        with pytest.raises(BadInput, match="part of the archive; choose another name"):
            put(archive, beside, **({} if put is to_remnic else {"overwrite": True}))
        assert (beside.stat().st_ino if beside.exists() else None) == before


@pytest.mark.parametrize("put", [to_claw, to_file])
def test_what_is_no_file_is_not_replaced(archive: Path, tmp_path: Path, put: Callable[..., Any]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(BadInput, match="not a file that can be replaced"):
        put(archive, pipe, overwrite=True)
    assert pipe.is_fifo()
    with pytest.raises(BadInput, match="is a folder; name a file"):
        put(archive, tmp_path, overwrite=True)


def test_a_link_stays_a_link(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "real.jsonl").write_text("old")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "real.jsonl")
    to_file(archive, tmp_path / "link.jsonl", overwrite=True)
    assert (tmp_path / "link.jsonl").is_symlink()
    assert (tmp_path / "real.jsonl").read_text().startswith('{"type":"lossless-archive"')


@pytest.mark.parametrize("put", EXPORTS.values(), ids=EXPORTS)
def test_a_place_that_cannot_be(archive: Path, put: Callable[..., Any]) -> None:
    with pytest.raises(ArchiveDenied, match="cannot be written"):
        put(archive, archive / "below" / "copy")


def test_a_database_of_another_program_is_not_added_to(archive: Path, tmp_path: Path) -> None:
    for other in (real(tmp_path / "claw.db", [Talk("s", [Line("a")])]), tmp_path / "other.db"):
        run(other, "CREATE TABLE IF NOT EXISTS theirs (x)")
        before = bytes_of(other)
        with pytest.raises(NotAnArchive, match="database of another program"):
            to_remnic(archive, other)
        with pytest.raises(NotAnArchive, match="database of another program"):
            to_remnic(archive, other, dry_run=True)
        assert bytes_of(other) == before


def test_rows_that_do_not_fit_together_are_named(archive: Path, tmp_path: Path) -> None:
    run(
        archive,
        "PRAGMA foreign_keys = OFF",
        "INSERT INTO summary_parents (summary_id, parent_summary_id, ordinal) VALUES ('sum_top', 'nobody', 9)",
    )
    with pytest.raises(ArchiveCorrupt, match="conversation 1 has inconsistent rows"):
        to_claw(archive, tmp_path / "out.db")
    assert not (tmp_path / "out.db").exists()


# --- written wrongly ---------------------------------------------------------------------------------------------


class LosingClaw(ClawFile):
    """Writes less than it is given."""

    def put(self, bundle: Any, files: Sequence[Any]) -> int:
        parts = super().put(bundle, files)
        self._db.run("UPDATE messages SET content = substr(content, 1, 3) WHERE message_id = 7")
        return parts


class LosingRemnic(RemnicFile):
    """Writes less than it is given."""

    def add_messages(self, rows: Sequence[Any], parts: Iterable[Any]) -> None:
        super().add_messages(rows, list(parts)[:-1])


def check_cut(path: Path, digest: str) -> None:
    """Checks a file whose last bytes never reached the disk."""
    os.truncate(path, path.stat().st_size - 2)
    check_written(path, digest)


def pages(archive: Path, target: Path) -> None:
    from lossless.store.archive import Archive

    with Archive.open(archive, read_only=True) as opened:
        export_pages(opened, vault(archive), target, "markdown", TransferOptions())


@pytest.mark.parametrize(
    ("put", "where", "losing"),
    [
        (to_claw, (lossless_claw, "ClawFile"), LosingClaw),
        (to_remnic, (remnic, "RemnicFile"), LosingRemnic),
        (pages, (transfer_pages, "check_written"), check_cut),
    ],
    ids=["claw", "remnic", "pages"],
)
def test_what_was_written_wrongly_is_found(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put: Any, where: tuple[Any, str], losing: Any
) -> None:
    monkeypatch.setattr(*where, losing)
    target = tmp_path / "out" / "copy"
    with pytest.raises(ArchiveCorrupt, match="read back"):
        put(archive, target)
    assert not target.exists()
    monkeypatch.undo()
    put(archive, target)


def test_a_remnic_database_that_was_there_is_as_it_was(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "memory.sqlite"
    to_remnic(archive, target, sessions=frozenset(["run-2"]))
    monkeypatch.setattr(remnic, "RemnicFile", LosingRemnic)
    with pytest.raises(ArchiveCorrupt, match="everything was rolled back"):
        to_remnic(archive, target)
    assert rows(target, "SELECT content FROM lcm_messages") == [("b",)]


# --- sources -----------------------------------------------------------------------------------------------------


def test_a_source_that_is_being_written(tmp_path: Path) -> None:
    source, target = real(tmp_path / "lcm.db", [Talk("run", [Line("first")])]), tmp_path / "here" / "lcm.db"
    add = "INSERT INTO messages (conversation_id, seq, role, content, token_count, created_at) VALUES "
    with closing(apsw.Connection(str(source))) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute(add + "(1, 2, 'user', 'in the log only', 1, '2026-03-01 10:00:01')")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute(add + "(1, 3, 'user', 'under way', 1, '2026-03-01 10:00:02')")
        before = bytes_of(source)
        assert bring("claw", source, target).messages_inserted == 2
        assert bytes_of(source) == before
        writer.execute("COMMIT")
        assert bring("claw", source, target).messages_inserted == 1


@pytest.mark.parametrize("kind", ["claw", "remnic"])
def test_a_source_that_is_held(tmp_path: Path, kind: str) -> None:
    source = real(tmp_path / "lcm.db", [Talk("run", [Line("a")])])
    if kind == "remnic":
        to_remnic(source, tmp_path / "memory.sqlite")
        source = tmp_path / "memory.sqlite"
    with closing(apsw.Connection(str(source))) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ArchiveLocked, match="another process holds it"):
            bring(kind, source, tmp_path / "here" / "lcm.db")
    bring(kind, source, tmp_path / "here" / "lcm.db")


@pytest.mark.parametrize("kind", ["claw", "remnic"])
def test_a_source_that_was_cut(many: Path, tmp_path: Path, kind: str) -> None:
    source, target = tmp_path / "cut.db", tmp_path / "here" / "lcm.db"
    if kind == "claw":
        shutil.copy(many, source)
    else:
        to_remnic(many, source)
    whole = source.read_bytes()
    source.write_bytes(whole[: len(whole) // 2 // 4096 * 4096])
    with pytest.raises(ArchiveCorrupt, match=r"cut\.db.*damaged"):
        bring(kind, source, target)
    source.write_bytes(whole)
    bring(kind, source, target)
    assert said(target) == said(many)
