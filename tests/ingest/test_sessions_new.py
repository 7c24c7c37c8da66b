"""Beginning afresh and closing: the context lets go, the archive does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lossless
from lossless.errors import NotFound
from lossless.model.context import MessageItem
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

    from lossless import Engine


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """A conversation with leaves and a condensed summary in its context."""
    made = open_engine(tmp_path / "lcm.db", Scripted(), VirtualClock(), leaf_chunk_tokens=2_000)
    made.append(SESSION, talk(120))
    made.compact(SESSION, budget=BUDGET, until=900, force=True)
    made.append(SESSION, talk(40, first=120))
    made.compact(SESSION, budget=2 * BUDGET, force=True)
    depths = {item.depth for item in made.archive.context.items(conversation_id(made)) if hasattr(item, "depth")}
    assert depths == {0, 1}
    return made


@pytest.mark.parametrize("depth", [-1, 0, 1, 2])
def test_new_keeps_summaries_of_a_depth_and_records_the_rest(engine: Engine, depth: int) -> None:
    with engine:
        id_ = conversation_id(engine)
        before = engine.archive.context.items(id_)
        report = engine.new(SESSION, retain_depth=depth)
        after = engine.archive.context.items(id_)
        kept = before if depth < 0 else [i for i in before if not isinstance(i, MessageItem) and i.depth >= depth]
        assert after == kept
        assert report.messages + report.summaries == len(before) - len(kept)
        assert (report.tokens_before, report.tokens_after) == (_tokens(before), _tokens(kept))
        hidden = rows(engine, "SELECT item, cause FROM hidden_items")
        assert len(hidden) == len(before) - len(kept)
        assert {cause for _, cause in hidden} <= {"new"}
        assert one(engine, "SELECT count(*) FROM context_log WHERE action = 'new'") == bool(hidden)
        assert engine.archive.context_tokens(id_) == _tokens(kept)
        check(engine, talk(160))
        engine.after_turn(SESSION, new_messages=talk(4, first=160), budget=BUDGET)
        assert engine.grep("harbour", session=SESSION, scope="messages").hits, "what left the context is still found"
        shown = engine.assemble(SESSION, budget=BUDGET, allow_trailing_assistant=True).messages
        assert shown[-4:] == talk(4, first=160)
        assert len(shown) == len(kept) + 4
        check(engine, talk(164))


def _tokens(items: object) -> int:
    return sum(item.tokens for item in items)  # type: ignore[attr-defined]


def test_new_by_default_keeps_what_the_settings_say(engine: Engine) -> None:
    with engine:
        engine.new(SESSION)
        assert engine.archive.context.items(conversation_id(engine)) == [], "depth 2 and deeper; there is none"
        check(engine, talk(160))


def test_a_debt_of_a_context_that_is_gone_is_settled(tmp_path: Path) -> None:
    model = Scripted()
    with open_engine(tmp_path / "lcm.db", model, VirtualClock()) as engine:
        engine.after_turn(SESSION, new_messages=talk(SOFT), budget=BUDGET)
        engine.new(SESSION, retain_depth=0)
        engine.admin.run_pending()
        assert (model.started, debt(engine)["pending"], summaries(engine)) == (0, False, [])
        check(engine, talk(SOFT))


def test_folding_goes_on_after_new(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db", Scripted(), VirtualClock()) as engine:
        engine.append(SESSION, talk(40))
        for n in range(1, 4):
            engine.compact(SESSION, budget=BUDGET, force=True)
            engine.new(SESSION, retain_depth=0 if n == 2 else 5)
            engine.append(SESSION, talk(40, first=40 * n))
        engine.compact(SESSION, budget=BUDGET, force=True)
        check(engine, talk(160))


def test_reset_closes_a_conversation_with_its_cause_and_begins_another(engine: Engine) -> None:
    with engine:
        old = conversation_id(engine)
        fresh = engine.reset(SESSION, cause="manual-reset")
        assert fresh.id != old
        assert engine.reset(SESSION).id == fresh.id, "a fresh one stays"
        assert rows(engine, "SELECT conversation_id, active, archive_cause FROM conversations ORDER BY 1") == [
            (old, 0, "manual-reset"),
            (fresh.id, 1, None),
        ]
        engine.append(SESSION, [{"role": "user", "content": "hello again"}])
        assert [m["content"] for m in engine.assemble(SESSION, budget=BUDGET).messages] == ["hello again"]
        family = [conversation.id for conversation in engine.archive.conversations.family(SESSION)]
        assert family == [fresh.id, old]
        hits = engine.grep("harbour", session=SESSION).hits
        assert {hit.conversation_id for hit in hits} == {old}, "recall sees the whole family"
        assert engine.archive.context.items(old), "its context is as it was"
        check(engine, [*talk(160), {"role": "user", "content": "hello again"}])


def test_a_debt_of_a_closed_conversation_is_not_paid(tmp_path: Path) -> None:
    model = Scripted()
    with open_engine(tmp_path / "lcm.db", model, VirtualClock()) as engine:
        engine.after_turn(SESSION, new_messages=talk(SOFT), budget=BUDGET)
        engine.reset(SESSION)
        assert engine.admin.run_pending() == []
        assert model.started == 0
        check(engine, talk(SOFT))


def test_a_session_that_is_not_there_is_said(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        for call in (engine.new, engine.reset):
            with pytest.raises(NotFound):
                call(lossless.Session(key="nobody"))
        assert rows(engine, "SELECT * FROM conversations") == []
