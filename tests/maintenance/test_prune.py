"""Pruning deletes what was chosen and nothing else, from every table, and never leaves a broken archive."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lossless
from lossless.errors import BadInput
from lossless.maintenance import prune
from lossless.maintenance.prune import PruneFilter, choose_conversations, parse_age, parse_size
from lossless.store.maintenance.deletion import KEPT_TABLES, ArchiveRemover, ConversationSize
from tests.faults import dump
from tests.maintenance.keeping import NOW, fill, has_files, open_engine, problems

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Tables of lossless-claw 1.0 that refer to conversations, messages and summaries.
THEIRS = """
CREATE TABLE message_transcript_anchor_trust (
    message_id INTEGER PRIMARY KEY REFERENCES messages(message_id) ON DELETE CASCADE,
    conversation_id INTEGER NOT NULL REFERENCES conversations(conversation_id) ON DELETE CASCADE);
CREATE TABLE pending_compaction_batches (
    batch_id TEXT PRIMARY KEY,
    conversation_id INTEGER NOT NULL REFERENCES conversations(conversation_id) ON DELETE CASCADE);
CREATE TABLE pending_summary_nodes (
    node_id TEXT PRIMARY KEY,
    batch_id TEXT NOT NULL REFERENCES pending_compaction_batches(batch_id) ON DELETE CASCADE,
    conversation_id INTEGER NOT NULL REFERENCES conversations(conversation_id) ON DELETE CASCADE);
CREATE TABLE pending_summary_node_messages (
    node_id TEXT NOT NULL REFERENCES pending_summary_nodes(node_id) ON DELETE CASCADE,
    message_id INTEGER NOT NULL REFERENCES messages(message_id) ON DELETE RESTRICT, PRIMARY KEY (node_id, message_id));
