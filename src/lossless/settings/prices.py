"""What models cost, as a person writes it down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lossless.settings.kinds import UNSET, Kind, Number, Reading, Refused
from lossless.settings.overrides import read_fields

_FIELDS: Mapping[str, tuple[str, Kind]] = {
    "input": ("input", Number(0)),
    "output": ("output", Number(0)),
    "cacheRead": ("cache_read", Number(0)),
    "cacheWrite": ("cache_write", Number(0)),
}
_NEEDED = ("input", "output")


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """A model's price in US dollars for a million tokens; `model` is `provider/model`."""

    model: str
    input: float
    output: float
    #: For tokens read from and written to a cache; None is the price of other input.
    cache_read: float | None = None
    cache_write: float | None = None


class Prices(Kind):
    """Prices by model; in the environment as JSON. Nothing is guessed: an unknown field is refused."""

    __slots__ = ()
    word = "prices by model"

    def allowed(self) -> str:
        return (
            '{"provider/model": {"input": 3, "output": 15, "cacheRead"?: 0.3, "cacheWrite"?: 3.75}} '
            "in US dollars for a million tokens"
        )

    def check(self, value: object) -> tuple[ModelPrice, ...]:
        if not isinstance(value, (list, tuple)):
            raise Refused("a list of ModelPrice")
        for place, price in enumerate(value):
            if not isinstance(price, ModelPrice):
                raise Refused("a ModelPrice", f"[{place}]", price)
        if len({price.model for price in value}) < len(value):
            raise Refused("each model once")
        return self.read(self.dump(value))

    def read(self, value: object) -> tuple[ModelPrice, ...]:
        if not isinstance(value, Mapping):
            raise Refused(self.allowed())
        prices = tuple(_price(model, written) for model, written in value.items())
        names = [price.model for price in prices]
        for place, name in enumerate(names):
            if name in names[:place]:
                raise Refused("each model once", f".{name}", name)
        return prices

    def parse(self, text: str) -> Reading:
        import json

        if not text.strip():
            return Reading(UNSET)
        try:
            written = json.loads(text)
        except (ValueError, RecursionError):
            raise Refused(f"JSON: {self.allowed()}") from None
        return Reading(self.read(written))

    def dump(self, value: object) -> object:
        prices = value if isinstance(value, (list, tuple)) else ()
        return {price.model: _written(price) for price in prices}

    def schema(self) -> dict[str, object]:
        price = {
            "type": "object",
            "additionalProperties": False,
            "required": list(_NEEDED),
            "properties": {key: kind.schema() for key, (_, kind) in _FIELDS.items()},
        }
        return {"type": "object", "additionalProperties": price}


def _price(name: object, written: object) -> ModelPrice:
    at = f".{name}"
    provider, slash, model = name.partition("/") if isinstance(name, str) else ("", "", "")
    if not (slash and provider.strip() and model.strip()):
        raise Refused("a model as provider/model", at, name)
    if not isinstance(written, Mapping):
        raise Refused("an object with input and output, in US dollars for a million tokens", at, written)
    found = read_fields(at, written, _FIELDS)
    for needed in _NEEDED:
        if needed not in found:
            raise Refused(f"{Number(0).allowed()}, in US dollars for a million tokens", f"{at}.{needed}", None)
    return ModelPrice(f"{provider.strip().lower()}/{model.strip()}", **found)  # type: ignore[arg-type]


def _written(price: ModelPrice) -> dict[str, object]:
    values = {key: getattr(price, attribute) for key, (attribute, _) in _FIELDS.items()}
    return {key: value for key, value in values.items() if value is not None}
