"""`lcm backup`, `restore`, `rotate`, `size`, `prune`, `forget` and `files`: copies of the archive, what takes up
space, and what is deleted for good.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures, options
from lossless.cli.commands import F, Group, Invocation, command, new_spelling, text_type
from lossless.cli.recall import file_page_options, run_tool, tool_settings
from lossless.cli.screen import Data, Screen, message_counts, percent, pick_json, preview, styled, to_json
from lossless.compaction.summariser import FILES_PER_ROUND, DescribeReport, Summariser
from lossless.errors import ArchiveError, BadInput, NotFound
from lossless.files.document import DEFAULT_STUB_BYTES
from lossless.files.vault import Vault, set_users
from lossless.maintenance import backup as copies
from lossless.maintenance import prune as pruning
from lossless.maintenance.verify import Verification, verify_archive
from lossless.model.conversations import Session
from lossless.model.masking import check_phrase
from lossless.model.paths import expand_path
from lossless.model.times import parse_time
from lossless.tui.text import format_bytes, plural

if TYPE_CHECKING:
    from lossless.cli.options import ConversationTarget, Paging
    from lossless.maintenance.backup import Backup
    from lossless.maintenance.forget import ForgetChanges, ForgetReport
    from lossless.maintenance.prune import PrunePlan
    from lossless.model.messages import StoredFile
    from lossless.model.records import TimeRange


def _apply_option(what: str) -> Callable[[F], F]:
    """`--yes`, which was `--apply` before, and `--dry-run`; the command gets `is_real`, None when neither is given."""

    def chosen(is_wanted: bool, dry_run: bool) -> bool | None:
        if is_wanted and dry_run:
            raise options.usage_error("--yes and --dry-run contradict each other; give one of them.")
        return True if is_wanted else False if dry_run else None

    return options.gathered(
        "is_real",
        chosen,
        options.flag("--yes", "-y", "--apply", "is_wanted", help=f"{what} without asking."),
        options.flag("--dry-run", help="Show what would be deleted; change nothing."),
    )


@command("backup")
@click.argument("path", metavar="[PATH]", type=text_type, required=False)
@options.flag("--rolling", help="Replace the rolling backup next to the archive.")
@options.flag("--list", "lists", help="List the backups next to the archive instead.")
@options.dry_run
def backup(invocation: Invocation, path: str | None, rolling: bool, lists: bool, dry_run: bool) -> None:
    """Copy the archive to PATH, or next to it under a name with the time."""
    if lists:
        click.get_current_context().invoke(backups)
        return
    if path == "list":
        raise options.usage_error("`lcm backup --list` lists the backups; a copy of that name is `lcm backup ./list`.")
    if path is not None and rolling:
        raise options.usage_error("--rolling has its own place; give it or PATH, not both.")
    place = None if path is None else expand_path(path).absolute()
    with invocation.reader() as engine:
        size = engine.browse.size()[0]
        if dry_run:
            invocation.is_dry_run = True
            planned = {"path": str(place or Path(invocation.file_path).parent), "bytes": size, "files": 0}
            invocation.answer("backup", planned, view=print_backup)
            return
        with invocation.progress("Copying", size, in_bytes=True) as advance:
            made = engine.backup(place, rolling=rolling, progress=advance)
        damage = engine.admin.damage()
    data: Data = {**_backup_json(made), "files": made.files} | ({"damage": damage} if damage else {})
    invocation.answer("backup", data, view=print_backup, ok=damage is None)


@command("backups")
def backups(invocation: Invocation) -> None:
    """List the backups next to the archive, newest first."""
    found = copies.list_backups(invocation.file_path)
    data: Data = {
        "count": len(found),
        "bytes": sum(item.bytes for item in found),
        "items": list(map(_backup_json, found)),
    }
    if screen := invocation.answer("backups", data):
        none = "There are no backups next to the archive. `lcm backup` makes one."
        columns = "made=madeAt:time, label, size=bytes:bytes, file=path:key"
        screen.items(data["items"], columns, none, path=lambda item: Path(item["path"]).name)
        if data["items"]:
            screen.note(f"{plural(data['count'], 'backup')}, {format_bytes(data['bytes'])}")


@command("restore")
@click.argument("source", metavar="BACKUP", type=text_type)
@options.flag("--yes", "-y", help="Do it without asking; a program must give this.")
@options.flag("--dry-run", help="Only verify the backup.")
def restore(invocation: Invocation, source: str, yes: bool, dry_run: bool) -> None:
    """Replace the archive with BACKUP: a path, or the name of a file that `lcm backup --list` shows."""
    archive_path = invocation.file_path
    place, neighbour = expand_path(source), Path(archive_path).parent / source
    place = place if place.is_file() or not neighbour.is_file() else neighbour
    if not place.is_file():
        hint = "`lcm backup --list` shows those next to the archive."
        raise failures.not_found(f"There is no backup {source!r}.", hint=hint, path=source)
    place = place.absolute()
    data: Data = {"applied": False, "databasePath": archive_path, "source": str(place)}
    warnings: list[str] = []

    def check(archive: Any) -> list[str]:
        return _problems(verify_archive(archive), warnings)

    if not yes or dry_run:
        counts = copies.inspect_backup(place, check)
        data |= {"counts": to_json(counts), "warnings": len(warnings)}
        if dry_run or not options.ask_person(
            f"Replace {archive_path} with {place.name} ({counts.messages:,} messages)?"
        ):
            invocation.answer("restore", data, view=print_restore)
            return
        warnings.clear()
    with invocation.progress("Restoring", place.stat().st_size, in_bytes=True) as advance:
        done = copies.restore_backup(place, archive_path, check, datetime.now(UTC), advance, invocation.vault)
    if warnings:  # some may have been of payloads that are back now
        warnings.clear()
        with invocation.reader() as engine:
            _problems(engine.verify(), warnings)
    data |= pick_json(done, "previous", "before", "counts=after", "files")
    data |= {"applied": True, "warnings": len(warnings)}
    invocation.answer("restore", data, view=print_restore)


def _backup_json(made: Backup) -> Data:
    return pick_json(made, "path", "label", "made_at", "bytes", "rolling=is_rolling")


def _problems(proof: Verification, warnings: list[str]) -> list[str]:
    """What is wrong with an archive, without warnings and without payloads, which a backup keeps in its own folder."""
    found = proof.problems
    warnings += [str(problem) for problem in found if problem.severity == "warning" or problem.check == "files"]
    return [str(problem) for problem in found if problem.severity == "error" and problem.check != "files"]


#: How many conversations or messages are listed; the others are counted.
_LISTED = 50


@command("size")
def size(invocation: Invocation) -> None:
    """Say what takes up space, and what of it could go."""
    with invocation.reader() as engine:
        found = engine.admin.size()
    data: Data = to_json(found) | {"folder": str(invocation.vault.root)}
    if screen := invocation.answer("size", data):
        whole = data["databaseBytes"] + data["fileBytes"] or 1
        screen.title(
            format_bytes(whole),
            f"{format_bytes(data['databaseBytes'])} archive, {format_bytes(data['fileBytes'])} files",
        )
        screen.gap()
        columns = "what=name:rest, count:count, size=bytes:bytes, share:share, of messages=of:right"
        rows = [row | {"of": "" if row["ofMessages"] is None else percent(row["ofMessages"])} for row in data["rows"]]
        screen.items(rows, columns, share=lambda row: row["bytes"] / whole)
        if not data["isExact"]:
            screen.warn("Texts were counted, not pages: these are estimates.")
        if data["couldGo"]:
            screen.gap()
            screen.items(data["couldGo"], "could go=what:rest, count:count, size=bytes:bytes, with=command:key")


@command("prune")
@options.text("--older-than", metavar="AGE", help="Without new messages for longer than this: 90d, 12w, 6m or 2y.")
@options.text("--to", "limit", metavar="SIZE", help="The oldest ones, until the archive has at most this size: 2GB.")
@options.text("--session", "-s", "patterns", metavar="GLOB", multiple=True, help="Sessions whose name matches.")
@options.flag("--include-active", help="Also conversations that are not closed.")
@options.flag("--no-backup", help="Make no backup first.")
@click.option("--vacuum/--no-vacuum", default=None, help="Free the space on disk; by default when it is worthwhile.")
@_apply_option("Delete them")
def prune(
    invocation: Invocation,
    older_than: str | None,
    limit: str | None,
    patterns: tuple[str, ...],
    include_active: bool,
    no_backup: bool,
    vacuum: bool | None,
    is_real: bool | None,
) -> None:
    """Delete whole conversations permanently: messages, summaries, files, everything."""
    option = "--older-than"
    try:
        age = None if older_than is None else pruning.parse_age(older_than)
        option = "--to"
        max_bytes = None if limit is None else pruning.parse_size(limit)
    except BadInput as error:
        raise options.bad_option(option, str(error)) from None
    choice = pruning.PruneFilter(age, max_bytes, patterns, include_active)
    if choice.is_empty and not vacuum:
        raise options.usage_error("Say what may go: --older-than, --to or --session; or only --vacuum.")
    with invocation.reader() as engine:
        choice = replace(choice, patterns=options.session_names(engine, patterns))
        work = engine.admin.prune_plan(choice)
        database, free = engine.browse.size()
    names = ("session_key", "session_id", "title", "active", "newest_at", "messages", "summaries", "files", "bytes")
    data: Data = {
        "conversations": len(work.chosen),
        **pick_json(work, "messages", "summaries", "files", "bytes", "bytes_before", "bytes_after", "in_use"),
        "items": [pick_json(item, "conversation_id=id", *names) for item in work.chosen[:_LISTED]],
        "applied": bool(is_real),
        "databaseSizeBytes": database,
        "freeBytes": free,
    }
    view = partial(print_prune, only_closed=not include_active and not choice.is_empty)
    if is_real is None and work.chosen and sys.stdin.isatty():
        invocation.answer("prune", data | {"isAsked": True}, view=view)
        options.confirm(f"Delete {plural(len(work.chosen), 'conversation')} permanently?", yes=False)
        is_real = data["applied"] = True
    if is_real and (work.chosen or vacuum):
        data |= _apply_prune(invocation, work, backs_up=not no_backup, vacuum=vacuum)
    invocation.answer("prune", data, view=view)


def _apply_prune(invocation: Invocation, work: PrunePlan, *, backs_up: bool, vacuum: bool | None) -> Data:
    backup_path, is_named = None, invocation.loaded.sources["largeFilesDir"].kind != "default"
    #: Whether the folder of files is this archive's: it was named, or it is next to the archive.
    ours = is_named or invocation.vault.root.parent == Path(invocation.file_path).parent
    with invocation.engine() as engine:
        if backs_up and work.chosen:
            with invocation.progress("Copying", engine.browse.size()[0], in_bytes=True) as advance:
                backup_path = str(engine.admin.copy("prune", advance, with_files=ours).path)
        with invocation.progress("Deleting", len(work.chosen)) as advance:
            report = engine.admin.prune(work, backup=False, with_files=ours, progress=advance)
        vacuumed = None if vacuum is False else engine.admin.vacuum(always=bool(vacuum))
        database, free = engine.browse.size()
    return {
        **pick_json(report, "conversations", "messages", "summaries", "files", "files_left", "left"),
        "backupPath": backup_path,
        "vacuumed": vacuumed is not None and vacuumed.done,
        "vacuumReason": None if vacuumed is None else vacuumed.reason,
        "databaseSizeBytes": database,
        "freeBytes": free,
    }


@command("rotate")
@options.target_options()
@options.text("--file", "path", metavar="PATH", help="The transcript; else the one that is followed.")
@options.flag("--apply", "is_real", help="Rewrite it; without this, only say what would stay.")
def rotate(invocation: Invocation, target: ConversationTarget, path: str | None, is_real: bool) -> None:
    """Shorten a session's transcript to its newest messages, once all of it is in the archive."""
    from lossless.maintenance.rotate import NOTHING_TO_REMOVE

    with invocation.reader() as engine:
        conversation = target.need_active(engine)
        followed = engine.transcripts.followed(conversation.id)
    place = path or (followed.path if followed is not None else "")
    if not place:
        message = f"No transcript is known for conversation {conversation.id}."
        raise failures.not_found(message, hint="Name it with --file.", conversationId=conversation.id)
    file = expand_path(place).absolute()
    with invocation.engine() if is_real else invocation.reader() as engine:
        report = engine.rotate(conversation, file, dry_run=not is_real)
    is_fine = report.rotated or report.reason in (None, NOTHING_TO_REMOVE) or not is_real
    data: Data = {
        **pick_json(conversation, "conversation_id=id", "session_key"),
        **pick_json(report, "session_file=path", "rotated", "reason", "size_before", "size_after", "kept_messages"),
        **pick_json(report, "dropped_messages", "backup_path=backup", "checkpoint_size"),
        "applied": is_real,
    }
    none = "" if report.reason is None else f"Not rotated: {report.reason}."
    if screen := invocation.answer("rotate", data, ok=is_fine):
        screen.outcome(data, none=none, how="--apply does it.")
        if not is_real and not none:
            screen.note("The archive keeps all messages.")


