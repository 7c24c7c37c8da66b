"""A window that is all of a conversation: what it does not show any more leaves the context."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lossless.ingest.match import SURE
from lossless.ingest.window import in_order
from lossless.store.context import Change, item_id
from lossless.store.operations import Operations

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from lossless.ingest.plan import IngestPlan
    from lossless.ingest.window import Window
    from lossless.model.conversations import Conversation
    from lossless.store.archive import Archive
    from lossless.store.messages import TailRow


def only_shown(
    archive: Archive, conversation: Conversation, window: Window, plan: IngestPlan, now: datetime
) -> IngestPlan:
    """The plan with every message that this window left out.

    What is older than the window stays when it has plainly moved on: a host may drop its oldest messages. Everything
    stays when it is a new beginning, with nothing known and no reply in it, or has words of ours, which stand for more.
    """
    known = {id_ for id_ in plan.places if id_ is not None}
    is_new = not known and not any(event.message.role == "assistant" for event in window.events)
    if window.has_ours or is_new or not plan.places:
        return plan
    there = known | set(plan.revived) | set(plan.abandoned) | {id_ for id_, _ in plan.hidden}
    rows = archive.messages.run_from(conversation.id, 1)
    rows = in_order(rows, archive.context.ordinals(conversation.id, len(rows)))
    older = _older(rows, window, plan)
    gone = [row.id for row in rows[older:] if row.id not in there]
    abandoned = (*plan.abandoned, *gone)
    _uncover(archive, conversation.id, set(abandoned), now)
    return replace(plan, abandoned=abandoned, cause=plan.cause or ("branch" if gone else None))


def _older(rows: Sequence[TailRow], window: Window, plan: IngestPlan) -> int:
    """How many rows are older than a window that has moved on; none when it may as well begin where they do.

    It has moved on when its first message is a row in their midst, and all that follows is in it, or much of it.
    """
    first = window.events[0]
    place = next((n for n, row in enumerate(rows) if row.id == plan.places[0]), 0)
    if not place or rows[0].fingerprint == first.fingerprint:  # the first messages, edited; or the first
        return 0
    known = {id_ for id_ in plan.places if id_ is not None}
    is_all = known.issuperset(row.id for row in rows[place:])
    return place if len(known) >= SURE or is_all else 0


def _uncover(archive: Archive, conversation_id: int, gone: Collection[int], now: datetime) -> None:
    """Open each summary in the context that tells of these messages: what else it was made of stands there again."""
    operations = Operations(archive)
    while (found := archive.context.above(conversation_id, gone)) is not None:
        ordinal, summary_id = found
        before = archive.context.tokens(conversation_id)
        standing = {item_id(item) for item in archive.context.items(conversation_id)}
        sources = archive.summaries.get(summary_id).source_ids or archive.summaries.message_ids(summary_id)
        free = [one for one in sources if one not in gone and one not in standing]
        items = operations.visible(conversation_id, free)
        operations.exchange(conversation_id, ordinal, ordinal, items, now)
        after = archive.context.tokens(conversation_id)
        change = Change("dissolve", "sync", "branch", (summary_id,), tuple(items), ordinal, before, after)
        archive.context.log(conversation_id, change, now)
