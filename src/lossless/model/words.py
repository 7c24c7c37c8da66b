"""Words as search sees them: folded (lower case, no accents) and stemmed as SQLite's `porter` does."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

#: A word: letters and digits of any script. An underscore parts words, as a blank does.
WORD = re.compile(r"[^\W_]+")

#: Letters whose accents do not tell words apart for a searcher: Latin, Greek, ё, full-width forms.
_ACCENTED = re.compile(
    "[\u00aa\u00ba\u00c0-\u024f\u0386-\u03ce\u0401\u0451\u1e00-\u1fff\u2126\u212a\u212b\uff10-\uff5a]"
)


@lru_cache(maxsize=1)
def _marks() -> re.Pattern[str]:
    """All combining marks: accents of their own, vowel signs of Hebrew, Arabic, India, Thai."""
    spans = (range(0x300, 0x370), range(0x483, 0x1E00), range(0x20D0, 0x2100), range(0x3099, 0x309B))
    marks = [chr(code) for span in spans for code in span if unicodedata.category(chr(code))[0] == "M"]
    return re.compile(f"[{''.join(marks)}\ufe0e\ufe0f\ufe20-\ufe2f]+")


def fold(text: str) -> str:
    """`text` in lower case without accents, letter for letter.

    Only combining marks of their own disappear: a text that has none keeps all its positions.

    >>> fold("Ünïcode CAFÉ Ёлка Ελλάδα"), fold("e\u0301t"), fold("مُحَمَّد")
    ('unicode cafe елка ελλαδα', 'et', 'محمد')
    """
    lower = text.lower()
    if lower.isascii():
        return lower
    if len(lower) != len(text):
        lower = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    if _ACCENTED.search(lower):
        lower = _ACCENTED.sub(_plain_match, lower)
    return unmark(lower)


def unmark(text: str) -> str:
    """`text` without combining marks of their own."""
    return text if text.isascii() else _marks().sub("", text)


def fold_offsets(text: str, folded: str) -> list[int] | None:
    """For each position of `folded` its position in `text` (and for the end); None when they are the same."""
    if len(text) == len(folded):
        return None
    marks = _marks()
    return [at for at, char in enumerate(text) if not marks.match(char)] + [len(text)]


def _plain_match(match: re.Match[str]) -> str:
    return _plain(match.group())


@lru_cache(maxsize=2048)
def _plain(char: str) -> str:
    base = "".join(part for part in unicodedata.normalize("NFKD", char) if not unicodedata.combining(part))
    return base.lower() if len(base.lower()) == 1 else char


def words(text: str) -> list[str]:
    """The words of `text`, folded.

    >>> words("Don't touch src/naïve_path.py!")
    ['don', 't', 'touch', 'src', 'naive', 'path', 'py']
    """
    return WORD.findall(fold(text))


# --- Porter's stemmer ---------------------------------------------------------------------------
# M. F. Porter, "An algorithm for suffix stripping", 1980, with the readings that SQLite's tokenizer has.

_STEP2 = (
    *(("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize")),
    *(("logi", "log"), ("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous")),
    *(("ization", "ize"), ("ation", "ate"), ("ator", "ate"), ("alism", "al"), ("iveness", "ive")),
    *(("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble")),
)
_STEP3 = (
    *(("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", "")),
    ("ness", ""),
)
_STEP4 = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism"),
    *("ate", "iti", "ous", "ive", "ize"),
)
_STEMMABLE = re.compile("[a-z]{3,64}")
#: Case, number and gender endings of Russian, longest first; a stem keeps three letters.
_RUSSIAN_END = re.compile(
    "(?<=[а-я]{3})(?:иями|ями|ами|ого|его|ому|ему|ыми|ими|иях|ях|ах|ям|ам|ов|ев|ей|ой|ый|ий|ая|яя|ое|ее|ые|ие|ую"
    "|юю|ия|ии|ию|ью|ом|ем|ым|им|ых|их|а|е|и|о|у|ы|ю|я|й|ь)$"
)


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """The stem of a folded English word, or a Russian one without its ending; any other word as it is.

    >>> [stem(word) for word in ("running", "happiness", "relational", "deployed", "é", "x86")]
    ['run', 'happi', 'relat', 'deploi', 'é', 'x86']
    """
    if not _STEMMABLE.fullmatch(word):
        return word if word.isascii() else _RUSSIAN_END.sub("", word)
    word = _step1(word)
    for suffixes in (_STEP2, _STEP3):
        for suffix, instead in suffixes:
            if word.endswith(suffix):
                if _measure(word[: -len(suffix)]) > 0:
                    word = word[: -len(suffix)] + instead
                break
    return _step5(_step4(word))


def _consonants(word: str) -> str:
    """`c` for each consonant, `v` for each vowel; y is a vowel after a consonant."""
    kinds = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and kinds.endswith("c"))
        kinds += "v" if vowel else "c"
    return kinds


def _measure(word: str) -> int:
    """How often a vowel is followed by a consonant."""
    return _consonants(word).count("vc")


def _ends_cvc(word: str) -> bool:
    return _consonants(word).endswith("cvc") and word[-1] not in "wxy"


def _ends_double(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _consonants(word)[-1] == "c"


def _step1(word: str) -> str:
    if word.endswith("s"):
        if word.endswith(("sses", "ies")):
            word = word[:-2]
        elif not word.endswith("ss"):
            word = word[:-1]
    if word.endswith("eed"):
        word = word[:-1] if _measure(word[:-3]) > 0 else word
    else:
        for suffix in ("ed", "ing"):
            if word.endswith(suffix) and "v" in _consonants(word[: -len(suffix)]):
                word = _step1_repair(word[: -len(suffix)])
                break
    if word.endswith("y") and "v" in _consonants(word[:-1]):
        word = word[:-1] + "i"
    return word


def _step1_repair(word: str) -> str:
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if _ends_double(word) and word[-1] not in "lsz":
        return word[:-1]
    if _measure(word) == 1 and _ends_cvc(word):
        return word + "e"
    return word


def _step4(word: str) -> str:
    for suffix in sorted(_STEP4, key=len, reverse=True):
        if word.endswith(suffix):
            rest = word[: -len(suffix)]
            if _measure(rest) > 1 and (suffix != "ion" or rest.endswith(("s", "t"))):
                return rest
            return word
    return word


def _step5(word: str) -> str:
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _ends_cvc(word[:-1])):
            word = word[:-1]
    if word.endswith("ll") and _measure(word) > 1:
        word = word[:-1]
    return word
