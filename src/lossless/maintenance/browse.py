"""`engine.browse`: read-only views. Paged lists, single records with details, totals, sizes and costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from lossless.maintenance.engine_parts import EngineGroup, EngineParts, forward
from lossless.model.conversations import Conversation, SessionRef, as_session
from lossless.store.archive import Archive
from lossless.store.context import ContextItems, Summaries
from lossless.store.conversations import Checkpoint, Conversations
from lossless.store.files import LargeFileRows
from lossless.store.maintenance.integrity import VerifyReads
from lossless.store.messages import Messages
from lossless.store.state import Guards, IngestMemory, IngestState, PinRow, Prompts
from lossless.store.versions import Versions
from lossless.store.views import Listings

if TYPE_CHECKING:
    from lossless.compaction.plan import CompactionDecision
    from lossless.context.run import Receipt
    from lossless.files.vault import FilePiece
    from lossless.model.budget import HistoryBudget
    from lossless.model.messages import StoredFile, StoredMessage
    from lossless.model.records import (
        CompactionDebt,
        MessageRow,
        Page,
        PageStart,
        StoredBrief,
        SummaryRow,
        SummaryShape,
        TranscriptDecision,
    )
    from lossless.recall.describe import Description


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


class Browse(EngineGroup):
    """`engine.browse`: views of the archive's content. Nothing here writes."""

    reading = forward(lambda parts: parts.archive, Archive.reading)

    @property
    def path(self) -> str:
        return self._archive.path

    @property
    def read_only(self) -> bool:
        return self._archive.read_only

    # --- conversations ---

    conversations = forward(lambda parts: parts.archive.listings, Listings.conversations)
    conversation = forward(lambda parts: parts.archive.listings, Listings.conversation)
    conversation_id = forward(lambda parts: parts.archive.listings, Listings.find)
    get = forward(lambda parts: parts.archive.conversations, Conversations.get)

    find = forward(lambda parts: parts, EngineParts.find)

    def family(self, session: SessionRef) -> list[Conversation]:
        """All conversations of a session, active first, then newest."""
        return self._archive.conversations.family(as_session(session))

    active_ids = forward(lambda parts: parts.archive.conversations, Conversations.active_ids)
    conversation_ids = forward(lambda parts: parts.archive.checks, VerifyReads.conversation_ids)
    details = forward(lambda parts: parts.archive.listings, Listings.details)

    def history_budget(self, conversation_id: int) -> HistoryBudget | None:
        """The conversation's share of the window as of its last turn; None before there was one."""
        kept = self._archive.guards.history(conversation_id)
        return None if kept is None else kept.budget

    ingest_state = forward(lambda parts: parts.archive.ingest, IngestMemory.state)

    # --- messages ---

    messages = forward(lambda parts: parts.archive.listings, Listings.messages)
    messages_by_id = forward(lambda parts: parts.archive.listings, Listings.messages_by_id)
    message = forward(lambda parts: parts.archive.messages, Messages.get)
    message_totals = forward(lambda parts: parts.archive.listings, Listings.message_totals)
    message_status = forward(lambda parts: parts.archive.listings, Listings.message_status)
    versions = forward(lambda parts: parts.archive.versions, Versions.of)
    tails = forward(lambda parts: parts.archive.listings, Listings.tails)
    message_places = forward(lambda parts: parts.archive.listings, Listings.message_places)
    messages_before = forward(lambda parts: parts.archive.listings, Listings.ids_before)
    messages_after = forward(lambda parts: parts.archive.listings, Listings.ids_after)

    # --- summaries ---

    summaries = forward(lambda parts: parts.archive.listings, Listings.summaries)
    summaries_by_id = forward(lambda parts: parts.archive.listings, Listings.summaries_by_id)
    summary = forward(lambda parts: parts.archive.summaries, Summaries.get)
    sources = forward(lambda parts: parts.archive.listings, Listings.sources)
    used_in = forward(lambda parts: parts.archive.listings, Listings.used_in)
    source_messages = forward(lambda parts: parts.archive.listings, Listings.source_messages)
    depths = forward(lambda parts: parts.archive.listings, Listings.depths)
    top_summaries = forward(lambda parts: parts.archive.listings, Listings.top_summaries)
    summaries_in_context = forward(lambda parts: parts.archive.listings, Listings.summaries_in_context)

    def graph(self, conversation_id: int) -> tuple[list[SummaryShape], list[tuple[str, str]], dict[str, str]]:
        """All summaries without their texts, pairs of a summary and one of its sources, and the first words of each."""
        views, id_ = self._archive.listings, conversation_id
        return views.summary_shapes(id_), views.summary_edges(id_), views.summary_beginnings(id_)

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

    file = forward(lambda parts: parts.archive.files, LargeFileRows.get)
    files_by_id = forward(lambda parts: parts.archive.files, LargeFileRows.many)
    undescribed_files = forward(lambda parts: parts.archive.files, LargeFileRows.count_plain)

    # --- contexts ---

    context_items = forward(lambda parts: parts.archive.context, ContextItems.items)
    context_count = forward(lambda parts: parts.archive.listings, Listings.context_count)
    context_tokens = forward(lambda parts: parts.archive, Archive.context_tokens)
    context_budget = forward(lambda parts: parts.archive, Archive.context_budget)
    context_sizes = forward(lambda parts: parts.archive.listings, Listings.context_sizes)
    pins = forward(lambda parts: parts.archive.prompts, Prompts.pins)
    active_brief = forward(lambda parts: parts.archive.prompts, Prompts.active_brief)

    # --- the archive as a whole ---

    counts = forward(lambda parts: parts.archive.listings, Listings.counts)
    totals = forward(lambda parts: parts.archive.listings, Listings.totals)
    health = forward(lambda parts: parts.archive.listings, Listings.liveness)
    size = forward(lambda parts: parts.archive.listings, Listings.size)
    bytes_by_kind = forward(lambda parts: parts.archive.listings, Listings.sizes)
    newest_history_budgets = forward(lambda parts: parts.archive.guards, Guards.newest_histories)
    newest_cache_telemetry = forward(lambda parts: parts.archive.listings, Listings.newest_telemetry)

    # --- costs ---

    spent = forward(lambda parts: parts.archive.guards, Guards.spent)
    saved = forward(lambda parts: parts.archive.context, ContextItems.saved)
    calls_by_day = forward(lambda parts: parts.archive.listings, Listings.calls_by_day)
    folds_by_day = forward(lambda parts: parts.archive.listings, Listings.folds_by_day)

    # --- for screens and hosts ---

    @property
    def is_of_older_shape(self) -> bool:
        """Whether a read-only archive lacks current tables, so that empty temporary ones replace them."""
        return self.read_only and bool(self._archive.database.prepare)

    def stored_messages(self, ids: Sequence[int]) -> list[StoredMessage]:
        """Messages with their parts, in the given order; unknown ids are skipped."""
        return self._archive.messages.many(ids, exact=False)

    tool_calls = forward(lambda parts: parts.archive.listings, Listings.tool_calls)
    entries = forward(lambda parts: parts.archive.messages, Messages.known_entries)
    seqs_of_identity = forward(lambda parts: parts.archive.messages, Messages.seqs_of_identity)
    newest_message_id = forward(lambda parts: parts.archive.messages, Messages.newest_id)
    summaries_whole = forward(lambda parts: parts.archive.summaries, Summaries.many)

    def briefs(self, conversation_id: int, limit: int) -> list[StoredBrief]:
        """The focus briefs of a conversation in any status, newest first."""
        return self._archive.prompts.newest_briefs(conversation_id, limit)

    calls = forward(lambda parts: parts.archive.guards, Guards.ledger)

    def describe_file(self, file_id: str, max_bytes: int) -> Description:
        """The description of a stored file, and its beginning."""
        from lossless.recall.describe import DescribeRequest, describe
        from lossless.recall.scope import whole_archive

        request, now = DescribeRequest(max_bytes=max_bytes), self._parts.clock()
        return describe(self._archive, file_id, whole_archive(), now, request, self._parts.vault)

    def file_text(self, file: StoredFile, max_bytes: int) -> FilePiece | None:
        """The beginning of a stored file; None where no files are stored."""
        return None if self._parts.vault is None else self._parts.vault.read_text(file, 0, max_bytes)

    def prompt_report(self, conversation: Conversation, receipt: Receipt, budget: int | None = None) -> PromptReport:
        """The items of an assembled prompt, and how far the context is from its next fold."""
        from lossless.compaction.compactor import CompactionRequest

        archive, included = self._archive, [id_ for id_, _ in receipt.included]
        with archive.reading():
            request = CompactionRequest(conversation, budget or self._parts.settings.default_token_budget)
            decision = self._parts.loop.evaluate(request)
            rows = self.messages_by_id([int(id_[4:]) for id_ in included if id_.startswith("msg#")], whole=False)
            sums = self.summaries_by_id([id_ for id_ in included if not id_.startswith("msg#")], whole=False)
            id_ = conversation.id
            stored, pins, brief = self.context_count(id_), self.pins(id_), self.active_brief(id_)
        known: dict[str, MessageRow | SummaryRow] = {f"msg#{row.message_id}": row for row in rows}
        known |= {row.summary_id: row for row in sums}
        dropped = dict(receipt.left_out)
        read = len(included) + sum(not id_.startswith("pin_") for id_, _ in receipt.left_out)
        forms = zip(receipt.included, receipt.sizes, strict=True)
        items = tuple(PromptItem(id_, form, tokens, known.get(id_)) for (id_, form), tokens in forms)
        pinned = tuple(pin for pin in pins if f"pin_{pin.id}" not in dropped)
        brief = brief if brief is not None and f"covered by {brief.id}" in dropped.values() else None
        return PromptReport(receipt, decision, stored, max(0, stored - read), items, pinned, brief)


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """A session's state: what is stored, what its model sees, pending compaction, and refusals with reasons."""

    conversation: Conversation
    messages: int
    context_items: int
    context_tokens: int
    #: Seen, stored, replayed, skipped, ambiguous; last stored; blocked since when and why.
    ingest: IngestState
    debt: CompactionDebt
    last_compacted_at: datetime | None
    transcript: Checkpoint | None
    #: Transcripts that wait for a decision.
    held: tuple[TranscriptDecision, ...]
    refused: tuple[TranscriptDecision, ...] = ()
    #: Quarantined conversations that wait for a decision.
    quarantined: tuple[int, ...] = ()
    #: The conversation's share of the window, as of its last turn; None before there was one.
    history: HistoryBudget | None = None

    @property
    def is_healthy(self) -> bool:
        """Whether all input is stored, and no compaction has failed."""
        waits = self.held or self.quarantined
        return self.ingest.blocked_reason is None and not waits and self.debt.last_failure_summary is None


def session_status(archive: Archive, conversation: Conversation, debt: CompactionDebt) -> SessionStatus:
    id_, kept = conversation.id, archive.guards.history(conversation.id)
    sizes = archive.messages.last_seq(id_), len(archive.context.items(id_)), archive.context_tokens(id_)
    last = archive.context.last_fold_at(id_), archive.transcripts.checkpoint(id_)
    held = tuple(epoch for epoch in archive.transcripts.held() if epoch.conversation_id == id_)
    refused = tuple(epoch for epoch in archive.transcripts.refused() if epoch.conversation_id == id_)
    set_aside = archive.conversations.quarantined_of(conversation)
    waiting = tuple(one.id for one in set_aside if one.archive_cause == "quarantined")
    budget = None if kept is None else kept.budget
    state = archive.ingest.state(id_)
    return SessionStatus(conversation, *sizes, state, debt, *last, held, refused, waiting, budget)
