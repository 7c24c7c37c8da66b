"""Killed while it reads transcripts and folds: what was acknowledged is there, and nothing is there twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.crash import crash

if TYPE_CHECKING:
    import pytest

KILLS = 3


def test_a_host_that_is_killed_at_any_moment_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.crash.COUNT", 120)
    *_, last = crash(KILLS, seed=4018, life=0.3)
    assert last.kills == KILLS
    assert last.acknowledged > 0
