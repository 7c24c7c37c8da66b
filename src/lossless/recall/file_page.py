"""A stored file, page by page: cut between characters, by lines when asked, never half a letter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from lossless.errors import ArchiveError, BadInput, NotFound
from lossless.recall import cursors

if TYPE_CHECKING:
    from lossless.files.vault import Vault
    from lossless.model.files import StoredFile
    from lossless.recall.room import Room

MIN_BYTES, MAX_BYTES, DEFAULT_BYTES = 1024, 512_000, 32_768
_CHUNK = 1 << 16
_SNIFFED = 4096
_LARGEST = 1 << 50
#: The share of bytes that are no UTF-8 from which on a file is no text.
_STRANGE = 0.12

#: Bytes of an opened file: from an offset on, at most so many.
ReadAt: TypeAlias = Callable[[int, int], bytes]


class OpenFile(Protocol):
    """Opens the bytes of a stored file where they may safely be read; None when they are not there."""

    def __call__(self, stored: StoredFile, /) -> ReadAt | None: ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which part of a file: from a line or a byte on, up to a line (inside) or so many bytes."""

    start_line: int | None = None
    end_line: int | None = None
    max_bytes: int = DEFAULT_BYTES
    offset: int = 0
    #: How many lines are still wanted; None means all.
    lines: int | None = None

    def __post_init__(self) -> None:
        if self.start_line is not None and self.end_line is not None and self.end_line < self.start_line:
            raise BadInput(f"endLine ({self.end_line}) is before startLine ({self.start_line})")


@dataclass(frozen=True, slots=True)
class FilePage:
    """A piece of a file: `text` is its bytes from `start` up to, without, `end`."""

    text: str
    start: int
    end: int
    #: Where the rest is, when there is a rest.
    cursor: str | None = None
    #: Why there is nothing, or less than asked for.
    note: str | None = None


def wanted_at(file_id: str, cursor: str, max_bytes: int) -> Wanted:
    """What a cursor asks for."""
    fields = cursors.decode("file", cursor, {"id": str, "o": int, "n": int})
    if fields["id"] != file_id or not 0 <= fields["o"] < _LARGEST:
        raise cursors.spoilt()
    return Wanted(max_bytes=max_bytes, offset=fields["o"], lines=fields["n"] if fields["n"] >= 0 else None)


def read_page(file_id: str, read: ReadAt, wanted: Wanted, room: Room) -> FilePage:
    """The wanted part of a file, as much of it as there is room for. Bytes that are no UTF-8 become U+FFFD."""
    if is_binary(read(0, _SNIFFED)):
        return FilePage("", 0, 0, note="binary; its content is not shown")
    start, lines = wanted.offset, wanted.lines
    if wanted.start_line is not None or wanted.end_line is not None:
        first = wanted.start_line or 1
        start, seen = _line_offset(read, first)
        if seen < first:
            return FilePage("", start, start, note=f"it has {seen:,} lines")
        lines = None if wanted.end_line is None else wanted.end_line - first + 1
    data = read(start, wanted.max_bytes + 4)
    whole = data[: _line_end(data, lines)]
    kept = whole if len(whole) <= wanted.max_bytes else whole[: _boundary(whole, wanted.max_bytes)]
    text = room.head(kept.decode("utf-8", "surrogateescape"))
    end = start + len(text.encode("utf-8", "surrogateescape"))
    shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if end == start + len(whole):
        return FilePage(shown, start, end)
    left = -1 if lines is None else lines - text.count("\n")
    cursor = cursors.encode("file", {"id": file_id, "o": end, "n": left})
    return FilePage(shown, start, end, cursor, None if text else "the cap is too small to show anything")


def is_binary(head: bytes) -> bool:
    """Whether a file that begins like this is no text: NUL in it, or much that is no UTF-8.

    >>> is_binary(bytes(range(128, 256))), is_binary("Größe".encode("latin-1") + b" is not all of it")
    (True, False)
    """
    strange = head.decode("utf-8", "replace").count("\ufffd") - head.count(b"\xef\xbf\xbd")
    return b"\0" in head or strange > len(head) * _STRANGE


def _line_offset(read: ReadAt, line: int) -> tuple[int, int]:
    """Where a line begins, counted from 1, and how many lines were seen; less than `line` when there are fewer."""
    offset, seen = 0, 1
    while seen < line:
        chunk = read(offset, _CHUNK)
        if not chunk:
            return offset, seen - 1 if _ends_line(read, offset) else seen
        count = chunk.count(b"\n")
        if seen + count < line:
            seen, offset = seen + count, offset + len(chunk)
            continue
        at = -1
        for _ in range(line - seen):
            at = chunk.index(b"\n", at + 1)
        offset, seen = offset + at + 1, line
    return (offset, seen) if line == 1 or read(offset, 1) else (offset, line - 1)


def _ends_line(read: ReadAt, offset: int) -> bool:
    """Whether nothing follows the last end of a line before `offset`."""
    return offset == 0 or read(offset - 1, 1) == b"\n"


def _line_end(data: bytes, lines: int | None) -> int:
    """Where the `lines`-th line of `data` ends, or all of it."""
    if lines is None:
        return len(data)
    at = 0
    for _ in range(lines):
        found = data.find(b"\n", at)
        if found < 0:
            return len(data)
        at = found + 1
    return at


def _boundary(data: bytes, most: int) -> int:
    """The last place up to `most` where a letter begins; `data` reaches beyond it."""
    for place in range(most, max(0, most - 4), -1):
        if data[place] & 0xC0 != 0x80:
            return place
    return most


def from_vault(vault: Vault) -> OpenFile:
    """The files of a vault, for `describe`; one that is missing or must not be read is as if it were not there."""

    def open_file(stored: StoredFile, /) -> ReadAt | None:
        try:
            vault.read(stored, 0, 0)
        except (NotFound, ArchiveError):
            return None
        return lambda offset, most: vault.read(stored, offset, most).data

    return open_file
