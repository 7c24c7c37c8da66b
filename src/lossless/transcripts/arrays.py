"""A file that is one JSON array, read item by item: memory holds one item and a piece of the file."""

from __future__ import annotations

import codecs
import json
import re
from typing import TYPE_CHECKING, Any, BinaryIO

from lossless.transcripts.entries import BadLine, Line
from lossless.transcripts.lines import BOM, number_or_digits, opened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lossless.transcripts.entries import Record

_PIECE = 1 << 20
_HEAD = 1 << 16
#: So near to its end, a piece of the file may only look broken.
_MARGIN = 16
_BETWEEN = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder()
_LONG_DECODER = json.JSONDecoder(parse_int=number_or_digits)


def is_array(path: Path, size: int) -> bool:
    """Whether the file is one array, rather than lines of which the first happens to be one."""
    with opened(path) as file:
        head = file.read(min(_HEAD, size)).removeprefix(BOM).lstrip()
        first, feed, rest = head.partition(b"\n")
        if not head.startswith(b"["):
            return False
        try:
            json.loads(first)
        except (ValueError, RecursionError):
            return True
        return not feed or not (rest.strip() or file.read(min(_HEAD, size)).strip())


def read_items(path: Path, size: int, start: int = 0, number: int = 1, *, piece: int = _PIECE) -> Iterator[Record]:
    """The objects of the array, numbered like lines; from byte `start` on, where item `number` stands.

    An item that is still being written is left out. After one that is no JSON, nothing can be read. `piece` bytes are
    read at once, and more where an item is longer.
    """
    with opened(path) as file:
        window = _Window(file, start, size, piece)
        try:
            while (at := window.seek_item()) is not None:
                value, problem = window.item()
                line = Line(number, at, window.offset)
                if isinstance(value, dict):
                    yield line, value
                elif problem:
                    yield BadLine(line, problem)
                    return
                elif value is _HALF:
                    return
                else:
                    yield BadLine(line, "not an object")
                number += 1
            if window.is_left():
                yield BadLine(Line(number, window.offset, size), "behind the end of the array")
        except UnicodeDecodeError:
            yield BadLine(Line(number, window.offset, size), "not UTF-8, and nothing after it can be read")


_HALF = object()


class _Window:
    """The piece of an array's text that is in memory."""

    def __init__(self, file: BinaryIO, start: int, size: int, piece: int) -> None:
        self._file, self._left, self._piece = file, size - start, piece
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text, self._pos = "", 0
        #: Where the window's position stands in the file, in bytes.
        self.offset = start
        file.seek(start)
        if start == 0:
            self._open()

    def _open(self) -> None:
        """Go behind the bracket that opens the array."""
        self._grow()
        self._advance(self._text.index("[") + 1)

    def seek_item(self) -> int | None:
        """Go to the next item and say where it stands; None at the end of the array."""
        while True:
            match = _BETWEEN.match(self._text, self._pos)
            if match is not None:
                self._advance(match.end())
            if self._pos < len(self._text):
                return None if self._text[self._pos] == "]" else self.offset
            if not self._grow():
                return None

    def is_left(self) -> bool:
        """Whether something stands behind the bracket that closes the array."""
        while not (rest := self._text[self._pos + 1 :].strip()) and self._grow():
            pass
        return bool(rest)

    def item(self) -> tuple[Any, str]:
        """The item here, or what is wrong with it; `_HALF` when it is not complete yet."""
        while True:
            try:
                value, stop = self._decoded()
            except RecursionError:
                return None, "nested too deeply, and nothing after it can be read"
            except json.JSONDecodeError as error:
                if self._is_broken(error):
                    return None, "not JSON, and nothing after it can be read"
                if not self._grow():
                    return _HALF, ""
                continue
            if stop == len(self._text) and not isinstance(value, dict) and self._grow():
                continue
            self._advance(stop)
            return value, ""

    def _decoded(self) -> tuple[Any, int]:
        try:
            return _DECODER.raw_decode(self._text, self._pos)
        except json.JSONDecodeError:
            raise
        except ValueError:  # a number that is too long
            return _LONG_DECODER.raw_decode(self._text, self._pos)

    def _is_broken(self, error: json.JSONDecodeError) -> bool:
        """Whether more text could not mend it."""
        return not error.msg.startswith("Unterminated") and error.pos < len(self._text) - _MARGIN

    def _advance(self, pos: int) -> None:
        passed = self._text[self._pos : pos]
        self.offset += len(passed) if passed.isascii() else len(passed.encode())
        self._pos = pos

    def _grow(self) -> bool:
        """Read on, twice as much each time an item is longer than what is here; False at the end of the file."""
        kept = self._text[self._pos :]
        raw = self._file.read(min(self._left, max(self._piece, len(kept))))
        self._left -= len(raw)
        self._text, self._pos = kept + self._decoder.decode(raw), 0
        return bool(raw)
