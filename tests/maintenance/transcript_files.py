"""Transcripts that tests write, as OpenClaw does: a header, entries with ids that point to their parents."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

#: 2026-01-01 in milliseconds.
FIRST = 1_767_225_600_000


class TranscriptFile:
    """A file that grows entry by entry; each says something and points to the one before it."""

    def __init__(self, path: Path, header: str | None = "header-1", at: int = FIRST) -> None:
        self.path, self.at = path, at
        self.leaf: str | None = None
        self._mtime = 1_000_000_000
        self.path.touch()
        if header is not None:
            self.write({"type": "session", "version": 3, "id": header, "timestamp": "2026-01-01T00:00:00.000Z"})

    def write(self, record: dict[str, Any]) -> None:
        self.raw(json.dumps(record, ensure_ascii=False) + "\n")

    def raw(self, text: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text)
        self.touch()

    def touch(self) -> None:
        """Every change has a time of its own, whatever the clock's grain."""
        self._mtime += 1
        os.utime(self.path, (self._mtime, self._mtime))

    def say(self, text: str, id_: str, *, parent: str | None = "leaf", at: int | None = None) -> str:
        """One message, by turns of a user and an assistant; under the newest entry unless a parent is named."""
        self.at += 1000
        role = "user" if self.at // 1000 % 2 else "assistant"
        self.write(
            {
                "type": "message", "id": id_, "parentId": self.leaf if parent == "leaf" else parent,
                "timestamp": "2026-01-01T00:00:00.000Z",
                "message": {"role": role, "content": text, "timestamp": at or self.at},
            }
        )  # fmt: skip
        self.leaf = id_
        return id_

    def say_all(self, *texts: str, prefix: str = "e") -> None:
        for text in texts:
            self.say(text, f"{prefix}-{text}")

    def note(self, kind: str, id_: str) -> None:
        """A record that is no message."""
        self.write({"type": kind, "id": id_, "parentId": self.leaf, "detail": {"n": 1}})
        self.leaf = id_
