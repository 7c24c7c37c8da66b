"""`lcm import`: transcripts of other programs become conversations, and other archives are merged into this one."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Any, ClassVar

import click

from lossless.cli import failures
from lossless.cli.apply import confirm
from lossless.cli.commands import Command, CommandEntry, F, Invocation, LazyGroup, command, text_option, text_type
from lossless.cli.conversations import session_name
from lossless.cli.options import gathered, when_option
from lossless.cli.output import pick_json, to_json
from lossless.cli.screen import Data, Screen, styled
from lossless.cli.transcripts import again_option, print_pruned
from lossless.engine import open_engine
from lossless.errors import BadInput, LosslessError
from lossless.ingest.transcripts.reading import detect_kind, detect_other_kind
from lossless.ingest.transcripts.records import is_sqlite
from lossless.model.conversations import Session
from lossless.model.paths import expand_path
from lossless.transfer.archive_file import check_archive, import_archive, is_archive
from lossless.transfer.lossless_claw import TransferOptions, check_lossless_claw, import_lossless_claw
from lossless.transfer.remnic import check_remnic_source, export_claw_to_remnic, import_remnic
from lossless.transfer.transcripts import (
    TRANSCRIPT_KINDS,
    ImportOutcome,
    file_size,
    find_files,
    find_local_histories,
    stat_named,
)
from lossless.tui.text import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from lossless.cli.failures import CommandFailed


#: The word for an import that finds the kinds by itself.
_AUTO = "auto"
_WITH_VALUES = frozenset(("--db", "--config", "--openclaw-dir", "--format"))


class _ImportGroup(LazyGroup):
    """Without a kind, `lcm import PATH…` finds it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = [word for word, before in zip(args, ["", *args], strict=False) if before not in _WITH_VALUES]
        first = next((word for word in words if not word.startswith("-")), None)
        is_help = first is None and not {"-h", "--help"}.isdisjoint(args)
        if not is_help and first not in (*self.entries, _AUTO):
            args = [_AUTO, *args]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return ["[OPTIONS] [PATH]...", "|", "KIND PATH..."]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.params = [param for param in auto.params if isinstance(param, click.Option)]
        try:
            super().format_options(ctx, formatter)
        finally:
            self.params = []


import_ = _ImportGroup(
    "import",
    help="""Bring in transcripts of other programs, and archives.

    With PATH, a file or a folder, the kind is detected, and what is new is stored at once. Without PATH, it lists what
    the programs on this machine have stored, and imports it when you agree. A second import adds only what is new.

    With the name of a kind, as in earlier versions, nothing is stored without --apply.""",
    old_spellings={_AUTO: CommandEntry("imports:auto", "import", "read")},
    entries={
        "openclaw": CommandEntry("imports:openclaw", "OpenClaw's session files."),
        "claude-code": CommandEntry("imports:claude_code", "Claude Code's projects and sessions."),
        "codex": CommandEntry("imports:codex", "Codex rollouts."),
        "pi": CommandEntry("imports:pi", "pi's sessions."),
        "opencode": CommandEntry("imports:opencode", "OpenCode's sessions."),
        "gemini": CommandEntry("imports:gemini", "Gemini CLI's sessions."),
        "jsonl": CommandEntry("imports:jsonl", "Messages as JSON lines or arrays."),
        "chatgpt": CommandEntry("imports:chatgpt", "A ChatGPT export."),
        "lossless-claw": CommandEntry("imports:lossless_claw", "A lossless-claw database, or another archive."),
        "remnic": CommandEntry("imports:remnic", "Remnic's own archive."),
        "archive": CommandEntry("imports:archive", "A file of `lcm export archive`."),
    },
)


#: What is left to do once everything is over.
_HINT = (
    'Once all is well, drop contextEngine: "lossless-claw" from plugins.slots: OpenClaw falls back to its built-in '
    "compaction, "
)
_REMNIC_HINT = f"{_HINT}which Remnic complements and does not replace."
_HINT += "and lossless keeps the archive."
#: So many warnings are shown; the others are counted.
_LISTED_WARNINGS = 100
_count_only = click.option("--dry-run", is_flag=True, help="Only count; nothing is written.")


