"""Dialogues over many sessions, in the format of LoCoMo, and the questions about them."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import lossless
from bench.measure import DATA

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Where the development half is.
DEFAULT = DATA / "locomo/locomo-dev5.json"
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_TURN_SECONDS = 30
_DIALOG_ID = re.compile(r"D\d+:\d+")


@dataclass(frozen=True, slots=True)
class Turn:
    """One thing that was said."""

    id: str
    text: str
    at: datetime

    @property
    def incoming(self) -> lossless.Incoming:
        """As a host hands it over."""
        return lossless.Incoming({"role": "user", "content": self.text}, self.id, self.at)


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its answer, and the turns that hold it."""

    text: str
    answer: str
    gold: frozenset[str]
    category: int


@dataclass(frozen=True, slots=True)
class Dialogue:
    """All sessions of two people, and what is asked about them."""

    name: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]

    @property
    def session(self) -> lossless.Session:
        return lossless.Session(key=f"locomo:{self.name}")


def load(path: Path) -> list[Dialogue]:
    """The dialogues of a file; without it, a word about what is needed, and the end."""
    if not path.exists():
        print(f"{path} is not there: give a file in the format of LoCoMo, or its folder as LOSSLESS_BENCH_DATA")
        sys.exit(0 if path == DEFAULT else 1)
    return [_dialogue(number, raw) for number, raw in enumerate(json.loads(path.read_text(encoding="utf-8")))]


def _dialogue(number: int, raw: dict[str, Any]) -> Dialogue:
    turns = tuple(_turns(raw["conversation"]))
    known = {turn.id for turn in turns}
    questions = tuple(
        Question(item["question"], str(item.get("answer", "")), frozenset(gold), item.get("category", 0))
        for item in raw["qa"]
        if (gold := {id_ for text in item["evidence"] for id_ in _DIALOG_ID.findall(text)} & known)
    )
    return Dialogue(str(raw.get("sample_id", number)), turns, questions)


def _turns(raw: dict[str, Any]) -> Iterator[Turn]:
    number = 1
    while f"session_{number}" in raw:
        begun = _time(raw[f"session_{number}_date_time"])
        for place, turn in enumerate(raw[f"session_{number}"]):
            at = begun + timedelta(seconds=_TURN_SECONDS * place)
            yield Turn(turn["dia_id"], f"{turn['speaker']}: {turn['text']}", at)
        number += 1


def _time(text: str) -> datetime:
    return datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)


def store(engine: lossless.Engine, dialogue: Dialogue) -> tuple[int, dict[int, str]]:
    """Put a dialogue into an archive: its conversation, and the turn behind each message."""
    report = engine.append(dialogue.session, [turn.incoming for turn in dialogue.turns])
    assert report.conversation_id is not None
    stored = engine.archive.messages.in_order(report.conversation_id, limit=len(dialogue.turns))
    return report.conversation_id, {message.id: message.entry_id or "" for message in stored}
