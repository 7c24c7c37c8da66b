"""A replay fuzzer: random hosts do random things to an archive, and an oracle says what it must hold afterwards.

A script is a kind of host and steps with numbers; every script can be played, so that one that fails is shrunk by
leaving steps out. The same seed makes the same script.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from lossless.errors import LosslessError
from tests.fuzz import operations as ops
from tests.fuzz import session_operations as files
from tests.fuzz import session_operations as lives
from tests.fuzz.oracle import OracleMismatch
from tests.fuzz.world import HostKind, Local, ReplayStage, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.fuzz.operations import Operation

_ALL: tuple[Operation, ...] = (
    ops.SayMore(),
    ops.Restart(),
    ops.Compact(),
    ops.Append(),
    ops.AppendAgain(),
    ops.HandTurn(),
    ops.Tell(),
    ops.GrowingWindow(),
    ops.OldWindow(),
    ops.AnyWindow(),
    ops.SlidingWindow(),
    ops.OwnWords(),
    ops.ShowPath(),
    ops.Redact(),
    ops.Regenerate(),
    ops.Rewind(),
    ops.Return(),
    files.WriteTranscript(),
    files.HalfLine(),
    files.Touch(),
    files.ReadTranscript(),
    files.Reformat(),
    files.NewIds(),
    files.CutTranscript(),
    files.NewFile(),
    files.HandPages(),
    files.Rotate(),
    lives.Reset(),
    lives.Prune(),
    lives.MakeFork(),
    lives.ForkGoesOn(),
)
OPERATIONS = {operation.name: operation for operation in _ALL}

_FILE = ("write", "half line", "touch", "read", "read", "reformat")
_REWRITTEN = (*_FILE, "new ids", "cut", "new file")
_BATCHES = ("append", "append again", "turn", "turn")
_BRANCHES = ("show path", "show path", "regenerate", "rewind", "return")
#: The hosts, each with all that it may do; `say` comes often enough by itself.
KINDS: dict[str, HostKind] = {
    kind.name: kind
    for kind in (
        HostKind(
            "ids",
            (*_BATCHES, "any window", "old window", "redact", "page", "own words", "compact", *_REWRITTEN),
            with_ids=True,
        ),
        HostKind("two producers", (*_BATCHES, "compact", "page", *_REWRITTEN)),
        HostKind("growing windows", ("growing window", "growing window", "old window", *_FILE)),
        HostKind("sliding windows", ("sliding window", "sliding window"), plain=True, exact=False),
        HostKind(
            "distinct windows",
            ("any window", "any window", "old window", "redact", "own words", "compact", *_FILE),
            distinct=True,
        ),
        HostKind("bare transcript", _FILE, bare=True),
        HostKind("branches", _BRANCHES, distinct=True),
        HostKind("branches with ids", _BRANCHES, distinct=True, with_ids=True),
        HostKind("told tree", ("tell", "tell", "append again", "read", "touch", "regenerate", "return"), distinct=True),
        HostKind("tree", ("read", "read", "touch", "regenerate", "return"), distinct=True, with_ids=True),
        HostKind("repeating tree", ("read", "read", "touch", "regenerate", "return"), with_ids=True),
        HostKind("resets", (*_REWRITTEN, "reset", "reset"), with_ids=True),
        HostKind("resets of turns", ("turn", "turn", "append", *_FILE, "new ids", "reset"), distinct=True, timed=True),
        HostKind("prunes", (*_REWRITTEN, "reset", "prune"), with_ids=True),
        HostKind("bare cuts", (*_FILE, "cut", "cut"), distinct=True, bare=True),
        HostKind("bare rotations", (*_FILE, "rotate", "rotate"), bare=True, headed=True, timeless=True),
        HostKind("bare lives", (*_FILE, "cut", "reset", "prune"), distinct=True, bare=True),
        HostKind("forks", ("write", "read", "reformat", "fork", "fork goes on", "fork goes on"), with_ids=True),
        HostKind("sliding copies", ("sliding window", "sliding window"), exact=False),
    )
}


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a host does; `door` is the engine that it talks to, 2 for both at the same time."""

    does: str
    a: int = 0
    b: int = 0
    c: int = 0
    door: int = 0


