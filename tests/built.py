"""Archives that several tests begin with: built once, and copied for each."""

from __future__ import annotations

import functools
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_KEPT: list[tempfile.TemporaryDirectory[str]] = []


def built(path: Path, build: Callable[[Path], object]) -> Path:
    """Put at the path what the function builds at a path that it is given; it has to be the same each time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(_template(build), path.parent, dirs_exist_ok=True)
    if path.name != _NAME:
        (path.parent / _NAME).rename(path)
    return path


_NAME = "lcm.db"


@functools.cache
def _template(build: Callable[[Path], object]) -> Path:
    _KEPT.append(tempfile.TemporaryDirectory())
    folder = Path(_KEPT[-1].name)
    build(folder / _NAME)
    return folder
