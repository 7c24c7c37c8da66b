"""What an archive returns besides messages and summaries: list rows, pages, totals and recorded changes."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from lossless.model.context import QuoteSpan
    from lossless.model.conversations import Session

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PageStart:
    """Where a page begins: after the row with this time (as shown in the row, '' for none) and this id."""

    at: str
    id: int | str


#: The bytes of a page of a file's text.
MIN_PAGE_BYTES, MAX_PAGE_BYTES, DEFAULT_PAGE_BYTES = 1024, 512_000, 32_768
#: Longer strings are not cursors.
_MAX_CURSOR_CHARS = 8_000


def pack_cursor(fields: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields, separators=(",", ":")).encode()).decode().rstrip("=")


def unpack_cursor(word: str) -> dict[str, Any] | None:
    """The fields of a cursor; None when it is not one."""
    if len(word) > _MAX_CURSOR_CHARS:
        return None
    try:
        fields = json.loads(base64.b64decode(word + "=" * (-len(word) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message in a list; `content` is its beginning unless the whole was requested."""

    message_id: int
    conversation_id: int
    seq: int
    role: str
    token_count: int
    created_at: datetime | None
    large_content: str | None
    #: The tools that it calls or has results of, in order.
    tools: tuple[str, ...]
    content: str


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """A conversation with its counts."""

    conversation_id: int
    session_id: str
    session_key: str | None
    active: bool
    archived_at: datetime | None
    archive_cause: str | None
    title: str | None
    bootstrapped_at: datetime | None
    created_at: datetime | None
    #: When it last changed: ingestion, a new message, or an update of its own row.
    updated_at: datetime | None
    message_count: int
    message_tokens: int
    earliest_message_at: datetime | None
    latest_message_at: datetime | None
    summary_count: int
    summary_tokens: int
    #: Of the messages covered by summaries.
    summarized_source_tokens: int
    earliest_summary_at: datetime | None
    latest_summary_at: datetime | None
    max_summary_depth: int | None
    context_items: int
    context_tokens: int


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A time range: `since` inclusive, `before` exclusive."""

    since: str | None = None
    before: str | None = None


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """A summary in a list; `content` is its beginning unless the whole was requested."""

    summary_id: str
    conversation_id: int
    kind: str
    depth: int
    token_count: int
    earliest_at: datetime | None
    latest_at: datetime | None
    #: The time of its newest message; the time of writing when that is unknown.
    coverage_at: datetime | None
    descendant_count: int
    descendant_token_count: int
    source_message_token_count: int
    created_at: datetime | None
    file_ids: tuple[str, ...]
    model: str
    used_in_count: int
    source_count: int
    source_message_count: int
    content: str


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some rows, newest first, and where the next page begins when there is one."""

    rows: tuple[T, ...]
    next: PageStart | None


@dataclass(frozen=True, slots=True)
class IngestHealth:
    """The archive's ingest status: what arrived, what was stored and when, and which conversations refuse input."""

    last_stored_at: datetime | None = None
    last_compacted_at: datetime | None = None
    seen: int = 0
    stored: int = 0
    replayed: int = 0
    skipped: int = 0
    ambiguous: int = 0
    revised: int = 0
    likely: int = 0
    #: Conversations that refuse input: id, since when, why.
    blocked: tuple[tuple[int, datetime | None, str], ...] = ()
    #: Quarantined conversations that wait for a decision.
    quarantined: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class DepthSizes:
    """The summaries of one depth."""

    kind: str
    depth: int
    count: int
    tokens: int
    #: Of the messages covered by them.
    source_tokens: int
    earliest_at: datetime | None = None
    latest_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ArchiveCounts:
    """Totals of an archive."""

    conversations: int
    active: int
    messages: int
    summaries: int
    files: int


@dataclass(frozen=True, slots=True)
class SummaryShape:
    """A summary as a chart shows it."""

    id: str
    depth: int
    tokens: int
    #: Of the messages covered by it.
    source_tokens: int
    earliest_at: datetime | None
    latest_at: datetime | None
    in_context: bool


@dataclass(frozen=True, slots=True)
class DailyFolds:
    """The folds of one day (UTC), and the tokens that they removed from contexts."""

    day: str
    folds: int
    tokens: int


