"""What a call cost: as the provider says, or by the user's own prices. Unknown is not zero."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lossless.llm.base import Usage
    from lossless.settings import ModelPrice

_MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens; a cache price that is not given is the input price."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Spend:
    """A sum of costs: what is known, and how many calls have no known cost."""

    known: Decimal = Decimal(0)
    unknown_calls: int = 0

    def __str__(self) -> str:
        if not self.unknown_calls:
            return format_cost(self.known)
        calls = f"{self.unknown_calls} call{'s' if self.unknown_calls > 1 else ''} of unknown cost"
        return f"{format_cost(self.known)} + {calls}" if self.known else "unknown"


def read_prices(setting: Iterable[ModelPrice]) -> dict[str, Price]:
    """The user's prices by `provider/model`, as exact numbers."""
    return {
        price.model: Price(
            _exact(price.input),
            _exact(price.output),
            None if price.cache_read is None else _exact(price.cache_read),
            None if price.cache_write is None else _exact(price.cache_write),
        )
        for price in setting
    }


def _exact(number: float) -> Decimal:
    """The number as it was written: 0.1 is a tenth."""
    return Decimal(str(number))


def priced(usage: Usage, price: Price | None) -> Usage:
    """`usage` with its cost: the reported one, else by `price`, else unknown."""
    if usage.cost is not None or price is None or not (usage.input_tokens or usage.output_tokens):
        return usage
    read = price.input if price.cache_read is None else price.cache_read
    write = price.input if price.cache_write is None else price.cache_write
    fresh = max(0, usage.input_tokens - usage.cache_read - usage.cache_write)
    total = fresh * price.input + usage.cache_read * read + usage.cache_write * write
    return replace(usage, cost=(total + usage.output_tokens * price.output) / _MILLION)


def format_cost(cost: Decimal | None) -> str:
    """
    >>> format_cost(None), format_cost(Decimal("0")), format_cost(Decimal("0.01234"))
    ('unknown', '$0.0000', '$0.0123')
    """
    return "unknown" if cost is None else f"${cost:.4f}"
