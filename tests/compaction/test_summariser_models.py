"""Whatever a model does, the context is valid, no word is lost, and every summary is smaller than its sources."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossless.errors import ModelDenied
from lossless.model.context import EXTRACTIVE_MODEL
from lossless.testing import DIRECTIVES, Scripted, VirtualClock, hang
from tests.compaction.loop_kit import (
    BUDGET,
    HARD,
    SESSION,
    SOFT,
    changes,
    check,
    debt,
    one,
    open_engine,
    rows,
    summaries,
    talk,
)

if TYPE_CHECKING:
    from lossless import Engine
    from lossless.testing.scripted import Mode, ScriptLine

MODES: tuple[Mode, ...] = (
    "ok",
    "echo",
    "empty",
    "longer",
    "reasoning",
    "incomplete",
    "directives",
    "auth",
    "rate_limit",
    "timeout",
)
LINES = st.sampled_from(MODES) | st.builds(ModelDenied, st.just("not today")) | st.builds(ValueError, st.just("bug"))


@settings(max_examples=5)
@given(
    script=st.lists(LINES, min_size=1, max_size=12),
    then=st.sampled_from(MODES),
    steps=st.lists(st.sampled_from(("turn", "long turn", "drain", "compact", "later")), min_size=3, max_size=9),
    parallel=st.sampled_from((1, 1, 3)),
)
def test_any_mixture_of_failures(script: list[ScriptLine], then: ScriptLine, steps: list[str], parallel: int) -> None:
    clock, model = VirtualClock(), Scripted(*script, then=then)
    said = talk(30)
    with (
        tempfile.TemporaryDirectory() as folder,
        open_engine(Path(folder) / "lcm.db", model, clock, summary_parallelism=parallel) as engine,
    ):
        engine.after_turn(SESSION, new_messages=said, budget=BUDGET)
        for n, step in enumerate(steps):
            if step in ("turn", "long turn"):
                new = talk(2, seed=n, first=len(said), words=40 if step == "turn" else 300)
                engine.after_turn(SESSION, new_messages=new, budget=BUDGET)
                said += new
            elif step == "drain":
                engine.admin.run_pending()
            elif step == "compact":
                engine.compact(SESSION, budget=BUDGET, force=True)
            else:
                clock.advance(minutes=7)
            check(engine, said)
            assert engine.assemble(SESSION, budget=BUDGET).messages


@pytest.mark.parametrize("mode", MODES)
def test_each_failure_alone(tmp_path: Path, mode: Mode) -> None:
    said, model = talk(30), Scripted(then=mode)
    with open_engine(tmp_path / "lcm.db", model, VirtualClock()) as engine:
        engine.append(SESSION, said)
        report = engine.compact(SESSION, budget=BUDGET, force=True)
        check(engine, said)
        assert report.calls == model.started == one(engine, "SELECT count(*) FROM spend_ledger WHERE kind = 'call'")
        writers = {writer for *_, writer in summaries(engine)}
        if mode == "auth":
            assert (report.ok, report.reason, writers) == (False, "provider auth failure", set())
        else:
            written = {"ok", "incomplete", "directives"}
            assert writers == ({"scripted"} if mode in written else {EXTRACTIVE_MODEL})
            assert report.tokens_after < report.tokens_before


def test_a_summary_never_carries_the_orders_of_a_model(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db", Scripted(then="directives")) as engine:
        engine.append(SESSION, talk(30))
        made = engine.compact(SESSION, budget=BUDGET, force=True).summary_ids
        prompt = "\n".join(m["content"] for m in engine.assemble(SESSION, budget=BUDGET).messages)
    assert "IGNORE ALL PREVIOUS" in DIRECTIVES
    assert "IGNORE ALL PREVIOUS" not in prompt
    assert "<system>" not in prompt
    assert 0 < prompt.count("<summary id=") == prompt.count("</summary>") <= len(made), "its markup is only words"


def test_refused_credentials_keep_what_was_written_before_and_write_nothing_else(tmp_path: Path) -> None:
    said, clock = talk(SOFT + 6), VirtualClock()
    with open_engine(tmp_path / "lcm.db", Scripted("ok", then="auth"), clock) as engine:
        engine.after_turn(SESSION, new_messages=said, budget=BUDGET)
        before = _knowledge(engine)
        (paid,) = engine.admin.run_pending()
        report = paid[1]
        assert report is not None
        assert (report.reason, report.compacted) == ("provider auth failure after partial compaction", True)
        assert len(summaries(engine)) == len(report.summary_ids) == 1
        check(engine, said)
        left = _knowledge(engine)
        assert left != before
        engine.admin.run_pending()
        assert _knowledge(engine) == left, "nothing is written on an authentication failure"
        owed = debt(engine)
        assert (owed["pending"], owed["running"]) == (True, False)
        assert owed["last_failure_summary"] == "provider auth failure"


def _knowledge(engine: Engine) -> list[list[tuple[object, ...]]]:
    """Everything about what was said; not the books of calls and debts."""
    tables = ("summaries", "summary_messages", "summary_parents", "context_items", "context_log", "stubborn_chunks")
    return [rows(engine, f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        pytest.param("rate_limit", "summary model failed", id="rate limit"),
        pytest.param("empty", "summary model failed", id="an answer without words"),
        pytest.param(ModelDenied("the host says no"), "summary model denied", id="denied"),
        pytest.param(PermissionError("policy: model use denied"), "summary model", id="the host's own error"),
    ],
)
def test_a_failing_model_leaves_the_debt_pending_with_its_reason(tmp_path: Path, line: ScriptLine, reason: str) -> None:
    said, model = talk(SOFT), Scripted(then=line)
    with open_engine(tmp_path / "lcm.db", model, VirtualClock()) as engine:
        engine.after_turn(SESSION, new_messages=said, budget=BUDGET)
        engine.admin.run_pending()
        owed = debt(engine)
        assert owed["pending"]
        assert str(owed["last_failure_summary"]).startswith(reason)
        assert summaries(engine) == [], "a drain waits for its model; only a turn at its limit does without"
        check(engine, said)


def test_a_denial_is_final_and_no_other_model_is_asked(tmp_path: Path) -> None:
    """The host's model goes alone: a configured one is not asked behind its back."""
    model = Scripted(then=ModelDenied("not for summaries"))
    with open_engine(tmp_path / "lcm.db", model, summary_model="openai/gpt-x") as engine:
        engine.after_turn(SESSION, new_messages=talk(SOFT), budget=BUDGET)
        engine.admin.run_pending()
        assert model.started == 1
        assert {row[0] for row in rows(engine, "SELECT model FROM spend_ledger WHERE kind = 'call'")} == {"host/model"}
        assert summaries(engine) == []


