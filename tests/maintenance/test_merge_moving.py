"""Transplants and merges: everything comes along, nothing twice, and all of it can go back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.errors import BadInput, NotFound
from lossless.maintenance.surgery import merge
from tests.faults import dump
from tests.maintenance.surgery_kit import (
    BUDGET,
    HERE,
    THERE,
    context,
    copies,
    open_engine,
    prove,
    roots,
    rows,
    talk,
    told,
    undo_all,
)

if TYPE_CHECKING:
    from pathlib import Path

CALL: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"n": 1}'}}],
}


def answer(text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "call_1", "content": text}


def number(engine: lossless.Engine, session: lossless.Session) -> int:
    found = engine.archive.conversations.find(session)
    assert found is not None
    return found.id


def split(engine: lossless.Engine, cause: str | None = "rollover-fallback") -> tuple[int, int]:
    """A session whose history lies in two conversations: the numbers of the archived and of the active one."""
    old = told(engine, 30)
    with engine.archive.writing():
        engine.archive.conversations.archive(old, cause or "x", engine.clock())
        if cause is None:
            engine.archive.database.run("UPDATE conversations SET archive_cause = NULL WHERE active = 0")
    engine.append(HERE, [{"role": "system", "content": "Be brief."}, *talk(6, "later")])
    return old, number(engine, HERE)


def test_a_transplant_copies_the_graph_with_messages_parts_and_files(path: Path) -> None:
    with open_engine(path, large_file_threshold_tokens=1000) as engine:
        big = "port = 8443\n" * 1000
        engine.append(HERE, [talk(1)[0], CALL, answer(big), *talk(40, first=1)])
        engine.compact(HERE, budget=BUDGET, force=True)
        engine.append(THERE, talk(4, "there"))
        here, there = number(engine, HERE), number(engine, THERE)
        work = engine.surgery.plan_transplant(here, there)
        assert len(work.file_ids) == 1
        done = engine.surgery.transplant(HERE, THERE)
        prove(engine)
        assert roots(engine, there) == list(done.summary_ids)
        assert context(engine, there)[len(done.summary_ids) :] == rows_of(engine, there)[-4:]
        originals = engine.archive.messages.many(work.message_ids)
        copied = engine.archive.messages.many(rows_of(engine, there)[: len(originals)])
        for one, other in zip(originals, copied, strict=True):
            assert one.message.role == other.message.role
            assert one.created_at == other.created_at
            if one.message.role != "tool":
                assert one.message.original == other.message.original
        ((twin,),) = rows(engine, "SELECT file_id FROM large_files WHERE conversation_id = ?", there)
        assert twin != work.file_ids[0]
        assert engine.vault is not None
        assert engine.vault.read(engine.archive.files.get(twin)).data.decode() == big
        assert engine.grep("8443", session=THERE).hits
        assert copies(path) == ["transplant"]


def rows_of(engine: lossless.Engine, conversation_id: int) -> list[int]:
    found = rows(engine, "SELECT message_id FROM messages WHERE conversation_id = ? ORDER BY seq", conversation_id)
    return [row[0] for row in found]


def test_a_transplant_twice_is_refused(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine)
        engine.append(THERE, talk(4, "there"))
        engine.surgery.transplant(HERE, THERE)
        with pytest.raises(BadInput, match="already, as"):
            engine.surgery.transplant(HERE, THERE)
        with pytest.raises(BadInput, match="into itself"):
            engine.surgery.transplant(HERE, HERE)
        with pytest.raises(NotFound):
            engine.surgery.plan_transplant(1, 2, ["sum_nobody"])
        engine.append(lossless.Session(key="empty"), talk(1))
        with pytest.raises(BadInput, match="no summaries"):
            engine.surgery.plan_transplant(3, 1)


def test_a_transplant_of_a_text_that_names_a_file_is_not_done_twice(path: Path) -> None:
    big = "row,number\n" + "\n".join(f"row {n},{n}" for n in range(3000))
    first = {"role": "user", "content": f'Read <file name="data.csv" mime="text/csv">\n{big}\n</file> first.'}
    with open_engine(path, large_file_threshold_tokens=1000, leaf_chunk_tokens=20_000) as engine:
        engine.append(HERE, [first, *talk(12)])
        engine.compact(HERE, budget=BUDGET, force=True)
        engine.append(THERE, talk(4, "there"))
        (text,) = [text for (text,) in rows(engine, "SELECT content FROM summaries") if "file_" in text]
        engine.surgery.transplant(HERE, THERE)
        copies_ = [text for (text,) in rows(engine, "SELECT content FROM summaries") if "file_" in text]
        assert len(set(copies_)) == 2
        with pytest.raises(BadInput, match=r"has the text of summary .* already"):
            engine.surgery.transplant(HERE, THERE)
        other = text.replace("data.csv", "other.csv")
        with engine.archive.writing():
            engine.archive.database.run("UPDATE summaries SET content = ? WHERE content = ?", (other, text))
        assert engine.surgery.plan_transplant(number(engine, HERE), number(engine, THERE)).summary_ids


def test_nothing_is_transplanted_into_or_out_of_what_was_merged_away(path: Path) -> None:
    with open_engine(path) as engine:
        old, active = split(engine)
        third = told(engine, 30, THERE)
        engine.surgery.merge(str(HERE.key))
        for source, target in ((third, old), (active, old), (old, third)):
            with pytest.raises(BadInput, match=f"conversation {old} was merged into conversation {active}"):
                engine.surgery.plan_transplant(source, target)
        engine.undo(HERE)
        assert engine.surgery.plan_transplant(old, third).summary_ids


def test_the_preview_of_a_merge_counts_what_moves(path: Path) -> None:
    with open_engine(path) as engine:
        engine.append(HERE, [{"role": "system", "content": "Be long."}, *talk(4)])
        with engine.archive.writing():
            engine.archive.conversations.archive(number(engine, HERE), "rollover-fallback", engine.clock())
        engine.append(HERE, [{"role": "system", "content": "Be brief."}, *talk(6, "later")])
        active = number(engine, HERE)
        before = context(engine, active)
        work = merge.plan_merge(engine.archive, str(HERE.key))
        assert (work.context_items, work.superseded) == ((4,), 1)
        assert "4 context items go to the start" in work.text
        assert "hidden as superseded: 1" in work.text
        engine.surgery.merge(str(HERE.key))
        assert len(context(engine, active)) == len(before) + 4


def test_a_transplant_does_not_disturb_the_hosts_window(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine)
        window = [{"role": "system", "content": "Be brief."}, *talk(6, "there")]
        engine.sync(THERE, window)
        engine.surgery.transplant(HERE, THERE)
        report = engine.sync(THERE, [*window, *talk(2, "there", first=6)])
        assert (report.stored, report.abandoned) == (2, 0)
        assert context(engine, 2)[0] == rows(engine, "SELECT min(message_id) FROM messages WHERE role = 'system'")[0][0]
        prove(engine)


def test_undoing_a_transplant_leaves_no_trace(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine)
        engine.append(THERE, talk(4, "there"))
        tables = ("messages", "summaries", "summary_messages", "summary_parents", "message_extras", "message_parts")
        before, seen = dump(path), context(engine, 2)
        engine.surgery.transplant(HERE, THERE)
        engine.undo(THERE)
        after = dump(path)
        assert {table: after[table] for table in tables} == {table: before[table] for table in tables}
        assert context(engine, 2) == seen
        prove(engine)


def test_a_fold_over_copies_must_be_undone_first(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine)
        engine.append(THERE, talk(20, "there"))
        engine.surgery.transplant(HERE, THERE)
        engine.compact(THERE, budget=BUDGET, force=True)
        engine.new(THERE)
        with pytest.raises(BadInput, match=r"cannot be undone"):
            undo_all(engine, THERE)
        prove(engine)


def test_a_split_session_becomes_one_again(path: Path) -> None:
    with open_engine(path) as engine:
        old, active = split(engine)
        contexts = context(engine, old), context(engine, active)
        (found,) = merge.find_splits(engine.archive)
        assert (found.source_ids, found.target_id, found.review) == ((old,), active, None)
        engine.surgery.merge(str(HERE.key))
        prove(engine)
        assert context(engine, active) == [contexts[1][0], *contexts[0], *contexts[1][1:]]
        assert context(engine, old) == []
        seqs = rows(engine, "SELECT seq FROM messages WHERE conversation_id = ? ORDER BY seq", active)
        assert [seq for (seq,) in seqs] == list(range(1, 38))
        assert merge.find_splits(engine.archive) == []
        debt = engine.archive.guards.debt(active)
        assert debt is not None
        assert (debt.pending, debt.reason) == (True, "doctor-rollover-split-repair")
        assert copies(path) == ["rollover-splits"]
        assert len(engine.grep("ferry", conversation_id=active, limit=200).hits) > 6


def test_a_merged_session_goes_on_and_can_be_parted(path: Path) -> None:
    with open_engine(path) as engine:
        old, active = split(engine)
        contexts = context(engine, old), context(engine, active)
        engine.surgery.merge(str(HERE.key))
        engine.append(HERE, talk(2, "newest"))
        engine.compact(HERE, budget=BUDGET, force=True)
        prove(engine)
        while engine.undo(HERE).action:
            prove(engine)
            if context(engine, old):
                break
        newest = rows(engine, "SELECT message_id FROM messages ORDER BY message_id DESC LIMIT 2")
        assert context(engine, old) == contexts[0]
        assert context(engine, active) == [*contexts[1], *sorted(row[0] for row in newest)]
        seqs = rows(engine, "SELECT seq FROM messages WHERE conversation_id = ? ORDER BY seq", active)
        assert [seq for (seq,) in seqs] == list(range(1, 10))


def test_records_of_a_transcript_go_along_and_back(path: Path) -> None:
    with open_engine(path) as engine:
        old, active = split(engine)
        insert = "INSERT INTO transcript_records VALUES (?, ?, ?, 'model_change', x'789cabae05000175')"
        with engine.archive.writing():
            for row in ((old, "a", 3), (old, "both", 5), (active, "both", 0), (active, "b", 2)):
                engine.archive.database.run(insert, row)
        engine.surgery.merge(str(HERE.key))
        places = "SELECT conversation_id, record_key, after_seq FROM transcript_records ORDER BY 1, 2"
        assert rows(engine, places) == [(old, "both", 5), (active, "a", 3), (active, "b", 32), (active, "both", 30)]
        engine.undo(HERE)
        assert rows(engine, places) == [(old, "a", 3), (old, "both", 5), (active, "b", 2), (active, "both", 0)]
        prove(engine)


@pytest.mark.parametrize("cause", ["manual-reset", "cron-rotation"])
def test_what_a_person_closed_is_never_merged(path: Path, cause: str) -> None:
    with open_engine(path) as engine:
        split(engine, cause)
        assert merge.find_splits(engine.archive) == []
        with pytest.raises(BadInput, match="not split"):
            engine.surgery.merge(str(HERE.key))


def test_what_is_not_certain_needs_a_look(path: Path) -> None:
    with open_engine(path) as engine:
        split(engine, "session-end")
        with pytest.raises(BadInput, match="needs a review first"):
            engine.surgery.merge(str(HERE.key))
        engine.surgery.merge(str(HERE.key), reviewed=True)
        prove(engine)


def test_older_programs_gave_no_cause(path: Path) -> None:
    with open_engine(path) as engine:
        split(engine, None)
        assert [found.review for found in merge.find_splits(engine.archive)] == [None]


def test_the_same_entry_ids_on_both_sides_stay_with_the_active_one(path: Path) -> None:
    with open_engine(path) as engine:
        engine.append(HERE, [lossless.Incoming(message, f"e{n}") for n, message in enumerate(talk(6))])
        old = number(engine, HERE)
        with engine.archive.writing():
            engine.archive.conversations.archive(old, "rollover-fallback", engine.clock())
        engine.append(HERE, [lossless.Incoming(message, f"e{n + 4}") for n, message in enumerate(talk(6, "later"))])
        engine.surgery.merge(str(HERE.key))
        prove(engine)
        report = engine.append(HERE, [lossless.Incoming(talk(6, "later")[0], "e4")])
        assert report.stored == 0
        engine.undo(HERE)
        kept = rows(engine, "SELECT count(transcript_entry_id) FROM messages WHERE conversation_id = ?", old)
        assert kept == [(6,)]
        prove(engine)
