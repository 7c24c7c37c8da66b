"""Messages from JSON lines: one by one, so that the length of the input does not matter."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from lossless.model.messages import Incoming
from lossless.model.times import from_epoch, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from lossless.model.messages import JsonObject

#: A longer line is no message.
MAX_LINE_BYTES = 100 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Where:
    """A line of an input; `file` is None for standard input."""

    file: str | None
    line: int

    def __str__(self) -> str:
        return f"line {self.line}" if self.file is None else f"{self.file}, line {self.line}"

    @property
    def opening(self) -> str:
        """The same where a sentence begins; a file keeps its name as it is."""
        return f"Line {self.line}" if self.file is None else str(self)


@dataclass(frozen=True, slots=True)
class GoodLine:
    """A line that holds an object; whether that is a message is seen when it is stored."""

    where: Where
    item: Incoming | JsonObject
    size: int


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that holds no message, and why."""

    where: Where
    reason: str


def read_lines(
    stream: BinaryIO,
    file: str | None,
    advance: Callable[[int], None] | None = None,
    *,
    longest: int = MAX_LINE_BYTES,
) -> Iterator[GoodLine | BadLine]:
    """Each line of a stream that is not blank; one that is longer than `longest` bytes is not read into memory."""
    number = 0
    while raw := stream.readline(longest + 1):
        number += 1
        where = Where(file, number)
        too_long = len(raw) > longest
        if advance:
            advance(len(raw))
        if too_long:
            _skip_line(stream, raw, advance)
            yield BadLine(where, f"it is longer than {longest // 1024 // 1024} MB")
        elif raw.strip():
            try:
                yield GoodLine(where, unwrap(parse(raw)), len(raw))
            except ValueError as error:
                yield BadLine(where, str(error))


def _skip_line(stream: BinaryIO, raw: bytes, advance: Callable[[int], None] | None) -> None:
    while raw and not raw.endswith(b"\n"):
        raw = stream.readline(1024 * 1024)
        if advance:
            advance(len(raw))


def parse(raw: bytes) -> Any:
    """The value in some JSON; ValueError says what is wrong without repeating the text."""
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        where = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"it is not JSON: {error.msg} at {where}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def unwrap(value: Any) -> Incoming | JsonObject:
    """A message, or `{"message": …, "id": …, "timestamp": …}` around one; ValueError for what is neither."""
    if not isinstance(value, dict):
        raise ValueError(f"expected an object with a message, got {_name(value)}")
    inner = value.get("message")
    if not isinstance(inner, dict) or "role" in value:
        return value
    return Incoming(inner, _entry_id(value.get("id")), _timestamp(value.get("timestamp")))


def _entry_id(value: Any) -> str | None:
    if value is None:
        return None
    if type(value) is int:
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise ValueError("its id must be a text or a number")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("its id is not valid Unicode") from None
    return value


def _timestamp(value: Any) -> datetime | None:
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return parse_time(value)
        if type(value) in (int, float):
            return from_epoch(value)
    except (ValueError, OverflowError, OSError):
        pass
    raise ValueError("its timestamp must be an ISO-8601 time or a number of seconds or milliseconds")


def _name(value: Any) -> str:
    names = {list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), "null")
