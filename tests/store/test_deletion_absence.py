"""Reading every value of a database file: compressed columns and the words of deleted rows in search indexes, too."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import apsw
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from lossless.maintenance.forget import prove_absence
from lossless.store.maintenance.deletion import DatabaseScan, fts_leaf_terms
from lossless.store.rows import compress_residual

if TYPE_CHECKING:
    from pathlib import Path

WORD = "quaggahunter"


@hypothesis_settings(max_examples=15)
@given(st.lists(st.text("abcdefghij ", min_size=1, max_size=60), min_size=1, max_size=40))
def test_all_terms_of_an_index_are_read_from_its_pages(texts: list[str]) -> None:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE t USING fts5 (body, content='', contentless_delete=1)")
    connection.execute("INSERT INTO t (t, rank) VALUES ('pgsz', 64)")
    for n, text in enumerate(texts, 1):
        connection.execute("INSERT INTO t (rowid, body) VALUES (?, ?)", (n, text))
    connection.execute("CREATE VIRTUAL TABLE v USING fts5vocab(t, row)")
    found: set[bytes] = set()
    leaves = "SELECT block FROM t_data WHERE id >= 1 << 37 AND NOT (id >> 31) & 63"
    for (block,) in connection.execute(leaves).fetchall():
        assert isinstance(block, bytes)
        found.update(term[1:] for term in fts_leaf_terms(block))
    assert found == {term.encode() for (term,) in connection.execute("SELECT term FROM v")}


def test_words_are_found_in_every_form(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a, b, c)")
    phrase = f'say "{WORD}" é'
    values = [
        phrase,
        '{"a": "say \\"quaggahunter\\" \\u00e9"}',
        compress_residual(f'{{"x": "{WORD}"}}'),
        zlib.compress(phrase.encode()),
        phrase.encode("utf-16-le"),
    ]
    for value in values:
        connection.execute("INSERT INTO t (a) VALUES (?)", (value,))
    connection.close()
    found = prove_absence(str(path), None, [phrase, WORD])
    assert not found.ok
    places = {(trace["phrase"], trace["place"]) for trace in found.traces}
    assert {(1, f"t.a, row {n}") for n in (1, 2, 5)} | {(1, "t.a, row 4 (compressed)")} <= places
    assert (2, "t.a, row 3 (compressed)") in places


def test_a_free_page_and_a_log_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("PRAGMA secure_delete = OFF").fetchall()
    connection.execute("CREATE TABLE t (a)")
    connection.execute("INSERT INTO t VALUES (?)", (WORD * 400,))
    connection.execute("DELETE FROM t")
    traces = prove_absence(str(path), None, [WORD]).traces
    assert {(trace["file"], trace["place"]) for trace in traces} == {(f"{path}-wal", "bytes")}
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    (trace,) = prove_absence(str(path), None, [WORD]).traces
    assert (trace["file"], trace["place"]) == (str(path), "bytes")
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    assert prove_absence(str(path), None, [WORD]).ok
    connection.close()


def test_words_of_deleted_rows_are_told_from_those_that_others_say(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = apsw.Connection(str(path))
    connection.execute(
        "CREATE VIRTUAL TABLE t USING fts5 (body, content='', contentless_delete=1, tokenize='porter unicode61')"
    )
    connection.execute("INSERT INTO t (rowid, body) VALUES (1, 'running quaggas'), (2, 'the quagga runs')")
    connection.execute("DELETE FROM t WHERE rowid = 1")
    connection.close()
    with DatabaseScan(str(path)) as database:
        assert list(database.leftovers(["quaggas", "running"])) == []
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM t WHERE rowid = 2")
    connection.close()
    with DatabaseScan(str(path)) as database:
        assert list(database.leftovers(["quaggas", "zebra"])) == [("t", "quaggas")]


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"SQLite format 3\0" + b"\1" * 500)
    found = prove_absence(str(path), None, [WORD])
    assert not found.ok
    assert str(path) in found.unreadable[0]
