"""Reads for `lcm verify` and `lcm doctor`: broken rows, damaged or incomplete indexes, and symptoms of loss."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from graphlib import CycleError, TopologicalSorter
from hashlib import blake2b
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import apsw

from lossless.errors import ArchiveCorrupt, ArchiveError
from lossless.model.identity import file_id
from lossless.model.search_text import extra_tokens, index_text_of
from lossless.store import migrate
from lossless.store.database import (
    PASSAGE_BASE,
    Sql,
    TableAccess,
    column_text,
    column_time,
    group_rows,
    load_queries,
    schema_statements,
)
from lossless.store.files import payload_digest
from lossless.store.messages import SearchIndex, index_digest, index_pieces
from lossless.store.rows import RowDigests

#: How many rows of each table a quick check searches for, evenly spread, and by how many words each.
_SAMPLES = 12
_WORDS = 6
#: A word that every tokenizer keeps as one token.
_WORD = re.compile(r"(?<![A-Za-z0-9\x80-\U0010ffff])[A-Za-z]{4,24}(?![A-Za-z0-9\x80-\U0010ffff])")


@dataclass(slots=True)
class WordTotals:
    """Totals of an index: a sum over its words with their positions, its number of rows and tokens."""

    words: int = 0
    counts: list[int] = field(default_factory=lambda: [0, 0, 0])

    def add(self, sums: Iterable[tuple[Any, ...]], counted: bytes | None) -> None:
        """Add the words of an index, each with the sum over its positions, and its size record, an FTS5 record."""
        for word, places in sums:
            number = int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
            self.words = (self.words + number * places) % (1 << 64)
        at, data = 0, counted or b""
        for n in range(3):
            if at < len(data):
                count, at = varint(data, at)
                self.counts[n] += count


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number in SQLite's varint encoding, and where the next one begins."""
    value = 0
    for n in range(8):
        byte = data[at + n] if at + n < len(data) else 0
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + n + 1
    return value << 8 | (data[at + 8] if at + 8 < len(data) else 0), at + 9


def _scratch_index() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    for statement in schema_statements("additions"):
        if statement.startswith("CREATE VIRTUAL TABLE IF NOT EXISTS message_index "):
            connection.execute(statement)
    return connection


def _expected_sizes(texts: Sequence[tuple[int, str]], totals: WordTotals) -> dict[int, bytes]:
    """SQLite's size record of each of these rows in an index, which count in the totals."""
    connection, queries = _scratch_index(), VerifyReads.queries
    with connection:
        connection.executemany(queries["scratch_row"], [(id_, text, extra_tokens(text)) for id_, text in texts])
    connection.execute(queries["message_index_words"])
    counted: list[tuple[Any, ...]] = connection.execute(queries["message_index_counts"]).fetchall()
    totals.add(connection.execute(queries["sums"]).fetchall(), counted[0][0] if counted and texts else None)
    sizes: dict[Any, Any] = dict(list[Any](connection.execute(queries["scratch_sizes"])))
    return {id_: sizes[id_] for id_, _ in texts}


_VERSIONS = load_queries("versions")
_PAGE = 500
_ONE_IN = 20
#: Ids for rows that the index lacks, while their expected content is computed.
_NOWHERE = 1 << 50
_WRONG_ROW, _NO_ROW = "its index row does not match its text", "it is missing from the index"
#: How SQLite names the table, or its index, in an error about rows.
_COMPLAINT = re.compile(r"(?:FTS5 table \w+\.|from table .|constraint failed in |value in )(\w+)")
_INDEX_COMPLAINT = re.compile(r"\bindex (\w+)")


Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class VerificationProblem:
    """A violated rule: which check found it (none yet where the store reads), which row, what is wrong."""

    check: str
    table: str
    id: str
    detail: str
    severity: Severity = "error"

    def __str__(self) -> str:
        return f"{self.severity}: {self.table} {self.id}: {self.detail} ({self.check})"


def _problem(table: str, id_: str, detail: str) -> VerificationProblem:
    return VerificationProblem("", table, id_, detail)


@dataclass(frozen=True, slots=True)
class DerivedValues:
    """Values derived from a message when it was stored."""

    message_id: int
    identity: str | None
    fingerprint: bytes | None
    digest: bytes | None
    #: The token count of its index row, a blob of SQLite's; None without such a row.
    size: bytes | None = None
    #: The same for its further passages: their starts and lengths.
    passages: tuple[tuple[int, int, bytes | None], ...] = ()
    #: The rows of its further passages in the index.
    further: tuple[int, ...] = ()

    @property
    def indexed(self) -> bytes | None:
        return None if self.digest is None else self.digest[:8]


