"""Summaries without a model: the source's own sentences, picked so that they cover its facts within an exact token
budget.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from itertools import chain, groupby, islice, pairwise, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from lossless.compaction import source_text
from lossless.compaction.source_text import (
    DIRECTIVE_MARKER,
    DIRECTIVE_OMITTED,
    FALLBACK_MARKER,
    file_operation,
    files_line,
    format_local_time,
    format_source_span,
    is_directive,
    is_imperative,
    is_override,
    remove_interjection,
    split_units,
    to_local_time,
    touched_files,
)
from lossless.compaction.tool_work import attempt, is_code, is_look, open_ends, outputs_by_call, printed_units, shorten
from lossless.model.messages import sender_name
from lossless.model.terms import DECISION_TERMS, ERROR_TERMS, chunk_terms, key_phrase, pieces_of
from lossless.model.tokens import estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import date, datetime

    from lossless.compaction.source_text import SourceMessage, SourceSummary
    from lossless.model.messages import Role, ToolCall, ToolResult

#: Below 1, long units lose less against short ones than their length alone would say.
_COST_POWER = 0.75


class CoveragePicker:
    """Hands out units, the most worth first; what a taken unit says is worth nothing in the others.

    Lazy: a unit is valued again only when it comes up, so the work is linear in the text for units of
    bounded length. Ties go to the earlier unit.
    """

    def __init__(
        self, terms: Sequence[frozenset[str]], weights: dict[str, int], factors: Sequence[float], costs: Sequence[int]
    ) -> None:
        self._terms, self._factors = terms, factors
        self._divisors = [cost**_COST_POWER for cost in costs]
        #: The terms that what was taken says.
        self.covered: set[str] = {""}
        #: What each term is worth now: nothing, once it is said.
        self.worth = dict(weights)
        weight = weights.__getitem__
        rated = [
            (-sum(map(weight, unit)) * factor / divisor, index)
            for index, unit, factor, divisor in zip(range(len(terms)), terms, factors, self._divisors, strict=True)
        ]
        self._queue = [item for item in rated if item[0] < 0]
        heapq.heapify(self._queue)

    def next(self) -> int | None:
        """The unit that adds most now; it will not come again. None when no unit adds anything."""
        queue, worth = self._queue, self.worth.__getitem__
        while queue:
            before, index = queue[0]
            now = -sum(map(worth, self._terms[index])) * self._factors[index] / self._divisors[index]
            if before < now < 0:
                heapq.heapreplace(queue, (now, index))
                if queue[0][1] != index:
                    continue
            heapq.heappop(queue)
            if now < 0:
                return index
        return None

    def again(self, indexes: Iterable[int]) -> None:
        """Units that were handed out and not taken may come again."""
        for index in indexes:
            now = -sum(map(self.worth.__getitem__, self._terms[index])) * self._factors[index] / self._divisors[index]
            if now < 0:
                heapq.heappush(self._queue, (now, index))

    def waiting(self) -> list[int]:
        """The units that may still come, in no order that means anything."""
        return [index for _, index in self._queue]

    def take(self, terms: frozenset[str]) -> None:
        """From now on these terms are said."""
        self.covered.update(terms)
        self.worth.update(dict.fromkeys(terms, 0))


EXPAND = "Expand for details about: "
#: What the last line names when the summary left no term of its source out.
NOTHING_ELSE = "exact wording"
_GAP = " … "
_RAN = "ran "
_ERROR_FACTOR = 2.0
_DECISION_FACTOR = 1.3
_TOOL_ERROR_FACTOR = 2.0
#: At most these shares of a summary go to what tools printed, and to the last line.
_TOOL_SHARE = 0.2
_TOPIC_SHARE = 0.08
_MAX_TRIES = 100
#: Sentences with fewer words that carry meaning say little alone.
LEAST_TERMS = 5
_LEAST_AT_WORK = 2
#: So many are enough where one is a name or a number and the message says nothing else.
_LEAST_NAMED = 3
#: A short name has so many letters at least.
_SHORT_NAME = 2
#: So long may a row be to which more of the same voice is added.
_ROW_CHARS = 320
#: How often what was passed over is looked at again, because there is room after all.
_LOOKS = 2
_LEAST_ROOM = 12
#: After so many units that did not fit, see whether any other still can.
_LOOK_AHEAD = 32
#: So far back a run of commands is followed to the directive that it may belong to.
_MAX_STEPS = 4
_OVERHEAD = 16
_SPECIAL_TERMS = DECISION_TERMS | ERROR_TERMS


class ExtractRow(NamedTuple):
    """One voice at one moment: the units under it are shown on one line."""

    label: str
    heading: str
    #: Of what a tool printed, little is worth keeping; what a user wishes is.
    role: Role = "assistant"
    #: Whether it is speech, in sentences: what the same voice goes on to say may stand on the same row.
    is_speech: bool = False
    #: Whether the label is the name of one of several people who talk to each other.
    is_named: bool = False


@dataclass(frozen=True, slots=True)
class TextUnits:
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


def compose_summary(
    entries: Sequence[ExtractRow], units: TextUnits, files: str, topics: Sequence[str], limit_tokens: int
) -> str | None:
    """The summary of at most `limit_tokens`, or None when there is no room for a single unit.

    `topics` are left over from older summaries and end up in the last line when there is room.
    """
    draft = _SummaryDraft(entries, units, files, 4 * limit_tokens)
    draft.fill()
    if not draft.taken:
        return None
    text = "\n".join([*draft.rows(), *([files] if files else []), EXPAND + ", ".join(draft.topics(topics))])
    return text if estimate_tokens(text) <= limit_tokens else None


def quarter_tokens(text: str) -> int:
    """What text costs, in quarters of a token; never less than the estimate."""
    return len(text) if text.isascii() else 4 * estimate_tokens(text)


class _SummaryDraft:
    """Which units are taken, and how much room is left."""

    def __init__(self, entries: Sequence[ExtractRow], units: TextUnits, files: str, budget: int) -> None:
        self.entries, self.units = entries, units
        self.has_tools = not all(entry.is_speech for entry in entries)
        self.vocabulary, self.terms, weights, self.suspects, self.marked = chunk_terms(units.texts)
        #: Terms that say nothing: stop words, and the speakers' names and short names, for the rows say who it is.
        self.empty = {""}
        for name in {entry.label.lower() for entry in entries if entry.is_named}:
            self.empty |= self.vocabulary.terms(pieces_of(name))
            self.empty |= {term for term in self.marked if len(term) >= _SHORT_NAME and name.startswith(term)}
        weights.update(dict.fromkeys(self.empty, 0))
        self.is_output = [entries[entry].role == "tool" for entry in units.entries]
        self.suspect_entries = {units.entries[index] for index in self.suspects}
        self.directing: dict[int, bool] = {}
        self.costs = [len(text) if text.isascii() else quarter_tokens(text) for text in units.texts]
        self.picker = CoveragePicker(self.terms, weights, self._factors(), [cost + _OVERHEAD for cost in self.costs])
        self.taken: set[int] = set()
        self.passed_over: list[int] = []
        #: What says too little, even with what is next to it: it is taken only where there is nothing else.
        self.small: list[int] = []
        self.takes_small_talk = False
        self.voices: set[int] = set()
        #: The number of the run of equal headings that each entry is in.
        runs = groupby(entries, key=lambda entry: entry.heading)
        self.blocks = [number for number, (_, run) in enumerate(runs) for _ in run]
        self.headed: set[int] = set()
        self.used = 0
        #: Blocks that have more than people's own words, and for the others when each speaker first speaks.
        self.mixed = {block for block, entry in zip(self.blocks, entries, strict=True) if not entry.is_named}
        self.ranks: dict[tuple[int, str], int] = {}
        for block, entry in zip(self.blocks, entries, strict=True):
            if block not in self.mixed:
                self.ranks.setdefault((block, entry.label), len(self.ranks))
        self.remaining = budget - (quarter_tokens(files) + 1 if files else 0) - quarter_tokens(EXPAND + NOTHING_ELSE)
        self.topic_tokens = max(0, min(int(_TOPIC_SHARE * budget), self.remaining // 4))
        self.tool_room = int(_TOOL_SHARE * budget)

    def _factors(self) -> list[float]:
        """How much each unit counts; one that speaks of a failure or a decision counts more."""
        factors = list(self.units.factors)
        for index, terms in enumerate(self.terms):
            size = len(terms - self.empty)
            if size < LEAST_TERMS and size < self._least_terms(self.entries[self.units.entries[index]], terms):
                factors[index] *= (size - self.marked.isdisjoint(terms)) / LEAST_TERMS
            if not _SPECIAL_TERMS.isdisjoint(terms):
                if not ERROR_TERMS.isdisjoint(terms):
                    factors[index] *= _TOOL_ERROR_FACTOR if self.is_output[index] else _ERROR_FACTOR
                elif not self.is_output[index]:
                    factors[index] *= _DECISION_FACTOR
        return factors

    def fill(self) -> None:
        """Take units until the room is used or nothing new is left to say.

        Rows that came out shorter than they might have leave room for a second look.
        """
        for look in range(_LOOKS):
            before = len(self.taken)
            self._fill(most_passed=_LOOK_AHEAD if look else None)
            if len(self.taken) == before:
                break
            self.remaining += self.used
            self.used = sum(quarter_tokens(row) + 1 for row in self.rows())
            self.remaining -= self.used
            self.picker.again(self.passed_over)
            self.passed_over = []
        if not self.taken:
            self.takes_small_talk = True
            self.picker.again(self.small)
            self._fill(most_passed=None)

    def _least_terms(self, entry: ExtractRow, terms: frozenset[str]) -> int:
        """With fewer words that carry meaning, what a person says is small talk.

        To a model people say little but what they mean, least of all when it works with tools; and a name or a number
        is said for a reason.
        """
        if not entry.is_speech or (self.has_tools and entry.role == "user"):
            return 0
        if self.has_tools:
            return _LEAST_AT_WORK
        return LEAST_TERMS if entry.is_named or self.marked.isdisjoint(terms) else 0

    def _with_neighbours(self, index: int) -> list[int]:
        """A unit, and when it says little alone, what is next to it in its message; none when that helps nothing."""
        entry = self.units.entries[index]
        minimum = self._least_terms(self.entries[entry], self.terms[index])
        group, covered = [index], self.terms[index] - self.empty
        while len(covered) < minimum:
            neighbours = [
                place
                for place in (group[0] - 1, group[-1] + 1)
                if 0 <= place < len(self.terms) and self.units.entries[place] == entry and not self._is_order(place)
            ]
            if not neighbours:
                is_fact = len(covered) >= _LEAST_NAMED and not self.marked.isdisjoint(covered)
                if not is_fact and not self.takes_small_talk:
                    return []
                break
            best = max(neighbours, key=lambda at: (at in self.taken, len(self.terms[at] - self.empty - covered)))
            group = sorted([*group, best])
            covered |= self.terms[best] - self.empty
        told = [place for place in group if self.terms[place] - self.empty] or group
        return list(range(told[0], told[-1] + 1))

    def _fill(self, most_passed: int | None) -> None:
        space = self.remaining - self.topic_tokens
        while space > 0 and (index := self.picker.next()) is not None:
            if self._is_order(index):
                continue
            group = [place for place in self._with_neighbours(index) if place not in self.taken]
            if not group:
                self.small.append(index)
                continue
            cost = self._cost(index) + sum(self.costs[place] + len(_GAP) for place in group if place != index)
            is_output = self.is_output[index]
            if cost > space or (is_output and cost > self.tool_room):
                self.passed_over.append(index)
                if len(self.passed_over) == most_passed:
                    break
                if not len(self.passed_over) % _LOOK_AHEAD and not self._may_go_on(space):
                    break
                continue
            space -= cost
            self.remaining -= cost
            self.used += cost
            self.tool_room -= cost if is_output else 0
            for place in group:
                self.picker.take(self.terms[place])
                self.taken.add(place)
                self.voices.add(self.units.entries[place])
                self.headed.add(self.blocks[self.units.entries[place]])

    def _may_go_on(self, space: int) -> bool:
        """Whether any unit that waits is short enough for the room that is left."""
        space -= len(_GAP)
        short = [index for index in self.picker.waiting() if self.costs[index] <= space]
        return any(not self.is_output[index] or self.costs[index] + len(_GAP) <= self.tool_room for index in short)

    def _is_order(self, index: int) -> bool:
        """Whether a unit would order a model about, or goes on with commands after one that would."""
        entry = self.units.entries[index]
        if entry not in self.suspect_entries:
            return False
        for place in range(index, max(-1, index - _MAX_STEPS), -1):
            if self.units.entries[place] != entry:
                return False
            if place in self.suspects and self._directs(place):
                return all(map(is_imperative, self.units.texts[place + 1 : index + 1]))
        return False

    def _directs(self, place: int) -> bool:
        """Whether a unit is shaped like an order; it is asked for each unit that follows."""
        if place not in self.directing:  # a user's own wish for the time to come is no order: it is kept as a quotation
            is_users = self.entries[self.units.entries[place]].role == "user"
            self.directing[place] = (is_override if is_users else is_directive)(self.units.texts[place])
        return self.directing[place]

    def _shown(self, index: int) -> str:
        text = self.units.texts[index]
        if index not in self.suspects or text.startswith("“") or not is_directive(text):
            return text
        return f"“{text}”"

    def _cost(self, index: int) -> int:
        place = self.units.entries[index]
        entry = self.entries[place]
        cost = self.costs[index] + (len(_GAP) if place in self.voices else quarter_tokens(entry.label) + 3)
        if self.blocks[place] not in self.headed:
            cost += quarter_tokens(entry.heading) + 3
        return cost if index not in self.suspects else cost + 2

    def rows(self) -> Iterator[str]:
        """The taken units in order: a heading where the time changes, a row for each voice with its label, and an
        ellipsis where something was left out.
        """
        heading, entries = "", self.units.entries
        for row in self._rows():
            entry = self.entries[entries[row[0]]]
            if entry.heading != heading and entry.heading:
                yield f"[{entry.heading}]"
            heading = entry.heading
            text = f"{entry.label}: {self._shown(row[0])}" if entry.label else self._shown(row[0])
            for previous, index in pairwise(row):
                is_next = previous == index - 1 and entries[previous] == entries[index]
                text += (" " if is_next else _GAP) + self._shown(index)
            yield text

    def _rows(self) -> list[list[int]]:
        """The taken units by rows: as they were said, but for people among themselves by speaker."""

        def place(index: int) -> tuple[int, int, int]:
            entry = self.units.entries[index]
            block = self.blocks[entry]
            return block, 0 if block in self.mixed else self.ranks[block, self.entries[entry].label], index

        rows: list[list[int]] = []
        length = 0
        for index in sorted(self.taken, key=place if self.ranks else None):
            if rows and self._goes_on(rows[-1][-1], index, length):
                rows[-1].append(index)
            else:
                rows.append([index])
                length = 0
            length += self.costs[index] + len(_GAP)
        return rows

    def _goes_on(self, previous: int, index: int, length: int) -> bool:
        """Whether a unit stands on the row of the one before it: the same voice at the same moment."""
        one, other = self.units.entries[previous], self.units.entries[index]
        if one == other:
            return True
        is_short = self.entries[one] == self.entries[other] and length + len(self.units.texts[index]) <= _ROW_CHARS
        return is_short and self.entries[one].is_speech and not self.has_tools

    def topics(self, older: Iterable[str]) -> list[str]:
        """Phrases of what was left out, the weightiest first, in turn with those of older summaries."""
        space = min(self.topic_tokens, self.remaining) + quarter_tokens(NOTHING_ELSE)
        found: list[str] = []
        covered, worth = set(self.picker.covered), dict(self.picker.worth)
        phrases = (phrase for pair in zip_longest(self._phrases(worth), older) for phrase in pair if phrase)
        for phrase in islice(phrases, _MAX_TRIES):
            if space < _LEAST_ROOM:
                break
            terms = self.vocabulary.terms(pieces_of(phrase))
            cost = quarter_tokens(phrase) + 2
            if cost <= space and not terms <= covered:
                space -= cost
                found.append(phrase)
                covered |= terms
                worth.update(dict.fromkeys(terms, 0))
        return found or [NOTHING_ELSE]

    def _phrases(self, worth: dict[str, int]) -> Iterator[str]:
        for index in chain(self.passed_over, iter(self.picker.next, None)):
            is_named = not self.is_output[index] and not self.entries[self.units.entries[index]].label.startswith(_RAN)
            if is_named and not self._is_order(index):
                yield key_phrase(self.units.texts[index], self.vocabulary, worth)


#: The name of a person whose words follow.
_SPOKEN = re.compile(r"((?![a-z])[^\W\d_][\w.'’-]{0,23}(?: [^\W\d_][\w.'’-]{0,23}){0,2}): (?=\S)")
_LEAST_TURNS = 3
_SPOKEN_SHARE = 0.6
_NO_NAMES = frozenset(
    ("user", "assistant", "system", "tool", "human", "ai", "model", "developer", "error", "warning", "note", "todo")
) | {"files", "goal", "open", "was open"}
#: A pause this long, or a new day, gets a new time heading.
_PAUSE = timedelta(hours=1)
_MOST_USER_FACTOR = 6.0
#: The rows that frame work with tools, and how much more they count.
_GOAL, _OPEN, _FRAME_FACTOR = "Goal", "Open", 8.0
_WAS_OPEN = "Was open"
#: What only announces the next step, and what reads like code; with fewer words than this it says nothing.
_ANNOUNCED_FACTOR = 0.4
_LEAST_ANNOUNCED = 10
_FACTORS = {"assistant": 1.0, "system": 0.5}
_QUESTION_FACTOR = 0.6
_LOOK_FACTOR = 0.4
_CODE_FACTOR = 0.4
_FILES_SHARE = 0.6  # characters for each token of the limit: 15 %


def extract(
    lines: Sequence[SourceMessage], target_tokens: int, *, source_tokens: int | None = None, timezone: str = "UTC"
) -> str | None:
    """A summary made of the lines' own sentences, smaller than the target and than the source.

    None when that cannot be. `source_tokens` is what the messages weigh in the context, when that is
    not the size of their text. The same lines give the same summary, anywhere.
    """
    weight = sum(line.tokens for line in lines) if source_tokens is None else source_tokens
    limit = min(target_tokens, weight) - 1
    if limit <= 0:
        return None
    user_factor = _user_factor(lines)
    speakers = find_speakers(line.text for line in lines if line.role == "user")
    entries: list[ExtractRow] = []
    found = TextUnits()
    calls = {call.id: call for line in lines for call in line.inputs if call.id}
    outputs = outputs_by_call(lines) if calls else {}
    heading = ""
    for line, heading in zip(lines, _headings(lines, timezone), strict=True):
        rows = [*_tool_rows(line, heading, calls, outputs)]
        if line.role != "tool" and line.text:
            rows.insert(0, _speech_row(line, heading, speakers, user_factor, bool(calls)))
        for entry, texts, factors in rows:
            found.add(len(entries), texts, factors)
            entries.append(entry)
    if calls:
        _frame_work(lines, entries, found, heading)
    return compose_summary(entries, found, files_line(touched_files(lines), int(_FILES_SHARE * limit)), (), limit)


def _speech_row(
    line: SourceMessage, heading: str, speakers: frozenset[str], user_factor: float, is_work: bool
) -> tuple[ExtractRow, list[str], list[float]]:
    name, speech = split_speaker(line.text, speakers) if line.role == "user" else ("", line.text)
    label = name or (f"{line.role} ({sender})" if (sender := _speaker(line.sender)) else line.role)
    texts, factors = _speech_units(speech, line.role, user_factor, line.created_at)
    if is_work:
        has_calls = bool(line.inputs)
        factors = [factor * _work_factor(text, has_calls) for text, factor in zip(texts, factors, strict=True)]
    return ExtractRow(label, heading, line.role, is_speech=True, is_named=bool(name)), texts, factors


def _tool_rows(
    line: SourceMessage, heading: str, calls: Mapping[str, ToolCall], outputs: Mapping[str, ToolResult]
) -> Iterator[tuple[ExtractRow, list[str], list[float]]]:
    """What was done with tools in a line: each call, and what tools printed; calls and outputs by the call's id."""
    if line.role == "tool":
        yield ExtractRow("tool output", heading, "tool"), *printed_units(line.text)
    for call in line.inputs:
        row, factor = attempt(call, outputs.get(call.id or ""))
        yield ExtractRow(_RAN + shorten(call.name, 40), heading), [row], [factor]
    for output in line.outputs:
        asked = calls.get(output.call_id or "")
        operation = "" if asked is None else file_operation(asked)
        if asked is not None and (operation == "read" or output.is_error):
            continue  # the row of the call says how it ended; a file can be read again
        label = f"{shorten(output.name or 'tool', 40)} {'failed' if output.is_error else 'output'}"
        texts, factors = printed_units(output.text, only_failures=bool(operation))
        if asked is not None and is_look(asked):
            factors = [_LOOK_FACTOR * factor for factor in factors]
        yield ExtractRow(label, heading, "assistant" if output.is_error else "tool"), texts, factors


