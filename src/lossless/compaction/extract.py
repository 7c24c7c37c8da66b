"""Summaries without a model: the source's own sentences, picked so that they cover its facts within an exact token
budget.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import chain, groupby, islice, pairwise, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from lossless.compaction import source_text
from lossless.compaction.tool_work import Attempt, attempts, is_code, open_ends, printed_units
from lossless.model.messages import Role, sender_name
from lossless.model.search_text import load_patterns
from lossless.model.terms import DECISION_TERMS, ERROR_TERMS, chunk_terms, key_phrase, pieces_of
from lossless.model.tokens import estimate_tokens, one_line

if TYPE_CHECKING:
    import re

    from lossless.compaction.source_text import SourceMessage, SourceSummary

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
#: Below 1, long units lose less against short ones than their length alone would say.
_COST_POWER = 0.75
#: Sentences with fewer words that carry meaning say little alone.
LEAST_TERMS = 5
_LEAST_AT_WORK = 2
#: So many are enough where one is a name or a number and the message says nothing else.
_LEAST_NAMED = 3
#: A short name has so many letters at least.
_SHORT_NAME = 2
#: So long may a row be to which more of the same voice is added.
_LINE_CHARS = 320
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
    """Pieces of text that are taken whole or not at all: the row that each belongs to, its words, how much it counts.

    Columns, because there are many.
    """

    rows: list[ExtractRow] = field(default_factory=list)
    #: The index of each unit's row.
    places: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)

    def add(self, row: ExtractRow, texts: Sequence[str], factors: Sequence[float]) -> None:
        """Add a row and its units."""
        self.places.extend([len(self.rows)] * len(texts))
        self.rows.append(row)
        self.texts.extend(texts)
        self.factors.extend(factors)


def compose_summary(units: TextUnits, files: str, topics: Sequence[str], limit_tokens: int) -> str | None:
    """The summary of at most `limit_tokens`, or None when there is no room for a single unit.

    `topics` are left over from older summaries and end up in the last line when there is room.
    """
    draft = _SummaryDraft(units, files, 4 * limit_tokens)
    draft.fill()
    if not draft.taken:
        return None
    text = "\n".join([*draft.lines, *([files] if files else []), EXPAND + ", ".join(draft.topics(topics))])
    return text if estimate_tokens(text) <= limit_tokens else None


def quarter_tokens(text: str) -> int:
    """What text costs, in quarters of a token; never less than the estimate."""
    return len(text) if text.isascii() else 4 * estimate_tokens(text)


class _SummaryDraft:
    """Which units are taken, and how much room is left.

    The unit that adds most for its length comes first, and what a taken unit says is worth nothing in the others. A
    unit is valued again only when it comes up, so the work is linear in the text. Ties go to the earlier unit.
    """

    def __init__(self, units: TextUnits, files: str, budget: int) -> None:
        self.units, rows = units, units.rows
        self.row_of = [rows[place] for place in units.places]
        self.has_tools = not all(row.is_speech for row in rows)
        #: `worth` is what each term is worth now: nothing, once it is said.
        self.vocabulary, self.terms, self.worth, self.suspects, self.marked = chunk_terms(units.texts)
        #: Terms that say nothing: stop words, and the speakers' names and short names, for the rows say who it is.
        self.empty = {""}
        for name in {row.label.lower() for row in rows if row.is_named}:
            self.empty |= self.vocabulary.terms(pieces_of(name))
            self.empty |= {term for term in self.marked if len(term) >= _SHORT_NAME and name.startswith(term)}
        self.worth.update(dict.fromkeys(self.empty, 0))
        self.covered: set[str] = {""}
        self.costs = [len(text) if text.isascii() else quarter_tokens(text) for text in units.texts]
        self.divisors = [(cost + _OVERHEAD) ** _COST_POWER for cost in self.costs]
        #: Units that say too little alone.
        self.short: set[int] = set()
        self.factors = self._weigh()
        self.orders = self._find_orders()
        self.queue: list[tuple[float, int]] = []
        self._enqueue(range(len(self.terms)))
        self.taken: set[int] = set()
        self.lines: list[str] = []
        self.passed_over: list[int] = []
        #: What says too little, even with what is next to it: it is taken only where there is nothing else.
        self.small: list[int] = []
        self.takes_small_talk = False
        self.voices: set[int] = set()
        #: The number of the run of equal headings that each row is in.
        runs = groupby(rows, key=lambda row: row.heading)
        self.blocks = [number for number, (_, run) in enumerate(runs) for _ in run]
        self.headed: set[int] = set()
        self.used = 0
        #: Blocks that have more than people's own words, and for the others when each speaker first speaks.
        self.mixed = {block for block, row in zip(self.blocks, rows, strict=True) if not row.is_named}
        self.ranks: dict[tuple[int, str], int] = {}
        for block, row in zip(self.blocks, rows, strict=True):
            if block not in self.mixed:
                self.ranks.setdefault((block, row.label), len(self.ranks))
        self.remaining = budget - (quarter_tokens(files) + 1 if files else 0) - quarter_tokens(EXPAND + NOTHING_ELSE)
        self.topic_tokens = max(0, min(int(_TOPIC_SHARE * budget), self.remaining // 4))
        self.tool_room = int(_TOOL_SHARE * budget)

    def _weigh(self) -> list[float]:
        """How much each unit counts: less when it says little, more when it speaks of a failure or a decision."""
        factors = list(self.units.factors)
        few = LEAST_TERMS + len(self.empty)
        for index, terms in enumerate(self.terms):
            row = self.row_of[index]
            size = len(terms - self.empty) if len(terms) < few else LEAST_TERMS
            if size < LEAST_TERMS and size < self._least_terms(row, terms):
                self.short.add(index)
                factors[index] *= (size - self.marked.isdisjoint(terms)) / LEAST_TERMS
            if not _SPECIAL_TERMS.isdisjoint(terms):
                if not ERROR_TERMS.isdisjoint(terms):
                    factors[index] *= _TOOL_ERROR_FACTOR if row.role == "tool" else _ERROR_FACTOR
                elif row.role != "tool":
                    factors[index] *= _DECISION_FACTOR
        return factors

    def _least_terms(self, row: ExtractRow, terms: frozenset[str]) -> int:
        """With fewer words that carry meaning, what a person says is small talk.

        To a model people say little but what they mean, least of all when it works with tools; and a name or a number
        is said for a reason.
        """
        if not row.is_speech or (self.has_tools and row.role == "user"):
            return 0
        if self.has_tools:
            return _LEAST_AT_WORK
        return LEAST_TERMS if row.is_named or self.marked.isdisjoint(terms) else 0

    def _find_orders(self) -> set[int]:
        """The units that would order a model about, each with the commands that follow it in its row.

        A user's own wish for the time to come is no order: it is kept as a quotation.
        """
        found: set[int] = set()
        texts, places = self.units.texts, self.units.places
        for first in self.suspects:
            is_order = source_text.is_override if self.row_of[first].role == "user" else source_text.is_directive
            if is_order(texts[first]):
                found.add(first)
                for place in range(first + 1, min(first + _MAX_STEPS, len(texts))):
                    if places[place] != places[first] or not source_text.is_imperative(texts[place]):
                        break
                    found.add(place)
        return found

    def _enqueue(self, indexes: Iterable[int]) -> None:
        """Units may come, or come again."""
        worth, terms, factors, divisors = self.worth.__getitem__, self.terms, self.factors, self.divisors
        rated = [(-sum(map(worth, terms[index])) * factors[index] / divisors[index], index) for index in indexes]
        self.queue += [item for item in rated if item[0] < 0]
        heapq.heapify(self.queue)

    def _next(self) -> int | None:
        """The unit that adds most now; it will not come again by itself. None when no unit adds anything."""
        worth, terms, factors, divisors = self.worth.__getitem__, self.terms, self.factors, self.divisors
        queue = self.queue
        while queue:
            before, index = queue[0]
            now = -sum(map(worth, terms[index])) * factors[index] / divisors[index]
            if before < now < 0:
                heapq.heapreplace(queue, (now, index))
                if queue[0][1] != index:
                    continue
            heapq.heappop(queue)
            if now < 0:
                return index
        return None

    def fill(self) -> None:
        """Take units until the room is used or nothing new is left to say.

        Rows that came out shorter than they might have leave room for a second look.
        """
        for most_passed in (None, _LOOK_AHEAD):
            before, aside = len(self.taken), self._fill(most_passed)
            if len(self.taken) == before:
                break
            self.remaining += self.used
            self.lines = list(self._lines())
            self.used = sum(quarter_tokens(line) + 1 for line in self.lines)
            self.remaining -= self.used
            self.queue += aside
            self._enqueue(self.passed_over)
            self.passed_over = []
        if not self.taken:
            self.takes_small_talk = True
            self._enqueue(self.small)
            self._fill(most_passed=None)
            self.lines = list(self._lines())

    def _fill(self, most_passed: int | None) -> list[tuple[float, int]]:
        """Take what fits; returns what did not come up, because it is too long for the room that was left."""
        aside: list[tuple[float, int]] = []
        space = self.remaining - self.topic_tokens
        while space > 0 and (index := self._next()) is not None:
            if index in self.orders:
                continue
            group = self._with_neighbours(index) if index in self.short else [index]
            group = [place for place in group if place not in self.taken]
            if not group:
                self.small.append(index)
                continue
            cost = self._cost(index) + sum(self.costs[place] + len(_GAP) for place in group if place != index)
            is_output = self.row_of[index].role == "tool"
            if cost > space or (is_output and cost > self.tool_room):
                self.passed_over.append(index)
                if len(self.passed_over) == most_passed:
                    break
                if not len(self.passed_over) % _LOOK_AHEAD:
                    fitting, too_long = self._by_length(space - len(_GAP))
                    if not fitting:
                        break
                    if self.taken and not self.takes_small_talk:
                        aside += (item for item in too_long if item[1] not in self.short)
                        self.queue = [*fitting, *(item for item in too_long if item[1] in self.short)]
                        heapq.heapify(self.queue)
                continue
            space -= cost
            self.remaining -= cost
            self.used += cost
            self.tool_room -= cost if is_output else 0
            for place in group:
                self.covered |= self.terms[place]
                self.worth.update(dict.fromkeys(self.terms[place], 0))
                self.taken.add(place)
                self.voices.add(self.units.places[place])
                self.headed.add(self.blocks[self.units.places[place]])
        return aside

    def _by_length(self, space: int) -> tuple[list[tuple[float, int]], list[tuple[float, int]]]:
        """What waits, by whether it may be short enough for the room that is left."""
        fitting: list[tuple[float, int]] = []
        too_long: list[tuple[float, int]] = []
        of_tools = min(space, self.tool_room - len(_GAP))
        for item in self.queue:
            room = of_tools if self.row_of[item[1]].role == "tool" else space
            (fitting if self.costs[item[1]] <= room else too_long).append(item)
        return fitting, too_long

    def _with_neighbours(self, index: int) -> list[int]:
        """A unit that says little alone with what is next to it in its message; none when that helps nothing."""
        places = self.units.places
        minimum = self._least_terms(self.row_of[index], self.terms[index])
        group, covered = [index], self.terms[index] - self.empty
        while len(covered) < minimum:
            neighbours = [
                place
                for place in (group[0] - 1, group[-1] + 1)
                if 0 <= place < len(places) and places[place] == places[index] and place not in self.orders
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

    def _cost(self, index: int) -> int:
        place, row = self.units.places[index], self.row_of[index]
        cost = self.costs[index] + (len(_GAP) if place in self.voices else quarter_tokens(row.label) + 3)
        if self.blocks[place] not in self.headed:
            cost += quarter_tokens(row.heading) + 3
        return cost if index not in self.suspects else cost + 2

    def _shown(self, index: int) -> str:
        text = self.units.texts[index]
        if index not in self.suspects or text.startswith("“") or not source_text.is_directive(text):
            return text
        return f"“{text}”"

    def _lines(self) -> Iterator[str]:
        """The taken units in order: a heading where the time changes, a line for each voice with its label, and an
        ellipsis where something was left out.
        """
        heading, places = "", self.units.places
        for shown in self._by_line():
            row = self.row_of[shown[0]]
            if row.heading != heading and row.heading:
                yield f"[{row.heading}]"
            heading = row.heading
            text = f"{row.label}: {self._shown(shown[0])}" if row.label else self._shown(shown[0])
            for previous, index in pairwise(shown):
                is_next = previous == index - 1 and places[previous] == places[index]
                text += (" " if is_next else _GAP) + self._shown(index)
            yield text

    def _by_line(self) -> list[list[int]]:
        """The taken units by lines: as they were said, but for people among themselves by speaker."""

        def place(index: int) -> tuple[int, int, int]:
            block = self.blocks[self.units.places[index]]
            return block, 0 if block in self.mixed else self.ranks[block, self.row_of[index].label], index

        found: list[list[int]] = []
        length = 0
        for index in sorted(self.taken, key=place if self.ranks else None):
            if found and self._goes_on(found[-1][-1], index, length):
                found[-1].append(index)
            else:
                found.append([index])
                length = 0
            length += self.costs[index] + len(_GAP)
        return found

    def _goes_on(self, previous: int, index: int, length: int) -> bool:
        """Whether a unit stands on the line of the one before it: the same voice at the same moment."""
        if self.units.places[previous] == self.units.places[index]:
            return True
        row = self.row_of[previous]
        is_short = row == self.row_of[index] and length + len(self.units.texts[index]) <= _LINE_CHARS
        return is_short and row.is_speech and not self.has_tools

    def topics(self, older: Iterable[str]) -> list[str]:
        """Phrases of what was left out, the weightiest first, in turn with those of older summaries."""
        space = min(self.topic_tokens, self.remaining) + quarter_tokens(NOTHING_ELSE)
        found: list[str] = []
        covered, worth = set(self.covered), dict(self.worth)
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
        for index in chain(self.passed_over, iter(self._next, None)):
            row = self.row_of[index]
            if row.role != "tool" and not row.label.startswith(_RAN) and index not in self.orders:
                yield key_phrase(self.units.texts[index], self.vocabulary, worth)


_ROWS = load_patterns(__package__)["rows"]
_LEAST_TURNS = 3
_SPOKEN_SHARE = 0.6
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
    found = TextUnits()
    done = attempts(lines) if any(line.inputs for line in lines) else []
    by_id = {one.call.id: one for one in done if one.call.id}
    of_line = iter(done)
    heading = ""
    for line, heading in zip(lines, _headings(lines, timezone), strict=True):
        if line.role != "tool" and line.text:
            found.add(*_speech_row(line, heading, speakers, user_factor, bool(by_id)))
        for row in _tool_rows(line, heading, [*islice(of_line, len(line.inputs))], by_id):
            found.add(*row)
    if by_id:
        _frame_work(lines, done, found, heading)
    files = source_text.files_line(source_text.touched_files(lines), int(_FILES_SHARE * limit))
    return compose_summary(found, files, (), limit)


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
    line: SourceMessage, heading: str, done: Iterable[Attempt], by_id: Mapping[str, Attempt]
) -> Iterator[tuple[ExtractRow, list[str], list[float]]]:
    """What was done with tools in a line: each call, and what tools printed."""
    if line.role == "tool":
        yield ExtractRow("tool output", heading, "tool"), *printed_units(line.text)
    for one in done:
        row, factor = one.row()
        yield ExtractRow(_RAN + one_line(one.call.name, 40), heading), [row], [factor]
    for output in line.outputs:
        asked = by_id.get(output.call_id or "")
        if asked is not None and (asked.operation == "read" or output.is_error):
            continue  # the row of the call says how it ended; a file can be read again
        label = f"{one_line(output.name or 'tool', 40)} {'failed' if output.is_error else 'output'}"
        texts, factors = printed_units(output.text, only_failures=asked is not None and bool(asked.operation))
        if asked is not None and asked.is_look:
            factors = [_LOOK_FACTOR * factor for factor in factors]
        yield ExtractRow(label, heading, "assistant" if output.is_error else "tool"), texts, factors


def _work_factor(text: str, has_calls: bool) -> float:
    """How much a sentence counts among work with tools: less, when it announces a step or reads like code.

    A short announcement of the calls next to it counts nothing, for their rows say as much.
    """
    if has_calls and text[-1:] == ":" and len(text.split()) < _LEAST_ANNOUNCED:
        return 0.0
    return _ANNOUNCED_FACTOR if text[-1:] == ":" or is_code(text) else 1.0


def _frame_work(lines: Sequence[SourceMessage], done: Iterable[Attempt], found: TextUnits, heading: str) -> None:
    """Name what work with tools is for, and what of it is open at the end."""
    wishes = [
        index
        for index, place in enumerate(found.places)
        if found.rows[place].label == "user" and (not index or found.places[index - 1] != place)
    ]
    first = next((index for index in wishes if len(found.texts[index].split()) >= LEAST_TERMS), None)
    named = [] if first is None else [(first, _GOAL)]
    if wishes and wishes[-1] != first and (lines[-1].role == "tool" or lines[-1].inputs or lines[-1].role == "user"):
        named.append((wishes[-1], _OPEN))
    for index, label in named:
        place = found.places[index]
        found.rows[place] = found.rows[place]._replace(label=label)
        found.factors[index] *= _FRAME_FACTOR
    for row in open_ends(done):
        found.add(ExtractRow(_OPEN, heading), [row], [_FRAME_FACTOR])


def find_speakers(texts: Iterable[str]) -> frozenset[str]:
    """The names before the messages of several people that came in through one: `Ann: …`, `Bo: …`.

    Only where most messages begin so, and each name begins several; a word that stands for a role is no name.
    """
    texts = list(texts)
    begun = (_ROWS["speaker"].match(text) for text in texts)
    names = Counter(match[1] for match in begun if match)
    known = {name for name, count in names.items() if count >= _LEAST_TURNS and name.lower() not in _ROWS["no_names"]}
    known = {name for name in known if not source_text.is_directive(name)}
    return frozenset(known) if sum(names[name] for name in known) >= _SPOKEN_SHARE * len(texts) else frozenset()


def split_speaker(text: str, speakers: frozenset[str]) -> tuple[str, str]:
    """The speaker before a text and the rest of it; '' and all of it when there is none."""
    if not speakers or (begun := _ROWS["speaker"].match(text)) is None or begun[1] not in speakers:
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
        found = source_text.split_units(passage)
        if not place % 2 and speaks_of_days(passage):
            found = [date_words(unit, moment.date()) if speaks_of_days(unit) else unit for unit in found]
        texts += source_text.remove_interjections(found)
        asked = share if is_user else share * _QUESTION_FACTOR
        factors += [asked if unit[-1] in "?？" else share for unit in found]
    return texts, factors


@lru_cache(maxsize=256)
def _speaker(sender: str | None) -> str:
    """The name in a sender's metadata; '' when there is none, or when it reads like an order."""
    name = sender_name(sender)
    return "" if source_text.is_directive(name) else name


