"""Payloads of a backup: copied or linked into a folder beside it, and restored from there."""

from __future__ import annotations

import os
import shutil
import sys
from collections import defaultdict
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from lossless.model.paths import fsync_path, make_private_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lossless.files.vault import Vault
    from lossless.model.messages import StoredFile

#: A payload beside a backup: the folder of its conversation, and its name.
BackupPayload: TypeAlias = tuple[str, str]
#: More folders than this are made durable all at once, by whatever else waits to be written.
_MANY = 16


def backup_folder(backup: Path) -> Path:
    """Where the payloads of a backup lie."""
    return backup.with_name(f"{backup.name}.files")


def copy_to_backup(backup: Path, files: Iterable[StoredFile], vault: Vault) -> frozenset[BackupPayload]:
    """Put the payloads of these files beside a backup; what is there stays. Returns what is there, durable.

    Payloads are never changed, only replaced, so a link holds what it held. Those that are missing are left out.
    """
    wanted: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for file in files:
        source, name = os.path.split(vault.place_of(file))
        wanted[source, str(file.conversation_id)].add(name)
    folder = backup_folder(backup)
    kept: set[BackupPayload] = set()
    with _synced_folders() as touched:
        for (source, inner), names in wanted.items():
            there = names & _names(folder / inner)
            put = _put(Path(source), folder / inner, names - there, touched)
            kept.update((inner, name) for name in there | put)
    return frozenset(kept)


def drop_stale_copies(backup: Path, kept: frozenset[BackupPayload]) -> None:
    """Take away what an earlier backup of the same name has left."""
    folder = backup_folder(backup)
    for inner in _folders(folder):
        for name in _payloads(inner):
            if (inner.name, name) not in kept:
                (inner / name).unlink(missing_ok=True)
    for empty in (*_folders(folder), folder):
        with suppress(OSError):  # it is not empty, or not there
            empty.rmdir()


def restore_payloads(backup: Path, vault: Vault) -> int:
    """Put the payloads of a backup back where they are missing; how many that were."""
    count = 0
    if _folders(backup_folder(backup)):
        vault.claim()
    with _synced_folders() as touched:
        for inner in _folders(backup_folder(backup)):
            place = vault.root / inner.name
            count += len(_put(inner, place, _payloads(inner) - _names(place), touched))
    return count


def _folders(folder: Path) -> list[Path]:
    with suppress(OSError), os.scandir(folder) as entries:
        return sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    return []


def _payloads(folder: Path) -> set[str]:
    """The regular files of a folder, as one look at it tells."""
    with suppress(OSError), os.scandir(folder) as entries:
        return {entry.name for entry in entries if entry.is_file(follow_symlinks=False)}
    return set()


def _names(folder: Path) -> set[str]:
    try:
        return set(os.listdir(folder))
    except OSError:
        return set()


def _put(source: Path, target: Path, names: set[str], touched: list[Path]) -> set[str]:
    """The same bytes under the same names in another folder; returns those that there are."""
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
            _copy(source / name, target / name)
    return there


def _copy(source: Path, target: Path) -> None:
    """A copy that is whole under its name, or not there."""
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    shutil.copyfile(source, beside)
    os.chmod(beside, source.lstat().st_mode & 0o777)
    fsync_path(beside)
    os.replace(beside, target)


@contextmanager
def _synced_folders() -> Iterator[list[Path]]:
    """Collects folders in which something is new; their names are durable when the block ends."""
    touched: list[Path] = []
    yield touched
    if len(touched) > _MANY and sys.platform == "linux":  # there it waits for the disks
        os.sync()
        return
    for folder in dict.fromkeys(place for inner in touched for place in (inner, inner.parent, inner.parent.parent)):
        fsync_path(folder)
