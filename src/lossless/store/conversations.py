"""Conversations, transcripts and histories: rows ⇄ values.

Upstream columns and metadata keys are translated here only; columns of other programs never make a read fail.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from lossless.model.conversations import Conversation, Session
from lossless.model.identity import fingerprint
from lossless.model.js_json import storable_text
from lossless.model.messages import GENERATED_ID_PREFIX, Json, JsonObject
from lossless.model.records import QuarantinedConversation, TranscriptDecision
from lossless.store.database import (
    Database,
    Row,
    Sql,
    TableAccess,
    column_time,
    load_queries,
    only,
    record_from_row,
    row_values,
)

if TYPE_CHECKING:
    from lossless.store.messages import Messages


@lru_cache(maxsize=64)
def conversation_from_row(row: Row) -> Conversation:
    """A conversation from `conversations.sql`'s columns."""
    return record_from_row(Conversation, row)


class Conversations(TableAccess):
    """Looks conversations up, creates them, archives them."""

    queries = load_queries("conversations")
    #: Close a conversation; the first cause is kept.
    archive: Sql[[int, str, datetime], None] = Sql("run", "id cause now")
    #: Record what became of a quarantined conversation; it stays stored, and closed.
    set_cause: Sql[[int, str, datetime], None] = Sql("run", "id cause now")
    #: Reopen a closed conversation; the active one of its session must be closed before.
    reopen: Sql[[int, datetime], None] = Sql("run", "id now")
    mark_bootstrapped: Sql[[int, datetime], None] = Sql("run", "id now")
    #: The working folder of a conversation, as its host reported it.
    project: Sql[[int], str | None] = Sql("value", "id", "project_of")
    #: Name a conversation that has no title yet.
    give_title: Sql[[int, str], None] = Sql("run", "id title")

    def _all(self, query: str, **values: object) -> list[Conversation]:
        return [conversation_from_row(row) for row in self._rows(query, values)]

    def _one(self, query: str, **values: object) -> Conversation | None:
        row = self._row(query, values)
        return None if row is None else conversation_from_row(row)

    def get(self, conversation_id: int) -> Conversation:
        """One conversation; raises `NotFound`."""
        return only(self._all("by_id", id=conversation_id), "conversation", conversation_id)

    def find(self, session: Session) -> Conversation | None:
        """The active conversation of a session: by its key, else by its run id.

        Each run of a cron job has its own conversation, which it finds again even after another run has started.
        """
        found = None
        if session.key and session.id and session.is_cron:
            found = self._one("run_of_key", key=session.key, session_id=session.id)
        if found is None and session.key:
            found = self._one("active_by_key", key=session.key)
        if found is None and session.id:
            by_run = self._one("active_by_session", session_id=session.id)
            if by_run and (session.key is None or by_run.session_key in (None, session.key)):
                found = by_run
        return found

    def open(self, session: Session, now: datetime) -> Conversation:
        """The active conversation of a session, created when there is none.

        A key that resumes under another run takes the new run's id; each run of a cron job gets its own conversation
        and the previous one is archived. Needs a transaction.
        """
        found = self._open(session, now)
        if session.project and session.project != self.project(found.id):
            self._run("set_project", id=found.id, project=session.project)
        return found

    def _open(self, session: Session, now: datetime) -> Conversation:
        found = self.find(session)
        is_other_run = found is not None and bool(session.id) and session.id != found.session_id
        if found and is_other_run and session.is_cron:
            self.archive(found.id, "cron-rotation", now)
            found = None
        if found is None:
            return self.get(self._added("insert", session_id=session.id or str(uuid4()), key=session.key, now=now))
        if not is_other_run and not (session.key and found.session_key is None):
            return found
        # the key resumes under another run, or a run gets its key
        key, run = (found.session_key, session.id) if is_other_run else (session.key, found.session_id)
        self._run("rename", id=found.id, key=key, session_id=run, now=now)
        return self.get(found.id)

    def former(self, conversation: Conversation) -> Conversation | None:
        """The conversation that was closed last under the same key before this one; none for runs of a cron job."""
        if conversation.session_key is None or conversation.session.is_cron:
            return None
        return self._one("former", key=conversation.session_key, id=conversation.id)

    def family(self, session: Session) -> list[Conversation]:
        """All conversations with the session's key (or its run id, without a key), active first.

        Runs of a cron job are separate: only the active one is returned.
        """
        if not session.is_cron:
            query = "family_by_key" if session.key else "family_by_session"
            if found := self._all(query, key=session.key, session_id=session.id):
                return found
        active = self.find(session)
        return [active] if active else []

    def in_project(self, project: str | None, agent: str | None) -> list[int]:
        """The conversations of a project; without one, those of an agent that have none either."""
        return self._column("in_project", project=project) if project is not None else self.of_agent(agent, alone=True)

    def of_agent(self, agent: str | None, *, alone: bool = False) -> list[int]:
        """The conversations of an agent, by the beginning of their keys."""
        return [] if agent is None else self._column("of_agent", prefix=agent, alone=alone)

    def quarantine(self, active: Conversation, now: datetime) -> Conversation:
        """A new inactive conversation of the same session, for messages that have nothing in common with it."""
        return self.get(self._added("quarantine", session_id=active.session_id, key=active.session_key, now=now))

    def quarantined_of(self, conversation: Conversation) -> list[Conversation]:
        """Conversations of a session that are quarantined or were refused, newest first."""
        return self._all("quarantined_of", session_id=conversation.session_id, key=conversation.session_key)

    def quarantined(self) -> list[QuarantinedConversation]:
        """All conversations that are quarantined or were refused."""
        return [
            QuarantinedConversation(id_, Session(key=key, id=run), decision, column_time(at), count, active)
            for id_, key, run, decision, at, count, active in self._rows("quarantined")
        ]

    def closed_for(self, conversation: Conversation, cause: str, limit: int) -> list[Conversation]:
        """Conversations of the same session that were closed for a cause, last first."""
        key, run = conversation.session_key, conversation.session_id
        return self._all("closed_for", key=key, session_id=run, cause=cause, limit=limit)

    def active_ids(self) -> list[int]:
        return self._column("active_ids")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far a transcript was read; everything before `offset` is stored."""

    path: str
    size: int
    mtime_ms: int
    offset: int
    header_id: str | None = None
    #: The last message's entry, and upstream's hash of it.
    entry_id: str | None = None
    entry_hash: str | None = None
    fork_bounded: bool = False
    lane: str | None = None
    #: Lines up to the offset, the newest records (JSON) and a digest of the bytes there; None when another program
    #: moved it.
    lines: int | None = None
    front: str | None = None
    tail: bytes | None = None
    #: The host's own mark of how far it was read.
    cursor: str | None = None
    #: What kind of transcript it is.
    kind: str | None = None


#: Digests of an entry id and of words, and a second; zeros when unknown.
_MARK = struct.Struct(">8s8sI")
#: How many bytes of a fingerprint are kept here.
PRINT_BYTES = 8
_NONE = bytes(PRINT_BYTES)


@dataclass(frozen=True, slots=True)
class MessageRef:
    """A message of a transcript's path, or one that another conversation has, or had."""

    #: The beginning of its fingerprint; empty for a record that is no message, and for one that left the context on a
    #: branch.
    print: bytes
    #: A digest of the host's entry id; empty without one.
    id: bytes
    #: The second of the message, 0 when unknown.
    at: int
    role: str = ""
    #: Of a path: the entry id, and the size.
    entry_id: str | None = None
    tokens: int = 0
    #: Of a conversation: its row id, 0 when it was deleted.
    row: int = 0
    #: Whether its time is from a transcript; otherwise it may be the time of arrival.
    is_timed: bool = True


