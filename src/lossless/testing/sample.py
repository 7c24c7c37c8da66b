"""A conversation that reads like a real one: a small team brings ferry tickets to the islands.

Hand-written scenes with facts to look for, and routine work between them. `ferry.txt` and
`ferry_routine.txt` hold the words; «names» in them are filled in here, always alike.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING

from lossless.testing.conversations import AgentMessage, assistant_message, dice, json_line, pick
from lossless.testing.outputs import BOATS, FILES, NAMES, NOUNS, OUTPUTS, hex_digits, number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

SAMPLE_COUNT = 400
_ROUTINES_BETWEEN = 2
_LINE = re.compile(r"(user|assistant|call \w+|result!?|fact)> ?(.*)")
_CLOSINGS = ("Noted.", "All right.", "👍", "Understood.")
_SLOT = re.compile("«(\\w+)»")
_CHOICES: dict[str, tuple[str, ...]] = {
    "person": ("Jonas", "Priya", "Emeka", "Lucia"),
    "branch": (
        "group-names",
        "faster-sync",
        "refund-mails",
        "night-boat",
        "pier-health",
        "season-pass",
        "tidy-worker",
    ),
    "test": ("test_changes", "test_sync", "test_mails", "test_expiry", "test_lists"),
    "module": ("booking", "payments", "pier", "worker", "api"),
    "file": FILES,
    "noun": NOUNS,
    "verb": NAMES,
    "boat": BOATS,
    "city": ("Gdańsk", "Porto", "Utrecht", "Bergen", "Trieste", "Tampere"),
    "topic": (
        "the seat holds",
        "daylight saving",
        "the key rotation",
        "partner access",
        "the way back",
        "the printer",
    ),
}
_RANGES = {
    "times": (60, 200),
    "few": (3, 9),
    "small": (12, 98),
    "large": (310, 780),
    "percent": (11, 29),
    "lines": (610, 990),
    "ticket": (500, 980),
    "pier": (1, 4),
    "age": (8, 15),
    "order": (60_000, 79_999),
}


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that was said: a question for it, words that answer it, and the message that has them."""

    question: str
    answer: str
    #: Its place in the sample, from 1.
    seq: int


@dataclass(slots=True)
class _Line:
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class _Scene:
    at: datetime | None
    lines: tuple[_Line, ...]


def _scenes(file: str) -> tuple[_Scene, ...]:
    text = files(__package__).joinpath(file).read_text(encoding="utf-8")
    return tuple(_scene(block) for block in text.split("=== ")[1:])


def _scene(block: str) -> _Scene:
    head, _, body = block.partition("\n")
    _, _, at = head.partition(" | ")
    lines: list[_Line] = []
    for row in body.rstrip("\n").split("\n"):
        if match := _LINE.fullmatch(row):
            lines.append(_Line(match[1], match[2]))
        else:
            lines[-1].text += "\n" + row
    return _Scene(datetime.fromisoformat(at).replace(tzinfo=UTC) if at else None, tuple(lines))


class _Filling:
    """Fills the «slots» of one scene: the same name gives the same words."""

    def __init__(self, roll: Callable[[], float]) -> None:
        self._roll = roll
        self._words: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        return _SLOT.sub(lambda match: self._word(match[1]), text)

    def _word(self, name: str) -> str:
        if name in OUTPUTS:
            return self(OUTPUTS[name](self._roll))
        if name not in self._words:
            self._words[name] = self._new(name)
        return self._words[name]

    def _new(self, name: str) -> str:
        roll = self._roll
        if name in _CHOICES:
            return pick(roll, _CHOICES[name])
        if name in _RANGES:
            return str(number(roll, *_RANGES[name]))
        makers: dict[str, Callable[[], str]] = {
            "hash": lambda: hex_digits(roll, 7),
            "price": lambda: f"{number(roll, 17, 29)}.{number(roll, 1, 9)}0",
            "Noun": lambda: self._word("noun").capitalize(),
        }
        return makers[name]()


