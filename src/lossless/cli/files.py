"""`lcm files`: large payloads that lie outside of their messages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lossless.cli import failures
from lossless.cli.commands import Group, text
from lossless.cli.options import pagination, paging, selector, time_filters, wrong
from lossless.cli.output import preview
from lossless.cli.toolbox import Reach, use, vault_of
from lossless.errors import ArchiveError, BadInput, NotFound
from lossless.files.keep import collect
from lossless.model.times import parse_time, state_time
from lossless.recall.file_page import DEFAULT_BYTES, MAX_BYTES, MIN_BYTES
from lossless.recall.references import parse
from lossless.store.archive import Archive
from lossless.store.files import Files
from lossless.store.listings import Page, Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.cli.invocation import Invocation
    from lossless.cli.options import Selection
    from lossless.files.vault import Orphan, Vault
    from lossless.model.files import StoredFile
    from lossless.store.listings import Span

_CHUNK = 1 << 20


@click.group("files", cls=Group)
def files() -> None:
    """List stored files, show one, or delete what no row knows."""


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
    since = None if span is None or span.since is None else parse_time(span.since)
    before = None if span is None or span.before is None else parse_time(span.before)
    with invocation.archive() as archive, archive.reading():
        id_ = selection.find(archive)
        found = Files(archive.database).listed(None if id_ is None else [id_], since=since, before=before)
    page = _page(found, limit, start)
    data = {
        "folder": str(vault.root),
        "total": {"count": len(found), "bytes": sum(file.byte_size or 0 for file in found)},
        "items": [_item(file, vault) for file in page.rows],
    }
    invocation.emit("files.list", data, pagination("files", limit, page))


def _page(found: Sequence[StoredFile], limit: int, start: Place | None) -> Page[StoredFile]:
    """The files behind a place; a file that went away since does not matter."""
    if start is not None:
        at, last = parse_time(start.at), str(start.id)
        found = [file for file in found if file.created_at < at or (file.created_at == at and file.id > last)]
    rows = tuple(found[:limit])
    is_all = len(rows) == len(found)
    return Page(rows, None if is_all else Place(state_time(rows[-1].created_at), rows[-1].id))


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
@click.option("--cursor", metavar="CURSOR", type=text, help="Go on where an earlier answer stopped.")
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
        stored = Files(archive.database).get(named.id)
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


@files.command("gc")
@click.option("--apply", "is_real", is_flag=True, help="Delete them; without this, only list them.")
@click.pass_obj
def gc_command(invocation: Invocation, is_real: bool) -> None:
    """List files on the disk that no row knows, and with --apply delete them.

    A crash, `lcm stub --revert` and deleted conversations leave such files. One that is younger than an hour is left
    alone: its row may be on the way.
    """
    vault = vault_of(invocation)
    with invocation.archive() as archive:
        orphans = vault.orphans(Files(archive.database).ids())
    if is_real and orphans:
        _must_be_ours(invocation, vault.root)
        with Archive.open(invocation.file_path) as archive, archive.writing():
            orphans = collect(Files(archive.database), vault, orphans)
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


def _must_be_ours(invocation: Invocation, folder: Path) -> None:
    """Nothing is deleted from a folder that nobody named and that may be another archive's."""
    source = invocation.loaded.sources["largeFilesDir"]
    if source.kind != "default" or folder.parent == Path(invocation.file_path).parent:
        return
    raise failures.fail(
        "not_ours",
        f"The folder {str(folder)!r} is not beside this archive, so other archives may keep files there.",
        failures.BAD_ARGUMENTS,
        hint="When it is this archive's alone, name it with the setting largeFilesDir (LCM_LARGE_FILES_DIR).",
        folder=str(folder),
    )
