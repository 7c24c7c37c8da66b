"""The interface to language models: a prompt in, a completion out, within a deadline, with usage and cost."""

from __future__ import annotations

import contextvars
import threading
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Generic, Literal, Protocol, Self, TypeAlias, TypeVar

from lossless.errors import LosslessError, ModelError, ModelTimeout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from lossless.settings import ModelPrice

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


#: A call that reported nothing.
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
    #: Whether the answer was truncated.
    incomplete: bool = False
    #: Types of the returned blocks, for diagnosis when none has text.
    blocks: tuple[str, ...] = ()


class Complete(Protocol):
    """Sends one prompt to a language model and returns its answer.

    Slow and fallible: raises `ModelError` or a subclass. Called from a worker thread when there is a time limit. Never
    accesses the archive.
    """

    def __call__(self, prompt: Prompt, /) -> Completion: ...


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CallOutcome(Generic[T]):
    """The result of foreign code: a value, or an error."""

    value: T | None = None
    error: BaseException | None = None


class _ThreadResult(Generic[T]):
    """Captures a thread's result, or whatever it raised."""

    def __init__(self) -> None:
        self.value: T | None = None
        self.error: BaseException | None = None
        self.done = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.error = error
        self.done.set()
        return True


def run_within(function: Callable[[], T], seconds: float) -> CallOutcome[T]:
    """The outcome of `function` within `seconds`; after that, an outcome whose error is `ModelTimeout`.

    It runs in its own daemon thread with the caller's context variables. A thread that hangs is abandoned: it blocks
    neither the caller nor the exit of the process.
    """
    box: _ThreadResult[T] = _ThreadResult()
    context = contextvars.copy_context()

    def work() -> None:
        with box:
            box.value = context.run(function)

    threading.Thread(target=work, name="lossless-model", daemon=True).start()
    if not box.done.wait(seconds):
        return CallOutcome(error=ModelTimeout(f"no answer within {seconds:g} s"))
    return CallOutcome(box.value, box.error)


def ask_within(complete: Complete, prompt: Prompt, seconds: float) -> Completion:
    """The answer of `complete` within `seconds`; any failure is raised as a `LosslessError`."""
    outcome = run_within(lambda: complete(prompt), seconds)
    if outcome.value is not None:
        return outcome.value
    raise as_lossless_error(outcome.error)


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


@dataclass(frozen=True, slots=True)
class TokenPrice:
    """US dollars per million tokens; a missing cache price is the input price."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None


@dataclass(frozen=True, slots=True)
class TotalCost:
    """A sum of costs: the known total, and how many calls have no known cost."""

    known: Decimal = Decimal(0)
    unknown_calls: int = 0

    def __str__(self) -> str:
        if not self.unknown_calls:
            return format_cost(self.known)
        calls = f"{self.unknown_calls} call{'s' if self.unknown_calls > 1 else ''} of unknown cost"
        return f"{format_cost(self.known)} + {calls}" if self.known else "unknown"


def read_prices(setting: Iterable[ModelPrice]) -> dict[str, TokenPrice]:
    """The user's prices by `provider/model`, as exact decimals."""
    return {
        price.model: TokenPrice(
            _exact(price.input),
            _exact(price.output),
            None if price.cache_read is None else _exact(price.cache_read),
            None if price.cache_write is None else _exact(price.cache_write),
        )
        for price in setting
    }


def list_prices() -> tuple[dict[str, dict[str, float]], str]:
    """The list prices that come with this package, by `provider/model`, and the day on which they were read.

    They are for estimates; what a call cost is reckoned with the user's own prices alone.
    """
    import json
    from importlib.resources import files

    table = json.loads((files("lossless.llm") / "prices.json").read_text("utf-8"))
    return table["prices"], table["asOf"]


def _exact(number: float) -> Decimal:
    """The number as it was written: 0.1 is exactly a tenth."""
    return Decimal(str(number))


def with_cost(usage: Usage, price: TokenPrice | None) -> Usage:
    """`usage` with its cost: reported, else computed from `price`, else unknown."""
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
