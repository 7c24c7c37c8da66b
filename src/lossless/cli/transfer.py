"""`lcm import` and `lcm export`: transcripts of other programs become conversations, archives are merged into this
one, and conversations are written to files that other programs, or people, read.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Any, get_args

import click

from lossless.cli import failures, options
from lossless.cli.append import PRUNED, again_option
from lossless.cli.commands import Command, F, Group, Invocation, command, text_type
from lossless.cli.options import ConversationTarget
from lossless.cli.screen import Data, Screen, pick_json, session_name, styled, to_json
from lossless.engine import Engine, open_engine
from lossless.errors import BadInput, LosslessError
from lossless.ingest.transcripts.reading import detect_kind, detect_other_kind
from lossless.ingest.transcripts.records import is_sqlite
from lossless.model.conversations import Session
from lossless.model.paths import expand_path, file_size
from lossless.settings.load import ProcessEnvironment
from lossless.transfer.archive_file import check_archive, import_archive, is_archive
from lossless.transfer.group import Transfer
from lossless.transfer.lossless_claw import TransferOptions, check_lossless_claw, import_lossless_claw
from lossless.transfer.remnic import check_remnic_source, export_claw_to_remnic, import_remnic
from lossless.transfer.remnic_format import SessionBy
from lossless.transfer.transcripts import TRANSCRIPT_KINDS, ImportOutcome, find_files, find_local_histories, stat_named
from lossless.tui.text import format_bytes, plural

if TYPE_CHECKING:
    from lossless.transfer.pages import PageFormat


#: The word for an import that finds the kinds by itself.
_AUTO = "auto"
_WITH_VALUES = frozenset(("--db", "--config", "--openclaw-dir", "--format"))


class _ImportGroup(Group):
    """Without a kind, `lcm import PATH…` finds it, and follows the one rule for changes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = [word for word, before in zip(args, ["", *args], strict=False) if before not in _WITH_VALUES]
        first = next((word for word in words if not word.startswith("-")), None)
        is_help = first is None and not {"-h", "--help"}.isdisjoint(args)
        if not is_help and (first == _AUTO or first not in self.commands):
            ctx.ensure_object(Invocation).rule = "read"
            args = args if first == _AUTO else [_AUTO, *args]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return ["[OPTIONS] [PATH]...", "|", "KIND PATH..."]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.params = [param for param in auto.params if isinstance(param, click.Option)]
        try:
            super().format_options(ctx, formatter)
        finally:
            self.params = []


import_ = _ImportGroup("import", help="Bring in transcripts of other programs, and archives.")

#: Kinds of transcripts, with their line in the help.
_TRANSCRIPTS = {
    "openclaw": "OpenClaw's session files.",
    "claude-code": "Claude Code's projects and sessions.",
    "codex": "Codex rollouts.",
    "pi": "pi's sessions.",
    "opencode": "OpenCode's sessions.",
    "gemini": "Gemini CLI's sessions.",
    "jsonl": "Messages as JSON lines or arrays.",
    "chatgpt": "A ChatGPT export.",
}
#: Kinds that no program keeps at a place of its own.
_WITHOUT_PLACE = ("jsonl", "chatgpt")
_ABOUT_SINCE = "Only files that changed since then: 2026-07-01, yesterday, 30d."
#: How many conversations an answer holds, and how many of them a person sees; the others are counted.
_LISTED_FILES, _SHOWN_FILES = 200, 20
#: So many warnings are shown; the others are counted.
_LISTED_WARNINGS = 100


