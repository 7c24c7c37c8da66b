"""Plan, show, confirm, apply: the steps that every command that changes an archive goes through.

Raises `CommandFailed` when what was named is not there.
"""

from __future__ import annotations

import dataclasses
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures
from lossless.cli.failures import printable
from lossless.cli.output import camel_case
from lossless.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lossless.cli.commands import Invocation
    from lossless.compaction.summariser import Summariser
    from lossless.engine import Engine
    from lossless.maintenance.surgery.common import OperationReport
    from lossless.settings import Settings
    from lossless.store.archive import Archive


def to_json(value: Any) -> Any:
    """A value with all values inside it, fields under JSON's names."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {camel_case(field.name): to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    return str(value) if isinstance(value, Path) else value


@contextmanager
def read_archive(invocation: Invocation) -> Iterator[Archive]:
    """The archive for planning, which changes nothing; what is not there comes with where to look."""
    with invocation.archive() as archive:
        try:
            yield archive
        except NotFound as error:
            family = {"summary": "summaries", "conversation": "conversations"}.get(error.kind)
            hint = f"`lcm {family} list` shows what is there." if family else ""
            details = {"kind": error.kind, "id": error.id}
            raise failures.fail(error.code, str(error), failures.NOT_FOUND, hint=hint, **details) from None


def result_json(report: OperationReport | None) -> dict[str, Any]:
    """What a surgery did, for the envelope."""
    return {"applied": report is not None, "done": to_json(report)}


def confirm(question: str, yes: bool, plan: str = "") -> None:
    """Ask a person at a terminal; a program that says `--apply` means it."""
    if yes or not sys.stdin.isatty():
        return
    if plan:
        click.echo(printable(plan), err=True)
    if not click.confirm(printable(question), err=True):
        click.echo("Nothing was changed.", err=True)
        raise click.exceptions.Exit(failures.INTERRUPTED)


def backup_maker(engine: Engine) -> Callable[[str], Path]:
    """Makes the copy before a surgery, beside the archive."""
    return lambda label: engine.admin.copy(label).path


def open_for_writing(
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
