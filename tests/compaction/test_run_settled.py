"""What is done is done: a second sweep asks nobody and writes nothing. And what a compaction says of itself."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lossless
from bench.agent_conversation import agent_conversation
from lossless.model.context import framed_tokens
from lossless.testing import Scripted, VirtualClock, say
from tests.compaction.loop_kit import (
    BUDGET,
    HARD,
    SESSION,
    SOFT,
    changes,
    check,
    conversation_id,
    open_engine,
    rows,
    summaries,
    talk,
)

if TYPE_CHECKING:
    from lossless.testing.scripted import Mode

#: Messages that no summary can make shorter, and messages without a word.
SHORT = [{"role": role, "content": word} for word in ("ok", "yes", "go", "no") for role in ("user", "assistant")]
BLANK = [{"role": "assistant", "content": " "}, {"role": "user", "content": "\n"}]


@given(
    pieces=st.lists(st.sampled_from(("talk", "short", "blank", "long")), min_size=1, max_size=8),
    mode=st.sampled_from(("ok", "echo", "longer", "empty", "reasoning", "none")),
    tail=st.sampled_from((1, 4, 9)),
)
def test_a_second_sweep_over_unchanged_history_does_nothing(pieces: list[str], mode: str, tail: int) -> None:
    said: list[dict[str, Any]] = []
    for n, piece in enumerate(pieces):
        made = {"short": SHORT, "blank": BLANK, "talk": talk(12, seed=n), "long": talk(2, seed=n, words=900)}
        said += made[piece]
    model = None if mode == "none" else Scripted(then=mode)  # type: ignore[arg-type]
    with (
        tempfile.TemporaryDirectory() as folder,
        open_engine(Path(folder) / "lcm.db", model, VirtualClock(), fresh_tail_count=tail) as engine,
    ):
        engine.append(SESSION, said)
        before = -1
        while changes(engine) != before:
            before = changes(engine)
            engine.compact(SESSION, budget=BUDGET, force=True)
            engine.compact(SESSION, budget=BUDGET, until=10)
        calls = 0 if model is None else model.started
        again = engine.compact(SESSION, budget=BUDGET, force=True)
        engine.compact(SESSION, budget=BUDGET, until=10)
        assert changes(engine) == before, "not a row, not even a lease"
        assert (again.calls, 0 if model is None else model.started) == (0, calls)
        check(engine, said)


def test_an_agents_history_settles_too(tmp_path: Path) -> None:
    said = list(agent_conversation(160, unicode=True))
    with open_engine(tmp_path / "lcm.db", leaf_chunk_tokens=4_000) as engine:
        engine.append(SESSION, said)
        while engine.compact(SESSION, budget=20_000, force=True).compacted:
            pass
        before = changes(engine)
        assert engine.compact(SESSION, budget=20_000, force=True).reason == "nothing to compact"
        assert changes(engine) == before
        assert engine.verify().problems == ()


def test_a_chunk_that_cannot_shrink_is_joined_with_the_next_one(tmp_path: Path) -> None:
    model = Scripted()
    with open_engine(tmp_path / "lcm.db", model, leaf_chunk_tokens=8) as engine:
        engine.append(SESSION, SHORT)
        engine.compact(SESSION, budget=BUDGET, force=True)
        calls, known = model.started, len(rows(engine, "SELECT chunk FROM stubborn_chunks"))
        assert (summaries(engine), known > 0) == ([], True)
        engine.compact(SESSION, budget=BUDGET, force=True)
        assert model.started == calls
        engine.append(SESSION, talk(10))
        engine.compact(SESSION, budget=BUDGET, force=True)
        first = summaries(engine)[0][0]
        assert len(engine.archive.summaries.message_ids(first)) > 1, "one leaf over what was left and the next"
        check(engine, SHORT + talk(10))


def test_a_history_without_words_costs_nothing(tmp_path: Path) -> None:
    model = Scripted()
    with open_engine(tmp_path / "lcm.db", model) as engine:
        engine.append(SESSION, BLANK * 20)
        engine.compact(SESSION, budget=BUDGET, force=True)
        assert (model.started, summaries(engine)) == (0, [])


# --- what is asked for ---------------------------------------------------------------------------------


def test_below_the_threshold_nothing_happens_unless_it_is_forced(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db", Scripted()) as engine:
        assert engine.compact(SESSION).reason == "no conversation found for session"
        engine.append(SESSION, talk(20))
        before = changes(engine)
        assert engine.compact(SESSION, budget=BUDGET).reason == "below threshold"
        assert changes(engine) == before
        report = engine.compact(SESSION, budget=BUDGET, force=True)
        assert (report.ok, report.reason) == (True, "compacted")


def test_the_threshold_is_strict(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db", Scripted(), context_threshold=0.5) as engine:
        engine.append(SESSION, [{"role": "user", "content": "x" * 4 * 500}, *talk(1)])
        tokens = framed_tokens(engine.archive.context_budget(conversation_id(engine)), 2)
        assert engine.compact(SESSION, budget=2 * tokens).reason == "below threshold"
        assert engine.compact(SESSION, budget=2 * tokens - 1).reason != "below threshold"


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("until", [3_000, 2_000, 1_200])
def test_until_goes_on_until_so_many_tokens_are_left(tmp_path: Path, until: int, force: bool) -> None:
    model = Scripted(then=say("The crew spoke of tides and tickets, and the pilot wrote it down. " * 8))
    with open_engine(tmp_path / "lcm.db", model) as engine:
        engine.append(SESSION, talk(HARD))
        report = engine.compact(SESSION, budget=BUDGET, until=until, force=force)
        assert (report.ok, report.tokens_after <= until) == (True, True)
        if not force:
            assert report.tokens_after > until - 1_400, "and not much further: a summary at a time"
        check(engine, talk(HARD))
        before = changes(engine)
        assert engine.compact(SESSION, budget=BUDGET, until=until).reason == "already under target"
        assert changes(engine) == before


def test_what_cannot_be_reached_is_said(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db", Scripted()) as engine:
        engine.append(SESSION, talk(SOFT))
        report = engine.compact(SESSION, budget=BUDGET, until=50)
        assert (report.ok, report.reason, report.exhausted) == (False, "could not reach target", True)
        check(engine, talk(SOFT))


def test_a_forced_recovery_folds_even_when_the_count_says_that_it_fits(tmp_path: Path) -> None:
    """The host's provider refused the prompt: it knows better."""
    with open_engine(tmp_path / "lcm.db", Scripted()) as engine:
        engine.append(SESSION, talk(30))
        report = engine.compact(SESSION, budget=BUDGET, until=BUDGET, force=True)
        assert report.compacted
        assert engine.compact(SESSION, budget=BUDGET, until=BUDGET).reason == "already under target"


