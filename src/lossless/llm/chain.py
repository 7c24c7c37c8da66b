"""Which models to ask, in which order, until one answers."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from lossless.errors import BadSetting, GuardOpen, LosslessError, ModelAuth, ModelBadAnswer, ModelDenied, ModelError
from lossless.llm import completion
from lossless.llm.completion import NO_USAGE
from lossless.llm.guard import BREAKER_GUARD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lossless.llm.completion import Complete, Completion, Prompt, Usage

CallEnding: TypeAlias = Literal["done", "failed", "auth"]
_log = logging.getLogger("lossless.llm")
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 8.0


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call as it went: how it ended, how long it took, what it consumed."""

    candidate: ModelCandidate
    ending: CallEnding
    seconds: float
    usage: Usage = NO_USAGE
    #: The `code` of the error that ended it, empty when there was none.
    error: str = ""


class Gate(Protocol):
    """Asked before every call and told after it; breaker and spend limit stand behind it."""

    def enter(self, candidate: ModelCandidate) -> object:
        """Leave for one call, as a ticket to hand back. Raises `GuardOpen` when the call must not be made."""

    def leave(self, ticket: object, attempt: Attempt) -> None:
        """The call is over."""


class OpenGate:
    """A gate that lets every call pass."""

    def enter(self, candidate: ModelCandidate) -> object:
        return candidate

    def leave(self, ticket: object, attempt: Attempt) -> None:
        """Nothing is kept."""


_OPEN_GATE = OpenGate()


@dataclass(frozen=True, slots=True)
class ModelChain:
    """Candidates asked in order, as one callable.

    An empty or cut-off answer is asked for once more with more room. A failure moves on to the next
    candidate after a pause, and is raised after the last one. A policy's denial and an open spend limit
    end the chain at once; an open breaker only skips its candidate.
    """

    candidates: Sequence[ModelCandidate]
    #: Makes a candidate's callable; called when its turn comes, never before.
    connect: Callable[[ModelCandidate], Complete]
    timeout_seconds: float = 60.0
    gate: Gate = _OPEN_GATE
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def __call__(self, prompt: Prompt, /) -> Completion:
        if not self.candidates:
            raise ModelDenied("no model is configured")
        *others, last = self.candidates
        for index, candidate in enumerate(others):
            try:
                return self._ask_twice(candidate, prompt)
            except (ModelError, GuardOpen) as error:
                if _ends_the_chain(error):
                    raise
                _log.warning("%s gave no answer (%s), asking the next model", candidate.name, error.code)
            self.sleep(pause_seconds(index))
        return self._ask_twice(last, prompt)

    def _ask_twice(self, candidate: ModelCandidate, prompt: Prompt) -> Completion:
        complete = self.connect(candidate)
        first = self._ask(candidate, complete, prompt)
        if first.text and not first.incomplete:
            return first
        try:
            second = self._ask(candidate, complete, with_more_room(prompt))
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
        started = self.clock()
        try:
            answer = completion.ask_within(complete, prompt, self.timeout_seconds)
        except LosslessError as error:
            ending: CallEnding = "auth" if isinstance(error, ModelAuth) else "failed"
            attempt = Attempt(candidate, ending, self.clock() - started, error=error.code)
            self.gate.leave(ticket, attempt)
            raise
        self.gate.leave(ticket, Attempt(candidate, "done", self.clock() - started, answer.usage))
        return answer


def with_more_room(prompt: Prompt) -> Prompt:
    """The prompt for a second try: twice the room, at least the target, and little thinking."""
    return replace(prompt, max_tokens=max(2 * prompt.max_tokens, prompt.target_tokens), reasoning="low")


def pause_seconds(index: int) -> float:
    """The pause after the candidate at `index` failed.

    >>> [pause_seconds(i) for i in (0, 1, 4, 9)]
    [0.5, 1.0, 8.0, 8.0]
    """
    return min(_FIRST_PAUSE_SECONDS * (1 << min(index, 10)), _LONGEST_PAUSE_SECONDS)


def _ends_the_chain(error: LosslessError) -> bool:
    return isinstance(error, ModelDenied) or (isinstance(error, GuardOpen) and error.guard != BREAKER_GUARD)


CandidateSource: TypeAlias = Literal["environment", "settings", "host-compaction", "host", "session", "fallback"]
_CONFIGURED: frozenset[CandidateSource] = frozenset({"environment", "settings", "fallback"})


@dataclass(frozen=True, slots=True)
class ModelCandidate:
    """A model that may be asked, and who named it."""

    provider: str
    model: str
    source: CandidateSource = "settings"

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"

    @property
    def is_configured(self) -> bool:
        """Whether the user named it for this; only the host may ask its own or a session's model."""
        return self.source in _CONFIGURED


@dataclass(frozen=True, slots=True)
class ModelChoices:
    """What settings, host and session say about the model; an empty text says nothing.

    A model may be written `provider/model`; that provider wins over the separate one.
    """

    env_model: str = ""
    env_provider: str = ""
    summary_model: str = ""
    summary_provider: str = ""
    #: The host's `agents.defaults.compaction.model` and `agents.defaults.model`.
    host_compaction_model: str = ""
    host_model: str = ""
    #: The model that the session runs on.
    session_model: str = ""
    session_provider: str = ""
    fallbacks: tuple[tuple[str, str], ...] = ()


def candidate_order(choices: ModelChoices) -> tuple[ModelCandidate, ...]:
    """The models to ask, each once, first the ones that were named for it.

    Nothing named gives an empty order: a key that happens to lie in the environment names nothing. Raises
    `BadSetting` for a configured model without a provider.
    """
    unique: dict[tuple[str, str], ModelCandidate] = {}
    for candidate in _in_order(choices):
        unique.setdefault((candidate.provider, candidate.model), candidate)
    return tuple(unique.values())


def configured_candidates(candidates: tuple[ModelCandidate, ...]) -> tuple[ModelCandidate, ...]:
    """Those that we may call ourselves: the user named them."""
    return tuple(candidate for candidate in candidates if candidate.is_configured)


def _in_order(choices: ModelChoices) -> Iterator[ModelCandidate]:
    env_provider = choices.env_provider or choices.summary_provider
    yield from _candidate(choices.env_model, env_provider, "environment", "LCM_SUMMARY_MODEL")
    provider = choices.summary_provider or choices.env_provider
    yield from _candidate(choices.summary_model, provider, "settings", "summaryModel")
    yield from _candidate(choices.host_compaction_model, "", "host-compaction")
    yield from _candidate(choices.host_model, "", "host")
    session_provider = choices.session_provider
    yield from _candidate(choices.session_model, session_provider, "session", split=not session_provider.strip())
    for provider, model in choices.fallbacks:
        yield from _candidate(model, provider, "fallback", "fallbackProviders", split=not provider.strip())


def _candidate(
    model: str, provider: str, source: CandidateSource, setting: str = "", *, split: bool = True
) -> Iterator[ModelCandidate]:
    model, provider = model.strip(), provider.strip()
    if not model:
        return
    if split and "/" in model:
        prefix, _, rest = model.partition("/")
        if prefix.strip() and rest.strip():
            provider, model = prefix.strip(), rest.strip()
    if provider:
        yield ModelCandidate(provider.lower(), model, source)
    elif setting:
        raise BadSetting(setting, model, source, "provider/model, or a model with its provider set beside it")
