"""Values of the library as JSON has them, and asking a person before something is changed."""

from __future__ import annotations

import dataclasses
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures
from lossless.cli.failures import printable
from lossless.cli.output import camel
from lossless.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lossless.cli.invocation import Invocation
    from lossless.compaction.summariser import Summariser
    from lossless.engine import Engine
    from lossless.settings import Settings
    from lossless.store.archive import Archive
    from lossless.surgery.outcome import Operated


def whole(value: Any) -> Any:
    """A value with all values inside it, fields under JSON's names."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {camel(field.name): whole(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [whole(item) for item in value]
    if isinstance(value, dict):
        return {str(key): whole(item) for key, item in value.items()}
    return str(value) if isinstance(value, Path) else value


@contextmanager
def looking(invocation: Invocation) -> Iterator[Archive]:
    """The archive for planning, which changes nothing; what is not there comes with where to look."""
    with invocation.archive() as archive:
        try:
            yield archive
        except NotFound as error:
            family = {"summary": "summaries", "conversation": "conversations"}.get(error.kind)
            hint = f"`lcm {family} list` shows what is there." if family else ""
            details = {"kind": error.kind, "id": error.id}
            raise failures.fail(error.code, str(error), failures.NOT_FOUND, hint=hint, **details) from None


def done(report: Operated | None) -> dict[str, Any]:
    """What a surgery did, for the envelope."""
    return {"applied": report is not None, "done": whole(report)}


def confirm(question: str, yes: bool, plan: str = "") -> None:
    """Ask a person at a terminal; a program that says `--apply` means it."""
    if yes or not sys.stdin.isatty():
        return
    if plan:
        click.echo(printable(plan), err=True)
    if not click.confirm(printable(question), err=True):
        click.echo("Nothing was changed.", err=True)
        raise click.exceptions.Exit(failures.INTERRUPTED)


def backups(engine: Engine) -> Callable[[str], Path]:
    """Makes the copy before a surgery, beside the archive."""
    return lambda label: engine.admin.copy(label).path


def open_engine(
    invocation: Invocation,
    prompt_dir: Path | None = None,
    asked: Settings | None = None,
    summariser: Summariser | None = None,
) -> Engine:
    """The engine for writing on an archive that is there; with templates or a writer of the command's own, if named."""
    from lossless.compaction.summariser import Summariser
    from lossless.engine import Engine
    from lossless.store.archive import Archive

    invocation.archive().close()
    settings = asked or invocation.loaded.settings
    summariser = summariser or Summariser(settings, prompt_folder=prompt_dir)
    return Engine(Archive.open(invocation.file_path), settings, background=False, summariser=summariser)
