"""Settings for models: order of calls, threshold overrides, fallback routes, prices."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from lossless.errors import BadSetting
from lossless.settings.setting import TEXT, UNSET, InvalidValue, Number, TextList, ValueKind, snake_case, whole_number


@dataclass(frozen=True, slots=True)
class Route:
    """A model and its provider."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextThresholdOverride:
    """One rule. The conditions are `model`, the two window bounds and `session_pattern`."""

    context_threshold: float
    name: str = ""
    model: str | None = None
    model_context_window_min: int | None = None
    model_context_window_max: int | None = None
    session_pattern: str | None = None
    fresh_tail_count: int | None = None
    leaf_chunk_tokens: int | None = None

    def __post_init__(self) -> None:
        low, high = self.model_context_window_min, self.model_context_window_max
        if low is not None and high is not None and low > high:
            raise InvalidValue(f"at most modelContextWindowMax ({high})", ".match.modelContextWindowMin", low)

    @property
    def specificity(self) -> int:
        """How specific the rule is: a model 100, a session pattern 50, each window bound 20."""
        conditions = (self.model, self.session_pattern, self.model_context_window_min, self.model_context_window_max)
        return sum(weight for one, weight in zip(conditions, (100, 50, 20, 20), strict=True) if one is not None)


def choose_override(
    rules: Sequence[ContextThresholdOverride],
    *,
    provider: str | None = None,
    model: str | None = None,
    window: int | None = None,
    session: str | None = None,
) -> ContextThresholdOverride | None:
    """The most specific rule of which every condition is met, or None; a condition on an unknown value is not.

    `window` is the host's value for the model, never a budget.
    """
    from lossless.model.conversations import matches_any

    def holds(rule: ContextThresholdOverride) -> bool:
        if rule.model is not None and rule.model not in (model, f"{provider}/{model}"):
            return False
        if rule.session_pattern is not None and not matches_any(session or "", [rule.session_pattern]):
            return False
        low, high = rule.model_context_window_min, rule.model_context_window_max
        if low is None and high is None:
            return True
        return window is not None and (low or 0) <= window and (high is None or window <= high)

    return max(filter(holds, rules), key=lambda rule: rule.specificity, default=None)


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """A model's price in US dollars per million tokens; `model` is `provider/model`."""

    model: str
    input: float
    output: float
    #: For tokens read from and written to a cache; None means the input price.
    cache_read: float | None = None
    cache_write: float | None = None


class ObjectKind(ValueKind):
    """An object with some fields, by their names in config files; its value has them by attribute, in snake case.

    The fields of an object in it are among its own. `what` is said of anything that is no object.
    """

    def __init__(self, what: str, fields: Mapping[str, ValueKind], required: Mapping[str, str] | None = None) -> None:
        self.what, self.fields, self.required = what, fields, required or {}

    def check(self, value: object) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise InvalidValue(self.what, "", value)
        found: dict[str, Any] = {}
        given = set()
        for key, item in value.items():
            name = next((name for name in self.fields if key in (name, snake_case(name))), None)
            if name is None or name in given:
                raise InvalidValue(
                    "each field once" if name else f"only the fields {', '.join(self.fields)}", f".{key}", item
                )
            given.add(name)
            with _inside(f".{key}", item):
                read = self.fields[name].read(item)
            if read is UNSET and name != "name":
                raise InvalidValue("a text that is not blank", f".{key}", item)
            found |= read if isinstance(read, dict) else {} if read is UNSET else {snake_case(name): read}
        if not (found or self.required):
            raise InvalidValue(self.what, "", value)
        for name, allowed in self.required.items():
            if name not in given:
                raise InvalidValue(allowed, f".{name}", None)
        return found

    def fields_of(self, record: object) -> dict[str, object]:
        """The fields of a record that are set, as a config file has them."""
        values = {
            name: kind.fields_of(record) if isinstance(kind, ObjectKind) else getattr(record, snake_case(name))
            for name, kind in self.fields.items()
        }
        return {name: value for name, value in values.items() if value is not None and (name, value) != ("name", "")}

    def schema(self) -> dict[str, object]:
        required = {"required": list(self.required)} if self.required else {"minProperties": 1}
        fields = {name: kind.schema() for name, kind in self.fields.items()}
        return {"type": "object", "additionalProperties": False, **required, "properties": fields}


@contextmanager
def _inside(at: str, value: object) -> Iterator[None]:
    """Errors in a part of a value name the place of the part."""
    try:
        yield
    except InvalidValue as refused:
        wrong = refused.value if refused.at else value
        raise InvalidValue(refused.allowed, f"{at}{refused.at}", wrong) from None


class RecordList(ValueKind):
    """Records that a config file holds as a list of objects; `from_text` reads such a list from a variable."""

    def __init__(
        self, record: type, word: str, sentence: str, item: ObjectKind, from_text: Callable[[str], object] | None = None
    ) -> None:
        self.record, self.word, self.sentence, self.item, self.from_text = record, word, sentence, item, from_text

    def check(self, value: object) -> tuple[Any, ...]:
        name = self.record.__name__
        if not isinstance(value, (list, tuple)):
            raise InvalidValue(self.sentence if self.sentence.startswith("a list") else f"a list of {name}")
        for place, item in enumerate(value):
            if not isinstance(item, self.record):
                raise InvalidValue(f"a {name}", f"[{place}]", item)
        return self.read(self.dump(value))

    def read(self, value: object) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            raise InvalidValue(self.sentence)
        records = []
        for place, item in enumerate(value):
            with _inside(f"[{place}]", item):
                records.append(self.record(**self.item.check(item)))
        return tuple(records)

    def parse(self, text: str) -> tuple[object, str]:
        if self.from_text is None:
            return super().parse(text)
        found = self.from_text(text) if text.strip() else None
        return self.read(found) if found else UNSET, ""

    def dump(self, value: Any) -> Any:
        return [self.item.fields_of(record) for record in value]

    def schema(self) -> dict[str, object]:
        return {"type": "array", "items": self.item.schema()}


