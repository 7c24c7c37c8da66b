"""Killed in the middle, two at a time, overtaken: nothing acknowledged is lost, nothing is covered twice."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lossless.testing import Scripted, VirtualClock, hang
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
from tests.compaction.sweeper import Hanging, Slow, run_pay, run_talk
from tests.forking import Fork
from tests.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lossless import Engine

KILLS = 4


def _lines(process: Fork, count: int) -> list[str]:
    return [process.stdout.readline().strip() for _ in range(count)]


def _later() -> VirtualClock:
    """A clock that is past the lease of whoever died just now."""
    return VirtualClock(datetime.now(UTC) + timedelta(minutes=10))


@pytest.mark.parametrize("seed", range(KILLS))
def test_killed_in_the_middle_of_a_sweep(tmp_path: Path, seed: int) -> None:
    path, roll = tmp_path / "lcm.db", random.Random(seed)
    process = Fork(lambda: run_talk(path, 60))
    acknowledged = int(_lines(process, roll.randint(12, 24))[-1])
    time.sleep(roll.uniform(0, 0.05))
    process.kill()
    acknowledged = max([acknowledged, *map(int, process.communicate()[0].split())])
    with open_engine(path, Scripted(), _later()) as engine:
        stored = one(engine, "SELECT count(*) FROM messages")
        assert stored >= acknowledged
        check(engine, talk(stored))
        engine.after_turn(SESSION, new_messages=talk(SOFT, first=stored), budget=BUDGET)
        engine.admin.run_pending()
        engine.compact(SESSION, budget=BUDGET)
        assert not debt(engine)["pending"]
        assert rows(engine, "SELECT * FROM leases") == []
        check(engine, talk(stored + SOFT))
        assert engine.compact(SESSION, budget=BUDGET).reason == "below threshold"


def test_two_workers_share_a_conversation(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    with open_engine(path) as engine:
        engine.after_turn(SESSION, new_messages=talk(SOFT), budget=BUDGET)
    workers = [Fork(lambda: run_pay(path, Slow())) for _ in range(2)]
    assert [_lines(worker, 1) for worker in workers] == [["ready"]] * 2
    ends = [worker.communicate()[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0]
    calls = [int(end.split()[-1]) for end in ends]
    with open_engine(path) as engine:
        check(engine, talk(SOFT))
        leaves = one(engine, "SELECT count(*) FROM summaries WHERE depth = 0")
        covered = one(engine, "SELECT count(DISTINCT message_id) FROM summary_messages")
        assert leaves > 3
        assert one(engine, "SELECT count(*) FROM summary_messages") == covered, "no message below two leaves"
        assert sum(calls) == one(engine, "SELECT count(*) FROM spend_ledger WHERE kind = 'call'")
        assert sum(calls) == len(summaries(engine)), "nobody wrote what another one wrote"
        assert not debt(engine)["pending"]


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "on another machine"])
def test_a_worker_that_dies_holds_a_conversation_only_for_a_while(tmp_path: Path, elsewhere: bool) -> None:
    path = tmp_path / "lcm.db"
    with open_engine(path) as engine:
        engine.after_turn(SESSION, new_messages=talk(SOFT + 6), budget=BUDGET)
    worker = Fork(lambda: run_pay(path, Hanging()))
    assert _lines(worker, 2) == ["ready", "asked"]
    with open_engine(path) as engine:
        assert rows(engine, "SELECT * FROM leases")
        worker.kill()
        worker.communicate()
        assert rows(engine, "SELECT * FROM leases")
        assert debt(engine)["running"]
        if elsewhere:  # nobody can see from here that it is dead
            engine.archive.database.run("UPDATE leases SET owner = 'abcdef012345:' || substr(owner, 14)")
            engine.admin.run_pending()
            assert debt(engine)["pending"], "the lease still holds"
    with open_engine(path, clock=_later() if elsewhere else None) as engine:
        engine.admin.run_pending()
        owed = debt(engine)
        assert (owed["pending"], owed["running"]) == (False, False)
        check(engine, talk(SOFT + 6))


# --- overtaken ---------------------------------------------------------------------------------------


def _with_visitor(path: Path, visit: Callable[[int], None], clock: VirtualClock) -> Engine:
    """An engine whose model lets somebody else work on the archive while it writes."""
    calls: list[int] = []

    def answer(_: object) -> str:
        calls.append(len(calls))
        visit(calls[-1])
        return "They spoke of ferries and of tides."

    return open_engine(path, answer, clock)


def test_appends_while_a_summary_is_written_do_not_disturb_it(tmp_path: Path) -> None:
    path, clock = tmp_path / "lcm.db", VirtualClock()

    def visit(call: int) -> None:
        with open_engine(path, clock=clock) as other:
            other.append(SESSION, talk(2, first=SOFT + 2 * call))

    with _with_visitor(path, visit, clock) as engine:
        engine.append(SESSION, talk(SOFT))
        report = engine.compact(SESSION, budget=BUDGET, force=True)
        assert report.ok
        assert len(report.summary_ids) == report.calls
        check(engine, talk(SOFT + 2 * report.calls))


def test_a_summary_of_what_was_rewound_is_dropped(tmp_path: Path) -> None:
    path, clock, window = tmp_path / "lcm.db", VirtualClock(), talk(SOFT)
    branch = [*window[:3], {"role": "assistant", "content": "something else altogether"}]

    def visit(call: int) -> None:
        if call == 0:
            with open_engine(path, clock=clock) as other:
                assert other.sync(SESSION, branch).abandoned > 0

    with _with_visitor(path, visit, clock) as engine:
        engine.sync(SESSION, window)
        report = engine.compact(SESSION, budget=BUDGET, force=True)
        assert report.calls >= 1
        texts = {row[0] for row in rows(engine, "SELECT cause FROM hidden_items")}
        assert texts == {"branch"}
        shown = [m["content"] for m in engine.assemble(SESSION, budget=BUDGET, allow_trailing_assistant=True).messages]
        assert shown[-4:] == [message["content"] for message in branch]
        check(engine, [*window, branch[-1]])


def test_a_run_that_only_moved_is_folded_at_its_new_place(tmp_path: Path) -> None:
    """A new system prompt before it shifts every ordinal of a context."""
    path, clock, window = tmp_path / "lcm.db", VirtualClock(), talk(SOFT)
    prompts = [{"role": "system", "content": f"rule {n}"} for n in range(3)]

    def visit(call: int) -> None:
        if call == 0:
            with open_engine(path, clock=clock) as other:
                other.sync(SESSION, [*prompts, *window])

    with _with_visitor(path, visit, clock) as engine:
        engine.sync(SESSION, window)
        report = engine.compact(SESSION, budget=BUDGET, force=True)
        assert report.calls == len(report.summary_ids) > 1
        assert engine.assemble(SESSION, budget=BUDGET).messages[:3] == prompts
        assert engine.verify().problems == ()


def test_a_worker_that_was_taken_for_dead_stops(tmp_path: Path) -> None:
    """Its call took longer than any call may: by then another one has the lease, and has done the work."""
    path, clock = tmp_path / "lcm.db", VirtualClock()

    def visit(call: int) -> None:
        if call == 0:
            clock.advance(minutes=10)
            with open_engine(path, Scripted(), clock) as other:
                assert other.compact(SESSION, budget=BUDGET, force=True).compacted
                other.append(SESSION, talk(20, first=SOFT))
                other.archive.guards.take_lease(
                    f"compact:{conversation_id(other)}", "somebody", clock(), timedelta(minutes=5)
                )

    with _with_visitor(path, visit, clock) as engine:
        engine.append(SESSION, talk(SOFT))
        report = engine.compact(SESSION, budget=BUDGET, force=True)
        assert (report.calls, report.summary_ids, report.stop) == (1, (), "stale")
        assert one(engine, "SELECT owner FROM leases") == "somebody", "nor does it drop another one's lease"
        check(engine, talk(SOFT + 20))


def test_a_context_that_keeps_changing_is_given_up(tmp_path: Path) -> None:
    path, clock, window = tmp_path / "lcm.db", VirtualClock(), talk(SOFT)

    def visit(call: int) -> None:
        with open_engine(path, clock=clock) as other:
            other.new(SESSION, retain_depth=9)
            other.append(SESSION, talk(SOFT, first=SOFT * (call + 1)))

    with _with_visitor(path, visit, clock) as engine:
        engine.append(SESSION, window)
        report = engine.compact(SESSION, budget=BUDGET, force=True)
        assert (report.stop, report.calls, report.summary_ids) == ("stale", 3, ())
        assert engine.verify().problems == ()


def test_threads_of_one_engine_do_not_compact_twice(tmp_path: Path) -> None:
    model = Scripted(then=hang(600))
    with open_engine(tmp_path / "lcm.db", model) as engine:
        engine.append(SESSION, talk(SOFT))
        with ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(engine.compact, SESSION, budget=BUDGET, force=True) for _ in range(4)]
            wait_for(lambda: sum(future.done() for future in asked) == 3)
            model.release()
            reports = [future.result() for future in asked]
        assert sum(report.compacted for report in reports) == 1
        assert model.started == len(summaries(engine))
        check(engine, talk(SOFT))
