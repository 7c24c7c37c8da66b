"""Long sessions of an agent that calls tools, and what the prompts of such a session come to."""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lossless.context.run import Assembled
    from lossless.engine import Engine
    from lossless.model.conversations import Session

Raw = dict[str, Any]
_WORDS = (
    "error", "retry", "socket", "queue", "worker", "deploy", "commit", "branch", "index", "cache", "token", "buffer",
    "schema", "column", "migrate", "restart", "timeout", "harbour", "ferry", "ticket", "pilot", "crane", "ledger",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SessionShape:
    """How large the steps of a session are, in tokens: outputs lie between `least` and `most`, most of them small."""

    least: int = 200
    most: int = 40_000
    #: Tool rounds of a turn, at most.
    rounds: int = 6


#: An agent that reads files and runs programs.
AGENT = SessionShape()


def turns(seed: int, shape: SessionShape = AGENT) -> Iterator[list[list[Raw]]]:
    """Turn after turn, each as the batches that come between two requests: a question, rounds of tools, an answer."""
    roll = random.Random(seed)
    number = 0
    while True:
        number += 1
        steps: list[list[Raw]] = [[{"role": "user", "content": f"Step {number}: {_text(roll, roll.randint(10, 120))}"}]]
        for nth in range(roll.randint(0, shape.rounds)):
            id_ = f"call_{number}_{nth}"
            function = {"name": "run", "arguments": json.dumps({"cmd": _text(roll, 8)})}
            asked = {"role": "assistant", "content": None}
            call = {"id": id_, "type": "function", "function": function}
            size = int(math.exp(roll.triangular(math.log(shape.least), math.log(shape.most), math.log(shape.least))))
            result = {"role": "tool", "tool_call_id": id_, "content": _log(roll, size)}
            steps.append([asked | {"tool_calls": [call]}, result])
        steps.append([{"role": "assistant", "content": f"Done {number}: {_text(roll, roll.randint(20, 200))}"}])
        yield steps


def _text(roll: random.Random, tokens: int) -> str:
    return " ".join(roll.choices(_WORDS, k=max(1, int(tokens / 1.7))))


def _log(roll: random.Random, tokens: int) -> str:
    """An output of about so many tokens: lines as programs write them."""
    lines: list[str] = []
    left = 4 * tokens
    while left > 0:
        lines.append(f"{roll.randrange(10**6):06d} src/{roll.choice(_WORDS)}.py: {_text(roll, 12)}")
        left -= len(lines[-1]) + 1
    return "\n".join(lines)


@dataclass(slots=True)
class Watched:
    """What the prompts of a session came to."""

    budget: int
    prompts: int = 0
    #: Prompts since something was folded, and those of them that show a summary.
    after_fold: int = 0
    with_summary: int = 0
    over: int = 0
    largest: int = 0
    #: Bytes sent while nothing was folded since the prompt before, and those that this one began with.
    sent: int = 0
    same: int = 0
    turns: int = 0
    #: Turns in which something was folded.
    folding_turns: int = 0
    #: Prompts that leave something out without a word about it.
    silent: int = 0
    _before: bytes = b""
    _folds: int = field(default=0)

    def look(self, made: Assembled, folds: int) -> None:
        """Take note of a prompt, `folds` folds into the session."""
        text = "\x00".join(json.dumps(message, ensure_ascii=False) for message in made.messages).encode()
        self.prompts += 1
        self.over += made.tokens > self.budget
        self.largest = max(self.largest, made.tokens)
        if folds:
            self.after_fold += 1
            self.with_summary += any(id_.startswith("sum_") for id_, _ in made.receipt.included)
        if folds == self._folds and self._before:
            self.sent += len(text)
            self.same += _common(text, self._before)
        self.silent += bool(made.receipt.unstated) and "[LCM left out here" not in text.decode("utf-8", "replace")
        self._before, self._folds = text, folds


def _common(one: bytes, other: bytes) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def drive(engine: Engine, session: Session, budget: int, count: int, seed: int, shape: SessionShape = AGENT) -> Watched:
    """So many turns as a host makes them: a prompt before each reply, the turn's end, and time for what is owed."""
    watched = Watched(budget)
    folds = 0
    for number, steps in enumerate(turns(seed, shape), 1):
        before = folds
        for batch in steps:
            report = engine.after_turn(session, new_messages=batch, budget=budget)
            folds += _folded(report.compaction)
            if batch[-1]["role"] != "assistant":
                watched.look(engine.assemble(session, budget=budget), folds)
        for _, paid in engine.admin.run_pending(may_ask_model=False):
            folds += _folded(paid)
        watched.turns, watched.folding_turns = number, watched.folding_turns + (folds > before)
        if number == count:
            return watched
    raise AssertionError


def _folded(report: Any) -> int:
    return 0 if report is None else len(report.summary_ids)
