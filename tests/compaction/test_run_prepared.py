"""Summaries that a model writes before the threshold, and that a turn at the threshold puts in place by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lossless.testing import VirtualClock
from tests.compaction.loop_kit import (
    BUDGET,
    SESSION,
    SOFT,
    check,
    conversation_id,
    debt,
    open_engine,
    rows,
    summaries,
    talk,
)

if TYPE_CHECKING:
    from pathlib import Path

    from lossless import Engine
    from lossless.llm.completion import Prompt

#: So many messages are above half the threshold and below it.
EARLY = 30
_PLACED = "SELECT summary_id FROM context_items WHERE summary_id IS NOT NULL ORDER BY ordinal"
_PREPARED = "SELECT added ->> 0 FROM context_log WHERE action = 'prepare' ORDER BY log_id"


class Model:
    """Counts its calls; never says the same twice."""

    def __init__(self) -> None:
        self.calls = 0
        self.works = True

    def __call__(self, _: Prompt) -> str:
        if not self.works:
            raise RuntimeError("nobody may ask now")
        self.calls += 1
        return f"Note {self.calls}: ferries, tides and who pays."


def early(path: Path, model: Model | None, **changed: object) -> Engine:
    """An engine whose conversation is on the way to its threshold, and whose background has done its work."""
    engine = open_engine(path, model, VirtualClock(), background=True, prepare_summaries=True, **changed)
    engine.after_turn(SESSION, new_messages=talk(EARLY), budget=BUDGET)
    assert engine.settle()
    return engine


def ids(engine: Engine, sql: str) -> list[str]:
    return [row[0] for row in rows(engine, sql)]


def test_they_are_written_ahead_and_placed_without_a_call(tmp_path: Path) -> None:
    model = Model()
    with early(tmp_path / "lcm.db", model) as engine:
        ahead = ids(engine, _PREPARED)
        assert len(ahead) == model.calls > 1
        assert ids(engine, _PLACED) == []  # nothing has changed for the model that talks
        assert engine.verify().ok
        assert engine.admin.examine().healthy
        model.works = False
        turn = engine.after_turn(SESSION, new_messages=talk(SOFT - EARLY, first=EARLY), budget=BUDGET)
        assert turn.outcome is not None
        assert turn.compaction is not None
        assert turn.compaction.summary_ids == tuple(ahead)
        assert (turn.compaction.calls, turn.outcome.owes, debt(engine)) == (0, False, {})
        assert ids(engine, _PLACED) == ahead
        check(engine, talk(SOFT))
        assert engine.settle()


def test_nothing_is_written_ahead_unless_it_is_wanted(tmp_path: Path) -> None:
    model = Model()
    with open_engine(tmp_path / "lcm.db", model, VirtualClock(), background=True) as engine:
        engine.after_turn(SESSION, new_messages=talk(EARLY), budget=BUDGET)
        assert engine.settle()
        assert engine.maintain(SESSION, budget=BUDGET, allow=True) is None
        assert (model.calls, summaries(engine)) == (0, [])


def test_without_a_model_nothing_is_written_ahead(tmp_path: Path) -> None:
    with early(tmp_path / "lcm.db", None) as engine:
        assert summaries(engine) == []


def test_prompts_stay_as_they_are_until_the_threshold(tmp_path: Path) -> None:
    model, path = Model(), tmp_path / "lcm.db"
    with open_engine(path, model, VirtualClock(), prepare_summaries=True) as engine:
        engine.after_turn(SESSION, new_messages=talk(EARLY), budget=BUDGET)
        before = engine.assemble(SESSION, budget=BUDGET).messages
        assert engine.maintain(SESSION, budget=BUDGET, allow=True) is None
        assert model.calls > 1
        assert engine.assemble(SESSION, budget=BUDGET).messages == before


def test_they_outlive_the_process_that_wrote_them(tmp_path: Path) -> None:
    path, model = tmp_path / "lcm.db", Model()
    early(path, model).close()
    with open_engine(path, None, VirtualClock(), prepare_summaries=True) as engine:
        ahead = ids(engine, _PREPARED)
        turn = engine.after_turn(SESSION, new_messages=talk(SOFT - EARLY, first=EARLY), budget=BUDGET)
        assert turn.compaction is not None
        assert list(turn.compaction.summary_ids) == ahead
        assert engine.verify().ok


def test_a_sweep_uses_them_too(tmp_path: Path) -> None:
    model = Model()
    with early(tmp_path / "lcm.db", model) as engine:
        ahead, asked = ids(engine, _PREPARED), model.calls
        report = engine.compact(SESSION, budget=BUDGET, force=True)
        assert set(ahead) <= set(report.summary_ids)
        assert report.calls == model.calls - asked == len(report.summary_ids) - len(ahead)
        check(engine, talk(EARLY))


def test_one_that_no_longer_tells_what_was_said_is_not_used(tmp_path: Path) -> None:
    model, said = Model(), talk(EARLY)
    with open_engine(tmp_path / "lcm.db", model, VirtualClock(), prepare_summaries=True) as engine:
        engine.sync(SESSION, said)
        engine.after_turn(SESSION, window=said, budget=BUDGET)
        engine.maintain(SESSION, budget=BUDGET, allow=True)
        first, *_ = ids(engine, _PREPARED)
        said[0] = {"role": "user", "content": said[0]["content"] + " And it is a Tuesday, by the way."}
        engine.sync(SESSION, said)
        engine.after_turn(SESSION, window=[*said, *talk(SOFT - EARLY, first=EARLY)], budget=BUDGET)
        assert first not in ids(engine, _PLACED)
        engine.admin.run_pending()
        assert ids(engine, _PLACED)
        assert not engine.archive.summaries.stale(1), "it was written anew before it got a place"
        assert engine.verify().ok


def test_preparing_is_no_step_that_can_be_undone(tmp_path: Path) -> None:
    model = Model()
    with early(tmp_path / "lcm.db", model) as engine:
        with pytest.raises(Exception, match="no fold and no surgery to undo"):
            engine.undo(SESSION)
        engine.after_turn(SESSION, new_messages=talk(SOFT - EARLY, first=EARLY), budget=BUDGET)
        placed = ids(engine, _PLACED)
        engine.undo(SESSION)
        assert ids(engine, _PLACED) == placed[:-1]
        assert engine.verify().ok


def test_a_model_that_fails_ends_it_quietly(tmp_path: Path) -> None:
    model = Model()
    model.works = False
    with early(tmp_path / "lcm.db", model) as engine:
        assert summaries(engine) == []
        turn = engine.after_turn(SESSION, new_messages=talk(SOFT - EARLY, first=EARLY), budget=BUDGET)
        assert turn.outcome is not None
        assert turn.outcome.owes
        assert engine.archive.guards.debt(conversation_id(engine)) is not None
