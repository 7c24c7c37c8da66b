"""Comparing the history that a request shows with that of a conversation: does it go on there, go back, or neither?"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from lossless import formats
from lossless.errors import BadMessage
from lossless.ingest.likeness import likeness
from lossless.ingest.match import ALIKE, SURE
from lossless.ingest.prints import pieces, prints_of
from lossless.ingest.window import in_order, system_head
from lossless.model.identity import fingerprint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.exchange.dialect import Raw
    from lossless.model.messages import Message
    from lossless.store.archive import Archive

_PRINT = 8
#: Who replies, by role, or by the kind of an item that has none.
_REPLIES = frozenset(("assistant", "function_call", "custom_tool_call"))
#: A window does not begin with more system prompts than this.
_MOST_PROMPTS = 8
#: Nor with more notices, of what a client has left out.
_MOST_NOTICES = 2
#: Messages that say something else now, where so many others are the same, have been edited by the client.
_SAME_TO_EDITED = 4
#: How many more rows than the last window had are read.
_MARGIN = 64


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


def goes_on(request: Request, stored: Stored, *, closely: bool = False) -> int:
    """How many messages the conversation shows, when a request begins with them all; else 0.

    Its newest reply may have come back in another form. A closer look also knows messages that are written in
    another way, and finds single ones that the client has edited, if the newest reply stands where it stood.
    """
    if closely:
        is_so = _is_beginning(stored.marks, request.marks, request, stored) or _is_edited(request, stored.marks)
        return len(stored.marks) if is_so else 0
    before = stored.after_prompts(request.prints[0]) if request.prints else []
    return len(before) if _is_beginning(before, request.prints, request, stored) else 0


def may_go_on(request: Request, stored: Stored) -> bool:
    """Whether a conversation is short enough for a request to go on from it."""
    return len(stored) <= len(request.said) + _MOST_PROMPTS


def goes_back(request: Request, stored: Stored, *, closely: bool = False) -> bool:
    """Whether a request is the beginning of what the conversation shows: its last reply is asked for anew, or more."""
    size = len(request.said)
    if closely:
        return bool(request.marks) and stored.marks[:size] == request.marks
    return bool(request.prints) and stored.after_prompts(request.prints[0])[:size] == request.prints


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


def _is_edited(request: Request, marks: Sequence[bytes]) -> bool:
    """Whether a request goes on from the newest reply, with few of the messages before it changed."""
    place = len(marks) - 1
    if place >= len(request.marks) or len(request.marks) != len(request.said) or place not in request.replies:
        return False
    same = sum(one == other for one, other in zip(marks, request.marks, strict=False))
    return request.marks[place] == marks[place] and same >= _SAME_TO_EDITED * (len(marks) - same)


def _common(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """How many messages two histories begin with alike."""
    size = min(len(one), len(other))
    return next((n for n in range(size) if one[n] != other[n]), size)


def _decoded(message: Raw) -> Message | None:
    try:
        return formats.decode(message)
    except BadMessage:
        return None
