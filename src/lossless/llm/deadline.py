"""Waiting for foreign code no longer than was agreed."""

from __future__ import annotations

import contextvars
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from lossless.errors import LosslessError, ModelError, ModelTimeout

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from lossless.llm.base import Complete, Completion, Prompt

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What foreign code did: gave a value, or raised an error."""

    value: T | None = None
    error: BaseException | None = None


class _Box(Generic[T]):
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


def run(function: Callable[[], T], seconds: float) -> Outcome[T]:
    """What `function` did within `seconds`; past them, an outcome whose error is `ModelTimeout`.

    It runs in a daemon thread of its own with the caller's context variables. One that hangs is abandoned:
    it keeps neither the caller nor the end of the process waiting.
    """
    box: _Box[T] = _Box()
    context = contextvars.copy_context()

    def work() -> None:
        with box:
            box.value = context.run(function)

    threading.Thread(target=work, name="lossless-model", daemon=True).start()
    if not box.done.wait(seconds):
        return Outcome(error=ModelTimeout(f"no answer within {seconds:g} s"))
    return Outcome(box.value, box.error)


def ask(complete: Complete, prompt: Prompt, seconds: float) -> Completion:
    """The answer of `complete` within `seconds`; whatever goes wrong is raised as a `LosslessError`."""
    outcome = run(lambda: complete(prompt), seconds)
    if outcome.value is not None:
        return outcome.value
    raise as_ours(outcome.error)


def as_ours(error: BaseException | None) -> BaseException:
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
