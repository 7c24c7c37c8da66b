"""Settings for models: order of calls, threshold overrides, fallback routes, prices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from lossless.errors import BadSetting
from lossless.settings.setting import TEXT, UNSET, InvalidValue, Number, TextList, ValueKind, snake_case, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


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


class RecordList(ValueKind):
    """Records that a config file holds as a list or an object; `schema_` describes it, `from_text` reads a variable."""

    def __init__(
        self,
        record: type,
        word: str,
        sentence: str,
        read_all: Callable[[object], tuple[Any, ...]],
        dump_all: Callable[[Sequence[Any]], object],
        schema: dict[str, object],
        from_text: Callable[[str], object] | None = None,
    ) -> None:
        self.record, self.word, self.sentence, self.schema_ = record, word, sentence, schema
        self.read_all, self.dump_all, self.from_text = read_all, dump_all, from_text

    def check(self, value: object) -> tuple[Any, ...]:
        name = self.record.__name__
        if not isinstance(value, (list, tuple)):
            raise InvalidValue(self.sentence if self.sentence.startswith("a list") else f"a list of {name}")
        for place, item in enumerate(value):
            if not isinstance(item, self.record):
                raise InvalidValue(f"a {name}", f"[{place}]", item)
        return self.read(self.dump_all(value))

    def read(self, value: object) -> tuple[Any, ...]:
        return self.read_all(value)

    def parse(self, text: str) -> tuple[object, str]:
        if self.from_text is None:
            return super().parse(text)
        found = self.from_text(text) if text.strip() else None
        return self.read(found) if found else UNSET, ""

    def dump(self, value: object) -> object:
        return self.dump_all(value if isinstance(value, (list, tuple)) else ())

    def schema(self) -> dict[str, object]:
        return self.schema_


#: The fields of a record by their names in config files, which its attributes have in snake case.
_Fields: TypeAlias = Mapping[str, ValueKind]
_CONDITIONS: Final[_Fields] = {
    "model": TEXT,
    "modelContextWindowMin": whole_number(1),
    "modelContextWindowMax": whole_number(1),
    "sessionPattern": TEXT,
}
_EFFECTS: Final[_Fields] = {
    "name": TEXT,
    "contextThreshold": Number(0, 1),
    "freshTailCount": whole_number(1),
    "leafChunkTokens": whole_number(1),
}
_ROUTE: Final[_Fields] = {"provider": TEXT, "model": TEXT}
_PRICE: Final[_Fields] = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), Number(0))


def _read_fields(at: str, value: object, kinds: _Fields, what: str) -> dict[str, Any]:
    """The fields of an object by attribute, each read by its kind; for the error, `at` is its path and `what` it is."""
    if not isinstance(value, Mapping):
        raise InvalidValue(what, at, value)
    found: dict[str, Any] = {}
    for key, item in value.items():
        name = next((name for name in kinds if key in (name, snake_case(name))), None)
        if name is None:
            raise InvalidValue("only the fields " + ", ".join(kinds), f"{at}.{key}", item)
        if snake_case(name) in found:
            raise InvalidValue("each field once", f"{at}.{key}", item)
        try:
            read = kinds[name].read(item)
        except InvalidValue as refused:
            raise InvalidValue(refused.allowed, f"{at}.{key}", item) from None
        if read is not UNSET:
            found[snake_case(name)] = read
        elif name != "name":
            raise InvalidValue("a text that is not blank", f"{at}.{key}", item)
    return found


def _dump_fields(record: object, kinds: _Fields) -> dict[str, object]:
    values = {key: getattr(record, snake_case(key)) for key in kinds}
    return {key: value for key, value in values.items() if value not in (None, "")}


def _object_schema(
    kinds: _Fields, required: Sequence[str] = (), inner: Mapping[str, object] | None = None, **more: object
) -> dict[str, object]:
    described = {**(inner or {}), **{key: kind.schema() for key, kind in kinds.items()}}
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "additionalProperties": False, **needed, **more, "properties": described}


def _list_of(sentence: str, read_one: Callable[[str, object], Any]) -> Callable[[object], tuple[Any, ...]]:
    def read_all(value: object) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            raise InvalidValue(sentence)
        return tuple(read_one(f"[{place}]", item) for place, item in enumerate(value))

    return read_all


def _read_override(at: str, value: object) -> ContextThresholdOverride:
    if not isinstance(value, Mapping):
        raise InvalidValue("an object", at, value)
    some, match = "at least one of " + ", ".join(_CONDITIONS), value.get("match")
    conditions = _read_fields(f"{at}.match", match, _CONDITIONS, f"an object with {some}")
    if not conditions:
        raise InvalidValue(some, f"{at}.match", match)
    effects = _read_fields(at, {key: item for key, item in value.items() if key != "match"}, _EFFECTS, "an object")
    if "context_threshold" not in effects:
        raise InvalidValue(Number(0, 1).allowed(), f"{at}.contextThreshold", None)
    rule = ContextThresholdOverride(**conditions, **effects)
    low, high = rule.model_context_window_min, rule.model_context_window_max
    if low is not None and high is not None and low > high:
        raise InvalidValue(f"at most modelContextWindowMax ({high})", f"{at}.match.modelContextWindowMin", low)
    return rule


def _dump_override(rule: ContextThresholdOverride) -> dict[str, object]:
    effects = _dump_fields(rule, _EFFECTS)
    name = {"name": effects.pop("name")} if "name" in effects else {}
    return {**name, "match": _dump_fields(rule, _CONDITIONS), **effects}


def _read_route(at: str, value: object) -> Route:
    found = _read_fields(at, value, _ROUTE, "an object {provider, model}")
    if len(found) != len(_ROUTE):
        raise InvalidValue("an object with both provider and model", at, value)
    return Route(**found)


def _routes_in_text(text: str) -> list[dict[str, str]]:
    pairs = (pair.strip().partition("/") for pair in text.split(",") if pair.strip())
    return [{"provider": provider, "model": model} for provider, _, model in pairs]


_DOLLARS = "in US dollars for a million tokens"
_PRICES_SENTENCE = (
    f'{{"provider/model": {{"input": 3, "output": 15, "cacheRead"?: 0.3, "cacheWrite"?: 3.75}}}} {_DOLLARS}'
)


def _read_prices(value: object) -> tuple[ModelPrice, ...]:
    if not isinstance(value, Mapping):
        raise InvalidValue(_PRICES_SENTENCE)
    prices: dict[str, ModelPrice] = {}
    for name, written in value.items():
        provider, _, model = (part.strip() for part in (name if isinstance(name, str) else "").partition("/"))
        if not (provider and model):
            raise InvalidValue("a model as provider/model", f".{name}", name)
        found = _read_fields(f".{name}", written, _PRICE, f"an object with input and output, {_DOLLARS}")
        for needed in ("input", "output"):
            if needed not in found:
                raise InvalidValue(f"{Number(0).allowed()}, {_DOLLARS}", f".{name}.{needed}", None)
        price = ModelPrice(f"{provider.lower()}/{model}", **found)
        if price.model in prices:
            raise InvalidValue("each model once", f".{price.model}", price.model)
        prices[price.model] = price
    return tuple(prices.values())


def _prices_in_text(text: str) -> object:
    import json

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidValue(f"JSON: {_PRICES_SENTENCE}") from None


def _dump_prices(prices: Sequence[ModelPrice]) -> dict[str, object]:
    if len({price.model for price in prices}) < len(prices):
        raise InvalidValue("each model once")
    return {price.model: _dump_fields(price, _PRICE) for price in prices}


_OVERRIDES_SENTENCE = "a list of rules {name?, match {…}, contextThreshold, freshTailCount?, leafChunkTokens?}"
_ROUTES_SENTENCE = "a list of {provider, model}; in the environment provider/model,provider/model"
_MATCH = {"match": _object_schema(_CONDITIONS, minProperties=1)}
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
    _OVERRIDES_SENTENCE,
    _list_of(_OVERRIDES_SENTENCE, _read_override),
    lambda rules: [_dump_override(rule) for rule in rules],
    {"type": "array", "items": _object_schema(_EFFECTS, ("match", "contextThreshold"), _MATCH)},
)
ROUTES = RecordList(
    Route,
    "list of models",
    _ROUTES_SENTENCE,
    _list_of(_ROUTES_SENTENCE, _read_route),
    lambda routes: [{"provider": route.provider, "model": route.model} for route in routes],
    {"type": "array", "items": _object_schema(_ROUTE, tuple(_ROUTE))},
    _routes_in_text,
)
PRICES = RecordList(
    ModelPrice,
    "prices by model",
    _PRICES_SENTENCE,
    _read_prices,
    _dump_prices,
    {"type": "object", "additionalProperties": _object_schema(_PRICE, ("input", "output"))},
    _prices_in_text,
)


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
