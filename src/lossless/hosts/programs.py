"""How hosts start us: the commands that are written into their files."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from lossless.errors import NotFound


@dataclass(frozen=True, slots=True)
class Programs:
    """The commands of the hook and of the MCP server, with the archive that they are to use."""

    hook: tuple[str, ...]
    server: tuple[str, ...]


def programs(*, database: str | None = None, config: str | None = None, by_name: bool = False) -> Programs:
    """The commands of this installation; by their bare names for files that others share, if the path finds them."""
    chosen: list[str] = []
    for option, value in (("--db", database), ("--config", config)):
        chosen += [option, str(Path(value).expanduser().absolute())] if value else []
    return Programs((_find("lcm-hook", by_name), *chosen), (_find("lcm", by_name), *chosen, "mcp"))


def _find(name: str, by_name: bool) -> str:
    """Where a command of ours lies: beside the interpreter, else on the path."""
    on_path = shutil.which(name)
    beside = shutil.which(name, path=str(Path(sys.executable).parent))
    if by_name and on_path:
        return name
    found = beside or on_path
    if found is None:
        raise NotFound("command", name)
    return found
