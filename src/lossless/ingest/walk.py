"""One way to lay a window over the stored rows: step by step from a place on, as far as both agree.

Pure. Messages are compared by mark (a fingerprint, or a row's own mark when an id decided already). A message
that changed in place (redacted, decorated, truncated) is still the same event when what follows lines up again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: So many equal messages in a row are no coincidence.
SURE = 3
#: How many neighbours may be rewritten before a message must be equal again.
_MAX_COPIES = 64
#: How many places, the nearest and the newest, are looked at where a window may go on after a gap.
_MAX_PLACES = 16
#: How many rows may be left out before a single message that stands only once.
_MAX_LEFT_OUT = 2
#: How many messages in a row may be new before a single one that stands only once.
_MAX_EDITED = 8


class SameEvent(Protocol):
    """Tells whether a message of the window that differs from a stored one is a rewritten copy of it.

    `alone` asks whether that is certain by itself; otherwise what follows has to line up.
    """

    def __call__(self, window_index: int, stored_index: int, *, alone: bool) -> bool: ...


@dataclass(frozen=True, slots=True)
class Sides:
    """A window and the rows that it is laid over, as marks, oldest first."""

    window: Sequence[bytes]
    stored: Sequence[bytes]
    same_event: SameEvent | None
    #: Marks that stand only once on their side.
    once_in_window: frozenset[bytes]
    once_in_stored: frozenset[bytes]

    @classmethod
    def of(cls, window: Sequence[bytes], stored: Sequence[bytes], same_event: SameEvent | None) -> Sides:
        return cls(window, stored, same_event, _once(window), _once(stored))

    def are_landmarks(self, w: int, s: int) -> bool:
        """Whether both stand only once on their side: a match that is no coincidence of repeated words."""
        return self.window[w] in self.once_in_window and self.stored[s] in self.once_in_stored

    def common(self, w: int, s: int) -> int:
        """How many messages from here on are equal."""
        window, stored = self.window, self.stored
        run, most = 0, min(len(window) - w, len(stored) - s)
        while run < most and window[w + run] == stored[s + run]:
            run += 1
        return run


def _once(marks: Sequence[bytes]) -> frozenset[bytes]:
    return frozenset(mark for mark, count in Counter(marks).items() if count == 1)


@dataclass(frozen=True, slots=True)
class Walk:
    """The window laid over the rows from one start: how far it matches."""

    start: int
    head: int
    pairs: tuple[tuple[int, int], ...]
    window_end: int
    stored_end: int
    #: Whether the window left out so few rows, or went on for so short, that this may be a coincidence.
    doubtful: bool = False
    #: How many of the pairs are not equal: rewritten copies.
    copied: int = 0

    @property
    def length(self) -> int:
        return len(self.pairs)

    @property
    def exact(self) -> int:
        """How many messages are equal to their rows."""
        return len(self.pairs) - self.copied

    @property
    def score(self) -> int:
        """How many messages it explains, less those that it passes over; a gap of left-out rows counts as one."""
        passed = self.pairs[-1][0] + 1 - len(self.pairs)
        gaps = sum(s - before > 1 for (_, before), (_, s) in pairwise(self.pairs))
        return len(self.pairs) - passed - gaps


def walk_from(sides: Sides, place: tuple[int, int], *, may_skip: bool = True) -> Walk:
    """Compare step by step from a place (stored index, window index) on, over rewritten copies and left-out rows."""
    start, head = place
    pairs: list[tuple[int, int]] = []
    w, s = head, start
    doubtful, copied = False, 0
    while w < len(sides.window) and s < len(sides.stored):
        equal = sides.common(w, s)
        if count := equal or _copies(sides, w, s):
            copied += count - equal
            pairs.extend((w + n, s + n) for n in range(count))
            w, s = w + count, s + count
            continue
        if not pairs or not may_skip:
            break
        if woven := _woven(sides, w, s):
            pairs.extend(woven)
            w, s, doubtful = woven[-1][0] + 1, len(sides.stored), True
            break
        resumed = _resume(sides, w, s)
        if resumed is None:
            break
        w, s, run = resumed
        doubtful |= run < SURE
    return Walk(start, head, tuple(pairs), w, s, doubtful, copied)


def _copies(sides: Sides, w: int, s: int) -> int:
    """How many messages from here on are rewritten copies."""
    if sides.same_event is None:
        return 0
    if sides.same_event(w, s, alone=True):
        return 1
    for count in range(1, min(_MAX_COPIES, len(sides.window) - w - 1, len(sides.stored) - s - 1) + 1):
        if not sides.same_event(w + count - 1, s + count - 1, alone=False):
            return 0
        if sides.window[w + count] == sides.stored[s + count]:
            return count
    return 0


def _woven(sides: Sides, w: int, s: int) -> list[tuple[int, int]]:
    """Pairs for all rows from here on when the window has them in their order, with others in between; else nothing."""
    pairs: list[tuple[int, int]] = []
    for n in range(w, len(sides.window)):
        if s + len(pairs) < len(sides.stored) and sides.window[n] == sides.stored[s + len(pairs)]:
            pairs.append((n, s + len(pairs)))
    return pairs if s + len(pairs) == len(sides.stored) else []


def _resume(sides: Sides, w: int, s: int) -> tuple[int, int, int] | None:
    """Where both go on together after rows were left out, edited or put in, and for how long; None if they part."""
    best: tuple[int, int, int] | None = None
    for at, place in _resumptions(sides, w, s):
        run = sides.common(at, place)
        if _is_believed(sides, (at - w, place - s), (at, place), run) and (best is None or run > best[2]):
            best = (at, place, run)
    return best or _after_edit(sides, w, s)


def _resumptions(sides: Sides, w: int, s: int) -> Iterator[tuple[int, int]]:
    """Places where the next message, or the one behind a notice, stands again."""
    for skipped in (0, 1):
        at = w + skipped
        if at >= len(sides.window):
            break
        mark = sides.window[at]
        places = [place for place in range(s + 1 - skipped, len(sides.stored)) if sides.stored[place] == mark]
        near = places if len(places) <= 2 * _MAX_PLACES else places[:_MAX_PLACES] + places[-_MAX_PLACES:]
        yield from ((at, place) for place in near)


def _is_believed(sides: Sides, passed: tuple[int, int], place: tuple[int, int], run: int) -> bool:
    """Left-out rows are believed when the rest lines up to an end, or few before a message that stands only once.

    Anything else only over a sure run. `passed` are the messages and the rows in between.
    """
    (at, s), (new, left_out) = place, passed
    ends = s + run == len(sides.stored) or at + run == len(sides.window)
    if run >= SURE or (ends and not new):
        return True
    return not new and left_out <= _MAX_LEFT_OUT and sides.are_landmarks(at, s)


def _after_edit(sides: Sides, w: int, s: int) -> tuple[int, int, int] | None:
    """Where both go on after a few rows were replaced by as many new messages, at one that stands only once."""
    for at in range(w + 1, min(w + 1 + _MAX_EDITED, len(sides.window))):
        for place in range(s, min(s + at - w, len(sides.stored) - 1) + 1):
            if sides.window[at] == sides.stored[place] and sides.are_landmarks(at, place):
                return at, place, sides.common(at, place)
    return None