@dataclass(frozen=True, slots=True)
class ConversationHistory:
    """The messages of another conversation in order, and whether it followed the same file."""

    number: int
    messages: tuple[MessageRef, ...]
    is_same_file: bool
    #: The second in which it was closed; 0 when unknown.
    ended: int = 0


class TranscriptRecords(TableAccess):
    """Records about hosts' transcripts, and the messages of other conversations that a transcript may repeat."""

    queries = load_queries("transcripts", "histories")
    #: Record that the host started over in the same conversation.
    set_soft_reset: Sql[[int, datetime], None] = Sql("run", "conversation_id now")
    checkpoint: Sql[[int], Checkpoint | None] = Sql("record", "conversation_id", "", Checkpoint)
    #: Record that only the newest part of a fork's history is stored here, of so many messages.
    set_fork: Sql[[int, int], None] = Sql("run", "conversation_id count")
    #: Active conversations with a transcript: conversation, path, size when last seen.
    tracked: Sql[[], list[tuple[int, str, int]]] = Sql("rows")
    last_decision: Sql[[int, str], TranscriptDecision | None] = Sql(
        "record", "conversation_id path", "last_epoch", TranscriptDecision
    )
    decisions: Sql[[int | None], list[TranscriptDecision]] = Sql(
        "records", "conversation_id", "epochs", TranscriptDecision
    )
    #: Allow deleted messages of a session or a transcript to be imported again.
    forget: Sql[[str | None, str, str | None], None] = Sql("run", "key path header_id")
    #: Record that a fork's older history is stored in these conversations only.
    rely: Sql[[int, Iterable[int]], None] = Sql("run", "conversation_id ids")
    #: The conversations that follow, or followed, the transcript with this path or header id.
    following: Sql[[str], list[int]] = Sql("column", "name")

    def __init__(self, database: Database, messages: Messages | None = None) -> None:
        super().__init__(database)
        self._messages = messages

    def set_checkpoint(self, conversation_id: int, point: Checkpoint, now: datetime) -> None:
        """Record how far a transcript is stored; part of the transaction that stores it."""
        values = row_values(point) | {"conversation_id": conversation_id, "lines": point.lines or 0, "now": now}
        if not self._changed("advance", values):
            self._run("set_checkpoint", values)
        self._run("set_state", values)

    def seen(self, path: str) -> dict[int, tuple[int, int]]:
        """Size and modification time of a file at its last read, by conversation."""
        return {id_: (size, changed) for id_, size, changed in self._rows("seen", path=path)}

    def decide(
        self, conversation_id: int, point: Checkpoint, decision: str, reason: str, messages: int, now: datetime
    ) -> None:
        values = row_values(point) | {"conversation_id": conversation_id, "decision": decision, "reason": reason}
        self._run("add_epoch", values | {"messages": messages, "now": now})

    def settle(self, epoch: TranscriptDecision, decision: str, reason: str, now: datetime) -> None:
        """Record the user's decision about a held transcript."""
        self._run("add_epoch", row_values(epoch) | {"decision": decision, "reason": reason, "now": now})

    def held(self) -> list[TranscriptDecision]:
        """Transcripts that wait for the user's decision."""
        return self._records(TranscriptDecision, "decided", decision="held")

    def refused(self) -> list[TranscriptDecision]:
        """Transcripts that were refused; `accept` reverses that."""
        return self._records(TranscriptDecision, "decided", decision="refused")

    def keep_records(self, conversation_id: int, records: Iterable[tuple[str | None, str, JsonObject]]) -> None:
        """Store records that are not messages (id, kind, record), without duplicates."""
        rows = []
        for id_, kind, record in records:
            packed, digest = pack_record(record)
            key = id_ if id_ is not None and id_.isprintable() else digest
            rows.append((conversation_id, key, storable_text(kind), packed))
        self._run_many("keep_record", rows)

    def records(self, conversation_id: int) -> list[tuple[int, str, JsonObject]]:
        """Records that are not messages: the seq of the message before each, its kind, the original record."""
        rows = self._rows("records", conversation_id=conversation_id)
        return [(seq, kind, unpack_record(blob)) for seq, kind, blob in rows]

    def former(self, conversation: Conversation) -> list[int]:
        """The conversations that were closed under the same name before this one; none for runs of a cron job."""
        if conversation.session.is_cron:
            return []
        return self._column("former", key=conversation.session_key, run=conversation.session_id, id=conversation.id)

    def known(self, conversation_ids: Sequence[int], entry_ids: Sequence[str]) -> list[tuple[str, int, bytes, int]]:
        """Which entry ids some conversations have: id, conversation, the beginning of its fingerprint, row."""
        return self._rows("known", ids=conversation_ids, entries=entry_ids, size=PRINT_BYTES)

    def history(self, conversation_id: int, path: str) -> ConversationHistory:
        """All messages of a conversation, and whether it followed the file at `path`."""
        rows = self._rows("stored_refs", conversation_id=conversation_id)
        foreign = [] if self._messages is None else self._messages.many([row[0] for row in rows if row[1] is None])
        prints = {one.id: fingerprint(one.message) for one in foreign}
        followed, ended, *_ = self._row("life", conversation_id=conversation_id) or (None, None)
        refs = tuple(_message_ref(row, prints) for row in rows)
        return ConversationHistory(conversation_id, refs, bool(path) and followed == path, _second(ended))

    def bury(self, conversation_ids: Sequence[int], now: datetime) -> None:
        """Keep digests of the messages of conversations that are about to be deleted; part of that transaction."""
        for id_ in conversation_ids:
            refs = [_message_ref(row, {}) for row in self._rows("stored_refs", conversation_id=id_)]
            marks = [_MARK.pack(one.id or _NONE, one.print or _NONE, one.at if one.is_timed else 0) for one in refs]
            if marks:
                self._run("bury", conversation_id=id_, marks=b"".join(marks), now=now)

    def pruned(self, key: str | None, path: str, header_id: str | None) -> list[ConversationHistory]:
        """Digests of the deleted messages of a session, or of a transcript."""
        return [
            ConversationHistory(number, tuple(_unpacked(marks)), bool(path) and followed == path)
            for number, followed, marks in self._rows("pruned", key=key, path=path, header_id=header_id)
        ]


