"""`lcm files` and `lcm stub`: large payloads that are stored outside of their messages."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

import click

from lossless.cli import failures, options
from lossless.cli.commands import Group, Invocation, command, new_spelling, number_option, text_type
from lossless.cli.options import MAX_LIMIT, ConversationTarget, usage_error
from lossless.cli.output import pick_json, preview
from lossless.cli.recall import file_page_options, run_tool, tool_settings
from lossless.cli.screen import Data, Screen, styled
from lossless.compaction.summariser import FILES_PER_ROUND, DescribeReport, Summariser
from lossless.errors import ArchiveError, BadInput, NotFound
from lossless.files.document import DEFAULT_STUB_BYTES
from lossless.files.vault import Vault, set_users
from lossless.model.times import parse_time
from lossless.tui.text import format_bytes, plural

if TYPE_CHECKING:
    from lossless.model.messages import StoredFile
    from lossless.model.records import PageStart, TimeRange

_CHUNK = 1 << 20


files = Group("files", help="List stored files, show or describe them, or delete files that no row refers to.")


@command("list", files, short_help="List stored files.")
@options.target_options(required=False, by_run=False)
@options.time_options
@options.paging_options("files", str)
def list_files(
    invocation: Invocation,
    target: ConversationTarget | None,
    span: TimeRange | None,
    limit: int,
    start: PageStart | None,
) -> None:
    """List stored files, newest first, of one conversation or of all, and say whether their bytes are there."""
    vault = invocation.vault
    ends = (None, None) if span is None else (span.since, span.before)
    since, before = (None if end is None else parse_time(end) for end in ends)
    with invocation.reader() as engine, engine.browse.reading():
        id_ = options.id_or_none(target, engine)
        page, count, size = engine.browse.files(limit, start, conversation_id=id_, since=since, before=before)
    data: Data = {"folder": str(vault.root), "total": {"count": count, "bytes": size}}
    data["items"] = [_item(file, vault) for file in page.rows]
    invocation.emit("files.list", print_files, data, options.pagination("files", limit, page))


def _item(file: StoredFile, vault: Vault) -> Data:
    return {
        "fileId": file.id,
        "conversationId": file.conversation_id,
        "fileName": file.name,
        "mimeType": file.mime,
        **pick_json(file, "byte_size", "line_count", "created_at"),
        "isThere": _is_readable(file, vault),
        "preview": preview(file.exploration_summary or ""),
    }


def _is_readable(file: StoredFile, vault: Vault) -> bool:
    with suppress(NotFound, ArchiveError):
        vault.read(file, 0, 0)
        return True
    return False


@command("show", files, short_help="Show a file.")
@click.argument("name", metavar="ID", type=text_type)
@file_page_options
@click.option("--raw", is_flag=True, help="Write only the stored bytes.")
def show_file(invocation: Invocation, name: str, page: Data, raw: bool) -> None:
    """Show the file ID: its facts and its content.

    If its bytes are gone and a message still has the text, the text is shown.
    """
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
    invocation.emit("files.show", print_file, result.details | place | {"text": result.text})


@command("explore", files, short_help="Let a model describe files.")
@options.target_options(required=False, by_run=False)
@number_option("--limit", maximum=MAX_LIMIT, default=FILES_PER_ROUND, help="At most this many, the oldest first.")
@click.option("--dry-run", is_flag=True, help="Only show how many files wait, and which model would be asked.")
def explore_files(invocation: Invocation, target: ConversationTarget | None, limit: int, dry_run: bool) -> None:
    """Let a model describe stored text files, instead of the summary that was made when they were stored.

    The settings largeFileSummaryModel and largeFileSummaryProvider name the model; `lcm cost` counts its calls. If it
    fails, the summary does not change, and the exit code is 1. `lcm worker` does this, too.
    """
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
            done = engine.admin.describe_files(session, limit=limit, progress=lambda _: advance and advance(1))
            items = engine.browse.files_by_id(done.file_ids)
    vault, failure = invocation.vault, done.failure
    data = {
        "dryRun": dry_run,
        "models": models,
        "described": len(done.file_ids),
        "left": done.left,
        "stop": None if failure is None else {"code": failure.code, "message": str(failure)},
        "items": [_item(items[file_id], vault) for file_id in done.file_ids if file_id in items],
    }
    invocation.emit("files.explore", print_explored, data, ok=failure is None)


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
    """List files on disk that no row refers to, and with --apply delete them.

    A crash, `lcm files stub --revert` and deleted conversations leave such files. A file that is younger than an hour
    stays, because its row may still be written. A file of another archive in the same folder stays, too. If it is not
    known which archives use the folder, nothing is done until --used-by names them (name this archive if it is the only
    one).
    """
    vault = invocation.vault
    if used_by:
        set_users(vault.root, {invocation.file_path, *used_by})
    with invocation.reader() as engine:
        orphans = engine.admin.orphan_files()
    if is_real and orphans:
        with invocation.engine() as engine:
            orphans = engine.admin.delete_orphan_files(orphans)
    data = {
        "applied": is_real,
        "folder": str(vault.root),
        "count": len(orphans),
        "bytes": sum(orphan.size for orphan in orphans),
        "items": [{"fileId": one.file_id, "path": str(one.path), "byteSize": one.size} for one in orphans],
    }
    invocation.emit("files.gc", print_garbage, data)


#: How many messages are listed; the others are counted.
_SHOWN = 50


@command("stub", short_help="Store large tool results as files.")
@options.target_options(required=False, by_run=False)
@number_option("--min-bytes", help=f"The smallest size to consider.  [default: {DEFAULT_STUB_BYTES}]")
@number_option("--limit", help="At most this many, the oldest first.")
@click.option("--revert", is_flag=True, help="Remove the marks again instead.")
@click.option("--apply", "is_real", is_flag=True, help="Do it; without this, only say what would be done.")
def stub(
    invocation: Invocation,
    target: ConversationTarget | None,
    min_bytes: int | None,
    limit: int | None,
    revert: bool,
    is_real: bool,
) -> None:
    """Store large tool results of stored messages as files, too.

    No message changes: each gets a mark that its text is also in a file. With the setting stubLargeToolPayloads,
    prompts show a short reference instead of the text. --revert removes marks and rows; `lcm files gc` then deletes the
    files.
    """
    if revert and (min_bytes, limit) != (None, None):
        raise usage_error("--revert takes all marks away; --min-bytes and --limit do not go with it.")
    data = _revert(invocation, target, is_real) if revert else _stub(invocation, target, min_bytes, limit, is_real)
    invocation.emit("stub", print_stubs, {"applied": is_real, "reverted": revert} | data)


def _stub(
    invocation: Invocation, target: ConversationTarget | None, min_bytes: int | None, limit: int | None, is_real: bool
) -> Data:
    minimum = min_bytes or DEFAULT_STUB_BYTES
    with invocation.reader() as engine:
        id_ = options.id_or_none(target, engine)
        work = engine.admin.stub_plan(minimum, id_, limit)
    data = {
        "conversationId": id_,
        "folder": str(invocation.vault.root),
        "minBytes": minimum,
        "count": len(work.outputs),
        "bytes": work.bytes,
        "left": work.left,
        "items": [
            pick_json(output, "message_id", "conversation_id", "tool", "byte_size") | {"preview": preview(output.head)}
            for output in work.outputs[:_SHOWN]
        ],
    }
    if is_real and work.outputs:
        with invocation.progress("Storing", len(work.outputs)) as advance, invocation.engine() as engine:
            report = engine.admin.stub(work, advance)
        data |= {"count": report.stubbed, "bytes": report.bytes, "passedOver": report.passed_over}
    return data


def _revert(invocation: Invocation, target: ConversationTarget | None, is_real: bool) -> Data:
    with invocation.reader() as engine:
        id_ = options.id_or_none(target, engine)
        marks = engine.admin.stub_revert_plan(id_)
    items = [{"messageId": message_id, "fileId": file_id} for message_id, file_id in islice(marks.items(), _SHOWN)]
    data = {"conversationId": id_, "count": len(marks), "items": items}
    if is_real and marks:
        with invocation.engine() as engine:
            data["count"], data["rows"] = engine.admin.stub_revert(marks)
    return data


files.add_command(new_spelling(stub, "stub", "now"))


def print_files(screen: Screen, data: Data) -> None:
    total = data["total"]
    screen.title(plural(total["count"], "file"), format_bytes(total["bytes"]), data["folder"])
    screen.items(
        data["items"],
        "id=fileId, conv=conversationId:right, size=byteSize:bytes, stored=createdAt:date, bytes, name=fileName, "
        "about=preview:rest",
        bytes=lambda item: styled("there", "green") if item["isThere"] else styled("missing", "red"),
    )


def print_file(screen: Screen, data: Data) -> None:
    screen.line(styled("Stored at ", "dim"), data["storedAt"], "" if data["isThere"] else styled(" (missing)", "red"))
    screen.prose(data["text"], 0)


def print_explored(screen: Screen, data: Data) -> None:
    """The files that are better described now, and why no more of them are."""
    for item in data["items"]:
        screen.line(f"  {item['fileId']}  {item['fileName']}  ", styled(item["preview"], "dim"))
    remaining = plural(data["left"], "file")
    if data["dryRun"]:
        screen.line(f"{remaining} of prose would be described by {', '.join(data['models']) or 'no model'}.")
        return
    screen.line(f"Described {plural(data['described'], 'file')}; {remaining} left with the summary made here.")
    if data["stop"]:
        screen.line(styled("Stopped: ", "yellow"), data["stop"]["message"])


def print_garbage(screen: Screen, data: Data) -> None:
    for item in data["items"]:
        screen.line(f"  {item['path']}  ", styled(format_bytes(item["byteSize"]), "dim"))
    if not data["items"]:
        screen.line(f"Every file in {data['folder']} has its row, or is younger than an hour.")
        return
    what = f"{plural(data['count'], 'file')}, {format_bytes(data['bytes'])}"
    screen.line(f"Deleted {what}." if data["applied"] else f"{what} without a row; --apply deletes them.")


def print_stubs(screen: Screen, data: Data) -> None:
    if not data["count"]:
        screen.line("No message has such a mark." if data["reverted"] else "No answer of a tool is that large.")
        return
    if data["reverted"]:
        what = plural(data["count"], "mark")
        if data["applied"]:
            screen.line(f"Took {what} away, and {plural(data.get('rows', 0), 'row')}.")
        else:
            screen.unchanged("--apply takes them away.", f"{what} would go.")
        return
    columns = "message=messageId:right, conv=conversationId:right, tool, size=byteSize:bytes, text=preview:rest"
    screen.items(data["items"], columns)
    what = f"{plural(data['count'], 'message')}, {format_bytes(data['bytes'])}"
    if data["applied"]:
        screen.line(f"{what} got a file in {data['folder']}.")
        screen.undo("lcm files stub --revert")
    else:
        screen.unchanged("--apply gives each a file.", f"{what}.")