_ID = re.compile(r"msg#([1-9]\d{0,17})", re.ASCII)


@command("forget")
@click.argument("words", metavar="[WORDS|ID]...", type=text_type, nargs=-1)
@options.text("--from", "source", metavar="FILE", help="Phrases, one per line; `-` reads standard input.")
@options.text("--session", "-s", "sessions", metavar="NAME", multiple=True, help="All words of this session.")
@_apply_option("Do it")
def forget(
    invocation: Invocation, words: tuple[str, ...], source: str | None, sessions: tuple[str, ...], is_real: bool | None
) -> None:
    """Remove a text permanently: WORDS as one phrase, or a message by its ID (msg#12)."""
    words = tuple(word.strip() for word in words)
    ids = [int(found[1]) for word in words if (found := _ID.fullmatch(word))]
    for word in words:  # what is meant as an id, though there can be no such message
        if re.fullmatch(r"(?i)msg#[-+]?\d*", word) and not _ID.fullmatch(word):
            raise options.bad_option("WORDS", f"{word!r} is no id of a message, such as msg#12")
    if ids and len(ids) < len(words):
        raise options.usage_error("Give words or ids of messages, not both.")
    phrases = [" ".join(words)] if words and not ids else []
    phrases += [] if source is None else phrases_in(source, "--from")
    if not (phrases or ids or sessions):
        raise options.usage_error("Say what to forget: words, msg#12, --from or --session.")
    for phrase in phrases:
        try:
            check_phrase(phrase)
        except BadInput as error:
            raise options.bad_option("WORDS", str(error)) from None
    with invocation.reader() as engine:
        named = [Session(key=name) for name in options.session_names(engine, sessions)]
        try:
            report = engine.admin.forget_plan(phrases, message_ids=ids, sessions=named)
        except NotFound as error:
            raise failures.not_found(f"{error}.") from None
    if is_real is None and not report.is_nothing and sys.stdin.isatty():
        invocation.answer("forget", _forget_json(report, applied=False) | {"isAsked": True}, view=print_forget)
        options.confirm("Forget it permanently?", yes=False)
        is_real = True
    if is_real:
        what = "Looking at messages"
        with invocation.engine() as engine, invocation.progress(what, engine.browse.counts().messages) as advance:
            report = engine.admin.forget(phrases, message_ids=ids, sessions=named, progress=advance)
    data = _forget_json(report, applied=bool(is_real))
    invocation.answer("forget", data, view=print_forget, ok=not (is_real and report.left))


