"""Ranked search by words: the index proposes candidates, BM25 weighs them, neighbours, sessions and dates set the
order, and a snippet shows why a text was found.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from lossless.model.messages import sender_name
from lossless.model.search_text import ENGLISH, PASSAGE_CHARS_DENSE, WORD, fold_text, passages
from lossless.model.tokens import estimate_tokens
from lossless.recall.query import (
    COURSE_SPREAD,
    MAX_QUESTION_CHARS,
    MIN_PREFIX,
    MentionedTime,
    Query,
    Term,
    TermFinder,
    TermMatch,
    candidate_expressions,
    narrowest_time,
    parse_query,
    phrase_list,
    phrases,
    word_list,
)
from lossless.store.database import column_text
from lossless.store.search import (
    MAX_UNREAD,
    AnyText,
    MessageText,
    SearchScope,
    index_new_rows,
    is_stale,
    reindex_stale,
    stem,
)

if TYPE_CHECKING:
    from lossless.model.records import TextKind
    from lossless.recall.scope import SearchIn, SortOrder
    from lossless.store.archive import Archive

SeqPlace: TypeAlias = tuple[int, int]
#: What a term counts that stands one, two, three messages (or passages) away.
NEIGHBOUR_SHARES = (0.5, 0.3, 0.1)
#: What it counts in a question, and for the message right after that question, which answers it.
ASKED_SHARE, ANSWER_SHARE = 0.5, 1.1
#: Texts of more tokens than this borrow less, in proportion.
SHORT_TOKENS = 80
#: The part of its best score that a session adds to all of its messages.
SESSION_PRIOR = 0.3
#: How much more a message is worth inside the time that the question speaks of.
DATE_PRIOR = 2.0
#: What a message counts among people whose speaker does not speak of himself in it: mostly praise, thanks and wishes.
IMPERSONAL_WEIGHT = 0.9
#: What a message counts by the one speaker whom the question names.
SPEAKER_WEIGHT = 1.2
#: What a message of a user counts when the question is about the one who asks: up to twice as much with so many names
#: and numbers at its beginning.
OWN_WEIGHT = 3.0
_MANY_SPECIFICS, _OPENING_CHARS = 3, 600
#: What one counts that says what the user wants, when that is asked for.
WISH_WEIGHT = 1.5
#: A pause this long ends a session.
SESSION_GAP_SECONDS = 3600
#: Between rows that do not follow each other, so does a slower pace than this for each message.
SESSION_PACE_SECONDS = 600
HYBRID_DECAY_PER_HOUR = 0.001
#: The tier of messages that repeat what was found before: questions to recall tools, and their results.
ECHO_LIMIT = 3
#: Around how many of the best messages neighbours are looked at.
NEIGHBOURS_OF = 30


@dataclass(slots=True)
class Passage:
    """A passage that may share a term with the question."""

    text: str
    number: int = 0
    tokens: int = 0
    #: The worth of each term in it, before the term's weight, and what its terms' being close together adds.
    values: dict[int, float] = field(default_factory=dict)
    closeness: float = 0.0
    #: The worth of the terms in its questions, for the message that answers.
    asked: dict[int, float] = field(default_factory=dict)


@dataclass(slots=True)
class Hit:
    """A message or a summary, a candidate at first, then in the order of the answer. A summary has no `seq`."""

    id: int | str
    conversation_id: int
    seq: int | None
    #: When it was said, in seconds since 1970.
    at: float
    #: Comparable within one search only; about 1 when each term stands there once.
    score: float = 0.0
    is_users: bool = False
    #: Who said it, in folded letters, where that is known.
    speaker: str = ""
    #: Its passages with terms of the question; none when only its neighbours have any.
    passages: list[Passage] = field(default_factory=list)
    tokens: int = 0
    #: The terms in its own text, as they were asked.
    matched: tuple[str, ...] = ()
    #: 0 when all that was asked for is in its own text, 1 when what is required is, else 2; `ECHO_LIMIT` for an echo.
    tier: int = 2
    session: int = 0
    #: The best value of each term over its passages, what it may borrow from around it, and what its questions lend.
    own: dict[int, float] = field(default_factory=dict)
    borrowed: dict[int, float] = field(default_factory=dict)
    asked: dict[int, float] = field(default_factory=dict)


def missing_places(weighed: WeighedPassages) -> list[SeqPlace]:
    """The places around the best candidates that are no candidates themselves: fetch them as neighbours."""
    known = {(hit.conversation_id, hit.seq) for hit in weighed.hits}
    found = [(weighed.worth(passage.values), hit) for hit in weighed.hits for passage in hit.passages]
    best = [hit for _, hit in sorted(found, key=lambda one: -one[0])[:NEIGHBOURS_OF]]
    steps = range(-len(NEIGHBOUR_SHARES), len(NEIGHBOUR_SHARES) + 1)
    around = ((hit.conversation_id, hit.seq + step) for hit in best if hit.seq is not None for step in steps)
    return [place for place in dict.fromkeys(around) if place[1] >= 0 and place not in known]


def rank(
    weighed: WeighedPassages,
    neighbours: Iterable[Hit] = (),
    *,
    sort: SortOrder = "relevance",
    now: float = 0.0,
    spoken: MentionedTime | None = None,
) -> list[Hit]:
    """All hits, best first; neighbours are messages that have no term of the question themselves.

    `spoken` is the time that the question speaks of; it lifts, it never excludes.
    """
    found = {hit.id: replace(hit, own={}, borrowed={}, asked={}) for hit in weighed.hits}
    for hit in found.values():
        hit.tokens = hit.passages[0].tokens
        for passage in hit.passages:
            _lend(passage.values, hit.own, 1.0)
            _lend(passage.asked, hit.asked, 1.0)
    for near in neighbours:
        found.setdefault(near.id, near)
    by_place = {(hit.conversation_id, hit.seq): hit for hit in found.values() if hit.seq is not None}
    _mark_sessions(by_place)
    _borrow(by_place)
    _score(found.values(), weighed, spoken)
    hits = _sorted((hit for hit in found.values() if hit.score > 0), sort, now)
    if sort == "relevance" and weighed.query.spread < 1:
        before = Counter[int]()
        for hit in hits:
            hit.score *= weighed.query.spread ** before[hit.session]
            before[hit.session] += hit.session > 0
        hits = _sorted(hits, sort, now)
    return hits


def _mark_sessions(by_place: dict[SeqPlace, Hit]) -> None:
    """Number the sessions: runs of messages without an hour's pause between them."""
    session = 0
    before: Hit | None = None
    for (conversation, seq), hit in sorted(by_place.items(), key=lambda item: item[0]):
        if before is None or before.conversation_id != conversation:
            session += 1
        else:
            pace = SESSION_PACE_SECONDS * (seq - (before.seq or 0) - 1)
            session += abs(hit.at - before.at) >= max(SESSION_GAP_SECONDS, pace)
        hit.session, before = session, hit


