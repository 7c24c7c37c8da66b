"""Random hosts against an oracle: `python -m bench.replay_fuzz --runs 10000 --seed 1 --processes 2`.

Prints what was done, and what was stored twice or lost: both are zero, or the scripts that show it are printed,
as short as they could be made. Exits with 1 then.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

from tests.fuzz.replay import KINDS, make_script, play, problems, shrink, stage
from tests.fuzz.world import Local, Remote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.fuzz.world import ReplayStage

#: So many runs share an archive, which is verified then.
_AT_ONCE = 250


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first run; each run has the next one")
    parser.add_argument("--kind", choices=sorted(KINDS), help="one kind of host only")
    parser.add_argument("--processes", type=int, choices=(1, 2), default=1, help="2: the second engine is elsewhere")
    parser.add_argument("--most", type=int, default=24, help="steps of a run")
    parser.add_argument("--failures", type=int, default=5, help="stop after so many")
    parser.add_argument("--as-it-is", action="store_true", help="do not shorten a script that fails")
    return parser.parse_args(arguments)


def _run(opened: ReplayStage, seed: int, asked: argparse.Namespace, totals: Counter[str]) -> None:
    """Play one script, and count what came of it."""
    script = make_script(seed, asked.kind, asked.most)
    played = play(opened, script)
    totals["runs"] += 1
    totals["operations"] += played.operations
    totals["messages"] += played.messages
    totals["duplicates"] += played.duplicates
    totals["losses"] += played.losses
    if played.failure is not None:
        totals["failures"] += 1
        short = script if asked.as_it_is else shrink(opened, script)
        again = played if asked.as_it_is else play(opened, short)
        sys.stdout.write(f"\nseed {seed}:\n{short}\n{again.failure or played.failure}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as many as asked for; 1 when anything was wrong."""
    asked = _arguments(arguments)
    totals: Counter[str] = Counter()
    begun = time.monotonic()
    seeds = range(asked.seed, asked.seed + asked.runs)
    for start in range(0, asked.runs, _AT_ONCE):
        with stage(Remote if asked.processes == 2 else Local) as opened:
            for seed in seeds[start : start + _AT_ONCE]:
                _run(opened, seed, asked, totals)
                if totals["failures"] >= asked.failures:
                    break
            found = problems(opened)
            totals["problems"] += len(found)
            sys.stdout.writelines(f"verify: {problem}\n" for problem in found[:3])
        if totals["failures"] >= asked.failures:
            break
    names = ("runs", "operations", "messages", "duplicates", "losses", "failures", "problems")
    figures = ", ".join(f"{totals[name]:,} {name}" for name in names)
    sys.stdout.write(f"{figures}; {time.monotonic() - begun:.0f} s\n")
    return 1 if totals["failures"] or totals["problems"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
