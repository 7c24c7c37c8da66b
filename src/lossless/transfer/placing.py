"""New files in their places: written beside, looked at, moved there whole; nothing is overwritten by accident."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.errors import ArchiveCorrupt, ArchiveDenied, ArchiveError, ArchiveFull, BadInput
from lossless.paths import expanded, new_private_file, private_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

_NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_CHUNK = 1 << 20
#: What SQLite keeps beside a database while it is in use.
_BESIDE = ("-journal", "-wal", "-shm")


@contextmanager
def placed(
    target: str | Path, *, overwrite: bool = False, source: str | Path | None = None, is_private: bool = True
) -> Iterator[Path]:
    """A path beside `target` to write to; when the block ends well it takes the place of `target`, durably.

    What is private is for the owner only, as archives are. `source`, which is being read, is never replaced.
    """
    place = final_place(target)
    check_free(place, overwrite=overwrite, source=source)
    with _refusing(place):
        private_folder(place.parent)
        beside = place.with_name(f".{place.name}.{secrets.token_hex(6)}.tmp")
        if is_private:
            new_private_file(beside)
        else:
            os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    try:
        with _refusing(place):
            yield beside
            _flush(beside)
            os.replace(beside, place)
            _flush_names(place.parent)
    except ArchiveError as error:  # whoever reads it knows the name that was asked for
        raise type(error)(str(error).replace(str(beside), str(place))) from error
    finally:
        for ending in ("", *_BESIDE):
            Path(f"{beside}{ending}").unlink(missing_ok=True)


@contextmanager
def placed_folder(target: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A folder to write files to; when the block ends well all of them are in `target`, else none is.

    A new folder appears whole. Into one that is there already the files are moved one by one, at the end.
    """
    folder = final_place(target)
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{str(folder)!r} is a file; name a folder")
    with _refusing(folder):
        is_new = not folder.exists()
        if not is_new and not overwrite and any(folder.iterdir()):
            raise BadInput(f"folder {str(folder)!r} is not empty; choose another, or say that files may be overwritten")
        private_folder(folder.parent)
        beside = (folder.parent if is_new else folder) / f".{folder.name}.{secrets.token_hex(6)}.tmp"
        private_folder(beside)
    try:
        with _refusing(folder):
            yield beside
            files = sorted(beside.iterdir())
            for file in files:
                _flush(file)
            if is_new:
                _flush_names(beside)
                os.rename(beside, folder)
            else:
                for file in files:
                    os.replace(file, folder / file.name)
            _flush_names(folder.parent if is_new else folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def final_place(target: str | Path) -> Path:
    """Where a name leads to, links followed."""
    return Path(os.path.realpath(expanded(target)))


def is_same(one: str | Path, other: str | Path) -> bool:
    """Whether two names are those of one file."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return final_place(one) == final_place(other)


def check_apart(place: str | Path, archive: str | Path) -> None:
    """Raises when a name is that of an archive, or of a file that SQLite keeps beside it."""
    if is_same(place, archive):
        raise BadInput(f"{str(place)!r} is the archive itself; choose another name")
    if any(is_same(place, f"{final_place(archive)}{ending}") for ending in _BESIDE):
        raise BadInput(f"{str(place)!r} is a part of the archive; choose another name")


def check_free(place: Path, *, overwrite: bool, source: str | Path | None = None) -> None:
    """Raises when something lies there that may not be replaced."""
    if place.is_dir():
        raise BadInput(f"{str(place)!r} is a folder; name a file")
    if source is not None:
        check_apart(place, source)
    if place.exists() and not place.is_file():
        raise BadInput(f"{str(place)!r} is not a file that can be replaced; choose another name")
    if place.exists() and not overwrite:
        raise BadInput(f"{str(place)!r} is there already; choose another name, or say that it may be overwritten")


def check_written(path: Path, digest: str) -> None:
    """Read a new file back; raises when it is not what was written."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    if found.hexdigest() != digest:
        raise ArchiveCorrupt(f"{path.name!r}, read back, is not what was written; nothing was put in its place")


@contextmanager
def _refusing(place: Path) -> Iterator[None]:
    """Errors of the system in our words."""
    try:
        yield
    except OSError as error:
        kind: type[ArchiveError] = ArchiveFull if error.errno in _NO_ROOM else ArchiveDenied
        raise kind(f"{str(place)!r} cannot be written: {error.strerror}; nothing was put there") from error


def _flush(file: Path) -> None:
    """Make sure that a file is on the disk."""
    handle = os.open(file, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _flush_names(folder: Path) -> None:
    """Make sure that the names in a folder are on the disk, where the system can promise it."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
