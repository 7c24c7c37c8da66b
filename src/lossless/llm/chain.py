"""Calls models in order until one answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lossless.errors import GuardOpen, LosslessError, ModelAuth, ModelBadAnswer, ModelDenied, ModelError
from lossless.llm import completion
from lossless.llm.completion import NO_USAGE, Complete, Completion, Prompt, Usage

if TYPE_CHECKING:
    from lossless.settings.model_rules import ModelCandidate

#: `GuardOpen.guard` of a breaker and of a spend limit.
BREAKER_GUARD = "breaker"
CallEnding: TypeAlias = Literal["done", "failed", "auth"]
_log = logging.getLogger("lossless.llm")
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 8.0


class Gate:
    """Called before and after every call; this one allows every call. See `ArchiveGate` for breaker and spend limit."""

    __slots__ = ()

    def enter(self, candidate: ModelCandidate) -> object:
        """Permission for one call, as a ticket to return. Raises `GuardOpen` when the call must not be made."""
        return candidate

    def leave(self, ticket: Any, ending: CallEnding, usage: Usage = NO_USAGE) -> None:
        """The call is over: how it ended, and what it consumed."""


_OPEN_GATE = Gate()


@dataclass(frozen=True, slots=True)
class ModelChain:
    """Candidates tried in order, as one callable.

    An empty or truncated answer is requested once more with a higher limit. After a failure the next candidate is tried
    after a pause; the last failure is raised. A policy's denial and an open spend limit end the chain at once; an open
    breaker only skips its candidate.
    """

    candidates: Sequence[ModelCandidate]
    #: Makes a candidate's callable; called only when it is needed.
    connect: Callable[[ModelCandidate], Complete]
    timeout_seconds: float = 60.0
    gate: Gate = _OPEN_GATE
    sleep: Callable[[float], None] = time.sleep

    def __call__(self, prompt: Prompt, /) -> Completion:
        if not self.candidates:
            raise ModelDenied("no model is configured")
        *others, last = self.candidates
        for index, candidate in enumerate(others):
            try:
                return self._ask_twice(candidate, prompt)
            except (ModelError, GuardOpen) as error:
                if isinstance(error, ModelDenied) or (isinstance(error, GuardOpen) and error.guard != BREAKER_GUARD):
                    raise
                _log.warning("%s gave no answer (%s), calling the next model", candidate.name, error.code)
            self.sleep(pause_seconds(index))
        return self._ask_twice(last, prompt)

    def _ask_twice(self, candidate: ModelCandidate, prompt: Prompt) -> Completion:
        complete = self.connect(candidate)
        first = self._ask(candidate, complete, prompt)
        if first.text and not first.incomplete:
            return first
        try:
            raised_limit = max(2 * prompt.max_tokens, prompt.target_tokens)
            second = self._ask(candidate, complete, replace(prompt, max_tokens=raised_limit, reasoning="low"))
        except ModelError as error:
            if first.text and not isinstance(error, ModelDenied):
                return first
            raise
        if second.text:
            return second
        if first.text:
            return first
        blocks = ", ".join(second.blocks or first.blocks) or "none"
        _log.warning("no text in the answer of %s (blocks: %s)", candidate.name, blocks)
        raise ModelBadAnswer(f"{candidate.name} answered without text (blocks: {blocks})")

    def _ask(self, candidate: ModelCandidate, complete: Complete, prompt: Prompt) -> Completion:
        ticket = self.gate.enter(candidate)
        try:
            answer = completion.ask_within(complete, prompt, self.timeout_seconds)
        except LosslessError as error:
            self.gate.leave(ticket, "auth" if isinstance(error, ModelAuth) else "failed")
            raise
        self.gate.leave(ticket, "done", answer.usage)
        return answer


def pause_seconds(index: int) -> float:
    """The pause after the candidate at `index` failed.

    >>> [pause_seconds(i) for i in (0, 1, 4, 9)]
    [0.5, 1.0, 8.0, 8.0]
    """
    return min(_FIRST_PAUSE_SECONDS * (1 << min(index, 10)), _LONGEST_PAUSE_SECONDS)
