"""The graph of summaries: sources, neighbours, and how contexts changed over time."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from lossless.model.records import DailyCalls, DailyFolds, SummaryShape
from lossless.model.times import state_time
from lossless.store.database import TableAccess, by_ids, column_text, column_time, group_rows, load_queries

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from lossless.model.context import SummaryKind
    from lossless.store.database import Row


class LineageNode(NamedTuple):
    """A summary in the graph: sizes and span, no text."""

    id: str
    conversation_id: int
    depth: int
    tokens: int
    descendant_tokens: int
    source_message_tokens: int
    descendant_count: int
    #: How many summaries it was made of; 0 for a leaf.
    source_count: int
    earliest_at: datetime | None
    latest_at: datetime | None

    @property
    def kind(self) -> SummaryKind:
        return "leaf" if self.depth == 0 else "condensed"


_BEGINNING_BYTES = 640


@dataclass(frozen=True, slots=True)
class TopSummaries:
    """A page of top-level summaries, oldest first; how many there are, and which are in the context."""

    ids: tuple[str, ...]
    total: int
    in_context: frozenset[str]


@dataclass(frozen=True, slots=True)
class ContextSize:
    at: datetime
    action: str
    tokens_before: int
    tokens_after: int


class SummaryLineage(TableAccess):
    """Reads sources of summaries, neighbours of messages, shapes and histories; never writes."""

    queries = load_queries("lineage", "outline")

    def nodes(self, summary_ids: Iterable[str]) -> dict[str, LineageNode]:
        """Summaries by id; unknown ids are left out."""
        return {row[0]: _node(row) for row in self._rows("nodes", self._seen(summary_ids))}

    def sources(self, summary_ids: Iterable[str]) -> dict[str, list[LineageNode]]:
        """The summaries that each of some summaries was made of, in order."""
        return dict(group_rows(self._rows("sources", self._seen(summary_ids)), lambda *row: _node(row)))

    def leaf_messages(self, summary_ids: Iterable[str]) -> dict[str, list[int]]:
        """The ids of the messages that each of some leaves was made of, in order."""
        return dict(group_rows(self._rows("leaf_messages", by_ids(summary_ids)), lambda id_: id_))

    def is_below(self, summary_id: str, tops: Iterable[str]) -> bool:
        """Whether a summary is one of `tops`, or is under one of them at any depth."""
        return self._row("is_below", **by_ids(tops), id=summary_id) is not None

    def places(self, message_ids: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Conversation and seq of messages; unknown ids are left out."""
        found = self._rows("places", self._seen(message_ids))
        return {id_: (conversation_id, seq) for id_, conversation_id, seq in found}

    def before(self, conversation_id: int, seq: int, limit: int = 1) -> list[int]:
        """Ids of the messages just before a position, oldest first."""
        return self._column("before", conversation_id=conversation_id, seq=seq, limit=limit)[::-1]

    def after(self, conversation_id: int, seq: int, limit: int = 1) -> list[int]:
        """Ids of the messages just after a position, oldest first."""
        return self._column("after", conversation_id=conversation_id, seq=seq, limit=limit)

    def tops(self, conversation_id: int, limit: int, offset: int = 0) -> TopSummaries:
        """The summaries that are in the context or not a source of any other; oldest first."""
        rows = self._rows("tops", conversation_id=conversation_id, limit=limit, offset=offset)
        there = frozenset(id_ for id_, ordinal, _ in rows if ordinal is not None)
        return TopSummaries(tuple(id_ for id_, _, _ in rows), rows[0][2] if rows else 0, there)

    def in_context(self, conversation_id: int, summary_ids: Iterable[str]) -> frozenset[str]:
        """Which of these summaries are in the context."""
        return frozenset(self._column("in_context", conversation_id=conversation_id, ids=json.dumps(list(summary_ids))))

    def shapes(self, conversation_id: int) -> list[SummaryShape]:
        """All summaries of a conversation, shallowest first, then by time."""
        return self._records(SummaryShape, "shapes", conversation_id=conversation_id)

    def edges(self, conversation_id: int) -> list[tuple[str, str]]:
        """Pairs of a summary and one of its sources, in order."""
        return self._rows("edges", conversation_id=conversation_id)

    def beginnings(self, conversation_id: int) -> dict[str, str]:
        """The first words of each summary."""
        found = self._rows("beginnings", conversation_id=conversation_id, bytes=_BEGINNING_BYTES)
        return {id_: column_text(raw) for id_, raw in found}

    def sizes(self, conversation_id: int, limit: int) -> list[ContextSize]:
        """How a context's size changed, oldest first; at most the newest `limit` changes."""
        return self._records(ContextSize, "sizes", conversation_id=conversation_id, limit=limit)[::-1]

    def calls_by_day(self, since: datetime, conversation_id: int | None = None) -> list[DailyCalls]:
        """Model calls by day, of one conversation or of all."""
        return self._records(DailyCalls, "calls_by_day", since=state_time(since), conversation_id=conversation_id)

    def folds_by_day(self, since: datetime, conversation_id: int | None = None) -> list[DailyFolds]:
        """Folds by day, of one conversation or of all."""
        return self._records(DailyFolds, "folds_by_day", since=state_time(since), conversation_id=conversation_id)


def _node(row: Row) -> LineageNode:
    return LineageNode(*row[:8], *map(column_time, row[8:]))
