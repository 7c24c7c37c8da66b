"""What happens to transcripts: one class each, as in `replay_ops`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.testing.oracle import Handed
from lossless.testing.replay_ops import Arriving, Silent, between

if TYPE_CHECKING:
    from lossless.testing.oracle import Oracle
    from lossless.testing.replay import Step
    from lossless.testing.replay_world import World


class Write(Silent):
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


class Read:
    """The transcript is read, at a start or after a turn."""

    name = "read"

    def act(self, world: World, step: Step) -> Handed | None:
        if "regenerate" in world.kind.operations:
            world.write(len(world.said))
        read(world, step)
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
            read(world, step)
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
        read(world, step)
        return handed


class Cut(Rewritten):
    """The older part of the file is gone, as far as it was read before."""

    name = "cut"

    def act(self, world: World, step: Step) -> Handed | None:
        start = between(0, max(0, world.read_to - 1), step.a)
        handed = self.replace(world, start, between(max(start + 1, world.stored), len(world.path), step.b))
        if handed is not None:
            read(world, step)
        return handed


class Rotate(Arriving):
    """We shorten the transcript to its end ourselves; whatever is written behind that is new, however it repeats."""

    name = "rotate"

    def act(self, world: World, step: Step) -> Handed | None:
        read(world, step)
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
            read(world, step)
        return handed


class Page(Arriving):
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


def read(world: World, step: Step) -> None:
    """Have the transcript read."""
    if step.c % 3 == 0:
        for turn in world.call("after_turn", transcript=world.file.path):
            if turn.transcript.status == "failed":
                raise AssertionError(turn.transcript.reason)
    else:
        world.call("bootstrap", world.file.path)
    world.note_read(world.in_file())
