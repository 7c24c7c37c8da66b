"""What a request's bytes say: the JSON object in them, packed or not, and how large it can be."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from lossless.errors import BadInput

if TYPE_CHECKING:
    from lossless.exchange.dialect import Raw

#: How bodies may be packed so that we can read them.
PACKED = frozenset(("gzip", "x-gzip", "deflate"))
#: A packed body that is larger than this when it is unpacked is not looked at.
_MOST_BYTES = 256 << 20
_ASCII = bytes(range(128))
#: Tells zlib to find out by itself whether it is gzip.
_ANY_HEADER = zlib.MAX_WBITS | 32


@dataclass(frozen=True, slots=True)
class Body:
    """A request's JSON object, and more tokens than it has."""

    raw: Raw
    most_tokens: int


def read_body(content: bytes, encoding: str) -> Body | None:
    """The object in a request's bytes; None when there is none that we can read.

    Raises BadInput for a number without end, which some writers of JSON make although JSON has none.
    """
    text = unpacked(content, encoding)
    if text is None:
        return None
    try:
        raw = json.loads(text, parse_float=_number, parse_constant=_number)
    except BadInput:
        raise
    except (ValueError, RecursionError):
        return None
    return Body(raw, most_tokens(text)) if isinstance(raw, dict) else None


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


def _number(text: str) -> float:
    number = float(text)
    if isfinite(number):
        return number
    raise BadInput(f"the request has {text:.40} where a number belongs: JSON has no such number")


def most_tokens(text: bytes) -> int:
    """At least what a JSON text takes by our estimate: a quarter of a token for each byte, half beyond ASCII.

    >>> most_tokens(b'{"content":"Hello"}'), most_tokens('"\u4f60"'.encode())
    (5, 3)
    """
    return (len(text) + (0 if text.isascii() else len(text.translate(None, _ASCII)))) // 4 + 1