#: What looks at an archive of each kind before anything is made.
_CHECKS: dict[str, Callable[[str], Any]] = {
    "archive": check_archive,
    "lossless-claw": check_lossless_claw,
    "remnic": check_remnic_source,
}


def _sessions_option(*names: str) -> Callable[[F], F]:
    return text_option(
        *names,
        "sessions",
        metavar="ID",
        multiple=True,
        callback=lambda ctx, param, names: frozenset(names),  # noqa: ARG005
        help="Only this session, by its id or key; may be given several times.",
    )


def _archive_command(kind: str, about: str, hint: str = "", *, has_files: bool = True) -> Command:
    in_folder = "The folder of the source's large files, if not next to it."

    @command(kind, help=about)
    @click.argument("source", metavar="SRC", type=text_type)
    @gathered(
        "how",
        TransferOptions,
        _count_only,
        _sessions_option("--session", "--session-filter"),
        click.option("--verify", "is_verified", is_flag=True, help="Verify the whole archive afterwards."),
        *([text_option("--files-dir", metavar="DIR", help=in_folder)] if has_files else []),
    )
    def bring(invocation: Invocation, source: str, is_verified: bool, how: TransferOptions) -> None:
        _import_source(invocation, f"import.{kind}", source, kind, how, is_verified, hint)

    return bring


lossless_claw = _archive_command(
    "lossless-claw",
    """Copy the conversations of SRC, a lossless-claw database or another archive, into this archive.

    It copies messages with their parts, summaries, contexts, files and focus briefs. SRC is only read. A conversation
    that is already here gets what it lacks; a second import adds nothing.
    """,
    _HINT,
)
remnic = _archive_command(
    "remnic",
    """Copy the sessions of SRC, a Remnic database or a memory folder of Remnic's, into this archive.

    Sessions that Remnic imported from lossless-claw become the same conversations again, exactly if `lcm export remnic`
    wrote its tables there. SRC is only read; a second import adds nothing.
    """,
    has_files=False,
)
archive = _archive_command(
    "archive",
    """Bring SRC, a file of `lcm export archive`, into this archive.

    The whole file is checked before anything is written. In an empty archive everything gets its old numbers; in
    another one, what is already there does not change.
    """,
)


def _import_source(
    invocation: Invocation,
    command: str,
    source: str,
    kind: str,
    options: TransferOptions,
    is_verified: bool,
    hint: str = "",
) -> None:
    """Merge an archive, which is looked at before anything is made; a dry run opens ours for reading."""
    found = _CHECKS[kind](source)
    if not options.dry_run:
        target = invocation.engine()
    elif Path(invocation.file_path).exists():
        target = invocation.reader()
    else:
        target = open_engine(":memory:", invocation.loaded.settings, background=False)
    problems: list[str] = []
    with target as engine, invocation.progress("Importing") as advance:
        given = (source, engine.archive, invocation.vault, replace(options, progress=advance))
        if kind == "archive":
            report = import_archive(*given, found)
        else:
            report = import_remnic(*given) if kind == "remnic" else import_lossless_claw(*given)
        is_over = bool(report.sessions_touched) and not options.dry_run
        data = limit_warnings(to_json(report)) | ({"hint": hint} if hint and is_over else {})
        if is_verified and not options.dry_run:  # the report tells of bytes that were not found
            wrong = [one for one in engine.verify().problems if one.severity == "error" and one.check != "files"]
            problems = list(map(str, wrong))
            data["verified"] = {"ok": not problems, "problems": problems[:_LISTED_WARNINGS]}
    invocation.emit(command, print_import, data, ok=not problems)


def limit_warnings(data: Data) -> Data:
    """A report with the first of its warnings, and how many there are."""
    return data | {"warnings": data["warnings"][:_LISTED_WARNINGS], "warningCount": len(data["warnings"])}


# --- as Remnic spells it -------------------------------------------------------------------------------------


