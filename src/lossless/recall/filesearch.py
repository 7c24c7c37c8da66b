"""Search inside stored files: their bytes where they can be read, else the text that stands in the message."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.errors import ArchiveError, NotFound
from lossless.files import grep as inside
from lossless.recall.found import Finding
from lossless.recall.query import understand

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lossless.files.vault import Vault
    from lossless.model.files import StoredFile
    from lossless.recall.scan import Pattern
    from lossless.store.archive import Archive
    from lossless.store.texts import Where

_REFERENCE_HEAD = "[LCM "


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many matches, how long, and where the bytes are."""

    most: int
    seconds: float
    vault: Vault | None = None


def in_files(
    archive: Archive, where: Where, find: inside.Find, file_ids: Sequence[str], bounds: Bounds
) -> tuple[list[Finding], bool]:
    """Matches in the files of a scope, newest file first; whether all of it was looked at."""
    most, end = bounds.most, time.monotonic() + bounds.seconds
    found: list[Finding] = []
    is_whole = True
    for file in archive.files.listed(where, file_ids):
        if time.monotonic() > end:
            return found[:most], False
        try:
            matches, is_cut = _matches(archive, file, find, bounds.vault)
        except TimeoutError:
            matches, is_cut = [], True
        is_whole = is_whole and not is_cut
        found += [_finding(file, match) for match in matches]
        if len(found) > most:
            return found[:most], False
    return found, is_whole


def _matches(
    archive: Archive, file: StoredFile, find: inside.Find, vault: Vault | None
) -> tuple[Sequence[inside.Match], bool]:
    if vault is not None:
        try:
            scan = inside.grep(vault, file, find)
        except (NotFound, ArchiveError):
            scan = None
        else:
            return (scan.matches, scan.is_cut) if scan is not None else ((), False)
    text = archive.files.text_of(file)
    if text is None or (text.startswith(_REFERENCE_HEAD) and file.id in text[:200]):
        return (), vault is None
    return inside.matches_in(file.id, text, find), False


def _finding(file: StoredFile, match: inside.Match) -> Finding:
    line = " ".join(match.snippet.split())
    start = line.find(" ".join(match.text.split()))
    spots = ((start, start + len(" ".join(match.text.split()))),) if start >= 0 else ()
    return Finding(
        file.id, "file", file.conversation_id, None, 0.0, line, file.created_at,
        matches=spots, name=file.name, line=match.line, offset=match.byte_offset,
    )  # fmt: skip


def find_words(pattern: str) -> inside.Find:
    """Finds the words of a question: texts that hold all of them, whatever their case."""
    query = understand(pattern)
    return inside.all_terms([term.text for term in query.asked] or [pattern.strip()])


def find_pattern(pattern: Pattern, seconds: float) -> inside.Find:
    """Finds the matches of a regular expression."""

    def find(text: str) -> Iterable[tuple[int, int]]:
        at = 0
        for _ in range(inside.MAX_MATCHES):
            found = pattern.find(text[at:], seconds)
            if found is None:
                return
            yield at + found[0], at + found[1]
            at += max(found[1], found[0] + 1)

    return find
