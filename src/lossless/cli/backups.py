"""`lcm backup`, `lcm backups`, `lcm restore`: copies of the archive, and putting one back."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures
from lossless.cli.commands import Command, text
from lossless.cli.failures import printable
from lossless.cli.options import wrong
from lossless.cli.output import shape_if_there
from lossless.cli.toolbox import vault_of
from lossless.lifecycle import backup as copies
from lossless.paths import expanded

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.lifecycle.backup import Backup
    from lossless.store.archive import Archive


@click.command("backup", cls=Command)
@click.argument("path", metavar="[PATH]", type=text, required=False)
@click.option("--rolling", is_flag=True, help="Replace the rolling backup beside the archive.")
@click.pass_obj
def backup(invocation: Invocation, path: str | None, rolling: bool) -> None:
    """Copy the archive to PATH, or beside it under a name with the time.

    The copy is whole even while others write. Large payloads are put into a folder beside it, as links where that is
    possible, so that they take no room twice.
    """
    if path is not None and rolling:
        raise wrong("--rolling has its own place; give it or PATH, not both.")
    label = copies.ROLLING if rolling else "backup"
    with invocation.archive() as archive, bar(invocation, "Copying", archive.care.size()[0]) as advance:
        if path is None:
            made = copies.make_beside(archive, label, datetime.now(UTC), advance, vault=vault_of(invocation))
        else:
            place = expanded(path).absolute()
            made = copies.make(archive, place, progress=advance, vault=vault_of(invocation))
    invocation.emit("backup", {**_shown(made), "files": made.files})


@click.command("backups", cls=Command)
@click.pass_obj
def backups(invocation: Invocation) -> None:
    """List the backups beside the archive, newest first."""
    found = copies.listed(invocation.file_path)
    data = {
        "count": len(found),
        "bytes": sum(item.bytes for item in found),
        "items": [_shown(item) for item in found],
    }
    invocation.emit("backups", data)


@click.command("restore", cls=Command)
@click.argument("source", metavar="BACKUP", type=text)
@click.option("--yes", is_flag=True, help="Do it without asking; a program must give this.")
@click.pass_obj
def restore(invocation: Invocation, source: str, yes: bool) -> None:
    """Replace the archive with BACKUP: a path, or the name of a file that `lcm backups` lists.

    The backup is proved as `lcm verify` does, then what is there now is backed up, then it is replaced as a whole. It
    refuses while another process has the archive open. Without --yes, only the backup is proved, and at a terminal
    you are asked.
    """
    archive_path = invocation.file_path
    place = _find(source, archive_path)
    data: dict[str, Any] = {"applied": False, "databasePath": archive_path, "source": str(place)}
    warnings: list[str] = []
    if not yes:
        counts = copies.inspect(place, lambda archive: _problems(archive, warnings))
        data |= {"counts": shape_if_there(counts), "warnings": len(warnings)}
        if not agrees(f"Replace {archive_path} by {place.name} ({counts.messages:,} messages)?"):
            invocation.emit("restore", data)
            return
        warnings.clear()
    with bar(invocation, "Restoring", place.stat().st_size if place.is_file() else None) as advance:
        done = copies.restore(
            place,
            archive_path,
            lambda archive: _problems(archive, warnings),
            datetime.now(UTC),
            advance,
            vault_of(invocation),
        )
    if warnings:  # some may have been of payloads that are back now
        warnings.clear()
        with invocation.archive() as archive:
            _problems(archive, warnings)
    data |= {
        "applied": True,
        "previous": None if done.previous is None else str(done.previous),
        "before": shape_if_there(done.before),
        "counts": shape_if_there(done.after),
        "files": done.files,
        "warnings": len(warnings),
    }
    invocation.emit("restore", data)


def _shown(made: Backup) -> dict[str, Any]:
    return {
        "path": str(made.path),
        "label": made.label,
        "madeAt": made.made_at,
        "bytes": made.bytes,
        "rolling": made.is_rolling,
    }


def _find(source: str, archive_path: str) -> Path:
    """The file that a person means: a path, or a name beside the archive."""
    given = expanded(source)
    beside = Path(archive_path).parent / source
    place = given if given.is_file() or not beside.is_file() else beside
    if not place.is_file():
        raise failures.fail(
            "not_found",
            f"There is no backup {source!r}.",
            failures.NOT_FOUND,
            hint="`lcm backups` lists those beside the archive.",
            path=source,
        )
    return place.absolute()


def _problems(archive: Archive, warnings: list[str]) -> list[str]:
    """What is wrong with an archive, without warnings and without payloads, which a backup keeps in its own folder."""
    from lossless.verify import verify

    found = verify(archive).problems
    warnings += [str(problem) for problem in found if problem.severity == "warning" or problem.check == "files"]
    return [str(problem) for problem in found if problem.severity == "error" and problem.check != "files"]


def agrees(question: str) -> bool:
    """Ask a person at a terminal; a program has not agreed."""
    return sys.stdin.isatty() and click.confirm(printable(question), err=True)


def bar(invocation: Invocation, what: str, total: int | None) -> Any:
    """A bar that counts bytes, for somebody who watches."""
    if not invocation.shows_progress:
        return nullcontext()
    from lossless.cli.progress import reading

    return reading(what, total)
