"""Short phrases that name what a text is about."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lossless.compaction.extractive.terms import UNSPACED, WORD, pieces_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lossless.compaction.extractive.terms import Vocabulary

_MAX_WORDS = 4
_MAX_CHARS = 48
_UNSPACED_CHARS = 8
_MARKED = re.compile(r"[^\W\d].*[\d./:@_#]|[\d./:@_#].*[^\W\d]|[a-z][A-Z]|[A-Z]{2}")


def key_phrase(text: str, vocabulary: Vocabulary, worth: Mapping[str, int]) -> str:
    """The words around the weightiest term of a text, as they stand there; '' when there is no such phrase.

    `worth` has the weights of terms, 0 for one that needs no naming. A lone plain word is no phrase.
    """
    words = list(WORD.finditer(text))
    best, place = max(((worth.get(vocabulary[word[0]], 0), -at) for at, word in enumerate(words)), default=(0, 0))
    if best <= 0:
        return _unspaced_phrase(text, worth)
    first = last = -place
    while last - first + 1 < _MAX_WORDS and _continues(text, words, last, vocabulary):
        last += 1
    while last - first + 1 < _MAX_WORDS and first > 0 and _continues(text, words, first - 1, vocabulary):
        first -= 1
    if first == last and not (_MARKED.search(words[first][0]) or (first and words[first][0][0].isupper())):
        return ""
    start, end = words[first].start(), words[last].end()
    if end - start > _MAX_CHARS:
        start, end = words[-place].span()
    return text[start : min(end, start + 2 * _MAX_CHARS)]


def _continues(text: str, words: Sequence[re.Match[str]], place: int, vocabulary: Vocabulary) -> bool:
    """Whether the words at a place and after it stand together and both carry meaning."""
    if place + 1 >= len(words):
        return False
    one, other = words[place], words[place + 1]
    return bool(text[one.end() : other.start()] == " " and vocabulary[one[0]] and vocabulary[other[0]])


def _unspaced_phrase(text: str, worth: Mapping[str, int]) -> str:
    for run in UNSPACED.findall(text):
        best, place = max((worth.get(pair, 0), -at) for at, pair in enumerate(pieces_of(run)))
        if best > 0:
            return str(run[-place : -place + _UNSPACED_CHARS])
    return ""
