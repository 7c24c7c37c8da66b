"""Run a compaction: plan a pass, write its summary, fold it in, until nothing is left or a limit is reached; and the
pending compactions, one request per conversation as a row that survives restarts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import uuid4

from lossless.compaction import plan
from lossless.compaction.plan import (
    CompactionDecision,
    CompactionReason,
    StopReason,
    SweepRounds,
    after_round,
    another_round,
    threshold_rounds,
)
from lossless.compaction.source_text import source_message, source_summary
from lossless.compaction.summarise import (
    AskForSummary,
    ExtractionPool,
    OnFailure,
    SummaryPrompt,
    SummarySource,
    SummaryStyle,
    WrittenSummary,
    available_cores,
    summarise,
)
from lossless.errors import GuardOpen, ModelAuth, ModelBadAnswer, ModelDenied, ModelError, Stale
from lossless.llm.chain import BREAKER_GUARD
from lossless.model.budget import HistoryBudget, summary_budget_tokens
from lossless.model.context import (
    ContextItem,
    MessageItem,
    NewSummary,
    Summary,
    SummaryItem,
    budget_sum,
    newest_user_index,
    prompt_tokens,
    token_sum,
)
from lossless.model.identity import summary_id
from lossless.model.records import CompactionDebt, ContextChange
from lossless.store.context import item_id

if TYPE_CHECKING:
    from lossless.compaction.compactor import CompactionPolicy
    from lossless.compaction.summariser import ArchiveGate, Summariser
    from lossless.llm.completion import Completion
    from lossless.store.archive import Archive

#: With less to extract than this, starting processes takes longer than they save.
POOL_MIN_TOKENS = 1_000_000
#: After a sweep that stopped for one of these, another one may help.
_GO_ON: frozenset[StopReason] = frozenset(("nothing left", "iterations", "no progress"))


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """What a compaction did and how it ended."""

    ok: bool
    compacted: bool
    reason: CompactionReason
    tokens_before: int = 0
    tokens_after: int = 0
    summary_ids: tuple[str, ...] = ()
    #: Model calls made, failed ones included.
    calls: int = 0
    exhausted: bool = False
    stop: StopReason | None = None
    #: When a guard that stopped it closes again.
    until: str | None = None
    #: The code of the error with which a model failed; what was folded from then on was extracted.
    failure: str | None = None
    #: What it was held against.
    history: HistoryBudget | None = None
    #: What takes the room, when a target was not reached and nothing is left to fold.
    why: str = ""


def unchanged_report(
    reason: CompactionReason, tokens: int = 0, *, ok: bool = True, stop: StopReason | None = None
) -> CompactionReport:
    """The report of a compaction that did nothing, and why."""
    return CompactionReport(ok, False, reason, tokens, tokens, stop=stop)


#: How a drain came out. Only `done` and `exhausted` clear the debt, and only `failed` makes it back off: refused
#: credentials are the breaker's.
DrainEnding = Literal["done", "exhausted", "unfinished", "failed", "refused", "denied", "breaker open", "spend backoff"]
#: A sweep ended so because a model did not answer, or must not be asked: what its compaction and its drain say.
_FAILURES: Final[dict[StopReason, tuple[CompactionReason, DrainEnding]]] = {
    "auth failure": (CompactionReason.AUTH, "refused"),
    "model failure": (CompactionReason.MODEL_FAILED, "failed"),
    "model denied": (CompactionReason.MODEL_DENIED, "denied"),
    "breaker open": (CompactionReason.BREAKER, "breaker open"),
    "spend backoff": (CompactionReason.SPEND, "spend backoff"),
}
FAILED_STOPS: Final[frozenset[StopReason]] = frozenset(_FAILURES)


def conclude(chain: SweepRounds, stop: StopReason, folds: int, *, manual: bool = False) -> CompactionReport:
    """Say how a compaction ended: its chain after the last sweep, why that one stopped, folds in all."""
    compacted, under, exhausted = folds > 0, chain.is_under, stop == "nothing left"
    if stop in _FAILURES:
        failure = _FAILURES[stop][0]
        reason = CompactionReason.AUTH_PARTIAL if failure is CompactionReason.AUTH and compacted else failure
        return CompactionReport(failure is CompactionReason.BREAKER, compacted, reason)
    if under or (manual and not compacted):
        idle = CompactionReason.NOTHING if manual else CompactionReason.ALREADY_UNDER
        return CompactionReport(True, compacted, CompactionReason.COMPACTED if compacted else idle)
    if chain.strict:
        return CompactionReport(False, compacted, CompactionReason.NOT_REACHED, exhausted=exhausted)
    if compacted:
        return CompactionReport(True, True, CompactionReason.STILL_OVER, exhausted=exhausted)
    reason = CompactionReason.EXHAUSTED if exhausted and chain.overhead else CompactionReason.LIVE_OVER
    return CompactionReport(False, False, reason, exhausted=exhausted)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionJob:
    """One compaction: of what, by which numbers, written by whom."""

    archive: Archive
    conversation_id: int
    policy: CompactionPolicy
    decision: CompactionDecision
    summariser: Summariser
    clock: Callable[[], datetime]
    actor: str = "compact"
    may_ask_model: bool = True
    on_failure: OnFailure = "extractive"
    #: Seconds of the turn's path that may be used; None leaves only the policy's deadlines.
    seconds: float | None = None
    leaf_only: bool = False
    #: A person asked: one sweep even below the threshold.
    manual: bool = False
    progress: Callable[[plan.Pass, WrittenSummary | None], None] | None = None
    #: Fold until so many tokens are left.
    stop_at: int | None = None
    #: The context is too large whatever its count says: the first sweep folds all that it can.
    is_forced: bool = False
    #: Do not wait for another worker on the conversation: what it is about to write is stale then.
    takes_over: bool = False
    #: Begin a new window of calls, if there is something to fold.
    lifts_spend_limit: bool = False
    crew_tokens: int = POOL_MIN_TOKENS
    #: Store summaries without a place: a later sweep puts them in theirs.
    is_ahead: bool = False
    #: Put only those in their places that were stored so: no time to write others.
    only_prepared: bool = False
    #: Prolongs the lease, and says whether it is still ours; known when the work begins.
    prolong: Callable[[], bool] = lambda: True

    @property
    def asks_model(self) -> bool:
        return self.may_ask_model and self.summariser.has_model

    @property
    def leaves_until(self) -> int | None:
        """Where a sweep stops because it is at the threshold, and not because more free tokens were asked for."""
        target = None if self.manual or self.stop_at is not None else self.policy.sweep_target(self.decision.budget)
        return None if target is None else max(1, target - self.decision.overhead)

    @property
    def style(self) -> SummaryStyle:
        """How its summaries are written: as the settings say, and no longer than the budget has room for."""
        leaf, condensed = self.policy.leaf_target_tokens, self.policy.condensed_target_tokens
        return replace(self.summariser.style, leaf_target_tokens=leaf, condensed_target_tokens=condensed)


@dataclass(slots=True)
class _Sweeper:
    """A compaction at work, sweep after sweep: how far it is, and what it knows of the context."""

    job: CompactionJob
    chain: SweepRounds
    deadline: float
    context: list[ContextItem] = field(default_factory=list)
    state: plan.SweepState = field(init=False)
    summary_ids: list[str] = field(default_factory=list)
    #: When what is being summarised was read.
    moment: tuple[int, int] | None = None
    calls: int = 0
    stop: StopReason = "nothing left"
    until: str | None = None
    #: The code of the error with which a model failed; it is not asked again.
    failure: str | None = None

    @property
    def stored_tokens(self) -> int:
        return token_sum(self.context)

    def run(self, pool: ExtractionPool | None) -> CompactionReport:
        """Sweep after sweep; the first goes on from what was read before the lease, since each fold looks again."""
        before = self.stored_tokens
        while True:
            self.sweep(pool)
            self.chain = after_round(self.chain, self.state.tokens)
            if self.job.manual or self.stop not in _GO_ON or not another_round(self.chain, time.monotonic()):
                break
            if self.stop == "nothing left" and (self.job.stop_at is None or self.state.stop_at is not None):
                break
            self.begin(self.job.stop_at)
        if self.summary_ids:
            with self.job.archive.writing():
                self.job.archive.context.close_gaps(self.job.conversation_id)
        return self.report(before)

    def report(self, before: int) -> CompactionReport:
        report = conclude(self.chain, self.stop, len(self.summary_ids), manual=self.job.manual)
        target = max(1, self.chain.target_tokens - self.chain.overhead)
        return replace(
            report,
            tokens_before=before,
            tokens_after=self.stored_tokens,
            summary_ids=tuple(self.summary_ids),
            calls=self.calls,
            stop=self.stop,
            until=self.until,
            failure=self.failure,
            why=_why(self.context, target) if not report.ok and report.exhausted else "",
        )

    def begin(self, stop_at: int | None) -> None:
        """Read the context, and begin a sweep over it."""
        job, archive, id_, now = self.job, self.job.archive, self.job.conversation_id, time.monotonic()
        with archive.reading():
            self.context, known = archive.context.items(id_), archive.guards.stubborn(id_)
            call_ids = archive.context.call_ids(id_)
        how: dict[str, Any] = {"until": stop_at, "leaves_until": job.leaves_until, "deadline": self.deadline}
        how |= {"remembered": known, "call_ids": call_ids}
        state = plan.begin_sweep(self.context, job.policy, job.decision, now=now, **how)
        self.state = replace(state, takes_any=job.is_forced or state.takes_any)
        if job.leaf_only:
            self.state = replace(self.state, leaf_only=True, stop_at=None)
        self.stop = plan.stop_reason(self.state, job.policy, now) or "nothing left"

    def gate(self) -> ArchiveGate:
        return self.job.summariser.gate(self.job.archive, self.job.conversation_id, self.job.clock)

    def extraction_pool(self) -> AbstractContextManager[ExtractionPool | None]:
        """Processes to extract with, when there is so much to extract that starting them pays."""
        size = self.job.summariser.settings.summary_processes or available_cores()
        if size < 2 or self.state.tokens < self.job.crew_tokens or self.job.asks_model:
            return nullcontext()
        rounds = 1 if self.job.manual else self.chain.max_rounds
        limit = min(self.job.policy.max_sweep_iterations * rounds, len(self.context))
        policy = replace(self.job.policy, max_sweep_iterations=limit)
        leaves = plan.leaf_batch(self.context, policy, self.state, limit)
        tokens = sum(work.tokens for work in leaves)
        return ExtractionPool(min(size, len(leaves))) if tokens >= self.job.crew_tokens else nullcontext()

    def sweep(self, pool: ExtractionPool | None) -> None:
        """Passes until none is left or a bound is met; `self.stop` says which.

        A model that cannot be asked is not asked again: the rest is extracted, unless the job wants to hear of it.
        """
        gate = replace(self.gate(), is_wanted=self.job.prolong)
        ask = self.remembering_failures(self.job.summariser.ask(gate)) if self.job.asks_model else None
        parallel = self.job.summariser.settings.summary_parallelism
        while batch := self.next(parallel if ask and self.failure is None else None):
            if not self.job.prolong():
                self.stop = "stale"
                break
            self.moment = self.job.archive.summaries.moment()
            if (known := self.prepared(batch[0])) is not None:
                self.publish(batch[0], known)
            elif self.job.only_prepared:
                self.stop = "deadline"
                break
            elif ask is None or self.failure is not None:
                self.extract_all(batch, pool)
            elif (error := self.write_all(batch, ask)) is not None:
                self.stop = _stop_of(error)
                self.until = error.until if isinstance(error, GuardOpen) else None
                self.state = replace(self.state, stopped=self.stop)
                break
        else:
            self.stop = plan.stop_reason(self.state, self.job.policy, time.monotonic()) or "nothing left"
        self.calls += len(gate.tickets)

    def remembering_failures(self, ask: AskForSummary) -> AskForSummary:
        def ask_once(prompt: SummaryPrompt, /) -> Completion:
            try:
                return ask(prompt)
            except ModelError as error:
                if not isinstance(error, ModelBadAnswer):
                    self.failure = error.code
                raise

        return ask_once

    def next(self, parallel: int | None) -> tuple[plan.Pass, ...]:
        """The next summary to write, or several leaves: `parallel` side by side, or without a model (None) all."""
        where, now = (self.context, self.job.policy, self.state), time.monotonic()
        if parallel != 1:
            size, is_isolated = parallel or self.job.policy.max_sweep_iterations, parallel is not None
            if batch := plan.leaf_batch(*where, size, now=now, isolated=is_isolated):
                return batch
        work = plan.next_pass(*where, now=now)
        return () if work is None else (work,)

    def extract_all(self, batch: Sequence[plan.Pass], pool: ExtractionPool | None) -> None:
        """Extract a batch of summaries, in processes when there are some, and place them one by one.

        When one that is placed changes the plan, the rest is planned again: the outcome is the same as one at a time.
        """
        style = self.job.style
        sources = (read_source(self.job.archive, work, self.job.summariser) for work in batch)
        written: Iterator[WrittenSummary | None] = (summarise(source, style=style) for source in sources)
        if pool is not None and len(batch) > 1:
            written = pool.extracted(sources, style)
        for work in batch:
            if work.depth == 0 and not plan.wants_leaf(self.state, self.job.policy, time.monotonic()):
                break
            summary = next(written)
            if summary is not None:
                summary = replace(summary, failure=self.failure)
            if not self.place(work, summary):
                break

    def write_all(self, batch: Sequence[plan.Pass], ask: AskForSummary) -> ModelError | GuardOpen | Stale | None:
        """Write a batch of summaries, side by side when there are several, and place them.

        Returns the first error; what was written at the same time is in its place all the same.
        """
        sources = [read_source(self.job.archive, work, self.job.summariser) for work in batch]

        def write(source: SummarySource) -> WrittenSummary | ModelError | GuardOpen | Stale | None:
            try:
                return summarise(source, ask, self.job.style, self.job.on_failure)
            except (ModelError, GuardOpen, Stale) as error:
                return error

        if len(sources) == 1:
            written = [write(sources[0])]
        else:
            with ThreadPoolExecutor(len(sources), thread_name_prefix="lossless-summary") as pool:
                written = list(pool.map(write, sources))
        failed = None
        for work, summary in zip(batch, written, strict=True):
            if isinstance(summary, ModelError | GuardOpen | Stale):
                failed = failed or summary
            else:
                self.place(work, summary)
        return failed

    def place(self, work: plan.Pass, written: WrittenSummary | None) -> bool:
        """Put a written summary into the context, or remember that the chunk stays as it is; whether it is in place."""
        if written is None:
            source = read_source(self.job.archive, work, self.job.summariser)
            is_blank = not any(part.is_meaningful for part in source.parts)
            self.state = (plan.after_blank if is_blank else plan.after_unshrinkable)(self.state, work)
            with self.job.archive.writing():
                kind = "blank" if is_blank else "unshrinkable"
                self.job.archive.guards.remember_stubborn(self.job.conversation_id, work.key, kind, self.job.clock())
        else:
            new_id = summary_id(written.text, str(uuid4()))
            new = NewSummary(new_id, work.depth, written.text, written.tokens, written.model, written.file_ids)
            if not self.fold_in(work, new):
                return False
        if self.job.progress:
            self.job.progress(work, written)
        return written is not None

    def fold_in(self, work: plan.Pass, new: NewSummary, *, is_stored: bool = False) -> bool:
        """Fold, and go on from there; False when the context or the lease is another's by now."""
        archive, id_, since = self.job.archive, self.job.conversation_id, self.moment
        try:
            with archive.writing():
                if not self.job.prolong():
                    self.state = replace(self.state, stopped="stale")
                    return False
                if self.job.is_ahead:
                    self.store_ahead(work.items, new, since)
                else:
                    now, actor = self.job.clock(), self.job.actor
                    fold(archive, id_, work.items, new, now, actor=actor, since=since, is_stored=is_stored)
        except Stale:
            self.context = archive.context.items(id_)
            self.state = plan.after_stale(self.state, self.context, archive.context.call_ids(id_))
            return False
        self.summary_ids.append(new.id)
        self.go_on(work, new)
        return True

    def go_on(self, work: plan.Pass, made: NewSummary | Summary) -> None:
        estimate = summary_budget_tokens(made.content)
        self.context = list(plan.context_after_fold(self.context, work, made.id, made.tokens, estimate))
        self.state = plan.after_pass(self.state, work, made.id, made.tokens, estimate)

    def store_ahead(self, sources: Sequence[ContextItem], summary: NewSummary, since: tuple[int, int] | None) -> None:
        """Store a summary without a place in the context: a sweep would write the same, but for appends in between."""
        archive, id_, now = self.job.archive, self.job.conversation_id, self.job.clock()
        size, budget = archive.context_tokens(id_), archive.context_budget(id_)
        archive.summaries.insert(id_, sources, summary, now)
        archive.summaries.mark_new(summary.id, sources, since, now)
        change = ContextChange("prepare", self.job.actor, None, (), (summary.id,), None, size, size)
        archive.context.log(id_, change, now)
        archive.ingest.set_context_tokens(id_, size, max(0, budget - size))

    def prepared(self, work: plan.Pass) -> Summary | None:
        if not self.job.summariser.settings.prepare_summaries or work.depth != 0:
            return None
        ids = [item.message_id for item in work.items if isinstance(item, MessageItem)]
        return self.job.archive.summaries.prepared(self.job.conversation_id, ids)

    def publish(self, work: plan.Pass, known: Summary) -> None:
        if self.job.is_ahead:
            self.go_on(work, known)
            return
        new = NewSummary(known.id, 0, known.content, known.tokens, known.model, known.file_ids)
        if self.fold_in(work, new, is_stored=True) and self.job.progress:
            written = WrittenSummary(known.content, "normal", known.tokens, known.model, 0, known.file_ids)
            self.job.progress(work, written)


