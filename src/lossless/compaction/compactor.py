"""Keep each context within its budget: the policy of a session, its history budget learned from the provider's
counts, compaction after a turn, and pending compactions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from math import ceil
from typing import TYPE_CHECKING, Any, Literal, cast

from lossless.compaction import plan, run
from lossless.compaction.plan import (
    CompactionDecision,
    CompactionReason,
    SweepRounds,
    evaluate,
    recovery_rounds,
    schedule_sweep,
)
from lossless.compaction.summarise import (
    DEFAULT_LEAF_TARGET,
    MIN_CONDENSED_TARGET,
    MIN_LEAF_TARGET,
    WrittenSummary,
    condensed_target,
    leaf_target,
)
from lossless.compaction.summariser import Summariser, lease_name
from lossless.llm.calibration import Calibration, observe_count, safety_factor
from lossless.llm.response import read_usage
from lossless.model.budget import TAIL_SHARE, BudgetMemory, HistoryBudget, choose_budget, learn_frame
from lossless.model.context import PAST_RESULT_SHARE, framed_tokens, shown_tokens
from lossless.model.records import CompactionDebt, ThresholdSource
from lossless.model.times import parse_time
from lossless.settings.model_rules import ContextThresholdOverride, choose_override
from lossless.store.state import MAX_SWEEP_TIME, CacheObservation

if TYPE_CHECKING:
    from lossless.model.conversations import Conversation
    from lossless.settings import Settings
    from lossless.store.archive import Archive

#: What a provider counts beyond what we count takes at most this share of a window, whatever one report says.
_MAX_FRAME_SHARE = 0.75
#: A report of more than so many windows is about something else.
_MAX_WINDOWS = 2
#: A reply is given what the longest has taken, and so much more; before there was one, one in so many parts of the
#: window; and never more than another.
_REPLY_SPARE, _FIRST_REPLY, _MOST_REPLY = 1.25, 8, 4


def model_calibration(archive: Archive, model: str) -> Calibration:
    """What is known of a model's tokenizer."""
    known = archive.guards.factor(model)
    return Calibration(model) if known is None else Calibration(model, *known)


def history_budget_for(
    archive: Archive,
    request: CompactionRequest,
    policy: CompactionPolicy,
    kept: BudgetMemory | None,
    size: int,
    *,
    again: bool = False,
) -> HistoryBudget:
    """The budget that holds for a context of this size; `again` for one that is about to be folded whatever its size.

    What the request does not say is as it was.
    """
    window, model = policy.capped(request.budget), request.model
    known = HistoryBudget(window) if kept is None or kept.budget.window != window else kept.budget
    spare = request.budget - window  # what a setting leaves of the window has room for some of the rest
    now = HistoryBudget(
        window,
        known.overhead if request.overhead is None else max(0, request.overhead - spare),
        0 if kept is None else min(kept.frame, int(_MAX_FRAME_SHARE * window)),
        known.reply if request.reply is None else request.reply,
        known.factor if model is None else safety_factor(model_calibration(archive, model)),
    )
    return choose_budget(None if kept is None or again else kept.budget, now, size, policy.context_threshold)


def record_token_count(
    archive: Archive, model: str, estimated: int, reported: int, now: datetime, *, refused: bool
) -> None:
    """Record how many tokens a provider counted in a prompt of so many by our estimate; in a transaction."""
    record = model_calibration(archive, model)
    taught = observe_count(record, estimated, reported, refused=refused)
    if taught != record:
        archive.guards.set_factor(taught.model, taught.ratio, taught.spread, taught.observations, now)


