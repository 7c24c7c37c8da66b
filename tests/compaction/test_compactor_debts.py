"""Below its budget a turn never waits for a model: it leaves one row, and somebody pays it later."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.model.context import EXTRACTIVE_MODEL
from lossless.store.archive import Archive
from lossless.testing import Scripted, VirtualClock, hang
from tests.compaction.loop_kit import (
    BUDGET,
    HARD,
    SESSION,
    SOFT,
    changes,
    check,
    conversation_id,
    debt,
    one,
    open_engine,
    rows,
    summaries,
    talk,
)
from tests.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lossless import Engine


def test_a_turn_below_its_budget_asks_no_model_and_leaves_one_row(tmp_path: Path) -> None:
    clock, model = VirtualClock(), Scripted()
    with open_engine(tmp_path / "lcm.db", model, clock) as engine:
        first = engine.after_turn(SESSION, new_messages=talk(20), budget=BUDGET)
        assert (first.outcome is not None, first.compaction, debt(engine)) == (True, None, {})
        engine.after_turn(SESSION, new_messages=talk(SOFT - 20, first=20), budget=BUDGET)
        asked, began = debt(engine), clock()
        for n in range(3):
            clock.advance(minutes=1)
            turn = engine.after_turn(SESSION, new_messages=talk(2, first=SOFT + 2 * n), budget=BUDGET)
            assert turn.outcome is not None
            assert (turn.outcome.owes, turn.compaction) == (True, None)
        assert one(engine, "SELECT count(*) FROM conversation_compaction_maintenance") == 1
        owed = debt(engine)
        assert (owed["pending"], owed["running"], owed["reason"]) == (True, False, "threshold")
        assert (owed["requested_at"], owed["token_budget"]) == (began, BUDGET)
        assert owed["current_token_count"] > asked["current_token_count"] > 0.75 * BUDGET
        assert owed["maintenance_revision"] > asked["maintenance_revision"]
        assert model.started == 0
        assert summaries(engine) == []


def _by_worker(engine: Engine) -> None:
    ((paid, report),) = engine.admin.run_pending()
    assert (paid, report is not None and report.reason) == (conversation_id(engine), "compacted")


def _by_host(engine: Engine) -> None:
    assert engine.maintain(SESSION, budget=BUDGET) is None, "a host has to opt in"
    report = engine.maintain(SESSION, budget=BUDGET, allow=True)
    assert report is not None
    assert report.compacted


def _by_person(engine: Engine) -> None:
    assert engine.compact(SESSION, budget=BUDGET, force=True).compacted


@pytest.mark.parametrize("pay", [_by_worker, _by_host, _by_person])
def test_a_debt_is_paid(tmp_path: Path, pay: Callable[[Engine], None]) -> None:
    path, clock = tmp_path / "lcm.db", VirtualClock()
    with open_engine(path, Scripted(), clock) as engine:
        engine.after_turn(SESSION, new_messages=talk(SOFT), budget=BUDGET)
    model = Scripted()
    with open_engine(path, model, clock) as engine:
        pay(engine)
        owed = debt(engine)
        assert (owed["pending"], owed["running"], owed["last_finished_at"]) == (False, False, clock())
        assert model.started > 0
        assert engine.archive.context_tokens(conversation_id(engine)) <= 0.75 * BUDGET
        assert engine.admin.run_pending() == []
        check(engine, talk(SOFT))


def test_the_background_pays_while_the_host_goes_on(tmp_path: Path) -> None:
    model = Scripted(then=hang(600))
    with open_engine(tmp_path / "lcm.db", model, background=True) as engine:
        engine.after_turn(SESSION, new_messages=talk(SOFT), budget=BUDGET)
        wait_for(lambda: model.started)
        engine.append(SESSION, talk(2, first=SOFT))
        assert debt(engine)["pending"]
        assert model.calls == (), "nobody has waited for an answer"
        model.release()
        assert engine.settle()
        assert model.started > 0
        assert not debt(engine)["pending"]
        check(engine, talk(SOFT + 2))


def test_failed_drains_back_off(tmp_path: Path) -> None:
    clock, model = VirtualClock(), Scripted(then="rate_limit")
    with open_engine(tmp_path / "lcm.db", model, clock) as engine:
        engine.after_turn(SESSION, new_messages=talk(SOFT), budget=BUDGET)
        pauses = []
        for attempt in range(1, 6):
            engine.admin.run_pending()
            owed = debt(engine)
            assert (model.started, owed["retry_attempts"]) == (attempt, attempt)
            pauses.append((owed["next_attempt_after"] - clock()) / timedelta(minutes=1))
            clock.advance(minutes=pauses[-1] - 0.1)
            engine.admin.run_pending()
            engine.after_turn(SESSION, new_messages=talk(1, seed=attempt), budget=BUDGET)
            assert model.started == attempt, "asking again does not shorten the pause"
            clock.advance(minutes=0.2)
        assert pauses == [5, 10, 20, 30, 30]


def test_a_context_over_its_budget_steps_over_the_back_off_of_the_first_failures(tmp_path: Path) -> None:
    clock, model = VirtualClock(), Scripted(then="rate_limit")
    with open_engine(tmp_path / "lcm.db", model, clock) as engine:
        engine.after_turn(SESSION, new_messages=talk(SOFT), budget=BUDGET)
        engine.admin.run_pending()
        engine.admin.run_pending()
        assert model.started == 1, "below the budget it waits"
        engine.append(SESSION, talk(HARD - SOFT, first=SOFT))
        for _ in range(4):
            engine.admin.run_pending()
        assert (model.started, debt(engine)["retry_attempts"]) == (3, 3)
        clock.advance(minutes=20)
        engine.admin.run_pending()
        assert model.started == 4, "then it waits as every debt does"
        check(engine, talk(HARD))


def test_what_cannot_get_smaller_is_no_debt(tmp_path: Path) -> None:
    model = Scripted()
    with open_engine(tmp_path / "lcm.db", model, fresh_tail_count=64, fresh_tail_max_tokens=-1) as engine:
        engine.after_turn(SESSION, new_messages=talk(SOFT), budget=BUDGET)
        ((_, report),) = engine.admin.run_pending()
        assert report is not None
        assert (report.exhausted, report.compacted) == (True, False)
        owed = debt(engine)
        assert (owed["pending"], owed["last_failure_summary"]) == (False, "live context still exceeds target")
        assert (model.started, summaries(engine)) == (0, [])


@pytest.mark.parametrize(("count", "calls"), [(10, False), (SOFT, True)])
def test_a_reason_of_an_older_program_is_checked_again(tmp_path: Path, count: int, calls: bool) -> None:
    model = Scripted()
    with open_engine(tmp_path / "lcm.db", model) as engine:
        engine.append(SESSION, talk(count))
        engine.archive.database.run(
            "INSERT INTO conversation_compaction_maintenance (conversation_id, pending, requested_at, reason, running,"
            " token_budget, updated_at) VALUES (?, 1, datetime('now'), 'leaf-trigger', 1, ?, datetime('now'))",
            (conversation_id(engine), BUDGET),
        )
        engine.admin.run_pending()
        assert (model.started > 0) is calls
        owed = debt(engine)
        assert (owed["pending"], owed["running"]) == (False, False)


@pytest.mark.parametrize(
    ("asked", "paid_with", "folds"),
    [(BUDGET, 100_000, True), (100_000, BUDGET, True), (100_000, None, False)],
)
def test_a_drain_takes_the_smaller_budget(tmp_path: Path, asked: int, paid_with: int | None, folds: bool) -> None:
    """And the one that was asked with, when nobody names another: not a default that may be smaller."""
    with open_engine(tmp_path / "lcm.db", Scripted(), default_token_budget=BUDGET) as engine:
        engine.after_turn(SESSION, new_messages=talk(SOFT), budget=BUDGET)
        engine.archive.database.run("UPDATE conversation_compaction_maintenance SET token_budget = ?", (asked,))
        engine.maintain(SESSION, budget=paid_with, allow=True)
        assert bool(summaries(engine)) is folds
        assert not debt(engine)["pending"]


def test_a_request_that_comes_during_a_drain_outlives_it(tmp_path: Path) -> None:
    path, clock = tmp_path / "lcm.db", VirtualClock()

    def grow(_: object) -> str:
        if not grown:
            grown.append(True)
            with open_engine(path, None, clock) as other:
                other.after_turn(SESSION, new_messages=talk(2, first=SOFT), budget=BUDGET)
        return "They spoke of ferries."

    grown: list[bool] = []
    with open_engine(path, grow, clock) as engine:
        engine.after_turn(SESSION, new_messages=talk(SOFT), budget=BUDGET)
        engine.admin.run_pending()
        assert debt(engine)["pending"]
        engine.admin.run_pending()
        assert not debt(engine)["pending"]
        check(engine, talk(SOFT + 2))


def test_while_another_works_on_it_a_debt_is_left_alone_but_the_hard_limit_does_not_wait(tmp_path: Path) -> None:
    """What the model answers then is stale: its sources are below another summary."""
    path, clock, reports = tmp_path / "lcm.db", VirtualClock(), list[Any]()

    def look(_: object) -> str:
        if not reports:
            with open_engine(path, Scripted(), clock) as other:
                before = debt(other)
                reports.append(other.admin.run_pending()[0][1])
                reports.append(other.compact(SESSION, budget=BUDGET, force=True))
                turn = other.after_turn(SESSION, new_messages=talk(HARD - SOFT, first=SOFT), budget=BUDGET)
                reports.append(turn)
                assert before["running"]
        return "They spoke of ferries."

    with open_engine(path, look, clock) as engine:
        engine.after_turn(SESSION, new_messages=talk(SOFT), budget=BUDGET)
        engine.admin.run_pending()
        drained, compacted, turn = reports
        assert drained is None
        assert (compacted.compacted, compacted.stop) == (False, "busy")
        assert turn.compaction.compacted, "a turn does not wait"
        assert all(model != "They spoke of ferries." for *_, model in summaries(engine))
        assert one(engine, "SELECT count(*) FROM spend_ledger WHERE kind = 'reset'") == 0
        check(engine, talk(HARD))


# --- at the hard limit -----------------------------------------------------------------------------


def test_at_the_hard_limit_a_turn_folds_by_itself_without_a_model(tmp_path: Path) -> None:
    model = Scripted(then=hang(60))
    with open_engine(tmp_path / "lcm.db", model) as engine:
        turn = engine.after_turn(SESSION, new_messages=talk(HARD), budget=BUDGET)
        assert turn.compaction is not None
        assert (turn.compaction.compacted, turn.compaction.reason, model.started) == (True, "compacted", 0)
        assert {writer for *_, writer in summaries(engine)} == {EXTRACTIVE_MODEL}, "marked as upgradable"
        assert engine.archive.context_tokens(conversation_id(engine)) <= 0.75 * BUDGET
        check(engine, talk(HARD))


def test_at_the_hard_limit_the_model_is_asked_where_that_is_wanted(tmp_path: Path) -> None:
    model = Scripted()
    with open_engine(tmp_path / "lcm.db", model, hard_limit_summariser="model") as engine:
        engine.after_turn(SESSION, new_messages=talk(HARD), budget=BUDGET)
        assert model.started > 0
        assert {writer for *_, writer in summaries(engine)} == {"scripted"}


def test_inline_mode_asks_within_the_turn_and_a_failure_becomes_a_debt(tmp_path: Path) -> None:
    with open_engine(
        tmp_path / "lcm.db", Scripted("auth"), VirtualClock(), proactive_threshold_compaction_mode="inline"
    ) as engine:
        turn = engine.after_turn(SESSION, new_messages=talk(SOFT), budget=BUDGET)
        assert turn.compaction is not None
        assert (turn.compaction.reason, summaries(engine)) == ("provider auth failure", [])
        assert (debt(engine)["pending"], debt(engine)["last_failure_summary"]) == (True, "provider auth failure")
        turn = engine.after_turn(SESSION, new_messages=talk(2, first=SOFT), budget=BUDGET)
        assert turn.compaction is not None
        assert turn.compaction.compacted
        check(engine, talk(SOFT + 2))


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_of_a_long_history_a_turn_folds_what_it_can(tmp_path: Path, seconds: float) -> None:
    """Twice the default budget at once: what is not done in time stays a debt."""
    said = talk(1_000, words=150)
    with lossless.open(tmp_path / "lcm.db", lossless.Settings(), Scripted(), background=False) as engine:
        engine.loop = replace(engine.loop, turn_seconds=seconds)
        engine.append(SESSION, said[:-2])
        turn = engine.after_turn(SESSION, new_messages=said[-2:])
        assert turn.compaction is not None
        assert turn.compaction.tokens_before > 2 * 128_000
        assert turn.compaction.compacted == (seconds > 0)
        assert turn.outcome is not None
        assert turn.outcome.owes == (seconds == 0)
        assert (turn.compaction.tokens_after <= 0.75 * 128_000) == (seconds > 0)
        assert engine.verify().problems == ()


# --- the background itself ---------------------------------------------------------------------------


def test_closing_does_not_wait_for_a_model_and_leaves_the_debt(tmp_path: Path) -> None:
    path, model = tmp_path / "lcm.db", Scripted(then=hang(3600))
    engine = open_engine(path, model, background=True, summary_timeout_ms=3_600_000)
    engine.after_turn(SESSION, new_messages=talk(SOFT), budget=BUDGET)
    wait_for(lambda: model.started)
    engine.close()
    assert model.calls == ()
    model.release()
    with open_engine(path, Scripted()) as again:
        assert debt(again)["pending"]
        assert again.verify().problems == ()


def test_closing_in_the_middle_of_sweeps_is_quiet(tmp_path: Path) -> None:
    """Again and again at another moment: nothing is raised, nothing is lost."""
    for n in range(8):
        path = tmp_path / f"{n}.db"
        model = Scripted(then=hang(0.003 * n))
        with open_engine(path, model, background=True, leaf_chunk_tokens=150) as engine:
            engine.after_turn(SESSION, new_messages=talk(SOFT), budget=BUDGET)
            engine.settle(0.01 * n)
        with open_engine(path) as again:
            check(again, talk(SOFT))


def test_what_waits_at_closing_is_folded_without_a_model_while_there_is_time(tmp_path: Path) -> None:
    path, model = tmp_path / "lcm.db", Scripted(hang(0.05), then=hang(0.01))
    engine = open_engine(path, model, background=True, leaf_chunk_tokens=2_000, leaf_target_tokens=600)
    sessions = [lossless.Session(key=name) for name in "ab"]
    for session in sessions:
        engine.after_turn(session, new_messages=talk(SOFT), budget=BUDGET)
    engine.close()
    with open_engine(path) as again:
        writers = dict(rows(again, "SELECT conversation_id, min(model) FROM summaries GROUP BY 1"))
        assert set(writers.values()) <= {"scripted", EXTRACTIVE_MODEL}
        assert again.verify().problems == ()


def test_a_bug_in_the_background_is_heard_and_does_not_stop_it(tmp_path: Path) -> None:
    heard: list[threading.ExceptHookArgs] = []
    before, threading.excepthook = threading.excepthook, heard.append
    try:
        with open_engine(tmp_path / "lcm.db", Scripted(), background=True) as engine:
            engine.append(SESSION, talk(SOFT))
            assert engine._background is not None
            engine._background._run = _broken
            engine._background.enqueue(conversation_id(engine))
            assert engine.settle()
            engine._background._run = engine.admin.run_pending_of
            engine.after_turn(SESSION, new_messages=talk(2, first=SOFT), budget=BUDGET)
            assert engine.settle()
            assert summaries(engine)
    finally:
        threading.excepthook = before
    assert [args.exc_type for args in heard] == [ZeroDivisionError]


def _broken(_: int) -> object:
    return 1 // 0


def test_reading_only_never_pays(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    with open_engine(path) as engine:
        engine.after_turn(SESSION, new_messages=talk(SOFT), budget=BUDGET)
        written = changes(engine)
        with lossless.Engine(Archive.open(path, read_only=True), lossless.Settings(), Scripted()) as reader:
            assert reader.assemble(SESSION, budget=BUDGET).messages
            assert reader.settle()
        assert changes(engine) == written


def test_a_sweep_that_lossless_claw_did_not_finish_is_seen_and_paid(tmp_path: Path) -> None:
    """It takes the debt off before it starts: after a kill the row says that it runs, and that nothing is owed."""
    clock, model = VirtualClock(), Scripted()
    with open_engine(tmp_path / "lcm.db", model, clock) as engine:
        engine.after_turn(SESSION, new_messages=talk(SOFT), budget=BUDGET)
        started = clock().isoformat().replace("+00:00", "Z")
        with engine.archive.writing():
            engine.archive.database.run(
                "UPDATE conversation_compaction_maintenance SET pending = 0, running = 1, last_started_at = ?",
                (started,),
            )
        assert engine.archive.guards.pending_debts(now=clock()) == []  # it may still be at work
        assert engine.admin.run_pending() == []
        clock.advance(minutes=11)
        assert engine.archive.guards.pending_debts(now=clock()) == [conversation_id(engine)]
        assert [id_ for id_, _ in engine.admin.run_pending()] == [conversation_id(engine)]
        assert summaries(engine)
        owed = debt(engine)
        assert (owed["pending"], owed["running"]) == (False, False)
        assert engine.verify().ok


def test_a_sweep_leaves_no_gaps_in_the_context(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.append(SESSION, talk(HARD))
        assert engine.compact(SESSION, budget=BUDGET).summary_ids
        before = engine.assemble(SESSION, budget=BUDGET).messages
        ordinals = [item.ordinal for item in engine.archive.context.items(conversation_id(engine))]
        assert ordinals == list(range(len(ordinals)))
        assert not engine.archive.context.close_gaps(conversation_id(engine))
        engine.append(SESSION, talk(2, first=HARD))
        assert engine.assemble(SESSION, budget=BUDGET).messages[: len(before)] == before
        assert engine.verify().ok
