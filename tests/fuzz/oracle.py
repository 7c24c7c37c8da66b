"""What an archive must hold after a host did something; it knows which event each message is, and nothing of our
code.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lossless import formats
from lossless.model.context import MessageItem
from lossless.model.identity import identity_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import lossless
    from lossless.model.messages import Message
    from tests.fuzz.messages import Body

#: Half a surrogate pair as `repr` writes it: no column can hold one, though the original is kept exactly.
_HALF = re.compile(r"\\ud[89a-f][0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class Handed:
    """What a host handed over: which events, and how it said them this time."""

    numbers: tuple[int, ...]
    bodies: tuple[Body, ...]


class OracleMismatch(AssertionError):
    """An archive that is not what the oracle says."""

    def __init__(self, what: str, *, duplicates: int = 0, losses: int = 0) -> None:
        super().__init__(what)
        self.duplicates, self.losses = duplicates, losses


@dataclass(slots=True)
class Oracle:
    """The rows and the context that there must be, by the numbers of the events."""

    rows: list[int] = field(default_factory=list)
    visible: list[int] = field(default_factory=list)
    _bodies: dict[int, Body] = field(default_factory=dict)
    #: The rows of conversations that were closed under the same key, oldest first.
    closed: list[list[int]] = field(default_factory=list)
    #: Events that another conversation holds or held: none of them is stored again.
    _gone: set[int] = field(default_factory=set)
    forks: list[Fork] = field(default_factory=list)

    @property
    def known(self) -> frozenset[int]:
        """All events that are stored, or were."""
        return frozenset(self._bodies)

    def close(self) -> None:
        """The conversation is closed, and another one begins; one without a word goes on."""
        if self.rows:
            self.closed.append(self.rows)
            self._gone.update(self.rows)
            self.rows, self.visible = [], []

    def delete(self, *, active: bool) -> None:
        """Closed conversations are deleted for good, and perhaps the active one, too."""
        self.closed = []
        if active:
            self._gone.update(self.rows)
            self.rows, self.visible = [], []

    def own(self, handed: Handed) -> Handed:
        """What of it this conversation may store."""
        pairs = [pair for pair in zip(handed.numbers, handed.bodies, strict=True) if pair[0] not in self._gone]
        return Handed(tuple(number for number, _ in pairs), tuple(body for _, body in pairs))

    def arrive(self, handed: Handed) -> None:
        """Events that follow what is there: each that is not stored is stored, and stands at the end."""
        for number, body in zip(handed.numbers, handed.bodies, strict=True):
            if number not in self._bodies:
                self._bodies[number] = body
                self.rows.append(number)
                self.visible.append(number)

    def show(self, handed: Handed) -> None:
        """A whole path: what is unknown of it is stored; the context is that path, unless it only ends early."""
        handed = self.own(handed)
        path = list(handed.numbers)
        before = list(self.visible)
        self.arrive(handed)
        self.visible = before if before[: len(path)] == path else path

    def check(self, engine: lossless.Engine, session: lossless.Session, *, exact: bool, excused: bool) -> None:
        """Compare; unless `exact`, rows may be missing where that is `excused`, and never be too many."""
        self._check_closed(engine, session)
        for fork in self.forks:
            fork.check(engine)
        found = engine.archive.conversations.find(session)
        stored = [] if found is None else list(engine.archive.messages.in_order(found.id, limit=100_000))
        shown = [] if found is None else _shown(engine, found.id)
        expected = [self._bodies[number] for number in self.rows]
        rows = [_key(one.message) for one in stored]
        wanted = [_key(formats.decode(body)) for body in expected]
        if not exact:
            said = [identity_hash(one.message.role, one.message.content) for one in stored]
            must = [identity_hash(one.role, one.content) for one in map(formats.decode, expected)]
            if not _is_excused(said, must, may_miss=excused):
                _compare("stored", rows, wanted, may_be_equal=False)
            return
        _compare("stored", rows, wanted)
        for one, body in zip(stored, expected, strict=True):
            if one.message.original != body:
                raise OracleMismatch(f"stored in another form: {one.message.original!r} for {body!r}")
        _compare("context", shown, [_key(formats.decode(self._bodies[number])) for number in self.visible])

    def _check_closed(self, engine: lossless.Engine, session: lossless.Session) -> None:
        family = engine.archive.conversations.family(session)
        closed = sorted(one.id for one in family if not one.active)
        found = [_rows(engine, id_) for id_ in closed]
        wanted = [[_key(formats.decode(self._bodies[number])) for number in rows] for rows in self.closed]
        _compare("closed", [key for rows in found for key in rows], [key for rows in wanted for key in rows])
        if found != wanted:
            raise OracleMismatch(f"closed: {found!r} for {wanted!r}")


@dataclass(slots=True)
class Fork:
    """A session that was forked from another one: what it shares with that, and what it has said itself."""

    session: lossless.Session
    shared: list[Body]
    own: list[Body]

    def check(self, engine: lossless.Engine) -> None:
        """All of its own is stored, behind the newest part of what it shares, which its parent holds as a whole."""
        found = engine.archive.conversations.find(self.session)
        rows = [] if found is None else _rows(engine, found.id)
        wanted = [_key(formats.decode(body)) for body in (*self.shared, *self.own)]
        start = len(wanted) - len(rows)
        if not 0 <= start <= len(self.shared) or rows != wanted[start:]:
            _compare("fork", rows, wanted[max(0, min(start, len(self.shared))) :])


def _rows(engine: lossless.Engine, conversation_id: int) -> list[str]:
    return [_key(one.message) for one in engine.archive.messages.in_order(conversation_id, limit=100_000)]


def _is_excused(said: Sequence[str], must: Sequence[str], *, may_miss: bool) -> bool:
    """The rows are those expected; where the archive has said that it could not tell, some may be missing or late."""
    return Counter(said) <= Counter(must) if may_miss else list(said) == list(must)


def _compare(what: str, found: Sequence[str], wanted: Sequence[str], *, may_be_equal: bool = True) -> None:
    if may_be_equal and list(found) == list(wanted):
        return
    more, less = Counter(found) - Counter(wanted), Counter(wanted) - Counter(found)
    raise OracleMismatch(
        f"{what}:\n  {_listed(found)}\n  expected:\n  {_listed(wanted)}",
        duplicates=more.total(),
        losses=less.total(),
    )


def _listed(keys: Iterable[str]) -> str:
    return "\n  ".join(key if len(key) < 100 else f"{key[:60]}…{key[-30:]}" for key in keys)


def _shown(engine: lossless.Engine, conversation_id: int) -> list[str]:
    """The messages of the context in order, those below a summary in its place."""
    ids: list[int] = []
    for item in engine.archive.context.items(conversation_id):
        below = [item.message_id] if isinstance(item, MessageItem) else _below(engine, item.summary_id)
        ids += below
    messages = {one.id: one.message for one in engine.archive.messages.many(ids)}
    return [_key(messages[id_]) for id_ in ids]


def _below(engine: lossless.Engine, summary_id: str) -> list[int]:
    summary = engine.archive.summaries.get(summary_id)
    if summary.depth == 0:
        return engine.archive.summaries.message_ids(summary_id)
    return [id_ for source in summary.source_ids for id_ in _below(engine, source)]


def _key(message: Message) -> str:
    """Role, content and parts, as text that can be compared and read."""
    text = f"{message.role} {message.content!a} {message.parts or ()!a}"
    return _HALF.sub(r"\\ufffd", text)
