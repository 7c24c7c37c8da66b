"""Which messages of a conversation that comes in are in the archive already. Pure: the matcher decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.ingest.match import Shown, Stored, match

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lossless.store.bundles import Key, MessageId


@dataclass(frozen=True, slots=True)
class Alignment:
    """Messages that are there already: the id they come with → the archive's id.

    `is_sure` when ids of the host or text with its time agree, not the text alone.
    """

    known: dict[MessageId, int]
    is_sure: bool


def align(coming: Sequence[Key], there: Sequence[Key]) -> Alignment:
    """Pair messages by the host's ids, by a common beginning, by text and time, and by place, role and time.

    A provider's own id says nothing by itself, as calls use ids again; two that differ tell messages apart. Each is
    paired once, so nothing is doubled and repeats are kept. What stands between the same neighbours, of the same role
    and said at the same time, is one message that was edited on one side; other words elsewhere are another message.
    """
    begin = _common(coming, there)
    marks, others = _marks(coming, begin), _marks(there, begin)
    named = {key.entry_id: n for n, key in enumerate(there) if key.entry_id is not None}
    known = {n: named[key.entry_id] for n, key in enumerate(coming) if key.entry_id in named}
    both = set(marks) & set(others)
    shown = [n for n, mark in enumerate(marks) if n in known or mark in both]
    taken = set(known.values())
    stored = [n for n, mark in enumerate(others) if n in taken or mark in both]
    place = {n: k for k, n in enumerate(stored)}
    found = match(
        [Shown(marks[n], "user", place[known[n]] if n in known else None) for n in shown],
        [Stored(others[n], "user") for n in stored],
        _Same([coming[n] for n in shown], [there[n] for n in stored]),
        last=range(len(stored)),
        follows=begin > 0,
    )
    pairs = [(coming[shown[w]], there[stored[s]]) for w, s in enumerate(found.rows) if s is not None]
    pairs += _edited(coming, there, {one.id: int(other.id) for one, other in pairs})
    is_sure = any(_is_sure(one, other) for one, other in pairs)
    return Alignment({one.id: int(other.id) for one, other in pairs}, is_sure)


def _common(coming: Sequence[Key], there: Sequence[Key]) -> int:
    """How many messages both begin with, whenever they were said."""
    size = min(len(coming), len(there))
    return next((n for n in range(size) if coming[n].identity != there[n].identity), size)


def _marks(keys: Sequence[Key], begin: int) -> list[bytes]:
    """What tells messages apart: what they say, and behind a common beginning when."""
    return [(key.identity if n < begin else f"{key.identity} {_second(key)}").encode() for n, key in enumerate(keys)]


def _second(key: Key) -> str:
    return key.created_at[:19]


def _is_sure(one: Key, other: Key) -> bool:
    is_named = one.entry_id is not None and one.entry_id == other.entry_id
    is_event = one.event_key is not None and one.event_key == other.event_key
    return is_named or is_event or _second(one) == _second(other)


class _Same:
    """Only equal messages are one, and only if no id tells them apart; words are not compared."""

    def __init__(self, coming: Sequence[Key], there: Sequence[Key]) -> None:
        self._coming, self._there = coming, there

    def may_be(self, shown: int, row: int) -> bool:
        one, other = self._coming[shown], self._there[row]
        if one.identity != other.identity:
            return False
        ids = ((one.entry_id, other.entry_id), (one.event_key, other.event_key))
        return all(mine is None or theirs is None or mine == theirs for mine, theirs in ids)

    def likeness(self, shown: int, row: int) -> float:  # noqa: ARG002
        return 0.0

    def holds(self, shown: int, rows: Sequence[int]) -> bool:  # noqa: ARG002
        return False

    def is_held(self, shown: Sequence[int], row: int) -> bool:  # noqa: ARG002
        return False

    def uses_tools(self, row: int) -> bool:  # noqa: ARG002
        return False

    def is_gap_mark(self, shown: int) -> bool:  # noqa: ARG002
        return False

    def is_lesser(self, shown: int, row: int) -> bool:  # noqa: ARG002
        return False

    def are_rewritten(self, pairs: Sequence[tuple[int, int]]) -> bool:  # noqa: ARG002
        return False


def _edited(coming: Sequence[Key], there: Sequence[Key], known: Mapping[MessageId, int]) -> list[tuple[Key, Key]]:
    """Messages in other words: runs between messages that are known, as long on both sides."""
    found: list[tuple[Key, Key]] = []
    places = {key.id: n for n, key in enumerate(there)}
    taken = set(known.values())
    at = 0
    while known and at < len(coming):
        if coming[at].id in known:
            at += 1
            continue
        end = next((n for n in range(at, len(coming)) if coming[n].id in known), len(coming))
        first = places[known[coming[at - 1].id]] + 1 if at else 0
        last = places[known[coming[end].id]] if end < len(coming) else len(there)
        mine, theirs = coming[at:end], there[first:last]
        if len(mine) == len(theirs) and all(_is_edited(*two, taken) for two in zip(mine, theirs, strict=True)):
            found += zip(mine, theirs, strict=True)
        at = end
    return found


def _is_edited(one: Key, other: Key, taken: Collection[MessageId]) -> bool:
    is_same = one.role == other.role and one.created_at[:19] == other.created_at[:19]
    return is_same and other.id not in taken and None in (one.entry_id, other.entry_id)