@dataclass(frozen=True, slots=True)
class StoredPayload:
    """A stored payload: its expected path, and its digests."""

    id: str
    place: str
    size: int | None
    conversation_id: int
    digest: bytes | None
    #: Whether our program wrote its row: then its id, or the digest, proves the bytes.
    is_ours: bool

    def is_proven_by(self, data: bytes) -> bool:
        """Whether these are its bytes, as far as can be checked."""
        if self.digest is not None:
            return self.digest == payload_digest(data)
        return self.has_id_of(data) or not self.is_ours

    def has_id_of(self, data: bytes) -> bool:
        """Whether its id was derived from these bytes, in its conversation or the one that it was stored for."""
        folder = Path(self.place).parent.name
        numbers = {self.conversation_id, int(folder) if folder.isascii() and folder.isdigit() else self.conversation_id}
        return any(isinstance(number, int) and file_id(number, data) == self.id for number in numbers)


#: How many ids of a kind are listed.
_NAMED = 100


@dataclass(frozen=True, slots=True)
class PendingCompactionRow:
    """A compaction that is deferred or marked as running."""

    conversation_id: int
    session_key: str | None
    active: bool
    pending: bool
    running: bool
    reason: str | None
    requested_at: datetime | None
    last_started_at: datetime | None
    last_failure: str | None
    retry_attempts: int
    next_attempt_after: datetime | None
    revision: int
    #: Whether the conversation is leased now.
    leased: bool


@dataclass(frozen=True, slots=True)
class IndexDrift:
    """Differences between search index and rows."""

    unindexed_messages: int
    unindexed_summaries: int
    #: How many messages have lost their index row, and how many index rows their message.
    lost_count: int
    gone_count: int
    #: The first hundred of each.
    lost: tuple[int, ...]
    gone: tuple[int, ...]
    #: Summaries whose text differs from the indexed text, or that are missing from the index.
    stale_summaries: tuple[str, ...]
    #: How many index rows have lost their summary.
    gone_summaries: int = 0
    #: How many messages and summaries lossless-claw's own search tables lack.
    upstream_lost: int = 0
    #: The search tables that have lost all their rows.
    upstream_emptied: tuple[str, ...] = ()

    @property
    def wrong(self) -> int:
        """How many rows search gets wrong."""
        return self.lost_count + self.gone_count + len(self.stale_summaries) + self.gone_summaries

    @property
    def is_none(self) -> bool:
        return not (self.unindexed_messages or self.unindexed_summaries or self.wrong or self.upstream_lost)