def test_a_model_that_hangs_is_cut_off(tmp_path: Path) -> None:
    said, model = talk(SOFT), Scripted(then=hang(600))
    with open_engine(tmp_path / "lcm.db", model, summary_timeout_ms=150) as engine:
        engine.after_turn(SESSION, new_messages=said, budget=BUDGET)
        engine.admin.run_pending()
        assert debt(engine)["last_failure_summary"] == "summary model failed"
        assert rows(engine, "SELECT result FROM spend_ledger WHERE kind = 'call'") == [("failed",)]
        engine.compact(SESSION, budget=BUDGET, force=True)
        assert {writer for *_, writer in summaries(engine)} == {EXTRACTIVE_MODEL}
        check(engine, said)
        assert model.calls == ()
        written = changes(engine)
        model.release()
        assert changes(engine) == written, "an answer that comes too late changes nothing"


def test_side_by_side_what_was_written_beside_a_failure_is_kept(tmp_path: Path) -> None:
    said = talk(SOFT)
    model = Scripted("ok", "auth", "ok", then="auth")
    with open_engine(tmp_path / "lcm.db", model, VirtualClock(), summary_parallelism=3) as engine:
        engine.after_turn(SESSION, new_messages=said, budget=BUDGET)
        engine.admin.run_pending()
        assert [writer for *_, writer in summaries(engine)] == ["scripted", "scripted"]
        assert all("without the context before it" in text for (text,) in rows(engine, "SELECT content FROM summaries"))
        check(engine, said)


@pytest.mark.parametrize("failure", ["timeout", "rate_limit", RuntimeError("connect ECONNREFUSED"), ModelDenied("no")])
def test_a_model_that_fails_is_asked_once_a_compaction_and_the_rest_is_extracted(
    tmp_path: Path, failure: ScriptLine
) -> None:
    model, said = Scripted(then=failure), talk(HARD)
    with open_engine(tmp_path / "lcm.db", model) as engine:
        engine.append(SESSION, said)
        report = engine.compact(SESSION, budget=BUDGET, force=True)
        assert (model.started, report.calls) == (1, 1)
        assert report.compacted
        assert len(report.summary_ids) > 1
        assert str(report.failure).startswith("model")
        check(engine, said)


def test_a_model_that_writes_nothing_is_asked_for_the_next_summary_all_the_same(tmp_path: Path) -> None:
    model = Scripted("empty", "empty")
    with open_engine(tmp_path / "lcm.db", model) as engine:
        engine.append(SESSION, talk(HARD))
        report = engine.compact(SESSION, budget=BUDGET, force=True)
        assert report.calls > 2
        assert report.failure is None
