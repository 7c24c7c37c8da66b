"""How a program talks to its driver: a user's text in each line that comes, an answer or an error in each that goes."""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SYSTEM = "You are the clerk of a harbour. " + "Answer from what tools say, and be brief. " * 20


@dataclass(frozen=True, slots=True)
class Given:
    """What a program was started with."""

    archive: str
    url: str
    budget: int


def given() -> Given:
    return Given(sys.argv[1], sys.argv[2], int(sys.argv[3]))


def run(command: str) -> str:
    """What a command prints, as a tool says it."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, timeout=20)
    return done.stdout + (f"{done.stderr}\nexit code {done.returncode}" if done.returncode else "")


def serve(ask: Callable[[str], str]) -> None:
    """Until there is nothing more to answer."""
    for line in sys.stdin:
        try:
            answer = {"text": ask(json.loads(line))}
        except Exception as error:  # noqa: BLE001 - the driver counts it
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
