"""What users ask and what the agent does about it: turns with tool calls, outputs of all sizes, errors, questions.

Every turn can be known again at the model's side: a user's text begins with `[T007]`, and each line of an output has
words that no other line has.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pathlib import Path

#: Said in the first turns, asked for in the last one.
SECRET = "ED25519:Qx7-OSPREY-9913"
SECRET_PATTERN = re.compile(r"ED25519:[A-Za-z0-9]+-[A-Z]+-\d{4}")
QUESTION = "What is the fingerprint of the deploy key that lies in vault slot 14?"
MARK = re.compile(r"\[T(\d{3})\]")
#: How many tokens an output has, roughly, as a share of the budget; more when there are less than 60 turns.
#: In one turn of each dozen it has as many as 40k.
SHARES = (0.004, 0.01, 0.02, 0.04, 0.08)
LARGEST = 40_000
_TEXT = (
    "harbour crane ledger ballast quay ferry lantern rope tide anchor beacon cargo deck engine fender gangway hull "
    "inlet jetty keel locker mast oar pilot quarter rudder sail tiller vessel winch yard zenith buoy channel draft"
)
_WORDS = _TEXT.split()


@dataclass(frozen=True, slots=True)
class Step:
    """One reply of the model: calls of the shell, an error of the provider, a look into the past, or the last words."""

    does: Literal["run", "fail", "recall", "say"]
    commands: tuple[str, ...] = ()
    text: str = ""
    status: int = 200


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of the conversation."""

    number: int
    text: str
    steps: tuple[Step, ...]
    #: What each command prints that does not fail.
    outputs: dict[str, str] = field(default_factory=dict)

    @property
    def asks_back(self) -> bool:
        return any(step.does == "recall" for step in self.steps)


def turns(count: int, budget: int, folder: Path, seed: int = 0) -> list[Turn]:
    """A conversation; what its commands print lies in files of the folder. Its last turn asks for an early detail."""
    folder.mkdir(parents=True, exist_ok=True)
    size = int(budget * min(4.0, max(1.0, 60 / count)))
    made = [_turn(number, size, folder, random.Random(seed * 1000 + number)) for number in range(count - 1)]
    steps = (Step("run", ("date",)), Step("recall"), Step("say", text="The fingerprint is {found}."))
    return [*made, Turn(count - 1, f"[T{count - 1:03}] {QUESTION}", steps)]


def _turn(number: int, budget: int, folder: Path, chance: random.Random) -> Turn:
    outputs: dict[str, str] = {}

    def command(tokens: int) -> str:
        path = folder / f"out-{number:03}-{len(outputs)}.txt"
        text = output(f"{number:03}.{len(outputs)}", tokens, chance)
        if number == 1 and not outputs:
            text = f"deploy key fingerprint is {SECRET}, stored in vault slot 14\n{text}"
        path.write_text(text, encoding="utf-8")
        outputs[f"cat {path}"] = text
        return f"cat {path}"

    size = LARGEST if number % 12 == 8 else max(200, int(budget * chance.choice(SHARES)))
    steps = [Step("run", (command(size),))]
    if number % 4 == 1:
        steps.append(Step("run", (f"cat {folder}/missing-{number:03}; exit 3", command(200)), text="Both at once."))
    if number % 5 == 2:
        steps += [Step("run", (command(max(200, int(budget * 0.01))),)) for _ in range(3)]
    if number % 9 == 6:
        steps.append(Step("fail", status=500))
    words = " ".join(f"{chance.choice(_WORDS)}" for _ in range(chance.choice((20, 80, 300))))
    steps.append(Step("say", text=f"Decision {number:03}: use berth {number * 7 % 50}. {words}."))
    asked = " ".join(chance.choice(_WORDS) for _ in range(chance.choice((8, 30, 120))))
    return Turn(number, f"[T{number:03}] Check the tickets of berth {number}: {asked}.", tuple(steps), outputs)


def output(name: str, tokens: int, chance: random.Random) -> str:
    """What a command prints: a log, code, JSON, a hex dump, checksums or prose."""
    line = chance.choice((_log, _code, _record, _hex, _checksum, _prose))
    made: list[str] = []
    size = 0
    while size < tokens:
        text, cost = line(f"{name}.{len(made)}", chance)
        made.append(text)
        size += cost
    return "\n".join(made) + "\n"


def _log(name: str, chance: random.Random) -> tuple[str, int]:
    level = chance.choice(("INFO", "WARN", "ERROR"))
    return (
        f"2026-07-01T09:{chance.randrange(60):02}:00.{chance.randrange(999):03}Z {level} worker-{name} took 9 ms",
        32,
    )


def _code(name: str, chance: random.Random) -> tuple[str, int]:
    word = chance.choice(_WORDS)
    return f"    {word}_{name.replace('.', '_')} = self.{word}(index={chance.randrange(999)}, retry=True)", 24


def _record(name: str, chance: random.Random) -> tuple[str, int]:
    return json.dumps({"ticket": name, "berth": chance.randrange(99), "state": chance.choice(_WORDS), "ok": True}), 28


def _hex(name: str, chance: random.Random) -> tuple[str, int]:
    return f"{name} {chance.randbytes(16).hex(' ')}  |{chance.choice(_WORDS)}|", 45


def _checksum(name: str, chance: random.Random) -> tuple[str, int]:
    return f"{hashlib.sha256(chance.randbytes(8)).hexdigest()}  dist/{name}.tar.gz", 50


def _prose(name: str, chance: random.Random) -> tuple[str, int]:
    return f"Note {name}: " + " ".join(chance.choice(_WORDS) for _ in range(18)) + ".", 32
