"""`lcm files`: large payloads that lie outside of their messages."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures
from lossless.cli.commands import Group, text
from lossless.cli.options import MAX_LIMIT, pagination, paging, selector, time_filters, wrong
from lossless.cli.output import preview
from lossless.cli.toolbox import Reach, use, vault_of
from lossless.compaction.describing import FILES_A_ROUND
from lossless.compaction.summariser import Summariser
from lossless.errors import ArchiveError, BadInput, NotFound
from lossless.files.improve import Described
from lossless.files.keep import collect
from lossless.files.users import state_users
from lossless.ingest.shared_payloads import files_of_others
from lossless.model.times import parse_time
from lossless.recall.file_page import DEFAULT_BYTES, MAX_BYTES, MIN_BYTES
from lossless.recall.references import parse
from lossless.store.archive import Archive
from lossless.store.texts import Where

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.cli.options import Selection
    from lossless.files.vault import Orphan, Vault
    from lossless.model.files import StoredFile
    from lossless.store.listings import Place, Span

_CHUNK = 1 << 20


@click.group("files", cls=Group)
def files() -> None:
    """List stored files, show one, have them described, or delete what no row refers to."""


@files.command("list")
@selector(required=False)
@time_filters
@paging("files", str)
@click.pass_obj
def list_command(
    invocation: Invocation, selection: Selection, span: Span | None, limit: int, start: Place | None
) -> None:
    """List stored files, newest first, of one conversation or of all, and say whether their bytes are there."""
    vault = vault_of(invocation)
    with invocation.archive() as archive, archive.reading():
        id_ = selection.find(archive)
        where = Where(None if id_ is None else (id_,), *_milliseconds(span))
        page, (count, size) = archive.files.page(where, limit, start), archive.files.totals(where)
    data = {
        "folder": str(vault.root),
        "total": {"count": count, "bytes": size},
        "items": [_item(file, vault) for file in page.rows],
    }
    invocation.emit("files.list", data, pagination("files", limit, page))


def _milliseconds(span: Span | None) -> tuple[int | None, int | None]:
    ends = (None, None) if span is None else (span.since, span.before)
    since, before = (None if end is None else round(parse_time(end).timestamp() * 1000) for end in ends)
    return since, before


def _item(file: StoredFile, vault: Vault) -> dict[str, Any]:
    return {
        "fileId": file.id,
        "conversationId": file.conversation_id,
        "fileName": file.name,
        "mimeType": file.mime,
        "byteSize": file.byte_size,
        "lineCount": file.line_count,
        "createdAt": file.created_at,
        "isThere": _is_there(file, vault),
        "preview": preview(file.exploration_summary or ""),
    }


def _is_there(file: StoredFile, vault: Vault) -> bool:
    """Whether its bytes can be read."""
    try:
        vault.read(file, 0, 0)
    except (NotFound, ArchiveError):
        return False
    return True


@files.command("show")
@click.argument("name", metavar="ID", type=text)
@click.option("--start-line", metavar="N", type=click.IntRange(1, 1_000_000_000), help="The first line to show.")
@click.option("--end-line", metavar="N", type=click.IntRange(1, 1_000_000_000), help="The last line to show.")
@click.option(
    "--max-bytes",
    metavar="N",
    type=click.IntRange(MIN_BYTES, MAX_BYTES),
    default=DEFAULT_BYTES,
    show_default=True,
    help="The most bytes to show at once.",
)
@click.option("--cursor", metavar="CURSOR", type=text, help="Continue where an earlier answer stopped.")
@click.option("--raw", is_flag=True, help="Write the bytes as they are stored, and nothing else.")
@click.pass_obj
def show_command(
    invocation: Invocation,
    name: str,
    start_line: int | None,
    end_line: int | None,
    max_bytes: int,
    cursor: str | None,
    raw: bool,
) -> None:
    """Show the file ID: what is known of it, and its content.

    Where its bytes are gone and a message still has the text, that is shown.
    """
    if start_line is not None and end_line is not None and end_line < start_line:
        raise wrong("--end-line is before --start-line.")
    named = parse(name, numbers=False)
    if named.kind != "file":
        raise BadInput(f"{named.id} is not a stored file: its id begins with file_")
    vault = vault_of(invocation)
    with invocation.archive() as archive:
        stored = archive.files.get(named.id)
        if raw:
            _write_raw(stored, vault)
            return
        args = {
            "id": named.id,
            "startLine": start_line,
            "endLine": end_line,
            "expandFileMaxBytes": max_bytes,
            "cursor": cursor,
        }
        result = use(invocation, archive, "lcm_describe", Reach(), args)
    place = {"storedAt": stored.storage_uri, "isThere": _is_there(stored, vault)}
    invocation.emit("files.show", result.details | place | {"text": result.text})


def _write_raw(stored: StoredFile, vault: Vault) -> None:
    at = 0
    while True:
        piece = vault.read(stored, at, _CHUNK)
        click.echo(piece.data, nl=False)
        at = piece.end
        if not piece.is_cut:
            return


@files.command("explore")
@selector(required=False)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, MAX_LIMIT),
    default=FILES_A_ROUND,
    show_default=True,
    help="At most this many, the oldest first.",
)
@click.option("--dry-run", is_flag=True, help="Only say how many files wait, and who would be asked.")
@click.pass_context
def explore_command(ctx: click.Context, selection: Selection, limit: int, dry_run: bool) -> None:
    """Have a model describe stored files of prose, instead of the summary that was made when they were stored.

    The settings largeFileSummaryModel and largeFileSummaryProvider name the model; `lcm cost` counts its calls. Where
    it fails, the summary stays as it is, and exit code 1 says so. `lcm worker` does this, too.
    """
    invocation: Invocation = ctx.obj
    with invocation.archive() as archive:
        id_ = selection.find(archive)
        left = archive.files.count_plain(id_)
    models = [candidate.name for candidate in Summariser(invocation.loaded.settings).describers]
    if not models and not dry_run:
        raise failures.fail(
            "no_model",
            "No model is configured that describes files.",
            failures.CONFIG,
            hint="Set largeFileSummaryModel and largeFileSummaryProvider, such as with `lcm config set`.",
        )
    done = Described(left=left)
    if left and not dry_run:
        with _bar(invocation, min(left, limit)) as advance, invocation.engine() as engine:
            session = None if id_ is None else engine.archive.conversations.get(id_)
            done = engine.admin.describe_files(session, limit=limit, progress=lambda _: advance and advance(1))
            items = engine.archive.files.many(done.file_ids)
    else:
        items = {}
    vault, failure = vault_of(invocation), done.failure
    data = {
        "dryRun": dry_run,
        "models": models,
        "described": len(done.file_ids),
        "left": done.left,
        "stop": None if failure is None else {"code": failure.code, "message": str(failure)},
        "items": [_item(items[file_id], vault) for file_id in done.file_ids if file_id in items],
    }
    invocation.emit("files.explore", data, ok=failure is None)
    ctx.exit(failures.OK if failure is None else failures.INTERNAL)


def _bar(invocation: Invocation, total: int) -> Any:
    if not invocation.shows_progress:
        return nullcontext()
    from lossless.cli.progress import counting

    return counting("Describing", total)


@files.command("gc")
@click.option("--apply", "is_real", is_flag=True, help="Delete them; without this, only list them.")
@click.option(
    "--used-by",
    "used_by",
    metavar="PATH",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    help="An archive that keeps files in the folder, too; once for each. Said once, it is remembered.",
)
@click.pass_obj
def gc_command(invocation: Invocation, is_real: bool, used_by: tuple[str, ...]) -> None:
    """List files on disk that no row refers to, and with --apply delete them.

    A crash, `lcm stub --revert` and deleted conversations leave such files. One that is younger than an hour is left
    alone: its row may be on the way. A file of another archive in the same folder stays; where it is not known which
    archives use the folder, nothing is done until --used-by says so (for this one alone, name it itself).
    """
    vault = vault_of(invocation)
    if used_by:
        state_users(vault.root, {invocation.file_path, *used_by})
    with invocation.archive() as archive:
        others = files_of_others(archive, vault)
        orphans = vault.orphans(archive.files.ids() | others)
    if is_real and orphans:
        with Archive.open(invocation.file_path) as archive, archive.writing():
            orphans = collect(archive.files, vault, orphans, files_of_others(archive, vault))
    data = {
        "applied": is_real,
        "folder": str(vault.root),
        "count": len(orphans),
        "bytes": sum(orphan.size for orphan in orphans),
        "items": [_orphan(orphan) for orphan in orphans],
    }
    invocation.emit("files.gc", data)


def _orphan(orphan: Orphan) -> dict[str, Any]:
    return {"fileId": orphan.file_id, "path": str(orphan.path), "byteSize": orphan.size}