def phrases_in(source: str, option: str) -> list[str]:
    """The phrases of a file, one a line, without the space around them and a byte order mark; blank lines are none."""
    try:
        with click.open_file(source, encoding="utf-8") as file:
            found = [line.strip() for line in file.read().removeprefix("\ufeff").split("\n")]
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise options.bad_option(option, f"{source!r} cannot be read: {reason}") from None
    if phrases := list(filter(None, found)):
        return phrases
    raise options.bad_option(option, f"{source!r} holds no phrase")


def _forget_json(report: ForgetReport, *, applied: bool) -> Data:
    return {
        "applied": applied,
        "found": not report.is_nothing,
        **_touched_json(report.archive),
        "backups": [{"path": str(path), **_touched_json(touched)} for path, touched in report.backups],
        "left": list(report.left),
        "resumed": report.resumed,
    }


def _touched_json(touched: ForgetChanges) -> Data:
    return {
        "messages": len(touched.message_ids),
        "messageIds": list(touched.message_ids[:_LISTED]),
        **pick_json(touched, "emptied", "versions", "files", "rewritten", "cut", "elsewhere"),
    }


def print_backup(screen: Screen, data: Data) -> None:
    done = "would be copied" if data.get("dryRun") else "copied"
    screen.line(styled(f"{format_bytes(data['bytes'])} {done} ", "bold"), f"to {data['path']}")
    if data["files"]:
        screen.note(f"{plural(data['files'], 'payload')} in {data['path']}.files")
    if data.get("damage"):
        screen.line(styled("The archive is damaged, and the copy has the same damage: ", "bold red"), data["damage"])
        screen.note("`lcm verify` lists what is wrong; `lcm backup --list` shows older copies.")


