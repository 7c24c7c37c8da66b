"""Claude Agent SDK: a session store that keeps every transcript line, and what was said in the archive.

options = ClaudeAgentOptions(session_store=LosslessSessionStore(engine), session_store_flush="eager")
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput
from lossless.model.conversations import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lossless.engine import Engine

_PLAIN = re.compile(r"[A-Za-z0-9._-]{1,80}")


class LosslessSessionStore:
    """A `SessionStore`: transcripts lie line by line in a folder beside the archive, which reads them from there.

    Nothing is ever deleted, so the SDK's optional `delete` is not offered.
    """

    def __init__(self, engine: Engine, folder: str | Path | None = None) -> None:
        if folder is None and engine.archive.path == ":memory:":
            raise BadInput("an archive in memory has no place for transcripts; name a folder")
        self._engine = engine
        self._folder = Path(folder) if folder else Path(f"{engine.archive.path}-claude-sessions")
        self._lock = threading.Lock()

    async def append(self, key: Any, entries: list[Any]) -> None:
        """Keep lines that are new; when the call returns they are on the disk, and said words in the archive."""
        if entries:
            await asyncio.to_thread(self._append, key, entries)

    async def load(self, key: Any) -> list[Any] | None:
        """All lines of a session in order; None when there is none."""
        return await asyncio.to_thread(self._load, key)

    async def list_sessions(self, project_key: str) -> list[Any]:
        """The sessions of a project, with the time of their last line in milliseconds."""
        found = (self._folder / _name(project_key)).glob("*/main.jsonl")
        return [{"session_id": _key(path)["session_id"], "mtime": int(path.stat().st_mtime * 1000)} for path in found]

    async def list_subkeys(self, key: Any) -> list[str]:
        """The sub-agents of a session."""
        return [str(_key(path)["subpath"]) for path in self._path(key).parent.glob("sub-*.jsonl")]

    def session(self, key: Any) -> Session:
        """What the archive calls a session."""
        below = f":{key['subpath']}" if key.get("subpath") else ""
        return Session(key=f"claude:{key['project_key']}:{key['session_id']}{below}", id=f"{key['session_id']}{below}")

    def _append(self, key: Any, entries: list[Any]) -> None:
        path = self._path(key)
        with self._lock:
            known = {entry["uuid"] for entry in self._load(key) or () if entry.get("uuid")}
            new = []
            for entry in entries:
                if (uuid := entry.get("uuid")) is None or uuid not in known:
                    known |= {uuid} - {None}
                    new.append(json.dumps(entry, ensure_ascii=False) + "\n")
            path.parent.mkdir(parents=True, exist_ok=True)
            (path.with_suffix(".key")).write_text(json.dumps(dict(key)), encoding="utf-8")
            with path.open("a", encoding="utf-8") as file:
                file.writelines(new)
                file.flush()
                os.fsync(file.fileno())
            self._engine.bootstrap(self.session(key), path, kind="claude-code")

    def _load(self, key: Any) -> list[Any] | None:
        path = self._path(key)
        return list(_lines(path)) if path.exists() else None

    def _path(self, key: Any) -> Path:
        below = key.get("subpath")
        name = f"sub-{_name(below)}.jsonl" if below else "main.jsonl"
        return self._folder / _name(key["project_key"]) / _name(key["session_id"]) / name


def _name(text: str) -> str:
    """A file name for any text; another text has another name."""
    if _PLAIN.fullmatch(text) and not text.startswith((".", "x-")):
        return text
    return "x-" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _key(path: Path) -> dict[str, Any]:
    key: dict[str, Any] = json.loads(path.with_suffix(".key").read_text(encoding="utf-8"))
    return key


def _lines(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8") as file:
        yield from (json.loads(line) for line in file if line.strip())
