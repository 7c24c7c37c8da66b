"""Changing files that belong to somebody else: planned as values, written at once, with a copy of what was there."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Edit:
    """What a file holds, and what it is to hold; None where there is no file."""

    path: Path
    before: str | None
    after: str | None
    #: What a person should know about it: why it is left as it is.
    note: str = ""
    #: Whether its folder is there for this file alone, and goes with it.
    has_folder: bool = False

    @property
    def change(self) -> str:
        """`unchanged`, `created`, `removed` or `changed`."""
        if self.before == self.after:
            return "unchanged"
        return "created" if self.before is None else "removed" if self.after is None else "changed"


@dataclass(frozen=True, slots=True)
class Done:
    """An edit that was made, and where the copy of the file before it lies."""

    edit: Edit
    backup: Path | None = None


def read_text(path: Path) -> str | None:
    """The text of a file; None when there is none. Raises BadInput for one that cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{str(path)!r} cannot be read and is left as it is: {error}") from error


def read_object(path: Path, text: str | None) -> dict[str, Any]:
    """The JSON object of a file's text; raises BadInput for anything else, so that nobody's file is lost."""
    if text is None or not text.strip():
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise BadInput(f"{str(path)!r} is no JSON and is left as it is: {error}") from error
    if not isinstance(value, dict):
        raise BadInput(f"{str(path)!r} holds no JSON object and is left as it is")
    return value


def write_object(value: dict[str, Any], like: str | None) -> str:
    """A JSON object as text, indented like the text before it."""
    found = re.search(r"\n([ \t]+)\S", like or "")
    indent: int | str = 2 if found is None else found[1]
    return json.dumps(value, indent=indent, ensure_ascii=False) + "\n"


def apply(edits: Iterable[Edit], now: datetime) -> list[Done]:
    """Make edits, each at once; a file that changes is copied first, one that held nothing else is removed.

    Raises BadInput for a file that somebody else has changed meanwhile.
    """
    done = []
    for edit in edits:
        if edit.change == "unchanged":
            done.append(Done(edit))
            continue
        if read_text(edit.path) != edit.before:
            raise BadInput(f"{str(edit.path)!r} was changed by somebody else meanwhile; run it again")
        try:
            done.append(Done(edit, _write(edit, now)))
        except OSError as error:
            raise BadInput(f"{str(edit.path)!r} cannot be written: {error}") from error
    return done


def _write(edit: Edit, now: datetime) -> Path | None:
    """Replace a file, through a link if it is one; its permissions stay."""
    real = edit.path.resolve()
    backup = None
    mode = 0o600
    if edit.after is None:
        real.unlink()
        if edit.has_folder:
            with suppress(OSError):
                real.parent.rmdir()
        return None
    if edit.before is not None:
        mode = real.stat().st_mode & 0o7777
        backup = real.with_name(f"{real.name}.lcm-{now:%Y%m%dT%H%M%S}.bak")
        _put(backup, edit.before, mode)
    real.parent.mkdir(parents=True, exist_ok=True)
    new = real.with_name(f".{real.name}.lcm-{os.getpid()}")
    _put(new, edit.after, mode if edit.before is not None else 0o644)
    os.replace(new, real)
    return backup


def _put(path: Path, text: str, mode: int) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
        file.write(text)
