"""How a session stands: honest figures, without being asked twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from lossless.compaction.debt import Debt
    from lossless.model.conversations import Conversation
    from lossless.model.history import HistoryBudget
    from lossless.store.archive import Archive
    from lossless.store.ingest_state import IngestState
    from lossless.store.transcripts import Checkpoint, Epoch


@dataclass(frozen=True, slots=True)
class Standing:
    """What is stored of a session, what its model sees, what is owed, and what is refused and why."""

    conversation: Conversation
    messages: int
    context_items: int
    context_tokens: int
    #: Seen, stored, replayed, skipped, ambiguous; last stored; blocked since when and why.
    ingest: IngestState
    debt: Debt
    last_compacted_at: datetime | None
    transcript: Checkpoint | None
    #: Transcripts that wait for a decision.
    held: tuple[Epoch, ...]
    #: Transcripts of which a person wants nothing stored.
    refused: tuple[Epoch, ...] = ()
    #: What is quarantined beside it, and waits for a decision.
    quarantined: tuple[int, ...] = ()
    #: How much of the window is the conversation's, as of its last turn; None before there was one.
    history: HistoryBudget | None = None

    @property
    def is_healthy(self) -> bool:
        """Whether everything that comes in is stored, and no sweep has failed."""
        waits = self.held or self.quarantined
        return self.ingest.blocked_reason is None and not waits and self.debt.last_failure_summary is None


def standing_of(archive: Archive, conversation: Conversation, debt: Debt) -> Standing:
    """Read how a conversation stands."""
    kept = archive.guards.history(conversation.id)
    newest = archive.messages.newest_id(conversation.id)
    held = [epoch for epoch in archive.transcripts.held() if epoch.conversation_id == conversation.id]
    refused = [epoch for epoch in archive.transcripts.refused() if epoch.conversation_id == conversation.id]
    beside = archive.conversations.quarantined_of(conversation)
    return Standing(
        conversation,
        0 if newest is None else archive.messages.get(newest).seq,
        len(archive.context.items(conversation.id)),
        archive.context_tokens(conversation.id),
        archive.ingest.state(conversation.id),
        debt,
        archive.context.last_fold_at(conversation.id),
        archive.transcripts.checkpoint(conversation.id),
        tuple(held),
        tuple(refused),
        tuple(one.id for one in beside if one.archive_cause == "quarantined"),
        None if kept is None else kept.budget,
    )
