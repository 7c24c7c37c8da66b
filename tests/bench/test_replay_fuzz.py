"""Whatever hosts do, the archive holds each event once, and the context is the path that the host is on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.replay import KINDS, OPERATIONS, Script, Step, make_script, play, problems, shrink, stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fuzz.world import ReplayStage

#: 100 runs in all.
RUNS = int(os.environ.get("LOSSLESS_EXAMPLES") or 1 + 100 // len(KINDS))
NUMBERS = st.integers(0, 65_535)


@pytest.fixture(scope="module")
def opened() -> Iterator[ReplayStage]:
    """One archive for all runs, verified at the end."""
    with stage() as found:
        yield found
        assert problems(found) == []


def steps(kind: str) -> st.SearchStrategy[Step]:
    does = st.sampled_from(("say", *KINDS[kind].operations, "restart"))
    return st.builds(Step, does, NUMBERS, NUMBERS, NUMBERS, st.integers(0, 2))


def scripts(kind: str) -> st.SearchStrategy[Script]:
    first = st.builds(Step, st.just("say"), NUMBERS, st.integers(0, 2))
    rest = st.lists(steps(kind), min_size=3, max_size=20)
    return st.builds(lambda say, more: Script(kind, (say, *more)), first, rest)


@pytest.mark.parametrize("kind", list(KINDS))
@settings(max_examples=RUNS)
@given(data=st.data())
def test_each_event_is_stored_once(opened: ReplayStage, kind: str, data: st.DataObject) -> None:
    script = data.draw(scripts(kind))
    played = play(opened, script)
    assert played.failure is None, f"{script}\n{played.failure}"


def test_a_seed_is_a_script() -> None:
    assert make_script(7) == make_script(7) != make_script(8)
    assert str(make_script(7)).startswith("Script(")
    assert {make_script(seed).kind for seed in range(200)} == set(KINDS)


def test_every_operation_is_some_hosts() -> None:
    done = {name for kind in KINDS.values() for name in kind.operations}
    assert done | {"say", "restart"} == set(OPERATIONS)


def test_a_script_that_fails_is_shortened(opened: ReplayStage) -> None:
    script = make_script(3, "ids")
    short = shrink(opened, script, lambda tried: sum(step.does == "say" for step in tried.steps) > 1)
    assert [step.does for step in short.steps] == ["say", "say"]
    assert all(step.a == 0 for step in short.steps)
