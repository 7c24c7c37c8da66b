"""What a call cost: as the provider says, or by the user's own prices. Unknown is not zero."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from lossless.errors import BadSetting

if TYPE_CHECKING:
    from lossless.llm.base import Usage

_MILLION = Decimal(1_000_000)
_ALLOWED = '{"provider/model": {"input": 3, "output": 15}} in US dollars for a million tokens, none negative'


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


def read_prices(setting: Mapping[str, object], source: str = "modelPrices") -> dict[str, Price]:
    """The user's prices by `provider/model`; raises `BadSetting` for anything that is not a price."""
    return {model: _read_price(model, raw, source) for model, raw in setting.items()}


def _read_price(model: str, raw: object, source: str) -> Price:
    names = {field.name for field in fields(Price)}
    if not isinstance(raw, Mapping) or not {"input", "output"} <= set(raw) <= names:
        raise BadSetting(f"modelPrices.{model}", raw, source, _ALLOWED)
    try:
        numbers = {str(name): Decimal(str(value)) for name, value in raw.items()}
    except InvalidOperation as error:
        raise BadSetting(f"modelPrices.{model}", raw, source, _ALLOWED) from error
    if not all(number.is_finite() and number >= 0 for number in numbers.values()):
        raise BadSetting(f"modelPrices.{model}", raw, source, _ALLOWED)
    return Price(**numbers)


def priced(usage: Usage, price: Price | None) -> Usage:
    """`usage` with its cost: the reported one, else by `price`, else unknown."""
    if usage.cost is not None or price is None or not (usage.input_tokens or usage.output_tokens):
        return usage
    read = price.input if price.cache_read is None else price.cache_read
    write = price.input if price.cache_write is None else price.cache_write
    fresh = max(0, usage.input_tokens - usage.cache_read - usage.cache_write)
    total = fresh * price.input + usage.cache_read * read + usage.cache_write * write
    return replace(usage, cost=(total + usage.output_tokens * price.output) / _MILLION)


def add_costs(costs: Iterable[Decimal | None]) -> Spend:
    """The sum of the known costs, and the number of unknown ones."""
    listed = list(costs)
    known = [cost for cost in listed if cost is not None]
    return Spend(sum(known, Decimal(0)), len(listed) - len(known))


def format_cost(cost: Decimal | None) -> str:
    """
    >>> format_cost(None), format_cost(Decimal("0")), format_cost(Decimal("0.01234"))
    ('unknown', '$0.0000', '$0.0123')
    """
    return "unknown" if cost is None else f"${cost:.4f}"
