"""Reads for `lcm verify`: what must hold of the rows, and the pages from which the rest is worked out again."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.errors import ArchiveCorrupt, ArchiveError
from lossless.model.identity import file_id
from lossless.store import migrate
from lossless.store.findable import Findable
from lossless.store.foreign import text
from lossless.store.index import PASSAGE_BASE, SearchIndex, digest, index_pieces
from lossless.store.index_totals import IndexTotals, Scratch, Totals
from lossless.store.row_digests import RowDigests, payload_digest
from lossless.store.sql import load

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from lossless.store.database import Database

_QUERIES, _VERSIONS = load("verify"), load("versions")
_PAGE = 500
_ONE_IN = 20
#: Ids of rows that the index lacks, while it is worked out what they should be.
_NOWHERE = 1 << 50
_WRONG_ROW = "its row in the index is not made of its text"
#: How SQLite names the table in a complaint about rows, or the index of one.
_COMPLAINT = re.compile(r"(?:FTS5 table \w+\.|from table .|constraint failed in |value in )(\w+)")
_INDEX_COMPLAINT = re.compile(r"\bindex (\w+)")


@dataclass(frozen=True, slots=True)
class Offender:
    """A row that breaks a rule."""

    table: str
    id: str
    detail: str


@dataclass(frozen=True, slots=True)
class Derived:
    """What was worked out about a message when it was stored."""

    message_id: int
    identity: str | None
    fingerprint: bytes | None
    digest: bytes | None
    #: How many tokens its row in the index has, a blob of SQLite's; None without such a row.
    size: bytes | None = None
    #: The same for its further passages: where they begin, how long they are.
    passages: tuple[tuple[int, int, bytes | None], ...] = ()
    #: The rows of its further passages in the index.
    further: tuple[int, ...] = ()

    @property
    def index_ids(self) -> tuple[int, ...]:
        """Its rows in the index."""
        return (self.message_id, *self.further)

    @property
    def indexed(self) -> bytes | None:
        """The digest of its indexed text."""
        return None if self.digest is None else self.digest[:8]


@dataclass(frozen=True, slots=True)
class FilePlace:
    """A stored payload: where its bytes should lie, and by what they are known again."""

    id: str
    place: str
    size: int | None
    conversation_id: int
    digest: bytes | None
    #: Whether a program of ours wrote its row: then its id, or the digest, proves the bytes.
    is_ours: bool

    def is_proven_by(self, data: bytes) -> bool:
        """Whether these are its bytes, as far as anybody can say."""
        if self.digest is not None:
            return self.digest == payload_digest(data)
        return self.has_id_of(data) or not self.is_ours

    def has_id_of(self, data: bytes) -> bool:
        """Whether its id was made of these bytes, in its conversation or in the one that it was stored for."""
        folder = Path(self.place).parent.name
        numbers = {self.conversation_id, int(folder) if folder.isascii() and folder.isdigit() else self.conversation_id}
        return any(file_id(number, data) == self.id for number in numbers)


class Checks:
    """Finds offenders; never writes."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def integrity(self) -> Iterator[Offender]:
        """What SQLite itself says about the file and its references."""
        try:
            for (text,) in self._db.rows(_QUERIES["integrity"]):
                if text != "ok":
                    yield Offender(self._table_in(text), self._db.path, text)
        except ArchiveCorrupt as error:
            yield Offender("database", self._db.path, str(error))
            return
        for table, rowid, parent, _ in self._db.rows(_QUERIES["foreign_keys"]):
            yield Offender(table, str(rowid), f"it refers to a row of {parent!r} that is not there")

    def _table_in(self, text: str) -> str:
        """The table whose rows SQLite complains about; `database` when the file itself is damaged."""
        if found := _COMPLAINT.search(text):
            return found[1]
        if found := _INDEX_COMPLAINT.search(text):
            row = self._db.row(_QUERIES["table_of_index"], {"name": found[1]})
            return row[0] if row else "database"
        return "database"

    def tables(self) -> list[Offender]:
        """Tables that are not declared as they were: another name, columns that are missing."""
        return [Offender(table, "", detail) for table, detail in migrate.damage(self._db)]

    def rows(self, without: Collection[str] = ()) -> Iterator[Offender]:
        """Offenders of the rules in `verify.sql`, table by table, but for some rules."""
        for name, sql in _QUERIES.items():
            table, _, rule = name.partition(".")
            if rule and name not in without:
                try:
                    found = self._db.rows(sql)
                except ArchiveError as error:  # of a text that is no JSON, say: the other rules still hold
                    found = [("", str(error))]
                lawful = self._rewritten_in() if found and name == "ingest_state.tokens" else ()
                for id_, detail in found:
                    if id_ not in lawful:
                        yield Offender(table, str(id_), detail)

    def rule(self, name: str) -> list[Offender]:
        """Offenders of one rule."""
        return [Offender(name.partition(".")[0], str(id_), detail) for id_, detail in self._db.rows(_QUERIES[name])]

    def out_of_order(self) -> Iterator[tuple[Offender, bool]]:
        """Items of contexts that stand behind younger ones, and whether that is certain: behind a message."""
        for conversation_id, ordinal, is_certain in self._db.rows(_QUERIES["context_order"]):
            detail = "it stands behind what came later"
            yield Offender("context_items", f"{conversation_id}:{ordinal}", detail), bool(is_certain)

    def rewritten(self) -> frozenset[str]:
        """Summaries that lossless-claw gave another text: its doctor keeps its own search table in step."""
        if "summaries_fts" not in SearchIndex(self._db).upstream:
            return frozenset()
        changed = RowDigests(self._db).changed_rows(("summaries",))
        ids = [str(json.loads(key)[0]) for _, key, _ in changed]
        return frozenset(id_ for id_ in ids if self._has_other_words(id_))

    def _has_other_words(self, summary_id: str) -> bool:
        """Whether lossless-claw has written the text of a summary, and it is not the one that was indexed."""
        row = self._db.row(_QUERIES["rewritten"], {"id": summary_id})
        return row is not None and isinstance(row[0], str) and row[1] != digest(row[0])

    def _rewritten_in(self) -> frozenset[int]:
        """Conversations whose summaries lossless-claw has given another text, and so another size."""
        ids = {"ids": json.dumps(sorted(self.rewritten()))}
        return frozenset(row[0] for row in self._db.rows(_QUERIES["conversations_of"], ids))

    def upstream_lost(self) -> int:
        """How many rows lossless-claw's own search tables lack."""
        return SearchIndex(self._db).count_upstream_lost()

    def upstream_emptied(self) -> tuple[str, ...]:
        """Those of lossless-claw's own search tables that have lost all their rows."""
        return SearchIndex(self._db).emptied_upstream()

    def derived(self) -> Iterator[list[Derived]]:
        """All messages, page by page, with what was worked out about them."""
        after = 0
        while found := self._db.rows(_QUERIES["page"], {"after": after, "limit": _PAGE}):
            passages: defaultdict[int, list[tuple[int, int, bytes | None]]] = defaultdict(list)
            ids: defaultdict[int, list[int]] = defaultdict(list)
            for message_id, *passage in self._db.rows(
                _QUERIES["page_passages"], {"first": found[0][0], "last": found[-1][0], "base": PASSAGE_BASE}
            ):
                passages[message_id].append((passage[0], passage[1], passage[2]))
                ids[message_id].append(PASSAGE_BASE + passage[3])
            yield [
                replace(Derived(*row), passages=tuple(passages[row[0]]), further=tuple(ids[row[0]])) for row in found
            ]
            after = found[-1][0]

    def index_rows(self, texts: Sequence[tuple[Derived, str]], totals: Totals) -> Iterator[Offender]:
        """Messages whose rows in the index are not made of their text; what should be there is added to the totals."""
        pieces = [index_pieces(text) for _, text in texts]
        places = [
            place
            for (derived, _), some in zip(texts, pieces, strict=True)
            for place in zip_longest(derived.index_ids[: len(some)], some)
        ]
        known = [(_NOWHERE + n if id_ is None else id_, body) for n, (id_, (_, body)) in enumerate(places)]
        sizes = iter(Scratch(totals).sizes(known))
        for (derived, _), some in zip(texts, pieces, strict=True):
            expected = [(start, len(body), next(sizes)) for start, body in some]
            id_ = str(derived.message_id)
            if derived.size != (expected[0][2] if expected else None):
                yield Offender("message_index", id_, _WRONG_ROW if derived.size else "it is missing from the index")
            if [row[:2] for row in derived.passages] != [row[:2] for row in expected[1:]]:
                yield Offender("message_passages", id_, "its passages are not those of its text")
            elif list(derived.passages) != expected[1:]:
                yield Offender("message_index", id_, "the row of one of its passages is not made of its text")
        heads = [(derived.message_id, some[0][1]) for (derived, _), some in zip(texts, pieces, strict=True) if some]
        yield from self._unfound("message_index", heads)

    def version_rows(self, texts: Sequence[tuple[int, str]], totals: Totals) -> Iterator[Offender]:
        """Versions whose rows in the index are not made of their text; what should be there is added to the totals."""
        ids = json.dumps([version_id for version_id, _ in texts])
        sizes: dict[int, bytes] = dict(self._db.rows(_VERSIONS["sizes"], {"ids": ids}))
        indexed = [row for row in texts if index_pieces(row[1])]
        expected = dict(zip([id_ for id_, _ in indexed], Scratch(totals).sizes(indexed), strict=True))
        for version_id, _ in texts:
            if sizes.get(version_id) != expected.get(version_id):
                detail = _WRONG_ROW if version_id in sizes else "it is missing from the index"
                yield Offender("version_index", str(version_id), detail)
        yield from self._unfound("version_index", [row for row in texts if row[0] in sizes])

    def _unfound(self, table: str, rows: Sequence[tuple[int, str]]) -> Iterator[Offender]:
        """Of the index rows that are there, one in twenty: those that search does not find by their own words."""
        for rowid in Findable(self._db).lacking(table, rows[::_ONE_IN]):
            yield Offender(table, str(rowid), "its own words do not find it")

    def index_totals(self, table: str, expected: Totals) -> Iterator[Offender]:
        """Whether an index whose rows are right one by one holds what it should, and nothing else."""
        stored = IndexTotals(self._db)
        if stored.settings(table) != Scratch(Totals()).settings():
            yield Offender(table, "", "its settings are not those that it was made with")
        if stored.of(table) != expected:
            yield Offender(table, "", "its words are not those of the rows that it indexes")

    def summary_digests(self, totals: Totals) -> Iterator[Offender]:
        """Summaries whose indexed text is not their text; what should be in the index is added to the totals."""
        after = ""
        while found := self._db.rows(_QUERIES["summary_digests"], {"after": after, "limit": _PAGE}):
            indexed = [(row[4], row[1]) for row in found if row[4] is not None and isinstance(row[1], str)]
            sizes = dict(zip([id_ for id_, _ in indexed], Scratch(totals).sizes(indexed), strict=True))
            for summary_id, content, known, size, index_id in found:
                if not isinstance(content, str):
                    yield Offender("summaries", summary_id, "its content is no text")
                elif known is None:
                    yield Offender("summary_extras", summary_id, "it is not indexed yet")
                elif known != digest(content):
                    yield Offender("summaries", summary_id, "its text is not the text that was indexed")
                elif size != sizes[index_id]:
                    yield Offender("summary_index", summary_id, _WRONG_ROW if size else "it is missing from the index")
            texts = [row for row in found if isinstance(row[1], str) and row[3] is not None]
            yield from self._unfound("summary_index", [(row[4], row[1]) for row in texts if row[2] == digest(row[1])])
            after = found[-1][0]

    def not_smaller(self) -> list[tuple[str, str]]:
        """Summaries that are no smaller than their sources, each with the model that wrote it."""
        return [(row[0], row[1]) for row in self._db.rows(_QUERIES["not_smaller"])]

    def conversation_ids(self) -> list[int]:
        return [row[0] for row in self._db.rows(_QUERIES["conversation_ids"])]

    def unreachable(self, conversation_id: int) -> list[int]:
        """Messages that are neither in the context, nor below it, nor hidden with a cause."""
        return [row[0] for row in self._db.rows(_QUERIES["unreachable"], {"conversation_id": conversation_id})]

    def covered_twice(self, conversation_id: int) -> list[int]:
        """Messages that the context holds more than once."""
        return [row[0] for row in self._db.rows(_QUERIES["covered_twice"], {"conversation_id": conversation_id})]

    def file_places(self) -> list[FilePlace]:
        """Each stored payload: where its bytes should lie, and what is known of them."""
        digests, ours = RowDigests(self._db).payloads()
        return [
            FilePlace(
                text(id_),
                text(place),
                size,
                number,
                digests.get(id_),
                json.dumps([id_]) in ours if isinstance(id_, str) else False,
            )
            for id_, place, size, number in self._db.rows(_QUERIES["file_places"])
        ]
