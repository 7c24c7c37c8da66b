"""A summary taking shape: units grouped by who said them and when, within a budget that is kept exactly.

Costs are counted in quarters of a token, the weight of one plain character.
"""

from __future__ import annotations

import re
from itertools import chain, groupby, islice, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from lossless.compaction.extractive.pick import Picker
from lossless.compaction.extractive.terms import Vocabulary, is_decision, is_error, tokens_of, weigh
from lossless.compaction.extractive.topics import key_phrase
from lossless.compaction.fallback import DIRECTIVE_WORDS, is_directive, is_imperative, is_override
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
#: So far back a run of commands is followed to the directive that it may belong to.
_MAX_STEPS = 4
_OVERHEAD = 16
_PIECES = re.compile(r"[^\W_]+")


class Entry(NamedTuple):
    """One voice at one moment: the units under it are shown on one line."""

    label: str
    heading: str
    #: Of what a tool printed, little is worth keeping; what a user wishes is.
    role: Role = "assistant"


class Unit(NamedTuple):
    """A piece of text that is taken whole or not at all."""

    entry: int
    text: str
    factor: float


def compose(
    entries: Sequence[Entry],
    units: Sequence[Unit],
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

    def __init__(self, entries: Sequence[Entry], units: Sequence[Unit], files: str, budget: int) -> None:
        self.entries, self.units = entries, units
        self.vocabulary = Vocabulary()
        self.tokens = [tokens_of(unit.text) for unit in units]
        self.terms = list(map(self.vocabulary.terms, self.tokens))
        self.weights = weigh(self.vocabulary, self.tokens, self.terms)
        self.trigger_tokens = set(filter(_triggers, self.vocabulary))
        self.suspects = {
            unit.entry
            for unit, tokens in zip(units, self.tokens, strict=True)
            if not self.trigger_tokens.isdisjoint(tokens)
        }
        self.costs = [quarters(unit.text) for unit in units]
        factors = [self._factor(unit, terms) for unit, terms in zip(units, self.terms, strict=True)]
        self.picker = Picker(self.terms, self.weights, factors, [cost + _OVERHEAD for cost in self.costs])
        self.taken: set[int] = set()
        self.passed_over: list[int] = []
        self.voices: set[int] = set()
        self.blocks = _blocks(entries)
        self.headed: set[int] = set()
        self.left = budget - (quarters(files) + 1 if files else 0) - quarters(EXPAND + NOTHING_ELSE)
        self.topic_room = max(0, int(_TOPIC_SHARE * budget))
        self.tool_room = int(_TOOL_SHARE * budget)

    def _factor(self, unit: Unit, terms: frozenset[str]) -> float:
        if self.entries[unit.entry].role == "tool":
            return unit.factor * (_TOOL_ERROR_FACTOR if is_error(terms) else 1.0)
        if is_error(terms):
            return unit.factor * _ERROR_FACTOR
        return unit.factor * (_DECISION_FACTOR if is_decision(terms) else 1.0)

    def fill(self) -> None:
        """Take units until the room is used or nothing new is left to say."""
        room = self.left - min(self.topic_room, self.left // 4)
        while room > 0 and (index := self.picker.next()) is not None:
            if self._is_order(index):
                continue
            cost = self._cost(index)
            is_output = self.entries[self.units[index].entry].role == "tool"
            if cost > room or (is_output and cost > self.tool_room):
                self.passed_over.append(index)
                continue
            room -= cost
            self.left -= cost
            self.tool_room -= cost if is_output else 0
            self._take(index)

    def _is_order(self, index: int) -> bool:
        """Whether a unit would order a model about, or goes on with commands after one that would."""
        entry = self.units[index].entry
        if entry not in self.suspects:
            return False
        for place in range(index, max(-1, index - _MAX_STEPS), -1):
            if self.units[place].entry != entry:
                return False
            if self._directs(place):
                return all(is_imperative(unit.text) for unit in self.units[place + 1 : index + 1])
        return False

    def _directs(self, index: int) -> bool:
        """A user's own wish for the time to come is no order: it is kept, as a quotation."""
        if self.trigger_tokens.isdisjoint(self.tokens[index]):
            return False
        text = self.units[index].text
        return is_override(text) if self.entries[self.units[index].entry].role == "user" else is_directive(text)

    def _shown(self, index: int) -> str:
        text = self.units[index].text
        if self.trigger_tokens.isdisjoint(self.tokens[index]) or text.startswith("“") or not is_directive(text):
            return text
        return f"“{text}”"

    def _cost(self, index: int) -> int:
        """What a unit adds to the text: itself, and whatever must be written around it first."""
        place = self.units[index].entry
        entry = self.entries[place]
        cost = self.costs[index] + (len(_GAP) if place in self.voices else quarters(entry.label) + 3)
        if self.blocks[place] not in self.headed:
            cost += quarters(entry.heading) + 3
        return cost if self.trigger_tokens.isdisjoint(self.tokens[index]) else cost + 2

    def _take(self, index: int) -> None:
        place = self.units[index].entry
        self.picker.take(self.terms[index])
        self.taken.add(index)
        self.voices.add(place)
        self.headed.add(self.blocks[place])

    def rows(self) -> Iterator[str]:
        """The taken units in order: a heading where the time changes, a row for each voice."""
        heading, row, previous = "", "", -1
        for index in sorted(self.taken):
            unit = self.units[index]
            entry = self.entries[unit.entry]
            if row and self.units[previous].entry == unit.entry:
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
        for phrase in islice(_in_turn(self._phrases(), older), _MAX_TRIES):
            if room < _LEAST_ROOM:
                break
            terms = self.vocabulary.terms(tokens_of(phrase))
            cost = quarters(phrase) + 2
            if cost <= room and not terms <= self.picker.said:
                room -= cost
                found.append(phrase)
                self.picker.take(terms)
        return found or [NOTHING_ELSE]

    def _phrases(self) -> Iterator[str]:
        for index in chain(self.passed_over, iter(self.picker.next, None)):
            if self.entries[self.units[index].entry].role != "tool" and not self._is_order(index):
                yield key_phrase(self.units[index].text, self.vocabulary, self._worth)

    def _worth(self, term: str) -> int:
        return 0 if term in self.picker.said else self.weights.get(term, 0)


def _triggers(token: str) -> bool:
    """Whether a unit with this token has to be looked at as a possible directive."""
    word = token.lower()
    return word in DIRECTIVE_WORDS if word.isalnum() else not DIRECTIVE_WORDS.isdisjoint(_PIECES.findall(word))


def _blocks(entries: Iterable[Entry]) -> list[int]:
    """The number of the run of equal headings that each entry is in."""
    runs = groupby(entries, key=lambda entry: entry.heading)
    return [number for number, (_, run) in enumerate(runs) for _ in run]


def _in_turn(first: Iterable[str], second: Iterable[str]) -> Iterator[str]:
    """One from each while both last; blanks are left out."""
    return (phrase for pair in zip_longest(first, second) for phrase in pair if phrase)
