"""The order of hits: what a message is worth among its neighbours, its session and its time.

A message borrows the terms that it lacks from the messages around it, because an answer rarely
repeats the question's words; and a session that holds one good hit lifts its other messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lossless.recall.weigh import Weighed, WeighedText

Sort = Literal["relevance", "recency", "hybrid"]
#: Where a message stands: conversation and seq.
Place: TypeAlias = tuple[int, int]

#: What a term counts that stands one, two, three messages (or passages) away.
BORROWED = (0.5, 0.3, 0.1)
#: Texts of more tokens than this borrow less, in proportion.
SHORT_TOKENS = 80
#: The part of its best score that a session adds to all of its messages.
SESSION_PRIOR = 0.3
#: How much more a message is worth inside the time that the question speaks of.
DATE_PRIOR = 0.5
#: A pause this long ends a session.
SESSION_GAP_SECONDS = 3600
#: Between rows that do not follow each other, so does a slower pace than this for each message.
SESSION_PACE_SECONDS = 600
HYBRID_DECAY_PER_HOUR = 0.001
#: The tier of messages that repeat what was found before: questions to recall tools, and their results.
ECHO = 3
#: Around how many of the best messages neighbours are looked at.
NEIGHBOURS_OF = 60


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A message next to a candidate, that has no term of the question itself."""

    id: int
    conversation_id: int
    seq: int
    at: float
    tokens: int


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in seconds since 1970: from `since` up to, without, `before`."""

    since: float
    before: float


@dataclass(frozen=True, slots=True)
class Hit:
    """A message or summary in the order of the answer."""

    id: int | str
    conversation_id: int
    seq: int | None
    at: float
    #: Comparable within one search only; about 1 when each term stands there once.
    score: float
    #: Its best passage; None when only its neighbours have terms of the question.
    passage: int | None
    #: The terms in its own text, as they were asked.
    matched: tuple[str, ...]
    #: 0 when all that was asked for is in its own text, 1 when what is required is, else 2; `ECHO` for an echo.
    tier: int


@dataclass(slots=True)
class _Spot:
    """A message while it is being ranked."""

    id: int | str
    conversation_id: int
    seq: int | None
    at: float
    tokens: int
    texts: list[WeighedText]
    #: The best value of each term over its passages, and what it may borrow from around it.
    own: dict[int, float]
    borrowed: dict[int, float]
    session: int = 0
    score: float = 0.0
    passage: int | None = None


def missing_places(weighed: Weighed) -> list[Place]:
    """The places around the best candidates that are no candidates themselves: fetch them as neighbours."""
    known = {(text.candidate.conversation_id, text.candidate.seq) for text in weighed.texts}
    best = sorted(weighed.texts, key=lambda text: -weighed.worth(text.values))[:NEIGHBOURS_OF]
    wanted: dict[Place, None] = {}
    for text in best:
        conversation, seq = text.candidate.conversation_id, text.candidate.seq
        if seq is not None:
            steps = range(-len(BORROWED), len(BORROWED) + 1)
            wanted.update(dict.fromkeys((conversation, seq + step) for step in steps if seq + step >= 0))
    return [place for place in wanted if place not in known]


def rank(
    weighed: Weighed,
    neighbours: Iterable[Neighbour] = (),
    *,
    sort: Sort = "relevance",
    now: float = 0.0,
    span: Span | None = None,
) -> list[Hit]:
    """All hits, best first. `span` is the time that the question speaks of; it lifts, it never excludes."""
    spots = _spots(weighed, neighbours)
    by_place = {(spot.conversation_id, spot.seq): spot for spot in spots if spot.seq is not None}
    _mark_sessions(by_place)
    _borrow(by_place)
    for spot in spots:
        _score(spot, weighed)
    _lift_sessions(spots)
    hits = _hits((spot for spot in spots if spot.score > 0), weighed, span)
    return _sorted(hits, sort, now)


def _spots(weighed: Weighed, neighbours: Iterable[Neighbour]) -> list[_Spot]:
    spots: dict[int | str, _Spot] = {}
    for text in weighed.texts:
        row = text.candidate
        spot = spots.get(row.id)
        if spot is None:
            spot = _Spot(row.id, row.conversation_id, row.seq, row.at, text.tokens, [], {}, {})
            spots[row.id] = spot
        spot.texts.append(text)
        for term, value in text.values.items():
            spot.own[term] = max(spot.own.get(term, 0.0), value)
    for near in neighbours:
        if near.id not in spots:
            spots[near.id] = _Spot(near.id, near.conversation_id, near.seq, near.at, near.tokens, [], {}, {})
    return list(spots.values())


def _mark_sessions(by_place: dict[Place, _Spot]) -> None:
    """Number the sessions: runs of messages without an hour's pause between them."""
    session = 0
    before: tuple[int, int, float] | None = None
    for conversation, seq in sorted(by_place):
        spot = by_place[conversation, seq]
        if before is None or before[0] != conversation or not _goes_on(seq - before[1], spot.at - before[2]):
            session += 1
        spot.session, before = session, (conversation, seq, spot.at)


