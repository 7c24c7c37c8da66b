"""The interface to language models: a prompt in, a completion out, within a deadline, with usage and cost."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from lossless.errors import LosslessError, ModelError, ModelTimeout

if TYPE_CHECKING:
    from lossless.model.records import DepthSizes
    from lossless.settings import ModelPrice, Settings

#: The model's reasoning effort; None leaves it to the model.
Effort: TypeAlias = Literal["low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request to a model. `purpose` says what it is for (`summary`, `file`, `answer`, …)."""

    system: str
    user: str
    #: The maximum tokens of the answer, thinking included.
    max_tokens: int
    #: Sent only when the model supports it.
    temperature: float | None = None
    purpose: str = "summary"
    reasoning: Effort | None = None
    #: The desired size of the answer, if any: a second try allows at least this much.
    target_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call consumed, as its provider reported it; a cost of None is unknown, not zero."""

    #: All tokens of the prompt, including those read from and written to a cache.
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read: int = 0
    cache_write: int = 0
    #: In US dollars.
    cost: Decimal | None = None


NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's answer without its thinking; the text may be empty."""

    text: str
    #: `provider/model`, or the name of a host or a command.
    model: str
    usage: Usage = NO_USAGE
    #: Why generation ended, as the provider spells it.
    stop_reason: str | None = None
    incomplete: bool = False
    #: Types of the returned blocks, for diagnosis when none has text.
    blocks: tuple[str, ...] = ()


#: Sends one prompt to a language model and returns its answer. Slow and fallible: raises `ModelError` or a subclass.
#: Called from a worker thread when there is a time limit. Never accesses the archive.
Complete: TypeAlias = Callable[[Prompt], Completion]
T = TypeVar("T")
#: An interrupt that comes just before a wait is handled only after it, so waits are short.
_INTERRUPTIBLE_SECONDS = 0.25


def run_within(function: Callable[[], T], seconds: float) -> tuple[T | None, BaseException | None]:
    """What `function` returns or raises within `seconds`, as a pair; after that a `ModelTimeout`.

    It runs in its own daemon thread with the caller's context variables. A thread that hangs is abandoned: it blocks
    neither the caller nor the exit of the process.
    """
    values: list[T] = []
    errors: list[BaseException | None] = []
    done = threading.Event()
    context = contextvars.copy_context()

    def ended(_kind: object, error: BaseException | None, _trace: object) -> bool:
        errors.append(error)
        done.set()
        return True

    def work() -> None:
        with ExitStack() as stack:
            stack.push(ended)
            values.append(context.run(function))

    threading.Thread(target=work, name="lossless-model", daemon=True).start()
    deadline = time.monotonic() + seconds
    while not done.wait(max(0.0, min(_INTERRUPTIBLE_SECONDS, deadline - time.monotonic()))):
        if time.monotonic() >= deadline:
            return None, ModelTimeout(f"no answer within {seconds:g} s")
    return (values[0] if values else None), errors[0]


def ask_within(complete: Complete, prompt: Prompt, seconds: float) -> Completion:
    """The answer of `complete` within `seconds`; any failure is raised as a `LosslessError`."""
    answer, error = run_within(lambda: complete(prompt), seconds)
    if answer is not None:
        return answer
    raise as_lossless_error(error)


def as_lossless_error(error: BaseException | None) -> BaseException:
    """`error` as one of ours: an exception of foreign code becomes a `ModelError` that names it."""
    if error is None:
        return ModelError("the model's callable returned nothing")
    if isinstance(error, LosslessError) or not isinstance(error, Exception):
        return error
    if isinstance(error, TimeoutError):
        return ModelTimeout("the call timed out")
    ours = ModelError(f"the call failed: {type(error).__name__}")
    ours.__cause__ = error
    return ours


_MILLION = Decimal(1_000_000)


def format_total(known: Decimal, unknown_calls: int = 0) -> str:
    """A sum of costs, with how many calls have no known cost.

    >>> format_total(Decimal("0.25"), 2), format_total(Decimal(0), 1)
    ('$0.2500 + 2 calls of unknown cost', 'unknown')
    """
    if not unknown_calls:
        return format_cost(known)
    calls = f"{unknown_calls} call{'s' if unknown_calls > 1 else ''} of unknown cost"
    return f"{format_cost(known)} + {calls}" if known else "unknown"


def read_prices(setting: Iterable[ModelPrice]) -> dict[str, ModelPrice]:
    return {price.model: price for price in setting}


def list_prices() -> tuple[dict[str, dict[str, float]], str]:
    """The list prices of this package by `provider/model`, for estimates, and the day on which they were read."""
    import json
    from importlib.resources import files

    table = json.loads(files("lossless.llm").joinpath("prices.json").read_text("utf-8"))
    return table["prices"], table["asOf"]


def with_cost(usage: Usage, price: ModelPrice | None) -> Usage:
    """`usage` with its cost: reported, else computed from `price`, else unknown. A missing cache price is the input's.

    Prices count as they are written: 0.1 is exactly a tenth.
    """
    if usage.cost is not None or price is None or not (usage.input_tokens or usage.output_tokens):
        return usage
    counts = (usage.cache_read, usage.cache_write, usage.output_tokens)
    fresh = max(0, usage.input_tokens - usage.cache_read - usage.cache_write)
    charged = (price.input if each is None else each for each in (price.cache_read, price.cache_write, price.output))
    total = fresh * Decimal(str(price.input))
    total += sum(count * Decimal(str(each)) for count, each in zip(counts, charged, strict=True))
    return replace(usage, cost=total / _MILLION)


def format_cost(cost: Decimal | None) -> str:
    """
    >>> format_cost(None), format_cost(Decimal("0")), format_cost(Decimal("0.01234"))
    ('unknown', '$0.0000', '$0.0123')
    """
    return "unknown" if cost is None else f"${cost:.4f}"


# --- what a model costs: for summaries that were made without one, and for all messages of an archive ---

#: Models whose prices are named, where they are known.
_EXAMPLES = ("openai/gpt-5-mini", "anthropic/claude-haiku-4-5")
_CENT = Decimal("0.01")


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
    """What the summaries of an archive, each read about once, would have cost; None when it has none."""
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
    cost = None if price is None else (read * price["input"] + written * price["output"]) / 1_000_000
    return {"messageTokens": tokens, "inputTokens": round(read), "outputTokens": round(written), "cost": cost}