def _work_factor(text: str, has_calls: bool) -> float:
    """How much a sentence counts among work with tools: less, when it announces a step or reads like code.

    A short announcement of the calls next to it counts nothing, for their rows say as much.
    """
    if has_calls and text[-1:] == ":" and len(text.split()) < _LEAST_ANNOUNCED:
        return 0.0
    return _ANNOUNCED_FACTOR if text[-1:] == ":" or is_code(text) else 1.0


def _frame_work(lines: Sequence[SourceMessage], entries: list[ExtractRow], found: TextUnits, heading: str) -> None:
    """Name what work with tools is for, and what of it is open at the end."""
    wishes = [
        index
        for index, place in enumerate(found.entries)
        if entries[place].label == "user" and (not index or found.entries[index - 1] != place)
    ]
    first = next((index for index in wishes if len(found.texts[index].split()) >= LEAST_TERMS), None)
    if first is not None:
        _rename(first, _GOAL, entries, found)
    if wishes and wishes[-1] != first and (lines[-1].role == "tool" or lines[-1].inputs or lines[-1].role == "user"):
        _rename(wishes[-1], _OPEN, entries, found)
    for row in open_ends(lines):
        found.add(len(entries), [row], [_FRAME_FACTOR])
        entries.append(ExtractRow(_OPEN, heading))


