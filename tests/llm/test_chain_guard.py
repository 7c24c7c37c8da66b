"""Breaker, spend limit and pauses, on a clock that only the test moves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from lossless import errors
from lossless.compaction.summariser import (
    BREAKER_OPEN_TEXT,
    CLOSED_BREAKER,
    SPEND_GUARD,
    BreakerState,
    GuardLimits,
    backoff_entry,
    breaker_after_failure,
    breaker_allows,
    breaker_key,
    breaker_needs_notice,
    breaker_refusal,
    compaction_scope,
    entries_since,
    reserve_call,
    reset_entry,
    spend_state,
)
from lossless.llm.chain import BREAKER_GUARD

if TYPE_CHECKING:
    from lossless.store.state import LedgerRow

CallResult: TypeAlias = Literal["reserved", "done", "failed", "auth"]
START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
KEY = breaker_key("anthropic", "claude")


def failed(times: int) -> BreakerState:
    state = CLOSED_BREAKER
    for _ in range(times):
        state = breaker_after_failure(state, START, GuardLimits())
    return state


def test_names_of_breakers_and_scopes() -> None:
    assert KEY == "provider:anthropic;model:claude"
    assert compaction_scope("agent:main") == "compaction:agent:main"


def test_the_fifth_refusal_opens_the_breaker_for_half_an_hour() -> None:
    assert failed(4) == (4, None)
    _, open_until = failed(5)
    assert not breaker_allows(open_until, START, GuardLimits())
    assert not breaker_allows(open_until, START + 29 * MINUTE, GuardLimits())
    assert breaker_allows(open_until, START + 30 * MINUTE, GuardLimits())


def test_people_are_told_half_way_and_at_the_opening() -> None:
    told = [breaker_needs_notice(failed(times), GuardLimits()) for times in range(7)]
    assert told == [False, False, False, True, False, True, True]


def test_one_refusal_after_the_pause_opens_it_again() -> None:
    later = START + 31 * MINUTE
    _, open_until = breaker_after_failure(failed(5), later, GuardLimits())
    assert not breaker_allows(open_until, later + 29 * MINUTE, GuardLimits())


def test_a_refusal_names_the_breaker_and_its_end() -> None:
    error = breaker_refusal(KEY, failed(5)[1])
    assert (error.guard, error.until) == (BREAKER_GUARD, "2026-03-01T12:30:00.000Z")
    assert KEY in str(error)
    assert BREAKER_OPEN_TEXT in str(error)


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 8))
def test_a_breaker_is_open_exactly_after_that_many_refusals_in_a_row(story: list[bool], threshold: int) -> None:
    limits, state, row = GuardLimits(threshold), CLOSED_BREAKER, 0
    for succeeded in story:
        row = 0 if succeeded else row + 1
        state = CLOSED_BREAKER if succeeded else breaker_after_failure(state, START, limits)
    assert breaker_allows(state[1], START, GuardLimits()) is (row < threshold)


@dataclass
class Ledger:
    """Rows and a clock."""

    limits: GuardLimits = field(default_factory=GuardLimits)
    now: datetime = START
    rows: list[LedgerRow] = field(default_factory=list)
    scope: str = "compaction:a"

    def call(self, result: CallResult | None = "done") -> bool:
        """Ask for a slot, call, settle; None dies before settling. Tells whether there was leave."""
        entry, refusal = reserve_call(self.scope, self.rows, self.now, self.limits)
        if entry is not None:
            is_settled = refusal is None and result is not None
            self.rows.append(replace(entry, result=result, until=None) if is_settled and result else entry)
        return refusal is None

    def calls(self, count: int, result: CallResult | None = "done") -> int:
        return sum(self.call(result) for _ in range(count))


def test_the_twenty_fifth_call_in_ten_minutes_is_refused() -> None:
    ledger = Ledger()
    assert ledger.calls(24) == 24
    entry, refusal = reserve_call(ledger.scope, ledger.rows, ledger.now, ledger.limits)
    assert isinstance(refusal, errors.GuardOpen)
    assert (refusal.guard, refusal.until) == (SPEND_GUARD, "2026-03-01T12:30:00.000Z")
    assert entry is not None


def test_after_the_refusal_the_scope_rests_for_half_an_hour() -> None:
    ledger = Ledger()
    ledger.calls(25)
    ledger.now += 29 * MINUTE
    assert not ledger.call()
    ledger.now += MINUTE
    assert ledger.calls(25) == 24
    assert sum(row.kind == "backoff" for row in ledger.rows) == 2


def test_a_new_window_begins_after_ten_minutes() -> None:
    ledger = Ledger()
    assert ledger.calls(24) == 24
    ledger.now += 10 * MINUTE
    assert ledger.calls(24) == 24


def test_a_window_is_fixed_by_its_first_call() -> None:
    ledger = Ledger()
    ledger.call()
    ledger.now += 9 * MINUTE
    assert ledger.calls(23) == 23
    ledger.now += 2 * MINUTE
    assert ledger.calls(24) == 24


def test_refused_credentials_do_not_count_but_failures_and_deaths_do() -> None:
    ledger = Ledger()
    assert ledger.calls(50, "auth") == 50
    assert ledger.calls(10, "failed") + ledger.calls(10, None) + ledger.calls(10) == 24


def test_another_scope_has_its_own_limit() -> None:
    ledger = Ledger()
    ledger.calls(25)
    ledger.scope = "compaction:b"
    assert ledger.call()


def test_a_person_s_reset_ends_the_rest_and_begins_a_new_window() -> None:
    ledger = Ledger()
    ledger.calls(25)
    ledger.rows.append(reset_entry(ledger.scope, ledger.now))
    assert ledger.calls(25) == 24


def test_a_sweep_that_got_nowhere_makes_its_scope_rest() -> None:
    ledger = Ledger()
    ledger.rows.append(backoff_entry(ledger.scope, ledger.now, ledger.limits))
    assert not ledger.call()
    assert spend_state(ledger.scope, ledger.rows, ledger.now, ledger.limits)[2] == START + 30 * MINUTE
    assert len(ledger.rows) == 1


def test_a_slot_runs_out() -> None:
    entry, refusal = reserve_call("compaction:a", [], START, GuardLimits())
    assert refusal is None
    assert entry is not None
    assert entry.until == START + 5 * MINUTE


STORY = st.lists(
    st.tuples(st.sampled_from(["done", "failed", "auth", None]), st.integers(0, 240)), min_size=1, max_size=120
)


@given(STORY)
def test_no_window_ever_holds_more_calls_than_the_limit(story: list[tuple[CallResult | None, int]]) -> None:
    ledger = Ledger(GuardLimits(max_calls=5))
    for result, seconds in story:
        ledger.now += timedelta(seconds=seconds)
        ledger.call(result)
    windows: dict[datetime | None, int] = {}
    for row in ledger.rows:
        if row.kind == "call" and row.result != "auth":
            windows[row.window_at] = windows.get(row.window_at, 0) + 1
            assert row.window_at is not None
            assert row.at - row.window_at < ledger.limits.window
    assert all(calls <= 5 for calls in windows.values())


@given(STORY)
def test_old_rows_change_no_decision(story: list[tuple[CallResult | None, int]]) -> None:
    ledger = Ledger(GuardLimits(max_calls=3))
    for result, seconds in story:
        ledger.now += timedelta(seconds=seconds)
        since = entries_since(ledger.now, ledger.limits)
        recent = [row for row in ledger.rows if row.at >= since]
        whole = spend_state(ledger.scope, ledger.rows, ledger.now, ledger.limits)
        assert spend_state(ledger.scope, recent, ledger.now, ledger.limits) == whole
        ledger.call(result)


YEARS = timedelta(days=3652)
_CLOCKS = st.tuples(st.sampled_from([YEARS, -YEARS, timedelta(0)]), st.integers(0, 20))


@given(st.lists(st.tuples(_CLOCKS, st.sampled_from(["call", "fail", "reset"])), max_size=60))
def test_a_clock_that_jumps_years_and_back_locks_nobody_out(story: list[tuple[tuple[timedelta, int], str]]) -> None:
    """After it all, on a clock that is right again, the longest pause is as long as the limits say, and they hold."""
    spend = breaker = GuardLimits(threshold=2, max_calls=3)
    time = START
    entries: list[LedgerRow] = []
    state = CLOSED_BREAKER
    for (jump, minutes), what in story:
        time += minutes * MINUTE
        now = time + jump
        if what == "reset":
            entries.append(reset_entry("s", now))
        elif what == "fail":
            state = breaker_after_failure(state, now, breaker)
        else:
            entry, _ = reserve_call("s", entries, now, spend)
            entries += [entry] if entry is not None else []
    later = time + max(spend.backoff, breaker.cooldown)
    assert breaker_allows(state[1], later, breaker)
    steady = [entry for entry in entries if entry.at >= entries_since(later, spend)]
    answers = []
    for _ in range(spend.max_calls + 1):
        entry, refusal = reserve_call("s", steady, later, spend)
        steady += [entry] if entry is not None else []
        answers.append(refusal is None)
    assert answers[0]
    assert not answers[-1]


def test_a_breaker_and_a_back_off_of_the_future_are_over_when_the_clock_is_right_again() -> None:
    _, open_until = breaker_after_failure((9, None), START + YEARS, GuardLimits())
    assert not breaker_allows(open_until, START + YEARS, GuardLimits())
    assert breaker_allows(open_until, START, GuardLimits())
    entries = [backoff_entry("s", START + YEARS, GuardLimits())]
    assert reserve_call("s", entries, START + YEARS, GuardLimits())[1] is not None
    assert reserve_call("s", entries, START, GuardLimits())[1] is None
