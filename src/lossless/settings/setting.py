"""The declaration of one setting: its names in config files and the environment, and the kind of its values.

A kind checks a value (`check`), reads it from a config file (`read`) or an environment variable (`parse`), writes it
(`dump`), and describes what is allowed (`allowed`, `schema`).
"""

from __future__ import annotations

import math
import re
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import field
from typing import Any, Final, Literal, NamedTuple, TypeVar

from lossless.errors import BadSetting

T = TypeVar("T")
V = TypeVar("V")
#: No value here: the next source is tried.
UNSET: Final = object()

#: Larger integers lose precision in hosts that parse JSON numbers as doubles.
LARGEST: Final = 2**53 - 1
_DECIMAL: Final = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"


class InvalidValue(ValueError):
    """A value that a kind rejects; `at` and `value` point inside it when only a part is wrong."""

    def __init__(self, allowed: str, at: str = "", value: object = UNSET) -> None:
        super().__init__(allowed)
        self.allowed, self.at, self.value = allowed, at, value


class ValueKind(ABC):
    """The allowed values of a setting: `word` is for the settings page, `json_type` for the schema, `sentence` for
    users.
    """

    word = "value"
    json_type = "string"
    #: What a user may write, as the end of the sentence "allowed is …".
    sentence = ""

    @abstractmethod
    def check(self, value: object) -> object:
        """The value in canonical form; raises `InvalidValue`."""

    def read(self, value: object) -> object:
        """The value from a config file, or UNSET."""
        return self.check(value)

    def parse(self, text: str) -> tuple[object, str]:
        """The value from an environment variable, or UNSET; with a note where it was read in an unusual way."""
        raise InvalidValue(f"{text!r} cannot be given as a text")

    def dump(self, value: object) -> object:
        """The value as a config file holds it."""
        return value

    def schema(self) -> dict[str, object]:
        """The value as JSON Schema describes it."""
        return {"type": self.json_type}


class Flag(ValueKind):
    """True or false. An environment variable is `default` unless it is literally the other word."""

    word = json_type = "boolean"
    sentence = "true or false"

    def __init__(self, default: bool) -> None:
        self.default = default

    def check(self, value: object) -> bool:
        if isinstance(value, bool):
            return value
        raise InvalidValue(self.sentence)

    def read(self, value: object) -> bool:
        words = {"true": True, "false": False}
        return self.check(words.get(value.strip(), value) if isinstance(value, str) else value)

    def parse(self, text: str) -> tuple[object, str]:
        value = text != "false" if self.default else text == "true"
        odd = text not in ("true", "false")
        return value, f"counts as {str(value).lower()}; write true or false" if odd else ""


ON, OFF = Flag(True), Flag(False)


class Number(ValueKind):
    """A finite number, or with `whole` a whole one, of at least `low`, and at most `high` if given.

    `outside` says how an out-of-range whole number in the environment is handled.
    """

    def __init__(
        self,
        low: float,
        high: float | None = None,
        *,
        whole: bool = False,
        outside: Literal["refuse", "ignore", "clamp"] = "refuse",
    ) -> None:
        self.low, self.high, self.whole, self.outside = low, high, whole, outside
        self.word = self.json_type = "integer" if whole else "number"
        noun, form = ("a whole number", "d") if whole else ("a number", "g")
        bounds = f"of at least {low:{form}}" if high is None else f"from {low:{form}} to {high:{form}}"
        self.sentence = f"{noun} {bounds}"

    def schema(self) -> dict[str, object]:
        bounds = {"minimum": self.low} if self.high is None else {"minimum": self.low, "maximum": self.high}
        return {"type": self.json_type, **bounds}

    def check(self, value: object) -> float:
        number = None if isinstance(value, str) else as_number(value)
        if self.whole:
            number = value if isinstance(value, int) and not isinstance(value, bool) else None
            if number is not None and number > LARGEST and self.high is None:
                raise InvalidValue(f"{self.sentence} and at most {LARGEST}")
        if number is not None and self.low <= number and (self.high is None or number <= self.high):
            return int(number) if self.whole else float(number)
        raise InvalidValue(self.sentence)

    def read(self, value: object) -> float:
        number = as_number(value)
        if not self.whole:
            return self.check(number)
        if number is None or number != int(number):
            raise InvalidValue(self.sentence)
        return self.check(int(number))

    def parse(self, text: str) -> tuple[object, str]:
        found = re.match(r"\s*([+-]?[0-9]+)" if self.whole else rf"\s*({_DECIMAL})", text)
        if not found:
            if text.strip().lower() in ("", "nan"):
                return UNSET, ""
            raise InvalidValue(self.sentence)
        note = "" if text.strip() == found[1] else f"was read as {found[1]}"
        if not self.whole:
            return self.check(float(found[1])), note
        if len(found[1]) > 20:
            raise InvalidValue(self.sentence)
        number = int(found[1])
        within = min(max(number, self.low), LARGEST if self.high is None else self.high)
        if number != within and self.outside == "ignore":
            return UNSET, f"is ignored; allowed is {self.sentence}"
        if number != within and self.outside == "clamp":
            return within, f"counts as {within}; allowed is {self.sentence}"
        return self.check(number), note


