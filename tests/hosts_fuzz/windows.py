"""Hosts that show their messages as they are, but not all of them, or not only once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.hosts_fuzz.calls import Call, sync
from tests.hosts_fuzz.host import Host, head_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.hosts_fuzz.calls import Shown
    from tests.hosts_fuzz.world import Event


class Growing(Host):
    """Shows all, always: nothing is open, each message is one row."""

    kind = "growing"


class Sliding(Host):
    """Shows the last messages only: what slid out stays in the context; the longest overlap counts."""

    kind = "sliding"

    def view(self, path: list[Event]) -> list[Shown]:
        size = getattr(self, "size", None) or self.random.randint(4, 12)
        self.size = size
        return self.plain(path[-size:])


class HeadCut(Host):
    """Keeps its system prompt and the last messages: the system prompt is no anchor, the rest slides."""

    kind = "head cut"

    def begin(self) -> None:
        self.world.system()
        self.size = self.random.randint(4, 12)

    def view(self, path: list[Event]) -> list[Shown]:
        window = self.plain(path)
        head = head_of(window)
        return window[:head] + window[head:][-self.size :]


class NewCallIds(Host):
    """Makes other call ids for every request, at random or counted from its first message; all of it, or the last.

    The same words at the same place are the same call. Its first ids stay, and a result that comes later gets them.
    No call is made twice: nobody could tell that from a call that is shown again.
    """

    kind = "new call ids"

    def begin(self) -> None:
        super().begin()
        self.world.style = replace(self.world.style, repeats=0.0)
        self.size = self.random.choice((0, 0, 8, 14))
        self.is_counted = self.random.random() < 0.3

    def calls(self) -> Iterator[Call]:
        self.begin()
        for _ in range(self.random.randint(3, 6)):
            self.world.user()
            while self.random.random() < 0.6:
                self.world.tool_round()
                if self.random.random() < 0.7:
                    yield sync(self.view(self.world.path))
            self.world.answer()
            yield sync(self.view(self.world.path))

    def view(self, path: list[Event]) -> list[Shown]:
        ids: dict[str, str] = {}
        self.count = 0
        return [self._renamed(one, ids) for one in self.plain(path)[-self.size :]]

    def _renamed(self, one: Shown, ids: dict[str, str]) -> Shown:
        for id_, _, _ in one.words.calls:
            self.count += 1
            ids[id_] = f"call_{self.count}" if self.is_counted else f"call_{self.world.token()}{self.world.token()}"
        calls = tuple((ids[id_], name, arguments) for id_, name, arguments in one.words.calls)
        answers = one.words.answers and ids.get(one.words.answers, f"call_{self.world.token()}")
        return replace(one, words=replace(one.words, calls=calls, answers=answers), has_new_ids=True)


class Restarting(Host):
    """Ends and begins again between any two calls: the archive is all that is remembered."""

    kind = "restarting"

    def calls(self) -> Iterator[Call]:
        for call in super().calls():
            yield call
            if self.random.random() < 0.2:
                yield Call("restart")


class Replaying(Host):
    """Shows earlier windows again, as they were: that stores nothing, whatever has come since."""

    kind = "replaying"

    def calls(self) -> Iterator[Call]:
        made: list[Call] = []
        for call in super().calls():
            made.append(call)
            yield call
            if self.random.random() < 0.3:
                yield self.random.choice(made)


class Streaming(Host):
    """Shows an answer while it is written, in up to 200 windows: one row, and each beginning is kept as its length."""

    kind = "streaming"
    tools = 0.3

    def calls(self) -> Iterator[Call]:
        for call in super().calls():
            last = call.shown[-1]
            if last.words.role == "assistant" and last.words.text and not last.words.calls:
                text = last.words.text
                steps = self.random.choice((2, 3, 5, 5, 200 if self.random.random() < 0.1 else 8))
                cuts = sorted({len(text) * step // steps for step in range(1, steps)} - {0, len(text)})
                for cut in cuts:
                    yield sync((*call.shown[:-1], last.saying(replace(last.words, text=text[:cut]))))
            yield call
