"""Backups of an archive: complete copies made while it is in use, with its payloads next to them, and restored."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.errors import ArchiveCorrupt, ArchiveDenied, ArchiveError, ArchiveFull, BadInput, NotAnArchive, NotFound
from lossless.model.paths import fsync_path, is_same_file, make_private_folder, replacing
from lossless.store.archive import Archive
from lossless.store.bundles import other_programs
from lossless.store.database import Database, copy_database, open_any_database, replace_database

if TYPE_CHECKING:
    from lossless.files.vault import Vault
    from lossless.model.messages import StoredFile
    from lossless.model.records import ArchiveCounts

ROLLING = "rotate-latest"
_LABEL = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_STAMP = "%Y%m%dT%H%M%SZ"
_NAMED = re.compile(r"\.([a-z0-9][a-z0-9-]{0,39})-(\d{8}T\d{6}Z)-([0-9a-f]{6})\.bak")
#: Another process that holds the file longer than this counts as using it.
PATIENCE_MS = 2_000
_MEMORY = ":memory:"
_LEFTOVER_SECONDS = 3600
#: Above this number of folders, one global sync replaces a sync of each folder.
_MANY_FOLDERS = 16


@dataclass(frozen=True, slots=True)
class Backup:
    """A copy of an archive on disk."""

    path: Path
    label: str
    made_at: datetime
    bytes: int
    #: Payloads that were copied with it.
    files: int = 0

    @property
    def is_rolling(self) -> bool:
        """Whether the next one of its kind replaces it."""
        return self.label == ROLLING


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """The result of a restore; `previous` is the backup of the archive before it."""

    path: Path
    source: Path
    previous: Path | None
    before: ArchiveCounts | None
    after: ArchiveCounts
    #: Payloads that were missing and are restored.
    files: int = 0


def backup_path(archive_path: str, label: str, now: datetime) -> Path:
    """A name for a new backup next to an archive; the rolling one's name is constant."""
    if archive_path == _MEMORY:
        raise BadInput("an archive in memory has no folder for backups; name a file")
    if not _LABEL.fullmatch(label):
        raise BadInput(f"a backup's label has small letters, digits and hyphens, not {label!r}")
    place = Path(archive_path)
    if label == ROLLING:
        return place.with_name(f"{place.name}.{ROLLING}.bak")
    return place.with_name(f"{place.name}.{label}-{now.astimezone(UTC):{_STAMP}}-{secrets.token_hex(3)}.bak")


def make_backup(
    archive: Archive,
    target: Path,
    label: str = "backup",
    *,
    replace: bool = False,
    now: datetime | None = None,
    progress: Callable[[int], None] | None = None,
    vault: Vault | None = None,
    mode: int = 0o600,
) -> Backup:
    """Copy an archive that may be in use to `target`; complete, durable and private on return.

    An existing file is replaced only if requested, and only by a finished copy. The payloads in a `vault` that it
    refers to are copied first.
    """
    if not replace and os.path.exists(target):  # False for an invalid name
        raise BadInput(f"{str(target)!r} already exists; choose another name")
    if archive.path != _MEMORY and is_same_file(target, Path(archive.path)):
        raise BadInput(f"{str(target)!r} is the archive itself")
    sweep_leftovers(target)
    try:
        with replacing(target, mode) as temporary:
            try:
                copy_database(archive.database, str(temporary), progress, name=str(target))
            finally:
                Path(f"{temporary}-journal").unlink(missing_ok=True)
            kept = frozenset() if vault is None else copy_to_backup(target, archive.files.listed(), vault)
        if vault is not None:
            drop_stale_copies(target, kept)
    except OSError as error:
        raise _write_error(target, error) from error
    return Backup(target, label, now or datetime.now(UTC), target.stat().st_size, len(kept))


def make_backup_beside(
    archive: Archive, label: str, now: datetime, progress: Callable[[int], None] | None = None, *, vault: Vault | None
) -> Backup:
    """A backup next to the archive under its label; the rolling one replaces its predecessor."""
    target = backup_path(archive.path, label, now)
    return make_backup(archive, target, label, replace=label == ROLLING, now=now, progress=progress, vault=vault)


