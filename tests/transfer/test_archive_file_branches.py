"""Messages that a host put before older ones, or took out: wherever they go, the archive they come to is sound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.store.archive import Archive
from tests.maintenance.surgery_kit import HERE, THERE, talk

from .claws import rows
from .moves import bring, nothing_new, said, to_claw, to_file

if TYPE_CHECKING:
    from pathlib import Path

BRANCHES = "SELECT conversation_id, actor, added FROM context_log WHERE action = 'branch' ORDER BY log_id"


def edited(window: list[dict[str, Any]], place: int) -> list[dict[str, Any]]:
    """The window after a host has put another's message in the place of one in the middle, and kept what followed."""
    other = "assistant" if window[place]["role"] == "user" else "user"
    return [*window[:place], {"role": other, "content": f"an edit at {place}"}, *window[place + 1 :]]


def branched(path: Path, fold: bool = False) -> None:
    quiet = lossless.Settings(fresh_tail_count=2, leaf_chunk_tokens=300, leaf_min_fanout=2)
    with lossless.open(path, quiet, background=False) as engine:
        window = talk(12)
        engine.sync(HERE, window)
        engine.sync(HERE, edited(window, 6))
        engine.append(THERE, talk(3, "there"))
        if fold:
            engine.compact(HERE, budget=2_000, force=True)
        assert engine.verify().problems == ()


@pytest.mark.parametrize("fold", [False, True])
@pytest.mark.parametrize("is_opened", [False, True])
def test_a_plain_file_says_what_it_loses_and_comes_back_sound(tmp_path: Path, fold: bool, is_opened: bool) -> None:
    source, plain, back = tmp_path / "lcm.db", tmp_path / "plain.db", tmp_path / "back" / "lcm.db"
    branched(source, fold)
    (warning,) = to_claw(source, plain, plain=True).warnings
    told = (
        f"hidden items: 1; messages that a host put before older ones: {0 if fold else 1}; conversations with messages"
    )
    assert warning.startswith(told)
    if is_opened:  # it has our tables then, and nothing in them
        Archive.open(plain).close()
    bring("claw", plain, back)  # which proves the archive
    assert said(back) == said(source)
    assert [row[:2] for row in rows(back, BRANCHES)] == ([] if fold else [(1, "import")])
    assert nothing_new(bring("claw", plain, back))
    assert len(rows(back, BRANCHES)) == (0 if fold else 1)


def test_messages_that_were_copied_from_elsewhere_get_numbers_in_their_order(tmp_path: Path) -> None:
    source, plain, back = tmp_path / "lcm.db", tmp_path / "plain.db", tmp_path / "back" / "lcm.db"
    branched(source, fold=True)
    with lossless.open(source, background=False) as engine:
        engine.surgery.transplant(HERE, THERE)
    (warning,) = to_claw(source, plain, plain=True).warnings
    assert "conversations with messages of others: 1" in warning
    bring("claw", plain, back)
    assert said(back, "context") == said(source, "context")
    assert nothing_new(bring("claw", plain, back))


def test_nothing_is_said_where_nothing_is_lost(tmp_path: Path) -> None:
    source = tmp_path / "lcm.db"
    branched(source)
    assert to_claw(source, tmp_path / "whole.db").warnings == []
    bring("claw", tmp_path / "whole.db", tmp_path / "back" / "lcm.db")
    assert rows(tmp_path / "back" / "lcm.db", BRANCHES) == rows(source, BRANCHES)
    with lossless.open(tmp_path / "straight.db", background=False) as engine:
        engine.append(HERE, [{"role": "system", "content": "Be brief."}, *talk(3)])
    assert to_claw(tmp_path / "straight.db", tmp_path / "other.db", plain=True).warnings == []


@pytest.mark.parametrize("kind", ["claw", "archive"])
def test_a_conversation_that_was_branched_since_comes_as_it_is(tmp_path: Path, kind: str) -> None:
    source, file, here = tmp_path / "lcm.db", tmp_path / "file", tmp_path / "here" / "lcm.db"
    send = {"claw": to_claw, "archive": to_file}[kind]
    with lossless.open(source, background=False) as engine:
        engine.sync(HERE, talk(12))
    send(source, file, overwrite=True)
    bring(kind, file, here)
    with lossless.open(source, background=False) as engine:
        engine.sync(HERE, edited(talk(12), 6))
    send(source, file, overwrite=True)
    report = bring(kind, file, here)
    assert report.messages_inserted == 1
    assert said(here)["context"] == said(source)["context"]
    assert nothing_new(bring(kind, file, here))
