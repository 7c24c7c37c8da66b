"""Pending compactions: one request per conversation for a later sweep, as a row that survives restarts.

Values in, values out; field names are the columns of `conversation_compaction_maintenance`. Every change raises
the revision by one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal

from lossless.compaction.plan import CompactionReason

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from lossless.compaction.compactor import CompactionPolicy, ThresholdSource
    from lossless.compaction.plan import CompactionDecision, CompactionOutcome, StopReason

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

#: How a drain came out. Only `done` and `exhausted` clear the debt, and only `failed` makes it back off: refused
#: credentials are the breaker's.
DrainEnding = Literal["done", "exhausted", "unfinished", "failed", "refused", "denied", "breaker open", "spend backoff"]


@dataclass(frozen=True, slots=True)
class CompactionDebt:
    """What a conversation owes, and how paying it went so far."""

    conversation_id: int
    pending: bool = False
    requested_at: datetime | None = None
    reason: str | None = None
    running: bool = False
    last_started_at: datetime | None = None
    last_finished_at: datetime | None = None
    last_failure_summary: str | None = None
    token_budget: int | None = None
    current_token_count: int | None = None
    projected_token_count: int | None = None
    raw_tokens_outside_tail: int | None = None
    context_threshold: float | None = None
    context_threshold_source: ThresholdSource | None = None
    context_fresh_tail_count: int | None = None
    context_leaf_chunk_tokens: int | None = None
    retry_attempts: int = 0
    next_attempt_after: datetime | None = None
    resolution_reason: str | None = None
    resolved_at: datetime | None = None
    maintenance_revision: int = 0
    updated_at: datetime | None = None


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
    worker blocks nobody.
    """
    if not debt.pending:
        return False
    if debt.next_attempt_after is None or not now < debt.next_attempt_after <= now + _LONGEST_WAIT:
        return True  # one that is to wait longer was put off before the clock went back
    return emergency and 0 < debt.retry_attempts < MAX_FORCED_ATTEMPTS


def recover_abandoned(debt: CompactionDebt, now: datetime, longest: timedelta) -> CompactionDebt:
    """The debt as it is owed: lossless-claw takes it off when it starts to pay, so a killed sweep is only running."""
    if debt.pending or not debt.running:
        return debt
    begun = debt.last_started_at
    is_alive = begun is not None and now - longest <= begun <= now
    return debt if is_alive else replace(debt, pending=True, running=False, reason=debt.reason or THRESHOLD_REASON)


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
    if ending in ("done", "exhausted"):
        asked_again = debt.pending and debt.maintenance_revision != started_revision
        return _stamped(_settled(debt, now, pending=asked_again, failure=detail), now)
    if ending == "unfinished":
        return _stamped(_settled(debt, now, pending=debt.pending, failure=detail), now)
    attempts = debt.retry_attempts + (ending in ("failed", "refused"))
    waiting = replace(
        debt,
        running=False,
        last_finished_at=now,
        last_failure_summary=detail or ending,
        retry_attempts=attempts,
        next_attempt_after=until or (now + drain_backoff(attempts) if ending == "failed" else None),
    )
    return _stamped(waiting, now)


def drain_ending(outcome: CompactionOutcome, stop: StopReason | None) -> DrainEnding:
    """How a drain came out, from what its compaction said and why its last sweep stopped."""
    match stop:
        case "auth failure":
            return "refused"
        case "model failure":
            return "failed"
        case "model denied":
            return "denied"
        case "breaker open" | "spend backoff":
            return stop
        case "busy" | "stale":
            return "unfinished"
    if outcome.exhausted:
        return "exhausted"
    if outcome.ok and outcome.reason is not CompactionReason.STILL_OVER:
        return "done"
    return "unfinished" if outcome.compacted else "failed"


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
    return _stamped(_settled(debt, now, pending=False), now)


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


def _settled(debt: CompactionDebt, now: datetime, *, pending: bool, failure: str | None = None) -> CompactionDebt:
    """Nobody works on it, and no failure is held against it."""
    return replace(
        debt,
        pending=pending,
        running=False,
        last_finished_at=now,
        last_failure_summary=failure,
        retry_attempts=0,
        next_attempt_after=None,
    )


def _stamped(debt: CompactionDebt, now: datetime) -> CompactionDebt:
    return replace(debt, maintenance_revision=debt.maintenance_revision + 1, updated_at=now)
