"""What a model costs: for the summaries of an archive that were made without one, and for all of its messages."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lossless.llm.completion import list_prices

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lossless.model.records import DepthSizes
    from lossless.settings import Settings

#: Models whose prices are named, where they are known.
_EXAMPLES = ("openai/gpt-5-mini", "anthropic/claude-haiku-4-5")
_MILLION, _CENT = 1_000_000, Decimal("0.01")


@dataclass(frozen=True, slots=True)
class ModelEstimate:
    """What models would have read and written, and what some of them charge for that by their list prices."""

    summaries: int
    input_tokens: int
    output_tokens: int
    #: In US dollars, by `provider/model`.
    costs: tuple[tuple[str, Decimal], ...]
    #: The day on which the prices were read.
    as_of: str

    def __str__(self) -> str:
        prices = (f"${cost:,.2f}" if cost >= _CENT else "less than $0.01" for _, cost in self.costs)
        named = ", ".join(f"{price} with {model}" for price, (model, _) in zip(prices, self.costs, strict=True))
        return (
            "No model is configured: summaries are made of the text's own sentences. A model writes better ones; "
            f"so far it would have read {self.input_tokens:,} tokens and written {self.output_tokens:,}: {named} "
            f"(list prices of {self.as_of}). See `lcm model`."
        )


def estimate_model(depths: Iterable[DepthSizes]) -> ModelEstimate | None:
    """What the summaries of an archive would have cost; None when it has none.

    A leaf is made of its messages and shown what came before it, a condensed summary of those below it: so each
    summary is read about once.
    """
    known = list(depths)
    count, written = sum(depth.count for depth in known), sum(depth.tokens for depth in known)
    if not count:
        return None
    read = written + sum(depth.source_tokens for depth in known if depth.kind == "leaf")
    prices, as_of = list_prices()
    costs = tuple((model, _cost(prices[model], read, written)) for model in _EXAMPLES if model in prices)
    return ModelEstimate(count, read, written, costs, as_of)


def _cost(price: dict[str, float], read: int, written: int) -> Decimal:
    return (Decimal(str(price["input"])) * read + Decimal(str(price["output"])) * written) / _MILLION


def archive_price(tokens: int, settings: Settings, price: Mapping[str, Any] | None) -> dict[str, Any]:
    """What it takes to have so many tokens of messages summarised once; the newest messages never need it."""
    leaves = tokens / settings.leaf_chunk_tokens
    above = leaves / max(1, settings.condensed_min_fanout - 1)
    read = tokens + leaves * settings.leaf_target_tokens
    written = leaves * settings.leaf_target_tokens + above * settings.condensed_target_tokens
    cost = None if price is None else (read * price["input"] + written * price["output"]) / _MILLION
    return {"messageTokens": tokens, "inputTokens": round(read), "outputTokens": round(written), "cost": cost}