class _RemnicCommand(Command):
    """A command that reads its arguments, and fails, as Remnic's does: exit code 1, and these sentences."""

    _NEEDS: ClassVar = {"--src": "a path", "--memory-dir": "a path", "--session-filter": "a session id"}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args:
            click.echo(ctx.get_help())
            ctx.exit(failures.OK)
        for given, following in zip(args, [*args[1:], ""], strict=True):
            if given in self._NEEDS and (not following or following.startswith("--")):
                raise _remnic_usage_error(f"{given} requires {self._NEEDS[given]}")
        try:
            rest = super().parse_args(ctx, args)
        except click.UsageError as error:
            raise _remnic_usage_error(error.format_message()) from error
        if ctx.params.get("src") is None and not {"--help", "-h"}.intersection(args):
            raise _remnic_usage_error("--src is required")
        if ctx.params.get("compat") and ctx.params.get("memory_dir") is None:
            raise _remnic_usage_error("--compat goes with --memory-dir")
        return rest


def _remnic_usage_error(message: str) -> CommandFailed:
    return failures.fail("bad_arguments", message, failures.INTERNAL, hint="See `lcm import-lossless-claw --help`.")


@click.command("import-lossless-claw", cls=_RemnicCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--src", metavar="PATH", type=text_type, help="The lossless-claw database.")
@click.option("--memory-dir", metavar="PATH", type=text_type, help="Write Remnic's database in this folder instead.")
@gathered(
    "how",
    TransferOptions,
    _count_only,
    _sessions_option("--session-filter"),
    click.option("--compat", is_flag=True, help="With --memory-dir: count and lose what Remnic's own importer does."),
)
@click.pass_obj
def import_lossless_claw_command(
    invocation: Invocation, src: str, memory_dir: str | None, how: TransferOptions
) -> None:
    """Do as `remnic import-lossless-claw` does: `lcm import lossless-claw` under the name that Remnic's users know.

    With --memory-dir the conversations go into Remnic's own database there, PATH/state/lcm.sqlite.
    """
    try:
        if memory_dir is None:
            _import_source(invocation, "import-lossless-claw", src, "lossless-claw", how, False, _HINT)
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
    invocation.emit("import-lossless-claw", print_import, limit_warnings(to_json(report)) | hint | {"path": str(place)})


#: Kinds of transcripts that programs keep where they can be found.
_LOCAL_KINDS = ("openclaw", "claude-code", "codex", "pi", "opencode", "gemini")
#: How many conversations are listed; the others are counted.
_LISTED_FILES = 200
_ABOUT_SINCE = "Only files that changed since then: 2026-07-01, yesterday, 30d."
_WHERE = {
    "openclaw": "OpenClaw sessions, such as ~/.openclaw/agents/main/sessions",
    "claude-code": "Claude Code projects, such as ~/.claude/projects",
    "codex": "Codex rollouts, such as ~/.codex/sessions",
    "pi": "pi sessions, such as ~/.pi/agent/sessions",
    "opencode": "OpenCode's database, such as ~/.local/share/opencode, or a file of `opencode export`",
    "gemini": "Gemini CLI sessions, such as ~/.gemini/tmp",
    "jsonl": "JSON lines or arrays of messages, or one file of `lcm export jsonl`",
    "chatgpt": "a ChatGPT export, conversations.json",
}


def _local_folders(invocation: Invocation, kind: str | None = None) -> tuple[Path, ...]:
    from lossless.settings.load import ProcessEnvironment

    places = ProcessEnvironment.of(openclaw_dir=invocation.openclaw_dir)
    found = [one for one in find_local_histories(places) if kind in (None, one.kind)]
    folders = tuple(folder for one in found for folder in one.folders)
    if not folders:
        message = f"No transcripts of {kind or 'a known kind'} were found on this machine."
        raise failures.not_found(message, hint="Name a file or a folder: `lcm import PATH`.")
    return folders


def _import_files(
    invocation: Invocation,
    kind: str,
    paths: tuple[Path, ...],
    since: datetime | None,
    limit: int | None,
    is_real: bool,
    **how: bool,
) -> None:
    paths = paths or _local_folders(invocation, kind)
    for path in paths:
        stat_named(path)
    if kind == "jsonl" and len(paths) == 1 and is_archive(paths[0]):
        options = TransferOptions(not is_real)
        _import_source(invocation, "import.archive", str(paths[0]), "archive", options, is_verified=True)
        return
    files, unreadable = find_files(kind, paths, since=since)
    chosen = files if limit is None else files[:limit]
    others = {file: other for file in chosen if (other := detect_other_kind(file, kind)) is not None}
    own = [file for file in chosen if file not in others]
    found = _bring_in(invocation, kind, own, is_real=is_real, **how)
    named = {path.absolute() for path in paths if path.is_file()}
    for file, other in others.items():  # in a folder it is passed over; when it is named, it is reported
        why = f"it is no transcript of kind {kind}; it looks like one for `lcm import {other}`"
        found.append(ImportOutcome(file, Session(id=file.name), "error" if file in named else "skipped", reason=why))
    found += [ImportOutcome(place, Session(id=place.name), "error", reason=why) for place, why in unreadable]
    counts = {"files": len(chosen), "filesLeftOut": len(files) - len(chosen), "otherKinds": Counter(others.values())}
    _emit_outcomes(invocation, found, {"kind": kind, "applied": is_real, **counts})


def _emit_outcomes(invocation: Invocation, found: list[ImportOutcome], data: Data) -> None:
    found = sorted(found, key=lambda item: item.status != "error")
    data |= {
        "conversations": dict(Counter(item.status for item in found)),
        "messages": sum(item.messages for item in found),
        "pruned": sum(item.pruned for item in found),
        "items": [
            {
                "path": str(item.path),
                "sessionKey": item.session.key,
                "sessionId": item.session.id,
                **pick_json(item, "status", "messages", "pruned", "conversation_id", "title", "reason", "problems"),
            }
            for item in found[:_LISTED_FILES]
        ],
    }
    invocation.emit("import", print_transcript_import, data, ok=all(item.status != "error" for item in found))


def _bring_in(
    invocation: Invocation, kind: str, files: list[Path], *, is_real: bool, no_summaries: bool, again: bool
) -> list[ImportOutcome]:
    total = sum(map(file_size, files))
    if is_real:
        with invocation.engine() as engine, invocation.progress("Importing", total, in_bytes=True) as advance:
            return engine.transfer.import_transcripts(kind, files, fold=not no_summaries, again=again, progress=advance)
    from lossless.transfer.transcripts import preview_transcripts

    there = Path(invocation.file_path).exists()
    with (
        invocation.reader() if there else nullcontext() as reader,
        invocation.progress("Looking at", total, in_bytes=True) as advance,
    ):
        archive, settings = None if reader is None else reader.archive, invocation.loaded.settings
        return preview_transcripts(archive, settings, kind, files, again=again, progress=advance)


def _command(kind: str) -> click.Command:
    @command(kind, help=_HELP.format(where=_WHERE[kind]))
    @click.argument(
        "paths", metavar="PATH...", nargs=-1, required=kind not in _LOCAL_KINDS, type=click.Path(path_type=Path)
    )
    @when_option("--since", _ABOUT_SINCE, "TIME")
    @click.option("--limit", metavar="N", type=click.IntRange(1), help="At most this many files, the oldest first.")
    @click.option("--apply", "is_real", is_flag=True, help="Store them; without this, only show what would be stored.")
    @click.option("--dry-run", is_flag=True, help="Only show what would be stored, as without --apply.")
    @click.option("--no-summaries", is_flag=True, help="Do not fold older history; `lcm backfill` does it later.")
    @again_option
    def run(invocation: Invocation, /, dry_run: bool, **given: Any) -> None:
        if given["is_real"] and dry_run:
            raise BadInput("--apply and --dry-run contradict each other; give one of them")
        _import_files(invocation, kind, **given)

    return run


_HELP = """Store transcripts as conversations: {where}.

    A folder is searched. Without --apply nothing is stored. An import that was stopped continues where it stopped; a
    second one changes nothing. Lines that cannot be read are listed by their numbers. Messages deleted with `lcm prune`
    are left out and counted, unless --again is given. The newest part of each conversation is not folded; the older
    part is folded at once, without a model.
    """

openclaw, claude_code, codex, pi, opencode, gemini, jsonl, chatgpt = (_command(kind) for kind in TRANSCRIPT_KINDS)


@command(_AUTO)
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))
@when_option("--since", _ABOUT_SINCE)
@click.option("--no-summaries", is_flag=True, help="Do not fold older history; `lcm summary backfill` does it later.")
@again_option
@click.option("--yes", "-y", is_flag=True, help="Without PATH: import without asking.")
@click.option("--dry-run", is_flag=True, help="Show what would be stored; store nothing.")
def auto(
    invocation: Invocation, paths: tuple[Path, ...], since: datetime | None, yes: bool, dry_run: bool, **how: bool
) -> None:
    """Bring in every PATH, a file or a folder of any kind, or what hosts on this machine have stored.

    Transcripts of OpenClaw, Claude Code, Codex, pi, OpenCode and Gemini CLI, ChatGPT exports, JSON lines, archives,
    lossless-claw's and Remnic's databases. Doing it again adds only what is new.
    """
    named = paths or _local_folders(invocation)
    for path in named:
        if not path.exists():
            from difflib import get_close_matches

            kinds, word = list(import_.entries), str(path)
            near = [kind for kind in kinds if kind.startswith(word.lower())] or get_close_matches(word, kinds, 1)
            if near:
                message = f"There is no file {word!r}."
                raise failures.fail("bad_arguments", message, hint=f"Did you mean `lcm import {near[0]}`?")
    archives = {path: kind for path in named if (kind := _archive_kind(path)) is not None}
    by_kind, unknown = _sort_files([path for path in named if path not in archives], since)
    if not (archives or by_kind):
        why = f"it holds nothing of a known kind: {', '.join((*TRANSCRIPT_KINDS, *_CHECKS))}"
        raise BadInput(f"{', '.join(map(str, named))}: {why}")
    if not paths and not dry_run:
        for kind, files in by_kind.items():
            size = format_bytes(sum(map(file_size, files)))
            click.echo(f"{kind:<12}{plural(len(files), 'file'):>13}  {size:>9}", err=True)
        if not yes:
            confirm("Import them?", yes)
            dry_run = not sys.stdin.isatty()
    for path, kind in archives.items():
        options = TransferOptions(dry_run)
        _import_source(invocation, f"import.{kind}", str(path), kind, options, is_verified=False)
    if by_kind:
        found = list[ImportOutcome]()
        for kind, files in by_kind.items():
            found += _bring_in(invocation, kind, files, is_real=not dry_run, **how)
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