def _borrow(by_place: dict[SeqPlace, Hit]) -> None:
    for (conversation, seq), hit in by_place.items():
        if not hit.own:
            continue
        for step, share in enumerate(NEIGHBOUR_SHARES, 1):
            for place in ((conversation, seq - step), (conversation, seq + step)):
                other = by_place.get(place)
                if other is not None and other.session == hit.session:
                    _lend(hit.own, other.borrowed, share * min(1.0, SHORT_TOKENS / max(1, other.tokens)))
        after = by_place.get((conversation, seq + 1))
        if hit.asked and after is not None and after.session == hit.session:
            _lend(hit.asked, after.borrowed, ANSWER_SHARE * min(1.0, SHORT_TOKENS / max(1, after.tokens)))


def _lend(values: dict[int, float], borrowed: dict[int, float], share: float) -> None:
    for term, value in values.items():
        if share * value > borrowed.get(term, 0.0):
            borrowed[term] = share * value


def _score(hits: Collection[Hit], weighed: WeighedPassages, spoken: MentionedTime | None) -> None:
    best: dict[int, float] = {0: 0.0}
    for hit in hits:
        hit.score = _own_score(hit, weighed)
        best[hit.session] = max(best.get(hit.session, 0.0), hit.score) if hit.session else 0.0
    terms = weighed.query.terms
    asked = [index for index, term in enumerate(terms) if not term.piece_of and weighed.weights[index]]
    needed, required = set(asked), {index for index in asked if terms[index].required}
    unit = sum(weighed.weights[index] for index in asked) or 1.0
    since, before = (spoken.since.timestamp(), spoken.before.timestamp()) if spoken else (math.inf, 0.0)
    for hit in hits:
        if hit.score > 0:
            hit.score = (hit.score + SESSION_PRIOR * best[hit.session]) / unit
        if since <= hit.at < before:
            hit.score *= 1 + DATE_PRIOR
        if hit.speaker == weighed.speaker:
            hit.score *= SPEAKER_WEIGHT
        own = hit.own.keys()
        # In an answer, having all words says little where it is asked what the user said.
        is_beside = weighed.query.is_own and bool(hit.passages) and not hit.is_users
        hit.tier = 0 if needed <= own and not is_beside else 1 if required <= own else 2
        if own:
            hit.matched = tuple(terms[index].text for index in sorted(own) if not terms[index].share)


