"""What hosts write for their own use: messages that are not stored, delivery notes that repeat an answer, senders,
and heartbeat turns that leave the context.

One filter module for each host, listed in `HOST_FILTERS`; each judges only what is plainly its own host's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lossless.ingest import openclaw_filter
from lossless.model.identity import identity_hash
from lossless.model.messages import ToolCall
from lossless.model.records import ContextChange

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lossless.ingest.events import Event
    from lossless.model.conversations import Conversation
    from lossless.model.messages import Message
    from lossless.model.records import TailRow
    from lossless.store.archive import Archive


class HostFilter(Protocol):
    """One host; a module with these names."""

    @property
    def QUIET_ANSWERS(self) -> tuple[str, ...]:  # noqa: N802
        """The answers that say that there is nothing to do, word for word."""
        ...

    def why_skipped(self, message: Message) -> str | None:
        """Why a message is no part of a conversation, or None."""
        ...

    def may_be_note(self, message: Message) -> bool:
        """Whether a message may only note down what another one says."""
        ...

    def is_note_of(self, message: Message, before: Message) -> bool:
        """Whether such a message notes down the one before it."""
        ...

    def is_quiet_question(self, message: Message, session_key: str | None) -> bool:
        """Whether a message asks, in a person's place, if there is anything to do."""
        ...

    def is_quiet_answer(self, message: Message, session_key: str | None) -> bool:
        """Whether an answer says that there is nothing to do."""
        ...

    def sender_of(self, message: Message) -> str | None:
        """Who spoke, as JSON, when the host reports it."""
        ...


HOST_FILTERS: tuple[HostFilter, ...] = (openclaw_filter,)
QUIET_ANSWERS = tuple(answer for host in HOST_FILTERS for answer in host.QUIET_ANSWERS)


def why_skipped(message: Message) -> str | None:
    """Why a message is not stored, or None; what no host wants kept comes first."""
    is_empty = message.role == "assistant" and not message.content.strip() and not message.parts
    if is_empty and message.stop_reason in ("error", "aborted"):
        return f"an empty answer that ended with {message.stop_reason!r}"
    return next((why for host in HOST_FILTERS if (why := host.why_skipped(message))), None)


def may_be_note(message: Message) -> bool:
    """Whether some host may have noted a message down a second time."""
    return any(host.may_be_note(message) for host in HOST_FILTERS)


def is_note_of(message: Message, before: Message | None) -> bool:
    """Whether a message only notes down what the one before it says."""
    return before is not None and any(host.is_note_of(message, before) for host in HOST_FILTERS)


def is_quiet_question(message: Message, session_key: str | None) -> bool:
    """Whether the host of a session asks if there is anything to do."""
    return any(host.is_quiet_question(message, session_key) for host in HOST_FILTERS)


def is_quiet_answer(message: Message, session_key: str | None) -> bool:
    """Whether the answer to that is that there is nothing."""
    return any(host.is_quiet_answer(message, session_key) for host in HOST_FILTERS)


def sender_of(message: Message) -> str | None:
    """Who spoke, as JSON, when a host reports it."""
    return next((who for host in HOST_FILTERS if (who := host.sender_of(message))), None)


#: A heartbeat that works for longer than this has something to say.
_MOST_MESSAGES = 64
HEARTBEAT = "heartbeat"


def hide_quiet_turns(
    archive: Archive, conversation: Conversation, new: Sequence[Event], ids: Sequence[int], now: datetime
) -> None:
    """Hide the turns that end in one of the new answers and were only asked whether there is anything to do."""
    for event, id_ in zip(new, ids, strict=True):
        is_quiet = is_quiet_answer(event.message, conversation.session_key)
        if is_quiet and (turn := _turn_to(archive, conversation, id_)):
            hide_as_heartbeat(archive, conversation, turn, now)


def hide_heartbeat(archive: Archive, conversation: Conversation, after: int, now: datetime) -> None:
    """Hide the turn that ends behind the message `after`, which the host calls a heartbeat, unless it says something.

    Its question may have come before, if nothing has answered that yet.
    """
    rows = archive.messages.tail(conversation.id, _MOST_MESSAGES)
    first = next((n for n, row in enumerate(rows) if row.id > after), None)
    if first is None or rows[-1].role != "assistant" or not _says_nothing(archive, rows[-1]):
        return
    start = _last_question(rows)
    if start is None or any(_ends_turn(archive, row) for row in rows[start:first]):
        start = first
    hide_as_heartbeat(archive, conversation, [row.id for row in rows[start:]], now)


def _says_nothing(archive: Archive, row: TailRow) -> bool:
    """Whether an answer is the word for it, or none at all; one that calls a tool is not over."""
    answer = archive.messages.get(row.id).message
    if any(isinstance(part, ToolCall) for part in answer.parts):
        return False
    return answer.content.strip() in ("", *QUIET_ANSWERS)


def _ends_turn(archive: Archive, row: TailRow) -> bool:
    """Whether a row ends a turn."""
    return row.role == "assistant" and not any(
        isinstance(part, ToolCall) for part in archive.messages.get(row.id).message.parts
    )


def hide_quiet_history(archive: Archive, conversation: Conversation, now: datetime) -> None:
    """Hide the turns of this kind that are in the context still, such as those that another program has stored."""
    identities = [identity_hash("assistant", answer) for answer in QUIET_ANSWERS]
    for seq in archive.messages.seqs_in_context(conversation.id, identities):
        rows = archive.messages.context_run(conversation.id, seq - _MOST_MESSAGES + 1, seq)
        if turn := _turn_of(archive, conversation, rows):
            hide_as_heartbeat(archive, conversation, turn, now)


def hide_as_heartbeat(archive: Archive, conversation: Conversation, ids: Sequence[int], now: datetime) -> None:
    """Take messages out of the context as a heartbeat."""
    before = archive.context.tokens(conversation.id)
    archive.context.hide(conversation.id, tuple(ids), HEARTBEAT, now)
    after = archive.context.tokens(conversation.id)
    archive.context.log(
        conversation.id, ContextChange("hide", "ingest", HEARTBEAT, tuple(ids), (), None, before, after), now
    )
    archive.context.close_gaps(conversation.id)


def _turn_to(archive: Archive, conversation: Conversation, answer_id: int) -> list[int]:
    """The messages from a heartbeat's question to its answer; none when a person asked."""
    rows = archive.messages.tail(conversation.id, _MOST_MESSAGES)
    return _turn_of(archive, conversation, [row for row in rows if row.id <= answer_id])


def _turn_of(archive: Archive, conversation: Conversation, rows: Sequence[TailRow]) -> list[int]:
    """The last turn of these rows, if a heartbeat has asked."""
    start = _last_question(rows)
    if start is None:
        return []
    question = archive.messages.get(rows[start].id).message
    if not is_quiet_question(question, conversation.session_key):
        return []
    return [row.id for row in rows[start:]]


def _last_question(rows: Sequence[TailRow]) -> int | None:
    return next((n for n in reversed(range(len(rows))) if rows[n].role == "user"), None)
