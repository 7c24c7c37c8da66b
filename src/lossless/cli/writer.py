"""Which model writes for one command alone: `--model`, `--provider` and `--base-url`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import click

from lossless.cli import failures
from lossless.cli.commands import text
from lossless.cli.options import bad, wrong
from lossless.compaction.summariser import Summariser
from lossless.errors import ModelError
from lossless.llm.connect import COMMAND
from lossless.model.summaries import EXTRACTIVE_MODEL

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.cli.invocation import Invocation
    from lossless.settings import Settings

F = TypeVar("F", bound="Callable[..., Any]")


@dataclass(frozen=True, slots=True)
class Named:
    """The model that a command names; what it does not say is as the settings have it."""

    model: str | None = None
    provider: str | None = None
    base_url: str | None = None

    def settings(self, configured: Settings) -> Settings:
        """The settings for this command: a model that is named is asked alone, without the fallbacks of others."""
        if self.model is None:
            if self.provider is not None:
                raise wrong("--provider says whose model it is: name the model with --model, too.")
            return configured if self.base_url is None else self._elsewhere(configured)
        asked = replace(
            configured,
            summary_model=self.model if self.provider is None else f"{self.provider}/{self.model}",
            summary_base_url="",
            fallback_providers=(),
        )
        if "/" not in asked.summary_model and not configured.summary_provider:
            raise bad("--model", "say whose model it is: PROVIDER/MODEL, or with --provider")
        if configured.summary_base_url and _provider(asked) == _provider(configured):
            asked = replace(asked, summary_base_url=configured.summary_base_url)
        return asked if self.base_url is None else self._elsewhere(asked)

    def _elsewhere(self, asked: Settings) -> Settings:
        provider = _provider(asked)
        if provider is None:
            raise wrong("--base-url is the address of a model: name the model with --model, too.")
        parts = urlsplit(str(self.base_url))
        if provider == COMMAND or parts.scheme not in ("http", "https") or not parts.netloc:
            why = "a command has no address" if provider == COMMAND else "it is not an address like https://host/v1"
            raise bad("--base-url", why)
        return replace(asked, summary_base_url=str(self.base_url))


def named_model(function: F) -> F:
    """Options that name a model for this command alone; it gets `named`."""

    @wraps(function)
    def with_model(*args: Any, model: str | None, provider: str | None, base_url: str | None, **more: Any) -> Any:
        return function(*args, named=Named(model, provider, base_url), **more)

    by_url = click.option("--base-url", metavar="URL", type=text, help="Another address of the model's provider.")
    by_provider = click.option("--provider", metavar="NAME", type=text, help="Whose model it is, when --model is bare.")
    by_name = click.option(
        "--model", metavar="NAME", type=text, help="PROVIDER/MODEL to ask this time; else the setting summaryModel."
    )
    return by_name(by_provider(by_url(with_model)))  # type: ignore[return-value]


def writer_of(settings: Settings) -> str:
    """Who would write: the first model, or nobody (then texts are extracted)."""
    return next((candidate.name for candidate in Summariser(settings).candidates()), EXTRACTIVE_MODEL)


def reachable(invocation: Invocation, named: Named) -> Settings:
    """The settings for this command; a model that it names and that could not be asked is an error at once."""
    settings = named.settings(invocation.loaded.settings)
    if named.model is None and named.base_url is None:
        return settings
    summariser = Summariser(settings)
    first = summariser.candidates()[0]
    try:
        if first.provider != COMMAND:
            summariser.connector().endpoint(first).check()
    except ModelError as error:
        hint = "--base-url gives another address; `lcm model test` says which models are configured, and their keys."
        raise failures.fail(error.code, str(error), failures.CONFIG, hint=hint, model=first.name) from None
    return settings


def _provider(settings: Settings) -> str | None:
    """Whose the first model is."""
    return next((candidate.provider for candidate in Summariser(settings).candidates()), None)
