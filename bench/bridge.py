"""The OpenClaw plugin's calls to Python: what the pipes cost, and a prompt at 10k messages. `python -m bench.bridge`

Wall milliseconds, as the host waits for them; on a busy machine look at the best of each. Needs Node 20 or newer.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import lossless
from bench.conversations import turns
from bench.measure import cpu, table, write

SESSION = lossless.Session(key="bench:main", id="run-1")
_BUDGET = 100_000
#: What a call may cost, in milliseconds.
GOALS = {"forty": 3.0, "assemble": 10.0}


def seed(folder: Path, count: int) -> float:
    """An archive of `count` messages, folded as an import is; returns what assembling costs without any pipes."""
    with lossless.open(folder / "lcm.db", lossless.Settings()) as engine:
        messages = [message for pair in turns(count // 2) for message in pair]
        engine.append(SESSION, messages)
        conversation = engine.archive.conversations.find(SESSION)
        assert conversation is not None
        engine.transcripts.fold_import(conversation)
        return cpu(lambda: engine.assemble(conversation, budget=_BUDGET, format="openclaw", prompt="next")).min * 1000


def measure(count: int, rounds: int) -> dict[str, Any]:
    """The figures of one run."""
    node = shutil.which("node")
    if node is None:
        sys.exit("bench.bridge needs Node 20 or newer")
    with tempfile.TemporaryDirectory(prefix="lossless-bench-") as name:
        direct = seed(Path(name), count)
        script = Path(__file__).with_name("bridge.mjs")
        command = [node, str(script), name, str(count), str(rounds)]
        done = subprocess.run(command, env=os.environ | {"LCM_PYTHON": sys.executable}, capture_output=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found | {"directCpu": direct}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    found = measure(options.messages, options.rounds)
    rows = [
        _row("start and first reply", {"median": found["start"], "best": found["start"]}),
        _row("an empty call", found["empty"]),
        _row(f"40 messages there and back ({found['fortyBytes'] // 1000} kB)", found["forty"], "forty"),
        _row(
            f"assemble at {options.messages:,} messages ({found['assembled']['tokens']:,} tokens)",
            found["assemble"],
            "assemble",
        ),
        _row("the same without pipes (CPU)", {"median": found["directCpu"], "best": found["directCpu"]}),
    ]
    table(rows, "Calls of the OpenClaw plugin, milliseconds")
    write("bridge", rows, {"input": f"{options.messages} messages of 0.9 kB", "seed": 0, "rounds": options.rounds})


def _row(what: str, found: dict[str, float], goal: str = "") -> dict[str, object]:
    limit = GOALS.get(goal)
    is_met = "" if limit is None else "yes" if found["best"] <= limit else "no"
    shown = "" if limit is None else limit
    return {
        "call": what,
        "median": round(found["median"], 2),
        "best": round(found["best"], 2),
        "goal": shown,
        "met": is_met,
    }


if __name__ == "__main__":
    main()
