"""Costs: reported, or by the user's prices, or unknown."""

from __future__ import annotations

from decimal import Decimal

from lossless.llm.completion import Usage, format_cost, format_total, read_prices, with_cost
from lossless.settings import ModelPrice, load

PRICE = ModelPrice("a/m", 3.0, 15.0, 0.3, 3.75)


def test_the_reported_cost_wins() -> None:
    usage = Usage(1000, 1000, cost=Decimal("0.5"))
    assert with_cost(usage, PRICE) == usage


def test_a_user_s_price_fills_in() -> None:
    usage = Usage(1_000_000, 100_000, cache_read=500_000, cache_write=100_000)
    assert with_cost(usage, PRICE).cost == Decimal("1.2") + Decimal("0.15") + Decimal("0.375") + Decimal("1.5")


def test_a_cache_without_a_price_costs_the_input_price() -> None:
    assert with_cost(Usage(1_000_000, 0, cache_read=1_000_000), ModelPrice("a/m", 3.0, 15.0)).cost == 3


def test_unknown_is_not_zero() -> None:
    assert with_cost(Usage(1000, 1000), None).cost is None
    assert with_cost(Usage(), PRICE).cost is None
    assert format_cost(None) == "unknown"
    assert format_total(Decimal(0), 1) == "unknown"
    assert format_total(Decimal(0)) == "$0.0000"
    assert format_total(Decimal("0.25"), 2) == "$0.2500 + 2 calls of unknown cost"


def test_prices_from_a_setting_are_exact() -> None:
    written = {
        "a/m": {"input": 3, "output": "15", "cache_read": 0.3, "cacheWrite": 3.75},
        "b/n": {"input": 0.1, "output": 0},
    }
    prices = read_prices(load({"modelPrices": written}, env={}).settings.model_prices)
    assert prices == {"a/m": PRICE, "b/n": ModelPrice("b/n", 0.1, 0.0)}
    assert with_cost(Usage(1_000_000, 1_000_000), prices["a/m"]).cost == 18