def list_backups(archive_path: str) -> list[Backup]:
    """The backups next to an archive, newest first."""
    place = Path(archive_path)
    if not place.parent.is_dir():
        return []
    neighbours = [entry for entry in place.parent.iterdir() if entry.name.startswith(f"{place.name}.")]
    found = []
    for entry in neighbours:
        if entry.name.endswith(".bak") and entry.is_file():
            status, ending = entry.stat(), entry.name.removeprefix(place.name)
            label, made_at = ending[1:].removesuffix(".bak"), datetime.fromtimestamp(status.st_mtime, UTC)
            if named := _NAMED.fullmatch(ending):
                label, made_at = named[1], datetime.strptime(named[2], _STAMP).replace(tzinfo=UTC)
            found.append(Backup(entry, label, made_at, status.st_size))
    return sorted(found, key=lambda backup: backup.made_at, reverse=True)


def inspect_backup(source: Path, check: Callable[[Archive], Sequence[str]]) -> ArchiveCounts:
    """Check that a backup is complete; `ArchiveCorrupt` says what is wrong with it. Read-only."""
    if not source.is_file():
        raise NotFound("backup", str(source))
    with Archive.open(source, read_only=True) as archive:
        problems = check(archive)
        if problems:
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            raise ArchiveCorrupt(f"backup {str(source)!r} is damaged: {problems[0]}{more}; nothing was changed")
        return archive.listings.counts()


def restore_backup(
    source: Path,
    archive_path: str,
    check: Callable[[Archive], Sequence[str]],
    now: datetime,
    progress: Callable[[int], None] | None = None,
    vault: Vault | None = None,
) -> RestoreReport:
    """Restore an archive from a backup. The backup is verified first, and the current state is backed up.

    Payloads missing in the `vault` are restored first, so that no row exists before its bytes. `check` returns what is
    wrong with an archive. Raises `ArchiveLocked` while another process has the archive open.
    """
    place = Path(archive_path)
    if is_same_file(source, place):
        raise BadInput(f"{str(source)!r} is the archive itself, not a backup of it")
    after = inspect_backup(source, check)
    try:
        files = 0 if vault is None else restore_payloads(source, vault)
    except OSError as error:
        raise _write_error(place if vault is None else vault.root, error) from error
    report = RestoreReport(place, source, None, None, after, files)
    if not place.exists():
        _put_in_place(source, place, progress)
        return report
    try:
        database = open_any_database(str(place), PATIENCE_MS)
    except (NotAnArchive, ArchiveCorrupt):
        return replace(report, previous=_replace_damaged(source, place, now, progress))
    try:
        with other_programs.exclusive_access(database):
            before = _counts(database)
            target = backup_path(str(place), "before-restore", now)
            kept = None if before is None else vault
            previous = make_backup(Archive(database), target, "before-restore", vault=kept).path
            replace_database(database, str(source), progress)
        found = _counts(database)
    finally:
        database.close()
    if found != after:
        difference = f"archive {archive_path!r} does not hold what {str(source)!r} holds"
        raise ArchiveCorrupt(f"{difference}; see {str(previous)!r}")
    return replace(report, previous=previous, before=before)


def _counts(database: Database) -> ArchiveCounts | None:
    try:
        return Archive(database).listings.counts()
    except ArchiveError:
        return None


def _put_in_place(source: Path, place: Path, progress: Callable[[int], None] | None) -> None:
    with Archive.open(source, read_only=True) as archive:
        make_private_folder(place.parent)
        try:  # the permissions of the archive that is replaced; a new one is private
            mode = os.stat(place).st_mode & 0o777 | 0o600
        except OSError:
            mode = 0o600
        make_backup(archive, place, replace=True, progress=progress, mode=mode)


def _replace_damaged(source: Path, place: Path, now: datetime, progress: Callable[[int], None] | None) -> Path:
    """An unreadable file is kept under another name, with its log, and replaced by the backup."""
    aside = backup_path(str(place), "damaged", now)
    try:
        shutil.copy2(place, aside)
        aside.chmod(0o600)
        for ending in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.replace(f"{place}{ending}", f"{aside}{ending}")
    except OSError as error:
        raise _write_error(place, error) from error
    _put_in_place(source, place, progress)
    return aside


