"""Leases, the spend ledger, breakers and token factors: rows, so that a restart forgets nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.model.history import HistoryBudget, Kept
from lossless.model.times import state_time
from lossless.store.holders import is_gone
from lossless.store.rows import time
from lossless.store.sql import load

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from decimal import Decimal

    from lossless.store.database import Database

_QUERIES = load("guards")


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One line of the spend ledger."""

    id: int
    scope: str
    kind: str
    at: datetime
    until: datetime | None
    window_at: datetime | None
    result: str


@dataclass(frozen=True, slots=True)
class Spent:
    """What the calls to one model for one purpose came to; `costs` are those that are known."""

    model: str
    purpose: str | None
    calls: int
    done: int
    failed: int
    input_tokens: int
    output_tokens: int
    costs: tuple[str, ...]
    #: Calls whose price nobody knows.
    unpriced: int


class Guards:
    """Reads and writes of what keeps model calls within bounds."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def take_lease(self, name: str, owner: str, now: datetime, length: timedelta) -> bool:
        """Become or stay the owner of a lease; False when another one holds it and is alive. Needs a transaction."""
        holder = self._db.row(_QUERIES["lease"], {"name": name, "now": state_time(now)})
        if holder is not None and is_gone(holder[0]):
            self.drop_lease(name, holder[0])
        times = {"now": state_time(now), "expires": state_time(now + length)}
        self._db.run(_QUERIES["take_lease"], {"name": name, "owner": owner} | times)
        return self._db.changes() > 0

    def is_leased(self, name: str, now: datetime) -> bool:
        """Whether somebody holds a lease, and is alive as far as one can see from here."""
        holder = self._db.row(_QUERIES["lease"], {"name": name, "now": state_time(now)})
        return holder is not None and not is_gone(holder[0])

    def drop_lease(self, name: str, owner: str) -> None:
        """Let go of a lease, if it is still ours."""
        self._db.run(_QUERIES["drop_lease"], {"name": name, "owner": owner})

    def break_lease(self, name: str) -> None:
        """Take a lease from whoever holds it."""
        self._db.run(_QUERIES["break_lease"], {"name": name})

    def ledger(self, scope: str, since: datetime) -> list[LedgerRow]:
        """The lines of a scope since a moment, oldest first."""
        found = self._db.rows(_QUERIES["ledger"], {"scope": scope, "since": state_time(since)})
        return [
            LedgerRow(id_, scope_, kind, _moment(at), time(until), time(window), result)
            for id_, scope_, kind, at, until, window, result in found
        ]

    def add_entry(
        self,
        row: LedgerRow,
        *,
        conversation_id: int | None = None,
        purpose: str | None = None,
        model: str | None = None,
    ) -> int:
        """Write a line; its id is given by the archive."""
        values = {
            "scope": row.scope, "kind": row.kind, "at": state_time(row.at), "until": _text(row.until),
            "window_at": _text(row.window_at), "result": row.result, "conversation_id": conversation_id,
            "purpose": purpose, "model": model,
        }  # fmt: skip
        self._db.run(_QUERIES["add_entry"], values)
        return self._db.last_id()

    def settle(
        self,
        entry_id: int,
        result: str,
        *,
        model: str | None,
        input_tokens: int,
        output_tokens: int,
        cost: Decimal | None,
    ) -> None:
        """Write down how a reserved call ended and what it took."""
        values = {
            "id": entry_id, "result": result, "model": model, "input_tokens": input_tokens,
            "output_tokens": output_tokens, "cost": None if cost is None else str(cost),
        }  # fmt: skip
        self._db.run(_QUERIES["settle"], values)

    def spent(self, since: datetime, conversation_id: int | None = None) -> list[Spent]:
        """Model calls since a moment, by model and purpose."""
        found = self._db.rows(_QUERIES["spent"], {"since": state_time(since), "conversation_id": conversation_id})
        return [
            Spent(
                model, purpose, calls, done, failed, read, written, tuple(costs.split(",")) if costs else (), unpriced
            )
            for model, purpose, calls, done, failed, read, written, costs, unpriced in found
        ]

    def breaker(self, key: str) -> tuple[int, datetime | None]:
        """How often in a row a model refused us, and until when it is not asked."""
        row = self._db.row(_QUERIES["breaker"], {"key": key})
        return (0, None) if row is None else (row[0], time(row[1]))

    def set_breaker(self, key: str, failures: int, open_until: datetime | None, now: datetime) -> None:
        values = {"key": key, "failures": failures, "open_until": _text(open_until), "now": state_time(now)}
        self._db.run(_QUERIES["set_breaker"], values)

    def factor(self, model: str) -> tuple[float, float, int] | None:
        """What is known of a model's tokenizer: ratio, spread, observations."""
        row = self._db.row(_QUERIES["factor"], {"model": model})
        return None if row is None else (row[0], row[1], row[2])

    def set_factor(self, model: str, ratio: float, spread: float, observations: int, now: datetime) -> None:
        values = {"model": model, "ratio": ratio, "spread": spread, "observations": observations}
        self._db.run(_QUERIES["set_factor"], values | {"now": state_time(now)})

    def history(self, conversation_id: int) -> Kept | None:
        """What is remembered of a conversation's budget; None when it never had one."""
        row = self._db.row(_QUERIES["history"], {"conversation_id": conversation_id})
        if row is None:
            return None
        return Kept(HistoryBudget(*row[:5]), frame=row[5], frame_at=row[6], longest_reply=row[7])

    def active_histories(self) -> list[int]:
        """The active conversations that had a budget, the one whose budget changed last first."""
        return [row[0] for row in self._db.rows(_QUERIES["active_histories"])]

    def newest_histories(self, limit: int) -> list[tuple[int, HistoryBudget]]:
        """The budgets that changed last, by conversation."""
        rows = self._db.rows(_QUERIES["newest_histories"], {"limit": limit})
        return [(row[0], HistoryBudget(*row[1:])) for row in rows]

    def set_history(self, conversation_id: int, kept: Kept, now: datetime) -> None:
        budget = kept.budget
        values = {
            "conversation_id": conversation_id, "window": budget.window, "beside": budget.beside,
            "frame": budget.frame, "reply": budget.reply, "factor": budget.factor, "counted_frame": kept.frame,
            "counted_at": kept.frame_at, "longest_reply": kept.longest_reply, "now": state_time(now),
        }  # fmt: skip
        self._db.run(_QUERIES["set_history"], values)

    def stubborn(self, conversation_id: int) -> dict[str, str]:
        """Chunks that are not worth another try, and why."""
        return dict(self._db.rows(_QUERIES["stubborn"], {"conversation_id": conversation_id}))

    def remember_stubborn(self, conversation_id: int, chunk: str, kind: str, now: datetime) -> None:
        values = {"conversation_id": conversation_id, "chunk": chunk, "kind": kind, "now": state_time(now)}
        self._db.run(_QUERIES["remember_stubborn"], values)


def _moment(text: str) -> datetime:
    moment = time(text)
    assert moment is not None
    return moment


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else state_time(moment)
