"""Killed while pruning, forgetting, restoring or rotating: what is left holds, and the work can be done again."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

import lossless
from lossless.maintenance import backup
from lossless.maintenance.forget import prove_absence
from lossless.maintenance.prune import PruneFilter, parse_age
from tests.faults import dump
from tests.forking import run_forked
from tests.maintenance.keeper import die_while_forgetting, die_while_pruning, die_while_restoring, die_while_rotating
from tests.maintenance.keeping import NOW, dumped, fill, open_engine, parsed, problems, transcript

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SESSION = lossless.Session(key="agent:main:main", id="run-1")


def killed(child: Callable[..., None], *arguments: object) -> bool:
    """Run the child; whether it died on the way."""
    code, _, err = run_forked(child, *arguments)
    assert code in (0, -signal.SIGKILL), err
    return code != 0


@pytest.mark.parametrize("number", [9, 33, 60])
def test_killed_while_pruning(path: Path, number: int) -> None:
    with open_engine(path) as engine:
        for n in range(6):
            fill(engine, n)
        work = engine.admin.prune_plan(PruneFilter(older_than=parse_age("30d")))
        whole = {item.id: item.messages for item in work.chosen}
        kept = engine.archive.listings.counts().messages - sum(whole.values())
    assert killed(die_while_pruning, path, number)
    with open_engine(path) as engine:
        assert problems(engine) == []
        left = {item.id: item.messages for item in engine.admin.prune_plan(PruneFilter(patterns=("**",))).chosen}
        assert {id_: left[id_] for id_ in left if id_ in whole} == {id_: whole[id_] for id_ in left if id_ in whole}
        engine.admin.prune(engine.admin.prune_plan(PruneFilter(older_than=parse_age("30d"))), backup=False)
        assert engine.archive.listings.counts().messages == kept
        assert problems(engine) == []


@pytest.mark.parametrize("share", [0.1, 0.6, 0.99, 1])
def test_killed_while_forgetting(path: Path, share: float) -> None:
    phrase = "log line of the harbour"
    with open_engine(path) as engine:
        fill(engine, 1, closed=False)
        old = dump(path)
    assert killed(die_while_forgetting, path, phrase, share)
    with open_engine(path) as engine:
        is_new = not any(phrase in str(row) for table in dump(path).values() for row in table)
        assert is_new == (share == 1)
        assert is_new or dump(path) == old
        assert all("a forget was interrupted" in problem for problem in problems(engine))
        assert engine.admin.forget([phrase]).left == ()
        assert prove_absence(str(path), engine.vault, [phrase]).traces == ()
        assert problems(engine) == []


@pytest.mark.parametrize("number", [1, 20])
def test_killed_while_restoring(path: Path, number: int) -> None:
    with open_engine(path) as engine:
        fill(engine, 0)
        made = engine.backup()
        fill(engine, 1)
        before = engine.archive.listings.counts()
    assert killed(die_while_restoring, path, made.path, number)
    with open_engine(path) as engine:
        assert engine.archive.listings.counts() == before, "the archive is what it was"
        assert problems(engine) == []
    backup.restore_backup(made.path, str(path), lambda _: [], NOW)
    with open_engine(path) as engine:
        assert engine.archive.listings.counts().messages < before.messages
        assert problems(engine) == []


def test_killed_while_rotating(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "run-1.jsonl"
    whole = dumped(transcript(16))
    file.write_bytes(whole)
    with open_engine(path) as engine:
        engine.bootstrap(SESSION, file)
        stored = engine.archive.listings.counts().messages
    outcomes = set()
    number = 1
    while killed(die_while_rotating, path, file, number):
        data = file.read_bytes()
        outcomes.add("old" if data == whole else "new")
        assert data == whole or len(parsed(data)) == 6, "the old transcript or the new one"
        with open_engine(path) as engine:
            assert problems(engine) == []
            assert engine.archive.listings.counts().messages == stored
        file.write_bytes(whole)
        number += 5
    assert number > 12
    assert outcomes == {"old", "new"}
    with open_engine(path) as engine:
        engine.bootstrap(SESSION, file)
        assert engine.archive.listings.counts().messages == stored
        assert problems(engine) == []
