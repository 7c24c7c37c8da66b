"""`lcm adopt`: a lossless-claw file becomes ours alone, and smaller."""

from __future__ import annotations

import secrets
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lossless.cli.commands import Command
from lossless.cli.output import shape
from lossless.errors import ArchiveCorrupt, ArchiveDenied
from lossless.paths import new_private_file
from lossless.store.adopt import alone, reclaim, survey
from lossless.store.archive import Archive

if TYPE_CHECKING:
    from lossless.cli.invocation import Invocation
    from lossless.store.care import Counts

#: Whoever holds the file longer than this counts as using it.
_PATIENCE_MS = 2_000


@click.command("adopt", cls=Command)
@click.option("--apply", "is_real", is_flag=True, help="Do it; without this, only say what it would free.")
@click.pass_obj
def adopt(invocation: Invocation, is_real: bool) -> None:
    """Drop the search tables that only lossless-claw reads, and free their space.

    Without --apply nothing changes. With it, everything is put into our own index where that is not done yet, a
    backup is made beside the file, and all is counted again afterwards. It refuses while another process has the
    file open. lossless-claw builds these tables anew when it opens the file, so this is for archives that it no
    longer uses.
    """
    with invocation.archive() as archive:
        found, (size, free) = survey(archive.database), archive.care.size()
    data = {
        "applied": False,
        "tables": list(found.tables),
        "bytesToFree": found.bytes + free if found.tables else 0,
        "databaseSizeBytes": size,
    }
    if is_real and found.tables:
        data |= _apply(invocation)
    invocation.emit("adopt", data)


def _apply(invocation: Invocation) -> dict[str, Any]:
    with Archive.open(invocation.file_path, busy_timeout_ms=_PATIENCE_MS) as archive:
        _catch_up(invocation, archive)
        with alone(archive.database):
            before, (size, _) = archive.care.counts(), archive.care.size()
            backup = _backup(archive)
            _prove_same(before, _counts_of(backup), f"the backup {str(backup)!r}")
            reclaim(archive.database)
            after = archive.care.counts()
            _prove_same(before, after, f"archive {archive.path!r} (its backup is {str(backup)!r})")
            new_size = archive.care.size()[0]
    return {
        "applied": True,
        "databaseSizeBytes": new_size,
        "sizeBefore": size,
        "bytesFreed": size - new_size,
        "backupPath": str(backup),
        "backupBytes": backup.stat().st_size,
        "counts": shape(after),
    }


def _catch_up(invocation: Invocation, archive: Archive) -> None:
    """Everything is in our own index before the other one goes."""
    bar: Any = nullcontext()
    if invocation.shows_progress:
        from lossless.cli.progress import counting

        bar = counting("Indexing", archive.care.counts().messages)
    with bar as advance:
        archive.catch_up(progress=advance)


def _backup(archive: Archive) -> Path:
    """A copy beside the file, for its owner alone."""
    source = Path(archive.path)
    name = f"{source.name}.adopt-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}.bak"
    target = source.with_name(name)
    try:
        new_private_file(target)
    except OSError as error:
        raise ArchiveDenied(f"no backup can be made at {str(target)!r}: {error.strerror}") from error
    try:
        archive.database.backup_to(str(target))
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    return target


def _counts_of(path: Path) -> Counts:
    with Archive.open(path, read_only=True) as copy:
        return copy.care.counts()


def _prove_same(before: Counts, after: Counts, what: str) -> None:
    if before != after:
        raise ArchiveCorrupt(f"{what} does not hold what it should: {after} instead of {before}")
