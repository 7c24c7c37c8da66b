"""Rules that change the threshold for some models, context sizes or sessions; and model routes.

All conditions of a rule must hold. Of several rules that hold the most specific wins, and of
equally specific ones the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lossless.settings.kinds import UNSET, Kind, Number, Reading, Refused, Text, Whole


@dataclass(frozen=True, slots=True)
class Route:
    """A model and who offers it."""

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
        """How much the rule asks for: a model 100, a session pattern 50, each window bound 20."""
        weights = (
            (self.model, 100),
            (self.session_pattern, 50),
            (self.model_context_window_min, 20),
            (self.model_context_window_max, 20),
        )
        return sum(weight for condition, weight in weights if condition is not None)

    def holds(
        self,
        *,
        provider: str | None = None,
        model: str | None = None,
        window: int | None = None,
        session: str | None = None,
    ) -> bool:
        """Whether every condition is met; a condition about something unknown is not."""
        if self.model is not None and self.model not in (model, f"{provider}/{model}"):
            return False
        if self.session_pattern is not None and not _is_like(session or "", self.session_pattern):
            return False
        low, high = self.model_context_window_min, self.model_context_window_max
        if low is None and high is None:
            return True
        return window is not None and (low or 0) <= window and (high is None or window <= high)


def choose(
    rules: Sequence[ContextThresholdOverride],
    *,
    provider: str | None = None,
    model: str | None = None,
    window: int | None = None,
    session: str | None = None,
) -> ContextThresholdOverride | None:
    """The rule that applies, or None. `window` is what the host says of the model, never a budget."""
    holding = [rule for rule in rules if rule.holds(provider=provider, model=model, window=window, session=session)]
    return max(holding, key=lambda rule: rule.specificity, default=None)


_CONDITIONS: Mapping[str, tuple[str, Kind]] = {
    "model": ("model", Text()),
    "modelContextWindowMin": ("model_context_window_min", Whole(1)),
    "modelContextWindowMax": ("model_context_window_max", Whole(1)),
    "sessionPattern": ("session_pattern", Text()),
}
_EFFECTS: Mapping[str, tuple[str, Kind]] = {
    "name": ("name", Text()),
    "contextThreshold": ("context_threshold", Number(0, 1)),
    "freshTailCount": ("fresh_tail_count", Whole(1)),
    "leafChunkTokens": ("leaf_chunk_tokens", Whole(1)),
}


class Overrides(Kind):
    """A list of rules. Nothing is guessed: an unknown field or a rule without a condition is refused."""

    __slots__ = ()
    word = "list of rules"

    def allowed(self) -> str:
        return "a list of rules {name?, match {…}, contextThreshold, freshTailCount?, leafChunkTokens?}"

    def check(self, value: object) -> tuple[ContextThresholdOverride, ...]:
        if not isinstance(value, (list, tuple)):
            raise Refused(self.allowed())
        for place, rule in enumerate(value):
            if not isinstance(rule, ContextThresholdOverride):
                raise Refused("a ContextThresholdOverride", f"[{place}]", rule)
        return self.read(self.dump(value))

    def read(self, value: object) -> tuple[ContextThresholdOverride, ...]:
        if not isinstance(value, (list, tuple)):
            raise Refused(self.allowed())
        return tuple(_rule(f"[{place}]", rule) for place, rule in enumerate(value))

    def dump(self, value: object) -> object:
        rules = value if isinstance(value, (list, tuple)) else ()
        return [_written(rule) for rule in rules]

    def schema(self) -> dict[str, object]:
        conditions = {key: kind.schema() for key, (_, kind) in _CONDITIONS.items()}
        match = {
            "type": "object",
            "additionalProperties": False,
            "minProperties": 1,
            "properties": conditions,
        }
        rule = {
            "type": "object",
            "additionalProperties": False,
            "required": ["match", "contextThreshold"],
            "properties": {"match": match, **{key: kind.schema() for key, (_, kind) in _EFFECTS.items()}},
        }
        return {"type": "array", "items": rule}


class Routes(Kind):
    """A list of models to fall back to; in the environment `provider/model,provider/model`."""

    __slots__ = ()
    word = "list of models"

    def allowed(self) -> str:
        return "a list of {provider, model}; in the environment provider/model,provider/model"

    def check(self, value: object) -> tuple[Route, ...]:
        if not isinstance(value, (list, tuple)):
            raise Refused(self.allowed())
        for place, route in enumerate(value):
            if not isinstance(route, Route):
                raise Refused("a Route", f"[{place}]", route)
        return self.read(self.dump(value))

    def read(self, value: object) -> tuple[Route, ...]:
        if not isinstance(value, (list, tuple)):
            raise Refused(self.allowed())
        routes = []
        for place, item in enumerate(value):
            if not isinstance(item, Mapping):
                raise Refused("an object {provider, model}", f"[{place}]", item)
            fields = {"provider": ("provider", Text()), "model": ("model", Text())}
            found = read_fields(f"[{place}]", item, fields)
            if len(found) != len(fields):
                raise Refused("an object with both provider and model", f"[{place}]", dict(item))
            routes.append(Route(str(found["provider"]), str(found["model"])))
        return tuple(routes)

    def parse(self, text: str) -> Reading:
        pairs = [pair.strip().partition("/") for pair in text.split(",") if pair.strip()]
        if not pairs:
            return Reading(UNSET)
        return Reading(self.read([{"provider": provider, "model": model} for provider, _, model in pairs]))

    def dump(self, value: object) -> object:
        routes = value if isinstance(value, (list, tuple)) else ()
        return [{"provider": route.provider, "model": route.model} for route in routes]

    def schema(self) -> dict[str, object]:
        route = {
            "type": "object",
            "additionalProperties": False,
            "required": ["provider", "model"],
            "properties": {"provider": {"type": "string"}, "model": {"type": "string"}},
        }
        return {"type": "array", "items": route}


def _is_like(session: str, pattern: str) -> bool:
    from lossless.model.conversations import matches_any

    return matches_any(session, [pattern])


def _rule(at: str, value: object) -> ContextThresholdOverride:
    if not isinstance(value, Mapping):
        raise Refused("an object", at, value)
    match = value.get("match")
    if not isinstance(match, Mapping):
        raise Refused("an object with at least one of " + ", ".join(_CONDITIONS), f"{at}.match", match)
    conditions = read_fields(f"{at}.match", match, _CONDITIONS)
    if not conditions:
        raise Refused("at least one of " + ", ".join(_CONDITIONS), f"{at}.match", dict(match))
    rest = {key: item for key, item in value.items() if key != "match"}
    effects = read_fields(at, rest, _EFFECTS)
    if "context_threshold" not in effects:
        raise Refused(Number(0, 1).allowed(), f"{at}.contextThreshold", None)
    rule = ContextThresholdOverride(**conditions, **effects)  # type: ignore[arg-type]
    low, high = rule.model_context_window_min, rule.model_context_window_max
    if low is not None and high is not None and low > high:
        raise Refused(f"at most modelContextWindowMax ({high})", f"{at}.match.modelContextWindowMin", low)
    return rule


def read_fields(at: str, value: Mapping[object, object], kinds: Mapping[str, tuple[str, Kind]]) -> dict[str, object]:
    """The fields of an object by attribute, each read by its kind; `at` is where it stands, for the error."""
    spelled = {**kinds, **{attribute: (attribute, kind) for attribute, kind in kinds.values()}}
    found: dict[str, object] = {}
    for key, item in value.items():
        if not isinstance(key, str) or key not in spelled:
            raise Refused("only the fields " + ", ".join(kinds), f"{at}.{key}", item)
        attribute, kind = spelled[key]
        if attribute in found:
            raise Refused("each field once", f"{at}.{key}", item)
        try:
            read = kind.read(item)
        except Refused as refused:
            raise Refused(refused.allowed, f"{at}.{key}", item) from None
        if read is UNSET:
            if attribute != "name":
                raise Refused("a text that is not blank", f"{at}.{key}", item)
            continue
        found[attribute] = read
    return found


def _written(rule: ContextThresholdOverride) -> dict[str, object]:
    def named(kinds: Mapping[str, tuple[str, Kind]]) -> dict[str, object]:
        values = {key: getattr(rule, attribute) for key, (attribute, _) in kinds.items()}
        return {key: value for key, value in values.items() if value is not None}

    effects = named(_EFFECTS)
    name = effects.pop("name")
    return {**({"name": name} if name else {}), "match": named(_CONDITIONS), **effects}
