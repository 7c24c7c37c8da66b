"""What hosts do, one class each: `act` is what the host does, `rule` what the oracle says must follow."""

from __future__ import annotations

import html
import unicodedata
from typing import TYPE_CHECKING, Any, Protocol

from lossless.formats.synthetic import render_summary
from tests.fuzz.messages import saying, words_of
from tests.fuzz.oracle import Handed

if TYPE_CHECKING:
    from tests.fuzz.oracle import Oracle
    from tests.fuzz.replay import Step
    from tests.fuzz.world import World


class Operation(Protocol):
    """Something that a host does, and what follows from it."""

    @property
    def name(self) -> str: ...

    def act(self, world: World, step: Step, /) -> Handed | None: ...

    def rule(self, oracle: Oracle, handed: Handed) -> None: ...


def between(low: int, high: int, number: int) -> int:
    """A place from `low` to `high`, both included."""
    return low + number % (max(low, high) - low + 1)


class Silent:
    """Nothing is handed over: the archive stays as it is."""

    def rule(self, oracle: Oracle, handed: Handed) -> None:
        """Nothing changes."""


class Arriving:
    """Events that follow, some of them perhaps again."""

    def rule(self, oracle: Oracle, handed: Handed) -> None:
        """Each event is stored once, as it came first; copies in other words, and repeats of the call, add nothing."""
        oracle.arrive(handed)


class Showing:
    """The whole path that the host is on."""

    def rule(self, oracle: Oracle, handed: Handed) -> None:
        """The context is this path; one that only ends early is an old state shown again, and changes nothing."""
        oracle.show(handed)


# --- talk, and what happens to engines ---


class SayMore(Silent):
    """Somebody says something."""

    name = "say"

    def act(self, world: World, step: Step) -> None:
        world.say(step.a, 1 + step.b % 3)


class Restart(Silent):
    """An engine is closed and opened again."""

    name = "restart"

    def act(self, world: World, step: Step) -> None:
        world.stage.restart(step.a % 2)


class Compact(Silent):
    """Older history is folded; what is below a summary counts as being in its place."""

    name = "compact"

    def act(self, world: World, _step: Step) -> None:
        if world.oracle.rows:
            world.call("compact", budget=400, force=True)


# --- batches ---


class Append(Arriving):
    """The runtime hands over what is new; with ids perhaps some of the old ones again."""

    name = "append"

    def act(self, world: World, step: Step) -> Handed | None:
        start = world.handed
        if world.kind.with_ids:
            start = world.stored if world.is_renamed else between(0, world.stored, step.a)
        end = between(start, len(world.path), step.b)
        if start == end:
            return None
        handed = world.taken(start, end, timed=world.kind.with_ids or step.c % 2 == 0)
        key = None if world.kind.with_ids and step.c % 3 == 0 else f"batch {next(world.numbers)}"
        batch = (world.items(handed), key)
        world.batches.append(batch)
        world.handed = max(world.handed, end)
        if step.c % 5 == 0:
            world.call("after_turn", new_messages=batch[0], key=key)
        else:
            world.call("append", batch[0], key=key)
        return handed


class AppendAgain(Silent):
    """A batch comes again, under its key or with its ids: the archive stays as it is."""

    name = "append again"

    def act(self, world: World, step: Step) -> None:
        if world.batches:
            items, key = world.batches[step.a % len(world.batches)]
            world.call("append", items, key=key)


class HandTurn(Arriving):
    """The runtime hands a turn over and names the transcript, which may be ahead of it, behind it, or the same."""

    name = "turn"

    def act(self, world: World, step: Step) -> Handed | None:
        world.write(between(len(world.file.numbers), len(world.path), step.a))
        world.handed = world.stored if world.is_renamed else world.handed
        end = between(world.handed, len(world.path), step.b)
        written, handed = world.in_file(), world.taken(world.handed, end, timed=world.kind.with_ids or step.c % 2 == 0)
        items, key = world.items(handed), f"batch {next(world.numbers)}"
        world.batches.append((items, key))
        world.handed = end
        world.call("after_turn", new_messages=items, transcript=world.file.path, key=key)
        world.note_read(written)
        return Handed(written.numbers + handed.numbers, written.bodies + handed.bodies)


class Tell(Arriving):
    """The runtime hands over all that was said since, before or after the transcript is read.

    It does not say where that belongs: what was regenerated stays in the context until the transcript is read.
    """

    name = "tell"

    def act(self, world: World, step: Step) -> Handed | None:
        numbers = tuple(range(world.handed, len(world.said)))
        if not numbers:
            return None
        handed = Handed(numbers, tuple(world.body(number, timed=step.c % 2 == 0) for number in numbers))
        world.handed = len(world.said)
        world.batches.append((world.items(handed), f"batch {next(world.numbers)}"))
        world.call("append", world.batches[-1][0], key=world.batches[-1][1])
        return handed


# --- windows ---


class GrowingWindow(Arriving):
    """The host shows its list, which has grown."""

    name = "growing window"

    def act(self, world: World, step: Step) -> Handed | None:
        end = between(world.window[1], len(world.path), step.a)
        return show(world, step, 0, end)


class OldWindow(Silent):
    """A piece of what was shown before is shown again: the archive stays as it is."""

    name = "old window"

    def act(self, world: World, step: Step) -> None:
        end = between(0, world.stored if world.kind.with_ids else world.window[1], step.a)
        start = 0 if world.is_renamed else between(0, end, step.b)
        world.call("sync", world.items(world.taken(start, end)))


