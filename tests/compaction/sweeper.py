"""A process of its own that talks and folds: `python sweeper.py <archive> talk|pay|hang [turns]`.

`talk` stores turns and says so, line by line, once each is acknowledged. `pay` pays debts until there are none.
The model is slow, so that there is always something under way; with `hang` it never answers.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from lossless.testing import Scripted
from tests.compaction import loop_kit


class Slow(Scripted):
    """Answers after a moment that differs from call to call."""

    def __call__(self, prompt, /):  # type: ignore[no-untyped-def]
        time.sleep(random.uniform(0.001, 0.02))
        return super().__call__(prompt)


class Hanging(Scripted):
    """Says that it was asked, and no more."""

    def __call__(self, prompt, /):  # type: ignore[no-untyped-def]
        say("asked")
        time.sleep(3600)
        return super().__call__(prompt)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def run_talk(path: Path, turns: int) -> None:
    with loop_kit.open_engine(path, Slow(), background=True, summary_max_calls_per_window=10_000) as engine:
        for turn in range(turns):
            new = loop_kit.talk(4, first=4 * turn)
            engine.after_turn(loop_kit.SESSION, new_messages=new, budget=loop_kit.BUDGET)
            say(str(4 * turn + 4))
            engine.settle(0.01)


def run_pay(path: Path, model: Scripted) -> None:
    with loop_kit.open_engine(path, model, leaf_chunk_tokens=150, summary_max_calls_per_window=10_000) as engine:
        say("ready")
        while engine.archive.debts.pending():
            engine.admin.run_pending()
            time.sleep(0.002)
    say(f"calls {model.started}")


if __name__ == "__main__":
    place, what = Path(sys.argv[1]), sys.argv[2]
    if what == "talk":
        run_talk(place, int(sys.argv[3]))
    else:
        run_pay(place, Hanging() if what == "hang" else Slow())
