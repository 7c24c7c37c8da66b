"""Transcripts against the floor: a first import, nothing new, a gap, a turn, memory. `python -m bench.lifecycle`

The doctor's look at a long history, too. CPU seconds.
A message is 0.9 kB, as in `bench.ingest`; the floor's turn is that of `bench.floor`.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import lossless
from bench.conversations import turns
from bench.floor import FloorTurns
from bench.measure import table, write
from lossless.maintenance.doctor import examine
from lossless.store.archive import Archive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lossless.compaction.plan import Pass
    from lossless.ingest.transcripts.following import TranscriptReport

SESSION = lossless.Session(key="bench:main", id="11111111-2222-4333-8444-555555555555")
#: Large enough that no sweep falls due within the turns that are measured.
_BUDGET = 10_000_000
_STEP_MS = 1_767_225_600_000


def entries(start: int = 0) -> Iterator[str]:
    """Lines of a transcript without end, each entry below the one before."""
    n = 0
    for pair in turns(10_000_000):
        for message in pair:
            if n >= start:
                said = dict(message) | {"timestamp": _STEP_MS + n * 1000}
                parent = f"e{n - 1}" if n else None
                yield json.dumps({"type": "message", "id": f"e{n}", "parentId": parent, "message": said}) + "\n"
            n += 1


class Transcript:
    """A file that grows."""

    def __init__(self, path: Path) -> None:
        self.path, self.count = path, 0
        path.write_text('{"type":"session","version":3,"id":"bench","timestamp":"2026-01-01T00:00:00Z"}\n')
        self._lines = entries()

    def grow(self, count: int) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(islice(self._lines, count))
        self.count += count


def passes(count: int, folder: Path) -> dict[str, float]:
    """CPU seconds of the passes over a transcript of `count` messages, one after the other."""
    seconds: dict[str, float] = {}
    transcript = Transcript(folder / "run.jsonl")
    transcript.grow(count)
    settings = lossless.Settings(summary_processes=1)  # so that all work is counted here
    with lossless.open(folder / "lcm.db", settings, background=False) as engine:

        def passed(name: str, stored: int, *, fold: bool = False) -> TranscriptReport:
            start = time.process_time()
            report = engine.bootstrap(SESSION, transcript.path, fold=fold)
            seconds[name] = time.process_time() - start
            assert report.stored == stored, report
            return report

        passed("rows", count)
        seconds |= _fold(engine)
        passed("nothing new", 0)
        transcript.grow(50)
        passed("a gap of 50", 50)
    return seconds


def _fold(engine: lossless.Engine) -> dict[str, float]:
    """CPU seconds of folding what was imported: of its leaves, and of the summaries above them."""
    spent = {"leaves": 0.0, "condensed": 0.0}
    before = time.process_time()

    def heard(work: Pass, _: object) -> None:
        nonlocal before
        now = time.process_time()
        spent["condensed" if work.depth else "leaves"] += now - before
        before = now

    engine.transcripts.fold_import(engine.archive.conversations.get(1), progress=heard)
    spent["leaves"] += time.process_time() - before
    return spent


def turn_cost(count: int, folder: Path, repeat: int = 8, each: int = 50) -> tuple[float, float]:
    """CPU seconds of `after_turn` with an appended transcript over a history, and of the floor's turn over the same.

    Both are warm, and take turns; the mean is taken, so that merges and checkpoints count in both.
    """
    transcript = Transcript(folder / "turns.jsonl")
    transcript.grow(count)
    with lossless.open(folder / "turns.db", background=False) as engine:
        engine.bootstrap(SESSION, transcript.path)
    floor = FloorTurns(count, (repeat + 1) * each, folder / "floor.db")
    with lossless.open(folder / "turns.db", background=False) as engine:

        def ours() -> float:
            spent = 0.0
            for _ in range(each):
                transcript.grow(2)
                start = time.process_time()
                engine.after_turn(SESSION, transcript=transcript.path, budget=_BUDGET)
                spent += time.process_time() - start
            return spent

        ours(), floor.store(each)
        pairs = [(ours(), floor.store(each)) for _ in range(repeat)]
    floor.close()
    return sum(mine for mine, _ in pairs) / repeat / each, sum(bare for _, bare in pairs) / repeat / each


def examined(path: Path) -> float:
    """CPU seconds of the doctor on an archive, without asking a model."""
    with Archive.open(path, read_only=True) as archive:
        started = time.process_time()
        found = examine(archive, datetime.now(UTC))
        spent = time.process_time() - started
    assert found.healthy, found.text
    return spent


def memory(megabytes: int, folder: Path) -> float:
    """Resident megabytes at most while a transcript of so many megabytes is imported."""
    transcript = Transcript(folder / "large.jsonl")
    while transcript.path.stat().st_size < megabytes * 1_000_000:
        transcript.grow(20_000)
    command = [sys.executable, "-m", "bench.lifecycle", "--import-only", str(transcript.path), str(folder / "large.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def _import_only(path: str, database: str) -> None:
    with lossless.open(database, background=False) as engine:
        engine.bootstrap(SESSION, path, fold=False)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10k messages and 100 MB only")
    parser.add_argument("--import-only", nargs=2, metavar=("TRANSCRIPT", "ARCHIVE"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.import_only:
        _import_only(*asked.import_only)
        return
    aims = {"rows": 1500.0, "leaves": 2000.0, "nothing new": 20.0, "a gap of 50": 20.0}
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for what, seconds in passes(10_000, folder).items():
            aim = aims.get(what, "–")
            rows.append({"what": f"10,000 messages: {what}", "figure": round(seconds * 1000, 1), "aim": aim})
        history = 10_000 if asked.quick else 100_000
        ours, floor = turn_cost(history, folder)
        rows.append({"what": f"turn over {history:,} messages, times the floor", "figure": ours / floor, "aim": 3.0})
        doctor = round(examined(folder / "turns.db") * 1000, 1)
        rows.append({"what": f"the doctor on {history:,} messages", "figure": doctor, "aim": 3000.0})
        size = 100 if asked.quick else 1000
        rows.append({"what": f"{size} MB: resident MB", "figure": memory(size, folder), "aim": 300.0})
    table(rows, "Transcripts (ms of CPU unless said)")
    print("kept in", write("lifecycle", rows, {"input": "bench.conversations.turns", "seed": 0}))


if __name__ == "__main__":
    main()
