"""A long backlog: planned at once, extracted on all cores, and folded as if one leaf came after the other."""

from __future__ import annotations

import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossless.compaction import plan
from lossless.compaction.compactor import CompactionRequest, first_import_policy
from lossless.model.context import MessageItem, token_sum
from lossless.testing import Scripted, VirtualClock
from tests.compaction.loop_kit import BUDGET, SESSION, check, open_engine, rows, summaries, talk

if TYPE_CHECKING:
    import lossless
    from lossless.compaction.summarise import WrittenSummary

SHORT = [{"role": role, "content": word} for word in ("ok", "yes", "go", "no") for role in ("user", "assistant")]
BLANK = [{"role": "assistant", "content": " "}, {"role": "user", "content": "\n"}]


def open_small(path: Path, processes: int) -> lossless.Engine:
    """An engine that starts processes for any backlog, however short."""
    engine = open_engine(path, None, VirtualClock(), summary_processes=processes)
    engine.loop = replace(engine.loop, crew_tokens=1)
    return engine


def situation(engine: lossless.Engine) -> CompactionRequest:
    conversation = engine.archive.conversations.find(SESSION)
    assert conversation is not None
    return CompactionRequest(conversation, BUDGET)


def kept(engine: lossless.Engine) -> list[tuple[Any, ...]]:
    """The summaries and the context in words: no ids."""
    below = rows(engine, "SELECT depth, content, token_count, source_message_token_count FROM summaries ORDER BY rowid")
    context = (
        "SELECT c.ordinal, c.message_id, s.content FROM context_items c LEFT JOIN summaries s USING (summary_id) "
        "ORDER BY c.ordinal"
    )
    return below + rows(engine, context)


@settings(max_examples=3, deadline=None)
@given(
    st.lists(st.sampled_from(("talk", "talk", "short", "blank", "long")), min_size=4, max_size=10),
    st.sampled_from((None, 2_000)),
)
def test_processes_change_nothing_of_what_is_kept(pieces: list[str], until: int | None) -> None:
    said: list[dict[str, Any]] = []
    for n, piece in enumerate(pieces):
        made = {"short": SHORT, "blank": BLANK, "talk": talk(24, seed=n), "long": talk(2, seed=n, words=900)}
        said += made[piece]
    outcomes = []
    for processes in (1, 2):
        with (
            tempfile.TemporaryDirectory() as folder,
            open_small(Path(folder) / "lcm.db", processes) as engine,
        ):
            engine.append(SESSION, said)
            report = engine.compact(SESSION, budget=BUDGET, force=True, until=until)
            check(engine, said)
            outcomes.append((kept(engine), report.reason, report.tokens_after, len(report.summary_ids)))
    assert outcomes[0] == outcomes[1]


def test_an_import_is_folded_in_one_sweep_but_for_its_newest_part(tmp_path: Path) -> None:
    said = talk(400)
    model = Scripted()
    with open_engine(tmp_path / "lcm.db", model, VirtualClock(), bootstrap_max_tokens=900) as engine:
        engine.append(SESSION, said)
        seen: list[plan.Pass] = []
        report = engine.loop.fold_import(situation(engine), progress=lambda work, _: seen.append(work))
        assert (report.ok, report.stop, model.started) == (True, "nothing left", 0)
        assert len(seen) > engine.settings.max_sweep_iterations
        context = engine.archive.context.items(situation(engine).conversation.id)
        raw = [item for item in context if isinstance(item, MessageItem)]
        assert 0 < token_sum(raw) <= 900
        assert raw == context[-len(raw) :]
        check(engine, said)
        again = engine.loop.fold_import(situation(engine))
        assert (again.compacted, again.summary_ids) == (False, ())


def test_a_model_may_read_an_import_when_it_is_allowed_to(tmp_path: Path) -> None:
    model = Scripted()
    with open_engine(tmp_path / "lcm.db", model, VirtualClock(), bootstrap_max_tokens=900) as engine:
        engine.append(SESSION, talk(40))
        report = engine.loop.fold_import(situation(engine), may_ask_model=True)
        assert report.calls == model.started > 0


def test_planning_an_import_looks_at_the_context_once(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db", None, VirtualClock()) as engine:
        engine.append(SESSION, talk(300))
        id_ = situation(engine).conversation.id
        context, decision = engine.archive.context.items(id_), engine.loop.evaluate(situation(engine))
        policy = first_import_policy(engine.loop.policy(situation(engine)))
        state = plan.begin_sweep(context, policy, decision)
        batch = plan.leaf_batch(context, policy, state, policy.max_sweep_iterations, isolated=False)
        folded = [item for work in batch for item in work.items]
        assert folded == context[: len(folded)]
        assert len(batch) > 20
        assert token_sum(context[len(folded) :]) <= (policy.fresh_tail_max_tokens or 0)


@pytest.mark.parametrize("processes", [1, 2])
def test_whoever_loses_the_lease_stops_and_keeps_what_is_folded(tmp_path: Path, processes: int) -> None:
    said = talk(120)
    with open_small(tmp_path / "lcm.db", processes) as engine:
        engine.append(SESSION, said)
        folds: list[int] = []

        def progress(work: plan.Pass, written: WrittenSummary | None) -> None:
            folds.append(work.depth)
            if len(folds) == 2:
                with engine.archive.writing():
                    engine.archive.database.run("UPDATE leases SET owner = 'another worker'")

        report = engine.compact(SESSION, budget=BUDGET, force=True, progress=progress)
        assert (report.stop, len(report.summary_ids), len(summaries(engine))) == ("stale", 2, 2)
        check(engine, said)


def test_an_interrupt_keeps_what_is_folded_and_leaves_no_thread(tmp_path: Path) -> None:
    said = talk(120)

    def progress(_work: plan.Pass, _written: WrittenSummary | None) -> None:
        raise KeyboardInterrupt

    with open_small(tmp_path / "lcm.db", 2) as engine:
        engine.append(SESSION, said)
        with pytest.raises(KeyboardInterrupt):
            engine.compact(SESSION, budget=BUDGET, force=True, progress=progress)
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("lossless-extract")]
        assert len(summaries(engine)) == 1
        check(engine, said)
        assert engine.compact(SESSION, budget=BUDGET, force=True).compacted
