"""Lists for people who look through an archive: pages, newest first."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lossless.model.context import ContextItem, MessageItem, SummaryItem, fresh_tail_start, newest_user_index
from lossless.model.times import state_time
from lossless.store.foreign import record, text
from lossless.store.scope import numbers
from lossless.store.sql import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lossless.store.database import Database, Row

_QUERIES = load("listings")
#: A beginning has at most so many characters, none of which takes more than four bytes.
_BEGINNING = 1024
#: All conversations. Their ids are numbers, but for files that can only be read: there they may be texts.
_ALL: dict[str, object] = {"first": -(2**63), "last": b""}
#: More bytes than a text has.
_WHOLE = 2**31 - 1

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page begins: behind the row with this time (as the row showed it, '' for none) and this id."""

    at: str
    id: int | str


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some rows, newest first, and where the next page begins when there is one."""

    rows: tuple[T, ...]
    next: Place | None


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time: from `since` on, up to but without `before`."""

    since: str | None = None
    before: str | None = None


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """A conversation with its counts."""

    conversation_id: int
    session_id: str
    session_key: str | None
    active: bool
    archived_at: datetime | None
    archive_cause: str | None
    title: str | None
    bootstrapped_at: datetime | None
    created_at: datetime | None
    #: When it changed last: it was stored to, a message came, or its own row was written.
    updated_at: datetime | None
    message_count: int
    message_tokens: int
    earliest_message_at: datetime | None
    latest_message_at: datetime | None
    summary_count: int
    summary_tokens: int
    #: Of the messages below summaries.
    summarized_source_tokens: int
    earliest_summary_at: datetime | None
    latest_summary_at: datetime | None
    max_summary_depth: int | None
    context_items: int
    context_tokens: int


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message as a list shows it; `content` is its beginning unless the whole was asked for."""

    message_id: int
    conversation_id: int
    seq: int
    role: str
    token_count: int
    created_at: datetime | None
    large_content: str | None
    #: The tools that it calls or answers for, in order.
    tools: tuple[str, ...]
    content: str


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """A summary as a list shows it; `content` is its beginning unless the whole was asked for."""

    summary_id: str
    conversation_id: int
    kind: str
    depth: int
    token_count: int
    earliest_at: datetime | None
    latest_at: datetime | None
    #: The time of the newest message below it; when that is not known, of its writing.
    coverage_at: datetime | None
    descendant_count: int
    descendant_token_count: int
    source_message_token_count: int
    created_at: datetime | None
    file_ids: tuple[str, ...]
    model: str
    used_in_count: int
    source_count: int
    source_message_count: int
    content: str


class Listings:
    """Pages of rows, rows by id, and fresh tails; never writes."""

    def __init__(self, database: Database) -> None:
        self._db = database

    # --- conversations ----------------------------------------------------------------------------------

    def conversations(self, limit: int, start: Place | None = None) -> Page[ConversationRow]:
        """Conversations by the time of their last change."""
        found = self._changed(limit + 1, start)
        return Page(tuple(self._conversations(found[:limit])), _next(found, limit))

    def conversation(self, conversation_id: int) -> ConversationRow | None:
        """One conversation with its counts."""
        return next(iter(self._conversations(self._changed(1, conversation_id=conversation_id))), None)

    def _changed(self, limit: int, start: Place | None = None, *, conversation_id: int | None = None) -> list[Row]:
        """Ids, and when these conversations changed last; newest first."""
        which = _ALL if conversation_id is None else numbers(conversation_id)
        values = which | _behind(start) | {"limit": limit}
        return self._db.rows(_QUERIES["conversation_page"], values)

    def _conversations(self, changed: Sequence[Row]) -> list[ConversationRow]:
        ids = [id_ for id_, _ in changed]
        said, summed_up, context = (self._counts(name, ids) for name in ("said", "summed_up", "in_context"))
        rows = {row[0]: row for row in self._db.rows(_QUERIES["conversations"], {"ids": json.dumps(ids)})}
        return [
            record(
                ConversationRow,
                (
                    *rows[id_],
                    at,
                    *said.get(id_, (0, 0, None, None)),
                    *summed_up.get(id_, (0, 0, 0, None, None, None)),
                    *context.get(id_, (0, 0)),
                ),
            )
            for id_, at in changed
            if id_ in rows
        ]

    def _counts(self, query: str, ids: Sequence[int]) -> dict[int, Row]:
        return {row[0]: row[1:] for row in self._db.rows(_QUERIES[query], {"ids": json.dumps(ids)})}

    def message_totals(self, conversation_id: int) -> tuple[int, int]:
        """How many messages a conversation has, and their tokens."""
        row = self._counts("said", [conversation_id]).get(conversation_id)
        return (row[0], row[1]) if row else (0, 0)

    def find(self, conversation_id: int | None = None, session_key: str | None = None) -> int | None:
        """The id of a conversation that is there: by its id, or the active, else the newest of a session key."""
        if conversation_id is not None:
            row = self._db.row(_QUERIES["conversation_by_number"], {"id": conversation_id})
        else:
            row = self._db.row(_QUERIES["conversation_by_key"], {"key": session_key})
        return row[0] if row else None

    # --- messages ---------------------------------------------------------------------------------------

    def messages(
        self,
        conversation_id: int,
        limit: int,
        start: Place | None = None,
        *,
        roles: Sequence[str] = (),
        span: Span | None = None,
        whole: bool = False,
    ) -> Page[MessageRow]:
        """Messages of one conversation, the last said first: in the order of the conversation, not of clocks."""
        values = {
            "conversation_id": conversation_id,
            "roles": json.dumps(roles) if roles else None,
            "since": span.since if span else None,
            "before": span.before if span else None,
            "from_id": start.id if start else None,
            "limit": limit + 1,
        }
        ids = [row[0] for row in self._db.rows(_QUERIES["message_page"], values)]
        rows = self.messages_by_id(ids[:limit], whole=whole)
        if len(ids) <= limit:
            return Page(tuple(rows), None)
        last = rows[-1]
        return Page(tuple(rows), Place(state_time(last.created_at) if last.created_at else "", last.message_id))

    def messages_by_id(self, ids: Sequence[int], *, whole: bool = True) -> list[MessageRow]:
        """Messages in the order asked for; unknown ids are left out."""
        wanted = _wanted(ids, whole=whole)
        tools: defaultdict[int, list[str]] = defaultdict(list)
        for id_, name in self._db.rows(_QUERIES["tools"], wanted):
            tools[id_].append(text(name))
        found = {}
        for row in self._db.rows(_QUERIES["messages"], wanted):
            content = text(row[7])
            shown = content if whole else content[:_BEGINNING]
            found[row[0]] = record(MessageRow, (*row[:7], tuple(tools.get(row[0], ())), shown))
        return [found[id_] for id_ in ids if id_ in found]

    def tool_calls(self, conversation_id: int, tools: Sequence[str], limit: int) -> list[int]:
        """The messages with the newest calls of some tools, and those that answer them, in order."""
        values = {"conversation_id": conversation_id, "tools": json.dumps(tools), "limit": limit}
        return [row[0] for row in self._db.rows(_QUERIES["tool_calls"], values)]

    # --- fresh tails ------------------------------------------------------------------------------------

    def tail(self, conversation_id: int, count: int, max_tokens: int | None = None) -> list[MessageItem]:
        """The fresh tail of a conversation, in order."""
        return self.tails([conversation_id], count, max_tokens)[conversation_id]

    def tails(self, ids: Sequence[int], count: int, max_tokens: int | None = None) -> dict[int, list[MessageItem]]:
        """The fresh tails of some conversations, in order; reads little more of their contexts than they take."""
        found: dict[int, list[MessageItem]] = {}
        wanted, most = list(ids), max(count, 0) + 1
        while wanted:
            most *= 2
            items = self._newest_items(wanted, most)
            for id_ in wanted:
                newest = items[id_]
                start = fresh_tail_start(newest, count, max_tokens)
                is_whole = len(newest) < most
                if is_whole or (start > 0 and newest_user_index(newest) is not None):
                    found[id_] = [item for item in newest[start:] if isinstance(item, MessageItem)]
            wanted = [id_ for id_ in wanted if id_ not in found]
        return found

    def _newest_items(self, ids: Sequence[int], count: int) -> defaultdict[int, list[ContextItem]]:
        """The last items of some contexts, in order."""
        items: defaultdict[int, list[ContextItem]] = defaultdict(list)
        for id_, *item in self._db.rows(_QUERIES["newest_items"], {"ids": json.dumps(ids), "count": count}):
            items[id_].append(_item(item))
        for some in items.values():
            some.reverse()
        return items

    # --- summaries --------------------------------------------------------------------------------------

    def summaries(
        self,
        limit: int,
        start: Place | None = None,
        *,
        conversation_id: int | None = None,
        depth: int | None = None,
        kind: str | None = None,
        span: Span | None = None,
        whole: bool = False,
    ) -> Page[SummaryRow]:
        """Summaries of one conversation or of all."""
        values = numbers(conversation_id) | {
            "depth": depth,
            "kind": kind,
            "since": span.since if span else None,
            "before": span.before if span else None,
            "limit": limit + 1,
        }
        found = self._db.rows(_QUERIES["summary_page"], values | _behind(start))
        rows = self.summaries_by_id([row[0] for row in found[:limit]], whole=whole)
        return Page(tuple(rows), _next(found, limit))

    def summaries_by_id(self, ids: Sequence[str], *, whole: bool = True) -> list[SummaryRow]:
        """Summaries in the order asked for; unknown ids are left out."""
        found = {}
        for *row, raw in self._db.rows(_QUERIES["summaries"], _wanted(ids, whole=whole)):
            content = text(raw)
            found[row[0]] = record(SummaryRow, (*row, content if whole else content[:_BEGINNING]))
        return [found[id_] for id_ in ids if id_ in found]


def _behind(start: Place | None) -> dict[str, object]:
    return {"from_at": start.at if start else None, "from_id": start.id if start else None}


def _next(found: Sequence[Row], limit: int) -> Place | None:
    """Where the next page begins; one row more was read to know whether there is one."""
    return Place(found[limit - 1][1], found[limit - 1][0]) if len(found) > limit else None


def _wanted(ids: Sequence[int | str], *, whole: bool) -> dict[str, object]:
    """Which rows are read, and how much of their texts."""
    return {"ids": json.dumps(ids), "bytes": _WHOLE if whole else 4 * _BEGINNING}


def _item(row: Sequence[Any]) -> ContextItem:
    ordinal, message_id, summary_id, role, tokens, seq, depth, budget = row
    if summary_id is not None:
        return SummaryItem(ordinal, summary_id, depth or 0, tokens, budget)
    return MessageItem(ordinal, message_id, role or "user", tokens, seq or 0, budget)
