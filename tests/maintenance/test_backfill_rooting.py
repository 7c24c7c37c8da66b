"""Folding to a single root: it always ends, in order, and says why when more than one summary is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from lossless.compaction.compactor import CompactionPolicy, first_import_policy
from lossless.compaction.plan import CompactionReason, context_after_fold, count_roots, next_root
from lossless.errors import ModelAuth, ModelTimeout
from lossless.maintenance.surgery.backfill import BackfillOptions, backfill_history, plan_backfill
from lossless.maintenance.surgery.rewriting import alone
from lossless.model.context import MessageItem, SummaryItem, token_sum
from tests.maintenance.surgery_kit import HERE, depths, open_engine, prove, roots, talk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lossless.llm.completion import Prompt
    from lossless.model.context import ContextItem

POLICY = first_import_policy(CompactionPolicy(leaf_chunk_tokens=1_000, bootstrap_max_tokens=100))
_SIZES = st.lists(st.tuples(st.integers(0, 4), st.integers(50, 900)), max_size=20)


def context_of(sizes: list[tuple[int, int]]) -> list[ContextItem]:
    """A system prompt, some summaries, and a tail."""
    summaries = [SummaryItem(n + 1, f"s{n}", depth, tokens) for n, (depth, tokens) in enumerate(sizes)]
    last = len(summaries) + 1
    return [MessageItem(0, 1, "system", 30, 1), *summaries, MessageItem(last, 2, "user", 60, 2)]


@given(_SIZES)
def test_neighbours_are_folded_in_order_until_one_is_left(sizes: list[tuple[int, int]]) -> None:
    context = context_of(sizes)
    below = {f"s{n}": [f"s{n}"] for n in range(len(sizes))}
    steps = 0
    while work := next_root(context, POLICY, {}):
        sources = [item for item in work.items if isinstance(item, SummaryItem)]
        assert len(sources) == len(work.items) > 1
        assert work.depth == max(item.depth for item in sources) + 1
        assert len(sources) == 2 or token_sum(sources) <= POLICY.leaf_chunk_tokens
        steps += 1
        below[f"r{steps}"] = [leaf for item in sources for leaf in below[item.summary_id]]
        context = list(context_after_fold(context, work, f"r{steps}", max(1, work.tokens // 4)))
    left = [item for item in context if isinstance(item, SummaryItem)]
    assert len(left) == count_roots(context, POLICY) == min(1, len(sizes))
    assert steps < max(1, len(sizes))
    assert [leaf for item in left for leaf in below[item.summary_id]] == [f"s{n}" for n in range(len(sizes))]


def test_messages_between_summaries_keep_them_apart() -> None:
    apart: list[ContextItem] = [
        SummaryItem(0, "a", 0, 90), MessageItem(1, 1, "user", 80, 1), SummaryItem(2, "b", 0, 90),
        MessageItem(3, 2, "user", 80, 2),
    ]  # fmt: skip
    assert next_root(apart, POLICY, {}) is None
    assert count_roots(apart, POLICY) == 2


def test_what_can_be_made_no_smaller_stays(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db", lambda _prompt: "x " * 4_000) as engine:
        engine.append(HERE, talk(40, words=12))
        how = BackfillOptions(fresh_tail=2, single_root=True)
        done = backfill_history(engine.loop, engine.archive.conversations.get(1), how)
        assert done.roots == len(roots(engine, 1))
        again = backfill_history(engine.loop, engine.archive.conversations.get(1), how)
        assert (again.summary_ids, again.tokens_after) == ((), done.tokens_after)
        prove(engine)


def failing(error: Exception) -> Callable[[Prompt], str]:
    def ask(_prompt: Prompt) -> str:
        raise error

    return ask


def test_a_model_that_fails_at_the_root_is_replaced_by_extraction(tmp_path: Path) -> None:
    error = ModelTimeout("gone")
    with open_engine(tmp_path / "lcm.db", failing(error), summary_prefix_target_tokens=3_000) as engine:
        engine.append(HERE, talk(60))
        conversation = engine.archive.conversations.get(1)
        backfill_history(engine.loop, conversation, BackfillOptions(fresh_tail=4))
        assert len(roots(engine, 1)) > 1
        done = backfill_history(
            engine.loop, conversation, BackfillOptions(may_ask_model=True, fresh_tail=4, single_root=True)
        )
        assert (done.roots, done.failure, done.ok) == (1, error.code, True)
        prove(engine)


def test_refused_credentials_end_it_and_the_same_again_goes_on(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db", failing(ModelAuth("no key"))) as engine:
        engine.append(HERE, talk(60))
        conversation = engine.archive.conversations.get(1)
        done = backfill_history(
            engine.loop, conversation, BackfillOptions(may_ask_model=True, fresh_tail=4, single_root=True)
        )
        assert (done.summary_ids, done.roots, done.ok) == ((), None, False)
        assert backfill_history(engine.loop, conversation, BackfillOptions(fresh_tail=4, single_root=True)).roots == 1
        prove(engine)


def test_who_is_summarising_already_is_left_alone(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db", summary_prefix_target_tokens=3_000) as engine:
        engine.append(HERE, talk(60))
        conversation = engine.archive.conversations.get(1)
        with alone(engine.loop, 1):
            assert not backfill_history(engine.loop, conversation, BackfillOptions(fresh_tail=4)).ok
        assert backfill_history(engine.loop, conversation, BackfillOptions(fresh_tail=4)).ok
        before = roots(engine, 1)
        with alone(engine.loop, 1):
            done = backfill_history(engine.loop, conversation, BackfillOptions(fresh_tail=4, single_root=True))
        assert (done.reason, done.ok, roots(engine, 1)) == (CompactionReason.BUSY, False, before)


def test_an_outlook_without_a_model_is_exact(tmp_path: Path) -> None:
    with open_engine(tmp_path / "lcm.db") as engine:
        engine.append(HERE, talk(90))
        conversation = engine.archive.conversations.get(1)
        for how in (BackfillOptions(fresh_tail=4), BackfillOptions(fresh_tail=6, recompact=True, single_root=True)):
            seen = plan_backfill(engine.loop, conversation, how, extracts=True)
            about = plan_backfill(engine.loop, conversation, how, extracts=False)
            done = backfill_history(engine.loop, conversation, how)
            assert [work.depth for work in seen.passes] == [depths(engine, 1)[id_] for id_ in done.summary_ids]
            assert (seen.roots, 0 if seen.unfolded is None else len(seen.unfolded.summary_ids)) == (
                done.roots,
                done.unfolded,
            )
            assert about.passes
        idle = plan_backfill(engine.loop, conversation, BackfillOptions(fresh_tail=6, single_root=True), extracts=True)
        assert idle.is_idle
