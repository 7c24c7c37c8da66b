"""`lcm import lossless-claw|remnic|archive`: whole archives come in, and nothing of them is doubled."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from lossless.cli import failures
from lossless.cli.commands import Command, text
from lossless.cli.toolbox import vault_of
from lossless.errors import BadInput, LosslessError
from lossless.paths import expanded
from lossless.recall.redacting import redactor
from lossless.store.archive import Archive
from lossless.store.sources import check_remnic, open_claw
from lossless.transfer.archive_file import check_archive, import_archive
from lossless.transfer.lossless_claw import ImportOptions, import_lossless_claw
from lossless.transfer.remnic_in import import_remnic, place_of
from lossless.transfer.remnic_out import RemnicOptions, export_remnic
from lossless.verify import verify as verify_archive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lossless.cli.failures import Failure
    from lossless.cli.invocation import Invocation
    from lossless.files.vault import Vault
    from lossless.transfer.reports import ImportReport

    #: Looks at a source before anything is made; what it returns brings the source in.
    Import = Callable[[str], Callable[[Archive, Vault, ImportOptions], ImportReport]]

#: What is left to do once everything is over.
_HINT = (
    'Once all is well, drop contextEngine: "lossless-claw" from plugins.slots: OpenClaw falls back to its built-in '
    "compaction, and lossless keeps the archive beside it."
)
_REMNIC_HINT = (
    'Once all is well, drop contextEngine: "lossless-claw" from plugins.slots: OpenClaw falls back to its built-in '
    "compaction, which Remnic complements and does not replace."
)
#: So many warnings are shown; the others are counted.
_SHOWN = 100


def _of_claw(source: str) -> Callable[[Archive, Vault, ImportOptions], ImportReport]:
    open_claw(source).close()
    return partial(import_lossless_claw, source)


def _of_remnic(source: str) -> Callable[[Archive, Vault, ImportOptions], ImportReport]:
    check_remnic(place_of(source))
    return partial(import_remnic, source)


def _of_file(source: str) -> Callable[[Archive, Vault, ImportOptions], ImportReport]:
    found = check_archive(source)
    return lambda archive, vault, options: import_archive(source, archive, vault, options, found)


def _source(function: Any) -> Any:
    """What all imports take."""
    for decorate in (
        click.option("--verify", "is_verified", is_flag=True, help="Prove the whole archive afterwards."),
        click.option(
            "--session",
            "--session-filter",
            "sessions",
            metavar="ID",
            type=text,
            multiple=True,
            help="Only this session, by its id or key; may be given several times.",
        ),
        click.option("--dry-run", is_flag=True, help="Only count; nothing is written."),
        click.argument("source", metavar="SRC", type=text),
    ):
        function = decorate(function)
    return function


_files_dir = click.option(
    "--files-dir", metavar="DIR", type=text, help="Where the source's large files lie, if not beside it."
)


@click.command("lossless-claw", cls=Command)
@_source
@_files_dir
@click.pass_obj
def lossless_claw(
    invocation: Invocation,
    source: str,
    dry_run: bool,
    sessions: tuple[str, ...],
    files_dir: str | None,
    is_verified: bool,
) -> None:
    """Copy the conversations of SRC, a lossless-claw database or another archive, into this archive.

    Messages with their parts, summaries, contexts, files and focus briefs come along. SRC is only read. A conversation
    that is here already gains what it lacks; the same import twice adds nothing.
    """
    options = ImportOptions(dry_run, frozenset(sessions), files_dir)
    _bring(invocation, "import.lossless-claw", source, _of_claw, options, is_verified, _HINT)


@click.command("remnic", cls=Command)
@_source
@click.pass_obj
def remnic(invocation: Invocation, source: str, dry_run: bool, sessions: tuple[str, ...], is_verified: bool) -> None:
    """Copy the sessions of SRC, a Remnic database or a memory folder of Remnic's, into this archive.

    What came to Remnic from lossless-claw becomes the conversations that it was; with the tables that `lcm export
    remnic` leaves there it comes back exactly. SRC is only read; the same import twice adds nothing.
    """
    options = ImportOptions(dry_run, frozenset(sessions))
    _bring(invocation, "import.remnic", source, _of_remnic, options, is_verified)


@click.command("archive", cls=Command)
@_source
@_files_dir
@click.pass_obj
def archive(
    invocation: Invocation,
    source: str,
    dry_run: bool,
    sessions: tuple[str, ...],
    files_dir: str | None,
    is_verified: bool,
) -> None:
    """Bring SRC, a file of `lcm export archive`, into this archive.

    The whole file is proven before anything is written. Into an empty archive everything comes back under its own
    numbers; into another, what is there already is left alone.
    """
    options = ImportOptions(dry_run, frozenset(sessions), files_dir)
    _bring(invocation, "import.archive", source, _of_file, options, is_verified)


def bring_archive(invocation: Invocation, source: str, *, dry_run: bool) -> None:
    """Bring a whole archive in, as `lcm import archive` does."""
    _bring(invocation, "import.archive", source, _of_file, ImportOptions(dry_run), is_verified=True)


def _bring(
    invocation: Invocation,
    command: str,
    source: str,
    look: Import,
    options: ImportOptions,
    is_verified: bool,
    hint: str = "",
) -> None:
    bring = look(source)
    with _target(invocation, dry_run=options.dry_run) as target, watching(invocation, "Importing") as advance:
        wanted = ImportOptions(options.dry_run, options.sessions, options.files_dir, advance)
        report = bring(target, vault_of(invocation), wanted)
        is_over = bool(report.sessions_touched) and not options.dry_run
        data = shown(report.data()) | ({"hint": hint} if hint and is_over else {})
        problems = _problems(target, vault_of(invocation)) if is_verified and not options.dry_run else None
    if problems is not None:
        data["verified"] = {"ok": not problems, "problems": problems[:_SHOWN]}
    invocation.emit(command, data, ok=not problems)
    if problems:
        raise click.exceptions.Exit(failures.INTERNAL)


@contextmanager
def _target(invocation: Invocation, *, dry_run: bool) -> Iterator[Archive]:
    """The archive that things come into; a dry run opens it for reading, or an empty one where none is."""
    path = invocation.file_path
    if not dry_run:
        opened = Archive.open(path)
    elif Path(path).exists():
        opened = Archive.open(path, read_only=True)
    else:
        opened = Archive.open(":memory:")
    with opened:
        opened.redact = redactor(invocation.loaded.settings)
        yield opened


def _problems(target: Archive, vault: Vault) -> list[str]:
    """What is wrong with an archive that something was brought into; the report tells of bytes that were not found."""
    found = verify_archive(target, vault=vault).problems
    return [str(problem) for problem in found if problem.severity == "error" and problem.check != "files"]


def watching(invocation: Invocation, what: str, total: int | None = None) -> Any:
    """A bar for somebody who watches."""
    if not invocation.shows_progress:
        return nullcontext()
    from lossless.cli.progress import counting

    return counting(what, total)


def shown(data: dict[str, Any]) -> dict[str, Any]:
    """A report with the first of its warnings, and how many there are."""
    return data | {"warnings": data["warnings"][:_SHOWN], "warningCount": len(data["warnings"])}


# --- as Remnic spells it -------------------------------------------------------------------------------------


class _AsRemnic(Command):
    """A command that reads its arguments, and fails, as Remnic's does: exit code 1, and these sentences."""

    _NEEDS: ClassVar = {"--src": "a path", "--memory-dir": "a path", "--session-filter": "a session id"}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args:
            click.echo(ctx.get_help())
            ctx.exit(failures.OK)
        for given, following in zip(args, [*args[1:], ""], strict=True):
            if given in self._NEEDS and (not following or following.startswith("--")):
                raise _failed(f"{given} requires {self._NEEDS[given]}")
        try:
            rest = super().parse_args(ctx, args)
        except click.UsageError as error:
            raise _failed(error.format_message()) from error
        if ctx.params.get("src") is None and not {"--help", "-h"}.intersection(args):
            raise _failed("--src is required")
        if ctx.params.get("compat") and ctx.params.get("memory_dir") is None:
            raise _failed("--compat goes with --memory-dir")
        return rest


