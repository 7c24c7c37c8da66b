"""Permanent removal: deleting conversations, removing texts from every table, and the scan that proves it."""

from __future__ import annotations

import json
import re
import secrets
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

import apsw

from lossless.errors import ArchiveError, ArchiveFull, ArchiveLocked
from lossless.model.conversations import Session
from lossless.model.masking import FORGOTTEN, CutText
from lossless.model.messages import FORGOTTEN_WORDS_DIGEST, GENERATED_ID_PREFIX, Json, without_words_digest
from lossless.store.conversations import TranscriptRecords, pack_record, unpack_record
from lossless.store.database import (
    PASSAGE_BASE,
    Database,
    Sql,
    TableAccess,
    column_texts,
    column_time,
    load_queries,
    refused,
)
from lossless.store.maintenance.integrity import varint
from lossless.store.rows import decompress_residual

if TYPE_CHECKING:
    from lossless.store.archive import Archive

#: Rows of these survive a conversation, without its number.
KEPT_TABLES = frozenset({"spend_ledger"})
#: Deleted last, when nothing refers to them.
_LAST = ("summaries", "messages", "conversations")
_OURS = "(SELECT value FROM json_each(:ids))"
_PRINT = 8
#: Rewritten together with messages, versions and summaries.
_OF_MESSAGES = frozenset({
    "messages", "message_extras", "message_versions", "summaries", "transcript_records", "tombstones",
})  # fmt: skip
#: Columns of parts that only other programs write; the rest is rewritten with the message.
_OF_PARTS = frozenset({
    "tool_error", "tool_title", "patch_files", "file_name", "file_url", "subtask_prompt", "subtask_desc", "step_reason",
})  # fmt: skip
#: Columns by which rows or files are looked up.
_NAMES = frozenset({
    "session_id", "session_key", "storage_uri", "session_file_path", "path", "header_id", "session_header_id",
    "generator_session_key", "cursor", "front",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class ConversationSize:
    """A conversation and its size; `text_bytes` counts its text, `file_bytes` its files on disk."""

    id: int
    session_id: str
    session_key: str | None
    title: str | None
    active: bool
    created_at: datetime | None
    #: The time of the newest message, else of the conversation's start.
    newest_at: datetime | None
    messages: int
    summaries: int
    files: int
    text_bytes: int
    file_bytes: int
    #: Its approximate share of the archive, with its files, in a plan to delete it.
    bytes: int = 0

    @property
    def name(self) -> str:
        """The name that patterns are matched against."""
        has_name = (self.session_key or "").strip() or self.session_id.strip()
        return Session(self.session_key or None, self.session_id or None).name if has_name else ""


class ArchiveRemover(TableAccess):
    """Measures and deletes conversations, and removes words from all texts. Writes need a transaction."""

    queries = load_queries("retention", "forgetting")
    #: All conversations, least recently active first.
    held: Sql[[], list[ConversationSize]] = Sql("records", "", "conversations", ConversationSize)
    #: Pairs of conversations of which the first holds something that belongs to the second.
    borrowed: Sql[[], list[tuple[int, int]]] = Sql("rows")
    #: Their stored payloads: id, conversation, path, bytes.
    files: Sql[[Sequence[int]], list[tuple[str, int, str, int]]] = Sql("rows", "ids")
    #: Bytes of texts by table, as a fallback.
    texts: Sql[[], dict[str, int]] = Sql("pairs", "", "text_sizes")
    #: Tool results that a transcript need not repeat: in a file, under a leaf, in no context; oldest first. The
    #: message, the call's id, the stored replacement of the text, and the file.
    collectable: Sql[[int], list[tuple[int, str, str, str]]] = Sql("rows", "conversation_id")
    message_text: Sql[[], tuple[int, int]] = Sql("row")
    kept_records: Sql[[int, Sequence[str]], frozenset[str]] = Sql("set", "conversation_id ids")
    of_conversations: Sql[[Sequence[int]], list[int]] = Sql("column", "ids")
    #: Messages with their conversations and fingerprints.
    fingerprints: Sql[[Sequence[int]], list[tuple[int, int, bytes]]] = Sql("rows", "ids")
    #: All summaries, shallowest first.
    summary_ids: Sql[[], list[str]] = Sql("column", "", "summaries")
    #: Record that a forget is done.
    finish: Sql[[], None] = Sql("run", "", "clear_pending")

    def __init__(self, archive: Archive) -> None:
        self._archive, self._db = archive, archive.database

    def unchanged(self, seen: Sequence[ConversationSize], now: datetime) -> list[int]:
        """Which of these have not changed since they were read, and are not in use."""
        found = {row[0]: row[1:] for row in self._rows("state", ids=[held.id for held in seen], now=now)}
        same = []
        for held in seen:
            active, newest, messages, leased = found.get(held.id, (None, None, None, True))
            state = bool(active), column_time(newest), messages
            if not leased and state == (held.active, held.newest_at, held.messages):
                same.append(held.id)
        return same

    def delete(self, conversation_ids: Sequence[int], now: datetime) -> None:
        """Delete conversations with every row that belongs to them.

        Digests of their messages stay, so that transcripts do not import them again.
        """
        TranscriptRecords(self._db).bury(conversation_ids, now)
        ids = {"ids": conversation_ids}
        lent = [(n, *place) for n, place in enumerate(self._rows("unindexed_references"))]
        for n, table, column in lent:
            self._db.run(f'CREATE INDEX "lossless_prune_{n}" ON "{table}" ("{column}")')
        self._run("unindex_passages", ids | {"base": PASSAGE_BASE})
        indexes = ("unindex_messages", "unindex_versions", "unindex_summaries", *self._column("search_tables"))
        for name in (*indexes, "forget_spending", "drop_leases", "drop_grants", "drop_parents"):
            self._run(name, ids)
        for table, column, owner in self._rows("dependents", tables=[*_LAST, *KEPT_TABLES]):
            inner = _OURS if owner is None else f"(SELECT {column} FROM {owner} WHERE conversation_id IN {_OURS})"
            self._db.run(f'DELETE FROM "{table}" WHERE {column} IN {inner}', ids)
        for table in _LAST:
            self._db.run(f"DELETE FROM {table} WHERE conversation_id IN {_OURS}", ids)
        for n, _, _ in lent:
            self._db.run(f'DROP INDEX "lossless_prune_{n}"')

    def give_back(self) -> str | None:
        """Vacuum the file; returns why that was not possible, or None."""
        try:
            with self._db.transaction():
                self._run("tidy_message_index")
                self._run("tidy_summary_index")
        except (ArchiveLocked, ArchiveFull) as error:
            return str(error)
        return self._vacuum()[0]

    def page_sizes(self) -> dict[str, int] | None:
        """Bytes by table and index; None where SQLite cannot count them. Reads every page."""
        return None if self._row("has_page_sizes") is None else dict(self._rows("page_sizes"))

    def summary_text(self) -> dict[str, tuple[int, int]]:
        return {kind: (count, size) for kind, count, size in self._rows("summary_text")}

    def _vacuum(self) -> tuple[str | None, bool]:
        """Vacuum the file: why that was not possible, or None; and whether its log could be truncated."""
        is_file = self._db.path != ":memory:"
        try:
            if is_file:
                self._run("spill_to_disk")
            self._run("vacuum")
            found = self._row("truncate_wal")
        except (ArchiveLocked, ArchiveFull) as error:
            return str(error), False
        finally:
            if is_file:  # the temp store was changed, which drops temporary tables
                self._db.reconnect()
        return None, found is None or not found[0]

    def pages(self, size: int) -> Iterator[list[int]]:
        """The ids of all messages, in batches."""
        return ([row[0] for row in page] for page in self._pages("message_ids", size))

    def alike(self, prints: Iterable[bytes]) -> list[tuple[int, int, bytes]]:
        """All messages with one of these fingerprints, with their conversations."""
        return self._rows("alike", prints=[print_.hex() for print_ in prints])

    def rewrite_cells(self, change: CutText, *, dry_run: bool = False) -> Iterator[tuple[str, str | None]]:
        """Apply `change` to every text outside of messages and summaries, in tables of any program.

        Yields for each text that is to change its table, and why it must stay.
        """
        for table, has_rowid in self._rows("tables"):
            if table in _OF_MESSAGES:
                continue
            columns = self._rows("columns", table=table)
            names = _NAMES | set(self._column("referring", table=table))
            keys = ["rowid"] if has_rowid else [f'"{name}"' for name, pk in columns if pk]
            words = [name for name, _ in columns if table != "message_parts" or name in _OF_PARTS]
            listed = ", ".join([*keys, *(f'"{name}"' for name in words)])
            where = " AND ".join(f"{key} = ?" for key in keys)
            for row in self._db.rows(f'SELECT {listed} FROM "{table}"'):
                for name, value in zip(words, row[len(keys) :], strict=True):
                    if not isinstance(value, str) or (fresh := change(value)) is value:
                        continue
                    if name in names:
                        yield table, f"{table}.{name}: it is an identifier there"
                        continue
                    update = f'UPDATE OR IGNORE "{table}" SET "{name}" = ? WHERE {where}'
                    is_done = dry_run or self._db.changed(update, [fresh, *row[: len(keys)]])
                    yield table, None if is_done else f"{table}.{name}: its table does not allow another text"

    def rewrite_records(self, change: Callable[[Json], Json], *, dry_run: bool = False) -> int:
        """Apply `change` to records of transcripts; returns how many changed."""
        count = 0
        for conversation_id, key, _, stored in self._rows("records"):
            record = unpack_record(stored)
            made = change(record)
            if made is not record:
                count += 1
                packed, digest = pack_record(made)
                fresh = digest if key.startswith(GENERATED_ID_PREFIX) else key
                if not dry_run:
                    self._run("set_record", conversation_id=conversation_id, key=key, record=packed, fresh=fresh)
        return count

    def empty_beside(self, conversation_ids: Sequence[int], summary_ids: Sequence[str], *, titles: bool) -> None:
        """Remove what was derived from forgotten messages: briefs, summaries that undo would restore, titles."""
        ids = {"ids": conversation_ids}
        self._run("empty_briefs", ids | {"mark": FORGOTTEN})
        if titles:
            self._run("empty_titles", ids | {"mark": FORGOTTEN})
            self._run("drop_records", ids)
        for log_id, summary_id, state in self._rows("former", ids=summary_ids):
            kept = json.loads(state)
            kept["row"]["content"] = FORGOTTEN
            self._run("set_former", log_id=log_id, summary_id=summary_id, state=json.dumps(kept, separators=(",", ":")))

    def forget_prints(self, conversation_ids: Sequence[int], message_ids: Iterable[int], now: datetime) -> None:
        """Remove values derived from the words of some messages, except those that identify them."""
        gone = set(message_ids)
        for id_ in conversation_ids:
            mark = self._archive.ingest.window(id_)
            if mark is None or len(mark.chain) != _PRINT * mark.length:
                continue
            pieces = [mark.chain[n : n + _PRINT] for n in range(0, len(mark.chain), _PRINT)]
            for n, row in enumerate(mark.rows or [None] * mark.length):
                if row is None or abs(row) in gone or not row:
                    pieces[n] = bytes(_PRINT)
            self._archive.ingest.set_window(id_, replace(mark, chain=b"".join(pieces)), now)
        ids = {"ids": conversation_ids}
        for name in ("drop_second_keys", "forget_key_digests", "forget_entry_hashes", "forget_context_tokens"):
            self._run(name, ids)
        if self._row("has_advancements") is not None:
            self._run("forget_advancements", ids)
        for id_, entry_id in self._rows("last_entries", ids):
            self._run("set_last_entry", id=id_, entry_id=without_words_digest(entry_id))
        for id_, entry_id in self._rows("entries", ids=sorted(gone)):
            if (line := without_words_digest(entry_id)) == entry_id:
                continue
            if not self._changed("set_entry", id=id_, entry_id=line):  # another file has such a line, too
                other = line[: -len(FORGOTTEN_WORDS_DIGEST)] + secrets.token_hex(len(FORGOTTEN_WORDS_DIGEST) // 2)
                self._run("set_entry", id=id_, entry_id=other)
        self._run("drop_payload_digests")

    def tidy_indexes(self) -> list[str]:
        """Rebuild every search index without the words of deleted rows; returns those that failed."""
        failed: list[str] = []
        for (table,) in self._rows("indexes"):
            try:
                self._db.run(f'INSERT INTO "{table}" ("{table}") VALUES (\'optimize\')')
            except (ArchiveLocked, ArchiveFull):
                raise
            except ArchiveError:  # needs a tokenizer of another program
                failed.append(table)
        return failed

    @property
    def pending(self) -> list[str] | None:
        """The payloads that an interrupted forget still has to delete; None when there is none."""
        row = self._row("pending")
        return None if row is None else list(column_texts(row[0]))

    def set_pending(self, paths: Sequence[str]) -> None:
        """Record that rows are being rewritten, and which payloads to delete, including those of an interrupted run."""
        self._run("set_pending", value=dict.fromkeys([*(self.pending or ()), *paths]))

    def write_anew(self) -> str | None:
        """Vacuum the file and truncate its log; returns why that was not possible, or None."""
        reason, is_truncated = self._vacuum()
        if reason is None and not is_truncated:
            return "another process reads it, so its log could not be truncated; close it and try again"
        return reason


_SCAN_QUERIES = load_queries("absence")
_TOKENIZER = re.compile(r"tokenize\s*=\s*(?P<quote>['\"])(?P<how>(?:(?!(?P=quote)).)*)(?P=quote)", re.IGNORECASE)
#: The position of the segment number in a block id, and the first invalid number.
_SEGMENT_BITS, _LAST_SEGMENT = 37, 1 << 16


class DatabaseScan(TableAccess):
    queries = load_queries("forgetting")

    def __init__(self, path: str) -> None:
        super().__init__(Database(path, read_only=True))

    def values(self) -> Iterator[tuple[str, str | bytes]]:
        """All texts and blobs with their locations; compressed ones also as text."""
        for (table,) in self._rows("every_table"):
            names = self._column("columns", table=table)
            for count, row in enumerate(self._db.stream(f'SELECT * FROM "{table}"'), 1):
                for name, value in zip(names, row, strict=False):
                    if isinstance(value, str | bytes):
                        place = f"{table}.{name}, row {row[0] if isinstance(row[0], int) else count}"
                        yield place, value
                        if isinstance(value, bytes):
                            with suppress(ValueError, zlib.error):
                                if value[:1] == b"1":
                                    yield f"{place} (compressed)", decompress_residual(value)
                                elif value[:1] == b"\x78":
                                    text = zlib.decompress(value).decode("utf-8", "surrogatepass")
                                    yield f"{place} (compressed)", text

    def leftovers(self, phrases: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Search indexes with words of deleted rows, each with the phrase they belong to."""
        for table, sql in self._db.rows(_SCAN_QUERIES["indexes"]):
            terms = self._terms(table)
            for phrase in phrases if terms else ():
                if any(token.encode() in terms and not self._is_live(table, token) for token in _tokens(phrase, sql)):
                    yield table, phrase

    def _terms(self, table: str) -> set[bytes]:
        """All terms in all segments of an index, including those of deleted rows."""
        found: set[bytes] = set()
        for id_, block in self._db.stream(f'SELECT id, block FROM "{table}_data"'):
            is_leaf = 0 < (id_ >> _SEGMENT_BITS) < _LAST_SEGMENT and not (id_ >> 31) & 0x3F
            if is_leaf and isinstance(block, bytes) and len(block) > 4:
                found.update(term[1:] for term in fts_leaf_terms(block))
        return found

    def _is_live(self, table: str, token: str) -> bool:
        with self._db.aside() as connection:
            try:
                connection.execute(f'CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, "{table}", row)')
                return connection.execute(_SCAN_QUERIES["term"], {"term": token}).fetchone() is not None
            except apsw.Error as error:
                raise refused(error, self._db.path) from error


def fts_leaf_terms(block: bytes) -> Iterator[bytes]:
    """The terms on a leaf page of an FTS5 index, each with its index prefix byte."""
    place = int.from_bytes(block[2:4])
    end, at, before = place, 0, b""
    while place < len(block):
        step, place = varint(block, place)
        at += step
        if at >= end:
            return
        keep, start = (0, at) if not before else varint(block, at)
        size, start = varint(block, start)
        before = before[:keep] + block[start : start + size]
        yield before


def _tokens(phrase: str, sql: str) -> list[str]:
    """The tokens of a phrase by an index's tokenizer; empty for another program's tokenizer."""
    found = _TOKENIZER.search(sql)
    how = "" if found is None else ", tokenize = '" + found["how"].replace("'", "''") + "'"
    connection = apsw.Connection(":memory:")
    try:
        connection.execute(f"CREATE VIRTUAL TABLE asked USING fts5 (body{how})")
        connection.execute(_SCAN_QUERIES["ask"], (phrase,))
        connection.execute(_SCAN_QUERIES["asked_terms"])
        return [row[0] for row in connection.execute(_SCAN_QUERIES["all_terms"])]
    except apsw.Error:
        return []
    finally:
        connection.close()
