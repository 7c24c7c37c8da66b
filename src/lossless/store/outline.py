"""The shape of a graph of summaries, and what happened to contexts over time: for pictures and for leafing through."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.model.times import state_time
from lossless.store.foreign import record, text
from lossless.store.rows import moment
from lossless.store.sql import load

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from lossless.store.database import Database

_QUERIES = load("outline")
_BEGINNING_BYTES = 640


@dataclass(frozen=True, slots=True)
class Tops:
    """Some summaries that nothing stands over, oldest first; how many there are, and which are in the context."""

    ids: tuple[str, ...]
    total: int
    in_context: frozenset[str]


@dataclass(frozen=True, slots=True)
class Shape:
    """A summary as a picture shows it."""

    id: str
    depth: int
    tokens: int
    #: Of the messages below it.
    source_tokens: int
    earliest_at: datetime | None
    latest_at: datetime | None
    in_context: bool


@dataclass(frozen=True, slots=True)
class Size:
    """How large a context was before and after a change."""

    at: datetime
    action: str
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True)
class CallDay:
    """The model calls of one day (UTC); `costs` are those that are known."""

    day: str
    calls: int
    input_tokens: int
    output_tokens: int
    costs: tuple[str, ...]
    unpriced: int


@dataclass(frozen=True, slots=True)
class FoldDay:
    """The folds of one day (UTC), and the tokens that they took out of contexts."""

    day: str
    folds: int
    tokens: int


class Outline:
    """Reads shapes and histories; never writes."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def tops(self, conversation_id: int, limit: int, offset: int = 0) -> Tops:
        """The summaries that stand in the context, or that nothing was made of; oldest first."""
        place = {"conversation_id": conversation_id, "limit": limit, "offset": offset}
        rows = self._db.rows(_QUERIES["tops"], place)
        there = frozenset(id_ for id_, ordinal, _ in rows if ordinal is not None)
        return Tops(tuple(id_ for id_, _, _ in rows), rows[0][2] if rows else 0, there)

    def in_context(self, conversation_id: int, summary_ids: Iterable[str]) -> frozenset[str]:
        """Which of some summaries stand in the context."""
        values = {"conversation_id": conversation_id, "ids": json.dumps(list(summary_ids))}
        return frozenset(row[0] for row in self._db.rows(_QUERIES["standing"], values))

    def shapes(self, conversation_id: int) -> list[Shape]:
        """All summaries of a conversation, shallow ones first, then by time."""
        return [record(Shape, row) for row in self._db.rows(_QUERIES["shapes"], {"conversation_id": conversation_id})]

    def edges(self, conversation_id: int) -> list[tuple[str, str]]:
        """Pairs of a summary and one that it was made of, in order."""
        return [
            (user, source) for user, source in self._db.rows(_QUERIES["edges"], {"conversation_id": conversation_id})
        ]

    def beginnings(self, conversation_id: int) -> dict[str, str]:
        """The first words of each summary."""
        values = {"conversation_id": conversation_id, "bytes": _BEGINNING_BYTES}
        return {id_: text(raw) for id_, raw in self._db.rows(_QUERIES["beginnings"], values)}

    def sizes(self, conversation_id: int, limit: int) -> list[Size]:
        """How a context's size changed, oldest first; at most the newest `limit` changes."""
        rows = self._db.rows(_QUERIES["sizes"], {"conversation_id": conversation_id, "limit": limit})
        return [Size(moment(at), action, before, after) for at, action, before, after in reversed(rows)]

    def calls_by_day(self, since: datetime, conversation_id: int | None = None) -> list[CallDay]:
        """Model calls by day, of one conversation or of all."""
        values = {"since": state_time(since), "conversation_id": conversation_id}
        return [
            CallDay(day, calls, read, written, tuple(costs.split(",")) if costs else (), unpriced)
            for day, calls, read, written, costs, unpriced in self._db.rows(_QUERIES["calls_by_day"], values)
        ]

    def folds_by_day(self, since: datetime, conversation_id: int | None = None) -> list[FoldDay]:
        """Folds by day, of one conversation or of all."""
        values = {"since": state_time(since), "conversation_id": conversation_id}
        return [FoldDay(*row) for row in self._db.rows(_QUERIES["folds_by_day"], values)]
