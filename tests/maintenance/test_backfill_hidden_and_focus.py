"""What is hidden does not come back by surgery, and a brief stands only for what it was written from."""

from __future__ import annotations

import os
import random
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lossless.errors import BadInput
from lossless.maintenance.surgery import dissolve
from lossless.maintenance.surgery.backfill import BackfillOptions, backfill_history
from lossless.model.context import NewSummary
from tests.faults import dump
from tests.maintenance.surgery_kit import BUDGET, HERE, THERE, Raw, context, open_engine, prove, roots, rows, talk, told

if TYPE_CHECKING:
    import lossless

_EXAMPLES = int(os.environ.get("LOSSLESS_EXAMPLES") or 12)
OTHER_WAY: list[Raw] = [{"role": "user", "content": "a different turn"}, *talk(6, "other", first=1)]


def branched(engine: lossless.Engine, kept: int = 10) -> list[Raw]:
    """A conversation that was folded, and then goes on in another way behind a message; returns its first window.

    The second leaf is made of messages on both sides.
    """
    window = talk(40, "one")
    engine.sync(HERE, window)
    engine.compact(HERE, budget=BUDGET, force=True)
    report = engine.sync(HERE, [*window[:kept], *OTHER_WAY])
    assert (report.cause, report.abandoned) == ("branch", 40 - kept)
    return window


def leaves_only(path: Path) -> lossless.Engine:
    return open_engine(path, sweep_max_depth=0, condensed_min_fanout=50, condensed_min_fanout_hard=50)


def hidden(engine: lossless.Engine, conversation_id: int = 1) -> set[int | str]:
    return {row[0] for row in rows(engine, "SELECT item FROM hidden_items WHERE conversation_id = ?", conversation_id)}


def parted(engine: lossless.Engine) -> tuple[str, list[int], list[int]]:
    """The leaf of the context that has hidden and visible messages, and both."""
    out = hidden(engine)
    for id_ in roots(engine, 1):
        below = engine.archive.summaries.message_ids(id_)
        gone = [message for message in below if message in out]
        if 0 < len(gone) < len(below):
            return id_, [message for message in below if message not in out], gone
    raise AssertionError("no leaf lies on both sides")


def prompt_text(engine: lossless.Engine, session: lossless.Session = HERE) -> str:
    return "\n".join(str(message["content"]) for message in engine.assemble(session, budget=100_000).messages)


# --- what is hidden ---------------------------------------------------------------------------------------------


def test_undoing_folds_leaves_an_abandoned_branch_out(path: Path) -> None:
    with open_engine(path) as engine:
        branched(engine)
        out = hidden(engine)
        for _ in range(len(rows(engine, "SELECT 1 FROM context_log WHERE action = 'fold'"))):
            work = engine.surgery.plan_undo(1)
            done = engine.undo(HERE)
            assert done.tokens_after == engine.archive.context.tokens(1)
            entered = {item.id for item in engine.surgery.diff(HERE).entered}
            assert entered == {item.id for item in work.returns}
            assert not entered & out
            prove(engine)
        assert hidden(engine) == out
        assert context(engine, 1) == [*range(1, 11), *range(41, 48)]


def test_an_undone_fold_says_what_stays_hidden(path: Path) -> None:
    with leaves_only(path) as engine:
        branched(engine)
        work = engine.surgery.plan_undo(1)
        assert work.returns == ()
        assert work.hidden == len(engine.archive.summaries.message_ids(str(work.leaves[0].id)))
        assert f"{work.hidden} items stay hidden" in work.text


def test_dissolving_puts_only_visible_sources_back(path: Path) -> None:
    with leaves_only(path) as engine:
        window = branched(engine)
        leaf, visible, gone = parted(engine)
        before = context(engine, 1)
        work = dissolve.plan_dissolve(engine.archive, leaf)
        assert f"{len(gone)} of its sources stay hidden" in work.text
        done = engine.surgery.dissolve(leaf)
        at = before.index(leaf)
        assert context(engine, 1) == [*before[:at], *visible, *before[at + 1 :]]
        assert done.tokens_after == work.tokens_after == engine.archive.context.tokens(1)
        text = prompt_text(engine)
        assert window[visible[-1] - 1]["content"] in text
        assert not any(window[message - 1]["content"] in text for message in gone)
        prove(engine)
        engine.undo(HERE)
        assert context(engine, 1) == before
        prove(engine)