def _goes_on(steps: int, seconds: float) -> bool:
    return abs(seconds) < max(SESSION_GAP_SECONDS, SESSION_PACE_SECONDS * (steps - 1))


def _borrow(by_place: dict[Place, _Spot]) -> None:
    for (conversation, seq), spot in by_place.items():
        if not spot.own:
            continue
        for step, share in enumerate(BORROWED, 1):
            for place in ((conversation, seq - step), (conversation, seq + step)):
                other = by_place.get(place)
                if other is not None and other.session == spot.session:
                    _lend(spot.own, other.borrowed, share * min(1.0, SHORT_TOKENS / max(1, other.tokens)))


def _lend(values: dict[int, float], borrowed: dict[int, float], share: float) -> None:
    for term, value in values.items():
        if share * value > borrowed.get(term, 0.0):
            borrowed[term] = share * value


def _score(spot: _Spot, weighed: Weighed) -> None:
    """The worth of the best passage, with what it borrows from around the message and from inside it."""
    if not spot.texts:
        spot.score = weighed.worth(spot.borrowed)
        return
    for text in spot.texts:
        values = dict(spot.borrowed)
        for other in spot.texts:
            apart = abs(other.candidate.passage - text.candidate.passage)
            if 0 < apart <= len(BORROWED):
                _lend(other.values, values, BORROWED[apart - 1] * min(1.0, SHORT_TOKENS / max(1, text.tokens)))
        _lend(text.values, values, 1.0)
        score = weighed.worth(values) + text.closeness
        if spot.passage is None or score > spot.score:
            spot.score, spot.passage = score, text.candidate.passage


def _lift_sessions(spots: Sequence[_Spot]) -> None:
    best: dict[int, float] = {}
    for spot in spots:
        best[spot.session] = max(best.get(spot.session, 0.0), spot.score)
    for spot in spots:
        if spot.session and spot.score > 0:
            spot.score += SESSION_PRIOR * best[spot.session]


def _hits(spots: Iterable[_Spot], weighed: Weighed, span: Span | None) -> list[Hit]:
    terms = weighed.query.terms
    asked = [index for index, term in enumerate(terms) if not term.piece_of and weighed.weights[index]]
    needed, required = set(asked), {index for index in asked if terms[index].required}
    unit = sum(weighed.weights[index] for index in asked) or 1.0
    hits = []
    for spot in spots:
        is_then = span is not None and span.since <= spot.at < span.before
        score = spot.score / unit * (1 + DATE_PRIOR if is_then else 1.0)
        tier = 0 if needed <= spot.own.keys() else 1 if required <= spot.own.keys() else 2
        matched = tuple(terms[index].text for index in sorted(spot.own))
        hits.append(Hit(spot.id, spot.conversation_id, spot.seq, spot.at, score, spot.passage, matched, tier))
    return hits


def _sorted(hits: list[Hit], sort: Sort, now: float) -> list[Hit]:
    if sort == "recency":
        own = [hit for hit in hits if hit.matched]
        full = [hit for hit in own if hit.tier == 0]
        return sorted(full or own, key=lambda hit: (-hit.at, -(hit.seq or 0), -hit.score))
    if sort == "hybrid":
        ages = {hit.id: max(0.0, now - hit.at) / 3600 for hit in hits}
        worth = {hit.id: hit.score / (1 + ages[hit.id] * HYBRID_DECAY_PER_HOUR) for hit in hits}
        return sorted(hits, key=lambda hit: (hit.tier, -worth[hit.id], -hit.at, -(hit.seq or 0)))
    return sorted(hits, key=lambda hit: (hit.tier, -hit.score, -hit.at, -(hit.seq or 0)))
