"""Settings for models: order of calls, threshold overrides, fallback routes, prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

from lossless.errors import BadSetting
from lossless.settings.kinds import TEXT, UNSET, InvalidValue, Number, ValueKind, whole_number

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

    def holds(
        self,
        *,
        provider: str | None = None,
        model: str | None = None,
        window: int | None = None,
        session: str | None = None,
    ) -> bool:
        """Whether every condition is met; a condition on an unknown value is not."""
        if self.model is not None and self.model not in (model, f"{provider}/{model}"):
            return False
        if self.session_pattern is not None:
            from lossless.model.conversations import matches_any

            if not matches_any(session or "", [self.session_pattern]):
                return False
        low, high = self.model_context_window_min, self.model_context_window_max
        if low is None and high is None:
            return True
        return window is not None and (low or 0) <= window and (high is None or window <= high)


def choose_override(
    rules: Sequence[ContextThresholdOverride],
    *,
    provider: str | None = None,
    model: str | None = None,
    window: int | None = None,
    session: str | None = None,
) -> ContextThresholdOverride | None:
    """The rule that applies, or None. `window` is the host's value for the model, never a budget."""
    holding = [rule for rule in rules if rule.holds(provider=provider, model=model, window=window, session=session)]
    return max(holding, key=lambda rule: rule.specificity, default=None)


_CONDITIONS: Mapping[str, tuple[str, ValueKind]] = {
    "model": ("model", TEXT),
    "modelContextWindowMin": ("model_context_window_min", whole_number(1)),
    "modelContextWindowMax": ("model_context_window_max", whole_number(1)),
    "sessionPattern": ("session_pattern", TEXT),
}
_EFFECTS: Mapping[str, tuple[str, ValueKind]] = {
    "name": ("name", TEXT),
    "contextThreshold": ("context_threshold", Number(0, 1)),
    "freshTailCount": ("fresh_tail_count", whole_number(1)),
    "leafChunkTokens": ("leaf_chunk_tokens", whole_number(1)),
}


RecallReach: TypeAlias = Literal["session", "project", "agent", "all"]


@dataclass(frozen=True, slots=True)
class RecallScopeRule:
    """How far the sessions that fit a pattern can look."""

    pattern: str
    scope: RecallReach

    def __str__(self) -> str:
        return f"{self.pattern}={self.scope}"


_SCOPE_SENTENCE = "a list of texts such as 'agent:support:**=session'; the scope is session, project, agent or all"


def _read_scopes(value: object) -> tuple[RecallScopeRule, ...]:
    """Rules, each a text `<session pattern>=<scope>`."""
    if isinstance(value, str):
        value = [item for item in value.split(",") if item.strip()]
    if not isinstance(value, (list, tuple)):
        raise InvalidValue(_SCOPE_SENTENCE)
    rules = []
    for place, rule in enumerate(value):
        pattern, _, scope = (part.strip() for part in (rule if isinstance(rule, str) else "").rpartition("="))
        if not pattern or scope not in get_args(RecallReach):
            raise InvalidValue("a text such as 'agent:support:**=session'", f"[{place}]", rule)
        rules.append(RecallScopeRule(pattern, cast(RecallReach, scope)))
    return tuple(rules)


class RecordList(ValueKind):
    """Records that a config file holds as a list or an object; `schema_` describes it, `from_text` reads a variable."""

    __slots__ = ("dump_all", "from_text", "read_all", "record", "schema_", "sentence", "word")

    def __init__(
        self,
        record: type | tuple[type, ...],
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
        name = "text" if isinstance(self.record, tuple) else self.record.__name__
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


def _object_schema(
    kinds: Mapping[str, tuple[str, ValueKind]],
    required: Sequence[str] = (),
    inner: Mapping[str, object] | None = None,
    **more: object,
) -> dict[str, object]:
    described = {**(inner or {}), **{key: kind.schema() for key, (_, kind) in kinds.items()}}
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "additionalProperties": False, **needed, **more, "properties": described}


