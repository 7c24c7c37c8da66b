"""What a request's bytes say: the JSON object in them, packed or not, and how large it can be.

An object that was changed is written with the old text wherever nothing changed, so only what is new costs time.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput
from lossless.serve.proxy_json import READER, Lists, behind, blank, read_object

if TYPE_CHECKING:
    from lossless.exchange.dialect import Raw

#: How bodies may be packed so that we can read them.
PACKED = frozenset(("gzip", "x-gzip", "deflate"))
#: A packed body that is larger than this when it is unpacked is not looked at.
_MOST_BYTES = 256 << 20
_ASCII = bytes(range(128))
_WRITER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
#: Tells zlib to find out by itself whether it is gzip.
_ANY_HEADER = zlib.MAX_WBITS | 32


@dataclass(frozen=True, slots=True)
class Body:
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


def read_body(content: bytes, encoding: str, lists: Lists | None = None) -> Body | None:
    """The object in a request's bytes; None when there is none that we can read. `lists` are those of earlier ones.

    Raises BadInput for a number without end, which some writers of JSON make although JSON has none.
    """
    data = unpacked(content, encoding)
    if data is None:
        return None
    try:
        text = data.decode(json.detect_encoding(data), "surrogatepass")
        raw, places = read_object(text, Lists() if lists is None else lists)
    except BadInput:
        raise
    except (ValueError, RecursionError):
        return None
    return Body(raw, most_tokens(data), text, places, data if text.isascii() and len(data) == len(text) else None)


def rewritten(body: Body, changed: Raw) -> bytes:
    """An object as bytes. What is the very same in it as in `body` is written as it was."""
    pieces: list[bytes | memoryview] = []
    for key, value in changed.items():
        pieces += [b"," if pieces else b"{", _json(key), b":", *_value(body, key, value)]
    return b"".join([*pieces, b"}"]) if pieces else b"{}"


def unpacked(content: bytes, encoding: str) -> bytes | None:
    """The bytes as they were before they were packed; None when that cannot be undone.

    >>> unpacked(zlib.compress(b"{}"), "deflate"), unpacked(b"{}", ""), unpacked(b"{}", "gzip"), unpacked(b"{}", "br")
    (b'{}', b'{}', None, None)
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return content
    if name not in PACKED:
        return None
    unpacking = zlib.decompressobj(_ANY_HEADER)
    try:
        text = unpacking.decompress(content, _MOST_BYTES)
    except zlib.error:
        return None
    return text if unpacking.eof else None


def _value(body: Body, key: str, value: Any) -> list[bytes | memoryview]:
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

    def __init__(self, body: Body, start: int, end: int) -> None:
        self._body, self._start, self._last = body, start + 1, end - 1
        self._ends: list[int] = []

    def piece(self, first: int, last: int | None) -> bytes | memoryview:
        """The members from one to another, else to the last, with all that stands between them."""
        start = self._start if first == 0 else behind(",", self._body.text, self._end(first - 1))
        return self._body.piece(start, self._last if last is None else self._end(last))

    def _end(self, n: int) -> int:
        text = self._body.text
        while len(self._ends) <= n:
            start = behind(",", text, self._ends[-1]) if self._ends else blank(text, self._start)
            self._ends.append(READER.raw_decode(text, start)[1])
        return self._ends[n]


def _json(value: Any) -> bytes:
    return _bytes(_WRITER.encode(value))


def _bytes(text: str) -> bytes:
    """A piece of JSON as bytes; half a surrogate pair, which UTF-8 has not, is written as the escape that it is."""
    return text.encode("utf-8", "backslashreplace")


def most_tokens(text: bytes) -> int:
    """At least what a JSON text takes by our estimate: a quarter of a token for each byte, half beyond ASCII.

    >>> most_tokens(b'{"content":"Hello"}'), most_tokens('"\u4f60"'.encode())
    (5, 3)
    """
    return (len(text) + (0 if text.isascii() else len(text.translate(None, _ASCII)))) // 4 + 1
