"""The one seam to language models: a prompt in, a completion out, within a deadline, with its usage and cost."""

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

#: How much a model is asked to think before it answers; None leaves it to the model.
Effort: TypeAlias = Literal["low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One question to a model. `purpose` says what it is for (`summary`, `file`, `answer`, …)."""

    system: str
    user: str
    #: The most tokens that the answer may take, thinking included.
    max_tokens: int
    #: Sent only where the model takes it.
    temperature: float | None = None
    purpose: str = "summary"
    reasoning: Effort | None = None
    #: The size that the answer should have, when there is one: a second try leaves at least this much room.
    target_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call consumed, as its provider reported it; a cost of None is unknown, never zero."""

    #: All tokens of the prompt, those read from and written to a cache included.
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
    """A model's answer without its thinking; an empty text is an answer that says nothing."""

    text: str
    #: `provider/model`, or the name that a host or a command goes by.
    model: str
    usage: Usage = NO_USAGE
    #: Why generation ended, as the provider spells it.
    stop_reason: str | None = None
    #: The answer was cut off before its end.
    incomplete: bool = False
    #: Types of the blocks that came back, for a diagnosis when there is no text among them.
    blocks: tuple[str, ...] = ()


class Complete(Protocol):
    """Sends one prompt to a language model and returns its answer.

    Slow, and it may fail: raises `ModelError`, or the class below it that says why. Called from a worker
    thread when a time limit is to be kept. Never touches the archive.
    """

    def __call__(self, prompt: Prompt, /) -> Completion: ...


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CallOutcome(Generic[T]):
    """What foreign code did: gave a value, or raised an error."""

    value: T | None = None
    error: BaseException | None = None


class _ThreadResult(Generic[T]):
    """Takes what a thread leaves behind, whatever it raised."""

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
    """What `function` did within `seconds`; past them, an outcome whose error is `ModelTimeout`.

    It runs in a daemon thread of its own with the caller's context variables. One that hangs is abandoned:
    it keeps neither the caller nor the end of the process waiting.
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
    """The answer of `complete` within `seconds`; whatever goes wrong is raised as a `LosslessError`."""
    outcome = run_within(lambda: complete(prompt), seconds)
    if outcome.value is not None:
        return outcome.value
    raise as_lossless_error(outcome.error)


def as_lossless_error(error: BaseException | None) -> BaseException:
    """`error` as one of ours: an ordinary exception of foreign code becomes a `ModelError` that names it."""
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
    """US dollars for a million tokens; a cache price that is not given is the input price."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None


@dataclass(frozen=True, slots=True)
class TotalCost:
    """A sum of costs: what is known, and how many calls have no known cost."""

    known: Decimal = Decimal(0)
    unknown_calls: int = 0

    def __str__(self) -> str:
        if not self.unknown_calls:
            return format_cost(self.known)
        calls = f"{self.unknown_calls} call{'s' if self.unknown_calls > 1 else ''} of unknown cost"
        return f"{format_cost(self.known)} + {calls}" if self.known else "unknown"


def read_prices(setting: Iterable[ModelPrice]) -> dict[str, TokenPrice]:
    """The user's prices by `provider/model`, as exact numbers."""
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
    """The number as it was written: 0.1 is a tenth."""
    return Decimal(str(number))


def with_cost(usage: Usage, price: TokenPrice | None) -> Usage:
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
