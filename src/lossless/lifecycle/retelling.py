"""What a transcript tells again of another conversation. Pure: a path and a history in, pairs of places out.

Ids decide first. A host that has written its file again under new ids is known by its words: in their order, said
in the same second or up to the end of what was closed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lossless.store.histories import History, Told

#: So many equal messages in a row are no coincidence.
_SURE = 3
#: How many messages of the other conversation may be missing in a transcript before it goes on with the next.
_MISSING = 2
#: How many seconds may lie between what was said and its arrival with the turn.
_NEAR = 3600
#: How many places of a text that repeats are looked at.
_MOST_PLACES = 16


@dataclass(frozen=True, slots=True)
class Heard:
    """A message of a path: the beginning of its fingerprint, the digest of its id (or nothing), its second and role."""

    print: bytes
    id: bytes = b""
    at: int = 0
    role: str = ""


def retold(path: Sequence[Heard], history: History, first: int, end: int, next_: bytes = b"") -> dict[int, int]:
    """Places of a path from `first` on that the history holds, each with the place there.

    Words are compared only before `end`, from where on the path is known to be another conversation's. `next_` is the
    print of what was said first after the history had ended, as far as that is known.
    """
    by_id = _by_id(path, history, first)
    by_words = _Words(path, history, by_id, first, end).pairs()
    if not _is_believed(path, history, by_id, by_words, next_):
        return by_id
    pairs = by_id | by_words
    pairs |= _between(path, history, pairs, first)
    return pairs | _last(path, history, pairs, end)


def _between(path: Sequence[Heard], history: History, pairs: Mapping[int, int], first: int) -> dict[int, int]:
    """Messages in other words that stand between known ones where the history has one of the very second.

    In the same file without ids the place is enough, where as many lines stand on both sides.
    """
    found: dict[int, int] = {}
    before, at = first - 1, -1
    for n, place in sorted(pairs.items()):
        is_even = n - before == place - at
        if is_even or at < 0:
            for back in range(1, min(n - before, place - at)):
                here, one = path[n - back], history.told[place - back]
                is_its = bool(here.at) and here.at == one.at and one.is_timed
                if is_its or (is_even and history.is_same_file and _is_changed(here, one)):
                    found[n - back] = place - back
        before, at = n, place
    return found


def _last(path: Sequence[Heard], history: History, pairs: Mapping[int, int], end: int) -> dict[int, int]:
    """The last line of a file without ids, in other words: all before it are known, line by line."""
    n, place = 1 + max(pairs, default=-1), 1 + max(pairs.values(), default=-1)
    if not history.is_same_file or place != len(history.told) - 1 or n >= min(end, len(path)) or place != len(pairs):
        return {}
    return {n: place} if _is_changed(path[n], history.told[place]) else {}


def _is_changed(here: Heard, one: Told) -> bool:
    """Whether a line may be a row in other words, by all but its place: nothing names either, and one has spoken."""
    is_timed = bool(here.at) and bool(one.at) and one.is_timed
    return bool(one.row and here.role) and here.role == one.role and not (here.id or one.id or is_timed)


def _by_id(path: Sequence[Heard], history: History, first: int) -> dict[int, int]:
    """Ids of the same file decide; those of another one only with the same words, as hosts may count anew in each."""
    places = {told.id: place for place, told in enumerate(history.told) if told.id}
    found = {n: places[path[n].id] for n in range(first, len(path)) if path[n].id in places}
    same = {n: place for n, place in found.items() if path[n].print == history.told[place].print}
    return found if history.is_same_file and 2 * len(same) >= len(found) else same


class _Words:
    """Matching words with words, in order."""

    def __init__(self, path: Sequence[Heard], history: History, by_id: Mapping[int, int], first: int, end: int) -> None:
        self._path, self._told, self._by_id = path, history.told, by_id
        self._ended = history.ended
        self._first, self._end = first, end
        live = {heard.id for heard in path if heard.id}
        taken = set(by_id.values())
        self._places: defaultdict[bytes, list[int]] = defaultdict(list)
        for place, one in enumerate(history.told):
            if one.print and one.id not in live and place not in taken:
                self._places[one.print].append(place)

    def pairs(self) -> dict[int, int]:
        found: dict[int, int] = {}
        after = 0
        for n in range(self._first, self._end):
            if n in self._by_id:
                after = self._by_id[n] + 1
                continue
            place = self._place(n, after, is_begun=bool(found or self._by_id))
            if place is not None:
                found[n] = place
                after = place + 1
        return found

    def _place(self, n: int, after: int, *, is_begun: bool) -> int | None:
        """Where a message stands: next in order, or where a sure run of others follows it."""
        places = self._places.get(self._path[n].print, [])
        ahead = [place for place in places[bisect_left(places, after) :] if self._may_be(n, place)]
        if not ahead:
            return None
        if is_begun and ahead[0] - after <= _MISSING:
            return ahead[0]
        some = ahead if len(ahead) <= 2 * _MOST_PLACES else ahead[:_MOST_PLACES] + ahead[-_MOST_PLACES:]
        length, place = max((self._run(n, place), place) for place in some)
        return place if not is_begun or length >= _SURE else None

    def _may_be(self, n: int, place: int) -> bool:
        """Whether times do not tell the two apart."""
        here, one = self._path[n].at, self._told[place]
        if not here:
            return True
        if one.is_timed and one.at:
            return here == one.at
        return not self._ended or here <= self._ended

    def _run(self, n: int, place: int) -> int:
        length = 0
        while (
            n + length < self._end
            and place + length < len(self._told)
            and self._path[n + length].print == self._told[place + length].print
            and self._may_be(n + length, place + length)
        ):
            length += 1
        return length


def _is_believed(
    path: Sequence[Heard], history: History, by_id: Mapping[int, int], pairs: Mapping[int, int], next_: bytes
) -> bool:
    """Whether equal words are the same events.

    A time says so, or an id beside them. Else they must reach the end of the history, for a file that goes on has all
    of it: one that only begins with the same words is another one. Of the very same file some lines may differ.
    """
    told = history.told
    if not pairs:
        return False
    if by_id or any(_is_of_its_time(path[n], told[place]) for n, place in pairs.items()):
        return True
    seen = [place for place, one in enumerate(told) if one.print]
    texts = {path[n].print for n in pairs}
    is_line_by_line = history.is_same_file and len({n - place for n, place in pairs.items()}) == 1
    if is_line_by_line and len(texts) > 1 and 2 * len(pairs) >= len(seen):
        return True
    if max(pairs.values()) != seen[-1]:
        return False
    if len(pairs) == len(seen):
        behind = 1 + max(pairs)
        goes_on = bool(next_) and behind < len(path) and path[behind].print == next_
        return goes_on or len(texts) > 1 or not any(told[place].id for place in seen)
    return len(texts) > 1 and len(pairs) >= _SURE


def _is_of_its_time(heard: Heard, one: Told) -> bool:
    """Whether a time says that both are one event: the same second, or about the one in which it came without an id."""
    if not heard.at or not one.at:
        return False
    return heard.at == one.at or (not one.id and not one.is_timed and abs(heard.at - one.at) <= _NEAR)
