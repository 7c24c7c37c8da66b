"""What each conversation takes, and deleting conversations for good, on a person's command only."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.errors import ArchiveFull, ArchiveLocked
from lossless.model.conversations import Session
from lossless.model.times import state_time
from lossless.store.foreign import moment, text
from lossless.store.histories import Histories
from lossless.store.index import PASSAGE_BASE
from lossless.store.sql import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lossless.store.database import Database

_QUERIES = load("retention")
#: Rows of these outlive a conversation, without its number.
KEPT = frozenset({"spend_ledger"})
#: Deleted last, when nothing refers to them any more.
_LAST = ("summaries", "messages", "conversations")
_OURS = "(SELECT value FROM json_each(:ids))"


@dataclass(frozen=True, slots=True)
class Held:
    """A conversation and what it takes; `text_bytes` counts its words, `file_bytes` its files on the disk."""

    id: int
    session_id: str
    session_key: str | None
    title: str | None
    active: bool
    created_at: datetime | None
    #: When the newest message was said, else when the conversation began.
    newest_at: datetime | None
    messages: int
    summaries: int
    files: int
    text_bytes: int
    file_bytes: int

    @property
    def name(self) -> str:
        """What patterns are matched against."""
        return Session(self.session_key or None, self.session_id or None).name if self._has_name else ""

    @property
    def _has_name(self) -> bool:
        return bool((self.session_key or "").strip() or self.session_id.strip())


@dataclass(frozen=True, slots=True)
class FilePlace:
    """Where the bytes of a stored file lie."""

    id: str
    conversation_id: int
    place: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Answer:
    """A tool's answer whose text lies in a file; `content` is what the archive shows for it."""

    message_id: int
    entry_id: str | None
    call_id: str
    content: str
    file_id: str


