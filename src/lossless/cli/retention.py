"""`lcm size` and `lcm prune`: what takes the room, and deleting whole conversations for good."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lossless.cli.backups import bar
from lossless.cli.commands import Command, text
from lossless.cli.options import bad, wrong
from lossless.cli.output import shape
from lossless.cli.toolbox import vault_of
from lossless.errors import BadInput
from lossless.lifecycle import prune as pruning
from lossless.lifecycle.backup import make_beside
from lossless.lifecycle.size import survey
from lossless.store.archive import Archive

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.files.vault import Vault
    from lossless.lifecycle.prune import Choice, Pruned, PrunePlan

#: How many conversations are listed; the others are counted.
_SHOWN = 50


@click.command("size", cls=Command)
@click.pass_obj
def size(invocation: Invocation) -> None:
    """Say what takes up space, and what of it could go.

    Indexes, summaries and files are also given as a share of the messages that they belong to.
    """
    vault = vault_of(invocation)
    with invocation.archive() as archive:
        found = survey(archive, vault, datetime.now(UTC))
    data = shape(found) | {
        "rows": [shape(row) for row in found.rows],
        "couldGo": [shape(item) for item in found.could_go],
        "folder": str(vault.root),
    }
    invocation.emit("size", data)


@click.command("prune", cls=Command)
@click.option("--older-than", metavar="AGE", type=text, help="Silent for longer than this: 90d, 12w, 6m or 2y.")
@click.option("--to", "limit", metavar="SIZE", type=text, help="The oldest, until all takes at most this: 2GB.")
@click.option("--session", "patterns", metavar="GLOB", type=text, multiple=True, help="Sessions with such a name.")
@click.option("--include-active", is_flag=True, help="Also conversations that are not closed.")
@click.option("--no-backup", is_flag=True, help="Make no backup before.")
@click.option("--vacuum/--no-vacuum", default=None, help="Free the space on disk; by default when it is worthwhile.")
@click.option("--apply", "is_real", is_flag=True, help="Delete them; without this, only say what would go.")
@click.pass_obj
def prune(
    invocation: Invocation,
    older_than: str | None,
    limit: str | None,
    patterns: tuple[str, ...],
    include_active: bool,
    no_backup: bool,
    vacuum: bool | None,
    is_real: bool,
) -> None:
    """Delete whole conversations for good: messages, summaries, files, everything.

    All conditions that are given must hold. Only closed conversations are meant, unless --include-active is given; in a
    GLOB `*` stops at a colon and `**` does not. Without --apply nothing changes. With it, a backup is made first, and a
    hundred conversations at a time are deleted: interrupting leaves an archive in which everything holds. With --vacuum
    and no condition it only frees space.
    """
    choice = _choice(older_than, limit, patterns, include_active)
    if choice.is_empty and not vacuum:
        raise wrong("Say what may go: --older-than, --to or --session; or only --vacuum.")
    with invocation.archive() as archive:
        work = pruning.plan(archive, choice, datetime.now(UTC))
        database, free = archive.care.size()
    data = _planned(work) | {"applied": is_real, "databaseSizeBytes": database, "freeBytes": free}
    if is_real and (work.chosen or vacuum):
        data |= _apply(invocation, work, backs_up=not no_backup, vacuum=vacuum)
    invocation.emit("prune", data)


def _choice(older_than: str | None, limit: str | None, patterns: tuple[str, ...], include_active: bool) -> Choice:
    try:
        age = None if older_than is None else pruning.parse_age(older_than)
    except BadInput as error:
        raise bad("--older-than", str(error)) from None
    try:
        most = None if limit is None else pruning.parse_size(limit)
    except BadInput as error:
        raise bad("--to", str(error)) from None
    return pruning.Choice(age, most, patterns, include_active)


def _planned(work: PrunePlan) -> dict[str, Any]:
    return {
        "conversations": len(work.chosen),
        "messages": work.messages,
        "summaries": work.summaries,
        "files": work.files,
        "bytes": work.bytes,
        "bytesBefore": work.bytes_before,
        "bytesAfter": work.bytes_after,
        "inUse": list(work.in_use),
        "items": [_item(item) for item in work.chosen[:_SHOWN]],
    }


def _item(item: Pruned) -> dict[str, Any]:
    held = item.held
    return {
        "conversationId": held.id,
        "sessionKey": held.session_key,
        "sessionId": held.session_id,
        "title": held.title,
        "active": held.active,
        "newestAt": held.newest_at,
        "messages": held.messages,
        "summaries": held.summaries,
        "files": held.files,
        "bytes": item.bytes,
    }


def _apply(invocation: Invocation, work: PrunePlan, *, backs_up: bool, vacuum: bool | None) -> dict[str, Any]:
    now = datetime.now(UTC)
    backup_path = None
    with Archive.open(invocation.file_path) as archive:
        if backs_up and work.chosen:
            with bar(invocation, "Copying", archive.care.size()[0]) as advance:
                backup_path = str(make_beside(archive, "prune", now, advance, vault=_own_vault(invocation)).path)
        with _counting(invocation, len(work.chosen)) as advance:
            report = pruning.apply(archive, _own_vault(invocation), work, now, advance)
        room = None if vacuum is False else pruning.give_room_back(archive, always=bool(vacuum))
        database, free = archive.care.size()
    return {
        "conversations": report.conversations,
        "messages": report.messages,
        "summaries": report.summaries,
        "files": report.files,
        "filesLeft": report.files_left,
        "left": list(report.left),
        "backupPath": backup_path,
        "vacuumed": room is not None and room.done,
        "vacuumReason": None if room is None else room.reason,
        "databaseSizeBytes": database,
        "freeBytes": free,
    }


def _own_vault(invocation: Invocation) -> Vault | None:
    """The folder of files, unless nobody named it and it may be another archive's."""
    vault = vault_of(invocation)
    source = invocation.loaded.sources["largeFilesDir"]
    is_ours = source.kind != "default" or vault.root.parent == Path(invocation.file_path).parent
    return vault if is_ours else None


def _counting(invocation: Invocation, total: int) -> Any:
    if not invocation.shows_progress:
        return nullcontext()
    from lossless.cli.progress import counting

    return counting("Deleting", total)
