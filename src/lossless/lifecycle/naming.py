"""Under which session a transcript's conversation is kept, whoever brings it."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.model.conversations import Session

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Who writes the transcripts of each kind that is none of OpenClaw's.
OTHERS = {
    "claude-code": "Claude Code",
    "codex": "Codex",
    "pi": "pi",
    "chatgpt": "ChatGPT",
    "jsonl": "a program that is not known",
}
#: Where some of them keep their transcripts, below a person's home.
_FOLDERS = {".claude": "claude-code", ".codex": "codex", ".pi": "pi"}
#: Indexes of OpenClaw that are remembered at once: one for each folder that is read.
_INDEXES = 16


def session_of(kind: str, path: Path, header_id: str | None, cwd: str | None) -> Session:
    """The host's own names where it has some, else names that say where a conversation comes from.

    A file that carries no id of its own has one that no other file has, however its path is written.
    """
    path = Path(os.path.abspath(path))
    if kind == "claude-code":
        return Session(key=":".join(filter(None, (kind, path.parent.name, path.stem))), id=path.stem)
    if kind == "openclaw":
        key = _openclaw_key(path, header_id or path.stem)
        return Session(key=key, id=header_id or (place_name(path) if key is None else path.stem))
    run = header_id or place_name(path)
    return Session(key=":".join(filter(None, (kind, Path(cwd).name if cwd else None, run))), id=run)


def session_of_lane(kind: str, main: Session, lane: str) -> Session:
    """The session of a side line, below the one that it belongs to."""
    if kind == "claude-code":
        return Session(key=f"{main.key}:subagent:{lane}", id=lane)
    if kind == "chatgpt" and not lane.isdecimal():  # a number is only its place in the file
        return Session(key=f"{kind}:{lane}", id=lane)
    return Session(key=f"{main.name}:{lane}", id=f"{main.id}:{lane}")


def imported_from(session: Session) -> str | None:
    """The kind of the transcripts whose conversations have such names; None for OpenClaw's, and for any other name."""
    kind = (session.key or "").partition(":")[0]
    return kind if kind in OTHERS else None


def kept_by(path: Path) -> str | None:
    """The kind of the transcripts that another program keeps where a file lies; None for any other place."""
    return next((_FOLDERS[part] for part in Path(os.path.realpath(path)).parts if part in _FOLDERS), None)


def place_name(path: Path) -> str:
    """A name for a file by where it lies: its folder, its stem, and a mark of its whole path."""
    place = Path(os.path.realpath(path))
    mark = blake2b(os.fsencode(place), digest_size=4).hexdigest()
    words = "/".join(filter(None, (place.parent.name, place.stem)))
    return f"{os.fsencode(words).decode(errors='replace').replace(':', '-')}-{mark}"


def _openclaw_key(path: Path, run: str) -> str | None:
    """The key under which OpenClaw's own index lists a run; None when it does not."""
    index = path.parent / "sessions.json"
    try:
        status = index.stat()
    except OSError:
        return None
    return _listed(index, status.st_size, status.st_mtime_ns, status.st_ino).get(run)


@lru_cache(maxsize=_INDEXES)
def _listed(index: Path, _size: int, _changed: int, _file: int) -> Mapping[str, str]:
    """The keys of all runs in an index, read once for as long as it stays as it is; the first key of a run counts."""
    try:
        entries = json.loads(index.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    keys: dict[str, str] = {}
    for key, about in entries.items() if isinstance(entries, dict) else ():
        run = about.get("sessionId") if isinstance(about, dict) else None
        if isinstance(run, str):
            keys.setdefault(run, key)
    return keys
