"""Prices of models: read whole from every place, refused by model and field."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.errors import BadSetting
from lossless.settings import ModelPrice, Settings, load, to_config
from lossless.settings.write import set_value

if TYPE_CHECKING:
    from pathlib import Path

HAIKU: dict[str, Any] = {"anthropic/claude-haiku-4-5": {"input": 1, "output": 5, "cacheRead": 0.1, "cacheWrite": 1.25}}
PRICE = ModelPrice("anthropic/claude-haiku-4-5", 1, 5, 0.1, 1.25)


def prices(written: object) -> tuple[ModelPrice, ...]:
    return load({"modelPrices": written}, env={}).settings.model_prices


def test_prices_are_read_from_a_config_and_from_the_environment() -> None:
    assert prices(HAIKU) == (PRICE,)
    assert prices({}) == Settings().model_prices == ()
    env = {"LCM_MODEL_PRICES": json.dumps(HAIKU)}
    assert load({}, env=env).settings.model_prices == (PRICE,)
    assert load({"modelPrices": HAIKU}, env={"LCM_MODEL_PRICES": " "}).settings.model_prices == (PRICE,)


def test_a_price_is_found_however_its_provider_is_written() -> None:
    assert prices({" OpenAI/GPT-x ": {"input": "2", "output": 4, "cache_read": 1}}) == (
        ModelPrice("openai/GPT-x", 2, 4, 1),
    )


@pytest.mark.parametrize(
    ("written", "field", "allowed"),
    [
        ([], "", "in US dollars for a million tokens"),
        ({"m": {"input": 1, "output": 1}}, ".m", "a model as provider/model"),
        ({"p/": {"input": 1, "output": 1}}, ".p/", "a model as provider/model"),
        ({"p/m": 3}, ".p/m", "an object with input and output"),
        ({"p/m": {"input": 1}}, ".p/m.output", "a number of at least 0"),
        ({"p/m": {}}, ".p/m.input", "a number of at least 0"),
        ({"p/m": {"input": -1, "output": 1}}, ".p/m.input", "a number of at least 0"),
        ({"p/m": {"input": "free", "output": 1}}, ".p/m.input", "a number of at least 0"),
        ({"p/m": {"input": 1, "output": float("inf")}}, ".p/m.output", "a number of at least 0"),
        ({"p/m": {"input": 1, "output": 1, "cacheRead": None}}, ".p/m.cacheRead", "a number of at least 0"),
        ({"p/m": {"input": 1, "output": 1, "perCall": 1}}, ".p/m.perCall", "only the fields input, output"),
        ({"p/m": {"input": 1, "output": 1}, "P/m": {"input": 2, "output": 2}}, ".p/m", "each model once"),
    ],
)
def test_a_wrong_price_is_named_by_its_model_and_field(written: object, field: str, allowed: str) -> None:
    with pytest.raises(BadSetting) as caught:
        prices(written)
    assert caught.value.key == f"modelPrices{field}"
    assert allowed in caught.value.allowed


def test_a_variable_that_is_no_json_is_refused() -> None:
    with pytest.raises(BadSetting, match="JSON: ") as caught:
        load({}, env={"LCM_MODEL_PRICES": "haiku=1"})
    assert caught.value.source == "environment variable LCM_MODEL_PRICES"


@given(
    st.lists(
        st.builds(
            ModelPrice,
            st.from_regex(r"[a-z]{1,5}/[A-Za-z0-9.:-]{1,8}", fullmatch=True),
            st.floats(0, 1e6),
            st.floats(0, 1e6),
            st.none() | st.floats(0, 1e6),
            st.none() | st.floats(0, 1e6),
        ),
        unique_by=lambda price: price.model,
        max_size=4,
    )
)
def test_what_a_config_file_would_hold_is_read_back(written: list[ModelPrice]) -> None:
    settings = Settings(model_prices=tuple(written))
    assert hash(settings) == hash(Settings(model_prices=tuple(written)))
    assert prices(json.loads(json.dumps(to_config(settings)["modelPrices"]))) == settings.model_prices


@pytest.mark.parametrize("name", ["lossless.toml", "openclaw.json"])
def test_prices_are_written_into_a_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("" if name.endswith("toml") else "{}", encoding="utf-8")
    for written in (HAIKU, {**HAIKU, "openai/gpt-5-mini": {"input": 0.25, "output": 2}}):
        set_value(path, "modelPrices", written)
        assert load(path, env={}).settings.model_prices == prices(written)
