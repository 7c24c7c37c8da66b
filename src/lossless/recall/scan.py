"""Scan every text in scope for a pattern within a time limit: regular expressions that cannot hang, a fast
prefilter, and masking by the user's own patterns.
"""

from __future__ import annotations

import math
import re
import time
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import accumulate, islice
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import regex  # type: ignore[import-untyped]

from lossless.errors import BadPattern
from lossless.model.js_json import storable_text
from lossless.model.masking import MASK_PREFIX, CutText, mask_for, mask_secrets
from lossless.model.records import SearchPlace
from lossless.store.search import AnyText, SearchScope, is_behind, newest_first

if TYPE_CHECKING:
    from lossless.recall.scope import SearchIn
    from lossless.settings import Settings
    from lossless.store.archive import Archive

#: The part of the time that one text may take.
TEXT_TIME_SHARE = 0.2
#: So many messages are narrowed down at a time.
_STEP = 4000
#: So many whole texts are sifted at a time.
_SIFTED = 500
#: As many as most searches show.
_A_PAGE = 51


#: A text that holds what was looked for: the piece of it that matched, and where in the piece.
ScanMatch: TypeAlias = "tuple[AnyText, str, int, int]"


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What a scan found."""

    spots: tuple[ScanMatch, ...] = ()
    #: Behind which place the scan goes on, when it was broken off.
    stopped: SearchPlace | None = None
    #: Whether it was the time that broke it off.
    is_late: bool = False
    #: Texts that took too long and were passed over.
    slow: int = 0


@dataclass(slots=True)
class TextScan:
    """A look through all texts behind a place, newest first, until one more than `limit` has the pattern, or the time
    is over. At least one message and one summary are looked at; one text takes at most its `share` of the time.
    """

    archive: Archive
    where: SearchScope
    pattern: ScanPattern
    limit: int
    seconds: float
    start: SearchPlace | None = None
    share: float = TEXT_TIME_SHARE
    clock: Callable[[], float] = time.monotonic
    end: float = 0.0

    def run(self, search_in: SearchIn) -> ScanResult:
        self.end = self.clock() + self.seconds
        found = ScanResult() if search_in == "summaries" else self._scanned(self._messages())
        if search_in == "messages":
            return found
        return merge_scans(found, self._scanned(self.archive.search.all_summaries(self.where, self.start)), self.limit)

    def _scanned(self, texts: Iterable[AnyText | SearchPlace | None]) -> ScanResult:
        """What the texts hold. A place instead of a text says that the time was over, and all up to it looked at."""
        spots: list[ScanMatch] = []
        slow, longest = 0, self.seconds * self.share
        last: AnyText | None = None
        for source in texts:
            remaining = self.end - self.clock()
            if source is None or isinstance(source, SearchPlace):
                return ScanResult(tuple(spots), source, True, slow)
            if remaining <= 0 and last is not None:
                return ScanResult(tuple(spots), last.place, True, slow)
            try:  # one text in any case, so that the next call gets ahead
                spot = _match_in(source, self.pattern, longest if last is None else min(remaining, longest))
            except TimeoutError:
                spot, slow = None, slow + 1
            if spot is not None:
                spots.append(spot)
                if len(spots) > self.limit:
                    return ScanResult(tuple(spots[:-1]), spots[-2][0].place, False, slow)
            last = source
        return ScanResult(tuple(spots), slow=slow)

    def _messages(self) -> Iterator[AnyText | SearchPlace | None]:
        """The messages that can hold the pattern; those that cannot are passed over without reading all of them.

        When the time is over, the last is the place up to which there were none, None for the beginning.
        """
        texts, pattern = self.archive.search, self.pattern
        ids, through = texts.order(self.where, self.start), texts.trigrams.through
        having = texts.trigrams.having(pattern.needed) if through else None
        if having is not None:
            ids = [id_ for id_ in ids if id_ > through or id_ in having]
        needed, sieve = max(pattern.needed, key=len, default=""), pattern.sieve()
        size = _STEP if needed else _SIFTED
        for first in range(0, len(ids), size):
            if first and self.clock() > self.end:
                yield next((text.place for text in texts.messages(ids[first - 1 : first])), self.start)
                return
            step = ids[first : first + size]
            if needed:
                step = texts.holding(step, needed, ignore_case=pattern.ignores_case)
            if sieve is None or sieve.is_slow or len(step) > _SIFTED:
                yield from texts.read(step)
            else:  # read a few at a time, as it may be that no more are wanted
                bodies = texts.bodies(step)
                passing = (bodies[index][0] for index in sieve.passing([body for _, body in bodies]))
                while some := list(islice(passing, _A_PAGE)):
                    yield from texts.messages(some)


def scan_texts(texts: Iterable[AnyText], pattern: ScanPattern, limit: int) -> list[ScanMatch]:
    """Of these texts the ones that hold the pattern, newest first."""
    spots = [spot for source in texts if (spot := _match_in(source, pattern, 1.0)) is not None]
    return sorted(spots, key=lambda spot: newest_first(spot[0].place))[:limit]


def merge_scans(messages: ScanResult, summaries: ScanResult, limit: int) -> ScanResult:
    """Both in one order; of summaries only those that come before the place where the messages broke off."""
    spots = sorted((*messages.spots, *summaries.spots), key=lambda spot: newest_first(spot[0].place))
    stops = [part.stopped for part in (messages, summaries) if part.stopped is not None]
    stopped = min(stops, key=lambda place: (-place.at, place.what)) if stops else None
    if stopped is not None:
        spots = [spot for spot in spots if (place := spot[0].place) == stopped or not is_behind(place, stopped)]
    slow, is_late = messages.slow + summaries.slow, messages.is_late or summaries.is_late
    if len(spots) > limit:
        return ScanResult(tuple(spots[:limit]), spots[limit - 1][0].place, False, slow)
    return ScanResult(tuple(spots), stopped, is_late, slow)


def _match_in(source: AnyText, pattern: ScanPattern, seconds: float) -> ScanMatch | None:
    found = pattern.find(source.content, seconds)
    if found is not None:
        return source, source.content, *found
    called = source.called
    found = pattern.find(called, seconds) if called else None
    return None if found is None else (source, called, *found)


#: What one search of all may take before each text is looked at on its own.
_SECONDS = 0.1
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
#: Among the letters of ASCII these mean the same, and are tried much faster.
_IN_ASCII = {r"\d": "[0-9]", r"\w": "[0-9A-Z_a-z]", r"\s": r"[\t-\r ]"}


class LiteralPattern:
    """Finds a text in others: as it is, else whatever its case."""

    def __init__(self, text: str) -> None:
        self.text = storable_text(text)
        self._lower = self.text.lower()
        #: What a text must hold to be found, in lower case; upper case will do.
        self.needed = (self._lower,) if self._lower.isascii() else ()
        self.ignores_case = True

    def sieve(self) -> None:
        """It is looked for quickly enough in each text."""

    def find(self, text: str, seconds: float = 0.0) -> tuple[int, int] | None:  # noqa: ARG002
        """Where it stands first, or None. The time is never short."""
        at = text.find(self.text)
        if at < 0:
            at = text.lower().find(self._lower)
        return None if at < 0 else (min(at, len(text)), min(at + len(self.text), len(text)))


class RegexPrefilter:
    """Passes the texts that a pattern can match, and some more; for patterns whose matches depend on nothing around."""

    def __init__(self, pattern: str, compiled: Any) -> None:
        written = "".join(_IN_ASCII.get(token, token) for token in _TOKEN.findall(pattern))
        self._any, self._ascii = compiled, compiled if written == pattern else regex.compile(written)
        #: Whether it took so long that looking at each text is better.
        self.is_slow = False

    def passing(self, texts: Sequence[str]) -> Iterator[int]:
        """The indexes of the texts that can match, in order. Goes only as far as it is asked to."""
        joined = "\n".join(texts)
        starts = [0, *accumulate(len(text) + 1 for text in texts)]
        compiled = self._ascii if joined.isascii() else self._any
        row = 0
        while row < len(texts):
            try:
                found = compiled.search(joined, starts[row], timeout=_SECONDS, concurrent=True)
            except TimeoutError:
                self.is_slow = True
                yield from range(row, len(texts))
                return
            if found is None:
                return
            row = bisect_right(starts, found.start(), row) - 1
            if row < len(texts):
                yield row
            row += 1


MAX_REGEX_CHARS = 4000
#: Compiling writes a repeat out as often as it must match at least: so many letters and sets take about 20 MB.
MAX_EXPANDED_SIZE = 20_000
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
        if len(pattern) > MAX_REGEX_CHARS:
            raise BadPattern(f"{pattern[:40]}…", f"it is longer than {MAX_REGEX_CHARS} characters")
        if _RECURSION.search(pattern):
            raise BadPattern(pattern, "patterns that call themselves are not supported")
        self.pattern, self.shape = pattern, RegexTraits(pattern)
        if engine != "re2" and self.shape.expanded_size > MAX_EXPANDED_SIZE:
            raise BadPattern(pattern, f"its repeats must match more than {MAX_EXPANDED_SIZE:,} letters; ask for fewer")
        self._linear: Any = _re2(pattern) if engine == "re2" else None
        self._compiled = None if engine == "re2" else _compile(pattern)
        #: Texts that everything it matches holds, none when that is not certain; in lower case when it ignores case.
        self.needed, self.ignores_case = self.shape.needed, self.shape.ignores_case

    def sieve(self) -> RegexPrefilter | None:
        """What passes texts that it can match; None where each has to be looked at on its own."""
        is_possible = self._compiled is not None and self.shape.is_local
        return RegexPrefilter(self.pattern, self._compiled) if is_possible else None

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

    def spans(self, text: str, seconds: float) -> Iterator[tuple[int, int]]:
        """Everywhere it matches; `TimeoutError` when that cannot be said in time."""
        watched = {"timeout": max(seconds, 0.001), "concurrent": True} if self._compiled else {}
        return (found.span() for found in (self._compiled or self._linear).finditer(text, **watched))


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
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise BadPattern(pattern, reason) from None


def _parsed(pattern: str) -> Any:
    """The pattern as the standard library reads it; None when it cannot."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _parser.parse(pattern)
    except (re.error, RecursionError, OverflowError):
        return None


