"""`lcm model`, and the options that choose the model and the source times for one command."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import click

from lossless.cli import failures
from lossless.cli.commands import Group, text_type
from lossless.cli.options import bad_option, usage_error
from lossless.cli.output import preview
from lossless.compaction.summariser import Summariser
from lossless.errors import LosslessError, ModelError
from lossless.llm.chain import OpenGate
from lossless.llm.completion import Prompt, format_cost
from lossless.llm.providers import COMMAND_PROVIDER
from lossless.model.summaries import EXTRACTIVE_MODEL
from lossless.settings.kinds import is_time_zone
from lossless.settings.setting import mask_passwords

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lossless.cli.commands import Invocation
    from lossless.settings import Settings
    from lossless.settings.model_rules import ModelCandidate

F = TypeVar("F", bound="Callable[..., Any]")


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The model that a command names; what it does not say is as the settings have it."""

    model: str | None = None
    provider: str | None = None
    base_url: str | None = None

    def settings(self, configured: Settings) -> Settings:
        """The settings for this command: a model that is named is asked alone, without the fallbacks of others."""
        if self.model is None:
            if self.provider is not None:
                raise usage_error("--provider says whose model it is: name the model with --model, too.")
            return configured if self.base_url is None else self._at_base_url(configured)
        asked = replace(
            configured,
            summary_model=self.model if self.provider is None else f"{self.provider}/{self.model}",
            summary_base_url="",
            fallback_providers=(),
        )
        if "/" not in asked.summary_model and not configured.summary_provider:
            raise bad_option("--model", "say whose model it is: PROVIDER/MODEL, or with --provider")
        if configured.summary_base_url and _provider(asked) == _provider(configured):
            asked = replace(asked, summary_base_url=configured.summary_base_url)
        return asked if self.base_url is None else self._at_base_url(asked)

    def _at_base_url(self, asked: Settings) -> Settings:
        provider = _provider(asked)
        if provider is None:
            raise usage_error("--base-url is the address of a model: name the model with --model, too.")
        parts = urlsplit(str(self.base_url))
        if provider == COMMAND_PROVIDER or parts.scheme not in ("http", "https") or not parts.netloc:
            why = (
                "a command has no address"
                if provider == COMMAND_PROVIDER
                else "it is not an address like https://host/v1"
            )
            raise bad_option("--base-url", why)
        return replace(asked, summary_base_url=str(self.base_url))


def model_options(function: F) -> F:
    """Options that name a model for this command alone; it gets `named`."""

    @wraps(function)
    def with_model(*args: Any, model: str | None, provider: str | None, base_url: str | None, **more: Any) -> Any:
        return function(*args, named=ModelChoice(model, provider, base_url), **more)

    by_url = click.option("--base-url", metavar="URL", type=text_type, help="Another address of the model's provider.")
    by_provider = click.option(
        "--provider", metavar="NAME", type=text_type, help="Whose model it is, when --model is bare."
    )
    by_name = click.option(
        "--model",
        metavar="NAME",
        type=text_type,
        help="PROVIDER/MODEL to ask this time; else the setting summaryModel.",
    )
    return by_name(by_provider(by_url(with_model)))  # type: ignore[return-value]


def writer_name(settings: Settings) -> str:
    """Who would write: the first model, or nobody (then texts are extracted)."""
    return next((candidate.name for candidate in Summariser(settings).candidates()), EXTRACTIVE_MODEL)


def settings_with_model(invocation: Invocation, named: ModelChoice) -> Settings:
    """The settings for this command; a model that it names and that could not be asked is an error at once."""
    settings = named.settings(invocation.loaded.settings)
    if named.model is None and named.base_url is None:
        return settings
    summariser = Summariser(settings)
    first = summariser.candidates()[0]
    try:
        if first.provider != COMMAND_PROVIDER:
            summariser.connector().endpoint(first).check()
    except ModelError as error:
        hint = "--base-url gives another address; `lcm model test` says which models are configured, and their keys."
        raise failures.fail(error.code, str(error), failures.CONFIG, hint=hint, model=first.name) from None
    return settings


def _provider(settings: Settings) -> str | None:
    """Whose the first model is."""
    return next((candidate.provider for candidate in Summariser(settings).candidates()), None)


