"""The cure of the search index: whatever it lost comes back, in steps, and nothing but the index is touched."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lossless
from lossless.errors import ArchiveCorrupt
from lossless.maintenance import repair
from tests.maintenance.surgery_kit import HERE, open_engine, prove, rows, settings, talk, told

if TYPE_CHECKING:
    from pathlib import Path

LONG = " ".join(f"passage{n}" for n in range(1_500))


def sql(engine: lossless.Engine, statement: str, *params: object) -> None:
    with engine.archive.writing():
        engine.archive.database.run(statement, params)


def drift_of(engine: lossless.Engine) -> tuple[int, int, int]:
    drift = repair.plan_reindex(engine.archive)
    return drift.lost_count, drift.gone_count, len(drift.stale_summaries)


def long_told(engine: lossless.Engine) -> None:
    """Turns, summaries, a message of several passages, one that only calls a tool, and one that says nothing."""
    told(engine)
    asked = {"name": "read", "arguments": '{"path": "quay.txt"}'}
    call: dict[str, Any] = {"id": "c", "type": "function", "function": asked}
    engine.append(HERE, [{"role": "user", "content": LONG}, {"role": "user", "content": " "}])
    engine.append(HERE, [{"role": "assistant", "content": None, "tool_calls": [call]}])


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO message_index (message_index) VALUES ('delete-all')",
        "INSERT INTO summary_index (summary_index) VALUES ('delete-all')",
        "DROP TABLE message_index",
        "DELETE FROM message_index WHERE rowid = 1099511627777 + 1",
        "DELETE FROM message_passages",
        "INSERT INTO message_index (rowid, body, extra) VALUES (999999, 'nobody', '')",
        "UPDATE summaries SET content = content || '.'",
    ],
)
def test_whatever_is_lost_comes_back(path: Path, statement: str) -> None:
    with open_engine(path) as engine:
        long_told(engine)
        sql(engine, statement)
    with open_engine(path) as engine:
        found = engine.admin.examine()
        (one,) = [finding for finding in found.findings if finding.kind == "index.drift"]
        assert one.remedy == "lcm doctor reindex --apply"
        steps: list[int] = []
        repair.apply_reindex(engine.archive, steps.append)
        assert sum(steps) >= 1
        if "summaries" in statement:
            assert drift_of(engine) == (0, 0, 0)
        else:
            prove(engine)
        assert engine.admin.examine().healthy
        assert repair.apply_reindex(engine.archive) == repair.ReindexReport(0, 0, 0, ())


DAMAGES = [
    "UPDATE message_index_data SET block = x'00112233' WHERE id > 10",
    "UPDATE message_index_data SET block = zeroblob(5) WHERE id = 10",
    "DELETE FROM message_index_data WHERE id = 10",
    "DELETE FROM message_index_data WHERE id > 10",
    "DELETE FROM message_index_idx",
    "UPDATE summary_index_data SET block = x'ffff' WHERE id > 10",
    "UPDATE summary_index_data SET block = zeroblob(5) WHERE id = 10",
]


@pytest.mark.parametrize("statement", DAMAGES)
def test_a_damaged_index_is_seen_and_made_anew(path: Path, statement: str) -> None:
    with open_engine(path) as engine:
        engine.append(HERE, talk(400, words=40))  # more than one page of the index
        engine.compact(HERE, budget=2_000, force=True)
    with apsw.Connection(str(path)) as other:
        other.execute(statement)
    with open_engine(path) as engine:
        (one,) = [finding for finding in engine.admin.examine().findings if finding.kind == "index.damaged"]
        assert (one.severity, one.remedy) == ("problem", "lcm doctor reindex --apply")
        assert not engine.verify().ok
        repair.apply_reindex(engine.archive)
        assert engine.admin.examine().healthy
        prove(engine)


def test_who_meets_a_damaged_index_is_told_what_helps(path: Path) -> None:
    with open_engine(path) as engine:
        engine.append(HERE, talk(40))
    for statement, write in (DAMAGES[1], True), (DAMAGES[0], False):
        with apsw.Connection(str(path)) as other:
            other.execute(statement)
        with open_engine(path) as engine:
            with pytest.raises(ArchiveCorrupt, match=r"index is damaged, its rows are not.*lcm doctor reindex --apply"):
                engine.append(HERE, talk(2, first=50)) if write else engine.grep("harbour")
            repair.apply_reindex(engine.archive)
            prove(engine)


def test_rows_that_were_never_indexed_are_found_wherever_they_stand(path: Path) -> None:
    with open_engine(path) as engine:
        long_told(engine)
        with engine.archive.writing():
            engine.archive.index.mark_if_caught_up(10)
        sql(engine, "DELETE FROM message_extras WHERE message_id = 4")
        sql(engine, "DELETE FROM message_index WHERE rowid = 4")
        sql(engine, "DELETE FROM summary_extras")
        found = {finding.kind: finding for finding in engine.admin.examine().findings}
        assert (found["index.behind"].severity, found["index.behind"].remedy) == ("note", "lcm doctor reindex --apply")
        assert found["index.drift"].severity == "problem"  # rows of summaries of which nobody knows whose they are
        repair.apply_reindex(engine.archive)
        assert engine.admin.examine().findings == ()
        assert repair.plan_reindex(engine.archive).is_none


def test_lossless_claws_own_search_tables_get_what_they_lack(path: Path) -> None:
    tables = (
        "CREATE VIRTUAL TABLE messages_fts USING fts5 (content, tokenize='porter unicode61')",
        ("CREATE VIRTUAL TABLE summaries_fts USING fts5 (summary_id UNINDEXED, content, tokenize='porter unicode61')"),
    )
    with open_engine(path) as engine:
        told(engine)
        engine.append(HERE, [{"role": "user", "content": "\u2003"}])
        for table in tables:
            sql(engine, table)
    with open_engine(path) as engine:
        (one,) = engine.admin.examine().findings
        assert (one.kind, one.severity, one.remedy) == ("index.emptied", "problem", "lcm doctor reindex --apply")
        assert {(one.severity, one.table) for one in engine.verify().problems} == {
            ("error", "messages_fts"), ("error", "summaries_fts"),
        }  # fmt: skip
        assert engine.grep("ferry").hits  # ours is another table
        repair.apply_reindex(engine.archive)
        assert engine.admin.examine().findings == ()
        assert engine.verify().problems == ()
        sql(engine, "DELETE FROM messages_fts WHERE rowid > 1")
        (one,) = engine.admin.examine().findings
        assert (one.kind, one.severity) == ("index.upstream", "note")
        (problem,) = engine.verify().problems
        assert (problem.severity, problem.table) == ("warning", "messages_fts")
        repair.apply_reindex(engine.archive)
        sql(engine, "UPDATE messages_fts_data SET block = x'00112233' WHERE id > 10")
    with open_engine(path) as engine:
        repair.apply_reindex(engine.archive)
        assert engine.verify().problems == ()
        assert rows(engine, "SELECT count(*) FROM messages_fts") == rows(
            engine, "SELECT count(*) FROM messages WHERE trim(content, char(8195)) <> ''"
        )


def test_the_number_of_lost_rows_is_the_true_one(path: Path) -> None:
    with open_engine(path) as engine:
        engine.append(HERE, talk(350, words=3))
        sql(engine, "DELETE FROM message_index WHERE rowid > 10")
        (one,) = engine.admin.examine().findings
        assert "340 rows" in one.message
        assert len(one.ids) == 20


def test_an_index_can_be_made_anew(path: Path) -> None:
    with open_engine(path) as engine:
        long_told(engine)
        before = rows(engine, "SELECT message_id, digest FROM message_extras")
        sql(engine, "UPDATE message_index_docsize SET sz = x'0000' WHERE id = 3")
        assert engine.admin.examine().healthy  # only a proof of every row sees it
        assert not engine.verify().ok
        done = repair.apply_reindex(engine.archive, again=True)
        assert (done.messages, done.dropped, done.unreadable) == (62, 0, ())
        assert rows(engine, "SELECT message_id, digest FROM message_extras") == before
        prove(engine)
        assert engine.grep("passage1499").hits


def test_what_cannot_be_read_does_not_stand_in_the_way(path: Path) -> None:
    with open_engine(path) as engine:
        engine.append(HERE, talk(40, words=3))
        sql(engine, "INSERT INTO message_index (message_index) VALUES ('delete-all')")
        sql(engine, "UPDATE messages SET content = x'ff' WHERE message_id = 7")
        done = repair.apply_reindex(engine.archive)
        assert (done.messages, done.unreadable) == (39, ("msg#7",))


def test_one_that_was_stopped_is_gone_on_with(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "REINDEX_BATCH", 10)

    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with open_engine(path) as engine:
        engine.append(HERE, talk(40, words=3))
        sql(engine, "INSERT INTO message_index (message_index) VALUES ('delete-all')")
        with pytest.raises(KeyboardInterrupt):
            repair.apply_reindex(engine.archive, stop)
        assert drift_of(engine) == (30, 0, 0)
        assert repair.apply_reindex(engine.archive).messages == 30
        prove(engine)


def test_others_write_meanwhile(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "REINDEX_BATCH", 5)
    with open_engine(path) as engine, lossless.open(path, settings(), background=False) as other:
        engine.append(HERE, talk(60, words=3))
        sql(engine, "INSERT INTO message_index (message_index) VALUES ('delete-all')")

        def write() -> None:
            for n in range(60, 90):
                other.append(HERE, talk(1, words=3, first=n))

        writer = threading.Thread(target=write)
        writer.start()
        repair.apply_reindex(engine.archive)
        writer.join()
        assert drift_of(engine) == (0, 0, 0)
        prove(engine)


@given(lost=st.sets(st.integers(1, 30)))
def test_any_rows_that_are_lost_come_back(lost: set[int]) -> None:
    with open_engine(":memory:") as engine:
        engine.append(HERE, talk(30, words=3))
        for message_id in lost:
            sql(engine, "DELETE FROM message_index WHERE rowid = ?", message_id)
        assert drift_of(engine) == (len(lost), 0, 0)
        assert repair.apply_reindex(engine.archive).messages == len(lost)
        prove(engine)
