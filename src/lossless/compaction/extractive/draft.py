"""A summary taking shape: units grouped by who said them and when, within a budget that is kept exactly.

Costs are counted in quarters of a token, the weight of one plain character.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain, groupby, islice, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from lossless.compaction.extractive.pick import Picker
from lossless.compaction.extractive.terms import DECISION_TERMS, ERROR_TERMS, chunk_of, pieces_of
from lossless.compaction.extractive.topics import key_phrase
from lossless.compaction.fallback import is_directive, is_imperative, is_override
from lossless.model.tokens import estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lossless.model.messages import Role

EXPAND = "Expand for details about: "
#: What the last line names when the summary left no term of its source out.
NOTHING_ELSE = "exact wording"
_GAP = " … "
_ERROR_FACTOR = 2.0
_DECISION_FACTOR = 1.3
_TOOL_ERROR_FACTOR = 4.0
#: At most these shares of a summary go to what tools printed, and to the last line.
_TOOL_SHARE = 0.3
_TOPIC_SHARE = 0.08
_MAX_TRIES = 100
_LEAST_ROOM = 12
#: After so many units that did not fit, see whether any other still can.
_LOOK_AHEAD = 32
#: So far back a run of commands is followed to the directive that it may belong to.
_MAX_STEPS = 4
_OVERHEAD = 16
_SPECIAL_TERMS = DECISION_TERMS | ERROR_TERMS


class Entry(NamedTuple):
    """One voice at one moment: the units under it are shown on one line."""

    label: str
    heading: str
    #: Of what a tool printed, little is worth keeping; what a user wishes is.
    role: Role = "assistant"


@dataclass(frozen=True, slots=True)
class Units:
    """Pieces of text that are taken whole or not at all: under which entry, their words, and how much they count.

    Columns, because there are many.
    """

    entries: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)

    def add(self, entry: int, texts: Sequence[str], factors: Sequence[float]) -> None:
        """Add the units of an entry."""
        self.entries.extend([entry] * len(texts))
        self.texts.extend(texts)
        self.factors.extend(factors)


def compose(
    entries: Sequence[Entry],
    units: Units,
    files: str,
    topics: Sequence[str],
    limit_tokens: int,
) -> str | None:
    """The summary of at most `limit_tokens`, or None when there is no room for a single unit.

    `topics` are left over from older summaries and end up in the last line when there is room.
    """
    draft = _Draft(entries, units, files, 4 * limit_tokens)
    draft.fill()
    if not draft.taken:
        return None
    text = "\n".join([*draft.rows(), *([files] if files else []), EXPAND + ", ".join(draft.topics(topics))])
    return text if estimate_tokens(text) <= limit_tokens else None


def quarters(text: str) -> int:
    """What text costs, in quarters of a token; never less than the estimate."""
    return len(text) if text.isascii() else 4 * estimate_tokens(text)


class _Draft:
    """Which units are taken, and how much room is left."""

    def __init__(self, entries: Sequence[Entry], units: Units, files: str, budget: int) -> None:
        self.entries, self.units = entries, units
        self.vocabulary, self.terms, weights, self.suspects = chunk_of(units.texts)
        self.is_output = [entries[entry].role == "tool" for entry in units.entries]
        self.suspect_entries = {units.entries[index] for index in self.suspects}
        self.costs = [len(text) if text.isascii() else quarters(text) for text in units.texts]
        self.picker = Picker(self.terms, weights, self._factors(), [cost + _OVERHEAD for cost in self.costs])
        self.taken: set[int] = set()
        self.passed_over: list[int] = []
        self.voices: set[int] = set()
        self.blocks = _blocks(entries)
        self.headed: set[int] = set()
        self.left = budget - (quarters(files) + 1 if files else 0) - quarters(EXPAND + NOTHING_ELSE)
        self.topic_room = max(0, int(_TOPIC_SHARE * budget))
        self.tool_room = int(_TOOL_SHARE * budget)

    def _factors(self) -> list[float]:
        """How much each unit counts; one that speaks of a failure or a decision counts more."""
        factors = list(self.units.factors)
        for index, terms in enumerate(self.terms):
            if not _SPECIAL_TERMS.isdisjoint(terms):
                if not ERROR_TERMS.isdisjoint(terms):
                    factors[index] *= _TOOL_ERROR_FACTOR if self.is_output[index] else _ERROR_FACTOR
                elif not self.is_output[index]:
                    factors[index] *= _DECISION_FACTOR
        return factors

    def fill(self) -> None:
        """Take units until the room is used or nothing new is left to say."""
        room = self.left - min(self.topic_room, self.left // 4)
        while room > 0 and (index := self.picker.next()) is not None:
            cost = self._cost(index)
            is_output = self.is_output[index]
            if cost > room or (is_output and cost > self.tool_room):
                self.passed_over.append(index)
                if not len(self.passed_over) % _LOOK_AHEAD and not self._may_go_on(room):
                    break
                continue
            if self._is_order(index):
                continue
            room -= cost
            self.left -= cost
            self.tool_room -= cost if is_output else 0
            self._take(index)

    def _may_go_on(self, room: int) -> bool:
        """Whether any unit that waits is short enough for the room that is left."""
        room -= len(_GAP)
        short = [index for index in self.picker.waiting() if self.costs[index] <= room]
        return any(not self.is_output[index] or self.costs[index] + len(_GAP) <= self.tool_room for index in short)

    def _is_order(self, index: int) -> bool:
        """Whether a unit would order a model about, or goes on with commands after one that would."""
        entry = self.units.entries[index]
        if entry not in self.suspect_entries:
            return False
        for place in range(index, max(-1, index - _MAX_STEPS), -1):
            if self.units.entries[place] != entry:
                return False
            if self._directs(place):
                return all(map(is_imperative, self.units.texts[place + 1 : index + 1]))
        return False

    def _directs(self, index: int) -> bool:
        """A user's own wish for the time to come is no order: it is kept, as a quotation."""
        if index not in self.suspects:
            return False
        text = self.units.texts[index]
        return is_override(text) if self.entries[self.units.entries[index]].role == "user" else is_directive(text)

    def _shown(self, index: int) -> str:
        text = self.units.texts[index]
        if index not in self.suspects or text.startswith("“") or not is_directive(text):
            return text
        return f"“{text}”"

    def _cost(self, index: int) -> int:
        """What a unit adds to the text: itself, and whatever must be written around it first."""
        place = self.units.entries[index]
        entry = self.entries[place]
        cost = self.costs[index] + (len(_GAP) if place in self.voices else quarters(entry.label) + 3)
        if self.blocks[place] not in self.headed:
            cost += quarters(entry.heading) + 3
        return cost if index not in self.suspects else cost + 2

    def _take(self, index: int) -> None:
        place = self.units.entries[index]
        self.picker.take(self.terms[index])
        self.taken.add(index)
        self.voices.add(place)
        self.headed.add(self.blocks[place])

    def rows(self) -> Iterator[str]:
        """The taken units in order: a heading where the time changes, a row for each voice."""
        heading, row, previous = "", "", -1
        for index in sorted(self.taken):
            place = self.units.entries[index]
            entry = self.entries[place]
            if row and self.units.entries[previous] == place:
                row += (" " if previous == index - 1 else _GAP) + self._shown(index)
            else:
                if row:
                    yield row
                if entry.heading != heading and entry.heading:
                    yield f"[{entry.heading}]"
                heading = entry.heading
                row = f"{entry.label}: {self._shown(index)}" if entry.label else self._shown(index)
            previous = index
        if row:
            yield row

    def topics(self, older: Iterable[str]) -> list[str]:
        """Phrases of what was left out, the weightiest first, in turn with those of older summaries."""
        room = min(self.topic_room, self.left) + quarters(NOTHING_ELSE)
        found: list[str] = []
        said, worth = set(self.picker.said), dict(self.picker.worth)
        for phrase in islice(_in_turn(self._phrases(worth), older), _MAX_TRIES):
            if room < _LEAST_ROOM:
                break
            terms = self.vocabulary.terms(pieces_of(phrase))
            cost = quarters(phrase) + 2
            if cost <= room and not terms <= said:
                room -= cost
                found.append(phrase)
                said |= terms
                worth.update(dict.fromkeys(terms, 0))
        return found or [NOTHING_ELSE]

    def _phrases(self, worth: dict[str, int]) -> Iterator[str]:
        for index in chain(self.passed_over, iter(self.picker.next, None)):
            if not self.is_output[index] and not self._is_order(index):
                yield key_phrase(self.units.texts[index], self.vocabulary, worth)


def _blocks(entries: Iterable[Entry]) -> list[int]:
    """The number of the run of equal headings that each entry is in."""
    runs = groupby(entries, key=lambda entry: entry.heading)
    return [number for number, (_, run) in enumerate(runs) for _ in run]


def _in_turn(first: Iterable[str], second: Iterable[str]) -> Iterator[str]:
    """One from each while both last; blanks are left out."""
    return (phrase for pair in zip_longest(first, second) for phrase in pair if phrase)
