"""A child that dies in the middle: of pruning, of forgetting, of a restore, of a rotation."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import lossless
from lossless.maintenance import backup, prune
from lossless.store import database as store_database
from tests.faults import before_each_statement
from tests.maintenance.keeping import NOW, fill, open_engine

if TYPE_CHECKING:
    from pathlib import Path

DISK = frozenset(("open", "os.rename", "os.remove", "os.chmod", "os.chown", "os.link"))


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_while_pruning(path: Path, number: int) -> None:
    """Delete two conversations at a time, and die before the statement with this number."""
    prune.BATCH = 2
    engine = open_engine(path)
    work = engine.admin.prune_plan(prune.PruneFilter(older_than=prune.parse_age("30d")))

    def act(count: int, _statement: str) -> None:
        if count == number:
            _die()

    with before_each_statement(engine.archive.database, act):
        engine.admin.prune(work, backup=False)


def die_while_forgetting(path: Path, phrase: str, share: float) -> None:
    """Die after this share of the statements that forgetting takes, or, at 1, before the file is written anew."""
    engine = open_engine(path)
    last = 0

    def count(number: int, statement: str) -> None:
        nonlocal last
        last = number if statement.startswith("COMMIT") and not last else last

    def act(number: int, statement: str) -> None:
        if number == int(last * share) if share < 1 else statement.startswith("VACUUM"):
            _die()

    with open_engine(path.parent / "twin" / "lcm.db") as other:
        fill(other, 1, closed=False)
        with before_each_statement(other.archive.database, count):
            other.admin.forget([phrase])
    with before_each_statement(engine.archive.database, act):
        engine.admin.forget([phrase])


def die_while_restoring(path: Path, source: Path, number: int) -> None:
    """Die after so many steps of copying."""
    store_database._STEP = 4
    steps = 0

    def progress(_bytes: int) -> None:
        nonlocal steps
        steps += 1
        if steps == number:
            _die()

    backup.restore_backup(source, str(path), lambda _: [], NOW, progress)


def die_while_rotating(path: Path, file: Path, number: int) -> None:
    """Die at the n-th thing that is done to the transcript, its folder or a backup."""
    engine = open_engine(path)
    count = 0

    def hook(event: str, args: object) -> None:
        nonlocal count
        if event in DISK and str(path.parent) in str(args):
            count += 1
            if count == number:
                _die()

    sys.addaudithook(hook)
    engine.rotate(lossless.Session(key="agent:main:main", id="run-1"), file)