def whole_number(low: int, high: int | None = None, outside: Literal["refuse", "ignore", "clamp"] = "refuse") -> Number:
    return Number(low, high, whole=True, outside=outside)


class TextValue(ValueKind):
    """A text that passes a test, or one of a few `words`, which config files may spell in any case. `blank` is what a
    blank environment variable means; `is_lenient` ignores others that fail the test, for variables of the system.
    """

    def __init__(
        self,
        word: str,
        sentence: str,
        test: Callable[[str], bool],
        blank: object = UNSET,
        *,
        is_lenient: bool = False,
        words: tuple[str, ...] = (),
    ) -> None:
        self.word, self.sentence, self.test, self.blank, self.is_lenient = word, sentence, test, blank, is_lenient
        self.words = words

    def check(self, value: object) -> str:
        if isinstance(value, str) and self.test(value):
            return value
        raise InvalidValue(self.sentence)

    def read(self, value: object) -> object:
        text = value.strip() if isinstance(value, str) else value
        if self.words:
            return self.check(text.lower() if isinstance(text, str) else text)
        return UNSET if text == "" else self.check(text)

    def parse(self, text: str) -> tuple[object, str]:
        text = text.strip()
        if text and self.is_lenient and not self.test(text):
            return UNSET, f"is ignored; allowed is {self.sentence}"
        return self.read(text) if text else self.blank, ""

    def schema(self) -> dict[str, object]:
        return {"type": "string", "enum": list(self.words)} if self.words else super().schema()


def one_of(*words: str) -> TextValue:
    return TextValue("choice", "one of " + ", ".join(words), lambda text: text in words, words=words)


class TextList(ValueKind):
    """A list of texts that pass a test; comma-separated in the environment, where blank means `blank`."""

    def __init__(
        self,
        word: str = "list of strings",
        sentence: str = "a list of texts",
        item: str = "a text that is not blank",
        test: Callable[[str], bool] = str.strip,  # type: ignore[assignment]
        blank: object = (),
    ) -> None:
        self.word, self.sentence, self.item, self.test, self.blank = word, sentence, item, test, blank

    def check(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, (list, tuple)):
            raise InvalidValue(self.sentence)
        for place, item in enumerate(value):
            if not (isinstance(item, str) and self.test(item) and _is_utf8(item)):
                raise InvalidValue(self.item, f"[{place}]", item)
        return tuple(value)

    def read(self, value: object) -> tuple[str, ...]:
        if isinstance(value, str):
            value = value.split(",")
        if not isinstance(value, (list, tuple)):
            raise InvalidValue(self.sentence)
        trimmed = [item.strip() if isinstance(item, str) else item for item in value]
        return self.check([item for item in trimmed if item != ""])

    def parse(self, text: str) -> tuple[object, str]:
        return self.read(text) or self.blank, ""

    def dump(self, value: object) -> object:
        return list(self.check(value))

    def schema(self) -> dict[str, object]:
        return {"type": "array", "items": {"type": "string"}}


def as_number(value: object) -> int | float | None:
    """The finite number that a config value represents: a number, or numeric text."""
    if isinstance(value, str) and re.fullmatch(rf"\s*{_DECIMAL}\s*", value):
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


