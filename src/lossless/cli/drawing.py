"""Pictures on the disk: whole in their place, and never in that of the archive or, unasked, of another file."""

from __future__ import annotations

import errno
import hashlib
from typing import TYPE_CHECKING

import click

from lossless.cli import failures
from lossless.errors import ArchiveError
from lossless.transfer.placing import check_free, check_written, final_place, placed

if TYPE_CHECKING:
    from pathlib import Path

overwrite_option = click.option("--overwrite", is_flag=True, help="Replace an existing file.")


def check_place(file: Path, archive: str, *, overwrite: bool) -> None:
    """Raises when a picture may not be written there; what is no file, such as a pipe, may be written to."""
    if not _is_special(file):
        check_free(final_place(file), overwrite=overwrite, source=archive)
        if not file.parent.is_dir():
            raise _not_written(file, FileNotFoundError(errno.ENOENT, "No such folder"))


def write_picture(file: Path, text: str, archive: str, *, overwrite: bool) -> None:
    """Put a picture in its place, whole or not at all; what is no file, such as a pipe, is written to."""
    check_place(file, archive, overwrite=overwrite)
    try:
        if _is_special(file):
            file.write_text(text, encoding="utf-8")
            return
        with placed(file, overwrite=overwrite, source=archive, is_private=False) as beside:
            beside.write_text(text, encoding="utf-8")
            check_written(beside, hashlib.sha256(text.encode()).hexdigest())
    except (OSError, ArchiveError) as error:
        raise _not_written(file, error) from None


def _is_special(file: Path) -> bool:
    return file.exists() and not file.is_file() and not file.is_dir()


def _not_written(file: Path, error: Exception) -> failures.Failure:
    message = f"{file} cannot be written: {error.strerror}." if isinstance(error, OSError) else f"{error}."
    return failures.fail("not_written", message, failures.BAD_ARGUMENTS, path=str(file))
