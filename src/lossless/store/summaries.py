"""Summaries on disk, written whole with their sources; the graph between them, and how contexts changed over time."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from lossless.errors import NotFound, Stale
from lossless.model.context import ContextItem, MessageItem, SummaryItem
from lossless.model.records import DailyCalls, DailyFolds, SummaryShape
from lossless.model.times import row_time, state_time
from lossless.store import rows
from lossless.store.database import load_queries
from lossless.store.rows import column_text, record_from_row, time_or_epoch, time_or_none

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from lossless.model.summaries import NewSummary, Summary, SummaryKind
    from lossless.store.database import Database, Row
    from lossless.store.search.index import SearchIndex

_SUMMARY_QUERIES = load_queries("summaries")


@dataclass(frozen=True, slots=True)
class SourceChange:
    """What a stale summary does not know of a message: it has other words, it left the context, or it joined."""

    message_id: int
    kind: Literal["revised", "removed", "added"]
    content: str


@dataclass(frozen=True, slots=True)
class ChangeMark:
    """The newest version of a message, and the newest change of a context."""

    version: int
    change: int


class Summaries:
    """Reads summaries and their sources; writes new ones."""

    def __init__(self, database: Database, index: SearchIndex) -> None:
        self._db, self._index = database, index
        self._has_pending: bool | None = None

    def insert(self, conversation_id: int, sources: Sequence[ContextItem], new: NewSummary, now: datetime) -> None:
        """Store a summary with links to its sources and the spans and counts that follow from them."""
        message_ids = [item.message_id for item in sources if isinstance(item, MessageItem)]
        summary_ids = [item.summary_id for item in sources if isinstance(item, SummaryItem)]
        spans = self._leaf_spans(message_ids) if message_ids else self._condensed_spans(summary_ids)
        self._db.run(
            _SUMMARY_QUERIES["insert"],
            {
                "id": new.id, "conversation_id": conversation_id, "kind": "leaf" if new.depth == 0 else "condensed",
                "depth": new.depth, "content": new.content, "tokens": new.tokens, "created": row_time(now),
                "files": json.dumps(new.file_ids, separators=(",", ":")), "model": new.model, **spans,
            },
        )  # fmt: skip
        if message_ids:
            self._db.run_many(_SUMMARY_QUERIES["link_message"], [(new.id, id_, n) for n, id_ in enumerate(message_ids)])
        else:
            self._db.run_many(_SUMMARY_QUERIES["link_source"], [(new.id, id_, n) for n, id_ in enumerate(summary_ids)])
        self._index.put_summary(new.id, new.content)
        self._index.put_upstream_summary(new.id, new.content)

    def _leaf_spans(self, message_ids: list[int]) -> dict[str, object]:
        row = self._db.row(_SUMMARY_QUERIES["span_of_messages"], {"ids": json.dumps(message_ids)})
        assert row is not None
        if row[3] != len(message_ids):
            raise Stale("a message of this summary is gone")
        return {
            "earliest": row[4], "latest": row[5], "descendants": 0, "descendant_tokens": 0,
            "source_tokens": row[2] or 0,
        }  # fmt: skip

    def _condensed_spans(self, summary_ids: list[str]) -> dict[str, object]:
        row = self._db.row(_SUMMARY_QUERIES["span_of_summaries"], {"ids": json.dumps(summary_ids)})
        assert row is not None
        if row[5] != len(summary_ids):
            raise Stale("a source of this summary is gone")
        return {
            "earliest": row[0], "latest": row[1], "descendants": row[2], "descendant_tokens": row[3],
            "source_tokens": row[4],
        }  # fmt: skip

    def mark_pending_stale(self, conversation_id: int, first: int, last: int) -> None:
        """Tell a live upstream that its half-made summaries over these ordinals no longer fit."""
        if self._has_pending is None:
            self._has_pending = self._db.row(_SUMMARY_QUERIES["has_pending"]) is not None
        if self._has_pending:
            values = {"conversation_id": conversation_id, "first": first, "last": last}
            self._db.run(_SUMMARY_QUERIES["mark_pending_stale"], values)
            self._db.run(_SUMMARY_QUERIES["mark_pending_nodes_stale"], {"conversation_id": conversation_id})

    def get(self, summary_id: str) -> Summary:
        """One summary, or `NotFound`."""
        found = self.many([summary_id])
        if not found:
            raise NotFound("summary", summary_id)
        return found[0]

    def many(self, summary_ids: Sequence[str]) -> list[Summary]:
        """Summaries by id with the ids of their sources, in the order asked for; unknown ids are left out."""
        if not summary_ids:
            return []
        ids = {"ids": json.dumps(list(summary_ids))}
        sources: defaultdict[str, list[str]] = defaultdict(list)
        for summary_id, source_id in self._db.rows(_SUMMARY_QUERIES["sources_of"], ids):
            sources[summary_id].append(source_id)
        found = {
            row[0]: rows.summary_from_row(row, tuple(sources[row[0]]))
            for row in self._db.rows(_SUMMARY_QUERIES["by_ids"], ids)
        }
        return [found[id_] for id_ in summary_ids if id_ in found]

    def message_ids(self, summary_id: str) -> list[int]:
        """The messages that a leaf was made of, in order."""
        return [row[0] for row in self._db.rows(_SUMMARY_QUERIES["messages_of"], {"id": summary_id})]

    def prepared(self, conversation_id: int, message_ids: Sequence[int]) -> Summary | None:
        """The leaf that was written ahead for exactly these messages and has no place yet, if there is one."""
        place = {"conversation_id": conversation_id, "first": message_ids[0]}
        for (id_,) in self._db.rows(_SUMMARY_QUERIES["prepared"], place):
            if self.message_ids(id_) == list(message_ids):
                return self.get(id_)
        return None

    def used_in(self, summary_id: str) -> list[str]:
        """The summaries that were made of this one."""
        return [row[0] for row in self._db.rows(_SUMMARY_QUERIES["used_in"], {"id": summary_id})]

    def mark_stale(self, message_ids: Sequence[int], now: datetime) -> tuple[str, ...]:
        """Note that these messages were revised below every summary that covers them; returns those summaries."""
        values = {"ids": json.dumps(list(message_ids)), "at": row_time(now)}
        found = self._db.rows(_SUMMARY_QUERIES["above"], values)
        self._db.run(_SUMMARY_QUERIES["mark_stale"], values)
        return tuple(row[0] for row in found)

    def stale(self, conversation_id: int) -> dict[str, tuple[int, ...]]:
        """The summaries of a conversation that are stale, and the messages that were revised below each."""
        found: dict[str, tuple[int, ...]] = {}
        for summary_id, message_id in self._db.rows(_SUMMARY_QUERIES["stale"], {"conversation_id": conversation_id}):
            found[summary_id] = (*found.get(summary_id, ()), message_id)
        return found

    def clear_stale(self, summary_ids: Sequence[str], since: int | None = None) -> None:
        """Note that these summaries, sources first, were written anew and say what their messages say.

        What their sources do not say yet stays noted, and so does what was revised after the version `since`.
        """
        last = 2**62 if since is None else since
        self._db.run_many(_SUMMARY_QUERIES["clear_stale"], [{"id": id_, "since": last} for id_ in summary_ids])

    def changes_below(self, summary_ids: Sequence[str]) -> dict[str, tuple[SourceChange, ...]]:
        """What changed below those of these summaries that are stale, in the order in which it was said."""
        found: dict[str, tuple[SourceChange, ...]] = {}
        for summary_id, *change in self._db.rows(
            _SUMMARY_QUERIES["changes_below"], {"ids": json.dumps(list(summary_ids))}
        ):
            found[summary_id] = (*found.get(summary_id, ()), SourceChange(*change))
        return found

    def moment(self) -> ChangeMark:
        """Where the archive stands: what changes later is found by it."""
        return ChangeMark(*(self._db.row(_SUMMARY_QUERIES["moment"]) or (0, 0)))

    def mark_new(self, new_id: str, sources: Sequence[ContextItem], since: ChangeMark | None, now: datetime) -> None:
        """Note what a summary that was just written cannot know: what its sources do not say, and what changed since.

        `since` is the moment at which its sources were read.
        """
        if names := [item.summary_id for item in sources if isinstance(item, SummaryItem)]:
            self._db.run(_SUMMARY_QUERIES["carry_stale"], {"id": new_id, "at": row_time(now), "ids": json.dumps(names)})
        if since is None:
            return
        values = {"id": new_id, "version": since.version, "change": since.change, "at": row_time(now)}
        if self._db.row(_SUMMARY_QUERIES["has_changed_since"], values):
            self._db.run(_SUMMARY_QUERIES["mark_since"], values)

    def mark_older(self, summary_id: str, log_id: int, now: datetime) -> None:
        """Note what changed below a summary that has again the text that it had before a change of the context."""
        values = {"id": summary_id, "log_id": log_id}
        since = (self._db.row(_SUMMARY_QUERIES["written_at"], values) or (None,))[0]
        values = {"id": summary_id, "since": since, "at": row_time(now)}
        self._db.run(_SUMMARY_QUERIES["mark_changed_since"], values)

    def join(self, conversation_id: int, message_ids: Sequence[int], before: int) -> str | None:
        """Make messages sources of the leaf that covers another one, just before that; which leaf.

        None, and nothing changes, when no summary of the context covers it, or one begins with it.
        """
        place = {"conversation_id": conversation_id, "message_id": before}
        found = self._db.row(_SUMMARY_QUERIES["leaf_in_context"], place)
        if found is None or self._db.row(_SUMMARY_QUERIES["first_below"], {"id": found[2]}) == (before,):
            return None
        leaf, ordinal = str(found[0]), int(found[1])
        self._db.run(_SUMMARY_QUERIES["make_room"], {"id": leaf, "ordinal": ordinal, "by": len(message_ids)})
        self._db.run_many(
            _SUMMARY_QUERIES["link_message"], [(leaf, id_, ordinal + n) for n, id_ in enumerate(message_ids)]
        )
        return leaf

    def former_texts(self, summary_id: str) -> frozenset[str]:
        """What a summary said before it was written anew."""
        return frozenset(row[0] for row in self._db.rows(_SUMMARY_QUERIES["former_texts"], {"id": summary_id}))

    def leaves_over(self, message_ids: Sequence[int]) -> set[str]:
        """All leaves over some messages, those that were prepared and have no place yet among them."""
        return {row[1] for row in self._db.rows(_SUMMARY_QUERIES["covering"], {"ids": json.dumps(list(message_ids))})}

    def covering(self, message_ids: Sequence[int]) -> dict[int, str]:
        """The leaf over each message, where there is one."""
        found = self._db.rows(_SUMMARY_QUERIES["covering"], {"ids": json.dumps(list(message_ids))})
        return {row[0]: row[1] for row in found}


_LINEAGE_QUERIES = load_queries("lineage")


class LineageNode(NamedTuple):
    """A summary as the graph sees it: sizes and span, no text."""

    id: str
    conversation_id: int
    depth: int
    tokens: int
    descendant_tokens: int
    source_message_tokens: int
    descendant_count: int
    #: How many summaries it was made of; none for a leaf.
    source_count: int
    earliest_at: datetime | None
    latest_at: datetime | None

    @property
    def kind(self) -> SummaryKind:
        return "leaf" if self.depth == 0 else "condensed"


class SummaryLineage:
    """Reads who was made of whom, and what stands beside what."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def nodes(self, summary_ids: Iterable[str]) -> dict[str, LineageNode]:
        """Summaries by id; unknown ids are left out."""
        return {row[0]: _node(row) for row in self._db.rows(_LINEAGE_QUERIES["nodes"], _ids(summary_ids))}

    def sources(self, summary_ids: Iterable[str]) -> dict[str, list[LineageNode]]:
        """The summaries that each of some summaries was made of, in order."""
        found: defaultdict[str, list[LineageNode]] = defaultdict(list)
        for row in self._db.rows(_LINEAGE_QUERIES["sources"], _ids(summary_ids)):
            found[row[0]].append(_node(row[1:]))
        return dict(found)

    def leaf_messages(self, summary_ids: Iterable[str]) -> dict[str, list[int]]:
        """The ids of the messages that each of some leaves was made of, in order."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for summary_id, message_id in self._db.rows(_LINEAGE_QUERIES["leaf_messages"], _ids(summary_ids)):
            found[summary_id].append(message_id)
        return dict(found)

    def is_below(self, summary_id: str, tops: Iterable[str]) -> bool:
        """Whether a summary is one of `tops`, or was folded into one of them at any depth."""
        return self._db.row(_LINEAGE_QUERIES["is_below"], _ids(tops) | {"id": summary_id}) is not None

    def places(self, message_ids: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Conversation and seq of messages; unknown ids are left out."""
        found = self._db.rows(_LINEAGE_QUERIES["places"], _ids(message_ids))
        return {id_: (conversation_id, seq) for id_, conversation_id, seq in found}

    def before(self, conversation_id: int, seq: int, limit: int = 1) -> list[int]:
        """Ids of the messages just before a place, oldest first."""
        return self._run("before", conversation_id, seq, limit)[::-1]

    def after(self, conversation_id: int, seq: int, limit: int = 1) -> list[int]:
        """Ids of the messages just after a place, oldest first."""
        return self._run("after", conversation_id, seq, limit)

    def _run(self, query: str, conversation_id: int, seq: int, limit: int) -> list[int]:
        place = {"conversation_id": conversation_id, "seq": seq, "limit": limit}
        return [row[0] for row in self._db.rows(_LINEAGE_QUERIES[query], place)]


