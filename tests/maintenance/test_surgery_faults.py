"""A fault at any statement of any verb: the archive is wholly before or wholly after, sound, and one may go on."""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
from collections import Counter
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lossless.errors import BadInput
from lossless.testing import VirtualClock
from tests.faults import Fault, Rows, before_each_statement, dump_as_stored, failing_at
from tests.forking import run_forked
from tests.maintenance.surgery_kit import prove
from tests.maintenance.verbs import VERBS, die_at, open_small, write

if TYPE_CHECKING:
    from collections.abc import Iterator

    import lossless

#: What models were asked and who is at work: facts beside the archive's content, which no fault takes back.
#: Digests are made of moments, too; `prove` checks them.
BESIDE = {"leases", "spend_ledger", "breakers", "row_digests"}
#: Names and moments that are new each time.
_ID = re.compile(r"\b(sum|focus)_[0-9a-f]{16}\b")
_TIME = re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?")
#: So many statements of a verb fail, and with LOSSLESS_EXAMPLES every one.
_PLACES = 10**6 if os.environ.get("LOSSLESS_EXAMPLES") else 10
#: Every so many statements a verb is tried again in full after its fault.
_RETRIED = 40

State = dict[str, list[str]]


def state(path: Path) -> State:
    """Every row of every table, but for what lies beside; new names and moments look alike."""
    found = {table: rows for table, rows in dump_as_stored(path).items() if table not in BESIDE}
    found["sqlite_sequence"] = [row for row in found["sqlite_sequence"] if row[0] not in BESIDE]
    if _last and _last[0][0] == found:  # most faults change nothing
        return _last[0][1]
    _last[:] = [(found, _normal(found))]
    return _last[0][1]


_last: list[tuple[Rows, State]] = []


def _normal(found: Rows) -> State:
    names = {row[0]: f"{row[1]}/{row[3]}/{row[4]}" for row in found["summaries"]}

    def plain(row: object) -> str:
        return _TIME.sub("then", _ID.sub(lambda id_: names.get(id_[0], id_[1]), repr(row)))

    return {table: sorted(map(plain, rows)) for table, rows in found.items()}


def prepared(folder: Path, verb: str) -> Path:
    """An archive on which the verb can be done."""
    path = folder / "lcm.db"
    with open_small(path) as engine:
        VERBS[verb].prepare(engine)
        prove(engine)
    return path


def copied(path: Path, name: str) -> Path:
    """The same archive at another place."""
    place = path.parent / name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    return Path(shutil.copy(path, place / "lcm.db"))


def states(path: Path, verb: str) -> tuple[list[State], int]:
    """What the archive is after each transaction of the verb, first and last included; and how many statements."""
    found, count, was_commit = [state(path)], 0, False

    def look(_count: int, statement: str) -> None:
        nonlocal count, was_commit
        count += 1
        if was_commit and (now := state(path)) != found[-1]:
            found.append(now)
        was_commit = statement.strip().upper().startswith("COMMIT")

    with open_small(path, write) as engine:
        with before_each_statement(engine.archive.database, look):
            VERBS[verb].operate(engine)
        if (now := state(path)) != found[-1]:
            found.append(now)
        prove(engine)
    return found, count


def faulted(engine: lossless.Engine, verb: str, number: int) -> bool:
    """Whether the verb came as far as the statement with this number, which failed."""
    try:
        with failing_at(engine.archive.database, number):
            VERBS[verb].operate(engine)
    except Fault:
        return True
    return False


def again(engine: lossless.Engine, verb: str, path: Path, expected: list[State]) -> None:
    """The verb is done in full, or has been done already."""
    was = state(path)
    with suppress(BadInput) if was == expected[-1] else nullcontext():
        VERBS[verb].operate(engine)
    prove(engine)
    if was == expected[0]:
        assert state(path) == expected[-1]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A place that need not wait for a disk: thousands of transactions are made here."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name)


@pytest.mark.parametrize("verb", VERBS)
def test_a_fault_at_any_statement_leaves_all_or_nothing(folder: Path, verb: str) -> None:
    template = prepared(folder, verb)
    expected, count = states(copied(template, "undisturbed"), verb)
    assert len(expected) == 1 + VERBS[verb].steps or (not VERBS[verb].steps and len(expected) > 2)
    clock, outcomes, number, is_over = VirtualClock(), Counter[int](), 0, False
    step = max(1, count // _PLACES)
    while not is_over:
        path, first = copied(template, "disturbed"), number
        with open_small(path, write, clock) as engine:
            while faulted(engine, verb, number):
                now = state(path)
                assert now in expected, f"statement {number}"
                outcomes[expected.index(now)] += 1
                number += step
                clock.advance(minutes=10)  # whoever died gave no lease back
                if now != expected[0] or number % _RETRIED < step:
                    prove(engine)
                    again(engine, verb, path, expected)
                    break
            else:  # it came through: as a whole, or because it remembered something and needed fewer statements
                assert state(path) == expected[-1]
                is_over = number == first
    assert step * sum(outcomes.values()) >= count
    assert outcomes[0] > 1


@pytest.mark.parametrize(
    ("verb", "number"),
    [
        ("dissolve --purge", 3),
        ("rewrite", 25),
        ("doctor apply", 20),
        ("transplant", 40),
        ("merge", 14),
        ("backfill", 12),
        ("backfill --recompact", 30),
        ("backfill --single-root", 40),
        ("focus", 4),
        ("doctor clean", 9),
        ("undo transplant", 11),
    ],
)
def test_killed_in_the_middle(folder: Path, verb: str, number: int) -> None:
    path = prepared(folder, verb)
    expected, _ = states(copied(path, "undisturbed"), verb)
    code, _, err = run_forked(die_at, str(path), verb, number)
    assert code == -signal.SIGKILL, err
    clock = VirtualClock()
    clock.advance(minutes=10)
    with open_small(path, write, clock) as engine:
        prove(engine)
        assert state(path) in expected
        again(engine, verb, path, expected)
