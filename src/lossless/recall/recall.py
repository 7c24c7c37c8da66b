"""`recall`: a question in plain words, the evidence back. One call, no model, the same answer every time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.model.senders import sender_name
from lossless.model.times import from_epoch
from lossless.model.tokens import estimate_tokens
from lossless.recall import wordsearch
from lossless.recall.asker import is_asked_by
from lossless.recall.dates import time_asked_about
from lossless.recall.evidence import (
    Evidence,
    Recalled,
    closing_line,
    days_of,
    heading,
    line_of,
    opening_lines,
)
from lossless.recall.grep import MAX_CHARS, grep
from lossless.recall.rank import ECHO, Span
from lossless.recall.scope import GrepRequest
from lossless.recall.snippet import ELLIPSIS, best_window
from lossless.store.texts import Where

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from lossless.recall.dates import SpokenTime
    from lossless.recall.matching import Finder
    from lossless.recall.scope import Scope
    from lossless.store.archive import Archive
    from lossless.store.texts import MessageText

#: A text up to this long is quoted whole; of longer ones the best piece, a larger one of the first few.
WHOLE_CHARS = 480
PIECE_CHARS = 320
BEST_CHARS = 800
_BEST = 4
_MOST = 200
_POOL = 300
#: Less room than this is left empty.
_LEAST_TOKENS = 24
_NOTHING = "Nothing in scope holds any of this."


def recall(
    archive: Archive, scope: Scope, question: str, max_tokens: int, now: datetime, asking: frozenset[int] = frozenset()
) -> Recalled:
    """The evidence for a question within so many tokens: short quotations from many messages, best first.

    Times in the question are read against `now`, those in the evidence against the day they were said. The message
    that asks is no evidence: one of `asking`, and the newest of its conversation when it says the same.
    """
    spoken = time_asked_about(question[:MAX_CHARS], now)
    ranking = _ranked(archive, scope, question, spoken, now, asking)
    note = _note(question, spoken) if ranking.texts else _NOTHING
    leaves = archive.summaries.covering([text.id for text, _ in ranking.texts])
    packed = _Packing(question, note, scope, max_tokens)
    for number, (text, score) in enumerate(ranking.texts):
        whole = " ".join(text.indexed.split())
        sizes = (WHOLE_CHARS, BEST_CHARS if number < _BEST else PIECE_CHARS)
        for quote in _quotes(whole, ranking.finder, ranking.weights, *sizes, packed.room):
            said_at = from_epoch(text.at / 1000).astimezone(now.tzinfo)
            item = Evidence(
                text.id, text.conversation_id, text.seq, score, text.role, said_at, quote,
                leaves.get(text.id), sender_name(text.sender), days_of(quote, said_at),
            )  # fmt: skip
            if packed.take(item):
                break
        if packed.room < _LEAST_TOKENS:
            break
    return Recalled(question, scope, tuple(packed.items), note, max_tokens)


@dataclass(frozen=True, slots=True)
class _Ranking:
    """Messages, best first, with their scores, and what finds the words in them."""

    texts: Sequence[tuple[MessageText, float]]
    finder: Finder
    weights: Sequence[float]


def _ranked(
    archive: Archive, scope: Scope, question: str, spoken: SpokenTime | None, now: datetime, asking: frozenset[int]
) -> _Ranking:
    texts = archive.search.texts
    span = None if spoken is None else Span(spoken.since.timestamp(), spoken.before.timestamp())
    words = wordsearch.words_of(archive, question, Where(scope.conversation_ids), "messages")
    found = wordsearch.ranked(words, _POOL, "relevance", now.timestamp(), span)
    scores = {hit.id: hit.score for hit in found.hits[:_MOST] if isinstance(hit.id, int) and hit.tier < ECHO}
    if not scores:
        hits = grep(archive, scope, GrepRequest(question, search_in="messages", limit=_MOST), now).hits
        echoes = archive.search.echoes(hit.id for hit in hits if isinstance(hit.id, int))
        scores = {hit.id: hit.score for hit in hits if isinstance(hit.id, int) and hit.id not in echoes}
    found_texts = texts.messages(scores)
    gone = asking | is_asked_by(archive, (question,), ((text.id, text.conversation_id) for text in found_texts))
    ranked = [(text, scores[text.id]) for text in found_texts if text.id not in gone]
    return _Ranking(ranked, words.finder, found.weights or (1.0,) * len(words.query.terms))


def _quotes(whole: str, finder: Finder, weights: Sequence[float], longest: int, size: int, room: int) -> Iterator[str]:
    """What may be quoted of a text, the most first: all of it, its best piece, as much of that as there is room for."""
    if len(whole) <= longest:
        yield whole
    for chars in (size, 4 * room - 80):
        if 40 <= chars < len(whole):
            window = best_window(whole, finder, chars, weights)
            before = ELLIPSIS if window.start > 0 else ""
            after = ELLIPSIS if window.end < len(whole) else ""
            yield f"{before}{whole[window.start : window.end].strip()}{after}"


class _Packing:
    """Evidence that fits: what each line costs is taken from the room."""

    def __init__(self, question: str, note: str, scope: Scope, max_tokens: int) -> None:
        around = [*opening_lines(question, note), closing_line()]
        self.room = max_tokens - sum(estimate_tokens(f"{line}\n") for line in around)
        self.items: list[Evidence] = []
        self._scope, self._places = scope, set[tuple[int, str, str]]()

    def take(self, item: Evidence) -> bool:
        """Take a quotation if there is room for it."""
        cost = estimate_tokens(f"{line_of(item)}\n")
        if item.place not in self._places:
            cost += estimate_tokens(f"{heading(item.place, self._scope)}\n")
        if cost > self.room:
            return False
        self.room -= cost
        self.items.append(item)
        self._places.add(item.place)
        return True


def _note(question: str, spoken: SpokenTime | None) -> str:
    """The time that the question speaks of, as it was understood."""
    if spoken is None:
        return ""
    words = " ".join(question[spoken.start : spoken.end].split())
    return f'"{words}" was read as {spoken.since:%Y-%m-%d} up to, without, {spoken.before:%Y-%m-%d}.'
