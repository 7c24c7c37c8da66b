"""Hosts that change what was said: the row takes the new words and keeps the old ones; nothing is doubled."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.hosts_fuzz.calls import sync
from tests.hosts_fuzz.host import Host
from tests.hosts_fuzz.words import sentence
from tests.hosts_fuzz.world import Event

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from tests.hosts_fuzz.calls import Call, Shown


def edited(random: Random, text: str) -> str:
    """The same message in other words: some removed, in another order, with another sign or number."""
    words = text.split(" ")
    free = [place for place, word in enumerate(words) if "#" not in word]
    way = random.choice(("remove", "swap", "sign", "number"))
    if way == "remove":
        gone = set(random.sample(free, max(1, len(free) // 4)))
        return " ".join(word for place, word in enumerate(words) if place not in gone)
    if way == "swap":
        one, other = random.sample(free, 2)
        words[one], words[other] = words[other], words[one]
        return " ".join(words)
    if way == "sign":
        return text[:-1] + ("!" if text.endswith("?") else "?") if text[-1] in ".?!" else f"{text}?"
    return re.sub(r" (\w+)$", r" \1 50", text) if "5000" not in text else text.replace("5000", "50")


class Editing(Host):
    """Edits one old message now and then."""

    kind = "edits"
    count = (1, 1)

    def before(self, turn: int) -> None:
        path = self.world.path
        places = [place for place in self.places() if len(path[place].words.text) > 40]
        for place in self.random.sample(places, min(len(places), self.random.randint(*self.count))):
            words = path[place].words
            path[place] = Event(path[place].atom, replace(words, text=edited(self.random, words.text)))

    def places(self) -> list[int]:
        path = self.world.path
        return [place for place, event in enumerate(path) if event.words.role in ("user", "assistant")]


class EditsSliding(Editing):
    """Shows the last messages only, and edits one of them: a version by likeness and place."""

    kind = "edits, sliding"

    def begin(self) -> None:
        super().begin()
        self.size = self.random.randint(8, 14)

    def places(self) -> list[int]:
        return [place for place in super().places() if place >= len(self.world.path) - self.size + 4]

    def view(self, path: list[Event]) -> list[Shown]:
        return self.plain(path[-self.size :])


class AddsToNewest(Host):
    """Adds to its newest user message while no answer has come: a beginning, then the whole, one row."""

    kind = "adds to newest"

    def calls(self) -> Iterator[Call]:
        for call in super().calls():
            yield call
            if call.shown[-1].words.role == "user" and self.random.random() < 0.5:
                last = self.world.path[-1]
                text = f"{last.words.text}\n\n{sentence(self.random, self.world.token())}"
                self.world.path[-1] = Event(last.atom, replace(last.words, text=text))
                yield sync(self.view(self.world.path))


class EditsById(Editing):
    """Edits under an entry id: the id names the place, whatever the words are."""

    kind = "edits by id"
    with_ids = True

    def before(self, turn: int) -> None:
        if self.random.random() < 0.5 and self.world.path:
            place = self.random.choice(range(len(self.world.path)))
            words = self.world.path[place].words
            self.world.path[place] = Event(self.world.path[place].atom, replace(words, text=self.world.text()))


class EditsSeveral(Editing):
    """Edits several messages at once."""

    kind = "edits several"
    count = (2, 4)


class EditsFirst(Editing):
    """Edits its very first message: the common beginning counts as an anchor."""

    kind = "edits first"

    def places(self) -> list[int]:
        return [0] if self.world.path else []


class EditsSystem(Editing):
    """Has a system message in mid-window and changes it."""

    kind = "edits system"
    formats = ("openai-chat",)

    def before(self, turn: int) -> None:
        if turn == 2:
            made = self.world.system()
            self.world.path[:] = [event for event in self.world.path if event is not made]
            self.world.path.append(made)
        super().before(turn)

    def places(self) -> list[int]:
        return [place for place, event in enumerate(self.world.path) if place and event.words.role == "system"]


class EditsAndCutsOff(Host):
    """Edits an old user message and goes on from there: it is revised, and what followed leaves the context."""

    kind = "edits and cuts off"

    def before(self, turn: int) -> None:
        path = self.world.path
        places = [n for n, event in enumerate(path) if event.words.role == "user" and len(event.words.text) > 40]
        if places and self.random.random() < 0.4:
            place = self.random.choice(places)
            words = path[place].words
            path[place:] = [Event(path[place].atom, replace(words, text=edited(self.random, words.text)))]
            self.world.reply()


class Deleting(Host):
    """Deletes a message or an exchange between others: it leaves the context and stays in the archive."""

    kind = "deletes"
    tools = 0.0

    def before(self, turn: int) -> None:
        path = self.world.path
        places = [n for n in range(2, len(path) - 3) if path[n].words.role == "user"]
        if places and self.random.random() < 0.5:
            place = self.random.choice(places) + self.random.choice((0, 0, 1))
            del path[place : place + self.random.choice((1, 2 if path[place].words.role == "user" else 1))]


class Reordering(Host):
    """Shows two old messages in the other order: moved, not new; the prompt has the host's order."""

    kind = "reorders"
    tools = 0.0

    def before(self, turn: int) -> None:
        path = self.world.path
        if len(path) > 5 and self.random.random() < 0.5:
            place = self.random.randint(1, len(path) - 4)
            path[place], path[place + 1] = path[place + 1], path[place]


class Translating(Host):
    """Shows everything in another language from some moment on: equal roles, lengths and numbers make versions.

    Less than four longer messages cannot be told from another conversation.
    """

    kind = "translates"
    tools = 0.0

    def calls(self) -> Iterator[Call]:
        yield from super().calls()
        if sum(len(event.words.text) > 20 and event.words.role != "system" for event in self.world.path) < 4:
            return
        for place, event in enumerate(self.world.path):
            if event.words.role != "system":
                words = event.words.text.split(" ")
                said = " ".join(word if re.search(r"\d", word) else f"{word[::-1]}o" for word in words)
                self.world.path[place] = Event(event.atom, replace(event.words, text=said))
        yield sync(self.view(self.world.path))
        self.world.user()
        yield sync(self.view(self.world.path))
