"""What becomes of whole conversations: they are closed, deleted, forked. One class each, as in `replay_ops`."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

import lossless
from lossless.lifecycle.prune import Choice
from lossless.testing.oracle import Fork, Handed
from lossless.testing.replay_file_ops import read
from lossless.testing.replay_log import FIRST

if TYPE_CHECKING:
    from lossless.testing.oracle import Oracle
    from lossless.testing.replay import Step
    from lossless.testing.replay_log import Body
    from lossless.testing.replay_world import World

_NOTHING = Handed((), ())
#: Messages of a fork are long: more of them than stay in a context that is imported.
_WORDS = "the long words of a fork that goes its own way through the harbour at night " * 30


class Reset:
    """The session is reset; what was read by then its runtime does not hand over any more."""

    name = "reset"

    def act(self, world: World, _step: Step) -> Handed:
        if world.oracle.rows:
            world.call("reset")
        world.handed = world.stored
        world.window = (0, 0)
        return _NOTHING

    def rule(self, oracle: Oracle, handed: Handed) -> None:  # noqa: ARG002
        """What is closed stays as it is; whatever a transcript says of it later is not stored again."""
        oracle.close()


class Prune:
    """Closed conversations of the session are deleted for good, and sometimes the one that goes on, too."""

    name = "prune"

    def act(self, world: World, step: Step) -> Handed | None:
        if not world.oracle.closed and not world.oracle.rows:
            return None
        engine = world.stage.engine
        active = step.a % 3 == 0
        plan = engine.admin.prune_plan(Choice(patterns=(world.session.name,), include_active=active))
        engine.admin.prune(plan, backup=False)
        world.batches.clear()
        world.window = (0, 0)
        return Handed((int(active),), ({},))

    def rule(self, oracle: Oracle, handed: Handed) -> None:
        """What was deleted is gone; no reading of the same transcript brings it back."""
        oracle.delete(active=bool(handed.numbers[0]))


class MakeFork:
    """Another session begins with what this one's transcript says, and has a long life of its own."""

    name = "fork"

    def act(self, world: World, step: Step) -> Handed | None:
        if len(world.forks) > 1:
            return None
        read(world, step)
        there = world.in_file()
        if not there.numbers:
            return there
        name = f"{world.file.path.stem}-fork{len(world.oracle.forks)}"
        shared = 1 + step.a % len(there.numbers)
        file = ForkFile(world, name, there.numbers[:shared])
        file.grow(1 + step.b % 3 * 10, step.c)
        file.write(world, is_renamed=step.c % 2 == 1)
        world.forks.append(file)
        world.oracle.forks.append(Fork(file.session, [world.file.bodies[n] for n in file.shared], file.own))
        file.read(world)
        return there

    def rule(self, oracle: Oracle, handed: Handed) -> None:
        """All that the fork says itself is stored; of its parent's the newest, and what the parent lacks."""
        oracle.show(handed)


class ForkGoesOn:
    """A fork says more, in its file as it was, or in one that is written anew, perhaps under other ids."""

    name = "fork goes on"

    def act(self, world: World, step: Step) -> Handed | None:
        if not world.forks:
            return None
        file = world.forks[step.a % len(world.forks)]
        file.grow(step.b % 3 * 7, step.c)
        file.write(world, is_renamed=file.is_renamed)
        file.read(world)
        return _NOTHING

    def rule(self, oracle: Oracle, handed: Handed) -> None:
        """Each message of it is stored once, behind what is there."""


class ForkFile:
    """The transcript of a fork."""

    def __init__(self, world: World, name: str, shared: tuple[int, ...]) -> None:
        self.session = lossless.Session(key=f"agent:main:{name}")
        self.path = world.stage.folder / f"{name}.jsonl"
        self.shared = shared
        self.own: list[Body] = []
        self.parent = world.file.path.stem
        self.is_renamed = False
        self._name = name

    def grow(self, count: int, seed: int) -> None:
        dice = Random(seed)
        for _ in range(count):
            n = len(self.own)
            words = f"{self._name} {n} {dice.getrandbits(16)} {_WORDS}"
            self.own.append({"role": ("user", "assistant")[n % 2], "content": words, "timestamp": FIRST + 10**9 + n})

    def write(self, world: World, *, is_renamed: bool) -> None:
        """Write the file anew; `is_renamed` gives copies of the parent's entries ids of their own."""
        self.is_renamed = is_renamed
        records: list[dict[str, Any]] = [
            {"type": "session", "version": 3, "id": self._name, "parentSession": self.parent}
        ]
        mark = "~" if is_renamed else ""
        bodies = [(world.ids[n] + mark, world.file.bodies[n]) for n in self.shared]
        bodies += [(f"{self._name}-{n}", body) for n, body in enumerate(self.own)]
        before = None
        for id_, body in bodies:
            records.append({"type": "message", "id": id_, "parentId": before, "message": body})
            before = id_
        self.path.write_text("".join(json.dumps(record) + "\n" for record in records))

    def read(self, world: World) -> None:
        door = world.stage.doors[world.door]
        door.call("bootstrap", self.session, self.path)