_UTF8_TEXT = ("string", "a text that UTF-8 can carry", _is_utf8)
#: Any text; for `BLANKABLE_TEXT` a blank environment variable means "empty", not "not set".
TEXT, BLANKABLE_TEXT = TextValue(*_UTF8_TEXT), TextValue(*_UTF8_TEXT, "")
#: A file or a folder. `~` stands for the home folder.
PATH, BLANKABLE_PATH = (
    TextValue("path", "a path", lambda text: bool(text.strip()) and "\0" not in text, blank) for blank in (UNSET, None)
)
ARCHIVE_PATH = TextValue("path", "a path of a file, not an address", lambda text: PATH.test(text) and "://" not in text)
TIME_ZONE = TextValue("time zone", "an IANA time zone such as Europe/Berlin", is_time_zone, is_lenient=True)


class SettingAlias(NamedTuple):
    """Another name of a setting. With `wins` it is preferred where a config file has both names."""

    key: str
    env: str | None = None
    wins: bool = False
    deprecated: bool = False


class Setting(NamedTuple):
    """One setting; `help.toml` says what it is for."""

    default: object
    kind: ValueKind
    key: str = ""
    env: str | None = ""
    attribute: str = ""
    aliases: tuple[SettingAlias, ...] = ()
    ours: bool = False
    env_only: bool = False
    #: Why it is accepted and ignored, if it is.
    no_effect: str = ""

    def named(self, attribute: str, annotation: str) -> Setting:
        """The same as this attribute of the settings: key and variable follow from its name unless they are given.

        Its kind is a choice where its annotation is a `Literal`.
        """
        env = f"LCM_{attribute.upper()}" if self.env == "" else self.env
        kind = one_of(*re.findall("'(.*?)'", annotation)) if annotation.startswith("Literal") else self.kind
        return self._replace(attribute=attribute, key=self.key or camel_case(attribute), env=env, kind=kind)

    @property
    def config_names(self) -> tuple[str, ...]:
        """Its names in a config file, preferred first; empty when only the environment sets it."""
        if self.env_only:
            return ()
        first = [alias.key for alias in self.aliases if alias.wins]
        return (*first, self.key, *(alias.key for alias in self.aliases if not alias.wins))

    @property
    def env_names(self) -> tuple[str, ...]:
        names = (self.env, *(alias.env for alias in self.aliases))
        return tuple(name for name in names if name)

    def check(self, value: object, source: str) -> object:
        """The value in canonical form; raises `BadSetting`."""
        return value if value is self.default else self._ask(self.kind.check, value, source)

    def read(self, value: object, source: str) -> object:
        """The value that a config file's `value` means, or UNSET; raises `BadSetting`."""
        return UNSET if value is None else self._ask(self.kind.read, value, source)

    def parse(self, text: str, source: str) -> tuple[object, str]:
        """The value that an environment variable's `text` means; raises `BadSetting`."""
        return self._ask(self.kind.parse, text, source)

    def dump(self, value: object) -> object:
        return None if value is None else self.kind.dump(value)

    def _ask(self, question: Callable[[V], T], value: V, source: str) -> T:
        try:
            return question(value)
        except InvalidValue as refused:
            wrong = value if refused.value is UNSET else refused.value
            raise BadSetting(self.key + refused.at, shorten_value(wrong), source, refused.allowed) from None


def declare(default: T, kind: ValueKind | None = None, **more: Any) -> T:
    """A dataclass field with this default; `Setting.named` gives it the key and the variable that are not given.

    Without a kind it is what such defaults usually are: true or false, a number from 1 on, a text, a list of texts.
    """
    if kind is None:
        usual = {bool: ON if default else OFF, int: whole_number(1), str: BLANKABLE_TEXT, tuple: TextList()}
        kind = usual[type(default)]
    return field(default=default, metadata={"setting": Setting(default, kind, **more)})


def camel_case(name: str) -> str:
    """A name as JSON spells it."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def snake_case(key: str) -> str:
    """The key as Python spells it."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", key).lower()


def mask_passwords(text: str) -> str:
    """The text with the password of every URL in it masked."""
    return re.sub(r"(://[^\s:/@]*):[^\s/@]*@", r"\1:***@", text)


def shorten_value(value: object) -> object:
    """The value as an error shows it: in full when short, else cut in the middle."""
    if isinstance(value, str):
        value = mask_passwords(value)
    brief = reprlib.Repr()
    brief.maxstring = brief.maxother = brief.maxlong = 120
    try:
        text = brief.repr(value)
    except (ValueError, RecursionError):
        return f"<{type(value).__name__}>"
    return text if "..." in text else value
