"""The worth of a text for a question by itself: bm25 over its terms, more for close and complete ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from lossless.model.tokens import estimate_tokens
from lossless.recall.matching import Finder, Found

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lossless.recall.query import Query

#: bm25: how soon repeats stop counting, and how much long texts are held back.
K1, B = 0.9, 0.4
#: What a piece of an identifier counts when the whole is there to be found.
PIECE_WEIGHT = 0.4
#: The part of a score that is given in proportion to how much of the question a text covers.
COVERAGE = 0.3
#: What two terms side by side add, in parts of the lesser one; it shrinks with the words between them.
CLOSENESS = 0.5
CLOSE_CHARS = 24
_WORD_CHARS = 6
#: More occurrences of a term in one passage than this make no difference.
_MOST = 12


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage that may share a term with the question. A summary has no `seq`: it has no neighbours."""

    id: int | str
    conversation_id: int
    seq: int | None
    #: When it was said, in seconds since 1970.
    at: float
    text: str
    passage: int = 0


@dataclass(frozen=True, slots=True)
class Counts:
    """How many index rows the scope has, and how many of them match each term of the query."""

    rows: int
    terms: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WeighedText:
    """A candidate with the worth of each term in it, before the term's weight."""

    candidate: Candidate
    tokens: int
    values: dict[int, float]
    #: What its terms' being close together adds.
    closeness: float


@dataclass(frozen=True, slots=True)
class Weighed:
    """All candidates that have a term, and the weight of each term (its idf)."""

    query: Query
    weights: tuple[float, ...]
    texts: tuple[WeighedText, ...]

    def worth(self, values: dict[int, float]) -> float:
        """The score of these term values: their weighted sum, less for what they do not cover."""
        whole, covered, score = sum(self.weights), 0.0, 0.0
        for term, value in values.items():
            weight = self.weights[term]
            score += weight * value
            covered += weight * min(1.0, value)
        return score * (1 - COVERAGE + COVERAGE * covered / whole) if whole else 0.0


def weigh(query: Query, candidates: Iterable[Candidate], counts: Counts) -> Weighed:
    """Look for the terms in each candidate, and weigh them by how rare they are in the scope."""
    finder = Finder(query.terms)
    found = [(candidate, finder.find(candidate.text, _MOST)) for candidate in candidates]
    tokens = [estimate_tokens(candidate.text) for candidate, _ in found]
    average = max(1.0, sum(tokens) / len(tokens)) if tokens else 1.0
    weights = _weights(query, counts, [hits for _, hits in found])
    texts = tuple(
        WeighedText(candidate, length, _values(hits, length / average), _closeness(hits, weights))
        for (candidate, hits), length in zip(found, tokens, strict=True)
        if hits
    )
    return Weighed(query, weights, texts)


def _weights(query: Query, counts: Counts, found: Sequence[list[Found]]) -> tuple[float, ...]:
    """The idf of each term: 0 when it is nowhere, less when it is a piece of what is there whole."""
    seen = [0] * len(query.terms)
    for hits in found:
        for term in {hit.term for hit in hits}:
            seen[term] += 1
    rows = max(counts.rows, len(found))
    having = [max(pair) for pair in zip(counts.terms, seen, strict=True)]
    whole = {term.match for term, count in zip(query.terms, having, strict=True) if count}
    return tuple(
        math.log1p((rows - count + 0.5) / (count + 0.5)) * (PIECE_WEIGHT if term.piece_of in whole else 1.0)
        if count
        else 0.0
        for term, count in zip(query.terms, having, strict=True)
    )


def _values(hits: list[Found], length: float) -> dict[int, float]:
    times: dict[int, int] = {}
    best: dict[int, float] = {}
    for hit in hits:
        times[hit.term] = times.get(hit.term, 0) + 1
        best[hit.term] = max(best.get(hit.term, 0.0), hit.strength)
    held = K1 * (1 - B + B * length)
    return {term: best[term] * count * (K1 + 1) / (count + held) for term, count in times.items()}


def _closeness(hits: list[Found], weights: Sequence[float]) -> float:
    best: dict[tuple[int, int], float] = {}
    for one, two in pairwise(hits):
        gap = two.start - one.end
        if one.term != two.term and 0 <= gap <= CLOSE_CHARS:
            pair = (min(one.term, two.term), max(one.term, two.term))
            lesser = min(weights[one.term] * one.strength, weights[two.term] * two.strength)
            best[pair] = max(best.get(pair, 0.0), lesser / (1 + gap // _WORD_CHARS))
    return CLOSENESS * sum(best.values())