def _rename(index: int, label: str, entries: list[ExtractRow], found: TextUnits) -> None:
    place = found.entries[index]
    entries[place] = entries[place]._replace(label=label)
    found.factors[index] *= _FRAME_FACTOR


def find_speakers(texts: Iterable[str]) -> frozenset[str]:
    """The names before the messages of several people that came in through one: `Ann: …`, `Bo: …`.

    Only where most messages begin so, and each name begins several; a word that stands for a role is no name.
    """
    texts = list(texts)
    begun = (_SPOKEN.match(text) for text in texts)
    names = Counter(match[1] for match in begun if match)
    known = {name for name, count in names.items() if count >= _LEAST_TURNS and name.lower() not in _NO_NAMES}
    known = {name for name in known if not is_directive(name)}
    return frozenset(known) if sum(names[name] for name in known) >= _SPOKEN_SHARE * len(texts) else frozenset()


def split_speaker(text: str, speakers: frozenset[str]) -> tuple[str, str]:
    """The speaker before a text and the rest of it; '' and all of it when there is none."""
    if not speakers or (begun := _SPOKEN.match(text)) is None or begun[1] not in speakers:
        return "", text
    return begun[1], text[begun.end() :]


def _speech_units(speech: str, role: Role, user_factor: float, moment: datetime) -> tuple[list[str], list[float]]:
    """What a person or a model said; code in it counts less, and so do a model's questions."""
    is_user = role == "user"
    factor = user_factor if is_user else _FACTORS[role]
    texts: list[str] = []
    factors: list[float] = []
    for place, passage in enumerate(speech.split("```")):
        share = factor * _CODE_FACTOR if place % 2 else factor
        found = split_units(passage)
        if not place % 2 and speaks_of_days(passage):
            found = [date_words(unit, moment.date()) if speaks_of_days(unit) else unit for unit in found]
        texts += map(remove_interjection, found)
        asked = share if is_user else share * _QUESTION_FACTOR
        factors += [asked if unit[-1] in "?？" else share for unit in found]
    return texts, factors


