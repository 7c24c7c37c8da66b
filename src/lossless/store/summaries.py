"""Summaries on disk: written whole, with their sources, or not at all."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lossless.errors import NotFound, Stale
from lossless.model.context import ContextItem, MessageItem, SummaryItem
from lossless.model.times import row_time
from lossless.store import rows
from lossless.store.sql import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lossless.model.summaries import NewSummary, Summary
    from lossless.store.database import Database
    from lossless.store.index import SearchIndex

_QUERIES = load("summaries")


@dataclass(frozen=True, slots=True)
class ChangeBelow:
    """What a stale summary does not know of a message: it has other words, it left the context, or it joined."""

    message_id: int
    kind: Literal["revised", "removed", "added"]
    content: str


@dataclass(frozen=True, slots=True)
class Moment:
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
            _QUERIES["insert"],
            {
                "id": new.id, "conversation_id": conversation_id, "kind": "leaf" if new.depth == 0 else "condensed",
                "depth": new.depth, "content": new.content, "tokens": new.tokens, "created": row_time(now),
                "files": json.dumps(new.file_ids, separators=(",", ":")), "model": new.model, **spans,
            },
        )  # fmt: skip
        if message_ids:
            self._db.run_many(_QUERIES["link_message"], [(new.id, id_, n) for n, id_ in enumerate(message_ids)])
        else:
            self._db.run_many(_QUERIES["link_source"], [(new.id, id_, n) for n, id_ in enumerate(summary_ids)])
        self._index.put_summary(new.id, new.content)
        self._index.put_upstream_summary(new.id, new.content)

    def _leaf_spans(self, message_ids: list[int]) -> dict[str, object]:
        row = self._db.row(_QUERIES["span_of_messages"], {"ids": json.dumps(message_ids)})
        assert row is not None
        if row[3] != len(message_ids):
            raise Stale("a message of this summary is gone")
        return {
            "earliest": row[4], "latest": row[5], "descendants": 0, "descendant_tokens": 0,
            "source_tokens": row[2] or 0,
        }  # fmt: skip

    def _condensed_spans(self, summary_ids: list[str]) -> dict[str, object]:
        row = self._db.row(_QUERIES["span_of_summaries"], {"ids": json.dumps(summary_ids)})
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
            self._has_pending = self._db.row(_QUERIES["has_pending"]) is not None
        if self._has_pending:
            values = {"conversation_id": conversation_id, "first": first, "last": last}
            self._db.run(_QUERIES["mark_pending_stale"], values)
            self._db.run(_QUERIES["mark_pending_nodes_stale"], {"conversation_id": conversation_id})

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
        for summary_id, source_id in self._db.rows(_QUERIES["sources_of"], ids):
            sources[summary_id].append(source_id)
        found = {row[0]: rows.summary(row, tuple(sources[row[0]])) for row in self._db.rows(_QUERIES["by_ids"], ids)}
        return [found[id_] for id_ in summary_ids if id_ in found]

    def message_ids(self, summary_id: str) -> list[int]:
        """The messages that a leaf was made of, in order."""
        return [row[0] for row in self._db.rows(_QUERIES["messages_of"], {"id": summary_id})]

    def prepared(self, conversation_id: int, message_ids: Sequence[int]) -> Summary | None:
        """The leaf that was written ahead for exactly these messages and has no place yet, if there is one."""
        place = {"conversation_id": conversation_id, "first": message_ids[0]}
        for (id_,) in self._db.rows(_QUERIES["prepared"], place):
            if self.message_ids(id_) == list(message_ids):
                return self.get(id_)
        return None

    def used_in(self, summary_id: str) -> list[str]:
        """The summaries that were made of this one."""
        return [row[0] for row in self._db.rows(_QUERIES["used_in"], {"id": summary_id})]

    def mark_stale(self, message_ids: Sequence[int], now: datetime) -> tuple[str, ...]:
        """Note that these messages were revised below every summary that covers them; returns those summaries."""
        values = {"ids": json.dumps(list(message_ids)), "at": row_time(now)}
        found = self._db.rows(_QUERIES["above"], values)
        self._db.run(_QUERIES["mark_stale"], values)
        return tuple(row[0] for row in found)

    def stale(self, conversation_id: int) -> dict[str, tuple[int, ...]]:
        """The summaries of a conversation that are stale, and the messages that were revised below each."""
        found: dict[str, tuple[int, ...]] = {}
        for summary_id, message_id in self._db.rows(_QUERIES["stale"], {"conversation_id": conversation_id}):
            found[summary_id] = (*found.get(summary_id, ()), message_id)
        return found

    def clear_stale(self, summary_ids: Sequence[str], since: int | None = None) -> None:
        """Note that these summaries, sources first, were written anew and say what their messages say.

        What their sources do not say yet stays noted, and so does what was revised after the version `since`.
        """
        last = 2**62 if since is None else since
        self._db.run_many(_QUERIES["clear_stale"], [{"id": id_, "since": last} for id_ in summary_ids])

    def changes_below(self, summary_ids: Sequence[str]) -> dict[str, tuple[ChangeBelow, ...]]:
        """What changed below those of these summaries that are stale, in the order in which it was said."""
        found: dict[str, tuple[ChangeBelow, ...]] = {}
        for summary_id, *change in self._db.rows(_QUERIES["changes_below"], {"ids": json.dumps(list(summary_ids))}):
            found[summary_id] = (*found.get(summary_id, ()), ChangeBelow(*change))
        return found

    def moment(self) -> Moment:
        """Where the archive stands: what changes later is found by it."""
        return Moment(*(self._db.row(_QUERIES["moment"]) or (0, 0)))

    def mark_new(self, new_id: str, sources: Sequence[ContextItem], since: Moment | None, now: datetime) -> None:
        """Note what a summary that was just written cannot know: what its sources do not say, and what changed since.

        `since` is the moment at which its sources were read.
        """
        if names := [item.summary_id for item in sources if isinstance(item, SummaryItem)]:
            self._db.run(_QUERIES["carry_stale"], {"id": new_id, "at": row_time(now), "ids": json.dumps(names)})
        if since is None:
            return
        values = {"id": new_id, "version": since.version, "change": since.change, "at": row_time(now)}
        if self._db.row(_QUERIES["has_changed_since"], values):
            self._db.run(_QUERIES["mark_since"], values)

    def mark_older(self, summary_id: str, log_id: int, now: datetime) -> None:
        """Note what changed below a summary that has again the text that it had before a change of the context."""
        values = {"id": summary_id, "log_id": log_id}
        since = (self._db.row(_QUERIES["written_at"], values) or (None,))[0]
        values = {"id": summary_id, "since": since, "at": row_time(now)}
        self._db.run(_QUERIES["mark_changed_since"], values)

    def join(self, conversation_id: int, message_ids: Sequence[int], before: int) -> str | None:
        """Make messages sources of the leaf that covers another one, just before that; which leaf.

        None, and nothing changes, when no summary of the context covers it, or one begins with it.
        """
        place = {"conversation_id": conversation_id, "message_id": before}
        found = self._db.row(_QUERIES["leaf_in_context"], place)
        if found is None or self._db.row(_QUERIES["first_below"], {"id": found[2]}) == (before,):
            return None
        leaf, ordinal = str(found[0]), int(found[1])
        self._db.run(_QUERIES["make_room"], {"id": leaf, "ordinal": ordinal, "by": len(message_ids)})
        self._db.run_many(_QUERIES["link_message"], [(leaf, id_, ordinal + n) for n, id_ in enumerate(message_ids)])
        return leaf

    def former_texts(self, summary_id: str) -> frozenset[str]:
        """What a summary said before it was written anew."""
        return frozenset(row[0] for row in self._db.rows(_QUERIES["former_texts"], {"id": summary_id}))

    def leaves_over(self, message_ids: Sequence[int]) -> set[str]:
        """All leaves over some messages, those that were prepared and have no place yet among them."""
        return {row[1] for row in self._db.rows(_QUERIES["covering"], {"ids": json.dumps(list(message_ids))})}

    def covering(self, message_ids: Sequence[int]) -> dict[int, str]:
        """The leaf over each message, where there is one."""
        found = self._db.rows(_QUERIES["covering"], {"ids": json.dumps(list(message_ids))})
        return {row[0]: row[1] for row in found}
