"""The life of a session: beginning afresh and closing, without losing a word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.errors import NotFound
from lossless.model.context import MessageItem, SummaryItem, token_sum
from lossless.model.conversations import Conversation, Session
from lossless.store.context import Change, item_id

if TYPE_CHECKING:
    from datetime import datetime

    from lossless.store.archive import Archive


@dataclass(frozen=True, slots=True)
class NewReport:
    """What left the context; all of it stays in the archive and in search."""

    conversation_id: int
    messages: int
    summaries: int
    tokens_before: int
    tokens_after: int


def new(archive: Archive, conversation: Conversation, retain_depth: int, now: datetime) -> NewReport:
    """Empty the context but for summaries of at least `retain_depth` (-1 keeps everything)."""
    with archive.writing():
        items = archive.context.items(conversation.id)
        gone = [
            item for item in items if retain_depth >= 0 and (isinstance(item, MessageItem) or item.depth < retain_depth)
        ]
        before, after = token_sum(items), token_sum(items) - token_sum(gone)
        ids = tuple(item_id(item) for item in gone)
        if gone:
            archive.context.hide(conversation.id, ids, "new", now)
            change = Change("new", "new", f"depth {retain_depth}", ids, (), gone[0].ordinal, before, after)
            archive.context.log(conversation.id, change, now)
            archive.context.close_gaps(conversation.id)
        archive.transcripts.set_soft_reset(conversation.id, now)
    summaries = sum(isinstance(item, SummaryItem) for item in gone)
    return NewReport(conversation.id, len(gone) - summaries, summaries, before, after)


#: Ends of a run that say nothing about its conversation, which goes on when the host is back.
_PASSING = frozenset(("new", "unknown", "restart", "shutdown", "compaction"))


def end(archive: Archive, session: Session, reason: str, now: datetime) -> Conversation | None:
    """A host says that a session has ended, and why. Returns the conversation that is active from then on.

    A passing end changes nothing; `deleted` closes the conversation for good; `reset` and everything else
    close it and open a fresh one under the same key, so that the key always leads somewhere.
    """
    found = archive.conversations.find(session)
    if reason in _PASSING or found is None:
        return found
    if reason == "deleted":
        with archive.writing():
            archive.conversations.archive(found.id, "session-deleted", now)
        return None
    return reset(archive, found, "manual-reset" if reason == "reset" else "session-end", now)


def reset(archive: Archive, who: Session | Conversation, cause: str, now: datetime) -> Conversation:
    """Archive the active conversation and open a fresh one under the same key; one that is fresh stays."""
    with archive.writing():
        session = who.session if isinstance(who, Conversation) else who
        found = who if isinstance(who, Conversation) else archive.conversations.find(who)
        if found is None:
            raise NotFound("conversation of session", session.name)
        if archive.messages.newest_id(found.id) is None:
            return found
        archive.conversations.archive(found.id, cause, now)
        run = session.id if session.id != found.session_id else None
        return archive.conversations.open(
            Session(key=found.session_key or session.key, id=run or found.session_id), now
        )
