"""Session files of hosts on disk: which folders and files there are, and which file belongs to a conversation."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossless.model.conversations import Session

if TYPE_CHECKING:
    from lossless.maintenance.browse import Browse
    from lossless.tui.archive import ArchiveAccess

_SUFFIX = ".jsonl"
#: Codex keeps its rollouts by year, month and day; their names end with the session's id.
_DATED = "[0-9][0-9][0-9][0-9]/[0-9][0-9]/[0-9][0-9]"
_ROLLOUT = re.compile(r"rollout-.*?-([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})")


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


def find_session_folders(state_dir: Path, codex: Path | None = None) -> tuple[Path, ...]:
    """The session folders of all agents below OpenClaw's state folder, and that of Codex."""
    rollouts = [codex / "sessions"] if codex is not None else []
    return tuple(filter(os.path.isdir, (*sorted(state_dir.glob("agents/*/sessions")), *rollouts)))


def list_agents(folders: Sequence[Path]) -> list[tuple[str, Path, int]]:
    """The names of agents, their folders, and how many session files these have."""
    return [(_name(folder), folder, len(_session_entries(folder))) for folder in folders]


def list_session_files(browse: Browse, folder: Path, limit: int) -> tuple[list[SessionFile], int]:
    """Session files, the last changed first, each with its conversation; and how many there are."""
    found = sorted(_session_entries(folder), key=lambda entry: (-entry[1].st_mtime_ns, entry[0]))
    files = []
    for path, stat in found[:limit]:
        file = SessionFile(Path(path), stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC))
        family = browse.family(Session(id=file.session_id)) if file.session_id.strip() else []
        files.append(replace(file, conversation_id=family[0].id if family else None))
    return files, len(found)


def _name(folder: Path) -> str:
    """The agent's name where the folder lies as OpenClaw lays it, `codex` for Codex's, else the folder's own."""
    if folder.name == "sessions" and "codex" in folder.parent.name.lower():
        return "codex"
    is_agents = folder.name == "sessions" and folder.parent.parent.name == "agents"
    return folder.parent.name if is_agents else str(folder)


def _session_entries(folder: Path) -> list[tuple[str, os.stat_result]]:
    found: list[tuple[str, os.stat_result]] = []
    for place in (folder, *folder.glob(_DATED)):
        with suppress(OSError), os.scandir(place) as listed:
            found += [(item.path, item.stat()) for item in listed if item.name.endswith(_SUFFIX) and item.is_file()]
    return found


_ID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ROLLOUTS = ("sessions/*/*/*/rollout-*-{}.jsonl", "sessions/rollout-*-{}.jsonl", "archived_sessions/rollout-*-{}.jsonl")
_MOST_BYTES = 64 << 20


def find_transcript(access: ArchiveAccess, conversation_id: int) -> Path | None:
    """The file that a stored conversation was said in; None when there is none on this machine."""
    with access.browse.reading():
        found = access.browse.get(conversation_id)
        point = access.engine.transcripts.followed(conversation_id)
    siblings = [folder / f"{found.session_id}.jsonl" for folder in access.folders]
    read = [Path(point.path)] if point is not None and point.path else []
    ids = [found.session_id, *rollouts_in_index(access.folders, found.session_key, found.session_id)]
    for file in (*read, *siblings):
        ids += rollout_named_beside(file)
    return rollout(access.codex, ids) or next((file for file in (*read, *siblings) if os.path.isfile(file)), None)


def backend_session_id(access: ArchiveAccess, file: Path, session_id: str) -> Path:
    """The Codex rollout behind a session file; the file itself when there is none."""
    ids = [session_id, *rollouts_in_index((file.parent,), None, session_id), *rollout_named_beside(file)]
    return rollout(access.codex, ids) or file


def rollout(home: Path | None, ids: Iterable[str]) -> Path | None:
    """The newest rollout below Codex's folder whose name ends with one of the ids."""
    if home is None:
        return None
    for id_ in dict.fromkeys(id_ for id_ in ids if _ID.fullmatch(id_)):
        found = [
            path for pattern in _ROLLOUTS for path in home.glob(pattern.format(escape(id_))) if os.path.isfile(path)
        ]
        if found:
            return max(found, key=lambda path: path.name)
    return None


def rollouts_in_index(folders: Iterable[Path], key: str | None, session_id: str) -> list[str]:
    """The threads of Codex that OpenClaw's index names for a session."""
    found: list[str] = []
    for folder in folders:
        index = _read(folder / "sessions.json")
        for name, entry in index.items() if isinstance(index, dict) else ():
            if isinstance(entry, dict) and (name == key or entry.get("sessionId") == session_id):
                found += _ids(entry, of_codex=False)
    return found


def rollout_named_beside(file: Path) -> list[str]:
    """The threads of Codex that a file next to a session file names."""
    beside = sorted(file.parent.glob(f"{escape(file.name)}.*.json"))
    return [id_ for path in beside if "codex" in path.name for id_ in _ids(_read(path), of_codex=True)]


def _ids(value: Any, *, of_codex: bool) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _ids(inner, of_codex=of_codex or "codex" in name.lower())
    elif isinstance(value, list):
        for inner in value:
            yield from _ids(inner, of_codex=of_codex)
    elif of_codex and isinstance(value, str) and _ID.fullmatch(value):
        yield value


def _read(file: Path) -> Any:
    with suppress(OSError, ValueError, RecursionError):
        return json.loads(file.read_bytes()) if file.stat().st_size <= _MOST_BYTES else None
    return None