def _own_score(hit: Hit, weighed: WeighedPassages) -> float:
    """The worth of the best passage, with what it borrows from around the message and from inside it."""
    if not hit.passages:
        return weighed.worth(hit.borrowed)
    scores = []
    for text in hit.passages:
        values = dict(hit.borrowed)
        for other in hit.passages:
            distance = abs(other.number - text.number)
            if 0 < distance <= len(NEIGHBOUR_SHARES):
                part = NEIGHBOUR_SHARES[distance - 1] * min(1.0, SHORT_TOKENS / max(1, text.tokens))
                _lend(other.values, values, part)
        _lend(text.values, values, 1.0)
        share = 1.0
        if hit.is_users and weighed.query.is_own:
            share = OWN_WEIGHT * (1 + min(1.0, len(_SPECIFIC.findall(text.text, 0, _OPENING_CHARS)) / _MANY_SPECIFICS))
        if hit.is_users and weighed.query.asks_wishes and _WISH.search(text.text):
            share *= WISH_WEIGHT
        if hit.is_users and not weighed.has_model and not _PERSONAL.search(text.text):
            share *= IMPERSONAL_WEIGHT
        scores.append((weighed.worth(values) + text.closeness) * share)
    return max(scores)


def _sorted(hits: Iterable[Hit], sort: SortOrder, now: float) -> list[Hit]:
    if sort == "recency":
        own = [hit for hit in hits if hit.matched]
        full = [hit for hit in own if hit.tier == 0]
        return sorted(full or own, key=lambda hit: (-hit.at, -(hit.seq or 0), -hit.score))
    decay = HYBRID_DECAY_PER_HOUR / 3600 if sort == "hybrid" else 0.0
    return sorted(
        hits, key=lambda hit: (hit.tier, -hit.score / (1 + max(0.0, now - hit.at) * decay), -hit.at, -(hit.seq or 0))
    )


#: bm25: how soon repeats stop counting, and how much long texts are held back.
BM25_K1, BM25_B = 0.9, 0.4
#: What a piece of an identifier counts when the whole is there to be found.
PIECE_WEIGHT = 0.4
#: What a word counts that only says which kind of thing is asked for.
KIND_WEIGHT = 0.5
#: The part of a score that is given in proportion to how much of the question a text covers.
COVERAGE = 0.3
#: What two terms side by side add, in parts of the lesser one; it shrinks with the words between them.
CLOSENESS = 0.5
CLOSE_CHARS = 24
_WORD_CHARS = 6
_KIND_WORDS = word_list("kinds of things")
_SENTENCE_END = re.compile(r"[.!?。！？\n]")
_PERSONAL = phrases("is personal")
_SPECIFIC = re.compile(r"\d[\d.,:]*|(?<=[a-zß-ÿ,;:] )[^\W\d_a-zß-ÿ][\w'’-]+")
_WISH_LIST = phrase_list("wishes")
_WISHES = "body: (" + " OR ".join(f'"{one}"' for one in _WISH_LIST) + ")"
_WISH = re.compile(r"\b(?:" + "|".join(one.replace(" ", r"\W+") for one in _WISH_LIST) + r")\b", re.IGNORECASE)
#: So many messages with one of these are looked at; so many shown behind so many hits, and more further down.
_MOST_WISHES, _WISHES_SHOWN, _BEFORE_WISHES, _MORE_WISHES, _BEFORE_MORE = 200, 4, 6, 16, 24
#: What each of these phrases counts, in parts of the best score.
_WISH_SHARE = 0.1
#: The name at the beginning of a message, as in transcripts of several people.
_SPEAKER = re.compile(r"\s*([^\W\d_][\w.'’-]{0,30}(?: [\w.'’-]{1,30}){0,2}):\s")
#: More occurrences of a term in one passage than this make no difference.
_MOST = 12


