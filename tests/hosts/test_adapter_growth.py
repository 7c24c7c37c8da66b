"""A tokenizer is known by how prompts grow, whatever frame is around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

import lossless
from lossless.engine import Engine
from lossless.hosts.adapter import learn_growth
from lossless.settings import Settings
from lossless.store.archive import Archive

if TYPE_CHECKING:
    from pathlib import Path

SESSION = lossless.Session(key="hermes:a")


def learned(engine: Engine) -> list[Any]:
    rows = engine.archive.database.rows("SELECT ratio, observations FROM token_factors", ())
    return [tuple(row) for row in rows]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 50_000), st.floats(0.5, 2.9), st.lists(st.integers(-3_000, 3_000), min_size=2, max_size=20))
def test_the_frame_makes_no_difference(frame: int, ratio: float, steps: list[int]) -> None:
    size = told = 60_000
    observed = -1  # the first one has nothing to be compared with
    with Engine(Archive.open(":memory:"), Settings(), background=False) as engine:
        for step in steps:
            size += step
            learn_growth(engine, SESSION, "m", size, frame + round(ratio * size))
            is_first, added = observed < 0, size - told
            if is_first or not 0 <= added < 500:
                told, observed = size, observed + (is_first or added > 0)
        found = learned(engine)
    assert [count for _, count in found] == ([observed] if observed > 0 else [])
    assert all(abs(known - ratio) <= 0.01 * ratio for known, _ in found)


def test_small_steps_add_up() -> None:
    with Engine(Archive.open(":memory:"), Settings(), background=False) as engine:
        for n in range(12):
            learn_growth(engine, SESSION, "m", 1_000 + 100 * n, 9_000 + 200 * n)
        assert learned(engine) == [(2.0, 2)]


def test_sessions_that_alternate_on_one_model_learn_each_from_its_own_prompts() -> None:
    sessions = SESSION, lossless.Session(key="hermes:b")
    before: dict[lossless.Session, tuple[int, int]] = {}
    with Engine(Archive.open(":memory:"), Settings(), background=False) as engine:
        for turn in range(1, 5):
            for frame, session in enumerate(sessions):
                sizes = 2_000 * turn, 7_000 * frame + 3_000 * turn
                before[session] = learn_growth(engine, session, "m", *sizes, before.get(session))
        assert learned(engine) == [(1.5, 6)]


def test_a_process_for_each_turn_learns_as_one_process_does(path: Path) -> None:
    other = lossless.Session(key="hermes:b")
    for turn in range(1, 5):
        with lossless.open(path, background=False) as engine:
            learn_growth(engine, SESSION if turn < 4 else other, "m", 2_000 * turn, 5_000 + 3_000 * turn)
            assert learned(engine) == ([] if turn == 1 else [(1.5, min(turn, 3) - 1)])
    with lossless.open(path, background=False) as engine:
        engine.host.keep_last_prompt("m", "not three numbers")
        learn_growth(engine, SESSION, "m", 9_000, 20_000)
        assert engine.verify().ok