def learn_from_usage(
    archive: Archive,
    request: CompactionRequest,
    reported: int,
    sent: int | None,
    now: datetime,
    *,
    was_refused: bool = False,
) -> None:
    """Learn from a prompt of `sent` estimated tokens, for which a provider `reported` so many; in a transaction.

    A report about a prompt that is not ours says nothing about what is sent in addition, and teaches the factor only.
    """
    id_, model = request.conversation.id, request.model
    kept = archive.guards.history(id_) or BudgetMemory(HistoryBudget(request.budget, overhead=request.overhead or 0))
    overhead = kept.budget.overhead if request.overhead is None else request.overhead
    record = None if model is None else model_calibration(archive, model)
    is_ours = sent is not None or request.overhead is not None
    stored = archive.context_budget(id_)
    size = overhead + (sent if sent is not None else stored if stored <= request.budget else 0)
    if size <= overhead or (not was_refused and reported > _MAX_WINDOWS * max(request.budget, size)):
        return
    after = kept
    if is_ours and not (was_refused and record is not None):
        seen = replace(kept, budget=replace(kept.budget, overhead=overhead, window=request.budget))
        after = replace(learn_frame(seen, size, None if record is None else record.ratio, reported), budget=kept.budget)
    if after != kept:
        archive.guards.set_history(id_, after, now)
    if model is not None:
        record_token_count(archive, model, size, reported - (after.frame if is_ours else 0), now, refused=was_refused)