@dataclass(frozen=True, slots=True)
class DailyCalls:
    """The model calls of one day (UTC); `costs` are the known ones."""

    day: str
    calls: int
    input_tokens: int
    output_tokens: int
    costs: tuple[str, ...]
    unpriced: int


@dataclass(frozen=True, slots=True)
class WindowMark:
    """The last window that a host sent."""

    first_id: int | None
    last_id: int | None
    length: int
    #: Eight bytes for each of its messages.
    chain: bytes
    #: The row id of each of its messages: negative for a leading system prompt, 0 when not stored; None when unknown.
    rows: tuple[int, ...] | None = None
    #: The seq of the newest message when the first window was recorded; None when unknown.
    began: int | None = None


@dataclass(frozen=True, slots=True)
class ModelSpend:
    """The calls to one model for one purpose; `costs` are the known ones."""

    model: str
    purpose: str | None
    calls: int
    done: int
    failed: int
    input_tokens: int
    output_tokens: int
    costs: tuple[str, ...]
    #: Calls of unknown price.
    unpriced: int


class SearchPlace(NamedTuple):
    """A position in newest-first order: milliseconds since 1970, type, id. Messages come before summaries."""

    at: int
    what: TextKind
    id: int | str


TextKind: TypeAlias = Literal["message", "summary"]


@dataclass(frozen=True, slots=True)
class TailRow:
    """A stored message as alignment needs it."""

    id: int
    fingerprint: bytes
    entry_id: str | None
    #: Whether it came from a producer without entry ids.
    claimed: bool
    role: str
    seq: int
    #: Whether it was the system prompt of a window and so has no position in the order of messages.
    is_preamble: bool = False


@dataclass(frozen=True, slots=True)
class TranscriptDecision:
    """The decision about a transcript, when and why."""

    id: int
    conversation_id: int
    path: str
    header_id: str | None
    size: int
    mtime_ms: int
    decision: str
    reason: str
    messages: int
    at: datetime | None


@dataclass(frozen=True, slots=True)
class StoredBrief:
    """A focus brief in any status."""

    id: str
    conversation_id: int
    prompt: str
    content: str
    #: `active`, `superseded`, `inactive`, `failed` or `draft`.
    status: str
    tokens: int
    target_tokens: int
    covered_latest_at: datetime | None
    covered_message_seq: int | None
    context_hash: str
    error: str | None
    created_at: datetime | None
    #: JSON about how it was generated.
    raw: str | None = None


@dataclass(frozen=True, slots=True)
class QuarantinedConversation:
    """A conversation of messages that did not fit their session, and the decision about it."""

    conversation_id: int
    session: Session
    decision: Literal["quarantined", "refused"]
    at: datetime | None
    messages: int
    #: The active conversation of the session.
    beside: int | None


@dataclass(frozen=True, slots=True)
class ContextChange:
    """One change of a context for the log: ids and sizes, never text."""

    action: str
    actor: str
    cause: str | None = None
    removed: tuple[int | str, ...] = ()
    added: tuple[int | str, ...] = ()
    ordinal: int | None = None
    tokens_before: int = 0
    tokens_after: int = 0
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class TokensSaved:
    """What one model's summaries save in one conversation: each later turn is smaller by `tokens`."""

    model: str
    conversation_id: int
    folds: int
    tokens: int


ThresholdSource: TypeAlias = Literal["global", "override"]


@dataclass(frozen=True, slots=True)
class CompactionDebt:
    """A conversation's pending compaction, and its attempts so far."""

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


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """The evidence chosen for a user message; no quotes when none was chosen or it has left the prompt."""

    id: int
    message_id: int | None
    #: The preceding user message, and the digest of the new words while they are not stored.
    after_id: int
    asked: bytes | None
    quotes: tuple[QuoteSpan, ...]
    tokens: int
    digest: bytes | None


@dataclass(frozen=True, slots=True)
class PromptRecord:
    """How one prompt was assembled: sizes, ids and reasons, never text."""

    id: int
    at: datetime
    tokens: int
    capacity: int
    tokens_by_kind: dict[str, int]
    #: Ids with the form in which they were sent; consecutive messages of one form as `msg#1…msg#9`.
    included: tuple[tuple[str, str], ...]
    left_out: tuple[tuple[str, str], ...]
    #: Quoted messages, and the reason for each.
    evidence: tuple[tuple[str, str], ...]