class RegexTraits:
    """What everything that a pattern matches holds, how long a text it cannot get lost in, and how much it expands to.

    Gathers letters that must stand there, and counts what makes a search try again.

    >>> [RegexTraits(pattern).expanded_size for pattern in ("(?:ab{3}){9000}", "(?:a{1000}){1000}", "a{30000000}")]
    [36000, 1000000, 30000000]
    """

    def __init__(self, pattern: str) -> None:
        parsed = None if _FOREIGN.search(pattern) else _parsed(pattern)
        flags = 0 if parsed is None else parsed.state.flags
        self.runs, self.ignores_case = [""], bool(flags & re.IGNORECASE)
        #: Places where a search may try another way: each multiplies its steps by the length of the text.
        self.choices, self.is_wild = 0, parsed is None
        #: Whether nothing in it looks at what stands around a match, but for ends of words.
        self.is_local = parsed is not None and not flags & re.VERBOSE
        #: At most how many letters and sets it has once its repeats are written out.
        self.expanded_size = self.through(parsed or ())
        if parsed is None or flags & re.VERBOSE:
            minima = (max(1, int(minimum[1][:12])) for minimum in _LEAST.finditer(pattern))
            self.expanded_size = math.prod(minima, start=len(pattern))
        #: Texts of three letters and more that stand in all matches.
        self.needed = tuple(run for run in self.runs if len(run) >= _MIN_NEEDED)

    @property
    def harmless_chars(self) -> int:
        """The length up to which no text takes long."""
        if self.is_wild:
            return 0
        return int(_STEPS ** (1 / (self.choices + 1))) if self.choices else _STEPS

    def through(self, parsed: Any) -> int:
        """Read a part of a pattern; how many letters and sets it expands to."""
        size = 0
        for kind, value in parsed:
            if kind is sre.LITERAL:
                size += self._letter(chr(value))
            elif kind is sre.SUBPATTERN:
                _, added, removed, inner = value
                self.is_local &= not added | removed
                reads_case = bool((added | removed) & re.IGNORECASE)  # in its own way
                self.is_wild |= reads_case
                size += 1 + (self._aside([inner]) if reads_case else self.through(inner))
            elif kind in _REPEATS:
                self.is_local &= kind is not sre.POSSESSIVE_REPEAT
                size += self._repeat(*value)
            elif kind is sre.BRANCH:
                self.choices += 1
                size += 1 + self._aside(value[1])
            else:
                self.is_wild |= kind in _WILD
                self.is_local &= kind not in _WILD and (kind is not sre.AT or value is sre.AT_BOUNDARY)
                groups = value if isinstance(value, tuple) else (value,)
                runs, inside = self.runs, self._aside([one for one in groups if isinstance(one, _parser.SubPattern)])
                size += len(value) if kind is sre.IN else 1 + inside
                self.runs = runs if kind is sre.AT else self.runs
        return size

    def _letter(self, letter: str) -> int:
        """A few letters have odd relatives in the other case, such as K and the sign for kelvin."""
        is_sure = letter != "\0" and (not self.ignores_case or (letter.isascii() and letter.lower() not in "ksi"))
        if is_sure:
            self.runs[-1] += letter.lower() if self.ignores_case else letter
        else:
            self.runs.append("")
        return 1

    def _repeat(self, minimum: int, limit: int, inner: Any) -> int:
        """A repeat of one letter or one set is a choice; of anything more, possibly of endless ones."""
        self.choices += 1 if minimum != limit else 0
        self.is_wild |= [kind in _ONE_LETTER for kind, _ in inner] != [True]
        self.runs.append("")
        if not minimum:
            return self._aside([inner])
        size = minimum * self.through(inner)
        self.runs.append("")
        return size

    def _aside(self, branches: Any) -> int:
        """What may stand there, or not: nothing of it is needed."""
        runs, self.runs = self.runs, [""]
        size = sum(self.through(branch) for branch in branches)
        self.runs = [*runs, ""]
        return size