@lru_cache(maxsize=256)
def _speaker(sender: str | None) -> str:
    """The name in a sender's metadata; '' when there is none, or when it reads like an order."""
    name = sender_name(sender)
    return "" if is_directive(name) else name


def _headings(lines: Sequence[SourceMessage], timezone: str) -> Iterator[str]:
    """The time over each line: that of the first line after a pause or since midnight."""
    heading = ""
    previous: datetime | None = None
    for line in lines:
        moment = to_local_time(line.created_at, timezone)
        if previous is None or abs(moment - previous) >= _PAUSE or moment.date() != previous.date():
            heading = format_local_time(moment, timezone)
        previous = moment
        yield heading


def _user_factor(lines: Sequence[SourceMessage]) -> float:
    """How much a user's words count: the rarer they are among all others, the more."""
    by_user = sum(len(line.text) for line in lines if line.role == "user")
    by_others = sum(
        sum(len(output.text) for output in line.outputs) + (len(line.text) if line.role != "user" else 0)
        for line in lines
    )
    return min(_MOST_USER_FACTOR, max(1.0, by_others / max(1, by_user)))


_CONDENSED_GAP = re.compile(r" … ")
_HEADING = re.compile(r"\[(\d{4}-\d\d-\d\d[^\]\n]{0,60})\]")
_LABEL = re.compile(
    r"(Goal|Open|Was open|(?:user|assistant|system)(?: \([^()\n]{1,40}\))?|ran \S{1,40}|\S{1,40} (?:output|failed)): "
)
_NOTE = re.compile(r"\[(?:Truncated from|Capped)[^\]\n]*\]")
_MARKERS = (DIRECTIVE_MARKER, DIRECTIVE_OMITTED, FALLBACK_MARKER)
_USER_FACTOR = 2.0
#: What tools printed, and what failed on the way, matters less than in a leaf.
_OUTPUT_FACTOR = 0.12
_FAILURE_FACTOR = 0.5
_TOPIC_CHARS = 80
#: How the rows begin that are not speech.
_FRAMES = ("[", EXPAND.strip(), source_text.FILES_PREFIX.strip())


