"""The payloads of a backup: in a folder beside it, as links where the disk allows it, and brought back from there."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from lossless.files.durable import flush

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from lossless.files.vault import Vault
    from lossless.model.files import StoredFile


def folder_of(backup: Path) -> Path:
    """Where the payloads of a backup lie."""
    return backup.with_name(f"{backup.name}.files")


def keep_with(backup: Path, files: Iterable[StoredFile], vault: Vault) -> frozenset[Path]:
    """Put the payloads of these files beside a backup; what is there stays. Returns where they lie.

    Payloads are never changed, only replaced, so a link holds what it held. Those that are missing are left out.
    """
    folder = folder_of(backup)
    kept: set[Path] = set()
    for file in files:
        source = vault.place_of(file)
        target = folder / str(file.conversation_id) / source.name
        if target in kept or target.exists() or _put(source, target):
            kept.add(target)
    return frozenset(kept)


def drop_others(backup: Path, kept: frozenset[Path]) -> None:
    """Take away what an earlier backup of the same name has left."""
    for path in _payloads_of(backup):
        if path not in kept:
            path.unlink(missing_ok=True)
    folder = folder_of(backup)
    with suppress(OSError):
        for inner in (*folder.iterdir(), folder):
            with suppress(OSError):  # it is not empty
                inner.rmdir()


def bring_back(backup: Path, vault: Vault) -> int:
    """Put the payloads of a backup back where they are missing; how many that were."""
    count = 0
    for path in _payloads_of(backup):
        place = vault.root / path.parent.name / path.name
        if not place.exists():
            count += _put(path, place)
    return count


def _payloads_of(backup: Path) -> list[Path]:
    return [path for path in sorted(folder_of(backup).glob("*/*")) if path.is_file() and not path.is_symlink()]


def _put(source: Path, target: Path) -> bool:
    """The same bytes at another place, durable when this returns; False when there are none."""
    try:
        status = source.lstat()
    except OSError:
        return False
    if source.is_symlink() or not source.is_file():
        return False
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        return True
    except OSError:
        beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        shutil.copyfile(source, beside)
        os.chmod(beside, status.st_mode & 0o777)
        flush(beside)
        os.replace(beside, target)
    flush(target.parent)
    return True
