"""Which conversation a request belongs to: by a header, by its key, or by how it begins."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless import formats
from lossless.errors import BadMessage
from lossless.model.conversations import Session
from lossless.model.identity import fingerprint

if TYPE_CHECKING:
    from lossless.engine import Engine
    from lossless.exchange.dialect import Raw
    from lossless.model.messages import Message

By: TypeAlias = Literal["prefix", "key"]
#: Conversations that begin with the same words; more of them than this share the last one.
_MOST_ALIKE = 200
#: Where the first reply of a conversation is looked for, other tries at it included.
_FIRST_MESSAGES = 16
_REMEMBERED = 4096


@dataclass(slots=True)
class Sessions:
    """Names sessions. What it finds follows from the archive alone, so it finds the same after a restart."""

    engine: Engine
    by: By = "prefix"
    #: By the id of a response that clients know: its session, and the provider's own id where that is another.
    _responses: OrderedDict[str, tuple[Session, str]] = field(default_factory=OrderedDict)
    #: Conversations whose first request is on its way; another one that begins so is not theirs.
    _beginning: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(
        self, window: list[Raw], key_name: str, header: str | None = None, goes_on_from: str | None = None
    ) -> Session:
        """The session of a request. `goes_on_from` is what the provider calls the conversation that it stores."""
        if header:
            return Session(key=header)
        if goes_on_from is not None:
            with self._lock:
                known = self._responses.get(goes_on_from)
            return known[0] if known else Session(key=f"proxy:{key_name}:{_short(goes_on_from)}")
        if self.by == "key":
            return Session(key=f"proxy:{key_name}")
        return self._aligned(window, key_name)

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

    def _aligned(self, window: list[Raw], key_name: str) -> Session:
        """The conversation that begins with the same request and the same reply; else a new one.

        A request without a reply begins a conversation, unless one that begins so has had no reply yet and waits for
        none: then it is tried again.
        """
        first, replied = _beginning(window)
        name = f"proxy:{key_name}:{_short(first)}"
        with self._lock:
            for number in range(1, _MOST_ALIKE):
                session = Session(key=name if number == 1 else f"{name}:{number}")
                if replied is None and session.name in self._beginning:
                    continue
                replies = self._first_replies(session)
                if replies is None or (replied in replies if replied else not replies):
                    if replied is None:
                        self._beginning.add(session.name)
                    return session
        return Session(key=f"{name}:{_MOST_ALIKE}")

    def release(self, session: Session | None) -> None:
        """A request of this session has come to its end."""
        if session is not None:
            with self._lock:
                self._beginning.discard(session.name)

    def _first_replies(self, session: Session) -> set[bytes] | None:
        """The replies near the beginning of a conversation; None when there is no such conversation."""
        archive = self.engine.archive
        found = archive.conversations.find(session)
        if found is None:
            return None
        stored = archive.messages.in_order(found.id, limit=_FIRST_MESSAGES)
        return {fingerprint(row.message) for row in stored if _is_reply(row.message)}


def _beginning(window: list[Raw]) -> tuple[str, bytes | None]:
    """The first thing that was said, and the first reply."""
    first = None
    for message in map(_decoded, window):
        if message is None or message.role == "system":
            continue
        first = first or fingerprint(message).hex()
        if _is_reply(message):
            return first, fingerprint(message)
    return first or "empty", None


def _is_reply(message: Message) -> bool:
    return message.role == "assistant" and bool(message.content or message.tool_calls)


def _decoded(message: Raw) -> Message | None:
    try:
        return formats.decode(message)
    except BadMessage:
        return None


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
