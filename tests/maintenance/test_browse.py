"""`engine.browse`: reads for people, on an archive that is opened for reading only."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

import lossless
from lossless.errors import ArchiveError, NoArchive, NotFound
from lossless.model.records import PageStart, pack_cursor, unpack_cursor
from tests.built import built

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.model.messages import JsonObject

COUNT = 60


def said(count: int, about: str = "ferries") -> list[JsonObject]:
    return [
        {"role": "assistant" if number % 2 else "user", "content": f"{about} {number} " + "leave at noon " * 40}
        for number in range(count)
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return built(tmp_path / "lcm.db", _build)


def _build(path: Path) -> None:
    settings = lossless.Settings(fresh_tail_count=4, leaf_chunk_tokens=600, leaf_target_tokens=100)
    with lossless.open(path, settings, background=False) as engine:
        engine.append("ferry", said(COUNT))
        engine.compact("ferry", force=True)
        engine.append("train", said(3, "trains"))


def test_reading_leaves_the_bytes_as_they_are_and_starts_no_thread(path: Path) -> None:
    before, threads = path.read_bytes(), threading.active_count()
    with lossless.open(path, read_only=True) as engine, engine.browse.reading():
        browse = engine.browse
        assert browse.read_only
        assert browse.counts().messages == COUNT + 3
        assert [row.session_key for row in browse.conversations(10).rows] == ["train", "ferry"]
        assert browse.totals().counts == browse.counts()
        assert engine.verify().ok
        assert engine.grep("ferries").hits
        assert threading.active_count() == threads
        with pytest.raises(ArchiveError):
            engine.append("ferry", said(1))
    assert path.read_bytes() == before


def test_an_archive_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NoArchive):
        lossless.open(tmp_path / "none.db", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_pages_hold_every_message_once(path: Path) -> None:
    with lossless.open(path, read_only=True) as engine:
        ferry = engine.browse.find("ferry")
        assert ferry is not None
        seqs: list[int] = []
        start: PageStart | None = None
        while True:
            page = engine.browse.messages(ferry.id, 7, start)
            seqs += [row.seq for row in page.rows]
            start = page.next
            if start is None:
                break
        assert seqs == list(range(COUNT, 0, -1))


def test_the_graph_names_every_summary_and_where_messages_are(path: Path) -> None:
    with lossless.open(path, read_only=True) as engine:
        browse, ferry = engine.browse, engine.browse.find("ferry")
        assert ferry is not None
        shapes, edges, beginnings = browse.graph(ferry.id)
        assert {shape.id for shape in shapes} == set(beginnings)
        assert {summary for edge in edges for summary in edge} <= set(beginnings)
        leaf = next(shape.id for shape in shapes if shape.depth == 0)
        below = browse.source_messages(leaf)
        assert below
        assert {browse.message_status(id_).leaf_id for id_ in below} == {leaf}
        assert browse.summary(leaf).conversation_id == ferry.id
        with pytest.raises(NotFound):
            browse.get(10_000)


def test_one_snapshot_does_not_see_what_others_write(path: Path) -> None:
    with lossless.open(path, read_only=True) as reader, lossless.open(path, background=False) as writer:
        with reader.browse.reading():
            before = reader.browse.counts()
            writer.append("train", said(2, "more trains"))
            assert reader.browse.counts() == before
        assert reader.browse.counts().messages == before.messages + 2


def test_a_plan_made_by_a_reader_is_applied_by_a_writer_once(path: Path) -> None:
    with lossless.open(path, read_only=True) as reader:
        ferry = reader.browse.find("ferry")
        assert ferry is not None
        plan = reader.surgery.plan_undo(ferry.id)
        items = reader.browse.context_count(ferry.id)
    with lossless.open(path, background=False) as writer:
        done = writer.surgery.apply(plan)
        assert done.backup is not None
        assert done.backup.exists()
        assert writer.browse.context_count(ferry.id) > items
        with pytest.raises(lossless.LosslessError):
            writer.surgery.apply(plan)
        assert writer.verify().ok


def test_reading_loads_nothing_that_writing_needs(path: Path) -> None:
    code = (
        "import sys, lossless\n"
        f"with lossless.open({str(path)!r}, read_only=True) as engine:\n"
        "    engine.browse.conversations(5), engine.browse.totals(), engine.transcripts.held()\n"
        "heavy = ('lossless.ingest', 'lossless.compaction', 'lossless.context', 'lossless.llm', 'lossless.recall')\n"
        "print([name for name in sys.modules if name.startswith(heavy)])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("word", ["", "x", "!!!", "[]", "AAAA", "é", "W10", "a" * 10_000])
def test_no_word_is_taken_for_a_cursor(word: str) -> None:
    assert unpack_cursor(word) is None
    assert unpack_cursor(pack_cursor({"v": 1, "id": word[:99]})) == {"v": 1, "id": word[:99]}
