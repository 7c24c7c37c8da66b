"""Which times a model reads for one command alone: `--timestamps` and `--tz`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lossless.cli.commands import text
from lossless.cli.options import bad, wrong
from lossless.compaction.summariser import Summariser
from lossless.settings.kinds import is_time_zone

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lossless.settings import Settings

F = TypeVar("F", bound="Callable[..., Any]")


@dataclass(frozen=True, slots=True)
class Times:
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
            raise bad("--tz", f"{self.zone!r:.80} is not a time zone such as Europe/Berlin")
        if not self.are_shown and self.zone is not None:
            raise wrong("--tz says in which zone times are; with --no-timestamps there are none.")
        if not self.are_shown and not Summariser(configured).has_model:
            raise wrong("--no-timestamps is about what a model reads; name one with --model.")
        return configured if self.zone is None else replace(configured, timezone=self.zone)

    def summariser(self, settings: Settings, prompt_folder: Path | None) -> Summariser:
        """Who writes, with templates of this command's own if named."""
        plain = Summariser(settings, prompt_folder=prompt_folder)
        if self.are_shown:
            return plain
        from lossless.revising.times import timeless

        return replace(plain, connect=lambda candidate: timeless(plain.connector()(candidate)))


def source_times(function: F) -> F:
    """Options for the times in what a model reads; the command gets `times`."""

    @wraps(function)
    def with_times(*args: Any, timestamps: bool, tz: str | None, **more: Any) -> Any:
        return function(*args, times=Times(timestamps, tz), **more)

    zone = click.option("--tz", metavar="ZONE", type=text, help="The zone of these times; else the setting timezone.")
    shown = click.option(
        "--timestamps/--no-timestamps", default=True, help="Whether messages come with their times; they do."
    )
    return shown(zone(with_times))  # type: ignore[return-value]
