"""What lossless-claw does to a file of ours while it runs is neither damage nor a loss, and is taken note of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lossless
from lossless.maintenance import repair
from lossless.maintenance.doctor import examine
from lossless.maintenance.verify import verify_archive
from lossless.store.archive import Archive
from lossless.testing import VirtualClock
from tests.maintenance.surgery_kit import BUDGET, HERE, THERE, open_engine, settings, talk, told
from tests.store import claw_writes
from tests.store.claw_writes import claw

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.store.maintenance.integrity import VerificationProblem

LATER = "2027-03-01 00:00:00"


@pytest.fixture
def archive_path(path: Path) -> Path:
    """Two conversations with summaries and some messages after them."""
    with open_engine(path) as engine:
        told(engine)
        told(engine, session=THERE)
        engine.append(HERE, talk(4, "after"))
    return path


def found(path: Path) -> list[VerificationProblem]:
    with Archive.open(path, read_only=True) as archive:
        return list(verify_archive(archive).problems)


def errors(path: Path) -> list[str]:
    return [str(one) for one in found(path) if one.severity == "error"]


def doctor_says(path: Path) -> str:
    with Archive.open(path, read_only=True) as archive:
        findings = examine(archive, VirtualClock()()).findings
    return "\n".join(f"{one.severity}: {one.message} ({one.remedy})" for one in findings)


def is_fine(path: Path) -> bool:
    """Both agree that nothing is wrong, and nobody speaks of backups."""
    said = doctor_says(path)
    assert not errors(path), errors(path)
    assert "problem:" not in said, said
    assert "restore" not in said, said
    return True


def counted(path: Path, conversation_id: int = 1) -> tuple[int, int]:
    """The size of a context as it is given, and as its items add up to."""
    with open_engine(path) as engine:
        archive = engine.archive
        return archive.context_tokens(conversation_id), archive.context.tokens(conversation_id)


@pytest.mark.parametrize("own_tables", [False, True])
def test_its_compaction_is_no_damage(archive_path: Path, own_tables: bool) -> None:
    with claw(archive_path) as db:
        if own_tables:
            claw_writes.search_tables(db)
        claw_writes.leaf(db, 1, 3)
    assert is_fine(archive_path)  # before we have written anything
    given, real = counted(archive_path)
    assert given == real
    assert is_fine(archive_path)
    assert not [one for one in found(archive_path) if one.table != "summaries"]  # made-up text is small enough


def test_it_compacts_while_we_have_the_file_open(path: Path) -> None:
    with open_engine(path) as engine:
        id_ = told(engine)
        engine.append(HERE, talk(4, "after"))
        assert engine.archive.ingest.context_counts(id_)[0] is not None  # it is counted along
        with claw(path) as db:
            claw_writes.leaf(db, id_, 3)
        assert engine.archive.context_tokens(id_) == engine.archive.context.tokens(id_)
        engine.append(HERE, talk(2, "still"))
        assert engine.archive.context_tokens(id_) == engine.archive.context.tokens(id_)
        engine.compact(HERE, budget=BUDGET, force=True)
    assert is_fine(path)


@pytest.mark.parametrize("retain_depth", [0, 1, 2, 9])
@pytest.mark.parametrize("goes_on", [False, True])
def test_what_left_by_new_is_hidden_with_its_cause(archive_path: Path, retain_depth: int, goes_on: bool) -> None:
    with claw(archive_path) as db:
        before = db.execute("SELECT count(*) FROM messages").fetchall()
        claw_writes.new(db, 1, retain_depth, LATER)
        if goes_on:
            claw_writes.say(db, 1, "And now for something else.")
    assert is_fine(archive_path)
    given, real = counted(archive_path)
    assert given == real
    assert is_fine(archive_path)
    assert not found(archive_path)  # not even a warning
    with claw(archive_path) as db:
        rows = db.execute("SELECT DISTINCT conversation_id, cause, at FROM hidden_items").fetchall()
        assert rows == [(1, "new", "2027-03-01T00:00:00.000Z")]
        logged = db.execute("SELECT actor, count(*) FROM context_log WHERE action = 'new' GROUP BY 1").fetchall()
        assert logged == [("lossless-claw", 1)]
        ordinals = [
            row[0] for row in db.execute("SELECT ordinal FROM context_items WHERE conversation_id = 1 ORDER BY 1")
        ]
        assert ordinals == list(range(len(ordinals)))
        assert db.execute("SELECT count(*) - ? FROM messages", (int(goes_on),)).fetchall() == before
    counted(archive_path)  # opening again changes nothing
    with claw(archive_path) as db:
        assert db.execute("SELECT count(*) FROM context_log WHERE action = 'new'").fetchall() == [(1,)]


def test_a_context_that_lost_its_places_without_new_is_damage(archive_path: Path) -> None:
    with claw(archive_path) as db:
        claw_writes.new(db, 1, 2, None)
    assert errors(archive_path)
    said = doctor_says(archive_path)
    assert "problem:" in said
    assert "restore" not in said
    with lossless.open(archive_path) as engine:
        engine.admin.rebuild()
    assert is_fine(archive_path)


def test_what_is_lost_after_new_is_damage(archive_path: Path) -> None:
    with open_engine(archive_path) as engine:
        engine.append(HERE, talk(6, "more"))
    with claw(archive_path) as db:
        claw_writes.new(db, 1, 2, LATER)
    counted(archive_path)  # takes note of it
    with open_engine(archive_path) as engine:
        engine.append(HERE, talk(4, "later"))
    with claw(archive_path) as db:
        db.execute("DELETE FROM context_items WHERE conversation_id = 1 AND item_type = 'message'")
    assert errors(archive_path)


def test_the_newer_version_says_nothing_of_new(archive_path: Path) -> None:
    with claw(archive_path) as db:
        claw_writes.newer_tables(db)
        claw_writes.new(db, 1, 2, None)
        claw_writes.say(db, 1, "And now for something else.")
    assert is_fine(archive_path)
    given, real = counted(archive_path)
    assert given == real
    assert not found(archive_path)


def test_its_doctor_writes_a_summary_anew(archive_path: Path) -> None:
    with claw(archive_path) as db:
        claw_writes.search_tables(db)
        ((summary_id,),) = db.execute(
            "SELECT summary_id FROM context_items WHERE conversation_id = 1 AND summary_id IS NOT NULL LIMIT 1"
        ).fetchall()
        claw_writes.rewrite(db, str(summary_id))
    assert is_fine(archive_path)
    with Archive.open(archive_path) as archive:
        repair.apply_reindex(archive)
        assert archive.context_tokens(1) == archive.context.tokens(1)
    assert is_fine(archive_path)


def test_turns_under_a_key_are_known_to_it(path: Path) -> None:
    with lossless.open(path, settings(), background=False) as engine:
        engine.append(HERE, talk(2, "before"), key="turn-0")
        with claw(path) as db:
            claw_writes.newer_tables(db)
        engine.append(HERE, talk(2, "plain"), key="turn-1")
        entries = [lossless.Incoming(one, entry_id=f"e{n}") for n, one in enumerate(talk(2, "named"))]
        engine.append(HERE, entries, key="turn-2")
        assert engine.append(THERE, talk(2, "elsewhere"), key="turn-1").stored == 2  # another session's turn
    with claw(path) as db:
        rows = db.execute(
            "SELECT advancement_key, session_key, admission_entry_id, terminal_entry_id, message_count"
            " FROM turn_advancements ORDER BY 1"
        ).fetchall()
    assert rows == [("turn-1", HERE.key, "", "", 2), ("turn-2", HERE.key, "e0", "e1", 2)]


def test_a_turn_that_it_committed_is_known_to_us(path: Path) -> None:
    with open_engine(path) as engine:
        engine.append(HERE, talk(2, "before"))
        with claw(path) as db:
            claw_writes.newer_tables(db)
            claw_writes.say(db, 1, "Its own turn.")
            db.execute(
                "INSERT INTO turn_advancements (advancement_key, payload_hash, session_id, session_key,"
                " admission_entry_id, terminal_entry_id, message_count)"
                " VALUES ('turn-9', 'h', 'other', ?, 'a', 'b', 1)",
                (HERE.key,),
            )
        assert engine.append(HERE, [{"role": "user", "content": "Its own turn."}], key="turn-9").stored == 0
        assert engine.append(THERE, [{"role": "user", "content": "Another turn."}], key="turn-9").stored == 1
