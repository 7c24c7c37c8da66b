"""The conversation of a proxy request: by a header, by its key, or by comparing its history with the stored ones."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless.ingest.requests import HistoryMatch, RequestHistory, StoredHistory, goes_back, goes_on, shares_history
from lossless.model.conversations import Session

if TYPE_CHECKING:
    from lossless.engine import Engine
    from lossless.providers.api import Raw

IdentifyBy: TypeAlias = Literal["prefix", "key"]
#: How many conversations with the same first message are compared, newest first.
_MOST_ALIKE = 64
_REMEMBERED = 4096


@dataclass(slots=True)
class SessionFinder:
    """Finds sessions. Results depend on the archive only, so they are the same after a restart."""

    engine: Engine
    by: IdentifyBy = "prefix"
    #: How many requests got a new conversation because they could belong to several.
    doubtful: int = 0
    #: By the response id that clients know: its session, and the provider's own id if it differs.
    _responses: OrderedDict[str, tuple[Session, str]] = field(default_factory=OrderedDict)
    #: Sessions with requests in progress, and how many.
    _busy: dict[str, int] = field(default_factory=dict)
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
        """The session of a request until it is released. `goes_on_from` is the provider's id of stored history.

        With `as_named`, the given name decides regardless of the history.
        """
        name = header or f"proxy:{key_name}"
        with self._lock:
            if goes_on_from is not None and not header:
                known = self._responses.get(goes_on_from)
                session = known[0] if known else Session(key=f"proxy:{key_name}:{_short(goes_on_from)}")
            elif as_named:
                session = Session(key=name)
            else:
                session = self._by_history(window, name, is_named=bool(header), goes_on=goes_on_from is not None)
            self._busy[session.name] = self._busy.get(session.name, 0) + 1
        return session

    def _by_history(self, window: list[Raw], name: str, *, is_named: bool, goes_on: bool) -> Session:
        """The session that the history of a request is of: the named one if it contains any of its history."""
        request, named = self.engine.host.request_history(window), Session(key=name)
        if not is_named and self.by == "prefix":
            return self._aligned(request, name)
        stored = None if goes_on else self.engine.host.stored_history(named)
        is_its = stored is None or shares_history(request, stored) or stored.match(request) is not None
        return named if is_its else self._aligned(request, f"{name}:beside")

    def real_id(self, response_id: str) -> str:
        """The provider's id of a response; clients know the first of several rounds."""
        with self._lock:
            known = self._responses.get(response_id)
        return known[1] if known else response_id

    def remember(self, response_id: object, session: Session, real_id: object) -> None:
        """Record a response that a later request may continue."""
        if isinstance(response_id, str):
            with self._lock:
                self._responses[response_id] = (session, real_id if isinstance(real_id, str) else response_id)
                while len(self._responses) > _REMEMBERED:
                    self._responses.popitem(last=False)

    def release(self, session: Session | None) -> None:
        if session is not None:
            with self._lock:
                running = self._busy.pop(session.name, 1) - 1
                if running > 0:
                    self._busy[session.name] = running

    def _aligned(self, request: RequestHistory, base: str) -> Session:
        """The conversation that has most of the request: which it continues, in which it returns to an earlier message,
        or whose later messages it replaces; else a new one.

        A first request starts a conversation, retries one that got no reply, or asks at once for another reply.
        """
        name = f"{base}:{_short(request.first)}"
        count = self._count(name)
        found: list[tuple[HistoryMatch, Session]] = []
        is_exact = False
        for session, stored in self._alike(name, count, is_first=not request.has_reply):
            if length := goes_on(request, stored):
                found.append((HistoryMatch("on", length, is_all=True), session))
                is_exact = is_exact or (length >= request.replied and session.name not in self._busy)
            elif request.has_reply and goes_back(request, stored):
                found.append((HistoryMatch("back", request.count_known(len(request.messages))), session))
                is_exact = True
        if not is_exact:
            known = {session.name for _, session in found}
            found += [one for one in self.engine.host.matching_sessions(request, base) if one[1].name not in known]
        best, ties = self._best(found)
        session = best or Session(key=_numbered(name, count + 1))
        if ties and best is None:
            self.doubtful += 1
            self.engine.admin.log.log(
                "session", sessionKey=session.name, ambiguous=ties, reason="may belong to several chats"
            )
        return session

    def _best(self, found: list[tuple[HistoryMatch, Session]]) -> tuple[Session | None, int]:
        """Of the possible conversations the one with the most in common, and how many there are.

        Of two with equal content the newest is chosen. Otherwise it is undecided.
        """
        free = [(one, session) for one, session in found if one.how == "on" or session.name not in self._busy]
        limit = max((one.known for one, _ in free), default=0)
        for how in ("on", "back", "instead"):
            some = [(one, session) for one, session in free if one.how == how and one.known == limit]
            idle = [(one, session) for one, session in some if session.name not in self._busy]
            if some := idle or some:
                is_clear = len(some) == 1 or how == "back" or all(one.is_all for one, _ in some)
                return some[0][1] if is_clear else None, len(some)
        return None, 0

    def _alike(self, name: str, count: int, *, is_first: bool) -> Iterator[tuple[Session, StoredHistory]]:
        """The newest conversations with the same first message; for a first request, those without a reply."""
        for number in range(count, max(count - _MOST_ALIKE, 0), -1):
            session = Session(key=_numbered(name, number))
            if is_first and session.name in self._busy:
                continue
            if (stored := self.engine.host.stored_history(session)) is not None:
                yield session, stored

    def _count(self, name: str) -> int:
        """How many sessions a name has: they are numbered without gaps."""
        count, step = 0, 1
        while self._is_there(name, count + step):
            count, step = count + step, 2 * step
        while step > 1:
            step //= 2
            count += step if self._is_there(name, count + step) else 0
        return count

    def _is_there(self, name: str, number: int) -> bool:
        session = Session(key=_numbered(name, number))
        return session.name in self._busy or self.engine.browse.find(session) is not None


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}:{number}"


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