def condense(
    sections: Sequence[SourceSummary], target_tokens: int, *, source_tokens: int | None = None, timezone: str = "UTC"
) -> str | None:
    """A summary made of the summaries' own rows, smaller than the target and than the source.

    None when that cannot be. Times and speakers that the sources name are kept; their `Files:` and
    `Expand` lines are merged into one each.
    """
    weight = sum(section.tokens for section in sections) if source_tokens is None else source_tokens
    limit = min(target_tokens, weight) - 1
    if limit <= 0:
        return None
    entries: list[ExtractRow] = []
    found = TextUnits()
    touched: dict[str, str] = {}
    topics: dict[str, None] = {}
    kept = [list(_rows(section.text)) for section in sections]
    speakers = find_speakers(row for rows in kept for row in rows if not row.startswith(_FRAMES))
    for section, rows in zip(sections, kept, strict=True):
        heading = format_source_span(section, timezone)
        for row in rows:
            if row.startswith(EXPAND.strip()):
                topics.update(dict.fromkeys(_listed(row)))
            elif row.startswith(source_text.FILES_PREFIX.strip()):
                for path, operation in source_text.parse_files_line(row):
                    source_text.note_operation(touched, path, operation)
            elif time := _HEADING.fullmatch(row):
                heading = time[1]
            else:
                entry, words, factor = _voice(row, heading, speakers)
                if entry.label == _OPEN and section is not sections[-1]:
                    entry, factor = entry._replace(label=_WAS_OPEN), 1.0
                texts = [unit for piece in _CONDENSED_GAP.split(words) for unit in split_units(piece)]
                found.add(len(entries), texts, [factor] * len(texts))
                entries.append(entry)
    files_line = source_text.files_line(touched, int(_FILES_SHARE * limit))
    return compose_summary(entries, found, files_line, list(topics), limit)


