"""Hosts that go back and on in another way: what they left stays in the archive, out of the context."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.hosts_fuzz.calls import sync
from tests.hosts_fuzz.host import Host
from tests.hosts_fuzz.words import Words, sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.hosts_fuzz.calls import Call
    from tests.hosts_fuzz.world import Event


class Regenerating(Host):
    """Has the last answer written again, once or several times: each is a row, the last one is in the context."""

    kind = "regenerates"

    def calls(self) -> Iterator[Call]:
        for call in super().calls():
            yield call
            while call.shown[-1].words.role == "assistant" and self.random.random() < 0.4:
                text = self.again()
                self.world.path.pop()
                self.world.path.append(self.world.event(Words("assistant", text)))
                yield sync(self.view(self.world.path))

    def again(self) -> str:
        return sentence(self.random, self.world.token())


class RegeneratesTheSame(Regenerating):
    """An answer that is written again may equal an abandoned one: stored, or counted as ambiguous; never silent."""

    kind = "regenerates the same"
    with_ids = False

    def again(self) -> str:
        texts = self.__dict__.setdefault("texts", [])
        others = [text for text in texts if text != self.world.path[-1].words.text]
        if not others or self.random.random() < 0.5:
            others = [sentence(self.random, self.world.token())]
            texts += others
        return str(self.random.choice(others))


class Branching(Host):
    """Goes back, on from there, and back to the old branch: rows come back, none is stored again.

    It goes on in other words: the same window twice tells nobody that something else was meant.
    """

    kind = "branches"
    goes_back = False

    def begin(self) -> None:
        super().begin()
        self.left: list[list[Event]] = []

    def next_words(self) -> str | None:
        return sentence(self.random, self.world.token()) if self.goes_back else None

    def before(self, turn: int) -> None:
        path, self.goes_back = self.world.path, False
        if self.left and self.random.random() < 0.4:
            other = self.left.pop(self.random.randrange(len(self.left)))
            self.left.append(list(path))
            path[:] = other
        elif len(path) > 3 and self.random.random() < 0.4:
            users = [place for place in range(2, len(path)) if path[place].words.role == "user"]
            if users:
                self.left.append(list(path))
                del path[self.random.choice(users) :]
                self.goes_back = True


class TwoTabs(Host):
    """Two windows on one session, in turns: in the end two conversations, each event once in each at most."""

    kind = "two tabs"
    tabs = True

    def calls(self) -> Iterator[Call]:
        yield from super().calls()
        path = self.world.path
        tabs = [list(path), list(path)]
        for _ in range(self.random.randint(3, 7)):
            tab = self.random.randrange(2)
            path[:] = tabs[tab]
            self.world.user(sentence(self.random, self.world.token()))
            self.world.reply()
            tabs[tab] = list(path)
            yield sync(self.view(path), tab)
