"""Compares sequences: the overlap of two, and the best pairs whose order agrees. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


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


def best_in_order(scores: Mapping[tuple[int, int], float], width: int, height: int) -> list[tuple[int, int]]:
    """The pairs in agreeing order with the highest total score; of equal ones the first."""
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
