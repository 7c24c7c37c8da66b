"""What the model is shown in long sessions full of tool calls: summaries, a stable beginning, the limit.

python -m bench.prompts [--turns 60] [--seeds 3]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import lossless
from tests.fuzz.tool_sessions import SessionShape, Watched, drive

BUDGETS = (16_000, 40_000, 64_000, 90_000, 128_000)
SESSION = lossless.Session(key="agent:bench:prompts")
SHAPES = {"0.2–40k": SessionShape(), "fewer": SessionShape(rounds=3), "0.2–2k": SessionShape(most=2_000, rounds=3)}


def run(budget: int, turns: int, seed: int, shape: SessionShape) -> Watched:
    """One session in an archive of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        lossless.open(Path(folder) / "lcm.db", lossless.Settings(), background=False) as engine,
    ):
        return drive(engine, SESSION, budget, turns, seed, shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    print(
        f"{'outputs':9}{'budget':>8}{'prompts':>9}{'summary':>9}{'prefix':>8}{'over':>6}{'largest':>9}"
        f"{'fold turns':>12}{'silent':>8}"
    )
    for name, shape in SHAPES.items():
        for budget in BUDGETS:
            found = [run(budget, args.turns, seed, shape) for seed in range(args.seeds)]
            prompts, turns = sum(w.prompts for w in found), sum(w.turns for w in found)
            after, shown = sum(w.after_fold for w in found), sum(w.with_summary for w in found)
            same, sent = sum(w.same for w in found), sum(w.sent for w in found)
            summary = f"{shown / after:.1%}" if after else "–"
            print(
                f"{name:9}{budget:>8,}{prompts:>9}{summary:>9}{same / max(sent, 1):>8.1%}"
                f"{sum(w.over for w in found):>6}{max(w.largest for w in found):>9,}"
                f"{sum(w.folding_turns for w in found) / turns:>12.1%}{sum(w.silent for w in found):>8}"
            )


if __name__ == "__main__":
    main()
