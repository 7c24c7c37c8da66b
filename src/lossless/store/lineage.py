"""Ways through the graph of summaries and along a conversation."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from lossless.store.foreign import text
from lossless.store.rows import time
from lossless.store.sql import load

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from lossless.model.summaries import Kind
    from lossless.store.database import Database, Row

_QUERIES = load("lineage")


class Node(NamedTuple):
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
    def kind(self) -> Kind:
        return "leaf" if self.depth == 0 else "condensed"


class Lineage:
    """Reads who was made of whom, and what stands beside what."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def nodes(self, summary_ids: Iterable[str]) -> dict[str, Node]:
        """Summaries by id; unknown ids are left out."""
        return {row[0]: _node(row) for row in self._db.rows(_QUERIES["nodes"], _ids(summary_ids))}

    def sources(self, summary_ids: Iterable[str]) -> dict[str, list[Node]]:
        """The summaries that each of some summaries was made of, in order."""
        found: defaultdict[str, list[Node]] = defaultdict(list)
        for row in self._db.rows(_QUERIES["sources"], _ids(summary_ids)):
            found[row[0]].append(_node(row[1:]))
        return dict(found)

    def leaf_messages(self, summary_ids: Iterable[str]) -> dict[str, list[int]]:
        """The ids of the messages that each of some leaves was made of, in order."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for summary_id, message_id in self._db.rows(_QUERIES["leaf_messages"], _ids(summary_ids)):
            found[summary_id].append(message_id)
        return dict(found)

    def is_below(self, summary_id: str, tops: Iterable[str]) -> bool:
        """Whether a summary is one of `tops`, or was folded into one of them at any depth."""
        return self._db.row(_QUERIES["is_below"], _ids(tops) | {"id": summary_id}) is not None

    def places(self, message_ids: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Conversation and seq of messages; unknown ids are left out."""
        found = self._db.rows(_QUERIES["places"], _ids(message_ids))
        return {id_: (conversation_id, seq) for id_, conversation_id, seq in found}

    def before(self, conversation_id: int, seq: int, limit: int = 1) -> list[int]:
        """Ids of the messages just before a place, oldest first."""
        return self._run("before", conversation_id, seq, limit)[::-1]

    def after(self, conversation_id: int, seq: int, limit: int = 1) -> list[int]:
        """Ids of the messages just after a place, oldest first."""
        return self._run("after", conversation_id, seq, limit)

    def _run(self, query: str, conversation_id: int, seq: int, limit: int) -> list[int]:
        place = {"conversation_id": conversation_id, "seq": seq, "limit": limit}
        return [row[0] for row in self._db.rows(_QUERIES[query], place)]


def _ids(ids: Iterable[int | str]) -> dict[str, object]:
    return {"ids": json.dumps(list(ids), default=text)}


def _node(row: Row) -> Node:
    return Node(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], time(row[8]), time(row[9]))
