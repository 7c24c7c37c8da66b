"""`lcm export`: write the archive or its conversations to files that other programs, or people, read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

import click

from lossless.cli.commands import (
    Command,
    CommandEntry,
    Invocation,
    LazyGroup,
    choice_option,
    command,
    text_option,
    text_type,
)
from lossless.cli.imports import limit_warnings, print_counts, print_warnings, transfer_options
from lossless.cli.options import ConversationTarget, complete_sessions, session_names
from lossless.cli.output import to_json
from lossless.cli.screen import Data, Screen, styled
from lossless.model.paths import expand_path
from lossless.transfer.archive_file import export_archive
from lossless.transfer.lossless_claw import TransferOptions, export_lossless_claw
from lossless.transfer.pages import PageFormat, export_pages
from lossless.transfer.remnic_export import export_claw_to_remnic, export_remnic
from lossless.transfer.remnic_format import SessionBy
from lossless.tui.text import plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.engine import Engine


export = LazyGroup(
    "export",
    help="Write archives and conversations for other programs, and for people.",
    entries={
        "archive": CommandEntry("exports:archive", "Everything in one file, for `lcm import archive`."),
        "lossless-claw": CommandEntry("exports:lossless_claw", "A database that lossless-claw opens as its own."),
        "remnic": CommandEntry("exports:remnic", "Into Remnic's own archive."),
        "jsonl": CommandEntry("exports:jsonl", "Messages as JSON lines, one file per conversation."),
        "markdown": CommandEntry("exports:markdown", "Conversations to read, as Markdown."),
        "html": CommandEntry("exports:html", "Conversations to read, as HTML pages."),
    },
    synonyms={
        **dict.fromkeys(("md", "text", "txt"), "markdown"),
        **dict.fromkeys(("db", "sqlite", "openclaw"), "lossless-claw"),
        **dict.fromkeys(("json", "messages"), "jsonl"),
        **dict.fromkeys(("all", "backup"), "archive"),
    },
)


_sessions = text_option(
    "-s",
    "--session",
    "--session-filter",
    "sessions",
    metavar="ID",
    multiple=True,
    callback=lambda ctx, param, names: frozenset(names),  # noqa: ARG005
    shell_complete=complete_sessions,
    help="Only this conversation: a session key or id, a number, @last or @live; may be given several times.",
)
_overwrite = click.option("--overwrite", is_flag=True, help="Replace what is there.")
_how = transfer_options(_sessions, _overwrite)


def _place(ctx: click.Context, param: click.Parameter, value: str) -> str:  # noqa: ARG001
    """What is written is read back, so it needs a name of its own."""
    if value == "-":
        raise click.BadParameter("standard output cannot be read back: name a place (./- is a name)")
    return value


_target = click.argument("target", metavar="DST", type=text_type, callback=_place)


def _with_chosen(engine: Engine, how: TransferOptions) -> TransferOptions:
    """With the names of the sessions that are meant; each must be there."""
    for name in sorted(how.sessions):
        ConversationTarget(name=name).settled(engine)
    return replace(how, sessions=frozenset(session_names(engine, sorted(how.sessions))))


def _export(
    invocation: Invocation, command: str, write: Callable[..., Any], how: TransferOptions, target: str, *kind: str
) -> None:
    with invocation.reader() as engine:
        how = _with_chosen(engine, how)
        total = engine.browse.counts().messages if invocation.shows_progress else None
        with invocation.progress("Exporting", total) as advance:
            report = write(engine.archive, invocation.vault, target, *kind, replace(how, progress=advance))
    invocation.emit(command, print_export, limit_warnings(to_json(report)))


@command("archive")
@_target
@transfer_options(
    _sessions,
    text_option("--files-dir", metavar="DIR", help="Put the bytes of files there instead of into DST."),
    _overwrite,
)
def archive(invocation: Invocation, target: str, how: TransferOptions) -> None:
    """Write everything into DST, one file of JSON lines. `lcm import archive` restores it exactly.

    The last line has the number of the other lines and their digest. The file is read back and verified before it gets
    its name.
    """
    _export(invocation, "export.archive", export_archive, how, target)


@command("lossless-claw")
@_target
@transfer_options(
    _sessions,
    text_option("--files-dir", metavar="DIR", help="Where the bytes of files go; else lcm-files next to DST."),
    click.option(
        "--plain", is_flag=True, help="Only lossless-claw's own tables; pins, logs and original forms are lost."
    ),
    _overwrite,
)
def lossless_claw(invocation: Invocation, target: str, how: TransferOptions) -> None:
    """Write a new database DST that lossless-claw 0.15 opens as its own.

    It has lossless-claw's tables, with its search tables filled and every row under its own id. Additional tables,
    which lossless-claw ignores, have the rest, so that DST opens here again with everything. It is read back and
    compared before it gets its name.
    """
    _export(invocation, "export.lossless-claw", export_lossless_claw, how, target)


@command("remnic")
@_target
@transfer_options(
    _sessions,
    text_option("--from", "source", metavar="SRC", help="Take this lossless-claw database, not the archive."),
    choice_option("--session-by", choices=get_args(SessionBy), help="What a session of Remnic's is."),
    click.option("--compat", is_flag=True, help="Count and leave out what Remnic's own importer does."),
    click.option("--dry-run", is_flag=True, help="Only count; nothing is written."),
)
def remnic(invocation: Invocation, target: str, source: str | None, how: TransferOptions) -> None:
    """Add conversations to DST, Remnic's lcm.sqlite or a memory folder of Remnic's; it is made when it is not there.

    Turns that are already there keep their places; a second export adds nothing. Additional tables have what does not
    fit into Remnic's, so that `lcm import remnic` restores each conversation with messages exactly.
    """
    place = expand_path(target)
    if place.is_dir():
        place = place / "state" / "lcm.sqlite"
    with invocation.progress("Exporting") as advance:
        how = replace(how, progress=advance)
        if source is not None:
            report = export_claw_to_remnic(source, place, how)
        else:
            with invocation.reader() as engine:
                report = export_remnic(engine.archive, invocation.vault, place, _with_chosen(engine, how))
    invocation.emit("export.remnic", print_export, limit_warnings(to_json(report)) | {"path": str(place)})


@command("jsonl")
@_target
@_how
def jsonl(invocation: Invocation, target: str, how: TransferOptions) -> None:
    """Write JSON lines: everything into DST when it ends in .jsonl, else each conversation into a file in DST.

    One file is a whole archive, as of `lcm export archive`. In a folder there is one unchanged message per line,
    with its time and the host's id. `lcm import jsonl` reads both, `lcm append` the second.
    """
    if target.endswith(".jsonl"):
        _export(invocation, "export.archive", export_archive, how, target)
    else:
        _export(invocation, "export.jsonl", export_pages, how, target, "jsonl")


def _page_command(kind: PageFormat, about: str) -> Command:
    @command(kind, help=about)
    @click.argument("target", metavar="DIR", type=text_type, callback=_place)
    @_how
    def write(invocation: Invocation, target: str, how: TransferOptions) -> None:
        _export(invocation, f"export.{kind}", export_pages, how, target, kind)

    return write


markdown = _page_command("markdown", "Write each conversation into a Markdown file in DIR, its summaries first.")
html = _page_command(
    "html",
    """Write each conversation into an HTML page in DIR, and an index of them.

    A page is complete: it loads nothing and runs nothing. Messages are only text in it.
    """,
)


def print_export(screen: Screen, data: Data) -> None:
    place = data.get("path") or data.get("folder")
    screen.title("DRY RUN — no rows written." if data.get("dryRun") else "Export complete.", place)
    print_counts(screen, data)
    if data.get("files"):
        screen.line(styled(f"  {plural(len(data['files']), 'file')}, the first {data['files'][0]}", "dim"))
    print_warnings(screen, data)
