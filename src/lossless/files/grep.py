"""Search inside stored payloads: text only, the first half megabyte of each, a few matches per file."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from lossless.files.media_types import is_text_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lossless.files.vault import Vault
    from lossless.model.messages import StoredFile

#: Yields the spans `(start, end)` of matches in a text, in order.
FindSpans: TypeAlias = "Callable[[str], Iterable[tuple[int, int]]]"

SCAN_BYTES = 512_000
MAX_MATCHES = 10
_AROUND = 80


#: A match in a file: its line from 1, its byte offset, its text and the text around it.
FileMatch: TypeAlias = tuple[int, int, str, str]


def grep_file(vault: Vault, file: StoredFile, find: FindSpans) -> tuple[list[FileMatch], bool] | None:
    """The matches in a payload, and whether only its beginning was searched; None for a binary one."""
    if not is_text_type(file.mime):
        return None
    piece = vault.read_text(file, 0, SCAN_BYTES)
    return matches_in(piece.text, find), piece.is_cut


def matches_in(text: str, find: FindSpans) -> list[FileMatch]:
    found: list[FileMatch] = []
    line, offset, at = 1, 0, 0
    for start, end in islice((span for span in find(text) if span[1] > span[0]), MAX_MATCHES):
        line += text.count("\n", at, start)
        offset += len(text[at:start].encode("utf-8", "surrogatepass"))
        at = start
        found.append((line, offset, text[start:end], match_snippet(text, start, end)))
    return found


def match_snippet(text: str, start: int, end: int) -> str:
    """A match with 80 characters on both sides, on one line.

    >>> match_snippet("one\\ntwo three", 4, 7)
    'one two three'
    """
    begin, stop = max(0, start - _AROUND), min(len(text), end + _AROUND)
    middle = " ".join(text[begin:stop].split())
    return f"{'...' if begin else ''}{middle}{'...' if stop < len(text) else ''}"


def find_all_terms(terms: Sequence[str]) -> FindSpans:
    """Finds the first term in texts that contain all of them, case-insensitively; nothing without terms."""
    patterns = [re.compile(re.escape(term), re.IGNORECASE) for term in terms if term]

    def find(text: str) -> Iterable[tuple[int, int]]:
        if not patterns or not all(pattern.search(text) for pattern in patterns):
            return ()
        return (match.span() for match in patterns[0].finditer(text))

    return find