def _rows(text: str) -> Iterator[str]:
    """The rows of a summary without the notes that a cut or a filter left in it."""
    for row in text.splitlines():
        bare = _NOTE.sub("", row)
        for marker in _MARKERS:
            bare = bare.replace(marker, "")
        if bare.strip():
            yield bare.strip()


def _voice(row: str, heading: str, speakers: frozenset[str]) -> tuple[ExtractRow, str, float]:
    """Who says a row, where it names a speaker, and how much it counts. A model's own words report wishes."""
    name, words = split_speaker(row, speakers)
    if name:
        return ExtractRow(name, heading, "user", is_speech=True, is_named=True), words, _USER_FACTOR
    label = _LABEL.match(row)
    if label is None:
        return ExtractRow("", heading, "user"), row, 1.0
    words = row[label.end() :]
    if label[1] == _GOAL:
        return ExtractRow(_GOAL, heading, "user"), words, _FRAME_FACTOR
    if label[1] in (_OPEN, _WAS_OPEN):
        return ExtractRow(label[1], heading), words, 1.0 if label[1] == _WAS_OPEN else _FRAME_FACTOR
    if label[1].startswith("user"):
        return ExtractRow(label[1], heading, "user", is_speech=True), words, _USER_FACTOR
    if label[1].endswith(" output"):
        return ExtractRow(label[1], heading, "tool"), words, _OUTPUT_FACTOR
    return ExtractRow(label[1], heading), words, _FAILURE_FACTOR if label[1].endswith(" failed") else 1.0


