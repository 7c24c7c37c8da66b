"""The terminal interface on a large archive: what opening and leafing cost. `python -m bench.tui`

Each run is a process of its own, without a terminal. CPU milliseconds of all its threads; importing Textual is told
apart, as nobody can save it. What grows with the conversation would show in the ratio of the two lengths.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import lossless
from bench.conversations import turns
from bench.measure import table, write

SESSION = lossless.Session(key="bench:tui", id="11111111-2222-4333-8444-555555555555")
OPENING_AIM = 500.0
_STEP = 2_000
_FOLDED = 4_000

_CHILD = """
import asyncio, json, pathlib, sys, time
cpu, figures = time.process_time, {}
def took(name, since):
    figures[name] = round((cpu() - since) * 1000, 1)
start = cpu()
import textual.app, textual.binding, textual.containers, textual.screen, textual.widgets, textual.worker, textual.pilot
from textual.widgets import DataTable, Footer, Input, Static, Tree
took("import Textual", start)
def most_memory():
    status = pathlib.Path("/proc/self/status")  # what getrusage says counts the parent's, too
    return int(status.read_text().split("VmHWM:")[1].split()[0]) if status.exists() else 0
memory = most_memory()
start = cpu()
from lossless.settings import Settings
from lossless.tui.app import TerminalApp
from lossless.tui.archive import ArchiveAccess
room = ArchiveAccess(sys.argv[1], Settings())
app = TerminalApp(room)
async def main():
    global start
    async with app.run_test(size=(80, 24)) as pilot:
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert app.screen.rows.keys
        took("open: the first screen", start)
        for name, key in STEPS:
            start = cpu()
            await pilot.press(key)
            await app.workers.wait_for_complete()
            await pilot.pause()
            took(name, start)
STEPS = [("a window of 200 messages", "enter"), ("the window before it", "left_square_bracket"),
         ("one row up", "k"), ("the summaries", "s"), ("what the model sees", "c")]
asyncio.run(main())
figures["memory, MB"] = round((most_memory() - memory) / 1024, 1)
room.close()
print(json.dumps(figures))
"""


def grown(path: Path, count: int) -> Path:
    """One conversation of so many messages, the first of them folded."""
    messages = [message for pair in turns(count // 2) for message in pair]
    with lossless.open(path, background=False) as engine:
        for start in range(0, count, _STEP):
            engine.append(SESSION, messages[start : start + _STEP])
            if start + _STEP == min(_FOLDED, count):
                engine.compact(SESSION, budget=32_000, force=True)
    return path


def once(path: Path) -> dict[str, float]:
    """The figures of one run."""
    done = subprocess.run([sys.executable, "-c", _CHILD, str(path)], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print the table and keep it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a shorter conversation, fewer runs")
    quick = parser.parse_args().quick
    lengths, repeat = ((2_000, 10_000), 3) if quick else ((4_000, 100_000), 7)
    with tempfile.TemporaryDirectory() as folder:
        paths = {count: grown(Path(folder) / f"{count}.db", count) for count in lengths}
        runs: dict[int, list[dict[str, float]]] = {count: [] for count in lengths}
        for _ in range(repeat):
            for count, path in paths.items():
                runs[count].append(once(path))
    rows: list[dict[str, Any]] = []
    for name in runs[lengths[0]][0]:
        short, long = (median(run[name] for run in runs[count]) for count in lengths)
        unit = "MB" if "memory" in name else "ms"
        aim = f"<= {OPENING_AIM:.0f} ms" if name.startswith("open") else None
        rows.append(
            {"what": name, f"{lengths[0]:,} messages": short, f"{lengths[1]:,} messages": long, "unit": unit,
             "ratio": round(long / short, 2) if short else None, "aim": aim}
        )  # fmt: skip
    table(rows, "The terminal interface (CPU, median)")
    print(f"\n{write('tui', rows, {'input': 'turns()', 'seed': {'turns': 7}, 'quick': quick})}")


if __name__ == "__main__":
    main()