def compact(job: CompactionJob, chain: SweepRounds | None = None) -> CompactionReport:
    """Run sweeps until the chain, by default to the threshold, is satisfied; one worker at a time for a conversation.

    Where there is nothing to fold, nothing is written, not even a lease.
    """
    chain = chain or threshold_rounds(job.decision, job.policy, time.monotonic())
    deadline = chain.deadline if job.seconds is None else min(chain.deadline, time.monotonic() + job.seconds)
    sweeper = _Sweeper(job, chain, deadline)
    sweeper.begin(None if job.is_forced else job.stop_at)
    first = sweeper.next(1)
    if not first or (job.only_prepared and sweeper.prepared(first[0]) is None):
        sweeper.chain = after_round(chain, sweeper.state.tokens)
        return sweeper.report(sweeper.stored_tokens)
    with job.summariser.lease(job.archive, job.conversation_id, job.clock, takes_over=job.takes_over) as prolong:
        if not prolong():
            return unchanged_report(CompactionReason.BUSY, sweeper.stored_tokens, stop="busy")
        sweeper.job = replace(job, prolong=prolong)
        if job.lifts_spend_limit:
            sweeper.gate().reset()
        with sweeper.extraction_pool() as pool:
            return sweeper.run(pool)


def planned_passes(job: CompactionJob) -> list[plan.Pass]:
    """The passes of a compaction's first sweep if every summary has its expected size; nothing is written."""
    sweeper = _Sweeper(job, threshold_rounds(job.decision, job.policy, 0.0), inf)
    sweeper.begin(None if job.is_forced else job.stop_at)
    return plan.dry_run(sweeper.context, job.policy, sweeper.state)[0]