def _transcript_command(kind: str) -> None:
    needs_path, path = kind in _WITHOUT_PLACE, click.Path(path_type=Path)

    @command(kind, import_, short_help=_TRANSCRIPTS[kind])
    @click.argument("paths", metavar="PATH...", nargs=-1, required=needs_path, type=path)
    @options.when_option("--since", _ABOUT_SINCE, "TIME")
    @options.number("--limit", help="At most this many files, the oldest first.")
    @options.flag("--apply", "is_real", help="Store them; without this, only show what would be stored.")
    @options.flag("--dry-run", help="Only show what would be stored, as without --apply.")
    @options.flag("--no-summaries", help="Do not fold older history; `lcm backfill` does it later.")
    @again_option
    def import_transcripts(
        invocation: Invocation,
        paths: tuple[Path, ...],
        since: datetime | None,
        limit: int | None,
        is_real: bool,
        dry_run: bool,
        **how: bool,
    ) -> None:
        if is_real and dry_run:
            raise BadInput("--apply and --dry-run contradict each other; give one of them")
        paths = paths or _local_folders(invocation, kind)
        for path in paths:
            stat_named(path)
        if kind == "jsonl" and len(paths) == 1 and is_archive(paths[0]):
            _import_source(invocation, str(paths[0]), "archive", TransferOptions(not is_real), is_verified=True)
            return
        files, unreadable = find_files(kind, paths, since=since)
        chosen = files if limit is None else files[:limit]
        others = {file: other for file in chosen if (other := detect_other_kind(file, kind)) is not None}
        own = [file for file in chosen if file not in others]
        found = _import_files(invocation, kind, own, is_real=is_real, **how)
        named = {path.absolute() for path in paths if path.is_file()}
        for file, other in others.items():  # in a folder it is passed over; when it is named, it is reported
            why = f"it is no transcript of kind {kind}; it looks like one for `lcm import {other}`"
            status = "error" if file in named else "skipped"
            found.append(ImportOutcome(file, Session(id=file.name), status, reason=why))
        found += [ImportOutcome(place, Session(id=place.name), "error", reason=why) for place, why in unreadable]
        counts = {"files": len(chosen), "filesLeftOut": len(files) - len(chosen)}
        counted = counts | {"otherKinds": Counter(others.values())}
        _emit_outcomes(invocation, found, {"kind": kind, "applied": is_real, **counted})


for _kind in TRANSCRIPT_KINDS:
    _transcript_command(_kind)


def _local_folders(invocation: Invocation, kind: str | None = None) -> tuple[Path, ...]:
    places = ProcessEnvironment.of(openclaw_dir=invocation.openclaw_dir)
    found = [one for one in find_local_histories(places) if kind in (None, one.kind)]
    folders = tuple(folder for one in found for folder in one.folders)
    if not folders:
        message = f"No transcripts of {kind or 'a known kind'} were found on this machine."
        raise failures.not_found(message, hint="Name a file or a folder: `lcm import PATH`.")
    return folders


def _import_files(
    invocation: Invocation, kind: str, files: list[Path], *, is_real: bool, no_summaries: bool, again: bool
) -> list[ImportOutcome]:
    what, total = "Importing" if is_real else "Looking at", sum(map(file_size, files))
    with (
        invocation.engine() if is_real else _open_to_look(invocation) as engine,
        invocation.progress(what, total, in_bytes=True) as advance,
    ):
        fold, dry_run = not no_summaries, not is_real
        return engine.transfer.import_transcripts(
            kind, files, fold=fold, again=again, dry_run=dry_run, progress=advance
        )


def _open_to_look(invocation: Invocation) -> Engine:
    """The archive for reading; an empty one where there is none yet."""
    if Path(invocation.file_path).exists():
        return invocation.reader()
    return open_engine(":memory:", invocation.loaded.settings, background=False)


def _emit_outcomes(invocation: Invocation, found: list[ImportOutcome], data: Data) -> None:
    found = sorted(found, key=lambda item: item.status != "error")
    names = ("path", "session_key=session.key", "session_id=session.id", "status", "messages", "pruned")
    more = ("conversation_id", "title", "reason", "problems")
    data |= {
        "conversations": dict(Counter(item.status for item in found)),
        "messages": sum(item.messages for item in found),
        "pruned": sum(item.pruned for item in found),
        "items": [pick_json(item, *names, *more) for item in found[:_LISTED_FILES]],
    }
    invocation.answer("import", data, view=print_transcript_import, ok=all(item.status != "error" for item in found))


