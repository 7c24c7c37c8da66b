"""Request bodies of the proxy: decompressed and read, and written again when they have changed."""

from __future__ import annotations

import json
import zlib
from math import isfinite
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput

if TYPE_CHECKING:
    from lossless.providers.api import Raw

#: Content encodings that we can decompress.
COMPRESSED_ENCODINGS = frozenset(("gzip", "x-gzip", "deflate"))
#: A body that is larger than this after decompression is not parsed.
_MOST_BYTES = 256 << 20
#: zlib detects the header (gzip or zlib).
_ANY_HEADER = zlib.MAX_WBITS | 32


def read_body(content: bytes, encoding: str) -> Raw | None:
    """The object in a request's bytes; None when it cannot be read.

    Raises BadInput for an infinite number, which some JSON writers produce.
    """
    data = decompress(content, encoding)
    return None if data is None else parse_object(data, parse_float=_number, parse_constant=_number)


def parse_object(data: bytes, **how: Any) -> Raw | None:
    """The object in some bytes of JSON; None for anything else. `how` is for the parser."""
    try:
        found = json.loads(data, **how)
    except BadInput:
        raise
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _number(text: str) -> float:
    number = float(text)
    if isfinite(number):
        return number
    raise BadInput(f"the request has {text:.40} where a number belongs: JSON has no such number")


def write_body(value: Raw) -> bytes:
    """An object as bytes; lone surrogates are escaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


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