def read_source(archive: Archive, work: plan.Pass, summariser: Summariser) -> SummarySource:
    """What a pass is about, in words: its messages or its summaries, and what came before."""
    tags = summariser.settings.strip_injected_context_tags
    with archive.reading():
        ids = [item.message_id for item in work.items if isinstance(item, MessageItem)]
        messages = archive.messages.many(ids, exact=False)
        summaries = archive.summaries.many([item.summary_id for item in work.items if isinstance(item, SummaryItem)])
        previous = archive.summaries.many(list(work.previous))
    lines = tuple(source_message(message, tags) for message in messages)
    sections = tuple(source_summary(summary) for summary in summaries)
    earlier = "\n\n".join(summary.content for summary in previous)
    return SummarySource(lines or sections, work.depth, work.tokens, earlier, work.batched)


def fold(
    archive: Archive,
    conversation_id: int,
    sources: Sequence[ContextItem],
    summary: NewSummary,
    now: datetime,
    *,
    actor: str = "compact",
    since: tuple[int, int] | None = None,
    is_stored: bool = False,
) -> None:
    """Replace a run of the context by its summary, all or nothing; raises `Stale` when the run is gone.

    The sources leave the context, never the archive: each stays linked to the summary, so that `expand`
    can always go back down to the words that were said. What changed after the moment `since` it does not say yet.
    """
    with archive.writing():
        before, budget = archive.context_tokens(conversation_id), archive.context_budget(conversation_id)
        if not is_stored:
            archive.summaries.insert(conversation_id, sources, summary, now)
            archive.summaries.mark_new(summary.id, sources, since, now)
        ordinal = archive.context.replace(conversation_id, sources, summary.id, now)
        archive.summaries.mark_pending_stale(conversation_id, ordinal, sources[-1].ordinal)
        if summary.depth == 0:
            archive.guards.leaf_compacted(conversation_id, now)
        removed = tuple(item_id(item) for item in sources)
        after = before - token_sum(sources) + summary.tokens
        change = ContextChange("fold", actor, None, removed, (summary.id,), ordinal, before, after)
        archive.context.log(conversation_id, change, now)
        budget += max(summary.tokens, summary_budget_tokens(summary.content)) - budget_sum(sources)
        archive.ingest.set_context_tokens(conversation_id, after, max(0, budget - after))


