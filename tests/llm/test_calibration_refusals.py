"""What a provider's refusal says about the length of a prompt, and what is learned from it."""

from __future__ import annotations

import pytest

import lossless
from lossless.llm.calibration import LEARNED_AFTER_SAMPLES, Calibration, observe_count, safety_factor
from lossless.providers.token_limits import parse_too_long

SAID = {
    "prompt is too long: 212345 tokens > 200000 maximum": (212345, 200000),
    "Error code: 400 - {'error': {'message': \"This model's maximum context length is 128000 tokens. However, your "
    'messages resulted in 140,512 tokens. Please reduce the length of the messages."}}': (140512, 128000),
    "This model's maximum context length is 8192 tokens, however you requested 9001 tokens (7001 in your prompt; 2000 "
    "for the completion).": (9001, 8192),
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).": (1200000, 1048576),
    "the request (9216 tokens) exceeds the available context size (8192 tokens)": (9216, 8192),
}


@pytest.mark.parametrize("text", SAID)
def test_both_numbers_are_read(text: str) -> None:
    assert parse_too_long(text) == SAID[text]


@pytest.mark.parametrize("text", ["", "rate limit: 40000 tokens per minute", "too long", "x" * 10_000, "9" * 10_000])
def test_other_errors_say_nothing(text: str) -> None:
    assert parse_too_long(text) is None


def test_a_refusal_is_believed_at_once_and_only_upwards() -> None:
    record = Calibration("m")
    for _ in range(2 * LEARNED_AFTER_SAMPLES):
        record = observe_count(record, 1_000, 1_000)
    after = observe_count(record, 1_000, 1_600, refused=True)
    assert safety_factor(after) >= 1.6
    assert observe_count(after, 1_000, 1_200, refused=True).ratio == after.ratio
    assert observe_count(record, 10, 1_000, refused=True) is record


def test_an_archive_keeps_what_it_learned(tmp_path: object) -> None:
    path = f"{tmp_path}/lcm.db"
    session = lossless.Session(key="s")
    with lossless.open(path, background=False) as engine:
        engine.append(session, [{"role": "user", "content": "hello"}])
        before = engine.host.capacity(session, budget=10_000, model="m")
        engine.host.learn("m", 1_000, 2_000, refused=True)
    with lossless.open(path, background=False) as engine:
        assert engine.host.capacity(session, budget=10_000, model="m") < 0.6 * before
        assert engine.host.capacity(session, budget=10_000) == 10_000
