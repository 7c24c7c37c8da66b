"""Search by words: the index proposes, the ranking kit decides, texts that changed since are left out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lossless.model.index_text import PASSAGE_CHARS_DENSE, passages
from lossless.recall.matching import Finder
from lossless.recall.query import candidate_matches, understand
from lossless.recall.rank import ECHO, HYBRID_DECAY_PER_HOUR, Neighbour, missing_places, rank
from lossless.recall.weigh import Candidate, Counts, weigh
from lossless.store.search import keep_up, refresh
from lossless.store.texts import MessageText, is_behind, is_stale, newest_first

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lossless.recall.query import Query
    from lossless.recall.rank import Hit, Sort, Span
    from lossless.recall.scope import SearchIn
    from lossless.store.archive import Archive
    from lossless.store.texts import AnyText, Place, What, Where

#: Candidates beyond what is shown.
POOL = 200
#: What a summary counts beside a message: it repeats what messages say, and it is longer.
SUMMARY_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class Words:
    """A question, where it may look, and what the index does not hold yet."""

    archive: Archive
    query: Query
    finder: Finder
    where: Where
    search_in: SearchIn
    unread_messages: Sequence[int] = ()
    unread_summaries: Sequence[str] = ()

    @property
    def looks_at(self) -> list[What]:
        if self.search_in == "both":
            return ["message", "summary"]
        return ["summary"] if self.search_in == "summaries" else ["message"]


def words_of(archive: Archive, question: str, where: Where, search_in: SearchIn) -> Words:
    """A question, after the index was brought up to date as far as that is cheap."""
    query = understand(question)
    words = Words(archive, query, Finder(query.terms), where, search_in)
    if keep_up(archive):
        return words
    messages = archive.search.unread(where) if "message" in words.looks_at else ()
    summaries = archive.search.unread_summaries(where) if "summary" in words.looks_at else ()
    return replace(words, unread_messages=messages, unread_summaries=summaries)


@dataclass(frozen=True, slots=True)
class Ranked:
    """Hits, best first, with the texts that are known already and the weight of each term."""

    hits: tuple[Hit, ...]
    texts: dict[int | str, AnyText]
    weights: tuple[float, ...]


# --- best first -------------------------------------------------------------------------------------


def ranked(words: Words, pool: int, sort: Sort, now: float, span: Span | None) -> Ranked:
    """All hits among the best candidates, messages and summaries in one order."""
    found = [_ranked(words, what, pool, sort, now, span) for what in words.looks_at if words.query.terms]
    if not found:
        return Ranked((), {}, ())
    if len(found) == 1:
        return found[0]
    messages, summaries = found

    def place(hit: Hit) -> tuple[int, float]:
        """A summary never comes first for having all words: it is long, and messages say more exactly what was said."""
        is_summary = hit.seq is None
        worth = hit.score * (SUMMARY_WEIGHT if is_summary else 1.0)
        age = max(0.0, now - hit.at) / 3600 if sort == "hybrid" else 0.0
        return max(hit.tier, 1 if is_summary else 0), -worth / (1 + age * HYBRID_DECAY_PER_HOUR)

    hits = sorted((*messages.hits, *summaries.hits), key=place)
    return Ranked(tuple(hits), messages.texts | summaries.texts, messages.weights)


def _ranked(words: Words, what: What, pool: int, sort: Sort, now: float, span: Span | None) -> Ranked:
    search, query, where = words.archive.search, words.query, words.where
    counts = search.counts([term.loose for term in query.terms], where, what)
    texts: list[AnyText]
    starts: dict[int, list[int | None]] = {}
    matches = [(match, pool if n == 0 else pool // 2) for n, match in enumerate(candidate_matches(query, counts, pool))]
    if what == "message":
        for match, limit in matches:
            for id_, start in search.candidates(match, where, limit):
                known = starts.setdefault(id_, [])
                if start not in known:
                    known.append(start)
        texts = [*search.texts.messages(starts), *_unread(words, what)]
    else:
        ids = dict.fromkeys(id_ for match, limit in matches for id_ in search.candidate_summaries(match, where, limit))
        texts = [*search.texts.summaries(ids), *_unread(words, what)]
    fresh = _fresh(words.archive, texts)
    candidates = [one for text, whole in fresh for one in _candidates(text, whole, starts.get(text.id, [None]))]  # type: ignore[arg-type]
    echoes = search.echoes(text.id for text, _ in fresh if isinstance(text.id, int))
    said = [one for one in candidates if one.id not in echoes]
    rows = Counts(search.size(where, what)[0], tuple(counts))
    weighed = weigh(query, said, rows)
    near = [
        Neighbour(id_, conversation_id, seq, (at or 0) / 1000, tokens)
        for id_, conversation_id, seq, at, tokens in search.neighbours(missing_places(weighed), where)
    ]
    hits = [hit for hit in rank(weighed, near, sort=sort, now=now, span=span) if hit.id not in echoes]
    if echoes:
        repeated = weigh(query, [one for one in candidates if one.id in echoes], rows)
        hits += [replace(hit, tier=ECHO) for hit in rank(repeated, sort=sort, now=now, span=span)]
    return Ranked(tuple(hits), {text.id: text for text, _ in fresh}, weighed.weights)


def _candidates(text: AnyText, whole: str, starts: Iterable[int | None]) -> list[Candidate]:
    """The passages of a text that were proposed."""
    seq = text.seq if isinstance(text, MessageText) else None
    spans = passages(whole) if seq is not None and len(whole) > PASSAGE_CHARS_DENSE and text.digest else []
    if len(spans) < 2:
        return [Candidate(text.id, text.conversation_id, seq, text.at / 1000, whole)]
    numbers = {start: number for number, (start, _) in enumerate(spans)}
    chosen = sorted({numbers.get(start or 0, 0) for start in starts})
    return [
        Candidate(
            text.id, text.conversation_id, seq, text.at / 1000, whole[spans[number][0] : spans[number][1]], number
        )
        for number in chosen
    ]


def _fresh(archive: Archive, texts: Iterable[AnyText]) -> list[tuple[AnyText, str]]:
    """Texts that say what the index says, with what it holds of them; the others are indexed anew."""
    known = list(texts)
    stale = [text for text in known if is_stale(text)]
    refresh(archive, stale)
    gone = {text.id for text in stale}
    return [(text, text.indexed) for text in known if text.id not in gone]


def visible(texts: Iterable[AnyText], where: Where) -> list[AnyText]:
    """Those that are in the scope."""
    ids = where.conversation_ids
    return [
        text
        for text in texts
        if (ids is None or text.conversation_id in ids)
        and (where.since is None or text.at >= where.since)
        and (where.before is None or text.at < where.before)
    ]


# --- newest first -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Newest:
    """Texts, newest first; how many there are, None when unknown; and whether one word was enough."""

    texts: tuple[AnyText, ...] = ()
    total: int | None = 0
    is_any: bool = False


def newest(words: Words, most: int, start: Place | None, *, is_any: bool) -> Newest:
    """The newest texts behind a place that have all words; on the first page, else one of them."""
    if not words.query.terms:
        return Newest()
    if not is_any:
        found = _newest(words, words.query.match_all, most, start, len(words.query.asked))
        if found.texts or start is not None:
            return found
    found = _newest(words, words.query.match_any, most, start, 1)
    return Newest(found.texts, found.total, True)


def _newest(words: Words, match: str, most: int, start: Place | None, needed: int) -> Newest:
    search, where = words.archive.search, words.where
    texts: list[AnyText] = []
    totals: list[int | None] = []
    if "message" in words.looks_at:
        ids, count = search.newest(match, where, most, start)
        texts += search.texts.messages(ids)
        totals.append(count)
    if "summary" in words.looks_at:
        names, number = search.newest_summaries(match, where, most, start)
        texts += search.texts.summaries(names)
        totals.append(number)
    texts = [text for text, _ in _fresh(words.archive, texts)]
    unread = [text for what in words.looks_at for text in _unread(words, what, needed)]
    texts += [text for text in unread if start is None or is_behind(text.place, start)]
    texts.sort(key=lambda text: newest_first(text.place))
    total = None if None in totals else sum(count or 0 for count in totals)
    return Newest(tuple(texts[:most]), None if total is None else max(total, len(texts)))


def _unread(words: Words, what: What, needed: int = 1) -> Iterator[AnyText]:
    """What the index does not hold yet, looked at as it is: the texts with so many of the words."""
    texts = words.archive.search.texts
    asked = {at for at, term in enumerate(words.query.terms) if not term.piece_of}
    unread: Iterable[AnyText]
    unread = texts.read(words.unread_messages) if what == "message" else texts.summaries(words.unread_summaries)
    for text in unread:
        found = {spot.term for spot in words.finder.find(text.indexed, 1)}
        if found and (needed == 1 or len(found & asked) >= needed):
            yield text
