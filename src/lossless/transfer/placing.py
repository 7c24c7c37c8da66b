"""New files in their places: written beside, looked at, moved there whole; nothing is overwritten by accident."""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.errors import ArchiveDenied, BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def placed(target: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A path beside `target` to write to; when the block ends well it takes the place of `target`.

    What it holds is for the owner only, as archives are.
    """
    place = Path(target).expanduser().absolute()
    check_free(place, overwrite=overwrite)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        beside = place.with_name(f".{place.name}.{secrets.token_hex(6)}.tmp")
        os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise ArchiveDenied(f"{str(place)!r} cannot be written: {error.strerror}") from error
    try:
        yield beside
        os.replace(beside, place)
    except OSError as error:
        raise ArchiveDenied(f"{str(place)!r} cannot be written: {error.strerror}") from error
    finally:
        for ending in ("", "-journal", "-wal", "-shm"):
            Path(f"{beside}{ending}").unlink(missing_ok=True)


def check_free(place: Path, *, overwrite: bool) -> None:
    """Raises when something lies there that may not be replaced."""
    if place.is_dir():
        raise BadInput(f"{str(place)!r} is a folder; name a file")
    if place.exists() and not overwrite:
        raise BadInput(f"{str(place)!r} is there already; choose another name, or say that it may be overwritten")