class VerifyReads(TableAccess):
    """Reads for `lcm verify` and `lcm doctor`, and the one write that closes a pending compaction."""

    queries = load_queries("verify", "findable", "index_totals", "symptoms")
    #: Summaries that are not smaller than their sources, each with its model.
    not_smaller: Sql[[], list[tuple[str, str]]] = Sql("rows")
    #: Messages that are not in the context, not under a summary in it, and not hidden with a cause.
    unreachable: Sql[[int], list[int]] = Sql("column", "conversation_id")
    #: Messages that the context holds more than once.
    covered_twice: Sql[[int], list[int]] = Sql("column", "conversation_id")
    context_order: Sql[[int], list[str]] = Sql("column", "conversation_id", "summaries_in_context")
    #: Conversations with messages that are not in the context, not under a summary in it, and not hidden: how many, and
    #: the ids of the first and the last.
    uncovered: Sql[[], list[tuple[int, int, int, int]]] = Sql("rows")
    #: Summaries without sources: conversation and id.
    without_sources: Sql[[], list[tuple[int, str]]] = Sql("rows")
    #: Messages and summaries whose text is stored as bytes: conversation and id.
    no_texts: Sql[[], list[tuple[int, str]]] = Sql("rows")
    #: Compactions that are pending or marked as running, those of closed conversations first.
    debts: Sql[[datetime], list[PendingCompactionRow]] = Sql("records", "now", "", PendingCompactionRow)
    #: Close a pending compaction that has not changed since it was read; needs a transaction.
    close_debt: Sql[[int, int, str, datetime], bool] = Sql("changed", "conversation_id revision reason now")
    #: Conversations with rows that older engines stored twice: how many, and the ids of the first and the last.
    duplicates: Sql[[], list[tuple[int, int, int, int]]] = Sql("rows")
    #: Whether any of some missing messages (`msg#…`) has left traces: then its text is lost.
    were_here: Sql[[Sequence[str]], bool] = Sql("any", "items")
    #: Whether the log has the folds of all of these summaries.
    is_folded: Sql[[Sequence[str]], bool] = Sql("any", "ids")
    #: Context items without a message or summary: conversation, ordinal, item.
    hanging: Sql[[], list[tuple[int, int, str]]] = Sql("rows")
    #: Rows with broken references: table, and the referenced table.
    broken_references: Sql[[], list[tuple[str, str]]] = Sql("rows")
    #: SQLite's version.
    sqlite: Sql[[], str] = Sql("value")
    #: The version of our tables in the file; None without them.
    schema: Sql[[], int | None] = Sql("value")

    def integrity(self) -> Iterator[VerificationProblem]:
        """SQLite's own checks of the file and its references."""
        try:
            for (text,) in self._rows("integrity"):
                if text == "ok":
                    continue
                table = found[1] if (found := _COMPLAINT.search(text)) else None
                if table is None and (found := _INDEX_COMPLAINT.search(text)):
                    table = self._value("table_of_index", name=found[1])
                yield _problem(table or "database", self._db.path, text)  # "database": the file itself is damaged
        except ArchiveCorrupt as error:
            yield _problem("database", self._db.path, str(error))
            return
        for table, rowid, parent, _ in self._rows("foreign_keys"):
            yield _problem(table, str(rowid), f"it refers to a row of {parent!r} that is not there")

    def damage(self) -> str | None:
        """The first damage of the file that a quick check finds, None when there is none."""
        try:
            return next((text.splitlines()[-1] for (text,) in self._rows("quick_check") if text != "ok"), None)
        except ArchiveCorrupt as error:
            return str(error)

    def tables(self) -> list[VerificationProblem]:
        """Tables with a changed declaration: renamed or missing columns."""
        return [_problem(table, "", detail) for table, detail in migrate.damage(self._db)]

    def rows(self, without: Collection[str] = ()) -> Iterator[VerificationProblem]:
        """Violations of the rules in `verify.sql`, table by table, except some rules."""
        for name, sql in load_queries("verify").items():
            table, _, rule = name.partition(".")
            if rule and name not in without:
                try:
                    found = self._db.rows(sql)
                except ArchiveError as error:  # for example invalid JSON: the other rules still apply
                    found = [("", str(error))]
                lawful: Collection[object] = ()
                if found and name == "ingest_state.tokens":  # lossless-claw changed summaries, and so sizes
                    lawful = self._column("conversations_of", ids=sorted(self.rewritten()))
                for id_, detail in found:
                    if id_ not in lawful:
                        yield _problem(table, str(id_), detail)

    def rule(self, name: str) -> list[VerificationProblem]:
        return [_problem(name.partition(".")[0], str(id_), detail) for id_, detail in self._rows(name)]

    def out_of_order(self) -> Iterator[VerificationProblem]:
        """Context items after newer ones: after a message, or a summary, where another conversation's may begin."""
        for conversation_id, ordinal, is_certain in self._rows("context_order"):
            severity: Severity = "error" if is_certain else "warning"
            place, detail = f"{conversation_id}:{ordinal}", "it comes after newer items"
            yield VerificationProblem("", "context_items", place, detail, severity)

    def rewritten(self) -> frozenset[str]:
        """Summaries whose text lossless-claw changed: its doctor updates its own search table."""
        if "summaries_fts" not in SearchIndex(self._db).upstream:
            return frozenset()
        ids = [str(json.loads(key)[0]) for _, key, _ in RowDigests(self._db).changed_rows(("summaries",))]
        texts = ((id_, self._row("rewritten", id=id_)) for id_ in ids)
        return frozenset(
            id_ for id_, row in texts if row and isinstance(row[0], str) and row[1] != index_digest(row[0])
        )

    def derived(self) -> Iterator[list[DerivedValues]]:
        """All messages in batches, with their derived values."""
        for found in self._pages("page", _PAGE):
            page = {"first": found[0][0], "last": found[-1][0], "base": PASSAGE_BASE}
            passages = group_rows(self._rows("page_passages", page), lambda *passage: passage)
            yield [
                DerivedValues(
                    id_, identity, print_, digest, size, tuple(one[:3] for one in passages[id_]),
                    tuple(PASSAGE_BASE + one[3] for one in passages[id_]),
                )
                for id_, identity, print_, digest, size in found
            ]  # fmt: skip

    def index_rows(
        self, texts: Sequence[tuple[DerivedValues, str]], totals: WordTotals
    ) -> Iterator[VerificationProblem]:
        """Messages whose index rows do not match their text; the expected content is added to the totals."""
        pieces = [index_pieces(text) for _, text in texts]
        places = [
            place
            for (derived, _), some in zip(texts, pieces, strict=True)
            for place in zip_longest((derived.message_id, *derived.further)[: len(some)], some)
        ]
        known = [(_NOWHERE + n if id_ is None else id_, body) for n, (id_, (_, body)) in enumerate(places)]
        sizes = iter(_expected_sizes(known, totals).values())
        for (derived, _), some in zip(texts, pieces, strict=True):
            expected = [(start, len(body), next(sizes)) for start, body in some]
            id_ = str(derived.message_id)
            if derived.size != (expected[0][2] if expected else None):
                yield _problem("message_index", id_, _WRONG_ROW if derived.size else _NO_ROW)
            if [row[:2] for row in derived.passages] != [row[:2] for row in expected[1:]]:
                yield _problem("message_passages", id_, "its passages do not match its text")
            elif list(derived.passages) != expected[1:]:
                yield _problem("message_index", id_, "the index row of one of its passages does not match its text")
        heads = [(derived.message_id, some[0][1]) for (derived, _), some in zip(texts, pieces, strict=True) if some]
        yield from self._unfound("message_index", heads)

    def version_rows(self, texts: Sequence[tuple[int, str]], totals: WordTotals) -> Iterator[VerificationProblem]:
        """Versions whose index rows do not match their text; the expected content is added to the totals."""
        sizes: dict[int, bytes] = dict(self._db.rows(_VERSIONS["sizes"], {"ids": [id_ for id_, _ in texts]}))
        expected = _expected_sizes([row for row in texts if index_pieces(row[1])], totals)
        for version_id, _ in texts:
            if sizes.get(version_id) != expected.get(version_id):
                detail = _WRONG_ROW if version_id in sizes else _NO_ROW
                yield _problem("version_index", str(version_id), detail)
        yield from self._unfound("version_index", [row for row in texts if row[0] in sizes])

    def _unfound(self, table: str, rows: Sequence[tuple[int, str]]) -> Iterator[VerificationProblem]:
        """Of one in twenty existing index rows, those that search does not find by their own words."""
        for rowid, text in rows[::_ONE_IN]:
            if (word := max(_WORD.findall(text), key=len, default=None)) and not self._has(table, rowid, word):
                yield _problem(table, str(rowid), "search does not find it by its own words")

    def index_totals(self, table: str, expected: WordTotals) -> Iterator[VerificationProblem]:
        """Whether an index whose rows are individually correct has exactly the expected content."""
        settings = _scratch_index().execute(self.queries["message_index_settings"]).fetchall()
        if self._rows(f"{table}_settings") != settings:
            yield _problem(table, "", "its settings have changed")
        stored = WordTotals()
        if self._row("is_stored", table=table) is not None:  # else it is written only by other programs
            with self._writable():
                self._run(f"{table}_words")
            try:
                stored.add(self._rows("sums"), self._value(f"{table}_counts"))
            finally:
                with self._writable():
                    self._run("drop_words")
        if stored != expected:
            yield _problem(table, "", "its words do not match the indexed rows")

    def summary_digests(self, totals: WordTotals) -> Iterator[VerificationProblem]:
        """Summaries whose indexed text is not their text; the expected content is added to the totals."""
        for found in self._pages("summary_digests", _PAGE, ""):
            indexed = [(row[4], row[1]) for row in found if row[4] is not None and isinstance(row[1], str)]
            sizes = _expected_sizes(indexed, totals)
            for summary_id, content, known, size, index_id in found:
                if not isinstance(content, str):
                    yield _problem("summaries", summary_id, "its content is not text")
                elif known is None:
                    yield _problem("summary_extras", summary_id, "it is not indexed yet")
                elif known != index_digest(content):
                    yield _problem("summaries", summary_id, "its text differs from the indexed text")
                elif size != sizes[index_id]:
                    yield _problem("summary_index", summary_id, _WRONG_ROW if size else _NO_ROW)
            texts = [row for row in found if isinstance(row[1], str) and row[3] is not None]
            known_rows = [(row[4], row[1]) for row in texts if row[2] == index_digest(row[1])]
            yield from self._unfound("summary_index", known_rows)

    def conversation_ids(self) -> list[int]:
        return self._column("conversation_ids")

    def file_places(self) -> list[StoredPayload]:
        """Each stored payload: its expected path, and what is known of it."""
        digests, ours = RowDigests(self._db).payloads()
        found = []
        for id_, place, size, owner in self._rows("file_places"):
            is_ours = isinstance(id_, str) and json.dumps([id_]) in ours
            found.append(StoredPayload(column_text(id_), column_text(place), size, owner, digests.get(id_), is_ours))
        return found

    @contextmanager
    def _writable(self) -> Iterator[None]:
        """A temporary table does not change the file, although SQLite counts it as a write."""
        if self._db.read_only:
            self._db.run("PRAGMA query_only = OFF")
        try:
            yield
        finally:
            if self._db.read_only:
                self._db.run("PRAGMA query_only = ON")

    def damaged_indexes(self) -> tuple[str, ...]:
        """Our full-text tables that are damaged, or that do not find their rows; quick, based on samples."""
        return tuple(table for table in ("message_index", "summary_index", "version_index") if self._is_damaged(table))

    def _is_damaged(self, table: str) -> bool:
        try:
            is_whole = self._column(f"{table}_integrity") == ["ok"]
            return not is_whole or not all(self._has(table, rowid, word) for rowid, word in self._samples(table))
        except ArchiveCorrupt:
            return True

    def _has(self, table: str, rowid: int, word: str) -> bool:
        return self._any(f"{table}_has", rowid=rowid, match=f'body: "{word}"')

    def _samples(self, table: str) -> Iterator[tuple[int, str]]:
        """Index rows with known text, each with some words of that."""
        first, last = self._row(f"{table}_span") or (None, None)
        if first is None or last is None:
            return
        for at in sorted({first + (last - first) * n // _SAMPLES for n in range(_SAMPLES + 1)}):
            row = self._row(f"{table}_sample", at=at)
            if row is None or not isinstance(row[1], str) or not isinstance(row[2], bytes):
                continue
            text = index_text_of(row[1]) if table == "message_index" else row[1]
            if row[2][:8] == index_digest(text) and (pieces := index_pieces(text)):
                text = pieces[0][1] if table == "message_index" else text
                words = sorted({word.lower() for word in _WORD.findall(text)})  # alphabetical, as in an index
                yield from ((row[0], word) for word in words[:: max(1, len(words) // _WORDS)][:_WORDS])

    def suspects(self, conversation_id: int | None = None) -> list[tuple[str, int, str, str]]:
        """Summaries that may be broken, shallowest first: id, conversation, text, model."""
        found = self._rows("suspects", conversation_id=conversation_id)
        return [(column_text(id_), owner, column_text(content), column_text(by)) for id_, owner, content, by in found]

    def index_drift(self) -> IndexDrift:
        """Differences between our search index and the rows; texts of messages are not read."""
        messages, summaries = self._row("unindexed") or (0, 0)
        place = {"base": PASSAGE_BASE, "limit": _NAMED}
        lost = self._rows("lost_from_index", place | {"blank": index_digest("")})
        gone = self._rows("gone_from_archive", place)
        texts = self._rows("summary_texts")
        stale = tuple(id_ for id_, content, known, is_there in texts if not is_there or known != index_digest(content))
        lacking, emptied = SearchIndex(self._db).upstream_lost(), SearchIndex(self._db).emptied_upstream()
        return IndexDrift(
            messages, summaries, lost[0][1] if lost else 0, gone[0][1] if gone else 0,
            tuple(row[0] for row in lost), tuple(row[0] for row in gone), stale, self._count("gone_summaries"),
            sum(len(rows) for _, rows in lacking), emptied,
        )  # fmt: skip

    def cycle(self) -> list[str]:
        """Summaries that are, through their sources, made of themselves; none in a valid archive."""
        sorter: TopologicalSorter[str] = TopologicalSorter()
        for summary_id, source_id in self._rows("source_links"):
            sorter.add(summary_id, source_id)
        try:
            sorter.prepare()
        except CycleError as error:
            return list(dict.fromkeys(error.args[1]))
        return []

    def open_breakers(self, now: datetime) -> list[tuple[str, int, datetime | None]]:
        """Models with an open breaker: key, failures, until when."""
        found = self._rows("open_breakers", now=now)
        return [(key, failures, column_time(until)) for key, failures, until in found]

    def matching(self, filter_id: str, now: datetime, silence: timedelta) -> list[int]:
        """The conversations that a filter of `doctor clean` selects; open ones only when inactive for a while."""
        return self._column(filter_id, now=now, silent_since=now - silence)