def print_transcript_import(screen: Screen, data: Data) -> None:
    items = data["items"]
    if not data["files"] and not items:
        screen.line(f"There are no transcripts of kind {data['kind']} there.")
        return
    colours = {"imported": "green", "would-import": "green", "error": "red", "held": "yellow"}
    screen.items(
        items[:_SHOWN_FILES],
        "status, messages:count, conversation:rest",
        status=lambda item: styled(item["status"], colours.get(item["status"], "dim")),
        conversation=lambda item: " · ".join(filter(None, (session_name(item), item["title"]))),
    )
    if len(items) > _SHOWN_FILES:
        screen.note(f"and {sum(data['conversations'].values()) - _SHOWN_FILES:,} more")
    for item in items:
        if item["reason"] and item["status"] in ("error", "held"):
            screen.line(styled(f"{Path(item['path']).name}: {item['reason']}", "red"))
        for problem in item["problems"]:
            screen.warn(f"{Path(item['path']).name}, {problem}")
    skipped = Counter(item["reason"] for item in items if item["status"] == "skipped" and item["reason"])
    for reason, count in skipped.items():
        screen.note(f"{count:,} skipped: {reason}")
    statuses = ", ".join(f"{count:,} {status}" for status, count in sorted(data["conversations"].items()))
    screen.line(
        styled(f"{plural(data['files'], 'file')}, {plural(data['messages'], 'message')}", "bold"), f": {statuses}"
    )
    screen.counts(data, PRUNED, "message", "yellow")
    screen.counts(data, {"filesLeftOut": "left out by --limit"}, "file", "dim")
    screen.counts(data["otherKinds"], {"unknown": "of no known kind left out"}, "file", "dim")
    if not data["applied"]:
        screen.unchanged("--apply does it." if data["messages"] else "", "Nothing was stored.")
    elif not data["messages"]:
        screen.line("Nothing new was stored: the archive has all of it already, or the files hold no messages.")
    else:
        screen.note("`lcm prune -s KEY --include-active` deletes one of them again.")


#: Archives of other kinds: what looks at one before anything is made, what merges it into ours, a line for the help.
_ARCHIVES: dict[str, tuple[Callable[[str], Any], Callable[..., Any], str]] = {
    "lossless-claw": (check_lossless_claw, import_lossless_claw, "A lossless-claw database, or another archive."),
    "remnic": (check_remnic_source, import_remnic, "Remnic's own archive."),
    "archive": (check_archive, import_archive, "A file of `lcm export archive`."),
}
#: What is left to do once everything is over.
_DROP_PLUGIN = (
    'Once all is well, drop contextEngine: "lossless-claw" from plugins.slots: OpenClaw falls back to its built-in '
    "compaction, "
)
_HINT = f"{_DROP_PLUGIN}and lossless keeps the archive."
_REMNIC_HINT = f"{_DROP_PLUGIN}which Remnic complements and does not replace."
_count_only = options.flag("--dry-run", help="Only count; nothing is written.")


def _sessions_option(*names: str) -> Callable[[F], F]:
    return options.text(
        *names,
        "sessions",
        metavar="ID",
        multiple=True,
        callback=lambda ctx, param, names: frozenset(names),  # noqa: ARG005
        help="Only this session, by its id or key; may be given several times.",
    )


def _archive_command(kind: str) -> None:
    in_folder = "The folder of the source's large files, if not next to it."

    @command(kind, import_, short_help=_ARCHIVES[kind][2])
    @click.argument("source", metavar="SRC", type=text_type)
    @options.gathered(
        "how",
        TransferOptions,
        _count_only,
        _sessions_option("--session", "--session-filter"),
        options.flag("--verify", "is_verified", help="Verify the whole archive afterwards."),
        *([] if kind == "remnic" else [options.text("--files-dir", metavar="DIR", help=in_folder)]),
    )
    def import_source(invocation: Invocation, source: str, is_verified: bool, how: TransferOptions) -> None:
        _import_source(invocation, source, kind, how, is_verified=is_verified)


for _kind in _ARCHIVES:
    _archive_command(_kind)


def _import_source(
    invocation: Invocation, source: str, kind: str, how: TransferOptions, *, is_verified: bool = False, name: str = ""
) -> None:
    """Merge an archive, which is looked at before anything is made; a dry run opens ours for reading."""
    check, bring, _ = _ARCHIVES[kind]
    found = check(source)
    problems: list[str] = []
    with (
        _open_to_look(invocation) if how.dry_run else invocation.engine() as engine,
        invocation.progress("Importing") as advance,
    ):
        known = (found,) if kind == "archive" else ()
        report = bring(source, engine.archive, invocation.vault, replace(how, progress=advance), *known)
        data = _report_json(report)
        if kind == "lossless-claw" and report.sessions_touched and not how.dry_run:
            data["hint"] = _HINT
        if is_verified and not how.dry_run:  # the report tells of bytes that were not found
            wrong = [one for one in engine.verify().problems if one.severity == "error" and one.check != "files"]
            problems = list(map(str, wrong))
            data["verified"] = {"ok": not problems, "problems": problems[:_LISTED_WARNINGS]}
    invocation.answer(name or f"import.{kind}", data, view=partial(print_report, what="Import"), ok=not problems)


