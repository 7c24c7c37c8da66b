"""Breaker and spend limit: rows that stop calls, in every process and after every restart."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.model.times import state_time
from lossless.testing import Scripted, VirtualClock
from tests.compaction.loop_kit import (
    BUDGET,
    SESSION,
    SOFT,
    check,
    conversation_id,
    debt,
    one,
    open_engine,
    rows,
    summaries,
    talk,
)

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.testing.scripted import Mode

#: Chunks of one message each, so that a sweep wants many calls.
MANY: dict[str, Any] = {
    "leaf_chunk_tokens": 80,
    "max_sweep_iterations": 100,
    "leaf_min_fanout": 50,
    "condensed_min_fanout_hard": 50,
}


def _refusals(path: Path, clock: VirtualClock, times: int, then: Mode = "auth") -> int:
    """Try to pay the debt `times` times, each in a new engine; returns the calls that were made."""
    made = 0
    for _ in range(times):
        model = Scripted(then=then)
        with open_engine(path, model, clock) as engine:
            engine.admin.run_pending()
        made += model.started
    return made


def test_five_refusals_open_the_breaker_and_a_restart_does_not_close_it(tmp_path: Path) -> None:
    path, clock, said = tmp_path / "lcm.db", VirtualClock(), talk(SOFT)
    with open_engine(path, Scripted(), clock) as engine:
        engine.after_turn(SESSION, new_messages=said, budget=BUDGET)
    assert _refusals(path, clock, 4) == 4
    assert _refusals(path, clock, 6) == 1, "the fifth opens it, and nobody is asked again"
    with open_engine(path, Scripted(), clock) as engine:
        assert rows(engine, "SELECT breaker_key, failures FROM breakers") == [("provider:host;model:model", 5)]
        owed = debt(engine)
        assert (owed["pending"], owed["last_failure_summary"]) == (True, "circuit breaker open")
        assert owed["next_attempt_after"] == clock() + timedelta(minutes=30)
        check(engine, said)
    clock.advance(minutes=29)
    assert _refusals(path, clock, 1) == 0
    clock.advance(minutes=2)
    assert _refusals(path, clock, 3) == 1, "one probe, and it opens again"
    clock.advance(minutes=31)
    assert _refusals(path, clock, 1, "ok") > 1, "a success closes it"
    with open_engine(path, Scripted(), clock) as engine:
        assert rows(engine, "SELECT failures, open_until FROM breakers") == [(0, None)]
        assert not debt(engine)["pending"]
        check(engine, said)


def test_a_person_hears_half_way_to_the_opening_and_when_it_opens(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, clock = tmp_path / "lcm.db", VirtualClock()
    with open_engine(path, Scripted(), clock) as engine:
        engine.after_turn(SESSION, new_messages=talk(SOFT), budget=BUDGET)
    with caplog.at_level("WARNING", "lossless.compaction"):
        _refusals(path, clock, 8)
    told = [record.getMessage() for record in caplog.records if record.name == "lossless.compaction"]
    until = state_time(clock() + timedelta(minutes=30))
    assert told == [
        "host/model refused its credentials 3 times in a row",
        f"host/model refused its credentials 5 times in a row, it rests until {until}",
    ]


def test_successes_between_refusals_keep_the_breaker_closed(tmp_path: Path) -> None:
    path, clock = tmp_path / "lcm.db", VirtualClock()
    with open_engine(path, Scripted(), clock) as engine:
        engine.after_turn(SESSION, new_messages=talk(SOFT), budget=BUDGET)
    assert _refusals(path, clock, 4) == 4
    with open_engine(path, Scripted("ok", then="auth"), clock) as engine:
        engine.admin.run_pending()
        assert one(engine, "SELECT failures FROM breakers") == 1
        assert one(engine, "SELECT open_until FROM breakers") is None


@pytest.fixture
def spent(tmp_path: Path) -> tuple[Path, VirtualClock]:
    """An archive whose first drain made all the calls that a window allows."""
    path, clock, model = tmp_path / "lcm.db", VirtualClock(), Scripted()
    with open_engine(path, model, clock, **MANY) as engine:
        engine.after_turn(SESSION, new_messages=talk(SOFT), budget=BUDGET)
        engine.admin.run_pending()
        assert model.started == 24, "the 25th is refused"
        assert rows(engine, "SELECT kind, result, count(*) FROM spend_ledger GROUP BY 1, 2 ORDER BY 1") == [
            ("backoff", "reserved", 1),
            ("call", "done", 24),
        ]
        owed = debt(engine)
        assert (owed["pending"], owed["last_failure_summary"]) == (True, "summary spend backoff open")
        check(engine, talk(SOFT))
    return path, clock


def test_the_25th_call_of_a_window_is_refused_for_half_an_hour(spent: tuple[Path, VirtualClock]) -> None:
    path, clock = spent
    for minutes in (0, 11, 18):
        clock.advance(minutes=minutes)
        model = Scripted()
        with open_engine(path, model, clock, **MANY) as engine:
            engine.admin.run_pending()
            engine.maintain(SESSION, budget=BUDGET, allow=True)
            assert model.started == 0, f"after {minutes} minutes more"
    clock.advance(minutes=2)
    model = Scripted()
    with open_engine(path, model, clock, **MANY) as engine:
        engine.after_turn(SESSION, new_messages=talk(8, first=SOFT), budget=BUDGET)
        engine.admin.run_pending()
        assert 0 < model.started <= 24


def test_a_manual_compaction_lifts_the_limit_once(spent: tuple[Path, VirtualClock]) -> None:
    path, clock = spent
    model = Scripted()
    with open_engine(path, model, clock, **MANY) as engine:
        engine.append(SESSION, talk(40, first=SOFT))
        engine.compact(SESSION, budget=BUDGET, force=True)
        assert model.started == 24
        assert one(engine, "SELECT count(*) FROM spend_ledger WHERE kind = 'reset'") == 1
        assert {writer for *_, writer in summaries(engine)} == {"scripted", "lossless-extractive"}
        engine.append(SESSION, talk(40, first=SOFT + 40))
        engine.after_turn(SESSION, new_messages=talk(2, first=SOFT + 80), budget=10 * BUDGET)
        engine.compact(SESSION, budget=BUDGET)
        assert model.started == 24, "a host that only asks whether it is time does not lift it"
        check(engine, talk(SOFT + 82))


def test_refused_credentials_do_not_use_up_the_window(tmp_path: Path) -> None:
    path, clock = tmp_path / "lcm.db", VirtualClock()
    with open_engine(path, Scripted(), clock) as engine:
        engine.after_turn(SESSION, new_messages=talk(SOFT), budget=BUDGET)
    _refusals(path, clock, 4)
    model = Scripted()
    with open_engine(path, model, clock, **MANY) as engine:
        engine.admin.run_pending()
        assert model.started == 24


def test_a_call_whose_process_died_counts(tmp_path: Path) -> None:
    """A slot is a row before the call: money may be gone although nobody came back to say so."""
    path, clock, model = tmp_path / "lcm.db", VirtualClock(), Scripted()
    with open_engine(path, model, clock, **MANY) as engine:
        engine.after_turn(SESSION, new_messages=talk(SOFT), budget=BUDGET)
        gate = engine.loop.summariser.gate(engine.archive, conversation_id(engine), clock)
        for _ in range(20):
            gate.enter(engine.loop.summariser.candidates()[0])
        engine.admin.run_pending()
        assert model.started == 4


def test_two_conversations_have_windows_of_their_own(tmp_path: Path) -> None:
    path, clock, model = tmp_path / "lcm.db", VirtualClock(), Scripted()
    with open_engine(path, model, clock, **MANY) as engine:
        for name in ("a", "b"):
            engine.after_turn(lossless.Session(key=name), new_messages=talk(SOFT), budget=BUDGET)
        engine.admin.run_pending()
        assert model.started == 48
