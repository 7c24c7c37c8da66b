"""`lcm compact`, `lcm worker` and `lcm debt`: folding now, and paying what was put off."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from tests.built import built
from tests.waiting import wait_for

from .conftest import sound, sql
from .loop import BUDGET, CHAT, LONG, OTHER, bytes_of, open_engine, owe

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lcm

NAMED = ("--session-key", LONG.key)


@pytest.fixture
def long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A long conversation; nothing is folded yet."""
    path = tmp_path / "lcm.db"
    monkeypatch.setenv("LCM_DATABASE_PATH", str(path))
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "8")
    monkeypatch.setenv("LCM_LEAF_CHUNK_TOKENS", "2000")
    return built(path, _build_long)


def _build_long(path: Path) -> None:
    with open_engine(path) as engine:
        engine.append(LONG, CHAT)


def script(path: Path, text: str) -> str:
    """A program that answers as a model; `command/…` names it."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return f"command/{path}"


# --- compact ---------------------------------------------------------------------------------------------------


def test_a_dry_run_says_what_a_run_does(lcm: Lcm, long: Path) -> None:
    before = bytes_of(long)
    planned = lcm("compact", *NAMED, "--budget", BUDGET, "--dry-run").data
    assert bytes_of(long) == before
    done = lcm("compact", *NAMED, "--budget", BUDGET).data
    assert planned["dryRun"] is True
    assert done["dryRun"] is False
    assert leaves(planned) == leaves(done)
    assert len(leaves(done)) > 3
    assert planned["tokensBefore"] == done["tokensBefore"]
    assert planned["tokensAfter"] < planned["tokensBefore"]
    assert done["compacted"] is True
    assert done["tokensAfter"] < done["tokensBefore"]
    assert len(done["summaryIds"]) == len(done["passes"])
    assert {item["model"] for item in done["passes"]} == {"lossless-extractive"}
    assert (done["calls"], done["reason"]) == (0, "compacted")
    with open_engine(long) as engine:
        assert engine.archive.context.tokens(1) == done["tokensAfter"]
        assert engine.verify().ok


def leaves(data: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The passes over messages: what they fold does not depend on the length of earlier summaries."""
    names = ("sources", "firstSource", "lastSource", "tokens")
    return [tuple(item[name] for name in names) for item in data["passes"] if item["depth"] == 0]


def test_a_second_run_finds_nothing(lcm: Lcm, long: Path) -> None:
    lcm("compact", *NAMED)
    again = lcm("compact", *NAMED).data
    assert (again["compacted"], again["reason"], again["passes"]) == (False, "nothing to compact", [])
    assert lcm("compact", *NAMED, "--dry-run").data["passes"] == []
    assert "Nothing would be folded" in lcm("compact", *NAMED, "--dry-run", "--format", "table").out
    assert "Nothing was folded: nothing to compact" in lcm("compact", *NAMED, "--format", "table").out


def test_until_goes_on_until_it_is_small_enough(lcm: Lcm, long: Path) -> None:
    planned = lcm("compact", *NAMED, "--until", 6_000, "--dry-run").data
    done = lcm("compact", *NAMED, "--until", 6_000).data
    assert 3_000 < done["tokensAfter"] <= 6_000
    assert len(planned["passes"]) == len(done["passes"])
    small = lcm("compact", *NAMED, "--until", 100_000)
    assert (small.data["compacted"], small.data["reason"]) == (False, "already under target")
    assert lcm("compact", *NAMED, "--until", 100_000, "--dry-run").data["passes"] == []


def test_a_target_that_cannot_be_reached_is_exit_code_1(lcm: Lcm, long: Path) -> None:
    answer = lcm("compact", *NAMED, "--until", 1)
    assert answer.code == 1
    assert answer.envelope["ok"] is False
    assert answer.envelope["data"]["reason"] == "could not reach target"
    assert answer.envelope["data"]["compacted"] is True


def test_if_needed_leaves_a_small_context_alone(lcm: Lcm, long: Path) -> None:
    small = lcm("compact", *NAMED, "--if-needed").data
    assert (small["compacted"], small["reason"]) == (False, "below threshold")
    assert small["tokensBefore"] == small["tokensAfter"] > 0
    assert lcm("compact", *NAMED, "--if-needed", "--budget", BUDGET).data["compacted"] is True