def _report_json(report: Any) -> Data:
    """A report with the first of its warnings, and how many there are."""
    data = to_json(report)
    return {**data, "warnings": data["warnings"][:_LISTED_WARNINGS], "warningCount": len(data["warnings"])}


def print_report(screen: Screen, data: Data, what: str) -> None:
    place = data.get("path") or data.get("folder")
    screen.title("DRY RUN — no rows written." if data.get("dryRun") else f"{what} complete.", place)
    screen.record(data, "path", "folder", "sessionsTouched", "verified", "warnings", "warningCount", "hint")
    if "verified" in data:
        is_ok = data["verified"]["ok"]
        screen.line("  verified: ", styled("all is there", "green") if is_ok else styled("something is wrong", "red"))
        for problem in data["verified"]["problems"]:
            screen.line(f"    {problem}")
    for warning in data["warnings"]:
        screen.line(styled("  note: ", "yellow"), warning)
    if unlisted := data["warningCount"] - len(data["warnings"]):
        screen.note(f"  and {unlisted:,} more")
    if data.get("hint"):
        screen.gap()
        screen.note(data["hint"])


class _RemnicCommand(Command):
    """A command that reads its arguments, and fails, as Remnic's does: exit code 1, and these sentences."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args:
            click.echo(ctx.get_help())
            ctx.exit(failures.OK)
        needs = {"--src": "a path", "--memory-dir": "a path", "--session-filter": "a session id"}
        try:
            for given, following in zip(args, [*args[1:], ""], strict=True):
                if given in needs and (not following or following.startswith("--")):
                    raise click.UsageError(f"{given} requires {needs[given]}")
            rest = super().parse_args(ctx, args)
            if ctx.params.get("src") is None and not {"--help", "-h"}.intersection(args):
                raise click.UsageError("--src is required")
            if ctx.params.get("compat") and ctx.params.get("memory_dir") is None:
                raise click.UsageError("--compat goes with --memory-dir")
        except click.UsageError as error:
            hint = "See `lcm import-lossless-claw --help`."
            raise failures.fail("bad_arguments", error.format_message(), failures.INTERNAL, hint=hint) from error
        return rest


@click.command("import-lossless-claw", cls=_RemnicCommand, context_settings={"help_option_names": ["-h", "--help"]})
@options.text("--src", metavar="PATH", help="The lossless-claw database.")
@options.text("--memory-dir", metavar="PATH", help="Write Remnic's database in this folder instead.")
@options.gathered(
    "how",
    TransferOptions,
    _count_only,
    _sessions_option("--session-filter"),
    options.flag("--compat", help="With --memory-dir: count and lose what Remnic's own importer does."),
)
@click.pass_obj
def import_lossless_claw_command(
    invocation: Invocation, src: str, memory_dir: str | None, how: TransferOptions
) -> None:
    """Do as `remnic import-lossless-claw` does: `lcm import lossless-claw` under the name that Remnic's users know."""
    try:
        if memory_dir is None:
            _import_source(invocation, src, "lossless-claw", how, name="import-lossless-claw")
            return
        place = expand_path(memory_dir)
        if place.exists() and not place.is_dir():
            raise BadInput(f"--memory-dir {memory_dir!r} is not a folder")
        place = place / "state" / "lcm.sqlite"
        with invocation.progress("Importing") as advance:
            report = export_claw_to_remnic(src, place, replace(how, progress=advance))
    except LosslessError as error:
        raise failures.fail(error.code, str(error), failures.INTERNAL) from error
    hint = {"hint": _REMNIC_HINT} if report.sessions_touched and not how.dry_run else {}
    data = _report_json(report) | hint | {"path": str(place)}
    invocation.answer("import-lossless-claw", data, view=partial(print_report, what="Import"))