def _headings(lines: Sequence[SourceMessage], timezone: str) -> Iterator[str]:
    """The time over each line: that of the first line after a pause or since midnight."""
    heading = ""
    previous: datetime | None = None
    for line in lines:
        moment = source_text.to_local_time(line.created_at, timezone)
        if previous is None or abs(moment - previous) >= _PAUSE or moment.date() != previous.date():
            heading = source_text.format_local_time(moment, timezone)
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


_MARKERS = (source_text.DIRECTIVE_MARKER, source_text.DIRECTIVE_OMITTED, source_text.FALLBACK_MARKER)
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
    found = TextUnits()
    touched: dict[str, str] = {}
    topics: dict[str, None] = {}
    kept = [list(_rows(section.text)) for section in sections]
    speakers = find_speakers(row for rows in kept for row in rows if not row.startswith(_FRAMES))
    for section, rows in zip(sections, kept, strict=True):
        heading = source_text.format_source_span(section, timezone)
        for row in rows:
            if row.startswith(EXPAND.strip()):
                topics.update(dict.fromkeys(_listed(row)))
            elif row.startswith(source_text.FILES_PREFIX.strip()):
                for path, operation in source_text.parse_files_line(row):
                    source_text.note_operation(touched, path, operation)
            elif time := _ROWS["heading"].fullmatch(row):
                heading = time[1]
            else:
                voice, words, factor = _voice(row, heading, speakers)
                if voice.label == _OPEN and section is not sections[-1]:
                    voice, factor = voice._replace(label=_WAS_OPEN), 1.0
                texts = [unit for piece in words.split(_GAP) for unit in source_text.split_units(piece)]
                found.add(voice, texts, [factor] * len(texts))
    return compose_summary(found, source_text.files_line(touched, int(_FILES_SHARE * limit)), list(topics), limit)


