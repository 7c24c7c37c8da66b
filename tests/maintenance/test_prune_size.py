"""What takes the room is told in full, and what could go with it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import lossless
from lossless.maintenance.prune import PruneFilter, parse_age
from lossless.store.maintenance.deletion import ArchiveRemover
from tests.maintenance.keeping import fill, open_engine

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from lossless.maintenance.prune import SizeReport

NAMES = [
    "messages", "leaf summaries", "condensed summaries", "full-text index", "trigram index", "vectors", "other",
    "free pages", "files on disk",
]  # fmt: skip


def row(report: SizeReport, name: str) -> int:
    return next(item.bytes for item in report.rows if item.name == name)


def test_every_byte_of_the_database_is_in_one_row(path: Path) -> None:
    with open_engine(path) as engine:
        for number in range(4):
            fill(engine, number, 40)
        report = engine.admin.size()
        counts = engine.archive.listings.counts()
    assert [item.name for item in report.rows] == NAMES
    assert sum(item.bytes for item in report.rows) - report.file_bytes == report.database_bytes
    by_name = {item.name: item for item in report.rows}
    assert by_name["messages"].count == counts.messages
    leaves, condensed = by_name["leaf summaries"].count, by_name["condensed summaries"].count
    assert (leaves or 0) + (condensed or 0) == counts.summaries
    assert by_name["files on disk"].count == counts.files == 4
    assert report.file_bytes > 4 * 5_000
    assert by_name["messages"].of_messages == 1
    assert report.is_exact


def test_what_could_go_is_named_with_its_command(path: Path) -> None:
    with open_engine(path) as engine:
        for number in range(5):
            fill(engine, number)
        engine.backup()
        found = {item.what: item for item in engine.admin.size().could_go}
        age = found["closed conversations older than 90d"]
        work = engine.admin.prune_plan(PruneFilter(parse_age("90d")))
        assert (age.count, age.bytes) == (len(work.chosen), work.bytes)
        assert age.command == "lcm prune --older-than 90d --apply"
        assert found["backups next to the archive"].count == 1
        assert "lossless-claw's search tables" not in found
        engine.archive.database.run("CREATE VIRTUAL TABLE messages_fts USING fts5 (content)")
        engine.archive.database.run("CREATE TABLE big AS SELECT randomblob(400000) AS x")
        engine.archive.database.run("DROP TABLE big")
        report = engine.admin.size()
    later = {item.what: item.command for item in report.could_go}
    assert later["lossless-claw's search tables"] == "lcm adopt --apply"
    assert later["free pages"] == "lcm prune --vacuum --apply"
    assert row(report, "free pages") == report.free_bytes >= 400_000
    assert row(report, "lossless-claw's search index") > 0
    assert sum(item.bytes for item in report.rows) - report.file_bytes == report.database_bytes, "nothing twice"


def test_files_that_no_row_knows_could_go(path: Path) -> None:
    with open_engine(path) as engine:
        fill(engine, 0)
        assert engine.vault is not None
        lost = engine.vault.write(1, "file_0123456789abcdef", "txt", b"lost" * 100)
        os.utime(lost, (time.time() - 7200, time.time() - 7200))
        found = {item.what: item for item in engine.admin.size().could_go}
    assert found["files without a row"].bytes == 400


def test_the_trigram_index_has_a_row_of_its_own(path: Path) -> None:
    with open_engine(path) as engine:
        fill(engine, 0)
        with engine.archive.writing():
            engine.archive.search.trigrams.create()
            engine.archive.search.trigrams.add([(1, "letters " * 2000)])
        assert row(engine.admin.size(), "trigram index") > 0


def test_texts_are_counted_where_pages_cannot_be(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_engine(path) as engine:
        fill(engine, 0, 40)
        exact = engine.admin.size()
        monkeypatch.setattr(ArchiveRemover, "page_sizes", lambda _: None)
        report = engine.admin.size()
    assert not report.is_exact
    assert 0 < row(report, "messages") < row(exact, "messages")
    assert sum(item.bytes for item in report.rows) - report.file_bytes == report.database_bytes


def test_an_empty_archive_and_one_in_memory_have_sizes(path: Path) -> None:
    with open_engine(path) as engine:
        report = engine.admin.size()
        assert (row(report, "leaf summaries"), row(report, "condensed summaries")) == (0, 0)
        assert report.could_go == ()
    with lossless.open(":memory:", background=False) as memory:
        assert memory.admin.size().database_bytes > 0


def test_it_only_reads(path: Path) -> None:
    with open_engine(path) as engine:
        fill(engine, 0)
    before = path.read_bytes()
    with lossless.open(path, read_only=True) as engine:
        assert engine.admin.size().database_bytes == len(before)
    assert path.read_bytes() == before
