"""Lists: pages without gaps whatever the times look like, honest counts, old files, and no more reading than needed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lossless
from lossless.model.context import MessageItem, NewSummary, fresh_tail_start
from lossless.model.records import PageStart, TimeRange
from lossless.store.archive import Archive
from lossless.store.database import column_text, column_texts, column_time, load_queries
from lossless.testing import VirtualClock
from tests.store.older import AGES, TEXTS, Age, make

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lossless.model.records import Page

START = datetime(2026, 7, 1, tzinfo=UTC)
#: Tables that grow with what was said; a list reads a few of their rows.
LARGE = (
    "messages",
    "m",
    "summaries",
    "s",
    "context_items",
    "c",
    "message_parts",
    "summary_messages",
    "summary_parents",
)
#: As rows hold times, and as nobody should write them.
written = st.one_of(
    st.integers(0, 40).map(lambda n: f"{START + timedelta(hours=n):%Y-%m-%d %H:%M:%S}"),
    st.sampled_from(
        ["", "yesterday", "12345", "2026-07-01T05:00:00.250Z", "2026-07-02T01:00:00+14:00", "9999-99-99", "Ω"]
    ),
)


def said(number: int, role: str = "") -> dict[str, str]:
    role = role or ("user", "assistant")[number % 2]
    return {"role": role, "content": f"the {number}th thing"}


def conversations(engine: lossless.Engine, shapes: list[list[int]]) -> None:
    """A conversation for each shape; its numbers say how many messages the next summary takes, 0 for none."""
    for n, shape in enumerate(shapes):
        count = sum(size or 1 for size in shape)
        conversation_id = engine.append(
            lossless.Session(key=f"k{n}"),
            [lossless.Incoming(said(m), f"e{m}", START + timedelta(minutes=m)) for m in range(count)],
        ).conversation_id
        if conversation_id is None:
            continue
        for m, size in enumerate(shape):
            items = engine.archive.context.items(conversation_id)[m : m + (size or 1)]
            if size:
                summary = NewSummary(f"sum_{n}_{m}", 0, f"a thing, {size} times", 1, "m")
                with engine.archive.writing():
                    engine.archive.summaries.insert(conversation_id, items, summary, START)
                    engine.archive.context.replace(conversation_id, items, summary.id, START)


def walk(page: Callable[[PageStart | None], Page[Any]]) -> list[Any]:
    """All rows of a list, page by page."""
    rows: list[Any] = []
    place: PageStart | None = None
    while True:
        found = page(place)
        rows += found.rows
        place = found.next
        if place is None:
            return rows


@given(times=st.lists(written, max_size=12), limit=st.integers(1, 4))
def test_pages_hold_whatever_times_look_like(times: list[str], limit: int) -> None:
    with lossless.open(":memory:", background=False) as engine:
        engine.append(lossless.Session(key="k"), [said(n) for n in range(len(times))])
        set_time = "UPDATE messages SET created_at = ? WHERE message_id = ?"
        engine.archive.database.run_many(set_time, [(at, n) for n, at in enumerate(times, 1)])
        listings = engine.archive.listings
        rows = walk(lambda place: listings.messages(1, limit, place))
        assert sorted(row.message_id for row in rows) == list(range(1, len(times) + 1))
        assert rows == list(listings.messages(1, 500).rows)
        assert [row.seq for row in rows] == sorted((row.seq for row in rows), reverse=True)
        span = TimeRange("2026-07-01T05:00:00.000Z", "2026-07-01T20:00:00.000Z")
        inside = walk(lambda place: listings.messages(1, limit, place, span=span))
        known = {row.message_id: row.created_at for row in rows if row.created_at}
        first, end = START + timedelta(hours=5), START + timedelta(hours=20)
        expected = {id_ for id_, at in known.items() if first <= at < end}
        assert {row.message_id for row in inside} == expected


def test_a_page_goes_on_behind_a_message_that_is_gone(engine: lossless.Engine) -> None:
    conversations(engine, [[0] * 6])
    listings = engine.archive.listings
    first = listings.messages(1, 2)
    assert [row.seq for row in first.rows] == [6, 5]
    engine.archive.database.run("PRAGMA foreign_keys = OFF")
    engine.archive.database.run("DELETE FROM messages WHERE message_id = ?", (first.rows[-1].message_id,))
    assert [row.seq for row in listings.messages(1, 9, first.next).rows] == [4, 3, 2, 1]
    gone = PageStart("", first.rows[0].message_id + 100)
    assert [row.seq for row in listings.messages(1, 9, gone).rows] == [6, 4, 3, 2, 1]


@given(order=st.lists(st.integers(0, 4), max_size=12), limit=st.integers(1, 3), tells=st.booleans())
def test_what_was_stored_to_last_comes_first(order: list[int], limit: int, tells: bool) -> None:
    """Whether we have stored it and noted when, or another program has and noted nothing."""
    clock = VirtualClock()
    with lossless.open(":memory:", clock=clock, background=False) as engine:
        last: dict[int, datetime] = {}
        for n, name in enumerate([*range(5), *order]):
            clock.advance(60)
            stored = engine.append(lossless.Session(key=f"k{name}"), [lossless.Incoming(said(n), f"e{n}", clock())])
            assert stored.conversation_id is not None
            last[stored.conversation_id] = clock()
        if not tells:
            engine.archive.database.run("DELETE FROM ingest_state")
        listings = engine.archive.listings
        rows = walk(lambda place: listings.conversations(limit, place))
        assert [row.conversation_id for row in rows] == sorted(last, key=lambda id_: last[id_], reverse=True)
        assert {row.conversation_id: row.updated_at for row in rows} == last
        assert rows == [listings.conversation(row.conversation_id) for row in rows]


def test_what_another_program_stored_counts_also_when_its_tokens_were_counted(engine: lossless.Engine) -> None:
    conversations(engine, [[0] * 3, [0] * 3])
    database, listings = engine.archive.database, engine.archive.listings
    for later in ("2030-01-01 00:00:00", "2030-01-02T00:00:00.000Z"):
        database.run(
            "INSERT INTO messages (conversation_id, seq, role, content, token_count, created_at)"
            " SELECT 1, max(seq) + 1, 'user', 'theirs', 1, ? FROM messages WHERE conversation_id = 1",
            (later,),
        )
        told = listings.conversations(2)
        assert [row.conversation_id for row in told.rows] == [1, 2]
        engine.archive.ingest.set_context_tokens(1, 9)
        assert listings.conversations(2) == told
        assert told.rows[0].updated_at == datetime.fromisoformat(later).replace(tzinfo=UTC)
    engine.archive.ingest.set_context_tokens(1, 8)
    assert listings.conversations(2) == told


def test_the_newest_message_is_read_only_where_another_program_stored(engine: lossless.Engine) -> None:
    """Its time stands behind its text, which may be long."""
    conversations(engine, [[0] * 3])
    listings = engine.archive.listings
    told = listings.conversations(1).rows[0].updated_at
    engine.archive.database.run("UPDATE messages SET created_at = '2040-01-01 00:00:00'")
    assert listings.conversations(1).rows[0].updated_at == told
    engine.archive.database.run("UPDATE ingest_state SET context_seq = 2")
    assert listings.conversations(1).rows[0].updated_at == datetime(2040, 1, 1, tzinfo=UTC)


@given(times=st.lists(st.tuples(written, written, written), max_size=6), limit=st.integers(1, 4))
def test_no_conversation_is_lost_between_pages(times: list[tuple[str, str, str]], limit: int) -> None:
    with lossless.open(":memory:", background=False) as engine:
        conversations(engine, [[0]] * len(times))
        database, listings = engine.archive.database, engine.archive.listings
        for n, (updated, stored, said_at) in enumerate(times, 1):
            database.run("UPDATE conversations SET updated_at = ? WHERE conversation_id = ?", (updated, n))
            database.run("UPDATE ingest_state SET last_stored_at = ? WHERE conversation_id = ?", (stored, n))
            database.run("UPDATE messages SET created_at = ? WHERE conversation_id = ?", (said_at, n))
        rows = walk(lambda place: listings.conversations(limit, place))
        assert sorted(row.conversation_id for row in rows) == list(range(1, len(times) + 1))
        assert rows == list(listings.conversations(500).rows)


shapes = st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=4)


@given(shapes=shapes, count=st.integers(1, 5))
def test_counts_of_a_page_are_those_of_each(shapes: list[list[int]], count: int) -> None:
    with lossless.open(":memory:", background=False) as engine:
        conversations(engine, shapes)
        archive = engine.archive
        rows = archive.listings.conversations(50).rows
        tails = archive.listings.tails([row.conversation_id for row in rows], count)
        for row in rows:
            id_ = row.conversation_id
            messages = archive.messages.in_order(id_)
            items = archive.context.items(id_)
            summaries = archive.listings.summaries(50, conversation_id=id_).rows
            assert row == archive.listings.conversation(id_)
            assert (row.message_count, row.message_tokens) == archive.listings.message_totals(id_)
            assert row.message_tokens == sum(stored.message.tokens for stored in messages)
            assert (row.context_items, row.context_tokens) == (len(items), sum(item.tokens for item in items))
            assert row.context_items == archive.listings.context_count(id_)
            assert row.context_items == sum(share["count"] for share in archive.listings.details(id_).context)
            assert (row.summary_count, row.summary_tokens) == (len(summaries), sum(s.token_count for s in summaries))
            below = [stored for stored in messages if archive.listings.message_status(stored.id).leaf_id]
            assert row.summarized_source_tokens == sum(stored.message.tokens for stored in below)
            assert sum(summary.source_message_count for summary in summaries) == len(below)
            start = fresh_tail_start(items, count)
            assert tails[id_] == [item for item in items[start:] if isinstance(item, MessageItem)]
        depths = archive.listings.depths()
        assert sum(depth.count for depth in depths) == sum(row.summary_count for row in rows)
        assert sum(depth.source_tokens for depth in depths) == sum(row.summarized_source_tokens for row in rows)


def test_a_longer_page_needs_no_more_statements(engine: lossless.Engine) -> None:
    conversations(engine, [[3, 3, *([0] * 8)]] * 12)
    archive, statements = engine.archive, []

    def trace(cursor: object, sql: str, bindings: object) -> bool:
        statements.append(sql)
        return True

    archive.database.connection().exec_trace = trace
    counts = []
    for limit in (1, 10):
        statements.clear()
        ids = [row.conversation_id for row in archive.listings.conversations(limit).rows]
        archive.listings.tails(ids, 64)
        archive.listings.messages(1, limit)
        archive.listings.summaries(limit)
        archive.listings.summaries_by_id([f"sum_{n}_0" for n in range(limit)])
        counts.append(len(statements))
    assert counts[0] == counts[1]


BINDINGS: dict[str, object] = {
    "ids": "[1]", "bytes": 9, "conversation_id": 1, "id": 1, "key": "k", "limit": 2, "first": 1, "last": 1,
    "depth": None, "kind": None, "count": 2, "tools": "[]", "roles": None, "since": None, "before": None,
    "from_at": "2026-07-01 00:00:00", "from_id": 1, "within": None,
    "by_message": True, "page": "[[1, null]]",
}  # fmt: skip


def plan(archive: Archive, sql: str) -> list[str]:
    return [row[3] for row in archive.database.rows(f"EXPLAIN QUERY PLAN {sql}", BINDINGS)]


@pytest.mark.parametrize("file", ["listings", "details"])
def test_no_read_goes_through_a_whole_table(engine: lossless.Engine, file: str) -> None:
    for name, sql in load_queries(file).items():
        steps = plan(engine.archive, sql)
        assert not [step for step in steps if step.split()[0] == "SCAN" and step.split()[1] in LARGE], name
        assert not [step for step in steps if "identity_hash" in step or "type_idx" in step], name
    for query in ("summaries", "sources", "used_in", "source_messages", "message_status"):
        sql = load_queries("listings" if query == "summaries" else "details")[query]
        related = [step for step in plan(engine.archive, sql) if step.startswith(("SEARCH o", "SEARCH m", "SEARCH s"))]
        assert not [step for step in related if "(conversation_id=" in step], query


def test_a_page_of_messages_is_read_without_a_sort(engine: lossless.Engine) -> None:
    steps = plan(engine.archive, load_queries("listings")["message_page"])
    assert any("(conversation_id=? AND seq<?)" in step for step in steps)
    assert not any("ORDER BY" in step for step in steps)


@pytest.mark.parametrize("age", AGES.values(), ids=AGES)
def test_old_files_are_read_as_they_are(path: Path, age: Age) -> None:
    make(path, age)
    with Archive.open(path, read_only=True) as archive, archive.reading():
        listings = archive.listings
        (conversation,) = listings.conversations(5).rows
        assert (conversation.message_count, conversation.summary_count) == (6, 3)
        assert conversation.active is True
        rows = walk(lambda place: listings.messages(1, 4, place))
        assert [row.content for row in rows] == list(TEXTS[::-1])
        assert len(walk(lambda place: listings.summaries(2, place))) == 3
        assert listings.sources("sum_top") == ["sum_leaf1", "sum_leaf2"]
        assert listings.used_in("sum_leaf1") == ["sum_top"]
        assert listings.source_messages("sum_leaf1") == [1, 2, 3]
        assert listings.message_status(1).leaf_id == "sum_leaf1"
        found = listings.details(1)
        assert (found.debt, found.telemetry, found.active_brief, found.hidden) == (None, None, None, {})


@given(st.one_of(st.none(), st.text(), st.binary(), st.integers(), st.floats()))
def test_no_column_makes_a_read_fail(raw: object) -> None:
    assert isinstance(column_text(raw), str)
    assert column_time(raw) is None or isinstance(column_time(raw), datetime)
    assert all(isinstance(word, str) for word in column_texts(raw))


def test_columns_mean_what_they_say() -> None:
    assert (column_text(b"\xffA"), column_text(None), column_text("x")) == ("\ufffdA", "", "x")
    assert column_time(b"2026-07-01 00:00:00") == START
    assert column_time("0001-01-01T00:00:00+14:00") is None
    assert column_texts('["a", 1, "b"]') == column_texts(("a", "b")) == ("a", "b")
    assert column_texts("7") == column_texts('"a"') == column_texts('{"a": 1}') == ()


def test_bytes_that_are_no_text_stand_nowhere_in_the_way(engine: lossless.Engine, path: Path) -> None:
    conversations(engine, [[2, 0]])
    engine.close()
    foreign = "CAST(x'ff' AS TEXT)"
    connection = apsw.Connection(str(path))
    connection.execute(f"UPDATE messages SET content = {foreign}, created_at = {foreign}, large_content = {foreign}")
    connection.execute(f"UPDATE conversations SET session_key = {foreign}, session_id = {foreign}")
    connection.execute(f"UPDATE summaries SET content = {foreign}, latest_at = {foreign}, file_ids = {foreign}")
    connection.close()
    with Archive.open(path, read_only=True) as archive:
        assert [row.content for row in archive.listings.messages(1, 5).rows] == ["\ufffd"] * 3
        assert [row.session_key for row in archive.listings.conversations(5).rows] == ["\ufffd"]
        assert [row.file_ids for row in archive.listings.summaries(5).rows] == [()]


def test_each_table_takes_room_under_its_own_name(path: Path) -> None:
    """An older program's search tables begin like the tables that they copy."""
    with Archive.open(path) as archive:
        with archive.writing():
            archive.database.run("CREATE TABLE messages_fts_content (c)")
            archive.database.run("INSERT INTO messages_fts_content VALUES (zeroblob(100000))")
        room = archive.listings.sizes()
    assert room["upstream's search index"] > 100_000 > room["messages"]