def _failed(message: str) -> Failure:
    return failures.fail("bad_arguments", message, failures.INTERNAL, hint="See `lcm import-lossless-claw --help`.")


@click.command("import-lossless-claw", cls=_AsRemnic, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--src", metavar="PATH", type=text, help="The lossless-claw database.")
@click.option("--memory-dir", metavar="PATH", type=text, help="Write Remnic's database in this folder instead.")
@click.option("--dry-run", is_flag=True, help="Only count; nothing is written.")
@click.option(
    "--session-filter",
    metavar="ID",
    type=text,
    multiple=True,
    help="Only this session, by its id or key; may be given several times.",
)
@click.option("--compat", is_flag=True, help="With --memory-dir: count and lose what Remnic's own importer does.")
@click.pass_obj
def import_lossless_claw_command(
    invocation: Invocation,
    src: str,
    memory_dir: str | None,
    dry_run: bool,
    session_filter: tuple[str, ...],
    compat: bool,
) -> None:
    """Do as `remnic import-lossless-claw` does: `lcm import lossless-claw` under the name that Remnic's users know.

    With --memory-dir the conversations go into Remnic's own database there, PATH/state/lcm.sqlite.
    """
    try:
        if memory_dir is None:
            options = ImportOptions(dry_run, frozenset(session_filter))
            _bring(invocation, "import-lossless-claw", src, _of_claw, options, False, _HINT)
            return
        wanted = RemnicOptions(dry_run, frozenset(session_filter), compat=compat)
        place = _memory(memory_dir)
        with open_claw(src) as theirs, watching(invocation, "Importing") as advance:
            options_ = RemnicOptions(wanted.dry_run, wanted.sessions, compat=compat, progress=advance)
            report = export_remnic(theirs, None, place, options_)
    except LosslessError as error:
        raise failures.fail(error.code, str(error), failures.INTERNAL) from error
    data = shown(report.data()) | ({"hint": _REMNIC_HINT} if report.sessions_touched and not dry_run else {})
    invocation.emit("import-lossless-claw", data | {"path": str(place)})


def _memory(folder: str) -> Path:
    """Where Remnic keeps its database in a memory folder, which may not be there yet."""
    place = expanded(folder)
    if place.exists() and not place.is_dir():
        raise BadInput(f"--memory-dir {folder!r} is not a folder")
    return place / "state" / "lcm.sqlite"
