"""A tokenizer is known by how prompts grow, whatever frame is around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

import lossless
from lossless.hosts.adapter import PromptGrowth

if TYPE_CHECKING:
    from pathlib import Path


@given(st.integers(0, 50_000), st.floats(0.5, 3), st.lists(st.integers(-3_000, 3_000), min_size=2, max_size=20))
def test_the_frame_makes_no_difference(frame: int, ratio: float, steps: list[int]) -> None:
    growth, size = PromptGrowth(), 60_000
    for step in steps:
        size += step
        seen = growth.seen(size, frame + round(ratio * size))
        if seen is not None:
            added, counted = seen
            assert added >= 500
            assert abs(counted - ratio * added) <= 2


def test_small_steps_add_up() -> None:
    growth = PromptGrowth()
    seen = [growth.seen(1_000 + 100 * n, 9_000 + 200 * n) for n in range(12)]
    assert [found for found in seen if found] == [(500, 1_000), (500, 1_000)]


def test_a_process_for_each_turn_learns_as_one_process_does(path: Path) -> None:
    session, other = lossless.Session(key="hermes:a"), lossless.Session(key="hermes:b")
    for turn in range(1, 5):
        with lossless.open(path, background=False) as engine:
            PromptGrowth("m").learn(engine, session if turn < 4 else other, 2_000 * turn, 5_000 + 3_000 * turn)
            rows = engine.archive.database.rows("SELECT ratio, observations FROM token_factors", ())
            assert [tuple(row) for row in rows] == ([] if turn == 1 else [(1.5, min(turn, 3) - 1)])
    with lossless.open(path, background=False) as engine:
        engine.host.keep_last_prompt("m", "not three numbers")
        PromptGrowth("m").learn(engine, session, 9_000, 20_000)
        assert engine.verify().ok
