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
        self._terms, self._factors = terms, factors
        self._divisors = [cost**_COST_POWER for cost in costs]
        #: The terms that what was taken says.
        self.said: set[str] = {""}
        #: What each term is worth now: nothing, once it is said.
        self.worth = dict(weights)
        weight = weights.__getitem__
        rated = [
            (-sum(map(weight, unit)) * factor / divisor, index)
            for index, unit, factor, divisor in zip(range(len(terms)), terms, factors, self._divisors, strict=True)
        ]
        self._queue = [item for item in rated if item[0] < 0]
        heapq.heapify(self._queue)

    def next(self) -> int | None:
        """The unit that adds most now; it will not come again. None when no unit adds anything."""
        queue, worth = self._queue, self.worth.__getitem__
        while queue:
            before, index = queue[0]
            now = -sum(map(worth, self._terms[index])) * self._factors[index] / self._divisors[index]
            if before < now < 0:
                heapq.heapreplace(queue, (now, index))
                if queue[0][1] != index:
                    continue
            heapq.heappop(queue)
            if now < 0:
                return index
        return None

    def waiting(self) -> list[int]:
        """The units that may still come, in no order that means anything."""
        return [index for _, index in self._queue]

    def take(self, terms: frozenset[str]) -> None:
        """From now on these terms are said."""
        self.said.update(terms)
        self.worth.update(dict.fromkeys(terms, 0))
