"""When to compact, who pays, when it is enough, which rule counts, and what is said about it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.compaction.compactor import (
    CompactionPolicy,
    first_import_policy,
    policy_for,
    policy_from,
    possible_policies,
)
from lossless.compaction.plan import (
    CompactionReason,
    SweepRounds,
    after_round,
    another_round,
    evaluate,
    recovery_rounds,
    schedule_sweep,
    threshold_rounds,
)
from lossless.compaction.run import CompactionReport, conclude
from lossless.errors import BadInput
from lossless.settings import Settings
from lossless.settings.model_rules import ContextThresholdOverride

if TYPE_CHECKING:
    from lossless.compaction.plan import StopReason

POLICY = CompactionPolicy()


@pytest.mark.parametrize(
    ("stored", "observed", "compact", "overhead", "stop_at"),
    [
        pytest.param(750, None, False, 0, None, id="exactly the threshold is not too much"),
        pytest.param(751, None, True, 0, None, id="one more is"),
        pytest.param(700, 750, False, 50, None, id="observed at the threshold"),
        pytest.param(700, 751, True, 51, 699, id="observed above it: the overhead is not ours to fold"),
        pytest.param(800, 600, True, 0, None, id="the larger count decides"),
        pytest.param(800, 760, True, 0, 750, id="observed above the threshold but below stored"),
        pytest.param(10, 5000, True, 4990, 1, id="an overhead above the target leaves one token"),
        pytest.param(0, 0, False, 0, None, id="nothing there"),
        pytest.param(760, -5, True, 0, None, id="a count that cannot be is no observation"),
    ],
)
def test_threshold(stored: int, observed: int | None, compact: bool, overhead: int, stop_at: int | None) -> None:
    decision = evaluate(stored, observed, 1000, POLICY)
    assert decision.target_tokens == 750
    assert (decision.should_compact, decision.overhead, decision.stop_at) == (compact, overhead, stop_at)


def test_a_missing_budget_is_said_aloud() -> None:
    with pytest.raises(BadInput, match="missing token budget"):
        evaluate(700, None, 0, POLICY)


def test_the_budget_is_capped() -> None:
    decision = evaluate(700, None, 9000, replace(POLICY, max_assembly_token_budget=1000))
    assert (decision.budget, decision.target_tokens) == (1000, 750)


@pytest.mark.parametrize(
    ("stored", "policy", "expected"),
    [
        pytest.param(700, POLICY, ("nobody", False), id="below the threshold nobody pays"),
        pytest.param(999, POLICY, ("background", True), id="below the budget no turn waits"),
        pytest.param(1000, POLICY, ("turn", False), id="at the budget the turn folds extractively"),
        pytest.param(
            1000,
            replace(POLICY, hard_limit_summariser="model"),
            ("turn", True),
            id="unless a model is asked for",
        ),
        pytest.param(
            999,
            replace(POLICY, proactive_threshold_compaction_mode="inline"),
            ("turn", True),
            id="inline mode is a choice",
        ),
    ],
)
def test_who_pays(stored: int, policy: CompactionPolicy, expected: tuple[str, bool]) -> None:
    assert schedule_sweep(evaluate(stored, None, 1000, policy), policy) == expected


@given(st.integers(0, 2000), st.none() | st.integers(0, 2000), st.integers(1, 2000), st.floats(0, 1))
def test_a_decision_holds_together(stored: int, observed: int | None, budget: int, threshold: float) -> None:
    policy = replace(POLICY, context_threshold=threshold)
    decision = evaluate(stored, observed, budget, policy)
    assert decision.should_compact is (max(stored, observed or 0) > int(threshold * budget))
    assert (decision.pressure == "none") is not (decision.should_compact or decision.current_tokens >= budget)
    if decision.stop_at is not None:
        assert decision.should_compact
        assert decision.is_under(decision.stop_at) or decision.stop_at == 1


@pytest.mark.parametrize(
    ("budget", "target"),
    [(128_000, 20_000), (32_000, 12_000), (4_000, 2_000), (1, 2_000)],
)
def test_prefix_target(budget: int, target: int) -> None:
    assert POLICY.prefix_target(budget) == target
    assert replace(POLICY, summary_prefix_target_tokens=7).prefix_target(budget) == 7


@pytest.mark.parametrize(("tokens", "target"), [(0, 192), (600, 210), (5_000, 1_750), (20_000, 2_400)])
def test_leaf_target(tokens: int, target: int) -> None:
    assert POLICY.leaf_target(tokens) == target


def test_chained_sweeps_stop_when_under_or_without_progress_or_at_their_bounds() -> None:
    chain = threshold_rounds(evaluate(900, 950, 1000, POLICY), POLICY, now=0.0)
    assert another_round(chain, 299.9)
    assert not another_round(chain, 300.0)
    assert not another_round(after_round(chain, 700), 1.0), "700 and 50 of overhead are the target"
    assert another_round(after_round(chain, 701), 1.0)
    assert not another_round(after_round(chain, 900), 1.0), "no progress"
    for stored in range(899, 899 - 12, -1):
        assert another_round(chain, 1.0)
        chain = after_round(chain, stored)
    assert not another_round(chain, 1.0), "twelve sweeps"


def test_recovery_compacts_at_the_budget_itself_and_gives_up_after_ten_rounds() -> None:
    exact = recovery_rounds(evaluate(1000, None, 1000, POLICY), POLICY, 0.0)
    assert another_round(exact, 0.0)
    assert not another_round(after_round(exact, 1000), 0.0), "after a sweep, the target is reached"
    below = evaluate(999, None, 1000, POLICY)
    assert not another_round(recovery_rounds(below, POLICY, 0.0), 0.0)
    assert another_round(recovery_rounds(below, POLICY, 0.0, force=True), 0.0), "a forced one believes the host"
    observed = evaluate(500, 600, 1000, POLICY)
    assert not another_round(recovery_rounds(observed, POLICY, 0.0, force=True), 0.0)
    assert another_round(recovery_rounds(observed, POLICY, 0.0, target=400), 0.0)
    rounds, chain = 0, recovery_rounds(evaluate(5000, None, 1000, POLICY), POLICY, 0.0)
    while another_round(chain, 0.0):
        rounds, chain = rounds + 1, after_round(chain, chain.tokens - 1)
    assert rounds == 10


@pytest.mark.parametrize(
    ("stored", "overhead", "stop", "folds", "expected"),
    [
        (750, 0, "nothing left", 2, CompactionReport(True, True, CompactionReason.COMPACTED)),
        (751, 0, "iterations", 2, CompactionReport(True, True, CompactionReason.STILL_OVER)),
        (751, 0, "nothing left", 2, CompactionReport(True, True, CompactionReason.STILL_OVER, exhausted=True)),
        (750, 0, "nothing left", 0, CompactionReport(True, False, CompactionReason.ALREADY_UNDER)),
        (751, 0, "nothing left", 0, CompactionReport(False, False, CompactionReason.LIVE_OVER, exhausted=True)),
        (700, 51, "nothing left", 0, CompactionReport(False, False, CompactionReason.EXHAUSTED, exhausted=True)),
        (700, 51, "no progress", 0, CompactionReport(False, False, CompactionReason.LIVE_OVER)),
        (900, 0, "auth failure", 0, CompactionReport(False, False, CompactionReason.AUTH)),
        (900, 0, "auth failure", 1, CompactionReport(False, True, CompactionReason.AUTH_PARTIAL)),
        (900, 0, "breaker open", 0, CompactionReport(True, False, CompactionReason.BREAKER)),
        (900, 0, "spend backoff", 0, CompactionReport(False, False, CompactionReason.SPEND)),
        (900, 0, "model denied", 0, CompactionReport(False, False, CompactionReason.MODEL_DENIED)),
    ],
)
def test_what_is_said_about_it(
    stored: int, overhead: int, stop: StopReason, folds: int, expected: CompactionReport
) -> None:
    chain = SweepRounds(750, stored + overhead, overhead, 12, 300.0, rounds=1)
    assert conclude(chain, stop, folds) == expected


def test_a_manual_compaction_without_work_is_no_failure() -> None:
    chain = SweepRounds(750, 900, 0, 1, 300.0, rounds=1)
    assert conclude(chain, "nothing left", 0, manual=True) == CompactionReport(True, False, CompactionReason.NOTHING)


def test_a_recovery_that_ends_over_its_target_failed() -> None:
    chain = SweepRounds(1000, 1001, 0, 10, 300.0, strict=True, rounds=1)
    assert conclude(chain, "nothing left", 3) == CompactionReport(
        False, True, CompactionReason.NOT_REACHED, exhausted=True
    )


RULES = (
    ContextThresholdOverride(context_threshold=0.1, name="any cron", session_pattern="agent:*:cron:**"),
    ContextThresholdOverride(context_threshold=0.2, name="small windows", model_context_window_max=32_000),
    ContextThresholdOverride(
        context_threshold=0.3, name="middle windows", model_context_window_min=10_000, model_context_window_max=40_000
    ),
    ContextThresholdOverride(
        context_threshold=0.4, name="one model", model="claude-x", fresh_tail_count=8, leaf_chunk_tokens=900
    ),
    ContextThresholdOverride(context_threshold=0.5, name="the same model, later", model="anthropic/claude-x"),
    ContextThresholdOverride(
        context_threshold=0.6, name="one model in cron", model="claude-x", session_pattern="agent:main:cron:**"
    ),
)
SETTINGS = Settings(context_threshold_overrides=RULES)


@pytest.mark.parametrize(
    ("model", "window", "session", "threshold"),
    [
        pytest.param(None, None, "agent:main:main", 0.75, id="no rule matches"),
        pytest.param("openai/gpt", None, "agent:main:cron:a", 0.1, id="a session pattern"),
        pytest.param(None, 8_000, "s", 0.2, id="a window bound"),
        pytest.param(None, 32_000, "s", 0.3, id="a bound is inclusive"),
        pytest.param(None, 10_000, "s", 0.3, id="either bound is inclusive"),
        pytest.param(None, 40_000, "s", 0.3, id="the wider bound"),
        pytest.param(None, 20_000, "s", 0.3, id="two bounds are more specific than one"),
        pytest.param(None, 20_000, "agent:main:cron:a", 0.1, id="a pattern beats two bounds"),
        pytest.param("claude-x", None, "s", 0.4, id="a bare model"),
        pytest.param("anthropic/claude-x", None, "s", 0.4, id="a tie goes to the first"),
        pytest.param("router/anthropic/claude-x", None, "s", 0.5, id="a model of a router has a slash of its own"),
        pytest.param("anthropic/claude-x", 20_000, "agent:main:cron:a", 0.6, id="model and pattern beat all"),
        pytest.param("other/claude-xx", None, "s", 0.75, id="models match exactly"),
    ],
)
def test_the_most_specific_rule_counts(model: str | None, window: int | None, session: str, threshold: float) -> None:
    policy = policy_for(SETTINGS, model=model, window=window, session=session)
    assert policy.context_threshold == threshold
    assert policy.context_threshold_source == ("global" if threshold == 0.75 else "override")


def test_a_rule_changes_every_number_it_names_and_no_other() -> None:
    policy = policy_for(SETTINGS, model="claude-x")
    assert (policy.fresh_tail_count, policy.leaf_chunk_tokens) == (8, 900)
    assert policy.prefix_target(128_000) == 2_000, "the chunk of the rule counts here, too"
    assert policy_for(SETTINGS, window=8_000).fresh_tail_count == 64
    assert policy_for(Settings(context_threshold_overrides=RULES[1:2]), window=32_000).context_threshold == 0.2
    assert policy in possible_policies(SETTINGS)


def test_a_policy_from_settings() -> None:
    settings = Settings(context_threshold=0.5, fresh_tail_count=7, sweep_deadline_ms=9)
    policy = policy_from(settings)
    assert (policy.context_threshold, policy.fresh_tail_count, policy.sweep_deadline_ms) == (0.5, 7, 9)
    bare = replace(policy_from(Settings(fresh_tail_max_tokens=-1)), bootstrap_max_tokens=None)
    assert replace(bare, least_leaf_share=0.0) == POLICY, "without a cap on the tail it is the reference's"


def test_the_tail_and_the_least_leaf_follow_the_history_budget() -> None:
    policy = policy_from(Settings()).within(40_000)
    assert (policy.fresh_tail_max_tokens, policy.least_leaf_tokens) == (12_000, 10_000)
    assert policy.condensed_target_tokens == 2_000
    small = policy_from(Settings()).within(16_000)
    assert (small.least_leaf_tokens, small.leaf_target_tokens, small.condensed_target_tokens) == (8_800, 1_600, 1_600)
    assert small.prefix_target(16_000) == 3_200, "summaries take a small share of a small budget"
    given = [policy_from(Settings(leaf_target_tokens=tokens)).within(16_000) for tokens in (300, 3_000, 9_000)]
    assert [policy.leaf_target_tokens for policy in given] == [300, 3_000, 3_520], "a length that is set holds"
    assert policy_from(Settings()).within(1_000_000).least_leaf_tokens == 10_000, "half a chunk is always enough"
    assert policy_from(Settings(fresh_tail_max_tokens=5)).within(40_000).fresh_tail_max_tokens == 5
    unlimited = policy_from(Settings(fresh_tail_max_tokens=-1)).within(16_000)
    assert (unlimited.fresh_tail_max_tokens, unlimited.leaf_target_tokens) == (None, 2_400), "as the reference has it"


def test_a_sweep_takes_more_of_the_tail_where_the_budget_is_small() -> None:
    policy = policy_from(Settings())
    assert policy.sweeping(16_000).fresh_tail_max_tokens == 2_400, "half of what a prompt keeps"
    assert policy.sweeping(16_000).least_leaf_tokens == policy.within(16_000).least_leaf_tokens
    assert policy.sweeping(40_000) == policy.within(40_000)
    given = policy_from(Settings(fresh_tail_max_tokens=5_000))
    assert given.sweeping(16_000) == given.within(16_000), "a number that is set holds"
    unlimited = policy_from(Settings(fresh_tail_max_tokens=-1))
    assert unlimited.sweeping(16_000).fresh_tail_max_tokens is None
    assert POLICY.sweeping(16_000) == POLICY.within(16_000), "nothing of it without the least leaf"


def test_a_first_import_keeps_tokens_not_messages() -> None:
    assert first_import_policy(POLICY).fresh_tail_max_tokens == 6_000
    assert first_import_policy(replace(POLICY, leaf_chunk_tokens=40_000)).fresh_tail_max_tokens == 12_000
    assert first_import_policy(replace(POLICY, bootstrap_max_tokens=5)).fresh_tail_max_tokens == 5