def _stop_of(error: ModelError | GuardOpen | Stale) -> StopReason:
    if isinstance(error, GuardOpen):
        return "breaker open" if error.guard == BREAKER_GUARD else "spend backoff"
    stops: dict[type, StopReason] = {Stale: "stale", ModelAuth: "auth failure", ModelDenied: "model denied"}
    return stops.get(type(error), "model failure")


def _why(context: Sequence[ContextItem], target: int) -> str:
    user = newest_user_index(context)
    turn = context[user:] if user is not None else []
    folded = [item for item in context if isinstance(item, SummaryItem)]
    rest = prompt_tokens(context) - prompt_tokens(turn) - prompt_tokens(folded)
    return (
        f"{prompt_tokens(context):,} tokens are left where {target:,} fit: the newest turn takes "
        f"{prompt_tokens(turn):,}, summaries {prompt_tokens(folded):,}, other messages {max(rest, 0):,}"
    )


#: The only reason that new debts have; other ones were written by older programs.
THRESHOLD_REASON: Final = "threshold"
#: `resolution_reason` of a debt that a person closed.
OPERATOR_IGNORED: Final = "operator-ignored"
#: After so many failures even an emergency waits.
MAX_FORCED_ATTEMPTS = 3
_FIRST_BACKOFF = timedelta(minutes=5)
_LONGEST_BACKOFF = timedelta(minutes=30)
#: A pause of a model may be longer by its settings, but no debt waits for more than this.
_LONGEST_WAIT = timedelta(days=1)


