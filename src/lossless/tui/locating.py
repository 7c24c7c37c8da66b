"""Which file on disk a conversation was said in: the rollout of a Codex backend, or the host's own transcript."""

from __future__ import annotations

import json
import os
import re
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lossless.tui.room import Room

_ID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ROLLOUTS = ("sessions/*/*/*/rollout-*-{}.jsonl", "sessions/rollout-*-{}.jsonl", "archived_sessions/rollout-*-{}.jsonl")
_MOST_BYTES = 64 << 20


def transcript_of(room: Room, conversation_id: int) -> Path | None:
    """The file that a stored conversation was said in; None when there is none on this machine."""
    with room.archive.reading():
        found = room.archive.conversations.get(conversation_id)
        point = room.archive.transcripts.checkpoint(conversation_id)
    beside = [folder / f"{found.session_id}.jsonl" for folder in room.folders]
    read = [Path(point.path)] if point is not None and point.path else []
    ids = [found.session_id, *named_by_index(room.folders, found.session_key, found.session_id)]
    for file in (*read, *beside):
        ids += named_beside(file)
    return rollout(room.codex, ids) or next((file for file in (*read, *beside) if _is_file(file)), None)


def backend_of(room: Room, file: Path, session_id: str) -> Path:
    """The Codex rollout behind a session file; the file itself when there is none."""
    ids = [session_id, *named_by_index((file.parent,), None, session_id), *named_beside(file)]
    return rollout(room.codex, ids) or file


def rollout(home: Path | None, ids: Iterable[str]) -> Path | None:
    """The newest rollout below Codex's folder whose name ends with one of the ids."""
    if home is None:
        return None
    for id_ in dict.fromkeys(id_ for id_ in ids if _ID.fullmatch(id_)):
        found = [path for pattern in _ROLLOUTS for path in home.glob(pattern.format(escape(id_))) if _is_file(path)]
        if found:
            return max(found, key=lambda path: path.name)
    return None


def named_by_index(folders: Iterable[Path], key: str | None, session_id: str) -> list[str]:
    """The threads of Codex that OpenClaw's index names for a session."""
    found: list[str] = []
    for folder in folders:
        index = _read(folder / "sessions.json")
        for name, entry in index.items() if isinstance(index, dict) else ():
            if isinstance(entry, dict) and (name == key or entry.get("sessionId") == session_id):
                found += _ids(entry, of_codex=False)
    return found


def named_beside(file: Path) -> list[str]:
    """The threads of Codex that a file beside a session file names."""
    try:
        names = [entry.path for entry in os.scandir(file.parent) if entry.name.startswith(f"{file.name}.")]
    except OSError:
        return []
    chosen = [name for name in sorted(names) if "codex" in os.path.basename(name) and name.endswith(".json")]
    return [id_ for name in chosen for id_ in _ids(_read(Path(name)), of_codex=True)]


def _ids(value: Any, *, of_codex: bool) -> Iterator[str]:
    """Ids that stand below a name with `codex` in it."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _ids(inner, of_codex=of_codex or "codex" in name.lower())
    elif isinstance(value, list):
        for inner in value:
            yield from _ids(inner, of_codex=of_codex)
    elif of_codex and isinstance(value, str) and _ID.fullmatch(value):
        yield value


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes()) if file.stat().st_size <= _MOST_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False
