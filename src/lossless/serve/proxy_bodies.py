"""Request bodies of the proxy: JSON read with the position of its values, long lists cached between requests, and
only the changed parts rewritten.
"""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import dataclass, field
from itertools import groupby
from math import isfinite
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput

if TYPE_CHECKING:
    from lossless.providers.api import Raw

_BLANKS = re.compile(r"[ \t\n\r]*")
#: Lists of so many characters are worth remembering, and so many lists are.
_LEAST, _MOST, _REMEMBERED = 4_096, 1 << 20, 8


@dataclass(slots=True)
class JsonListCache:
    """The last long lists that were read, each up to the end of its last member; what they hold is never changed."""

    _known: list[tuple[str, list[Any]]] = field(default_factory=list)

    def read(self, text: str, start: int) -> tuple[list[Any], int]:
        """The list that begins here, and where it ends. It shares its members with the one that it goes on from."""
        begun = [known for known in self._known if text.startswith(known[0], start)]
        if begun:
            longest = max(begun, key=lambda known: len(known[0]))
            self._known = [known for known in self._known if known is not longest]
            members, end = _gone_on(text, start + len(longest[0]), [*longest[1]])
        else:
            members, end = JSON_READER.raw_decode(text, start)
        if _LEAST <= end - start <= _MOST:
            whole = text[start : end - 1].rstrip(" \t\n\r")
            if whole.endswith("}"):  # a number might go on
                self._known = [*self._known[1 - _REMEMBERED :], (whole, members)]
        return members, end


def read_json_object(text: str, lists: JsonListCache) -> tuple[Raw, dict[str, tuple[int, int]]]:
    """The object that a text is, and where each of its values stands; raises ValueError for anything else.

    Raises BadInput for a number without end.
    """
    raw: Raw = {}
    places: dict[str, tuple[int, int]] = {}
    at = skip_mark("{", text, 0)
    is_over = text.startswith("}", at)
    at = skip_mark("}", text, at) if is_over else at
    while not is_over:
        key, at = JSON_READER.raw_decode(text, at)
        start = skip_mark(":", text, at)
        value, end = lists.read(text, start) if text.startswith("[", start) else JSON_READER.raw_decode(text, start)
        if not isinstance(key, str):
            raise ValueError(key)
        raw[key], places[key] = value, (start, end)
        at = skip_blanks(text, end)
        is_over = not text.startswith(",", at)
        at = skip_mark("}" if is_over else ",", text, at)
    if at != len(text):
        raise ValueError(at)
    return raw, places


def _gone_on(text: str, at: int, members: list[Any]) -> tuple[list[Any], int]:
    """The list with the members that stand behind a place, and where it ends."""
    at = skip_blanks(text, at)
    while not text.startswith("]", at):
        member, end = JSON_READER.raw_decode(text, skip_mark(",", text, at))
        members.append(member)
        at = skip_blanks(text, end)
    return members, at + 1


def skip_mark(mark: str, text: str, at: int) -> int:
    """The place behind a mark and the blanks around it; raises ValueError when it is not there."""
    at = skip_blanks(text, at)
    if not text.startswith(mark, at):
        raise ValueError(at)
    return skip_blanks(text, at + 1)


def skip_blanks(text: str, at: int) -> int:
    """The place behind blanks."""
    found = _BLANKS.match(text, at)
    return at if found is None else found.end()


def _number(text: str) -> float:
    number = float(text)
    if isfinite(number):
        return number
    raise BadInput(f"the request has {text:.40} where a number belongs: JSON has no such number")


JSON_READER = json.JSONDecoder(parse_float=_number, parse_constant=_number)


#: How bodies may be packed so that we can read them.
COMPRESSED_ENCODINGS = frozenset(("gzip", "x-gzip", "deflate"))
#: A packed body that is larger than this when it is unpacked is not looked at.
_MOST_BYTES = 256 << 20
_ASCII = bytes(range(128))
_WRITER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
#: Tells zlib to find out by itself whether it is gzip.
_ANY_HEADER = zlib.MAX_WBITS | 32


@dataclass(frozen=True, slots=True)
class RequestBody:
    """A request's JSON object, more tokens than it has, and where its values stand in its text."""

    raw: Raw
    most_tokens: int
    text: str = field(default="", repr=False)
    places: dict[str, tuple[int, int]] = field(default_factory=dict, repr=False)
    #: The same text as it came, where that has a byte for each character.
    data: bytes | None = field(default=None, repr=False)

    def piece(self, start: int, end: int) -> bytes | memoryview:
        """A piece of the text."""
        return _bytes(self.text[start:end]) if self.data is None else memoryview(self.data)[start:end]


