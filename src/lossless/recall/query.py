"""Understand a question: its terms, valid FTS5 expressions, the dates it mentions, and where its terms occur in a
text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeAlias

from lossless.model.search_text import (
    ENGLISH,
    FRENCH,
    WORD,
    camel_parts,
    emoji_tokens,
    fold_offsets,
    fold_text,
    letter_pairs,
    sign_words,
    stop_words,
    strip_marks,
    unspaced_runs,
)
from lossless.store.search import stem

#: The shortest beginning by which longer words are found, in Latin letters and in others.
MIN_PREFIX = 4
MIN_PREFIX_OTHER = 3
#: The longest run of a script without blanks that is taken for one word.
MAX_RUN = 4
#: The same for katakana and Korean, where a run is a word.
MAX_SPACED_RUN = 12
_MAX_ROW = 24
_SECTIONS = Path(__file__).with_name("wordings.txt").read_text(encoding="utf-8").split("\n\n")[1:]
_WORDINGS = {name: lines.splitlines() for name, _, lines in (section.partition(":\n") for section in _SECTIONS)}


def word_list(name: str) -> frozenset[str]:
    """A list of words of `wordings.txt`."""
    return frozenset(" ".join(_WORDINGS[name]).split())


def phrase_list(name: str) -> list[str]:
    """A list of phrases of `wordings.txt`."""
    return "|".join(_WORDINGS[name]).split("|")


def pair_list(name: str) -> list[tuple[str, str]]:
    """A list of `wordings.txt` whose lines say one thing of another."""
    return [(one, other) for one, _, other in (line.partition(": ") for line in _WORDINGS[name])]


def phrases(name: str, start: str = r"\b", end: str = r"\b") -> re.Pattern[str]:
    """What finds one of the phrases of a list of `wordings.txt`."""
    return re.compile(rf"{start}(?:{'|'.join(_WORDINGS[name])}){end}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Term:
    """One thing that a question asks for."""

    text: str
    #: FTS5: the term itself, inflected forms included.
    match: str
    #: FTS5: also longer words that begin like it.
    loose: str
    #: Ways to write it, each a row of folded words.
    forms: tuple[tuple[str, ...], ...] = ()
    prefixes: tuple[str, ...] = ()
    #: Folded letters or signs that are looked for as they are, also inside of words.
    literal: str = ""
    #: Whether hits that have it come first: quoted phrases and identifiers.
    required: bool = False
    #: The expression of the identifier or run that this is a piece of.
    piece_of: str = ""
    #: What it counts if it was not asked for, but may mean the same.
    share: float = 0.0

    @property
    def widest(self) -> str:
        """FTS5: what finds the same rows as `loose`, for counting them."""
        return self.loose.rpartition(" OR ")[2] if self.prefixes else self.loose


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
    terms = wide_terms(chunk)
    for sign in sign_words(chunk)[:1]:  # C++ and its kind
        literal = fold_text(chunk).strip(_EDGES_OF_SIGNS)
        terms.append(Term(chunk, _quote((sign,)), _quote((sign,)), ((sign,),), literal=literal))
    if terms:
        chunk = _WIDE.sub(" ", chunk) if chunk != terms[-1].text else ""
    bare = strip_marks(chunk).strip(_EDGES)
    raw = WORD.findall(bare)
    whole = None
    if len(raw) > 1 and not terms:
        required = bool(_IDENTIFIER.search(bare))
        whole = row_term(bare, tuple(WORD.findall(fold_text(bare))), required=required)
        terms.append(whole)
    for word in raw:
        found = _camel_terms(word, is_english=is_english)
        terms += [replace(term, piece_of=term.piece_of or whole.match) for term in found] if whole else found
    return terms


def _camel_terms(word: str, *, is_english: bool) -> list[Term]:
    pieces = camel_parts(word)
    folded = fold_text(word)
    if not pieces:
        return [word_term(part, is_english=is_english) for part in WORD.findall(folded)]
    match = f"{_quote((folded,))} OR {_quote(pieces)}"
    whole = Term(word, match, match, ((folded,), tuple(pieces)))
    return [whole, *(replace(word_term(piece), piece_of=match) for piece in pieces)]


def wide_terms(text: str, *, whole: bool = False) -> list[Term]:
    """Terms of scripts without blanks, and of emoji. `whole` keeps each run as one word."""
    terms: list[Term] = []
    for run in unspaced_runs(text):
        segments = [run]
        if not whole and _HIRAGANA.search(run):  # the likely words: Japanese by its scripts
            segments = _KANJI_OR_KATAKANA.findall(run) or [run]
        elif not whole and len(run) > MAX_RUN:  # Chinese between its function words
            segments = [segment for segment in _CHINESE_FUNCTION.split(run) if segment] or [run]
        terms += [term for segment in segments for term in _run_terms(segment, whole=whole)]
    for emoji in _EMOJI_RUN.findall(text):
        tokens = emoji_tokens(emoji)
        if tokens:
            terms.append(Term(emoji, _quote(tokens), _quote(tokens), literal=fold_text(emoji)))
    return terms


def _run_terms(run: str, *, whole: bool) -> list[Term]:
    """A short run is a word with its pairs as pieces, a long one only its pairs, a letter a beginning."""
    pairs = letter_pairs(run)[:-1]
    letters = fold_text(run)
    if not pairs:
        return [Term(run, f"{_quote((letters,))}*", f"{_quote((letters,))}*", literal=letters)]
    match = _quote(pairs)
    word = Term(run, match, match, literal=letters)
    if whole or len(pairs) == 1:
        return [word]
    is_word = len(pairs) < (MAX_SPACED_RUN if _ONE_WORD.fullmatch(letters) else MAX_RUN)
    piece_of = match if is_word else ""
    rest = [Term(pair, _quote((pair,)), _quote((pair,)), literal=pair, piece_of=piece_of) for pair in pairs]
    return [word, *rest] if is_word else rest


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
_CHINESE_FUNCTION = phrases("Chinese function words", start="", end="")


#: A longer question is cut: what it asks for stands at its beginning, or it is a pasted text.
MAX_QUESTION_CHARS = 8_000
MAX_TERMS = 32
SEVERAL_SPREAD, COURSE_SPREAD, ORDER_SPREAD = 0.95, 0.85, 0.7
REGEX_HINT = 'Searched as plain words. For a regular expression use mode="regex".'
#: How many index rows may be scored to find the candidates; more frequent terms only weigh in afterwards.
ROW_BUDGET = 60_000
#: A term with so many times the rows of all rarer ones together only weighs in, if those have enough rows.
FREQUENT = 8
EMPTY_HINT = "There is no word in this to search for."


@dataclass(frozen=True, slots=True)
class Query:
    """A question, understood."""

    terms: tuple[Term, ...]
    #: What the asker should know about how it was read.
    hint: str | None = None
    #: What each further message of a session counts: less when several things are asked for, as by "which books", and
    #: least for a course of events, all of which are seldom said at once.
    spread: float = 1.0
    #: Whether it is about the one who asks, as "what did I say" is; and about what that one wants or prefers.
    is_own: bool = False
    asks_wishes: bool = False
    #: Whether the model is to do something: then what the user always wants counts. And whether it is about the past.
    is_request: bool = False
    is_past: bool = False
    is_english: bool = False

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
        """FTS5: texts with all of them; an expression that finds nothing when there are none."""
        return " AND ".join(dict.fromkeys(f"({term.loose})" for term in self.asked)) or '""'


def any_of(terms: Iterable[Term]) -> str:
    """FTS5: texts with at least one of `terms`; an expression that finds nothing when there are none."""
    return " OR ".join(dict.fromkeys(term.loose for term in terms)) or '""'


@lru_cache(maxsize=16)
def parse_query(question: str) -> Query:
    """Read a question. Any string will do; the expressions of the result are always valid.

    >>> [term.text for term in parse_query('When did the "retry queue" fail in src/worker.py?').terms]
    ['retry queue', 'fail', 'src/worker.py', 'src', 'worker', 'py']
    """
    text = _UNPRINTABLE.sub(" ", question[:MAX_QUESTION_CHARS])
    is_regex = bool(_REGEX.search(_QUOTED.sub(" ", text)))
    if is_regex:
        text = _REGEX_CLASS.sub(" ", text)
    phrases = [next(filter(None, groups), "") for groups in _QUOTED.findall(text)]
    rest = _QUOTED.sub(" ", text)
    stop = stop_words(WORD.findall(fold_text(rest)))
    found: list[Term] = []
    for phrase in phrases:
        words = tuple(WORD.findall(fold_text(phrase)))
        inside = wide_terms(phrase, whole=True)
        inside = inside or ([row_term(phrase.strip(), words, required=True)] if words else chunk_terms(phrase))
        found += [replace(term, required=True) for term in inside]
    for chunk in _CHUNK.findall(rest):
        found += chunk_terms(chunk, is_english=stop is ENGLISH)
    kept = [term for term in found if not _is_stop_term(term, stop)]
    if ASKS_ORDER.search(rest) or _ASKS_ABOUT_TALK.search(rest):
        kept = [term for term in kept if not _is_stop_term(term, _FRAME)] or kept
    terms: dict[tuple[str, ...], Term] = {}  # each once, in any form; one asked for itself wins over a piece
    for term in kept or found:
        key = (term.literal, *(" ".join(map(stem, form)) for form in term.forms))
        if key not in terms or (terms[key].piece_of and not term.piece_of):
            terms[key] = term
    hint = REGEX_HINT if is_regex else None if terms else EMPTY_HINT
    is_course = asks_course(text)
    spread = COURSE_SPREAD if is_course else SEVERAL_SPREAD if _ASKS_SEVERAL.search(text) else 1.0
    spread = ORDER_SPREAD if ASKS_ORDER.search(text) else spread
    is_own = (is_course or _IS_OWN.search(text) is not None) and not _ASKS_THE_OTHER.search(text)
    wishes = is_own and _ASKS_WISHES.search(text) is not None
    is_request = not is_course and _IS_REQUEST.search(text) is not None
    is_past, asked = _IS_PAST.search(text) is not None, tuple(terms.values())[:MAX_TERMS]
    return Query(asked, hint, spread, is_own, wishes, is_request, is_past, stop is ENGLISH)


def asks_course(question: str) -> bool:
    """Whether a question is about a course of events, or all that was said on something."""
    return bool(ASKS_ORDER.search(question) or _ASKS_DEVELOPMENT.search(question))


def candidate_expressions(
    query: Query, counts: Sequence[int], pool: int, scored: int | None = None
) -> list[tuple[str, str | None, int]]:
    """The FTS5 expressions whose best rows are the candidates, given how many rows have each term: what is weighed,
    what a row must have, and how many rows are taken.

    First any of the terms, rarest first as far as the budget goes. A row must have one of the rarer terms where those
    fill the `pool` and the others are far more frequent, or where more rows than may be `scored` have one of them all;
    a term that alone has more is not looked for alone. When that finds more rows than the pool holds, also all of the
    terms at once, so that a text with everything is never crowded out.
    """
    living = sorted((count, at) for at, count in enumerate(counts) if count)
    if not living:
        return [(query.match_any, None, pool)]
    chosen: list[int] = []
    rare = rows = 0
    most = scored or ROW_BUDGET
    for count, at in living:
        if (chosen and rows + count > min(ROW_BUDGET, 3 * most)) or (not chosen and scored and count > scored):
            break
        is_far_more = rows > 2 * pool and count > FREQUENT * rows
        if not rare and chosen and (is_far_more or rows + count > most):
            rare = len(chosen)
        rows += count
        chosen.append(at)
    unseen = [at for at, count in enumerate(counts) if not count]
    needed = any_of(query.terms[at] for at in sorted(chosen[:rare] + unseen)) if rare else None
    matches = [(any_of(query.terms[at] for at in sorted(chosen + unseen)), needed, pool)] if chosen else []
    asked = [term for term, count in zip(query.terms, counts, strict=True) if count and not term.piece_of]
    if len(asked) > 1 and sum(counts) > pool:
        matches.append((" AND ".join(f"({term.match})" for term in asked), None, pool // 2))
    return matches


_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_QUOTED = re.compile(r'"([^"]*)"|“([^”]*)”|„([^“”]*)[“”]|«([^»]*)»|「([^」]*)」|『([^』]*)』|`([^`]*)`')
#: Words held together by the signs of identifiers, paths, addresses and compounds.
_CHUNK = re.compile(r"[^\s'’‘,;!?()\[\]{}<>|\"“”„«»「」『』`…–—*~^$%。，、！？；：（）]+")
_REGEX = re.compile(
    r"\.[*+?]|\[\^?[\w\\]-?[^\]\s]*\][*+?{]|(?:^|\s)\^\w|\w\$(?=\s|$)|\w\|\w|\(\?[:=!<]|\w\{\d+,?\d*\}"
    r"|(?<![:\w\\])\\[bBdDsSwW](?!\w*\\\w{2})|\w\\[bBdDsSwW](?=[*+?{\s]|$)"
)
_ASKS_SEVERAL = phrases("asks for several")
#: Questions about nothing but the order, and about how something went on: their answer is a row of events.
ASKS_ORDER, _ASKS_DEVELOPMENT = phrases("asks for an order", end=""), phrases("asks for a development", end="")
#: Questions about what was said, not about its subject alone; and the words of such questions that name no subject.
_ASKS_ABOUT_TALK, _FRAME = phrases("asks about the talk"), word_list("words about the talk")
_IS_OWN, _IS_REQUEST = phrases("is about the asker"), phrases("is a request", start="")
#: Questions about what was, or how things stand.
_IS_PAST = phrases("is about the past")
#: Questions about what the other side said, and about what the asker wants.
_ASKS_THE_OTHER = phrases("asks about the other", start=r"(?s)^(?!.*\b(?:did|have|had) (?:i|we)\b).*\b")
_ASKS_WISHES = phrases("asks for wishes")
_REGEX_CLASS = re.compile(r"\\[bBdDsSwW]")


def _is_stop_term(term: Term, stop: frozenset[str]) -> bool:
    """Whether a term says nothing: a stop word, or one Latin letter."""
    if term.required or term.literal or len(term.forms) != 1 or len(term.forms[0]) != 1:
        return False
    word = term.forms[0][0]
    return word in stop or (len(word) == 1 and word.isascii() and not word.isdigit())


#: What a longer word that begins like the term counts.
PREFIX_STRENGTH = 0.5
#: Signs that may stand between two words of a row.
_MAX_GAP = 8


class TermMatch(NamedTuple):
    """One occurrence: its place in the text, the index of the term, and how well it fits (1 or less)."""

    start: int
    end: int
    term: int
    strength: float


class TermFinder:
    """Finds the terms of one question in many texts, in time linear in each text.

    Words are sought by the letters that all their inflected forms begin with, then compared by stem.
    """

    def __init__(self, terms: Sequence[Term]) -> None:
        forms = [(index, form, term.prefixes) for index, term in enumerate(terms) for form in term.forms]
        self._words = [
            (index, _root(form[0], prefixes), form[0], stem(form[0]), prefixes)
            for index, form, prefixes in forms
            if len(form) == 1
        ]
        #: Letters as they are, and words in a row by their stems.
        self._rows: list[tuple[int, str, list[str]]] = [
            *((index, term.literal, []) for index, term in enumerate(terms) if term.literal),
            *((index, _root(form[0], ()), [stem(word) for word in form]) for index, form, _ in forms if len(form) > 1),
        ]

    def find(self, text: str, limit: int | None = None) -> list[TermMatch]:
        """The places in `text` where the terms stand, in order; of each form of a term the first `most`."""
        folded = fold_text(text)
        found: list[TermMatch] = []
        for word in self._words:
            if word[1] in folded:
                found += _words(text, folded, *word, limit)
        for index, root, stems in self._rows:
            if root in folded:
                found += [TermMatch(*place, index, 1.0) for place in islice(_rows(folded, root, stems), limit)]
        found.sort()
        offsets = fold_offsets(text, folded)
        if offsets is None:
            return found
        return [TermMatch(offsets[start], offsets[end], term, strength) for start, end, term, strength in found]


def _words(
    text: str, folded: str, index: int, root: str, word: str, asked: str, prefixes: tuple[str, ...], limit: int | None
) -> list[TermMatch]:
    found: list[TermMatch] = []
    at = folded.find(root)
    while at >= 0 and len(found) != limit:
        end = at + len(root)
        if at == 0 or not folded[at - 1].isalnum() or _is_hump(text, folded, at):
            match = WORD.match(folded, at)
            end = match.end() if match else end
            seen = folded[at:end]
            if seen == word or stem(seen) == asked:
                found.append(TermMatch(at, end, index, 1.0))
            elif seen.startswith(word) and _is_hump(text, folded, at + len(word)):
                end = at + len(word)
                found.append(TermMatch(at, end, index, 1.0))
            elif prefixes and seen.startswith(prefixes):
                found.append(TermMatch(at, end, index, PREFIX_STRENGTH))
        at = folded.find(root, end)
    return found


def _rows(folded: str, root: str, stems: list[str]) -> Iterator[tuple[int, int]]:
    at = folded.find(root)
    while at >= 0:
        end = at + len(root)
        if at == 0 or not folded[at - 1].isalnum() or not (stems or root[0].isascii()):
            row_end = _row_end(folded, at, stems) if stems else end
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
    return len(text) == len(folded) and 0 < at < len(text) and text[at].isupper() and text[at - 1].islower()


_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)
_Span: TypeAlias = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class MentionedTime:
    """Words about a time and what they mean: from `since` up to, without, `before`."""

    start: int
    end: int
    since: datetime
    before: datetime


def narrowest_time(question: str, now: datetime) -> MentionedTime | None:
    """The narrowest time that a question speaks of, None when it speaks of none."""
    return min(find_times(question, now), key=lambda spoken: spoken.before - spoken.since, default=None)


def time_range(words: str, now: datetime) -> tuple[datetime, datetime] | None:
    """The stretch of time that words mean, None when they speak of none: what several times have in common, as in
    "from Monday until yesterday", else all from the first to the last, as in "between 3 March and 5 March".

    >>> friday = datetime(2026, 1, 9, 12, tzinfo=UTC)
    >>> [str(end.date()) for end in time_range("from Monday until yesterday", friday) or ()]
    ['2026-01-05', '2026-01-08']
    >>> [str(end.date()) for end in time_range("between 2 January and 2026-01-04", friday) or ()]
    ['2026-01-02', '2026-01-05']
    """
    found = find_times(words, now)
    if not found:
        return None
    since, before = max(one.since for one in found), min(one.before for one in found)
    if since < before:
        return since, before
    return min(one.since for one in found), max(one.before for one in found)


def find_times(text: str, now: datetime) -> list[MentionedTime]:
    """All times that `text` speaks of, in order and without overlaps. Any text will do."""
    folded = fold_text(text)
    offsets = fold_offsets(text, folded) or range(len(text) + 1)
    is_french = stop_words(WORD.findall(folded)) is FRENCH
    found: list[MentionedTime] = []
    for pattern, meaning in _PATTERNS:
        for match in pattern.finditer(folded):
            if match.group() == "hier" and not is_french:
                continue
            if any(match.start() < other.end and other.start < match.end() for other in found):
                continue
            with suppress(ValueError, OverflowError):  # a day that does not exist, or a time beyond the calendar
                span = meaning(now, **match.groupdict())
                if span is not None:
                    found.append(MentionedTime(*match.span(), *_apply_preposition(folded, match.start(), span, now)))
    in_text = (replace(one, start=offsets[one.start], end=offsets[one.end]) for one in found)
    return sorted(in_text, key=lambda spoken: spoken.start)


def _apply_preposition(folded: str, start: int, span: _Span, now: datetime) -> _Span:
    word = _PREPOSITION.search(folded, max(0, start - 24), start)
    if word is None:
        return span
    end_of_today = _midnight(now) + _DAY
    if word.group(1) in _SINCE_WORDS:
        return span[0], max(end_of_today, span[1])
    if word.group(1) in _AFTER_WORDS:
        return span[1], max(end_of_today, span[1] + _DAY)
    return min(_BEGINNING.astimezone(now.tzinfo), span[0]), span[0]


def _table(name: str) -> dict[str, int]:
    """Each word of a list of `wordings.txt` by the number of its row, from 1."""
    return {word: number for number, row in enumerate(_WORDINGS[name], 1) for word in row.split()}


def _choice(words: Iterable[str]) -> str:
    return "(?:" + "|".join(sorted(words, key=len, reverse=True)) + ")"


def _behind(words: Iterable[str]) -> str:
    return "(?:" + "|".join(rf"(?<=\b{word} )" for word in words) + ")"


_MONTHS, _WEEKDAYS, _NUMBERS = _table("months"), _table("weekdays"), _table("numbers")
#: Days, weeks, months, years, hours; and how many days most of them have, and what "so many ago" may be off by.
_UNITS = _table("units of time")
_DAY_COUNTS = {1: (1, 0), 2: (7, 3), 3: (30, 15), 4: (365, 183)}
_HOURS = 5
_DAY_WORDS = {word: back for back, row in enumerate(_WORDINGS["days back"]) for word in row.split("|")}
_SINCE_WORDS, _AFTER_WORDS = phrase_list("since"), phrase_list("after")
_PREPOSITIONS = (*_SINCE_WORDS, *_AFTER_WORDS, *phrase_list("before"))
_PREPOSITION = re.compile(rf"\b({_choice(_PREPOSITIONS)})(?: the| le| el| dem)? $")


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _days(first: datetime, count: int = 1) -> _Span:
    return first, first + count * _DAY


def _month(first: datetime) -> _Span:
    return first, first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)


def _year(first: datetime) -> _Span:
    return first, first.replace(year=first.year + 1)


def _calendar(now: datetime, year: str | None = None, month: str | None = None, day: str | None = None) -> _Span:
    """A day, a month or a year; without a year the latest such that is not ahead."""
    if month is None:
        return _year(_midnight(now).replace(year=int(year or now.year), month=1, day=1))
    date = _MONTHS.get(month) or int(month), int(day or 1)
    chosen = int(year) if year else now.year - (date > (now.month, now.day))
    first = _midnight(now).replace(year=chosen, month=date[0], day=date[1])
    return _days(first) if day else _month(first)


def _number(text: str) -> int:
    return int(text) if text.isdigit() else _NUMBERS[text]


def _ago(now: datetime, number: str, unit: str) -> _Span:
    """A unit ago, give or take half of one."""
    count, kind = _number(number), _UNITS[unit]
    if kind == _HOURS:
        hour = now - timedelta(hours=count)
        return hour - timedelta(hours=1), hour + timedelta(hours=1)
    length, slack = _DAY_COUNTS[kind]
    middle = _midnight(now) - count * length * _DAY
    return middle - slack * _DAY, min(middle + (slack + 1) * _DAY, _midnight(now) + _DAY)


def _last_few(now: datetime, number: str, unit: str) -> _Span:
    count, kind = _number(number), _UNITS[unit]
    if kind == _HOURS:
        return now - timedelta(hours=count), now
    return _midnight(now) - count * _DAY_COUNTS[kind][0] * _DAY, _midnight(now) + _DAY


def _whole_unit(now: datetime, unit: str, this: str | None = None) -> _Span | None:
    """The calendar's week, month or year that holds `now`, or the one before."""
    today, kind, back = _midnight(now), _UNITS[unit], 0 if this else 1
    if kind == 1:
        return _days(today - back * _DAY)
    if kind == 2:
        return _days(today - (today.weekday() + 7 * back) * _DAY, 7)
    if kind == 3:
        return _month((today.replace(day=1) - back * _DAY).replace(day=1))
    return _year(today.replace(year=today.year - back, month=1, day=1)) if kind == 4 else None


