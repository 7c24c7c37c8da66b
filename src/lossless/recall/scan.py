"""Scans: every text of a scope, newest first, until enough is found or the time is over."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from lossless.store.texts import is_behind, newest_first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lossless.recall.scope import SearchIn
    from lossless.recall.sieve import Sieve
    from lossless.store.archive import Archive
    from lossless.store.texts import AnyText, Place, Texts, Where

#: The part of the time that one text may take.
SHARE = 0.2
#: So many messages are narrowed down at a time.
_STEP = 4000
#: So many whole texts are sifted at a time.
_SIFTED = 500
#: As many as most searches show.
_A_PAGE = 51


@dataclass(frozen=True, slots=True)
class Time:
    """How long a scan may take, by which clock, and the part of it that one text may take."""

    seconds: float
    share: float = SHARE
    clock: Callable[[], float] = time.monotonic


class Pattern(Protocol):
    """Something to look for in texts."""

    @property
    def needed(self) -> tuple[str, ...]:
        """What a text must hold to be found."""
        ...

    @property
    def ignores_case(self) -> bool:
        """Whether what is needed is in lower case, and upper case will do."""
        ...

    def sieve(self) -> Sieve | None:
        """What passes many texts at once that may hold it; None where that is not known."""
        ...

    def find(self, text: str, seconds: float) -> tuple[int, int] | None:
        """Where it stands, or None; `TimeoutError` when that cannot be said in so many seconds."""
        ...


@dataclass(frozen=True, slots=True)
class Spot:
    """A text that holds what was looked for: the piece of it that matched, and where in the piece."""

    source: AnyText
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Scan:
    """What a scan found."""

    spots: tuple[Spot, ...] = ()
    #: Behind which place the scan goes on, when it was broken off.
    stopped: Place | None = None
    #: Whether it was the time that broke it off.
    is_late: bool = False
    #: Texts that took too long and were passed over.
    slow: int = 0


def scan(
    archive: Archive,
    where: Where,
    search_in: SearchIn,
    pattern: Pattern,
    most: int,
    within: Time,
    start: Place | None = None,
) -> Scan:
    """Look through all texts behind a place, until `most` are found and one more is seen, or the time is over.

    At least one message and one summary are looked at, however short the time.
    """
    end = within.clock() + within.seconds
    found = Scan()
    if search_in != "summaries":
        found = _scanned(_messages(archive, where, pattern, start, within, end), pattern, most, within, end)
    if search_in != "messages":
        summaries = archive.search.texts.all_summaries(where, start)
        found = merged(found, _scanned(iter(summaries), pattern, most, within, end), most)
    return found


def look_at(texts: Iterable[AnyText], pattern: Pattern, most: int) -> list[Spot]:
    """Of these texts the ones that hold the pattern, newest first."""
    spots = [spot for source in texts if (spot := _spot(source, pattern, 1.0)) is not None]
    return sorted(spots, key=_newest_first)[:most]


class _Late(Exception):
    """The time was over between two texts; all up to the place were looked at."""

    def __init__(self, place: Place | None) -> None:
        self.place = place


def _scanned(texts: Iterator[AnyText], pattern: Pattern, most: int, within: Time, end: float) -> Scan:
    longest = within.seconds * within.share
    spots: list[Spot] = []
    slow = 0
    last: AnyText | None = None
    try:
        for source in texts:
            left = end - within.clock()
            if left <= 0 and last is not None:
                raise _Late(last.place)
            try:  # one text in any case: whoever goes on gets ahead
                spot = _spot(source, pattern, longest if last is None else min(left, longest))
            except TimeoutError:
                spot, slow = None, slow + 1
            if spot is not None:
                spots.append(spot)
                if len(spots) > most:
                    return Scan(tuple(spots[:most]), spots[most - 1].source.place, False, slow)
            last = source
    except _Late as late:
        return Scan(tuple(spots), late.place, True, slow)
    return Scan(tuple(spots), slow=slow)


def merged(messages: Scan, summaries: Scan, most: int) -> Scan:
    """Both in one order; of summaries only those that come before the place where the messages broke off."""
    spots = sorted((*messages.spots, *summaries.spots), key=_newest_first)
    stops = [part.stopped for part in (messages, summaries) if part.stopped is not None]
    stopped = min(stops, key=lambda place: (-place.at, place.what)) if stops else None
    if stopped is not None:
        spots = [spot for spot in spots if spot.source.place == stopped or not is_behind(spot.source.place, stopped)]
    slow, is_late = messages.slow + summaries.slow, messages.is_late or summaries.is_late
    if len(spots) > most:
        return Scan(tuple(spots[:most]), spots[most - 1].source.place, False, slow)
    return Scan(tuple(spots), stopped, is_late, slow)


def _newest_first(spot: Spot) -> tuple[int, str, tuple[int, ...]]:
    return newest_first(spot.source.place)


def _spot(source: AnyText, pattern: Pattern, seconds: float) -> Spot | None:
    found = pattern.find(source.content, seconds)
    if found is not None:
        return Spot(source, source.content, *found)
    called = source.called
    found = pattern.find(called, seconds) if called else None
    return None if found is None else Spot(source, called, *found)


def _messages(
    archive: Archive, where: Where, pattern: Pattern, start: Place | None, within: Time, end: float
) -> Iterator[AnyText]:
    """The messages that can hold the pattern; those that cannot are passed over without reading all of them."""
    texts, trigrams = archive.search.texts, archive.search.trigrams
    ids = texts.order(where, start)
    through = trigrams.through
    having = trigrams.having(pattern.needed) if through else None
    if having is not None:
        ids = [id_ for id_ in ids if id_ > through or id_ in having]
    needed, sieve = max(pattern.needed, key=len, default=""), pattern.sieve()
    size = _STEP if needed else _SIFTED
    for first in range(0, len(ids), size):
        if first and within.clock() > end:
            raise _Late(next((text.place for text in texts.messages(ids[first - 1 : first])), start))
        step = ids[first : first + size]
        if needed:
            step = texts.holding(step, needed, ignore_case=pattern.ignores_case)
        if sieve is None or sieve.is_slow or len(step) > _SIFTED:
            yield from texts.read(step)
        else:
            yield from _sifted(texts, step, sieve)


def _sifted(texts: Texts, ids: list[int], sieve: Sieve) -> Iterator[AnyText]:
    """Of these messages those that pass; read a few at a time, as it may be that no more are wanted."""
    bodies = texts.bodies(ids)
    passing = (bodies[index][0] for index in sieve.passing([body for _, body in bodies]))
    while some := list(islice(passing, _A_PAGE)):
        yield from texts.messages(some)
