"""Aligning a host's window with the stored tail: which of its messages are new.

Pure. The window is laid over the rows from each place where it may begin, and the walk that explains most wins.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.ingest.walk import SURE, SameEvent, Sides, Walk, walk_from

if TYPE_CHECKING:
    from collections.abc import Sequence

#: How many places of each kind the window's beginning is tried at.
_MAX_STARTS = 16
#: How many of the newest rows the window's first message may be a rewritten copy of.
_MAX_COPIED = 16
#: How many of a window's first messages may be unknown (a host's notice) when what follows is short.
MAX_HEAD = 2


@dataclass(frozen=True, slots=True)
class Alignment:
    """How a window lies over the stored rows.

    `matched[i]` is the stored index of window item i, or None for one that is new. `diverged_at` is the
    stored index from which on rows are not in the window, when the window goes on differently.
    """

    matched: tuple[int | None, ...]
    diverged_at: int | None = None
    ambiguous: bool = False


def align(
    window: Sequence[bytes],
    stored: Sequence[bytes],
    *,
    anchor: int | None = None,
    anchor_end: int | None = None,
    is_begun_again: bool = True,
    same_event: SameEvent | None = None,
) -> Alignment:
    """Lay `window` over `stored` (both oldest first).

    `anchor` is the stored index where the last window began and `anchor_end` where it ended (exclusive).
    A window that begins there and covers all of it has grown: the rest is new, repeats and all. Otherwise
    the longest overlap wins, so that nothing is stored twice, and `ambiguous` says that another reading exists.
    `is_begun_again` is False when the window's first message came in another form than the last window's did.
    """
    if not window or not stored:
        return Alignment((None,) * len(window))
    sides = Sides.of(window, stored, same_event)
    plain = _plain_overlap(window, stored) if same_event else 0
    if is_begun_again and anchor is not None and anchor_end is not None:
        walk = walk_from(sides, (anchor, 0), may_skip=False)
        if walk.length and walk.stored_end >= anchor_end and _needs_no_more(walk, plain):
            return _result(sides, walk)
    walks = [walk for place in _starts(sides, anchor) if (walk := walk_from(sides, place)).length]
    walks = [walk for walk in walks if _needs_no_more(walk, plain)] or walks
    if not walks:
        return Alignment((None,) * len(window))
    best = _best(sides, walks, anchor)
    ambiguous = _is_ambiguous(best, walks, len(window), len(stored))
    diverges = best.stored_end < len(stored) and best.window_end < len(window)
    if diverges and (anchor_end is None or best.stored_end < anchor_end):
        return _result(sides, best, diverged_at=best.stored_end, ambiguous=ambiguous)
    return _result(sides, best, ambiguous=ambiguous)


def _plain_overlap(window: Sequence[bytes], stored: Sequence[bytes]) -> int:
    """How many of the window's first messages are, word for word, the newest rows, or all of it some rows."""
    lengths = _lengths(window, stored)
    settled = (length for place, length in enumerate(lengths) if place + length == len(stored) or length == len(window))
    return max(settled, default=0)


def _needs_no_more(walk: Walk, plain: int) -> bool:
    """Whether a walk over rewritten copies explains more than one that takes every message by its word."""
    return not walk.copied or walk.exact > plain


def overlap(window: Sequence[bytes], stored: Sequence[bytes]) -> Alignment | None:
    """The alignment of a window that plainly has moved on: known rows to the newest one, then only new messages.

    None where there is anything to weigh up; `align` says the same then, at a higher price.
    """
    if not window or window[0] not in stored:
        return None
    start = stored.index(window[0])
    known = len(stored) - start
    if known < SURE or list(stored[start:]) != list(window[:known]):
        return None
    if window[0] in stored[start + 1 :] or not set(window[known:]).isdisjoint(stored):
        return None
    return Alignment((*range(start, len(stored)), *(None for _ in range(len(window) - known))))


def _starts(sides: Sides, anchor: int | None) -> list[tuple[int, int]]:
    """Places to lay the window at: where it fits, where it reaches the newest row, and where most of it lines up.

    A place may be that of its second or third message, the ones before it being unknown.
    """
    window, stored = sides.window, sides.stored
    starts: list[tuple[int, int]] = [] if anchor is None else [(anchor, 0)]
    starts += _copied_start(sides)
    for head in range(min(MAX_HEAD + 1, len(window))):
        lengths = _lengths(window[head:], stored)
        found = [place for place, length in enumerate(lengths) if length]
        fitting = [place for place in found if lengths[place] == len(window) - head]
        reaching = [place for place in found if place + lengths[place] == len(stored)]
        longest = sorted(found, key=lambda place: (-lengths[place], -place))
        chosen = dict.fromkeys((*fitting[:2], *reaching[:_MAX_STARTS], *longest[:_MAX_STARTS]))
        starts.extend((place, head) for place in chosen)
    has_other = any(start != (anchor, 0) for start in starts)
    return starts if has_other else [*starts, *_late_start(sides, anchor)]


