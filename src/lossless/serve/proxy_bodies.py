"""Request bodies of the proxy: parsed with positions, long lists cached, only changed parts rewritten."""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import dataclass, field
from itertools import groupby
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeAlias

from lossless.errors import BadInput

if TYPE_CHECKING:
    from lossless.providers.api import Raw

_BLANKS = re.compile(r"[ \t\n\r]*")
#: The minimum and maximum length of a cached list in characters, and how many are cached.
_LEAST, _MOST, _REMEMBERED = 4_096, 1 << 20, 8


#: The last long lists that were parsed, each with its text up to the end of its last member; they are never modified.
JsonLists: TypeAlias = list[tuple[str, list[Any]]]


def _read_list(text: str, start: int, lists: JsonLists) -> tuple[list[Any], int]:
    """The list at this position, and where it ends. It shares its members with the cached list that it extends."""
    begun = [known for known in lists if text.startswith(known[0], start)]
    if begun:
        longest = max(begun, key=lambda known: len(known[0]))
        lists[:] = [known for known in lists if known is not longest]
        members, at = [*longest[1]], skip_blanks(text, start + len(longest[0]))
        while not text.startswith("]", at):
            member, end = JSON_READER.raw_decode(text, skip_mark(",", text, at))
            members.append(member)
            at = skip_blanks(text, end)
        end = at + 1
    else:
        members, end = JSON_READER.raw_decode(text, start)
    if _LEAST <= end - start <= _MOST:
        whole = text[start : end - 1].rstrip(" \t\n\r")
        if whole.endswith("}"):  # a number might continue
            lists[:] = [*lists[1 - _REMEMBERED :], (whole, members)]
    return members, end


def read_json_object(text: str, lists: JsonLists) -> tuple[Raw, dict[str, tuple[int, int]]]:
    """The object in a text, and the position of each of its values; raises ValueError for anything else.

    Raises BadInput for an infinite number.
    """
    raw: Raw = {}
    places: dict[str, tuple[int, int]] = {}
    at = skip_mark("{", text, 0)
    is_over = text.startswith("}", at)
    at = skip_mark("}", text, at) if is_over else at
    while not is_over:
        key, at = JSON_READER.raw_decode(text, at)
        start = skip_mark(":", text, at)
        value, end = (
            _read_list(text, start, lists) if text.startswith("[", start) else JSON_READER.raw_decode(text, start)
        )
        if not isinstance(key, str):
            raise ValueError(key)
        raw[key], places[key] = value, (start, end)
        at = skip_blanks(text, end)
        is_over = not text.startswith(",", at)
        at = skip_mark("}" if is_over else ",", text, at)
    if at != len(text):
        raise ValueError(at)
    return raw, places


def skip_mark(mark: str, text: str, at: int) -> int:
    """The position after a token and the white space around it; raises ValueError when it is not there."""
    at = skip_blanks(text, at)
    if not text.startswith(mark, at):
        raise ValueError(at)
    return skip_blanks(text, at + 1)


def skip_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return at if found is None else found.end()


def _number(text: str) -> float:
    number = float(text)
    if isfinite(number):
        return number
    raise BadInput(f"the request has {text:.40} where a number belongs: JSON has no such number")


JSON_READER = json.JSONDecoder(parse_float=_number, parse_constant=_number)


#: Content encodings that we can decompress.
COMPRESSED_ENCODINGS = frozenset(("gzip", "x-gzip", "deflate"))
#: A body that is larger than this after decompression is not parsed.
_MOST_BYTES = 256 << 20
_ASCII = bytes(range(128))
_WRITER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
#: zlib detects the header (gzip or zlib).
_ANY_HEADER = zlib.MAX_WBITS | 32


@dataclass(frozen=True, slots=True)
class RequestBody:
    """A request's JSON object, an upper bound of its tokens, and the positions of its values in its text."""

    raw: Raw
    most_tokens: int
    text: str = field(default="", repr=False)
    places: dict[str, tuple[int, int]] = field(default_factory=dict, repr=False)
    #: The original bytes, where each character is one byte.
    data: bytes | None = field(default=None, repr=False)

    def piece(self, start: int, end: int) -> bytes | memoryview:
        return _bytes(self.text[start:end]) if self.data is None else memoryview(self.data)[start:end]


def read_body(content: bytes, encoding: str, lists: JsonLists | None = None) -> RequestBody | None:
    """The object in a request's bytes; None when it cannot be read. `lists` caches lists of earlier requests.

    Raises BadInput for an infinite number, which some JSON writers produce.
    """
    data = decompress(content, encoding)
    if data is None:
        return None
    try:
        text = data.decode(json.detect_encoding(data), "surrogatepass")
        raw, places = read_json_object(text, [] if lists is None else lists)
    except BadInput:
        raise
    except (ValueError, RecursionError):
        return None
    return RequestBody(
        raw, max_tokens_of(data), text, places, data if text.isascii() and len(data) == len(text) else None
    )


def rewrite_body(body: RequestBody, changed: Raw) -> bytes:
    """An object as bytes. Values that are identical to those in `body` keep their text."""
    pieces: list[bytes | memoryview] = []
    for key, value in changed.items():
        pieces += [b"," if pieces else b"{", _json(key), b":"]
        place, before = body.places.get(key), body.raw.get(key)
        if place is not None and value is before:
            pieces.append(body.piece(*place))
        elif place is not None and type(before) is type(value) is list:
            pieces += _list(body, place, before, value)
        else:
            pieces.append(_json(value))
    return b"".join([*pieces, b"}"]) if pieces else b"{}"


def decompress(content: bytes, encoding: str) -> bytes | None:
    """The decompressed bytes; None when that fails.

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


def _list(body: RequestBody, place: tuple[int, int], before: list[Any], changed: list[Any]) -> list[bytes | memoryview]:
    """A changed list: runs of its old members keep their text, in which they are looked up as far as needed."""
    text, start, ends = body.text, place[0] + 1, list[int]()

    def end_of(n: int) -> int:
        while len(ends) <= n:
            at = skip_mark(",", text, ends[-1]) if ends else skip_blanks(text, start)
            ends.append(JSON_READER.raw_decode(text, at)[1])
        return ends[n]

    index = {id(item): n for n, item in enumerate(before) if type(item) is dict}
    known = [index.get(id(item)) for item in changed]
    pieces: list[bytes | memoryview] = [b"["]
    for shift, run in groupby(range(len(changed)), lambda k: None if (n := known[k]) is None else n - k):
        if shift is None:
            pieces += [_json([changed[k] for k in run])[1:-1], b","]
        else:
            old = [k + shift for k in run]
            first = start if old[0] == 0 else skip_mark(",", text, end_of(old[0] - 1))
            last = place[1] - 1 if old[-1] == len(before) - 1 else end_of(old[-1])
            pieces += [body.piece(first, last), b","]
    return [*pieces[:-1], b"]"] if changed else [b"[]"]


def _json(value: Any) -> bytes:
    return _bytes(_WRITER.encode(value))


def _bytes(text: str) -> bytes:
    """JSON text as bytes; lone surrogates are escaped."""
    return text.encode("utf-8", "backslashreplace")


def max_tokens_of(text: bytes) -> int:
    """An upper bound of a JSON text's tokens by our estimate: a quarter per byte, half beyond ASCII.

    >>> max_tokens_of(b'{"content":"Hello"}'), max_tokens_of('"\u4f60"'.encode())
    (5, 3)
    """
    return (len(text) + (0 if text.isascii() else len(text.translate(None, _ASCII)))) // 4 + 1
