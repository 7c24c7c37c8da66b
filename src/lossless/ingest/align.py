"""Aligning a host's window with the stored tail: which of its messages are new.

Pure. Messages are compared by mark (a fingerprint, or a row's own mark when an id decided already). A message
that changed in place (redacted, decorated, truncated) is still the same event when what follows lines up again.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

#: How many places of each kind the window's beginning is tried at.
_MAX_STARTS = 16
#: How many of a window's first messages may be unknown (a host's notice) before it counts as disjoint.
_MAX_HEAD = 2
#: How many neighbours may be rewritten before a message must be equal again.
_MAX_COPIES = 64
#: How many places, the nearest and the newest, are looked at where a window may go on after a gap.
_MAX_PLACES = 16
#: So many equal messages in a row are no coincidence.
_SURE = 3


class SameEvent(Protocol):
    """Tells whether a message of the window that differs from a stored one is a rewritten copy of it.

    `alone` asks whether that is certain by itself; otherwise what follows has to line up.
    """

    def __call__(self, window_index: int, stored_index: int, *, alone: bool) -> bool: ...


@dataclass(frozen=True, slots=True)
class Alignment:
    """How a window lies over the stored rows.

    `matched[i]` is the stored index of window item i, or None for one that is new. `diverged_at` is the
    stored index from which on rows are not in the window, when the window goes on differently.
    """

    matched: tuple[int | None, ...]
    diverged_at: int | None = None
    ambiguous: bool = False


@dataclass(frozen=True, slots=True)
class _Walk:
    """The window laid over the rows from one start: how far it matches."""

    start: int
    head: int
    pairs: tuple[tuple[int, int], ...]
    window_end: int
    stored_end: int
    #: Whether the window left out so few rows, or went on for so short, that this may be a coincidence.
    doubtful: bool = False

    @property
    def length(self) -> int:
        return len(self.pairs)

    @property
    def score(self) -> int:
        """How many messages it explains, less those that it passes over; a gap of left-out rows counts as one."""
        passed = self.pairs[-1][0] + 1 - len(self.pairs)
        gaps = sum(s - before > 1 for (_, before), (_, s) in pairwise(self.pairs))
        return len(self.pairs) - passed - gaps


def align(
    window: Sequence[bytes],
    stored: Sequence[bytes],
    *,
    anchor: int | None = None,
    anchor_end: int | None = None,
    same_event: SameEvent | None = None,
) -> Alignment:
    """Lay `window` over `stored` (both oldest first).

    `anchor` is the stored index where the last window began and `anchor_end` where it ended (exclusive).
    A window that begins there and covers all of it has grown: the rest is new, repeats and all. Otherwise
    the longest overlap wins, so that nothing is stored twice, and `ambiguous` says that another reading exists.
    """
    if not window or not stored:
        return Alignment((None,) * len(window))
    if anchor is not None and anchor_end is not None:
        walk = _walk(window, stored, (anchor, 0), same_event, may_skip=False)
        if walk.length and walk.stored_end >= anchor_end:
            return _result(window, stored, walk)
    walks = [_walk(window, stored, place, same_event) for place in _starts(window, stored, anchor)]
    walks = [walk for walk in walks if walk.length]
    if not walks:
        return Alignment((None,) * len(window))
    best = _best(walks, window, stored, anchor)
    ambiguous = _is_ambiguous(best, walks, len(window), len(stored))
    diverges = best.stored_end < len(stored) and best.window_end < len(window)
    if diverges and (anchor_end is None or best.stored_end < anchor_end):
        return _result(window, stored, best, diverged_at=best.stored_end, ambiguous=ambiguous)
    return _result(window, stored, best, ambiguous=ambiguous)


def _starts(window: Sequence[bytes], stored: Sequence[bytes], anchor: int | None) -> list[tuple[int, int]]:
    """Places to lay the window at: where it fits, where it reaches the newest row, and where most of it lines up.

    A place may be that of its second or third message, the ones before it being unknown.
    """
    starts: list[tuple[int, int]] = [] if anchor is None else [(anchor, 0)]
    for head in range(min(_MAX_HEAD + 1, len(window))):
        lengths = _lengths(window[head:], stored)
        found = [place for place, length in enumerate(lengths) if length]
        fitting = [place for place in found if lengths[place] == len(window) - head]
        reaching = [place for place in found if place + lengths[place] == len(stored)]
        longest = sorted(found, key=lambda place: (-lengths[place], -place))
        chosen = dict.fromkeys((*fitting[:2], *reaching[:_MAX_STARTS], *longest[:_MAX_STARTS]))
        starts.extend((place, head) for place in chosen)
    return starts


def _lengths(window: Sequence[bytes], stored: Sequence[bytes]) -> list[int]:
    """For each stored index, how many rows from there on are the window's first messages; linear (a Z-function)."""
    both = [*window, None, *stored]
    lengths = [0] * len(both)
    left = right = 0
    for n in range(1, len(both)):
        length = min(lengths[n - left], right - n) if n < right else 0
        while n + length < len(both) and both[length] == both[n + length] and both[length] is not None:
            length += 1
        lengths[n] = length
        if n + length > right:
            left, right = n, n + length
    return lengths[len(window) + 1 :]