def read_body(content: bytes, encoding: str, lists: JsonListCache | None = None) -> RequestBody | None:
    """The object in a request's bytes; None when there is none that we can read. `lists` are those of earlier ones.

    Raises BadInput for a number without end, which some writers of JSON make although JSON has none.
    """
    data = decompress(content, encoding)
    if data is None:
        return None
    try:
        text = data.decode(json.detect_encoding(data), "surrogatepass")
        raw, places = read_json_object(text, JsonListCache() if lists is None else lists)
    except BadInput:
        raise
    except (ValueError, RecursionError):
        return None
    return RequestBody(
        raw, max_tokens_of(data), text, places, data if text.isascii() and len(data) == len(text) else None
    )


def rewrite_body(body: RequestBody, changed: Raw) -> bytes:
    """An object as bytes. What is the very same in it as in `body` is written as it was."""
    pieces: list[bytes | memoryview] = []
    for key, value in changed.items():
        pieces += [b"," if pieces else b"{", _json(key), b":", *_value(body, key, value)]
    return b"".join([*pieces, b"}"]) if pieces else b"{}"


def decompress(content: bytes, encoding: str) -> bytes | None:
    """The bytes as they were before they were packed; None when that cannot be undone.

    >>> (decompress(zlib.compress(b"{}"), "deflate"), decompress(b"{}", ""), decompress(b"{}", "gzip"),
    ...  decompress(b"{}", "br"))
    (b'{}', b'{}', None, None)
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return content
    if name not in COMPRESSED_ENCODINGS:
        return None
    unpacking = zlib.decompressobj(_ANY_HEADER)
    try:
        text = unpacking.decompress(content, _MOST_BYTES)
    except zlib.error:
        return None
    return text if unpacking.eof else None


def _value(body: RequestBody, key: str, value: Any) -> list[bytes | memoryview]:
    """A value of a changed object, as it was written if it is the same, else as far as it has the same members."""
    if key not in body.places:
        return [_json(value)]
    start, end = body.places[key]
    before = body.raw[key]
    if value is before:
        return [body.piece(start, end)]
    members = _Members(body, start, end)
    return _list(members, before, value) if type(before) is type(value) is list else [_json(value)]


def _list(members: _Members, before: list[Any], changed: list[Any]) -> list[bytes | memoryview]:
    """A list that was changed: runs of its old members are written as they were."""
    index = {id(item): n for n, item in enumerate(before) if type(item) is dict}
    known = [index.get(id(item)) for item in changed]
    pieces: list[bytes | memoryview] = [b"["]
    for shift, run in groupby(range(len(changed)), lambda k: None if (n := known[k]) is None else n - k):
        if shift is None:
            pieces += [_json([changed[k] for k in run])[1:-1], b","]
        else:
            old = [k + shift for k in run]
            pieces += [members.piece(old[0], None if old[-1] == len(before) - 1 else old[-1]), b","]
    return [*pieces[:-1], b"]"] if changed else [b"[]"]


class _Members:
    """The members of a list in a text, of which only those are looked for that are asked for."""

    def __init__(self, body: RequestBody, start: int, end: int) -> None:
        self._body, self._start, self._last = body, start + 1, end - 1
        self._ends: list[int] = []

    def piece(self, first: int, last: int | None) -> bytes | memoryview:
        """The members from one to another, else to the last, with all that stands between them."""
        start = self._start if first == 0 else skip_mark(",", self._body.text, self._end(first - 1))
        return self._body.piece(start, self._last if last is None else self._end(last))

    def _end(self, n: int) -> int:
        text = self._body.text
        while len(self._ends) <= n:
            start = skip_mark(",", text, self._ends[-1]) if self._ends else skip_blanks(text, self._start)
            self._ends.append(JSON_READER.raw_decode(text, start)[1])
        return self._ends[n]


def _json(value: Any) -> bytes:
    return _bytes(_WRITER.encode(value))


def _bytes(text: str) -> bytes:
    """A piece of JSON as bytes; half a surrogate pair, which UTF-8 has not, is written as the escape that it is."""
    return text.encode("utf-8", "backslashreplace")


def max_tokens_of(text: bytes) -> int:
    """At least what a JSON text takes by our estimate: a quarter of a token for each byte, half beyond ASCII.

    >>> max_tokens_of(b'{"content":"Hello"}'), max_tokens_of('"\u4f60"'.encode())
    (5, 3)
    """
    return (len(text) + (0 if text.isascii() else len(text.translate(None, _ASCII)))) // 4 + 1
