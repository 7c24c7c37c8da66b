"""Whether search finds what was indexed: SQLite's own look at our index, and rows looked for by their own words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lossless.errors import ArchiveCorrupt
from lossless.model.index_text import index_text_of
from lossless.store.index import digest, index_pieces
from lossless.store.sql import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lossless.store.database import Database

_QUERIES = load("findable")
#: Rows of each table that a quick look searches for, evenly spread, by so many words each.
_SAMPLES = 12
_WORDS = 6
#: A word that every tokenizer takes for one: the index is asked for it as it is written.
_WORD = re.compile(r"(?<![A-Za-z0-9\x80-\U0010ffff])[A-Za-z]{4,24}(?![A-Za-z0-9\x80-\U0010ffff])")


class Findable:
    """Looks at our full-text tables; never writes."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def damaged(self) -> tuple[str, ...]:
        """Our full-text tables that are damaged, or that do not find what they hold; quick, as it takes samples."""
        return tuple(table for table in ("message_index", "summary_index", "version_index") if self._is_damaged(table))

    def _is_damaged(self, table: str) -> bool:
        try:
            if any(text != "ok" for (text,) in self._db.rows(_QUERIES[f"{table}_integrity"])):
                return True
            return any(
                not self.has(table, rowid, word) for rowid, text in self._samples(table) for word in _some(text, _WORDS)
            )
        except ArchiveCorrupt:
            return True

    def lacking(self, table: str, rows: Iterable[tuple[int, str]]) -> Iterator[int]:
        """Those of some index rows that are not found by the longest word of their text."""
        for rowid, text in rows:
            if (word := max(_WORD.findall(text), key=len, default=None)) and not self.has(table, rowid, word):
                yield rowid

    def has(self, table: str, rowid: int, word: str) -> bool:
        """Whether a row of the index is found by a word."""
        place: dict[str, Any] = {"rowid": rowid, "match": f'body: "{word}"'}
        return self._db.row(_QUERIES[f"{table}_has"], place) is not None

    def _samples(self, table: str) -> Iterator[tuple[int, str]]:
        """Rows of an index whose text is certain, each with what it holds."""
        first, last = self._db.row(_QUERIES[f"{table}_span"]) or (None, None)
        if first is None or last is None:
            return
        for at in sorted({first + (last - first) * n // _SAMPLES for n in range(_SAMPLES + 1)}):
            row = self._db.row(_QUERIES[f"{table}_sample"], {"at": at})
            if row is None or not isinstance(row[1], str):
                continue
            text = index_text_of(row[1]) if table == "message_index" else row[1]
            if row[2][:8] == digest(text) and (pieces := index_pieces(text)):
                yield row[0], pieces[0][1] if table == "message_index" else text


def _some(text: str, most: int) -> list[str]:
    """Words of a text, evenly spread over the alphabet, which is how an index is laid out."""
    words = sorted({word.lower() for word in _WORD.findall(text)})
    return words[:: max(1, len(words) // most)][:most]