ScanPattern: TypeAlias = Regex | LiteralPattern

_KIND = "pattern"
_MASKED = re.compile(re.escape(MASK_PREFIX) + r"[a-z0-9-]+\]")


def make_redactor(settings: Settings) -> CutText | None:
    """What the settings ask to mask, None for nothing; `BadPattern` names a pattern that cannot be used."""
    own = [Regex(pattern, settings.regex_engine) for pattern in settings.redact_patterns]
    seconds = settings.regex_timeout_ms / 1000
    if not own and not settings.redact_secrets:
        return None

    def redact(text: str) -> str:
        text = mask_secrets(text) if settings.redact_secrets else text
        for pattern in own:
            text = _mask_matches(pattern, text, seconds)
        return text

    return redact


def _mask_matches(pattern: Regex, text: str, seconds: float) -> str:
    """A text with all that a pattern matches masked. One that takes too long is refused: nothing is stored unmasked."""
    try:
        spans = list(pattern.spans(text, seconds))
    except TimeoutError:
        why = f"of redactPatterns takes more than {seconds:g} s for a message; nothing was stored"
        raise BadPattern(pattern.pattern, why) from None
    masks = [found.span() for found in _MASKED.finditer(text)] if MASK_PREFIX in text else []
    pieces: list[str] = []
    end = 0
    for start, stop in spans:
        if stop > start and not any(start < last and first < stop for first, last in masks):
            pieces += [text[end:start], mask_for(_KIND)]
            end = stop
    return "".join([*pieces, text[end:]]) if pieces else text
