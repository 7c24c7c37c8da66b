"""Ways through the graph of summaries and along a conversation."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.model.files import StoredFile
from lossless.model.times import parse_time
from lossless.store.rows import time
from lossless.store.sql import load

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from lossless.model.summaries import Kind
    from lossless.store.database import Database, Row

_QUERIES = load("lineage")


@dataclass(frozen=True, slots=True)
class Node:
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

    def files(self, file_ids: Iterable[str]) -> dict[str, StoredFile]:
        """What is known of stored files, by id; unknown ids are left out."""
        return {row[0]: _file(row) for row in self._db.rows(_QUERIES["files"], _ids(file_ids))}

    def text_of_file(self, conversation_id: int, file_id: str) -> str | None:
        """The content of the message whose payload a file holds, when there is such a message."""
        place = {"conversation_id": conversation_id, "file_id": file_id}
        row = self._db.row(_QUERIES["message_of_file"], place)
        return None if row is None else row[0]


def _ids(ids: Iterable[int | str]) -> dict[str, object]:
    return {"ids": json.dumps(list(ids))}


def _node(row: Row) -> Node:
    id_, conversation_id, depth, tokens, below, source, count, sources, earliest, latest = row
    return Node(id_, conversation_id, depth, tokens, below, source, count, sources, time(earliest), time(latest))


def _file(row: Row) -> StoredFile:
    id_, conversation_id, name, mime, size, lines, uri, summary, created = row
    return StoredFile(id_, conversation_id, name, mime, size, lines, uri, summary, parse_time(created))
