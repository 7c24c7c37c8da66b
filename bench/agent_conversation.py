"""A conversation in random technical words, for measuring: the same arguments give the same bytes, anywhere."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lossless.testing import AgentMessage

T = TypeVar("T")

START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
_LISTS: dict[str, list[str]] = json.loads(Path(__file__).with_name("agent_words.json").read_text(encoding="utf-8"))
_WORDS, _FILES, _TOOLS, _CJK, _EMOJI = _LISTS.values()


def dice(seed: int) -> Callable[[], float]:
    """A stream of numbers in [0, 1) that depends on `seed` alone (mulberry32, as in JavaScript)."""
    state = seed & 0xFFFFFFFF

    def roll() -> float:
        nonlocal state
        state = (state + 0x6D2B79F5) & 0xFFFFFFFF
        t = ((state ^ (state >> 15)) * (state | 1)) & 0xFFFFFFFF
        t ^= (t + (t ^ (t >> 7)) * (t | 61)) & 0xFFFFFFFF
        return (t ^ (t >> 14)) / 4294967296

    return roll


def pick(roll: Callable[[], float], choices: Sequence[T]) -> T:
    """One of the choices, by the next number of `roll`."""
    return choices[int(roll() * len(choices))]


class _Speaker:
    def __init__(self, seed: int, unicode: bool, start: datetime) -> None:
        self.roll = dice(seed)
        self.plain_from = 0.14 if unicode else 0.075
        self.now = round(start.timestamp() * 1000)

    def upto(self, limit: float) -> int:
        return int(self.roll() * limit)

    def later(self, least: int, spread: int) -> int:
        self.now += least + self.upto(spread)
        return self.now

    def length(self) -> int:
        return 300 + self.upto(1700)

    def words(self, units: float) -> str:
        """At least `units` UTF-16 units of text, then cut of outer blanks."""
        roll, pieces, size = self.roll, [], 0
        while size < units:
            x = roll()
            if x >= self.plain_from:
                piece = _WORDS[int(roll() * len(_WORDS))] + (" " if x >= 0.20 else ". ")
                size += len(piece)
            else:
                piece = self._odd_piece(x)
                size += len(piece) + sum(char > "\uffff" for char in piece)
            pieces.append(piece)
        return "".join(pieces).strip()

    def _odd_piece(self, x: float) -> str:
        if x < 0.04:
            return pick(self.roll, _FILES) + " "
        if x < 0.06:
            return f"ERR-{1000 + self.upto(9000)} "
        if x < 0.075:
            return f"{self.upto(1e6):x} "
        return pick(self.roll, _CJK) + "，" if x < 0.12 else pick(self.roll, _EMOJI) + " "

    def user(self, turn: int) -> AgentMessage:
        text = f"Turn {turn}: {self.words(300 + self.upto(500))}"
        return {"role": "user", "content": [text_block(text)], "timestamp": self.later(20_000, 60_000)}

    def asks_tools(self, turn: int) -> AgentMessage:
        calls = 1 + self.upto(2)
        content: list[AgentMessage] = []
        if self.roll() < 0.3:
            thought = self.words(200)
            content.append({"type": "thinking", "thinking": thought, "thinkingSignature": f"sig_{turn}"})
        content.append(text_block(self.words(self.length() / 3)))
        content += [self._call(f"call_{turn}_{number}") for number in range(calls)]
        return self.assistant(content, "toolUse")

    def _call(self, id: str) -> AgentMessage:
        name = pick(self.roll, _TOOLS)
        arguments = {"path": pick(self.roll, _FILES), "command": self.words(60), "n": self.upto(100)}
        return {"type": "toolCall", "id": id, "name": name, "arguments": arguments}

    def tool_result(self, call: AgentMessage) -> AgentMessage:
        head = f"{pick(self.roll, _FILES)}:{self.upto(400)}"
        body = self.words(self.length()).replace(". ", ".\n")
        duration, is_error = self.upto(900), self.roll() < 0.03
        return {
            "role": "toolResult",
            "toolCallId": call["id"],
            "toolName": call["name"],
            "content": [text_block(f"{head}\n{body}")],
            "details": {"exitCode": 0, "durationMs": duration},
            "isError": is_error,
            "timestamp": self.later(500, 3_000),
        }

    def assistant(self, content: list[AgentMessage], stop: str) -> AgentMessage:
        """An assistant's message as an OpenClaw transcript has it, from a made-up model."""
        nothing = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0)
        return {
            "role": "assistant",
            "content": content,
            "api": "openai-completions",
            "provider": "fake",
            "model": "fake-1",
            "usage": {
                "input": 1200,
                "output": 300,
                "cacheRead": 0,
                "cacheWrite": 0,
                "totalTokens": 1500,
                "cost": nothing,
            },
            "stopReason": stop,
            "timestamp": self.later(1_000, 9_000),
        }


def text_block(text: str) -> AgentMessage:
    return {"type": "text", "text": text}


def agent_conversation(
    count: int, seed: int = 42, unicode: bool = False, start: datetime = START
) -> Iterator[AgentMessage]:
    """The first messages of an endless conversation."""
    return islice(_agent_messages(_Speaker(seed, unicode, start)), count)


def _agent_messages(speaker: _Speaker) -> Iterator[AgentMessage]:
    for turn in itertools.count(1):
        yield speaker.user(turn)
        asks = speaker.asks_tools(turn)
        yield asks
        for call in asks["content"]:
            if call["type"] == "toolCall":
                yield speaker.tool_result(call)
        yield speaker.assistant([text_block(speaker.words(speaker.length()))], "stop")
