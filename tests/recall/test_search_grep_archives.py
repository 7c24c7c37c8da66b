"""Search in archives that others write to, in files, and with an index of letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import apsw
import pytest

import lossless
from lossless.model.messages import StoredFile
from lossless.recall.scope import GrepRequest, whole_archive
from lossless.recall.search import SearchLimits, grep
from lossless.store.archive import Archive
from lossless.store.search import build_trigram_index
from tests.recall.searching import ANNA, BEN, NOW, SAID, ids, say

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def engine() -> Iterator[lossless.Engine]:
    with lossless.open(":memory:", background=False, clock=lambda: NOW) as engine:
        say(engine, ANNA, SAID)
        yield engine


# --- other programs ---------------------------------------------------------------------------------


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """An archive into which another program wrote: rows without an index."""
    path = tmp_path / "lcm.db"
    with lossless.open(path, background=False) as engine:
        say(engine, ANNA, SAID)
    connection = apsw.Connection(str(path))
    connection.execute(
        "INSERT INTO messages (conversation_id, seq, role, content, token_count, created_at) "
        "VALUES (1, 7, 'user', 'The lighthouse keeper called', 7, '2026-03-05 00:00:00');"
        "INSERT INTO summaries (summary_id, conversation_id, kind, depth, content, token_count) "
        "VALUES ('sum_foreign', 1, 'leaf', 0, 'A lighthouse was mentioned', 5)"
    )
    connection.close()
    return path


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("sort", ["relevance", "recency"])
def test_rows_of_other_programs_are_found(foreign: Path, read_only: bool, sort: Any) -> None:
    before = foreign.read_bytes()
    with Archive.open(foreign, read_only=read_only) as archive:
        found = grep(archive, whole_archive(), GrepRequest("lighthouse keeper", sort=sort), NOW)
        assert set(ids(found)) >= {7}
        found = grep(archive, whole_archive(), GrepRequest("lighthouse", sort=sort), NOW)
        assert set(ids(found)) >= {7, "sum_foreign"}
    if read_only:
        assert foreign.read_bytes() == before


def test_a_file_without_our_tables_is_searched_as_it_is(foreign: Path) -> None:
    connection = apsw.Connection(str(foreign))
    for table in ("message_index", "summary_index", "message_passages", "message_extras", "summary_extras"):
        connection.execute(f"DROP TABLE {table}")
    connection.close()
    with Archive.open(foreign, read_only=True) as archive:
        for request in (GrepRequest("retry queue"), GrepRequest("retry queue", sort="recency"), GrepRequest("etry q")):
            assert 2 in ids(grep(archive, whole_archive(), request, NOW))
        assert ids(grep(archive, whole_archive(), GrepRequest(r"ERR-\d+", "regex"), NOW)) == [2]


def test_a_changed_row_is_left_out_and_indexed_anew(foreign: Path) -> None:
    with Archive.open(foreign) as archive:
        assert ids(grep(archive, whole_archive(), GrepRequest("PostgreSQL", search_in="messages"), NOW))[0] == 5
        connection = apsw.Connection(str(foreign))
        connection.execute("UPDATE messages SET content = 'We took the walrus instead' WHERE message_id = 5")
        connection.close()
        gone = grep(archive, whole_archive(), GrepRequest("PostgreSQL ledger"), NOW)
        assert not gone.hits
        assert ids(grep(archive, whole_archive(), GrepRequest("walrus"), NOW))[0] == 5


def test_a_search_does_not_need_to_write(foreign: Path) -> None:
    with Archive.open(foreign) as archive:
        connection = apsw.Connection(str(foreign))
        connection.execute(
            "INSERT INTO messages (conversation_id, seq, role, content, token_count) "
            "VALUES (1, 8, 'user', 'a beacon', 3);"
            "UPDATE messages SET content = 'We took the walrus' WHERE message_id = 5;"
            "BEGIN IMMEDIATE"
        )
        archive.database.connection().set_busy_timeout(1)
        assert ids(grep(archive, whole_archive(), GrepRequest("beacon"), NOW))[0] == 8
        assert not grep(archive, whole_archive(), GrepRequest("PostgreSQL ledger"), NOW).hits
        connection.close()
        assert ids(grep(archive, whole_archive(), GrepRequest("walrus"), NOW))[0] == 5


# --- files ------------------------------------------------------------------------------------------


def test_files_are_searched(tmp_path: Path) -> None:
    with lossless.open(tmp_path / "lcm.db", background=False, clock=lambda: NOW) as engine:
        say(engine, ANNA, SAID)
        assert engine.vault is not None
        files = {
            "file_0123456789abcdef": (
                1,
                "log.txt",
                "text/plain",
                b"line one\nthe Deploy failed\nERR-99\n" + b"x\n" * 40,
            ),
            "file_fedcba9876543210": (1, "other.txt", None, b"nothing here, deploy"),
            "file_00000000deadbeef": (1, "image.png", "image/png", b"deploy"),
        }
        for file_id, (conversation, name, mime, data) in files.items():
            path = engine.vault.write(conversation, file_id, "txt", data)
            stored = StoredFile(file_id, conversation, name, mime, len(data), None, str(path), None, NOW)
            with engine.archive.writing():
                engine.archive.files.add([stored])
        found = engine.grep("failed deploy", scope="files")
        (hit,) = found.hits
        assert (hit.id, hit.kind, hit.name, hit.line, hit.offset) == ("file_0123456789abcdef", "file", "log.txt", 2, 20)
        assert "[conv=1 file_0123456789abcdef (log.txt)] line 2, offset 20: " in str(found)
        assert {hit.id for hit in engine.grep("deploy", scope="files").hits} == {*files} - {"file_00000000deadbeef"}
        only = engine.grep("deploy", scope="files", file_ids=["file_fedcba9876543210"])
        assert ids(only) == ["file_fedcba9876543210"]
        many = engine.grep("^x$|x", mode="regex", scope="files", file_ids=["file_0123456789abcdef"])
        assert len(many.hits) == 10
        assert not engine.grep("deploy", scope="files", before=NOW).hits
        assert not engine.grep("deploy", scope="files", session=BEN).hits


# --- an index of letters ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern", ["ERR-4711", "(?i)err-4711", "败，请检", "Zürich", "getUser", r"\d\d:\d\d Uhr", "ly"]
)
def test_an_index_of_letters_changes_nothing(engine: lossless.Engine, pattern: str) -> None:
    plain = ids(engine.grep(pattern, mode="regex"))
    assert build_trigram_index(engine.archive, 5.0)
    assert engine.archive.search.trigrams.through == 6
    assert ids(engine.grep(pattern, mode="regex")) == plain
    say(engine, BEN, [f"later: {text}" for text in SAID])
    assert len(ids(engine.grep(pattern, mode="regex"))) == 2 * len(plain)


def test_a_scan_that_is_too_slow_has_the_index_made(engine: lossless.Engine) -> None:
    def late(pattern: str, trigrams: Literal["auto", "off"]) -> int:
        found = grep(
            engine.archive, whole_archive(), GrepRequest(pattern, "regex"), NOW, means=SearchLimits(0.0, trigrams)
        )
        assert found.truncated
        assert found.hint
        return engine.archive.search.trigrams.through

    say(engine, BEN, ["one more worker"])
    assert late("worker", "off") == 0
    assert late("(w+o+)+", "auto") == 0
    assert late("worker", "auto") == 7
    assert ids(engine.grep("worker", mode="regex")) == [7, 1]


def test_a_scan_without_time_gets_ahead_all_the_same(engine: lossless.Engine) -> None:
    say(engine, BEN, ["one more worker", "a third worker"])
    request, means = GrepRequest("worker", "regex"), SearchLimits(0.0, "off")
    page = grep(engine.archive, whole_archive(), request, NOW, means=means)
    found = ids(page)
    while page.next is not None and len(found) < 3:
        page = grep(engine.archive, whole_archive(), request, NOW, cursor=page.next, means=means)
        assert ids(page)
        found += ids(page)
    assert found == [8, 7, 1]
