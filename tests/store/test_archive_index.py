"""The search index says what the rows say: after every write, whoever wrote, and without a second copy of the text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import apsw
from hypothesis import given
from hypothesis import strategies as st

import lossless
from lossless.model.context import NewSummary
from lossless.store.archive import Archive
from lossless.store.messages import MARK_STEP
from lossless.store.search import SearchScope
from lossless.testing import VirtualClock
from lossless.testing.strategies import hostile_text
from tests.faults import SESSION, contents, open_engine, problems
from tests.store import older

if TYPE_CHECKING:
    from pathlib import Path

CLOCK = VirtualClock()


def hits(engine: lossless.Engine, table: str, query: str) -> list[int]:
    sql = f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rowid"
    return [row[0] for row in engine.archive.database.rows(sql, [query])]


def upstream(path: Path, *statements: tuple[str, tuple[Any, ...]]) -> None:
    """Write as a live lossless-claw would: its own connection, its own rows."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA foreign_keys = ON")
    with connection:
        for sql, values in statements:
            connection.execute(sql, values)
    connection.close()


def add_message(seq: int, role: str, text: str) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    return (
        (
            "INSERT INTO messages (conversation_id, seq, role, content, token_count) VALUES (1, ?, ?, ?, 3)",
            (seq, role, text),
        ),
        (
            "INSERT INTO message_parts (part_id, message_id, session_id, part_type, ordinal, text_content, metadata)"
            " VALUES (?, (SELECT max(message_id) FROM messages), 'run-1', 'text', 0, ?, ?)",
            (f"uuid-{seq}", text, json.dumps({"originalRole": role})),
        ),
        (
            "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id)"
            " VALUES (1, 100 + ?, 'message', (SELECT max(message_id) FROM messages))",
            (seq,),
        ),
    )


def add_searched(seq: int, role: str, text: str) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """The same in a file with lossless-claw's search tables."""
    row = "INSERT INTO messages_fts (rowid, content) VALUES ((SELECT max(message_id) FROM messages), ?)"
    return (*add_message(seq, role, text), (row, (text,)))


def test_the_index_holds_no_copy_of_the_text(engine: lossless.Engine) -> None:
    engine.append(SESSION, [{"role": "user", "content": "the quick zebra " * 200}])
    rows = engine.archive.database.rows
    assert (
        rows("SELECT body, extra FROM message_index")
        == [(None, None)] * rows("SELECT count(*) FROM message_index")[0][0]
    )
    assert rows("SELECT name FROM sqlite_master WHERE name LIKE 'message_index_content'") == []
    assert rows("SELECT name FROM sqlite_master WHERE type = 'trigger'") == []


def test_what_another_program_writes_is_found_after_opening(path: Path) -> None:
    older.make(path, older.AGES["with entry ids, steps and advancements"])
    with open_engine(path):
        pass
    upstream(path, *add_searched(7, "user", "the zebra crossed"), *add_searched(8, "assistant", "which zebra?"))
    summary = (
        "INSERT INTO summaries (summary_id, conversation_id, kind, content, token_count) VALUES (?, 1, 'leaf', ?, 1)"
    )
    link = "INSERT INTO summary_messages (summary_id, message_id, ordinal) VALUES ('sum_new', 7, 0)"
    upstream(path, (summary, ("sum_new", "a zebra was seen")), (link, ()))
    for table in ("summaries_fts", "summaries_fts_cjk"):
        upstream(path, (f"INSERT INTO {table} (summary_id, content) VALUES ('sum_new', 'a zebra was seen')", ()))
    with open_engine(path) as engine:
        assert hits(engine, "message_index", "zebra") == [7, 8]
        assert len(hits(engine, "summary_index", "zebra")) == 1
        assert not [problem for problem in engine.verify().problems if problem.check == "index"]


def test_what_another_program_writes_meanwhile_is_not_stored_again(path: Path) -> None:
    """A window that shows rows which a live upstream has just written is a replay, indexed or not."""
    older.make(path, older.AGES["with entry ids, steps and advancements"])
    session = lossless.Session(key="agent:main:main", id="run-1")
    tail: list[dict[str, Any]] = [
        {"role": "user", "content": older.TEXTS[4]},
        {"role": "assistant", "content": older.TEXTS[5]},
    ]
    with open_engine(path) as engine:
        assert engine.sync(session, tail).stored == 0
        upstream(path, *add_searched(7, "user", "the zebra crossed"), *add_searched(8, "assistant", "which zebra?"))
        news = [{"role": "user", "content": "the zebra crossed"}, {"role": "assistant", "content": "which zebra?"}]
        assert engine.sync(session, [*tail, *news]).stored == 0
        assert engine.sync(session, [*tail, *news, {"role": "user", "content": "the stripy beast"}]).stored == 1
        assert contents(engine, session)[-3:] == ["the zebra crossed", "which zebra?", "the stripy beast"]
        assert engine.archive.catch_up() == 2
        assert engine.archive.catch_up() == 0
        assert hits(engine, "message_index", "zebra OR stripy") == [7, 8, 9]
        assert problems(engine) == []