@dataclass(frozen=True, slots=True)
class WeighedPassages:
    """All candidates that have a term, and the weight of each term (its idf)."""

    query: Query
    weights: tuple[float, ...]
    hits: tuple[Hit, ...]
    speaker: str | None
    #: What all that was asked weighs.
    whole: float
    #: Whether some are no user's.
    has_model: bool

    def worth(self, values: dict[int, float]) -> float:
        """The score of these term values: their weighted sum, less for what they do not cover."""
        covered, score, weights = 0.0, 0.0, self.weights
        for term, value in values.items():
            score += weights[term] * value
            if not self.query.terms[term].share:
                covered += weights[term] * (value if value < 1.0 else 1.0)
        return score * (1 - COVERAGE + COVERAGE * covered / self.whole) if self.whole else 0.0


def weigh(
    query: Query, candidates: Iterable[Hit], rows: int, counts: Sequence[int], finder: TermFinder | None = None
) -> WeighedPassages:
    """Look for the terms in each candidate, and weigh them by how rare they are: in how many index rows of the scope,
    out of `rows`, each of them is.
    """
    finder, hits = finder or TermFinder(query.terms), list(candidates)
    found = [(hit, passage, finder.find(passage.text, _MOST)) for hit in hits for passage in hit.passages]
    for _, passage, _ in found:
        passage.tokens = estimate_tokens(passage.text)
    average = max(1.0, sum(passage.tokens for _, passage, _ in found) / max(1, len(found)))
    weights = _weights(query, rows, counts, [spots for _, _, spots in found])
    for hit, passage, spots in found:
        if spots:
            is_asked = query.is_own and hit.is_users  # then what is asked is what is meant
            _weigh_passage(passage, spots, passage.tokens / average, weights, has_answer=not is_asked)
    asked = {form[0] for term in query.terms for form in term.forms if len(form) == 1}
    named = {hit.speaker for hit in hits if not asked.isdisjoint(hit.speaker.split())}
    speaker = named.pop() if len(named) == 1 else None
    has_model = any(not hit.is_users for hit in hits)
    whole = sum(weight for weight, term in zip(weights, query.terms, strict=True) if not term.share)
    for hit in hits:
        hit.passages = [passage for passage in hit.passages if passage.values]
    return WeighedPassages(query, weights, tuple(hit for hit in hits if hit.passages), speaker, whole, has_model)


def _weigh_passage(
    candidate: Passage, hits: list[TermMatch], length: float, weights: Sequence[float], *, has_answer: bool
) -> None:
    text = candidate.text
    if has_answer and ("?" in text or "？" in text):
        ends = [_SENTENCE_END.search(text, hit.end) for hit in hits]
        asks = [end is not None and end.group() in "?？" for end in ends]
        if any(asks):
            values = _values(hits, length)
            candidate.asked = {hit.term: values[hit.term] for hit, is_asked in zip(hits, asks, strict=True) if is_asked}
            hits = [
                hit._replace(strength=ASKED_SHARE * hit.strength) if is_asked else hit
                for hit, is_asked in zip(hits, asks, strict=True)
            ]
    candidate.values, candidate.closeness = _values(hits, length), _closeness(hits, weights)


def _weights(query: Query, rows: int, counts: Sequence[int], found: Sequence[list[TermMatch]]) -> tuple[float, ...]:
    """The idf of each term: 0 when it is nowhere, less when it is a piece of what is there whole."""
    seen = Counter(term for hits in found for term in {hit.term for hit in hits})
    rows = max(rows, len(found))
    having = [(term, max(count, seen[at])) for at, (term, count) in enumerate(zip(query.terms, counts, strict=True))]
    whole = {term.match for term, count in having if count}
    weights = []
    for term, count in having:
        share = PIECE_WEIGHT if term.piece_of in whole else KIND_WEIGHT if term.text in _KIND_WORDS else 1.0
        share = term.share or share
        weights.append(math.log1p((rows - count + 0.5) / (count + 0.5)) * share if count else 0.0)
    return tuple(weights)


def _values(hits: list[TermMatch], length: float) -> dict[int, float]:
    times: dict[int, int] = {}
    best: dict[int, float] = {}
    for hit in hits:
        times[hit.term] = times.get(hit.term, 0) + 1
        best[hit.term] = max(best.get(hit.term, 0.0), hit.strength)
    held = BM25_K1 * (1 - BM25_B + BM25_B * length)
    return {term: best[term] * count * (BM25_K1 + 1) / (count + held) for term, count in times.items()}