def _rows(text: str) -> Iterator[str]:
    """The rows of a summary without the notes that a cut or a filter left in it."""
    for row in text.splitlines():
        bare = _ROWS["note"].sub("", row)
        for marker in _MARKERS:
            bare = bare.replace(marker, "")
        if bare.strip():
            yield bare.strip()


def _voice(row: str, heading: str, speakers: frozenset[str]) -> tuple[ExtractRow, str, float]:
    """Who says a row, where it names a speaker, and how much it counts. A model's own words report wishes."""
    name, words = split_speaker(row, speakers)
    if name:
        return ExtractRow(name, heading, "user", is_speech=True, is_named=True), words, _USER_FACTOR
    label = _ROWS["label"].match(row)
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
    return [topic for topic in known if not source_text.is_directive(topic)]


_DATES = load_patterns(__package__)["dates"]


def speaks_of_days(text: str) -> bool:
    """Whether `date_words` may find something; quick."""
    if " ago" in text or "esterday" in text or "omorrow" in text:
        return True
    return any(
        words[:3].lower() in _DATES["near"]
        for mark in ("ast ", "ext ")
        if mark in text
        for words in text.split(mark)[1:]
    )


def date_words(text: str, said_on: date) -> str:
    """A text in which words for a day are followed by the date that they meant.

    >>> from datetime import date
    >>> date_words("We met last Friday, and a month ago.", date(2023, 5, 8))
    'We met last Friday (5 May 2023), and a month ago (April 2023).'
    """
    folded = text.lower()
    pieces, end = [], 0
    for found in _DATES["said"].finditer(folded if len(folded) == len(text) else text):
        if meant := _meaning(found, said_on):
            pieces.append(f"{text[end : found.end()]} ({meant})")
            end = found.end()
    return "".join([*pieces, text[end:]])


