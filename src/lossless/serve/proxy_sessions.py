"""Which conversation a request of the proxy belongs to: by a header, by its key, or by comparing its history with
the stored ones.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless import formats
from lossless.errors import BadMessage
from lossless.ingest import events as incoming
from lossless.ingest.events import mask_bodies
from lossless.ingest.likeness import is_short, score_likeness
from lossless.ingest.match import ALIKE, SURE
from lossless.ingest.window import count_system_head, in_context_order, plan_aligned, split_prints, window_prints
from lossless.model.conversations import Session
from lossless.model.identity import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lossless.engine import Engine
    from lossless.ingest.events import Event
    from lossless.ingest.plan import IngestPlan
    from lossless.model.messages import Message
    from lossless.model.records import WindowMark
    from lossless.providers.api import Raw
    from lossless.store.archive import Archive

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
Continuation: TypeAlias = Literal["on", "back", "instead"]


@dataclass(frozen=True, slots=True)
class HistoryMatch:
    """How a request belongs to a conversation, and how sure that is."""

    how: Continuation
    #: How many of its messages are those of the conversation.
    known: int
    #: Whether these are all that the conversation shows.
    is_all: bool = False


class RequestHistory:
    """What a request shows of its history, but for its system prompts."""

    def __init__(self, window: Sequence[Raw]) -> None:
        self.said = list(window[count_system_head(window) :])
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
        return split_prints(window_prints(self.said))

    @cached_property
    def marks(self) -> list[bytes]:
        """The messages by what they say."""
        return [fingerprint(one) for one in map(_decoded, self.said) if one is not None]

    @cached_property
    def events(self) -> list[Event]:
        """The messages as the archive reads them; none when one of them is no message."""
        try:
            return incoming.read_events(self.said)[0]
        except BadMessage:
            return []


class StoredHistory:
    """What a conversation shows now: as the last window came, and as it is stored."""

    def __init__(self, archive: Archive, conversation_id: int) -> None:
        self._archive, self._id = archive, conversation_id

    def __len__(self) -> int:
        return len(self.prints) or len(self.marks)

    @cached_property
    def prints(self) -> list[bytes]:
        """The messages of the last window, with its reply, as they came; its system prompts may be among them."""
        mark = self._archive.ingest.window(self._id)
        return [] if mark is None or len(mark.chain) != _PRINT * mark.length else split_prints(mark.chain)

    def after_prompts(self, first: bytes) -> list[bytes]:
        """The last window from the message on that a request begins with; nothing when it began in another way."""
        head = next((n for n, one in enumerate(self.prints[: _MOST_PROMPTS + 1]) if one == first), None)
        return [] if head is None else self.prints[head:]

    @cached_property
    def marks(self) -> list[bytes]:
        """The newest messages by what they say, in order: all that the last window had, and some more."""
        most = len(self.prints) + _MARGIN
        rows = self._archive.messages.tail(self._id, most)
        return [row.fingerprint for row in in_context_order(rows, self._archive.context.ordinals(self._id, len(rows)))]

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


def goes_on(request: RequestHistory, stored: StoredHistory) -> int:
    """How many messages the conversation shows, when a request begins with them all; else 0.

    Its newest reply may have come back in another form.
    """
    before = stored.after_prompts(request.prints[0]) if request.prints else []
    return len(before) if _is_beginning(before, request.prints, request, stored) else 0


def goes_back(request: RequestHistory, stored: StoredHistory) -> bool:
    """Whether a request is the beginning of what the conversation shows: its last reply is asked for anew, or more."""
    size = len(request.said)
    return bool(request.prints) and stored.after_prompts(request.prints[0])[:size] == request.prints


def match_history(archive: Archive, conversation_id: int, request: RequestHistory) -> HistoryMatch | None:
    """How a request belongs to a conversation by the matcher; None when it does not, or when that is in doubt."""
    mark = archive.ingest.window(conversation_id)
    if mark is None or not mark.rows or not request.events:
        return None
    laid = _AlignedRequest(request, mark, plan_aligned(archive, conversation_id, request.events, mark))
    if not laid.known or 2 * len(laid.known) < len(laid.before):
        return None
    if laid.newest is not None:
        return HistoryMatch("on", len(laid.known), laid.is_all) if laid.sure or (laid.equal and laid.is_all) else None
    if not request.has_reply:
        return None
    if not laid.new and len(laid.equal) == len(laid.before):
        return HistoryMatch("back", len(laid.known))
    if not _has_given(archive, conversation_id, laid):
        return None
    behind = archive.messages.tail_rows(conversation_id, laid.behind)
    if laid.new and not laid.returns and sum(row.role == "user" for row in behind) > 1:
        return None
    return HistoryMatch("instead" if laid.new else "back", len(laid.known))


class _AlignedRequest:
    """A request that is laid over the last window of a conversation. System messages come and go, and count nothing."""

    def __init__(self, request: RequestHistory, mark: WindowMark, plan: IngestPlan) -> None:
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


def _has_given(archive: Archive, conversation_id: int, laid: _AlignedRequest) -> bool:
    """Whether a request has a reply that was given in a conversation, so that it is of this chat.

    Examples that a client begins all its chats with are no such reply.
    """
    is_beginning = len(laid.equal) == len(laid.before)
    replies = [n for n in laid.equal if laid.is_reply(n)] if is_beginning else laid.sure
    ids = [id_ for n in replies if (id_ := laid.places[n]) is not None]
    began = laid.mark.began
    return began is not None and any(row.seq > began for row in archive.messages.tail_rows(conversation_id, ids))


def shares_history(request: RequestHistory, stored: StoredHistory) -> bool:
    """Whether a request and a conversation have their history in common: its beginning, or its end.

    A client that drops its oldest messages begins in the midst of it, perhaps with a notice that it does.
    """
    if not len(stored) or not request.said or request.first == stored.first:
        return True
    return _is_within(request, request.prints, stored.prints) or _is_within(request, request.marks, stored.marks)


def _is_within(request: RequestHistory, asked: Sequence[bytes], there: Sequence[bytes]) -> bool:
    """Whether a history, up to its last reply or all of what is there, is a run of what is there."""
    for head in range(min(_MOST_NOTICES + 1, len(asked))):
        for place in (n for n, one in enumerate(there) if one == asked[head]):
            size = min(len(there) - place, request.replied - head)
            is_run = size > 0 and there[place : place + size] == asked[head : head + size]
            if is_run and (size >= SURE or (not head and request.replies.intersection(range(size)))):
                return True
    return False


def _is_beginning(
    before: Sequence[bytes], asked: Sequence[bytes], request: RequestHistory, stored: StoredHistory
) -> bool:
    same = _common(before, asked)
    return same == len(before) or (same == len(before) - 1 and _is_newest(request, same, stored))


def _is_newest(request: RequestHistory, place: int, stored: StoredHistory) -> bool:
    """Whether a message of the request is the conversation's newest reply in another form."""
    if place >= len(request.said) or place not in request.replies:
        return False
    copy, newest = _decoded(request.said[place]), stored.newest
    return (
        copy is not None and newest is not None and newest.role == "assistant" and score_likeness(newest, copy) >= ALIKE
    )


