"""Charts of numbers for a terminal: columns of blocks, eight steps to a line."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_STEPS = " ▁▂▃▄▅▆▇█"


def columns(values: Sequence[float], height: int = 5) -> list[str]:
    """One column for each value, the largest as high as the chart; the top line first.

    >>> columns([1, 2, 4], 1)
    ['▂▄█']
    >>> columns([0, 8, 16], 2)
    ['  █', ' ██']
    """
    most = max(values, default=0)
    eighths = [_eighths(value, most, height) for value in values]
    return [
        "".join(_STEPS[min(8, max(0, eighth - 8 * below))] for eighth in eighths) for below in reversed(range(height))
    ]


def _eighths(value: float, most: float, height: int) -> int:
    """A value's height; what is there is never invisible."""
    if value <= 0 or most <= 0:
        return 0
    return max(1, round(value / most * height * 8))


def thinned(values: Sequence[float], width: int) -> list[float]:
    """At most `width` values: neighbours become one, the largest of them.

    >>> thinned([1, 5, 2, 3], 2)
    [5, 3]
    """
    if len(values) <= width:
        return list(values)
    edges = [round(n * len(values) / width) for n in range(width + 1)]
    return [max(values[first:last]) for first, last in pairwise(edges)]