CREATE TABLE their_notes (note TEXT, conversation_id INTEGER, message_id INTEGER, summary_id TEXT);
CREATE TABLE their_marks (mark TEXT, message_id INTEGER);
"""


def ids(engine: lossless.Engine) -> set[int]:
    return {held.id for held in ArchiveRemover(engine.archive).held()}


@pytest.fixture
def engine(path: Path) -> Iterator[lossless.Engine]:
    """Five closed conversations of different age, each with an empty open one behind it, and a sixth that is open."""
    with open_engine(path) as opened:
        for number in range(5):
            fill(opened, number)
        fill(opened, 5, closed=False)
        yield opened


# --- what is chosen ---


def test_a_dry_run_counts_and_changes_nothing(engine: lossless.Engine, path: Path) -> None:
    before = dump(path)
    work = engine.admin.prune_plan(PruneFilter(older_than=timedelta(days=100)))
    assert [item.session_id for item in work.chosen] == ["run-0", "run-1", "run-2"]
    assert (work.messages, work.files) == (3 * 14, 3)
    assert work.summaries > 0
    assert 0 < work.bytes < work.bytes_before
    assert work.bytes_after == work.bytes_before - work.bytes
    assert dump(path) == before


def test_active_conversations_are_meant_only_when_that_is_said(engine: lossless.Engine) -> None:
    everything = PruneFilter(patterns=("**",))
    assert not any(item.active for item in engine.admin.prune_plan(everything).chosen)
    asked = engine.admin.prune_plan(PruneFilter(patterns=("**",), include_active=True))
    assert len(asked.chosen) == len(ids(engine))


def test_a_size_takes_the_oldest_first(engine: lossless.Engine) -> None:
    all_ = engine.admin.prune_plan(PruneFilter(patterns=("**",)))
    limit = all_.bytes_before - all_.chosen[0].bytes - 1
    work = engine.admin.prune_plan(PruneFilter(to_bytes=limit))
    assert [item.session_id for item in work.chosen] == ["run-0", "run-1"]
    assert work.bytes_after <= limit
    assert engine.admin.prune_plan(PruneFilter(to_bytes=work.bytes_before)).chosen == ()


def test_patterns_and_ages_hold_together(engine: lossless.Engine) -> None:
    work = engine.admin.prune_plan(
        PruneFilter(older_than=timedelta(days=70), patterns=("agent:*:talk2", "agent:*:talk4"))
    )
    assert [item.session_key for item in work.chosen] == ["agent:main:talk2"]
    assert engine.admin.prune_plan(PruneFilter()).chosen == ()


@pytest.mark.parametrize(("text", "days"), [("90d", 90), ("12w", 84), ("6m", 180), ("2y", 730), ("2Y", 730)])
def test_ages(text: str, days: int) -> None:
    assert parse_age(text).days == days


@pytest.mark.parametrize("text", ["", "d", "0d", "-1d", "90", "1h", "1.5y", "9999999d", "٣d"])
def test_what_is_no_age(text: str) -> None:
    with pytest.raises(BadInput, match="90d"):
        parse_age(text)


@pytest.mark.parametrize(("text", "size"), [("2GB", 2 << 30), ("1.5 kB", 1536), ("700", 700), ("3m", 3 << 20)])
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "2PB", "1e9", "two"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(BadInput, match="2GB"):
        parse_size(text)


def held(id: int, text: int, *, active: bool = False) -> ConversationSize:
    at = NOW - timedelta(days=1000 - id)
    return ConversationSize(id, f"run-{id}", None, None, active, at, at, 1, 0, 0, text, 0)


@given(
    texts=st.lists(st.integers(0, 10_000), min_size=1, max_size=20),
    pairs=st.sets(st.tuples(st.integers(1, 20), st.integers(1, 20)), max_size=12),
    limit=st.integers(0, 200_000),
    active=st.sets(st.integers(1, 20)),
)
def test_what_another_conversation_holds_stays(
    texts: list[int], pairs: set[tuple[int, int]], limit: int, active: set[int]
) -> None:
    there = [held(n, text, active=n in active) for n, text in enumerate(texts, 1)]
    work = choose_conversations(there, pairs, PruneFilter(patterns=("**",)), 100_000, NOW)
    chosen = {item.id for item in work.chosen}
    assert not chosen & active
    assert not [pair for pair in pairs if pair[1] in chosen and pair[0] not in chosen]
    bounded = choose_conversations(there, pairs, PruneFilter(to_bytes=limit), 100_000, NOW)
    assert list(bounded.chosen) == list(work.chosen[: len(bounded.chosen)]), "oldest first"
    assert bounded.bytes_after <= limit or len(bounded.chosen) == len(work.chosen)


# --- deleting ---


def test_what_was_chosen_is_gone_and_the_rest_is_untouched(engine: lossless.Engine, path: Path) -> None:
    work = engine.admin.prune_plan(PruneFilter(older_than=timedelta(days=100)))
    gone = {item.id for item in work.chosen}
    kept, files = ids(engine) - gone, has_files(engine)
    before = {id_: engine.archive.messages.in_order(id_) for id_ in kept}
    report = engine.admin.prune(work)
    assert (report.conversations, report.messages, report.files) == (3, 3 * 14, 3)
    assert (report.left, report.files_left) == ((), 0)
    assert ids(engine) == kept
    assert has_files(engine) == files - 3
    assert {id_: engine.archive.messages.in_order(id_) for id_ in kept} == before
    assert problems(engine) == []
    assert engine.grep("^0/3:", mode="regex", all_conversations=True).total == 0
    assert engine.grep("^5/3:", mode="regex", all_conversations=True).total > 0
    assert len(list(path.parent.glob("lcm.db.prune-*.bak"))) == 1


def test_no_backup_when_that_is_said(engine: lossless.Engine, path: Path) -> None:
    engine.admin.prune(engine.admin.prune_plan(PruneFilter(older_than=timedelta(days=100))), backup=False)
    assert not list(path.parent.glob("*.bak"))


def test_what_changed_since_the_plan_stays(engine: lossless.Engine) -> None:
    work = engine.admin.prune_plan(PruneFilter(patterns=("agent:main:talk5", "agent:main:talk0"), include_active=True))
    names = {item.id: item.session_id for item in work.chosen}
    engine.append(lossless.Session(key="agent:main:talk5"), [{"role": "user", "content": "I am still here"}])
    report = engine.admin.prune(work, backup=False)
    assert [names[id_] for id_ in report.left] == ["run-5"]
    assert engine.grep("still here", all_conversations=True).total == 1
    assert problems(engine) == []


def test_a_conversation_that_somebody_folds_stays(engine: lossless.Engine) -> None:
    work = engine.admin.prune_plan(PruneFilter(older_than=timedelta(days=100)))
    busy = work.chosen[0].id
    with engine.archive.writing():
        engine.archive.guards.take_lease(f"compact:{busy}", "somebody", NOW, timedelta(minutes=5))
    assert engine.admin.prune(work, backup=False).left == (busy,)


def test_files_outside_of_the_vault_are_not_deleted(engine: lossless.Engine, tmp_path: Path) -> None:
    work = engine.admin.prune_plan(PruneFilter(older_than=timedelta(days=160)))
    (place,) = ArchiveRemover(engine.archive).files([item.id for item in work.chosen])
    outside = tmp_path / "mine.txt"
    outside.write_text("mine")
    sql = "UPDATE large_files SET storage_uri = ? WHERE file_id = ?"
    engine.archive.database.run(sql, (str(outside), place[0]))
    report = engine.admin.prune(work, backup=False)
    assert (report.files, report.files_left) == (0, 1)
    assert outside.read_text() == "mine"


def test_room_is_given_back_when_it_is_worthwhile(engine: lossless.Engine) -> None:
    assert not prune.vacuum_archive(engine.archive).done
    engine.admin.prune(engine.admin.prune_plan(PruneFilter(patterns=("**",))), backup=False)
    before = engine.archive.listings.size()
    report = prune.vacuum_archive(engine.archive, always=True)
    assert report.done
    assert report.size_after < report.size_before == before[0]
    assert engine.archive.listings.size()[1] == 0
    assert problems(engine) == []
    assert engine.archive.database.row("PRAGMA temp_store") != (1,)


# --- no table is forgotten ---


def tables_with(connection: apsw.Connection, column: str) -> set[str]:
    sql = (
        "SELECT t.name FROM pragma_table_list t, pragma_table_info(t.name) i"
        " WHERE t.schema = 'main' AND t.type = 'table' AND i.name = ?"
    )
    return {str(name) for (name,) in connection.execute(sql, (column,))}


def fill_table(connection: apsw.Connection, table: str, known: dict[str, Any], seed: str) -> None:
    """A row of a table that belongs to a conversation, with something in every column that needs it."""
    columns = connection.execute('SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?)', (table,))
    row: dict[str, Any] = {}
    for name, type_, not_null, default, key in columns.fetchall():
        if name in known:
            row[str(name)] = known[str(name)]
        elif (not_null and default is None) or (key and type_ != "INTEGER"):
            row[str(name)] = 1 if type_ == "INTEGER" else f"{seed}-{table}"
    names = ", ".join(f'"{name}"' for name in row)
    sql = f'INSERT OR IGNORE INTO "{table}" ({names}) VALUES ({", ".join("?" * len(row))})'
    connection.execute(sql, list(row.values()))


def test_every_table_with_a_conversation_is_emptied_of_it(path: Path) -> None:
    with open_engine(path) as engine:
        sessions = [fill(engine, number, closed=False) for number in range(2)]
        found = [engine.archive.conversations.find(session) for session in sessions]
    goes, stays = (conversation.id for conversation in found if conversation is not None)
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute(THEIRS)
    tables = tables_with(connection, "conversation_id")
    for id_ in (goes, stays):
        first = "SELECT min({0}) FROM {1} WHERE conversation_id = ?"
        message = connection.execute(first.format("message_id", "messages"), (id_,)).fetchall()[0][0]
        summary = connection.execute(first.format("summary_id", "summaries"), (id_,)).fetchall()[0][0]
        known = {"conversation_id": id_, "message_id": message, "summary_id": summary, "ordinal": 9_999, "seq": 9_999}
        known |= {"batch_id": f"b{id_}", "node_id": f"n{id_}", "brief_id": f"f{id_}", "source_id": 0}
        for table in sorted(tables):
            fill_table(connection, table, known, str(id_))
        for table in ("pending_summary_node_messages", "their_marks", "focus_brief_sources"):
            fill_table(connection, table, known, str(id_))
    counted = {table: _count(connection, table, goes) for table in tables}
    assert [table for table, count in counted.items() if not count] == [], "every table has a row to delete"
    other = {table: _count(connection, table, stays) for table in tables}
    connection.execute(
        "INSERT INTO expansion_grants VALUES ('g1', 'me', NULL, ?, '[]', 1, 0, 1, '', '', NULL)", (json.dumps([goes]),)
    )
    connection.close()

    with open_engine(path) as engine:
        work = engine.admin.prune_plan(PruneFilter(patterns=("**:talk0",), include_active=True))
        assert [item.id for item in work.chosen] == [goes]
        assert engine.admin.prune(work, backup=False).conversations == 1
    connection = apsw.Connection(str(path))
    assert [table for table in tables if _count(connection, table, goes)] == []
    assert {table: _count(connection, table, stays) for table in tables} == other
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    for column, home in (("message_id", "messages"), ("summary_id", "summaries")):
        for table in tables_with(connection, column) - {home}:
            sql = f'SELECT count(*) FROM "{table}" WHERE {column} NOT IN (SELECT {column} FROM {home})'
            assert connection.execute(sql).fetchall() == [(0,)], table
    assert connection.execute("SELECT count(*) FROM expansion_grants").fetchall() == [(0,)]
    assert not connection.execute("SELECT 1 FROM sqlite_master WHERE name GLOB 'lossless_prune*'").fetchall()
    for table in KEPT_TABLES:
        spent = f"SELECT count(*) FROM {table} WHERE conversation_id IS NULL"
        assert connection.execute(spent).fetchall()[0][0] == counted[table], "what was paid stays known"
    connection.close()


def _count(connection: apsw.Connection, table: str, id_: int) -> int:
    sql = f'SELECT count(*) FROM "{table}" WHERE conversation_id = ?'
    return int(str(connection.execute(sql, (id_,)).fetchall()[0][0]))


def test_other_search_tables_forget_as_well(path: Path) -> None:
    connection = apsw.Connection(str(path))
    with open_engine(path):
        pass
    for table in ("summaries_fts", "summaries_fts_cjk"):
        connection.execute(f"CREATE VIRTUAL TABLE {table} USING fts5 (summary_id UNINDEXED, content)")
    connection.execute("CREATE VIRTUAL TABLE messages_fts USING fts5 (content)")
    with open_engine(path) as engine:
        for number in (0, 5):
            fill(engine, number)
        with engine.archive.writing():
            engine.archive.search.trigrams.create()
            stored = engine.archive.messages.many(engine.archive.search.trigrams.next_ids())
            engine.archive.search.trigrams.add([(item.id, item.message.content) for item in stored])
        engine.admin.prune(engine.admin.prune_plan(PruneFilter(older_than=timedelta(days=100))), backup=False)
        assert problems(engine) == []
        kept = engine.archive.listings.counts()
    for table, count in (("messages_fts", kept.messages), ("message_trigrams", kept.messages)):
        assert int(str(connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0])) <= count
    (indexed,) = connection.execute("SELECT count(*) FROM summaries_fts").fetchall()
    assert indexed == (kept.summaries,)
    connection.close()
