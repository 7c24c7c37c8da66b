"""Ingest against the floor: turns, batches, windows, size, start-up. `python -m bench.ingest`

A turn is one user and one assistant message, 1.8 kB together, in one transaction. CPU seconds and ratios,
floor and engine interleaved in one run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import lossless
from bench.conversations import text_bytes, turns
from bench.floor import floor_batch, floor_turns
from bench.measure import DATA, interleaved, table, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.conversations import ChatMessage

SESSION = lossless.Session(key="bench:main", id="11111111-2222-4333-8444-555555555555")
_PI = DATA / "transcripts/pi-large-session.jsonl"


def engine_turns(pairs: Sequence[Sequence[ChatMessage]], path: Path) -> float:
    """CPU seconds to append turn by turn."""
    with lossless.open(path, background=False) as engine:
        start = time.process_time()
        for pair in pairs:
            engine.append(SESSION, pair)
        return time.process_time() - start


def engine_batch(messages: Sequence[ChatMessage], path: Path) -> float:
    """CPU seconds to append everything in one call."""
    with lossless.open(path, background=False) as engine:
        start = time.process_time()
        engine.append(SESSION, messages)
        return time.process_time() - start


def speed(count: int, repeat: int) -> list[dict[str, object]]:
    """Turns and one batch of `count` messages, ours and the floor's."""
    pairs = list(turns(count // 2))
    flat = [message for pair in pairs for message in pair]
    with tempfile.TemporaryDirectory() as folder:
        fresh = (Path(folder) / f"{n}.db" for n in range(10_000))
        figures = interleaved(
            {
                "floor turns": lambda: floor_turns(flat, next(fresh)),
                "engine turns": lambda: engine_turns(pairs, next(fresh)),
                "floor batch": lambda: floor_batch(flat, next(fresh)),
                "engine batch": lambda: engine_batch(flat, next(fresh)),
            },
            repeat,
        )
    rows: list[dict[str, object]] = []
    for how, aim, each in (("turns", 2.0, count // 2), ("batch", 3.0, 1)):
        ours, floor = figures[f"engine {how}"], figures[f"floor {how}"]
        rows.append(
            {
                "what": f"{count:,} messages, {how}",
                "floor ms": round(floor.min * 1000 / each, 3),
                "ours ms": round(ours.min * 1000 / each, 3),
                "ratio": round(ours.min / floor.min, 2),
                "aim": f"<= {aim}",
            }
        )
    return rows


def flatness(small: int, large: int) -> dict[str, object]:
    """What a turn costs in a long conversation stored turn by turn, against a short one."""
    costs = {}
    for count in (small, large):
        pairs = list(turns(count // 2))
        with tempfile.TemporaryDirectory() as folder:
            runs = [engine_turns(pairs, Path(folder) / f"{n}.db") for n in range(5 if count == small else 1)]
        costs[count] = min(runs) * 1000 / len(pairs)
    return {
        "what": f"a turn of {large:,} messages, against one of {small:,}",
        "floor ms": round(costs[small], 3),
        "ours ms": round(costs[large], 3),
        "ratio": round(costs[large] / costs[small], 2),
        "aim": "<= 1.3",
    }


def window(rounds: int = 100) -> dict[str, object]:
    """A sync of a window of 200 messages of which 2 are new."""
    messages = [message for pair in turns(100 + rounds) for message in pair]
    with tempfile.TemporaryDirectory() as folder, lossless.open(Path(folder) / "a.db", background=False) as engine:
        engine.sync(SESSION, messages[:200])
        start = time.process_time()
        for n in range(1, rounds + 1):
            engine.sync(SESSION, messages[2 * n : 200 + 2 * n] if n % 2 else messages[2 * n - 2 : 200 + 2 * n])
        sliding = (time.process_time() - start) * 1000 / rounds
    with tempfile.TemporaryDirectory() as folder, lossless.open(Path(folder) / "a.db", background=False) as engine:
        growing = 0.0
        for n in range(20):
            session = lossless.Session(key=f"bench:{n}")
            engine.sync(session, messages[:198])
            start = time.process_time()
            engine.sync(session, messages[:200])
            growing += time.process_time() - start
    return {
        "what": "sync of 200 messages, 2 new: growing / sliding",
        "ours ms": f"{growing * 50:.2f} / {sliding:.2f}",
        "aim": "<= 2",
    }


def sizes() -> list[dict[str, object]]:
    """What an archive takes on disk, index included."""
    flat = [message for pair in turns(5_000) for message in pair]
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chat.db"
        engine_batch(flat, path)
        aim = 1.65 * text_bytes(flat) + 380 * len(flat)
        share = path.stat().st_size / aim
        rows.append(
            {
                "what": "10,000 chat messages, bytes of 1.65 x text + 380 a message",
                "ratio": round(share, 2),
                "aim": "<= 1",
            }
        )
        if _PI.exists():
            lines = [json.loads(line) for line in _PI.read_text(encoding="utf-8").splitlines()]
            messages = [line["message"] for line in lines if line.get("type") == "message"]
            path = Path(folder) / "pi.db"
            engine_batch(messages, path)
            share = path.stat().st_size / _PI.stat().st_size
            rows.append({"what": "a coding session, bytes of its JSON", "ratio": round(share, 2), "aim": "<= 2"})
    what = "300 turns with a decorated newest message, bytes of plain + decorations"
    for how, share, most in zip(("", ", vacuumed"), decorated_share(300), ("–", "<= 1.3"), strict=True):
        rows.append({"what": what + how, "ratio": round(share, 2), "aim": most})
    return rows


def decorated_share(count: int) -> tuple[float, float]:
    """The archive of a host that decorates its newest user message, of (the plain archive + its decorations).

    As it is, and without the room that shorter rows left in their pages: `VACUUM` frees that. The decoration is
    another one in each window.
    """
    messages = [message for pair in turns(count) for message in pair]
    bytes_of: dict[bool, list[int]] = {}
    decorations = 0
    with tempfile.TemporaryDirectory() as folder:
        for is_decorated in (False, True):
            path = Path(folder) / f"{is_decorated}.db"
            with lossless.open(path, background=False) as engine:
                for end in range(1, len(messages) + 1):
                    window: list[ChatMessage] = list(messages[:end])
                    if is_decorated:
                        newest = end - 1 if end % 2 else end - 2
                        found = " ".join(f"found{end}-{n}" for n in range(50))
                        text = f"<context>\nwindow {end}\n{found}\n</context>\n"
                        window[newest] = {**window[newest], "content": text + str(window[newest]["content"])}
                        decorations += len(text)
                    engine.sync(SESSION, window)
            with contextlib.closing(sqlite3.connect(path)) as database:
                database.execute("VACUUM INTO ?", [f"{path}.vacuumed"])
            bytes_of[is_decorated] = [path.stat().st_size, Path(f"{path}.vacuumed").stat().st_size]
    as_it_is, vacuumed = (
        ours / (plain + decorations) for ours, plain in zip(bytes_of[True], bytes_of[False], strict=True)
    )
    return as_it_is, vacuumed


def start_up() -> dict[str, object]:
    """CPU milliseconds of `lcm --version`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(5):
        subprocess.run([sys.executable, "-m", "lossless.cli.main", "--version"], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000 / 5
    return {"what": "lcm --version", "ours ms": round(spent, 1), "aim": "<= 80"}


def memory(megabytes: int) -> dict[str, object]:
    """The most memory that `lcm append` takes for a large file."""
    with tempfile.TemporaryDirectory() as folder:
        lines = [json.dumps(message) + "\n" for pair in turns(2_000) for message in pair]
        source = Path(folder) / "in.jsonl"
        with source.open("w", encoding="utf-8") as file:
            while file.tell() < megabytes * 1_000_000:
                file.writelines(lines)
        command = [
            sys.executable,
            "-m",
            "lossless.cli.main",
            "--db",
            str(Path(folder) / "a.db"),
            "--create",
            "append",
            "--session-key",
            "bench:memory",
        ]
        with source.open("rb") as stdin:
            child = subprocess.Popen(command, stdin=stdin, stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
    resident = round(usage.ru_maxrss / 1024)
    return {"what": f"lcm append of {megabytes} MB, resident MB", "ratio": resident, "aim": "<= 300"}


def main() -> None:
    """Print the table and keep it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--long", type=int, default=100_000, help="messages of the long conversation")
    parser.add_argument("--megabytes", type=int, default=100, help="size of the file for the memory figure")
    options = parser.parse_args()
    rows = [*speed(options.messages, options.repeat), flatness(1_000, options.long), window(), *sizes(), start_up()]
    rows.append(memory(options.megabytes))
    table(rows, "Ingest against the floor (CPU)")
    print(f"\n{write('ingest', rows, {'input': 'turns()', 'seed': 7, 'repeat': options.repeat})}")


if __name__ == "__main__":
    main()
