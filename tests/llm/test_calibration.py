"""The learned factor: bounded, robust, and on the safe side until it knows."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.llm import calibration
from lossless.llm.calibration import Calibration, observe_count, safety_factor


def learn(ratios: list[float], record: Calibration | None = None) -> Calibration:
    record = record or Calibration("a/m")
    for ratio in ratios:
        record = observe_count(record, 10_000, round(10_000 * ratio))
    return record


def noisy(true: float, count: int, seed: int = 1) -> list[float]:
    dice = random.Random(seed)
    return [true * dice.uniform(0.95, 1.05) for _ in range(count)]


def test_before_anything_is_known_there_is_a_margin() -> None:
    assert safety_factor(Calibration("a/m")) == pytest.approx(1.15)


@pytest.mark.parametrize("true", [0.55, 0.8, 1.0, 1.3, 2.2])
def test_it_learns_the_ratio(true: float) -> None:
    record = learn(noisy(true, 20))
    assert record.ratio == pytest.approx(true, rel=0.05)
    assert max(true * 0.99, 1.0) <= safety_factor(record) <= max(true * 1.2, 1.0)


def test_it_does_not_promise_less_than_the_estimate_before_it_has_learned() -> None:
    assert safety_factor(learn([0.5, 0.5])) >= 1.0
    assert safety_factor(learn([0.5] * 6)) == 1.0, "nor after it: the next text may be denser"


def test_one_odd_request_hardly_moves_it() -> None:
    record = learn(noisy(1.0, 30))
    assert observe_count(record, 10_000, 29_000).ratio == pytest.approx(record.ratio, rel=0.1)


def test_a_tenth_of_nonsense_does_not_spoil_it() -> None:
    ratios = [3.0 if index % 10 == 9 else ratio for index, ratio in enumerate(noisy(0.9, 100))]
    assert learn(ratios).ratio == pytest.approx(0.9, rel=0.15)


def test_it_follows_a_lasting_change() -> None:
    record = learn(noisy(0.6, 25), learn(noisy(1.0, 40)))
    assert record.ratio == pytest.approx(0.6, rel=0.12)


def test_small_requests_and_nonsense_teach_nothing() -> None:
    record = Calibration("a/m")
    for estimated, reported in [(calibration.MIN_SAMPLE_TOKENS - 1, 900), (0, 5), (10_000, 0), (10_000, -5)]:
        assert observe_count(record, estimated, reported) == record


@given(st.lists(st.tuples(st.integers(-10, 10**9), st.integers(-10, 10**9)), max_size=60))
def test_the_factor_is_always_bounded(samples: list[tuple[int, int]]) -> None:
    record = Calibration("a/m")
    for estimated, reported in samples:
        record = observe_count(record, estimated, reported)
        assert calibration.RATIO_MIN <= safety_factor(record) <= calibration.RATIO_MAX * 1.15 + 1e-9
        assert 0 <= record.spread <= 1


@given(st.floats(0.5, 2.5), st.lists(st.floats(-0.04, 0.04), min_size=10, max_size=40))
def test_a_learned_factor_covers_the_usual_request(true: float, noise: list[float]) -> None:
    record = learn([true * (1 + wobble) for wobble in noise])
    assert safety_factor(record) >= true * 0.96
