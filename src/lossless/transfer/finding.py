"""Which transcripts an import means: files that are named, and those that folders hold."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

_PATTERNS = {"chatgpt": ("conversations*.json",), "jsonl": ("*.jsonl", "*.json")}
_EVERY_JSONL = ("*.jsonl",)
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


@dataclass(frozen=True, slots=True)
class Found:
    """The files that are meant, oldest first, and the places that could not be looked into, each with the reason."""

    files: tuple[Path, ...] = ()
    unseen: tuple[tuple[Path, str], ...] = ()


def find_files(kind: str, paths: Iterable[Path], *, since: datetime | None = None) -> Found:
    """The files that are meant: those named, and those that a folder holds, oldest first.

    Raises BadInput for a path that is not there or neither a file nor a folder. What cannot be looked into below a
    folder is told of. A sub-agent's file comes with the session that it belongs to.
    """
    found: dict[Path, float] = {}
    unseen: dict[Path, str] = {}
    for path in paths:
        named = named_place(path)
        for file in [path] if stat.S_ISREG(named.st_mode) else _in_folder(kind, path, unseen):
            try:
                status = file.stat()
            except OSError as error:
                if error.errno not in _NOT_THERE:  # a link that leads nowhere is no file
                    unseen[file.absolute()] = _why(error)
                continue
            if stat.S_ISREG(status.st_mode) and (since is None or status.st_mtime >= since.timestamp()):
                found[file.absolute()] = status.st_mtime
    files = sorted(found, key=lambda file: (found[file], str(file)))
    return Found(tuple(files), tuple(unseen.items()))


def named_place(path: Path) -> os.stat_result:
    """What the file system says of a file or a folder that somebody named; BadInput for anything else."""
    try:
        status = path.stat()
    except OSError as error:
        if error.errno in _NOT_THERE:
            raise BadInput(f"{str(path)!r} is not there") from error
        raise BadInput(f"cannot read {str(path)!r}: {_why(error)}") from error
    if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
        return status
    raise BadInput(
        f"{str(path)!r} is neither a file nor a folder; a pipe cannot be read again where it was stopped: "
        "write it to a file and import that"
    )


def _in_folder(kind: str, folder: Path, unseen: dict[Path, str]) -> Iterator[Path]:
    """The files below a folder whose names fit a kind; folders that cannot be listed are noted."""
    patterns = _PATTERNS.get(kind, _EVERY_JSONL)

    def note(error: OSError) -> None:
        unseen[Path(error.filename).absolute()] = _why(error)

    for place, _, names in os.walk(folder, onerror=note):
        if os.path.basename(place) == "subagents":
            continue
        yield from (Path(place, name) for name in names if any(fnmatchcase(name, pattern) for pattern in patterns))


def _why(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else type(error).__name__
