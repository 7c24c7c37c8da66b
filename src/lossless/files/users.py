"""Which archives keep payloads in a folder: a file for each of them in `archives/`, so that none overwrites another.

A folder that was made with such files is known whole. In one that is older, other archives may have payloads too, until
a person says which ones do.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.paths import private_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

_FOLDER = "archives"
_ALL = "all"


@dataclass(frozen=True, slots=True)
class Users:
    """The archives that keep payloads in a folder, and whether these are all that do."""

    archives: tuple[Path, ...] = ()
    are_all: bool = False


def users_of(root: Path) -> Users:
    """Who is known to use a folder."""
    folder = root / _FOLDER
    found: list[Path] = []
    are_all = False
    for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
        if entry.name == _ALL:
            are_all = True
        elif entry.is_file() and not entry.name.startswith("."):
            found.append(_absolute(root, entry.read_text("utf-8", "surrogateescape")))
    return Users(tuple(found), are_all)


def register(root: Path, archive: str) -> None:
    """Note that an archive keeps payloads in a folder; one that is new, or empty, is known whole from then on."""
    is_new = not root.is_dir() or not any(root.iterdir())
    private_folder(root / _FOLDER)
    if is_new:
        _put(root / _FOLDER / _ALL, "")
    _note(root, archive)


def state_users(root: Path, archives: Iterable[str]) -> None:
    """Note what a person says: these archives keep payloads in a folder, and no others do."""
    private_folder(root / _FOLDER)
    wanted = {_name(root, archive) for archive in archives}
    for archive in archives:
        _note(root, archive)
    for entry in list((root / _FOLDER).iterdir()):
        if entry.name not in wanted | {_ALL}:
            with suppress(FileNotFoundError):
                entry.unlink()
    _put(root / _FOLDER / _ALL, "")


def _note(root: Path, archive: str) -> None:
    place = root / _FOLDER / _name(root, archive)
    if not place.is_file():
        _put(place, _relative(root, archive))


def _name(root: Path, archive: str) -> str:
    return hashlib.sha256(_relative(root, archive).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _relative(root: Path, archive: str) -> str:
    """An archive as it lies to the folder: both may be moved together."""
    try:
        return os.path.relpath(os.path.realpath(archive), os.path.realpath(root))
    except ValueError:  # another drive
        return os.path.realpath(archive)


def _absolute(root: Path, name: str) -> Path:
    return Path(os.path.normpath(os.path.join(os.path.realpath(root), name)))


def _put(place: Path, text: str) -> None:
    beside = place.with_name(f".{place.name}.{secrets.token_hex(6)}.tmp")
    beside.write_text(text, "utf-8", "surrogateescape")
    os.replace(beside, place)
