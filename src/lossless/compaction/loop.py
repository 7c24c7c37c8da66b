"""Deciding after each turn whether to fold, who pays, and paying what was put off."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from lossless.compaction import debt as debts
from lossless.compaction import plan
from lossless.compaction.history import history_of, keep
from lossless.compaction.lease import lease_name
from lossless.compaction.policy import first_import_policy, policy_for, possible_policies
from lossless.compaction.run import CREW_TOKENS, CompactionReport, Job, compact, planned, prepare, publish, unchanged
from lossless.compaction.trigger import (
    FAILED_STOPS,
    Decision,
    Outcome,
    Reason,
    bill,
    evaluate,
    recovery_chain,
    threshold_chain,
)
from lossless.model.context import framed, part_share
from lossless.model.times import parse_time
from lossless.store.debts import LONGEST_SWEEP

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from lossless.compaction.escalate import OnFailure, Written
    from lossless.compaction.policy import CompactionPolicy
    from lossless.compaction.summariser import Summariser
    from lossless.model.conversations import Conversation
    from lossless.model.history import HistoryBudget
    from lossless.settings import Settings
    from lossless.store.archive import Archive

#: From this share of the threshold on, summaries are prepared.
_PREPARE_FROM = 0.5
#: Sessions whose numbers are remembered.
_MOST_POLICIES = 1000


@dataclass(frozen=True, slots=True)
class Situation:
    """A conversation, its budget, and what its host reports: all that a decision depends on."""

    conversation: Conversation
    budget: int
    observed_tokens: int | None = None
    model: str | None = None
    window: int | None = None
    #: Estimated tokens of what is sent beside the conversation, and what the reply is given; None: as it was last.
    beside: int | None = None
    reply: int | None = None


@dataclass(frozen=True, slots=True)
class Paid:
    """What a turn did about the size of its context."""

    decision: Decision
    #: The compaction that ran on the turn, if one did.
    report: CompactionReport | None = None
    #: Whether a sweep was put off.
    owes: bool = False
    history: HistoryBudget | None = None
    #: Whether summaries may be written ahead now.
    prepares: bool = False


@dataclass(frozen=True, slots=True)
class Loop:
    """Keeps contexts within their budgets."""

    archive: Archive
    settings: Settings
    summariser: Summariser
    clock: Callable[[], datetime]
    #: What a turn may spend on folding when its context is at the budget.
    turn_seconds: float = 2.0
    crew_tokens: int = CREW_TOKENS
    _policies: dict[tuple[str | None, int | None, str], CompactionPolicy] = field(default_factory=dict)

    def policy(self, situation: Situation) -> CompactionPolicy:
        """The numbers that hold for a session, by the most specific rule."""
        who = (situation.model, situation.window, situation.conversation.session.name)
        found = self._policies.get(who)
        if found is None:
            found = policy_for(self.settings, model=who[0], window=who[1], session=who[2])
            if len(self._policies) < _MOST_POLICIES:
                self._policies[who] = found
        return found

    def history(
        self, situation: Situation, policy: CompactionPolicy | None = None, *, anew: bool = False
    ) -> HistoryBudget:
        """How much of the window is the conversation's: one number for folding and assembling."""
        id_ = situation.conversation.id
        size = framed(self.archive.context_budget(id_), self.archive.context.next_ordinal(id_))  # at most
        return history_of(self.archive, situation, policy or self.policy(situation), size, anew=anew)

    def evaluate(self, situation: Situation, policy: CompactionPolicy | None = None) -> Decision:
        """How full the context is; exact where it matters, counted along where it does not."""
        policy = policy or self.policy(situation)
        return self._evaluate(situation, policy, self.history(situation, policy))

    def _evaluate(self, situation: Situation, policy: CompactionPolicy, history: HistoryBudget) -> Decision:
        id_, budget = situation.conversation.id, history.tokens
        stored, threshold = self.archive.context_budget(id_), policy.threshold_tokens(budget)
        framing = framed(0, self.archive.context.next_ordinal(id_))  # at most
        if stored + framing > threshold:
            framing = self._framing(id_)
        if stored + framing > threshold:
            stored = self._shown(id_, budget)
        seen = situation.observed_tokens
        observed = None if seen is None or seen < 0 else history.in_history(seen)
        return evaluate(stored, observed, budget, policy, framing=framing)

    def _shown(self, conversation_id: int, budget: int) -> int:
        """What the items of a context take in a prompt without their frames: what no prompt can hold, only in part."""
        context = self.archive.context
        longer = context.longer_than(conversation_id, budget)
        spared = sum(size - int(part_share(role) * budget) for role, size in longer)
        return context.budget_tokens(conversation_id) - spared

    def _framing(self, conversation_id: int) -> int:
        """What the frames around the items of a context take in a prompt."""
        return framed(0, self.archive.context.counts(conversation_id)[0])

    def after_turn(self, situation: Situation) -> Paid:
        """Put a sweep off, or fold at once when the context is at its budget (or inline mode was chosen)."""
        policy = self.policy(situation)
        history = self.history(situation, policy)
        decision = self._evaluate(situation, policy, history)
        self._keep(situation, history)
        who = bill(decision, policy)
        if who.payer == "nobody":
            return Paid(decision, history=history, prepares=self._prepares(decision))
        if who.payer == "background":
            report = self._published(situation, policy, decision, history)
            owes = report is None or not decision.is_under(
                report.tokens_after + self._framing(situation.conversation.id)
            )
            if owes:
                self.owe(situation, decision)
            return Paid(decision, report, owes, history)
        seconds = None if who.may_ask_model else self.turn_seconds
        job = self._job(situation, policy, decision, "turn")
        is_extracted = not who.may_ask_model
        job = replace(job, may_ask_model=who.may_ask_model, seconds=seconds, takes_over=is_extracted)
        job = replace(job, is_forced=decision.pressure == "hard")
        report = compact(job, threshold_chain(decision, policy, time.monotonic()))
        left = self._shown(situation.conversation.id, history.tokens) + self._framing(situation.conversation.id)
        owes = not decision.is_under(left) and not report.exhausted
        if owes:
            self.owe(situation, decision)
            if report.stop in FAILED_STOPS:
                self._settle(situation.conversation.id, report, -1)
        return Paid(decision, replace(report, history=history), owes, history)

    def _prepares(self, decision: Decision) -> bool:
        wanted = self.settings.prepare_summaries and self.summariser.has_model
        return wanted and decision.current_tokens > _PREPARE_FROM * decision.target_tokens

    def _published(
        self, situation: Situation, policy: CompactionPolicy, decision: Decision, history: HistoryBudget
    ) -> CompactionReport | None:
        """Fold by the summaries that were prepared, without asking anybody; None when there are none."""
        if not self.settings.prepare_summaries:
            return None
        report = publish(self._job(situation, policy, decision, "turn"))
        return None if report is None else replace(report, history=history)

    def prepare(self, situation: Situation) -> int:
        """Write the summaries that the next sweep will need, if that is wanted and not too early; returns how many."""
        if not self.settings.prepare_summaries:
            return 0
        kept = self.archive.guards.history(situation.conversation.id)
        if kept is not None:
            situation = replace(situation, budget=kept.budget.window)
        policy = self.policy(situation)
        decision = self._evaluate(situation, policy, self.history(situation, policy))
        if not self._prepares(decision) or decision.should_compact:
            return 0
        return prepare(self._job(situation, policy, decision, "prepare"))

    def make_room(self, situation: Situation) -> CompactionReport:
        """Fold once without a model, as at the budget: a prompt would leave out what no summary stands for."""
        policy = self.policy(situation)
        history = self.history(situation, policy)
        decision = self._evaluate(situation, policy, history)
        job = replace(self._job(situation, policy, decision, "turn"), may_ask_model=False, manual=True)
        job = replace(job, seconds=self.turn_seconds, takes_over=True, is_forced=True)
        report = replace(compact(job, threshold_chain(decision, policy, time.monotonic())), history=history)
        if report.compacted:
            self._keep(situation, history)
        return report

    def _keep(self, situation: Situation, history: HistoryBudget) -> None:
        keep(self.archive, situation.conversation.id, history, self.clock())

    def owe(self, situation: Situation, decision: Decision) -> None:
        """Ask for a later sweep; one row however often it is asked for."""
        id_ = situation.conversation.id
        with self.archive.writing():
            policy = self.policy(situation)
            asked = debts.request(self.debt(id_), decision, policy, self.clock())
            self._put(replace(asked, token_budget=policy.capped(situation.budget)))

    def debt(self, conversation_id: int) -> debts.Debt:
        """What a conversation owes."""
        values = self.archive.debts.get(conversation_id)
        if values is None:
            return debts.Debt(conversation_id)
        return debts.left_behind(debts.Debt(conversation_id, **values), self.clock(), LONGEST_SWEEP)

    def _put(self, debt: debts.Debt) -> None:
        values = asdict(debt)
        self.archive.debts.put(values.pop("conversation_id"), values)

    def compact(
        self,
        situation: Situation,
        *,
        force: bool = False,
        until: int | None = None,
        seconds: float | None = None,
        progress: Callable[[plan.Pass, Written | None], None] | None = None,
    ) -> CompactionReport:
        """Fold now. `force` sweeps even below the threshold; `until` goes on until so many tokens are left.

        A person who forces it, or a host that must get below a size, lifts a spend back-off.
        """
        policy = self.policy(situation)
        history = self.history(situation, policy, anew=force or until is not None)
        decision = self._evaluate(situation, policy, history)
        manual = force and until is None
        if not manual and until is None and not decision.should_compact:
            return unchanged(Reason.BELOW_THRESHOLD, decision.stored_tokens)
        job = replace(
            self._job(situation, policy, decision),
            manual=manual,
            progress=progress,
            seconds=seconds,
            is_forced=force,
            lifts_spend_limit=force or until is not None,
        )
        now = time.monotonic()
        if until is not None:
            target = history.in_history(until)
            chain = recovery_chain(decision, policy, now, target=target, force=force)
            if chain.is_under:
                return unchanged(Reason.ALREADY_UNDER, decision.stored_tokens)
            job = replace(job, stop_at=max(1, target - decision.overhead))
        else:
            chain = threshold_chain(decision, policy, now)
        report = replace(compact(job, chain), history=history)
        if report.compacted:
            self._keep(situation, history)
        self._after_compaction(situation, report)
        return report

    def fold_import(
        self,
        situation: Situation,
        *,
        may_ask_model: bool = False,
        most: int | None = None,
        progress: Callable[[plan.Pass, Written | None], None] | None = None,
    ) -> CompactionReport:
        """Fold an imported history, in one sweep however long it is; its newest `bootstrapMaxTokens` stay raw.

        Extracted unless a model may be asked: nobody has read it yet, and it may be years. `most` is how many
        summaries are made at most.
        """
        policy, decision = first_import_policy(self.policy(situation)), self.evaluate(situation)
        policy = policy if most is None else replace(policy, max_sweep_iterations=most)
        job = self._job(situation, policy, decision, "import")
        job = replace(job, may_ask_model=may_ask_model, manual=True, is_forced=True, progress=progress)
        report = compact(job, threshold_chain(decision, policy, time.monotonic()))
        self._after_compaction(situation, report)
        return report

    def dry_run(self, situation: Situation, *, force: bool = False, until: int | None = None) -> list[plan.Pass]:
        """The passes that `compact` would make in its first sweep, without making them."""
        policy, decision = self.policy(situation), self.evaluate(situation)
        target = None if until is None else self.history(situation, policy).in_history(until)
        wanted = force or decision.should_compact if target is None else decision.current_tokens >= target
        if not wanted:
            return []
        stop_at = None if target is None else max(1, target - decision.overhead)
        return planned(replace(self._job(situation, policy, decision), is_forced=force, stop_at=stop_at))

    def is_due(self, situation: Situation) -> bool:
        """Whether `drain` would sweep now, as far as can be told without writing."""
        id_, now = situation.conversation.id, self.clock()
        owed = self.debt(id_)
        return owed.pending and not self.archive.guards.is_leased(lease_name(id_), now) and debts.is_due(owed, now)

    def drain(
        self, situation: Situation, *, may_ask_model: bool = True, seconds: float | None = None
    ) -> CompactionReport | None:
        """Pay what a conversation owes, if it is due; None when there is nothing to pay now."""
        id_, now = situation.conversation.id, self.clock()
        with self.archive.writing():
            owed = self.debt(id_)
            if not owed.pending or self.archive.guards.is_leased(lease_name(id_), now):
                return None
            situation = replace(situation, budget=debts.drain_budget(owed, situation.budget))
            policy = debts.drain_policy(owed, self.policy(situation), possible_policies(self.settings))
            history = self.history(situation, policy)
            decision = self._evaluate(situation, policy, history)
            if not debts.is_due(owed, now, emergency=decision.pressure == "hard"):
                return None
            owed = debts.revalidated(owed, decision, now)
            if not owed.pending:
                self._put(owed)
                return unchanged(Reason.BELOW_THRESHOLD, decision.stored_tokens)
            owed = debts.start(owed, now)
            self._put(owed)
            self._keep(situation, history)
        job = self._job(situation, policy, decision, "background")
        on_failure: OnFailure = "raise" if may_ask_model else "extractive"
        job = replace(job, may_ask_model=may_ask_model, seconds=seconds, on_failure=on_failure)
        if decision.should_compact:
            report = compact(job, threshold_chain(decision, policy, time.monotonic()))
            report = replace(report, history=history)
        else:
            report = unchanged(Reason.BELOW_THRESHOLD, decision.stored_tokens)
        self._settle(id_, report, owed.maintenance_revision)
        return report

    def _settle(self, conversation_id: int, report: CompactionReport, revision: int) -> None:
        """Write down how a drain went; what could not be paid stays pending with its reason."""
        outcome = Outcome(report.ok, report.compacted, report.reason, report.exhausted)
        ending = debts.ending_of(outcome, report.stop)
        until = parse_time(report.until) if report.until else None
        with self.archive.writing():
            owed = self.debt(conversation_id)
            detail = None if ending in ("done", "unfinished") else report.reason.value
            self._put(debts.finish(owed, ending, self.clock(), started_revision=revision, detail=detail, until=until))

    def _after_compaction(self, situation: Situation, report: CompactionReport) -> None:
        """A compaction that got the context small enough, or as small as it can be, pays the debt, too."""
        owed = self.debt(situation.conversation.id)
        if not owed.pending or report.stop == "busy" or report.stop in FAILED_STOPS:
            return
        with self.archive.writing():
            owed = self.debt(situation.conversation.id)
            budget = debts.drain_budget(owed, situation.budget)
            if owed.pending and (
                report.exhausted or not self.evaluate(replace(situation, budget=budget)).should_compact
            ):
                self._put(debts.finish(owed, "done", self.clock(), started_revision=owed.maintenance_revision))

    def _job(self, situation: Situation, policy: CompactionPolicy, decision: Decision, actor: str = "compact") -> Job:
        """A compaction as it is by default; callers say what differs."""
        return Job(
            archive=self.archive,
            conversation_id=situation.conversation.id,
            policy=policy.sweeping(decision.budget),
            decision=decision,
            summariser=self.summariser,
            clock=self.clock,
            actor=actor,
            crew_tokens=self.crew_tokens,
        )
