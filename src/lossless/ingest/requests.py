"""Finds the stored messages that a request repeats: the conversation that it continues, and a request sent twice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lossless import formats
from lossless.errors import BadMessage
from lossless.ingest import events as incoming
from lossless.ingest.likeness import is_short, reads_same, score_likeness, undecorated
from lossless.ingest.match import ALIKE, SURE
from lossless.ingest.sequences import overlap
from lossless.ingest.window import count_system_head, in_context_order, plan_aligned, split_prints, window_prints
from lossless.model.conversations import Session
from lossless.model.identity import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from lossless.ingest.events import Event
    from lossless.model.messages import Message
    from lossless.model.records import TailRow
    from lossless.store.archive import Archive

_PRINT = 8
#: Replies, by role, or by type for items without one.
_REPLIES = frozenset(("assistant", "function_call", "custom_tool_call"))
#: The maximum length of a greeting that a client shows before the first message.
_GREETING = 80
#: The maximum number of system prompts at the start of a window.
_MOST_PROMPTS = 8
#: The maximum number of notices about what a client has omitted.
_MOST_NOTICES = 2
#: How many more rows than the last window had are read.
_MARGIN = 64
#: After such a pause the same first message begins another conversation.
_PAUSE = timedelta(hours=1)
#: How many recently used conversations are compared by the prints of their last window, how many of these in detail,
#: and the maximum number of windows read overall.
_RECENT, _CLOSER, _WINDOWS = 64, 8, 512
#: The maximum length of a window that is a first request and its reply.
_MOST_FIRST = 16

#: How a request relates to a conversation: it continues from its newest reply, goes back to an earlier message, or
#: replaces its newest exchange, which was rewritten or asked separately.
Continuation: TypeAlias = Literal["on", "back", "instead"]


@dataclass(frozen=True, slots=True)
class HistoryMatch:
    """How a request relates to a conversation, and how certain that is."""

    how: Continuation
    #: How many of its messages are in the conversation; of one that replaces an exchange, those before that.
    known: int
    #: Whether these are all that the conversation shows.
    is_all: bool = False


class RequestHistory:
    """The history in a request, without system prompts."""

    def __init__(self, window: Sequence[dict[str, Any]]) -> None:
        head = count_system_head(window)
        self.messages, self._head = list(window[head:]), window[:head]
        roles = [str(message.get("role") or message.get("type")) for message in self.messages]
        talk = next((n for n, role in enumerate(roles) if role not in _REPLIES), len(roles))
        replies = [n for n, role in enumerate(roles) if role in _REPLIES]
        is_greeting = not replies or replies[-1] < talk
        if is_greeting and replies:  # a long text is the reply to an omitted message
            is_greeting = len(str(self.messages[replies[-1]].get("content"))) <= _GREETING
        #: How many messages there are up to the last reply; an unsolicited greeting does not count.
        self.replied = 0 if is_greeting else replies[-1] + 1
        self.replies = frozenset(replies)

    @property
    def has_reply(self) -> bool:
        return self.replied > 0

    @cached_property
    def first(self) -> str:
        """What identifies the first message."""
        found = next((one for one in map(_decoded, self.messages) if one is not None), None)
        return "empty" if found is None else fingerprint(found).hex()

    def count_known(self, size: int) -> int:
        """How many of the known messages are evidence, where all are known: not a very short newest one."""
        newest = _decoded(self.messages[-1])
        return size - 1 if newest is not None and is_short(newest) else size

    @property
    def prompts(self) -> list[Message]:
        """The system prompts."""
        return [one for one in map(_decoded, self._head) if one is not None]

    @cached_property
    def prints(self) -> list[bytes]:
        """Short prints of the original messages."""
        return split_prints(window_prints(self.messages))

    @cached_property
    def marks(self) -> list[bytes]:
        """The messages by content."""
        return [fingerprint(one) for one in map(_decoded, self.messages) if one is not None]

    @cached_property
    def events(self) -> list[Event]:
        """The messages as the archive decodes them; empty when one is invalid."""
        try:
            return incoming.read_events(self.messages)[0]
        except BadMessage:
            return []


class StoredHistory:
    """What a conversation shows now: the last window as received, and as stored."""

    def __init__(self, archive: Archive, conversation_id: int) -> None:
        self._archive, self._id = archive, conversation_id

    def __len__(self) -> int:
        return len(self.prints) or len(self.marks)

    @cached_property
    def prints(self) -> list[bytes]:
        """The prints of the last window with its reply; system prompts may be among them."""
        mark = self._archive.ingest.window(self._id)
        return [] if mark is None or len(mark.chain) != _PRINT * mark.length else split_prints(mark.chain)

    def after_prompts(self, first: bytes) -> list[bytes]:
        """The last window from the first message of a request on; empty when it began differently."""
        head = next((n for n, one in enumerate(self.prints[: _MOST_PROMPTS + 1]) if one == first), None)
        return [] if head is None else self.prints[head:]

    @cached_property
    def marks(self) -> list[bytes]:
        """The newest messages by content, in order: as many as the last window had, and some more."""
        limit = len(self.prints) + _MARGIN
        rows = self._archive.messages.tail(self._id, limit)
        return [row.fingerprint for row in in_context_order(rows, self._archive.context.ordinals(self._id, len(rows)))]

    @property
    def first(self) -> str | None:
        """What identifies the first message of the last window."""
        mark = self._archive.ingest.window(self._id)
        if mark is None or mark.first_id is None:
            return None
        return fingerprint(self._archive.messages.get(mark.first_id).message).hex()

    @property
    def newest(self) -> Message | None:
        rows = self._archive.messages.tail(self._id, 1)
        return self._archive.messages.get(rows[-1].id).message if rows else None

    @property
    def last_messages(self) -> list[Message]:
        """The messages of the last window, without the system prompts before them."""
        return [row.message for row in self._archive.messages.many([row for row in self._shown if row > 0])]

    @property
    def last_prompts(self) -> list[Message]:
        return [row.message for row in self._archive.messages.many([-row for row in self._shown if row < 0])]

    @cached_property
    def _shown(self) -> tuple[int, ...]:
        mark = self._archive.ingest.window(self._id)
        return () if mark is None or mark.rows is None else mark.rows

    def idle_time(self, now: datetime) -> timedelta:
        """How long ago the newest message was stored."""
        rows = self._archive.messages.tail(self._id, 1)
        return now - self._archive.messages.get(rows[-1].id).created_at if rows else timedelta.max

    def match(self, request: RequestHistory) -> HistoryMatch | None:
        """How a request relates to the conversation by the matcher; None when it does not, or in doubt."""
        return match_history(self._archive, self._id, request)


def goes_on(request: RequestHistory, stored: StoredHistory) -> int:
    """How many messages the conversation shows, when a request begins with them all; else 0.

    Its newest reply may have come back in another form.
    """
    before = stored.after_prompts(request.prints[0]) if request.prints else []
    same = next((n for n, (one, other) in enumerate(zip(before, request.prints, strict=False)) if one != other), None)
    same = min(len(before), len(request.prints)) if same is None else same
    is_beginning = same == len(before) or (same == len(before) - 1 and _is_newest(request, same, stored))
    return len(before) if is_beginning else 0


def goes_back(request: RequestHistory, stored: StoredHistory) -> bool:
    """Whether a request is the beginning of what the conversation shows, asking for its last reply, or more, again."""
    size = len(request.messages)
    return bool(request.prints) and stored.after_prompts(request.prints[0])[:size] == request.prints


def matching_sessions(
    archive: Archive, request: RequestHistory, prefix: str, now: datetime
) -> list[tuple[HistoryMatch, Session]]:
    """Recently used sessions of a prefix that a request belongs to by the matcher, newest first."""
    recent = archive.ingest.recent_windows(prefix, _RECENT, _WINDOWS)
    if not request.has_reply:
        size, short = len(request.messages), [one for one in recent if len(one[2]) <= _PRINT * _MOST_FIRST]
        again = ((id_, Session(key=key)) for key, id_, _ in short[:_CLOSER])
        return [
            (HistoryMatch("back", size), session)
            for id_, session in again
            if asks_again(request, StoredHistory(archive, id_), now)
        ]
    asked = set(request.prints)
    close = sorted(recent, key=lambda one: -len(asked.intersection(split_prints(one[2]))))[:_CLOSER]
    fits = [(match_history(archive, id_, request), Session(key=key)) for key, id_, _ in close]
    return [(how, session) for how, session in fits if how is not None]


def asks_again(request: RequestHistory, stored: StoredHistory, now: datetime) -> bool:
    """Whether a first request was sent before, less than an hour ago, and has had only a reply: it asks for another.

    A very short text may as well begin another conversation, and so may the same text after other system prompts.
    """
    asked = [event.message for event in request.events if event.message.role != "system"]
    if all(is_short(replace(message, content=undecorated(message.content))) for message in asked):
        return False
    if stored.idle_time(now) >= _PAUSE:
        return False
    said = [message for message in stored.last_messages if message.role not in ("system", "assistant")]
    pairs = [(said, asked), (stored.last_prompts, request.prompts)]
    if any(len(mine) != len(theirs) for mine, theirs in pairs):
        return False
    is_same = all(
        fingerprint(one) == fingerprint(other) or score_likeness(one, other) == 1.0
        for one, other in zip(*pairs[0], strict=True)
    )
    return is_same and all(score_likeness(one, other) >= ALIKE for one, other in zip(*pairs[1], strict=True))


def match_history(archive: Archive, conversation_id: int, request: RequestHistory) -> HistoryMatch | None:
    """How a request relates to a conversation by the matcher. System messages may change, and do not count."""
    mark, events = archive.ingest.window(conversation_id), request.events
    if mark is None or not mark.rows or not events:
        return None
    plan = plan_aligned(archive, conversation_id, events, mark)
    places, other = plan.places, {event.index for _, event in plan.versions}
    shown = list(dict.fromkeys(row for row in mark.rows if row > 0))
    indices = [n for n, event in enumerate(events) if event.message.role != "system"]
    known = [n for n in indices if places[n] is not None]
    end = max(known, default=-1)
    before, new = [n for n in indices if n <= end], [n for n in indices if n > end]
    if not request.has_reply or not known or 2 * len(known) < len(before):
        return None
    equal = [n for n in known if events[n].index not in other or _reads_same(archive, places[n], events[n])]
    replies = [n for n in equal if events[n].message.role == "assistant"]
    sure = [n for n in replies if not is_short(events[n].message)]
    rows, tail_rows = {places[n] for n in known}, archive.messages.tail_rows
    if shown and (places[end] == shown[-1] or _ends_with(archive, shown[-1], events[end], plan.cuts)):
        missing = [row for row in shown if row not in rows]
        is_all = not missing or all(row.role == "system" for row in tail_rows(conversation_id, missing))
        is_newest = end in replies and _is_question(archive, places, events, known, end - 1)
        is_run = len(known) >= SURE and set(known[-SURE:]) <= set(equal)
        return HistoryMatch("on", len(known), is_all) if sure or is_newest or is_run or (equal and is_all) else None
    last_reply = max((n for n in before if events[n].message.role == "assistant"), default=end)
    is_beginning = all(n in equal for n in before if n <= last_reply)
    if not new and is_beginning and end in equal:
        return HistoryMatch("back", request.count_known(len(known)))
    # it must have a reply that was given here: examples at the start of all chats of a client do not count
    given = [id_ for n in (replies if is_beginning else sure) if (id_ := places[n]) is not None]
    if mark.began is None or not any(row.seq > mark.began for row in tail_rows(conversation_id, given)):
        return None
    last = max((k for k, row in enumerate(shown) if row in rows), default=-1)
    users = sum(row.role == "user" for row in tail_rows(conversation_id, shown[last + 1 :]))
    if users and all(places[n] in plan.revived for n in replies):  # only the same first question: another conversation
        return None
    is_run = is_beginning and [places[n] for n in before] == shown[last + 1 - len(before) : last + 1]
    if new and users > 1 and not is_run and not any(places[n] in plan.revived for n in replies):
        return None
    return HistoryMatch("instead", sum(n <= last_reply for n in known))


def _reads_same(archive: Archive, row: int | None, event: Event) -> bool:
    """Whether a message is a row with other spaces, case, punctuation or typesetting."""
    return row is not None and reads_same(archive.messages.get(row).message, event.message)


def _ends_with(archive: Archive, row: int, event: Event, cuts: Sequence[tuple[int, Event]]) -> bool:
    """Whether a message is several rows, of which this is the last one: a client joins a reply and its continuation."""
    text = archive.messages.get(row).message.content
    return any(one is event for _, one in cuts) and event.message.content.endswith(text)


def _is_question(
    archive: Archive, places: Sequence[int | None], events: Sequence[Event], known: Sequence[int], n: int
) -> bool:
    """Whether a message before a reply is known, with the same words in any frame."""
    row = places[n] if n in known else None
    return row is not None and score_likeness(archive.messages.get(row).message, events[n].message) == 1.0


def shares_history(request: RequestHistory, stored: StoredHistory) -> bool:
    """Whether a request and a conversation share their history: its beginning, or its end.

    A client that drops its oldest messages starts in the middle, perhaps with a notice.
    """
    if not len(stored) or not request.messages or request.first == stored.first:
        return True
    return _is_within(request, request.prints, stored.prints) or _is_within(request, request.marks, stored.marks)


def _is_within(request: RequestHistory, asked: Sequence[bytes], there: Sequence[bytes]) -> bool:
    """Whether a history, up to its last reply or completely, is a run of the stored one."""
    for head in range(min(_MOST_NOTICES + 1, len(asked))):
        for place in (n for n, one in enumerate(there) if one == asked[head]):
            size = min(len(there) - place, request.replied - head)
            is_run = size > 0 and there[place : place + size] == asked[head : head + size]
            if is_run and (size >= SURE or (not head and request.replies.intersection(range(size)))):
                return True
    return False


def _is_newest(request: RequestHistory, place: int, stored: StoredHistory) -> bool:
    """Whether a message of the request is the conversation's newest reply in another form."""
    if place >= len(request.messages) or place not in request.replies:
        return False
    copy, newest = _decoded(request.messages[place]), stored.newest
    return (
        copy is not None and newest is not None and newest.role == "assistant" and score_likeness(newest, copy) >= ALIKE
    )


