"""The words of a text: which carry meaning, how much each weighs among others, and the phrase that names it best."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from math import log
from operator import add, itemgetter
from typing import NamedTuple

from lossless.model.search_text import WORD_LISTS

#: Words of directives to a model: a text without any of them holds none.
DIRECTIVE_WORDS = WORD_LISTS["directive"]
#: Marks that may stand inside a word.
_JOINERS = "./:@+~#%&=?'’-"
WORD_PATTERN = re.compile(rf"\w+(?:[{_JOINERS}]+\w+)*")
#: Every other mark of ASCII parts words.
_BREAKS = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) in "_" + _JOINERS)}
#: Scripts that are written without blanks between words.
UNSPACED_PATTERN = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_BREAKS_IN_ROWS = {**_BREAKS, ord("\n"): "\n"}
_EDGES = " " + _JOINERS
_SEPARATOR = re.compile(r"[./:@_=#]|[a-z][A-Z]")
_HUMP = re.compile(r"[a-z][A-Z]")
_PARTS = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"\d")
_ENDINGS = ("ing", "ed", "es", "s")
_CONTRACTED = frozenset(("s", "t", "m", "re", "ve", "ll", "d", ""))

NAME_WEIGHT = 5.0
_IDENTIFIER_WEIGHT = 2.0
_NUMBER_WEIGHT = 2.0

#: Function words of eight languages, and the small change of English conversation.
_STOP = WORD_LISTS["function"]


class Word(NamedTuple):
    """A word without the marks around it, and what is known of it wherever it stands."""

    text: str
    #: What stands for all forms of the word; '' for a stop word.
    term: str
    #: How much its look alone says.
    salience: float
    #: Whether a unit with this word has to be looked at as a possible directive.
    is_suspect: bool


class Vocabulary(dict[str, str]):
    """Pieces of text → the term that stands for their word; '' for a stop word. Fills itself."""

    def __missing__(self, piece: str) -> str:
        term = self[piece] = word_of(piece).term
        return term

    def terms(self, pieces: Iterable[str]) -> frozenset[str]:
        """The terms that stand for some pieces, each once; '' may be among them and weighs nothing."""
        return frozenset(map(self.__getitem__, pieces))


class ChunkTerms(NamedTuple):
    """What the units of a chunk are made of."""

    vocabulary: Vocabulary
    #: The terms of each unit.
    terms: list[frozenset[str]]
    #: What each term weighs.
    weights: dict[str, int]
    #: The units with a word that directives have.
    suspects: set[int]
    #: Terms that look like names, numbers or identifiers.
    marked: frozenset[str]


def chunk_terms(texts: Sequence[str]) -> ChunkTerms:
    """The words of some units; the work is linear in their length."""
    # the texts have one row each, so that those of ASCII are parted in one go
    rows = iter("\n".join(filter(str.isascii, texts)).translate(_BREAKS_IN_ROWS).split("\n"))
    pieces = [next(rows).lstrip(_EDGES).split() if text.isascii() else pieces_of(text) for text in texts]
    inner = set(chain.from_iterable([unit[1:] for unit in pieces]))
    words = {piece: word_of(piece) for piece in inner.union([unit[0] for unit in pieces if unit])}
    vocabulary = Vocabulary(zip(words, map(itemgetter(1), words.values()), strict=True))
    term_of = vocabulary.__getitem__
    terms = [frozenset(map(term_of, unit)) for unit in pieces]
    marks = {piece for piece, word in words.items() if word.is_suspect}
    suspects = {index for index, unit in enumerate(pieces) if not marks.isdisjoint(unit)} if marks else set()
    # a word only written large, and not just at a beginning, is a name
    known, within = {word.text for word in words.values()}, {words[piece].text for piece in inner}
    salience: dict[str, float] = {}
    for text, term, found, _ in words.values():
        if text[:1].isupper() and text in within and text.lower() not in known:
            found = NAME_WEIGHT
        if found > salience.get(term, 1.0):
            salience[term] = found
    # whole numbers, so that sums do not depend on the order of a set
    frequency = Counter(chain.from_iterable(terms))
    rarity = {count: 1000 * log(1 + len(terms) / count) for count in set(frequency.values())}
    weights = {term: round(rarity[count] * salience.get(term, 1.0)) for term, count in frequency.items()} | {"": 0}
    return ChunkTerms(vocabulary, terms, weights, suspects, frozenset(salience) - {""})


def pieces_of(unit: str) -> list[str]:
    """The words of a unit as they are written, some with marks at their ends: a path, a URL or a date is one.

    The first is a word. Where a script has no blanks between words, each pair of neighbours is one.

    >>> pieces_of("edit src/a.py on 2026-01-05."), pieces_of("明天回滚v2")
    (['edit', 'src/a.py', 'on', '2026-01-05.'], ['v2', '明天', '天回', '回滚'])
    """
    if unit.isascii():
        return unit.translate(_BREAKS).lstrip(_EDGES).split()
    if not (runs := UNSPACED_PATTERN.findall(unit)):
        return WORD_PATTERN.findall(unit)
    pieces = WORD_PATTERN.findall(UNSPACED_PATTERN.sub(" ", unit))
    for run in runs:
        pieces.extend(map(add, run, run[1:]) if len(run) > 1 else run)
    return pieces


@lru_cache(maxsize=32_768)
def word_of(piece: str) -> Word:
    """The word in a piece of text; without text when there is none."""
    text = piece.strip(_JOINERS)
    salience = 1.0
    if text.isalpha():
        salience = 1.0 if text.islower() or not _HUMP.search(text) else _IDENTIFIER_WEIGHT
    elif _SEPARATOR.search(text):
        salience = _IDENTIFIER_WEIGHT
    elif len(text) > 1 and _NUMBER.search(text):
        salience = _NUMBER_WEIGHT
    word = text.lower()
    parts = (word,) if word.isalnum() else _PARTS.findall(word)
    return Word(text, _term(text), salience, not DIRECTIVE_WORDS.isdisjoint(parts))


def _term(text: str) -> str:
    word = text.lower()
    if not word.isalnum():
        head, mark, tail = word.replace("’", "'").partition("'")
        word = head if mark and tail in _CONTRACTED else word
    if word in _STOP or (len(word) == 1 and word.isascii() and not word.isdigit()):
        return ""
    if len(word) > 4 and word[-1] in "gds" and word.isascii() and word.isalpha():
        for ending in _ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) >= 4:
                return word[: -len(ending)]
    return word


#: Terms of units that speak of something decided or done, and of something that failed.
DECISION_TERMS = frozenset(map(_term, WORD_LISTS["decision"]))
ERROR_TERMS = frozenset(map(_term, WORD_LISTS["error"]))


_MAX_WORDS = 4
_MAX_CHARS = 48
_UNSPACED_CHARS = 8
_MARKED = re.compile(r"[^\W\d].*[\d./:@_#]|[\d./:@_#].*[^\W\d]|[a-z][A-Z]|[A-Z]{2}")


def key_phrase(text: str, vocabulary: Vocabulary, worth: Mapping[str, int]) -> str:
    """The words around the weightiest term of a text, as they stand there; '' when there is no such phrase.

    `worth` has the weights of terms, 0 for one that needs no naming. A lone plain word is no phrase.
    """
    found = [worth.get(vocabulary[word], 0) for word in WORD_PATTERN.findall(text)]
    best = max(found, default=0)
    if best <= 0:
        for run in UNSPACED_PATTERN.findall(text):
            found = [worth.get(pair, 0) for pair in pieces_of(run)]
            if (best := max(found)) > 0:
                start = found.index(best)
                return str(run[start : start + _UNSPACED_CHARS])
        return ""
    first = last = place = found.index(best)
    words = list(islice(WORD_PATTERN.finditer(text), place + _MAX_WORDS))
    while last - first + 1 < _MAX_WORDS and _continues(text, words, last, vocabulary):
        last += 1
    while last - first + 1 < _MAX_WORDS and first > 0 and _continues(text, words, first - 1, vocabulary):
        first -= 1
    if first == last and not (_MARKED.search(words[first][0]) or (first and words[first][0][0].isupper())):
        return ""
    start, end = words[first].start(), words[last].end()
    if end - start > _MAX_CHARS:
        start, end = words[place].span()
    return text[start : min(end, start + 2 * _MAX_CHARS)]


def _continues(text: str, words: Sequence[re.Match[str]], place: int, vocabulary: Vocabulary) -> bool:
    """Whether the words at a place and after it stand together and both carry meaning."""
    if place + 1 >= len(words):
        return False
    one, other = words[place], words[place + 1]
    return bool(text[one.end() : other.start()] == " " and vocabulary[one[0]] and vocabulary[other[0]])