_OVERRIDE_SENTENCE = "a list of rules {name?, match {…}, contextThreshold, freshTailCount?, leafChunkTokens?}"


def _read_overrides(value: object) -> tuple[ContextThresholdOverride, ...]:
    """An unknown field or a rule without a condition is refused."""
    if not isinstance(value, (list, tuple)):
        raise InvalidValue(_OVERRIDE_SENTENCE)
    return tuple(_rule(f"[{place}]", rule) for place, rule in enumerate(value))


_ROUTE_FIELDS: Mapping[str, tuple[str, ValueKind]] = {"provider": ("provider", TEXT), "model": ("model", TEXT)}
_ROUTE_SENTENCE = "a list of {provider, model}; in the environment provider/model,provider/model"


def _read_routes(value: object) -> tuple[Route, ...]:
    if not isinstance(value, (list, tuple)):
        raise InvalidValue(_ROUTE_SENTENCE)
    routes = []
    for place, item in enumerate(value):
        if not isinstance(item, Mapping):
            raise InvalidValue("an object {provider, model}", f"[{place}]", item)
        found = read_fields(f"[{place}]", item, _ROUTE_FIELDS)
        if len(found) != len(_ROUTE_FIELDS):
            raise InvalidValue("an object with both provider and model", f"[{place}]", dict(item))
        routes.append(Route(str(found["provider"]), str(found["model"])))
    return tuple(routes)


def _rule(at: str, value: object) -> ContextThresholdOverride:
    if not isinstance(value, Mapping):
        raise InvalidValue("an object", at, value)
    match = value.get("match")
    if not isinstance(match, Mapping):
        raise InvalidValue("an object with at least one of " + ", ".join(_CONDITIONS), f"{at}.match", match)
    conditions = read_fields(f"{at}.match", match, _CONDITIONS)
    if not conditions:
        raise InvalidValue("at least one of " + ", ".join(_CONDITIONS), f"{at}.match", dict(match))
    rest = {key: item for key, item in value.items() if key != "match"}
    effects = read_fields(at, rest, _EFFECTS)
    if "context_threshold" not in effects:
        raise InvalidValue(Number(0, 1).allowed(), f"{at}.contextThreshold", None)
    rule = ContextThresholdOverride(**conditions, **effects)  # type: ignore[arg-type]
    low, high = rule.model_context_window_min, rule.model_context_window_max
    if low is not None and high is not None and low > high:
        raise InvalidValue(f"at most modelContextWindowMax ({high})", f"{at}.match.modelContextWindowMin", low)
    return rule


def read_fields(
    at: str, value: Mapping[object, object], kinds: Mapping[str, tuple[str, ValueKind]]
) -> dict[str, object]:
    """The fields of an object by attribute, each read by its kind; `at` is its path, for the error."""
    spelled = {**kinds, **{attribute: (attribute, kind) for attribute, kind in kinds.values()}}
    found: dict[str, object] = {}
    for key, item in value.items():
        if not isinstance(key, str) or key not in spelled:
            raise InvalidValue("only the fields " + ", ".join(kinds), f"{at}.{key}", item)
        attribute, kind = spelled[key]
        if attribute in found:
            raise InvalidValue("each field once", f"{at}.{key}", item)
        try:
            read = kind.read(item)
        except InvalidValue as refused:
            raise InvalidValue(refused.allowed, f"{at}.{key}", item) from None
        if read is UNSET:
            if attribute != "name":
                raise InvalidValue("a text that is not blank", f"{at}.{key}", item)
            continue
        found[attribute] = read
    return found


def _present(record: object, kinds: Mapping[str, tuple[str, ValueKind]]) -> dict[str, object]:
    """The fields of a record that have a value, under the names of config files."""
    values = {key: getattr(record, attribute) for key, (attribute, _) in kinds.items()}
    return {key: value for key, value in values.items() if value not in (None, "")}


