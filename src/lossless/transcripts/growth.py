"""What was added to a file of lines, read at once with the bytes before it, which show that it is the same file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from hashlib import blake2b
from io import BytesIO
from typing import TYPE_CHECKING

from lossless.transcripts.lines import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lossless.transcripts.entries import Record

#: Bytes before a place that must still be there when a file has grown.
_TAIL = 4096


@dataclass(frozen=True, slots=True)
class Growth:
    """The bytes of a file from a little before some place on."""

    #: Where in the file they begin.
    base: int
    data: bytes

    def tail(self, end: int) -> bytes:
        """A digest of the last bytes before a place."""
        return blake2b(self.data[max(0, end - _TAIL - self.base) : end - self.base], digest_size=16).digest()

    def records(self, start: int, number: int) -> Iterator[Record]:
        """The records from byte `start` on, the first line there being `number`."""
        return lines_of(BytesIO(self.data), self.base + len(self.data), start, number, base=self.base)


def read_growth(path: Path, offset: int, size: int) -> Growth | None:
    """The bytes from `offset` to `size`, and the last ones before; None when they cannot be read."""
    base = max(0, offset - _TAIL)
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        return Growth(base, os.pread(file, size - base, base))
    except OSError:
        return None
    finally:
        os.close(file)


def tail_of(path: Path, offset: int) -> bytes | None:
    """A digest of the last bytes before a place; None when they cannot be read."""
    found = read_growth(path, offset, offset)
    return None if found is None else found.tail(offset)
