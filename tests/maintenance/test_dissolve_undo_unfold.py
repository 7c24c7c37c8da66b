"""Unfolding: summaries are replaced by their messages, in order, and one step brings them back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lossless.errors import Stale
from lossless.maintenance.surgery import dissolve
from lossless.model.context import SummaryItem
from tests.maintenance.surgery_kit import (
    BUDGET,
    HERE,
    THERE,
    context,
    depths,
    open_engine,
    prove,
    roots,
    rows,
    talk,
    told,
)

if TYPE_CHECKING:
    from pathlib import Path

    import lossless


def unfolded(engine: lossless.Engine) -> dissolve.UnfoldPlan:
    """Unfold the first conversation; returns the plan."""
    work = dissolve.plan_unfold(engine.archive, 1)
    assert work is not None
    dissolve.apply_unfold(engine.archive, work, engine.clock())
    prove(engine)
    return work


def said(engine: lossless.Engine) -> list[int]:
    return [row[0] for row in rows(engine, "SELECT message_id FROM messages WHERE conversation_id = 1 ORDER BY seq")]


def test_all_messages_come_back_in_order_and_the_summaries_go(tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    with open_engine(path) as engine:
        told(engine)
        before, summaries = context(engine, 1), depths(engine, 1)
        work = unfolded(engine)
        assert context(engine, 1) == said(engine)
        assert [item.tokens for item in work.context] == [item.tokens for item in engine.archive.context.items(1)]
        assert work.tokens_after == engine.archive.context.tokens(1)
        assert f"{len(summaries)} summaries are replaced by the 56 messages" in work.text
        assert depths(engine, 1) == {}
        assert dissolve.plan_unfold(engine.archive, 1) is None
        back = engine.surgery.plan_undo(1)
        engine.surgery.apply(back)
        assert (context(engine, 1), depths(engine, 1)) == (before, summaries)
        prove(engine)


def test_messages_behind_the_summaries_stay_where_they_are(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db", sweep_max_depth=0, condensed_min_fanout_hard=50) as engine:
        told(engine)
        engine.append(HERE, talk(30, "more"))
        engine.compact(HERE, budget=BUDGET, force=True)
        assert len(roots(engine, 1)) > 2
        engine.surgery.dissolve(roots(engine, 1)[1])
        unfolded(engine)
        assert context(engine, 1) == said(engine)
        engine.undo(HERE)
        engine.undo(HERE)
        prove(engine)


def test_a_summary_whose_messages_are_not_known_stays(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        told(engine)
        engine.archive.database.run(
            "INSERT INTO summaries (summary_id, conversation_id, kind, content, token_count, latest_at)"
            " VALUES ('sum_strange', 1, 'leaf', 'words', 1, '2001-01-01T00:00:00.000Z')"
        )
        last = engine.archive.context.next_ordinal(1)
        put = "INSERT INTO context_items (conversation_id, ordinal, item_type, summary_id) VALUES (1, ?, 'summary', ?)"
        engine.archive.database.run(put, (last, "sum_strange"))
        work = dissolve.plan_unfold(engine.archive, 1)
        assert work is not None
        assert "sum_strange" not in work.summary_ids
        dissolve.apply_unfold(engine.archive, work, engine.clock())
        assert roots(engine, 1) == ["sum_strange"]
        assert context(engine, 1) == [*said(engine), "sum_strange"]


def test_what_a_brief_was_written_from_stays_in_the_archive(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        told(engine)
        needed = set(roots(engine, 1))
        engine.surgery.focus(HERE, "What about the ferry?")
        unfolded(engine)
        assert needed <= set(depths(engine, 1))
        assert roots(engine, 1) == []
        engine.undo(HERE)
        prove(engine)


def test_a_plan_holds_only_while_the_summaries_do(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        told(engine)
        engine.append(THERE, talk(4, "there"))
        work = dissolve.plan_unfold(engine.archive, 1)
        assert work is not None
        engine.append(HERE, talk(2, "meanwhile"))
        assert dissolve.plan_unfold(engine.archive, 2) is None
        engine.surgery.dissolve(roots(engine, 1)[0])
        with pytest.raises(Stale):
            dissolve.apply_unfold(engine.archive, work, engine.clock())
        assert any(isinstance(item, SummaryItem) for item in engine.archive.context.items(1))
        prove(engine)