def print_restore(screen: Screen, data: Data) -> None:
    held = message_counts(data["counts"])
    if not data["applied"]:
        screen.line(f"{data['source']} is sound: {held}.")
        screen.unchanged("--yes puts it in place.")
    else:
        screen.title("Restored", held)
        screen.record(data, "counts", "warnings")
    if data["warnings"]:
        which = "" if data["applied"] else f" --db {shlex.quote(data['source'])}"
        screen.warn(f"{plural(data['warnings'], 'warning')}; see `lcm{which} verify`.")


def print_prune(screen: Screen, data: Data, *, only_closed: bool = False) -> None:
    closed = " Only closed ones are deleted; --include-active adds the others." if only_closed else ""
    none = "" if data["items"] or data["applied"] else f"No conversation matches.{closed}"
    if not none:
        what = f"{plural(data['conversations'], 'conversation')}, {plural(data['messages'], 'message')}"
        screen.title("Deleted" if data["applied"] else f"{what} would be deleted permanently", what * data["applied"])
    hidden = ("conversations", "messages", "bytesBefore", "bytesAfter", "inUse", "vacuumed", "isAsked")
    screen.outcome(data, none=none, how="--yes makes a backup and deletes them.", hidden=hidden)
    if data["inUse"]:
        screen.warn(f"{plural(len(data['inUse']), 'conversation')} stay: others hold parts of them.")


