"""Read-only views: totals and sizes, paged lists, the graph of summaries with neighbours of messages, and one record
with everything that belongs to it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import apsw

from lossless.errors import BadInput
from lossless.model.context import MessageItem, SummaryKind, fresh_tail_start, newest_user_index
from lossless.model.records import (
    ArchiveCounts,
    CompactionDebt,
    ConversationRow,
    DailyCalls,
    DailyFolds,
    DepthSizes,
    IngestHealth,
    MessageRow,
    Page,
    PageStart,
    SummaryRow,
    SummaryShape,
    TimeRange,
)
from lossless.model.times import state_time
from lossless.store.context import context_item
from lossless.store.database import (
    Database,
    Params,
    Row,
    Sql,
    TableAccess,
    column_text,
    column_time,
    conversation_range,
    group_rows,
    load_queries,
    record_from_row,
    refused,
)

#: Which tables and indexes belong to which row of the size report.
_SIZE_GROUPS = {
    **dict.fromkeys(("messages", "message_extras", "message_parts", "message_versions"), "messages"),
    **dict.fromkeys(("summaries", "summary_messages", "summary_parents", "summary_extras"), "summaries"),
    **dict.fromkeys(("context_items", "context_log", "hidden_items"), "context"),
    **dict.fromkeys(("message_index", "summary_index", "version_index", "message_passages"), "search index"),
    **dict.fromkeys(("messages_fts", "summaries_fts"), "upstream's search index"),
}


@dataclass(frozen=True, slots=True)
class ArchiveTotals:
    """The figures of `lcm status`."""

    counts: ArchiveCounts
    message_tokens: int
    earliest_at: datetime | None
    latest_at: datetime | None
    depths: tuple[DepthSizes, ...]
    context_items: int
    context_tokens: int
    pending: int
    running: int
    failed: int
    #: Messages with invalid times; the span covers the others.
    undated: int = 0


RowWithText = TypeVar("RowWithText", MessageRow, SummaryRow)
#: A preview has at most so many characters, each of at most four bytes.
_BEGINNING = 1024
#: More bytes than a text has.
_WHOLE = 2**31 - 1


@dataclass(frozen=True, slots=True)
class CacheTelemetry:
    """Providers' reports about prompts and their caches."""

    cache_state: str
    provider: str | None
    model: str | None
    retention: str | None
    last_observed_prompt_token_count: int | None
    last_observed_cache_read: int | None
    last_observed_cache_write: int | None
    last_observed_cache_hit_at: datetime | None
    last_observed_cache_break_at: datetime | None
    consecutive_cold_observations: int
    last_activity_band: str
    last_api_call_at: datetime | None
    last_cache_touch_at: datetime | None
    last_leaf_compaction_at: datetime | None
    turns_since_leaf_compaction: int
    tokens_accumulated_since_leaf_compaction: int
    updated_at: datetime | None


@dataclass(frozen=True, slots=True)
class ConversationDetails:
    """What is recorded about a conversation besides its messages and summaries; rows are values by column."""

    #: Of each type of items in the context: how many, and their tokens.
    context: tuple[dict[str, Any], ...]
    debt: CompactionDebt | None
    telemetry: CacheTelemetry | None
    #: How far the host's session file was read.
    frontier: dict[str, Any] | None
    brief_count: int
    #: The active focus brief, without its text.
    active_brief: dict[str, Any] | None
    #: How many large files there are, their bytes, and the time of the newest.
    files: dict[str, Any]
    #: How many items left the context without a summary, by cause.
    hidden: dict[str, int]


@dataclass(frozen=True, slots=True)
class MessageStatus:
    """Where a message is now: in the context, under a leaf, or hidden with a cause."""

    ordinal: int | None = None
    leaf_id: str | None = None
    hidden_cause: str | None = None


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