def _listed(row: str) -> list[str]:
    topics = (topic.strip(" .") for topic in row.removeprefix(EXPAND.strip()).split(","))
    known = (topic for topic in topics if topic and topic != NOTHING_ELSE and len(topic) <= _TOPIC_CHARS)
    return [topic for topic in known if not is_directive(topic)]


_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_WEEKDAYS = {name: number for number, name in enumerate(("mon", "tue", "wed", "thu", "fri", "sat", "sun"))}
_NUMBERS = {name: number for number, name in enumerate(("one", "two", "three", "four", "five", "six", "seven"), 1)}
_NUMBERS |= {"a": 1, "an": 1, "eight": 8, "nine": 9, "ten": 10}
_DAYS = {"yesterday": -1, "last night": -1, "tomorrow": 1, "tomorrow night": 1}
_WEEKDAY = r"(?:mon|tue|wed|thu|fri|sat|sun)(?:s|rs|urs|nes|ur)?(?:day)?"
_SAID = re.compile(
    r"\b(?<!like )(?<!like just )(?<!like only )(?:(?P<day>yesterday|tomorrow|last night)"
    rf"|(?P<way>last|next) (?P<what>week(?:end)?|month|year|{_WEEKDAY})"
    r"|(?P<count>an?|one|two|three|four|five|six|seven|eight|nine|ten|\d{1,2}) (?P<unit>day|week|month|year)s? ago)\b"
    r"(?! (?:of|in) )",
    re.IGNORECASE,
)


