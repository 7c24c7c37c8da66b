"""Which messages of a conversation that comes in are in the archive already. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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

    The k-th of equal messages is paired with the k-th, so nothing is doubled and repeats are kept.
    """
    known: dict[MessageId, int] = {}
    taken: set[MessageId] = set()

    def pair(one: Key, other: Key) -> None:
        known[one.id] = int(other.id)
        taken.add(other.id)

    for name in (_entry, _event):
        named = {id_: key for key in there if (id_ := name(key)) is not None and key.id not in taken}
        for key in coming:
            found = named.get(name(key) or "") if key.id not in known else None
            if found is not None and found.id not in taken:
                pair(key, found)
    is_sure = bool(known)
    for one, other in zip(coming, there, strict=False):
        if one.identity != other.identity:
            break
        if one.id not in known and other.id not in taken:
            pair(one, other)
            is_sure = is_sure or one.created_at[:19] == other.created_at[:19]
    left = _numbered([key for key in there if key.id not in taken], _said)
    for place, key in _numbered([key for key in coming if key.id not in known], _said).items():
        if place in left:
            pair(key, left[place])
            is_sure = True
    return Alignment(known, is_sure)


def _entry(key: Key) -> str | None:
    return key.entry_id


def _event(key: Key) -> str | None:
    return key.event_key


def _said(key: Key) -> tuple[str, str]:
    return key.identity, key.created_at[:19]


def _numbered(keys: Sequence[Key], name: Callable[[Key], tuple[str, str]]) -> dict[tuple[tuple[str, str], int], Key]:
    """Each message under its name and how many of that name came before it."""
    seen: Counter[tuple[str, str]] = Counter()
    found = {}
    for key in keys:
        found[name(key), seen[name(key)]] = key
        seen[name(key)] += 1
    return found
