"""`engine.browse`: read-only views. Paged lists, single records with details, totals, sizes and costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.model.conversations import Conversation, as_session

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from lossless.compaction.plan import CompactionDecision
    from lossless.context.run import Receipt
    from lossless.files.vault import FilePiece
    from lossless.maintenance.engine_parts import EngineParts
    from lossless.model.budget import HistoryBudget
    from lossless.model.context import ContextItem, MessageItem, Summary
    from lossless.model.conversations import SessionRef
    from lossless.model.messages import StoredFile, StoredMessage
    from lossless.model.records import (
        ArchiveCounts,
        ConversationRow,
        DailyCalls,
        DailyFolds,
        DepthSizes,
        IngestHealth,
        MessageRow,
        ModelSpend,
        Page,
        PageStart,
        StoredBrief,
        SummaryRow,
        SummaryShape,
        TailRow,
        TimeRange,
        TokensSaved,
    )
    from lossless.recall.describe import Description
    from lossless.store.conversations import PinRow
    from lossless.store.graph import ContextSize, TopSummaries
    from lossless.store.state import IngestState, LedgerRow
    from lossless.store.versions import Version
    from lossless.store.views import ArchiveTotals, CacheTelemetry, ConversationDetails, MessageStatus


@dataclass(frozen=True, slots=True)
class PromptItem:
    """One message or summary of a prompt: its form, its tokens there, and its row (None when it is gone)."""

    id: str
    form: str
    tokens: int
    row: MessageRow | SummaryRow | None


@dataclass(frozen=True, slots=True)
class PromptReport:
    """The next prompt of a conversation, item by item."""

    receipt: Receipt
    #: Whether the context is over its threshold, and by how much.
    decision: CompactionDecision
    #: How many items the context has, and how many of them were not read.
    stored_items: int
    not_read: int
    items: tuple[PromptItem, ...]
    #: What precedes them: pins, and the focus brief when it replaces a summary.
    pins: tuple[PinRow, ...]
    brief: StoredBrief | None


class Browse:
    """`engine.browse`: views of the archive's content. Nothing here writes."""

    def __init__(self, parts: EngineParts) -> None:
        self._parts, self._archive = parts, parts.archive

    def reading(self) -> AbstractContextManager[None]:
        """Several reads in one snapshot of the archive."""
        return self._archive.reading()

    @property
    def path(self) -> str:
        return self._archive.path

    @property
    def read_only(self) -> bool:
        return self._archive.read_only

    # --- conversations ---

    def conversations(self, limit: int, start: PageStart | None = None) -> Page[ConversationRow]:
        """A page of conversations with their counts, last changed first."""
        return self._archive.listings.conversations(limit, start)

    def conversation(self, conversation_id: int) -> ConversationRow | None:
        """One conversation with its counts."""
        return self._archive.listings.conversation(conversation_id)

    def conversation_id(self, conversation_id: int | None = None, session_key: str | None = None) -> int | None:
        """The id of an existing conversation: by its id, or the active, else the newest of a session key."""
        return self._archive.listings.find(conversation_id, session_key)

    def get(self, conversation_id: int) -> Conversation:
        """A conversation by its id; raises NotFound."""
        return self._archive.conversations.get(conversation_id)

    def find(self, session: SessionRef) -> Conversation | None:
        """The active conversation of a session."""
        return self._parts.find(session)

    def family(self, session: SessionRef) -> list[Conversation]:
        """All conversations of a session, active first, then newest."""
        return self._archive.conversations.family(as_session(session))

    def active_ids(self) -> list[int]:
        return self._archive.conversations.active_ids()

    def conversation_ids(self) -> list[int]:
        return self._archive.checks.conversation_ids()

    def details(self, conversation_id: int) -> ConversationDetails:
        """What is recorded about a conversation besides its messages and summaries."""
        return self._archive.listings.details(conversation_id)

    def history_budget(self, conversation_id: int) -> HistoryBudget | None:
        """The conversation's share of the window as of its last turn; None before there was one."""
        kept = self._archive.guards.history(conversation_id)
        return None if kept is None else kept.budget

    def ingest_state(self, conversation_id: int) -> IngestState:
        """The input of a conversation: seen, stored, replayed, skipped; blocked since when and why."""
        return self._archive.ingest.state(conversation_id)

    # --- messages ---

    def messages(
        self,
        conversation_id: int,
        limit: int,
        start: PageStart | None = None,
        *,
        roles: Sequence[str] = (),
        span: TimeRange | None = None,
        whole: bool = False,
    ) -> Page[MessageRow]:
        """A page of messages of one conversation, newest first; with `whole` their whole texts."""
        return self._archive.listings.messages(conversation_id, limit, start, roles=roles, span=span, whole=whole)

    def messages_by_id(self, ids: Sequence[int], *, whole: bool = True) -> list[MessageRow]:
        """Messages in the given order; unknown ids are skipped."""
        return self._archive.listings.messages_by_id(ids, whole=whole)

    def message(self, message_id: int) -> StoredMessage:
        """One message as received; raises NotFound."""
        return self._archive.messages.get(message_id)

    def message_totals(self, conversation_id: int) -> tuple[int, int]:
        """How many messages a conversation has, and their tokens."""
        return self._archive.listings.message_totals(conversation_id)

    def message_status(self, message_id: int) -> MessageStatus:
        """Where a message is now: in the context, under a leaf, or hidden with a cause."""
        return self._archive.listings.message_status(message_id)

    def versions(self, message_id: int) -> tuple[Version, ...]:
        """The earlier wordings of a message."""
        return self._archive.versions.of(message_id)

    def tails(self, ids: Sequence[int], count: int, max_tokens: int | None = None) -> dict[int, list[MessageItem]]:
        """The fresh tails of some conversations, in order."""
        return self._archive.listings.tails(ids, count, max_tokens)

    def message_places(self, message_ids: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Conversation and seq of messages; unknown ids are skipped."""
        return self._archive.lineage.places(message_ids)

    def messages_before(self, conversation_id: int, seq: int, limit: int = 1) -> list[int]:
        """Ids of the messages just before a position, oldest first."""
        return self._archive.lineage.before(conversation_id, seq, limit)

    def messages_after(self, conversation_id: int, seq: int, limit: int = 1) -> list[int]:
        """Ids of the messages just after a position, oldest first."""
        return self._archive.lineage.after(conversation_id, seq, limit)

    # --- summaries ---

    def summaries(
        self,
        limit: int,
        start: PageStart | None = None,
        *,
        conversation_id: int | None = None,
        depth: int | None = None,
        kind: str | None = None,
        span: TimeRange | None = None,
        whole: bool = False,
        within: Collection[int] | None = None,
    ) -> Page[SummaryRow]:
        """A page of summaries of one conversation or of all, newest first; with `whole` their whole texts.

        With `within`, of these conversations only.
        """
        return self._archive.within(within).listings.summaries(
            limit, start, conversation_id=conversation_id, depth=depth, kind=kind, span=span, whole=whole
        )

    def summaries_by_id(self, ids: Sequence[str], *, whole: bool = True) -> list[SummaryRow]:
        """Summaries in the given order; unknown ids are skipped."""
        return self._archive.listings.summaries_by_id(ids, whole=whole)

    def summary(self, summary_id: str) -> Summary:
        """One summary; raises NotFound."""
        return self._archive.summaries.get(summary_id)

    def sources(self, summary_id: str) -> list[str]:
        """The sources of a summary, in order."""
        return self._archive.listings.sources(summary_id)

    def used_in(self, summary_id: str) -> list[str]:
        """The summaries made of a summary."""
        return self._archive.listings.used_in(summary_id)

    def source_messages(self, summary_id: str) -> list[int]:
        """The messages of a leaf, in order."""
        return self._archive.listings.source_messages(summary_id)

    def depths(self, conversation_id: int | None = None) -> list[DepthSizes]:
        """The summaries of one conversation, or of all, by depth."""
        return self._archive.listings.depths(conversation_id)

    def top_summaries(self, conversation_id: int, limit: int, offset: int = 0) -> TopSummaries:
        """The summaries that are in the context or not a source of any other; oldest first."""
        return self._archive.lineage.tops(conversation_id, limit, offset)

    def summaries_in_context(self, conversation_id: int, summary_ids: Iterable[str]) -> frozenset[str]:
        """Which of these summaries are in the context."""
        return self._archive.lineage.in_context(conversation_id, summary_ids)

    def graph(self, conversation_id: int) -> tuple[list[SummaryShape], list[tuple[str, str]], dict[str, str]]:
        """All summaries without their texts, pairs of a summary and one of its sources, and the first words of each."""
        outline = self._archive.lineage
        return outline.shapes(conversation_id), outline.edges(conversation_id), outline.beginnings(conversation_id)

    # --- files ---

    def files(
        self,
        limit: int,
        start: PageStart | None = None,
        *,
        conversation_id: int | None = None,
        since: datetime | None = None,
        before: datetime | None = None,
    ) -> tuple[Page[StoredFile], int, int]:
        """A page of stored files, newest first, of one conversation or of all; how many there are, and their bytes."""
        from lossless.store.search import SearchScope

        first, end = (None if moment is None else round(moment.timestamp() * 1000) for moment in (since, before))
        where = SearchScope(None if conversation_id is None else (conversation_id,), first, end)
        return self._archive.files.page(where, limit, start), *self._archive.files.totals(where)

    def file(self, file_id: str) -> StoredFile:
        """One stored file; raises NotFound."""
        return self._archive.files.get(file_id)

    def files_by_id(self, file_ids: Iterable[str]) -> dict[str, StoredFile]:
        """Stored files by id; unknown ids are skipped."""
        return self._archive.files.many(file_ids)

    def undescribed_files(self, conversation_id: int | None = None) -> int:
        """How many stored files of prose no model has described yet."""
        return self._archive.files.count_plain(conversation_id)

    # --- contexts ---

    def context_items(self, conversation_id: int) -> list[ContextItem]:
        """The items of a context, in order."""
        return self._archive.context.items(conversation_id)

    def context_count(self, conversation_id: int) -> int:
        return self._archive.listings.context_count(conversation_id)

    def context_tokens(self, conversation_id: int) -> int:
        return self._archive.context_tokens(conversation_id)

    def context_budget(self, conversation_id: int) -> int:
        """The tokens of a context by budget estimates."""
        return self._archive.context_budget(conversation_id)

    def context_sizes(self, conversation_id: int, limit: int) -> list[ContextSize]:
        """How a context's size changed, oldest first; at most the newest `limit` changes."""
        return self._archive.lineage.sizes(conversation_id, limit)

    def pins(self, conversation_id: int) -> list[PinRow]:
        return self._archive.beside.pins(conversation_id)

    def active_brief(self, conversation_id: int) -> StoredBrief | None:
        """The active focus brief, with its text."""
        return self._archive.beside.active_brief(conversation_id)

    # --- the archive as a whole ---

    def counts(self) -> ArchiveCounts:
        """How many conversations, messages, summaries and files there are."""
        return self._archive.listings.counts()

    def totals(self) -> ArchiveTotals:
        """Counts, tokens and times of everything; reads the whole archive once."""
        return self._archive.listings.totals()

    def health(self) -> IngestHealth:
        """Whether anything was lost in ingest: seen versus stored, last stored, blocked and why."""
        return self._archive.listings.liveness()

    def size(self) -> tuple[int, int]:
        """Bytes of the database, and how many of them are free."""
        return self._archive.listings.size()

    def bytes_by_kind(self) -> dict[str, int]:
        return self._archive.listings.sizes()

    def newest_history_budgets(self, limit: int) -> list[tuple[int, HistoryBudget]]:
        """The most recently changed history budgets, with their conversations."""
        return self._archive.guards.newest_histories(limit)

    def newest_cache_telemetry(self, limit: int) -> list[tuple[int, CacheTelemetry]]:
        """What providers reported last about prompt caches, with the conversations."""
        return self._archive.listings.newest_telemetry(limit)

    # --- costs ---

    def spent(self, since: datetime, conversation_id: int | None = None) -> list[ModelSpend]:
        """Model calls by model and purpose, of one conversation or of all."""
        return self._archive.guards.spent(since, conversation_id)

    def saved(self, since: datetime, conversation_id: int | None = None) -> list[TokensSaved]:
        """What folds removed from contexts, by conversation and model."""
        return self._archive.context.saved(since, conversation_id)

    def calls_by_day(self, since: datetime, conversation_id: int | None = None) -> list[DailyCalls]:
        """Model calls by day, of one conversation or of all."""
        return self._archive.lineage.calls_by_day(since, conversation_id)

    def folds_by_day(self, since: datetime, conversation_id: int | None = None) -> list[DailyFolds]:
        """Folds by day, of one conversation or of all."""
        return self._archive.lineage.folds_by_day(since, conversation_id)

    # --- for screens and hosts ---

    @property
    def is_of_older_shape(self) -> bool:
        """Whether a read-only archive lacks current tables, so that empty temporary ones replace them."""
        return self.read_only and bool(self._archive.database.prepare)

    def stored_messages(self, ids: Sequence[int]) -> list[StoredMessage]:
        """Messages with their parts, in the given order; unknown ids are skipped."""
        return self._archive.messages.many(ids, exact=False)

    def tool_calls(self, conversation_id: int, names: Sequence[str], limit: int) -> list[int]:
        """The newest messages that call one of these tools."""
        return self._archive.listings.tool_calls(conversation_id, names, limit)

    def entries(self, conversation_id: int, entry_ids: Sequence[str]) -> dict[str, TailRow]:
        """Which of a host's entry ids are stored, and where."""
        return self._archive.messages.known_entries(conversation_id, entry_ids)

    def seqs_of_identity(self, conversation_id: int, identity: str, limit: int) -> list[int]:
        """The seqs of messages with this identity, newest first."""
        return self._archive.messages.seqs_of_identity(conversation_id, identity, limit)

    def newest_message_id(self, conversation_id: int) -> int | None:
        """The last message of a conversation; None when it has none."""
        return self._archive.messages.newest_id(conversation_id)

    def summaries_whole(self, ids: Sequence[str]) -> list[Summary]:
        """Summaries with all columns, in the given order; unknown ids are skipped."""
        return self._archive.summaries.many(ids)

    def briefs(self, conversation_id: int, limit: int) -> list[StoredBrief]:
        """The focus briefs of a conversation in any status, newest first."""
        return self._archive.beside.newest_briefs(conversation_id, limit)

    def calls(self, scope: str, since: datetime) -> list[LedgerRow]:
        """The recorded model calls of a scope."""
        return self._archive.guards.ledger(scope, since)

    def describe_file(self, file_id: str, max_bytes: int) -> Description:
        """The description of a stored file, and its beginning."""
        from lossless.recall.describe import DescribeRequest, describe, vault_opener
        from lossless.recall.scope import whole_archive

        vault = self._parts.vault
        request, opener = DescribeRequest(max_bytes=max_bytes), vault_opener(vault) if vault else None
        return describe(self._archive, file_id, whole_archive(), self._parts.clock(), request, opener)

    def file_text(self, file: StoredFile, max_bytes: int) -> FilePiece | None:
        """The beginning of a stored file; None where no files are stored."""
        return None if self._parts.vault is None else self._parts.vault.read_text(file, 0, max_bytes)

    def prompt_report(self, conversation: Conversation, receipt: Receipt, budget: int | None = None) -> PromptReport:
        """The items of an assembled prompt, and how far the context is from its next fold."""
        from lossless.compaction.compactor import CompactionRequest

        archive, included = self._archive, [id_ for id_, _ in receipt.included]
        with archive.reading():
            situation = CompactionRequest(conversation, budget or self._parts.settings.default_token_budget)
            decision = self._parts.loop.evaluate(situation)
            rows = self.messages_by_id([int(id_[4:]) for id_ in included if id_.startswith("msg#")], whole=False)
            sums = self.summaries_by_id([id_ for id_ in included if not id_.startswith("msg#")], whole=False)
            stored, pins, brief = (
                self.context_count(conversation.id),
                self.pins(conversation.id),
                self.active_brief(conversation.id),
            )
        known: dict[str, MessageRow | SummaryRow] = {f"msg#{row.message_id}": row for row in rows}
        known |= {row.summary_id: row for row in sums}
        dropped = dict(receipt.left_out)
        read = len(included) + sum(not id_.startswith("pin_") for id_, _ in receipt.left_out)
        return PromptReport(
            receipt,
            decision,
            stored,
            max(0, stored - read),
            tuple(
                PromptItem(id_, form, tokens, known.get(id_))
                for (id_, form), tokens in zip(receipt.included, receipt.sizes, strict=True)
            ),
            tuple(pin for pin in pins if f"pin_{pin.id}" not in dropped),
            brief if brief is not None and f"covered by {brief.id}" in dropped.values() else None,
        )