@pytest.mark.parametrize("purge", [False, True])
def test_a_branch_that_is_returned_to_after_dissolving_is_back_whole(path: Path, *, purge: bool) -> None:
    with leaves_only(path) as engine:
        window = branched(engine)
        leaf, visible, gone = parted(engine)
        engine.surgery.dissolve(leaf, purge=purge)
        engine.sync(HERE, window)
        prove(engine)
        there = context(engine, 1)
        assert [id_ for id_ in there if id_ in {*visible, *gone}] == [*visible, *gone]
        with pytest.raises(BadInput, match="is back in the context"):
            engine.undo(HERE)
        assert context(engine, 1) == there


def test_a_summary_of_hidden_messages_alone_has_nothing_to_put_back(path: Path) -> None:
    with leaves_only(path) as engine:
        branched(engine)
        with pytest.raises(BadInput, match="all its sources are hidden"):
            engine.surgery.dissolve(roots(engine, 1)[-1])


def test_a_prompt_that_is_back_stands_in_the_context_when_only_a_dissolved_summary_has_it(path: Path) -> None:
    one, other = ({"role": "system", "content": text} for text in ("Be exact.", "Be brief."))
    with open_engine(path) as engine:
        engine.sync(HERE, [one, *talk(6)])
        items = engine.archive.context.items(1)[:3]
        with engine.archive.writing():
            engine.archive.summaries.insert(1, items, NewSummary("sum_a", 0, "said", 1, "test"), engine.clock())
            engine.archive.context.replace(1, items, "sum_a", engine.clock())
        engine.surgery.dissolve("sum_a")
        engine.sync(HERE, [other, *talk(6)])
        assert hidden(engine) == {1}
        engine.sync(HERE, [one, *talk(6)])
        assert context(engine, 1) == [1, 2, 3, 4, 5, 6, 7]
        prove(engine)


def test_a_transplant_keeps_hidden_what_is_hidden(path: Path) -> None:
    with leaves_only(path) as engine:
        branched(engine)
        engine.append(THERE, talk(4, "there"))
        leaf, visible, gone = parted(engine)
        at = roots(engine, 1).index(leaf)
        before = dump(path)
        done = engine.surgery.transplant(HERE, THERE)
        prove(engine)
        assert len(hidden(engine, 2)) == len(below(engine, 1) & hidden(engine))
        engine.surgery.dissolve(done.summary_ids[at])
        assert len(context(engine, 2)) == len(done.summary_ids) - 1 + len(visible) + 4
        assert len(gone) > 0
        prove(engine)
        engine.undo(THERE)
        engine.undo(THERE)
        assert hidden(engine, 2) == set()
        prove(engine)
        assert dump(path)["hidden_items"] == before["hidden_items"]


def below(engine: lossless.Engine, conversation_id: int) -> set[int | str]:
    """The messages below the leaves of a context."""
    return {id_ for root in roots(engine, conversation_id) for id_ in engine.archive.summaries.message_ids(root)}


VERBS = ("say", "part", "return", "compact", "dissolve", "purge", "undo", "new", "focus", "transplant", "recompact")


