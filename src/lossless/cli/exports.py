"""`lcm export`: write the archive or its conversations to files that other programs, or people, read."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, get_args

import click

from lossless.cli.commands import Command, CommandEntry, Invocation, LazyGroup, command, text_option, text_type
from lossless.cli.imports import limit_warnings, print_counts, print_warnings
from lossless.cli.options import ConversationTarget, complete_sessions, session_names
from lossless.cli.output import to_json
from lossless.cli.screen import Data, Screen, styled
from lossless.model.paths import expand_path
from lossless.transfer.group import Transfer
from lossless.transfer.lossless_claw import TransferOptions
from lossless.transfer.remnic import export_claw_to_remnic
from lossless.transfer.remnic_format import SessionBy
from lossless.tui.text import plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.engine import Engine
    from lossless.transfer.pages import PageFormat


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
    shell_complete=complete_sessions,
    help="Only this conversation: a session key or id, a number, @last or @live; may be given several times.",
)
_overwrite = click.option("--overwrite", is_flag=True, help="Replace what is there.")


def _place(ctx: click.Context, param: click.Parameter, value: str) -> str:  # noqa: ARG001
    """What is written is read back, so it needs a name of its own."""
    if value == "-":
        raise click.BadParameter("standard output cannot be read back: name a place (./- is a name)")
    return value


_target = click.argument("target", metavar="DST", type=text_type, callback=_place)


def _chosen(engine: Engine, names: tuple[str, ...]) -> frozenset[str]:
    """The sessions that are named; each must be there."""
    for name in names:
        ConversationTarget(name=name).settled(engine)
    return frozenset(session_names(engine, names))


def _export(
    invocation: Invocation, command: str, write: Callable[..., Any], *, sessions: tuple[str, ...], **how: Any
) -> None:
    with invocation.reader() as engine:
        chosen = _chosen(engine, sessions)
        total = engine.browse.counts().messages if invocation.shows_progress else None
        with invocation.progress("Exporting", total) as advance:
            report = write(engine.transfer, sessions=chosen, progress=advance, **how)
    invocation.emit(command, print_export, limit_warnings(to_json(report)))


@command("archive")
@_target
@_sessions
@click.option("--files-dir", metavar="DIR", type=text_type, help="Put the bytes of files there instead of into DST.")
@_overwrite
def archive(invocation: Invocation, /, **how: Any) -> None:
    """Write everything into DST, one file of JSON lines. `lcm import archive` restores it exactly.

    The last line has the number of the other lines and their digest. The file is read back and verified before it gets
    its name.
    """
    _export(invocation, "export.archive", Transfer.export_archive, **how)


@command("lossless-claw")
@_target
@_sessions
@text_option("--files-dir", metavar="DIR", help="Where the bytes of files go; else lcm-files next to DST.")
@click.option("--plain", is_flag=True, help="Only lossless-claw's own tables; pins, logs and original forms are lost.")
@_overwrite
def lossless_claw(invocation: Invocation, /, **how: Any) -> None:
    """Write a new database DST that lossless-claw 0.15 opens as its own.

    It has lossless-claw's tables, with its search tables filled and every row under its own id. Additional tables,
    which lossless-claw ignores, have the rest, so that DST opens here again with everything. It is read back and
    compared before it gets its name.
    """
    _export(invocation, "export.lossless-claw", Transfer.export_lossless_claw, **how)


@command("remnic")
@_target
@_sessions
@text_option("--from", "source", metavar="SRC", help="Take this lossless-claw database, not the archive.")
@click.option(
    "--session-by",
    type=click.Choice(get_args(SessionBy)),
    default="session_id",
    show_default=True,
    help="What a session of Remnic's is.",
)
@click.option("--compat", is_flag=True, help="Count and leave out what Remnic's own importer does.")
@click.option("--dry-run", is_flag=True, help="Only count; nothing is written.")
def remnic(
    invocation: Invocation, /, target: str, sessions: tuple[str, ...], source: str | None, dry_run: bool, **how: Any
) -> None:
    """Add conversations to DST, Remnic's lcm.sqlite or a memory folder of Remnic's; it is made when it is not there.

    Turns that are already there keep their places; a second export adds nothing. Additional tables have what does not
    fit into Remnic's, so that `lcm import remnic` restores each conversation with messages exactly.
    """
    place = expand_path(target)
    if place.is_dir():
        place = place / "state" / "lcm.sqlite"
    with invocation.progress("Exporting") as advance:
        if source is not None:
            options = TransferOptions(dry_run, frozenset(sessions), progress=advance, **how)
            report = export_claw_to_remnic(source, place, options)
        else:
            with invocation.reader() as engine:
                write = partial(engine.transfer.export_remnic, place, dry_run=dry_run, progress=advance, **how)
                report = write(sessions=_chosen(engine, sessions))
    invocation.emit("export.remnic", print_export, limit_warnings(to_json(report)) | {"path": str(place)})


@command("jsonl")
@_target
@_sessions
@_overwrite
def jsonl(invocation: Invocation, /, target: str, **how: Any) -> None:
    """Write JSON lines: everything into DST when it ends in .jsonl, else each conversation into a file in DST.

    One file is a whole archive, as of `lcm export archive`. In a folder there is one unchanged message per line,
    with its time and the host's id. `lcm import jsonl` reads both, `lcm append` the second.
    """
    if target.endswith(".jsonl"):
        _export(invocation, "export.archive", Transfer.export_archive, target=target, **how)
    else:
        _export(invocation, "export.jsonl", Transfer.export_pages, target=target, kind="jsonl", **how)


def _page_command(kind: PageFormat, about: str) -> Command:
    @command(kind, help=about)
    @click.argument("target", metavar="DIR", type=text_type, callback=_place)
    @_sessions
    @_overwrite
    def write(invocation: Invocation, /, **how: Any) -> None:
        _export(invocation, f"export.{kind}", Transfer.export_pages, kind=kind, **how)

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