def request_sweep(
    debt: CompactionDebt, decision: CompactionDecision, policy: CompactionPolicy, now: datetime
) -> CompactionDebt:
    """Ask for a sweep. A pending request keeps its first time and its back-off and takes the new numbers."""
    asked = replace(
        debt,
        pending=True,
        requested_at=debt.requested_at if debt.pending and debt.requested_at else now,
        reason=THRESHOLD_REASON,
        token_budget=decision.budget,
        current_token_count=decision.current_tokens,
        projected_token_count=decision.current_tokens,
        raw_tokens_outside_tail=None,
        context_threshold=policy.context_threshold,
        context_threshold_source=policy.context_threshold_source,
        context_fresh_tail_count=policy.fresh_tail_count,
        context_leaf_chunk_tokens=policy.leaf_chunk_tokens,
        retry_attempts=debt.retry_attempts if debt.pending else 0,
        next_attempt_after=debt.next_attempt_after if debt.pending else None,
        resolution_reason=None,
        resolved_at=None,
    )
    return _stamped(asked, now)


def is_debt_due(debt: CompactionDebt, now: datetime, *, emergency: bool = False) -> bool:
    """Whether the debt may be paid now.

    An emergency, a context that no longer fits, steps over the back-off of the first failures, then waits as
    everybody does. `running` is only a report: the lease of the conversation decides who works on it, so a dead
    worker blocks no other.
    """
    if not debt.pending:
        return False
    if debt.next_attempt_after is None or not now < debt.next_attempt_after <= now + _LONGEST_WAIT:
        return True  # one that is to wait longer was deferred before the clock went back
    return emergency and 0 < debt.retry_attempts < MAX_FORCED_ATTEMPTS