def act(engine: lossless.Engine, verb: str, windows: list[list[Raw]], roll: random.Random) -> None:
    """Do one thing, if it can be done now; the last window is the host's."""
    window = windows[-1]
    with suppress(BadInput):
        match verb:
            case "say":
                windows[-1] = [*window, *talk(roll.randint(1, 10), roll.random(), 20)]
                engine.sync(HERE, windows[-1])
            case "part":
                windows.append([*window[: roll.randint(1, len(window))], *talk(3, roll.random(), 20)])
                engine.sync(HERE, windows[-1])
            case "return":
                windows.append(windows.pop(roll.randrange(len(windows))))
                engine.sync(HERE, windows[-1])
            case "compact":
                engine.compact(HERE, budget=1_000, force=True)
            case "recompact":
                how = BackfillOptions(fresh_tail=roll.randint(1, 9), recompact=True, single_root=roll.random() < 0.5)
                backfill_history(engine.loop, engine.archive.conversations.get(1), how)
            case "dissolve" | "purge" if found := roots(engine, 1):
                engine.surgery.dissolve(roll.choice(found), purge=verb == "purge")
            case "undo":
                engine.undo(HERE)
            case "new":
                engine.new(HERE)
            case "focus":
                engine.surgery.focus(HERE, "What about the ferry?")
            case "transplant":
                engine.surgery.transplant(HERE, THERE)


@settings(max_examples=_EXAMPLES)
@given(verbs=st.lists(st.sampled_from(VERBS), min_size=3, max_size=8), seed=st.integers(0, 10_000))
def test_nothing_is_ever_hidden_and_shown(verbs: list[str], seed: int) -> None:
    roll = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, open_engine(Path(folder) / "lcm.db") as engine:
        windows = [talk(24, "one", 20)]
        engine.sync(HERE, windows[0])
        engine.append(THERE, talk(4, "there"))
        engine.compact(HERE, budget=1_000, force=True)
        for verb in ("part", *verbs):
            act(engine, verb, windows, roll)
            for conversation_id in (1, 2):
                assert not hidden(engine, conversation_id) & set(context(engine, conversation_id)), verb
            prove(engine)


# --- what a brief stands for --------------------------------------------------------------------------------------

ZEPPELIN: list[Raw] = [
    {"role": "user", "content": f"The zeppelin hangar {n} has the code ZX-{1000 + n}: helium, ropes, canvas, crew {n}."}
    for n in range(40)
]


def flown(engine: lossless.Engine, session: lossless.Session) -> None:
    engine.append(session, ZEPPELIN)
    engine.compact(session, budget=1_000, force=True)


def covered(engine: lossless.Engine, session: lossless.Session = HERE) -> set[str]:
    left_out = engine.assemble(session, budget=100_000).receipt.left_out
    return {id_ for id_, cause in left_out if cause.startswith("covered by focus_")}


def test_what_is_transplanted_under_a_focus_is_shown(path: Path) -> None:
    with open_engine(path) as engine:
        id_ = told(engine)
        flown(engine, THERE)
        engine.surgery.focus(HERE, "What about the ferry?")
        engine.append(HERE, talk(2, "since"))
        before, known = covered(engine), engine.surgery.focus_status(id_)
        assert before == set(roots(engine, id_))
        done = engine.surgery.transplant(THERE, HERE)
        assert covered(engine) == before
        assert all(f'<summary id="{root}"' in prompt_text(engine) for root in done.summary_ids)
        after = engine.surgery.focus_status(id_)
        assert known is not None
        assert after is not None
        assert (after.messages_since, after.is_stale) == (known.messages_since, True) == (2, True)
        engine.surgery.focus(HERE)
        assert covered(engine) == set(roots(engine, id_)), "it is written from all of them now"
        prove(engine)


def test_what_is_transplanted_stays_in_sight_when_it_is_condensed_with_older_history(path: Path) -> None:
    with open_engine(path) as engine:
        id_ = told(engine)
        flown(engine, THERE)
        engine.surgery.focus(HERE, "What about the ferry?")
        done = engine.surgery.transplant(THERE, HERE)
        engine.append(HERE, talk(30, "since"))
        engine.compact(HERE, budget=BUDGET, force=True)
        top = next(root for root in roots(engine, id_) if set(done.summary_ids) & set(below_all(engine, root)))
        assert top not in covered(engine)
        assert f'<summary id="{top}"' in prompt_text(engine)
        prove(engine)


