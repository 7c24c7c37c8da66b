"""Every value of a database file, also in compressed columns and search indexes: the proof that words are gone.

Works on any SQLite file, and reads only.
"""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING

import apsw

from lossless.store.skeleton import unsqueeze
from lossless.store.sql import load
from lossless.store.sqlite import SqliteDatabase, refused

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_QUERIES = load("absence")
_TABLES = load("forgetting")
_TOKENIZER = re.compile(r"tokenize\s*=\s*(?P<quote>['\"])(?P<how>(?:(?!(?P=quote)).)*)(?P=quote)", re.IGNORECASE)
#: Where the number of a segment begins in the id of a block, and the first number that is none.
_SEGMENT_BITS, _LAST_SEGMENT = 37, 1 << 16


class Absence:
    """Reads a whole database file."""

    def __init__(self, path: str) -> None:
        self._db = SqliteDatabase(path, read_only=True)

    def __enter__(self) -> Absence:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def values(self) -> Iterator[tuple[str, str | bytes]]:
        """All texts and bytes with their places; what is compressed comes once more as text."""
        for (table,) in self._db.rows(_TABLES["every_table"]):
            names = [row[0] for row in self._db.rows(_TABLES["columns"], {"table": table})]
            for count, row in enumerate(self._db.stream(f'SELECT * FROM "{table}"'), 1):
                for name, value in zip(names, row, strict=False):
                    if isinstance(value, str | bytes):
                        place = f"{table}.{name}, row {row[0] if isinstance(row[0], int) else count}"
                        yield place, value
                        if isinstance(value, bytes) and (text := _inflated(value)) is not None:
                            yield f"{place} (compressed)", text

    def leftovers(self, phrases: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Search indexes that hold words of deleted rows, each with the phrase that these are of."""
        for table, sql in self._db.rows(_QUERIES["indexes"]):
            terms = self._terms(table)
            if not terms:
                continue
            for phrase in phrases:
                if any(token.encode() in terms and not self._is_live(table, token) for token in _tokens(phrase, sql)):
                    yield table, phrase

    def _terms(self, table: str) -> set[bytes]:
        """All terms in all segments of an index, those of deleted rows among them."""
        found: set[bytes] = set()
        for id_, block in self._db.stream(f'SELECT id, block FROM "{table}_data"'):
            segment = id_ >> _SEGMENT_BITS
            is_leaf = 0 < segment < _LAST_SEGMENT and not (id_ >> 31) & 0x3F
            if is_leaf and isinstance(block, bytes) and len(block) > 4:
                found.update(term[1:] for term in leaf_terms(block))
        return found

    def _is_live(self, table: str, token: str) -> bool:
        """Whether a row that is there holds a term, as the index itself says."""
        with self._db.aside() as connection:
            try:
                connection.execute(f'CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, "{table}", row)')
                return connection.execute(_QUERIES["term"], {"term": token}).fetchone() is not None
            except apsw.Error as error:
                raise refused(error, self._db.path) from error


def leaf_terms(block: bytes) -> Iterator[bytes]:
    """The terms on a leaf page of an FTS5 index, each with the byte that says which index it is of."""
    place = int.from_bytes(block[2:4])
    end, at, before = place, 0, b""
    while place < len(block):
        step, place = _varint(block, place)
        at += step
        if at >= end:
            return
        is_first = not before
        keep, start = (0, at) if is_first else _varint(block, at)
        size, start = _varint(block, start)
        before = before[:keep] + block[start : start + size]
        yield before


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number as SQLite writes it, and where the next one begins."""
    value = 0
    for n in range(8):
        byte = data[at + n] if at + n < len(data) else 0
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + n + 1
    return value << 8 | (data[at + 8] if at + 8 < len(data) else 0), at + 9


def _tokens(phrase: str, sql: str) -> list[str]:
    """What the tokenizer of an index makes of a phrase; nothing where it is another program's."""
    found = _TOKENIZER.search(sql)
    how = "" if found is None else ", tokenize = '" + found["how"].replace("'", "''") + "'"
    connection = apsw.Connection(":memory:")
    try:
        connection.execute(f"CREATE VIRTUAL TABLE asked USING fts5 (body{how})")
        connection.execute(_QUERIES["ask"], (phrase,))
        connection.execute(_QUERIES["asked_terms"])
        return [row[0] for row in connection.execute(_QUERIES["all_terms"])]
    except apsw.Error:
        return []
    finally:
        connection.close()


def _inflated(value: bytes) -> str | None:
    """The text of a compressed column."""
    try:
        if value[:1] == b"1":
            return unsqueeze(value)
        return zlib.decompress(value).decode("utf-8", "surrogatepass") if value[:1] == b"\x78" else None
    except (ValueError, zlib.error):
        return None
