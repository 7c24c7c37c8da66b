"""Reads the JSON records of a file as a stream: lines, the items of one array, or appended bytes.

Memory holds one record; an incomplete last line is left for the next reading.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import stat
from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, BinaryIO

from lossless.errors import BadInput
from lossless.ingest.transcripts.entries import BadLine, FileState, Record, RecordPosition
from lossless.model.js_json import is_encodable, refuse_number

if TYPE_CHECKING:
    from pathlib import Path


BOM = b"\xef\xbb\xbf"
#: Longer lines are skipped: no archive could store such a record.
LONGEST_LINE = 1 << 30
_BUFFER = 1 << 18
_HEAD = 1 << 16
_SQLITE = b"SQLite format 3\0"


def file_state(path: Path) -> FileState:
    """The current state of the file; BadInput when it is not a readable file, or its name is not valid text."""
    if not is_encodable(str(path)):
        raise BadInput(f"cannot read {str(path)!r}: its name is not UTF-8; rename it")
    try:
        found = path.stat()
    except OSError as error:
        raise _unreadable(path, error) from error
    if not stat.S_ISREG(found.st_mode):
        raise BadInput(f"cannot read {str(path)!r}: not a file")
    return FileState(path, found.st_size, found.st_mtime_ns // 1_000_000)


def open_for_reading(path: Path) -> BinaryIO:
    """The file, open for reading; raises BadInput when that is refused."""
    try:
        return path.open("rb", buffering=_BUFFER)
    except OSError as error:
        raise _unreadable(path, error) from error


def read_lines(
    path: Path, size: int, start: int = 0, number: int = 1, *, longest: int = LONGEST_LINE
) -> Iterator[Record]:
    """The records from byte `start` on, the first line there being `number`, up to byte `size`.

    Blank lines are skipped. The last line is omitted while it has no line feed and is no complete object, so reading
    can continue at the `end` of the last record, with the number after it.
    """
    with open_for_reading(path) as file:
        yield from read_lines_of(file, size, start, number, longest=longest)


def read_lines_of(
    file: BinaryIO, size: int, start: int, number: int, *, base: int = 0, longest: int = LONGEST_LINE
) -> Iterator[Record]:
    """The same for an open file, or a part of one that begins at byte `base`."""
    at = start + _rest_of_line(file, start - base, size - base)
    while at < size:
        limit = min(size - at, longest)
        length, is_ended, found = _next(file, limit, is_first=at == 0)
        if not is_ended and at + length < size:
            if length < limit:
                return  # The file was truncated.
            length, found = length + _skip_line(file, size - at - length), "longer than a line may be"
            is_ended = True
        line = RecordPosition(number, at, at + length)
        if isinstance(found, dict):
            yield line, found
        elif found is not None and is_ended:
            yield BadLine(line, found)
        del found
        at, number = line.end, number + 1


def _next(file: BinaryIO, limit: int, *, is_first: bool) -> tuple[int, bool, dict[str, Any] | str | None]:
    """The next line: its length, whether it has a line feed, and its object, an error, or None if blank."""
    raw = file.readline(limit)
    length, is_ended = len(raw), raw.endswith(b"\n")
    if is_first and raw.startswith(BOM):
        raw = raw[len(BOM) :]
    if not raw or raw.isspace():
        return length, is_ended, None
    try:
        text = raw.decode()
        del raw
        return length, is_ended, parse_object(text)
    except UnicodeDecodeError:
        return length, is_ended, "not UTF-8"


def parse_object(text: str) -> dict[str, Any] | str:
    """The object in a JSON text, or why there is none."""
    try:
        try:
            value = _DECODER.decode(text)
        except ValueError as error:  # perhaps a number with too many digits
            if isinstance(error, json.JSONDecodeError):
                raise
            value = _LONG_DECODER.decode(text)
    except RecursionError:
        return "nested too deeply"
    except ValueError:
        return "not JSON"
    return value if isinstance(value, dict) else "not an object"


def number_or_digits(digits: str) -> int | str:
    """A whole number; its digits as text when there are more than Python parses."""
    try:
        return int(digits)
    except ValueError:
        return digits


_DECODER = json.JSONDecoder(parse_constant=refuse_number)
_LONG_DECODER = json.JSONDecoder(parse_constant=refuse_number, parse_int=number_or_digits)


def read_document(path: Path) -> dict[str, Any] | None:
    """The object that a whole file is; None for anything else."""
    with open_for_reading(path) as file:
        is_object = file.read(_HEAD).removeprefix(BOM).lstrip().startswith(b"{")
        if not is_object or os.fstat(file.fileno()).st_size > LONGEST_LINE:
            return None
        file.seek(0)
        try:
            found = parse_object(file.read().decode("utf-8-sig"))
        except UnicodeDecodeError:
            return None
    return found if isinstance(found, dict) else None


def is_sqlite(path: Path) -> bool:
    with open_for_reading(path) as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _rest_of_line(file: BinaryIO, start: int, size: int) -> int:
    """How many bytes at `start` complete a line that was read before its line feed."""
    if start == 0:
        return 0
    file.seek(start - 1)
    if file.read(1) != b"\n":
        rest = file.readline(min(_BUFFER, max(0, size - start)))
        if rest.isspace():
            return len(rest)
        file.seek(start)
    return 0


def _skip_line(file: BinaryIO, size: int) -> int:
    """Skip to after the next line feed; returns the distance."""
    passed = 0
    while passed < size:
        raw = file.readline(min(_BUFFER, size - passed))
        passed += len(raw)
        if not raw or raw.endswith(b"\n"):
            break
    return passed


def _unreadable(path: Path, error: OSError) -> BadInput:
    reason = os.strerror(error.errno) if error.errno else type(error).__name__
    return BadInput(f"cannot read {str(path)!r}: {reason}")


_BUFFER_BYTES = 1 << 20
#: This close to its end, a piece of the file may only look broken.
_MARGIN = 16
_BETWEEN = re.compile(r"[\s,]*")
_ARRAYS_DECODER = json.JSONDecoder()
_ARRAYS_LONG_DECODER = json.JSONDecoder(parse_int=number_or_digits)


def is_array(path: Path, size: int) -> bool:
    """Whether the file is one array, rather than lines of which the first happens to be one."""
    with open_for_reading(path) as file:
        head = file.read(min(_HEAD, size)).removeprefix(BOM).lstrip()
        first, feed, rest = head.partition(b"\n")
        if not head.startswith(b"["):
            return False
        try:
            json.loads(first)
        except (ValueError, RecursionError):
            return True
        return not feed or not (rest.strip() or file.read(min(_HEAD, size)).strip())


def read_items(
    path: Path, size: int, start: int = 0, number: int = 1, *, piece: int = _BUFFER_BYTES
) -> Iterator[Record]:
    """The objects of the array, numbered like lines; from byte `start` on, where item `number` is.

    An incomplete item is omitted. After invalid JSON, nothing can be read. `piece` bytes are read at once, and more for
    longer items.
    """
    with open_for_reading(path) as file:
        window = _ArrayBuffer(file, start, size, piece)
        try:
            while (at := window.seek_item()) is not None:
                value, problem = window.item()
                line = RecordPosition(number, at, window.offset)
                if isinstance(value, dict):
                    yield line, value
                elif problem:
                    yield BadLine(line, problem)
                    return
                elif value is _INCOMPLETE:
                    return
                else:
                    yield BadLine(line, "not an object")
                number += 1
            if window.is_left():
                yield BadLine(RecordPosition(number, window.offset, size), "after the end of the array")
        except UnicodeDecodeError:
            yield BadLine(RecordPosition(number, window.offset, size), "not UTF-8, and nothing after it can be read")


_INCOMPLETE = object()


class _ArrayBuffer:
    """The part of an array's text that is in memory."""

    def __init__(self, file: BinaryIO, start: int, size: int, piece: int) -> None:
        self._file, self._left, self._piece = file, size - start, piece
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text, self._pos = "", 0
        #: The buffer's position in the file, in bytes.
        self.offset = start
        file.seek(start)
        if start == 0:
            self._grow()
            self._advance(self._text.index("[") + 1)

    def seek_item(self) -> int | None:
        """Go to the next item and return its position; None at the end of the array."""
        while True:
            match = _BETWEEN.match(self._text, self._pos)
            if match is not None:
                self._advance(match.end())
            if self._pos < len(self._text):
                return None if self._text[self._pos] == "]" else self.offset
            if not self._grow():
                return None

    def is_left(self) -> bool:
        """Whether anything follows the closing bracket."""
        while not (rest := self._text[self._pos + 1 :].strip()) and self._grow():
            pass
        return bool(rest)

    def item(self) -> tuple[Any, str]:
        """The item here, or what is wrong with it; `_INCOMPLETE` when it is not complete yet."""
        while True:
            try:
                value, stop = self._decoded()
            except RecursionError:
                return None, "nested too deeply, and nothing after it can be read"
            except json.JSONDecodeError as error:
                if not error.msg.startswith("Unterminated") and error.pos < len(self._text) - _MARGIN:
                    return None, "not JSON, and nothing after it can be read"
                if not self._grow():
                    return _INCOMPLETE, ""
                continue
            if stop == len(self._text) and not isinstance(value, dict) and self._grow():
                continue
            self._advance(stop)
            return value, ""

    def _decoded(self) -> tuple[Any, int]:
        try:
            return _ARRAYS_DECODER.raw_decode(self._text, self._pos)
        except json.JSONDecodeError:
            raise
        except ValueError:  # a number with too many digits
            return _ARRAYS_LONG_DECODER.raw_decode(self._text, self._pos)

    def _advance(self, pos: int) -> None:
        passed = self._text[self._pos : pos]
        self.offset += len(passed) if passed.isascii() else len(passed.encode())
        self._pos = pos

    def _grow(self) -> bool:
        """Read more, twice as much each time an item is longer than the buffer; False at the end of the file."""
        kept = self._text[self._pos :]
        raw = self._file.read(min(self._left, max(self._piece, len(kept))))
        self._left -= len(raw)
        self._text, self._pos = kept + self._decoder.decode(raw), 0
        return bool(raw)


#: Bytes before a position that must be unchanged when a file has grown.
_TAIL = 4096


def read_appended(path: Path, offset: int, size: int) -> tuple[int, bytes] | None:
    """The bytes from `offset` to `size` and the last ones before, with their position; None when that fails."""
    base = max(0, offset - _TAIL)
    try:
        with path.open("rb", buffering=0) as file:
            file.seek(base)
            return base, file.read(size - base)
    except OSError:
        return None


def digest_before(found: tuple[int, bytes], end: int) -> bytes:
    """A digest of the last bytes before a position."""
    base, data = found
    return blake2b(data[max(0, end - _TAIL - base) : end - base], digest_size=16).digest()


def tail_digest(path: Path, offset: int) -> bytes | None:
    """A digest of the last bytes before a position; None when they cannot be read."""
    found = read_appended(path, offset, offset)
    return None if found is None else digest_before(found, offset)