def _decoded(message: dict[str, Any]) -> Message | None:
    try:
        return formats.decode(message)
    except BadMessage:
        return None


#: The maximum number of rows of a reply.
_REPLY_ROWS = 64


@dataclass(frozen=True, slots=True)
class ResentRequest:
    """How many messages of a request are already stored, and the rows of their undelivered reply."""

    count: int = 0
    lost: tuple[int, ...] = ()


def find_resent(archive: Archive, conversation_id: int, window: Sequence[dict[str, Any]]) -> ResentRequest:
    """How much of a request is stored: the longest prefix of it that the conversation ends with.

    A reply may follow them if it was cut off, or if they have a tool result: no call is answered twice.
    """
    events, _ = incoming.read_events(incoming.mask_items(archive, conversation_id, window))
    known, lost = _resent_events(archive, conversation_id, events)
    return ResentRequest(events[known - 1].index + 1 if known else 0, lost)


def _resent_events(archive: Archive, conversation_id: int, events: Sequence[Event]) -> tuple[int, tuple[int, ...]]:
    rows = archive.messages.tail(conversation_id, len(events) + _REPLY_ROWS)
    if count := _overlap(rows, events):
        return count, ()
    for place in range(len(rows) - 1, 0, -1):
        if rows[place].role != "assistant":
            break
        count = _overlap(rows[:place], events)
        lost = tuple(row.id for row in rows[place:])
        is_cut_off = bool(count) and archive.ingest.has_key(conversation_id, cut_off_key(lost[0]))
        if is_cut_off or (count and _is_answered(archive, events[:count], lost)):
            return count, lost
    return 0, ()


def _overlap(rows: Sequence[TailRow], events: Sequence[Event]) -> int:
    """The longest overlap of the end of these rows and the beginning of a request."""
    return overlap([event.fingerprint for event in events], [row.fingerprint for row in rows])[0]


def _is_answered(archive: Archive, events: Iterable[Event], reply: Sequence[int]) -> bool:
    """Whether some messages have tool results for calls that the reply to them does not repeat."""
    results = {part.call_id for event in events for part in event.message.tool_results} - {None}
    again = {part.id for stored in archive.messages.many(reply) for part in stored.message.tool_calls}
    return bool(results) and results.isdisjoint(again)


def cut_off_key(message_id: int) -> str:
    """The key that records that the reply beginning with this message was cut off."""
    return f"cut off: {message_id}"
