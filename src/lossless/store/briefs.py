"""Focus briefs on disk: written, replaced by the next one, put away."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.model.times import row_time
from lossless.store.rows import time
from lossless.store.sql import load

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from lossless.model.conversations import Conversation
    from lossless.store.database import Database, Row

_QUERIES = load("briefs")


@dataclass(frozen=True, slots=True)
class Brief:
    """A focus brief, whatever became of it."""

    id: str
    conversation_id: int
    prompt: str
    content: str
    #: `active`, `superseded`, `inactive`, `failed` or `draft`.
    status: str
    tokens: int
    target_tokens: int
    covered_latest_at: datetime | None
    covered_message_seq: int | None
    context_hash: str
    error: str | None
    created_at: datetime | None
    #: JSON about how it was made.
    raw: str | None = None


class Briefs:
    """Reads and writes of focus briefs; what writes needs a transaction."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def newest(self, conversation_id: int, limit: int = 1) -> list[Brief]:
        """The briefs of a conversation, newest first."""
        found = self._db.rows(_QUERIES["newest"], {"conversation_id": conversation_id, "limit": limit})
        return [_brief(row) for row in found]

    def sources(self, brief_id: str) -> dict[str, tuple[str, ...]]:
        """The summaries behind a brief by their role."""
        found: dict[str, tuple[str, ...]] = {}
        for summary_id, role in self._db.rows(_QUERIES["sources"], {"id": brief_id}):
            found[role] = (*found.get(role, ()), summary_id)
        return found

    def add(
        self, conversation: Conversation, brief: Brief, sources: Mapping[str, Sequence[str]], now: datetime
    ) -> None:
        """Write a brief; an active one supersedes those before it."""
        at = row_time(now)
        latest = None if brief.covered_latest_at is None else row_time(brief.covered_latest_at)
        self._db.run(
            _QUERIES["insert"],
            {
                "id": brief.id, "conversation_id": conversation.id, "session_key": conversation.session_key,
                "prompt": brief.prompt, "content": brief.content, "status": brief.status, "tokens": brief.tokens,
                "target": brief.target_tokens, "latest": latest, "seq": brief.covered_message_seq,
                "hash": brief.context_hash, "run": brief.id, "raw": brief.raw, "error": brief.error, "now": at,
            },
        )  # fmt: skip
        rows = [(brief.id, id_, n, role, at) for role, ids in sources.items() for n, id_ in enumerate(ids)]
        if rows:
            self._db.run_many(_QUERIES["add_source"], rows)
        if brief.status == "active":
            self._db.run(_QUERIES["supersede"], {"conversation_id": conversation.id, "id": brief.id, "now": at})

    def deactivate(self, conversation_id: int, now: datetime) -> bool:
        """Put the active brief away; False when there was none."""
        self._db.run(_QUERIES["deactivate"], {"conversation_id": conversation_id, "now": row_time(now)})
        return self._db.changes() > 0

    def set_status(self, brief_id: str, status: str, now: datetime) -> None:
        self._db.run(_QUERIES["set_status"], {"id": brief_id, "status": status, "now": row_time(now)})

    def since(self, brief: Brief) -> tuple[int, int, int]:
        """What came after a brief: messages, their tokens, summaries."""
        at = row_time(brief.created_at) if brief.created_at else "1970-01-01"
        place = {"conversation_id": brief.conversation_id, "seq": _last_seq(brief), "at": at}
        row = self._db.row(_QUERIES["since"], place)
        return (row[0], row[1], row[2]) if row else (0, 0, 0)

    def last_seq(self, conversation_id: int) -> int:
        """The seq of the newest message, for a brief to remember."""
        row = self._db.row(_QUERIES["last_seq"], {"conversation_id": conversation_id})
        return row[0] if row else 0


def _last_seq(brief: Brief) -> int:
    """The newest message when a brief was written; for one of another program, the newest that it covers."""
    try:
        found = json.loads(brief.raw or "{}")
    except ValueError:
        found = {}
    last = found.get("lastSeq") if isinstance(found, dict) else None
    return last if isinstance(last, int) else brief.covered_message_seq or 0


def _brief(row: Row) -> Brief:
    id_, conversation_id, prompt, content, status, tokens, target, latest, seq, hash_, error, created, raw = row
    return Brief(
        id_, conversation_id, prompt, content, status, tokens, target, time(latest), seq, hash_, error, time(created),
        raw,
    )  # fmt: skip