def pack_record(record: Json) -> tuple[bytes, str]:
    """A record in its stored form, and a key for one without an id."""
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return zlib.compress(text, 6), GENERATED_ID_PREFIX + blake2b(text, digest_size=16).hexdigest()


def unpack_record(packed: bytes) -> Any:
    """The inverse of `pack_record`."""
    return json.loads(zlib.decompress(packed).decode("utf-8", "surrogatepass"))


def entry_id_digest(entry_id: str | None) -> bytes:
    """A digest of a host's entry id; empty without one, or when it was generated for a file."""
    if entry_id is None or entry_id.startswith(GENERATED_ID_PREFIX):
        return b""
    return blake2b(entry_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _message_ref(row: Row, prints: dict[int, bytes]) -> MessageRef:
    id_, print_, entry_id, created_at, claimed, is_hidden, role = row
    seen = print_ or prints.get(id_, b"")
    is_timed = not claimed and entry_id is not None
    print_ = b"" if is_hidden else seen[:PRINT_BYTES]
    return MessageRef(print_, entry_id_digest(entry_id), _second(created_at), role, row=id_, is_timed=is_timed)


def _unpacked(marks: bytes) -> Iterable[MessageRef]:
    for id_, print_, at in _MARK.iter_unpack(marks[: (len(marks) - len(marks) % _MARK.size)]):
        yield MessageRef(b"" if print_ == _NONE else print_, b"" if id_ == _NONE else id_, at)


def _second(raw: object) -> int:
    at = column_time(raw)
    return 0 if at is None else max(0, int(at.timestamp()))
