"""Session files of a host on disk, and which conversations they belong to."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.model.conversations import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.store.archive import Archive

_SUFFIX = ".jsonl"
#: Codex keeps its rollouts by year, month and day; their names end with the session's id.
_DATED = "[0-9][0-9][0-9][0-9]/[0-9][0-9]/[0-9][0-9]"
_ROLLOUT = re.compile(r"rollout-.*?-([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})")


@dataclass(frozen=True, slots=True)
class Agent:
    """A folder with session files."""

    name: str
    folder: Path
    #: How many session files it has.
    count: int


@dataclass(frozen=True, slots=True)
class SessionFile:
    """A session file, and its conversation when the archive has it."""

    path: Path
    size: int
    changed_at: datetime
    conversation_id: int | None = None

    @property
    def session_id(self) -> str:
        name = self.path.name.removesuffix(_SUFFIX)
        rollout = _ROLLOUT.fullmatch(name)
        return rollout[1] if rollout else name


def discovered(state_dir: Path, codex: Path | None = None) -> tuple[Path, ...]:
    """The session folders of all agents below OpenClaw's state folder, and that of Codex."""
    try:
        found = sorted(path for path in state_dir.glob("agents/*/sessions") if path.is_dir())
        rollouts = [codex / "sessions"] if codex is not None and (codex / "sessions").is_dir() else []
    except OSError:
        return ()
    return (*found, *rollouts)


def agents(folders: Sequence[Path]) -> list[Agent]:
    """Folders by name, with the number of their files."""
    return [Agent(_name(folder), folder, len(_entries(folder))) for folder in folders]


def files(archive: Archive, folder: Path, limit: int, offset: int = 0) -> tuple[list[SessionFile], int]:
    """Session files, the last changed first, each with its conversation; and how many there are."""
    found = sorted(_entries(folder), key=lambda entry: (-entry[1].st_mtime_ns, entry[0]))
    chosen = [
        SessionFile(Path(path), stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC))
        for path, stat in found[offset : offset + limit]
    ]
    return [_placed(archive, file) for file in chosen], len(found)


def _placed(archive: Archive, file: SessionFile) -> SessionFile:
    family = archive.conversations.family(Session(id=file.session_id)) if file.session_id.strip() else []
    return SessionFile(file.path, file.size, file.changed_at, family[0].id if family else None)


def _name(folder: Path) -> str:
    """The agent's name where the folder lies as OpenClaw lays it, `codex` for Codex's, else the folder's own."""
    if folder.name == "sessions" and "codex" in folder.parent.name.lower():
        return "codex"
    is_agents = folder.name == "sessions" and folder.parent.parent.name == "agents"
    return folder.parent.name if is_agents else str(folder)


def _entries(folder: Path) -> list[tuple[str, os.stat_result]]:
    """The session files of a folder, those in folders of days too."""
    found: list[tuple[str, os.stat_result]] = []
    for place in (folder, *folder.glob(_DATED)):
        try:
            with os.scandir(place) as listed:
                found += [(item.path, item.stat()) for item in listed if item.name.endswith(_SUFFIX) and item.is_file()]
        except OSError:
            continue
    return found
