"""A program that dies in the middle of a surgery: `python -m tests.surgery.dying PATH VERB STATEMENT`."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from tests.faults import before_each_statement

from .kit import HERE, THERE, open_engine, roots

if TYPE_CHECKING:
    import lossless


def operate(engine: lossless.Engine, verb: str) -> None:
    """Do what the verb says, backup and all."""
    match verb:
        case "dissolve":
            engine.dissolve(roots(engine, 1)[0], purge=True)
        case "transplant":
            engine.transplant(HERE, THERE)
        case "undo":
            engine.undo(HERE)
        case _:
            engine.rewrite(HERE, everything=True)


def main(path: str, verb: str, number: int) -> None:
    """Die in place of a statement that writes, counted from 0."""
    writes = 0

    def die(_count: int, statement: str) -> None:
        nonlocal writes
        if statement.lstrip().upper().startswith(("INSERT", "UPDATE", "DELETE", "COMMIT")):
            if writes == number:
                os.kill(os.getpid(), signal.SIGKILL)
            writes += 1

    with open_engine(path) as engine, before_each_statement(engine.archive.database, die):
        operate(engine, verb)
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
