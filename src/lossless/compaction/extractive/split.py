"""Cutting text of any script into units: sentences, and the clauses of long ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Sentences longer than this are cut into clauses, and clauses longer than the second number anywhere.
LONG_CHARS = 160
MAX_CHARS = 240
_LEAST_CHARS = 40

#: The blank after a sentence. It comes first, so that the search runs from blank to blank, and then one look back.
_SENTENCE = re.compile(
    r" (?<=[.!?…\"'”’)\]*] )"
    r"(?:(?<=[.!?…] )(?<![ (.][A-Z]\. )(?<!\b(?:Dr|Mr|Ms|St|vs)\. )(?<!\bMrs\. )(?<!e\.g\. )(?<!i\.e\. )"
    r"|(?<=[.!?…][\"'”’)\]*] ))"
)
_UNSPACED_STOPS = "。！？｡"
_UNSPACED_SENTENCE = re.compile(rf"(?<=[{_UNSPACED_STOPS}])(?![」』”’）]) ?")
_CLAUSE = re.compile(
    r"(?<=[,;:])\s+|(?<=[，、；：])|(?<=\S)\s+[–—-]+\s+"
    r"|(?<=\S)\s+(?=(?:and|but|because|so|which|who|since|while|when|after|before|although|though|where|plus)\s)"
)
#: The same in ASCII with single blanks. It comes first, again.
_PLAIN_CLAUSE = re.compile(
    r" (?:(?<=[,;:] )|-+ "
    r"|(?=(?:and|but|because|so|which|who|since|while|when|after|before|although|though|where|plus) ))"
)
_MARKS = " \t\r\f\v*#>•·–—-|"
_INTERJECTION = re.compile(
    r"(?:(?:oh|wow|hey|hi|hello|haha|hmm|yeah|yay|aww?|whoa|well|ok|okay)(?:,|!|\.\.\.)\s+)+(?=\S)",
    re.IGNORECASE,
)
_PAUSES = frozenset(",!.")


def units(text: str) -> list[str]:
    """The sentences and clauses of a text in order, each at most `MAX_CHARS` long.

    >>> units("# Plan\\n- Use apsw. It bundles SQLite!\\n\\n好的。我们明天回滚。")
    ['Plan', 'Use apsw.', 'It bundles SQLite!', '好的。', '我们明天回滚。']
    """
    found: list[str] = []
    for row in text.splitlines():
        bare = row.strip(_MARKS)
        if not bare:
            continue
        if "  " in bare or "\t" in bare:
            bare = " ".join(bare.split())
        sentences = _SENTENCE.split(bare)
        if not bare.isascii() and any(stop in bare for stop in _UNSPACED_STOPS):
            sentences = [part for whole in sentences for part in _UNSPACED_SENTENCE.split(whole) if part]
        if len(bare) <= LONG_CHARS:
            found += sentences
            continue
        for sentence in sentences:
            if len(sentence) <= LONG_CHARS:
                found.append(sentence)
            else:
                found.extend(_clauses(sentence))
    return found


def without_interjection(unit: str) -> str:
    """A unit without the interjections that it opens with.

    >>> without_interjection("Oh, wow! We moved to Galway.")
    'We moved to Galway.'
    """
    if _PAUSES.isdisjoint(unit[:9]):
        return unit
    opening = _INTERJECTION.match(unit)
    return unit[opening.end() :] if opening else unit


def _clauses(sentence: str) -> Iterator[str]:
    """Pieces of a long sentence, cut where a clause ends and neither side is short."""
    start = 0
    for boundary in (_PLAIN_CLAUSE if sentence.isascii() else _CLAUSE).finditer(sentence):
        cut, resume = boundary.span()
        if cut - start >= 2 * _LEAST_CHARS and len(sentence) - resume >= _LEAST_CHARS:
            yield from _cut(sentence[start:cut])
            start = resume
    yield from _cut(sentence[start:])


def _cut(piece: str) -> Iterator[str]:
    """A piece without inner boundaries, cut at blanks, or anywhere if it has none."""
    start = 0
    while len(piece) - start > MAX_CHARS:
        blank = piece.rfind(" ", start + MAX_CHARS // 2, start + MAX_CHARS)
        end = blank if blank > 0 else start + MAX_CHARS
        yield piece[start:end]
        start = end + (blank > 0)
    if start < len(piece):
        yield piece[start:]