#: How each count is called; those that are not here are not shown.
_NAMES = {
    "conversationsScanned": "Conversations scanned",
    "conversationsInserted": "  new",
    "conversationsJoined": "  gained something",
    "sessionsTouched": "Sessions touched",
    "messagesInserted": "Messages inserted",
    "messagesSkipped": "  there already",
    "versionsInserted": "  other wordings of these",
    "messagePartsInserted": "Parts inserted",
    "messagePartsSkipped": "  there already",
    "summariesInserted": "Summaries inserted",
    "summariesSkipped": "  there already",
    "summariesMultiParentCollapsed": "  used in several, one kept",
    "summariesSkippedNoMessages": "  without messages",
    "summariesSkippedMultiSession": "  of several sessions",
    "summariesWithoutSources": "  without sources",
    "filesCopied": "Files copied",
    "filesSkipped": "Files there already",
    "filesMissing": "Files without bytes",
    "pinsInserted": "Pins inserted",
    "briefsInserted": "Focus briefs inserted",
    "prunedInserted": "Deleted conversations remembered",
    "messagesHidden": "Messages outside of contexts",
    "compactionEventsInserted": "Boundaries noted",
    "eventsDropped": "Compaction events without a place",
    "conversations": "Conversations",
    "messages": "Messages",
    "messageParts": "Parts",
    "summaries": "Summaries",
    "contextItems": "Context items",
}
#: Counts that are worth a line even when they are 0.
_ALWAYS = frozenset(
    ("conversationsScanned", "messagesInserted", "messagesSkipped", "summariesInserted", "messages", "conversations")
)


