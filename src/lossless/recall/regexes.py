"""Regular expressions that cannot hang: each text and the whole search have a time limit."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from importlib import import_module
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Literal

import regex  # type: ignore[import-untyped]

from lossless.errors import BadPattern
from lossless.recall.sieve import Sieve

MAX_CHARS = 4000
#: Compiling writes a repeat out as often as it must match at least: so many letters and sets take about 20 MB.
MAX_WRITTEN_OUT = 20_000
#: A pattern that calls itself, or a part of it, fills the memory before the time is over.
_RECURSION = re.compile(r"\(\?(?:R|[+-]?\d+|&\w+|P>\w+)\)")
_MIN_NEEDED = 3
#: As many steps as a search may take unwatched.
_STEPS = 4_000_000
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)
_ONE_LETTER = (sre.LITERAL, sre.NOT_LITERAL, sre.IN, sre.ANY)
_WILD = (sre.GROUPREF, sre.GROUPREF_EXISTS, sre.ASSERT, sre.ASSERT_NOT, sre.ATOMIC_GROUP)
_LEAST = re.compile(r"\{\s*(\d+)")
#: What only the `regex` library gives a meaning: fuzzy matches in braces, and classes with names.
_FOREIGN = re.compile(r"\{(?!\d*(?:,\d*)?\})|\[:")


class Regex:
    """A compiled pattern; `BadPattern` says what is wrong with one that cannot be used."""

    def __init__(self, pattern: str, engine: Literal["regex", "re2"] = "regex") -> None:
        if not pattern:
            raise BadPattern(pattern, "it is empty")
        if len(pattern) > MAX_CHARS:
            raise BadPattern(f"{pattern[:40]}…", f"it is longer than {MAX_CHARS} characters")
        if _RECURSION.search(pattern):
            raise BadPattern(pattern, "patterns that call themselves are not supported")
        self.pattern = pattern
        if engine != "re2" and written_out(pattern) > MAX_WRITTEN_OUT:
            raise BadPattern(pattern, f"its repeats must match more than {MAX_WRITTEN_OUT:,} letters; ask for fewer")
        self._linear: Any = _re2(pattern) if engine == "re2" else None
        self._compiled = None if engine == "re2" else _compile(pattern)
        self.shape = shape_of(pattern)

    @property
    def needed(self) -> tuple[str, ...]:
        """Texts that everything it matches holds; none when that is not certain."""
        return self.shape.needed

    @property
    def ignores_case(self) -> bool:
        """Whether those texts are in lower case and stand for any."""
        return self.shape.ignores_case

    def sieve(self) -> Sieve | None:
        """What passes texts that it can match; None where each has to be looked at on its own."""
        is_possible = self._compiled is not None and self.shape.is_local
        return Sieve(self.pattern, self._compiled, self.shape.harmless_chars) if is_possible else None

    def find(self, text: str, seconds: float) -> tuple[int, int] | None:
        """Where it matches first, or None; `TimeoutError` when that cannot be said in time.

        A watched search costs more than a short text does, so harmless ones go without.
        """
        if self._compiled is None:
            found = self._linear.search(text)
        elif len(text) <= self.shape.harmless_chars:
            found = self._compiled.search(text)
        else:
            found = self._compiled.search(text, timeout=max(seconds, 0.001), concurrent=True)
        return None if found is None else found.span()

    def spans(self, text: str, seconds: float) -> list[tuple[int, int]]:
        """Everywhere it matches; `TimeoutError` when that cannot be said in time."""
        if self._compiled is None:
            return [found.span() for found in self._linear.finditer(text)]
        found = self._compiled.finditer(text, timeout=max(seconds, 0.001), concurrent=True)
        return [one.span() for one in found]


def _compile(pattern: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return regex.compile(pattern)
    except regex.error as error:
        raise BadPattern(pattern, error.msg, error.pos) from None
    except (RecursionError, OverflowError, MemoryError, ValueError, KeyError, IndexError, TypeError, AttributeError):
        raise BadPattern(pattern, "it is too complex, or not a regular expression") from None


def _re2(pattern: str) -> Any:
    try:
        re2 = import_module("re2")
    except ImportError:
        raise BadPattern(pattern, "the setting regexEngine asks for re2, which is not installed") from None
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options=options)
    except re2.error as error:
        reason = error.args[0] if error.args else "it is not a regular expression"
        raise BadPattern(
            pattern, reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        ) from None


# --- what can be known of a pattern without running it --------------------------------------------


def written_out(pattern: str) -> int:
    """At most how many letters and sets a pattern has once its repeats are written out.

    >>> written_out("(?:ab{3}){9000}"), written_out("(?:a{1000}){1000}"), written_out("a{30000000}")
    (36000, 1000000, 30000000)
    """
    most = len(pattern)
    for least in _LEAST.finditer(pattern):
        most *= max(1, int(least[1][:12]))
    if most <= MAX_WRITTEN_OUT or _FOREIGN.search(pattern):
        return most
    parsed = _parsed(pattern)
    return most if parsed is None or parsed.state.flags & re.VERBOSE else _size(parsed)


def _size(parsed: Any) -> int:
    total = 0
    for kind, value in parsed:
        if kind in _REPEATS:
            total += max(1, value[0]) * _size(value[2])
        elif kind is sre.BRANCH:
            total += 1 + sum(map(_size, value[1]))
        elif kind is sre.IN:
            total += len(value)
        else:  # a group, a look around, a condition: what is inside of it
            inside = value if isinstance(value, tuple) else (value,)
            total += 1 + sum(_size(part) for part in inside if isinstance(part, _parser.SubPattern))
    return total


def _parsed(pattern: str) -> Any:
    """The pattern as the standard library reads it; None when it cannot."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _parser.parse(pattern)
    except (re.error, RecursionError, OverflowError):
        return None


