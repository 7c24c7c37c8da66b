"""One thing with all that belongs to it: the records of a conversation, a message's place, a summary's relatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from lossless.store.foreign import record
from lossless.store.scope import numbers
from lossless.store.sql import load

if TYPE_CHECKING:
    from datetime import datetime

    from _typeshed import DataclassInstance

    from lossless.store.database import Database

_QUERIES = load("details")

D = TypeVar("D", bound="DataclassInstance")


@dataclass(frozen=True, slots=True)
class Depth:
    """The summaries of one depth."""

    kind: str
    depth: int
    count: int
    tokens: int
    #: Of the messages below them.
    source_tokens: int


@dataclass(frozen=True, slots=True)
class ContextShare:
    """The items of one type in a context."""

    item_type: str
    count: int
    tokens: int


@dataclass(frozen=True, slots=True)
class FileTotals:
    """The large files of a conversation together."""

    count: int
    bytes: int
    latest_at: datetime | None


@dataclass(frozen=True, slots=True)
class Brief:
    """An active focus brief, without its text."""

    brief_id: str
    prompt: str
    token_count: int
    target_tokens: int
    covered_latest_at: datetime | None
    covered_message_seq: int | None
    created_at: datetime | None
    updated_at: datetime | None


@dataclass(frozen=True, slots=True)
class Debt:
    """A deferred sweep as it is recorded."""

    pending: bool
    running: bool
    reason: str | None
    requested_at: datetime | None
    last_started_at: datetime | None
    last_finished_at: datetime | None
    last_failure_summary: str | None
    retry_attempts: int
    next_attempt_after: datetime | None
    resolution_reason: str | None
    resolved_at: datetime | None
    token_budget: int | None
    current_token_count: int | None
    projected_token_count: int | None
    raw_tokens_outside_tail: int | None
    context_threshold: float | None
    context_threshold_source: str | None
    context_fresh_tail_count: int | None
    context_leaf_chunk_tokens: int | None
    maintenance_revision: int
    updated_at: datetime | None


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What providers reported about prompts and their caches."""

    cache_state: str
    provider: str | None
    model: str | None
    retention: str | None
    last_observed_prompt_token_count: int | None
    last_observed_cache_read: int | None
    last_observed_cache_write: int | None
    last_observed_cache_hit_at: datetime | None
    last_observed_cache_break_at: datetime | None
    consecutive_cold_observations: int
    last_activity_band: str
    last_api_call_at: datetime | None
    last_cache_touch_at: datetime | None
    last_leaf_compaction_at: datetime | None
    turns_since_leaf_compaction: int
    tokens_accumulated_since_leaf_compaction: int
    updated_at: datetime | None


@dataclass(frozen=True, slots=True)
class Frontier:
    """How far a host's session file was read."""

    session_file_path: str
    session_header_id: str | None
    last_seen_size: int
    last_seen_mtime_ms: int
    last_processed_offset: int
    last_processed_entry_id: str | None
    last_processed_entry_hash: str | None
    fork_bounded: bool
    fork_source_message_count: int
    soft_reset_pruned_at: datetime | None
    updated_at: datetime | None


@dataclass(frozen=True, slots=True)
class ConversationDetails:
    """What is recorded about a conversation besides its messages and summaries."""

    context: tuple[ContextShare, ...]
    debt: Debt | None
    telemetry: Telemetry | None
    frontier: Frontier | None
    brief_count: int
    active_brief: Brief | None
    files: FileTotals
    #: How many items left the context without a summary, by cause.
    hidden: dict[str, int]


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a message is now: in the context, below a leaf, or hidden with a cause."""

    ordinal: int | None = None
    leaf_id: str | None = None
    hidden_cause: str | None = None


class Details:
    """Reads about one conversation, message or summary; never writes."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def conversation(self, conversation_id: int) -> ConversationDetails:
        """What else is recorded about a conversation."""
        place = {"conversation_id": conversation_id}
        shares = self._db.rows(_QUERIES["context"], place)
        return ConversationDetails(
            context=tuple(record(ContextShare, row) for row in shares),
            debt=self._one(Debt, "debt", conversation_id),
            telemetry=self._one(Telemetry, "telemetry", conversation_id),
            frontier=self._one(Frontier, "frontier", conversation_id),
            brief_count=self._count("brief_count", conversation_id),
            active_brief=self._one(Brief, "active_brief", conversation_id),
            files=self._one(FileTotals, "files", conversation_id) or FileTotals(0, 0, None),
            hidden=dict(self._db.rows(_QUERIES["hidden"], place)),
        )

    def _one(self, kind: type[D], query: str, conversation_id: int) -> D | None:
        row = self._db.row(_QUERIES[query], {"conversation_id": conversation_id})
        return None if row is None else record(kind, row)

    def _count(self, query: str, conversation_id: int) -> int:
        row = self._db.row(_QUERIES[query], {"conversation_id": conversation_id})
        return row[0] if row else 0

    def context_count(self, conversation_id: int) -> int:
        """How many items a context has."""
        return self._count("context_count", conversation_id)

    def depths(self, conversation_id: int | None = None) -> list[Depth]:
        """The summaries of one conversation, or of all, by depth."""
        return [record(Depth, row) for row in self._db.rows(_QUERIES["depths"], numbers(conversation_id))]

    def standing(self, message_id: int) -> Standing:
        """Where a message is now."""
        row = self._db.row(_QUERIES["standing"], {"id": message_id})
        return Standing() if row is None else record(Standing, row)

    def sources(self, summary_id: str) -> list[str]:
        """The summaries that a summary was made of, in order; of its own conversation only."""
        return [row[0] for row in self._db.rows(_QUERIES["sources"], {"id": summary_id})]

    def used_in(self, summary_id: str) -> list[str]:
        """The summaries that were made of a summary; of its own conversation only."""
        return [row[0] for row in self._db.rows(_QUERIES["used_in"], {"id": summary_id})]

    def source_messages(self, summary_id: str) -> list[int]:
        """The messages that a leaf was made of, in order; of its own conversation only."""
        return [row[0] for row in self._db.rows(_QUERIES["source_messages"], {"id": summary_id})]