def _copied_start(sides: Sides) -> list[tuple[int, int]]:
    """The newest row that the window's first message is a certain copy of, when no row is equal to it."""
    if sides.same_event is None or sides.window[0] in sides.stored:
        return []
    newest = range(len(sides.stored) - 1, max(-1, len(sides.stored) - 1 - _MAX_COPIED), -1)
    found = next((place for place in newest if sides.same_event(0, place, alone=True)), None)
    return [] if found is None else [(found, 0)]


def _late_start(sides: Sides, anchor: int | None) -> list[tuple[int, int]]:
    """The first message behind a longer head of unknown ones that stands only once, and is no coincidence.

    A sure run of known ones follows it, or it stands where it stood in the last window.
    """
    places = {mark: place for place, mark in enumerate(sides.stored)}
    for head in range(MAX_HEAD + 1, len(sides.window)):
        place = places.get(sides.window[head])
        if place is not None and sides.are_landmarks(head, place):
            is_kept = anchor is not None and place - anchor == head
            if is_kept or sides.common(head, place) >= SURE:
                return [(place, head)]
    return []


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


def _best(sides: Sides, walks: Sequence[Walk], anchor: int | None) -> Walk:
    """The longest walk that needs no guess: from the window's first message on it holds all, or reaches the newest row.

    One that leaves rows out, or parts from them, is believed when there is no other, when it matches more messages
    that stand only once on either side (repeated words are found anywhere), or when it explains clearly more.
    """
    window, stored = len(sides.window), len(sides.stored)

    def landmarks(walk: Walk) -> int:
        return sum(sides.are_landmarks(w, s) for w, s in walk.pairs)

    def rank(walk: Walk) -> tuple[int, ...]:
        contained = walk.window_end == window
        settled = contained or walk.stored_end == stored
        # What is contained in several places is taken for the oldest: what it grows by may be stored already.
        place = -walk.start if contained else walk.start
        return (walk.score, settled, -walk.head, walk.start == anchor, place)

    sure = [walk for walk in walks if _is_sure(walk, window, stored)]
    guesses = [walk for walk in walks if not _is_sure(walk, window, stored)]
    if not sure:
        return max(guesses, key=lambda walk: (landmarks(walk), rank(walk)))
    best = max(sure, key=rank)
    likely = [walk for walk in guesses if _is_likely(sides, walk, landmarks(walk))]
    guess = max(likely, key=lambda walk: (landmarks(walk), rank(walk)), default=best)
    is_more = guess.stored_end == stored and guess.score > best.score
    return guess if (landmarks(guess), is_more) > (landmarks(best), False) else best


def _is_sure(walk: Walk, window: int, stored: int) -> bool:
    return not walk.head and not walk.doubtful and (walk.window_end == window or walk.stored_end == stored)


def _is_likely(sides: Sides, walk: Walk, landmarks: int) -> bool:
    """Whether a guess may stand against a walk that needs none.

    The messages before it must be a host's notices: unknown, or stored behind it and alone there. And few words
    in common do not make a host leave many messages behind.
    """
    behind = sides.stored[walk.stored_end :]
    if walk.head:
        known = set(sides.stored)
        return not walk.doubtful and [mark for mark in sides.window[: walk.head] if mark in known] == list(behind)
    return landmarks >= SURE or len(behind) <= 2 * walk.length


def _is_ambiguous(best: Walk, walks: Sequence[Walk], window: int, stored: int) -> bool:
    """Whether content alone does not decide: another place explains the window, too."""
    others = [walk for walk in walks if walk.head <= best.head and walk.start - walk.head != best.start - best.head]
    if best.doubtful or (best.window_end == window and best.stored_end < stored):
        return best.doubtful or bool(others)
    return any(walk.stored_end == stored or walk.length > best.length for walk in others)


def _result(sides: Sides, walk: Walk, *, diverged_at: int | None = None, ambiguous: bool = False) -> Alignment:
    matched: list[int | None] = [None] * len(sides.window)
    for w, s in walk.pairs:
        matched[w] = s
    if diverged_at is None:  # rows beyond the match came from another producer, in the same order
        rest = follow(sides.window[walk.window_end :], sides.stored[walk.stored_end :])
        matched[walk.window_end :] = [None if place is None else place + walk.stored_end for place in rest]
    _find_notices(sides, matched, walk)
    return Alignment(tuple(matched), diverged_at, ambiguous)


def _find_notices(sides: Sides, matched: list[int | None], walk: Walk) -> None:
    """Nothing new comes before what is known: a message there that was stored out of its order is found again.

    After a doubtful walk that goes for the whole window: better one repeat too few than a message twice.
    """
    end = len(sides.window) if walk.doubtful else walk.pairs[-1][0] if walk.pairs else 0
    unknown = [n for n in range(end) if matched[n] is None]
    if not unknown:
        return
    taken = {place for place in matched if place is not None}
    free: defaultdict[bytes, list[int]] = defaultdict(list)
    for place, mark in enumerate(sides.stored):
        if place not in taken:
            free[mark].append(place)
    for n in unknown:
        if places := free[sides.window[n]]:
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
