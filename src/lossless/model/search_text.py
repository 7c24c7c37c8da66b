"""Text for search: folded words, stop words in eight languages, passages, and extra index tokens; and how a package
reads its patterns.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from importlib.resources import files
from operator import add
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lossless.model.messages import Json

#: A word: letters and digits of any script. An underscore separates words, like a space.
WORD = re.compile(r"[^\W_]+")

#: Letters whose accents are ignored in search: Latin, Greek, ё, full-width forms.
_ACCENTED = re.compile(
    "[\u00aa\u00ba\u00c0-\u024f\u0386-\u03ce\u0401\u0451\u1e00-\u1fff\u2126\u212a\u212b\uff10-\uff5a]"
)


@lru_cache(maxsize=1)
def _marks() -> re.Pattern[str]:
    """All combining marks: separate accents, and vowel signs of Hebrew, Arabic, Indic scripts and Thai."""
    spans = (range(0x300, 0x370), range(0x483, 0x1E00), range(0x20D0, 0x2100), range(0x3099, 0x309B))
    marks = [chr(code) for span in spans for code in span if unicodedata.category(chr(code))[0] == "M"]
    return re.compile(f"[{''.join(marks)}\ufe0e\ufe0f\ufe20-\ufe2f]+")


def fold_text(text: str) -> str:
    """`text` in lower case without accents, letter for letter.

    Only combining marks of their own disappear: a text that has none keeps all its positions.

    >>> fold_text("Ünïcode CAFÉ Ёлка Ελλάδα"), fold_text("e\u0301t"), fold_text("مُحَمَّد")
    ('unicode cafe елка ελλαδα', 'et', 'محمد')
    """
    lower = text.lower()
    if lower.isascii():
        return lower
    if len(lower) != len(text):
        lower = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    if _ACCENTED.search(lower):
        lower = _ACCENTED.sub(lambda match: _plain(match[0]), lower)
    return strip_marks(lower)


def strip_marks(text: str) -> str:
    return text if text.isascii() else _marks().sub("", text)


def fold_offsets(text: str, folded: str) -> list[int] | None:
    """For each position of `folded` (and its end) the position in `text`; None when they are the same."""
    if len(text) == len(folded):
        return None
    marks = _marks()
    return [at for at, char in enumerate(text) if not marks.match(char)] + [len(text)]


@lru_cache(maxsize=2048)
def _plain(char: str) -> str:
    base = "".join(part for part in unicodedata.normalize("NFKD", char) if not unicodedata.combining(part))
    return base.lower() if len(base.lower()) == 1 else char


_LISTS = files(__package__).joinpath("word_lists.txt").read_text(encoding="utf-8").split("\n\n")
#: Stop words by the code of their language, those that are meaningful English words (`ambiguous`), and lists for terms.
WORD_LISTS = {name: frozenset(words.split()) for name, _, words in (one.partition(":") for one in _LISTS)}
STOP_WORDS = {code: WORD_LISTS[code] for code in ("en", "de", "fr", "es", "pt", "it", "nl", "ru")}
ENGLISH, FRENCH = STOP_WORDS["en"], STOP_WORDS["fr"]


@cache
def load_patterns(package: str) -> dict[str, Any]:
    """The tables of a package's `patterns.toml`: a text is a pattern, in which blanks and remarks do not count.

    Lists and numbers are as they stand there.
    """
    import tomllib

    tables = tomllib.loads(files(package).joinpath("patterns.toml").read_text("utf-8"))
    return {name: _read_patterns(table) for name, table in tables.items()}


def _read_patterns(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _read_patterns(item) for name, item in value.items()}
    return re.compile(value, re.VERBOSE) if isinstance(value, str) else value


def stop_words(words: Iterable[str]) -> frozenset[str]:
    """The stop words of the language of the folded `words`; English by default.

    >>> "die" in stop_words(["die", "hard", "hat"]), "die" in stop_words("wann war die migration".split())
    (False, True)
    """
    spoken = set(words)
    best = max(STOP_WORDS, key=lambda language: len(spoken & STOP_WORDS[language]))
    found = spoken & STOP_WORDS[best]
    telling = found - WORD_LISTS["ambiguous"] - ENGLISH  # ambiguous words do not identify the language
    enough = len(found) >= 2 or (not spoken & ENGLISH and any(len(word) >= 4 for word in telling))
    return STOP_WORDS[best] if telling and enough else ENGLISH


#: Rows indexed under another version are reindexed.
INDEX_VERSION = 1
#: A message has at most this many passages; longer ones get longer passages.
MAX_PASSAGES = 4096
#: About 160 words, in characters.
PASSAGE_CHARS = 1000
#: The same amount of Chinese, Japanese or Korean.
PASSAGE_CHARS_DENSE = 400

_REFERENCES = ("[LCM File:", "[LCM Tool Output:")
_SUMMARY_HEAD = "Exploration Summary:"
_OPENING_HINTS = ("Use lcm_describe", "Call lcm_describe")
#: A longer string without spaces in a tool's input is treated as data, not words.
_BLOB_CHARS = 1000


def index_text_of(content: str, tool_inputs: Iterable[Json] = ()) -> str:
    """The searchable text of a message: its content, then the strings in its tool calls' inputs.

    For a reference to an external file, its header line and exploration summary. '' for a blank message.
    """
    if content.startswith(_REFERENCES):
        content, _, rest = content.partition("\n")
        lines = rest.split("\n")
        start = next((i for i, line in enumerate(lines) if line.strip().startswith(_SUMMARY_HEAD)), None)
        if start is not None:
            lines[start] = lines[start].strip().removeprefix(_SUMMARY_HEAD)
            lines = [line for line in lines[start:] if not line.strip().startswith(_OPENING_HINTS)]
            content = "\n".join([content, *lines]).strip()
    pieces = [content] if content and not content.isspace() else []
    for tool_input in tool_inputs:
        pieces.extend(filter(_is_words, texts_in(_parsed(tool_input))))
    return "\n".join(pieces)


def _is_words(text: str) -> bool:
    is_blob = len(text) > _BLOB_CHARS and text.isascii() and " " not in text and "\n" not in text
    return bool(text) and not text.isspace() and not is_blob


def _parsed(tool_input: Json) -> Json:
    """OpenAI sends arguments as JSON text; text that does not parse is used unchanged."""
    if not isinstance(tool_input, str) or not tool_input.lstrip().startswith(("{", "[")):
        return tool_input
    try:
        parsed: Json = json.loads(tool_input)
    except (ValueError, RecursionError):
        return tool_input
    return parsed


def texts_in(value: Json) -> Iterator[str]:
    """The texts in a value of JSON, in order."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            pending.extend(reversed(item.values()))
        elif isinstance(item, (list, tuple)):
            pending.extend(reversed(item))


