"""Budgets are the provider's tokens: how far the estimate is off is learned from the usage that it reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lossless.model.messages import ModelIdentity
from lossless.testing import VirtualClock
from tests.compaction.loop_kit import SESSION, conversation_id, one, open_engine, rows, talk

if TYPE_CHECKING:
    from pathlib import Path

    from lossless import Engine

MODEL = ModelIdentity("acme", "chat", "m-1")
NAME = "acme/m-1"
BUDGET = 8_000


def converse(engine: Engine, ratio: float, turns: int, first: int = 0) -> None:
    """Turns whose prompts the provider counts as `ratio` times the estimate."""
    for turn in range(first, first + turns):
        engine.append(SESSION, talk(1, first=2 * turn))
        sent = engine.assemble(SESSION, budget=BUDGET, model=MODEL).tokens
        usage = {"input_tokens": int(ratio * sent), "output_tokens": 20}
        engine.after_turn(
            SESSION, new_messages=talk(1, first=2 * turn + 1), budget=20 * BUDGET, usage=usage, model=NAME
        )


@pytest.mark.parametrize("ratio", [0.7, 1.0, 1.6])
def test_the_factor_is_a_row_and_changes_what_fits(tmp_path: Path, ratio: float) -> None:
    path, clock = tmp_path / "lcm.db", VirtualClock()
    with open_engine(path, clock=clock) as engine:
        engine.append(SESSION, talk(300))
        before = engine.assemble(SESSION, budget=BUDGET, model=MODEL).receipt
        assert before.factor == pytest.approx(1.15), "a margin until it is learned"
        assert engine.assemble(SESSION, budget=BUDGET).receipt.factor == 1
        converse(engine, ratio, 12, first=150)
        assert rows(engine, "SELECT model, observations FROM token_factors") == [(NAME, 12)]
        assert one(engine, "SELECT ratio FROM token_factors") == pytest.approx(ratio, rel=0.02)
    with open_engine(path, clock=clock) as engine:
        made = engine.assemble(SESSION, budget=BUDGET, model=MODEL)
        counts = max(ratio, 1.0)  # what the next turn brings may be denser than all before
        assert made.receipt.factor == pytest.approx(counts, rel=0.1)
        assert made.receipt.capacity == pytest.approx(BUDGET / counts, rel=0.12)
        assert 0.8 * BUDGET < counts * made.tokens <= BUDGET, "the room is used, and no more"
        assert engine.assemble(SESSION, budget=BUDGET).receipt.capacity == BUDGET, "another model is another matter"


def test_a_prompt_that_was_cut_is_not_held_against_the_whole_context(tmp_path: Path) -> None:
    """Else a context of ten budgets would teach that tokens cost a tenth, and the next prompt would overflow."""
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.append(SESSION, talk(900))
        converse(engine, 1.0, 10, first=450)
        assert engine.archive.context_tokens(conversation_id(engine)) > 7 * BUDGET
        assert one(engine, "SELECT ratio FROM token_factors") == pytest.approx(1.0, rel=0.02)


def test_who_never_assembles_teaches_by_the_context_while_it_fits(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.append(SESSION, talk(40))
        tokens = engine.archive.context_tokens(conversation_id(engine))
        engine.after_turn(SESSION, new_messages=[], budget=BUDGET, usage={"input_tokens": 2 * tokens}, model=NAME)
        assert one(engine, "SELECT ratio FROM token_factors") == pytest.approx(2.0)
        engine.after_turn(SESSION, new_messages=[], budget=tokens // 2, usage={"input_tokens": 10}, model=NAME)
        assert one(engine, "SELECT observations FROM token_factors") == 1


@pytest.mark.parametrize(
    ("usage", "prompt", "state"),
    [
        ({"input_tokens": 900}, 900, "unknown"),
        ({"input_tokens": 100, "cache_read_input_tokens": 700, "cache_creation_input_tokens": 100}, 900, "hot"),
        ({"input": 100, "cacheRead": 0, "cacheWrite": 800}, 900, "cold"),
        ({"prompt_tokens": 900, "cached_tokens": 512}, 900, "hot"),
        ({"output_tokens": 7}, None, "unknown"),
        ({"input_tokens": "many", "prompt_tokens": None}, None, "unknown"),
    ],
)
def test_usage_is_read_in_every_spelling(tmp_path: Path, usage: dict[str, Any], prompt: int | None, state: str) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.after_turn(SESSION, new_messages=talk(4), usage=usage, model=NAME)
        assert rows(
            engine,
            "SELECT last_observed_prompt_token_count, cache_state, model FROM conversation_compaction_telemetry",
        ) == [(prompt, state, NAME)]


def test_what_the_host_observed_counts_for_the_threshold(tmp_path: Path) -> None:
    """Tools and instructions that we never see fill a window, too."""
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.append(SESSION, talk(30))
        turn = engine.after_turn(SESSION, new_messages=talk(2, first=30), budget=BUDGET, observed_tokens=6_500)
        assert turn.outcome is not None
        assert (turn.outcome.decision.pressure, turn.outcome.owes) == ("soft", True)
        turn = engine.after_turn(SESSION, new_messages=talk(2, first=32), budget=BUDGET, usage={"input_tokens": 9_000})
        assert turn.outcome is not None
        assert turn.outcome.decision.pressure == "hard"
        assert turn.compaction is not None
        assert turn.compaction.compacted
