"""Hooks and the MCP server from a cold start: processor time, and how long a host waits. `python -m bench.hook`

A hook is measured as its host calls it: a process of its own. What it hands to a worker is measured apart, by running
that worker alone. A session has `--messages` messages of about 0.9 kB when it begins.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.conversations import turns
from bench.measure import table, write

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SESSION = "11111111-2222-4333-8444-555555555555"
_HOOK = [sys.executable, "-m", "lossless.hosts.claude_code.hook"]
_WORKER = [sys.executable, "-m", "lossless.hosts.claude_code.worker"]
_HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}


class Session:
    """A session of Claude Code in a folder of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.transcript = home / "projects" / "-bench" / f"{_SESSION}.jsonl"
        self.transcript.parent.mkdir(parents=True)
        self._lines = self._all_lines()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LCM_", "OPENCLAW_", "XDG_"))}
        kept.pop("PYTHONDONTWRITEBYTECODE", None)
        self.env = kept | {"HOME": str(home), "LCM_DATABASE_PATH": str(home / "lcm.db"), "LCM_HOOK_WAIT_MS": "30000"}

    def grow(self, messages: int) -> None:
        with self.transcript.open("a", encoding="utf-8") as file:
            file.writelines(islice(self._lines, messages))

    def event(self, name: str, **more: str) -> str:
        return json.dumps({"hook_event_name": name, "transcript_path": str(self.transcript), **more})

    def settle(self) -> None:
        """Wait until no worker runs and none waits; one that was just started takes a moment to say so."""
        time.sleep(1)
        for lock in (self.home / ".local" / "state" / "lossless" / "hooks").glob("*.n*"):
            with lock.open("w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)

    def _all_lines(self) -> Iterator[str]:
        number, parent = 0, None
        for pair in turns(10_000_000):
            for message in pair:
                id_ = f"bench-{number:08}"
                stamp = f"2026-07-{1 + number // 86_400 % 28:02}T{number // 3600 % 24:02}:{number // 60 % 60:02}:00Z"
                record: dict[str, Any] = {"type": message["role"], "uuid": id_, "parentUuid": parent}
                record |= {"sessionId": _SESSION, "timestamp": stamp, "cwd": "/bench", "message": message}
                yield json.dumps(record) + "\n"
                number, parent = number + 1, id_


def spent(command: list[str], text: str, env: Mapping[str, str]) -> tuple[float, float]:
    """Milliseconds of processor and of clock that a command takes, without processes that it does not wait for."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, input=text, text=True, env=dict(env), check=True, stdout=subprocess.DEVNULL)
    clock = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime), 1000 * clock


def row(what: str, runs: list[tuple[float, float]], aim: float | None) -> dict[str, object]:
    """A line of the table: the medians of some runs."""
    cpu, clock = (statistics.median(column) for column in zip(*runs, strict=True))
    best = min(run[0] for run in runs)
    return {"what": what, "cpu ms": round(cpu, 1), "best": round(best, 1), "aim": aim, "clock ms": round(clock, 1)}


def hooks(session: Session, repeat: int) -> Iterator[dict[str, object]]:
    """Each event of a session, as its host sees it."""
    runs: dict[str, list[tuple[float, float]]] = {}
    for _ in range(repeat):
        for name, more in (
            ("UserPromptSubmit", {"prompt": "What did we decide about the port in src/queue.py?"}),
            ("Stop", {}),
            ("PreCompact", {"trigger": "auto"}),
            ("SessionStart", {"source": "compact"}),
        ):
            session.settle()
            if name == "Stop":
                session.grow(2)
            runs.setdefault(name, []).append(spent(_HOOK, session.event(name, **more), session.env))
    for name, found in runs.items():
        yield row(f"hook {name}", found, 100.0)


def workers(session: Session, repeat: int) -> Iterator[dict[str, object]]:
    """What happens behind a hook, in a process that nobody waits for."""
    found = []
    for _ in range(repeat):
        session.settle()
        session.grow(2)
        found.append(spent([*_WORKER, session.event("Stop")], "", session.env))
    yield row("worker: a turn", found, None)
    session.settle()
    found = [spent([*_WORKER, session.event("PreCompact")], "", session.env) for _ in range(repeat)]
    yield row("worker: before a compaction", found, None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000, help="how long the session is (10000)")
    parser.add_argument("--repeat", type=int, default=7, help="how often each event comes (7)")
    asked = parser.parse_args()
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name:
        session = Session(Path(name))
        session.grow(asked.messages)
        first = [spent(_HOOK, session.event("Stop"), session.env | {"LCM_HOOK_WAIT_MS": "1000"})]
        rows.append(row(f"hook Stop, first import of {asked.messages:,} messages", first, 100.0))
        session.settle()
        rows += hooks(session, asked.repeat)
        rows += workers(session, asked.repeat)
        server = [sys.executable, "-m", "lossless.cli.main", "mcp"]
        hello = json.dumps(_HELLO) + "\n"
        rows.append(row("lcm mcp: initialize", [spent(server, hello, session.env) for _ in range(3)], 1500.0))
        bare = [spent([sys.executable, "-c", "pass"], "", session.env) for _ in range(asked.repeat)]
        rows.append(row("a bare interpreter", bare, None))
    table(rows, f"Hooks over a session of {asked.messages:,} messages")
    print("kept in", write("hook", rows, {"input": "bench.conversations.turns", "seed": 0, "messages": asked.messages}))


if __name__ == "__main__":
    main()
