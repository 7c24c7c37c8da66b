"""Is it time to compact, who pays for it, is it enough, and what to tell the caller."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal

from lossless.errors import BadInput

if TYPE_CHECKING:
    from lossless.compaction.policy import CompactionPolicy

#: Under the threshold, over it, or at the budget itself.
Pressure = Literal["none", "soft", "hard"]
Payer = Literal["nobody", "background", "turn"]

#: Why a sweep ended.
Stop = Literal[
    "nothing left",
    "no progress",
    "iterations",
    "deadline",
    "stale",
    "busy",
    "auth failure",
    "model failure",
    "model denied",
    "breaker open",
    "spend backoff",
]


class Reason(StrEnum):
    """What a compaction says about itself."""

    BELOW_THRESHOLD = "below threshold"
    COMPACTED = "compacted"
    STILL_OVER = "compacted but still over target"
    ALREADY_UNDER = "already under target"
    NOTHING = "nothing to compact"
    LIVE_OVER = "live context still exceeds target"
    EXHAUSTED = "stored compaction exhausted but live context still exceeds target; transcript reset required"
    NOT_REACHED = "could not reach target"
    AUTH = "provider auth failure"
    AUTH_PARTIAL = "provider auth failure after partial compaction"
    MODEL_FAILED = "summary model failed"
    MODEL_DENIED = "summary model denied"
    BREAKER = "circuit breaker open"
    SPEND = "summary spend backoff open"
    BUSY = "another worker is compacting this conversation"
    NO_CONVERSATION = "no conversation found for session"
    EXCLUDED = "session excluded"
    STATELESS = "stateless session"
    NO_BUDGET = "missing token budget in compact params"
    OFF = "lossless is switched off"


@dataclass(frozen=True, slots=True)
class Decision:
    """How full a context is, measured once; everything else follows from it."""

    stored_tokens: int
    #: What the host says it sent; None when unknown.
    observed_tokens: int | None
    budget: int
    #: The threshold in tokens: more than this is too much.
    target_tokens: int
    #: What the frames around the items take in a prompt.
    framing: int = 0

    @property
    def current_tokens(self) -> int:
        return max(self.stored_tokens + self.framing, self.observed_tokens or 0)

    @property
    def overhead(self) -> int:
        """Tokens of the prompt that are not in the context and cannot be folded."""
        return self.current_tokens - self.stored_tokens - self.framing

    @property
    def should_compact(self) -> bool:
        return self.current_tokens > self.target_tokens

    @property
    def pressure(self) -> Pressure:
        if self.current_tokens >= self.budget:
            return "hard"
        return "soft" if self.should_compact else "none"

    @property
    def stop_at(self) -> int | None:
        """Where a sweep may stop folding messages: set when the observed count is what is too large."""
        if self.observed_tokens is None or self.observed_tokens <= self.target_tokens:
            return None
        return max(1, self.target_tokens - self.overhead)

    def is_under(self, tokens: int) -> bool:
        """Whether a context that takes so many tokens, frames and all, with the same overhead is within the target."""
        return tokens + self.overhead <= self.target_tokens


def evaluate(
    stored_tokens: int,
    observed_tokens: int | None,
    budget: int,
    policy: CompactionPolicy,
    *,
    framing: int = 0,
) -> Decision:
    """Measure a context against its budget: strictly more than the threshold is too much.

    The frames around its items count as they do in a prompt (`model.context.framed`). A budget that is not
    positive raises BadInput: a session without one would never be compacted and nobody would notice.
    """
    if budget <= 0:
        raise BadInput(Reason.NO_BUDGET.value)
    observed = None if observed_tokens is None or observed_tokens < 0 else observed_tokens
    return Decision(stored_tokens, observed, policy.capped(budget), policy.threshold_tokens(budget), framing)


@dataclass(frozen=True, slots=True)
class Bill:
    """Who runs the sweep, and whether it may ask a model."""

    payer: Payer
    may_ask_model: bool


def bill(decision: Decision, policy: CompactionPolicy) -> Bill:
    """Below the budget a turn never waits (unless inline mode was chosen); at it, it folds extractively."""
    match decision.pressure:
        case "none":
            return Bill("nobody", may_ask_model=False)
        case "hard":
            return Bill("turn", may_ask_model=policy.hard_limit_summariser == "model")
        case "soft":
            inline = policy.proactive_threshold_compaction_mode == "inline"
            return Bill("turn" if inline else "background", may_ask_model=True)


@dataclass(frozen=True, slots=True)
class Chain:
    """Sweeps in a row until the context is small enough: bounded in number, in time and by progress."""

    target_tokens: int
    #: The context and the overhead after the last sweep.
    tokens: int
    overhead: int
    max_rounds: int
    deadline: float
    #: Whether, before the first sweep, exactly the target is still too much.
    strict: bool = False
    rounds: int = 0
    progressed: bool = True

    @property
    def is_under(self) -> bool:
        if self.strict and not self.rounds:
            return self.tokens < self.target_tokens
        return self.tokens <= self.target_tokens


def threshold_chain(decision: Decision, policy: CompactionPolicy, now: float) -> Chain:
    """Sweeps that bring a context back under its threshold."""
    return Chain(
        decision.target_tokens,
        decision.current_tokens,
        decision.overhead,
        policy.max_sweep_iterations,
        now + policy.compact_until_under_deadline_ms / 1000,
    )


def recovery_chain(
    decision: Decision,
    policy: CompactionPolicy,
    now: float,
    *,
    target: int | None = None,
    force: bool = False,
) -> Chain:
    """Sweeps that bring a context under `target`, by default the budget, after the host overflowed.

    A forced recovery without an observed count believes the host: the context fills the budget.
    """
    assumed = decision.budget if force and decision.observed_tokens is None else 0
    return Chain(
        decision.budget if target is None else target,
        max(decision.current_tokens, assumed),
        decision.overhead,
        policy.max_rounds,
        now + policy.compact_until_under_deadline_ms / 1000,
        strict=True,
    )


def another_round(chain: Chain, now: float) -> bool:
    """Whether one more sweep is wanted, allowed, and likely to help."""
    allowed = chain.rounds < chain.max_rounds and now < chain.deadline
    return allowed and chain.progressed and not chain.is_under


def after_round(chain: Chain, tokens: int) -> Chain:
    """The chain after a sweep left a context that takes so many tokens."""
    tokens += chain.overhead
    return replace(chain, tokens=tokens, rounds=chain.rounds + 1, progressed=tokens < chain.tokens)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a compaction came to; `exhausted` when it is over its target and nothing is left to fold."""

    ok: bool
    compacted: bool
    reason: Reason
    exhausted: bool = False


