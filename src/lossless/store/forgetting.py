"""Where texts lie in an archive, for those who remove some of them for good: every row of every table."""

from __future__ import annotations

import json
import secrets
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lossless.errors import ArchiveError, ArchiveFull, ArchiveLocked
from lossless.model.masking import FORGOTTEN
from lossless.model.messages import MADE_UP, NO_WORDS, line_alone
from lossless.store.ingest_state import WindowMark
from lossless.store.sql import load
from lossless.store.transcripts import packed_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from lossless.model.messages import Json
    from lossless.store.archive import Archive

_QUERIES = load("forgetting")
_PRINT = 8
#: These are rewritten as messages, versions and summaries, with all that follows from them.
_OF_MESSAGES = frozenset({
    "messages", "message_extras", "message_versions", "summaries", "transcript_records", "tombstones",
})  # fmt: skip
#: Columns of parts that only other programs write; the rest is rewritten with the message.
_OF_PARTS = frozenset({
    "tool_error", "tool_title", "patch_files", "file_name", "file_url", "subtask_prompt", "subtask_desc", "step_reason",
})  # fmt: skip
#: Columns that others look for rows or files by.
_NAMES = frozenset({
    "session_id", "session_key", "storage_uri", "session_file_path", "path", "header_id", "session_header_id",
    "generator_session_key", "cursor", "front",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cell:
    """A text in a column of some table, and what names its row."""

    table: str
    column: str
    key: tuple[tuple[str, Any], ...]
    text: str
    #: Whether it names a row, a session or a file: others look for it, so that it stays what it is.
    is_name: bool = False


class Forgetting:
    """Reads all texts beside the messages, and writes them anew. Every method that writes needs a transaction."""

    def __init__(self, archive: Archive) -> None:
        self._archive, self._db = archive, archive.database

    # --- messages -------------------------------------------------------------------------------------

    def pages(self, size: int) -> Iterator[list[int]]:
        """The ids of all messages, some at a time."""
        after = 0
        while ids := [row[0] for row in self._db.rows(_QUERIES["message_ids"], {"after": after, "limit": size})]:
            yield ids
            after = ids[-1]

    @property
    def message_count(self) -> int:
        row = self._db.row(_QUERIES["count"])
        return row[0] if row else 0

    def of_conversations(self, ids: Sequence[int]) -> list[int]:
        """The messages of some conversations."""
        return [row[0] for row in self._db.rows(_QUERIES["of_conversations"], {"ids": json.dumps(list(ids))})]

    def fingerprints(self, message_ids: Sequence[int]) -> list[tuple[int, int, bytes]]:
        """Messages with their conversations and fingerprints."""
        found = self._db.rows(_QUERIES["fingerprints"], {"ids": json.dumps(list(message_ids))})
        return [(id_, conversation_id, print_) for id_, conversation_id, print_ in found]

    def alike(self, prints: Iterable[bytes]) -> list[tuple[int, int, bytes]]:
        """All messages that have one of these fingerprints, with their conversations."""
        wanted = {"prints": json.dumps([print_.hex() for print_ in prints])}
        found = self._db.rows(_QUERIES["alike"], wanted)
        return [(id_, conversation_id, print_) for id_, conversation_id, print_ in found]

    def summary_ids(self) -> list[str]:
        """All summaries, shallow ones first."""
        return [row[0] for row in self._db.rows(_QUERIES["summaries"])]

    # --- texts beside them ----------------------------------------------------------------------------

    def cells(self) -> Iterator[Cell]:
        """Every text beside messages and summaries, in tables of any program."""
        for table, has_rowid in self._db.rows(_QUERIES["tables"]):
            if table not in _OF_MESSAGES:
                yield from self._cells(table, has_rowid=bool(has_rowid))

    def _cells(self, table: str, *, has_rowid: bool) -> Iterator[Cell]:
        columns = self._db.rows(_QUERIES["columns"], {"table": table})
        names = {row[0] for row in self._db.rows(_QUERIES["referring"], {"table": table})}
        keys = ["rowid"] if has_rowid else [name for name, pk in columns if pk]
        words = [name for name, _ in columns if table != "message_parts" or name in _OF_PARTS]
        listed = ", ".join(f'"{name}"' if name != "rowid" else name for name in [*keys, *words])
        for row in self._db.rows(f'SELECT {listed} FROM "{table}"'):
            key = tuple(zip(keys, row, strict=False))
            for name, value in zip(words, row[len(keys) :], strict=True):
                if isinstance(value, str):
                    yield Cell(table, name, key, value, name in names or name in _NAMES)

    def set_cell(self, cell: Cell, text: str) -> bool:
        """Give a column another text; False when a rule of its table forbids that."""
        where = " AND ".join(f'"{name}" = ?' if name != "rowid" else "rowid = ?" for name, _ in cell.key)
        values = [text, *(value for _, value in cell.key)]
        self._db.run(f'UPDATE OR IGNORE "{cell.table}" SET "{cell.column}" = ? WHERE {where}', values)
        return self._db.changes() > 0

    def rewrite_records(self, change: Callable[[Json], Json], *, dry_run: bool = False) -> int:
        """Records of transcripts as `change` makes them; how many are others then."""
        count = 0
        for conversation_id, key, _, stored in self._db.rows(_QUERIES["records"]):
            record = json.loads(zlib.decompress(stored).decode("utf-8", "surrogatepass"))
            made = change(record)
            if made is not record:
                count += 1
                packed, digest = packed_record(made)
                fresh = digest if key.startswith(MADE_UP) else key
                values = {"conversation_id": conversation_id, "key": key, "record": packed, "fresh": fresh}
                if not dry_run:
                    self._db.run(_QUERIES["set_record"], values)
        return count

    def empty_beside(self, conversation_ids: Sequence[int], summary_ids: Sequence[str], *, titles: bool) -> None:
        """Take away what was made of forgotten messages: briefs, summaries that undoing would bring back, titles."""
        ids = {"ids": json.dumps(list(conversation_ids))}
        self._db.run(_QUERIES["empty_briefs"], ids | {"mark": FORGOTTEN})
        if titles:
            self._db.run(_QUERIES["empty_titles"], ids | {"mark": FORGOTTEN})
            self._db.run(_QUERIES["drop_records"], ids)
        for log_id, summary_id, state in self._db.rows(_QUERIES["former"], {"ids": json.dumps(list(summary_ids))}):
            kept = json.loads(state)
            kept["row"]["content"] = FORGOTTEN
            values = {"log_id": log_id, "summary_id": summary_id, "state": json.dumps(kept, separators=(",", ":"))}
            self._db.run(_QUERIES["set_former"], values)

    # --- what was worked out from them ------------------------------------------------------------------

    def forget_prints(self, conversation_ids: Sequence[int], message_ids: Iterable[int], now: datetime) -> None:
        """Take away what was worked out from the words that some messages had, but what tells them apart."""
        gone = set(message_ids)
        for id_ in conversation_ids:
            mark = self._archive.ingest.window(id_)
            if mark is None or len(mark.chain) != _PRINT * mark.length:
                continue
            pieces = [mark.chain[n : n + _PRINT] for n in range(0, len(mark.chain), _PRINT)]
            for n, row in enumerate(mark.rows or [None] * mark.length):
                if row is None or abs(row) in gone or not row:
                    pieces[n] = bytes(_PRINT)
            fresh = WindowMark(mark.first_id, mark.last_id, mark.length, b"".join(pieces), mark.rows)
            self._archive.ingest.set_window(id_, fresh, now)
        ids = {"ids": json.dumps(list(conversation_ids))}
        has_advancements = self._db.row(_QUERIES["has_advancements"]) is not None
        names = ["drop_second_keys", "forget_key_digests", "forget_entry_hashes", "forget_context_tokens"]
        for name in [*names, *(["forget_advancements"] if has_advancements else [])]:
            self._db.run(_QUERIES[name], ids)
        for id_, entry_id in self._db.rows(_QUERIES["last_entries"], ids):
            self._db.run(_QUERIES["set_last_entry"], {"id": id_, "entry_id": line_alone(entry_id)})
        for id_, entry_id in self._db.rows(_QUERIES["entries"], {"ids": json.dumps(sorted(gone))}):
            self._name_by_line(id_, entry_id)
        self._db.run(_QUERIES["drop_payload_digests"])

    def _name_by_line(self, message_id: int, entry_id: str) -> None:
        """Take what an id that was made up for a line says of its words out of it."""
        if (line := line_alone(entry_id)) == entry_id:
            return
        self._db.run(_QUERIES["set_entry"], {"id": message_id, "entry_id": line})
        if not self._db.changes():  # another file of this conversation has such a line, too
            other = line[: -len(NO_WORDS)] + secrets.token_hex(len(NO_WORDS) // 2)
            self._db.run(_QUERIES["set_entry"], {"id": message_id, "entry_id": other})

    def tidy_indexes(self) -> list[str]:
        """Write every search index anew without the words of deleted rows; returns those that could not be."""
        left: list[str] = []
        for (table,) in self._db.rows(_QUERIES["indexes"]):
            try:
                self._db.run(f'INSERT INTO "{table}" ("{table}") VALUES (\'optimize\')')
            except (ArchiveLocked, ArchiveFull):
                raise
            except ArchiveError:  # it needs a tokenizer of another program
                left.append(table)
        return left

    # --- what is still to be done -----------------------------------------------------------------------

    @property
    def pending(self) -> list[str] | None:
        """The payloads that a forgetting which did not come to its end still has to delete; None when there is none."""
        row = self._db.row(_QUERIES["pending"])
        try:
            found = [] if row is None else json.loads(row[0])
        except (TypeError, ValueError):  # somebody else has written it
            found = []
        return None if row is None else [path for path in found if isinstance(path, str)]

    def set_pending(self, paths: Sequence[str]) -> None:
        """Remember that rows are rewritten, and which payloads have to go, with those of one that was stopped."""
        both = dict.fromkeys([*(self.pending or ()), *paths])
        self._db.run(_QUERIES["set_pending"], {"value": json.dumps(list(both))})

    def finish(self) -> None:
        """Remember that all is done."""
        self._db.run(_QUERIES["clear_pending"])

    def write_anew(self) -> str | None:
        """Write the file anew without free pages, and empty its log; why that was not possible, None when it was."""
        is_file = self._db.path != ":memory:"
        try:
            if is_file:
                self._db.run(_QUERIES["spill_to_disk"])
            self._db.run(_QUERIES["vacuum"])
            busy = self._db.row(_QUERIES["truncate_wal"]) or (0,)
        except (ArchiveLocked, ArchiveFull) as error:
            return str(error)
        finally:
            if is_file:  # where temporary tables lie has changed, and they are gone with it
                self._db.reconnect()
        return "another process reads it, so its log could not be emptied; close it and repeat" if busy[0] else None
