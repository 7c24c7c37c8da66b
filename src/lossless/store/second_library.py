"""Keeps Python's own `sqlite3` away from open archives of this process.

It is another SQLite library than the one that we use. A process has one set of locks on a file, and a library that
closes the file gives back the locks that the other one still holds: logs are torn, and files have been damaged.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lossless import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_REASON = (
    "archive {!r}: it is open in this process, and Python's sqlite3 is a second SQLite library, which would take away "
    'the locks that protect it; use engine.sql("SELECT …"), or close the engine first, or look from another process'
)


def guard(open_paths: Callable[[], Iterable[str]]) -> None:
    """Refuse `sqlite3.connect` for these paths, from now on. A hook stays, so this is called once in a process."""

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event == "sqlite3.connect" and arguments and (path := _same_file(arguments[0], open_paths())) is not None:
            raise errors.ArchiveDenied(_REASON.format(path))

    sys.addaudithook(hook)


def _same_file(database: object, paths: Iterable[str]) -> str | None:
    """The path among them that is the file that is about to be opened, by whatever name."""
    try:
        name = os.fsdecode(database)  # type: ignore[arg-type]
    except TypeError:
        return None
    wanted = {identity for spelling in _spellings(name) if (identity := _identity(spelling)) is not None}
    return next((path for path in paths if _identity(path) in wanted), None) if wanted else None


def _spellings(name: str) -> Iterator[str]:
    """What a name can mean to SQLite: a path, or a URI with one.

    >>> list(_spellings("file:///a/b%20c.db?mode=ro"))
    ['file:///a/b%20c.db?mode=ro', '/a/b c.db']
    """
    yield name
    if name[:5] == "file:":
        path = name[5:].partition("#")[0].partition("?")[0]
        if path.startswith("//"):
            path = path[2:][path[2:].find("/") :]
        yield unquote(path)


def _identity(path: str) -> tuple[int, int] | None:
    with suppress(OSError, ValueError):
        found = os.stat(path)
        return found.st_dev, found.st_ino
    return None