def _override_json(rule: ContextThresholdOverride) -> dict[str, object]:
    effects = _present(rule, _EFFECTS)
    name = {"name": effects.pop("name")} if "name" in effects else {}
    return {**name, "match": _present(rule, _CONDITIONS), **effects}


_FIELDS: Mapping[str, tuple[str, ValueKind]] = {
    "input": ("input", Number(0)),
    "output": ("output", Number(0)),
    "cacheRead": ("cache_read", Number(0)),
    "cacheWrite": ("cache_write", Number(0)),
}
_NEEDED = ("input", "output")


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """A model's price in US dollars per million tokens; `model` is `provider/model`."""

    model: str
    input: float
    output: float
    #: For tokens read from and written to a cache; None means the input price.
    cache_read: float | None = None
    cache_write: float | None = None


_PRICE_SENTENCE = (
    '{"provider/model": {"input": 3, "output": 15, "cacheRead"?: 0.3, "cacheWrite"?: 3.75}} '
    "in US dollars for a million tokens"
)


def _read_prices(value: object) -> tuple[ModelPrice, ...]:
    """An unknown field is refused."""
    if not isinstance(value, Mapping):
        raise InvalidValue(_PRICE_SENTENCE)
    prices = tuple(_price(model, written) for model, written in value.items())
    names = [price.model for price in prices]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise InvalidValue("each model once", f".{name}", name)
    return prices


def _prices_in_text(text: str) -> object:
    import json

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidValue(f"JSON: {_PRICE_SENTENCE}") from None


def _dump_prices(prices: Sequence[ModelPrice]) -> dict[str, object]:
    if len({price.model for price in prices}) < len(prices):
        raise InvalidValue("each model once")
    return {price.model: _present(price, _FIELDS) for price in prices}


def _price(name: object, written: object) -> ModelPrice:
    at = f".{name}"
    provider, slash, model = name.partition("/") if isinstance(name, str) else ("", "", "")
    if not (slash and provider.strip() and model.strip()):
        raise InvalidValue("a model as provider/model", at, name)
    if not isinstance(written, Mapping):
        raise InvalidValue("an object with input and output, in US dollars for a million tokens", at, written)
    found = read_fields(at, written, _FIELDS)
    for needed in _NEEDED:
        if needed not in found:
            raise InvalidValue(f"{Number(0).allowed()}, in US dollars for a million tokens", f"{at}.{needed}", None)
    return ModelPrice(f"{provider.strip().lower()}/{model.strip()}", **found)  # type: ignore[arg-type]


OVERRIDES = RecordList(
    ContextThresholdOverride,
    "list of rules",
    _OVERRIDE_SENTENCE,
    _read_overrides,
    lambda rules: [_override_json(rule) for rule in rules],
    {
        "type": "array",
        "items": _object_schema(
            _EFFECTS, ("match", "contextThreshold"), {"match": _object_schema(_CONDITIONS, minProperties=1)}
        ),
    },
)
ROUTES = RecordList(
    Route,
    "list of models",
    _ROUTE_SENTENCE,
    _read_routes,
    lambda routes: [{"provider": route.provider, "model": route.model} for route in routes],
    {"type": "array", "items": _object_schema(_ROUTE_FIELDS, ("provider", "model"))},
    lambda text: [
        {"provider": provider, "model": model}
        for provider, _, model in (pair.strip().partition("/") for pair in text.split(",") if pair.strip())
    ],
)
SCOPES = RecordList(
    (RecallScopeRule, str),
    "list of rules",
    _SCOPE_SENTENCE,
    _read_scopes,
    lambda rules: list(map(str, rules)),
    {"type": "array", "items": {"type": "string"}},
    str,
)
PRICES = RecordList(
    ModelPrice,
    "prices by model",
    _PRICE_SENTENCE,
    _read_prices,
    _dump_prices,
    {"type": "object", "additionalProperties": _object_schema(_FIELDS, _NEEDED)},
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
