"""Reads for the people who look after an archive: counts, liveness, and what takes the room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.store.foreign import moment
from lossless.store.sql import load

if TYPE_CHECKING:
    from datetime import datetime

    from lossless.store.database import Database

_QUERIES = load("care")

#: Which tables and indexes belong to which row of the size report.
_ROOM = {
    "messages": ("messages", "message_extras", "message_parts", "message_versions"),
    "summaries": ("summaries", "summary_messages", "summary_parents", "summary_extras"),
    "context": ("context_items", "context_log", "hidden_items"),
    "search index": ("message_index", "summary_index", "version_index", "message_passages"),
    "upstream's search index": ("messages_fts", "summaries_fts"),
}


@dataclass(frozen=True, slots=True)
class Counts:
    """How much an archive holds."""

    conversations: int
    active: int
    messages: int
    summaries: int
    files: int


@dataclass(frozen=True, slots=True)
class DepthTotals:
    """The summaries of one depth."""

    depth: int
    count: int
    tokens: int
    earliest_at: datetime | None
    latest_at: datetime | None


@dataclass(frozen=True, slots=True)
class Totals:
    """The figures of `lcm status`."""

    counts: Counts
    message_tokens: int
    earliest_at: datetime | None
    latest_at: datetime | None
    depths: tuple[DepthTotals, ...]
    context_items: int
    context_tokens: int
    pending: int
    running: int
    failed: int
    #: Messages whose time cannot be read; the span is that of the others.
    undated: int = 0


@dataclass(frozen=True, slots=True)
class Liveness:
    """Whether the archive is alive: what arrived, what was stored, when, and what is refused."""

    last_stored_at: datetime | None
    last_compacted_at: datetime | None
    seen: int
    stored: int
    replayed: int
    skipped: int
    ambiguous: int
    revised: int
    likely: int
    #: Conversations that refuse input: id, since when, why.
    blocked: tuple[tuple[int, datetime | None, str], ...]
    #: Conversations of what fits no other one, which wait for a decision.
    quarantined: tuple[int, ...] = ()

    @classmethod
    def unknown(cls) -> Liveness:
        """Of an archive whose counters cannot be read."""
        return cls(None, None, 0, 0, 0, 0, 0, 0, 0, ())


class Care:
    """Counts, liveness and sizes."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def counts(self) -> Counts:
        row = self._db.row(_QUERIES["counts"])
        assert row is not None
        return Counts(*row)

    def totals(self) -> Totals:
        """Everything that status adds up; reads the whole archive once."""
        messages = self._db.row(_QUERIES["message_totals"]) or (0, 0, None, None, 0)
        context = self._db.row(_QUERIES["context_totals"]) or (0, 0)
        debts = self._db.row(_QUERIES["maintenance_totals"]) or (0, 0, 0)
        depths = tuple(
            DepthTotals(depth, count, tokens, moment(earliest), moment(latest))
            for depth, count, tokens, earliest, latest in self._db.rows(_QUERIES["summary_totals"])
        )
        return Totals(
            self.counts(),
            messages[1],
            moment(messages[2]),
            moment(messages[3]),
            depths,
            context[0],
            context[1],
            debts[0],
            debts[1],
            debts[2],
            messages[4],
        )

    def liveness(self) -> Liveness:
        """The line that says whether anything is lost on the way."""
        row = self._db.row(_QUERIES["ingest_totals"]) or (0, 0, 0, 0, 0, None, 0, 0)
        seen, stored, replayed, skipped, ambiguous, last, revised, likely = row
        newest = self._db.row(_QUERIES["newest_row"])
        compacted = self._db.row(_QUERIES["last_compacted"])
        blocked = tuple((id_, moment(at), reason) for id_, at, reason in self._db.rows(_QUERIES["blocked"]))
        return Liveness(
            moment(last) or (moment(newest[0]) if newest else None),
            moment(compacted[0]) if compacted else None,
            seen, stored, replayed, skipped, ambiguous, revised, likely, blocked,
            tuple(id_ for (id_,) in self._db.rows(_QUERIES["quarantined"])),
        )  # fmt: skip

    def size(self) -> tuple[int, int]:
        """Bytes of the database, and how many of them are free."""
        row = self._db.row(_QUERIES["page_counts"])
        return (row[0], row[1]) if row else (0, 0)

    def room(self) -> dict[str, int]:
        """Bytes by kind of thing; reads every page, so not for every call."""
        taken: dict[str, int] = {}
        for name, size in self._db.rows(_QUERIES["sizes"]):
            kind = _kind_of(name)
            taken[kind] = taken.get(kind, 0) + size
        return dict(sorted(taken.items(), key=lambda item: -item[1]))


def _kind_of(name: str) -> str:
    """What a table, one of its indexes or one of its shadow tables belongs to: the longest name that fits counts."""
    bare = name.removeprefix("sqlite_autoindex_")
    found = [
        (len(table), kind)
        for kind, tables in _ROOM.items()
        for table in tables
        if bare == table or bare.startswith(f"{table}_")
    ]
    return max(found, default=(0, "other"))[1]
