"""Hosts that add something to their newest user message, and show it plain later: one row, revised each time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.hosts_fuzz.calls import Shown
from tests.hosts_fuzz.host import Host, newest_user
from tests.hosts_fuzz.words import Words, sentence

if TYPE_CHECKING:
    from tests.hosts_fuzz.world import Event


class Decorating(Host):
    """What is added belongs to the newest wording; the plain one that follows revises it."""

    kind = "time before"

    def view(self, path: list[Event]) -> list[Shown]:
        window = self.plain(path)
        place = newest_user(window)
        said = window[place].words
        window[place] = window[place].saying(replace(said, text=self.decorated(said.text, len(path))))
        return window

    def decorated(self, text: str, count: int) -> str:
        return f"[Mon 2026-01-05 09:{count % 60:02d} UTC]\n{text}"


class DecoratingSliding(Decorating):
    """The same with the last messages only."""

    kind = "time before, sliding"

    def begin(self) -> None:
        super().begin()
        self.size = self.random.randint(8, 14)

    def view(self, path: list[Event]) -> list[Shown]:
        return super().view(path)[-self.size :]


class Documents(Decorating):
    """Retrieved documents in front of the newest message, others each time."""

    kind = "documents"

    def decorated(self, text: str, count: int) -> str:
        found = "\n".join(sentence(self.random, self.world.token()) for _ in range(self.random.randint(1, 6)))
        return f"<context>\n{found}\n</context>\n\n{text}"


class Reminders(Decorating):
    """A reminder behind the newest message."""

    kind = "reminders"

    def decorated(self, text: str, count: int) -> str:
        return f"{text}\n\n<system-reminder>\nThe list has {count} entries.\n</system-reminder>"


class TrailingSystem(Host):
    """A system message at the very end: with the same words it moves along, with others the old one leaves."""

    kind = "trailing system"
    formats = ("openai-chat",)

    def view(self, path: list[Event]) -> list[Shown]:
        window = self.plain(path)
        if self.random.random() < 0.3 or not hasattr(self, "last"):
            words = Words("system", "Remember: " + sentence(self.random, self.world.token()))
            event = self.world.event(words)
            self.last = Shown((event.atom,), words, f"entry-{event.atom}" if self.ids else None, transient=True)
        return [*window, self.last]


class ComesAndGoes(Host):
    """Retrieved context as system messages of its own before the newest user message: they leave when they go."""

    kind = "comes and goes"
    formats = ("openai-chat",)

    def view(self, path: list[Event]) -> list[Shown]:
        window = self.plain(path)
        place = newest_user(window)
        found: dict[tuple[str, ...], list[Shown]] = self.__dict__.setdefault("found", {})
        made = found.setdefault(window[place].atoms, [self.retrieved() for _ in range(self.random.randint(0, 2))])
        return window[:place] + made + window[place:]

    def retrieved(self) -> Shown:
        event = self.world.event(Words("system", "Retrieved: " + sentence(self.random, self.world.token())))
        return Shown((event.atom,), event.words, f"entry-{event.atom}" if self.ids else None, transient=True)
