"""The host's own model: the host owns keys, choice and policy, and may say no."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lossless.errors import LosslessError, ModelAuth, ModelDenied, ModelError, ModelTimeout
from lossless.llm import deadline, failures, normalise
from lossless.llm.base import Completion

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.llm.base import Prompt


@dataclass(frozen=True, slots=True)
class HostModel:
    """A host's callable as a model.

    The callable gets the prompt and returns a text, a response object in any provider's shape, or a
    `Completion`. A denial fails closed: `ModelDenied` is raised and no other model is asked instead.
    """

    call: Callable[[Prompt], object]
    name: str = "host"
    timeout_seconds: float = 60.0

    def __call__(self, prompt: Prompt, /) -> Completion:
        outcome = deadline.run(lambda: self.call(prompt), self.timeout_seconds)
        if outcome.error is not None:
            raise self._failure(outcome.error)
        return self._answer(outcome.value)

    def _answer(self, result: object) -> Completion:
        if result is None:
            raise ModelDenied(f"{self.name} has no model to offer")
        if isinstance(result, Completion):
            return replace(result, text=normalise.strip_reasoning(result.text))
        if inspect.iscoroutine(result):
            result.close()
            raise ModelDenied(f"{self.name} gave a coroutine: pass a callable that waits for its answer")
        if failures.answer_is_auth_failure(result):
            raise ModelAuth(f"{self.name}: {failures.message_of(result) or 'credentials were refused'}")
        if (error := failures.error_of(result)) is not None:
            raise self._failure(error)
        return normalise.completion(result, self.name)

    def _failure(self, error: object) -> BaseException:
        """`error` as one of ours: what credentials, policy and clock have refused, told apart."""
        if isinstance(error, LosslessError) or (isinstance(error, BaseException) and not isinstance(error, Exception)):
            return error
        reason = f"{self.name}: {failures.message_of(error) or type(error).__name__}"
        kind = ModelError
        if isinstance(error, TimeoutError):
            kind = ModelTimeout
        elif failures.is_auth(error):
            kind = ModelAuth
        elif failures.is_denied(error):
            kind = ModelDenied
        ours = kind(reason)
        ours.__cause__ = error if isinstance(error, BaseException) else None
        return ours
