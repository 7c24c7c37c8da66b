"""The declaration of one setting: its name in config files and the environment, its kind, its help."""

from __future__ import annotations

import re
import reprlib
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from lossless.errors import BadSetting
from lossless.settings.kinds import UNSET, InvalidValue, ValueKind

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
V = TypeVar("V")


class SettingAlias(NamedTuple):
    """Another name of a setting. With `wins` it is preferred where a config file has both names."""

    key: str
    env: str | None = None
    wins: bool = False
    deprecated: bool = False


class Setting(NamedTuple):
    """One setting. `derived` describes how the default is computed when it is not fixed."""

    key: str
    attribute: str
    #: The title of its section of the settings page, and what the section is about.
    section: tuple[str, str]
    kind: ValueKind
    default: object
    help: str
    env: str | None
    aliases: tuple[SettingAlias, ...] = ()
    derived: str = ""
    ours: bool = False
    env_only: bool = False

    def named(self, attribute: str) -> Setting:
        """The same as this attribute of the settings: key and variable follow from its name unless they are given."""
        env = f"LCM_{attribute.upper()}" if self.env == "" else self.env
        return self._replace(attribute=attribute, key=self.key or camel_case(attribute), env=env)

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
        if self.derived and value is self.default:
            return value
        return self._ask(self.kind.check, value, source)

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


def declare(
    section: tuple[str, str],
    default: T,
    kind: ValueKind,
    help: str,
    *,
    key: str = "",
    env: str | None = "",
    aliases: tuple[SettingAlias, ...] = (),
    derived: str = "",
    ours: bool = False,
    env_only: bool = False,
) -> T:
    """A dataclass field with this default; `Setting.named` gives it the key and the variable that are not given."""
    declared = Setting(key, "", section, kind, default, help, env, aliases, derived, ours, env_only)
    return field(default=default, metadata={"setting": declared})


def camel_case(name: str) -> str:
    """A name as JSON spells it.

    >>> camel_case("max_summary_depth")
    'maxSummaryDepth'
    """
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def snake_case(key: str) -> str:
    """The key as Python spells it.

    >>> snake_case("cacheAwareCompaction.cacheTTLSeconds")
    'cache_aware_compaction.cache_ttl_seconds'
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", key).lower()


def mask_passwords(text: str) -> str:
    """The text with the password of every URL in it masked.

    >>> mask_passwords("postgresql://me:secret@host/db")
    'postgresql://me:***@host/db'
    """
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
