"""Conversations on disk: one active record per session key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from uuid import uuid4

from lossless.errors import NotFound
from lossless.model.conversations import Session
from lossless.model.times import row_time
from lossless.store import rows
from lossless.store.rows import time
from lossless.store.sql import load

if TYPE_CHECKING:
    from datetime import datetime

    from lossless.model.conversations import Conversation
    from lossless.store.database import Database, Params

_QUERIES = load("conversations")


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A conversation of what had nothing in common with its session, and what was decided about it."""

    conversation_id: int
    session: Session
    decision: Literal["quarantined", "refused"]
    at: datetime | None
    messages: int
    #: The active conversation of the session.
    beside: int | None


class Conversations:
    """Looks conversations up, creates them, archives them."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def _one(self, query: str, params: Params) -> Conversation | None:
        row = self._db.row(_QUERIES[query], params)
        return None if row is None else rows.conversation(row)

    def get(self, conversation_id: int) -> Conversation:
        """One conversation, or `NotFound`."""
        found = self._one("by_id", {"id": conversation_id})
        if found is None:
            raise NotFound("conversation", conversation_id)
        return found

    def find(self, session: Session) -> Conversation | None:
        """The active conversation of a session: by its key, else by its run id.

        A run of a cron job has a conversation of its own, which it finds again after another run has begun.
        """
        found = None
        if session.key and session.is_cron and session.id:
            found = self._one("run_of_key", {"key": session.key, "session_id": session.id})
        if found is None and session.key:
            found = self._one("active_by_key", {"key": session.key})
        if found is None and session.id:
            by_run = self._one("active_by_session", {"session_id": session.id})
            if by_run and (session.key is None or by_run.session_key in (None, session.key)):
                found = by_run
        return found

    def open(self, session: Session, now: datetime) -> Conversation:
        """The active conversation of a session, created when there is none.

        A key that resumes under another run takes the new run's id; each run of a cron job gets a
        conversation of its own and the one before is archived. Needs a transaction.
        """
        found, at = self.find(session), row_time(now)
        if found and session.is_cron and session.id and session.id != found.session_id:
            self.archive(found.id, "cron-rotation", now)
            found = None
        if found is None:
            session_id = session.id or str(uuid4())
            self._db.run(_QUERIES["insert"], {"session_id": session_id, "key": session.key, "now": at})
            return self.get(self._db.last_id())
        if session.id and session.id != found.session_id:
            self._db.run(_QUERIES["rebind"], {"session_id": session.id, "now": at, "id": found.id})
            return self.get(found.id)
        if session.key and found.session_key is None:
            self._db.run(_QUERIES["adopt_key"], {"key": session.key, "now": at, "id": found.id})
            return self.get(found.id)
        return found

    def former(self, conversation: Conversation) -> Conversation | None:
        """The conversation that was closed last under the same key before this one; runs of a cron job have none."""
        if conversation.session_key is None or conversation.session.is_cron:
            return None
        return self._one("former", {"key": conversation.session_key, "id": conversation.id})

    def family(self, session: Session) -> list[Conversation]:
        """All conversations with the session's key (or its run id, without a key), the active one first.

        Runs of a cron job do not belong together: only the active one is returned.
        """
        if session.is_cron:
            found = self.find(session)
            return [found] if found else []
        if session.key:
            query, params = "family_by_key", {"key": session.key}
        else:
            query, params = "family_by_session", {"session_id": session.id or ""}
        members = [rows.conversation(row) for row in self._db.rows(_QUERIES[query], params)]
        if members:
            return members
        found = self.find(session)
        return [found] if found else []

    def archive(self, conversation_id: int, cause: str, now: datetime) -> None:
        """Close a conversation; the first cause stays."""
        self._db.run(_QUERIES["archive"], {"id": conversation_id, "cause": cause, "now": row_time(now)})

    def quarantine(self, beside: Conversation, now: datetime) -> Conversation:
        """A new conversation of the same session that is not its active one, for what has nothing in common with it."""
        values = {"session_id": beside.session_id, "key": beside.session_key, "now": row_time(now)}
        self._db.run(_QUERIES["quarantine"], values)
        return self.get(self._db.last_id())

    def quarantined_of(self, conversation: Conversation) -> list[Conversation]:
        """What is quarantined beside a conversation, or was refused; the newest first."""
        values = {"session_id": conversation.session_id, "key": conversation.session_key}
        return [rows.conversation(row) for row in self._db.rows(_QUERIES["quarantined_of"], values)]

    def quarantined(self) -> list[Quarantined]:
        """All that is quarantined, or was refused."""
        return [
            Quarantined(id_, Session(key=key, id=run), decision, time(at), count, beside)
            for id_, key, run, decision, at, count, beside in self._db.rows(_QUERIES["quarantined"])
        ]

    def accept(self, conversation_id: int, now: datetime) -> None:
        """Let a conversation be the active one of its session; who was it is closed already."""
        self._db.run(_QUERIES["set_active"], {"id": conversation_id, "now": row_time(now)})

    def refuse(self, conversation_id: int, now: datetime) -> None:
        """Note that nobody wants what is quarantined; it stays where it is."""
        self._db.run(_QUERIES["set_cause"], {"id": conversation_id, "cause": "refused", "now": row_time(now)})

    def active_ids(self) -> list[int]:
        """The conversations that go on."""
        return [id_ for (id_,) in self._db.rows(_QUERIES["active_ids"])]

    def give_title(self, conversation_id: int, title: str) -> None:
        """Name a conversation that has no name yet."""
        self._db.run(_QUERIES["give_title"], {"id": conversation_id, "title": title})

    def mark_bootstrapped(self, conversation_id: int, now: datetime) -> None:
        self._db.run(_QUERIES["mark_bootstrapped"], {"id": conversation_id, "now": row_time(now)})
