"""Hosts that hand events over in more than one way, and results that come in more than one piece."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.hosts_fuzz.calls import Call, shown, sync
from tests.hosts_fuzz.host import Host
from tests.hosts_fuzz.words import Words, output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.hosts_fuzz.calls import Shown
    from tests.hosts_fuzz.world import Event


class Batches(Host):
    """Hands over what is new, with ids or under keys, and at times again: the same key with the same words is a no-op.

    The same key with other words is stored, as these are new.
    """

    kind = "batches"

    def calls(self) -> Iterator[Call]:
        self.begin()
        done, made = 0, list[Call]()
        for turn in range(self.random.randint(3, 8)):
            self.world.user()
            self.world.reply()
            fresh = [shown(event, with_id=self.ids) for event in self.world.path[done:]]
            done = len(self.world.path)
            key = f"turn-{turn if self.random.random() < 0.9 else max(0, turn - 1)}"
            made.append(Call("append", tuple(fresh), None if self.ids else key))
            yield made[-1]
            if self.random.random() < 0.3:
                yield self.random.choice(made)


class BatchesAndWindows(Host):
    """A batch with ids, and a window without: two producers of the same events, each is one row."""

    kind = "batches and windows"
    with_ids = True

    def calls(self) -> Iterator[Call]:
        self.begin()
        done = 0
        for _ in range(self.random.randint(3, 7)):
            self.world.user()
            self.world.reply()
            window = [shown(event, with_id=False) for event in self.world.path]
            batch = Call("append", tuple(self.plain(self.world.path[done:])))
            done = len(self.world.path)
            yield from [(batch, sync(window)), (sync(window), batch), (batch,)][self.random.randrange(3)]


class TranscriptLater(Host):
    """Windows without ids, and the transcript with ids read now and then: each event is one row, and gets its id."""

    kind = "transcript later"
    with_ids = True

    def calls(self) -> Iterator[Call]:
        self.begin()
        for _ in range(self.random.randint(3, 7)):
            self.world.user()
            self.world.reply()
            if self.random.random() < 0.8:
                yield sync([shown(event, with_id=False) for event in self.world.path])
            if self.random.random() < 0.5:
                yield Call("bootstrap", tuple(self.plain(self.world.path)))


class PendingResults(Host):
    """Shows a result as pending, and whole later: a revision; the prompt has the final one."""

    kind = "pending results"
    tools = 0.6

    def calls(self) -> Iterator[Call]:
        for call in super().calls():
            places = [place for place, one in enumerate(call.shown) if one.words.role == "tool"]
            if places and self.random.random() < 0.6:
                last = places[-1]
                one = call.shown[last]
                yield sync((*call.shown[:last], one.saying(replace(one.words, text="(running…)"))))
            yield call


class TwoResults(Host):
    """Two results for one call, of a tool that runs long: both are rows, the last one stands in the prompt."""

    kind = "two results"
    tools = 0.6

    def view(self, path: list[Event]) -> list[Shown]:
        extra = self.__dict__.setdefault("extra", {})
        made: list[Shown] = []
        for one in self.plain(path):
            made.append(one)
            if one.words.role != "tool":
                continue
            if one.atoms not in extra:
                said = Words("tool", output(self.random, self.world.token()), answers=one.words.answers)
                event = self.world.event(said)
                extra[one.atoms] = shown(event, with_id=self.ids) if self.random.random() < 0.3 else None
            made += [extra[one.atoms]] if extra[one.atoms] else []
        return made
