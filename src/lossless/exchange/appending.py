"""Requests that bring only what is new, since the past is the archive's; one that is sent again is known as such."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless.errors import BadInput
from lossless.ingest import events as incoming
from lossless.ingest.masking import masked
from lossless.ingest.match import overlap
from lossless.ingest.plan import IngestPlan
from lossless.ingest.run import write
from lossless.ingest.window import system_head

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lossless.engine import Engine
    from lossless.exchange.dialect import Raw
    from lossless.ingest.events import Event
    from lossless.ingest.run import AppendReport
    from lossless.model.conversations import Session
    from lossless.store.archive import Archive
    from lossless.store.messages import TailRow

#: What the messages of a request are: all that the model shall know of, or what is new.
History: TypeAlias = Literal["window", "append"]
#: A reply has not more rows than this.
_REPLY_ROWS = 64


@dataclass(frozen=True, slots=True)
class Known:
    """How many messages of a request are stored already, and the rows of the reply to them that nobody has got."""

    count: int = 0
    lost: tuple[int, ...] = ()


def append_new(engine: Engine, session: Session, window: Sequence[Raw]) -> AppendReport:
    """Store what a request adds; its system prompt is the conversation's from now on.

    Of a request that is sent again nothing is stored, and the reply that was lost leaves the context.
    """
    head = system_head(window)
    prompts, said = window[:head], window[head:]
    events, _ = incoming.read(said)
    if not events:
        raise BadInput("the request has no new message, and with the history `append` that is what it is for")
    archive = engine.archive
    with archive.writing():
        if prompts:
            engine.sync(session, prompts)
        found = archive.conversations.find(session)
        if found is not None:
            events, _ = incoming.read(masked(archive, found.id, said))
        known = Known() if found is None else already(archive, found.id, events)
        start = events[known.count - 1].index + 1 if known.count else 0
        report = engine.append(session, said[start:])
        if known.lost and report.conversation is not None:
            taken_back = IngestPlan(abandoned=known.lost, cause="branch")
            write(archive, report.conversation, taken_back, None, engine.loop.clock())
    return report


def mark_cut_off(engine: Engine, session: Session, message_id: int) -> None:
    """Remember that nobody got to the end of the reply that begins with this message."""
    engine.append(session, (), key=_cut_off(message_id))


def already(archive: Archive, conversation_id: int, events: Sequence[Event]) -> Known:
    """What of a request is stored: as many messages as it begins with and the conversation ends with.

    A reply may stand behind them if it was cut off, or if they hold the result of a tool: no call is answered twice.
    """
    rows = archive.messages.tail(conversation_id, len(events) + _REPLY_ROWS)
    if count := _overlap(rows, events):
        return Known(count)
    for place in range(len(rows) - 1, 0, -1):
        if rows[place].role != "assistant":
            break
        count = _overlap(rows[:place], events)
        lost = tuple(row.id for row in rows[place:])
        is_cut_off = bool(count) and archive.ingest.has_key(conversation_id, _cut_off(lost[0]))
        if is_cut_off or (count and _is_answered(archive, events[:count], lost)):
            return Known(count, lost)
    return Known()


def _overlap(rows: Sequence[TailRow], events: Sequence[Event]) -> int:
    """The most messages that these rows end with and a request begins with."""
    return overlap([event.fingerprint for event in events], [row.fingerprint for row in rows])[0]


def _is_answered(archive: Archive, events: Iterable[Event], reply: Sequence[int]) -> bool:
    """Whether there are results of tools among some messages, for calls that the reply to them does not make anew."""
    results = {part.call_id for event in events for part in event.message.tool_results} - {None}
    again = {part.id for stored in archive.messages.many(reply) for part in stored.message.tool_calls}
    return bool(results) and results.isdisjoint(again)


def _cut_off(message_id: int) -> str:
    return f"cut off: {message_id}"
