"""Debts (deferred sweeps) and prompt-cache telemetry on disk, in upstream's tables."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lossless.model.times import state_time
from lossless.store.rows import time
from lossless.store.sql import load

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lossless.store.database import Database

_QUERIES = load("debts")
#: A sweep that was started longer ago is dead, whoever started it.
LONGEST_SWEEP = timedelta(minutes=10)
_COLUMNS = (
    "pending", "requested_at", "reason", "running", "last_started_at", "last_finished_at", "last_failure_summary",
    "token_budget", "current_token_count", "projected_token_count", "raw_tokens_outside_tail", "context_threshold",
    "context_threshold_source", "context_fresh_tail_count", "context_leaf_chunk_tokens", "retry_attempts",
    "next_attempt_after", "resolution_reason", "resolved_at", "maintenance_revision", "updated_at",
)  # fmt: skip
_TIMES = {
    "requested_at", "last_started_at", "last_finished_at", "next_attempt_after", "resolved_at", "updated_at",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Observation:
    """What a provider reported about one call of the host: the prompt's size and what its cache did."""

    prompt_tokens: int | None
    cache_read: int = 0
    cache_write: int = 0
    provider: str | None = None
    model: str | None = None
    #: Tokens of the reply.
    output_tokens: int = 0

    @property
    def cache_state(self) -> str:
        """`hot` when the cache was read, `cold` when it was only written, else `unknown`."""
        return "hot" if self.cache_read > 0 else "cold" if self.cache_write > 0 else "unknown"


class Debts:
    """Reads and writes debts by their columns; what they mean is `compaction.debt`'s business."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def get(self, conversation_id: int) -> dict[str, Any] | None:
        """A debt by its columns, times as times; None when there never was one."""
        row = self._db.row(_QUERIES["get"], {"conversation_id": conversation_id})
        if row is None:
            return None
        values = dict(zip(_COLUMNS, row, strict=True))
        values |= {name: time(values[name]) for name in _TIMES}
        return values | {"pending": bool(values["pending"]), "running": bool(values["running"])}

    def put(self, conversation_id: int, values: Mapping[str, Any]) -> None:
        """Write a debt."""
        row = {name: _plain(values[name]) for name in _COLUMNS}
        self._db.run(_QUERIES["put"], row | {"conversation_id": conversation_id})

    def pending(self, *, archived: bool = False, now: datetime | None = None) -> list[int]:
        """Conversations that owe a sweep, the longest waiting first; one that another program left half done, too."""
        days = LONGEST_SWEEP / timedelta(days=1)
        values = {"all": archived, "now": state_time(now or datetime.now(UTC)), "longest_days": days}
        return [row[0] for row in self._db.rows(_QUERIES["pending"], values)]

    def observe(self, conversation_id: int, seen: Observation, tokens: int, now: datetime) -> None:
        """Record what a provider reported; for people to see, never to decide by."""
        self._db.run(
            _QUERIES["telemetry"],
            {
                "conversation_id": conversation_id, "read": seen.cache_read, "write": seen.cache_write,
                "prompt": seen.prompt_tokens, "state": seen.cache_state, "tokens": tokens, "now": state_time(now),
                "provider": seen.provider, "model": seen.model,
            },
        )  # fmt: skip

    def leaf_compacted(self, conversation_id: int, now: datetime) -> None:
        """Begin to count anew after a leaf."""
        self._db.run(_QUERIES["leaf_compacted"], {"conversation_id": conversation_id, "now": state_time(now)})


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return state_time(value)
    return int(value) if isinstance(value, bool) else value