def _weekend(now: datetime, which: str) -> _Span:
    """The latest weekend that has begun; "last" is one that is over."""
    today = _midnight(now)
    saturday = today - (today.weekday() - 5) % 7 * _DAY
    over = which != "this" and saturday + 2 * _DAY > today
    return _days(saturday - (7 * _DAY if over else timedelta()), 2)


def _weekday(now: datetime, weekday: str, number: str = "1") -> _Span:
    """The latest such day before today, or so many weeks ago."""
    today = _midnight(now)
    latest = (today.weekday() - _WEEKDAYS[weekday]) % 7 + 1
    return _days(today - (latest + 7 * (_number(number) - 1)) * _DAY)


def _day_word(now: datetime, word: str) -> _Span:
    return _days(_midnight(now) - _DAY_WORDS[word] * _DAY)


_MEANINGS: dict[str, Callable[..., _Span | None]] = {
    "calendar": _calendar,
    "ago": _ago,
    "last few": _last_few,
    "whole unit": _whole_unit,
    "weekend": _weekend,
    "weekday": _weekday,
    "day word": _day_word,
}
_TIME_PARTS = {
    "NUMBER": rf"(?P<number>\d{{1,3}}|{_choice(_NUMBERS)})(?: of)?",
    "UNIT": f"(?P<unit>{_choice(_UNITS)})",
    "WEEKDAY": f"(?P<weekday>{_choice(_WEEKDAYS)})",
    "MONTH": f"(?P<month>{_choice(_MONTHS)})",
    "CLEAR_MONTH": f"(?P<month>{_choice(_MONTHS.keys() - word_list('months that are other words'))})",
    "DAY_WORD": f"(?P<word>{_choice(_DAY_WORDS)})",
    "LAST": _choice(phrase_list("last")),
    "LAST_BEHIND": _choice(phrase_list("last, behind")),
    "BEFORE_MONTH": _behind((*word_list("words before a month"), *_PREPOSITIONS)),
    "BEFORE_YEAR": _behind((*word_list("words before a year"), *_PREPOSITIONS)),
}
#: What finds a time, and what a match means.
_PATTERNS = tuple(
    (re.compile(re.sub("%([A-Z_]+)%", lambda part: _TIME_PARTS[part[1]], rule)), _MEANINGS[name])
    for name, rule in pair_list("times")
)