def _closeness(hits: list[TermMatch], weights: Sequence[float]) -> float:
    best: dict[tuple[int, int], float] = {}
    for one, two in pairwise(hits):
        gap = two.start - one.end
        if one.term != two.term and 0 <= gap <= CLOSE_CHARS:
            pair = (min(one.term, two.term), max(one.term, two.term))
            lesser = min(weights[one.term] * one.strength, weights[two.term] * two.strength)
            best[pair] = max(best.get(pair, 0.0), lesser / (1 + gap // _WORD_CHARS))
    return CLOSENESS * sum(best.values())


#: Candidates beyond what is shown.
CANDIDATE_POOL = 200
#: What a summary counts compared with a message: it repeats what messages say, and it is longer.
SUMMARY_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class WordSearch:
    """A question, where it may look, and what the index does not hold yet."""

    archive: Archive
    #: The question as it was asked, and as it was understood.
    text: str
    query: Query
    finder: TermFinder
    where: SearchScope
    looks_at: tuple[TextKind, ...]
    now: float
    #: How many candidates are taken of each kind, and what sets their order.
    pool: int
    sort: SortOrder
    #: How many index rows may be scored, if there is a limit.
    most_rows: int | None
    spoken: MentionedTime | None
    unread_messages: Sequence[int] = ()
    unread_summaries: Sequence[str] = ()


def word_search(
    archive: Archive,
    text: str,
    where: SearchScope,
    search_in: SearchIn,
    now: datetime,
    pool: int,
    sort: SortOrder = "relevance",
    most_rows: int | None = None,
) -> WordSearch:
    """A question, after the index was brought up to date as far as that is cheap."""
    query = parse_query(text)
    spoken = None if sort == "recency" else narrowest_time(text[:MAX_QUESTION_CHARS], now)
    looks_at: tuple[TextKind, ...] = ("message", "summary")
    if search_in != "both":
        looks_at = ("summary",) if search_in == "summaries" else ("message",)
    how = now.timestamp(), pool, sort, most_rows, spoken
    words = WordSearch(archive, text, query, TermFinder(query.terms), where, looks_at, *how)
    if index_new_rows(archive):
        return words
    messages = archive.search.unread(where, MAX_UNREAD) if "message" in looks_at else ()
    summaries = archive.search.unread_summaries(where, MAX_UNREAD) if "summary" in looks_at else ()
    return replace(words, unread_messages=messages, unread_summaries=summaries)


#: Hits, best first, with the texts that are known already and the weight of each term.
RankedHits: TypeAlias = "tuple[Sequence[Hit], dict[int | str, AnyText], tuple[float, ...]]"


def ranked_hits(words: WordSearch) -> RankedHits:
    """All hits among the best candidates, messages and summaries in one order."""
    found = [_rank_kind(words, what) for what in words.looks_at if words.query.terms]
    if not found:
        return (), {}, ()
    if len(found) == 1:
        return _with_meaning(words, found[0])
    (messages, texts, weights), (summaries, more, _) = found

    def place(hit: Hit) -> tuple[int, float]:
        """A summary never comes first for having all words: it is long, and messages say more exactly what was said."""
        is_summary = hit.seq is None
        worth = hit.score * (SUMMARY_WEIGHT if is_summary else 1.0)
        age = max(0.0, words.now - hit.at) / 3600 if words.sort == "hybrid" else 0.0
        return max(hit.tier, 1 if is_summary else 0), -worth / (1 + age * HYBRID_DECAY_PER_HOUR)

    return _with_meaning(words, (sorted((*messages, *summaries), key=place), texts | more, weights))


def _with_meaning(words: WordSearch, found: RankedHits) -> RankedHits:
    """Hits with those messages moved up, or added, that an embedder finds to mean the same; as they are without one.

    Both are added up as z-scores. What the embedder does not tell from chance keeps its order.
    """
    embedder, search = words.archive.embedder, words.archive.search
    if embedder is None or words.sort != "relevance" or "message" not in words.looks_at:
        return found
    from lossless.llm.embedder import has_numpy, meaning_gains

    vectors = search.vectors.of(words.where, embedder.name) if has_numpy() else None
    asked = embedder.question(words.text) if vectors else None
    if asked is None or vectors is None:
        return found
    gains = dict[int | str, float](meaning_gains(asked, vectors).items())
    before, texts, weights = found
    known = {hit.id for hit in before}
    new = [text for text in search.messages(id_ for id_ in gains if isinstance(id_, int)) if text.id not in known]
    echoes = search.echoes(text.id for text in new)
    minimum = before[-1].score if before else 0.0
    hits = [hit for hit in before if hit.tier < ECHO_LIMIT]
    hits += [_empty_hit(text, minimum) for text in new if text.id not in echoes]
    values = list(accumulate((hit.score for hit in hits), min))
    mean = sum(values) / max(1, len(values))
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / max(1, len(values))) or 1.0
    order = sorted(range(len(hits)), key=lambda n: -((values[n] - mean) / spread + gains.get(hits[n].id, 0.0)))
    return [*(hits[n] for n in order), *(hit for hit in before if hit.tier >= ECHO_LIMIT)], texts, weights


#: What another word for a term counts.
KIN_SHARE = 0.5
#: The second pass of a question about a course of events: words of so many of the best hits, so many of them, out of so
#: many that are looked up, in at most this part of all rows; and what they count.
_BEST_HITS, _RARE_WORDS, _LOOKED_UP, _RARE_SHARE, RARE_WEIGHT = 8, 16, 40, 0.02, 0.3


def _rank_kind(words: WordSearch, what: TextKind) -> RankedHits:
    query = words.query
    if words.sort != "relevance":
        return _rank_terms(words, query, what)
    if query.is_english and words.most_rows is None:  # counting the rows of frequent words takes too long otherwise
        query = replace(query, terms=query.terms + related_terms(query.terms))
    found = _rank_terms(words, query, what)
    if what != "message":
        return found
    is_course = query.spread <= COURSE_SPREAD and words.most_rows is None
    rare = _rare_terms(words, query, found[0]) if is_course else ()
    if rare:
        found = _rank_terms(words, replace(query, terms=query.terms + rare), what)
    hits, texts, weights = found
    if _wants_wishes(words, hits):
        hits, wishes = _with_wishes(words, list(hits))
        texts |= {text.id: text for text in wishes}
    return hits, texts, weights


@lru_cache(maxsize=1)
def _related_words() -> dict[str, dict[str, str]]:
    """For the stem of a word, other words that people use for the same, by their stems."""
    known: dict[str, dict[str, str]] = {}
    for line in Path(__file__).with_name("related_words.txt").read_text(encoding="utf-8").splitlines():
        row = {stem(word): word for word in line.split()}
        for root in row:
            known.setdefault(root, {}).update(row)
    return known


def other_words(words: Sequence[str], share: float) -> Term:
    """A term for words that were not asked for, each of which may mean the same."""
    match = " OR ".join(f'"{word}"' for word in words)
    return Term(words[0], match, match, tuple((word,) for word in words), piece_of=match, share=share)


def related_terms(terms: Sequence[Term]) -> tuple[Term, ...]:
    """Other words for terms: one term for each that has any.

    >>> [term.match for term in related_terms(parse_query("Which vaccination?").terms)]
    ['"vaccine" OR "vaccinated" OR "shot" OR "jab"']
    """
    known = _related_words()
    asked = {stem(form[0]) for term in terms for form in term.forms if len(form) == 1}
    found = []
    for term in terms:
        if [len(form) for form in term.forms] == [1] and not term.required and not term.literal:
            words = [word for root, word in known.get(stem(term.text), {}).items() if root not in asked]
            found += [other_words(words, KIN_SHARE)] if words else []
    return tuple(found)


def _rare_terms(words: WordSearch, query: Query, hits: Sequence[Hit]) -> tuple[Term, ...]:
    """The rare words of the best hits, which other messages on the same matter may have."""
    asked = {stem(form[0]) for term in query.terms for form in term.forms if len(form) == 1}
    best = [hit.passages[0].text for hit in hits if hit.own and (hit.is_users or not query.is_own)]
    worth: dict[str, float] = {}
    said: dict[str, str] = {}
    for place, text in enumerate(best[:_BEST_HITS]):
        found = {stem(word): word for word in WORD.findall(fold_text(text)) if len(word) > MIN_PREFIX - 1}
        for root, word in found.items():
            if root not in asked and word not in ENGLISH:
                worth[root] = worth.get(root, 0.0) + 1 / (place + 1)
                said.setdefault(root, word)
    roots = sorted(worth, key=lambda root: -worth[root])[:_LOOKED_UP]
    rows, counts = words.archive.search.counts([f'"{said[root]}"' for root in roots], words.where, "message")
    rare = {
        root: worth[root] * math.log1p(rows / count)
        for root, count in zip(roots, counts, strict=True)
        if 1 < count <= max(4, _RARE_SHARE * rows)
    }
    rarest = sorted(rare, key=lambda root: -rare[root])[:_RARE_WORDS]
    return tuple(other_words((said[root],), RARE_WEIGHT) for root in rarest)


def _rank_terms(words: WordSearch, query: Query, what: TextKind) -> RankedHits:
    search, where = words.archive.search, words.where
    order = partial(rank, sort=words.sort, now=words.now, spoken=words.spoken)
    finder = words.finder if query is words.query else TermFinder(query.terms)
    rows, counts = search.counts([term.widest for term in query.terms], where, what)
    found = search.candidates(candidate_expressions(query, counts, words.pool, words.most_rows), where, what)
    texts: Iterable[AnyText]
    starts: dict[int | str, set[int | None]] = {}
    if what == "message":
        for id_, start, _ in found:
            starts.setdefault(id_, set()).add(start)
        texts = search.messages(starts)  # type: ignore[arg-type]
    else:
        texts = search.summaries(dict.fromkeys(id_ for (id_,) in found))
    texts = [*texts, *unindexed_texts(words, what)]
    fresh = current_texts(words.archive, texts)
    candidates = [_candidate(text, whole, starts.get(text.id, (None,))) for text, whole in fresh]
    echoes = search.echoes(text.id for text, _ in fresh if isinstance(text.id, int))
    weighed = weigh(query, (one for one in candidates if one.id not in echoes), rows, counts, finder)
    near = [
        Hit(
            id_, conversation_id, seq, (at or 0) / 1000, tokens=tokens,
            speaker=_speaker(sender, column_text(opening)) if weighed.speaker else "",
        )
        for id_, conversation_id, seq, at, tokens, sender, opening in search.neighbours(missing_places(weighed), where)
    ]  # fmt: skip
    hits = [hit for hit in order(weighed, near) if hit.id not in echoes]
    if echoes:
        repeated = weigh(query, (one for one in candidates if one.id in echoes), rows, counts, finder)
        hits += [replace(hit, tier=ECHO_LIMIT) for hit in order(repeated)]
    return hits, {text.id: text for text, _ in fresh}, weighed.weights[: len(words.query.terms)]


def _wants_wishes(words: WordSearch, hits: Sequence[Hit]) -> bool:
    """Whether what a user always wants may matter: where a model is asked for something that is not about the past."""
    query = words.query
    if query.asks_wishes or words.most_rows is not None:
        return query.asks_wishes or (query.is_request and bool(hits))
    has_model = any(hit.passages and not hit.is_users for hit in hits)
    return has_model and query.spread > COURSE_SPREAD and not query.is_past


def _with_wishes(words: WordSearch, hits: list[Hit]) -> tuple[list[Hit], list[AnyText]]:
    """Hits with what a user said that he always wants or prefers: a few behind the first ones, more further down; when
    that is asked for, all of it behind those that have all words. Also their texts.
    """
    search, is_asked = words.archive.search, words.query.asks_wishes
    found = current_texts(words.archive, search.messages(search.users_words(_WISHES, words.where, _MOST_WISHES)))
    places = {hit.id: place for place, hit in enumerate(hits)}
    first = sum(hit.tier == 0 for hit in hits[:_BEFORE_WISHES]) if is_asked else _BEFORE_WISHES
    top = hits[0].score if hits else 1.0
    worth: dict[int | str, float] = {}
    for text, whole in found:
        place = places.get(text.id, first)
        if place >= first and (text.id not in places or hits[place].tier > 0):
            phrases = {one.casefold() for one in _WISH.findall(whole)}
            shared = hits[place].score / top if text.id in places and hits[place].own else 0.0
            worth[text.id] = shared + _WISH_SHARE * len(phrases)
    wishes = [hits[places[text.id]] if text.id in places else _empty_hit(text) for text, _ in found if text.id in worth]
    wishes.sort(key=lambda hit: (-worth[hit.id], -hit.at))
    shown = len(wishes) if is_asked else _WISHES_SHOWN
    hits = _placed(hits, wishes[shown : shown + _MORE_WISHES], _BEFORE_MORE)
    return _placed(hits, wishes[:shown], first), [text for text, _ in found]


def _placed(hits: list[Hit], moved: list[Hit], first: int) -> list[Hit]:
    """Hits with some of them, or others, moved behind the first ones."""
    ids = {hit.id for hit in moved}
    others = [hit for hit in hits if hit.id not in ids]
    if others:
        before = others[max(0, min(first, len(others)) - 1)]
        moved = [replace(hit, score=before.score, tier=before.tier) for hit in moved]
    return [*others[:first], *moved, *others[first:]]


def _empty_hit(text: AnyText, score: float = 0.0) -> Hit:
    """A message that shares no term with the question."""
    seq = text.seq if isinstance(text, MessageText) else None
    return Hit(text.id, text.conversation_id, seq, text.at / 1000, score)


def _speaker(sender: str | None, text: str) -> str:
    """Who said a message, in folded letters: as the host reported it, else as its beginning says."""
    opening = _SPEAKER.match(text)
    return fold_text(sender_name(sender) or (opening.group(1) if opening else ""))


def _candidate(text: AnyText, whole: str, starts: Iterable[int | None]) -> Hit:
    hit, spans = _empty_hit(text), list[tuple[int, int]]()
    if isinstance(text, MessageText):
        hit.is_users, hit.speaker = text.role == "user", _speaker(text.sender, whole)
        spans = passages(whole) if len(whole) > PASSAGE_CHARS_DENSE and text.digest else []
    numbers = {start: number for number, (start, _) in enumerate(spans)}
    chosen = sorted({numbers.get(start or 0, 0) for start in starts})
    hit.passages = [Passage(whole[slice(*spans[n])], n) for n in chosen] if len(spans) > 1 else [Passage(whole)]
    return hit


def current_texts(archive: Archive, texts: Iterable[AnyText]) -> list[tuple[AnyText, str]]:
    """Texts that say what the index says, with what it holds of them; the others are indexed again."""
    known = [(text, text.indexed) for text in texts]
    stale = {text.id: text for text, indexed in known if is_stale(text, indexed)}
    reindex_stale(archive, stale.values())
    return [(text, indexed) for text, indexed in known if text.id not in stale]


#: Among so many of the best messages; a correction has at least this part of what made the other one be found.
_CORRECTED, _CORRECTED_SHARE = 12, 0.75
_CORRECTS = phrases("corrects something")


def corrections_first(
    ranked: Sequence[tuple[MessageText, float]], finder: TermFinder, weights: Sequence[float]
) -> tuple[list[tuple[MessageText, float]], dict[int, int]]:
    """Messages, best first, but a later one that corrects an earlier one about the same stands right before it.

    Also which message is the newer word on which: on each matter the newest one only.
    """
    order, pairs = list(ranked), list[tuple[MessageText, MessageText]]()
    first = order[:_CORRECTED]
    terms = {text.id: {hit.term for hit in finder.find(text.content, 1)} for text, _ in first}
    worth = {id_: sum(weights[term] for term in has) for id_, has in terms.items()}
    corrections = {text.id: _correction(text) for text, _ in first}
    times = Counter(corrections.values())
    for later, _ in first:
        if not corrections[later.id] or times[corrections[later.id]] > 1:
            continue  # what is said again and again corrects nothing
        for earlier, score in first:
            shared = sum(weights[term] for term in terms[earlier.id] & terms[later.id])
            is_about = earlier.role != "system" and 0 < _CORRECTED_SHARE * worth[earlier.id] <= shared
            if (earlier.at, earlier.id) < (later.at, later.id) and is_about:
                pairs.append((later, earlier))
                ids = [text.id for text, _ in order]
                at, before = ids.index(later.id), ids.index(earlier.id)
                if before < at:
                    order.insert(before, (order.pop(at)[0], score))
                    break
    newer: dict[int, int] = {}
    for later, earlier in sorted(pairs, key=lambda pair: (-pair[0].at, -pair[0].id)):
        if {later.id, earlier.id}.isdisjoint((*newer, *newer.values())):
            newer[later.id] = earlier.id
    return order, newer


def _correction(text: MessageText) -> str:
    """The line of a message that corrects something; "" without one."""
    match = None if text.role == "system" else _CORRECTS.search(text.content)
    if match is None:
        return ""
    end = text.content.find("\n", match.end())
    return text.content[text.content.rfind("\n", 0, match.start()) + 1 : end if end >= 0 else None].strip().casefold()


def unindexed_texts(words: WordSearch, what: TextKind, needed: int = 1) -> Iterator[AnyText]:
    """What the index does not hold yet, looked at as it is: the texts with so many of the words."""
    texts = words.archive.search
    asked = {at for at, term in enumerate(words.query.terms) if not term.piece_of}
    unread: Iterable[AnyText]
    unread = texts.read(words.unread_messages) if what == "message" else texts.summaries(words.unread_summaries)
    for text in unread:
        found = {spot.term for spot in words.finder.find(text.indexed, 1)}
        if found and (needed == 1 or len(found & asked) >= needed):
            yield text