class Listings(TableAccess):
    """Totals, pages of rows, rows by id, fresh tails, the graph of summaries, and what belongs to one record; never
    writes.
    """

    queries = load_queries("care", "listings", "details", "debts", "lineage", "outline")
    #: All summaries of a conversation, shallowest first, then by time.
    summary_shapes: Sql[[int], list[SummaryShape]] = Sql("records", "conversation_id", "shapes", SummaryShape)
    #: Whether a summary is one of some others, or is under one of them at any depth.
    is_below: Sql[[str, Iterable[str]], bool] = Sql("any", "id ids")
    #: Pairs of a summary and one of its sources, in order.
    summary_edges: Sql[[int], list[tuple[str, str]]] = Sql("rows", "conversation_id", "edges")

    def conversations(
        self, limit: int, start: PageStart | None = None, *, by_message: bool = False, span: TimeRange | None = None
    ) -> Page[ConversationRow]:
        """Conversations by the time of their last change, or by that of their newest message; only those in `span`."""
        place = self._place(None, limit + 1, start, span) | {"by_message": by_message}
        found = self._rows("conversation_page", place)
        return Page(self._conversations(found[:limit]), _next(found, limit))

    def conversation(self, conversation_id: int) -> ConversationRow | None:
        """One conversation with its counts."""
        place = self._place(conversation_id, 1) | {"by_message": False}
        return next(iter(self._conversations(self._rows("conversation_page", place))), None)

    def _conversations(self, found: Sequence[Row]) -> tuple[ConversationRow, ...]:
        page = [(id_, changed) for id_, _, changed in found]
        return tuple(self._records(ConversationRow, "conversations", page=page))

    def _place(
        self, conversation_id: int | None, limit: int, start: PageStart | None = None, span: TimeRange | None = None
    ) -> dict[str, object]:
        """Where a page is: in one conversation or in all, after a row, within a time range."""
        behind = {"from_at": start.at if start else None, "from_id": start.id if start else None}
        place = self._range(conversation_id) | asdict(span or TimeRange()) | behind
        return place | {"limit": limit, "within": self.within}

    def _range(self, conversation_id: int | None) -> dict[str, object]:
        """The range of conversation numbers; for all in a file that is only read, with ids that are texts.

        SQLite orders texts above numbers and below bytes. A file with such ids is never written.
        """
        found = conversation_range(conversation_id)
        return found | {"last": b""} if conversation_id is None and self._db.read_only else found

    def message_totals(self, conversation_id: int) -> tuple[int, int]:
        """How many messages a conversation has, and their tokens."""
        return self._row("message_sizes", conversation_id=conversation_id) or (0, 0)

    def find(self, conversation_id: int | None = None, session_key: str | None = None) -> int | None:
        """The id of an existing conversation: by its id, or the active, else the newest of a session key."""
        if conversation_id is not None:
            return self._value("conversation_by_number", id=conversation_id)
        return self._value("conversation_by_key", key=session_key)

    def messages(
        self, conversation_id: int, limit: int, start: PageStart | None = None, *, roles: Sequence[str] = (),
        span: TimeRange | None = None, whole: bool = False,
    ) -> Page[MessageRow]:  # fmt: skip
        """Messages of one conversation, newest first by seq, not by time."""
        place = self._place(None, limit + 1, start, span) | {"conversation_id": conversation_id, "roles": roles or None}
        ids = self._column("message_page", place)
        rows = tuple(self.messages_by_id(ids[:limit], whole=whole))
        if len(ids) <= limit:
            return Page(rows, None)
        at = rows[-1].created_at
        return Page(rows, PageStart(state_time(at) if at else "", rows[-1].message_id))

    def messages_by_id(self, ids: Sequence[int], *, whole: bool = True) -> list[MessageRow]:
        """Messages in the given order; unknown ids are skipped."""
        return self._with_text(MessageRow, "messages", ids, whole=whole)

    def _with_text(self, kind: type[RowWithText], query: str, ids: Sequence[Any], *, whole: bool) -> list[RowWithText]:
        rows = self._records(kind, query, ids=ids, bytes=_WHOLE if whole else 4 * _BEGINNING)
        return rows if whole else [replace(row, content=row.content[:_BEGINNING]) for row in rows]

    def tool_calls(self, conversation_id: int, tools: Sequence[str], limit: int) -> list[int]:
        """The messages with the newest calls of some tools, and their results, in order."""
        return self._column("tool_calls", conversation_id=conversation_id, tools=tools, limit=limit)

    def tails(self, ids: Sequence[int], count: int, max_tokens: int | None = None) -> dict[int, list[MessageItem]]:
        """The fresh tails of some conversations, in order; reads little more than that."""
        found: dict[int, list[MessageItem]] = {}
        wanted, limit = list(ids), max(count, 0) + 1
        while wanted:
            limit *= 2
            rows = self._rows("newest_items", ids=wanted, count=limit)
            items = group_rows(reversed(rows), lambda *item: context_item(item))
            for id_ in wanted:
                newest = items[id_]
                start = fresh_tail_start(newest, count, max_tokens)
                if (len(newest) < limit) or (start > 0 and newest_user_index(newest) is not None):
                    found[id_] = [item for item in newest[start:] if isinstance(item, MessageItem)]
            wanted = [id_ for id_ in wanted if id_ not in found]
        return found

    def summaries(
        self, limit: int, start: PageStart | None = None, *, conversation_id: int | None = None,
        depth: int | None = None, kind: str | None = None, span: TimeRange | None = None, whole: bool = False,
        within: Collection[int] | None = None,
    ) -> Page[SummaryRow]:  # fmt: skip
        """A page of summaries of one conversation or of all (`within`), newest first; with `whole` their texts."""
        place = self._place(conversation_id, limit + 1, start, span) | {"depth": depth, "kind": kind}
        place |= {} if within is None else {"within": sorted(set(within))}
        found = self._rows("summary_page", place)
        return Page(tuple(self.summaries_by_id([row[0] for row in found[:limit]], whole=whole)), _next(found, limit))

    def summaries_by_id(self, ids: Sequence[str], *, whole: bool = True) -> list[SummaryRow]:
        """Summaries in the given order; unknown ids are skipped."""
        return self._with_text(SummaryRow, "summaries", ids, whole=whole)

    def counts(self) -> ArchiveCounts:
        return ArchiveCounts(*self._rows("counts")[0])

    def totals(self) -> ArchiveTotals:
        """All totals of status; reads the whole archive once."""
        tokens, earliest, latest, *rest = self._rows("totals")[0]
        times = column_time(earliest), column_time(latest)
        return ArchiveTotals(self.counts(), tokens, *times, tuple(self.depths()), *rest)

    def liveness(self) -> IngestHealth:
        """Whether anything was lost in ingest."""
        stored_at, compacted_at, *counts = self._rows("ingest_totals")[0]
        blocked = tuple((id_, column_time(at), reason) for id_, at, reason in self._rows("blocked"))
        times = column_time(stored_at), column_time(compacted_at)
        return replace(IngestHealth(*times, *counts), blocked=blocked, quarantined=tuple(self._column("quarantined")))

    def size(self) -> tuple[int, int]:
        """Bytes of the database, and how many of them are free."""
        return self._row("page_counts") or (0, 0)

    def sizes(self) -> dict[str, int]:
        """Bytes by kind of data; reads every page, so use it sparingly."""
        taken: dict[str, int] = {}
        for name, size in self._rows("sizes"):
            bare = f"{name.removeprefix('sqlite_autoindex_')}_"  # of a table, its indexes or shadow tables
            group = max((table for table in _SIZE_GROUPS if bare.startswith(f"{table}_")), key=len, default="")
            kind = _SIZE_GROUPS.get(group, "other")
            taken[kind] = taken.get(kind, 0) + size
        return dict(sorted(taken.items(), key=lambda item: -item[1]))

    def details(self, conversation_id: int) -> ConversationDetails:
        """Further records about a conversation."""
        place = conversation_range(conversation_id) | {"conversation_id": conversation_id, "limit": 1}
        return ConversationDetails(
            context=tuple(self._shown("context", place)),
            debt=self._record(CompactionDebt, "get", place),
            telemetry=next((record_from_row(CacheTelemetry, row[1:]) for row in self._rows("telemetry", place)), None),
            frontier=next(self._shown("frontier", place), None),
            brief_count=self._count("brief_count", place),
            active_brief=next(self._shown("active_brief", place), None),
            files=next(self._shown("files", place)),
            hidden=dict(self._rows("hidden", place)),
        )

    def _shown(self, query: str, place: dict[str, object]) -> Iterator[dict[str, Any]]:
        for row in self._dicts(query, place):
            yield {name: _shown_value(name, raw) for name, raw in row.items()}

    def newest_telemetry(self, limit: int) -> list[tuple[int, CacheTelemetry]]:
        """What providers reported last about prompt caches, with the conversations, the newest first."""
        rows = self._rows("telemetry", self._range(None) | {"limit": limit})
        return [(row[0], record_from_row(CacheTelemetry, row[1:])) for row in rows]

    def context_count(self, conversation_id: int) -> int:
        return self._count("context_count", conversation_id=conversation_id)

    def depths(self, conversation_id: int | None = None) -> list[DepthSizes]:
        """The summaries of one conversation, or of all, by depth."""
        return self._records(DepthSizes, "depths", self._range(conversation_id))

    def message_status(self, message_id: int) -> MessageStatus:
        return self._record(MessageStatus, "message_status", id=message_id) or MessageStatus()

    def sources(self, summary_id: str) -> list[str]:
        """The sources of a summary, in order; of its own conversation only."""
        return self._column("sources", id=summary_id)

    def used_in(self, summary_id: str) -> list[str]:
        """The summaries made of a summary; of its own conversation only."""
        return self._column("used_in", id=summary_id)

    def source_messages(self, summary_id: str) -> list[int]:
        """The messages of a leaf, in order; of its own conversation only."""
        return self._column("source_messages", id=summary_id)

    def summary_nodes(self, summary_ids: Iterable[str]) -> dict[str, LineageNode]:
        """Summaries by id; unknown ids are left out."""
        return {row[0]: _node(row) for row in self._rows("nodes", self._seen(summary_ids))}

    def nodes_below(self, summary_ids: Iterable[str]) -> dict[str, list[LineageNode]]:
        """The summaries that each of some summaries was made of, in order."""
        return dict(group_rows(self._rows("nodes_below", self._seen(summary_ids)), lambda *row: _node(row)))

    def leaf_messages(self, summary_ids: Iterable[str]) -> dict[str, list[int]]:
        """The ids of the messages that each of some leaves was made of, in order."""
        return dict(group_rows(self._rows("leaf_messages", ids=summary_ids), lambda id_: id_))

    def message_places(self, message_ids: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Conversation and seq of messages; unknown ids are left out."""
        found = self._rows("places", self._seen(message_ids))
        return {id_: (conversation_id, seq) for id_, conversation_id, seq in found}

    def ids_before(self, conversation_id: int, seq: int, limit: int = 1) -> list[int]:
        """Ids of the messages just before a position, oldest first."""
        return self._column("before", conversation_id=conversation_id, seq=seq, limit=limit)[::-1]

    def ids_after(self, conversation_id: int, seq: int, limit: int = 1) -> list[int]:
        """Ids of the messages just after a position, oldest first."""
        return self._column("after", conversation_id=conversation_id, seq=seq, limit=limit)

    def top_summaries(self, conversation_id: int, limit: int, offset: int = 0) -> TopSummaries:
        """The summaries that are in the context or not a source of any other; oldest first."""
        rows = self._rows("tops", conversation_id=conversation_id, limit=limit, offset=offset)
        there = frozenset(id_ for id_, ordinal, _ in rows if ordinal is not None)
        return TopSummaries(tuple(id_ for id_, _, _ in rows), rows[0][2] if rows else 0, there)

    def summaries_in_context(self, conversation_id: int, summary_ids: Iterable[str]) -> frozenset[str]:
        """Which of these summaries are in the context."""
        return frozenset(self._column("summaries_in_context", conversation_id=conversation_id, ids=summary_ids))

    def summary_beginnings(self, conversation_id: int) -> dict[str, str]:
        found = self._rows("beginnings", conversation_id=conversation_id, bytes=_BEGINNING_BYTES)
        return {id_: column_text(raw) for id_, raw in found}

    def context_sizes(self, conversation_id: int, limit: int) -> list[ContextSize]:
        """How a context's size changed, oldest first; at most the newest `limit` changes."""
        return self._records(ContextSize, "context_sizes", conversation_id=conversation_id, limit=limit)[::-1]

    def calls_by_day(self, since: datetime, conversation_id: int | None = None) -> list[DailyCalls]:
        """Model calls by day, of one conversation or of all."""
        return self._records(DailyCalls, "calls_by_day", since=state_time(since), conversation_id=conversation_id)

    def folds_by_day(self, since: datetime, conversation_id: int | None = None) -> list[DailyFolds]:
        """Folds by day, of one conversation or of all."""
        return self._records(DailyFolds, "folds_by_day", since=state_time(since), conversation_id=conversation_id)


def _node(row: Row) -> LineageNode:
    return LineageNode(*row[:8], *map(column_time, row[8:]))


def _shown_value(name: str, raw: object) -> object:
    if name.endswith("_at"):
        return column_time(raw)
    if name == "fork_bounded":
        return bool(raw)
    return column_text(raw) if isinstance(raw, bytes) else raw


def _next(found: Sequence[Row], limit: int) -> PageStart | None:
    """The start of the next page; one more row was read to know whether there is one."""
    return PageStart(found[limit - 1][1], found[limit - 1][0]) if len(found) > limit else None


#: Virtual-machine steps between two checks of the clock.
_STEPS = 10_000
_READS = frozenset((apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_RECURSIVE))
_SELECT_PRAGMAS = frozenset(("table_info", "table_xinfo", "table_list", "index_list", "index_info", "data_version"))


def run_owner_query(database: Database, query: str, params: Params, limit: int, seconds: float) -> list[dict[str, Any]]:
    """The rows of a query; `BadInput` for one that writes, is invalid, takes too long or has too many rows."""
    if limit < 1 or seconds <= 0:
        raise BadInput("limit must be 1 or more, and seconds more than 0")
    until = time.monotonic() + seconds
    with database.aside() as connection:
        longest = connection.limit(apsw.SQLITE_LIMIT_LENGTH, 256 << 20)  # of one text or blob, in bytes
        connection.authorizer = _authorize_read
        connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
        try:
            cursor = connection.execute(query, params or None)
            rows: list[dict[str, Any]] = []
            names: list[str] = []
            for row in cursor:
                if len(rows) == limit:
                    raise BadInput(f"the query has more than {limit:,} rows: narrow it, or pass a higher limit")
                for name, *_ in cursor.get_description() if not names else ():  # duplicates get a number
                    count = sum(known == name or known.startswith(f"{name}:") for known in names)
                    names.append(f"{name}:{count}" if count else name)
                rows.append(dict(zip(names, row, strict=True)))
            return rows
        except apsw.InterruptError:
            raise BadInput(f"the query took longer than {seconds:g} s: narrow it, or pass more seconds") from None
        except (apsw.AuthError, apsw.ReadOnlyError) as error:
            raise BadInput("the query may only read; it is no plain SELECT") from error
        except (apsw.SQLError, apsw.BindingsError, apsw.TooBigError) as error:
            raise BadInput(f"the query cannot be run: {error}") from error
        except apsw.Error as error:
            raise refused(error, database.path) from error
        finally:
            connection.authorizer = None
            connection.set_progress_handler(None)
            connection.limit(apsw.SQLITE_LIMIT_LENGTH, longest)


def _authorize_read(operation: int, *names: str | None) -> int:
    is_allowed = (
        operation in _READS
        or (operation == apsw.SQLITE_PRAGMA and names[0] in _SELECT_PRAGMAS)
        or (operation == apsw.SQLITE_FUNCTION and names[1] != "load_extension")
    )
    return apsw.SQLITE_OK if is_allowed else apsw.SQLITE_DENY
