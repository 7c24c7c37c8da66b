"""Long sessions full of tool calls: summaries are shown, the limit holds, and the beginning of a prompt stays."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import lossless
from lossless.model.budget import BudgetMemory, HistoryBudget, choose_budget, learn_frame
from tests.compaction.loop_kit import BUDGET, HARD, SESSION, SOFT, check, open_engine, rows, size, talk
from tests.fuzz.tool_sessions import SessionShape, drive

if TYPE_CHECKING:
    from lossless.context.run import Assembled


@given(
    seed=st.integers(0, 10_000),
    budget=st.sampled_from((16_000, 40_000, 64_000)),
    most=st.sampled_from((2_000, 10_000, 40_000)),
)
@settings(max_examples=2, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_every_prompt_after_the_first_fold_shows_a_summary_and_none_is_too_large(
    seed: int, budget: int, most: int
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        lossless.open(Path(folder) / "lcm.db", lossless.Settings(), background=False) as engine,
    ):
        seen = drive(engine, SESSION, budget, 16, seed, SessionShape(most=most))
    assert seen.over == 0
    assert seen.silent == 0, "what is left out is named"
    assert seen.with_summary >= 0.98 * seen.after_fold - 1
    assert seen.sent == 0 or seen.same >= 0.7 * seen.sent


def test_small_budgets_do_not_fold_on_every_turn(tmp_path: Path) -> None:
    with lossless.open(tmp_path / "lcm.db", lossless.Settings(), background=False) as engine:
        seen = drive(engine, SESSION, 16_000, 20, seed=1, shape=SessionShape(rounds=3))
    assert 0 < seen.folding_turns <= seen.turns / 5
    assert (seen.over, seen.silent, seen.after_fold - seen.with_summary) == (0, 0, 0)
    assert seen.same >= 0.8 * seen.sent


def test_in_a_very_small_window_every_prompt_after_a_fold_shows_a_summary(tmp_path: Path) -> None:
    with lossless.open(tmp_path / "lcm.db", lossless.Settings(), background=False) as engine:
        seen = drive(engine, SESSION, 2_000, 20, seed=1, shape=SessionShape(most=2_000, rounds=3))
    assert seen.after_fold > 30
    assert (seen.over, seen.after_fold - seen.with_summary) == (0, 0)


def test_long_results_of_earlier_turns_are_whole_while_they_fit_and_then_in_part_before_anything_is_folded(
    tmp_path: Path,
) -> None:
    def turn(number: int, lines: int) -> list[dict[str, Any]]:
        call = {"id": f"c{number}", "type": "function", "function": {"name": "shell", "arguments": "{}"}}
        return [
            {"role": "user", "content": f"Read log {number}."},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": "ferry 7 leaves the quay at noon\n" * lines},
            {"role": "assistant", "content": "Read."},
        ]

    with lossless.open(tmp_path / "lcm.db", lossless.Settings(), background=False) as engine:
        for number in range(2):
            engine.after_turn(SESSION, new_messages=turn(number, 400), budget=16_000)
        assert engine.assemble(SESSION, budget=16_000).receipt.shortened == ()
        for number in range(2, 8):
            report = engine.after_turn(SESSION, new_messages=turn(number, 400), budget=16_000)
            assert report.compaction is None, "what is shown in part counts so"
        prompt = engine.assemble(SESSION, budget=16_000)
        assert prompt.receipt.fits
        assert prompt.receipt.unstated == 0
        assert "msg#3" in prompt.receipt.shortened
        assert "msg#31" not in prompt.receipt.shortened, "the newest turn is whole"


@pytest.mark.parametrize(("role", "share"), [("tool", 8), ("user", 2)])
def test_what_no_prompt_can_hold_counts_as_it_is_shown(tmp_path: Path, role: str, share: int) -> None:
    """Else one output would make every turn fold until it is folded itself."""
    call: dict[str, Any] = {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": "{}"}}
    words = "ferry 7 leaves the quay at noon\n" * 2_400
    long: dict[str, Any] = {"role": role, "content": words} | ({"tool_call_id": "c1"} if role == "tool" else {})
    asked: list[dict[str, Any]] = [{"role": "user", "content": "Read the log."}]
    asked.append({"role": "assistant", "content": "", "tool_calls": [call]})
    with lossless.open(tmp_path / "lcm.db", lossless.Settings(), background=False) as engine:
        turn = engine.after_turn(SESSION, new_messages=[*(asked if role == "tool" else []), long], budget=16_000)
        assert turn.outcome is not None
        decision = turn.outcome.decision
        assert decision.pressure == "none"
        assert 16_000 // share <= decision.stored_tokens < 16_000 // share + 100
        prompt = engine.assemble(SESSION, budget=16_000)
        assert prompt.receipt.shortened
        assert prompt.tokens <= decision.current_tokens + 100, "what was counted is what is shown"


def test_what_is_learned_moves_the_budget_only_at_a_fold_or_when_it_is_exceeded() -> None:
    known, fresh = HistoryBudget(10_000), HistoryBudget(10_000, frame=4_000)
    assert choose_budget(known, fresh, 5_000, 0.75) is known
    assert choose_budget(known, fresh, 6_001, 0.75) is fresh, "a prompt would be too large"
    assert choose_budget(fresh, known, 4_500, 0.75) is fresh
    assert choose_budget(fresh, known, 4_501, 0.75) is known, "a fold is due"
    assert choose_budget(known, HistoryBudget(9_000), 10, 0.75) == HistoryBudget(9_000), "another window counts at once"


@given(
    window=st.integers(1, 10**7), overhead=st.integers(0, 10**6), frame=st.integers(0, 10**6), ratio=st.floats(0.4, 3)
)
def test_a_history_budget_is_positive_and_never_more_than_there_is(
    window: int, overhead: int, frame: int, ratio: float
) -> None:
    budget = HistoryBudget(window, overhead, frame, 0, ratio)
    assert budget.tokens >= 1
    assert budget.over or ratio * (budget.tokens + overhead) + frame <= window
    assert bool(budget.why_over) is bool(budget.over)
    assert HistoryBudget(window).tokens == window


def test_a_small_prompt_tells_the_frame_and_a_large_one_the_factor() -> None:
    kept = BudgetMemory(HistoryBudget(64_000))
    kept = learn_frame(kept, 100, 1.0, 20_100)
    assert kept.frame == 20_000
    assert learn_frame(kept, 30_000, 1.0, 53_000).frame == 20_000
    assert learn_frame(kept, 40_000, 1.0, 70_000).frame == 30_000, "the window was exceeded"


def test_the_host_s_count_is_believed_by_folding_and_assembling_alike(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.after_turn(SESSION, new_messages=talk(20), budget=BUDGET)
        made: Assembled = engine.assemble(SESSION, budget=BUDGET)
        frame = 2_000
        turn = engine.after_turn(
            SESSION, new_messages=talk(20, first=20), budget=BUDGET, observed_tokens=made.tokens + frame
        )
        assert turn.outcome is not None
        assert turn.outcome.history is not None
        assert turn.outcome.history.frame == frame
        assert turn.outcome.decision.budget == turn.outcome.history.tokens == BUDGET - frame
        after = engine.assemble(SESSION, budget=BUDGET)
        assert after.receipt.history_budget == BUDGET - frame
        assert size(after.messages) + frame <= BUDGET
    with open_engine(tmp_path / "lcm.db") as engine:
        assert engine.assemble(SESSION, budget=BUDGET).messages == after.messages, "in another process, too"


def test_the_hard_limit_does_not_wait_for_a_model_that_is_being_asked(tmp_path: Path) -> None:
    """The turn folds by extraction; the answer that comes later is about words that stand below a summary."""
    asked, answer = threading.Event(), threading.Event()

    def slow(_: object) -> str:
        asked.set()
        answer.wait(60)
        return "They spoke of ferries."

    with open_engine(tmp_path / "lcm.db", slow, background=True) as engine:
        engine.after_turn(SESSION, new_messages=talk(SOFT), budget=BUDGET)
        assert asked.wait(60)
        turn = engine.after_turn(SESSION, new_messages=talk(HARD - SOFT, first=SOFT), budget=BUDGET)
        assert turn.compaction is not None
        assert turn.compaction.compacted
        prompt = engine.assemble(SESSION, budget=BUDGET)
        assert prompt.receipt.fits
        assert prompt.receipt.unstated == 0
        answer.set()
        assert engine.settle()
        covered: list[Any] = rows(
            engine, "SELECT message_id FROM summary_messages GROUP BY message_id HAVING count(*) > 1"
        )
        assert covered == []
        check(engine, talk(HARD))


@pytest.mark.parametrize("until", [1_200, 2_000])
def test_a_target_is_reached_or_it_is_said_what_takes_the_room(tmp_path: Path, until: int) -> None:
    with open_engine(tmp_path / "lcm.db", fresh_tail_count=64) as engine:
        engine.append(SESSION, talk(HARD))
        report = engine.compact(SESSION, budget=BUDGET, until=until, force=True)
        assert report.ok or f"where {until:,} fit" in report.why
        assert report.compacted
