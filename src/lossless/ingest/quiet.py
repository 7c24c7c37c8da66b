"""Turns that had nothing to say leave the context: they stay stored, with the cause `heartbeat`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless import recognise
from lossless.store.context import Change

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lossless.ingest.events import Event
    from lossless.model.conversations import Conversation
    from lossless.store.archive import Archive

#: A heartbeat that works for longer than this has something to say.
_MOST_MESSAGES = 64
CAUSE = "heartbeat"


def hide_quiet_turns(
    archive: Archive, conversation: Conversation, new: Sequence[Event], ids: Sequence[int], now: datetime
) -> None:
    """Hide the turns that end in one of the new answers and were only asked whether there is anything to do."""
    for event, id_ in zip(new, ids, strict=True):
        if recognise.is_quiet_answer(event.message) and (turn := _turn_to(archive, conversation, id_)):
            hide(archive, conversation, turn, now)


def hide(archive: Archive, conversation: Conversation, ids: Sequence[int], now: datetime) -> None:
    """Take messages out of the context as a heartbeat."""
    before = archive.context.tokens(conversation.id)
    archive.context.hide(conversation.id, tuple(ids), CAUSE, now)
    after = archive.context.tokens(conversation.id)
    archive.context.log(conversation.id, Change("hide", "ingest", CAUSE, tuple(ids), (), None, before, after), now)


def _turn_to(archive: Archive, conversation: Conversation, answer_id: int) -> list[int]:
    """The messages from a heartbeat's question to its answer; none when a person asked."""
    rows = archive.messages.tail(conversation.id, _MOST_MESSAGES)
    rows = [row for row in rows if row.id <= answer_id]
    start = next((n for n in reversed(range(len(rows))) if rows[n].role == "user"), None)
    if start is None or not recognise.is_quiet_question(archive.messages.get(rows[start].id).message):
        return []
    return [row.id for row in rows[start:]]
