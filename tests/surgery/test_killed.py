"""Killed in the middle of a surgery: the archive is as it was, or as it should be, and nothing in between."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import dump

from .kit import THERE, open_engine, prove, talk, told

ROOT = Path(__file__).parents[2]
#: Tables that surgery is about; a backup and a lease may well have come before the end.
TABLES = (
    "messages",
    "summaries",
    "summary_messages",
    "summary_parents",
    "context_items",
    "context_log",
    "hidden_items",
)


@pytest.mark.parametrize(("verb", "number"), [("dissolve", 3), ("transplant", 30), ("undo", 5), ("transplant", 9)])
def test_killed_in_the_middle(tmp_path: Path, verb: str, number: int) -> None:
    path = tmp_path / "lcm.db"
    with open_engine(path) as engine:
        told(engine, 24)
        engine.append(THERE, talk(4, "there"))
    before = dump(path)
    command = [sys.executable, "-m", "tests.surgery.dying", str(path), verb, str(number)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with open_engine(path) as engine:
        prove(engine)
        after = dump(path)
        assert {table: after[table] for table in TABLES} == {table: before[table] for table in TABLES}
