"""Which messages of a conversation that comes in are in the archive already. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

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

    The k-th of equal messages is paired with the k-th, so nothing is doubled and repeats are kept. What stands between
    the same neighbours, of the same role and said at the same time, is one message that was edited on one side.
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
    for one, other in _edited(coming, there, known):
        pair(one, other)
    return Alignment(known, is_sure)


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