@command(_AUTO, import_, hidden=True)
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))
@options.when_option("--since", _ABOUT_SINCE)
@options.flag("--no-summaries", help="Do not fold older history; `lcm summary backfill` does it later.")
@again_option
@options.flag("--yes", "-y", help="Without PATH: import without asking.")
@options.flag("--dry-run", help="Show what would be stored; store nothing.")
def auto(
    invocation: Invocation, paths: tuple[Path, ...], since: datetime | None, yes: bool, dry_run: bool, **how: bool
) -> None:
    """Bring in every PATH, a file or a folder of any kind, or what hosts on this machine have stored."""
    named = paths or _local_folders(invocation)
    for path in named:
        if not path.exists():
            kinds, word = import_.list_commands(click.get_current_context()), str(path)
            near = [kind for kind in kinds if kind.startswith(word.lower())] or import_.nearest_commands(word, kinds)
            if near:
                hint = f"Did you mean `lcm import {near[0]}`?"
                raise failures.fail("bad_arguments", f"There is no file {word!r}.", hint=hint)
    archives = {path: kind for path in named if (kind := _archive_kind(path)) is not None}
    by_kind, unknown = _sort_files([path for path in named if path not in archives], since)
    if not (archives or by_kind):
        why = f"it holds nothing of a known kind: {', '.join((*TRANSCRIPT_KINDS, *_ARCHIVES))}"
        raise BadInput(f"{', '.join(map(str, named))}: {why}")
    if not paths and not dry_run:
        for kind, files in by_kind.items():
            size = format_bytes(sum(map(file_size, files)))
            click.echo(f"{kind:<12}{plural(len(files), 'file'):>13}  {size:>9}", err=True)
        if not yes:
            options.confirm("Import them?", yes)
            dry_run = not sys.stdin.isatty()
    for path, kind in archives.items():
        _import_source(invocation, str(path), kind, TransferOptions(dry_run))
    if by_kind:
        found = list[ImportOutcome]()
        for kind, files in by_kind.items():
            found += _import_files(invocation, kind, files, is_real=not dry_run, **how)
        counts: Data = {"files": sum(map(len, by_kind.values())), "filesLeftOut": 0}
        counts["otherKinds"] = {"unknown": unknown} if unknown else {}
        _emit_outcomes(invocation, found, {"kind": ", ".join(by_kind), "applied": not dry_run, **counts})


def _archive_kind(path: Path) -> str | None:
    """Which importer of whole archives a path is for; None for transcripts."""
    if S_ISDIR(stat_named(path).st_mode):
        return "remnic" if (path / "state" / "lcm.sqlite").is_file() else None
    if is_archive(path):
        return "archive"
    if not is_sqlite(path) or detect_kind(path) is not None:
        return None
    try:
        check_remnic_source(str(path))
    except LosslessError:
        return "lossless-claw"
    return "remnic"


def _sort_files(paths: list[Path], since: datetime | None) -> tuple[dict[str, list[Path]], int]:
    kinds = ("jsonl", "chatgpt", "opencode")
    by_kind: dict[str | None, list[Path]] = {}
    for file in dict.fromkeys(file for kind in kinds for file in find_files(kind, paths, since=since)[0]):
        by_kind.setdefault(detect_kind(file), []).append(file)
    unknown = len(by_kind.get(None, ()))
    return {kind: by_kind[kind] for kind in TRANSCRIPT_KINDS if kind in by_kind}, unknown


# --- export ----------------------------------------------------------------------------------------------------

export = Group("export", help="Write archives and conversations for other programs, and for people.")
_sessions = options.text(
    "-s",
    "--session",
    "--session-filter",
    "sessions",
    metavar="ID",
    multiple=True,
    shell_complete=options.complete_sessions,
    help="Only this conversation: a session key or id, a number, @last or @live; may be given several times.",
)


def _target(metavar: str) -> Callable[[F], F]:
    def place(ctx: click.Context, param: click.Parameter, value: str) -> str:  # noqa: ARG001
        if value == "-":
            raise click.BadParameter("standard output cannot be read back: name a place (./- is a name)")
        return value

    return click.argument("target", metavar=metavar, type=text_type, callback=place)


