"""What the search index holds of a message: which text, cut where, and which extra tokens.

SQLite's own tokenizer (`porter unicode61`) reads the text as it is. It joins camelCase into one word,
takes a Chinese sentence for one word, and drops emoji and the signs of C++; the extra tokens bring
those back. Queries are cut by the same functions (`grams`, `humps`, `skeleton`, `emoji_token`), so both
sides agree.
"""

from __future__ import annotations

import json
import re
import unicodedata
from operator import add
from typing import TYPE_CHECKING

from lossless.model.words import WORD, fold

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lossless.model.messages import Json

#: Rows indexed under another version are indexed anew.
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
#: A string of a tool's input that is longer than this and has no blank is data, not words.
_BLOB_CHARS = 1000


# --- which text ---------------------------------------------------------------------------------


def index_text_of(content: str, tool_inputs: Iterable[Json] = ()) -> str:
    """The text of a message that is searched: its content, then the strings inside its tool calls' inputs.

    Of a reference to an external file, the header line and the exploration summary. '' for a blank message.
    """
    if content.startswith(_REFERENCES):
        content = _reference_text(content)
    pieces = [content] if content and not content.isspace() else []
    for tool_input in tool_inputs:
        pieces.extend(_strings(_parsed(tool_input)))
    return "\n".join(pieces)


def _reference_text(content: str) -> str:
    header, _, rest = content.partition("\n")
    lines = rest.split("\n")
    start = next((i for i, line in enumerate(lines) if line.strip().startswith(_SUMMARY_HEAD)), None)
    if start is None:
        return header
    lines[start] = lines[start].strip().removeprefix(_SUMMARY_HEAD)
    kept = [line for line in lines[start:] if not line.strip().startswith(_OPENING_HINTS)]
    return "\n".join([header, *kept]).strip()


def _parsed(tool_input: Json) -> Json:
    """OpenAI sends arguments as JSON text; what does not parse is taken as it stands."""
    if not isinstance(tool_input, str) or not tool_input.lstrip().startswith(("{", "[")):
        return tool_input
    try:
        parsed: Json = json.loads(tool_input)
    except (ValueError, RecursionError):
        return tool_input
    return parsed


def _strings(value: Json) -> Iterator[str]:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            if item and not item.isspace() and not _is_blob(item):
                yield item
        elif isinstance(item, dict):
            pending.extend(reversed(item.values()))
        elif isinstance(item, (list, tuple)):
            pending.extend(reversed(item))


def _is_blob(text: str) -> bool:
    return len(text) > _BLOB_CHARS and text.isascii() and " " not in text and "\n" not in text


# --- passages -----------------------------------------------------------------------------------

#: Where a text is cut, best first: after a line, after a sentence, at a blank.
_BORDERS = (("\n",), (". ", "! ", "? ", "… ", "。", "！", "？", "؟ ", "۔ ", "। "), (" ", "\t", "\u3000"))