def print_forget(screen: Screen, data: Data) -> None:
    if data["found"]:
        screen.title("Forgotten" if data["applied"] else "Would be forgotten")
    none = "" if data["found"] else "It is nowhere in the archive, nor in a backup next to it."
    how, hidden = "--yes does it; it cannot be undone.", ("found", "left", "isAsked")
    screen.outcome(data, none=none, how=how, hidden=hidden)
    for reason in data["left"]:
        screen.line(styled("Left: ", "yellow"), reason)


_CHUNK = 1 << 20


files = Group("files", help="List stored files, show or describe them, or delete files that no row refers to.")


@command("list", files, short_help="List stored files.")
@options.target_options(required=False)
@options.time_options
@options.paging_options("files", str)
def list_files(
    invocation: Invocation, target: ConversationTarget | None, span: TimeRange | None, paging: Paging
) -> None:
    """List stored files, newest first, of one conversation or of all, and say whether their bytes are there."""
    vault = invocation.vault
    ends = (None, None) if span is None else (span.since, span.before)
    since, before = (None if end is None else parse_time(end) for end in ends)
    with invocation.reader() as engine, engine.browse.reading():
        where: Data = {"conversation_id": options.id_or_none(target, engine), "since": since, "before": before}
        page, count, size = engine.browse.files(paging.limit, paging.start, **where)
    data: Data = {"folder": str(vault.root), "total": {"count": count, "bytes": size}}
    data["items"] = [_item(file, vault) for file in page.rows]
    if screen := invocation.answer("files.list", data, paging.pagination(page)):
        total = data["total"]
        screen.title(plural(total["count"], "file"), format_bytes(total["bytes"]), data["folder"])
        screen.items(
            data["items"],
            "id=fileId, conv=conversationId:right, size=byteSize:bytes, stored=createdAt:date, bytes, name=fileName, "
            "about=preview:rest",
            bytes=lambda item: styled("there", "green") if item["isThere"] else styled("missing", "red"),
        )