def _common(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """How many messages two histories begin with alike."""
    size = min(len(one), len(other))
    return next((n for n in range(size) if one[n] != other[n]), size)


def _decoded(message: Raw) -> Message | None:
    try:
        return formats.decode(message)
    except BadMessage:
        return None


IdentifyBy: TypeAlias = Literal["prefix", "key"]
#: So many of the conversations that begin with the same message are looked at, newest first.
_MOST_ALIKE = 64
#: So many of those that were in use last are compared by the prints of their last window, so many of these closely; and
#: no more windows than this are looked at, whoever they belong to.
_RECENT, _CLOSER, _WINDOWS = 64, 8, 512
_REMEMBERED = 4096


@dataclass(slots=True)
class SessionFinder:
    """Names sessions. What it finds follows from the archive alone, so it finds the same after a restart."""

    engine: Engine
    by: IdentifyBy = "prefix"
    #: How many requests got a new conversation because they may be of several.
    doubtful: int = 0
    #: By the id of a response that clients know: its session, and the provider's own id where that is another.
    _responses: OrderedDict[str, tuple[Session, str]] = field(default_factory=OrderedDict)
    #: Sessions that have requests on their way, and how many.
    _busy: dict[str, int] = field(default_factory=dict)
    #: How many sessions there were of a name when it was looked up last.
    _counted: OrderedDict[str, int] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(
        self,
        window: list[Raw],
        key_name: str,
        header: str | None = None,
        goes_on_from: str | None = None,
        *,
        as_named: bool = False,
    ) -> Session:
        """The session of a request until it is released. `goes_on_from` is the provider's name for what it stores.

        One that shall go `as_named` says whose it is, whatever history it shows.
        """
        with self._lock:
            session = self._of(window, key_name, header, goes_on_from, as_named)
            self._busy[session.name] = self._busy.get(session.name, 0) + 1
        return session

    def _of(
        self, window: list[Raw], key_name: str, header: str | None, goes_on_from: str | None, as_named: bool
    ) -> Session:
        if goes_on_from is not None and not header:
            known = self._responses.get(goes_on_from)
            return known[0] if known else Session(key=f"proxy:{key_name}:{_short(goes_on_from)}")
        name = header or f"proxy:{key_name}"
        if as_named:
            return Session(key=name)
        request = RequestHistory(mask_bodies(self.engine.archive, window))
        if not header and self.by == "prefix":
            return self._aligned(request, name)
        named = Session(key=name)
        is_its = goes_on_from is not None or self._is_its(request, named)
        return named if is_its else self._aligned(request, f"{name}:beside")

    def _is_its(self, request: RequestHistory, named: Session) -> bool:
        """Whether a request that names a session shows anything of its history."""
        found = self.engine.archive.conversations.find(named)
        if found is None or shares_history(request, StoredHistory(self.engine.archive, found.id)):
            return True
        return match_history(self.engine.archive, found.id, request) is not None

    def real_id(self, response_id: str) -> str:
        """What the provider calls a response; clients know the first of several rounds."""
        with self._lock:
            known = self._responses.get(response_id)
        return known[1] if known else response_id

    def remember(self, response_id: object, session: Session, real_id: object) -> None:
        """A later request may go on from this response."""
        if isinstance(response_id, str):
            with self._lock:
                self._responses[response_id] = (session, real_id if isinstance(real_id, str) else response_id)
                while len(self._responses) > _REMEMBERED:
                    self._responses.popitem(last=False)

    def release(self, session: Session | None) -> None:
        """A request of this session has come to its end."""
        if session is not None:
            with self._lock:
                left = self._busy.pop(session.name, 1) - 1
                if left > 0:
                    self._busy[session.name] = left

    def _aligned(self, request: RequestHistory, base: str) -> Session:
        """The conversation whose history the request goes on from, the longest there is; else the one in which it
        goes back to an earlier message, or whose newest exchange it has in other words; else a new one.

        A first request goes back to nothing: it begins a conversation, or tries one again that has had no reply.
        """
        name = f"{base}:{_short(request.first)}"
        count = self._count(name)
        found: list[tuple[HistoryMatch, Session]] = []
        back: Session | None = None
        for session, stored in self._alike(name, count, is_first=not request.has_reply):
            if length := goes_on(request, stored):
                if length == request.replied and session.name not in self._busy:
                    return session
                found.append((HistoryMatch("on", length, is_all=True), session))
            elif back is None and request.has_reply and goes_back(request, stored):
                back = session
        if request.has_reply and back is None:
            known = {session.name for _, session in found}
            found += [one for one in self._fitting(request, base) if one[1].name not in known]
        best, ties = self._best(found)
        session = best or back or Session(key=_numbered(name, count + 1))
        if ties and best is None:
            self.doubtful += 1
            self.engine.admin.log.log(
                "session", sessionKey=session.name, ambiguous=ties, reason="may be of several chats"
            )
        return session

    def _fitting(self, request: RequestHistory, base: str) -> list[tuple[HistoryMatch, Session]]:
        """Conversations that were in use lately and that the matcher says a request belongs to, newest first."""
        archive, asked = self.engine.archive, set(request.prints)
        recent = archive.ingest.recent_windows(base, _RECENT, _WINDOWS)
        close = sorted(recent, key=lambda one: -len(asked.intersection(split_prints(one.chain))))[:_CLOSER]
        fits = [(match_history(archive, one.conversation_id, request), Session(key=one.session_key)) for one in close]
        return [(how, session) for how, session in fits if how is not None]

    def _best(self, found: list[tuple[HistoryMatch, Session]]) -> tuple[Session | None, int]:
        """Of conversations that a request may belong to the one that it has most in common with, and their number.

        Two that say the same are as good as each other, and the newest is taken. Otherwise nobody knows.
        """
        for how in ("on", "back", "instead"):
            some = [(one, session) for one, session in found if one.how == how]
            most = max((one.known for one, _ in some), default=0)
            some = [(one, session) for one, session in some if one.known == most]
            free = [(one, session) for one, session in some if session.name not in self._busy]
            some = free or (some if how == "on" else [])
            if some:
                is_clear = len(some) == 1 or how == "back" or all(one.is_all for one, _ in some)
                return some[0][1] if is_clear else None, len(some)
        return None, 0

    def _alike(self, name: str, count: int, *, is_first: bool) -> Iterator[tuple[Session, StoredHistory]]:
        """The newest conversations that begin with the same message; for a first request, those that wait for none."""
        for number in range(count, max(count - _MOST_ALIKE, 0), -1):
            session = Session(key=_numbered(name, number))
            if is_first and session.name in self._busy:
                continue
            if (stored := self._stored(session)) is not None:
                yield session, stored

    def _count(self, name: str) -> int:
        """How many sessions of a name there are."""
        count, step = self._counted.pop(name, 0), 1
        while self._is_there(name, count + step):
            count, step = count + step, 2 * step
        while step > 1:
            step //= 2
            count += step if self._is_there(name, count + step) else 0
        self._counted[name] = count
        while len(self._counted) > _REMEMBERED:
            self._counted.popitem(last=False)
        return count

    def _is_there(self, name: str, number: int) -> bool:
        session = Session(key=_numbered(name, number))
        return session.name in self._busy or self.engine.archive.conversations.find(session) is not None

    def _stored(self, session: Session) -> StoredHistory | None:
        found = self.engine.archive.conversations.find(session)
        return None if found is None else StoredHistory(self.engine.archive, found.id)


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}:{number}"


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