def _ids(ids: Iterable[int | str]) -> dict[str, object]:
    return {"ids": json.dumps(list(ids), default=column_text)}


def _node(row: Row) -> LineageNode:
    return LineageNode(
        row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], time_or_none(row[8]), time_or_none(row[9])
    )


_OUTLINE_QUERIES = load_queries("outline")
_BEGINNING_BYTES = 640


@dataclass(frozen=True, slots=True)
class TopSummaries:
    """Some summaries that nothing stands over, oldest first; how many there are, and which are in the context."""

    ids: tuple[str, ...]
    total: int
    in_context: frozenset[str]


@dataclass(frozen=True, slots=True)
class ContextSize:
    """How large a context was before and after a change."""

    at: datetime
    action: str
    tokens_before: int
    tokens_after: int


class SummaryOutline:
    """Reads shapes and histories; never writes."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def tops(self, conversation_id: int, limit: int, offset: int = 0) -> TopSummaries:
        """The summaries that stand in the context, or that nothing was made of; oldest first."""
        place = {"conversation_id": conversation_id, "limit": limit, "offset": offset}
        rows = self._db.rows(_OUTLINE_QUERIES["tops"], place)
        there = frozenset(id_ for id_, ordinal, _ in rows if ordinal is not None)
        return TopSummaries(tuple(id_ for id_, _, _ in rows), rows[0][2] if rows else 0, there)

    def in_context(self, conversation_id: int, summary_ids: Iterable[str]) -> frozenset[str]:
        """Which of some summaries stand in the context."""
        values = {"conversation_id": conversation_id, "ids": json.dumps(list(summary_ids))}
        return frozenset(row[0] for row in self._db.rows(_OUTLINE_QUERIES["standing"], values))

    def shapes(self, conversation_id: int) -> list[SummaryShape]:
        """All summaries of a conversation, shallow ones first, then by time."""
        return [
            record_from_row(SummaryShape, row)
            for row in self._db.rows(_OUTLINE_QUERIES["shapes"], {"conversation_id": conversation_id})
        ]

    def edges(self, conversation_id: int) -> list[tuple[str, str]]:
        """Pairs of a summary and one that it was made of, in order."""
        return [
            (user, source)
            for user, source in self._db.rows(_OUTLINE_QUERIES["edges"], {"conversation_id": conversation_id})
        ]

    def beginnings(self, conversation_id: int) -> dict[str, str]:
        """The first words of each summary."""
        values = {"conversation_id": conversation_id, "bytes": _BEGINNING_BYTES}
        return {id_: column_text(raw) for id_, raw in self._db.rows(_OUTLINE_QUERIES["beginnings"], values)}

    def sizes(self, conversation_id: int, limit: int) -> list[ContextSize]:
        """How a context's size changed, oldest first; at most the newest `limit` changes."""
        rows = self._db.rows(_OUTLINE_QUERIES["sizes"], {"conversation_id": conversation_id, "limit": limit})
        return [ContextSize(time_or_epoch(at), action, before, after) for at, action, before, after in reversed(rows)]

    def calls_by_day(self, since: datetime, conversation_id: int | None = None) -> list[DailyCalls]:
        """Model calls by day, of one conversation or of all."""
        values = {"since": state_time(since), "conversation_id": conversation_id}
        return [
            DailyCalls(day, calls, read, written, tuple(costs.split(",")) if costs else (), unpriced)
            for day, calls, read, written, costs, unpriced in self._db.rows(_OUTLINE_QUERIES["calls_by_day"], values)
        ]

    def folds_by_day(self, since: datetime, conversation_id: int | None = None) -> list[DailyFolds]:
        """Folds by day, of one conversation or of all."""
        values = {"since": state_time(since), "conversation_id": conversation_id}
        return [DailyFolds(*row) for row in self._db.rows(_OUTLINE_QUERIES["folds_by_day"], values)]
