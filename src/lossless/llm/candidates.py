"""Which models to ask, in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Iterator

Source: TypeAlias = Literal["environment", "settings", "host-compaction", "host", "session", "fallback"]
_CONFIGURED: frozenset[Source] = frozenset({"environment", "settings", "fallback"})


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that may be asked, and who named it."""

    provider: str
    model: str
    source: Source = "settings"

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"

    @property
    def is_configured(self) -> bool:
        """Whether the user named it for this; only the host may ask its own or a session's model."""
        return self.source in _CONFIGURED


@dataclass(frozen=True, slots=True)
class Choices:
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


def candidate_order(choices: Choices) -> tuple[Candidate, ...]:
    """The models to ask, each once, first the ones that were named for it.

    Nothing named gives an empty order: a key that happens to lie in the environment names nothing. Raises
    `BadSetting` for a configured model without a provider.
    """
    unique: dict[tuple[str, str], Candidate] = {}
    for candidate in _in_order(choices):
        unique.setdefault((candidate.provider, candidate.model), candidate)
    return tuple(unique.values())


def configured(candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """Those that we may call ourselves: the user named them."""
    return tuple(candidate for candidate in candidates if candidate.is_configured)


def _in_order(choices: Choices) -> Iterator[Candidate]:
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
    model: str, provider: str, source: Source, setting: str = "", *, split: bool = True
) -> Iterator[Candidate]:
    model, provider = model.strip(), provider.strip()
    if not model:
        return
    if split and "/" in model:
        prefix, _, rest = model.partition("/")
        if prefix.strip() and rest.strip():
            provider, model = prefix.strip(), rest.strip()
    if provider:
        yield Candidate(provider.lower(), model, source)
    elif setting:
        raise BadSetting(setting, model, source, "provider/model, or a model with its provider set beside it")
