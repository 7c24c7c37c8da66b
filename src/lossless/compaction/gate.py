"""Breaker and spend limit as rows: asked before every model call, told after it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from lossless.errors import Stale
from lossless.llm import guard
from lossless.model.times import state_time
from lossless.store.guards import LedgerRow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from lossless.llm.candidates import Candidate
    from lossless.llm.chain import Attempt
    from lossless.store.archive import Archive

_log = logging.getLogger("lossless.compaction")


@dataclass(frozen=True, slots=True)
class Ticket:
    """Leave for one call: the ledger line to settle and the breaker to tell."""

    entry_id: int
    breaker_key: str
    model: str


@dataclass(frozen=True, slots=True)
class ArchiveGate:
    """The gate in front of the models of one scope; every process that shares the archive sees it."""

    archive: Archive
    scope: str
    conversation_id: int | None
    clock: Callable[[], datetime]
    spend: guard.SpendLimits
    breaker: guard.BreakerLimits
    purpose: str = "summary"
    #: Says, before each call, whether its answer is still wanted.
    is_wanted: Callable[[], bool] = lambda: True
    #: The calls that were let through.
    tickets: list[Ticket] = field(default_factory=list)

    def enter(self, candidate: Candidate) -> Ticket:
        """Reserve a call; raises `GuardOpen` when the breaker is open or the window is spent.

        Raises `Stale` when the answer is no longer wanted.
        """
        key, now = guard.breaker_key(candidate.provider, candidate.model), self.clock()
        refusal = None
        with self.archive.writing():
            if not self.is_wanted():
                raise Stale("another worker took this conversation over")
            state = self._breaker(key)
            if not guard.breaker_allows(state, now, self.breaker):
                raise guard.breaker_refusal(state)
            answer = guard.reserve(self.scope, self._entries(now), now, self.spend)
            if isinstance(answer, guard.Slot):
                ticket = Ticket(self._write(answer.entry, candidate.name), key, candidate.name)
                self.tickets.append(ticket)
                return ticket
            refusal = answer.error
            if answer.entry is not None:
                self._write(answer.entry, None)
        raise refusal

    def resting(self, candidates: Sequence[Candidate]) -> Literal["breaker open", "spend backoff"] | None:
        """Why none of these models would be let through now; None when one would, or there is none. Writes nothing."""
        if not candidates:
            return None
        now = self.clock()
        states = [self._breaker(guard.breaker_key(one.provider, one.model)) for one in candidates]
        if not any(guard.breaker_allows(state, now, self.breaker) for state in states):
            return "breaker open"
        spent = guard.spend_state(self.scope, self._entries(now), now, self.spend)
        return None if spent.backoff_until is None else "spend backoff"

    def leave(self, ticket: object, attempt: Attempt) -> None:
        """Settle the call, and open or close the breaker."""
        assert isinstance(ticket, Ticket)
        usage, now = attempt.usage, self.clock()
        with self.archive.writing():
            self.archive.guards.settle(
                ticket.entry_id,
                attempt.ending,
                model=ticket.model,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cost=usage.cost,
            )
            state = self._breaker(ticket.breaker_key)
            if attempt.ending == "auth":
                state = guard.breaker_after_failure(state, now, self.breaker)
            elif attempt.ending == "done" and state.failures:
                state = guard.breaker_after_success(state)
            else:
                return
            self.archive.guards.set_breaker(state.key, state.failures, state.open_until, now)
        if attempt.ending == "auth" and guard.breaker_is_news(state, self.breaker):
            rest = f", it rests until {state_time(state.open_until)}" if state.open_until else ""
            _log.warning("%s refused its credentials %d times in a row%s", ticket.model, state.failures, rest)

    def reset(self) -> None:
        """A person asked for it: the window begins anew and a back-off ends."""
        with self.archive.writing():
            self._write(guard.reset(self.scope, self.clock()), None)

    def _breaker(self, key: str) -> guard.BreakerState:
        return guard.BreakerState(key, *self.archive.guards.breaker(key))

    def _entries(self, now: datetime) -> list[guard.SpendEntry]:
        rows = self.archive.guards.ledger(self.scope, guard.entries_since(now, self.spend))
        return [
            guard.SpendEntry(row.scope, _kind(row.kind), row.at, row.until, row.window_at, _result(row.result))
            for row in rows
        ]

    def _write(self, entry: guard.SpendEntry, model: str | None) -> int:
        row = LedgerRow(0, entry.scope, entry.kind, entry.at, entry.until, entry.window_at, entry.result)
        return self.archive.guards.add_entry(
            row, conversation_id=self.conversation_id, purpose=self.purpose, model=model
        )


def _kind(text: str) -> guard.EntryKind:
    return text if text in ("reset", "backoff") else "call"  # type: ignore[return-value]


def _result(text: str) -> guard.CallResult:
    return text if text in ("done", "failed", "auth") else "reserved"  # type: ignore[return-value]
