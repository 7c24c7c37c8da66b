"""Payloads of a backup: copied or linked into a folder next to it, and restored from there."""

from __future__ import annotations

import os
import shutil
import sys
from collections import defaultdict
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from lossless.model.paths import fsync_path, make_private_folder, replacing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lossless.files.vault import Vault
    from lossless.model.messages import StoredFile

#: A payload in a backup: the folder of its conversation, and its name.
BackupPayload: TypeAlias = tuple[str, str]
#: Above this number of folders, one global sync replaces a sync of each folder.
_MANY = 16


def backup_folder(backup: Path) -> Path:
    return backup.with_name(f"{backup.name}.files")


def copy_to_backup(backup: Path, files: Iterable[StoredFile], vault: Vault) -> frozenset[BackupPayload]:
    """Copy the payloads of these files next to a backup; existing copies stay. Returns the durable ones that are there.

    Payloads are never modified in place, only replaced, so a hard link keeps its content. Missing ones are skipped.
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
            count += len(_put(inner, place, _payloads(inner) - _names(place), touched))
    return count


def _folders(folder: Path) -> list[Path]:
    with suppress(OSError), os.scandir(folder) as entries:
        return sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    return []


def _payloads(folder: Path) -> set[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        return {entry.name for entry in entries if entry.is_file(follow_symlinks=False)}
    return set()


def _names(folder: Path) -> set[str]:
    with suppress(OSError):
        return set(os.listdir(folder))
    return set()


def _put(source: Path, target: Path, names: set[str], touched: list[Path]) -> set[str]:
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
    """Collects changed folders and syncs them when the block ends."""
    touched: list[Path] = []
    yield touched
    if len(touched) > _MANY and sys.platform == "linux":  # waits for all disks
        os.sync()
        return
    for folder in dict.fromkeys(place for inner in touched for place in (inner, inner.parent, inner.parent.parent)):
        fsync_path(folder)