def speaks_of_days(text: str) -> bool:
    """Whether `date_words` may find something; quick."""
    return "esterday" in text or "omorrow" in text or "ast " in text or "ext " in text or " ago" in text


def date_words(text: str, said_on: date) -> str:
    """A text in which words for a day are followed by the date that they meant.

    >>> from datetime import date
    >>> date_words("We met last Friday, and a month ago.", date(2023, 5, 8))
    'We met last Friday (5 May 2023), and a month ago (April 2023).'
    """
    return _SAID.sub(lambda found: f"{found[0]} ({meant})" if (meant := _meaning(found, said_on)) else found[0], text)


def _meaning(found: re.Match[str], today: date) -> str:
    """The date that words meant; '' when there is none in the calendar."""
    try:
        if found["day"]:
            return _named_day(today + timedelta(days=_DAYS[found["day"].lower()]))
        if found["unit"]:
            count = found["count"].lower()
            return _back(found["unit"].lower(), -(int(count) if count.isdigit() else _NUMBERS[count]), today)
        step = -1 if found["way"].lower() == "last" else 1
        return _back(found["what"].lower(), step, today)
    except (OverflowError, ValueError):
        return ""


def _back(unit: str, step: int, today: date) -> str:
    """So many units from a day, as exactly as the words say it."""
    match unit:
        case "day":
            return _named_day(today + timedelta(days=step))
        case "week":
            monday = today - timedelta(days=today.weekday()) + timedelta(weeks=step)
            return f"week of {_named_day(monday)}"
        case "weekend":
            saturday = today - timedelta(days=today.weekday() - 5) + timedelta(weeks=min(step, 0))
            return f"weekend of {_named_day(saturday)}"
        case "month":
            months = today.year * 12 + today.month - 1 + step
            return f"{_MONTHS[months % 12]} {months // 12}" if months >= 12 else ""
        case "year":
            return str(today.year + step) if today.year + step > 0 else ""
    day = _WEEKDAYS[unit[:3]]
    away = (today.weekday() - day - 1) % 7 + 1 if step < 0 else -((day - today.weekday() - 1) % 7 + 1)
    return _named_day(today - timedelta(days=away))


def _named_day(day: date) -> str:
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"
