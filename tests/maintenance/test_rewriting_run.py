"""Runs that write many summaries anew: all calls of a plan are made, and what was paid for is kept however they end."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.errors import ModelAuth, ModelDenied, ModelRateLimit
from lossless.llm.completion import Completion
from lossless.maintenance.surgery import rewriting as rewrite_run
from lossless.maintenance.surgery.rewriting import subtree_by_subtree, without_times
from lossless.model.context import EXTRACTIVE_MODEL, Summary
from tests.built import built
from tests.maintenance.surgery_kit import HERE, depths, open_engine, prove, roots, rows, told

if TYPE_CHECKING:
    from pathlib import Path

    import lossless
    from lossless.llm.completion import Prompt
    from lossless.maintenance.surgery.rewriting import SummaryDraft

LIMIT = 3
WRITER = "writer/one"


class Mortal:
    """A model that writes short texts, but for some of its calls."""

    def __init__(
        self, lives: int = 1000, error: Exception | None = None, falters: frozenset[int] = frozenset()
    ) -> None:
        self.lives, self.falters, self.calls = lives, falters, 0
        self.error = error or ModelRateLimit("come back later")

    def __call__(self, _prompt: Prompt) -> Completion:
        self.calls += 1
        if self.calls > self.lives or self.calls in self.falters:
            raise self.error
        words = " ".join(f"{word} {self.calls}" for word in ("ferry", "crane", "berth", "pilot", "storm", "ledger"))
        return Completion(f"{words}.\nThe crew of ship {self.calls} waits.\nExpand for details about: all", WRITER)


@pytest.fixture
def folded(path: Path) -> int:
    """How many summaries a conversation has whose graph is three deep; all are extracted."""
    with open_engine(built(path, _build)) as engine:
        count = len(depths(engine, 1))
        assert count > 3 * LIMIT
        return count


def _build(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine)


def by_model(engine: lossless.Engine) -> Counter[str]:
    return Counter(row[0] for row in rows(engine, "SELECT model FROM summaries"))


def run(engine: lossless.Engine, **rule: bool) -> rewrite_run.DraftedPlan:
    """One run of a rule, put in place."""
    work = engine.surgery.plan_rewrite(1, **(rule or {"everything": True}), by=WRITER)  # type: ignore[arg-type]
    made = rewrite_run.write_drafts(engine.loop, work)
    done = engine.surgery.place_drafts(made)
    assert (done.summary_ids if done else ()) == tuple(one.summary_id for one in made.usable)
    prove(engine)
    return made


# --- order ----------------------------------------------------------------------------------------------------------


def _summary(id_: str, depth: int, sources: tuple[str, ...]) -> Summary:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return Summary(id_, 1, depth, "", 1, at, at, 0, 0, 0, at, source_ids=sources)


@st.composite
def graphs(draw: st.DrawFn) -> list[Summary]:
    """Summaries of which each is made of some before it; in any order."""
    made: list[Summary] = []
    for n in range(draw(st.integers(0, 14))):
        names = [one.id for one in made]
        sources = tuple(draw(st.lists(st.sampled_from(names), unique=True, max_size=4))) if names else ()
        made.append(_summary(str(n), n, sources))
    return draw(st.permutations(made))


@given(graphs())
def test_what_a_summary_is_made_of_comes_before_it(summaries: list[Summary]) -> None:
    ordered = subtree_by_subtree(summaries)
    assert Counter(one.id for one in ordered) == Counter(one.id for one in summaries)
    place = {one.id: n for n, one in enumerate(ordered)}
    assert all(place[source] < place[one.id] for one in summaries for source in one.source_ids)


def test_one_subtree_is_complete_before_the_next_begins() -> None:
    shape = {"a": (), "b": (), "c": (), "d": (), "ab": ("a", "b"), "cd": ("c", "d"), "top": ("ab", "cd"), "e": ()}
    found = subtree_by_subtree([_summary(id_, len(id_), sources) for id_, sources in shape.items()])
    assert [one.id for one in found] == ["a", "b", "ab", "c", "d", "cd", "top", "e"]


def test_a_circle_ends() -> None:
    circle = [_summary("a", 1, ("b",)), _summary("b", 1, ("a",))]
    assert {one.id for one in subtree_by_subtree(circle)} == {"a", "b"}


# --- the limit ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["everything", "extractive", "subtree"])
def test_the_spend_limit_does_not_end_what_a_person_asked_for(path: Path, folded: int, rule: str) -> None:
    model = Mortal()
    with open_engine(path, model, summary_max_calls_per_window=LIMIT) as engine:
        (root,) = roots(engine, 1)
        done, drafts = engine.surgery.rewrite(HERE, **{rule: root if rule == "subtree" else True})  # type: ignore[arg-type]
        assert done is not None
        assert (len(done.summary_ids), len(drafts), model.calls) == (folded, folded, folded)
        assert by_model(engine) == {WRITER: folded}
        prove(engine)
        gate = engine.loop.summariser.gate(engine.archive, 1, engine.clock)
        (candidate,) = engine.loop.summariser.candidates()
        assert [gate.enter(candidate) for _ in range(LIMIT)]  # the window of calls that nobody asked for is unused


def test_a_repair_is_not_ended_by_the_spend_limit(path: Path, folded: int) -> None:
    with open_engine(path, Mortal(), summary_max_calls_per_window=LIMIT) as engine:
        with engine.archive.writing():
            engine.archive.database.run("UPDATE summaries SET content = ''")
        done, _ = engine.surgery.repair(HERE, confirm=True)
        assert done is not None
        assert len(done.summary_ids) == folded
        assert engine.surgery.repair(HERE) == (None, [])
        prove(engine)


@pytest.mark.parametrize("error", [ModelAuth("the key was refused"), ModelDenied("not allowed")])
def test_refused_credentials_end_a_run_at_once(path: Path, folded: int, error: Exception) -> None:
    assert folded
    model = Mortal(4, error)
    with open_engine(path, model) as engine:
        made = run(engine)
        assert (made.stop, made.reached, model.calls) == (str(error), 5, 5)
        assert by_model(engine)[WRITER] == 4


# --- a run that is stopped ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rule", "lives"), [("everything", 2), ("everything", 8), ("extractive", 3)])
def test_nothing_that_was_paid_for_is_lost_when_a_model_goes_down(
    path: Path, folded: int, rule: str, lives: int
) -> None:
    wanted, paid = folded, 0
    while wanted:
        model = Mortal(lives)
        with open_engine(path, model) as engine:
            made = run(engine, **{rule: True})
            written = min(lives, wanted)
            assert len(made.work.targets) == wanted
            wanted, paid = wanted - written, paid + written
            assert by_model(engine)[WRITER] == paid
            assert made.left == wanted
            assert (made.stop is None) == (not wanted) or wanted < 3
    assert paid == folded


def test_one_failure_costs_one_summary(path: Path, folded: int) -> None:
    model = Mortal(falters=frozenset({2, 3, 6}))
    with open_engine(path, model) as engine:
        made = run(engine)
        assert (made.stop, made.reached, model.calls) == (None, folded, folded)
        assert sum(one.is_failed for one in made.refused) == 3
        assert made.left == 3
        again = engine.surgery.plan_rewrite(1, everything=True, by=WRITER)
        assert {target.id for target in again.targets} >= {one.summary_id for one in made.refused if one.is_failed}
        assert len(again.targets) < folded


@pytest.mark.parametrize("after", [1, 2, 5, 8])
def test_an_interrupt_keeps_what_is_written(path: Path, folded: int, after: int) -> None:
    heard: list[SummaryDraft] = []

    def interrupt(draft: SummaryDraft) -> None:
        heard.append(draft)
        if len(heard) == after:
            raise KeyboardInterrupt

    with open_engine(path, Mortal()) as engine:
        work = engine.surgery.plan_rewrite(1, everything=True, by=WRITER)
        made = rewrite_run.write_drafts(engine.loop, work, on_draft=interrupt)
        assert (made.stop, made.reached, made.left) == (rewrite_run.INTERRUPTED, after, folded - after)
        assert rows(engine, "SELECT * FROM leases") == []
        engine.surgery.place_drafts(made)
        assert by_model(engine)[WRITER] == after
        prove(engine)
        rest = run(engine)
        assert (rest.work.kept, len(rest.work.targets), rest.left) == (after, folded - after, 0)
        assert f"{after} more were written by a run that was stopped" in rest.work.text
        assert by_model(engine) == {WRITER: folded}


def test_an_engine_keeps_what_is_written_and_passes_the_interrupt_on(path: Path, folded: int) -> None:
    def accept(draft: SummaryDraft) -> bool:
        if draft.depth == 1:
            raise KeyboardInterrupt
        return True

    assert folded
    with open_engine(path, Mortal()) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.surgery.rewrite(HERE, everything=True, accept=accept)
        assert by_model(engine)[WRITER] > 1
        prove(engine)


def test_a_text_of_a_model_is_not_extracted_to_hold_others_in_place(path: Path, folded: int) -> None:
    with open_engine(path) as engine, engine.archive.writing():
        engine.archive.database.run("UPDATE summaries SET model = 'older/one'")
    with open_engine(path, Mortal(6)) as engine:
        made = run(engine)
        assert set(by_model(engine)) <= {"older/one", WRITER}
        assert made.left == folded - by_model(engine)[WRITER]


def test_a_run_is_gone_on_with_by_the_same_writer_until_it_is_complete(path: Path, folded: int) -> None:
    def planned(by: str = WRITER, *, afresh: bool = False) -> int:
        return len(engine.surgery.plan_rewrite(1, everything=True, by=by, afresh=afresh).targets)

    with open_engine(path, Mortal(4)) as engine:
        run(engine)
        assert planned() == folded - 4
        assert planned("another/one") == planned(afresh=True) == planned("") == folded
        engine.undo(HERE)
        assert planned() == folded
    with open_engine(path, Mortal(5)) as engine:
        run(engine)
        assert planned() == folded - 5
    with open_engine(path, Mortal()) as engine:
        run(engine)
        assert planned() == folded
        assert by_model(engine)[EXTRACTIVE_MODEL] == 0


def test_what_changed_meanwhile_costs_only_itself(path: Path, folded: int) -> None:
    with open_engine(path, Mortal()) as engine:
        work = engine.surgery.plan_rewrite(1, everything=True)
        leaf = work.targets[0].id

        def change(draft: SummaryDraft) -> None:
            if draft.summary_id == work.targets[-1].id:
                with engine.archive.writing():
                    engine.archive.database.run("UPDATE summaries SET content = 'x' WHERE summary_id = ?", (leaf,))

        made = rewrite_run.write_drafts(engine.loop, work, on_draft=change)
        assert {one.summary_id: one.refusal for one in made.refused} == {leaf: rewrite_run.CHANGED}
        assert engine.surgery.place_drafts(made) is not None
        assert by_model(engine)[WRITER] == folded - 1


def test_who_wants_no_more_keeps_what_was_accepted(path: Path, folded: int) -> None:
    with open_engine(path, Mortal()) as engine:
        work = engine.surgery.plan_rewrite(1, everything=True, by=WRITER)
        heard: list[SummaryDraft] = []

        def accept(_draft: SummaryDraft) -> bool:
            if len(heard) == 4:
                raise KeyboardInterrupt
            return True

        made = rewrite_run.write_drafts(engine.loop, work, accept, heard.append)
        assert (made.stop, made.reached, made.left > 0) == (rewrite_run.INTERRUPTED, 4, True)
        engine.surgery.place_drafts(made)
        prove(engine)
        assert 0 < by_model(engine)[WRITER] < folded
        again = engine.surgery.plan_rewrite(1, everything=True, by=WRITER)
        assert len(again.targets) == folded - again.kept
        assert again.kept == by_model(engine)[WRITER]


def test_a_prompt_can_be_without_times() -> None:
    one = without_times("[2026-01-05 09:00 UTC | user]\nAt 9.")
    two = without_times("[2026-01-05 09:00 UTC - 2026-01-06 10:00 UTC]\nWords.")
    assert (one, two) == ("[user]\nAt 9.", "[summary]\nWords.")
