"""Paths as people write them, files and folders that only their owner can read, and files that are replaced
as a whole and flushed to disk.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def expand_path(path: str | os.PathLike[str]) -> Path:
    """The path with a leading `~` or `~name` replaced; as it is where nobody has that name."""
    return Path(os.path.expanduser(path))


def make_private_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for their owner alone, whatever the umask."""
    if folder.is_dir():
        return
    if not folder.parent.exists():
        make_private_folder(folder.parent)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not folder.is_dir():
            raise
        return
    folder.chmod(0o700)


def create_private_file(path: str | os.PathLike[str], mode: int = 0o600) -> None:
    """Make an empty file, for its owner alone, whatever the umask; `FileExistsError` when there is one."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode & 0o700)
    try:
        if hasattr(os, "fchmod"):
            os.fchmod(handle, mode)
    finally:
        os.close(handle)


def payload_folder(archive: str | os.PathLike[str]) -> Path:
    """The folder beside an archive that is for its payloads alone.

    >>> payload_folder("/home/user/lcm.db").name, payload_folder("work.sqlite").name
    ('lcm-files', 'work.sqlite-files')
    """
    path = Path(archive)
    return path.parent / f"{path.stem if path.suffix == '.db' else path.name}-files"


@contextmanager
def replacing(path: Path, mode: int = 0o600) -> Iterator[Path]:
    """Yields an empty private file beside `path`, which takes its place, whole and durable, when the block ends.

    An error in the block leaves `path` as it was, and nothing beside it.
    """
    beside = path.with_name(f".{path.name}.{os.urandom(6).hex()}.tmp")
    try:
        create_private_file(beside)
        yield beside
        fsync_path(beside)
        os.chmod(beside, mode)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    if os.name == "posix":
        fsync_path(path.parent)


def fsync_path(path: Path) -> None:
    """Wait until a file, or the names in a folder, would survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
