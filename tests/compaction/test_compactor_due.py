"""A debt is asked once, paid when due, and never forgotten while it is owed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.compaction.compactor import CompactionPolicy, apply_override
from lossless.compaction.plan import CompactionReason, evaluate
from lossless.compaction.run import (
    OPERATOR_IGNORED,
    THRESHOLD_REASON,
    CompactionReport,
    drain_backoff,
    drain_budget,
    drain_ending,
    drain_policy,
    finish_drain,
    is_debt_due,
    request_sweep,
    revalidate_debt,
    start_drain,
)
from lossless.model.records import CompactionDebt
from lossless.settings.model_rules import ContextThresholdOverride

if TYPE_CHECKING:
    from lossless.compaction.plan import StopReason
    from lossless.compaction.run import DrainEnding

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
POLICY = CompactionPolicy()
OVER = evaluate(800, None, 1000, POLICY)
UNDER = evaluate(700, None, 1000, POLICY)
MINUTE = timedelta(minutes=1)


def owed() -> CompactionDebt:
    return request_sweep(CompactionDebt(7), OVER, POLICY, NOW)


def ended(
    debt: CompactionDebt, ending: DrainEnding, detail: str | None = None, until: datetime | None = None
) -> CompactionDebt:
    running = start_drain(debt, NOW)
    return finish_drain(running, ending, NOW, started_revision=running.maintenance_revision, detail=detail, until=until)


def test_a_request_keeps_what_it_was_decided_with() -> None:
    debt = owed()
    assert (debt.pending, debt.reason, debt.requested_at) == (True, THRESHOLD_REASON, NOW)
    assert (debt.token_budget, debt.current_token_count) == (1000, 800)
    assert (debt.context_threshold, debt.context_threshold_source) == (0.75, "global")
    assert (debt.context_fresh_tail_count, debt.context_leaf_chunk_tokens) == (64, 20_000)
    assert debt.maintenance_revision == 1


def test_requests_coalesce() -> None:
    failed = ended(owed(), "failed", "timeout")
    again = request_sweep(failed, evaluate(900, None, 1000, POLICY), POLICY, NOW + MINUTE)
    assert (again.requested_at, again.current_token_count) == (NOW, 900)
    assert (again.retry_attempts, again.next_attempt_after) == (1, failed.next_attempt_after)
    assert again.maintenance_revision == failed.maintenance_revision + 1


def test_a_request_after_a_paid_debt_is_a_new_one() -> None:
    again = request_sweep(ended(owed(), "done"), OVER, POLICY, NOW + MINUTE)
    assert (again.requested_at, again.retry_attempts, again.next_attempt_after) == (NOW + MINUTE, 0, None)


@pytest.mark.parametrize(
    ("ending", "detail", "pending", "attempts", "waits"),
    [
        pytest.param("done", None, False, 0, None, id="done is paid"),
        pytest.param("exhausted", "transcript reset required", False, 0, None, id="nothing left is not owed"),
        pytest.param("unfinished", "deadline", True, 0, None, id="progress is never punished"),
        pytest.param("failed", "timeout", True, 1, 5, id="a failure backs off"),
        pytest.param("refused", "provider auth failure", True, 1, None, id="the breaker guards credentials"),
        pytest.param("denied", "no model configured", True, 0, None, id="a denial stays with its reason"),
        pytest.param("breaker open", None, True, 0, None, id="an open breaker keeps it pending"),
    ],
)
def test_endings(ending: DrainEnding, detail: str | None, pending: bool, attempts: int, waits: int | None) -> None:
    debt = ended(owed(), ending, detail)
    assert (debt.pending, debt.running, debt.last_finished_at) == (pending, False, NOW)
    assert debt.retry_attempts == attempts
    assert debt.next_attempt_after == (None if waits is None else NOW + waits * MINUTE)
    assert debt.last_failure_summary == (detail or (ending if ending == "breaker open" else None))


def test_a_spend_backoff_says_until_when() -> None:
    debt = ended(owed(), "spend backoff", until=NOW + 30 * MINUTE)
    assert (debt.pending, debt.next_attempt_after) == (True, NOW + 30 * MINUTE)
    assert not is_debt_due(debt, NOW + 29 * MINUTE)
    assert not is_debt_due(debt, NOW, emergency=True), "a guard is no back-off"
    assert is_debt_due(debt, NOW + 30 * MINUTE)


def test_a_request_during_the_drain_outlives_it() -> None:
    running = start_drain(owed(), NOW)
    asked_again = request_sweep(running, OVER, POLICY, NOW + MINUTE)
    for ending in ("done", "exhausted"):
        debt = finish_drain(asked_again, ending, NOW, started_revision=running.maintenance_revision)
        assert (debt.pending, debt.running) == (True, False)


def test_backoff_doubles_to_half_an_hour() -> None:
    assert [drain_backoff(n) // MINUTE for n in (0, 1, 2, 3, 4, 5, 500)] == [5, 5, 10, 20, 30, 30, 30]


def test_an_emergency_steps_over_the_backoff_three_times() -> None:
    debt = owed()
    for _ in range(3):
        assert is_debt_due(debt, NOW, emergency=True)
        debt = ended(debt, "failed", "timeout")
        assert not is_debt_due(debt, NOW)
    assert not is_debt_due(debt, NOW, emergency=True)
    assert is_debt_due(debt, NOW + 20 * MINUTE)


def test_a_dead_worker_blocks_nobody() -> None:
    assert is_debt_due(start_drain(owed(), NOW), NOW)


def test_what_is_not_owed_is_not_due() -> None:
    assert not is_debt_due(CompactionDebt(7), NOW, emergency=True)


def test_older_reasons_are_looked_at_again() -> None:
    legacy = replace(owed(), reason="leaf-trigger")
    assert not revalidate_debt(legacy, UNDER, NOW).pending
    assert revalidate_debt(legacy, OVER, NOW).reason == THRESHOLD_REASON
    assert revalidate_debt(owed(), UNDER, NOW) == owed(), "a threshold debt is judged by its sweep"


def test_the_smaller_budget_counts() -> None:
    assert drain_budget(owed(), 500) == 500
    assert drain_budget(owed(), 5000) == 1000
    assert drain_budget(CompactionDebt(7), 5000) == 5000


def test_stored_numbers_hold_while_some_setting_gives_them() -> None:
    rule = ContextThresholdOverride(context_threshold=0.5, model="m", fresh_tail_count=8)
    chosen = apply_override(POLICY, rule)
    debt = request_sweep(CompactionDebt(7), OVER, chosen, NOW)
    assert drain_policy(debt, POLICY, (POLICY, chosen)) == chosen
    changed = replace(rule, fresh_tail_count=9)
    assert drain_policy(debt, POLICY, (POLICY, apply_override(POLICY, changed))) == POLICY
    old_row = replace(debt, context_fresh_tail_count=None, context_leaf_chunk_tokens=None)
    assert drain_policy(old_row, POLICY, (POLICY, chosen)) == chosen
    assert drain_policy(CompactionDebt(7), POLICY, (POLICY, chosen)) == POLICY


def test_a_debt_that_a_person_closed_can_be_owed_again() -> None:
    closed = replace(CompactionDebt(7), resolution_reason=OPERATOR_IGNORED, resolved_at=NOW)
    asked = request_sweep(closed, OVER, POLICY, NOW)
    assert (asked.pending, asked.resolution_reason, asked.resolved_at) == (True, None, None)


@pytest.mark.parametrize(
    ("outcome", "stop", "ending"),
    [
        (CompactionReport(True, True, CompactionReason.COMPACTED), "nothing left", "done"),
        (CompactionReport(True, False, CompactionReason.BELOW_THRESHOLD), "nothing left", "done"),
        (CompactionReport(True, True, CompactionReason.STILL_OVER, exhausted=True), "nothing left", "exhausted"),
        (CompactionReport(False, False, CompactionReason.EXHAUSTED, exhausted=True), "nothing left", "exhausted"),
        (CompactionReport(True, True, CompactionReason.STILL_OVER), "deadline", "unfinished"),
        (CompactionReport(False, False, CompactionReason.LIVE_OVER), "iterations", "failed"),
        (CompactionReport(False, True, CompactionReason.AUTH_PARTIAL), "auth failure", "refused"),
        (CompactionReport(False, True, CompactionReason.MODEL_FAILED), "model failure", "failed"),
        (CompactionReport(False, False, CompactionReason.MODEL_DENIED), "model denied", "denied"),
        (CompactionReport(True, False, CompactionReason.BREAKER), "breaker open", "breaker open"),
        (CompactionReport(False, False, CompactionReason.SPEND), "spend backoff", "spend backoff"),
    ],
)
def test_how_a_drain_came_out(outcome: CompactionReport, stop: StopReason, ending: DrainEnding) -> None:
    assert drain_ending(replace(outcome, stop=stop)) == ending


STEPS = st.sampled_from(("request", "start", "done", "exhausted", "unfinished", "failed", "denied", "breaker open"))


@given(st.lists(STEPS, max_size=25))
def test_a_debt_is_cleared_only_by_a_drain_that_saw_the_last_request(steps: list[str]) -> None:
    debt, owes, started = CompactionDebt(7), False, 0
    seen = True
    for step in steps:
        before = debt.maintenance_revision
        match step:
            case "request":
                debt, owes, seen = request_sweep(debt, OVER, POLICY, NOW), True, False
            case "start":
                debt, seen = start_drain(debt, NOW), True
                started = debt.maintenance_revision
            case "done" | "exhausted" as ending:
                owes = owes and not (seen and debt.maintenance_revision == started)
                debt = finish_drain(debt, ending, NOW, started_revision=started)
            case "unfinished" | "failed" | "denied" | "breaker open" as ending:
                debt = finish_drain(debt, ending, NOW, started_revision=started)
        assert debt.maintenance_revision == before + 1
        assert debt.pending is owes
        assert debt.requested_at is not None or not owes