class AnyWindow(Arriving):
    """The host shows a part of its list that has something in common with what is stored."""

    name = "any window"

    def act(self, world: World, step: Step) -> Handed | None:
        start = 0 if world.is_renamed else between(0, max(0, world.stored - 1), step.a)
        return show(world, step, start, between(start, len(world.path), step.b))


class SlidingWindow(Arriving):
    """The host shows the end of its list, with something of the last window. Messages repeat and nothing has an id.

    A window that begins with the whole last one has grown, by definition; whatever else is missing was counted.
    """

    name = "sliding window"

    def act(self, world: World, step: Step) -> Handed | None:
        first, last = world.window
        start = between(first, max(first, last - 1), step.a)
        end = between(last, len(world.path), step.b)
        before = [words_of(world.said[number].body) for number in world.path[first:last]]
        now = [words_of(world.said[number].body) for number in world.path[start:end]]
        world.excused |= start > first and bool(before) and now[: len(before)] == before
        return show(world, step, start, end)


class OwnWords(Arriving):
    """The host shows our summaries, which are no messages of it, and then its own list from there on."""

    name = "own words"

    def act(self, world: World, step: Step) -> Handed | None:
        engine = world.stage.engine
        found = engine.archive.conversations.find(world.session)
        items = [] if found is None else engine.archive.context.items(found.id)
        ids = [item.summary_id for item in items if hasattr(item, "summary_id")]
        ours = [{"role": "user", "content": render_summary(one)} for one in engine.archive.summaries.many(ids)]
        below = sum(hasattr(item, "message_id") for item in items)
        start = 0 if world.is_renamed else min(len(world.oracle.visible) - below, max(0, world.stored - 1))
        end = between(start, len(world.path), step.a)
        handed = world.taken(start, end)
        if start == end:
            return None
        world.window = (start, end)
        world.call("sync", [*ours, *world.items(handed)])
        return handed


class ShowPath(Showing):
    """The host shows the whole path that it is on, which may be another one than before."""

    name = "show path"

    def act(self, world: World, step: Step) -> Handed | None:
        return show(world, step, 0, len(world.path))


def show(world: World, step: Step, start: int, end: int) -> Handed | None:
    """Show a stretch of the path as a window, after a turn or just so."""
    if start >= end:
        return None
    handed = world.taken(start, end)
    world.window = (start, end)
    if step.c % 5 == 0:
        reports: list[Any] = [turn.append for turn in world.call("after_turn", window=world.items(handed))]
    else:
        reports = world.call("sync", world.items(handed))
    world.excused |= any(report.ambiguous for report in reports)
    return handed


# --- copies in other words ---


class Redact(Silent):
    """From now on the host shows a message without one of its words, without its end, or with a time before it.

    Whatever was stored stays; what was not stored yet is stored as it comes first. Without ids a copy is recognised
    by most of its words, between messages of the window that are unchanged.
    """

    name = "redact"

    def act(self, world: World, step: Step) -> None:
        places = world.path if world.kind.with_ids else world.path[: max(0, world.stored - 1)]
        if not places:
            return
        number = places[step.a % len(places)]
        body = world.said[number].body
        words = words_of(body)
        pieces = words.split(" ")
        place = step.c % len(pieces)
        if not world.kind.with_ids and (len(pieces) < 9 or 9 * len(pieces[place]) > len(words)):
            return
        pieces[place] = "<redacted>"
        # With dots in the place of its end a short message under its own id is an edit, not a shorter copy.
        is_edit = world.kind.with_ids and len(words) < 200
        shorter = words if is_edit else words[: len(words) * 2 // 3] + "…"
        ways: tuple[str, ...] = (" ".join(pieces), shorter, f"<12:03> {words}")
        if world.kind.with_ids:
            ways += presented(words)
            ways += framed(words) if body["role"] == "user" else ()
        world.changed[number] = saying(body, ways[step.b % len(ways)])


def presented(words: str) -> tuple[str, ...]:
    """The same words in other ways: hosts normalise, escape, frame and shorten what they have written before."""
    ways = (
        unicodedata.normalize("NFD", words),
        unicodedata.normalize("NFC", words),
        words.replace("\n", "\r\n"),
        html.escape(words) if len(words) > 20 else words,  # a lone tag in other letters is another word
        f"**{words}**  ",
    )
    return (*ways, f"{words[:60]}\n… {len(words) - 60} more characters truncated") if len(words) > 120 else ways


def framed(words: str) -> tuple[str, ...]:
    """A user's words with what hosts put before and behind them."""
    return (
        f"System: [12:03] someone has come\n\n{words}",
        f"{words}\n<reminder>\nIt is late.\n</reminder>",
    )


# --- branches ---


class Regenerate(Silent):
    """The host goes back and something else is said; whoever tells what is said has told it before."""

    name = "regenerate"

    def act(self, world: World, step: Step) -> None:
        if world.path and not world.has_to_tell:
            world.left.append(list(world.path))
            del world.path[between(1, len(world.path), step.a) :]
            world.say(step.b, 1)


class Rewind(Silent):
    """The host goes back, and shows less for now."""

    name = "rewind"

    def act(self, world: World, step: Step) -> None:
        if world.path:
            world.left.append(list(world.path))
            del world.path[between(1, len(world.path), step.a) :]


class Return(Silent):
    """The host goes back to a branch that it had left; in a transcript that shows only when something is said there."""

    name = "return"

    def act(self, world: World, step: Step) -> None:
        if world.left and not world.has_to_tell:
            world.left.append(list(world.path))
            world.path = list(world.left[step.a % (len(world.left) - 1)]) if len(world.left) > 1 else world.path
            if "read" in world.kind.operations or step.c % 2:
                world.say(step.b, 1)
