"""What truly happened: a log of events, each with an identity of its own that the archive never sees."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.hosts_fuzz.words import SHORT, SHORT_RESULTS, Words, output, sentence

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random


@dataclass(frozen=True, slots=True)
class Event:
    """Something that was said once, by someone."""

    atom: str
    words: Words


@dataclass(frozen=True, slots=True)
class Style:
    """How a host writes, and how its people and tools talk."""

    format: str
    with_ids: bool
    repeats: float
    tools: float
    thinking: float
    call_ids: str


def make_style(random: Random, formats: Sequence[str], with_ids: bool | None, tools: float | None) -> Style:
    """A style at random; about half of all hosts have no ids."""
    format_ = random.choice(formats)
    with_ids = random.random() < (0.8 if format_ == "openclaw" else 0.3) if with_ids is None else with_ids
    return Style(
        format_,
        with_ids,
        random.choice((0.0, 0.1, 0.5)),
        random.choice((0.0, 0.3, 0.6)) if tools is None else tools,
        0.0 if format_ == "openai-chat" else random.choice((0.0, 0.5)),
        random.choice(("unique", "counted", "again")),
    )


class World:
    """The events of one conversation, and the path through them that the host is on."""

    def __init__(self, random: Random, style: Style) -> None:
        self.random, self.style = random, style
        self.path: list[Event] = []
        self._made = 0

    def event(self, words: Words) -> Event:
        """Another event; it is on no path yet."""
        self._made += 1
        return Event(f"e{self._made}", words)

    def token(self) -> str:
        return f"{self.random.getrandbits(28):07x}"

    def text(self) -> str:
        if self.random.random() < self.style.repeats:
            return self.random.choice(SHORT)
        return sentence(self.random, self.token(), 300 if self.random.random() < 0.03 else 0)

    def system(self) -> Event:
        """A system prompt at the head of the path; Anthropic's windows have none."""
        found = self.event(Words("system", "You are a helper. " + sentence(self.random, self.token())))
        if self.style.format == "openai-chat":
            self.path.insert(0, found)
        return found

    def user(self, text: str | None = None) -> Event:
        self.path.append(self.event(Words("user", self.text() if text is None else text)))
        return self.path[-1]

    def answer(self, text: str | None = None) -> Event:
        thinks = self.random.random() < self.style.thinking
        thinking = sentence(self.random, self.token()) if thinks else ""
        self.path.append(self.event(Words("assistant", self.text() if text is None else text, thinking=thinking)))
        return self.path[-1]

    def call_id(self, name: str) -> str:
        """As hosts make them: one of its own, counted within the turn, or always the same."""
        if self.style.call_ids == "unique":
            return f"call_{self.token()}{self.token()}"
        return f"functions.{name}:0" if self.style.call_ids == "again" else f"call_{len(self.path) % 4}"

    def tool_round(self) -> list[Event]:
        """A call and its result."""
        name = self.random.choice(("sh", "read", "search"))
        again = self.random.random() < self.style.repeats
        arguments = {"cmd": "ls" if again else sentence(self.random, self.token(), 4)}
        thinks = self.random.random() < self.style.thinking
        thinking = sentence(self.random, self.token()) if thinks else ""
        says = self.text() if self.random.random() < 0.3 else ""
        call = (self.call_id(name), name, json.dumps(arguments, ensure_ascii=False))
        result = self.random.choice(SHORT_RESULTS[1:]) if again else output(self.random, self.token())
        made = [
            self.event(Words("assistant", says, (call,), thinking)),
            self.event(Words("tool", result, answers=call[0])),
        ]
        self.path.extend(made)
        return made

    def reply(self) -> list[Event]:
        """All that follows a user message: tool rounds, and an answer."""
        begin = len(self.path)
        while self.random.random() < self.style.tools and len(self.path) - begin < 8:
            self.tool_round()
        self.answer()
        return self.path[begin:]