def print_import(screen: Screen, data: Data) -> None:
    screen.title("DRY RUN — no rows written." if data["dryRun"] else "Import complete.", data.get("path"))
    print_counts(screen, data)
    if "verified" in data:
        is_ok = data["verified"]["ok"]
        verdict = styled("all is there", "green") if is_ok else styled("something is wrong", "red")
        screen.line("  verified: ", verdict)
        for problem in data["verified"]["problems"]:
            screen.line(f"    {problem}")
    print_warnings(screen, data)
    if data.get("hint"):
        screen.gap()
        screen.line(styled(data["hint"], "dim"))


def print_counts(screen: Screen, data: Data) -> None:
    rows: list[tuple[str, str]] = []
    above = ("", "")  # the count that those below it belong to
    for key, name in _NAMES.items():
        value = data.get(key)
        if value is None:
            continue
        count = len(value) if isinstance(value, list) else value
        row = (name, f"{count:,}")
        if count and name.startswith(" ") and above not in rows:
            rows.append(above)
        if count or key in _ALWAYS:
            rows.append(row)
        above = above if name.startswith(" ") else row
    screen.fields(rows)


def print_warnings(screen: Screen, data: Data) -> None:
    for warning in data["warnings"]:
        screen.line(styled("  note: ", "yellow"), warning)
    unlisted = data["warningCount"] - len(data["warnings"])
    if unlisted:
        screen.line(styled(f"  and {unlisted:,} more", "dim"))


