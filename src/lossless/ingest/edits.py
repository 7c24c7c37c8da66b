"""Where new messages stand that a window holds before known ones: edits, insertions, a host's notices.

Pure. Between two known messages, or before the first one, new messages that are at least as many as the rows
which are gone there, with the same speakers, take their place. Few that stand for more rows, or before everything,
are a host's notice ("earlier messages were left out", "it is 12:03"), which has no place in the order of what was said.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: More messages in a row are no notice.
_MAX_NOTICES = 2


@dataclass(frozen=True, slots=True)
class Seen:
    """One message of a window as laid over the visible rows."""

    role: str
    #: Its visible row, as an index; None when it is new, or no visible row.
    place: int | None
    #: Whether it is put into the context now: a new message, or one that comes back from a branch.
    is_put: bool


@dataclass(frozen=True, slots=True)
class Last:
    """What was there before: where a window may have begun, what the last one covered, and its notices."""

    #: Indexes of rows with which a window began: the last one, or the conversation.
    starts: tuple[int, ...]
    #: The index behind the last window's last row, None when it is not known.
    end: int | None
    #: How many notices the context begins with that this window does not hold any more.
    lost_notices: int


@dataclass(frozen=True, slots=True)
class Edits:
    """Which rows lost their place to new messages, and which messages of the window are notices; as indexes."""

    replaced: tuple[int, ...] = ()
    notices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Gap:
    """New messages before a known one, and the rows that stood there; None when it is not known which."""

    items: tuple[int, ...]
    gone: range | None
    is_head: bool


def find_edits(window: Sequence[Seen], roles: Sequence[str], last: Last) -> Edits:
    """Judge each gap of the window; `roles` are the speakers of the visible rows."""
    there = {seen.place for seen in window if seen.place is not None}
    replaced: list[int] = []
    notices: list[int] = []
    for gap in _gaps(window, last.starts):
        changed = last.lost_notices if gap.is_head else 0
        notices += gap.items[:changed]
        items = gap.items[changed:]
        gone = None if gap.gone is None else [place for place in gap.gone if place not in there]
        takes_place = gone is not None and _takes_place(gone, [window[n].role for n in items], roles)
        if len(items) <= _MAX_NOTICES and (not takes_place or (gap.is_head and not gone)):
            notices += items
        elif gone and takes_place and (last.end is None or gone[-1] < last.end):
            replaced += gone
    return Edits(tuple(replaced), tuple(notices))


def _takes_place(gone: Sequence[int], speakers: Sequence[str], roles: Sequence[str]) -> bool:
    """Whether new messages of these speakers stand where these rows stood; where none is gone, they come in between."""
    return len(gone) <= len(speakers) and [roles[place] for place in gone] == list(speakers[: len(gone)])


def _gaps(window: Sequence[Seen], starts: Sequence[int]) -> Iterator[_Gap]:
    """The gaps before each known message that lies in order."""
    first: int | None = None
    before, is_head = -1, True
    for n in _backbone(window):
        place = window[n].place
        assert place is not None
        items = tuple(k for k in range(before + 1, n) if window[k].is_put)
        if is_head:
            first = max((start for start in starts if start <= place), default=None)
        if items:
            yield _Gap(items, None if first is None else range(first, place), is_head)
        first, before, is_head = place + 1, n, False


def _backbone(window: Sequence[Seen]) -> list[int]:
    """The most messages whose rows stand in the window's order (a longest increasing subsequence)."""
    ends: list[int] = []
    tails: list[int] = []
    previous: dict[int, int | None] = {}
    for n, seen in enumerate(window):
        if seen.place is None:
            continue
        at = bisect_left(ends, seen.place)
        previous[n] = tails[at - 1] if at else None
        ends[at : at + 1], tails[at : at + 1] = [seen.place], [n]
    chain: list[int] = []
    link = tails[-1] if tails else None
    while link is not None:
        chain.append(link)
        link = previous[link]
    return chain[::-1]