def sweep_leftovers(target: Path) -> None:
    """Delete unfinished copies that a crash has left next to a file; recent ones may still be in use."""
    before = time.time() - _LEFTOVER_SECONDS
    pattern = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{8,12}}\.tmp")
    with suppress(OSError):
        for entry in target.parent.iterdir():
            if pattern.fullmatch(entry.name) and entry.lstat().st_mtime < before:
                entry.unlink(missing_ok=True)


def _write_error(target: Path, error: OSError) -> ArchiveError:
    kind = ArchiveFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else ArchiveDenied
    return kind(f"no copy can be made at {str(target)!r}: {error.strerror}")


def backup_folder(backup: Path) -> Path:
    return backup.with_name(f"{backup.name}.files")


def copy_to_backup(backup: Path, files: Iterable[StoredFile], vault: Vault) -> frozenset[tuple[str, str]]:
    """Copy the payloads of these files next to a backup; existing copies stay.

    Payloads are never modified in place, only replaced, so a hard link keeps its content. Missing ones are skipped.
    Returns the durable ones that are there: the folder of the conversation, and the name.
    """
    wanted: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for file in files:
        source, name = os.path.split(vault.place_of(file))
        wanted[source, str(file.conversation_id)].add(name)
    folder = backup_folder(backup)
    kept: set[tuple[str, str]] = set()
    with _synced_folders() as touched:
        for (source, inner), names in wanted.items():
            there = names & _names(folder / inner)
            put = _copy_names(Path(source), folder / inner, names - there, touched)
            kept.update((inner, name) for name in there | put)
    return frozenset(kept)


def drop_stale_copies(backup: Path, kept: frozenset[tuple[str, str]]) -> None:
    """Remove the leftovers of an earlier backup with the same name."""
    folder = backup_folder(backup)
    for inner in _folders(folder):
        for name in _payloads(inner):
            if (inner.name, name) not in kept:
                (inner / name).unlink(missing_ok=True)
    for empty in (*_folders(folder), folder):
        with suppress(OSError):  # not empty, or missing
            empty.rmdir()


def restore_payloads(backup: Path, vault: Vault) -> int:
    """Restore missing payloads from a backup; returns how many."""
    count = 0
    if _folders(backup_folder(backup)):
        vault.claim()
    with _synced_folders() as touched:
        for inner in _folders(backup_folder(backup)):
            place = vault.root / inner.name
            count += len(_copy_names(inner, place, _payloads(inner) - _names(place), touched))
    return count


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as entries:
        return list(entries)
    return []


def _folders(folder: Path) -> list[Path]:
    return sorted(Path(entry.path) for entry in _entries(folder) if entry.is_dir(follow_symlinks=False))


def _payloads(folder: Path) -> set[str]:
    return {entry.name for entry in _entries(folder) if entry.is_file(follow_symlinks=False)}


def _names(folder: Path) -> set[str]:
    return {entry.name for entry in _entries(folder)}


def _copy_names(source: Path, target: Path, names: set[str], touched: list[Path]) -> set[str]:
    """Copy or link the same names into another folder; returns those that exist there."""
    there = names & _payloads(source) if names else set()
    if not there:
        return there
    make_private_folder(target)
    touched.append(target)
    before, after = f"{source}{os.sep}", f"{target}{os.sep}"
    for name in there:
        try:
            os.link(before + name, after + name, follow_symlinks=False)
        except FileExistsError:
            continue
        except OSError:
            with replacing(target / name, (source / name).lstat().st_mode & 0o777) as temporary:
                shutil.copyfile(source / name, temporary)
    return there


@contextmanager
def _synced_folders() -> Iterator[list[Path]]:
    touched: list[Path] = []
    yield touched
    if len(touched) > _MANY_FOLDERS and sys.platform == "linux":  # waits for all disks
        os.sync()
        return
    for folder in dict.fromkeys(place for inner in touched for place in (inner, inner.parent, inner.parent.parent)):
        fsync_path(folder)
