"""What happens to transcripts and to whole conversations (reset, pruned, forked), one class each, as in
`operations`.
"""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

import lossless
from lossless.maintenance.prune import PruneFilter
from tests.fuzz.messages import FIRST
from tests.fuzz.operations import Arriving, Silent, between
from tests.fuzz.oracle import Fork, Handed

if TYPE_CHECKING:
    from tests.fuzz.messages import Body
    from tests.fuzz.oracle import Oracle
    from tests.fuzz.replay import Step
    from tests.fuzz.world import World


class WriteTranscript(Silent):
    """The transcript grows; sometimes by a record that is no message."""

    name = "write"

    def act(self, world: World, step: Step) -> None:
        done = world.file.numbers[-1] + 1 if world.file.numbers else 0
        world.write(between(done, len(world.said), step.a))
        if step.b % 4 == 0:
            world.file.note()


class HalfLine(Silent):
    """The transcript grows by a line whose end is not written yet; one that lacks only its line feed can be read."""

    name = "half line"

    def act(self, world: World, step: Step) -> None:
        world.file.finish_line()
        done = world.file.numbers[-1] + 1 if world.file.numbers else 0
        if done < len(world.said):
            world.write(done + 1, cut=-1 if step.b % 4 == 0 else step.a)


class Touch(Silent):
    """The transcript's time changes, its bytes do not."""

    name = "touch"

    def act(self, world: World, _step: Step) -> None:
        world.file.touch()


class ReadTranscript:
    """The transcript is read, at a start or after a turn."""

    name = "read"

    def act(self, world: World, step: Step) -> Handed | None:
        if "regenerate" in world.kind.operations:
            world.write(len(world.said))
        read_transcript(world, step)
        return world.in_file()

    def rule(self, oracle: Oracle, handed: Handed) -> None:
        """Its path is stored, each event once; where it turns off from the context, the context is that path."""
        handed = oracle.own(handed)
        first = handed.numbers[:1]
        before = oracle.visible.index(*first) if set(first) <= set(oracle.visible) and first else len(oracle.visible)
        head = tuple(oracle.visible[:before])
        oracle.show(Handed(head + handed.numbers, ({},) * len(head) + handed.bodies))


class Rewritten(Arriving):
    """The file is replaced, and read: what of it is stored is not stored again, whatever it is called now."""

    def replace(self, world: World, start: int, end: int, *, indent: str = "", new_file: bool = False) -> Handed | None:
        """Replace the file by a stretch of the path."""
        if start >= end:
            return None
        world.file.rewrite(
            world.path[start:end],
            world.written,
            lambda number: world.ids[number],
            world.parent_id,
            new_file=new_file,
            indent=indent,
        )
        return world.in_file()


class Reformat(Rewritten):
    """The same entries are written in another form, perhaps with some that are new."""

    name = "reformat"

    def act(self, world: World, step: Step) -> Handed | None:
        numbers = world.file.numbers
        start = world.path.index(numbers[0]) if numbers else 0
        handed = self.replace(world, start, between(start + len(numbers), len(world.path), step.a), indent=" ")
        if handed is not None:
            read_transcript(world, step)
        return handed


class NewIds(Rewritten):
    """The host writes its history again, from some entry on under other ids; it knows it by these from then on.

    Nothing of that is redacted: with neither its id nor its words it would be another message. And one text that
    is said again and again under new ids is said again.
    """

    name = "new ids"

    def act(self, world: World, step: Step) -> Handed | None:
        end = between(max(1, world.stored), len(world.path), step.a)
        first = between(0, end, step.b)
        if world.changed.keys() & set(world.path[first:]):
            return None
        if len({str(world.said[number].body["content"]) for number in world.path[: world.stored]}) < 2:
            return None
        for number in world.path[first:]:
            world.ids[number] += "'"
        world.is_renamed = world.kind.with_ids
        world.batches = [batch for batch in world.batches if batch[1] is not None]
        handed = self.replace(world, 0, end)
        read_transcript(world, step)
        return handed


class CutTranscript(Rewritten):
    """The older part of the file is gone, as far as it was read before."""

    name = "cut"

    def act(self, world: World, step: Step) -> Handed | None:
        start = between(0, max(0, world.read_to - 1), step.a)
        handed = self.replace(world, start, between(max(start + 1, world.stored), len(world.path), step.b))
        if handed is not None:
            read_transcript(world, step)
        return handed


class Rotate(Arriving):
    """We shorten the transcript to its end ourselves; whatever is written behind that is new, however it repeats."""

    name = "rotate"

    def act(self, world: World, step: Step) -> Handed | None:
        read_transcript(world, step)
        handed = world.in_file()
        door = world.stage.doors[world.door]
        report = door.call("rotate", world.session, world.file.path, backup=False)
        if report.rotated:
            world.file.numbers = world.file.numbers[-report.kept_messages :]
        return handed


class NewFile(Rewritten):
    """The host goes on in another file, which begins with the newest entries or with none of those that were read."""

    name = "new file"

    def act(self, world: World, step: Step) -> Handed | None:
        start = between(0, world.read_to, step.a)
        handed = self.replace(world, start, between(start, len(world.path), step.b), new_file=True)
        if handed is not None:
            read_transcript(world, step)
        return handed


class HandPages(Arriving):
    """The host hands entries over page by page: going on after its mark, from the start, or an old page again."""

    name = "page"

    def act(self, world: World, step: Step) -> Handed | None:
        done, mark = world.page
        ways = ((done, mark), (0, None), (between(0, world.read_to, step.b), "some old mark"))
        start, after = ways[step.a % 3]
        end = between(start, len(world.path), step.c)
        if start == end:
            return None
        handed = world.taken(start, end)
        items = [
            {"entryId": world.ids[number], "parentId": world.parent_id(number), "seq": place, "message": body}
            for place, (number, body) in enumerate(zip(handed.numbers, handed.bodies, strict=True), start + 1)
        ]
        cursor = f"mark {end}"
        world.page = (end, cursor)
        world.call("bootstrap", items, after=after, cursor=cursor)
        world.note_read(handed)
        return handed


def read_transcript(world: World, step: Step) -> None:
    """Have the transcript read."""
    if step.c % 3 == 0:
        for turn in world.call("after_turn", transcript=world.file.path):
            if turn.transcript.status == "failed":
                raise AssertionError(turn.transcript.reason)
    else:
        world.call("bootstrap", world.file.path)
    world.note_read(world.in_file())


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
        plan = engine.admin.prune_plan(PruneFilter(patterns=(world.session.name,), include_active=active))
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
        read_transcript(world, step)
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
