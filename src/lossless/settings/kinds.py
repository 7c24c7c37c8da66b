"""The types of setting values, and how they are read from each source.

A kind checks a value (`check`), reads it from a config file (`read`) or an environment variable (`parse`), writes it
(`dump`), and describes what is allowed (`allowed`, `schema`).
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from typing import Final, Literal, NamedTuple

#: No value here: the next source is tried.
UNSET: Final = object()

#: Larger integers lose precision in hosts that parse JSON numbers as doubles.
LARGEST: Final = 2**53 - 1


class InvalidValue(ValueError):
    """A value that a kind rejects; `at` and `value` point inside it when only a part is wrong."""

    def __init__(self, allowed: str, at: str = "", value: object = UNSET) -> None:
        super().__init__(allowed)
        self.allowed, self.at, self.value = allowed, at, value


class EnvValue(NamedTuple):
    """The value of an environment variable; `note` tells the user when it was read in an unusual way."""

    value: object
    note: str = ""


class ValueKind(ABC):
    """The allowed values of a setting: `word` is for the settings page, `json_type` for the schema, `sentence` for
    users.
    """

    __slots__ = ()
    word = "value"
    json_type = "string"
    sentence = ""

    def allowed(self) -> str:
        """What a user may write, as the end of the sentence "allowed is …"."""
        return self.sentence

    @abstractmethod
    def check(self, value: object) -> object:
        """The value in canonical form; raises `InvalidValue`."""

    def read(self, value: object) -> object:
        """The value from a config file, or UNSET."""
        return self.check(value)

    def parse(self, text: str) -> EnvValue:
        """The value from an environment variable, or UNSET; kinds without a variable ignore it."""
        raise InvalidValue(f"{text!r} cannot be given as a text")

    def dump(self, value: object) -> object:
        """The value as a config file holds it."""
        return value

    def schema(self) -> dict[str, object]:
        """The value as JSON Schema describes it."""
        return {"type": self.json_type}


class Flag(ValueKind):
    """True or false. An environment variable is `default` unless it is literally the other word."""

    __slots__ = ("default",)
    word = json_type = "boolean"
    sentence = "true or false"

    def __init__(self, default: bool) -> None:
        self.default = default

    def check(self, value: object) -> bool:
        if isinstance(value, bool):
            return value
        raise InvalidValue(self.allowed())

    def read(self, value: object) -> bool:
        words = {"true": True, "false": False}
        return self.check(words.get(value.strip(), value) if isinstance(value, str) else value)

    def parse(self, text: str) -> EnvValue:
        value = text != "false" if self.default else text == "true"
        odd = text not in ("true", "false")
        return EnvValue(value, f"counts as {str(value).lower()}; write true or false" if odd else "")


ON, OFF = Flag(True), Flag(False)


class _BoundedNumber(ValueKind):
    """A number of at least `low`, and at most `high` if given."""

    __slots__ = ("high", "low")
    noun, form = "a number", "g"
    low: float
    high: float | None

    def allowed(self) -> str:
        low = format(self.low, self.form)
        if self.high is None:
            return f"{self.noun} of at least {low}"
        return f"{self.noun} from {low} to {format(self.high, self.form)}"

    def schema(self) -> dict[str, object]:
        bounds = {"minimum": self.low} if self.high is None else {"minimum": self.low, "maximum": self.high}
        return {"type": self.json_type, **bounds}


class WholeNumber(_BoundedNumber):
    """A whole number within bounds; `outside` says how an out-of-range environment value is handled."""

    __slots__ = ("outside",)
    word = json_type = "integer"
    noun, form = "a whole number", "d"
    low: int
    high: int | None

    def __init__(
        self, low: int, high: int | None = None, outside: Literal["refuse", "ignore", "clamp"] = "refuse"
    ) -> None:
        self.low, self.high, self.outside = low, high, outside

    def check(self, value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool):
            if value > LARGEST and self.high is None:
                raise InvalidValue(f"{self.allowed()} and at most {LARGEST}")
            if self.low <= value <= (LARGEST if self.high is None else self.high):
                return int(value)
        raise InvalidValue(self.allowed())

    def read(self, value: object) -> int:
        number = as_number(value)
        if number is None or number != int(number):
            raise InvalidValue(self.allowed())
        return self.check(int(number))

    def parse(self, text: str) -> EnvValue:
        found = re.match(r"\s*([+-]?[0-9]+)", text)
        if not found:
            return _no_number(text, self.allowed())
        if len(found[1]) > 20:
            raise InvalidValue(self.allowed())
        number, note = int(found[1]), _prefix_note(text, found[1])
        within = min(max(number, self.low), LARGEST if self.high is None else self.high)
        if number != within and self.outside == "ignore":
            return EnvValue(UNSET, f"is ignored; allowed is {self.allowed()}")
        if number != within and self.outside == "clamp":
            return EnvValue(within, f"counts as {within}; allowed is {self.allowed()}")
        return EnvValue(self.check(number), note)


class Number(_BoundedNumber):
    """A finite number within bounds."""

    __slots__ = ()
    word = json_type = "number"

    def __init__(self, low: float, high: float | None = None) -> None:
        self.low, self.high = low, high

    def check(self, value: object) -> float:
        number = None if isinstance(value, str) else as_number(value)
        if number is not None and self.low <= number and (self.high is None or number <= self.high):
            return float(number)
        raise InvalidValue(self.allowed())

    def read(self, value: object) -> float:
        return self.check(as_number(value))

    def parse(self, text: str) -> EnvValue:
        found = re.match(r"\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)", text)
        if not found:
            return _no_number(text, self.allowed())
        return EnvValue(self.check(float(found[1])), _prefix_note(text, found[1]))


class FreeText(ValueKind):
    """Any text. With `blank_counts`, a blank environment variable means "empty", not "not set"."""

    __slots__ = ("blank_counts",)
    word = "string"
    sentence = "a text that UTF-8 can carry"

    def __init__(self, *, blank_counts: bool = False) -> None:
        self.blank_counts = blank_counts

    def check(self, value: object) -> str:
        if isinstance(value, str) and _is_utf8(value):
            return value
        raise InvalidValue(self.allowed())

    def read(self, value: object) -> object:
        return self.check(value).strip() or UNSET

    def parse(self, text: str) -> EnvValue:
        value = self.check(text).strip()
        return EnvValue(value if value or self.blank_counts else UNSET)


class PathValue(ValueKind):
    """A file, a folder or the address of a database. `~` stands for the home folder."""

    __slots__ = ("blank_counts",)
    word = "path"
    sentence = "a path"

    def __init__(self, *, blank_counts: bool = False) -> None:
        self.blank_counts = blank_counts

    def check(self, value: object) -> str:
        if isinstance(value, str) and value.strip() and "\0" not in value:
            return value
        raise InvalidValue(self.allowed())

    def read(self, value: object) -> object:
        if isinstance(value, str) and not value.strip():
            return UNSET
        return self.check(value).strip()

    def parse(self, text: str) -> EnvValue:
        if not text.strip():
            return EnvValue(None if self.blank_counts else UNSET)
        return EnvValue(self.check(text).strip())


class OneOf(ValueKind):
    """One of a few words."""

    __slots__ = ("words",)
    word = "choice"

    def __init__(self, *words: str) -> None:
        self.words = words

    def allowed(self) -> str:
        return "one of " + ", ".join(self.words)

    def check(self, value: object) -> str:
        if isinstance(value, str) and value in self.words:
            return value
        raise InvalidValue(self.allowed())

    def read(self, value: object) -> str:
        return self.check(value.strip().lower() if isinstance(value, str) else value)

    def parse(self, text: str) -> EnvValue:
        return EnvValue(self.read(text) if text.strip() else UNSET)

    def schema(self) -> dict[str, object]:
        return {"type": "string", "enum": list(self.words)}


class TextList(ValueKind):
    """A list of texts; comma-separated in the environment, where blank means none."""

    __slots__ = ()
    word = "list of strings"
    sentence = "a list of texts"

    def check(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, (list, tuple)):
            raise InvalidValue(self.allowed())
        for place, item in enumerate(value):
            if not (isinstance(item, str) and item.strip() and _is_utf8(item)):
                raise InvalidValue("a text that is not blank", f"[{place}]", item)
        return tuple(value)

    def read(self, value: object) -> tuple[str, ...]:
        if isinstance(value, str):
            value = value.split(",")
        if not isinstance(value, (list, tuple)):
            raise InvalidValue(self.allowed())
        trimmed = [item.strip() if isinstance(item, str) else item for item in value]
        return self.check([item for item in trimmed if item != ""])

    def parse(self, text: str) -> EnvValue:
        return EnvValue(self.read(text))

    def dump(self, value: object) -> object:
        return list(self.check(value))

    def schema(self) -> dict[str, object]:
        return {"type": "array", "items": {"type": "string"}}


class TimeZoneName(ValueKind):
    """The name of a time zone. `TZ` belongs to the system: an unusable value is ignored."""

    __slots__ = ()
    word = "time zone"
    sentence = "an IANA time zone such as Europe/Berlin"

    def check(self, value: object) -> str:
        if isinstance(value, str) and is_time_zone(value):
            return value
        raise InvalidValue(self.allowed())

    def read(self, value: object) -> object:
        if isinstance(value, str) and not value.strip():
            return UNSET
        return self.check(value.strip() if isinstance(value, str) else value)

    def parse(self, text: str) -> EnvValue:
        name = text.strip()
        if not name or is_time_zone(name):
            return EnvValue(name or UNSET)
        return EnvValue(UNSET, f"is ignored; allowed is {self.allowed()}")


def as_number(value: object) -> int | float | None:
    """The finite number that a config value represents: a number, or numeric text."""
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*", value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:
        return None


def is_time_zone(name: str) -> bool:
    """Whether the system knows the zone; any well-formed name passes where it has no zone data."""
    if name == "UTC":
        return True
    if not re.fullmatch(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*", name) or len(name) > 80:
        return False
    import zoneinfo

    try:
        zoneinfo.ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return not zoneinfo.available_timezones()
    return True


def _is_utf8(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def _no_number(text: str, allowed: str) -> EnvValue:
    if text.strip().lower() in ("", "nan"):
        return EnvValue(UNSET)
    raise InvalidValue(allowed)


def _prefix_note(text: str, used: str) -> str:
    return "" if text.strip() == used else f"was read as {used}"