def test_what_another_program_changes_or_deletes_is_a_finding(path: Path) -> None:
    with open_engine(path) as engine:
        engine.append(SESSION, [{"role": "user", "content": "hello"}, {"role": "user", "content": "goodbye"}])
    upstream(path, ("UPDATE messages SET content = 'changed' WHERE message_id = 1", ()))
    upstream(
        path, ("DELETE FROM context_items WHERE message_id = 2", ()), ("DELETE FROM messages WHERE message_id = 2", ())
    )
    with open_engine(path) as engine:
        found = {
            (problem.table, problem.id) for problem in engine.verify().problems if problem.check in ("index", "rows")
        }
        assert found == {("messages", "1"), ("message_index", "2")}


def test_upstreams_search_tables_are_kept(path: Path) -> None:
    older.make(path, older.AGES["with entry ids, steps and advancements"])
    session = lossless.Session(key="agent:main:main", id="run-1")
    with open_engine(path) as engine:
        engine.append(session, [{"role": "user", "content": "the zebra crossed"}, {"role": "user", "content": "  "}])
        reference = "[LCM File: file_0123456789abcdef | a.csv]\nhidden words\nExploration Summary:\nzebra columns"
        engine.append(session, [{"role": "user", "content": reference}])
        assert hits(engine, "messages_fts", "zebra") == [7, 9]
        assert hits(engine, "messages_fts", "hidden") == []
        items = engine.archive.context.items(1)[-3:-1]
        with engine.archive.writing():
            engine.archive.summaries.insert(1, items, NewSummary("sum_z", 0, "zebra 斑马过马路", 1, "test"), CLOCK())
            engine.archive.context.replace(1, items, "sum_z", CLOCK())
        for table in ("summaries_fts", "summaries_fts_cjk"):
            sql = f"SELECT summary_id FROM {table} WHERE {table} MATCH 'zebra'"
            assert engine.archive.database.rows(sql) == [("sum_z",)]
        assert problems(engine) == []


def test_an_archive_of_ours_has_no_search_tables_of_upstream(engine: lossless.Engine) -> None:
    engine.append(SESSION, [{"role": "user", "content": "hello"}])
    assert engine.archive.index.upstream == frozenset()


@given(texts=st.lists(hostile_text(20), min_size=1, max_size=6))
def test_indexing_anew_changes_nothing(texts: list[str]) -> None:
    """Rule: the rows of the index depend on the texts alone, so dropping and adding them gives the same sizes."""
    with open_engine(":memory:") as engine:
        engine.append(SESSION, [{"role": "user", "content": text} for text in texts])
        sizes = "SELECT id & 0xffff, sz FROM message_index_docsize ORDER BY id"
        before = engine.archive.database.rows(sizes)
        with engine.archive.writing():
            for stored in engine.archive.messages.many(list(range(1, len(texts) + 1))):
                engine.archive.index.reindex_message(stored.id, stored.message.content, stored.message)
        heads = [row for row in engine.archive.database.rows(sizes) if row[0] <= len(texts)]
        assert heads == [row for row in before if row[0] <= len(texts)]
        assert problems(engine) == []


def test_long_messages_are_indexed_by_passage(engine: lossless.Engine) -> None:
    text = "\n".join(f"line {n} speaks of many things, one of which is number{n}" for n in range(400))
    engine.append(SESSION, [{"role": "user", "content": text}, {"role": "user", "content": "number399"}])
    first, *rest = hits(engine, "message_index", "number399")
    assert (first, len(rest)) == (2, 1)
    assert rest[0] > 1 << 40
    where = "SELECT message_id FROM message_passages WHERE passage_id = ?"
    assert engine.archive.database.rows(where, [rest[0] - (1 << 40)]) == [(1,)]
    assert problems(engine) == []


def test_the_mark_follows_what_is_stored(path: Path) -> None:
    """So that nobody who only reads has to look for rows that are not indexed."""
    said = [{"role": "user", "content": f"said {n}"} for n in range(MARK_STEP + 1)]
    with open_engine(path) as engine:
        for _ in range(2):
            engine.append(SESSION, said)
            engine.append(SESSION, [{"role": "user", "content": "one more"}])
        assert engine.archive.search.unmarked()[0] <= MARK_STEP + 2
        engine.archive.database.run("UPDATE archive_state SET value = 0 WHERE name = 'indexed_through'")
    with open_engine(path) as engine:
        newest = 2 * MARK_STEP + 4
        assert engine.archive.search.unmarked() == (0, newest)
    upstream(path, *add_message(newest + 1, "user", "theirs"))
    with Archive.open(path, read_only=True) as archive:
        assert archive.search.unread(SearchScope(), 9) == [newest + 1]
        assert archive.search.unmarked() == (1, newest + 1)
    with open_engine(path) as engine:
        assert engine.archive.search.unmarked() == (0, newest + 1)
        assert engine.archive.search.unread(SearchScope(), 9) == []


def test_the_mark_stops_before_what_is_not_indexed(path: Path) -> None:
    with open_engine(path) as engine:
        engine.append(SESSION, [{"role": "user", "content": "one"}])
        upstream(path, *add_message(2, "user", "theirs"))
        for _ in range(2):
            engine.append(SESSION, [{"role": "user", "content": f"said {n}"} for n in range(MARK_STEP)])
        assert engine.archive.search.unread(SearchScope(), 9) == [2]
        assert engine.archive.search.unmarked()[0] > MARK_STEP