def _chosen(engine: Engine, names: tuple[str, ...]) -> frozenset[str]:
    """The sessions that are named; each must be there."""
    for name in names:
        ConversationTarget(name=name).settled(engine)
    return frozenset(options.session_names(engine, names))


def _export(
    invocation: Invocation, kind: str, write: Callable[..., Any], *, sessions: tuple[str, ...], **how: Any
) -> None:
    with invocation.reader() as engine:
        chosen = _chosen(engine, sessions)
        total = engine.browse.counts().messages if invocation.shows_progress else None
        with invocation.progress("Exporting", total) as advance:
            report = write(engine.transfer, sessions=chosen, progress=advance, **how)
    invocation.answer(f"export.{kind}", _report_json(report), view=partial(print_report, what="Export"))


@command("archive", export, short_help="Everything in one file, for `lcm import archive`.")
@_target("DST")
@_sessions
@options.text("--files-dir", metavar="DIR", help="Put the bytes of files there instead of into DST.")
@options.overwrite
def write_archive(invocation: Invocation, /, **how: Any) -> None:
    """Write everything into DST, one file of JSON lines. `lcm import archive` restores it exactly."""
    _export(invocation, "archive", Transfer.export_archive, **how)


@command("lossless-claw", export, short_help="A database that lossless-claw opens as its own.")
@_target("DST")
@_sessions
@options.text("--files-dir", metavar="DIR", help="Where the bytes of files go; else lcm-files next to DST.")
@options.flag("--plain", help="Only lossless-claw's own tables; pins, logs and original forms are lost.")
@options.overwrite
def write_lossless_claw(invocation: Invocation, /, **how: Any) -> None:
    """Write a new database DST that lossless-claw 0.15 opens as its own."""
    _export(invocation, "lossless-claw", Transfer.export_lossless_claw, **how)


@command("remnic", export, short_help="Into Remnic's own archive.")
@_target("DST")
@_sessions
@options.text("--from", "source", metavar="SRC", help="Take this lossless-claw database, not the archive.")
@click.option(
    "--session-by",
    type=click.Choice(get_args(SessionBy)),
    default="session_id",
    show_default=True,
    help="What a session of Remnic's is.",
)
@options.flag("--compat", help="Count and leave out what Remnic's own importer does.")
@_count_only
def write_remnic(
    invocation: Invocation, /, target: str, sessions: tuple[str, ...], source: str | None, dry_run: bool, **how: Any
) -> None:
    """Add conversations to DST, Remnic's lcm.sqlite or a memory folder of Remnic's; it is made when it is not there."""
    place = expand_path(target)
    if place.is_dir():
        place = place / "state" / "lcm.sqlite"
    with invocation.progress("Exporting") as advance:
        how |= {"dry_run": dry_run, "progress": advance}
        if source is not None:
            report = export_claw_to_remnic(source, place, TransferOptions(sessions=frozenset(sessions), **how))
        else:
            with invocation.reader() as engine:
                report = engine.transfer.export_remnic(place, sessions=_chosen(engine, sessions), **how)
    invocation.answer(
        "export.remnic", _report_json(report) | {"path": str(place)}, view=partial(print_report, what="Export")
    )


@command("jsonl", export, short_help="Messages as JSON lines, one file per conversation.")
@_target("DST")
@_sessions
@options.overwrite
def write_jsonl(invocation: Invocation, /, target: str, **how: Any) -> None:
    """Write JSON lines: everything into DST when it ends in .jsonl, else each conversation into a file in DST."""
    if target.endswith(".jsonl"):
        _export(invocation, "archive", Transfer.export_archive, target=target, **how)
    else:
        _export(invocation, "jsonl", partial(Transfer.export_pages, kind="jsonl"), target=target, **how)


def _page_command(kind: PageFormat, short_help: str) -> None:
    @command(kind, export, short_help=short_help)
    @_target("DIR")
    @_sessions
    @options.overwrite
    def write_pages(invocation: Invocation, /, **how: Any) -> None:
        _export(invocation, kind, partial(Transfer.export_pages, kind=kind), **how)


_page_command("markdown", "Conversations to read, as Markdown.")
_page_command("html", "Conversations to read, as HTML pages.")
