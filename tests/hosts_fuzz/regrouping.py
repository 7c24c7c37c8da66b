"""Hosts that put several messages into one, one into several, or a summary in front."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.hosts_fuzz.calls import Shown
from tests.hosts_fuzz.host import Host, head_of
from tests.hosts_fuzz.words import Words, sentence

if TYPE_CHECKING:
    from tests.hosts_fuzz.world import Event


class Merging(Host):
    """Shows consecutive user messages one by one, and later as one: that is those rows."""

    kind = "merges"
    with_ids = False

    def before(self, turn: int) -> None:
        if turn % 2:
            self.world.user(sentence(self.random, self.world.token()))

    def view(self, path: list[Event]) -> list[Shown]:
        made: list[Shown] = []
        single = self.__dict__.setdefault("single", set[str]())
        for one in self.plain(path):
            last = made[-1] if made else None
            if last and {*last.atoms, *one.atoms} <= single and last.words.role == one.words.role == "user":
                words = replace(one.words, text=f"{last.words.text}\n\n{one.words.text}")
                made[-1] = Shown(last.atoms + one.atoms, words, regrouped=True)
            else:
                made.append(one)
        single |= {one.atoms[0] for one in made if len(one.atoms) == 1}
        return made


class Splitting(Host):
    """Shows a long answer as one message, and later as two: that is still one row."""

    kind = "splits"
    with_ids = False
    tools = 0.0

    def view(self, path: list[Event]) -> list[Shown]:
        made: list[Shown] = []
        whole = self.__dict__.setdefault("whole", set[str]())
        for one in self.plain(path):
            text = one.words.text
            cut = text.find(" ", len(text) // 2)
            if (
                one.atoms[0] in whole
                and self.random.random() < 0.5
                and one.words.role == "assistant"
                and len(text) > 90
                and cut > 0
            ):
                words = replace(one.words, thinking="")
                made.append(replace(one, words=replace(one.words, text=text[:cut]), regrouped=True))
                made.append(replace(one, words=replace(words, text=text[cut + 1 :]), regrouped=True))
            else:
                made.append(one)
                whole.add(one.atoms[0])
        return made


class Summarising(Host):
    """Replaces its old head by a summary of its own: a new row in front of what is left, never a version.

    The head has two or more rows; they stay in the context or leave it, as the archive sees fit, but in the archive.
    """

    kind = "summarises"

    def begin(self) -> None:
        super().begin()
        self.turn = self.random.randint(2, 4)

    def before(self, turn: int) -> None:
        path = self.world.path
        if turn == self.turn:
            users = [place for place in range(3, len(path)) if path[place].words.role == "user"]
            cut = self.random.choice(users[-2:]) if users else 0
            role = self.random.choice(("user", "assistant"))
            text = f"Summary of what was said so far: {sentence(self.random, self.world.token(), 30)}"
            head = head_of(self.plain(path))
            path[head:cut] = [self.world.event(Words(role, text))] if cut else path[head:cut]
