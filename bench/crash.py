"""Kill a host at random moments: `python -m bench.crash --runs 200`.

A child writes a transcript, hands its turns over (`after_turn`, `bootstrap`, `append`) and folds, in a loop; it says
which turn was acknowledged. It is killed with SIGKILL at any moment. Each time every acknowledged message must be
there and the archive whole; and a child that begins again from the start must end with the whole log, each once.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lossless
from bench.agent_conversation import agent_conversation
from tests.forking import Fork
from tests.fuzz.world import open_engine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

COUNT, TURN = 480, 6
#: The runtime and a transcript bring the same turns to one; the other has only batches with keys.
READ, APPENDED = lossless.Session(key="agent:main:read", id="run-1"), lossless.Session(key="agent:main:appended")
#: A child lives so many seconds at most after its first word.
LIFE = 0.5


@dataclass(frozen=True, slots=True)
class Crashes:
    """What came of killing hosts."""

    kills: int
    archives: int
    acknowledged: int
    stored: int


def log() -> list[dict[str, Any]]:
    """What the host's people and models say."""
    return [dict(message) for message in agent_conversation(COUNT)]


# --- the child ---


def _write(path: Path, messages: Sequence[dict[str, Any]], end: int) -> None:
    """Let the transcript hold the messages up to `end`; a line that a killed host left half written is cut off."""
    whole = path.read_bytes() if path.exists() else b""
    kept = whole[: whole.rfind(b"\n") + 1]
    if kept != whole:
        path.write_bytes(kept)
    with path.open("ab", buffering=0) as file:
        if not kept:
            file.write(b'{"type": "session", "version": 3, "id": "header"}\n')
        for number in range(max(0, kept.count(b"\n") - 1), end):
            parent = f"e{number - 1}" if number else None
            record = {"type": "message", "id": f"e{number}", "parentId": parent, "message": messages[number]}
            line = json.dumps(record).encode() + b"\n"
            file.write(line[: len(line) // 2])
            file.write(line[len(line) // 2 :])


def be_a_host(folder: Path, start: int) -> None:
    """Hand everything over from a turn on, and say what was acknowledged."""
    messages, transcript = log(), folder / "run.jsonl"
    with open_engine(folder / "lcm.db") as engine:
        for end in range(start + TURN, COUNT + 1, TURN):
            batch, key = messages[end - TURN : end], f"turn {end}"
            engine.append(APPENDED, batch, key=key)
            _write(transcript, messages, end)
            if end % 4:
                engine.after_turn(READ, new_messages=batch, transcript=transcript, key=key)
            else:
                engine.bootstrap(READ, transcript)
                engine.append(READ, batch, key=key)
            if end % 3 == 0:
                engine.compact(APPENDED, budget=2_000, force=True)
                engine.compact(READ, budget=2_000, force=True)
            os.write(1, f"{end}\n".encode())


# --- the parent ---


def run_host(folder: Path, start: int, life: float | None, *, waits: bool = True) -> int:
    """Run the child for so many seconds, or to its end; returns how many messages it has acknowledged.

    Its life begins with its first word if the parent `waits` for that.
    """
    with Fork(lambda: be_a_host(folder, start)) as host:
        lines = [host.stdout.readline()] if waits else []
        if life is not None:
            time.sleep(life)
            host.kill()
        lines += host.stdout
        if host.wait() not in (0, -9):
            raise AssertionError(f"the host has failed with {host.returncode}")
    return max((int(line) for line in lines if line.strip()), default=0)


def check(folder: Path, messages: Sequence[dict[str, Any]], acknowledged: int) -> int:
    """What is stored is a beginning of the log with all that was acknowledged; returns how much that is."""
    sizes = []
    with open_engine(folder / "lcm.db") as engine:
        for session in (READ, APPENDED):
            found = engine.archive.conversations.find(session)
            rows = [] if found is None else engine.archive.messages.in_order(found.id, limit=2 * COUNT)
            if [row.message.original for row in rows] != list(messages[: len(rows)]):
                raise AssertionError(f"{session.key}: what is stored is no beginning of the log")
            if len(rows) < acknowledged:
                raise AssertionError(f"{session.key}: {acknowledged - len(rows)} acknowledged messages are lost")
            sizes.append(len(rows))
        problems = [str(problem) for problem in engine.verify().problems]
        if problems:
            raise AssertionError(f"the archive is damaged: {problems[:3]}")
    return sum(sizes)


def crash(kills: int, seed: int, life: float = LIFE) -> Iterator[Crashes]:
    """Kill hosts so often, and say how far it is each time; raises AssertionError when anything is wrong."""
    dice = random.Random(seed)
    messages = log()
    done = archives = acknowledged_in_all = stored = 0
    while done < kills:
        archives += 1
        acknowledged = 0
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            while done < kills and acknowledged < COUNT:
                start = max(0, acknowledged - TURN * dice.randint(0, 8))  # a host does not know its last words
                waits = dice.random() < 0.8
                lived = dice.uniform(0, life if waits else 2 * life)
                acknowledged = max(acknowledged, run_host(folder, start, lived, waits=waits))
                stored = check(folder, messages, acknowledged)
                done += 1
                yield Crashes(done, archives, acknowledged_in_all + acknowledged, stored)
            for start in (acknowledged, 0):
                run_host(folder, start, None)
            if check(folder, messages, COUNT) != 2 * COUNT:
                raise AssertionError("begun again, it did not end with the whole log")
        acknowledged_in_all += acknowledged


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill hosts, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="how often to kill")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    begun = time.monotonic()
    *_, last = crash(asked.runs, asked.seed)
    sys.stdout.write(
        f"{last.kills} kills, {last.archives} archives, {last.acknowledged:,} acknowledged messages, "
        f"0 lost, 0 duplicates, all archives whole; {time.monotonic() - begun:.0f} s\n"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
