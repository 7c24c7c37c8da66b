"""Shapes of graphs and histories of contexts, as pictures and the terminal interface read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

import lossless
from lossless.model.context import SummaryItem
from lossless.store.archive import Archive
from lossless.store.views import Listings
from lossless.testing import Scripted, VirtualClock
from tests.maintenance.surgery_kit import BUDGET, HERE, settings, talk
from tests.store.older import AGES, make

if TYPE_CHECKING:
    from pathlib import Path

EVER = datetime(1, 1, 1, tzinfo=UTC)


@pytest.fixture
def folded(path: Path) -> lossless.Engine:
    """A conversation that was folded on three days by a model."""
    clock = VirtualClock()
    engine = lossless.open(path, settings(), Scripted(), clock=clock, background=False)
    for day in range(3):
        engine.append(HERE, talk(30, first=30 * day))
        engine.compact(HERE, budget=BUDGET, force=True)
        clock.advance(days=1)
    return engine


def test_tops_are_what_stands_in_the_context(folded: lossless.Engine) -> None:
    outline, archive = Listings(folded.archive.database), folded.archive
    standing = [item.summary_id for item in archive.context.items(1) if isinstance(item, SummaryItem)]
    tops = outline.top_summaries(1, 100)
    assert sorted(tops.ids) == sorted(standing)
    assert (tops.total, tops.in_context) == (len(standing), frozenset(standing))
    assert outline.top_summaries(1, 1).total == len(standing)
    assert [*outline.top_summaries(1, 1).ids, *outline.top_summaries(1, 100, 1).ids] == list(tops.ids)
    shapes = outline.summary_shapes(1)
    assert {shape.id for shape in shapes if shape.in_context} == set(standing)
    assert outline.summaries_in_context(1, [shape.id for shape in shapes]) == frozenset(standing)
    folded.close()


def test_a_dissolved_summary_is_still_a_top(folded: lossless.Engine) -> None:
    outline = Listings(folded.archive.database)
    root = max(outline.summary_shapes(1), key=lambda shape: (shape.in_context, shape.depth)).id
    folded.surgery.dissolve(root)
    tops = outline.top_summaries(1, 100)
    assert root in tops.ids
    assert root not in tops.in_context
    sources = {source for user, source in outline.summary_edges(1) if user == root}
    assert sources <= tops.in_context
    folded.close()


def test_shapes_edges_and_words_are_of_one_conversation(folded: lossless.Engine) -> None:
    outline = Listings(folded.archive.database)
    ids = {shape.id for shape in outline.summary_shapes(1)}
    assert ids == set(folded.archive.listings.summary_nodes(ids))
    assert all(user in ids and source in ids for user, source in outline.summary_edges(1))
    assert set(outline.summary_beginnings(1)) == ids
    assert (outline.summary_shapes(2), outline.summary_edges(2), outline.summary_beginnings(2)) == ([], [], {})
    assert outline.top_summaries(2, 10).total == 0
    folded.close()


def test_history_by_change_and_by_day(folded: lossless.Engine) -> None:
    outline = Listings(folded.archive.database)
    sizes = outline.context_sizes(1, 1_000)
    assert all(size.tokens_after < size.tokens_before for size in sizes if size.action == "fold")
    assert outline.context_sizes(1, 2) == sizes[-2:]
    calls, folds = outline.calls_by_day(EVER, 1), outline.folds_by_day(EVER)
    assert [day.day for day in folds] == ["2026-01-05", "2026-01-06", "2026-01-07"]
    assert sum(day.folds for day in folds) == len([size for size in sizes if size.action == "fold"])
    assert sum(day.calls for day in calls) == sum(row.calls for row in folded.archive.guards.spent(EVER))
    assert outline.folds_by_day(datetime(2026, 1, 7, tzinfo=UTC)) == folds[-1:]
    assert outline.calls_by_day(EVER, 2) == []
    folded.close()


@pytest.mark.parametrize("age", AGES)
def test_databases_of_lossless_claw_have_shapes_too(tmp_path: Path, age: str) -> None:
    make(tmp_path / "lcm.db", AGES[age])
    with Archive.open(tmp_path / "lcm.db", read_only=True) as archive:
        outline = Listings(archive.database)
        assert len(outline.summary_shapes(1)) == 3
        assert len(outline.summary_edges(1)) == 2
        assert outline.top_summaries(1, 10).total >= 1
        assert (outline.context_sizes(1, 10), outline.calls_by_day(EVER), outline.folds_by_day(EVER)) == ([], [], [])
