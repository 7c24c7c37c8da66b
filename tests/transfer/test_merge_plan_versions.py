"""Imports into an archive that has the messages: rows keep their words, and wordings that they lack are added."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.store.bundles import MessageKey
from lossless.transfer.merge_plan import align_messages

from .claws import rows
from .moves import bring, to_claw, to_file, to_remnic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SESSION = lossless.Session(key="agent:main:main", id="run-1")
OUT: dict[str, Callable[..., Any]] = {"archive": to_file, "claw": to_claw, "remnic": to_remnic}


def talk(named: bool, **edits: str) -> list[lossless.Incoming]:
    """Six messages, some of them in other words."""
    return [
        lossless.Incoming(
            {
                "role": ("user", "assistant")[n % 2],
                "content": edits.get(f"m{n}", f"What was said at number {n} about the ferry and its berth."),
            },
            f"e{n}" if named else None,
            datetime(2026, 5, 1, 10, n, tzinfo=UTC),
        )
        for n in range(6)
    ]


def show(path: Path, window: list[lossless.Incoming]) -> None:
    with lossless.open(path, background=False) as engine:
        engine.sync(SESSION, window)


def texts(path: Path) -> list[str]:
    return [row[0] for row in rows(path, "SELECT content FROM messages ORDER BY conversation_id, seq")]


def wordings(path: Path, id_: int) -> set[str]:
    with lossless.open(path, background=False) as engine:
        assert engine.verify().ok
        return {version.message.content for version in engine.archive.versions.of(id_)}


@pytest.mark.parametrize("named", [True, False], ids=["ids", "no ids"])
@pytest.mark.parametrize("kind", ["archive", "claw", "remnic"])
def test_wordings_of_another_copy_are_added(tmp_path: Path, kind: str, named: bool) -> None:
    here, there = tmp_path / "here.db", tmp_path / "there.db"
    show(here, talk(named))
    shutil.copy(here, there)
    show(there, talk(named, m2="First they say that the ferry leaves from berth 3, at number 2."))
    show(there, talk(named, m2="Then they say that the ferry leaves from berth 5, at number 2."))
    show(here, talk(named, m2="Here it is said that the ferry leaves from berth 7, at number 2."))
    now = texts(here)
    file = tmp_path / "out" / {"archive": "all.jsonl", "claw": "lcm.db", "remnic": "lcm.sqlite"}[kind]
    OUT[kind](there, file)
    report = bring(kind, file, here)
    assert (report.messages_inserted, report.versions_inserted) == (0, 2)
    assert texts(here) == now
    assert wordings(here, 3) == {
        "What was said at number 2 about the ferry and its berth.",
        "First they say that the ferry leaves from berth 3, at number 2.",
        "Then they say that the ferry leaves from berth 5, at number 2.",
    }
    again = bring(kind, file, here)
    assert (again.messages_inserted, again.versions_inserted) == (0, 0)


def test_an_old_copy_brings_no_old_words_back(tmp_path: Path) -> None:
    here, file = tmp_path / "here.db", tmp_path / "all.jsonl"
    show(here, talk(named=False))
    to_file(here, file)
    show(
        here, talk(named=False, m0="Another beginning of it all, at berth 9.", m5="Another end of it all, at berth 1.")
    )
    now = texts(here)
    report = bring("archive", file, here)
    assert (report.messages_inserted, report.versions_inserted, report.messages_skipped) == (0, 0, 6)
    assert texts(here) == now


@pytest.mark.parametrize("kind", ["archive", "claw", "remnic"])
def test_versions_come_along_with_new_messages(tmp_path: Path, kind: str) -> None:
    there, here = tmp_path / "there.db", tmp_path / "here" / "lcm.db"
    show(there, talk(named=True))
    show(there, talk(named=True, m2="Later it is said that the ferry leaves from berth 5, at number 2."))
    file = tmp_path / "out" / {"archive": "all.jsonl", "claw": "lcm.db", "remnic": "lcm.sqlite"}[kind]
    OUT[kind](there, file)
    assert bring(kind, file, here).versions_inserted == 0
    assert wordings(here, 3) == wordings(there, 3) == {"What was said at number 2 about the ferry and its berth."}


def key(
    id_: int, words: str, at: str = "2026-05-01T10:00:00", role: str = "user", entry: str | None = None
) -> MessageKey:
    return MessageKey(id_, id_, words, at, entry, None, 1, role)


@pytest.mark.parametrize(
    ("coming", "there", "known"),
    [
        # one between two that are known, the first, the last
        ([key(1, "a"), key(2, "x"), key(3, "c")], [key(11, "a"), key(12, "y"), key(13, "c")], {1: 11, 2: 12, 3: 13}),
        ([key(1, "x"), key(2, "b", "t2")], [key(11, "y"), key(12, "b", "t2")], {1: 11, 2: 12}),
        ([key(1, "a"), key(2, "x")], [key(11, "a"), key(12, "y")], {1: 11, 2: 12}),
        # another time, another role, another id, another number of them: other messages
        ([key(1, "a"), key(2, "x", "t2")], [key(11, "a"), key(12, "y", "t3")], {1: 11}),
        ([key(1, "a"), key(2, "x", role="assistant")], [key(11, "a"), key(12, "y")], {1: 11}),
        ([key(1, "a"), key(2, "x", entry="e1")], [key(11, "a"), key(12, "y", entry="e2")], {1: 11}),
        ([key(1, "a"), key(2, "x")], [key(11, "a"), key(12, "y"), key(13, "z")], {1: 11}),
        # nothing in common: two conversations
        ([key(1, "x")], [key(11, "y")], {}),
    ],
)
def test_one_message_that_was_edited_on_one_side(
    coming: list[MessageKey], there: list[MessageKey], known: dict[int, int]
) -> None:
    assert align_messages(coming, there)[0] == known
