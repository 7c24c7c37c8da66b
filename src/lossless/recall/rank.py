"""Ranked search by words: the index proposes candidates, BM25 weighs them, neighbours, sessions and dates set the
order, and a snippet shows why a text was found.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless.model.messages import sender_name
from lossless.model.search_text import PASSAGE_CHARS_DENSE, fold_text, passages
from lossless.model.tokens import estimate_tokens
from lossless.recall.query import COURSE_SPREAD, TermFinder, TermMatch, candidate_expressions, parse_query
from lossless.store.database import column_text
from lossless.store.search import MessageText, index_new_rows, is_behind, is_stale, newest_first, reindex_stale

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from lossless.model.records import SearchPlace, TextKind
    from lossless.recall.query import MentionedTime, Query
    from lossless.recall.scope import SearchIn
    from lossless.store.archive import Archive
    from lossless.store.search import AnyText, SearchScope

RankOrder = Literal["relevance", "recency", "hybrid"]
#: Where a message stands: conversation and seq.
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
#: What a message of a user counts who does not speak of himself in it: mostly praise, thanks and wishes.
IMPERSONAL_WEIGHT = 0.9
#: What a message counts by the one speaker whom the question names.
SPEAKER_WEIGHT = 1.2
#: What a message of a user counts when the question is about the one who asks.
OWN_WEIGHT = 1.6
#: What a user's message counts that says what he wants, when that is asked for; and one that says how to answer from
#: then on, whatever is asked.
WISH_WEIGHT, STANDING_WEIGHT = 1.5, 1.2
#: What the first message on something counts when the order is asked for.
FIRST_WEIGHT = 1.8
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
    """A passage that may share a term with the question. A summary has no `seq`: it has no neighbours."""

    id: int | str
    conversation_id: int
    seq: int | None
    #: When it was said, in seconds since 1970.
    at: float
    text: str
    number: int = 0
    is_users: bool = False
    #: Who said it, in folded letters, where that is known.
    speaker: str = ""
    tokens: int = 0
    #: The worth of each term in it, before the term's weight, and what its terms' being close together adds.
    values: dict[int, float] = field(default_factory=dict)
    closeness: float = 0.0
    #: The worth of the terms in its questions, for the message that answers.
    asked: dict[int, float] = field(default_factory=dict)


@dataclass(slots=True)
class Hit:
    """A message or summary in the order of the answer."""

    id: int | str
    conversation_id: int
    seq: int | None
    at: float
    #: Comparable within one search only; about 1 when each term stands there once.
    score: float = 0.0
    #: The terms in its own text, as they were asked; none when only its neighbours have terms of the question.
    matched: tuple[str, ...] = ()
    #: 0 when all that was asked for is in its own text, 1 when what is required is, else 2; `ECHO_LIMIT` for an echo.
    tier: int = 2
    tokens: int = 0
    speaker: str = ""
    session: int = 0
    passages: list[Passage] = field(default_factory=list)
    #: The best value of each term over its passages, what it may borrow from around it, and what its questions lend.
    own: dict[int, float] = field(default_factory=dict)
    borrowed: dict[int, float] = field(default_factory=dict)
    asked: dict[int, float] = field(default_factory=dict)


def missing_places(weighed: WeighedPassages) -> list[SeqPlace]:
    """The places around the best candidates that are no candidates themselves: fetch them as neighbours."""
    known = {(text.conversation_id, text.seq) for text in weighed.texts}
    best = sorted(weighed.texts, key=lambda text: -weighed.worth(text.values))[:NEIGHBOURS_OF]
    steps = range(-len(NEIGHBOUR_SHARES), len(NEIGHBOUR_SHARES) + 1)
    around = ((text.conversation_id, text.seq + step) for text in best if text.seq is not None for step in steps)
    return [place for place in dict.fromkeys(around) if place[1] >= 0 and place not in known]


def rank(
    weighed: WeighedPassages,
    neighbours: Iterable[Hit] = (),
    *,
    sort: RankOrder = "relevance",
    now: float = 0.0,
    spoken: MentionedTime | None = None,
) -> list[Hit]:
    """All hits, best first; neighbours are messages that have no term of the question themselves.

    `spoken` is the time that the question speaks of; it lifts, it never excludes.
    """
    found: dict[int | str, Hit] = {}
    for text in weighed.texts:
        hit = found.get(text.id)
        if hit is None:
            hit = Hit(text.id, text.conversation_id, text.seq, text.at, tokens=text.tokens, speaker=text.speaker)
            found[text.id] = hit
        hit.passages.append(text)
        _lend(text.values, hit.own, 1.0)
        _lend(text.asked, hit.asked, 1.0)
    for near in neighbours:
        found.setdefault(near.id, near)
    by_place = {(hit.conversation_id, hit.seq): hit for hit in found.values() if hit.seq is not None}
    _mark_sessions(by_place)
    _borrow(by_place)
    _score(found.values(), weighed, spoken)
    if weighed.query.asks_order:
        _lift_first(found.values())
    hits = _sorted((hit for hit in found.values() if hit.score > 0), sort, now)
    if sort == "relevance" and weighed.query.spread < 1:
        before = Counter[int]()
        for hit in hits:
            hit.score *= weighed.query.spread ** before[hit.session]
            before[hit.session] += hit.session > 0
        hits = _sorted(hits, sort, now)
    return hits


def _lift_first(hits: Iterable[Hit]) -> None:
    """Lift the first message of a user in each session, and the first one with a term."""
    sessions, terms = set[int](), set[int]()
    for hit in sorted(hits, key=lambda hit: (hit.at, hit.seq or 0)):
        if hit.passages and hit.passages[0].is_users:
            hit.score *= FIRST_WEIGHT ** ((hit.session not in sessions) + (not terms.issuperset(hit.own)))
            sessions.add(hit.session)
            terms.update(hit.own)


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
    """Give each hit its score, its terms and its tier."""
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
        hit.tier = 0 if needed <= own and not _is_beside(hit, weighed.query) else 1 if required <= own else 2
        if own:
            hit.matched = tuple(terms[index].text for index in sorted(own))


def _is_beside(hit: Hit, query: Query) -> bool:
    """Whether having all words says little: in an answer, where it is asked what the user said."""
    return query.is_own and bool(hit.passages) and not hit.passages[0].is_users


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
                _lend(
                    other.values, values, NEIGHBOUR_SHARES[distance - 1] * min(1.0, SHORT_TOKENS / max(1, text.tokens))
                )
        _lend(text.values, values, 1.0)
        share = 1.0 if not text.is_users or _PERSONAL.search(text.text) else IMPERSONAL_WEIGHT
        if text.is_users:
            share *= OWN_WEIGHT if weighed.query.is_own else 1.0
            share *= WISH_WEIGHT if weighed.query.asks_wishes and _WISH.search(text.text) else 1.0
            share *= STANDING_WEIGHT if _STANDING.search(text.text) else 1.0
        scores.append((weighed.worth(values) + text.closeness) * share)
    return max(scores)


def _sorted(hits: Iterable[Hit], sort: RankOrder, now: float) -> list[Hit]:
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
_KIND_NAMES = """
activity activities area areas both common different event events example examples item items kind kinds long many
mention mentioned much name names often people person place places recently sort sorts specific thing things time
times type types way ways
"""
_KIND_WORDS = frozenset(_KIND_NAMES.split())
_SENTENCE_END = re.compile(r"[.!?。！？\n]")
_PERSONAL = re.compile(
    r"\b(?:i|my|me|mine|we|our|us|ich|wir|mein\w*|unser\w*|je|mon|ma|mes|nous|notre|yo|mi|mis|nosotros)\b",
    re.IGNORECASE,
)
_WISH = re.compile(
    r"\b(?:always|never|please|prefer|don'?t|do not|instead|rather|must|should|make sure|no need|only|favou?rites?"
    r"|i(?:'d| would)?(?: really)? (?:like|love|hate|want|need|enjoy)|bitte|immer|nie|lieber|toujours"
    r"|jamais|siempre|nunca)\b",
    re.IGNORECASE,
)
_STANDING = re.compile(
    r"from now on|going forward|in (?:the )?future,|when(?:ever)? i ask|ab jetzt|künftig|désormais"
    r"|de ahora en adelante",
    re.IGNORECASE,
)
#: How people say what they always want, or prefer; so many of these are looked at, so many shown behind so many hits.
_WISH_PHRASES = """
when i ask|whenever i|from now on|going forward|in future|please always|please never|always include|always use
always format|always provide|always give|always show|always explain|always confirm|never use|never include|i want you to
i d like you to|i prefer|i d prefer|i would prefer|i d rather|i would rather|my preference|my favorite|my favourite
i m more comfortable|works best for me|i dislike|i don t like|i can t stand
ich bevorzuge|mir ist lieber|ab jetzt|künftig|je préfère|désormais|prefiero|de ahora en adelante
"""
_WISHES = "body: (" + " OR ".join(f'"{one}"' for one in re.split(r"[|\n]", _WISH_PHRASES.strip())) + ")"
_MOST_WISHES, _WISHES_SHOWN, _BEFORE_WISHES = 40, 4, 6
#: The name at the beginning of a message, as in transcripts of several people.
_SPEAKER = re.compile(r"\s*([^\W\d_][\w.'’-]{0,30}(?: [\w.'’-]{1,30}){0,2}):\s")
#: More occurrences of a term in one passage than this make no difference.
_MOST = 12


@dataclass(frozen=True, slots=True)
class WeighedPassages:
    """All candidates that have a term, and the weight of each term (its idf)."""

    query: Query
    weights: tuple[float, ...]
    texts: tuple[Passage, ...]
    #: The one speaker whom the question names.
    speaker: str | None
    whole: float

    def worth(self, values: dict[int, float]) -> float:
        """The score of these term values: their weighted sum, less for what they do not cover."""
        covered, score, weights = 0.0, 0.0, self.weights
        for term, value in values.items():
            score += weights[term] * value
            covered += weights[term] * (value if value < 1.0 else 1.0)
        return score * (1 - COVERAGE + COVERAGE * covered / self.whole) if self.whole else 0.0


def weigh(
    query: Query, candidates: Iterable[Passage], rows: int, counts: Sequence[int], finder: TermFinder | None = None
) -> WeighedPassages:
    """Look for the terms in each candidate, and weigh them by how rare they are: in how many index rows of the scope,
    out of `rows`, each of them is.
    """
    finder = finder or TermFinder(query.terms)
    found = [(candidate, finder.find(candidate.text, _MOST)) for candidate in candidates]
    for candidate, _ in found:
        candidate.tokens = estimate_tokens(candidate.text)
    average = max(1.0, sum(candidate.tokens for candidate, _ in found) / max(1, len(found)))
    weights = _weights(query, rows, counts, [hits for _, hits in found])
    for candidate, hits in found:
        if hits:
            is_asked = query.is_own and candidate.is_users  # then what is asked is what is meant
            _weigh_passage(candidate, hits, candidate.tokens / average, weights, has_answer=not is_asked)
    asked = {form[0] for term in query.terms for form in term.forms if len(form) == 1}
    named = {candidate.speaker for candidate, _ in found if not asked.isdisjoint(candidate.speaker.split())}
    speaker = named.pop() if len(named) == 1 else None
    return WeighedPassages(query, weights, tuple(text for text, hits in found if hits), speaker, sum(weights))


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
    unread_messages: Sequence[int] = ()
    unread_summaries: Sequence[str] = ()
    #: How many index rows may be scored, if there is a limit.
    most_rows: int | None = None


def word_search(
    archive: Archive, question: str, where: SearchScope, search_in: SearchIn, most_rows: int | None = None
) -> WordSearch:
    """A question, after the index was brought up to date as far as that is cheap."""
    query = parse_query(question)
    looks_at: tuple[TextKind, ...] = ("message", "summary")
    if search_in != "both":
        looks_at = ("summary",) if search_in == "summaries" else ("message",)
    words = WordSearch(archive, question, query, TermFinder(query.terms), where, looks_at, most_rows=most_rows)
    if index_new_rows(archive):
        return words
    messages = archive.search.unread(where) if "message" in looks_at else ()
    summaries = archive.search.unread_summaries(where) if "summary" in looks_at else ()
    return replace(words, unread_messages=messages, unread_summaries=summaries)


#: Hits, best first, with the texts that are known already and the weight of each term.
RankedHits: TypeAlias = "tuple[Sequence[Hit], dict[int | str, AnyText], tuple[float, ...]]"

# --- best first -------------------------------------------------------------------------------------


def ranked_hits(
    words: WordSearch, pool: int, sort: RankOrder, now: float, spoken: MentionedTime | None = None
) -> RankedHits:
    """All hits among the best candidates, messages and summaries in one order."""
    found = [_rank_kind(words, what, pool, sort, now, spoken) for what in words.looks_at if words.query.terms]
    if not found:
        return (), {}, ()
    if len(found) == 1:
        return _with_meaning(words, found[0], sort)
    (messages, texts, weights), (summaries, more, _) = found

    def place(hit: Hit) -> tuple[int, float]:
        """A summary never comes first for having all words: it is long, and messages say more exactly what was said."""
        is_summary = hit.seq is None
        worth = hit.score * (SUMMARY_WEIGHT if is_summary else 1.0)
        age = max(0.0, now - hit.at) / 3600 if sort == "hybrid" else 0.0
        return max(hit.tier, 1 if is_summary else 0), -worth / (1 + age * HYBRID_DECAY_PER_HOUR)

    hits = sorted((*messages, *summaries), key=place)
    return _with_meaning(words, (hits, texts | more, weights), sort)


def _with_meaning(words: WordSearch, found: RankedHits, sort: RankOrder) -> RankedHits:
    """Hits with those messages moved up, or added, that an embedder finds to mean the same; as they are without one.

    Both are added up as z-scores. What the embedder does not tell from chance keeps its order.
    """
    embedder, search = words.archive.embedder, words.archive.search
    if embedder is None or sort != "relevance" or "message" not in words.looks_at:
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
    hits = [hit for hit in before if hit.tier < ECHO_LIMIT] + [
        _empty_hit(text, minimum) for text in new if text.id not in echoes
    ]
    values = list(accumulate((hit.score for hit in hits), min))
    mean = sum(values) / max(1, len(values))
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / max(1, len(values))) or 1.0
    order = sorted(range(len(hits)), key=lambda n: -((values[n] - mean) / spread + gains.get(hits[n].id, 0.0)))
    return [*(hits[n] for n in order), *(hit for hit in before if hit.tier >= ECHO_LIMIT)], texts, weights


def _rank_kind(
    words: WordSearch, what: TextKind, pool: int, sort: RankOrder, now: float, spoken: MentionedTime | None
) -> RankedHits:
    search, query, where = words.archive.search, words.query, words.where
    rows, counts = search.counts([term.widest for term in query.terms], where, what)
    found = search.candidates(candidate_expressions(query, counts, pool, words.most_rows), where, what)
    texts: Iterable[AnyText]
    starts: dict[int | str, set[int | None]] = {}
    if what == "message":
        for id_, start, _ in found:
            starts.setdefault(id_, set()).add(start)
        texts = search.messages(starts)  # type: ignore[arg-type]
    else:
        texts = search.summaries(dict.fromkeys(id_ for (id_,) in found))
    texts = [*texts, *_unindexed_texts(words, what)]
    fresh = _current_texts(words.archive, texts)
    candidates = [one for text, whole in fresh for one in _candidates(text, whole, starts.get(text.id, (None,)))]
    echoes = search.echoes(text.id for text, _ in fresh if isinstance(text.id, int))
    weighed = weigh(query, (one for one in candidates if one.id not in echoes), rows, counts, words.finder)
    near = [
        Hit(
            id_, conversation_id, seq, (at or 0) / 1000, tokens=tokens,
            speaker=_speaker(sender, column_text(opening)) if weighed.speaker else "",
        )
        for id_, conversation_id, seq, at, tokens, sender, opening in search.neighbours(missing_places(weighed), where)
    ]  # fmt: skip
    hits = [hit for hit in rank(weighed, near, sort=sort, now=now, spoken=spoken) if hit.id not in echoes]
    if what == "message" and sort == "relevance" and _wants_wishes(words, hits):
        hits, more = _with_wishes(words, hits)
        fresh += more
    if echoes:
        repeated = weigh(query, (one for one in candidates if one.id in echoes), rows, counts, words.finder)
        hits += [replace(hit, tier=ECHO_LIMIT) for hit in rank(repeated, sort=sort, now=now, spoken=spoken)]
    return hits, {text.id: text for text, _ in fresh}, weighed.weights


def _wants_wishes(words: WordSearch, hits: Sequence[Hit]) -> bool:
    query = words.query
    is_asked = query.is_request or (query.is_own and query.spread > COURSE_SPREAD and words.most_rows is None)
    return query.asks_wishes or (is_asked and bool(hits))


def _with_wishes(words: WordSearch, hits: list[Hit]) -> tuple[list[Hit], list[tuple[AnyText, str]]]:
    """Hits with what a user said that he always wants or prefers: a few behind the first ones; when that is asked for,
    all of it behind those that have all words. Also their texts.
    """
    search = words.archive.search
    found = _current_texts(words.archive, search.messages(search.users_words(_WISHES, words.where, _MOST_WISHES)))
    places = {hit.id: place for place, hit in enumerate(hits)}
    first = sum(hit.tier == 0 for hit in hits[:_BEFORE_WISHES]) if words.query.asks_wishes else _BEFORE_WISHES
    wishes = [hits[places[text.id]] if text.id in places else _empty_hit(text) for text, _ in found]
    wishes = [hit for hit in wishes if places.get(hit.id, first) >= first and hit.tier > 0]
    wishes.sort(key=lambda hit: (-hit.score, -hit.at))
    wishes = wishes if words.query.asks_wishes else wishes[:_WISHES_SHOWN]
    moved = {hit.id for hit in wishes}
    others = [hit for hit in hits if hit.id not in moved]
    if others:
        before = others[max(0, min(first, len(others)) - 1)]
        wishes = [replace(hit, score=before.score, tier=before.tier) for hit in wishes]
    return [*others[:first], *wishes, *others[first:]], list(found)


def _empty_hit(text: AnyText, score: float = 0.0) -> Hit:
    """A message that shares no term with the question."""
    seq = text.seq if isinstance(text, MessageText) else None
    return Hit(text.id, text.conversation_id, seq, text.at / 1000, score)


def _speaker(sender: str | None, text: str) -> str:
    """Who said a message, in folded letters: as the host reported it, else as its beginning says."""
    opening = _SPEAKER.match(text)
    return fold_text(sender_name(sender) or (opening.group(1) if opening else ""))


def _candidates(text: AnyText, whole: str, starts: Iterable[int | None]) -> list[Passage]:
    """The passages of a text that were proposed."""
    seq = text.seq if isinstance(text, MessageText) else None
    is_users = isinstance(text, MessageText) and text.role == "user"
    speaker = _speaker(text.sender, whole) if isinstance(text, MessageText) else ""
    spans = passages(whole) if seq is not None and len(whole) > PASSAGE_CHARS_DENSE and text.digest else []
    if len(spans) < 2:
        return [Passage(text.id, text.conversation_id, seq, text.at / 1000, whole, 0, is_users, speaker)]
    numbers = {start: number for number, (start, _) in enumerate(spans)}
    return [
        Passage(text.id, text.conversation_id, seq, text.at / 1000, whole[slice(*spans[n])], n, is_users, speaker)
        for n in sorted({numbers.get(start or 0, 0) for start in starts})
    ]


def _current_texts(archive: Archive, texts: Iterable[AnyText]) -> list[tuple[AnyText, str]]:
    """Texts that say what the index says, with what it holds of them; the others are indexed again."""
    known = [(text, text.indexed) for text in texts]
    stale = {text.id: text for text, indexed in known if is_stale(text, indexed)}
    reindex_stale(archive, stale.values())
    return [(text, indexed) for text, indexed in known if text.id not in stale]


def texts_in_scope(texts: Iterable[AnyText], where: SearchScope) -> list[AnyText]:
    """Those that are in the scope."""
    ids = where.conversation_ids
    return [
        text
        for text in texts
        if (ids is None or text.conversation_id in ids)
        and (where.since is None or text.at >= where.since)
        and (where.before is None or text.at < where.before)
    ]


# --- what was corrected later -----------------------------------------------------------------------

#: Among so many of the best messages; a correction has at least this part of what made the other one be found.
_CORRECTED, _CORRECTED_SHARE = 12, 0.75
_CORRECTS = re.compile(
    r"\b(?:actually|instead|no longer|any ?more|correction|i was wrong|changed (?:my|our) mind|scratch that|forget what"
    r"|(?:moved|switched|changed|renamed|postponed|rescheduled) (?:it |them )?(?:to|from)|rather than|not .{1,30} but"
    r"|(?:is|are) now|now(?= *[.!,;])"
    r"|stattdessen|nicht mehr|doch nicht|doch lieber|finalement|en fait|ne .{1,20} plus|en realidad|en vez de|ya no)\b",
    re.IGNORECASE,
)


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
        if (
            not corrections[later.id] or times[corrections[later.id]] > 1
        ):  # what is said again and again corrects nothing
            continue
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


# --- newest first -----------------------------------------------------------------------------------


def newest_texts(
    words: WordSearch, limit: int, start: SearchPlace | None, *, is_any: bool
) -> tuple[list[AnyText], int | None, bool]:
    """The newest texts behind a place that have all words; on the first page, else one of them.

    Also how many there are, None when unknown; and whether one word was enough.
    """
    if not words.query.terms:
        return [], 0, False
    if not is_any:
        found = _newest_of(words, words.query.match_all, limit, start, len(words.query.asked))
        if found[0] or start is not None:
            return *found, False
    return *_newest_of(words, words.query.match_any, limit, start, 1), True


def _newest_of(
    words: WordSearch, match: str, limit: int, start: SearchPlace | None, needed: int
) -> tuple[list[AnyText], int | None]:
    search, where = words.archive.search, words.where
    texts: list[AnyText] = []
    totals: list[int | None] = []
    if "message" in words.looks_at:
        ids, count = search.newest(match, where, limit, start)
        texts += search.messages(ids)
        totals.append(count)
    if "summary" in words.looks_at:
        names, number = search.newest_summaries(match, where, limit, start)
        texts += search.summaries(names)
        totals.append(number)
    texts = [text for text, _ in _current_texts(words.archive, texts)]
    unread = [text for what in words.looks_at for text in _unindexed_texts(words, what, needed)]
    texts += [text for text in unread if start is None or is_behind(text.place, start)]
    texts.sort(key=lambda text: newest_first(text.place))
    total = None if None in totals else max(len(texts), sum(count or 0 for count in totals))
    return texts[:limit], total


def _unindexed_texts(words: WordSearch, what: TextKind, needed: int = 1) -> Iterator[AnyText]:
    """What the index does not hold yet, looked at as it is: the texts with so many of the words."""
    texts = words.archive.search
    asked = {at for at, term in enumerate(words.query.terms) if not term.piece_of}
    unread: Iterable[AnyText]
    unread = texts.read(words.unread_messages) if what == "message" else texts.summaries(words.unread_summaries)
    for text in unread:
        found = {spot.term for spot in words.finder.find(text.indexed, 1)}
        if found and (needed == 1 or len(found & asked) >= needed):
            yield text


SNIPPET_CHARS = 400
ELLIPSIS = "…"
#: How far an end of the window may move to stand between words or sentences.
_SLACK = 40
_SNIPPET_MOST = 200
#: What another occurrence of a term adds; a different term adds its weight.
_REPEAT = 0.01


def best_window(
    text: str, finder: TermFinder, size: int = SNIPPET_CHARS, weights: Sequence[float] | None = None
) -> tuple[int, int, tuple[tuple[int, int], ...]]:
    """The window of at most `size` characters with the most different terms (by weight), then the most matches: its
    start, its end, and the matches inside of it as offsets into the whole text.

    Without any match, the beginning. Linear in the text.
    """
    found = finder.find(text, _SNIPPET_MOST)
    first, last = _densest(found, size, weights)
    matches = found[first : last + 1]
    if matches:
        middle = (matches[0].start + max(hit.end for hit in matches)) // 2
        start = max(0, min(middle - size // 2, len(text) - size, matches[0].start))
    else:
        start = max(0, len(text) - len(text.lstrip()))
    start, end = _settle(text, start, size, matches)
    inside = dict.fromkeys((hit.start, hit.end) for hit in found if start <= hit.start and hit.end <= end)
    return start, end, tuple(inside)


def _densest(found: Sequence[TermMatch], size: int, weights: Sequence[float] | None) -> tuple[int, int]:
    """The first and last index of the best run of matches that fits into `size` characters."""
    best, best_value = (0, -1), 0.0
    times: dict[int, int] = {}
    value, first = 0.0, 0
    for last, hit in enumerate(found):
        times[hit.term] = times.get(hit.term, 0) + 1
        value += (weights[hit.term] if weights else 1.0) if times[hit.term] == 1 else _REPEAT
        while first < last and found[first].start < hit.end - size:
            gone = found[first].term
            times[gone] -= 1
            value -= _REPEAT if times[gone] else weights[gone] if weights else 1.0
            first += 1
        if value > best_value + _REPEAT / 2:
            best, best_value = (first, last), value
    return best


def _settle(text: str, start: int, size: int, matches: Sequence[TermMatch]) -> tuple[int, int]:
    """Move the ends of a window to places between words, without losing what it shows."""
    if len(text) <= size:
        return 0, len(text)
    latest = matches[0].start if matches else start
    for mark in ("\n", ". ", " "):
        at = text.find(mark, max(0, start - 1), min(start + _SLACK, latest))
        if start > 0 and at >= 0:
            start = at + len(mark)
            break
    start = min(start, latest)
    end = min(len(text), start + size)
    earliest = max((hit.end for hit in matches), default=start)
    if end < len(text) and not text[end].isspace():
        at = text.rfind(" ", max(earliest, end - _SLACK), end)
        end = at if at >= 0 else end
    return start, end