class _Stage:
    """Turns scenes into messages, one after the other, and notes where each fact was said."""

    def __init__(self) -> None:
        self.roll = dice(1854)
        self.now = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
        self.seq = self.calls = 0
        self.facts: list[Fact] = []

    def play(self, scene: _Scene) -> Iterator[AgentMessage]:
        """The messages of one scene; an assistant's text and the calls after it are one message."""
        fill, message, open_calls = _Filling(self.roll), AgentMessage(), list[AgentMessage]()
        self.now = scene.at or self._next_working_hour()
        for line in scene.lines:
            if line.kind == "fact":
                self._note(line, self.seq + 1)
                continue
            text = fill(line.text)
            if line.kind.startswith("call "):
                if message.get("role") != "assistant":
                    yield from self._out(message)
                    message = self._assistant()
                call = self._call(line.kind.removeprefix("call "), text)
                message["content"].append(call)
                message["stopReason"] = "toolUse"
                open_calls.append(call)
                continue
            yield from self._out(message)
            if line.kind == "user":
                message = self._user(text)
            elif line.kind == "assistant":
                message = self._assistant(text)
            else:
                message = self._result(open_calls.pop(0), text, is_error=line.kind == "result!")
        yield from self._out(message)
        if message["role"] == "user":
            yield from self._out(self._assistant(pick(self.roll, _CLOSINGS)))

    def _out(self, message: AgentMessage) -> Iterator[AgentMessage]:
        if message:
            self.seq += 1
            yield message

    def _note(self, line: _Line, seq: int) -> None:
        question, _, answer = line.text.rpartition(" = ")
        self.facts.append(Fact(question, answer, seq))

    def _user(self, text: str) -> AgentMessage:
        return {"role": "user", "content": [_text(text)], "timestamp": self._later(30, 240)}

    def _assistant(self, text: str = "") -> AgentMessage:
        return assistant_message([_text(text)] if text else [], "stop", self._later(4, 40))

    def _call(self, tool: str, arguments: str) -> AgentMessage:
        self.calls += 1
        return {
            "type": "toolCall",
            "id": f"call_{hex_digits(self.roll, 16)}{self.calls:04d}",
            "name": tool,
            "arguments": json.loads(arguments),
        }

    def _result(self, call: AgentMessage, text: str, is_error: bool) -> AgentMessage:
        return {
            "role": "toolResult",
            "toolCallId": call["id"],
            "toolName": call["name"],
            "content": [_text(text)],
            "details": {"exitCode": int(is_error), "durationMs": number(self.roll, 20, 9000)},
            "isError": is_error,
            "timestamp": self._later(1, 20),
        }

    def _later(self, low: int, high: int) -> int:
        self.now += timedelta(seconds=number(self.roll, low, high))
        return round(self.now.timestamp() * 1000)

    def _next_working_hour(self) -> datetime:
        """Half an hour to four hours on; after hours, the next morning that is no weekend."""
        at = self.now + timedelta(minutes=number(self.roll, 35, 240))
        if at.hour >= 18 or at.hour < 8:
            at = (at if at.hour < 8 else at + timedelta(days=1)).replace(hour=8, minute=number(self.roll, 5, 55))
        while at.weekday() >= 5:
            at += timedelta(days=1)
        return at


def _text(text: str) -> AgentMessage:
    return {"type": "text", "text": text}


def _all_messages(stage: _Stage) -> Iterator[AgentMessage]:
    scenes, routines = _scenes("ferry.txt"), _scenes("ferry_routine.txt")
    played = 0
    for scene, following in zip(scenes, (*scenes[1:], None), strict=True):
        yield from stage.play(scene)
        for _ in range(_ROUTINES_BETWEEN):
            if following is None or following.at is None or stage.now + timedelta(hours=8) < following.at:
                yield from stage.play(_nth_routine(routines, played))
                played += 1
    while True:
        yield from stage.play(_nth_routine(routines, played))
        played += 1


def _nth_routine(routines: tuple[_Scene, ...], place: int) -> _Scene:
    """Every routine once before any comes again, in another order each round."""
    round_, index = divmod(place, len(routines))
    return routines[(index * (5, 3, 7, 11)[round_ % 4] + round_) % len(routines)]


def sample_conversation(count: int = SAMPLE_COUNT) -> Iterator[AgentMessage]:
    """The first `count` messages of the sample: a shorter one is always the beginning of a longer one."""
    return islice(_all_messages(_Stage()), count)


@cache
def _planted() -> tuple[Fact, ...]:
    stage, facts = (
        _Stage(),
        sum(line.kind == "fact" for scene in _scenes("ferry.txt") for line in scene.lines),
    )
    for _ in _all_messages(stage):
        if len(stage.facts) == facts:
            break
    return tuple(stage.facts)


#: The facts of the sample, in the order they were said; all of them within its first SAMPLE_COUNT messages.
PLANTED: tuple[Fact, ...] = _planted()


def openai_chat(messages: Iterable[AgentMessage]) -> Iterator[dict[str, object]]:
    """Agent messages in the shape of OpenAI's chat API, which has no place for thinking: it is left out."""
    for message in messages:
        text = "".join(block["text"] for block in message["content"] if block["type"] == "text")
        if message["role"] == "toolResult":
            yield {"role": "tool", "tool_call_id": message["toolCallId"], "content": text}
            continue
        calls = [_openai_call(block) for block in message["content"] if block["type"] == "toolCall"]
        chat: dict[str, object] = {"role": message["role"], "content": text or None}
        yield chat | ({"tool_calls": calls} if calls else {})


def _openai_call(block: AgentMessage) -> dict[str, object]:
    function = {"name": block["name"], "arguments": json_line(block["arguments"])}
    return {"id": block["id"], "type": "function", "function": function}
