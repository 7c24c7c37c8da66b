"""What a process of its own does that talks and folds, until it is killed."""

from __future__ import annotations

import random
import sys
import time
from typing import TYPE_CHECKING

from lossless.testing import Scripted
from tests.compaction import loop_kit

if TYPE_CHECKING:
    from pathlib import Path


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
    """Store turns and say so, line by line, once each is acknowledged."""
    with loop_kit.open_engine(path, Slow(), background=True, summary_max_calls_per_window=10_000) as engine:
        for turn in range(turns):
            new = loop_kit.talk(4, first=4 * turn)
            engine.after_turn(loop_kit.SESSION, new_messages=new, budget=loop_kit.BUDGET)
            say(str(4 * turn + 4))
            engine.settle(0.01)


def run_pay(path: Path, model: Scripted) -> None:
    """Pay debts until there are none."""
    with loop_kit.open_engine(path, model, leaf_chunk_tokens=150, summary_max_calls_per_window=10_000) as engine:
        say("ready")
        while engine.archive.guards.pending_debts():
            engine.admin.run_pending()
            time.sleep(0.002)
    say(f"calls {model.started}")
