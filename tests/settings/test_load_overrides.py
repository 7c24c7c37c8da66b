"""Rules for other thresholds: strict to read, the most specific one applies."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.errors import BadSetting
from lossless.settings import ContextThresholdOverride, Settings, load
from lossless.settings.model_rules import choose_override


def rules(*written: object) -> tuple[ContextThresholdOverride, ...]:
    return load({"contextThresholdOverrides": list(written)}, env={}).settings.context_threshold_overrides


def rule(threshold: float = 0.5, **match: Any) -> dict[str, Any]:
    return {"match": match, "contextThreshold": threshold}


def test_a_rule_is_read_whole() -> None:
    written = {
        "name": " big ",
        "match": {"model": "openai/gpt", "modelContextWindowMin": "1000", "sessionPattern": "agent:**"},
        "contextThreshold": "0.2",
        "freshTailCount": 8,
        "leafChunkTokens": 100,
    }
    assert rules(written) == (
        ContextThresholdOverride(
            name="big",
            model="openai/gpt",
            model_context_window_min=1000,
            session_pattern="agent:**",
            context_threshold=0.2,
            fresh_tail_count=8,
            leaf_chunk_tokens=100,
        ),
    )


@pytest.mark.parametrize(
    ("written", "field", "allowed"),
    [
        ("x", "", "an object"),
        ({}, ".match", "an object with at least one of model"),
        ({"match": []}, ".match", "an object with at least one of model"),
        (rule(), ".match", "at least one of model"),
        ({"match": {"model": "m"}}, ".contextThreshold", "a number from 0 to 1"),
        (rule(1.1, model="m"), ".contextThreshold", "a number from 0 to 1"),
        (rule(model=" "), ".match.model", "a text that is not blank"),
        (rule(model=5), ".match.model", "a text"),
        (rule(sessionPattern=""), ".match.sessionPattern", "a text that is not blank"),
        (rule(modelContextWindowMin=0), ".match.modelContextWindowMin", "a whole number of at least 1"),
        (rule(modelContextWindowMax="x"), ".match.modelContextWindowMax", "a whole number of at least 1"),
        (rule(modelContextWindowMin=9, modelContextWindowMax=8), ".match.modelContextWindowMin", "at most"),
        (rule(family="gpt"), ".match.family", "only the fields model"),
        (rule(model="a", modelContextWindowMin=None), ".match.modelContextWindowMin", "a whole number"),
        ({**rule(model="m"), "freshTailCount": 0}, ".freshTailCount", "a whole number of at least 1"),
        ({**rule(model="m"), "leafChunkTokens": 0}, ".leafChunkTokens", "a whole number of at least 1"),
        ({**rule(model="m"), "when": "always"}, ".when", "only the fields name"),
        (rule(sessionPattern="a", session_pattern="a"), ".match.session_pattern", "each field once"),
    ],
)
def test_a_wrong_rule_is_named_by_its_place_and_field(written: object, field: str, allowed: str) -> None:
    with pytest.raises(BadSetting) as caught:
        rules(rule(model="fine"), written)
    assert caught.value.key == f"contextThresholdOverrides[1]{field}"
    assert allowed in caught.value.allowed


def test_a_list_is_needed() -> None:
    with pytest.raises(BadSetting, match="a list of rules"):
        load({"contextThresholdOverrides": {"match": {}}}, env={})


@pytest.mark.parametrize(
    ("match", "given", "holds"),
    [
        ({"model": "openai/gpt"}, {"provider": "openai", "model": "gpt"}, True),
        ({"model": "gpt"}, {"provider": "openai", "model": "gpt"}, True),
        ({"model": "gpt"}, {"model": "gpt-2"}, False),
        ({"model": "gpt"}, {}, False),
        ({"modelContextWindowMin": 10}, {"window": 10}, True),
        ({"modelContextWindowMin": 10}, {"window": 9}, False),
        ({"modelContextWindowMax": 10}, {"window": 10}, True),
        ({"modelContextWindowMax": 10}, {"window": 11}, False),
        ({"modelContextWindowMax": 10}, {}, False),
        ({"sessionPattern": "agent:*:x"}, {"session": "agent:main:x"}, True),
        ({"sessionPattern": "agent:*"}, {"session": "agent:main:x"}, False),
        ({"sessionPattern": "agent:**", "model": "gpt"}, {"session": "agent:main:x"}, False),
        ({"sessionPattern": "**", "model": "gpt"}, {"session": "a", "model": "gpt"}, True),
    ],
)
def test_all_conditions_must_hold(match: dict[str, Any], given: dict[str, Any], holds: bool) -> None:
    (parsed,) = rules(rule(**match))
    assert (choose_override((parsed,), **given) is parsed) is holds


def test_the_most_specific_rule_applies_and_of_equals_the_first() -> None:
    parsed = rules(
        rule(0.1, modelContextWindowMin=1),
        rule(0.2, modelContextWindowMax=99),
        rule(0.3, modelContextWindowMin=1, modelContextWindowMax=99),
        rule(0.4, sessionPattern="s"),
        rule(0.5, model="m"),
        rule(0.6, model="p/m"),
    )
    assert [one.specificity for one in parsed] == [20, 20, 40, 50, 100, 100]

    def chosen(**given: Any) -> float | None:
        found = choose_override(parsed, **given)
        return None if found is None else found.context_threshold

    assert chosen(window=5) == 0.3
    assert chosen(window=100) == 0.1
    assert chosen(window=5, session="s") == 0.4
    assert chosen(window=5, session="s", provider="p", model="m") == 0.5
    assert chosen(model="other") is None


@given(
    st.lists(
        st.builds(
            ContextThresholdOverride,
            context_threshold=st.floats(0, 1),
            model=st.sampled_from([None, "m", "p/m"]),
            session_pattern=st.sampled_from([None, "s", "**"]),
            model_context_window_min=st.sampled_from([None, 1, 50]),
        ).filter(lambda one: one.specificity > 0),
        max_size=5,
    )
)
def test_the_choice_is_never_beaten(candidates: list[ContextThresholdOverride]) -> None:
    settings = Settings(context_threshold_overrides=tuple(candidates))
    given = {"provider": "p", "model": "m", "window": 20, "session": "s"}
    best = choose_override(settings.context_threshold_overrides, **given)  # type: ignore[arg-type]
    holding = [one for one in candidates if choose_override((one,), **given)]  # type: ignore[arg-type]
    assert (best is None) == (not holding)
    if best is not None:
        assert best == next(one for one in holding if one.specificity == max(item.specificity for item in holding))