def _walk(
    window: Sequence[bytes],
    stored: Sequence[bytes],
    place: tuple[int, int],
    same_event: SameEvent | None,
    *,
    may_skip: bool = True,
) -> _Walk:
    """Compare step by step from a place (stored index, window index) on, over rewritten copies and left-out rows."""
    start, head = place
    pairs: list[tuple[int, int]] = []
    w, s = head, start
    doubtful = False
    while w < len(window) and s < len(stored):
        count = 1 if window[w] == stored[s] else _copies(window, stored, w, s, same_event)
        if count:
            pairs.extend((w + n, s + n) for n in range(count))
            w, s = w + count, s + count
            continue
        if not pairs or not may_skip:
            break
        if woven := _woven(window, stored, w, s):
            pairs.extend(woven)
            w, s, doubtful = woven[-1][0] + 1, len(stored), True
            break
        resumed = _resume(window, stored, w, s)
        if resumed is None:
            break
        w, s, run = resumed
        doubtful |= run < _SURE
    return _Walk(start, head, tuple(pairs), w, s, doubtful)


def _copies(window: Sequence[bytes], stored: Sequence[bytes], w: int, s: int, same_event: SameEvent | None) -> int:
    """How many messages from here on are rewritten copies."""
    if same_event is None:
        return 0
    if same_event(w, s, alone=True):
        return 1
    for count in range(1, min(_MAX_COPIES, len(window) - w - 1, len(stored) - s - 1) + 1):
        if not same_event(w + count - 1, s + count - 1, alone=False):
            return 0
        if window[w + count] == stored[s + count]:
            return count
    return 0


def _woven(window: Sequence[bytes], stored: Sequence[bytes], w: int, s: int) -> list[tuple[int, int]]:
    """Pairs for all rows from here on when the window has them in their order, with others in between; else nothing."""
    pairs: list[tuple[int, int]] = []
    for n in range(w, len(window)):
        if s + len(pairs) < len(stored) and window[n] == stored[s + len(pairs)]:
            pairs.append((n, s + len(pairs)))
    return pairs if s + len(pairs) == len(stored) else []


def _resume(window: Sequence[bytes], stored: Sequence[bytes], w: int, s: int) -> tuple[int, int, int] | None:
    """Where both go on together after the host left rows out or put a notice in, and for how long; None if they part.

    Left-out rows are believed when the rest lines up to an end, anything else only over a sure run.
    """
    best: tuple[int, int, int] | None = None
    for skipped in (0, 1):
        at = w + skipped
        if at >= len(window):
            break
        places = [place for place in range(s + 1 - skipped, len(stored)) if stored[place] == window[at]]
        for place in places if len(places) <= 2 * _MAX_PLACES else places[:_MAX_PLACES] + places[-_MAX_PLACES:]:
            run = _common(window, stored, at, place)
            ends = place + run == len(stored) or at + run == len(window)
            if (run >= _SURE or (ends and not skipped)) and (best is None or run > best[2]):
                best = (at, place, run)
    return best


def _common(window: Sequence[bytes], stored: Sequence[bytes], w: int, s: int) -> int:
    run = 0
    while w + run < len(window) and s + run < len(stored) and window[w + run] == stored[s + run]:
        run += 1
    return run