def reply_reserve(kept: BudgetMemory | None, window: int, most_output: int) -> int:
    """What a reply is given of a window: what replies have needed, never more than the request lets them have."""
    known = 0 if kept is None else kept.longest_reply
    wanted = int(known * _REPLY_SPARE) if known else window // _FIRST_REPLY
    wanted = min(wanted, window // _MOST_REPLY)
    return min(wanted, most_output) if most_output else (wanted if known else 0)


def record_reply_length(archive: Archive, conversation_id: int, tokens: int, now: datetime) -> None:
    """Remember how long a reply was, if it is the longest; in a transaction."""
    kept = archive.guards.history(conversation_id)
    if kept is not None and tokens > kept.longest_reply:
        archive.guards.set_history(conversation_id, replace(kept, longest_reply=tokens), now)


def parse_usage(usage: Mapping[str, object] | None, model: str | None) -> CacheObservation:
    """A provider's usage report in any of the common spellings."""
    if usage is None:
        return CacheObservation(None, model=model)
    found = read_usage(usage)
    tokens = found.input_tokens or None
    return CacheObservation(tokens, found.cache_read, found.cache_write, None, model, found.output_tokens)


#: A leaf is not made of less than this share of the history budget while more messages may join it.
MIN_LEAF_SHARE = 0.55
#: Where the history budget is so small that this share decides, a sweep leaves so much of the tail's cap, so that there
#: is something to fold.
SWEPT_TAIL_SHARE = 0.5
#: So much more than must leave the context is folded by leaves of equal size, since messages are not cut.
NEED_FACTOR = 1.1
#: About what the estimate for budgets says of a text for each token that is counted for it.
BUDGET_OVER_COUNT = 1.35
#: Summaries take at most this share of the history budget each, and are condensed once they take more than the other
#: together: else a small budget is folded nearly every turn.
SHORT_SUMMARY_SHARE, PREFIX_SHARE = 0.1, 0.2
#: A leaf whose length was set takes at most this share, so that a few of them fit.
SET_LEAF_SHARE = 0.22
CompactionMode = Literal["deferred", "inline"]
HardLimitSummariser = Literal["extractive", "model"]


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """The values that all planners share; field names are the settings' keys in snake case."""

    context_threshold: float = 0.75
    context_threshold_source: ThresholdSource = "global"
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
    leaf_target_tokens: int = DEFAULT_LEAF_TARGET
    condensed_target_tokens: int = 2_000
    summary_prefix_target_tokens: int | None = None
    #: Of the history budget, so much may stay in the context after a sweep at the threshold; 0 folds all it can.
    sweep_target_fraction: float = 0.0
    max_sweep_iterations: int = 12
    #: Fold summaries until one covers all before the tail.
    single_root: bool = False
    max_rounds: int = 10
    sweep_deadline_ms: int = 120_000
    compact_until_under_deadline_ms: int = 300_000
    max_assembly_token_budget: int | None = None
    bootstrap_max_tokens: int | None = None
    #: Of a turn that alone exceeds the budget, the user message and this many newest messages stay.
    turn_verbatim_count: int = 8
    proactive_threshold_compaction_mode: CompactionMode = "deferred"
    hard_limit_summariser: HardLimitSummariser = "extractive"

    @property
    def has_capped_tail(self) -> bool:
        """Whether older messages make way for summaries; not as the reference has it."""
        return self.tail_share is not None or self.fresh_tail_max_tokens is not None

    def within(self, history: int) -> CompactionPolicy:
        """The policy for a history budget of so many tokens: what follows from it is in numbers."""
        cap = self.fresh_tail_max_tokens if self.tail_share is None else int(self.tail_share * history)
        minimum = min(int(self.least_leaf_share * history), self.leaf_chunk_tokens // 2)
        held = replace(self, fresh_tail_max_tokens=cap, tail_share=None, least_leaf_tokens=minimum)
        if not self.least_leaf_share or not self.has_capped_tail:
            return held
        # where the budget is small, summaries are shorter and are condensed sooner
        share = SHORT_SUMMARY_SHARE if self.leaf_target_tokens == DEFAULT_LEAF_TARGET else SET_LEAF_SHARE
        leaf = min(self.leaf_target_tokens, max(MIN_LEAF_TARGET, int(share * history)))
        condensed = min(self.condensed_target_tokens, max(MIN_CONDENSED_TARGET, int(SHORT_SUMMARY_SHARE * history)))
        prefix = self.summary_prefix_target_tokens
        if prefix is None and condensed < self.condensed_target_tokens:
            prefix = int(PREFIX_SHARE * history)
        return replace(
            held, leaf_target_tokens=leaf, condensed_target_tokens=condensed, summary_prefix_target_tokens=prefix
        )

    def sweeping(self, history: int) -> CompactionPolicy:
        """The policy within a history budget for a sweep, which takes more when it seldom gets enough."""
        held = self.within(history)
        if self.tail_share is None or not 0 < held.least_leaf_tokens < self.leaf_chunk_tokens // 2:
            return held
        return replace(held, fresh_tail_max_tokens=int(SWEPT_TAIL_SHARE * self.tail_share * history))

    def capped(self, budget: int) -> int:
        """The budget that counts: never above `max_assembly_token_budget`."""
        return budget if self.max_assembly_token_budget is None else min(budget, self.max_assembly_token_budget)

    def threshold_tokens(self, budget: int) -> int:
        """More tokens than this, and it is time to compact."""
        return int(self.context_threshold * self.capped(budget))

    def sweep_target(self, budget: int) -> int | None:
        """At this size a sweep at the threshold stops folding messages; None folds all before the tail."""
        if not self.sweep_target_fraction:
            return None
        return min(int(self.sweep_target_fraction * self.capped(budget)), self.threshold_tokens(budget))

    def leaf_most(self, until: int, budget: int) -> int:
        """What a leaf's sources take in a prompt at most, so that a sweep that stops at a size ends close to it."""
        need = NEED_FACTOR * (self.threshold_tokens(budget) - until)
        itself = framed_tokens(int(BUDGET_OVER_COUNT * self.leaf_target_tokens))
        leaves = max(1, ceil(need / max(1, self.leaf_chunk_tokens - itself)))
        return max(self.least_leaf_tokens, int(need / leaves) + itself)

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
    policy = replace(policy, least_leaf_share=MIN_LEAF_SHARE)
    if policy.fresh_tail_max_tokens is None:
        return replace(policy, tail_share=TAIL_SHARE)
    return policy if policy.fresh_tail_max_tokens >= 0 else replace(policy, fresh_tail_max_tokens=None)


def policy_for(
    settings: Settings, *, model: str | None = None, window: int | None = None, session: str = ""
) -> CompactionPolicy:
    """The policy for one session: the rule that fits best applied; `model` may be written `provider/model`."""
    provider, _, bare = (model or "").partition("/")
    rules, owner, name = settings.context_threshold_overrides, provider if bare else None, bare or provider or None
    rule = choose_override(rules, provider=owner, model=name, window=window, session=session)
    policy = policy_from(settings)
    return policy if rule is None else apply_override(policy, rule)


def apply_override(policy: CompactionPolicy, rule: ContextThresholdOverride) -> CompactionPolicy:
    """The policy with a rule's numbers: one value, used by every planner."""
    numbers = {"fresh_tail_count": rule.fresh_tail_count, "leaf_chunk_tokens": rule.leaf_chunk_tokens}
    given: dict[str, Any] = {name: number for name, number in numbers.items() if number is not None}
    return replace(policy, context_threshold=rule.context_threshold, context_threshold_source="override", **given)


def possible_policies(settings: Settings) -> tuple[CompactionPolicy, ...]:
    """All policies that these settings can still give to some session."""
    policy = policy_from(settings)
    return (policy, *(apply_override(policy, rule) for rule in settings.context_threshold_overrides))


def first_import_policy(policy: CompactionPolicy, *, single_root: bool = False) -> CompactionPolicy:
    """What stays raw of a first import: the newest `bootstrap_max_tokens`, however many messages."""
    raw, unlimited = policy.bootstrap_max_tokens, 2**62
    if raw is None:
        raw = max(6_000, int(policy.leaf_chunk_tokens * 0.3))
    policy = replace(policy, fresh_tail_count=unlimited, fresh_tail_max_tokens=raw, tail_share=None)
    return replace(policy, least_leaf_share=0.0, max_sweep_iterations=unlimited, single_root=single_root)


#: From this share of the threshold on, summaries are prepared.
_PREPARE_FROM = 0.5
_MAX_POLICIES = 1000


@dataclass(frozen=True, slots=True)
class CompactionRequest:
    """A conversation, its budget, and what its host reports: all that a decision depends on."""

    conversation: Conversation
    budget: int
    observed_tokens: int | None = None
    model: str | None = None
    window: int | None = None
    #: Estimated tokens of what is sent besides the conversation, and what the reply is given; None: as it was last.
    overhead: int | None = None
    reply: int | None = None


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """What a turn did about the size of its context."""

    decision: CompactionDecision
    report: run.CompactionReport | None = None
    #: Whether a sweep was deferred.
    owes: bool = False
    history: HistoryBudget | None = None
    #: Whether summaries may be written ahead now.
    prepares: bool = False


@dataclass(frozen=True, slots=True)
class Compactor:
    """Keeps contexts within their budgets."""

    archive: Archive
    settings: Settings
    summariser: Summariser
    clock: Callable[[], datetime]
    #: What a turn may spend on folding when its context is at the budget.
    turn_seconds: float = 2.0
    crew_tokens: int = run.POOL_MIN_TOKENS
    _policies: dict[tuple[str | None, int | None, str], CompactionPolicy] = field(default_factory=dict)

    def policy(self, request: CompactionRequest) -> CompactionPolicy:
        """The numbers that hold for a session, by the most specific rule."""
        conversation = request.conversation
        who = (request.model, request.window, conversation.session_key or conversation.session_id)
        found = self._policies.get(who)
        if found is None:
            found = policy_for(self.settings, model=who[0], window=who[1], session=who[2])
            if len(self._policies) < _MAX_POLICIES:
                self._policies[who] = found
        return found

    def history(
        self, request: CompactionRequest, policy: CompactionPolicy | None = None, *, again: bool = False
    ) -> HistoryBudget:
        """How much of the window is the conversation's: one number for folding and assembling."""
        id_ = request.conversation.id
        kept, size = self.archive.guards.history(id_), framed_tokens(*self.archive.context_size(id_))
        return history_budget_for(self.archive, request, policy or self.policy(request), kept, size, again=again)

    def evaluate(self, request: CompactionRequest, policy: CompactionPolicy | None = None) -> CompactionDecision:
        """How full the context is; exact where it matters, counted along where it does not."""
        policy = policy or self.policy(request)
        return self._evaluate(request, policy, self.history(request, policy))

    def _evaluate(
        self,
        request: CompactionRequest,
        policy: CompactionPolicy,
        history: HistoryBudget,
        size: tuple[int, int] | None = None,
    ) -> CompactionDecision:
        id_, budget = request.conversation.id, history.tokens
        stored, items = size or self.archive.context_size(id_)
        framing, threshold = framed_tokens(0, items), policy.threshold_tokens(budget)
        if stored + framing > threshold:
            framing = self._framing(id_)
        if stored + framing > threshold:
            stored = self._shown(id_, budget, policy)
        seen = request.observed_tokens
        observed = None if seen is None or seen < 0 else history.in_history(seen)
        return evaluate(stored, observed, budget, policy, framing=framing)

    def _shown(self, conversation_id: int, budget: int, policy: CompactionPolicy) -> int:
        """What the items of a context take in a prompt without their frames: what is shown in part, only so much."""
        context, has_past = self.archive.context, policy.has_capped_tail
        longer = context.longer_than(conversation_id, int(PAST_RESULT_SHARE * budget) if has_past else budget)
        spared = sum(
            size - shown_tokens(role, size, budget, is_past=has_past and bool(is_past))
            for role, size, is_past in longer
        )
        return context.budget_tokens(conversation_id) - spared

    def _framing(self, conversation_id: int) -> int:
        return framed_tokens(0, self.archive.context.counts(conversation_id)[0])

    def after_turn(self, request: CompactionRequest) -> TurnOutcome:
        """Put a sweep off, or fold at once when the context is at its budget (or inline mode was chosen)."""
        policy, id_ = self.policy(request), request.conversation.id
        kept, size = self.archive.guards.history(id_), self.archive.context_size(id_)
        history = history_budget_for(self.archive, request, policy, kept, framed_tokens(*size))
        decision = self._evaluate(request, policy, history, size)
        if kept is None or kept.budget != history:
            self._keep(request, history)
        payer, may_ask_model = schedule_sweep(decision, policy)
        if payer == "nobody":
            return TurnOutcome(decision, history=history, prepares=self._prepares(decision))
        if payer == "background":
            report = None
            if self.settings.prepare_summaries:  # fold by those that were prepared, without asking anybody
                made = self._compact(request, policy, decision, "turn", only_prepared=True)
                report = made if made.compacted else None
            owes = report is None or not decision.is_under(report.tokens_after + self._framing(id_))
            if owes:
                self.defer(request, decision)
            return TurnOutcome(decision, report and replace(report, history=history), owes, history)
        seconds, is_forced = None if may_ask_model else self.turn_seconds, decision.pressure == "hard"
        how = {"may_ask_model": may_ask_model, "takes_over": not may_ask_model, "is_forced": is_forced}
        report = self._compact(request, policy, decision, "turn", seconds=seconds, **how)
        remaining = self._shown(id_, history.tokens, policy) + self._framing(id_)
        owes = not decision.is_under(remaining) and not report.exhausted
        if owes:
            self.defer(request, decision)
            if report.stop in run.FAILED_STOPS:
                self._settle(id_, report, -1)
        return TurnOutcome(decision, replace(report, history=history), owes, history)

    def _prepares(self, decision: CompactionDecision) -> bool:
        wanted = self.settings.prepare_summaries and self.summariser.has_model
        return wanted and decision.current_tokens > _PREPARE_FROM * decision.target_tokens

    def prepare(self, request: CompactionRequest) -> int:
        """Write the summaries that the next sweep will need, if that is wanted and not too early; returns how many."""
        if not self.settings.prepare_summaries:
            return 0
        kept = self.archive.guards.history(request.conversation.id)
        if kept is not None:
            request = replace(request, budget=kept.budget.window)
        policy = self.policy(request)
        decision = self.evaluate(request, policy)
        if not self._prepares(decision) or decision.should_compact:
            return 0
        how = {"is_ahead": True, "leaf_only": True, "manual": True, "on_failure": "raise"}
        return len(self._compact(request, policy, decision, "prepare", **how).summary_ids)

    def make_room(self, request: CompactionRequest) -> run.CompactionReport:
        """Fold once without a model, as at the budget: a prompt would leave out what no summary stands for."""
        policy = self.policy(request)
        policy = replace(policy, max_sweep_iterations=policy.max_sweep_iterations * policy.max_rounds)  # time decides
        history = self.history(request, policy)
        decision = self._evaluate(request, policy, history)
        how = {"may_ask_model": False, "takes_over": True, "is_forced": True, "manual": True}
        report = self._compact(request, policy, decision, "turn", seconds=self.turn_seconds, **how)
        report = replace(report, history=history)
        if report.compacted:
            self._keep(request, history)
        return report

    def _keep(self, request: CompactionRequest, history: HistoryBudget) -> None:
        id_ = request.conversation.id
        kept = self.archive.guards.history(id_)
        if kept is None or kept.budget != history:
            with self.archive.writing():
                known = replace(kept or BudgetMemory(history), budget=history)
                self.archive.guards.set_history(id_, known, self.clock())

    def defer(self, request: CompactionRequest, decision: CompactionDecision) -> None:
        """Ask for a later sweep; one row however often it is asked for."""
        id_ = request.conversation.id
        with self.archive.writing():
            policy = self.policy(request)
            asked = run.request_sweep(self.debt(id_), decision, policy, self.clock())
            self.archive.guards.put_debt(replace(asked, token_budget=policy.capped(request.budget)))

    def debt(self, conversation_id: int) -> CompactionDebt:
        """The pending compaction of a conversation."""
        found = self.archive.guards.debt(conversation_id) or CompactionDebt(conversation_id)
        if found.pending or not found.running:
            return found
        # lossless-claw clears that mark when it starts, so a killed one is only marked running
        begun, now = found.last_started_at, self.clock()
        is_alive = begun is not None and now - MAX_SWEEP_TIME <= begun <= now
        reason = found.reason or run.THRESHOLD_REASON
        return found if is_alive else replace(found, pending=True, running=False, reason=reason)

    def compact(
        self,
        request: CompactionRequest,
        *,
        force: bool = False,
        until: int | None = None,
        seconds: float | None = None,
        progress: Callable[[plan.Pass, WrittenSummary | None], None] | None = None,
    ) -> run.CompactionReport:
        """Fold now. `force` sweeps even below the threshold; `until` goes on until so many tokens are left.

        A person who forces it, or a host that must get below a size, lifts a spend back-off.
        """
        asked = self._asked(request, force, until, progress=progress, seconds=seconds)
        if isinstance(asked, run.CompactionReport):
            return asked
        job, chain, history = asked
        report = replace(run.compact(job, chain), history=history)
        if report.compacted:
            self._keep(request, history)
        self._after_compaction(request, report)
        return report

    def dry_run(self, request: CompactionRequest, *, force: bool = False, until: int | None = None) -> list[plan.Pass]:
        """The passes that `compact` would make in its first sweep, without making them."""
        asked = self._asked(request, force, until)
        return [] if isinstance(asked, run.CompactionReport) else run.planned_passes(asked[0])

    def _asked(
        self, request: CompactionRequest, force: bool, until: int | None, **more: Any
    ) -> tuple[run.CompactionJob, SweepRounds | None, HistoryBudget] | run.CompactionReport:
        """What there is to fold; or why there is nothing."""
        policy = self.policy(request)
        history = self.history(request, policy, again=force or until is not None)
        decision = self._evaluate(request, policy, history)
        stop_at = chain = None
        if until is not None:
            target = history.in_history(until)
            chain = recovery_rounds(decision, policy, time.monotonic(), target=target, force=force)
            if chain.is_under:
                return run.unchanged_report(CompactionReason.ALREADY_UNDER, decision.stored_tokens)
            stop_at = max(1, target - decision.overhead)
        elif not force and not decision.should_compact:
            return run.unchanged_report(CompactionReason.BELOW_THRESHOLD, decision.stored_tokens)
        how = {"manual": force and until is None, "is_forced": force, "lifts_spend_limit": force or until is not None}
        return self._job(request, policy, decision, "compact", stop_at=stop_at, **how, **more), chain, history

    def fold_leaves(self, request: CompactionRequest) -> run.CompactionReport:
        """One sweep that folds what precedes the fresh tail into leaves; a model that fails ends it."""
        how = {"on_failure": "raise", "leaf_only": True, "manual": True, "is_forced": True}
        return self._compact(request, self.policy(request), self.evaluate(request), "rotate", **how)

    def fold_import(
        self,
        request: CompactionRequest,
        *,
        may_ask_model: bool = False,
        limit: int | None = None,
        single_root: bool = False,
        progress: Callable[[plan.Pass, WrittenSummary | None], None] | None = None,
    ) -> run.CompactionReport:
        """Fold an imported history, in one sweep however long it is; its newest `bootstrapMaxTokens` stay raw.

        Extracted unless a model may be asked: it may be years of history. `limit` is how many
        summaries are made at most.
        """
        policy, decision = first_import_policy(self.policy(request), single_root=single_root), self.evaluate(request)
        policy = policy if limit is None else replace(policy, max_sweep_iterations=limit)
        how = {"may_ask_model": may_ask_model, "manual": True, "is_forced": True}
        report = self._compact(request, policy, decision, "import", progress=progress, **how)
        self._after_compaction(request, report)
        return report

    def is_due(self, request: CompactionRequest) -> bool:
        """Whether `drain` would sweep now, as far as can be told without writing."""
        id_, now = request.conversation.id, self.clock()
        debt = self.debt(id_)
        return debt.pending and not self.archive.guards.is_leased(lease_name(id_), now) and run.is_debt_due(debt, now)

    def drain(
        self, request: CompactionRequest, *, may_ask_model: bool = True, seconds: float | None = None
    ) -> run.CompactionReport | None:
        """Run the pending compaction of a conversation, if it is due; None when there is none to run now."""
        id_, now = request.conversation.id, self.clock()
        with self.archive.writing():
            debt = self.debt(id_)
            if not debt.pending or self.archive.guards.is_leased(lease_name(id_), now):
                return None
            request = replace(request, budget=run.drain_budget(debt, request.budget))
            policy = run.drain_policy(debt, self.policy(request), possible_policies(self.settings))
            history = self.history(request, policy)
            decision = self._evaluate(request, policy, history)
            if not run.is_debt_due(debt, now, emergency=decision.pressure == "hard"):
                return None
            debt = run.revalidate_debt(debt, decision, now)
            if not debt.pending:
                self.archive.guards.put_debt(debt)
                return run.unchanged_report(CompactionReason.BELOW_THRESHOLD, decision.stored_tokens)
            debt = run.start_drain(debt, now)
            self.archive.guards.put_debt(debt)
            self._keep(request, history)
        how = {"may_ask_model": may_ask_model, "on_failure": "raise" if may_ask_model else "extractive"}
        report = run.unchanged_report(CompactionReason.BELOW_THRESHOLD, decision.stored_tokens)
        if decision.should_compact:
            report = self._compact(request, policy, decision, "background", seconds=seconds, **how)
            report = replace(report, history=history)
        self._settle(id_, report, debt.maintenance_revision)
        return report

    def _settle(self, conversation_id: int, report: run.CompactionReport, revision: int) -> None:
        """Write down how a drain went; what could not be paid stays pending with its reason."""
        ending = run.drain_ending(report)
        until = parse_time(report.until) if report.until else None
        with self.archive.writing():
            debt = self.debt(conversation_id)
            detail = None if ending in ("done", "unfinished") else report.reason.value
            ended = run.finish_drain(debt, ending, self.clock(), started_revision=revision, detail=detail, until=until)
            self.archive.guards.put_debt(ended)

    def _after_compaction(self, request: CompactionRequest, report: run.CompactionReport) -> None:
        """A compaction that got the context small enough, or as small as it can be, pays the debt, too."""
        debt = self.debt(request.conversation.id)
        if not debt.pending or report.stop == "busy" or report.stop in run.FAILED_STOPS:
            return
        with self.archive.writing():
            debt = self.debt(request.conversation.id)
            budget = run.drain_budget(debt, request.budget)
            if debt.pending and (report.exhausted or not self.evaluate(replace(request, budget=budget)).should_compact):
                revision = debt.maintenance_revision
                self.archive.guards.put_debt(run.finish_drain(debt, "done", self.clock(), started_revision=revision))

    def _compact(
        self, request: CompactionRequest, policy: CompactionPolicy, decision: CompactionDecision, actor: str, **how: Any
    ) -> run.CompactionReport:
        return run.compact(self._job(request, policy, decision, actor, **how))

    def _job(
        self, request: CompactionRequest, policy: CompactionPolicy, decision: CompactionDecision, actor: str, **how: Any
    ) -> run.CompactionJob:
        """A compaction as it is by default; `how` says what differs."""
        id_, policy = request.conversation.id, policy.sweeping(decision.budget)
        return run.CompactionJob(
            archive=self.archive,
            conversation_id=id_,
            policy=policy,
            decision=decision,
            summariser=self.summariser,
            clock=self.clock,
            actor=actor,
            crew_tokens=self.crew_tokens,
            **how,
        )
