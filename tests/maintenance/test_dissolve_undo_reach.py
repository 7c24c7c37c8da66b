"""What can no longer be undone is refused with its reason, and nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lossless.errors import BadInput
from tests.faults import dump
from tests.maintenance.surgery_kit import (
    BUDGET,
    HERE,
    THERE,
    open_engine,
    prove,
    roots,
    rows,
    talk,
    told,
    undo_all,
    writer,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import lossless


def close(engine: lossless.Engine, conversation_id: int) -> None:
    with engine.archive.writing():
        engine.archive.conversations.archive(conversation_id, "rollover-fallback", engine.clock())


def undone(engine: lossless.Engine, conversation_id: int) -> str:
    done = engine.undo(engine.archive.conversations.get(conversation_id))
    prove(engine)
    (action,) = rows(engine, "SELECT cause FROM context_log WHERE log_id = ?", done.log_id)[0]
    return str(action)


def refused(engine: lossless.Engine, path: Path, conversation_id: int, reason: str) -> None:
    before = dump(path)
    with pytest.raises(BadInput, match=reason):
        engine.undo(engine.archive.conversations.get(conversation_id))
    assert dump(path) == before


def test_merges_of_merges_are_undone_from_the_last(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine, 30)
        for n in (1, 2):
            close(engine, n)
            engine.append(HERE, talk(12, f"later {n}"))
            engine.surgery.merge(str(HERE.key))
        prove(engine)
        refused(engine, path, 1, r"merged into conversation 2 .* `lcm undo --conversation-id 2`")
        refused(engine, path, 2, r"merged into conversation 3 .* `lcm undo --conversation-id 3`")
        assert undone(engine, 3) == "merge"
        refused(engine, path, 1, "merged into conversation 2")
        assert undone(engine, 2) == "merge"
        assert undone(engine, 1) == "fold"


def _rewrite(engine: lossless.Engine) -> None:
    assert engine.surgery.rewrite(HERE, depth=0)[0] is not None


def _transplant(engine: lossless.Engine) -> None:
    told(engine, 30, THERE)
    engine.surgery.transplant(THERE, HERE)


def _focus(engine: lossless.Engine) -> None:
    engine.surgery.focus(HERE, "What about the ferry?")


@pytest.mark.parametrize("step", [_rewrite, _transplant, _focus], ids=["rewrite", "transplant", "focus"])
def test_no_step_of_what_was_merged_away_is_undone_in_the_other(
    path: Path, step: Callable[[lossless.Engine], None]
) -> None:
    with open_engine(path, writer()) as engine:
        told(engine, 30)
        step(engine)
        (last,) = rows(engine, "SELECT action FROM context_log WHERE conversation_id = 1 ORDER BY log_id DESC")[0]
        close(engine, 1)
        engine.append(HERE, talk(6, "later"))
        done = engine.surgery.merge(str(HERE.key))
        refused(engine, path, 1, f"merged into conversation {done.conversation_id}")
        assert undone(engine, done.conversation_id) == "merge"
        assert undone(engine, 1) == last


def merged(engine: lossless.Engine) -> None:
    told(engine, 30)
    close(engine, 1)
    engine.append(HERE, talk(6, "later"))
    engine.surgery.merge(str(HERE.key))


def test_a_merge_whose_source_is_gone_stays(path: Path) -> None:
    with open_engine(path) as engine:
        merged(engine)
        with engine.archive.writing():
            engine.archive.database.run("DELETE FROM conversations WHERE conversation_id = 1", ())
        refused(engine, path, 2, "conversation 1, which was merged, is not in the archive")
        prove(engine)


def test_a_merge_whose_source_went_on_stays(path: Path) -> None:
    with open_engine(path) as engine:
        merged(engine)
        engine.append(THERE, talk(3, "there"))
        with engine.archive.writing():
            engine.archive.database.run("UPDATE messages SET conversation_id = 1 WHERE conversation_id = 3", ())
            engine.archive.database.run("UPDATE context_items SET conversation_id = 1 WHERE conversation_id = 3", ())
        refused(engine, path, 2, "conversation 1, which was merged, has new messages of its own")


@pytest.mark.parametrize(
    ("prepare", "spoil", "reason"),
    [
        (merged, "UPDATE context_log SET detail = NULL", "does not say what was merged"),
        (merged, 'UPDATE context_log SET detail = \'{"lost": "it came without"}\'', "undone: it came without"),
        (merged, "UPDATE conversations SET session_key = 'x' WHERE conversation_id = 1", "of another session"),
        (_transplant, "UPDATE context_log SET detail = NULL", "does not say what it made"),
        (_focus, "UPDATE context_log SET detail = NULL", "does not say which brief"),
        (_rewrite, "DELETE FROM former_summaries", "former texts were not kept"),
    ],
)
def test_logs_that_lost_what_undoing_needs(
    path: Path, prepare: Callable[[lossless.Engine], None], spoil: str, reason: str
) -> None:
    with open_engine(path, writer()) as engine:
        if prepare is not merged:
            told(engine, 30)
        prepare(engine)
        with engine.archive.writing():
            engine.archive.database.run(spoil, ())
        refused(engine, path, 2 if prepare is merged else 1, reason)


def test_a_deleted_summary_that_was_not_kept_is_named(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine)
        gone = roots(engine, 1)[0]
        engine.surgery.dissolve(gone, purge=True)
        with engine.archive.writing():
            engine.archive.database.run("DELETE FROM former_summaries", ())
        refused(engine, path, 1, f"summary '{gone}' is not in the archive")


def test_copies_that_something_else_needs_stay(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine, 30)
        told(engine, 12, THERE)
        done = engine.surgery.transplant(HERE, THERE)
        own = rows(engine, "SELECT summary_id FROM summaries WHERE conversation_id = 1 AND kind = 'condensed'")[0][0]
        with engine.archive.writing():
            values = (own, done.summary_ids[0], 99)
            engine.archive.database.run("INSERT INTO summary_parents VALUES (?, ?, ?)", values)
        refused(engine, path, 2, f"still needed by summary {own}")


def test_an_undo_that_names_no_step_counts_for_the_newest_of_its_kind(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine)
        engine.undo(HERE)
        engine.undo(HERE)
        planned = engine.surgery.plan_undo(1).entry.id
        with engine.archive.writing():
            engine.archive.database.run("UPDATE context_log SET detail = NULL", ())
        assert engine.surgery.plan_undo(1).entry.id == planned
        with pytest.raises(BadInput, match="no fold and no surgery"):
            undo_all(engine, HERE)
        prove(engine)
        engine.compact(HERE, budget=BUDGET, force=True)
        prove(engine)