class PriceList(RecordList):
    """Prices that a config file holds as an object by model."""

    def read(self, value: object) -> tuple[Any, ...]:
        if not isinstance(value, Mapping):
            raise InvalidValue(self.sentence)
        prices: dict[str, ModelPrice] = {}
        for name, written in value.items():
            provider, _, model = (part.strip() for part in (name if isinstance(name, str) else "").partition("/"))
            if not (provider and model):
                raise InvalidValue("a model as provider/model", f".{name}", name)
            with _inside(f".{name}", written):
                price = ModelPrice(f"{provider.lower()}/{model}", **self.item.check(written))
            if price.model in prices:
                raise InvalidValue("each model once", f".{price.model}", price.model)
            prices[price.model] = price
        return tuple(prices.values())

    def dump(self, value: Any) -> Any:
        if len({price.model for price in value}) < len(value):
            raise InvalidValue("each model once")
        return {price.model: self.item.fields_of(price) for price in value}

    def schema(self) -> dict[str, object]:
        return {"type": "object", "additionalProperties": self.item.schema()}


def _routes_in_text(text: str) -> list[dict[str, str]]:
    pairs = (pair.strip().partition("/") for pair in text.split(",") if pair.strip())
    return [{"provider": provider, "model": model} for provider, _, model in pairs]


def _prices_in_text(text: str) -> object:
    import json

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidValue(f"JSON: {_PRICES_SENTENCE}") from None


_DOLLARS = "in US dollars for a million tokens"
_PRICES_SENTENCE = (
    f'{{"provider/model": {{"input": 3, "output": 15, "cacheRead"?: 0.3, "cacheWrite"?: 3.75}}}} {_DOLLARS}'
)
_CONDITIONS = ("model", "modelContextWindowMin", "modelContextWindowMax", "sessionPattern")
_SOME_CONDITION = "at least one of " + ", ".join(_CONDITIONS)
_POSITIVE = whole_number(1)
_MATCH = ObjectKind(
    f"an object with {_SOME_CONDITION}", dict(zip(_CONDITIONS, (TEXT, _POSITIVE, _POSITIVE, TEXT), strict=True))
)
_OVERRIDE = ObjectKind(
    "an object",
    {
        "name": TEXT,
        "match": _MATCH,
        "contextThreshold": Number(0, 1),
        "freshTailCount": _POSITIVE,
        "leafChunkTokens": _POSITIVE,
    },
    {"match": _MATCH.what, "contextThreshold": Number(0, 1).sentence},
)
_BOTH = "an object with both provider and model"
_ROUTE = ObjectKind(
    "an object {provider, model}", {"provider": TEXT, "model": TEXT}, {"provider": _BOTH, "model": _BOTH}
)
_PRICE = ObjectKind(
    f"an object with input and output, {_DOLLARS}",
    dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), Number(0)),
    dict.fromkeys(("input", "output"), f"{Number(0).sentence}, {_DOLLARS}"),
)
SCOPES = TextList(
    "list of rules",
    "a list of texts such as 'agent:support:**=session'; the scope is session, project, agent or all",
    "a text such as 'agent:support:**=session'",
    lambda text: re.fullmatch(r"(?s).*\S.*=\s*(?:session|project|agent|all)\s*", text) is not None,
    UNSET,
)
OVERRIDES = RecordList(
    ContextThresholdOverride,
    "list of rules",
    "a list of rules {name?, match {…}, contextThreshold, freshTailCount?, leafChunkTokens?}",
    _OVERRIDE,
)
ROUTES = RecordList(
    Route,
    "list of models",
    "a list of {provider, model}; in the environment provider/model,provider/model",
    _ROUTE,
    _routes_in_text,
)
PRICES = PriceList(ModelPrice, "prices by model", _PRICES_SENTENCE, _PRICE, _prices_in_text)


@dataclass(frozen=True, slots=True)
class ModelCandidate:
    """A model that may be called, and where it was configured."""

    provider: str
    model: str
    source: Literal["settings", "fallback"] = "settings"

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"


def candidate_order(
    model: str, provider: str = "", fallbacks: Sequence[tuple[str, str]] = ()
) -> tuple[ModelCandidate, ...]:
    """The models to call, without duplicates; `fallbacks` are pairs of provider and model. Blank ones are ignored.

    A model may be written `provider/model`; that provider takes precedence over `provider`. Empty when none is named:
    a key in the environment alone does not select a model. Raises `BadSetting` for a model without a provider.
    """
    unique: dict[tuple[str, str], ModelCandidate] = {}
    for number, (owner, name) in enumerate([(provider, model), *fallbacks]):
        owner, name = owner.strip(), name.strip()
        prefix, _, rest = (part.strip() for part in name.partition("/"))
        if prefix and rest and not (number and owner):
            owner, name = prefix, rest
        if name and not owner:
            key, source = ("fallbackProviders", "fallback") if number else ("summaryModel", "settings")
            raise BadSetting(key, name, source, "provider/model, or a model with its provider set separately")
        if name:
            found = ModelCandidate(owner.lower(), name, "fallback" if number else "settings")
            unique.setdefault((found.provider, found.model), found)
    return tuple(unique.values())