def test_the_bounds_of_a_sweep(tmp_path: Path) -> None:
    model = Scripted()
    with open_engine(tmp_path / "lcm.db", model, leaf_chunk_tokens=150, max_sweep_iterations=3) as engine:
        engine.append(SESSION, talk(HARD))
        report = engine.compact(SESSION, budget=BUDGET, force=True)
        assert (report.stop, model.started, len(report.summary_ids)) == ("iterations", 3, 3)
        report = engine.compact(SESSION, budget=BUDGET, until=3_000)
        assert report.ok
        check(engine, talk(HARD))
    with open_engine(tmp_path / "2.db", Scripted(), sweep_deadline_ms=1) as engine:
        engine.append(SESSION, talk(HARD))
        report = engine.compact(SESSION, budget=BUDGET, force=True)
        assert report.stop == "deadline"
        check(engine, talk(HARD))


def test_what_a_report_says_is_what_the_archive_holds(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    with open_engine(tmp_path / "lcm.db", Scripted()) as engine:
        engine.append(SESSION, talk(HARD))
        report = engine.compact(
            SESSION, budget=BUDGET, progress=lambda work, made: seen.append((work.depth, made.tokens if made else 0))
        )
        id_ = conversation_id(engine)
        assert engine.archive.context.tokens(id_) == engine.archive.context_tokens(id_) == report.tokens_after
        assert [(depth, tokens) for _, depth, tokens, _ in summaries(engine)] == seen
        assert tuple(id_ for id_, *_ in summaries(engine)) == report.summary_ids
        logged = rows(
            engine, "SELECT tokens_before, tokens_after FROM context_log WHERE action = 'fold' ORDER BY log_id"
        )
        assert [before for before, _ in logged] == [report.tokens_before, *(after for _, after in logged[:-1])]
        assert logged[-1][1] == report.tokens_after


def test_tool_calls_and_their_results_are_folded_together(tmp_path: Path) -> None:
    said = list(agent_conversation(120))
    with open_engine(tmp_path / "lcm.db", leaf_chunk_tokens=900) as engine:
        engine.append(SESSION, said)
        engine.compact(SESSION, budget=15_000, force=True)
        parted = rows(
            engine,
            "SELECT p.tool_call_id FROM message_parts p LEFT JOIN summary_messages l USING (message_id)"
            " WHERE p.tool_call_id IS NOT NULL GROUP BY 1 HAVING count(DISTINCT coalesce(l.summary_id, '')) > 1",
        )
        assert (parted, len(summaries(engine)) > 5) == ([], True)


@pytest.mark.parametrize("mode", ["ok", "longer"])
def test_system_prompts_are_never_folded(tmp_path: Path, mode: Mode) -> None:
    system = {"role": "system", "content": "You are the harbour master. Never sell tickets twice."}
    with open_engine(tmp_path / "lcm.db", Scripted(then=mode)) as engine:
        engine.sync(SESSION, [system, *talk(HARD)])
        engine.compact(SESSION, budget=BUDGET, until=1_000, force=True)
        assert summaries(engine)
        assert engine.assemble(SESSION, budget=BUDGET).messages[0] == system
        assert engine.assemble(SESSION, budget=300).messages[0] == system, "nor left out to make room"
        assert engine.verify().problems == ()


def test_excluded_sessions_are_left_alone(tmp_path: Path) -> None:
    with open_engine(
        tmp_path / "lcm.db",
        Scripted(),
        ignore_session_patterns=("agent:main:x*",),
        stateless_session_patterns=("agent:main:s*",),
    ) as engine:
        for key, reason in (("agent:main:xy", "session excluded"), ("agent:main:sy", "stateless session")):
            session = lossless.Session(key=key)
            assert engine.after_turn(session, new_messages=talk(HARD), budget=BUDGET).append.stored == 0
            assert engine.compact(session, budget=BUDGET, force=True).reason == reason
            assert engine.maintain(session, allow=True) is None
        assert rows(engine, "SELECT * FROM conversations") == []