def _best(walks: Sequence[_Walk], window: Sequence[bytes], stored: Sequence[bytes], anchor: int | None) -> _Walk:
    """The longest walk that needs no guess: from the window's first message on it holds all, or reaches the newest row.

    One that leaves rows out, or parts from them, is believed when there is no other, when it matches more messages
    that stand only once on either side (repeated words are found anywhere), or when it explains clearly more.
    """
    in_window, in_stored = Counter(window), Counter(stored)

    def landmarks(walk: _Walk) -> int:
        return sum(in_window[window[w]] == 1 == in_stored[stored[s]] for w, s in walk.pairs)

    def rank(walk: _Walk) -> tuple[int, ...]:
        contained = walk.window_end == len(window)
        settled = contained or walk.stored_end == len(stored)
        # What is contained in several places is taken for the oldest: what it grows by may be stored already.
        place = -walk.start if contained else walk.start
        return (walk.score, settled, -walk.head, walk.start == anchor, place)

    sure = [walk for walk in walks if _is_sure(walk, len(window), len(stored))]
    guesses = [walk for walk in walks if not _is_sure(walk, len(window), len(stored))]
    if not sure:
        return max(guesses, key=lambda walk: (landmarks(walk), rank(walk)))
    best = max(sure, key=rank)
    likely = [walk for walk in guesses if _is_likely(walk, landmarks(walk), window, stored)]
    guess = max(likely, key=lambda walk: (landmarks(walk), rank(walk)), default=best)
    is_more = guess.stored_end == len(stored) and guess.score > best.score
    return guess if (landmarks(guess), is_more) > (landmarks(best), False) else best


def _is_likely(walk: _Walk, landmarks: int, window: Sequence[bytes], stored: Sequence[bytes]) -> bool:
    """Whether a guess may stand against a walk that needs none.

    The messages before it must be a host's notices: unknown, or stored behind it and alone there. And few words
    in common do not make a host leave many messages behind.
    """
    behind = stored[walk.stored_end :]
    if walk.head:
        known = set(stored)
        return not walk.doubtful and [mark for mark in window[: walk.head] if mark in known] == list(behind)
    return landmarks >= _SURE or len(behind) <= 2 * walk.length


def _is_sure(walk: _Walk, window: int, stored: int) -> bool:
    return not walk.head and not walk.doubtful and (walk.window_end == window or walk.stored_end == stored)


def _is_ambiguous(best: _Walk, walks: Sequence[_Walk], window: int, stored: int) -> bool:
    """Whether content alone does not decide: another place explains the window, too."""
    others = [walk for walk in walks if walk.head <= best.head and walk.start - walk.head != best.start - best.head]
    if best.doubtful or (best.window_end == window and best.stored_end < stored):
        return best.doubtful or bool(others)
    return any(walk.stored_end == stored or walk.length > best.length for walk in others)


def _result(
    window: Sequence[bytes],
    stored: Sequence[bytes],
    walk: _Walk,
    *,
    diverged_at: int | None = None,
    ambiguous: bool = False,
) -> Alignment:
    matched: list[int | None] = [None] * len(window)
    for w, s in walk.pairs:
        matched[w] = s
    if diverged_at is None:  # rows beyond the match came from another producer, in the same order
        rest = follow(window[walk.window_end :], stored[walk.stored_end :])
        matched[walk.window_end :] = [None if place is None else place + walk.stored_end for place in rest]
    _find_notices(window, stored, matched, walk)
    return Alignment(tuple(matched), diverged_at, ambiguous)


def _find_notices(window: Sequence[bytes], stored: Sequence[bytes], matched: list[int | None], walk: _Walk) -> None:
    """Nothing new comes before what is known: a message there that was stored out of its order is found again.

    After a doubtful walk that goes for the whole window: better one repeat too few than a message twice.
    """
    end = len(window) if walk.doubtful else walk.pairs[-1][0] if walk.pairs else 0
    unknown = [n for n in range(end) if matched[n] is None]
    if not unknown:
        return
    taken = {place for place in matched if place is not None}
    free: defaultdict[bytes, list[int]] = defaultdict(list)
    for place, mark in enumerate(stored):
        if place not in taken:
            free[mark].append(place)
    for n in unknown:
        if places := free[window[n]]:
            matched[n] = places.pop()


def follow(window: Sequence[bytes], stored: Sequence[bytes]) -> tuple[int | None, ...]:
    """Match a window's new part with rows that others have appended meanwhile, in order, the rest being new."""
    places: defaultdict[bytes, deque[int]] = defaultdict(deque)
    for place, mark in enumerate(stored):
        places[mark].append(place)
    matched: list[int | None] = []
    first = 0
    for mark in window:
        waiting = places[mark]
        while waiting and waiting[0] < first:
            waiting.popleft()
        matched.append(waiting.popleft() if waiting else None)
        first = first if matched[-1] is None else matched[-1] + 1
    return tuple(matched)
