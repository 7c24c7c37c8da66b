"""The order of models, and that a key lying around names none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless import errors
from lossless.settings.model_rules import candidate_order

if TYPE_CHECKING:
    from collections.abc import Sequence


def names(model: str, provider: str = "", fallbacks: Sequence[tuple[str, str]] = ()) -> list[str]:
    return [candidate.name for candidate in candidate_order(model, provider, fallbacks)]


def test_the_order_in_which_each_is_asked_once() -> None:
    assert names("s/1", "", [("f", "1"), ("f", "2")]) == ["s/1", "f/1", "f/2"]
    assert names("x", "A", [("a", "x"), ("b", "x")]) == ["a/x", "b/x"]


@pytest.mark.parametrize(
    ("model", "provider", "expected"),
    [
        ("claude-x", "anthropic", "anthropic/claude-x"),
        ("openai/gpt", "anthropic", "openai/gpt"),
        ("openrouter/meta/llama", "", "openrouter/meta/llama"),
        ("command/claude -p --model haiku", "", "command/claude -p --model haiku"),
        ("command//usr/bin/claude -p", "", "command//usr/bin/claude -p"),
    ],
)
def test_provider_and_model(model: str, provider: str, expected: str) -> None:
    assert names(model, provider) == [expected]
    assert names("", "", [("openrouter", "meta/llama")]) == ["openrouter/meta/llama"]


def test_a_model_without_a_provider_is_an_error() -> None:
    for fallbacks, model in (((), "m"), ([("", "m")], "")):
        with pytest.raises(errors.BadSetting, match="provider/model"):
            candidate_order(model, "", fallbacks)


def test_keys_in_the_environment_name_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-lying-around")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-lying-around")
    assert candidate_order("") == ()


WORDS = st.sampled_from(["", " ", "a", "a/b", "p/q/r", "/", "x/"])


@given(WORDS, WORDS, st.lists(st.tuples(WORDS, WORDS), max_size=3))
def test_no_candidate_twice_and_none_empty(model: str, provider: str, fallbacks: list[tuple[str, str]]) -> None:
    try:
        order = candidate_order(model, provider, fallbacks)
    except errors.BadSetting:
        return
    assert len({candidate.name for candidate in order}) == len(order)
    assert all(candidate.provider and candidate.model for candidate in order)
