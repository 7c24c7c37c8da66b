"""Undoing goes on behind an import, under whatever numbers; what cannot be undone says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lossless
from lossless.errors import BadInput
from lossless.transfer.merge_plan import LOST_REASON
from tests.maintenance.surgery_kit import HERE, THERE, context, open_engine, prove, roots, rows, talk, told, writer

from .moves import bring, to_file, to_remnic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OTHER = lossless.Session(key="agent:main:other", id="run-other")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "there" / "lcm.db"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """An archive that has numbers of its own already."""
    path = tmp_path / "here" / "lcm.db"
    with open_engine(path) as engine:
        told(engine, 30, OTHER)
        engine.pin(OTHER, "mine")
    return path


def _transplanted(engine: lossless.Engine) -> None:
    told(engine, 30, THERE)
    engine.surgery.transplant(THERE, HERE)


def _merged(engine: lossless.Engine) -> None:
    engine.pin(HERE, "of the first")
    with engine.archive.writing():
        engine.archive.conversations.archive(1, "rollover-fallback", engine.clock())
    engine.append(HERE, [{"role": "system", "content": "Be brief."}, *talk(6, "later")])
    engine.pin(HERE, "of the second")
    engine.surgery.merge(str(HERE.key))


def _rewritten(engine: lossless.Engine) -> None:
    assert engine.surgery.rewrite(HERE, depth=0)[0] is not None


def _undone(engine: lossless.Engine) -> None:
    _rewritten(engine)
    engine.undo(HERE)


STEPS: dict[str, Callable[[lossless.Engine], object]] = {
    "fold": lambda _: None,
    "dissolve": lambda engine: engine.surgery.dissolve(roots(engine, 1)[0], purge=True),
    "rewrite": _rewritten,
    "transplant": _transplanted,
    "merge": _merged,
    "focus": lambda engine: engine.surgery.focus(HERE, "What about the ferry?"),
    "undone": _undone,
}


def said(engine: lossless.Engine) -> list[object]:
    """What the session's conversations say, without numbers."""
    key = HERE.key
    seqs = "SELECT m.seq, m.content FROM messages m JOIN conversations c USING (conversation_id) WHERE session_key = ?"
    summaries = "SELECT s.content FROM summaries s JOIN conversations c USING (conversation_id) WHERE session_key = ?"
    pins = "SELECT p.content, rank() OVER (ORDER BY p.conversation_id) FROM pins p JOIN conversations c "
    pins += "USING (conversation_id) WHERE session_key = ?"
    ids = rows(engine, "SELECT conversation_id FROM conversations WHERE session_key = ? ORDER BY 1", key)
    sizes = [len(context(engine, id_)) for (id_,) in ids]
    return [*(sorted(rows(engine, sql, key)) for sql in (seqs, summaries, pins)), sizes]


@pytest.mark.parametrize("into", ["empty", "other"])
@pytest.mark.parametrize("step", STEPS)
def test_the_last_steps_can_be_undone_after_an_import(
    source: Path, target: Path, tmp_path: Path, step: str, into: str
) -> None:
    with open_engine(source, writer()) as engine:
        told(engine)
        STEPS[step](engine)
    to_file(source, tmp_path / "all.jsonl")
    place = target if into == "other" else tmp_path / "new" / "lcm.db"
    bring("archive", tmp_path / "all.jsonl", place)
    with open_engine(source, writer()) as engine, open_engine(place, writer()) as other:
        for _ in range(3):
            engine.undo(HERE)
            other.undo(HERE)
            prove(other)
            assert said(other) == said(engine)
            if step in ("merge", "transplant"):
                break
        mine = other.archive.conversations.find(OTHER)
        assert (mine is None) == (into == "empty")
        if mine is not None:
            assert rows(other, "SELECT content FROM pins WHERE conversation_id = ?", mine.id) == [("mine",)]


def test_older_steps_of_what_was_merged_stay_when_its_numbers_are_others(
    source: Path, target: Path, tmp_path: Path
) -> None:
    with open_engine(source) as engine:
        told(engine)
        _merged(engine)
    to_file(source, tmp_path / "all.jsonl")
    with open_engine(target) as engine:
        with engine.archive.writing():  # the first number is free, those of the messages are not
            engine.archive.database.run("PRAGMA defer_foreign_keys = 1", ())
            found = "SELECT m.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE c.name = 'conversation_id'"
            for (table,) in rows(engine, found):
                engine.archive.database.run(f"UPDATE {table} SET conversation_id = 9 WHERE conversation_id = 1", ())
        prove(engine)
    bring("archive", tmp_path / "all.jsonl", target)
    with open_engine(target) as engine:
        engine.undo(HERE)
        prove(engine)
        with pytest.raises(BadInput, match=LOST_REASON):
            engine.undo(engine.archive.conversations.get(1))
        assert all(isinstance(item, str) for item in engine.surgery.diff(engine.archive.conversations.get(1), 0).left)


def test_a_merge_without_its_source_stays(source: Path, tmp_path: Path) -> None:
    with open_engine(source) as engine:
        told(engine)
        _merged(engine)
    to_remnic(source, tmp_path / "memory.sqlite")
    place = tmp_path / "new" / "lcm.db"
    bring("remnic", tmp_path / "memory.sqlite", place)
    with open_engine(place) as engine:
        with pytest.raises(BadInput, match="conversation 1, which was merged, is not in the archive"):
            engine.undo(HERE)
        prove(engine)