_FAILURES: Final[dict[Stop, Reason]] = {
    "auth failure": Reason.AUTH,
    "model failure": Reason.MODEL_FAILED,
    "model denied": Reason.MODEL_DENIED,
    "breaker open": Reason.BREAKER,
    "spend backoff": Reason.SPEND,
}
#: A sweep ended so because a model did not answer, or must not be asked.
FAILED_STOPS: Final[frozenset[Stop]] = frozenset(_FAILURES)


def conclude(chain: Chain, stop: Stop, folds: int, *, manual: bool = False) -> Outcome:
    """Say how a compaction ended: its chain after the last sweep, why that one stopped, folds in all."""
    compacted, under = folds > 0, chain.is_under
    if failure := _FAILURES.get(stop):
        reason = Reason.AUTH_PARTIAL if failure is Reason.AUTH and compacted else failure
        return Outcome(failure is Reason.BREAKER, compacted, reason)
    if under or (manual and not compacted):
        idle = Reason.NOTHING if manual else Reason.ALREADY_UNDER
        return Outcome(True, compacted, Reason.COMPACTED if compacted else idle)
    exhausted = stop == "nothing left"
    if chain.strict:
        return Outcome(False, compacted, Reason.NOT_REACHED, exhausted)
    if compacted:
        return Outcome(True, True, Reason.STILL_OVER, exhausted)
    return Outcome(False, False, Reason.EXHAUSTED if exhausted and chain.overhead else Reason.LIVE_OVER, exhausted)
