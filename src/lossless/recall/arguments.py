"""What a tool takes: parameters declared once, as JSON schema and as the check of what a model sends."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lossless.errors import BadInput
from lossless.model.times import parse_time

if TYPE_CHECKING:
    from datetime import datetime

Kind: TypeAlias = Literal["string", "integer", "boolean", "strings", "time"]
Arguments: TypeAlias = Mapping[str, Any]

#: The largest id and number that is understood; beyond it nothing is stored.
_LARGEST = 2**53
_WHOLE = re.compile(r"[+-]?\d{1,18}")
_HUMP = re.compile(r"_([a-z])")
_TYPES: dict[Kind, dict[str, Any]] = {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "boolean": {"type": "boolean"},
    "strings": {"type": "array", "items": {"type": "string"}},
    "time": {"type": "string"},
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool."""

    name: str
    kind: Kind
    help: str
    default: Any = None
    #: Whether a call without it makes no sense.
    required: bool = False
    #: Whether the schema asks models for it although there is a default.
    asked_for: bool = False
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    #: Whether a number out of bounds is moved to the bound instead of being an error.
    clamps: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        found: dict[str, Any] = dict(_TYPES[self.kind]) | {"description": self.help}
        if self.choices:
            found["enum"] = list(self.choices)
        if self.minimum is not None:
            found["minimum"] = self.minimum
        if self.maximum is not None:
            found["maximum"] = self.maximum
        if self.default not in (None, ()):
            found["default"] = self.default
        return found

    def read(self, value: object) -> Any:
        """The value as the tool wants it; `BadInput` says what is wrong with it."""
        if value is None:
            if self.required:
                raise BadInput(f"{self.name} is required")
            return self.default
        match self.kind:
            case "integer":
                return self._bounded(_whole(self.name, value))
            case "boolean":
                return _truth(self.name, value)
            case "strings":
                return _texts(self.name, value)
            case "time":
                return _time(self.name, value)
            case "string":
                return self._text(value)

    def _text(self, value: object) -> str:
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            raise BadInput(f"{self.name} must be a text, not {_shown(value)}")
        text = value.strip()
        if self.required and not text:
            raise BadInput(f"{self.name} is required and must not be empty")
        if self.choices and text not in self.choices:
            raise BadInput(f"{self.name} must be one of {', '.join(self.choices)}, not {_shown(value)}")
        return text

    def _bounded(self, value: int) -> int:
        low = -_LARGEST if self.minimum is None else self.minimum
        high = _LARGEST if self.maximum is None else self.maximum
        bounded = min(high, max(low, value))
        if bounded != value and not self.clamps:
            raise BadInput(f"{self.name} must be {_range(self.minimum, self.maximum)}, not {value}")
        return bounded


def schema_of(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments."""
    return {
        "type": "object",
        "properties": {parameter.name: parameter.schema for parameter in parameters},
        "required": [parameter.name for parameter in parameters if parameter.required or parameter.asked_for],
        "additionalProperties": False,
    }


def read_arguments(parameters: Sequence[Parameter], given: object) -> dict[str, Any]:
    """All arguments by name, defaults filled in; `BadInput` for anything that no call should have.

    Names in snake case, numbers and lists as text, and JSON text instead of an object are understood.
    """
    fields = _fields(given)
    known = {parameter.name for parameter in parameters}
    spelled = {name if name in known else _HUMP.sub(lambda hump: hump[1].upper(), name): name for name in fields}
    if unknown := sorted(spelled.keys() - known):
        allowed = ", ".join(parameter.name for parameter in parameters)
        raise BadInput(f"unknown argument {_shown(unknown[0])}; there are {allowed}")
    return {
        parameter.name: parameter.read(fields[spelled[parameter.name]] if parameter.name in spelled else None)
        for parameter in parameters
    }


def _fields(given: object) -> Mapping[str, Any]:
    if given is None:
        return {}
    if isinstance(given, str):
        try:
            given = json.loads(given) if given.strip() else {}
        except (ValueError, RecursionError):
            raise BadInput("the arguments are not JSON") from None
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise BadInput(f"the arguments must be an object, not {_shown(given)}")
    return given


def _whole(name: str, value: object) -> int:
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        return int(value.strip())
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise BadInput(f"{name} must be a whole number, not {_shown(value)}")


def _truth(name: str, value: object) -> bool:
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value.strip().lower(), value)
    if not isinstance(value, bool):
        raise BadInput(f"{name} must be true or false, not {_shown(value)}")
    return value


def _texts(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        if value.strip().startswith("[") and value.strip().endswith("]"):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                value = [value]
        else:
            value = [value]
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise BadInput(f"{name} must be a list of texts, not {_shown(value)}")
    return tuple(item.strip() for item in value if item.strip())


def _time(name: str, value: object) -> datetime:
    try:
        if isinstance(value, str):
            return parse_time(value)
    except (ValueError, OverflowError):
        pass
    raise BadInput(f"{name} must be a time such as 2026-01-05T09:00:00Z, not {_shown(value)}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _range(minimum: int | None, maximum: int | None) -> str:
    if maximum is None:
        return f"at least {minimum if minimum is not None else -_LARGEST}"
    return f"between {minimum if minimum is not None else -_LARGEST} and {maximum}"
