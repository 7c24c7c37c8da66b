"""The words of a text: which of them carry meaning, how much each weighs among the others, and the phrase that names it
best.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from itertools import chain
from math import log
from operator import add, itemgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: Words of directives to a model: a text without any of them holds none.
_DIRECTIVES = """
    ignore disregard forget override bypass overrule prompt prompts instruction instructions jail jailbreak
    jailbreaks jailbreaking jailbroken anything dan mode now point pretend only solely exclusively ignorez ignorer
    ignora ignoriere ignorieren ignoriert ignorierst 忽略 无视 無視 忘记 忘掉"""
DIRECTIVE_WORDS = frozenset(_DIRECTIVES.split())
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
_STOP_WORDS = """
    a an the and or but if so of to in on at for from with by as is are was were be been being am do does did done
    have has had having i me my mine you your yours he him his she her hers it its we us our ours they them their
    theirs this that these those there here what which who whom whose when where why how not no nor yes yeah than then
    too very can could will would shall should may might must just about into over under up down out off again more
    most some any all each few other such own same also cannot im ive id dont didnt cant isnt wasnt thats lets
    really like know think get got getting going go gonna went one thing things much many lot lots make makes made
    making way sure want wanted wants well oh hey hi hello wow ok okay let kind bit still even back now never ever
    always something anything everything someone everyone feel feels feeling felt see seen look looks looking great
    good nice cool awesome amazing happy glad love loved thanks thank hope sounds sound congrats take taking time keep
    sorry definitely totally absolutely pretty super new day today come coming say said tell please haha guess maybe
    yay bye aww aw ah woah whoa yep yup nope nah phew oops gosh woohoo hmm huh lol omg btw
    through around because while before after until since though although both only first last next another
    don didn doesn isn wasn aren weren hasn haven hadn couldn wouldn shouldn ain ll ve re
    der die das und oder aber ein eine einen einem einer ist sind war waren ich du er sie es wir ihr nicht mit von zu
    im den dem des auf für als auch wie dass noch nur so hat haben wird werden bei aus nach kann mich mir dich sich
    le la les un une des et ou mais de du au aux en dans pour par sur avec est sont était je tu il elle nous vous ils
    ne pas que qui ce cette ces se son sa ses plus mon ma mes
    el los las una unos y o pero del al con por para es son era yo él ella nosotros ellos no se su sus lo como más que
    um uma os as e ou mas do da dos das no na nos nas com por para é são eu ele ela não se seu sua
    il lo gli uno ed ma di del della dei con per è sono era io lui lei noi loro non che si suo sua più
    de het een en of maar van aan op voor met is zijn was waren ik je hij ze wij niet dat die ook als bij uit naar
    и в во не на я он она мы вы они что это как с со а но из у к по за от для то же бы был была было были есть так
    его её их мне меня тебя все ещё уже"""
_STOP = frozenset(_STOP_WORDS.split())
_DECISIONS = """
    decided decision agreed chose chosen instead deadline blocked blocker todo confirmed approved rejected
    deployed migrated rollback merged shipped released fixed caused entschieden entscheidung décidé décision decidido
    decisión решил решили 决定 決定"""
_ERRORS = """
    error errors failed failure fails exception traceback fatal panic denied refused timeout aborted crash crashed
    enoent segfault fehler erreur fallo ошибка 错误 失败 エラ 失敗"""


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
    pieces = _all_pieces(texts)
    inner = set(chain.from_iterable([unit[1:] for unit in pieces]))
    words = {piece: word_of(piece) for piece in inner.union([unit[0] for unit in pieces if unit])}
    vocabulary = Vocabulary(zip(words, map(itemgetter(1), words.values()), strict=True))
    term_of = vocabulary.__getitem__
    terms = [frozenset(map(term_of, unit)) for unit in pieces]
    marks = {piece for piece, word in words.items() if word.is_suspect}
    suspects = {index for index, unit in enumerate(pieces) if not marks.isdisjoint(unit)} if marks else set()
    salience = _term_salience(words, inner)
    return ChunkTerms(vocabulary, terms, _weights(salience, terms), suspects, frozenset(salience) - {""})


def _all_pieces(texts: Sequence[str]) -> list[list[str]]:
    """The pieces of each text; the texts have one row each, so that those of ASCII are parted in one go."""
    rows = iter("\n".join(filter(str.isascii, texts)).translate(_BREAKS_IN_ROWS).split("\n"))
    return [next(rows).lstrip(_EDGES).split() if text.isascii() else pieces_of(text) for text in texts]


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


def _term_salience(words: dict[str, Word], inner: Iterable[str]) -> dict[str, float]:
    """How much more than others some terms say; a word only written large, and not just at a beginning, is a name."""
    known = {word[0] for word in words.values()}
    within = {words[piece][0] for piece in inner}
    salience: dict[str, float] = {}
    for text, term, found, _ in words.values():
        if text[:1].isupper() and text in within and text.lower() not in known:
            found = NAME_WEIGHT
        if found > salience.get(term, 1.0):
            salience[term] = found
    return salience


def _weights(salience: Mapping[str, float], terms: Sequence[frozenset[str]]) -> dict[str, int]:
    """The weight of each term of a chunk. Whole numbers, so that sums do not depend on the order of a set."""
    frequency = Counter(chain.from_iterable(terms))
    rarity = {count: 1000 * log(1 + len(terms) / count) for count in set(frequency.values())}
    weights = {term: round(rarity[count] * salience.get(term, 1.0)) for term, count in frequency.items()}
    weights[""] = 0
    return weights


@lru_cache(maxsize=32_768)
def word_of(piece: str) -> Word:
    """The word in a piece of text; without text when there is none."""
    text = piece.strip(_JOINERS)
    return Word(text, _term(text), _salience(text), _is_suspect(text))


def _salience(word: str) -> float:
    if word.isalpha():
        return 1.0 if word.islower() or not _HUMP.search(word) else _IDENTIFIER_WEIGHT
    if _SEPARATOR.search(word):
        return _IDENTIFIER_WEIGHT
    return _NUMBER_WEIGHT if len(word) > 1 and _NUMBER.search(word) else 1.0


def _is_suspect(text: str) -> bool:
    word = text.lower()
    return word in DIRECTIVE_WORDS if word.isalnum() else not DIRECTIVE_WORDS.isdisjoint(_PARTS.findall(word))


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
DECISION_TERMS = frozenset(map(_term, _DECISIONS.split()))
ERROR_TERMS = frozenset(map(_term, _ERRORS.split()))


_MAX_WORDS = 4
_MAX_CHARS = 48
_UNSPACED_CHARS = 8
_MARKED = re.compile(r"[^\W\d].*[\d./:@_#]|[\d./:@_#].*[^\W\d]|[a-z][A-Z]|[A-Z]{2}")


def key_phrase(text: str, vocabulary: Vocabulary, worth: Mapping[str, int]) -> str:
    """The words around the weightiest term of a text, as they stand there; '' when there is no such phrase.

    `worth` has the weights of terms, 0 for one that needs no naming. A lone plain word is no phrase.
    """
    words = list(WORD_PATTERN.finditer(text))
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
    for run in UNSPACED_PATTERN.findall(text):
        best, place = max((worth.get(pair, 0), -at) for at, pair in enumerate(pieces_of(run)))
        if best > 0:
            return str(run[-place : -place + _UNSPACED_CHARS])
    return ""