def _item(file: StoredFile, vault: Vault) -> Data:
    names = ("file_id=id", "conversation_id", "file_name=name", "mime_type=mime", "byte_size", "line_count")
    shown = {"isThere": _is_readable(file, vault), "preview": preview(file.exploration_summary or "")}
    return pick_json(file, *names, "created_at") | shown


def _is_readable(file: StoredFile, vault: Vault) -> bool:
    with suppress(NotFound, ArchiveError):
        vault.read(file, 0, 0)
        return True
    return False


@command("show", files, short_help="Show a file.")
@click.argument("name", metavar="ID", type=text_type)
@file_page_options
@options.flag("--raw", help="Write only the stored bytes.")
def show_file(invocation: Invocation, name: str, page: Data, raw: bool) -> None:
    """Show the file ID: its facts and its content."""
    from lossless.recall.results import parse_reference

    named = parse_reference(name, numbers=False)
    if named.kind != "file":
        raise BadInput(f"{named.id} is not a stored file: its id begins with file_")
    vault = invocation.vault
    with invocation.reader(tool_settings(invocation)) as engine:
        stored = engine.browse.file(named.id)
        if raw:
            at: int | None = 0
            while at is not None:
                piece = vault.read(stored, at, _CHUNK)
                click.echo(piece.data, nl=False)
                at = piece.end if piece.is_cut else None
            return
        result = run_tool(engine, "lcm_describe", None, {"id": named.id, **page})
    place = {"storedAt": stored.storage_uri, "isThere": _is_readable(stored, vault)}
    view = "Stored at {storedAt}\n{text}" if place["isThere"] else "Stored at {storedAt} (missing)\n{text}"
    invocation.answer("files.show", result.details | place | {"text": result.text}, view=view)


@command("explore", files, short_help="Let a model describe files.")
@options.target_options(required=False)
@options.number(
    "--limit", maximum=options.MAX_LIMIT, default=FILES_PER_ROUND, help="At most this many, the oldest first."
)
@options.flag("--dry-run", help="Only show how many files wait, and which model would be asked.")
def explore_files(invocation: Invocation, target: ConversationTarget | None, limit: int, dry_run: bool) -> None:
    """Let a model describe stored text files, instead of the summary that was made when they were stored."""
    with invocation.reader() as engine:
        id_ = options.id_or_none(target, engine)
        remaining = engine.browse.undescribed_files(id_)
    models = [candidate.name for candidate in Summariser(invocation.loaded.settings).describers]
    if not models and not dry_run:
        hint = "Set largeFileSummaryModel and largeFileSummaryProvider, such as with `lcm config set`."
        raise failures.fail("no_model", "No model is configured that describes files.", failures.CONFIG, hint=hint)
    done, items = DescribeReport(left=remaining), dict[str, "StoredFile"]()
    if remaining and not dry_run:
        with invocation.progress("Describing", min(remaining, limit)) as advance, invocation.engine() as engine:
            session = None if id_ is None else engine.browse.get(id_)
            done = engine.admin.describe_files(session, limit=limit, progress=lambda _: advance(1))
            items = engine.browse.files_by_id(done.file_ids)
    vault, failure = invocation.vault, done.failure
    data: Data = {
        "dryRun": dry_run,
        "models": models,
        "described": len(done.file_ids),
        "left": done.left,
        "stop": None if failure is None else {"code": failure.code, "message": str(failure)},
        "items": [_item(items[file_id], vault) for file_id in done.file_ids if file_id in items],
    }
    if screen := invocation.answer("files.explore", data, ok=failure is None):
        for item in data["items"]:
            screen.line(f"  {item['fileId']}  {item['fileName']}  ", styled(item["preview"], "dim"))
        waiting = plural(data["left"], "file")
        if data["dryRun"]:
            screen.line(f"{waiting} of prose would be described by {', '.join(data['models']) or 'no model'}.")
            return
        screen.line(f"Described {plural(data['described'], 'file')}; {waiting} left with the summary made here.")
        if data["stop"]:
            screen.line(styled("Stopped: ", "yellow"), data["stop"]["message"])


