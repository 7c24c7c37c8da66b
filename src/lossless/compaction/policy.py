"""Every number that decides when and what to fold, and the rules that change them for some sessions."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from lossless.compaction.prompts import LEAST_CONDENSED_TARGET, LEAST_LEAF_TARGET, condensed_target, leaf_target
from lossless.settings.overrides import choose

if TYPE_CHECKING:
    from lossless.settings import Settings
    from lossless.settings.overrides import ContextThresholdOverride

#: What the fresh tail may take of the history budget unless `freshTailMaxTokens` says otherwise.
TAIL_SHARE = 0.30
#: A leaf is not made of less than this share of the history budget while more messages may join it.
LEAST_LEAF_SHARE = 0.55
#: Where the history budget is so small that this share decides, a sweep leaves so much of the tail's cap, so that there
#: is something to fold.
SWEPT_TAIL_SHARE = 0.5
#: Summaries take at most this share of the history budget each, however long they may be by the settings, and are
#: condensed once they take more than the other together: else a small budget is folded nearly every turn.
SUMMARY_SHARE, PREFIX_SHARE = 0.06, 0.15

Source = Literal["global", "override"]
Mode = Literal["deferred", "inline"]
HardLimitSummariser = Literal["extractive", "model"]


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """The values that all planners share; field names are the settings' keys in snake case."""

    context_threshold: float = 0.75
    context_threshold_source: Source = "global"
    fresh_tail_count: int = 64
    fresh_tail_max_tokens: int | None = None
    #: The cap on the tail as a share of the history budget, where no number is set; None is no cap.
    tail_share: float | None = None
    #: The newest messages before the tail are folded once they are so many tokens, so that no leaf is tiny: a share of
    #: the history budget, and what it comes to.
    least_leaf_share: float = 0.0
    least_leaf_tokens: int = 0
    #: Most source tokens of one pass, for leaves and condensed summaries alike.
    leaf_chunk_tokens: int = 20_000
    #: Fewest neighbours that are condensed: depth 0, deeper, and under pressure at any depth.
    leaf_min_fanout: int = 8
    condensed_min_fanout: int = 4
    condensed_min_fanout_hard: int = 2
    #: Summaries this deep are condensed only under pressure; -1 is no limit.
    sweep_max_depth: int = 1
    leaf_target_tokens: int = 2_400
    condensed_target_tokens: int = 2_000
    summary_prefix_target_tokens: int | None = None
    max_sweep_iterations: int = 12
    max_rounds: int = 10
    sweep_deadline_ms: int = 120_000
    compact_until_under_deadline_ms: int = 300_000
    max_assembly_token_budget: int | None = None
    bootstrap_max_tokens: int | None = None
    #: Of a turn that alone exceeds the budget, the user message and this many newest messages stay.
    turn_verbatim_count: int = 8
    proactive_threshold_compaction_mode: Mode = "deferred"
    hard_limit_summariser: HardLimitSummariser = "extractive"

    def within(self, history: int) -> CompactionPolicy:
        """The policy for a history budget of so many tokens: what follows from it is in numbers."""
        cap = self.fresh_tail_max_tokens if self.tail_share is None else int(self.tail_share * history)
        least = min(int(self.least_leaf_share * history), self.leaf_chunk_tokens // 2)
        held = replace(self, fresh_tail_max_tokens=cap, tail_share=None, least_leaf_tokens=least)
        return held._with_short_summaries(history) if self.least_leaf_share else held

    def sweeping(self, history: int) -> CompactionPolicy:
        """The policy within a history budget for a sweep, which takes more when it seldom gets enough."""
        held = self.within(history)
        if self.tail_share is None or not 0 < held.least_leaf_tokens < self.leaf_chunk_tokens // 2:
            return held
        return replace(held, fresh_tail_max_tokens=int(SWEPT_TAIL_SHARE * self.tail_share * history))

    def _with_short_summaries(self, history: int) -> CompactionPolicy:
        """Where the budget is small, summaries are shorter and are condensed sooner."""
        leaf = min(self.leaf_target_tokens, max(LEAST_LEAF_TARGET, int(SUMMARY_SHARE * history)))
        condensed = min(self.condensed_target_tokens, max(LEAST_CONDENSED_TARGET, int(SUMMARY_SHARE * history)))
        prefix = self.summary_prefix_target_tokens
        if prefix is None and condensed < self.condensed_target_tokens:
            prefix = int(PREFIX_SHARE * history)
        return replace(
            self,
            leaf_target_tokens=leaf,
            condensed_target_tokens=condensed,
            summary_prefix_target_tokens=prefix,
        )

    def capped(self, budget: int) -> int:
        """The budget that counts: never above `max_assembly_token_budget`."""
        return budget if self.max_assembly_token_budget is None else min(budget, self.max_assembly_token_budget)

    def threshold_tokens(self, budget: int) -> int:
        """More tokens than this, and it is time to compact."""
        return int(self.context_threshold * self.capped(budget))

    def prefix_target(self, budget: int) -> int:
        """How many tokens of summaries may stand before the fresh tail until they are condensed."""
        if self.summary_prefix_target_tokens is not None:
            return self.summary_prefix_target_tokens
        half = int(max(1, self.threshold_tokens(budget)) * 0.5)
        return max(self.condensed_target_tokens, min(self.leaf_chunk_tokens, half))

    def leaf_target(self, source_tokens: int) -> int:
        """How long a leaf over so many tokens should be."""
        return leaf_target(source_tokens, self.leaf_target_tokens)

    def condensed_target(self) -> int:
        """How long a condensed summary should be."""
        return condensed_target(self.condensed_target_tokens)

    def condensed_least_tokens(self) -> int:
        """Fewer source tokens than this are not worth condensing."""
        if self.least_leaf_tokens and self.summary_prefix_target_tokens is not None:
            return min(int(1.5 * self.condensed_target_tokens), int(0.1 * self.leaf_chunk_tokens))
        return max(self.condensed_target_tokens, int(0.1 * self.leaf_chunk_tokens))

    def fanout(self, depth: int, *, pressure: bool) -> int:
        """The fewest neighbours of a depth that are condensed together."""
        routine = self.leaf_min_fanout if depth == 0 else self.condensed_min_fanout
        return max(2, self.condensed_min_fanout_hard if pressure else routine)


def policy_from(settings: Settings) -> CompactionPolicy:
    """The policy that settings describe, before any rule for some sessions."""
    values = {field.name: getattr(settings, field.name, None) for field in fields(CompactionPolicy)}
    policy = CompactionPolicy(**cast("dict[str, Any]", {name: v for name, v in values.items() if v is not None}))
    policy = replace(policy, least_leaf_share=LEAST_LEAF_SHARE)
    if policy.fresh_tail_max_tokens is None:
        return replace(policy, tail_share=TAIL_SHARE)
    return policy if policy.fresh_tail_max_tokens >= 0 else replace(policy, fresh_tail_max_tokens=None)


def tail_cap(settings: Settings) -> int | None:
    """The cap on the fresh tail under the default budget; None when there is none."""
    return policy_from(settings).within(settings.default_token_budget).fresh_tail_max_tokens


def policy_for(
    settings: Settings, *, model: str | None = None, window: int | None = None, session: str = ""
) -> CompactionPolicy:
    """The policy for one session: the rule that fits best applied; `model` may be written `provider/model`."""
    provider, _, bare = (model or "").partition("/")
    rule = choose(
        settings.context_threshold_overrides,
        provider=provider if bare else None,
        model=bare or provider or None,
        window=window,
        session=session,
    )
    policy = policy_from(settings)
    return policy if rule is None else applied(policy, rule)


def applied(policy: CompactionPolicy, rule: ContextThresholdOverride) -> CompactionPolicy:
    """The policy with a rule's numbers: one value, used by every planner."""
    return replace(
        policy,
        context_threshold=rule.context_threshold,
        context_threshold_source="override",
        fresh_tail_count=_or(rule.fresh_tail_count, policy.fresh_tail_count),
        leaf_chunk_tokens=_or(rule.leaf_chunk_tokens, policy.leaf_chunk_tokens),
    )


def possible_policies(settings: Settings) -> tuple[CompactionPolicy, ...]:
    """All policies that these settings can still give to some session."""
    policy = policy_from(settings)
    return (policy, *(applied(policy, rule) for rule in settings.context_threshold_overrides))


def first_import_policy(policy: CompactionPolicy) -> CompactionPolicy:
    """What stays raw of a first import: the newest `bootstrap_max_tokens`, however many messages."""
    raw = _or(policy.bootstrap_max_tokens, max(6_000, int(policy.leaf_chunk_tokens * 0.3)))
    unlimited = 2**62
    return replace(
        policy,
        fresh_tail_count=unlimited,
        fresh_tail_max_tokens=raw,
        tail_share=None,
        least_leaf_share=0.0,
        max_sweep_iterations=unlimited,
    )


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