def _meaning(found: re.Match[str], today: date) -> str:
    """The date that words meant, as exactly as they say it; '' when there is none in the calendar."""
    if day := found["day"]:
        unit, step = "day", 1 if day == "tomorrow" else -1
    elif count := found["count"]:
        unit, step = found["unit"], -(_DATES["numbers"].get(count) or int(count))
    else:
        unit, step = found["what"], -1 if found["way"] == "last" else 1
    try:
        return _date_away(unit, step, today)
    except (OverflowError, ValueError):
        return ""


def _date_away(unit: str, step: int, today: date) -> str:
    """The day, or the span of days, that is so many units away."""
    monday = today - timedelta(days=today.weekday())
    match unit:
        case "day":
            return _named_day(today + timedelta(days=step))
        case "week":
            return f"week of {_named_day(monday + timedelta(weeks=step))}"
        case "weekend":
            return f"weekend of {_named_day(monday + timedelta(days=5, weeks=min(step, 0)))}"
        case "month":
            months = today.year * 12 + today.month - 1 + step
            return f"{_DATES['months'][months % 12]} {months // 12}" if months >= 12 else ""
        case "year":
            return str(today.year + step) if today.year + step > 0 else ""
    day = _DATES["weekdays"].index(unit[:3])
    away = (today.weekday() - day - 1) % 7 + 1 if step < 0 else -((day - today.weekday() - 1) % 7 + 1)
    return _named_day(today - timedelta(days=away))


def _named_day(day: date) -> str:
    return f"{day.day} {_DATES['months'][day.month - 1]} {day.year}"
