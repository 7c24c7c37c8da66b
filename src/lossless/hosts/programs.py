"""How hosts start us: the commands that are written into their files."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.errors import BadInput
from lossless.paths import expanded

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Programs:
    """The commands of the hook and of the MCP server, with the archive that they are to use."""

    hook: tuple[str, ...]
    server: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a command that stands in a host's file is told: the archive and the config file, None where it is not."""

    database: str | None = None
    config: str | None = None


def chosen_in(command: Sequence[str]) -> Chosen:
    """The archive and the config file of a command.

    >>> chosen_in(["lcm", "--db", "/a b.db", "mcp"])
    Chosen(database='/a b.db', config=None)
    """
    found = dict(pairwise(command))
    return Chosen(found.get("--db"), found.get("--config"))


def programs(*, database: str | None = None, config: str | None = None, by_name: bool = False) -> Programs:
    """The commands of this installation; by their bare names for files that others share, if the path finds them."""
    chosen: list[str] = []
    for option, value in (("--db", database), ("--config", config)):
        chosen += [option, str(expanded(value).absolute())] if value else []
    return Programs((_find("lcm-hook", by_name), *chosen), (_find("lcm", by_name), *chosen, "mcp"))


def _find(name: str, by_name: bool) -> str:
    """Where a command of ours lies: beside the interpreter, else on the path."""
    on_path, folder = shutil.which(name), Path(sys.executable).parent
    beside = shutil.which(name, path=str(folder))
    if by_name and on_path:
        return name
    found = beside or on_path
    if found is None:
        raise BadInput(
            f"the command {name!r} is neither in {str(folder)!r} nor on the PATH, so no host could start it; "
            f"install lossless with its commands: {sys.executable} -m pip install --force-reinstall lossless"
        )
    return found
