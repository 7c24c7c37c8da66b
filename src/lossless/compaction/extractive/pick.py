"""Greedy coverage: the units that say most of what is not yet said, for what they cost."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Below 1, long units lose less against short ones than their length alone would say.
_COST_POWER = 0.75


class Picker:
    """Hands out units, the most worth first; what a taken unit says is worth nothing in the others.

    Lazy: a unit is valued anew only when it comes up, so the work is linear in the text for units of
    bounded length. Ties go to the earlier unit.
    """

    def __init__(
        self,
        terms: Sequence[frozenset[str]],
        weights: dict[str, int],
        factors: Sequence[float],
        costs: Sequence[int],
    ) -> None:
        self._terms, self._weights, self._factors = terms, weights, factors
        self._divisors = [cost**_COST_POWER for cost in costs]
        #: The terms that what was taken says.
        self.said: set[str] = {""}
        weight = weights.__getitem__
        rated = (
            (-sum(map(weight, unit)) * factor / divisor, index)
            for index, (unit, factor, divisor) in enumerate(zip(terms, factors, self._divisors, strict=True))
        )
        self._queue = [item for item in rated if item[0] < 0]
        heapq.heapify(self._queue)

    def next(self) -> int | None:
        """The unit that adds most now; it will not come again. None when no unit adds anything."""
        queue = self._queue
        while queue:
            rating, index = heapq.heappop(queue)
            worth = -self.worth(index) * self._factors[index] / self._divisors[index]
            if worth <= rating or not queue or (worth, index) < queue[0]:
                if worth < 0:
                    return index
            elif worth < 0:
                heapq.heappush(queue, (worth, index))
        return None

    def take(self, terms: frozenset[str]) -> None:
        """From now on these terms are said."""
        self.said.update(terms)

    def worth(self, index: int) -> int:
        """What the terms of a unit weigh that are not yet said."""
        return sum(map(self._weights.__getitem__, self._terms[index] - self.said))
