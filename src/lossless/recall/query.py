"""What a question asks for: any text in, terms and valid FTS5 expressions out.

Words that say nothing are dropped unless there are no others. What stays is looked for with OR, so
that one missing word never hides everything; ranking puts first what has all of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lossless.model.stopwords import ENGLISH, stop_words
from lossless.model.words import WORD, fold, stem
from lossless.recall.terms import Term, chunk_terms, row_term, wide_terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: A longer question is cut: what it asks for stands at its beginning, or it is a pasted text.
MAX_CHARS = 8_000
MAX_TERMS = 32
REGEX_HINT = 'Searched as plain words. For a regular expression use mode="regex".'
#: How many index rows may be scored to find the candidates; more frequent terms only weigh in afterwards.
ROW_BUDGET = 60_000
EMPTY_HINT = "There is no word in this to search for."


@dataclass(frozen=True, slots=True)
class Query:
    """A question, understood."""

    terms: tuple[Term, ...]
    #: What the asker should know about how it was read.
    hint: str | None = None

    @property
    def asked(self) -> tuple[Term, ...]:
        """The terms without the pieces of identifiers."""
        return tuple(term for term in self.terms if not term.piece_of)

    @property
    def match_any(self) -> str:
        """FTS5: texts with at least one of the terms."""
        return any_of(self.terms)

    @property
    def match_all(self) -> str:
        """FTS5: texts with all of them."""
        return all_of(self.asked)


def any_of(terms: Iterable[Term]) -> str:
    """FTS5: texts with at least one of `terms`; an expression that finds nothing when there are none."""
    return " OR ".join(dict.fromkeys(term.loose for term in terms)) or '""'


def all_of(terms: Iterable[Term]) -> str:
    """FTS5: texts with all of `terms`; an expression that finds nothing when there are none."""
    return " AND ".join(dict.fromkeys(f"({term.loose})" for term in terms)) or '""'


def understand(question: str) -> Query:
    """Read a question. Any string will do; the expressions of the result are always valid.

    >>> [term.text for term in understand('When did the "retry queue" fail in src/worker.py?').terms]
    ['retry queue', 'fail', 'src/worker.py', 'src', 'worker', 'py']
    """
    text = _UNPRINTABLE.sub(" ", question[:MAX_CHARS])
    is_regex = bool(_REGEX.search(_QUOTED.sub(" ", text)))
    if is_regex:
        text = _REGEX_CLASS.sub(" ", text)
    phrases = [next(filter(None, groups), "") for groups in _QUOTED.findall(text)]
    rest = _QUOTED.sub(" ", text)
    stop = stop_words(WORD.findall(fold(rest)))
    found = [term for phrase in phrases for term in _phrase_terms(phrase)]
    for chunk in _CHUNK.findall(rest):
        found += chunk_terms(chunk, is_english=stop is ENGLISH)
    terms = _distinct([term for term in found if not _is_idle(term, stop)] or found)
    hint = REGEX_HINT if is_regex else None if terms else EMPTY_HINT
    return Query(terms, hint)


def candidate_matches(query: Query, counts: Sequence[int], pool: int) -> list[str]:
    """The FTS5 expressions whose best rows are the candidates, given how many rows have each term.

    First any of the terms, rarest first as far as the budget goes. When that finds more rows than the
    `pool` holds, also all of them at once, so that a text with everything is never crowded out.
    """
    living = sorted((count, at) for at, count in enumerate(counts) if count)
    if not living:
        return [query.match_any]
    chosen: list[int] = []
    rows = 0
    for count, at in living:
        rows += count
        if chosen and rows > ROW_BUDGET:
            break
        chosen.append(at)
    unseen = [at for at, count in enumerate(counts) if not count]
    matches = [any_of(query.terms[at] for at in sorted(chosen + unseen))]
    asked = [term for term, count in zip(query.terms, counts, strict=True) if count and not term.piece_of]
    if len(asked) > 1 and sum(counts) > pool:
        matches.append(" AND ".join(f"({term.match})" for term in asked))
    return matches


_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_QUOTED = re.compile(r'"([^"]*)"|“([^”]*)”|„([^“”]*)[“”]|«([^»]*)»|「([^」]*)」|『([^』]*)』|`([^`]*)`')
#: Words held together by the signs of identifiers, paths, addresses and compounds.
_CHUNK = re.compile(r"[^\s'’‘,;!?()\[\]{}<>|\"“”„«»「」『』`…–—*~^$%。，、！？；：（）]+")
_REGEX = re.compile(
    r"\.[*+?]|\[\^?[\w\\]-?[^\]\s]*\][*+?{]|(?:^|\s)\^\w|\w\$(?=\s|$)|\w\|\w|\(\?[:=!<]|\w\{\d+,?\d*\}"
    r"|(?<![:\w\\])\\[bBdDsSwW](?!\w*\\\w{2})|\w\\[bBdDsSwW](?=[*+?{\s]|$)"
)
_REGEX_CLASS = re.compile(r"\\[bBdDsSwW]")


def _phrase_terms(phrase: str) -> list[Term]:
    terms = wide_terms(phrase, whole=True)
    words = tuple(WORD.findall(fold(phrase)))
    if words and not terms:
        terms = [row_term(phrase.strip(), words, required=True)]
    return [replace(term, required=True) for term in terms or chunk_terms(phrase)]


def _is_idle(term: Term, stop: frozenset[str]) -> bool:
    """Whether a term says nothing: a stop word, or one Latin letter."""
    if term.required or term.literal or len(term.forms) != 1 or len(term.forms[0]) != 1:
        return False
    word = term.forms[0][0]
    return word in stop or (len(word) == 1 and word.isascii() and not word.isdigit())


def _distinct(terms: Iterable[Term]) -> tuple[Term, ...]:
    """Each term once, whatever its inflection; what is asked for by itself wins over a piece."""
    found: dict[tuple[str, ...], Term] = {}
    for term in terms:
        key = (term.literal, *(" ".join(map(stem, form)) for form in term.forms))
        known = found.get(key)
        if known is None or (known.piece_of and not term.piece_of):
            found[key] = term
    return tuple(found.values())[:MAX_TERMS]
