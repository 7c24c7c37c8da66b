"""Two branches of one session that are shown in turns, as by two tabs: each becomes a conversation of its own.

The first time that a host returns to a branch it may have changed its mind. The second time both go on, so the branch
that is shown gets a conversation beside the one it was in. Of these the one that was shown last is active.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import datetime

    from lossless.ingest.plan import IngestPlan
    from lossless.ingest.run import Seen
    from lossless.model.conversations import Conversation, Session
    from lossless.store.archive import Archive

#: Why a conversation is closed that another tab of its session stands before.
TAB = "tab"
#: So many tabs are looked at, those that were closed last.
_TABS = 16
#: So many messages of a branch are looked at.
_SOON = 256


def tab_of(
    archive: Archive,
    session: Session,
    conversation: Conversation,
    seen: Seen,
    read: Callable[[Conversation], Seen],
    now: datetime,
) -> tuple[Conversation, Seen]:
    """The conversation that a window belongs to which does not go on from the active one, and the window against it.

    It becomes the active one. `read` lays the window over another conversation.
    """
    if session.is_cron or not _goes_elsewhere(seen.plan):
        return conversation, seen
    best = conversation, seen
    for other in archive.conversations.closed_for(conversation, TAB, _TABS):
        there = read(other)
        if there.plan.cause != "disjoint" and _left(there.plan) < _left(best[1].plan):
            best = other, there
    if best[0] is conversation and _is_second_return(archive, conversation, seen.plan):
        archive.conversations.archive(conversation.id, TAB, now)
        beside = archive.conversations.open(session, now)
        return beside, read(beside)
    if best[0] is not conversation:
        archive.conversations.archive(conversation.id, TAB, now)
        archive.conversations.reopen(best[0].id, now)
        best = archive.conversations.get(best[0].id), best[1]
    return best


def _goes_elsewhere(plan: IngestPlan) -> bool:
    return bool(plan.abandoned) or plan.cause == "disjoint"


def _left(plan: IngestPlan) -> int:
    """How much of what a conversation shows a window does not go on from."""
    return len(plan.abandoned) + len(plan.revived) if plan.cause != "disjoint" else 1 << 30


def _is_second_return(archive: Archive, conversation: Conversation, plan: IngestPlan) -> bool:
    """Whether a host returns to a branch, and leaves one for it that it had returned to before.

    Somebody has said something on both: an answer that is written again and again is no tab.
    """
    if not plan.revived or not plan.abandoned:
        return False
    if not archive.context.has_returned(conversation.id, left=plan.abandoned, back=plan.revived):
        return False
    return all(_has_user(archive, ids) for ids in (plan.revived, plan.abandoned))


def _has_user(archive: Archive, message_ids: Collection[int]) -> bool:
    """Whether a user speaks soon after the branches part."""
    return any(row.message.role == "user" for row in archive.messages.many(sorted(message_ids)[:_SOON]))
