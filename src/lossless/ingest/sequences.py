"""Compares sequences: the overlap of two, and the best pairs whose order agrees. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

#: The maximum number of pairs of which all are compared; beyond it only near ones are, and how near.
_MAX_COMPARED, _NEAR = 256, 4


def overlap(
    shown: Sequence[bytes], before: Sequence[bytes], is_short: Callable[[int], bool] = lambda _: True
) -> tuple[int, int]:
    """How many messages of a moved window are the end of the previous one, and how many of these may be new.

    The longest overlap counts, so that nothing is stored twice; a shorter one would mean repeats of texts that are very
    short, or were repeated before. Zero when there is none. Linear in the length of both.
    """
    borders = _borders(shown, before)
    if not borders:
        return 0, 0
    counts, size = Counter(before), borders[0]
    if all(counts[mark] > 1 for mark in shown[: borders[-1]]):
        borders.append(0)
    new = (n for n in range(size - 1, borders[-1] - 1, -1) if counts[shown[n]] == 1 and not is_short(n))
    certain = next(new, -1)
    return size, size - min(length for length in borders if length > certain)


def _borders(shown: Sequence[bytes], before: Sequence[bytes]) -> list[int]:
    """The lengths of all prefixes of `shown` that `before` ends with, longest first."""
    if not shown:
        return []
    shorter, length = [0] * len(shown), 0
    for n in range(1, len(shown)):
        while length and shown[n] != shown[length]:
            length = shorter[length - 1]
        length += shown[n] == shown[length]
        shorter[n] = length
    length = 0
    for mark in before:
        if length == len(shown):
            length = shorter[length - 1]
        while length and mark != shown[length]:
            length = shorter[length - 1]
        length += mark == shown[length]
    found: list[int] = []
    while length:
        found.append(length)
        length = shorter[length - 1]
    return found


def longest_chain(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Of pairs ordered by their first element, the longest chain whose second elements increase."""
    ends: list[int] = []
    tails: list[int] = []
    previous: list[int | None] = []
    for n, (_, s) in enumerate(pairs):
        at = bisect_left(ends, s)
        previous.append(tails[at - 1] if at else None)
        ends[at : at + 1], tails[at : at + 1] = [s], [n]
    chain: list[tuple[int, int]] = []
    link = tails[-1] if tails else None
    while link is not None:
        chain.append(pairs[link])
        link = previous[link]
    return chain[::-1]


def best_in_order(
    scores: Mapping[tuple[int, int], float], width: int, height: int, *, from_start: bool = True
) -> list[tuple[int, int]]:
    """The pairs in agreeing order with the highest total score; of equally good ones those nearest to the start."""
    if not from_start:
        turned = {(width - 1 - i, height - 1 - j): score for (i, j), score in scores.items()}
        return [(width - 1 - i, height - 1 - j) for i, j in reversed(best_in_order(turned, width, height))]
    if not scores:
        return []
    best = [[0.0] * (height + 1) for _ in range(width + 1)]
    for i in range(width - 1, -1, -1):
        for j in range(height - 1, -1, -1):
            taken = scores[i, j] + best[i + 1][j + 1] if (i, j) in scores else 0.0
            best[i][j] = max(best[i + 1][j], best[i][j + 1], taken)
    found: list[tuple[int, int]] = []
    i = j = 0
    while i < width and j < height and best[i][j]:
        if (i, j) in scores and best[i][j] == scores[i, j] + best[i + 1][j + 1]:
            found.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i][j + 1]:
            j += 1
        else:
            i += 1
    return found


def firm_chain(pairs: Sequence[tuple[int, int]], firm: Collection[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest chain of ordered pairs, in which those that are not firm override none that is."""
    chain = longest_chain([pair for pair in pairs if pair in firm])
    if len(chain) == len(pairs):
        return chain
    found = list(chain)
    for w, s in pairs:
        at = bisect_left(chain, (w, -1))
        is_free = at == len(chain) or (chain[at][0] != w and s < chain[at][1])
        if is_free and (at == 0 or s > chain[at - 1][1]):
            found.append((w, s))
    return longest_chain(sorted(found))


def next_equal(
    shown: Sequence[bytes], rows: Sequence[bytes], may_be: Callable[[int, int], bool]
) -> list[tuple[int, int]]:
    """Each element with the next equal one of the other sequence, in order: for sequences that are long."""
    places: dict[bytes, list[int]] = {}
    for s, mark in enumerate(rows):
        places.setdefault(mark, []).append(s)
    found: list[tuple[int, int]] = []
    after = -1
    for w, mark in enumerate(shown):
        there = places.get(mark, [])
        at = bisect_left(there, after + 1)
        if at < len(there) and may_be(w, there[at]):
            after = there[at]
            found.append((w, after))
    return found


def longest_common(
    shown: Sequence[int], rows: Sequence[int], is_same: Callable[[int, int], bool]
) -> list[tuple[int, int]]:
    """A longest common subsequence; of equally long ones the one nearest to the start."""
    lengths = [[0] * (len(rows) + 1) for _ in range(len(shown) + 1)]
    for i in range(len(shown) - 1, -1, -1):
        for j in range(len(rows) - 1, -1, -1):
            if is_same(shown[i], rows[j]):
                lengths[i][j] = lengths[i + 1][j + 1] + 1
            else:
                lengths[i][j] = max(lengths[i + 1][j], lengths[i][j + 1])
    found: list[tuple[int, int]] = []
    i = j = 0
    while lengths[i][j]:
        i, j = next(
            (a, b)
            for total in range(len(shown) - i + len(rows) - j)  # of the distances on both sides
            for a in range(max(i, i + total - len(rows) + j + 1), min(i + total, len(shown) - 1) + 1)
            if lengths[a][b := j + total - a + i] == lengths[i][j] and is_same(shown[a], rows[b])
        )
        found.append((shown[i], rows[j]))
        i, j = i + 1, j + 1
    return found


def near_places(place: int, size: int, others: Sequence[int]) -> list[int]:
    """Elements near a position, counted from the beginning or from the end; all when there are few."""
    if size * len(others) <= _MAX_COMPARED:
        return list(others)
    starts = sorted((place, place + len(others) - size))
    near = [n for start in starts for n in range(start - _NEAR, start + _NEAR + 1) if 0 <= n < len(others)]
    return [others[n] for n in dict.fromkeys(sorted(near))]


def runs_of(places: Sequence[int]) -> list[list[int]]:
    """Runs of two to eight consecutive places, longest first."""
    bounds = [(first, end) for first in range(len(places)) for end in range(first + 2, min(len(places), first + 8) + 1)]
    runs = [list(places[first:end]) for first, end in bounds if places[end - 1] - places[first] == end - 1 - first]
    return sorted(runs, key=len, reverse=True)


def next_spoken(roles: Sequence[str], place: int, step: int) -> int:
    """The next place with a message that is neither a tool result nor followed by one."""
    place += step
    while 0 <= place < len(roles) and "tool" in roles[place : place + 2]:
        place += step
    return place
