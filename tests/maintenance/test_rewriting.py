"""Writing summaries anew: bottom-up, smaller than their sources, everything about them in line."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from lossless.compaction.source_text import DIRECTIVE_MARKER
from lossless.compaction.summariser import lease, lease_length, lease_name
from lossless.errors import BadInput, ModelAuth, ModelTimeout, Stale
from lossless.llm.completion import Completion
from lossless.maintenance.surgery import rewriting
from lossless.maintenance.surgery import rewriting as rewrite_run
from lossless.maintenance.surgery.rewriting import find_marker
from lossless.model.context import EXTRACTIVE_MODEL
from tests.maintenance.surgery_kit import HERE, THERE, copies, depths, open_engine, prove, roots, rows, talk, told

if TYPE_CHECKING:
    from pathlib import Path

    import lossless
    from lossless.llm.completion import Prompt


class Writes:
    """A model that writes the same text, of some length, and remembers what it was asked."""

    def __init__(self, words: int = 4) -> None:
        self.words, self.prompts = words, list[str]()

    def __call__(self, prompt: Prompt) -> Completion:
        self.prompts.append(prompt.user)
        text = " ".join(["sailing"] * self.words)
        return Completion(f"Draft {len(self.prompts)}: {text}.\nExpand for details about: all", "writer/one")


def models(engine: lossless.Engine) -> Counter[str]:
    return Counter(row[0] for row in rows(engine, "SELECT model FROM summaries"))


def test_extractive_summaries_get_a_model_from_the_bottom_up(path: Path) -> None:
    with open_engine(path) as engine:
        id_ = told(engine)
        assert set(models(engine)) == {EXTRACTIVE_MODEL}
    model = Writes()
    with open_engine(path, model) as engine:
        work = engine.surgery.plan_rewrite(id_, extractive=True)
        assert Counter(target.depth for target in work.targets) == Counter(depths(engine, id_).values())
        done, drafts = engine.surgery.rewrite(HERE, extractive=True)
        assert done is not None
        assert {draft.refusal for draft in drafts} == {None}
        assert set(models(engine)) == {"writer/one"}
        prove(engine)
        assert "Draft" not in model.prompts[0].split("<conversation_segment>")[1]
        assert "Draft" in model.prompts[-1].split("<conversation_to_condense>")[1]
        assert engine.surgery.plan_rewrite(id_, extractive=True).targets == ()
        assert copies(path) == ["rewrite"]
        hits = engine.grep("sailing", conversation_id=id_, scope="summaries").hits
        assert len(hits) == len(drafts)


def test_the_diff_goes_from_the_old_text_to_the_new_one(path: Path) -> None:
    with open_engine(path) as engine:
        id_ = told(engine)
    with open_engine(path, Writes()) as engine:
        (root,) = roots(engine, id_)
        before = engine.archive.summaries.get(root)
        _, (draft,) = engine.surgery.rewrite(HERE, summary_id=root)
        assert draft.before == before.content
        assert draft.diff.splitlines()[0] == f"--- {root} (now)"
        assert "+Draft 1: sailing sailing sailing sailing." in draft.diff
        after = engine.archive.summaries.get(root)
        assert (after.content, after.model, after.tokens) == (draft.text, "writer/one", draft.tokens)
        assert (after.earliest_at, after.latest_at) == (before.earliest_at, before.latest_at)
        engine.undo(HERE)
        assert engine.archive.summaries.get(root) == before
        prove(engine)


def test_one_rule_at_a_time(path: Path) -> None:
    with open_engine(path) as engine:
        id_ = told(engine)
        (root,) = roots(engine, id_)
        sizes = {
            "one": engine.surgery.plan_rewrite(id_, summary_id=root),
            "depth": engine.surgery.plan_rewrite(id_, depth=0),
            "subtree": engine.surgery.plan_rewrite(id_, subtree=root),
            "all": engine.surgery.plan_rewrite(id_, everything=True),
        }
        counts = Counter(depths(engine, id_).values())
        assert {name: len(plan.targets) for name, plan in sizes.items()} == {
            "one": 1, "depth": counts[0], "subtree": sum(counts.values()), "all": sum(counts.values()),
        }  # fmt: skip
        with pytest.raises(BadInput, match="exactly one rule"):
            engine.surgery.plan_rewrite(id_)
        with pytest.raises(BadInput, match="exactly one rule"):
            engine.surgery.plan_rewrite(id_, depth=1, everything=True)
        engine.append(THERE, talk(2))
        with pytest.raises(BadInput, match="does not belong"):
            engine.surgery.plan_rewrite(2, summary_id=root)


def test_a_text_that_is_not_smaller_is_refused(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine)
    with open_engine(path, Writes(2000), summary_max_overage_factor=100.0) as engine:
        before = models(engine)
        done, drafts = engine.surgery.rewrite(HERE, depth=0)
        assert done is None or all(draft.tokens < draft.source_tokens for draft in drafts if draft.refusal is None)
        assert before[EXTRACTIVE_MODEL] == models(engine)[EXTRACTIVE_MODEL]
        prove(engine)


def test_a_shorter_leaf_never_makes_its_user_the_larger_one(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine)
    with open_engine(path, Writes(1)) as engine:
        done, drafts = engine.surgery.rewrite(HERE, depth=0)
        refused = [draft for draft in drafts if draft.breaks is not None]
        assert refused
        assert done is None or len(done.summary_ids) == len(drafts) - len(refused)
        assert all(f"--summary {draft.summary_id} --upward --apply" in str(draft.refusal) for draft in refused)
        prove(engine)


def test_what_shorter_texts_make_too_large_is_written_after_all_below_it(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine)
        all_ = depths(engine, 1)
        before = rows(engine, "SELECT * FROM summaries ORDER BY summary_id")
    with open_engine(path, Writes(1), summary_max_calls_per_window=2) as engine:
        done, drafts = engine.surgery.rewrite(HERE, depth=0, upward=True)
        assert done is not None
        assert {draft.refusal for draft in drafts} == {None}
        assert {draft.summary_id for draft in drafts if not draft.because} == {id_ for id_ in all_ if not all_[id_]}
        assert len({draft.summary_id for draft in drafts}) == len(drafts) > Counter(all_.values())[0]
        place = {draft.summary_id: n for n, draft in enumerate(drafts)}
        for summary in engine.archive.summaries.many(list(place)):
            assert all(place[id_] < place[summary.id] for id_ in summary.source_ids if id_ in place)
        prove(engine)
        engine.undo(HERE)
        assert rows(engine, "SELECT * FROM summaries ORDER BY summary_id") == before


def test_a_text_that_fits_takes_nothing_along(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine)
        (root,) = roots(engine, 1)
    with open_engine(path, Writes(1)) as engine:
        _, drafts = engine.surgery.rewrite(HERE, summary_id=root, upward=True)
        assert [draft.summary_id for draft in drafts] == [root]


def test_what_cannot_be_written_anew_holds_the_others_back(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine)
        before = rows(engine, "SELECT * FROM summaries")

    def accept(draft: rewriting.SummaryDraft) -> bool:
        return not draft.because

    with open_engine(path, Writes(1)) as engine:
        _, drafts = engine.surgery.rewrite(HERE, depth=0, upward=True, accept=accept)
        assert any(draft.breaks for draft in drafts)
        assert not any(draft.because for draft in drafts)
        prove(engine)
        engine.undo(HERE)
    answers = Writes(1)

    def falters(prompt: Prompt) -> Completion:
        if "<conversation_to_condense>" in prompt.user:
            raise ModelTimeout("too slow")
        return answers(prompt)

    with open_engine(path, falters) as engine:
        work = engine.surgery.plan_rewrite(1, depth=0, upward=True)
        made = rewrite_run.write_drafts(engine.loop, work)
        assert made.stop == "too slow" or any(draft.is_failed for draft in made.refused)
        held = [draft for draft in made.refused if draft.breaks is not None]
        assert any("is not rewritten: too slow" in str(draft.refusal) for draft in held)
        engine.surgery.place_drafts(made)
        prove(engine)
        assert len(rows(engine, "SELECT * FROM summaries")) == len(before)


def test_a_model_that_refuses_changes_nothing(path: Path) -> None:
    def refuse(_prompt: Prompt) -> Completion:
        raise ModelAuth("the key was refused")

    with open_engine(path) as engine:
        told(engine)
    with open_engine(path, refuse) as engine:
        before = rows(engine, "SELECT * FROM summaries")
        done, drafts = engine.surgery.rewrite(HERE, everything=True)
        assert done is None
        assert [draft.is_last for draft in drafts] == [True]
        assert rows(engine, "SELECT * FROM summaries") == before
        assert rows(engine, "SELECT * FROM leases") == []
        prove(engine)


def test_only_accepted_drafts_take_their_place(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine)
    with open_engine(path, Writes(60)) as engine:
        asked: list[str] = []

        def accept(draft: rewriting.SummaryDraft) -> bool:
            asked.append(draft.summary_id)
            return len(asked) == 1

        done, drafts = engine.surgery.rewrite(HERE, everything=True, accept=accept)
        assert len(asked) == len(set(asked)) == len(depths(engine, 1))
        assert done is not None
        assert done.summary_ids == (asked[0],) == tuple(draft.summary_id for draft in drafts)
        assert models(engine)["writer/one"] == 1
        prove(engine)


def test_nobody_else_summarises_meanwhile(path: Path) -> None:
    with open_engine(path) as engine:
        id_ = told(engine)
        work = engine.surgery.plan_rewrite(id_, everything=True)
        drafts = rewriting.draft_all(engine.loop, work)
        next(drafts)
        with pytest.raises(Stale, match="another worker"):
            next(rewriting.draft_all(engine.loop, work))
        drafts.close()
        assert rows(engine, "SELECT * FROM leases") == []


def test_a_writer_whose_time_ran_out_stops_when_another_one_has_begun(path: Path) -> None:
    with open_engine(path) as engine:
        id_ = told(engine)
        work, writer = engine.surgery.plan_rewrite(id_, everything=True), engine.loop
        drafts = rewriting.draft_all(writer, work)
        next(drafts)
        longest = engine.settings.summary_timeout_ms
        later = writer.clock() + lease_length(longest)
        with lease(engine.archive, lease_name(id_), lambda: later, longest) as prolong:
            assert prolong()
            (last,) = drafts
            assert (last.refusal, last.is_last) == (rewriting.TAKEN, True)
            assert prolong()


def test_a_summary_that_changed_meanwhile_is_left_alone(path: Path) -> None:
    with open_engine(path) as engine:
        id_ = told(engine)
    with open_engine(path, Writes(40)) as engine:
        (root,) = roots(engine, id_)
        work = engine.surgery.plan_rewrite(id_, summary_id=root)
        made = list(rewriting.draft_all(engine.loop, work))
        engine.surgery.rewrite(HERE, summary_id=root)
        with pytest.raises(Stale):
            engine.surgery.place_drafts(rewriting.DraftedPlan(work, tuple(made), ()))
        prove(engine)


# --- repair ----------------------------------------------------------------------------------------------------


def spoil(engine: lossless.Engine, summary_id: str, content: str, model: str = "m") -> None:
    """Make a summary what a fallback would have left."""
    with engine.archive.writing():
        engine.archive.database.run(
            "UPDATE summaries SET content = ?, model = ? WHERE summary_id = ?", (content, model, summary_id)
        )
        engine.archive.index.put_summary(summary_id, content)


BROKEN = {
    "old": ("[LCM fallback summary; truncated for context management]\nsome words", "m"),
    "fallback": ("words\n[LCM fallback summary; truncated for context management]", "m"),
    "new": ("words\n[Truncated from 900 tokens]", "m"),
    "emergency": ("some words", "emergency-fallback"),
    "empty": (" \n", "m"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_every_kind_of_broken_summary_is_found_and_repaired(path: Path, kind: str) -> None:
    with open_engine(path) as engine:
        id_ = told(engine)
        leaf = next(summary for summary, depth in depths(engine, id_).items() if depth == 0)
        was = engine.archive.summaries.get(leaf)
        spoil(engine, leaf, *BROKEN[kind])
        found = engine.admin.examine()
        assert found.healthy
        assert [(finding.kind, finding.severity) for finding in found.findings] == [(f"summary.{kind}", "warning")]
        done, drafts = engine.surgery.repair(HERE)
        assert done is not None
        assert done.summary_ids == (leaf,)
        assert [draft.refusal for draft in drafts] == [None]
        assert engine.archive.summaries.get(leaf).tokens == was.tokens
        assert find_marker(engine.archive.summaries.get(leaf).content, engine.archive.summaries.get(leaf).model) is None
        assert engine.admin.examine().findings == ()
        assert copies(path) == ["scoped-doctor-repair"]
        prove(engine)


@pytest.mark.parametrize(
    ("content", "model", "expected"),
    [
        pytest.param(f"x {DIRECTIVE_MARKER} y", "m", "fallback", id="anywhere"),
        pytest.param("[Truncated from 9 tokens]" + "x" * 50, "m", None, id="a mark in the middle"),
        pytest.param("a [Truncated for context management]", "unknown", "emergency", id="of an unknown model"),
        pytest.param("a [Truncated for context management]", "m", None, id="of a known model"),
        pytest.param("A sound summary.", "unknown", None, id="sound"),
    ],
)
def test_marks(content: str, model: str, expected: str | None) -> None:
    assert find_marker(content, model) == expected


def test_a_repair_that_is_large_or_untimely_wants_a_word(path: Path) -> None:
    with open_engine(path, default_token_budget=1000) as engine:
        id_ = told(engine)
        for summary in depths(engine, id_):
            spoil(engine, summary, "")
        with pytest.raises(BadInput, match="of the budget of 1000"):
            engine.surgery.repair(HERE)
        with engine.archive.writing():
            engine.archive.database.run(
                "INSERT OR REPLACE INTO conversation_compaction_maintenance (conversation_id, pending) VALUES (1, 1)"
            )
        with pytest.raises(BadInput, match="pending"):
            engine.surgery.repair(HERE)
        done, _ = engine.surgery.repair(HERE, confirm=True)
        assert done is not None
        prove(engine)


def test_sound_summaries_are_not_repaired(path: Path) -> None:
    with open_engine(path) as engine:
        id_ = told(engine)
        assert engine.surgery.repair(HERE) == (None, [])
        with pytest.raises(BadInput, match="is not broken"):
            engine.surgery.repair(HERE, summary_ids=roots(engine, id_))


def test_what_is_kept_for_undoing_is_the_row_itself(path: Path) -> None:
    with open_engine(path) as engine:
        told(engine)
        (root,) = roots(engine, 1)
        was = engine.archive.summaries.get(root)
    with open_engine(path, Writes(40)) as engine:
        engine.surgery.rewrite(HERE, summary_id=root)
        ((state,),) = rows(engine, "SELECT state FROM former_summaries")
        kept = json.loads(state)
        assert kept["row"]["content"] == was.content
        assert tuple(kept["sources"]) == was.source_ids