def passages(text: str) -> list[tuple[int, int]]:
    """Cut a text into spans of about 160 words at ends of lines and sentences.

    One span unless the text is well over that size; the spans cover it without gaps, none is blank
    unless the whole text is, and an empty text has none.
    """
    if len(text) <= PASSAGE_CHARS_DENSE:
        return [(0, len(text))] if text else []
    size = PASSAGE_CHARS if text.isascii() or not _is_dense(text) else PASSAGE_CHARS_DENSE
    if len(text) <= size + size // 2:
        return [(0, len(text))]
    size = max(size, -(-2 * len(text) // MAX_PASSAGES))
    spans: list[tuple[int, int]] = []
    start, cursor, end = 0, len(text) - len(text.lstrip()), 0
    while end < len(text):
        rest = len(text) - cursor
        end = _border(text, cursor + size // 2, cursor + size) if rest > size + size // 2 else len(text)
        if spans and text[start:end].isspace():
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
        start = cursor = end
    return spans


def _is_dense(text: str) -> bool:
    if len(text.encode("utf-8", "replace")) <= 2 * len(text):
        return False
    return 2 * sum(map(len, _UNSPACED.findall(text))) > len(text)


def _border(text: str, low: int, high: int) -> int:
    """The last good place to cut between `low` and `high`."""
    for marks in _BORDERS:
        end = max((at + len(mark) for mark in marks if (at := text.rfind(mark, low, high)) >= 0), default=0)
        if end:
            return end
    return high


# --- extra tokens -------------------------------------------------------------------------------

#: Scripts that are written without blanks between words, or (Korean) glue particles to them.
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
#: Signs that people search for; lines, boxes, arrows and spinners of terminal output are not among them.
_EMOJI = re.compile("[\u231a-\u23ff\u25b6\u25c0\u25fb-\u27bf\u2934\u2935\u2b05-\u2b55\U0001f000-\U0001faff]")
#: Words of the scripts whose vowel signs the tokenizer takes for blanks: Hebrew, Arabic, those of India.
_SIGNED = re.compile("[\u0591-\u05ea\u0610-\u06d3\u06d6-\u06ed\u06fa-\u06ff\u0900-\u0dff]+")
#: Full-width, half-width and ligature forms of letters and digits.
_VARIANT = re.compile("[\ufb00-\ufb06\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uffdc]")
#: Letters that differ by an accent which the tokenizer keeps and searchers leave out.
_ACCENTED = re.compile("[\u0386-\u03ce\u0401\u0451\u1f00-\u1fff]")

_HUMP = re.compile(r"[A-Z]+s?(?![a-z])|[A-Z]?[a-z0-9]+")
_PLUSPLUS = re.compile(r"\+\+(?<=\b[A-Za-z]\+\+)(?!\w)")
_SHARP = re.compile(r"#(?<=\b[A-Za-z]#)(?!\w)")
#: An identifier longer than this, or with shorter humps on average, is a digest or base64.
_IDENTIFIER_CHARS = 64
_HUMP_CHARS = 2.5


def _shapes() -> bytes:
    """For each byte of UTF-8 a letter for what it begins: one pass tells which rules have work to do."""
    table = bytearray(b"." * 256)
    for shape, first, last in (
        (b"a", 0x61, 0x7A),  # a-z
        (b"A", 0x41, 0x5A),  # A-Z
        (b"0", 0x30, 0x39),  # digits
        (b"g", 0xCE, 0xCF),  # Greek
        (b"s", 0xD6, 0xDB),  # Hebrew, Arabic
        (b"i", 0xE0, 0xE0),  # the scripts of India, Thai
        (b"u", 0xE1, 0xED),  # East Asia; E2 is cleared below
        (b".", 0xE2, 0xE2),
        (b"v", 0xEF, 0xEF),  # variants
        (b"x", 0xF0, 0xF0),  # beyond the Basic Multilingual Plane
    ):
        table[first : last + 1] = shape * (last - first + 1)
    return bytes(table)


_SHAPE = _shapes()
#: In shapes: a capital that may begin a hump, as in `aB` or `a64B`, or end a run of them, as in `ABCd`.
_RISE = re.compile(rb"A(?<=[a0]A)")
_FALL = re.compile(rb"AAA(?=a)")
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
    if _RISE.search(shape) or (b"AAA" in shape and _FALL.search(shape)):
        tokens += _camel_tokens(raw, shape)
    if "+" in text or "#" in text:
        tokens += signs(text)
    if len(raw) != len(text):
        tokens += _wide_tokens(text, raw, shape)
    return " ".join(tokens)


def _camel_tokens(raw: bytes, shape: bytes) -> list[str]:
    words: dict[bytes, None] = {}
    end = 0
    rises = [rise.start() for rise in _RISE.finditer(shape)]
    if b"AAA" in shape:
        rises = sorted(rises + [fall.start() for fall in _FALL.finditer(shape)])
    for rise in rises:
        if rise >= end:
            start = max(shape.rfind(b".", end, rise) + 1, end)
            end = shape.find(b".", rise)
            end = len(shape) if end < 0 else end
            words[raw[start:end]] = None
    return [piece for word in words for piece in humps(word.decode("ascii", "ignore"))]


def _wide_tokens(text: str, raw: bytes, shape: bytes) -> list[str]:
    tokens: list[str] = []
    if b"v" in shape and _VARIANT.search(text):
        plain = (unicodedata.normalize("NFKC", word) for word in WORD.findall(text) if _VARIANT.search(word))
        tokens += [word for word in plain if not _UNSPACED.search(word)]
        text = unicodedata.normalize("NFKC", text)
    if b"g" in shape or "ё" in text or "Ё" in text:
        accented = [(word.lower(), fold(word)) for word in WORD.findall(text) if _ACCENTED.search(word)]
        tokens += [folded for word, folded in accented if folded != word]
    if b"u" in shape or b"i" in shape or b"x" in shape or b"v" in shape:
        for run in _UNSPACED.findall(text):
            tokens += grams(run)
    if b"s" in shape or b"i" in shape:
        bare = [(word, skeleton(word)) for word in _SIGNED.findall(text)]
        tokens += [kept for word, kept in bare if kept and kept != word]
    if b"x" in shape or _EMOJI_BYTES.search(raw):
        tokens += emoji_tokens(text)
    return tokens


def humps(word: str) -> list[str]:
    """The pieces of a camelCase identifier in lower case; none when it has one piece or looks like a digest.

    >>> humps("parseHTTPResponse2"), humps("deploy"), humps("LLMs")
    (['parse', 'http', 'response2'], [], [])
    """
    pieces = _HUMP.findall(word) if word.isascii() else []
    if len(pieces) < 2 or len(word) > _IDENTIFIER_CHARS or len(word) < _HUMP_CHARS * len(pieces):
        return []
    return [piece.lower() for piece in pieces]


def signs(text: str) -> list[str]:
    """Names that end in signs, as words.

    >>> signs("C++ or F#, not a+b")
    ['cplusplus', 'fsharp']
    """
    found = [(text[sign.start() - 1].lower(), "plusplus") for sign in _PLUSPLUS.finditer(text)]
    found += [(text[sign.start() - 1].lower(), "sharp") for sign in _SHARP.finditer(text)]
    return [letter + name for letter, name in dict.fromkeys(found)]


def grams(run: str) -> list[str]:
    """Pairs of neighbouring letters of a script without blanks, then the last letter alone.

    One letter is so found as the beginning of a pair, and a word as the row of its pairs.

    >>> grams("数据库"), grams("库")
    (['数据', '据库', '库'], ['库'])
    """
    letters = _UNSPACED_MARK.sub("", run)
    return [*map(add, letters, letters[1:]), *letters[-1:]]


def unspaced_runs(text: str) -> list[str]:
    """The runs of `text` in scripts without blanks between words."""
    return _UNSPACED.findall(text)


def skeleton(word: str) -> str:
    """A word without its vowel signs and other marks."""
    return "".join(char for char in word if unicodedata.category(char)[0] != "M")


def emoji_tokens(text: str) -> list[str]:
    """The emoji of `text` as words, a repeated one once.

    >>> emoji_tokens("ok 👍👍 ✅")
    ['u1f44d', 'u2705']
    """
    found = _EMOJI.findall(text)
    return [f"u{ord(char):x}" for i, char in enumerate(found) if i == 0 or char != found[i - 1]]
