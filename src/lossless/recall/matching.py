"""Where the terms of a question stand in a text: what ranking weighs and snippets show."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from lossless.model.words import WORD, fold, fold_offsets, stem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lossless.recall.terms import Term

#: What a longer word that begins like the term counts.
PREFIX_STRENGTH = 0.5
#: Signs that may stand between two words of a row.
_MAX_GAP = 8


class Found(NamedTuple):
    """One occurrence: its place in the text, the index of the term, and how well it fits (1 or less)."""

    start: int
    end: int
    term: int
    strength: float


class Finder:
    """Finds the terms of one question in many texts, in time linear in each text.

    Words are sought by the letters that all their inflected forms begin with, then compared by stem.
    """

    def __init__(self, terms: Sequence[Term]) -> None:
        self._literals = [(index, term.literal) for index, term in enumerate(terms) if term.literal]
        forms = [(index, form, term.prefixes) for index, term in enumerate(terms) for form in term.forms]
        self._words = [
            (index, _root(form[0], prefixes), form[0], stem(form[0]), prefixes)
            for index, form, prefixes in forms
            if len(form) == 1
        ]
        self._rows = [
            (index, _root(form[0], ()), [stem(word) for word in form]) for index, form, _ in forms if len(form) > 1
        ]

    def find(self, text: str, most: int | None = None) -> list[Found]:
        """The places in `text` where the terms stand, in order; of each form of a term the first `most`."""
        folded = fold(text)
        found: list[Found] = []
        for index, literal in self._literals:
            if literal in folded:
                found += [Found(*place, index, 1.0) for place in islice(_literals(folded, literal), most)]
        for index, root, word, asked, prefixes in self._words:
            if root in folded:
                places = islice(_words(text, folded, root, word, asked, prefixes), most)
                found += [Found(start, end, index, strength) for start, end, strength in places]
        for index, root, stems in self._rows:
            if root in folded:
                found += [Found(*place, index, 1.0) for place in islice(_rows(folded, root, stems), most)]
        found.sort()
        offsets = fold_offsets(text, folded)
        if offsets is None:
            return found
        return [Found(offsets[start], offsets[end], term, strength) for start, end, term, strength in found]


def _literals(folded: str, literal: str) -> Iterator[tuple[int, int]]:
    at = folded.find(literal)
    while at >= 0:
        end = at + len(literal)
        if not (literal[0].isascii() and at and folded[at - 1].isalnum()):
            yield at, end
        at = folded.find(literal, end)


def _words(
    text: str, folded: str, root: str, word: str, asked: str, prefixes: tuple[str, ...]
) -> Iterator[tuple[int, int, float]]:
    at = folded.find(root)
    while at >= 0:
        end = at + len(root)
        if at == 0 or not folded[at - 1].isalnum() or _is_hump(text, folded, at):
            match = WORD.match(folded, at)
            end = match.end() if match else end
            seen = folded[at:end]
            if seen == word or stem(seen) == asked:
                yield at, end, 1.0
            elif seen.startswith(word) and _is_hump(text, folded, at + len(word)):
                end = at + len(word)
                yield at, end, 1.0
            elif prefixes and seen.startswith(prefixes):
                yield at, end, PREFIX_STRENGTH
        at = folded.find(root, end)


def _rows(folded: str, root: str, stems: list[str]) -> Iterator[tuple[int, int]]:
    at = folded.find(root)
    while at >= 0:
        end = at + len(root)
        if at == 0 or not folded[at - 1].isalnum():
            row_end = _row_end(folded, at, stems)
            if row_end:
                yield at, row_end
                end = row_end
        at = folded.find(root, end)


def _row_end(folded: str, at: int, stems: list[str]) -> int:
    """Where the row of words that begins at `at` ends; 0 when the words are others."""
    end = at
    for wanted in stems:
        match = WORD.search(folded, end, end + _MAX_GAP + 1)
        match = match and WORD.match(folded, match.start())
        if match is None or stem(match.group()) != wanted:
            return 0
        end = match.end()
    return end


def _root(word: str, prefixes: tuple[str, ...]) -> str:
    """What all words with this stem, and the longer ones, begin with."""
    root = min((word, stem(word), *prefixes), key=len)
    if root.isascii() and len(root) > 2 and root.endswith(("i", "e", "y")):
        root = root[:-1]
    return root


def _is_hump(text: str, folded: str, at: int) -> bool:
    """Whether a piece of a camelCase word begins at `at`."""
    return len(text) == len(folded) and 0 < at < len(text) and text[at].isupper() and text[at - 1].islower()
