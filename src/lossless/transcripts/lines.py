"""Lines of JSON, read as a stream: memory holds one line, and a line that is still being written waits."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, Any, BinaryIO

from lossless.errors import BadInput
from lossless.transcripts.entries import BadLine, FileState, Line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lossless.transcripts.entries import Record

BOM = b"\xef\xbb\xbf"
#: Longer lines are skipped: no archive could keep such a record.
LONGEST_LINE = 1 << 30
_BUFFER = 1 << 18


def file_state(path: Path) -> FileState:
    """What the file system says of the file now; BadInput when there is no file to read, or its name is no text."""
    if not str(path).isascii() and any("\ud800" <= character <= "\udfff" for character in str(path)):
        raise BadInput(f"cannot read {str(path)!r}: its name is not UTF-8; give it another one")
    try:
        found = path.stat()
    except OSError as error:
        raise _unreadable(path, error) from error
    if not stat.S_ISREG(found.st_mode):
        raise BadInput(f"cannot read {str(path)!r}: not a file")
    return FileState(path, found.st_size, found.st_mtime_ns // 1_000_000)


def opened(path: Path) -> BinaryIO:
    """The file, open for reading; BadInput when that is refused."""
    try:
        return path.open("rb", buffering=_BUFFER)
    except OSError as error:
        raise _unreadable(path, error) from error


def read_lines(
    path: Path, size: int, start: int = 0, number: int = 1, *, longest: int = LONGEST_LINE
) -> Iterator[Record]:
    """The records from byte `start` on, the first line there being `number`, up to byte `size`.

    Blank lines pass. The last line is left out while it has no line feed and is no complete object, so the
    `end` of whatever came last is where to go on, with the number after it.
    """
    with opened(path) as file:
        yield from lines_of(file, size, start, number, longest=longest)


def lines_of(
    file: BinaryIO, size: int, start: int, number: int, *, base: int = 0, longest: int = LONGEST_LINE
) -> Iterator[Record]:
    """The same of an open file, or of a part of one that begins at byte `base` of it."""
    at = start + _rest_of_line(file, start - base, size - base)
    while at < size:
        limit = min(size - at, longest)
        length, is_ended, found = _next(file, limit, is_first=at == 0)
        if not is_ended and at + length < size:
            if length < limit:
                return  # The file is shorter than it was.
            length, found = length + _skip_line(file, size - at - length), "longer than a line may be"
            is_ended = True
        line = Line(number, at, at + length)
        if isinstance(found, dict):
            yield line, found
        elif found is not None and is_ended:
            yield BadLine(line, found)
        del found
        at, number = line.end, number + 1


def _next(file: BinaryIO, limit: int, *, is_first: bool) -> tuple[int, bool, dict[str, Any] | str | None]:
    """The next line: its length, whether it has a line feed, and its object, what is wrong, or None if blank."""
    raw = file.readline(limit)
    length, is_ended = len(raw), raw.endswith(b"\n")
    if is_first and raw.startswith(BOM):
        raw = raw[len(BOM) :]
    if not raw or raw.isspace():
        return length, is_ended, None
    try:
        text = raw.decode()
        del raw
        return length, is_ended, _object(text)
    except UnicodeDecodeError:
        return length, is_ended, "not UTF-8"


def _object(text: str) -> dict[str, Any] | str:
    try:
        value = _decoded(text)
    except RecursionError:
        return "nested too deeply"
    except ValueError:
        return "not JSON"
    return value if isinstance(value, dict) else "not an object"


def _decoded(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # perhaps a number that is too long
        return _LONG_DECODER.decode(text)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def number_or_digits(digits: str) -> int | str:
    """A whole number; its digits as a text where there are more of them than Python reads."""
    try:
        return int(digits)
    except ValueError:
        return digits


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_LONG_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_int=number_or_digits)


def _rest_of_line(file: BinaryIO, start: int, size: int) -> int:
    """How many bytes at `start` only end a line that was read before its line feed had come."""
    if start == 0:
        return 0
    file.seek(start - 1)
    if file.read(1) != b"\n":
        rest = file.readline(min(_BUFFER, max(0, size - start)))
        if rest.isspace():
            return len(rest)
        file.seek(start)
    return 0


def _skip_line(file: BinaryIO, left: int) -> int:
    """Go behind the next line feed; how far that was."""
    passed = 0
    while passed < left:
        raw = file.readline(min(_BUFFER, left - passed))
        passed += len(raw)
        if not raw or raw.endswith(b"\n"):
            break
    return passed


def _unreadable(path: Path, error: OSError) -> BadInput:
    reason = os.strerror(error.errno) if error.errno else type(error).__name__
    return BadInput(f"cannot read {str(path)!r}: {reason}")