#: Where a text is split, best first: after a line, after a sentence, at a space.
_BORDERS = (("\n",), (". ", "! ", "? ", "… ", "。", "！", "？", "؟ ", "۔ ", "। "), (" ", "\t", "\u3000"))


def passages(text: str) -> list[tuple[int, int]]:
    """Split a text into spans of about 160 words at the ends of lines and sentences.

    Spans cover the text without gaps; none is blank unless the whole text is. A text not well over that size has one
    span, an empty text none.
    """
    if len(text) <= PASSAGE_CHARS_DENSE:
        return [(0, len(text))] if text else []
    is_wide = not text.isascii() and len(text.encode("utf-8", "replace")) > 2 * len(text)
    is_dense = is_wide and 2 * sum(map(len, _UNSPACED.findall(text))) > len(text)
    size = PASSAGE_CHARS_DENSE if is_dense else PASSAGE_CHARS
    if len(text) <= size + size // 2:
        return [(0, len(text))]
    size = max(size, -(-2 * len(text) // MAX_PASSAGES))
    spans: list[tuple[int, int]] = []
    start, cursor, end = 0, len(text) - len(text.lstrip()), 0
    while end < len(text):
        end = len(text)
        if end - cursor > size + size // 2:  # at the last good place
            low, end = cursor + size // 2, cursor + size
            for marks in _BORDERS:
                if ends := [at + len(mark) for mark in marks if (at := text.rfind(mark, low, end)) >= 0]:
                    end = max(ends)
                    break
        if spans and text[start:end].isspace():
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
        start = cursor = end
    return spans


#: Scripts without spaces between words, or (Korean) with particles attached to them.
_UNSPACED_LETTERS = (
    "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46\u0e81-\u0eb0\u0eb2\u0eb3\u0ebd-\u0ec6\u1000-\u102a\u103f\u1780-\u17b3"
    "\u1100-\u11ff\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufad9\U00020000-\U000323af"
)
_UNSPACED_MARKS = (
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ecd\u102b-\u103e\u17b4-\u17d3\u3099\u309a"
)
_UNSPACED = re.compile(f"[{_UNSPACED_LETTERS}][{_UNSPACED_LETTERS}{_UNSPACED_MARKS}]*")
_UNSPACED_MARK = re.compile(f"[{_UNSPACED_MARKS}]+")
#: Symbols that people search for; not the lines, boxes, arrows and spinners of terminal output.
_EMOJI = re.compile("[\u231a-\u23ff\u25b6\u25c0\u25fb-\u27bf\u2934\u2935\u2b05-\u2b55\U0001f000-\U0001faff]")
#: Words of scripts whose vowel signs the tokenizer treats as separators: Hebrew, Arabic, Indic scripts.
_SIGNED = re.compile("[\u0591-\u05ea\u0610-\u06d3\u06d6-\u06ed\u06fa-\u06ff\u0900-\u0dff]+")
#: Full-width, half-width and ligature forms of letters and digits.
_VARIANT = re.compile("[\ufb00-\ufb06\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uffdc]")
#: Letters with an accent that the tokenizer keeps and users leave out.
_INDEX_TEXT_ACCENTED = re.compile("[\u0386-\u03ce\u0401\u0451\u1f00-\u1fff]")

_SHAPES: dict[str, range | tuple[int, ...]] = {
    "a": range(0x61, 0x7B), "A": range(0x41, 0x5B), "0": range(0x30, 0x3A), "g": (0xCE, 0xCF), "s": range(0xD6, 0xDC),
    "i": (0xE0,), "u": (0xE1, *range(0xE3, 0xEE)), "v": (0xEF,), "x": (0xF0,),
}  # fmt: skip
_HUMP = re.compile(r"[A-Z]+s?(?![a-z])|[A-Z]?[a-z0-9]+")
_PLUSPLUS = re.compile(r"\+\+(?<=\b[A-Za-z]\+\+)(?!\w)")
_SHARP = re.compile(r"#(?<=\b[A-Za-z]#)(?!\w)")
#: A longer identifier, or one with shorter humps on average, is treated as a digest or base64.
_IDENTIFIER_CHARS = 64
_HUMP_CHARS = 2.5


#: For each byte of UTF-8 a letter for the character class it begins: one pass shows which rules apply. Small letters,
#: capitals, digits, Greek, Hebrew and Arabic, Indic scripts and Thai, East Asia, variants, beyond the Basic
#: Multilingual Plane.
_SHAPE = bytes(
    next((ord(shape) for shape, members in _SHAPES.items() if byte in members), ord(".")) for byte in range(256)
)
#: In shapes: a capital that may begin a hump, as in `aB` or `a64B`, or a run of them that ends in one, as in `ABCd`.
_RISE = re.compile(rb"A(?:(?<=[a0]A)|(?=AAa))")
_EMOJI_BYTES = re.compile(rb"\xe2[\x8c-\x8f\x96-\x9e\xa4\xac\xad]")


def extra_tokens(text: str) -> str:
    """The tokens that the tokenizer would miss, joined by blanks; '' for ordinary prose.

    >>> extra_tokens("Call getUserName() in C++ 😀")
    'get user name cplusplus u1f600'
    >>> extra_tokens("数据库"), extra_tokens("It's an ordinary sentence, isn't it?")
    ('数据 据库 库', '')
    """
    raw = text.encode("utf-8", "replace")
    shape = raw.translate(_SHAPE)
    tokens: list[str] = []
    if _RISE.search(shape):
        tokens += _camel_tokens(raw, shape)
    if "+" in text or "#" in text:
        tokens += sign_words(text)
    if len(raw) != len(text):
        tokens += _wide_tokens(text, raw, shape)
    return " ".join(tokens)


def _camel_tokens(raw: bytes, shape: bytes) -> list[str]:
    words: dict[bytes, None] = {}
    end = 0
    for rise in [found.start() for found in _RISE.finditer(shape)]:
        if rise >= end:
            start = max(shape.rfind(b".", end, rise) + 1, end)
            end = shape.find(b".", rise)
            end = len(shape) if end < 0 else end
            words[raw[start:end]] = None
    return [piece for word in words for piece in camel_parts(word.decode("ascii", "ignore"))]


def _wide_tokens(text: str, raw: bytes, shape: bytes) -> list[str]:
    tokens: list[str] = []
    if b"v" in shape and _VARIANT.search(text):
        plain = (unicodedata.normalize("NFKC", word) for word in WORD.findall(text) if _VARIANT.search(word))
        tokens += [word for word in plain if not _UNSPACED.search(word)]
        text = unicodedata.normalize("NFKC", text)
    if b"g" in shape or "ё" in text or "Ё" in text:
        accented = [(word.lower(), fold_text(word)) for word in WORD.findall(text) if _INDEX_TEXT_ACCENTED.search(word)]
        tokens += [folded for word, folded in accented if folded != word]
    if b"u" in shape or b"i" in shape or b"x" in shape or b"v" in shape:
        for run in _UNSPACED.findall(text):
            tokens += letter_pairs(run)
    if b"s" in shape or b"i" in shape:
        words = _SIGNED.findall(text)
        bare = [(word, "".join(char for char in word if unicodedata.category(char)[0] != "M")) for word in words]
        tokens += [kept for word, kept in bare if kept and kept != word]
    if b"x" in shape or _EMOJI_BYTES.search(raw):
        tokens += emoji_tokens(text)
    return tokens


def camel_parts(word: str) -> list[str]:
    """The pieces of a camelCase identifier in lower case; empty when it has one piece or looks like a digest.

    >>> camel_parts("parseHTTPResponse2"), camel_parts("deploy"), camel_parts("LLMs")
    (['parse', 'http', 'response2'], [], [])
    """
    pieces = _HUMP.findall(word) if word.isascii() else []
    if len(pieces) < 2 or len(word) > _IDENTIFIER_CHARS or len(word) < _HUMP_CHARS * len(pieces):
        return []
    return [piece.lower() for piece in pieces]


def sign_words(text: str) -> list[str]:
    """Names that end in signs, as words.

    >>> sign_words("C++ or F#, not a+b")
    ['cplusplus', 'fsharp']
    """
    found = [(text[sign.start() - 1].lower(), "plusplus") for sign in _PLUSPLUS.finditer(text)]
    found += [(text[sign.start() - 1].lower(), "sharp") for sign in _SHARP.finditer(text)]
    return [letter + name for letter, name in dict.fromkeys(found)]


def letter_pairs(run: str) -> list[str]:
    """Pairs of adjacent letters in a script without spaces, then the last letter alone.

    One letter is so found as the beginning of a pair, and a word as the row of its pairs.

    >>> letter_pairs("数据库"), letter_pairs("库")
    (['数据', '据库', '库'], ['库'])
    """
    letters = _UNSPACED_MARK.sub("", run)
    return [*map(add, letters, letters[1:]), *letters[-1:]]


def unspaced_runs(text: str) -> list[str]:
    """The runs of `text` in scripts without spaces between words."""
    return _UNSPACED.findall(text)


def emoji_tokens(text: str) -> list[str]:
    """The emoji of `text` as words, without repetition.

    >>> emoji_tokens("ok 👍👍 ✅")
    ['u1f44d', 'u2705']
    """
    found = _EMOJI.findall(text)
    return [f"u{ord(char):x}" for i, char in enumerate(found) if i == 0 or char != found[i - 1]]
