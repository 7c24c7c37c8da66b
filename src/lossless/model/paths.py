"""Path expansion, files and folders that only their owner can read, and atomic durable file replacement."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def expand_path(path: str | os.PathLike[str]) -> Path:
    """The path with a leading `~` or `~name` expanded; unchanged when there is no such user."""
    return Path(os.path.expanduser(path))


def make_private_folder(folder: Path) -> None:
    """Create a folder and its missing parents, accessible to the owner only, whatever the umask."""
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


def create_private_file(path: str | os.PathLike[str]) -> None:
    """Create an empty file, accessible to the owner only, whatever the umask; `FileExistsError` when it exists."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        if hasattr(os, "fchmod"):
            os.fchmod(handle, 0o600)
    finally:
        os.close(handle)


def payload_folder(archive: str | os.PathLike[str]) -> Path:
    """The folder next to an archive for its payloads only.

    >>> payload_folder("/home/user/lcm.db").name, payload_folder("work.sqlite").name
    ('lcm-files', 'work.sqlite-files')
    """
    path = Path(archive)
    return path.parent / f"{path.stem if path.suffix == '.db' else path.name}-files"


@contextmanager
def replacing(path: Path, mode: int = 0o600) -> Iterator[Path]:
    """Yields an empty private file next to `path` that replaces it atomically and durably when the block ends.

    On an error in the block, `path` is unchanged and the temporary file is removed.
    """
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}.tmp")
    try:
        create_private_file(temporary)
        yield temporary
        fsync_path(temporary)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    if os.name == "posix":
        fsync_path(path.parent)


def fsync_path(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Whether two names are of one file, by any way to it; one that does not exist yet is compared by its path."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return os.path.realpath(expand_path(one)) == os.path.realpath(expand_path(other))


def file_size(path: Path) -> int:
    """The size of a file; 0 when it does not exist."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
