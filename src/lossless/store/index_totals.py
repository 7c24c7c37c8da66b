"""Totals over a search index, by which one that holds other words than its rows is known, word for word."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import apsw

from lossless.model.index_text import extra_tokens
from lossless.store.migrate import split_script
from lossless.store.sql import load, schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lossless.store.database import Database

_QUERIES = load("index_totals")
_MODULO = 1 << 64


@dataclass(slots=True)
class Totals:
    """What an index holds in all: a sum over its words with their places, how many rows and tokens it counts."""

    words: int = 0
    counts: list[int] = field(default_factory=lambda: [0, 0, 0])

    def add(self, sums: Iterable[tuple[str, int]], counted: bytes | None) -> None:
        """Add the words of an index, each with the sum over its places, and the record of its sizes."""
        for word, places in sums:
            self.words = (self.words + _number(word) * places) % _MODULO
        for n, count in enumerate(_varints(counted or b"")[:3]):
            self.counts[n] += count


def _number(word: str) -> int:
    return int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def _varints(data: bytes) -> list[int]:
    """The numbers of a record of FTS5: seven bits a byte, the ninth byte whole."""
    found, value, length = [], 0, 0
    for byte in data:
        length += 1
        value = (value << 8) | byte if length == 9 else (value << 7) | (byte & 0x7F)
        if byte < 0x80 or length == 9:
            found.append(value)
            value = length = 0
    return found


class Scratch:
    """An index in memory, of the same kind as ours, for some rows at a time."""

    def __init__(self, totals: Totals) -> None:
        self._totals = totals
        self._db = apsw.Connection(":memory:")
        for statement in split_script(schema("additions")):
            if statement.startswith("CREATE VIRTUAL TABLE IF NOT EXISTS message_index "):
                self._statement = statement
        self._db.execute(self._statement)

    def sizes(self, texts: Sequence[tuple[int, str]]) -> list[bytes]:
        """What SQLite notes about the size of each of these rows, which count in the totals."""
        self._db.execute(_QUERIES["drop_scratch"])
        self._db.execute(self._statement)
        with self._db:
            rows = [(id_, text, extra_tokens(text)) for id_, text in texts]
            self._db.executemany(_QUERIES["scratch_row"], rows)
        self._db.execute(_QUERIES["message_index_words"])
        sums: list[tuple[Any, ...]] = self._db.execute(_QUERIES["sums"]).fetchall()
        counted: list[tuple[Any, ...]] = self._db.execute(_QUERIES["message_index_counts"]).fetchall()
        self._totals.add(((row[0], row[1]) for row in sums), counted[0][0] if counted and texts else None)
        self._db.execute(_QUERIES["drop_words"])
        noted: list[tuple[Any, ...]] = self._db.execute(_QUERIES["scratch_sizes"]).fetchall()
        sizes: dict[int, bytes] = {row[0]: row[1] for row in noted}
        return [sizes[id_] for id_, _ in texts]

    def settings(self) -> list[tuple[str, object]]:
        """How such an index is set up."""
        found: list[tuple[Any, ...]] = self._db.execute(_QUERIES["message_index_settings"]).fetchall()
        return [(row[0], row[1]) for row in found]


class IndexTotals:
    """Reads the totals of an index that is stored."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def of(self, table: str) -> Totals:
        found = Totals()
        if self._db.row(_QUERIES["is_stored"], {"table": table}) is None:  # a file that only others have written
            return found
        with self._writable():
            self._db.run(_QUERIES[f"{table}_words"])
        try:
            row = self._db.row(_QUERIES[f"{table}_counts"])
            sums = ((term, places) for term, places in self._db.rows(_QUERIES["sums"]))
            found.add(sums, row[0] if row else None)
        finally:
            with self._writable():
                self._db.run(_QUERIES["drop_words"])
        return found

    def settings(self, table: str) -> list[tuple[str, object]]:
        """How an index that is stored is set up."""
        return [(row[0], row[1]) for row in self._db.rows(_QUERIES[f"{table}_settings"])]

    @contextmanager
    def _writable(self) -> Iterator[None]:
        """A temporary table is no change of the file, though SQLite counts it as one."""
        if self._db.read_only:
            self._db.run("PRAGMA query_only = OFF")
        try:
            yield
        finally:
            if self._db.read_only:
                self._db.run("PRAGMA query_only = ON")