def test_a_model_writes_and_one_that_fails_is_replaced(
    lcm: Lcm, long: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LCM_SUMMARY_MODEL", script(tmp_path / "good", "cat >/dev/null; echo All of it, in few words."))
    good = lcm("compact", *NAMED, "--until", 11_000).data
    assert good["passes"][0]["model"] == "command/good"
    assert good["passes"][0]["failure"] is None
    assert good["calls"] == len(good["passes"])
    with open_engine(long) as engine:
        engine.append(OTHER, CHAT)
    monkeypatch.setenv("LCM_SUMMARY_MODEL", script(tmp_path / "bad", "exit 7"))
    bad = lcm("compact", "--session-key", OTHER.key).data
    assert {item["failure"] for item in bad["passes"]} == {"model"}
    assert {item["model"] for item in bad["passes"]} == {"lossless-extractive"}
    table = lcm("compact", "--session-key", LONG.key, "--format", "table").out
    assert "extracted (model)" in table


def test_people_see_what_was_folded(lcm: Lcm, long: Path) -> None:
    outs = [
        lcm("compact", *NAMED, "--format", "table", *more).out
        for more in (("--dry-run",), (), ("--until", 1), ("--if-needed",))
    ]
    assert "summaries would be written" in outs[0]
    assert "summaries written" in outs[1]
    assert "written" in outs[2]


def test_an_interrupt_keeps_what_is_folded(long: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = "cat >/dev/null; if [ -e once ]; then sleep 60; fi; touch once; echo All of it, in few words."
    monkeypatch.setenv("LCM_SUMMARY_MODEL", script(tmp_path / "slow", slow))
    command = [sys.executable, "-m", "lossless.cli.main", "compact", *map(str, NAMED)]
    said = tmp_path / "said"  # a file: a pipe would stay open as long as any child lives
    with open_engine(long) as engine, said.open("w") as file:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=file)
        wait_for(lambda: engine.archive.listings.counts().summaries >= 1)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert json.loads(said.read_text())["error"]["code"] == "interrupted"
        assert engine.archive.listings.counts().summaries == 1
        assert engine.verify().ok
        assert engine.compact(LONG, force=True).compacted


# --- debt and worker -------------------------------------------------------------------------------------------


def test_a_debt_is_listed_and_paid(lcm: Lcm, long: Path) -> None:
    assert lcm("debt").data == {"items": [], "due": 0}
    assert lcm("worker").data == {"items": [], "paid": 0}
    owe(long)
    before = bytes_of(long)
    listed = lcm("debt").data
    assert bytes_of(long) == before
    (item,) = listed["items"]
    assert listed["due"] == 1
    expected = {"conversationId": 1, "sessionKey": LONG.key, "active": True, "state": "due", "reason": "threshold"}
    assert item | expected == item
    assert item["tokenBudget"] == BUDGET
    assert (item["retryAttempts"], item["lastFailureSummary"], item["nextAttemptAfter"]) == (0, None, None)
    assert "1 agent:main:long  due" in lcm("debt", "--format", "table").out

    paid = lcm("worker").data
    assert paid["paid"] == 1
    (item,) = paid["items"]
    assert (item["conversationId"], item["isPaid"], item["compacted"]) == (1, True, True)
    assert item["tokensAfter"] <= BUDGET * 0.75
    assert lcm("debt").items == []


def test_summaries_are_prepared_where_that_is_wanted(
    lcm: Lcm, long: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_engine(long) as engine:
        turn = engine.after_turn(LONG, new_messages=[{"role": "user", "content": "go on"}], budget=2 * BUDGET)
        assert turn.outcome is not None
        assert not turn.outcome.owes  # it is above half of its threshold, and below it
    monkeypatch.setenv("LCM_SUMMARY_MODEL", script(tmp_path / "good", "cat > /dev/null; echo Ferries, $$."))
    assert lcm("worker").data == {"items": [], "paid": 0}
    monkeypatch.setenv("LCM_PREPARE_SUMMARIES", "true")
    assert lcm("worker", "--no-model").data == {"items": [], "paid": 0}
    done = lcm("worker").data
    assert (done["items"], done["prepared"]) == ([], sql(long, "SELECT count(*) FROM summaries")[0][0])
    assert done["prepared"] > 0
    assert sql(long, "SELECT count(*) FROM context_items WHERE summary_id IS NOT NULL") == [(0,)]
    assert lcm("worker").data == {"items": [], "paid": 0, "prepared": 0}
    sound(lcm)


def test_a_debt_that_cannot_be_paid_stays_with_its_reason(
    lcm: Lcm, long: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owe(long)
    monkeypatch.setenv("LCM_SUMMARY_MODEL", script(tmp_path / "bad", "exit 7"))
    (item,) = lcm("worker").data["items"]
    assert (item["isPaid"], item["compacted"], item["reason"]) == (False, False, "summary model failed")
    (waiting,) = lcm("debt").items
    assert (waiting["state"], waiting["lastFailureSummary"]) == ("waiting", "summary model failed")
    assert (waiting["retryAttempts"], waiting["nextAttemptAfter"]) == (1, item["nextAttemptAfter"])
    table = lcm("debt", "--format", "table").out
    assert "Last failure summary  summary model failed" in table
    assert lcm("worker", "--no-model").data == {"items": [], "paid": 0}
    assert "No compaction is due." in lcm("worker", "--format", "table").out


def test_without_a_model_none_is_asked(lcm: Lcm, long: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owe(long)
    monkeypatch.setenv("LCM_SUMMARY_MODEL", script(tmp_path / "never", f"touch {tmp_path}/asked"))
    out = lcm("worker", "--no-model", "--format", "table").out
    assert out.startswith("done 1 agent:main:long: ")
    assert not (tmp_path / "asked").exists()


def test_closed_and_running_conversations_are_told_apart(lcm: Lcm, long: Path) -> None:
    with open_engine(long) as engine:
        engine.append(OTHER, CHAT)
    owe(long)
    owe(long, OTHER)
    with open_engine(long) as engine:
        engine.reset(LONG)
        with engine.archive.writing():
            assert engine.archive.guards.take_lease("compact:2", "somebody", datetime.now(UTC), timedelta(hours=1))
    assert [(item["conversationId"], item["state"]) for item in lcm("debt").items] == [(1, "closed"), (2, "running")]
    assert [item["state"] for item in lcm("debt", "--session-key", OTHER.key).items] == ["running"]
    assert lcm("debt", "--conversation-id", 3).items == []
    assert lcm("worker").items == []


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_a_watch_pays_what_comes_and_ends_well(long: Path, ending: signal.Signals) -> None:
    command = [sys.executable, "-m", "lossless.cli.main", "worker", "--watch", "0.1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    owe(long)
    assert select.select([process.stdout], [], [], 60)[0], "no debt was paid"
    answer = json.loads(process.stdout.readline())
    assert (answer["command"], answer["data"]["paid"]) == ("worker", 1)
    process.send_signal(ending)
    rest, complaint = process.communicate(timeout=60)
    assert (process.returncode, rest, complaint) == (0, b"", b"")


@pytest.mark.parametrize(
    ("arguments", "code", "name"),
    [
        (("compact",), 2, "bad_arguments"),
        (("compact", *NAMED, "--until", 5, "--if-needed"), 2, "bad_arguments"),
        (("compact", *NAMED, "--until", 0), 2, "bad_arguments"),
        (("compact", "--session-key", "nobody"), 3, "not_found"),
        (("worker", "--watch", 0), 2, "bad_arguments"),
        (("worker", "--db", "nowhere.db"), 3, "not_found"),
        (("worker", "--watch", 1, "--db", "nowhere.db"), 3, "not_found"),
        (("debt", "--db", "nowhere.db"), 3, "not_found"),
        (("debt", "--db", "~nobodyhere/lcm.db"), 3, "not_found"),
        (("debt", "--session-key", "nobody"), 3, "not_found"),
    ],
)
def test_things_done_wrong(lcm: Lcm, long: Path, arguments: tuple[Any, ...], code: int, name: str) -> None:
    owe(long)
    answer = lcm(*arguments)
    assert (answer.code, answer.error["code"]) == (code, name)
    assert not os.path.exists("nowhere.db")


def test_a_closed_conversation_does_not_change(lcm: Lcm, long: Path) -> None:
    with open_engine(long) as engine:
        engine.reset(LONG)
    for command in (("compact",), ("new",), ("reset",), ("pin", "words"), ("unpin", 1)):
        answer = lcm(*command, "--conversation-id", 1)
        assert (answer.code, answer.error["code"]) == (2, "closed")


def test_a_session_that_is_not_kept_is_not_compacted(lcm: Lcm, long: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCM_IGNORE_SESSION_PATTERNS", "agent:**")
    done = lcm("compact", *NAMED).data
    assert (done["compacted"], done["reason"]) == (False, "session excluded")
    assert done["tokensBefore"] > 0


def test_several_debts_are_paid_at_once(lcm: Lcm, long: Path) -> None:
    sessions = [lossless.Session(key=f"agent:main:{n}") for n in range(3)]
    with open_engine(long) as engine:
        for session in sessions:
            engine.append(session, CHAT)
    ids = [owe(long, session) for session in sessions]
    assert [item["conversationId"] for item in lcm("debt").items] == ids
    assert lcm("worker").data["paid"] == 3