def below_all(engine: lossless.Engine, root: str) -> list[str]:
    ids, found = [root], []
    while ids:
        found += ids
        ids = [source for id_ in ids for source in engine.archive.summaries.get(id_).source_ids]
    return found


def test_undoing_a_transplant_leaves_the_brief_as_it_was(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine)
        flown(engine, THERE)
        engine.surgery.focus(HERE, "What about the ferry?")
        before, text = dump(path)["focus_briefs"], prompt_text(engine)
        engine.surgery.transplant(THERE, HERE)
        assert dump(path)["focus_briefs"] != before
        engine.undo(HERE)
        assert dump(path)["focus_briefs"] == before
        assert prompt_text(engine) == text


def test_what_is_merged_under_a_focus_is_shown_now_and_when_it_is_folded(path: Path) -> None:
    with open_engine(path) as engine:
        flown(engine, HERE)
        with engine.archive.writing():
            engine.archive.conversations.archive(1, "rollover-fallback", engine.clock())
        id_ = told(engine)
        engine.surgery.focus(HERE, "What about the ferry?")
        own = set(roots(engine, id_))
        engine.surgery.merge(str(HERE.key))
        new = set(roots(engine, id_)) - own
        assert new
        assert covered(engine) == own
        assert all(f'<summary id="{root}"' in prompt_text(engine) for root in new)
        engine.compact(HERE, budget=BUDGET, force=True)
        folded = set(roots(engine, id_)) - covered(engine)
        assert folded
        assert all(f'<summary id="{root}"' in prompt_text(engine) for root in folded)
        prove(engine)


def test_a_brief_goes_on_to_stand_for_its_sources_when_they_are_folded_or_dissolved(path: Path) -> None:
    with leaves_only(path) as engine:
        id_ = told(engine)
        engine.surgery.focus(HERE, "What about the ferry?")
        leaves = roots(engine, id_)
    with open_engine(path) as engine:
        engine.compact(HERE, budget=BUDGET, force=True)
        (root,) = roots(engine, id_)
        assert root not in leaves
        assert covered(engine) == {root}
        engine.surgery.dissolve(root)
        assert covered(engine) == set(roots(engine, id_))
        prove(engine)


def test_a_deleted_source_of_a_brief_comes_back_with_its_place_in_it(path: Path) -> None:
    with open_engine(path) as engine:
        id_ = told(engine)
        engine.surgery.focus(HERE, "Which berth is free?")
        links = rows(engine, "SELECT * FROM focus_brief_sources ORDER BY 1, 2, 4")
        engine.surgery.unfocus(HERE)
        (root,) = roots(engine, id_)
        engine.surgery.dissolve(root, purge=True)
        assert rows(engine, "SELECT * FROM focus_brief_sources ORDER BY 1, 2, 4") != links
        engine.undo(HERE)
        engine.undo(HERE)
        assert rows(engine, "SELECT * FROM focus_brief_sources ORDER BY 1, 2, 4") == links
        prove(engine)


def test_a_summary_without_messages_is_covered_only_when_the_brief_was_written_from_it(path: Path) -> None:
    with open_engine(path) as engine:
        id_ = told(engine)
        add = (
            "INSERT INTO summaries (summary_id, conversation_id, kind, content, token_count, latest_at)"
            " VALUES (?, 1, 'leaf', 'words', 1, '2001-01-01T00:00:00.000Z')"
        )
        put = "INSERT INTO context_items (conversation_id, ordinal, item_type, summary_id) VALUES (1, ?, 'summary', ?)"
        last = engine.archive.context.next_ordinal(id_)
        engine.archive.database.run(add, ("sum_before",))
        engine.archive.database.run(put, (last, "sum_before"))
        engine.surgery.focus(HERE, "What about the ferry?")
        engine.archive.database.run(add, ("sum_after",))
        engine.archive.database.run(put, (last + 1, "sum_after"))
        assert covered(engine) == set(roots(engine, id_)) - {"sum_after"}
