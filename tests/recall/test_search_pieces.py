"""Pieces of what was said, in archives too large to look at whole: on the first page, in either mode."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

import lossless
from lossless.model.context import MessageItem, NewSummary
from lossless.store.search import FEW_MATCHES

from .searching import ANNA, NOW, ids

if TYPE_CHECKING:
    from collections.abc import Iterator

WORDS = (
    "deploy",
    "error",
    "signal",
    "module",
    "pool",
    "retry",
    "timeout",
    "value",
    "config",
    "worker",
    "queue",
    "digest",
)
COUNT = FEW_MATCHES + 300


@pytest.fixture(scope="module")
def large() -> Iterator[lossless.Engine]:
    """Many messages that share their words, and a summary."""
    dice = random.Random(3)
    said: list[dict[str, Any]] = [
        {"role": "user", "content": f"{' '.join(dice.choices(WORDS, k=8))}. line {n}"} for n in range(COUNT)
    ]
    said[40] = {"role": "user", "content": "We concatenated it: the deploy error signatures, zq-7-x."}
    with lossless.open(":memory:", background=False, clock=lambda: NOW) as engine:
        engine.append(ANNA, said)
        summary = NewSummary("sum_0000000000000001", 0, "They spoke of the deploy error signatures, at length.", 9, "m")
        with engine.archive.writing():
            engine.archive.summaries.insert(1, [MessageItem(0, 41, "user", 9, 41)], summary, NOW)
        yield engine


@pytest.mark.parametrize("sort", ["relevance", "recency", "hybrid"])
@pytest.mark.parametrize(
    "piece", ["oncat", "oy error signat", "ated it: the deploy err", "zq-7", "error signatures, zq"]
)
def test_a_piece_of_words_is_on_the_first_page(large: lossless.Engine, piece: str, sort: Any) -> None:
    assert 41 in ids(large.grep(piece, sort=sort))
    assert 41 in ids(large.grep(piece.replace("-", r"\-"), mode="regex"))


@pytest.mark.parametrize("seed", range(40))
def test_any_piece_is_on_the_first_page(large: lossless.Engine, seed: int) -> None:
    dice = random.Random(seed)
    text = large.archive.messages.get(dice.randrange(1, COUNT)).message.content
    start = dice.randrange(len(text) - 12)
    piece = text[start : start + dice.randrange(6, 24)]
    found = large.grep(piece)
    assert any(piece in large.archive.messages.get(int(id_)).message.content for id_ in ids(found) if id_ != SUMMARY)


SUMMARY = "sum_0000000000000001"


def test_letters_are_looked_for_where_they_were_asked_for(large: lossless.Engine) -> None:
    assert ids(large.grep("y error signat", scope="summaries")) == [SUMMARY]
    assert SUMMARY not in ids(large.grep("y error signat", scope="messages"))
    assert set(ids(large.grep("of the deploy error sign"))) >= {SUMMARY}