def start_drain(debt: CompactionDebt, now: datetime) -> CompactionDebt:
    """A worker begins to pay; it keeps the new revision to see, at the end, whether more was asked."""
    return _stamped(replace(debt, running=True, last_started_at=now), now)


def finish_drain(
    debt: CompactionDebt,
    ending: DrainEnding,
    now: datetime,
    *,
    started_revision: int,
    detail: str | None = None,
    until: datetime | None = None,
) -> CompactionDebt:
    """A worker stops. What it could not pay stays pending with its reason.

    `debt` is the row as it is now: a request that came since `started_revision` outlives a good ending.
    `until` is when an open guard closes again, and replaces the back-off.
    """
    attempts, later, pending = 0, None, debt.pending
    if ending in ("done", "exhausted"):
        pending = pending and debt.maintenance_revision != started_revision
    elif ending != "unfinished":
        attempts, detail = debt.retry_attempts + (ending in ("failed", "refused")), detail or ending
        later = until or (now + drain_backoff(attempts) if ending == "failed" else None)
    ended = replace(debt, pending=pending, running=False, last_finished_at=now, last_failure_summary=detail)
    return _stamped(replace(ended, retry_attempts=attempts, next_attempt_after=later), now)


def drain_ending(report: CompactionReport) -> DrainEnding:
    """How a drain came out, from what its compaction said and why its last sweep stopped."""
    if report.stop in ("busy", "stale"):
        return "unfinished"
    if report.stop is not None and report.stop in _FAILURES:
        return _FAILURES[report.stop][1]
    if report.exhausted:
        return "exhausted"
    if report.ok and report.reason is not CompactionReason.STILL_OVER:
        return "done"
    return "unfinished" if report.compacted else "failed"


