"""`recall`: quotations that answer a question in plain words, best first, within a token budget; `recent`: what was
said in a stretch of time, by day and topic. No model is asked.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from lossless.errors import BadInput
from lossless.model.budget import budget_tokens
from lossless.model.context import QuoteSpan
from lossless.model.messages import sender_name
from lossless.model.search_text import WORD, fold_text, stop_words
from lossless.model.times import from_epoch
from lossless.model.tokens import cut_to_tokens, estimate_tokens
from lossless.recall import query, rank
from lossless.recall.rank import ECHO_LIMIT, SESSION_GAP_SECONDS, Hit
from lossless.recall.results import ELLIPSIS, best_window
from lossless.recall.scope import GrepRequest, Scope
from lossless.recall.search import grep, messages_that_ask
from lossless.store.search import AnyText, MessageText, SearchScope, stem

if TYPE_CHECKING:
    from lossless.model.conversations import Session
    from lossless.store.archive import Archive

#: Words that make a time relative to the day on which they were said.
_RELATIVE = query.phrases("is relative to a day")
_MOST_DATES = 2
_NEWEST = " newest word on it; the rest in order of time:"
_OPENING = "Open one with lcm_describe (id: msg#… or sum_…); lcm_expand_query reads around it."


@dataclass(frozen=True, slots=True)
class Evidence:
    """A quotation from a message, with what is needed to cite it."""

    id: int
    conversation_id: int
    seq: int
    #: Comparable within one recall only.
    score: float
    role: str
    created_at: datetime
    #: The message, or a piece of it, on one line; an ellipsis shows where something was left out.
    text: str
    summary_id: str | None = None
    sender: str = ""
    #: What words such as "last Friday" in it meant on the day it was said.
    days: str = ""
    span: QuoteSpan | None = None

    @property
    def reference(self) -> str:
        """The name under which it can be opened."""
        return f"msg#{self.id}"

    @property
    def place(self) -> tuple[int, str, str]:
        """What it is shown under: its conversation, its day, its summary."""
        return self.conversation_id, f"{self.created_at:%Y-%m-%d}", self.summary_id or ""


@dataclass(frozen=True, slots=True)
class RecallResult:
    """Evidence for a question, best first, or in order of time; `str()` of it is the text that an agent reads."""

    question: str
    scope: Scope
    evidence: tuple[Evidence, ...] = ()
    note: str = ""
    max_tokens: int = 2000
    #: Whether the question is about a course of events: then the evidence is in order of time. Where it asks how
    #: something changed, the newest word stands before the rest.
    in_order: bool = False

    def __str__(self) -> str:
        return cut_to_tokens("\n".join(self.lines), self.max_tokens)

    @property
    def lines(self) -> list[str]:
        """The evidence in its order, what belongs to one day and one summary together under one heading; in order of
        time, what follows each other.
        """
        newest = 0
        if self.in_order:  # where time goes back, the newest ends
            times = [(item.created_at, item.id) for item in self.evidence]
            newest = next((n for n, (one, two) in enumerate(pairwise(times), 1) if two < one), 0)
        groups: dict[tuple[int, bool, tuple[int, str, str]], list[str]] = {}
        run = 0
        for number, item in enumerate(self.evidence):
            run += self.in_order and number > 0 and item.place != self.evidence[number - 1].place
            groups.setdefault((run, number < newest, item.place), []).append(evidence_line(item))
        asked = " ".join(self.question.split())
        lines = [f"Evidence for: {asked if len(asked) <= 200 else asked[:199] + '…'}", *filter(None, [self.note])]
        for (_, is_newest, place), quotes in groups.items():
            lines += [day_heading(place, self.scope) + (_NEWEST if is_newest else ""), *quotes]
        return [*lines, _OPENING] if self.evidence else lines


def day_heading(place: tuple[int, str, str], scope: Scope) -> str:
    """The line above evidence of one day."""
    conversation_id, day, summary_id = place
    where = "" if scope.is_single else f", conversation {conversation_id}"
    return f"[{day}{where}{f', {summary_id}' if summary_id else ''}]"


def _tokens(*lines: str) -> int:
    return sum(estimate_tokens(f"{line}\n") for line in lines)


def evidence_line(item: Evidence) -> str:
    """A quotation with its id, its speaker, and the days that it speaks of."""
    who = f"{item.role} ({item.sender})" if item.sender else item.role
    return f"{item.reference} {who}: {item.text}{f' [{item.days}]' if item.days else ''}"


def mentioned_days(text: str, said_at: datetime) -> str:
    """What words such as "yesterday" and "two weeks ago" meant on the day they were said.

    >>> from datetime import UTC, datetime
    >>> mentioned_days("I went there last Friday", datetime(2023, 5, 8, tzinfo=UTC))
    'last Friday = 2023-05-05'
    """
    return _mentioned_days(text, said_at, said_at.tzinfo) if _RELATIVE.search(text) else ""


@lru_cache(maxsize=256)
def _mentioned_days(text: str, said_at: datetime, _zone: tzinfo | None) -> str:
    """Cached, because a quotation stays in many prompts; one moment has another date in another zone."""
    known: list[str] = []
    for spoken in query.find_times(text, said_at):
        words = text[spoken.start : spoken.end]
        if _RELATIVE.search(words) and len(known) < _MOST_DATES:
            last = spoken.before.toordinal() - 1
            first = f"{spoken.since:%Y-%m-%d}"
            is_day = last <= spoken.since.toordinal()
            until = "" if is_day else f"..{type(said_at).fromordinal(last):%Y-%m-%d}"
            known.append(f"{' '.join(words.split())} = {first}{until}")
    return "; ".join(known)


def question_messages(archive: Archive, session: Session | None) -> frozenset[int]:
    """The messages of a session that ask now: the newest user message, and the call that its turn waits for.

    None when its newest message is an answer: then what asks is not stored yet.
    """
    conversation = None if session is None else archive.conversations.find(session)
    newest = None if conversation is None else archive.messages.newest_said_id(conversation.id)
    if conversation is None or newest is None:
        return frozenset()
    last = archive.messages.get(newest).message
    if last.role == "assistant" and not last.tool_calls:
        return frozenset()
    user = archive.messages.newest_users([conversation.id])
    return frozenset(user.values()) | (frozenset({newest}) if last.role == "assistant" else frozenset())


#: A text up to this long is quoted whole; of longer ones the best piece, a larger one of the first few.
WHOLE_MESSAGE_CHARS = 480
PIECE_CHARS = 320
BEST_CHARS = 800
_BEST = 4
_MOST = 200
_POOL = 300
#: Fewer tokens than this are left empty.
_LEAST_TOKENS = 24
#: Words that ask for whatever was said or done.
_WHATEVER = query.word_list("words for whatever was said")
_IN_ORDER = "In order of time."
#: How much more a message of the running session counts where all conversations are looked at.
_NEAR = 1.2
_NO_EVIDENCE = "Nothing in scope holds any of this."


def recall(
    archive: Archive,
    scope: Scope,
    question: str,
    max_tokens: int,
    now: datetime,
    asking: frozenset[int] = frozenset(),
    asks: tuple[str, ...] = (),
) -> RecallResult:
    """The evidence for a question within so many tokens: short quotations from many messages, best first.

    Times in the question are read against `now`, those in the evidence against the day they were said. The message
    that asks is no evidence: one of `asking`, and the newest of its conversation when it says the question, or one
    of the words in which it was asked (`asks`).
    """
    archive = archive.within(scope.conversation_ids)
    words = rank.word_search(archive, question, SearchScope(scope.conversation_ids), "messages", now, _POOL)
    spoken = words.spoken
    if spoken is not None and _asks_only_when(question, now):
        topics = recent(archive, scope, question, max_tokens, now, asking).topics
        evidence = tuple(item for topic in topics for item in topic.quotes)
        note = _note(question, spoken) if evidence else f"{_note(question, spoken)} {_NO_EVIDENCE}"
        return RecallResult(question, scope, evidence, note, max_tokens)
    ranked, weights, newer = _rank_messages(scope, words, now, asking, (question, *asks))
    note = _note(question, spoken) if ranked else _NO_EVIDENCE
    asks_order = spoken is None and query.ASKS_ORDER.search(question) is not None
    in_order = asks_order or (spoken is None and query.asks_course(question))
    notes = [note, _IN_ORDER if asks_order and ranked else ""]
    notes += [f"msg#{later} is newer than msg#{earlier} on the same matter." for later, earlier in newer.items()]
    found = RecallResult(question, scope, (), " ".join(filter(None, notes)), max_tokens, in_order)
    leaves = archive.summaries.covering([text.id for text, _ in ranked])
    budget = max_tokens - _tokens(*found.lines, _OPENING)
    items: list[Evidence] = []
    places: set[tuple[int, str, str]] = set()
    for number, (text, score) in enumerate(ranked):
        size = BEST_CHARS if number < _BEST else PIECE_CHARS
        for quote in _quotes(" ".join(text.indexed.split()), words.finder, weights, size, budget):
            item = _evidence(text, quote, score, now.tzinfo, leaves.get(text.id))
            heading = () if item.place in places else (day_heading(item.place, scope),)
            if (cost := _tokens(evidence_line(item), *heading)) <= budget:
                budget -= cost
                items.append(item)
                places.add(item.place)
                break
        if budget < _LEAST_TOKENS:
            break
    found = replace(found, evidence=tuple(items))
    if not in_order:
        return found
    found = _by_time(found, newest_first=not asks_order)
    while len(found.evidence) > 1 and estimate_tokens("\n".join(found.lines)) > max_tokens:  # headings stand again
        weakest = min(found.evidence, key=lambda item: item.score)
        rest = tuple(item for item in found.evidence if item is not weakest)
        found = _by_time(replace(found, evidence=rest), newest_first=not asks_order)
    return found


def _by_time(found: RecallResult, *, newest_first: bool) -> RecallResult:
    """Evidence in order of time; the newest of it before the rest, if that is asked for."""
    items = sorted(found.evidence, key=lambda item: (item.created_at, item.id))
    newest = [item for item in items if newest_first and item.place == items[-1].place]
    if newest and len(newest) == len(items):
        newest = items[-1:]
    return replace(found, evidence=(*newest, *(item for item in items if item not in newest)))


def _evidence(
    text: MessageText,
    quote: str,
    score: float,
    zone: tzinfo | None,
    leaf: str | None = None,
    span: QuoteSpan | None = None,
) -> Evidence:
    said_at = from_epoch(text.at / 1000).astimezone(zone)
    days, sender = mentioned_days(quote, said_at), sender_name(text.sender)
    return Evidence(text.id, text.conversation_id, text.seq, score, text.role, said_at, quote, leaf, sender, days, span)


def _rank_messages(
    scope: Scope, words: rank.WordSearch, now: datetime, asking: frozenset[int], asks: tuple[str, ...]
) -> tuple[Sequence[tuple[MessageText, float]], Sequence[float], Mapping[int, int]]:
    """Messages, best first, with their scores; the weight of each term; and which message corrects which."""
    archive = words.archive
    found, _, known_weights = rank.ranked_hits(words)
    hits = [hit for hit in found if hit.tier < ECHO_LIMIT]
    if scope.near:
        hits.sort(key=lambda hit: (hit.tier, -hit.score * (_NEAR if hit.conversation_id in scope.near else 1)))
    scores = {hit.id: hit.score for hit in hits[:_MOST] if isinstance(hit.id, int)}
    if not scores:
        letters = grep(archive, scope, GrepRequest(words.text, search_in="messages", limit=_MOST), now).hits
        echoes = archive.search.echoes(hit.id for hit in letters if isinstance(hit.id, int))
        scores = {hit.id: hit.score for hit in letters if isinstance(hit.id, int) and hit.id not in echoes}
    found_texts = archive.search.messages(scores)
    gone = asking | messages_that_ask(archive, asks, ((text.id, text.conversation_id) for text in found_texts))
    weights = known_weights or (1.0,) * len(words.query.terms)
    ranked = [(text, scores[text.id]) for text in found_texts if text.id not in gone]
    if words.spoken is not None:
        return ranked, weights, {}
    ordered, newer = rank.corrections_first(ranked, words.finder, weights)
    return ordered, weights, newer


def _quotes(whole: str, finder: query.TermFinder, weights: Sequence[float], size: int, budget: int) -> Iterator[str]:
    """What may be quoted of a text, the most first: all of it, its best piece, as much of that as fits."""
    if len(whole) <= WHOLE_MESSAGE_CHARS:
        yield whole
    for chars in (size, 4 * budget - 80):
        if 40 <= chars < len(whole):
            start, end, _ = best_window(whole, finder, chars, weights)
            yield _cut_out(whole, start, end)


def _cut_out(whole: str, start: int, end: int) -> str:
    before, after = ELLIPSIS if start > 0 else "", ELLIPSIS if end < len(whole) else ""
    return f"{before}{whole[start:end].strip()}{after}"


def _asks_only_when(question: str, now: datetime) -> bool:
    rest = question
    for spoken in reversed(query.find_times(question, now)):
        rest = rest[: spoken.start] + rest[spoken.end :]
    return not {fold_text(word) for word in _topics(rest)} - _WHATEVER


def _note(question: str, spoken: query.MentionedTime | None) -> str:
    if spoken is None:
        return ""
    words = " ".join(question[spoken.start : spoken.end].split())
    return f'"{words}" was read as {spoken.since:%Y-%m-%d} up to, without, {spoken.before:%Y-%m-%d}.'


#: Of words longer than this, as of a pasted log, only the beginning and the end are looked up, and less is quoted.
_LONG_CHARS, _END_CHARS, _LONG_SHARE = 2_000, 400, 3
#: Among so many of the best messages is the one that decides; so many candidates are weighed, of so many index rows.
_DECIDING, _PROMPT_POOL, _PROMPT_ROWS = 20, 70, 4_000
#: What the rare words that one message shares with a question must weigh together; with other words, and how many.
_LEAST_FOR_QUESTION, _LEAST_FOR_WORDS, _LEAST_WORDS = 1.0, 7.0, 2
#: Messages below this part of the best score are not quoted.
_LEAST_SHARE = 0.1
#: So many messages are looked at, until so many did not fit; so many are read at once.
_MOST_QUOTABLE, _MOST_MISSES, _READ_AT_ONCE = 120, 8, 40
_FRAME_TOKENS = 64

_ASKS, _ASKS_PAST = query.phrases("begins a question", start=r"\s*"), query.phrases("asks for what was")
_ASKS_THE_MODEL = query.phrases("asks the model")
#: Words of greetings, thanks, feelings and requests, which say nothing about a topic.
_SMALL_TALK = query.word_list("small talk")


def unasked_evidence(
    archive: Archive,
    scope: Scope,
    words: str,
    limit: int,
    now: datetime,
    *,
    in_prompt: Callable[[int], bool],
    is_fit: Callable[[str], bool],
) -> tuple[Evidence, ...]:
    """What was said about what the newest words of a user are about, best first, within so many tokens.

    Nothing when no message is about it for certain: small talk brings nothing. Messages that are `in_prompt`, or ask,
    are left out; a text that is not `is_fit` is not quoted.
    """
    question = words if len(words) <= _LONG_CHARS else f"{words[:_END_CHARS]}\n{words[-_END_CHARS:]}"
    if not (topics := _topics(question)):
        return ()
    archive = archive.within(scope.conversation_ids)
    where = SearchScope(scope.conversation_ids)
    search = rank.word_search(archive, question, where, "messages", now, _PROMPT_POOL, most_rows=_PROMPT_ROWS)
    found, texts, all_weights = rank.ranked_hits(search)
    near = [hit.id for hit in found if hit.tier < ECHO_LIMIT and isinstance(hit.id, int)]
    ids = [id_ for id_ in near if not in_prompt(id_)][:_MOST_QUOTABLE]
    gone = archive.prompts.hidden(ids)
    shown = {*ids}.difference(gone)
    hits = [hit for hit in found if hit.id in shown]
    weights = {
        term.text: weight for term, weight in zip(search.query.terms, all_weights, strict=True) if term.text in topics
    }
    if not _is_about(question, weights, hits[:_DECIDING], is_dated=search.spoken is not None):
        return ()
    minimum = _LEAST_SHARE * max(hit.score for hit in hits)
    budget = (limit if question == words else limit // _LONG_SHARE) - _FRAME_TOKENS
    kept: list[Evidence] = []
    misses = 0
    for hit, text in _hit_texts(archive, [hit for hit in hits if hit.score >= minimum], texts):
        whole, size = " ".join(text.content.split()), BEST_CHARS if len(kept) < _BEST else PIECE_CHARS
        if not whole:
            continue
        ends = 0, len(whole)
        if len(whole) > max(size, WHOLE_MESSAGE_CHARS):
            ends = best_window(whole, search.finder, size, all_weights)[:2]
        span = QuoteSpan(text.id, *ends, round(hit.score, 3), len(hit.matched))
        item = _evidence(text, _cut_out(whole, *ends), span.score, now.tzinfo, span=span)
        line = f"- [{quotation_place(item)}] {item.text}\n"
        cost = max(estimate_tokens(line), budget_tokens(line))
        if cost > budget:
            misses += 1
        elif is_fit(item.text):
            kept.append(item)
            budget -= cost
        if budget < _LEAST_TOKENS or misses == _MOST_MISSES:
            break
    return tuple(kept)


def _hit_texts(
    archive: Archive, hits: Sequence[Hit], texts: Mapping[int | str, AnyText]
) -> Iterator[tuple[Hit, MessageText]]:
    """Hits with their messages, in order, without system messages; read a few at a time: few are looked at."""
    for start in range(0, len(hits), _READ_AT_ONCE):
        some = hits[start : start + _READ_AT_ONCE]
        near = archive.search.messages(hit.id for hit in some if hit.id not in texts and isinstance(hit.id, int))
        read: dict[int | str, AnyText] = {text.id: text for text in near}
        for hit in some:
            text = texts.get(hit.id) or read.get(hit.id)
            if isinstance(text, MessageText) and text.role != "system":
                yield hit, text


def _topics(question: str) -> frozenset[str]:
    stop = stop_words(WORD.findall(fold_text(question))) | _SMALL_TALK
    return frozenset(term.text for term in query.parse_query(question).asked if fold_text(term.text) not in stop)


def _is_about(question: str, weights: Mapping[str, float], hits: Sequence[Hit], *, is_dated: bool) -> bool:
    shared = [[weight for word in set(hit.matched) if (weight := weights.get(word, 0.0)) > 0] for hit in hits]
    best = max(shared, key=sum, default=[])
    asks = "?" in question or _ASKS.match(question) is not None
    if _ASKS_PAST.search(question) or query.asks_course(question) or (asks and not _ASKS_THE_MODEL.search(question)):
        return bool(best) and (is_dated or sum(best) >= _LEAST_FOR_QUESTION)
    return len(best) >= _LEAST_WORDS and sum(best) >= _LEAST_FOR_WORDS


def quoted_again(archive: Archive, spans: Sequence[QuoteSpan], now: datetime) -> tuple[Evidence, ...]:
    """Quotations that were chosen before, from what their messages say now; what is gone is left out."""
    texts = {text.id: text for text in archive.search.messages([span.message_id for span in spans])}
    found = ((texts[span.message_id], span) for span in spans if span.message_id in texts)
    cut = ((text, _cut_out(" ".join(text.content.split()), span.start, span.end), span) for text, span in found)
    return tuple(_evidence(text, quote, span.score, now.tzinfo, span=span) for text, quote, span in cut)


def quotation_place(item: Evidence) -> str:
    """Where a quotation is from: its message, its speaker, its day, and the days that it speaks of."""
    who = f"{item.role} {item.sender}" if item.sender else item.role
    return ", ".join(filter(None, (item.reference, who, f"{item.created_at:%Y-%m-%d}", item.days)))


#: Of more messages the newest are looked at; of those so many are read, spread evenly, and so much of each.
_MOST_SAID, _MOST_READ, _READ_CHARS = 20_000, 1_500, 4_000
#: How long one quotation is, how many a topic has at most, and how many words name it.
_SENTENCE_CHARS, _MOST_QUOTES, _TOPIC_WORDS = 280, 8, 4
#: A topic within a sitting has so many messages; where one ends is found by comparing so many on either side.
_LEAST_TOPIC, _COMPARED = 8, 4
#: What a user's sentence counts compared with a model's, and a question with a statement.
_USER_SHARE, _ASKING_SHARE = 1.2, 0.5
_NO_TIME = "no time is named; write one such as yesterday, last week, since Monday, 3 March or 2026-03-03"
_CODE_BLOCK = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\s*\n\s*")


@dataclass(frozen=True, slots=True)
class RecentTopic:
    """The messages about one topic in one sitting: when, in how many messages, and the words that tell it apart."""

    conversation_id: int
    since: datetime
    until: datetime
    words: tuple[str, ...]
    message_count: int
    quotes: tuple[Evidence, ...]

    @property
    def heading(self) -> str:
        """One line: when, about what, how much."""
        until = f"–{self.until:%H:%M}" if f"{self.until:%H:%M}" != f"{self.since:%H:%M}" else ""
        about = ", ".join(self.words)
        count = f"{self.message_count:,} message{'s' if self.message_count != 1 else ''}"
        leaves = dict.fromkeys(item.summary_id for item in self.quotes if item.summary_id)
        return " · ".join([f"{self.since:%H:%M}{until}", *([about] if about else []), count, *list(leaves)[:2]])


@dataclass(frozen=True, slots=True)
class RecentResult:
    """The messages of a period, in order; `str()` of it is the text that an agent reads."""

    when: str
    since: datetime
    before: datetime
    scope: Scope
    topics: tuple[RecentTopic, ...] = ()
    note: str = ""
    max_tokens: int = 2000

    def __str__(self) -> str:
        return cut_to_tokens("\n".join(self.lines), self.max_tokens)

    @property
    def lines(self) -> list[str]:
        """The quotations under their day and their topic."""
        lines, day = [self.note], ""
        for topic in self.topics:
            if (heading := _day_line(topic, self.scope)) != day:
                lines.append(heading)
                day = heading
            lines += [topic.heading, *(_said_line(item) for item in topic.quotes)]
        return [*lines, _OPENING] if self.topics else lines


def _day_line(topic: RecentTopic, scope: Scope) -> str:
    where = "" if scope.is_single else f", conversation {topic.conversation_id}"
    return f"[{topic.since:%A %Y-%m-%d}{where}]"


def _said_line(item: Evidence) -> str:
    return f"- {item.created_at:%H:%M} {evidence_line(item)}"


def recent(
    archive: Archive, scope: Scope, when: str, max_tokens: int, now: datetime, asking: frozenset[int] = frozenset()
) -> RecentResult:
    """The messages of the time that `when` names, by day and topic, in its own words, within so many tokens.

    Days are those of the zone of `now`. `BadInput` when no time is named. The messages that ask are left out.
    """
    archive, span = archive.within(scope.conversation_ids), query.time_range(when[: query.MAX_QUESTION_CHARS], now)
    if span is None:
        raise BadInput(_NO_TIME)
    since, before = span
    where = SearchScope(scope.conversation_ids, *(round(end.timestamp() * 1000) for end in span))
    messages = [one for one in archive.search.said_between(where, _MOST_SAID) if one[0] not in asking]
    topics = _Topics(archive, messages, now).made()
    count = f"{len(messages):,} message{'s' if len(messages) != 1 else ''}" if messages else "nothing was said"
    count = f"the newest {count}" if len(messages) == _MOST_SAID else count
    note = f"{' '.join(when.split())[:80]}: {since:%Y-%m-%d %H:%M} up to {before:%Y-%m-%d %H:%M}, {count}."
    found = RecentResult(when, since, before, scope, (), note, max_tokens)
    kept = _fitting(found, topics)
    if len(kept) < len(topics):
        note = f"{note} {len(kept)} of {len(topics)} topics fit; name a shorter time, or allow more tokens."
    return replace(found, topics=tuple(kept), note=note)


def _fitting(found: RecentResult, topics: Sequence[RecentTopic]) -> list[RecentTopic]:
    """As many quotations as fit: of each topic the best one, the newest first, then the next ones."""
    budget = found.max_tokens - _tokens(found.note, _OPENING) - _LEAST_TOKENS
    kept: dict[int, list[Evidence]] = {}
    days: set[str] = set()
    for turn in range(_MOST_QUOTES):
        for place in range(len(topics) - 1, -1, -1):
            topic = topics[place]
            if turn >= len(topic.quotes) or (turn and place not in kept):
                continue
            day = _day_line(topic, found.scope)
            heading = [] if place in kept else [topic.heading]
            lines = [_said_line(topic.quotes[turn]), *heading, *([] if day in days else [day])]
            if (cost := _tokens(*lines)) <= budget:
                budget -= cost
                days.add(day)
                kept.setdefault(place, []).append(topic.quotes[turn])
    return [
        replace(topics[place], quotes=tuple(sorted(kept[place], key=lambda item: (item.created_at, item.id))))
        for place in sorted(kept)
    ]


class _Topics:
    """Parts messages into sittings and topics, and quotes what tells each of them apart."""

    def __init__(self, archive: Archive, messages: Sequence[tuple[int, int, int, int]], now: datetime) -> None:
        self._zone, self._messages = now.tzinfo, messages
        step = max(1.0, len(messages) / _MOST_READ)
        ids = [messages[int(number * step)][0] for number in range(min(len(messages), _MOST_READ))]
        echoes = archive.search.echoes(ids)
        texts = [text for text in archive.search.read(ids) if text.content.strip() and text.id not in echoes]
        self._texts = {text.id: text for text in texts}
        self._leaves = archive.summaries.covering(list(self._texts))
        self._sentences = {text.id: sentences(text.content[:_READ_CHARS]) for text in texts}
        self._words = {text.id: _telling_words(text.content[:_READ_CHARS]) for text in texts}
        self._having = Counter(word for words in self._words.values() for word in words)

    def made(self) -> list[RecentTopic]:
        """All topics in order of time."""
        sittings: dict[tuple[int, object], list[list[tuple[int, int, int, int]]]] = {}
        for one in self._messages:
            runs = sittings.setdefault((one[1], self._moment(one[3]).date()), [[]])
            if runs[-1] and one[3] - runs[-1][-1][3] > 1000 * SESSION_GAP_SECONDS:
                runs.append([])
            runs[-1].append(one)
        parts = (part for runs in sittings.values() for run in runs for part in self._parted(run))
        topics = (self._topic(part) for part in parts)
        return sorted((topic for topic in topics if topic.quotes), key=lambda topic: (topic.since, topic.until))

    def _moment(self, at: int) -> datetime:
        return from_epoch(at / 1000).astimezone(self._zone)

    def _parted(self, run: list[tuple[int, int, int, int]]) -> list[list[tuple[int, int, int, int]]]:
        """A sitting cut where the words before and after have the least in common, if that is far below the usual."""
        if len(run) < 2 * _LEAST_TOPIC:
            return [run]
        likeness = []
        for place in range(_LEAST_TOPIC, len(run) - _LEAST_TOPIC + 1):
            if self._role(run[place][0]) == "user":
                sides = (run[place - _COMPARED : place], run[place : place + _COMPARED])
                one, two = ({word for message in side for word in self._words.get(message[0], ())} for side in sides)
                whole = sum(map(self._weight, one | two))
                likeness.append((sum(map(self._weight, one & two)) / whole if whole else 0.0, place))
        minimum, place = min(likeness, default=(1.0, 0))
        usual = sum(value for value, _ in likeness) / max(1, len(likeness))
        if not place or minimum > usual / 2:
            return [run]
        return [*self._parted(run[:place]), *self._parted(run[place:])]

    def _role(self, id_: int) -> str:
        return self._texts[id_].role if id_ in self._texts else ""

    def _weight(self, word: str) -> float:
        return math.log1p(len(self._words) / max(1, self._having[word]))

    def _topic(self, part: Sequence[tuple[int, int, int, int]]) -> RecentTopic:
        known = [one for one in part if one[0] in self._texts]
        times = Counter(word for one in known for word in self._words[one[0]])
        rare = {word: math.log((1 + len(self._words)) / self._having[word]) for word in times}
        ranked = sorted(times, key=lambda word: (times[word] == 1, -rare[word] * math.log1p(times[word]), word))
        shown = {word: form for one in reversed(known) for word, form in self._words[one[0]].items()}
        words = tuple(shown[word] for word in ranked[:_TOPIC_WORDS])
        ends = self._moment(part[0][3]), self._moment(part[-1][3])
        return RecentTopic(part[0][1], *ends, words, len(part), tuple(self._quotes(known, times)))

    def _quotes(self, known: Sequence[tuple[int, int, int, int]], times: Counter[str]) -> Iterator[Evidence]:
        """The sentences that say most of what was not said yet, each from another message, best first."""
        worth = {word: self._weight(word) * math.log1p(count) for word, count in times.items()}
        remaining = [
            (one[0], sentence, _telling_words(sentence)) for one in known for sentence in self._sentences[one[0]]
        ]
        for _ in range(_MOST_QUOTES):
            values = []
            for place, (id_, sentence, words) in enumerate(remaining):
                share = _USER_SHARE if self._role(id_) == "user" else 1.0
                share *= (_ASKING_SHARE if sentence.endswith("?") else 1.0) / math.sqrt(40 + len(sentence))
                values.append((share * sum(worth.get(word, 0.0) for word in words), -place))
            value, place = max(values, default=(0.0, 0))
            if value <= 0:
                return
            id_, sentence, words = remaining[-place]
            yield _evidence(self._texts[id_], sentence, value, self._zone, self._leaves.get(id_))
            worth |= dict.fromkeys(words, 0.0)
            remaining = [one for one in remaining if one[0] != id_]


def sentences(text: str) -> list[str]:
    """The sentences of a text, each on one line and not too long; a short text is one, code is left out."""
    plain = _CODE_BLOCK.sub("\n", text)
    whole = " ".join(plain.split())
    if len(whole) <= _SENTENCE_CHARS // 2:
        return [whole] if whole else []
    pieces = (" ".join(piece.split()) for piece in _SENTENCE_END.split(plain))
    return [
        piece if len(piece) <= _SENTENCE_CHARS else f"{piece[:_SENTENCE_CHARS]}{ELLIPSIS}" for piece in pieces if piece
    ]


def _telling_words(text: str) -> dict[str, str]:
    raw = WORD.findall(text)
    folded = [fold_text(word) for word in raw]
    stop = stop_words(folded) | _SMALL_TALK
    return {
        stem(word): form
        for word, form in zip(folded, raw, strict=True)
        if len(word) > 2 and not word.isdigit() and word not in stop
    }
