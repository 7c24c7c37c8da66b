"""Turns that had nothing to say leave the context: they stay stored, with the cause `heartbeat`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless import recognise
from lossless.model.identity import identity_hash
from lossless.model.messages import ToolCall
from lossless.store.context import Change

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lossless.ingest.events import Event
    from lossless.model.conversations import Conversation
    from lossless.store.archive import Archive
    from lossless.store.messages import TailRow

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


def hide_heartbeat(archive: Archive, conversation: Conversation, after: int, now: datetime) -> None:
    """Hide the turn that ends behind the message `after`, which the host calls a heartbeat, unless it says something.

    Its question may have come before, if nothing has answered that yet.
    """
    rows = archive.messages.tail(conversation.id, _MOST_MESSAGES)
    first = next((n for n, row in enumerate(rows) if row.id > after), None)
    if first is None or rows[-1].role != "assistant" or not _says_nothing(archive, rows[-1]):
        return
    start = _last_question(rows)
    if start is None or any(_is_answer(archive, row) for row in rows[start:first]):
        start = first
    hide(archive, conversation, [row.id for row in rows[start:]], now)


def _says_nothing(archive: Archive, row: TailRow) -> bool:
    """Whether an answer is the word for it, or none at all; one that calls a tool is not over."""
    answer = archive.messages.get(row.id).message
    if any(isinstance(part, ToolCall) for part in answer.parts):
        return False
    return recognise.is_quiet_answer(answer) or not answer.content.strip()


def _is_answer(archive: Archive, row: TailRow) -> bool:
    """Whether a row ends a turn."""
    return row.role == "assistant" and not any(
        isinstance(part, ToolCall) for part in archive.messages.get(row.id).message.parts
    )


def hide_quiet_history(archive: Archive, conversation: Conversation, now: datetime) -> None:
    """Hide the turns of this kind that are in the context still, such as those that another program has stored."""
    identities = [identity_hash("assistant", answer) for answer in recognise.QUIET_ANSWERS]
    for seq in archive.messages.seqs_in_context(conversation.id, identities):
        rows = archive.messages.context_run(conversation.id, seq - _MOST_MESSAGES + 1, seq)
        if turn := _turn_of(archive, rows):
            hide(archive, conversation, turn, now)


def hide(archive: Archive, conversation: Conversation, ids: Sequence[int], now: datetime) -> None:
    """Take messages out of the context as a heartbeat."""
    before = archive.context.tokens(conversation.id)
    archive.context.hide(conversation.id, tuple(ids), CAUSE, now)
    after = archive.context.tokens(conversation.id)
    archive.context.log(conversation.id, Change("hide", "ingest", CAUSE, tuple(ids), (), None, before, after), now)
    archive.context.close_gaps(conversation.id)


def _turn_to(archive: Archive, conversation: Conversation, answer_id: int) -> list[int]:
    """The messages from a heartbeat's question to its answer; none when a person asked."""
    rows = archive.messages.tail(conversation.id, _MOST_MESSAGES)
    return _turn_of(archive, [row for row in rows if row.id <= answer_id])


def _turn_of(archive: Archive, rows: Sequence[TailRow]) -> list[int]:
    """The last turn of these rows, if a heartbeat has asked."""
    start = _last_question(rows)
    if start is None or not recognise.is_quiet_question(archive.messages.get(rows[start].id).message):
        return []
    return [row.id for row in rows[start:]]


def _last_question(rows: Sequence[TailRow]) -> int | None:
    return next((n for n in reversed(range(len(rows))) if rows[n].role == "user"), None)