def drain_backoff(attempts: int) -> timedelta:
    """5, 10, 20 minutes and then always 30."""
    doublings = min(max(0, attempts - 1), 8)
    return min(_LONGEST_BACKOFF, _FIRST_BACKOFF * (1 << doublings))


def revalidate_debt(debt: CompactionDebt, decision: CompactionDecision, now: datetime) -> CompactionDebt:
    """A debt with an older program's reason counts only if the threshold says so, too."""
    if not debt.pending or debt.reason == THRESHOLD_REASON:
        return debt
    if decision.should_compact:
        return _stamped(replace(debt, reason=THRESHOLD_REASON), now)
    return finish_drain(debt, "done", now, started_revision=debt.maintenance_revision)


def drain_budget(debt: CompactionDebt, budget: int) -> int:
    """The smaller of the budget that was asked with and the current one."""
    return min(budget, debt.token_budget) if debt.token_budget and debt.token_budget > 0 else budget


def drain_policy(
    debt: CompactionDebt, live: CompactionPolicy, possible: Iterable[CompactionPolicy]
) -> CompactionPolicy:
    """The numbers to pay with: the stored ones while some setting still gives them, else the live ones.

    A background drain may not know the model or window that chose them; settings changed since win.
    """
    if debt.context_threshold is None:
        return live
    stored = (debt.context_threshold, debt.context_fresh_tail_count, debt.context_leaf_chunk_tokens)
    for policy in (live, *possible):
        numbers = (policy.context_threshold, policy.fresh_tail_count, policy.leaf_chunk_tokens)
        if all(old in (None, new) for old, new in zip(stored, numbers, strict=True)):
            return policy
    return live


def _stamped(debt: CompactionDebt, now: datetime) -> CompactionDebt:
    return replace(debt, maintenance_revision=debt.maintenance_revision + 1, updated_at=now)
