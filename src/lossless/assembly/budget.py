"""Making room: actions in a fixed order, taken in whole steps, so that a little growth changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

#: How a candidate stands in the prompt: as it is; with its beginning and its end; as the reference to its file;
#: with stubs for its results; by the condensed summary that covers it; by one line for a run of them.
Form = Literal["verbatim", "shortened", "reference", "stub", "stand-in", "run"]


@dataclass(frozen=True, slots=True)
class Change:
    """How the candidate at `index` stands from now on; without a form it is left out for `reason`."""

    index: int
    form: Form | None
    tokens: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Action:
    """Changes that are made together, and the tokens that they free."""

    frees: int
    changes: tuple[Change, ...]
    #: By how much they move the border of what is out; `frees` when not given.
    weight: int | None = None

    @property
    def moves(self) -> int:
        return self.frees if self.weight is None else self.weight


@dataclass(frozen=True, slots=True)
class Stage:
    """Actions in order. In a ladder each one builds on those before it."""

    actions: tuple[Action, ...]
    is_ladder: bool = False

    @property
    def frees(self) -> int:
        return sum(action.frees for action in self.actions)


def shed(stages: Sequence[Stage], needed: int, step: int, border: int = 0) -> tuple[Action, ...] | None:
    """The actions that free at least `needed` tokens, taken in whole steps; None when all are too few.

    A stage begins only when those before it are used up. What is taken depends on the number of steps and on
    the beginning of each stage alone: candidates that join at the end do not change it until a step is full.
    Steps are counted in weights, from the start of the whole context: `border` of it is out already.
    """
    taken: list[Action] = []
    freed = 0
    for stage in stages:
        if freed + stage.frees >= needed:
            return (*taken, *_enough(stage, needed - freed, step, border))
        taken += stage.actions
        freed += stage.frees
        border += sum(action.moves for action in stage.actions)
    return None


def _enough(stage: Stage, needed: int, step: int, border: int) -> Sequence[Action]:
    """The actions that begin before the first whole step that frees `needed`; all of them free enough."""
    actions = stage.actions
    starts = list(accumulate((action.moves for action in actions), initial=border))
    freed = list(accumulate((action.frees for action in actions), initial=0))
    end = next(n for n, amount in enumerate(freed) if amount >= needed)
    while end <= len(actions):
        goal = (starts[end - 1] // step + 1) * step
        end = next((n for n in range(end, len(actions)) if starts[n] >= goal), len(actions))
        taken = actions[:end]
        if stage.is_ladder:
            return taken
        spared = _without_spare(taken, starts, goal, step)
        if sum(action.frees for action in spared) >= needed:
            return spared
        end += 1
    return actions


def _without_spare(actions: Sequence[Action], starts: Sequence[int], goal: int, step: int) -> list[Action]:
    """Without the actions of the last two steps that one larger than a step makes unnecessary."""
    spare = starts[len(actions)] - goal
    if spare < step:
        return list(actions)
    kept: list[Action] = []
    for action, start in zip(reversed(actions), reversed(starts[: len(actions)]), strict=True):
        if start >= goal - 2 * step and action.moves <= spare:
            spare -= action.moves
        else:
            kept.append(action)
    return kept[::-1]
