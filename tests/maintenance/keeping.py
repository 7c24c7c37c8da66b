"""An archive with a past: closed and open conversations with summaries, files, pins; and transcripts of a host."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import lossless

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 7, 1, tzinfo=UTC)
Raw = dict[str, Any]
_WORDS = ("ferry", "harbour", "tide", "berth", "crane", "pilot", "ledger", "storm", "buoy", "anchor", "deck", "rope")


def settings(**changed: Any) -> lossless.Settings:
    """Settings under which a few messages make a leaf and a kilobyte makes a file."""
    small: Raw = {
        "fresh_tail_count": 4,
        "leaf_chunk_tokens": 300,
        "leaf_target_tokens": 100,
        "leaf_min_fanout": 2,
        "condensed_min_fanout": 2,
        "large_file_threshold_tokens": 1000,
        "independent_log_file_enabled": False,
    }
    return lossless.Settings(**small | changed)


def open_engine(path: Path, **changed: Any) -> lossless.Engine:
    return lossless.open(path, settings(**changed), clock=lambda: NOW, background=False)


def words(seed: object, count: int = 30) -> str:
    return " ".join(random.Random(str(seed)).choices(_WORDS, k=count))


def fill(engine: lossless.Engine, number: int, messages: int = 12, *, closed: bool = True) -> lossless.Session:
    """A conversation that was begun `number` months after the start: talk, a stored file, leaves, a pin."""
    session = lossless.Session(key=f"agent:main:talk{number}", id=f"run-{number}")
    at = START + timedelta(days=30 * number)
    said: list[lossless.Incoming] = []
    for n in range(messages):
        role = ("user", "assistant")[n % 2]
        message: Raw = {"role": role, "content": f"{number}/{n}: {words((number, n))}"}
        said.append(lossless.Incoming(message, f"c{number}-e{n}", at + timedelta(minutes=n)))
    call: Raw = {"id": f"call_{number:012d}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    said[2:2] = [
        lossless.Incoming({"role": "assistant", "content": None, "tool_calls": [call]}, f"c{number}-call", at),
        lossless.Incoming(
            {"role": "tool", "tool_call_id": call["id"], "content": f"{number} " + "log line of the harbour\n" * 300},
            f"c{number}-result",
            at,
        ),
    ]
    engine.append(session, said)
    engine.compact(session, budget=2_000, force=True)
    engine.pin(session, f"remember {number}")
    if closed:
        engine.reset(session)
    return session


def has_files(engine: lossless.Engine) -> int:
    """How many payloads lie on the disk."""
    assert engine.vault is not None
    return sum(1 for path in engine.vault.root.rglob("file_*") if path.is_file())


def problems(engine: lossless.Engine) -> list[str]:
    return [str(problem) for problem in engine.verify().problems]


# --- transcripts ---


def header(id: str = "run-1") -> Raw:
    return {"type": "session", "version": 3, "id": id, "timestamp": "2026-06-01T00:00:00.000Z", "cwd": "/home/me"}


def entry(id: str, parent: str | None, message: Raw | None = None, **more: Any) -> Raw:
    """A record of a transcript; a message unless its type says something else."""
    record: Raw = {"type": "message", "id": id, "parentId": parent, "timestamp": "2026-06-01T00:00:01.000Z"}
    return record | ({"message": message} if message is not None else {}) | more


def transcript(count: int, seed: object = 0) -> list[Raw]:
    """A header, a model and `count` messages, each the child of the one before."""
    records = [header(), entry("model", None, type="model_change", provider="fake", modelId="one")]
    parent = "model"
    for n in range(count):
        message = {"role": ("user", "assistant")[n % 2], "content": f"{n}: {words((seed, n))}"}
        records.append(entry(f"e{n}", parent, message))
        parent = f"e{n}"
    return records


def dumped(records: list[Raw]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def parsed(data: bytes) -> list[Raw]:
    return [json.loads(line) for line in data.splitlines()]
