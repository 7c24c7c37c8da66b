"""Transcripts on disk: how far each was read, what was decided about it, and what in it is no message."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from lossless.model.messages import MADE_UP
from lossless.model.times import row_time
from lossless.store.rows import time
from lossless.store.sql import load

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from lossless.model.messages import Json, JsonObject
    from lossless.store.database import Database, Row

_QUERIES = load("transcripts")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far a transcript was read; everything before `offset` is stored."""

    path: str
    size: int
    mtime_ms: int
    offset: int
    header_id: str | None = None
    #: The last message's entry, and the hash under which upstream remembers it.
    entry_id: str | None = None
    entry_hash: str | None = None
    fork_bounded: bool = False
    lane: str | None = None
    #: Lines up to the offset, the newest records there (JSON), a digest of the bytes there; None when another
    #: program has moved the checkpoint.
    lines: int | None = None
    front: str | None = None
    tail: bytes | None = None
    #: The host's own mark of how far it was read.
    cursor: str | None = None
    #: What kind of transcript it is.
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class Epoch:
    """What was decided about a transcript, when and why."""

    id: int
    conversation_id: int
    path: str
    header_id: str | None
    size: int
    mtime_ms: int
    decision: str
    reason: str
    messages: int
    at: datetime | None


class Transcripts:
    """Reads and writes what is remembered of hosts' transcripts."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def checkpoint(self, conversation_id: int) -> Checkpoint | None:
        row = self._db.row(_QUERIES["checkpoint"], {"conversation_id": conversation_id})
        if row is None:
            return None
        return replace(Checkpoint(*row), fork_bounded=bool(row[7]))

    def set_checkpoint(self, conversation_id: int, point: Checkpoint, now: datetime) -> None:
        """Remember how far a transcript is stored; belongs into the transaction that stores it."""
        values = {
            "conversation_id": conversation_id, "path": point.path, "size": point.size, "mtime_ms": point.mtime_ms,
            "offset": point.offset, "header_id": point.header_id, "entry_id": point.entry_id,
            "entry_hash": point.entry_hash,
        }  # fmt: skip
        self._db.run(_QUERIES["advance"], values)
        if not self._db.changes():
            self._db.run(_QUERIES["set_checkpoint"], {**values, "now": row_time(now)})
        self._db.run(
            _QUERIES["set_state"],
            {
                "conversation_id": conversation_id, "lane": point.lane, "offset": point.offset,
                "lines": point.lines or 0, "front": point.front, "tail": point.tail, "cursor": point.cursor,
                "kind": point.kind,
            },
        )  # fmt: skip

    def set_fork(self, conversation_id: int, count: int) -> None:
        """Note that only the newest part of a fork's history is kept here, of so many messages."""
        self._db.run(_QUERIES["set_fork"], {"conversation_id": conversation_id, "count": count})

    def set_soft_reset(self, conversation_id: int, now: datetime) -> None:
        """Note that the host began afresh in the same conversation."""
        self._db.run(_QUERIES["set_soft_reset"], {"conversation_id": conversation_id, "now": row_time(now)})

    def seen(self, path: str) -> dict[int, tuple[int, int]]:
        """Size and time of change of a file when each of its conversations was read last, by conversation."""
        return {id_: (size, changed) for id_, size, changed in self._db.rows(_QUERIES["seen"], {"path": path})}

    def tracked(self) -> list[tuple[int, str, int]]:
        """Active conversations with a transcript: conversation, path, size when last seen."""
        return [(id_, path, size) for id_, path, size in self._db.rows(_QUERIES["tracked"])]

    def decide(
        self,
        conversation_id: int,
        point: Checkpoint,
        decision: str,
        reason: str,
        messages: int,
        now: datetime,
    ) -> None:
        """Record a decision about a transcript."""
        self._db.run(
            _QUERIES["add_epoch"],
            {
                "conversation_id": conversation_id, "path": point.path, "header_id": point.header_id,
                "size": point.size, "mtime_ms": point.mtime_ms, "decision": decision, "reason": reason,
                "messages": messages, "now": row_time(now),
            },
        )  # fmt: skip

    def settle(self, epoch: Epoch, decision: str, reason: str, now: datetime) -> None:
        """Record what a person decided about a transcript that was held back."""
        point = Checkpoint(epoch.path, epoch.size, epoch.mtime_ms, 0, epoch.header_id)
        self.decide(epoch.conversation_id, point, decision, reason, epoch.messages, now)

    def last_decision(self, conversation_id: int, path: str) -> Epoch | None:
        row = self._db.row(_QUERIES["last_epoch"], {"conversation_id": conversation_id, "path": path})
        return None if row is None else _epoch(row)

    def decisions(self, conversation_id: int | None = None) -> list[Epoch]:
        """All decisions, oldest first."""
        return [_epoch(row) for row in self._db.rows(_QUERIES["epochs"], {"conversation_id": conversation_id})]

    def held(self) -> list[Epoch]:
        """Transcripts that wait for a person."""
        return self._decided("held")

    def refused(self) -> list[Epoch]:
        """Transcripts that a person has refused, until somebody accepts them."""
        return self._decided("refused")

    def _decided(self, decision: str) -> list[Epoch]:
        return [_epoch(row) for row in self._db.rows(_QUERIES["decided"], {"decision": decision})]

    def keep_records(self, conversation_id: int, records: Iterable[tuple[str | None, str, JsonObject]]) -> None:
        """Keep records that are no messages (id, kind, record); one that is kept already is kept once."""
        rows = []
        for id_, kind, record in records:
            packed, digest = packed_record(record)
            key = id_ if id_ is not None and id_.isprintable() else digest
            rows.append({"conversation_id": conversation_id, "key": key, "kind": kind, "record": packed})
        self._db.run_many(_QUERIES["keep_record"], rows)

    def records(self, conversation_id: int) -> list[tuple[int, str, JsonObject]]:
        """What is kept beside the messages: the seq of the message before it, its kind, the record as it came."""
        found = self._db.rows(_QUERIES["records"], {"conversation_id": conversation_id})
        return [
            (seq, kind, json.loads(zlib.decompress(blob).decode("utf-8", "surrogatepass"))) for seq, kind, blob in found
        ]


def packed_record(record: Json) -> tuple[bytes, str]:
    """A record as it is stored, and the key of one that has no id."""
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return zlib.compress(text, 6), MADE_UP + blake2b(text, digest_size=16).hexdigest()


def _epoch(row: Row) -> Epoch:
    return replace(Epoch(*row), at=time(row[9]))