@command("gc", files, short_help="Delete files that no row refers to.")
@click.option("--apply/--dry-run", "is_real", help="Delete them; or only list them, which is the default.")
@click.option(
    "--used-by",
    "used_by",
    metavar="PATH",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    help="An archive that also keeps files in the folder; may be repeated. It is remembered.",
)
def collect_garbage(invocation: Invocation, is_real: bool, used_by: tuple[str, ...]) -> None:
    """List files on disk that no row refers to, and with --apply delete them."""
    vault = invocation.vault
    if used_by:
        set_users(vault.root, {invocation.file_path, *used_by})
    with invocation.reader() as engine:
        orphans = engine.admin.orphan_files()
    if is_real and orphans:
        with invocation.engine() as engine:
            orphans = engine.admin.delete_orphan_files(orphans)
    data: Data = {
        "applied": is_real,
        "folder": str(vault.root),
        "count": len(orphans),
        "bytes": sum(orphan.size for orphan in orphans),
        "items": [pick_json(one, "file_id", "path", "byte_size=size") for one in orphans],
    }
    none = "" if orphans else f"Every file in {vault.root} has its row, or is younger than an hour."
    view = partial(Screen.outcome, none=none, done="They are deleted.", how="--apply deletes them.")
    invocation.answer("files.gc", data, view=view)


@command("stub", short_help="Store large tool results as files.")
@options.target_options(required=False)
@options.number("--min-bytes", help=f"The smallest size to consider.  [default: {DEFAULT_STUB_BYTES}]")
@options.number("--limit", help="At most this many, the oldest first.")
@options.flag("--revert", help="Remove the marks again instead.")
@options.flag("--apply", "is_real", help="Do it; without this, only say what would be done.")
def stub(
    invocation: Invocation,
    target: ConversationTarget | None,
    min_bytes: int | None,
    limit: int | None,
    revert: bool,
    is_real: bool,
) -> None:
    """Store large tool results of stored messages as files, too."""
    if revert and (min_bytes, limit) != (None, None):
        raise options.usage_error("--revert takes all marks away; --min-bytes and --limit do not go with it.")
    minimum = min_bytes or DEFAULT_STUB_BYTES
    with invocation.reader() as engine:
        id_ = options.id_or_none(target, engine)
        marks = engine.admin.stub_revert_plan(id_) if revert else {}
        work = None if revert else engine.admin.stub_plan(minimum, id_, limit)
    data: Data = {"applied": is_real, "reverted": revert, "conversationId": id_}
    if work is None:
        items = [{"messageId": message_id, "fileId": file_id} for message_id, file_id in marks.items()]
        data |= {"count": len(marks), "items": items[:_LISTED]}
        if is_real and marks:
            with invocation.engine() as engine:
                data["count"], data["rows"] = engine.admin.stub_revert(marks)
    else:
        names = ("message_id", "conversation_id", "tool", "byte_size")
        items = [pick_json(one, *names) | {"preview": preview(one.head)} for one in work.outputs[:_LISTED]]
        data |= {"folder": str(invocation.vault.root), "minBytes": minimum, "count": len(work.outputs)}
        data |= {"bytes": work.bytes, "left": work.left, "items": items}
        if is_real and work.outputs:
            with invocation.progress("Storing", len(work.outputs)) as advance, invocation.engine() as engine:
                report = engine.admin.stub(work, advance)
            data |= {"count": report.stubbed, "bytes": report.bytes, "passedOver": report.passed_over}
    none = "No message has such a mark." if revert else "No answer of a tool is that large."
    how = "--apply takes the marks away." if revert else "--apply gives each a file."
    done = "" if revert else "`lcm files stub --revert` takes this back."
    view = partial(Screen.outcome, none="" if data["count"] else none, done=done, how=how)
    invocation.answer("stub", data, view=view)


files.add_command(new_spelling(stub, "stub", "now"))
