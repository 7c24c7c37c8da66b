"""Dissolving: the preview is what happens, and the summary goes only when nobody needs it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from lossless.errors import BadInput, NotFound
from lossless.maintenance.surgery import dissolve
from tests.maintenance.surgery_kit import HERE, context, copies, depths, open_engine, prove, roots, rows, talk, told

if TYPE_CHECKING:
    from pathlib import Path


def test_sources_come_back_at_their_place(path: Path) -> None:
    with open_engine(path) as engine:
        id_ = told(engine)
        before = context(engine, id_)
        (root,) = roots(engine, id_)
        work = dissolve.plan_dissolve(engine.archive, root)
        done = engine.surgery.dissolve(root)
        sources = list(engine.archive.summaries.get(root).source_ids)
        assert len(sources) > 1
        assert context(engine, id_) == [*sources, *before[1:]]
        assert engine.archive.context.tokens(id_) == work.tokens_after == done.tokens_after
        assert [item.id for item in work.items] == sources
        assert done.backup is not None
        assert copies(path) == ["dissolve"]
        prove(engine)


def test_a_leaf_gives_its_messages_back(path: Path) -> None:
    with open_engine(path) as engine:
        id_ = told(engine, 20)
        while roots(engine, id_):
            engine.surgery.dissolve(roots(engine, id_)[0])
        assert context(engine, id_) == list(range(1, 21))
        prove(engine)


def test_later_items_move_only_as_far_as_they_must(path: Path) -> None:
    with open_engine(path) as engine:
        id_ = told(engine)
        (root,) = roots(engine, id_)
        ordinals = [item.ordinal for item in engine.archive.context.items(id_)]
        work = dissolve.plan_dissolve(engine.archive, root)
        assert work.shift == max(0, ordinals[0] + len(work.items) - ordinals[1])
        engine.surgery.dissolve(root)
        after = [item.ordinal for item in engine.archive.context.items(id_)]
        assert after[len(work.items) :] == [ordinal + work.shift for ordinal in ordinals[1:]]
        assert f"[{work.ordinal}] {root}" in work.text


def test_a_purged_summary_is_gone_from_rows_and_search_and_comes_back_with_undo(path: Path) -> None:
    with open_engine(path) as engine:
        id_ = told(engine)
        (root,) = roots(engine, id_)
        was = engine.archive.summaries.get(root)
        engine.surgery.dissolve(root, purge=True)
        assert root not in depths(engine, id_)
        assert rows(engine, "SELECT 1 FROM summary_extras WHERE summary_id = ?", root) == []
        prove(engine)
        engine.undo(HERE)
        assert engine.archive.summaries.get(root) == was
        assert roots(engine, id_) == [root]
        prove(engine)


def test_what_cannot_be_dissolved_says_why(path: Path) -> None:
    with open_engine(path) as engine:
        id_ = told(engine)
        (root,) = roots(engine, id_)
        below = engine.archive.summaries.get(root).source_ids[0]
        with pytest.raises(BadInput, match="not in the context"):
            dissolve.plan_dissolve(engine.archive, below)
        with pytest.raises(NotFound):
            dissolve.plan_dissolve(engine.archive, "sum_nobody")
        engine.surgery.focus(HERE, "ferry?")
        with pytest.raises(BadInput, match="needed by brief"):
            dissolve.plan_dissolve(engine.archive, root, purge=True)


@pytest.mark.timeout(120)
def test_what_is_below_a_circle_or_many_diamonds_says_so_at_once(path: Path) -> None:
    link = "INSERT INTO summary_parents (summary_id, parent_summary_id, ordinal) VALUES (?, ?, ?)"
    copy = (
        "INSERT INTO summaries (summary_id, conversation_id, kind, depth, content, token_count, model) "
        "SELECT ?, conversation_id, 'condensed', 9, content, 1, model FROM summaries WHERE summary_id = ?"
    )
    with open_engine(path) as engine:
        id_ = told(engine)
        (root,) = roots(engine, id_)
        leaf = next(summary for summary, depth in depths(engine, id_).items() if depth == 0)
        with engine.archive.writing():
            rungs = [[leaf], *([f"sum_{n}_a", f"sum_{n}_b"] for n in range(40))]
            for n, (lower, upper) in enumerate(itertools.pairwise(rungs)):
                for user in upper:
                    engine.archive.database.run(copy, (user, leaf))
                    for source in lower:
                        engine.archive.database.run(link, (user, source, n))
            engine.archive.database.run(link, (leaf, rungs[-1][0], 99))
        with pytest.raises(BadInput, match=f"it is below '{root}': dissolve that one first"):
            dissolve.plan_dissolve(engine.archive, leaf)
        with engine.archive.writing():
            engine.archive.context.hide(id_, [root], "branch", engine.clock())
        with pytest.raises(BadInput, match=r"only summaries in the context can be dissolved$"):
            dissolve.plan_dissolve(engine.archive, leaf)


def test_the_diff_tells_what_left_and_what_entered(path: Path) -> None:
    with open_engine(path) as engine:
        id_ = told(engine)
        (root,) = roots(engine, id_)
        folds = engine.surgery.diff(HERE, 0)
        assert [item.id for item in folds.entered] == [root]
        assert [item.id for item in folds.left] == list(range(1, 57))
        engine.surgery.dissolve(root)
        last = engine.surgery.diff(HERE)
        assert [item.id for item in last.left] == [root]
        assert last.entries[0].action == "dissolve"
        assert f"- {root}" in last.text
        engine.undo(HERE)
        nothing = engine.surgery.diff(HERE, folds.through)
        assert (nothing.left, nothing.entered) == ((), ())
        assert [entry.action for entry in nothing.entries] == ["dissolve", "undo"]
        early = engine.surgery.diff(HERE, 0, 1)
        assert len(early.entered) == 1
        with pytest.raises(BadInput, match="after the second"):
            engine.surgery.diff(id_, 5, 2)


def test_a_moment_is_a_point_too(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine)
        at = engine.surgery.diff(HERE, 0).entries[-1].at
        assert engine.surgery.diff(HERE, at).entries == ()
        assert engine.surgery.diff(HERE, 0, at).entries


def test_undo_does_not_reach_past_what_it_cannot_see(path: Path) -> None:
    with open_engine(path) as engine:
        id_ = told(engine)
        engine.new(HERE, retain_depth=9)
        with pytest.raises(BadInput, match="is no longer there"):
            engine.surgery.plan_undo(id_)
        engine.append(HERE, talk(2, "more"))
        prove(engine)


def test_nothing_to_undo_is_said(path: Path) -> None:
    with open_engine(path) as engine:
        engine.append(HERE, talk(2))
        with pytest.raises(BadInput, match="no fold and no surgery to undo"):
            engine.undo(HERE)
