"""Grants on disk: leave to read that outlives neither its time, its tokens nor its task."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.model.times import state_time
from lossless.store.rows import moment, time
from lossless.store.sql import load

if TYPE_CHECKING:
    from datetime import datetime

    from lossless.store.database import Database, Params

_QUERIES = load("grants")


@dataclass(frozen=True, slots=True)
class Grant:
    """Leave for one session to read some conversations, so many tokens of them, until a moment."""

    id: str
    #: The session that gave it.
    issuer: str
    #: The session that may use it; None once it was let go.
    holder: str | None
    conversation_ids: tuple[int, ...]
    #: Only these summaries and what is below them; empty means all.
    summary_ids: tuple[str, ...]
    token_cap: int
    tokens_used: int
    max_depth: int
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None = None

    @property
    def remaining(self) -> int:
        """How many tokens it still gives."""
        return max(0, self.token_cap - self.tokens_used)


class Grants:
    """Reads and writes of grants; every write needs a transaction."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def issue(self, grant: Grant) -> None:
        """Store a new grant."""
        values = {
            "id": grant.id, "issuer": grant.issuer, "holder": grant.holder, "depth": grant.max_depth,
            "conversations": json.dumps(grant.conversation_ids), "summaries": json.dumps(grant.summary_ids),
            "cap": grant.token_cap, "now": state_time(grant.created_at), "expires": state_time(grant.expires_at),
        }  # fmt: skip
        self._db.run(_QUERIES["issue"], values)

    def get(self, grant_id: str) -> Grant | None:
        """A grant, whatever became of it; None when it never was or was swept."""
        return self._one("by_id", {"id": grant_id})

    def held_by(self, holder: str, now: datetime) -> Grant | None:
        """The grant of a session: a valid one, else the newest."""
        return self._one("by_holder", {"holder": holder, "now": state_time(now)})

    def _one(self, query: str, params: Params) -> Grant | None:
        row = self._db.row(_QUERIES[query], params)
        if row is None:
            return None
        id_, issuer, holder, conversations, summaries, cap, used, depth, created, expires, revoked = row
        return Grant(
            id_, issuer, holder, tuple(json.loads(conversations)), tuple(json.loads(summaries)), cap, used, depth,
            moment(created), moment(expires), time(revoked),
        )  # fmt: skip

    def charge(self, grant_id: str, tokens: int, now: datetime) -> bool:
        """Take tokens off a grant; False, and nothing taken, when it is no longer valid or has not so many."""
        self._db.run(_QUERIES["charge"], {"id": grant_id, "tokens": tokens, "now": state_time(now)})
        return self._db.changes() > 0

    def revoke_held_by(self, holder: str, now: datetime) -> None:
        """End all grants of a session; the first end counts."""
        self._db.run(_QUERIES["revoke_holder"], {"holder": holder, "now": state_time(now)})

    def unbind(self, holder: str) -> None:
        """Take all grants, ended or not, away from a session."""
        self._db.run(_QUERIES["unbind"], {"holder": holder})

    def sweep(self, before: datetime, now: datetime, marks: str) -> None:
        """Forget grants that ended before a moment, and leases under a prefix that have run out."""
        self._db.run(_QUERIES["sweep"], {"before": state_time(before)})
        last = marks[:-1] + chr(ord(marks[-1]) + 1)
        self._db.run(_QUERIES["sweep_marks"], {"first": marks, "last": last, "now": state_time(now)})

    def remembered(self, name: str) -> str | None:
        """A word that was remembered across restarts."""
        row = self._db.row(_QUERIES["memory"], {"name": name})
        return None if row is None else str(row[0])

    def remember(self, name: str, value: str) -> None:
        """Keep a word across restarts."""
        self._db.run(_QUERIES["remember"], {"name": name, "value": value})