@dataclass(frozen=True, slots=True)
class SourceTimes:
    """Whether messages and summaries come with their times, and in which zone."""

    are_shown: bool = True
    zone: str | None = None

    @property
    def name(self) -> str:
        """What tells a run with these times from others; empty for the ordinary ones."""
        return " ".join([*([] if self.are_shown else ["without times"]), *([self.zone] if self.zone else [])])

    def settings(self, configured: Settings) -> Settings:
        """The settings for this command, with its zone."""
        if self.zone is not None and not is_time_zone(self.zone):
            raise bad_option("--tz", f"{self.zone!r:.80} is not a time zone such as Europe/Berlin")
        if not self.are_shown and self.zone is not None:
            raise usage_error("--tz says in which zone times are; with --no-timestamps there are none.")
        if not self.are_shown and not Summariser(configured).has_model:
            raise usage_error("--no-timestamps is about what a model reads; name one with --model.")
        return configured if self.zone is None else replace(configured, timezone=self.zone)

    def summariser(self, settings: Settings, prompt_folder: Path | None) -> Summariser:
        """Who writes, with templates of this command's own if named."""
        plain = Summariser(settings, prompt_folder=prompt_folder)
        if self.are_shown:
            return plain
        from lossless.maintenance.surgery.rewriting import complete_without_times

        return replace(plain, connect=lambda candidate: complete_without_times(plain.connector()(candidate)))


def source_time_options(function: F) -> F:
    """Options for the times in what a model reads; the command gets `times`."""

    @wraps(function)
    def with_times(*args: Any, timestamps: bool, tz: str | None, **more: Any) -> Any:
        return function(*args, times=SourceTimes(timestamps, tz), **more)

    zone = click.option(
        "--tz", metavar="ZONE", type=text_type, help="The zone of these times; else the setting timezone."
    )
    shown = click.option(
        "--timestamps/--no-timestamps", default=True, help="Whether messages come with their times; they do."
    )
    return shown(zone(with_times))  # type: ignore[return-value]


_TEST = Prompt("Answer with one word.", "Say: ready", max_tokens=512, temperature=0.0, purpose="test", reasoning="low")


@click.group("model", cls=Group)
def model() -> None:
    """Say which models write summaries, and try them."""


@model.command("test")
@click.option("--no-call", is_flag=True, help="Only say what would be used.")
@click.pass_context
def check_models(ctx: click.Context, no_call: bool) -> None:
    """Say which models would write summaries, in the order in which they are asked, and ask each for one word.

    Without a configured model, summaries are extracted: nothing is called, whatever keys lie in the environment.
    Exit code 1 when models are configured and none of them answers. Keys are never shown.
    """
    invocation: Invocation = ctx.obj
    summariser = Summariser(invocation.loaded.settings)
    items = [_candidate_json(summariser, candidate) for candidate in summariser.candidates()]
    if not no_call:
        items = [
            item | _try_candidate(summariser, candidate)
            for item, candidate in zip(items, summariser.candidates(), strict=True)
        ]
    answers = [item["name"] for item in items if item.get("ok")]
    data = {
        "configured": bool(items),
        "summaries": "written" if items else "extracted",
        "writer": answers[0] if answers else items[0]["name"] if items else EXTRACTIVE_MODEL,
        "items": items,
    }
    is_good = no_call or not items or bool(answers)
    invocation.emit("model.test", data, ok=is_good)
    ctx.exit(failures.OK if is_good else failures.INTERNAL)


def _candidate_json(summariser: Summariser, candidate: ModelCandidate) -> dict[str, Any]:
    """Where a model is and where its key comes from; `problem` says why it could not be asked."""
    item: dict[str, Any] = {"name": candidate.name, "namedBy": candidate.source, "address": None, "keyFrom": None}
    if candidate.provider == COMMAND_PROVIDER:
        return item | {"address": candidate.model}
    try:
        endpoint = summariser.connector().endpoint(candidate)
        key = endpoint.credential
        item |= {"address": mask_passwords(endpoint.address), "keyFrom": None if key is None else key.source}
        endpoint.check()
    except ModelError as error:
        return item | {"problem": str(error)}
    return item


def _try_candidate(summariser: Summariser, candidate: ModelCandidate) -> dict[str, Any]:
    """What came of asking it for one word."""
    chain = replace(summariser.chain(OpenGate()), candidates=(candidate,))
    started = time.monotonic()
    try:
        answer = chain(_TEST)
    except LosslessError as error:
        return {"ok": False, "seconds": _seconds_since(started), "error": error.code, "message": str(error)}
    return {
        "ok": True,
        "seconds": _seconds_since(started),
        "answer": preview(answer.text),
        "inputTokens": answer.usage.input_tokens,
        "outputTokens": answer.usage.output_tokens,
        "cost": format_cost(answer.usage.cost),
    }


def _seconds_since(started: float) -> float:
    return round(time.monotonic() - started, 3)
