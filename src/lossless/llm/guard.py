"""When a model must not be asked: the breaker and the spend limit.

Decisions only: states and times come in, new states go out. The rows live in the archive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless.errors import GuardOpen
from lossless.model.times import state_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: `GuardOpen.guard` of a breaker and of a spend limit.
BREAKER_GUARD = "breaker"
SPEND_GUARD = "spend"

BREAKER_OPEN_TEXT = "summary provider circuit breaker is open"


#: How far the clocks of two programs may be apart. What is later was written before the clock went back.
_SKEW = timedelta(minutes=1)


# The breaker: refused credentials, again and again.


@dataclass(frozen=True, slots=True)
class BreakerLimits:
    """After how many refusals in a row a breaker opens, and for how long."""

    threshold: int = 5
    cooldown: timedelta = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class BreakerState:
    """One breaker: how many times in a row credentials were refused, and until when it is open."""

    key: str
    failures: int = 0
    open_until: datetime | None = None


def breaker_key(provider: str, model: str) -> str:
    """The name of a model's breaker.

    >>> breaker_key("anthropic", "claude-haiku")
    'provider:anthropic;model:claude-haiku'
    """
    return f"provider:{provider};model:{model}"


def breaker_after_failure(state: BreakerState, now: datetime, limits: BreakerLimits) -> BreakerState:
    """Count one refusal. The breaker opens at the threshold; after its pause, one more opens it again."""
    failures = state.failures + 1
    return BreakerState(state.key, failures, now + limits.cooldown if failures >= limits.threshold else None)


def breaker_needs_notice(state: BreakerState, limits: BreakerLimits) -> bool:
    """Whether a person should hear of a refusal that led here: half way to the threshold, and when it opens."""
    return state.open_until is not None or state.failures == -(-limits.threshold // 2)


def breaker_after_success(state: BreakerState) -> BreakerState:
    """Any success closes a breaker and forgets its failures."""
    return BreakerState(state.key)


def breaker_allows(state: BreakerState, now: datetime, limits: BreakerLimits) -> bool:
    """Whether the model may be asked now. A pause that is too long was written before the clock went back."""
    if state.open_until is None or now >= state.open_until:
        return True
    return state.open_until > now + limits.cooldown + _SKEW


def breaker_refusal(state: BreakerState) -> GuardOpen:
    """The error for a call that an open breaker forbids."""
    until = "" if state.open_until is None else state_time(state.open_until)
    return GuardOpen(BREAKER_GUARD, f"{BREAKER_OPEN_TEXT} ({state.key})", until)


# The spend limit: too many calls in a window.

EntryKind: TypeAlias = Literal["call", "reset", "backoff"]
CallResult: TypeAlias = Literal["reserved", "done", "failed", "auth"]


@dataclass(frozen=True, slots=True)
class SpendLimits:
    """How many calls a scope may make in a window, and how long it rests when it wants more."""

    window: timedelta = timedelta(minutes=10)
    max_calls: int = 24
    backoff: timedelta = timedelta(minutes=30)
    #: How long a reserved slot may stay unsettled before its caller counts as gone.
    slot: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class SpendEntry:
    """One row of the ledger: a call, the opening of a back-off, or a person's reset."""

    scope: str
    kind: EntryKind
    at: datetime
    #: When a call's slot runs out unsettled, or when a back-off ends.
    until: datetime | None = None
    #: When the window began that a call counts in.
    window_at: datetime | None = None
    result: CallResult = "reserved"

    @property
    def counts(self) -> bool:
        """Whether it uses up the window: every call but one whose credentials were refused.

        A slot that was never settled counts: its caller may have died after the call.
        """
        return self.kind == "call" and self.result != "auth"


@dataclass(frozen=True, slots=True)
class SpendState:
    """Where a scope stands: calls in the window that is running, and the back-off if one is open."""

    scope: str
    window_at: datetime | None = None
    calls: int = 0
    backoff_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class SpendSlot:
    """Leave for one call: write `entry` before it and settle it after."""

    entry: SpendEntry


@dataclass(frozen=True, slots=True)
class SpendRefusal:
    """No leave: raise `error`, after writing `entry` when this refusal opened the back-off."""

    error: GuardOpen
    entry: SpendEntry | None = None


def compaction_scope(queue_key: str) -> str:
    """The spend scope of a conversation's summaries."""
    return f"compaction:{queue_key}"


def entries_since(now: datetime, limits: SpendLimits) -> datetime:
    """How far back a decision looks: older ledger entries change nothing."""
    return now - max(limits.window, limits.backoff)


def spend_state(scope: str, entries: Iterable[SpendEntry], now: datetime, limits: SpendLimits) -> SpendState:
    """Where `scope` stands by its ledger, oldest entry first; all before its last reset is forgiven.

    Entries of the future, from before the clock went back, count for nothing.
    """
    since_reset: list[SpendEntry] = []
    for entry in entries:
        if entry.at > now + _SKEW:
            continue
        if entry.scope == scope and entry.kind == "reset":
            since_reset.clear()
        elif entry.scope == scope:
            since_reset.append(entry)
    ends = [entry.until for entry in since_reset if entry.kind == "backoff" and entry.until is not None]
    backoff_until = max((end for end in ends if end > now), default=None)
    starts = [entry.window_at for entry in since_reset if entry.kind == "call" and entry.window_at is not None]
    window_at = max(starts, default=None)
    if window_at is None or now >= window_at + limits.window or any(window_at < end <= now for end in ends):
        return SpendState(scope, backoff_until=backoff_until)
    calls = sum(entry.counts and entry.window_at == window_at for entry in since_reset)
    return SpendState(scope, window_at, calls, backoff_until)


def reserve_call(
    scope: str, entries: Sequence[SpendEntry], now: datetime, limits: SpendLimits
) -> SpendSlot | SpendRefusal:
    """Leave for one more call of `scope`, or a refusal.

    A window is fixed: it begins with its first call and ends after `limits.window`. The call past the limit
    opens the back-off. Read, decide and write in one transaction, so that processes share the limit.
    """
    state = spend_state(scope, entries, now, limits)
    if state.backoff_until is not None:
        return SpendRefusal(_spend_refusal(scope, "summary spend backoff open", state.backoff_until))
    if state.calls >= limits.max_calls:
        entry = backoff_entry(scope, now, limits)
        reason = f"{state.calls} model calls within {limits.window.total_seconds() / 60:g} min"
        return SpendRefusal(_spend_refusal(scope, reason, now + limits.backoff), entry)
    return SpendSlot(SpendEntry(scope, "call", now, now + limits.slot, state.window_at or now))


def settle_call(entry: SpendEntry, result: CallResult) -> SpendEntry:
    """The ledger entry of a call that has ended."""
    return replace(entry, result=result, until=None)


def backoff_entry(scope: str, now: datetime, limits: SpendLimits) -> SpendEntry:
    """The ledger entry that makes a scope rest: past the limit, or after a sweep that got nowhere."""
    return SpendEntry(scope, "backoff", now, now + limits.backoff)


def reset_entry(scope: str, now: datetime) -> SpendEntry:
    """The ledger entry of a person's order to go on: ends the back-off and begins a new window."""
    return SpendEntry(scope, "reset", now)


def _spend_refusal(scope: str, reason: str, until: datetime) -> GuardOpen:
    return GuardOpen(SPEND_GUARD, f"{reason} ({scope})", state_time(until))
