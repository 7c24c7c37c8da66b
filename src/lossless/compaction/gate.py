"""Breaker and spend limit as rows: asked before every model call, told after it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lossless.errors import Stale
from lossless.llm import guard
from lossless.store.guards import LedgerRow

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from lossless.llm.candidates import Candidate
    from lossless.llm.chain import Attempt
    from lossless.store.archive import Archive


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
            state = guard.BreakerState(key, *self.archive.guards.breaker(key))
            if not guard.breaker_allows(state, now):
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
            state = guard.BreakerState(ticket.breaker_key, *self.archive.guards.breaker(ticket.breaker_key))
            if attempt.ending == "auth":
                state = guard.breaker_after_failure(state, now, self.breaker).state
            elif attempt.ending == "done" and state.failures:
                state = guard.breaker_after_success(state)
            else:
                return
            self.archive.guards.set_breaker(state.key, state.failures, state.open_until, now)

    def reset(self) -> None:
        """A person asked for it: the window begins anew and a back-off ends."""
        with self.archive.writing():
            self._write(guard.reset(self.scope, self.clock()), None)

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
