"""Random hosts against an independent judge: `python -m bench.host_fuzz --runs 2000 --seed 1`.

Prints a line for each kind of host, and the first runs of each that went wrong, as short as they could be made.
Exits with 1 then.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

from tests.hosts_fuzz.kinds import KINDS
from tests.hosts_fuzz.play import make_run, play, shrink, stage, told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.hosts_fuzz.play import Stage

#: So many runs share an archive, which is verified then.
_AT_ONCE = 100
_WRONG = ("lost", "doubled", "missing", "stale", "context", "hidden", "overcounted", "replayed")


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2_000, help="in all; the kinds take turns")
    parser.add_argument("--seed", type=int, default=1, help="of the first run; each run has the next one")
    parser.add_argument(
        "--kind", choices=sorted(KINDS), action="append", help="this kind of host only; may be repeated"
    )
    parser.add_argument("--show", type=int, default=1, help="failures of a kind that are printed")
    parser.add_argument("--as-it-is", action="store_true", help="do not shorten a run that fails")
    return parser.parse_args(arguments)


def _run(opened: Stage, kind: str, seed: int, asked: argparse.Namespace, totals: Counter[str]) -> None:
    """Play one run, and count what came of it."""
    run = make_run(kind, seed)
    played = play(opened, run)
    totals["runs"] += 1
    for name in ("calls", "events", "messages", "ambiguous", "undecidable", "likely", "revised"):
        totals[name] += getattr(played, name)
    for problem in played.problems:
        totals[problem.what] += 1
    if played.problems:
        totals["failed"] += 1
        if totals["failed"] <= asked.show:
            short = run if asked.as_it_is else shrink(opened, run, played.problems[0].what)
            sys.stdout.write(f"\n{told(short, play(opened, short))}\n")


def _line(kind: str, totals: Counter[str]) -> str:
    wrong = ", ".join(f"{totals[name]} {name}" for name in _WRONG if totals[name])
    counted = f"{totals['ambiguous']}/{totals['undecidable']} ambiguous/undecidable"
    share = 100 * totals["likely"] / max(1, totals["messages"])
    return (
        f"{kind:22} {totals['failed']:5} of {totals['runs']:5} failed; {totals['calls']:,} calls, "
        f"{totals['events']:,} events, {totals['messages']:,} messages, {counted}, {totals['revised']} revised, "
        f"{share:.1f} % by likeness" + (f"; runs with: {wrong}" if wrong else "") + "\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as many as asked for; 1 when anything was wrong."""
    asked = _arguments(arguments)
    kinds = asked.kind or list(KINDS)
    totals: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    begun, problems = time.process_time(), 0
    for start in range(0, asked.runs, _AT_ONCE):
        with stage() as opened:
            for number in range(start, min(start + _AT_ONCE, asked.runs)):
                kind = kinds[number % len(kinds)]
                _run(opened, kind, asked.seed + number, asked, totals[kind])
            found = opened.engine.verify()
            problems += len(found.problems)
            sys.stdout.writelines(f"verify: {problem}\n" for problem in found.problems[:3])
    sys.stdout.write("\n")
    sys.stdout.writelines(_line(kind, totals[kind]) for kind in kinds if totals[kind]["runs"])
    everything = sum(totals.values(), Counter[str]())
    sys.stdout.write(_line("all", everything))
    sys.stdout.write(f"{problems} problems found by verify; {time.process_time() - begun:.0f} s of CPU\n")
    return 1 if everything["failed"] or problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
