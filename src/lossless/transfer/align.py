"""Which messages of a conversation that comes in are in the archive already. Pure: the matcher decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.ingest.match import Shown, Stored, match

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.store.bundles import Key, MessageId


@dataclass(frozen=True, slots=True)
class Alignment:
    """Messages that are there already: the id they come with → the archive's id.

    `is_sure` when ids of the host or text with its time agree, not the text alone.
    """

    known: dict[MessageId, int]
    is_sure: bool


def align(coming: Sequence[Key], there: Sequence[Key]) -> Alignment:
    """Pair messages by the host's ids, by a common beginning, and by text and time.

    A provider's own id says nothing by itself, as calls use ids again; two that differ tell messages apart. Other
    words are another message: only what is the same is paired, each once, so nothing is doubled and repeats are kept.
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
