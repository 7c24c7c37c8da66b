"""Comparing the history that a request shows with that of a conversation: does it go on there, go back, or neither?

A client that changes nothing is known by the prints of its messages. All others are laid over the conversation by the
matcher, which knows messages that are decorated, edited, moved, left out or written in another way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless import formats
from lossless.errors import BadMessage
from lossless.ingest import events as incoming
from lossless.ingest.likeness import is_short, likeness
from lossless.ingest.match import ALIKE, SURE
from lossless.ingest.prints import pieces, prints_of
from lossless.ingest.window import in_order, plan_aligned, system_head
from lossless.model.identity import fingerprint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.exchange.dialect import Raw
    from lossless.ingest.events import Event
    from lossless.ingest.plan import IngestPlan
    from lossless.model.messages import Message
    from lossless.store.archive import Archive
    from lossless.store.ingest_state import WindowMark

_PRINT = 8
#: Who replies, by role, or by the kind of an item that has none.
_REPLIES = frozenset(("assistant", "function_call", "custom_tool_call"))
#: A window does not begin with more system prompts than this.
_MOST_PROMPTS = 8
#: Nor with more notices, of what a client has left out.
_MOST_NOTICES = 2
#: How many more rows than the last window had are read.
_MARGIN = 64

#: How a request belongs to a conversation: it goes on from its newest reply, goes back to an earlier message, or has
#: something else instead of its newest exchange: that was written anew, or was asked beside the chat.
How: TypeAlias = Literal["on", "back", "instead"]


@dataclass(frozen=True, slots=True)
class Fit:
    """How a request belongs to a conversation, and how sure that is."""

    how: How
    #: How many of its messages are those of the conversation.
    known: int
    #: Whether these are all that the conversation shows.
    is_all: bool = False


class Request:
    """What a request shows of its history, but for its system prompts."""

    def __init__(self, window: Sequence[Raw]) -> None:
        self.said = list(window[system_head(window) :])
        roles = [str(message.get("role") or message.get("type")) for message in self.said]
        talk = next((n for n, role in enumerate(roles) if role not in _REPLIES), len(roles))
        replies = [n for n, role in enumerate(roles) if role in _REPLIES]
        #: How many messages there are up to the last reply; a greeting that nobody asked for is none.
        self.replied = replies[-1] + 1 if replies and replies[-1] > talk else 0
        self.replies = frozenset(replies)

    @property
    def has_reply(self) -> bool:
        """Whether anything was answered before."""
        return self.replied > 0

    @cached_property
    def first(self) -> str:
        """What stands for the first message."""
        found = next((one for one in map(_decoded, self.said) if one is not None), None)
        return "empty" if found is None else fingerprint(found).hex()

    @cached_property
    def prints(self) -> list[bytes]:
        """The messages as they came, in short."""
        return pieces(prints_of(self.said))

    @cached_property
    def marks(self) -> list[bytes]:
        """The messages by what they say."""
        return [fingerprint(one) for one in map(_decoded, self.said) if one is not None]

    @cached_property
    def events(self) -> list[Event]:
        """The messages as the archive reads them; none when one of them is no message."""
        try:
            return incoming.read(self.said)[0]
        except BadMessage:
            return []


class Stored:
    """What a conversation shows now: as the last window came, and as it is stored."""

    def __init__(self, archive: Archive, conversation_id: int) -> None:
        self._archive, self._id = archive, conversation_id

    def __len__(self) -> int:
        return len(self.prints) or len(self.marks)

    @cached_property
    def prints(self) -> list[bytes]:
        """The messages of the last window, with its reply, as they came; its system prompts may be among them."""
        mark = self._archive.ingest.window(self._id)
        return [] if mark is None or len(mark.chain) != _PRINT * mark.length else pieces(mark.chain)

    def after_prompts(self, first: bytes) -> list[bytes]:
        """The last window from the message on that a request begins with; nothing when it began in another way."""
        head = next((n for n, one in enumerate(self.prints[: _MOST_PROMPTS + 1]) if one == first), None)
        return [] if head is None else self.prints[head:]

    @cached_property
    def marks(self) -> list[bytes]:
        """The newest messages by what they say, in order: all that the last window had, and some more."""
        most = len(self.prints) + _MARGIN
        rows = self._archive.messages.tail(self._id, most)
        return [row.fingerprint for row in in_order(rows, self._archive.context.ordinals(self._id, len(rows)))]

    @property
    def first(self) -> str | None:
        """What stands for the message that the last window began with."""
        mark = self._archive.ingest.window(self._id)
        if mark is None or mark.first_id is None:
            return None
        return fingerprint(self._archive.messages.get(mark.first_id).message).hex()

    @property
    def newest(self) -> Message | None:
        """The newest message."""
        rows = self._archive.messages.tail(self._id, 1)
        return self._archive.messages.get(rows[-1].id).message if rows else None


def goes_on(request: Request, stored: Stored) -> int:
    """How many messages the conversation shows, when a request begins with them all; else 0.

    Its newest reply may have come back in another form.
    """
    before = stored.after_prompts(request.prints[0]) if request.prints else []
    return len(before) if _is_beginning(before, request.prints, request, stored) else 0


def goes_back(request: Request, stored: Stored) -> bool:
    """Whether a request is the beginning of what the conversation shows: its last reply is asked for anew, or more."""
    size = len(request.said)
    return bool(request.prints) and stored.after_prompts(request.prints[0])[:size] == request.prints


def fit(archive: Archive, conversation_id: int, request: Request) -> Fit | None:
    """How a request belongs to a conversation by the matcher; None when it does not, or when that is in doubt."""
    mark = archive.ingest.window(conversation_id)
    if mark is None or not mark.rows or not request.events:
        return None
    laid = _Laid(request, mark, plan_aligned(archive, conversation_id, request.events, mark))
    if not laid.known or 2 * len(laid.known) < len(laid.before):
        return None
    if laid.newest is not None:
        return Fit("on", len(laid.known), laid.is_all) if laid.sure or (laid.equal and laid.is_all) else None
    if not request.has_reply:
        return None
    if not laid.new and len(laid.equal) == len(laid.before):
        return Fit("back", len(laid.known))
    if not _has_given(archive, conversation_id, laid):
        return None
    behind = archive.messages.tail_rows(conversation_id, laid.behind)
    if laid.new and not laid.returns and sum(row.role == "user" for row in behind) > 1:
        return None
    return Fit("instead" if laid.new else "back", len(laid.known))


class _Laid:
    """A request that is laid over the last window of a conversation. System messages come and go, and count nothing."""

    def __init__(self, request: Request, mark: WindowMark, plan: IngestPlan) -> None:
        self.mark, self.events, self.places = mark, request.events, plan.places
        self.shown = list(dict.fromkeys(row for row in mark.rows or () if row > 0))
        said = [n for n, event in enumerate(self.events) if event.message.role != "system"]
        other = {event.index for _, event in (*plan.versions, *plan.cuts)}
        #: The messages that are rows; those of them in the same words; and of these the replies that say enough.
        self.known = [n for n in said if self.places[n] is not None]
        self.equal = [n for n in self.known if self.events[n].index not in other]
        self.sure = [n for n in self.equal if self.is_reply(n) and not is_short(self.events[n].message)]
        end = max(self.known, default=-1)
        #: The messages up to the last that is known, and those behind it.
        self.before = [n for n in said if n <= end]
        self.new = [n for n in said if n > end]
        newest = self.shown[-1] if self.shown else None
        #: The message that is the conversation's newest, with nothing known behind it.
        self.newest = end if end >= 0 and self.places[end] == newest else None
        #: Whether it has a reply that the conversation had left.
        self.returns = any(self.places[n] in plan.revived for n in self.equal if self.is_reply(n))
        rows = {self.places[n] for n in self.known}
        self.is_all = rows.issuperset(self.shown)
        last = max((k for k, row in enumerate(self.shown) if row in rows), default=-1)
        #: What the conversation shows behind the last message that the request has of it.
        self.behind = self.shown[last + 1 :]

    def is_reply(self, n: int) -> bool:
        return self.events[n].message.role == "assistant"


def _has_given(archive: Archive, conversation_id: int, laid: _Laid) -> bool:
    """Whether a request has a reply that was given in a conversation, so that it is of this chat.

    Examples that a client begins all its chats with are no such reply.
    """
    is_beginning = len(laid.equal) == len(laid.before)
    replies = [n for n in laid.equal if laid.is_reply(n)] if is_beginning else laid.sure
    ids = [id_ for n in replies if (id_ := laid.places[n]) is not None]
    began = laid.mark.began
    return began is not None and any(row.seq > began for row in archive.messages.tail_rows(conversation_id, ids))


def shares(request: Request, stored: Stored) -> bool:
    """Whether a request and a conversation have their history in common: its beginning, or its end.

    A client that drops its oldest messages begins in the midst of it, perhaps with a notice that it does.
    """
    if not len(stored) or not request.said or request.first == stored.first:
        return True
    return _is_within(request, request.prints, stored.prints) or _is_within(request, request.marks, stored.marks)


def _is_within(request: Request, asked: Sequence[bytes], there: Sequence[bytes]) -> bool:
    """Whether a history, up to its last reply or all of what is there, is a run of what is there."""
    for head in range(min(_MOST_NOTICES + 1, len(asked))):
        for place in (n for n, one in enumerate(there) if one == asked[head]):
            size = min(len(there) - place, request.replied - head)
            is_run = size > 0 and there[place : place + size] == asked[head : head + size]
            if is_run and (size >= SURE or (not head and request.replies.intersection(range(size)))):
                return True
    return False


def _is_beginning(before: Sequence[bytes], asked: Sequence[bytes], request: Request, stored: Stored) -> bool:
    same = _common(before, asked)
    return same == len(before) or (same == len(before) - 1 and _is_newest(request, same, stored))


def _is_newest(request: Request, place: int, stored: Stored) -> bool:
    """Whether a message of the request is the conversation's newest reply in another form."""
    if place >= len(request.said) or place not in request.replies:
        return False
    copy, newest = _decoded(request.said[place]), stored.newest
    return copy is not None and newest is not None and newest.role == "assistant" and likeness(newest, copy) >= ALIKE


def _common(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """How many messages two histories begin with alike."""
    size = min(len(one), len(other))
    return next((n for n in range(size) if one[n] != other[n]), size)


def _decoded(message: Raw) -> Message | None:
    try:
        return formats.decode(message)
    except BadMessage:
        return None