@dataclass(frozen=True, slots=True)
class Script:
    """A kind of host and what it does."""

    kind: str
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        lines = "".join(f"    {step!r},\n" for step in self.steps)
        return f"Script({self.kind!r}, (\n{lines}))"


@dataclass(frozen=True, slots=True)
class Played:
    """What a run came to."""

    operations: int
    messages: int
    failure: str | None = None
    duplicates: int = 0
    losses: int = 0


def make_script(seed: int, kind: str | None = None, most: int = 24) -> Script:
    """The script of a seed."""
    dice = Random(seed)
    kind = kind or dice.choice(list(KINDS))
    choices = (*KINDS[kind].operations, *("say",) * (1 + len(KINDS[kind].operations) // 4), "restart")
    steps = [Step("say", dice.getrandbits(16), dice.getrandbits(4))]
    for _ in range(dice.randint(2, most)):
        door = dice.choice((0, 0, 0, 1, 1, 2))
        numbers = (dice.getrandbits(16), dice.getrandbits(16), dice.getrandbits(16))
        does = dice.choice(choices)
        steps.append(Step(does if does != "restart" or dice.random() < 0.3 else "say", *numbers, door))
    return Script(kind, tuple(steps))


def play(stage: ReplayStage, script: Script) -> Played:
    """Play a script and look at the archive after each step."""
    world = World.on(stage, KINDS[script.kind])
    done = 0
    try:
        for step in script.steps:
            done += 1
            _take(world, step)
    except OracleMismatch as wrong:
        what = f"step {done} ({script.steps[done - 1]}): {wrong}"
        return Played(done, len(world.oracle.rows), what, wrong.duplicates, wrong.losses)
    except (LosslessError, AssertionError) as error:
        what = f"step {done} ({script.steps[done - 1]}): {type(error).__name__}: {error}"
        return Played(done, len(world.oracle.rows), what)
    return Played(done, len(world.oracle.rows))


def _take(world: World, step: Step) -> None:
    operation = OPERATIONS[step.does]
    world.door, world.at_once = step.door % 2, step.door == 2
    handed = operation.act(world, step)
    if handed is not None:
        operation.rule(world.oracle, handed)
    world.oracle.check(world.stage.engine, world.session, exact=world.kind.exact, excused=world.excused)


def shrink(stage: ReplayStage, script: Script, fails: Callable[[Script], bool] | None = None) -> Script:
    """The script with everything left out that is not needed for it to fail."""
    still = fails or (lambda tried: play(stage, tried).failure is not None)
    length = max(1, len(script.steps) // 2)
    while length:
        place = 0
        while place < len(script.steps):
            shorter = replace(script, steps=script.steps[:place] + script.steps[place + length :])
            if still(shorter):
                script = shorter
            else:
                place += length
        length //= 2
    return _with_small_numbers(script, still)


def _with_small_numbers(script: Script, still: Callable[[Script], bool]) -> Script:
    for place in range(len(script.steps)):
        for name in ("a", "b", "c", "door"):
            for number in (0, 1, 2, 3, 5):
                step = script.steps[place]
                if getattr(step, name) <= number:
                    break
                smaller = _with(script, place, _numbered(step, name, number))
                if still(smaller):
                    script = smaller
                    break
    return script


def _numbered(step: Step, name: str, number: int) -> Step:
    numbers = {"a": step.a, "b": step.b, "c": step.c, "door": step.door} | {name: number}
    return Step(step.does, **numbers)


def _with(script: Script, place: int, step: Step) -> Script:
    return replace(script, steps=(*script.steps[:place], step, *script.steps[place + 1 :]))


@contextmanager
def stage(second: Any = Local) -> Iterator[ReplayStage]:
    """An archive in a folder of its own; `second` opens the second engine."""
    with tempfile.TemporaryDirectory() as folder:
        opened = ReplayStage(Path(folder), second)
        try:
            yield opened
        finally:
            opened.close()


def problems(stage: ReplayStage) -> Sequence[str]:
    """What is wrong with the archive of many runs."""
    return [str(problem) for problem in stage.engine.verify().problems]
