"""What a doctor reads of an archive: few rows, or counts, never everything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.model.times import state_time
from lossless.store.foreign import moment, record, text
from lossless.store.index import PASSAGE_BASE, digest
from lossless.store.sql import load

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from lossless.store.database import Database

_QUERIES = load("symptoms")
#: So many ids of a kind are named; more of them say nothing new.
_NAMED = 100


@dataclass(frozen=True, slots=True)
class Suspect:
    """A summary that may be broken."""

    id: str
    conversation_id: int
    content: str
    model: str


@dataclass(frozen=True, slots=True)
class DebtRow:
    """A sweep that was put off or is said to run."""

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
    #: Whether somebody is at work on the conversation now.
    leased: bool


@dataclass(frozen=True, slots=True)
class IndexDrift:
    """Where search and rows disagree."""

    unindexed_messages: int
    unindexed_summaries: int
    #: Messages whose row in the index is missing, and rows whose message is gone; the first hundred.
    lost: tuple[int, ...]
    gone: tuple[int, ...]
    #: Summaries whose text is not the text that was indexed.
    stale_summaries: tuple[str, ...]

    @property
    def is_none(self) -> bool:
        return not (
            self.unindexed_messages or self.unindexed_summaries or self.lost or self.gone or self.stale_summaries
        )


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Messages of a conversation that were stored twice, side by side."""

    conversation_id: int
    count: int
    first_id: int


class Symptoms:
    """Reads for the doctor, and the one write that closes a debt."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def suspects(self, conversation_id: int | None = None) -> list[Suspect]:
        """Summaries that may be broken, shallow ones first."""
        found = self._db.rows(_QUERIES["suspects"], {"conversation_id": conversation_id})
        return [Suspect(id_, owner, text(content), text(model)) for id_, owner, content, model in found]

    def context_order(self, conversation_id: int) -> list[str]:
        """The summaries in a context, in order."""
        return [row[0] for row in self._db.rows(_QUERIES["context_order"], {"conversation_id": conversation_id})]

    def index_drift(self) -> IndexDrift:
        """Where our search index and the rows disagree; texts of messages are not read again."""
        messages, summaries = self._db.row(_QUERIES["unindexed"]) or (0, 0)
        lost = self._db.rows(_QUERIES["lost_from_index"], {"limit": _NAMED})
        gone = self._db.rows(_QUERIES["gone_from_archive"], {"limit": _NAMED, "base": PASSAGE_BASE})
        texts = self._db.rows(_QUERIES["summary_texts"])
        stale = tuple(id_ for id_, content, known in texts if known != digest(text(content)))
        return IndexDrift(messages, summaries, tuple(row[0] for row in lost), tuple(row[0] for row in gone), stale)

    def debts(self, now: datetime) -> list[DebtRow]:
        """Sweeps that are pending or said to run, those of closed conversations first."""
        return [record(DebtRow, row) for row in self._db.rows(_QUERIES["debts"], {"now": state_time(now)})]

    def close_debt(self, conversation_id: int, revision: int, reason: str, now: datetime) -> bool:
        """Close a pending debt that nobody changed since it was seen; needs a transaction."""
        values = {"conversation_id": conversation_id, "revision": revision, "reason": reason, "now": state_time(now)}
        self._db.run(_QUERIES["close_debt"], values)
        return self._db.changes() > 0

    def duplicates(self) -> list[Duplicates]:
        """Conversations with rows that older engines stored twice."""
        return [Duplicates(*row) for row in self._db.rows(_QUERIES["duplicates"])]

    def open_breakers(self, now: datetime) -> list[tuple[str, int, datetime | None]]:
        """Models that are not asked for now: key, failures, until when."""
        found = self._db.rows(_QUERIES["open_breakers"], {"now": state_time(now)})
        return [(key, failures, moment(until)) for key, failures, until in found]

    def schema(self) -> tuple[int | None, str]:
        """The version of our tables in the file (None: none of ours), and of SQLite."""
        row = self._db.row(_QUERIES["schema"])
        return (row[0], row[1]) if row else (None, "")

    def steps(self) -> dict[str, int]:
        """lossless-claw's migration steps in the file."""
        return dict(self._db.rows(_QUERIES["steps"]))

    def matching(self, filter_id: str, now: datetime, silence: timedelta) -> list[int]:
        """The conversations that a filter of `doctor clean` means; those that are open only after a silence."""
        moments = {"now": state_time(now), "silent_since": state_time(now - silence)}
        return [row[0] for row in self._db.rows(_QUERIES[filter_id], moments)]

    def broken_references(self) -> list[tuple[str, str]]:
        """Rows that refer to rows which are not there: table, and the table referred to."""
        return [(row[0], row[2]) for row in self._db.rows(_QUERIES["references"])]
