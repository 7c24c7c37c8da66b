"""The order of models, and that a key lying around names none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless import errors
from lossless.llm.providers import ModelConnector
from lossless.settings.model_rules import ModelCandidate, ModelChoices, candidate_order, configured_candidates


def names(choices: ModelChoices) -> list[str]:
    return [candidate.name for candidate in candidate_order(choices)]


def test_the_whole_order() -> None:
    choices = ModelChoices(
        env_model="e/1",
        summary_model="s/1",
        host_compaction_model="hc/1",
        host_model="h/1",
        session_model="run-1",
        session_provider="r",
        fallbacks=(("f", "1"), ("f", "2")),
    )
    assert names(choices) == ["e/1", "s/1", "hc/1", "h/1", "r/run-1", "f/1", "f/2"]
    assert [c.name for c in configured_candidates(candidate_order(choices))] == ["e/1", "s/1", "f/1", "f/2"]


def test_the_same_model_is_asked_once() -> None:
    choices = ModelChoices(env_model="a/x", summary_model="x", summary_provider="A", fallbacks=(("a", "x"), ("b", "x")))
    assert names(choices) == ["a/x", "b/x"]


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        (ModelChoices(summary_model="claude-x", summary_provider="anthropic"), "anthropic/claude-x"),
        (ModelChoices(summary_model="openai/gpt", summary_provider="anthropic"), "openai/gpt"),
        (ModelChoices(summary_model="openrouter/meta/llama"), "openrouter/meta/llama"),
        (ModelChoices(env_model="m", summary_provider="p"), "p/m"),
        (ModelChoices(summary_model="m", env_provider="p"), "p/m"),
        (ModelChoices(session_model="meta/llama", session_provider="openrouter"), "openrouter/meta/llama"),
        (ModelChoices(session_model="openai/gpt"), "openai/gpt"),
        (ModelChoices(fallbacks=(("openrouter", "meta/llama"),)), "openrouter/meta/llama"),
        (ModelChoices(summary_model="command/claude -p --model haiku"), "command/claude -p --model haiku"),
        (ModelChoices(summary_model="command//usr/bin/claude -p"), "command//usr/bin/claude -p"),
    ],
)
def test_provider_and_model(choices: ModelChoices, expected: str) -> None:
    assert names(choices) == [expected]


@pytest.mark.parametrize(
    "choices", [ModelChoices(env_model="m"), ModelChoices(summary_model="m"), ModelChoices(fallbacks=(("", "m"),))]
)
def test_a_configured_model_without_a_provider_is_an_error(choices: ModelChoices) -> None:
    with pytest.raises(errors.BadSetting, match="provider/model"):
        candidate_order(choices)


def test_a_hint_without_a_provider_is_left_out() -> None:
    assert names(ModelChoices(host_model="m", session_model="m")) == []


def test_keys_in_the_environment_name_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-lying-around")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-lying-around")
    assert candidate_order(ModelChoices()) == ()


def test_a_host_s_model_is_not_ours_to_call() -> None:
    with pytest.raises(errors.ModelDenied, match="only the host"):
        ModelConnector()(ModelCandidate("openai", "gpt", "host"))


WORDS = st.sampled_from(["", " ", "a", "a/b", "p/q/r", "/", "x/"])


@given(st.builds(ModelChoices, WORDS, WORDS, WORDS, WORDS, WORDS, WORDS, WORDS, WORDS, st.just(())))
def test_no_candidate_twice_and_none_empty(choices: ModelChoices) -> None:
    try:
        order = candidate_order(choices)
    except errors.BadSetting:
        return
    assert len({candidate.name for candidate in order}) == len(order)
    assert all(candidate.provider and candidate.model for candidate in order)