@dataclass(frozen=True, slots=True)
class Shape:
    """What everything that a pattern matches holds, and how long a text it cannot get lost in."""

    needed: tuple[str, ...] = ()
    ignores_case: bool = False
    harmless_chars: int = 0
    #: Whether a match depends on nothing around it, and other texts may stand there.
    is_local: bool = False


def shape_of(pattern: str) -> Shape:
    """Texts of three letters and more that stand in all matches, and the length up to which no text takes long.

    >>> shape_of(r"ERR-\\d+ (?:in|at) worker").needed, shape_of("(?i)Kick it off").needed
    (('ERR-', ' worker'), ('t off',))
    >>> shape_of("(a+)+b").harmless_chars
    0
    """
    if _FOREIGN.search(pattern):
        return Shape()
    parsed = _parsed(pattern)
    if parsed is None:
        return Shape()
    walk = _Walk(bool(parsed.state.flags & re.IGNORECASE))
    walk.through(parsed)
    needed = tuple(run for run in walk.runs if len(run) >= _MIN_NEEDED)
    is_local = walk.is_local and not parsed.state.flags & re.VERBOSE
    return Shape(needed, walk.ignores_case, walk.harmless_chars, is_local)


class _Walk:
    """Gathers letters that must stand there, and counts what makes a search try again."""

    def __init__(self, ignores_case: bool) -> None:
        self.runs, self.ignores_case = [""], ignores_case
        #: Places where a search may try another way: each multiplies its steps by the length of the text.
        self.choices, self.is_wild = 0, False
        #: Whether nothing in it looks at what stands around a match, but for ends of words.
        self.is_local = True

    @property
    def harmless_chars(self) -> int:
        if self.is_wild:
            return 0
        return int(_STEPS ** (1 / (self.choices + 1))) if self.choices else _STEPS

    def through(self, parsed: Any) -> None:
        for kind, value in parsed:
            if kind is sre.LITERAL:
                self._letter(chr(value))
            elif kind is sre.SUBPATTERN:
                self._group(value[1], value[2], value[3])
            elif kind in _REPEATS:
                self.is_local &= kind is not sre.POSSESSIVE_REPEAT
                self._repeat(value[0], value[1], value[2])
            elif kind is sre.BRANCH:
                self.choices += 1
                self._aside(value[1])
            else:
                self.is_wild |= kind in _WILD
                self.is_local &= kind not in _WILD and (kind is not sre.AT or value is sre.AT_BOUNDARY)
                self.runs += [""] if kind is not sre.AT else []

    def _group(self, added: int, removed: int, inner: Any) -> None:
        """A group, unless it reads case in its own way."""
        self.is_local &= not added | removed
        if (added | removed) & re.IGNORECASE:
            self.is_wild = True
            self.runs.append("")
        else:
            self.through(inner)

    def _letter(self, letter: str) -> None:
        """A few letters have odd relatives in the other case, such as K and the sign for kelvin."""
        is_sure = letter != "\0" and (not self.ignores_case or (letter.isascii() and letter.lower() not in "ksi"))
        if is_sure:
            self.runs[-1] += letter.lower() if self.ignores_case else letter
        else:
            self.runs.append("")

    def _repeat(self, least: int, most: int, inner: Any) -> None:
        """A repeat of one letter or one set is a choice; of anything more, possibly of endless ones."""
        self.choices += 1 if least != most else 0
        self.is_wild |= [kind in _ONE_LETTER for kind, _ in inner] != [True]
        self.runs.append("")
        if least:
            self.through(inner)
            self.runs.append("")
        else:
            self._aside([inner])

    def _aside(self, branches: Any) -> None:
        """What may stand there, or not: nothing of it is needed."""
        runs, self.runs = self.runs, [""]
        for branch in branches:
            self.through(branch)
        self.runs = [*runs, ""]