def print_transcript_import(screen: Screen, data: Data) -> None:
    """What an import of transcripts did, or would do; what stored nothing says why."""
    if not data["files"] and not data["items"]:
        screen.line(f"There are no transcripts of kind {data['kind']} there.")
        return
    shown = data["items"][:_SHOWN_ITEMS]
    screen.items(
        shown,
        "status, messages:count, conversation:rest",
        status=lambda item: styled(item["status"], _COLOURS.get(item["status"], "dim")),
        conversation=lambda item: " · ".join(filter(None, (session_name(item), item["title"]))),
    )
    if len(data["items"]) > len(shown):
        screen.line(styled(f"and {sum(data['conversations'].values()) - len(shown):,} more", "dim"))
    for item in data["items"]:
        if item["reason"] and item["status"] in ("error", "held"):
            screen.line(styled(f"{Path(item['path']).name}: {item['reason']}", "red"))
        for problem in item["problems"]:
            screen.line(styled(f"{Path(item['path']).name}, {problem}", "yellow"))
    skipped = Counter(item["reason"] for item in data["items"] if item["status"] == "skipped" and item["reason"])
    for reason, count in skipped.items():
        screen.line(styled(f"{count:,} skipped: {reason}", "dim"))
    statuses = ", ".join(f"{count:,} {status}" for status, count in sorted(data["conversations"].items()))
    counted = f"{plural(data['files'], 'file')}, {plural(data['messages'], 'message')}"
    screen.line(styled(counted, "bold"), f": {statuses}")
    print_pruned(screen, data["pruned"])
    if data["otherKinds"].get("unknown"):
        screen.line(styled(f"{plural(data['otherKinds']['unknown'], 'file')} of no known kind left out.", "dim"))
    if data["filesLeftOut"]:
        screen.line(styled(f"{plural(data['filesLeftOut'], 'file')} left out by --limit.", "dim"))
    if not data["applied"]:
        screen.unchanged("--apply does it." if data["messages"] else "", "Nothing was stored.")
    elif not data["messages"]:
        screen.line("Nothing new was stored: the archive has all of it already, or the files hold no messages.")
    else:
        screen.line(styled("`lcm prune -s KEY --include-active` deletes one of them again.", "dim"))


#: So many conversations of an import are listed.
_SHOWN_ITEMS = 20
_COLOURS = {"imported": "green", "would-import": "green", "error": "red", "held": "yellow"}
