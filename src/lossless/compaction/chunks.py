"""Cutting runs of a context, from one index to another, into what one summary can stand for."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from lossless.model.context import token_sum

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lossless.model.context import ContextItem


def raw_chunks(
    context: Sequence[ContextItem], run: tuple[int, int], limit: int, cuts: Sequence[bool]
) -> Iterator[tuple[int, int]]:
    """Cut a run of messages where no pair is parted: each chunk within the limit, or one unit."""
    borders = [border for border in range(run[0], run[1] + 1) if not cuts[border]]
    start = stop = borders[0] if borders else run[0]
    tokens = 0
    for low, high in pairwise(borders):
        unit = token_sum(context[low:high])
        if stop > start and tokens + unit > limit:
            yield start, stop
            start, tokens = low, 0
        stop, tokens = high, tokens + unit
    if stop > start:
        yield start, stop


def summary_chunks(
    context: Sequence[ContextItem], run: tuple[int, int], limit: int, least: int, least_tokens: int
) -> Iterator[tuple[int, int]]:
    """Cut a run of summaries: each chunk within the limit, but for the fewest and the least that are worth it."""
    start, tokens = run[0], 0
    for index in range(run[0], run[1]):
        is_enough = index - start >= least and tokens >= least_tokens
        if is_enough and tokens + context[index].tokens > limit:
            yield start, index
            start, tokens = index, 0
        tokens += context[index].tokens
    yield start, run[1]