class Retention:
    """Reads what conversations take, and deletes them."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def held(self) -> list[Held]:
        """All conversations, the one that was silent longest first."""
        return [
            Held(id_, text(session), key, title, bool(active), moment(created), moment(newest), *counts)
            for id_, session, key, title, active, created, newest, *counts in self._db.rows(_QUERIES["conversations"])
        ]

    def borrowed(self) -> set[tuple[int, int]]:
        """Pairs of conversations of which the first holds something that belongs to the second."""
        return {(holder, owner) for holder, owner in self._db.rows(_QUERIES["borrowed"])}

    def unchanged(self, seen: Sequence[Held], now: datetime) -> list[int]:
        """Which of these are as they were seen, with nobody at work on them."""
        ids = json.dumps([held.id for held in seen])
        found = {row[0]: row[1:] for row in self._db.rows(_QUERIES["state"], {"ids": ids, "now": state_time(now)})}
        return [
            held.id
            for held in seen
            if held.id in found and _same(held, *found[held.id])
        ]  # fmt: skip

    def files(self, conversation_ids: Sequence[int]) -> list[FilePlace]:
        """The stored files of some conversations."""
        found = self._db.rows(_QUERIES["files"], {"ids": json.dumps(list(conversation_ids))})
        return [FilePlace(*row) for row in found]

    def delete(self, conversation_ids: Sequence[int], now: datetime) -> None:
        """Delete conversations with every row of every table that belongs to them; needs a transaction.

        What stays are digests of their messages, so that no transcript brings them back by itself.
        """
        Histories(self._db).bury(conversation_ids, now)
        ids = {"ids": json.dumps(list(conversation_ids))}
        lent = [(n, *place) for n, place in enumerate(self._db.rows(_QUERIES["unindexed_references"]))]
        for n, table, column in lent:
            self._db.run(f'CREATE INDEX "lossless_prune_{n}" ON "{table}" ("{column}")')
        self._unindex(ids)
        for name in ("forget_spending", "drop_leases", "drop_grants", "drop_parents"):
            self._db.run(_QUERIES[name], ids)
        for table, column, whose in self.dependents():
            inner = _OURS if whose is None else f"(SELECT {column} FROM {whose} WHERE conversation_id IN {_OURS})"
            self._db.run(f'DELETE FROM "{table}" WHERE {column} IN {inner}', ids)
        for table in _LAST:
            self._db.run(f"DELETE FROM {table} WHERE conversation_id IN {_OURS}", ids)
        for n, _, _ in lent:
            self._db.run(f'DROP INDEX "lossless_prune_{n}"')

    def dependents(self) -> list[tuple[str, str, str | None]]:
        """Tables whose rows go first: table, column, and the table that says whose row it is (None: it does)."""
        own = [table for table in self._tables("conversation_id") if table not in {*_LAST, *KEPT}]
        links: list[tuple[str, str, str | None]] = []
        for column, whose in (("message_id", "messages"), ("summary_id", "summaries")):
            links += [(table, column, whose) for table in self._tables(column) if table not in {*own, *_LAST}]
        return [*links, *((table, "conversation_id", None) for table in own)]

    def _tables(self, column: str) -> list[str]:
        return [row[0] for row in self._db.rows(_QUERIES["tables_with"], {"column": column})]

    def _unindex(self, ids: dict[str, str]) -> None:
        self._db.run(_QUERIES["unindex_passages"], ids | {"base": PASSAGE_BASE})
        self._db.run(_QUERIES["unindex_messages"], ids)
        self._db.run(_QUERIES["unindex_versions"], ids)
        self._db.run(_QUERIES["unindex_summaries"], ids)
        for (table,) in self._db.rows(_QUERIES["search_tables"]):
            self._db.run(_QUERIES[table], ids)

    # --- room -----------------------------------------------------------------------------------------

    def give_back(self) -> str | None:
        """Write the file anew without what is free; returns why that was not possible, None when it was."""
        try:
            with self._db.transaction():
                self._db.run(_QUERIES["tidy_message_index"])
                self._db.run(_QUERIES["tidy_summary_index"])
            self._db.run(_QUERIES["spill_to_disk"])
            self._db.run(_QUERIES["vacuum"])
            self._db.row(_QUERIES["truncate_wal"])
        except (ArchiveLocked, ArchiveFull) as error:
            return str(error)
        finally:
            self._db.run(_QUERIES["stay_in_memory"])
            self._db.reconnect()  # where temporary tables lie has changed, and they are gone with it
        return None

    def pages(self) -> dict[str, int] | None:
        """Bytes by table and index; None where SQLite cannot count them. Reads every page."""
        if self._db.row(_QUERIES["has_page_sizes"]) is None:
            return None
        return dict(self._db.rows(_QUERIES["page_sizes"]))

    def texts(self) -> dict[str, int]:
        """Bytes of texts by table, for want of better."""
        return dict(self._db.rows(_QUERIES["text_sizes"]))

    def summary_text(self) -> dict[str, tuple[int, int]]:
        """Number and bytes of summaries by kind."""
        return {kind: (count, size) for kind, count, size in self._db.rows(_QUERIES["summary_text"])}

    def message_text(self) -> tuple[int, int]:
        """Number and bytes of messages."""
        count, size = self._db.row(_QUERIES["message_text"]) or (0, 0)
        return count, size

    # --- transcripts ------------------------------------------------------------------------------------

    def kept_records(self, conversation_id: int, ids: Sequence[str]) -> set[str]:
        """Which of these records of a transcript are kept beside the messages."""
        values = {"conversation_id": conversation_id, "ids": json.dumps(list(ids))}
        return {row[0] for row in self._db.rows(_QUERIES["kept_records"], values)}

    def collectable(self, conversation_id: int) -> list[Answer]:
        """Answers of tools that a transcript need not repeat: in a file, below a leaf, in no context; oldest first."""
        found = self._db.rows(_QUERIES["collectable"], {"conversation_id": conversation_id})
        return [Answer(*row) for row in found]


def _same(held: Held, active: int, newest: object, messages: int, leased: int) -> bool:
    return (bool(active), moment(newest), messages) == (held.active, held.newest_at, held.messages) and not leased
