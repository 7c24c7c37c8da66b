"""Transcripts on disk as hosts lay them: a rollout of Codex, a session file of OpenClaw."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

THREAD = "0199a213-81c0-7800-8aa1-bbab2a035a53"
_TIME = "2026-03-02T09:{:02}:{:02}.000Z"


def item(n: int, text: str | None = None) -> dict[str, Any]:
    """The n-th thing said, in Codex's envelope."""
    role, kind = (("user", "input_text"), ("assistant", "output_text"))[n % 2]
    said = [{"type": kind, "text": text or f"Thing {n} was said."}]
    payload = {"type": "message", "role": role, "content": said}
    return {"timestamp": _TIME.format(n // 60 % 60, n % 60), "type": "response_item", "payload": payload}


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
    return path


def rollout(home: Path, count: int, thread: str = THREAD) -> Path:
    """So many messages of a thread, a record that is none, and one line that is broken."""
    path = home / "sessions" / "2026" / "03" / "02" / f"rollout-2026-03-02T09-00-00-{thread}.jsonl"
    meta = {"id": thread, "timestamp": _TIME.format(0, 0), "cwd": "/srv/ferry"}
    head = {"timestamp": _TIME.format(0, 0), "type": "session_meta", "payload": meta}
    write(path, [head, *(item(n) for n in range(count))])
    with path.open("a", encoding="utf-8") as file:
        file.write("broken{\n")
    return path


def session_file(folder: Path, run: str, texts: list[str]) -> Path:
    """A session of OpenClaw."""
    records: list[dict[str, Any]] = [{"type": "session", "version": 3, "id": run, "timestamp": _TIME.format(0, 0)}]
    parent = None
    for n, text in enumerate(texts):
        message = {"role": ("user", "assistant")[n % 2], "content": [{"type": "text", "text": text}]}
        entry = {"type": "message", "id": f"{run}-{n}", "parentId": parent, "timestamp": _TIME.format(1, n % 60)}
        records.append(entry | {"message": message})
        parent = f"{run}-{n}"
    return write(folder / f"{run}.jsonl", records)
