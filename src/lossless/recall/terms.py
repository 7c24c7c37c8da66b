"""Terms: the things that a question asks for, each as an FTS5 expression and as what to look for in a text."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lossless.model.index_text import emoji_tokens, grams, humps, signs, unspaced_runs
from lossless.model.words import WORD, fold, stem, unmark

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The shortest beginning by which longer words are found, in Latin letters and in others.
MIN_PREFIX = 4
MIN_PREFIX_OTHER = 3
#: The longest run of a script without blanks that is taken for one word.
MAX_RUN = 4
#: The same for katakana and Korean, where a run is a word.
MAX_SPACED_RUN = 12
_MAX_ROW = 24


@dataclass(frozen=True, slots=True)
class Term:
    """One thing that a question asks for."""

    #: As people write it.
    text: str
    #: FTS5: the term itself, inflected forms included.
    match: str
    #: FTS5: also longer words that begin like it.
    loose: str
    #: Ways to write it, each a row of folded words.
    forms: tuple[tuple[str, ...], ...] = ()
    #: What the longer words begin with.
    prefixes: tuple[str, ...] = ()
    #: Folded letters or signs that are looked for as they are, also inside of words.
    literal: str = ""
    #: Whether hits that have it come first: quoted phrases and identifiers.
    required: bool = False
    #: The expression of the identifier or run that this is a piece of.
    piece_of: str = ""


def word_term(word: str, *, is_english: bool = True) -> Term:
    """A folded word: its inflected forms, and the longer words that begin like it.

    >>> word_term("deploy").loose, word_term("to").loose
    ('"deploy" OR "deplo"*', '"to"')
    """
    match, root = _quote((word,)), stem(word)
    prefixes = (word, root) if word.startswith(root) and word != root else (word,)
    if not is_english and root == word:
        root = word[: max(MIN_PREFIX + 1, len(word) - 3)]
        prefixes = (word, root)
    elif root.endswith(("i", "e", "y")):
        root = root[:-1]
    shortest = MIN_PREFIX if word.isascii() else MIN_PREFIX_OTHER
    while len(root) > shortest and stem(root) != root:
        root = root[:-1]
    if len(root) < shortest or stem(root) != root or any(char.isdigit() for char in word):
        return Term(word, match, match, ((word,),))
    return Term(word, match, f'{match} OR "{root}"*', ((word,),), prefixes)


def row_term(text: str, words: tuple[str, ...], *, required: bool) -> Term:
    """Words in a row: a quoted phrase, a path, a compound."""
    match = _quote(words[:_MAX_ROW])
    return Term(text, match, match, (words[:_MAX_ROW],), required=required)


def chunk_terms(chunk: str, *, is_english: bool = True) -> list[Term]:
    """The terms of a piece of text without blanks: a word, an identifier and its pieces, runs, emoji.

    >>> [term.match for term in chunk_terms("src/getUser")]
    ['"src getuser"', '"src"', '"getuser" OR "get user"', '"get"', '"user"']
    """
    terms = wide_terms(chunk) + sign_terms(chunk)
    if terms:
        chunk = _WIDE.sub(" ", chunk) if chunk != terms[-1].text else ""
    bare = unmark(chunk).strip(_EDGES)
    raw = WORD.findall(bare)
    whole = None
    if len(raw) > 1 and not terms:
        required = bool(_IDENTIFIER.search(bare))
        whole = row_term(bare, tuple(WORD.findall(fold(bare))), required=required)
        terms.append(whole)
    for word in raw:
        found = _camel_terms(word, is_english=is_english)
        terms += [replace(term, piece_of=term.piece_of or whole.match) for term in found] if whole else found
    return terms


def _camel_terms(word: str, *, is_english: bool) -> list[Term]:
    pieces = humps(word)
    folded = fold(word)
    if not pieces:
        return [word_term(part, is_english=is_english) for part in WORD.findall(folded)]
    match = f"{_quote((folded,))} OR {_quote(pieces)}"
    whole = Term(word, match, match, ((folded,), tuple(pieces)))
    return [whole, *(replace(word_term(piece), piece_of=match) for piece in pieces)]


def sign_terms(chunk: str) -> list[Term]:
    """`C++` and its kind."""
    return [
        Term(chunk, _quote((token,)), _quote((token,)), ((token,),), literal=fold(chunk).strip(_EDGES_OF_SIGNS))
        for token in signs(chunk)[:1]
    ]


def wide_terms(text: str, *, whole: bool = False) -> list[Term]:
    """Terms of scripts without blanks, and of emoji. `whole` keeps each run as one word."""
    terms: list[Term] = []
    for run in unspaced_runs(text):
        for segment in [run] if whole else _segments(run):
            terms += _run_terms(segment, whole=whole)
    for emoji in _EMOJI_RUN.findall(text):
        tokens = emoji_tokens(emoji)
        if tokens:
            terms.append(Term(emoji, _quote(tokens), _quote(tokens), literal=fold(emoji)))
    return terms


def _run_terms(run: str, *, whole: bool) -> list[Term]:
    """A short run is a word with its pairs as pieces, a long one only its pairs, a letter a beginning."""
    pairs = grams(run)[:-1]
    letters = fold(run)
    if not pairs:
        return [Term(run, f"{_quote((letters,))}*", f"{_quote((letters,))}*", literal=letters)]
    match = _quote(pairs)
    word = Term(run, match, match, literal=letters)
    if whole or len(pairs) == 1:
        return [word]
    is_word = len(pairs) < (MAX_SPACED_RUN if _ONE_WORD.fullmatch(letters) else MAX_RUN)
    rest = [
        Term(pair, _quote((pair,)), _quote((pair,)), literal=pair, piece_of=match if is_word else "") for pair in pairs
    ]
    return [word, *rest] if is_word else rest


def _segments(run: str) -> list[str]:
    """The likely words of a run: Japanese by its scripts, Chinese between its function words."""
    if _HIRAGANA.search(run):
        return _KANJI_OR_KATAKANA.findall(run) or [run]
    if len(run) <= MAX_RUN:
        return [run]
    return [segment for segment in _CHINESE_FUNCTION.split(run) if segment] or [run]


def _quote(words: Iterable[str]) -> str:
    return '"' + " ".join(words) + '"'


_EDGES = "_./\\-:@#+&="
_EDGES_OF_SIGNS = "_./\\-:@&="
_IDENTIFIER = re.compile(r"[_/\\@#]|[^\W\d_]\W*\d|\d\W*[^\W\d_]|\d[.:-]\d|[^\W\d_][.:][^\W\d_]")
_WIDE = re.compile(
    "[\u0e00-\u0eff\u1000-\u11ff\u1780-\u17ff\u200d\u2190-\u2bff\u3000-\ud7ff\uf900-\ufaff\ufe0f\U0001f000-\U000323af]+"
)
_EMOJI_RUN = re.compile("[\u200d\u2190-\u2bff\ufe0f\U0001f000-\U0001faff]+")
_HIRAGANA = re.compile("[\u3041-\u309f]")
_KANJI_OR_KATAKANA = re.compile("[\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufad9]+|[\u30a0-\u30ff]+")
_ONE_WORD = re.compile("[\u30a0-\u30ff]+|[\uac00-\ud7a3]+")
_CHINESE_FUNCTION = re.compile(
    "为什么|為什麼|什么|什麼|怎么样|怎么|怎麼|怎样|如何|哪里|哪裡|哪个|哪些|多少|是否|是不是|有没有|請問|请问|我们|你们|他们|我們|你們|他們"
    "|这个|那个|[的了吗嗎呢吧是在和与與我你他她它这那這]"
)
