"""What a person's commands write: summaries changed in place, runs of a context exchanged, and what undoing needs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lossless.errors import NotFound, Stale
from lossless.model.times import row_time, state_time
from lossless.store.rows import moment
from lossless.store.sql import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from lossless.store.archive import Archive
    from lossless.store.context import Change
    from lossless.store.database import Row

_QUERIES = load("operations")
_CONTEXT = load("context")
_SUMMARIES = load("summaries")
_INDEX = load("index")
_COLUMNS = (
    "summary_id", "conversation_id", "kind", "depth", "content", "token_count", "earliest_at", "latest_at",
    "descendant_count", "descendant_token_count", "source_message_token_count", "created_at", "file_ids", "model",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One recorded change of a context."""

    id: int
    at: datetime
    actor: str
    action: str
    cause: str | None
    removed: tuple[int | str, ...]
    added: tuple[int | str, ...]
    ordinal: int | None
    tokens_before: int
    tokens_after: int
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Former:
    """A summary as it was: its columns, the ids of its sources, and its places in briefs."""

    row: dict[str, Any]
    message_ids: tuple[int, ...] = ()
    source_ids: tuple[str, ...] = ()
    #: The brief, the ordinal, the role and the time of each.
    briefs: tuple[tuple[str, int, str, str], ...] = ()

    @property
    def id(self) -> str:
        return str(self.row["summary_id"])


class Operations:
    """Writes of surgery. Every method that writes needs a transaction."""

    def __init__(self, archive: Archive) -> None:
        self._archive, self._db, self._index = archive, archive.database, archive.index

    # --- the log --------------------------------------------------------------------------------------

    def entries(self, conversation_id: int, after: int = 0, through: int | None = None) -> list[LogEntry]:
        """Changes of a context behind one entry, up to another, oldest first."""
        place = {"conversation_id": conversation_id, "after": after, "through": 2**62 if through is None else through}
        return [_entry(row) for row in self._db.rows(_QUERIES["entries"], place)]

    def entry_at(self, conversation_id: int, at: datetime) -> int:
        """The id of the newest change up to a moment; 0 when there was none."""
        row = self._db.row(_QUERIES["entry_before"], {"conversation_id": conversation_id, "at": state_time(at)})
        return row[0] if row else 0

    def log(self, conversation_id: int, change: Change, now: datetime, former: Sequence[Former] = ()) -> int:
        """Write one line about a change, and what summaries were before it; returns the line's id."""
        self._archive.context.log(conversation_id, change, now)
        row = self._db.row(_QUERIES["newest_entry"], {"conversation_id": conversation_id})
        assert row is not None
        log_id: int = row[0]
        kept = [(log_id, was.id, _as_json(was)) for was in former]
        if kept:
            self._db.run_many(_QUERIES["keep_former"], kept)
        return log_id

    def former(self, log_id: int) -> list[Former]:
        """The summaries as they were before a change."""
        return [_from_json(text) for (text,) in self._db.rows(_QUERIES["former"], {"log_id": log_id})]

    # --- summaries ------------------------------------------------------------------------------------

    def state(self, summary_id: str) -> Former:
        """A summary as it is now, whole."""
        row = self._db.row(_QUERIES["state"], {"id": summary_id})
        if row is None:
            raise NotFound("summary", summary_id)
        messages = self._archive.summaries.message_ids(summary_id)
        sources = [source for _, source in self._db.rows(_SUMMARIES["sources_of"], {"ids": json.dumps([summary_id])})]
        briefs = self._db.rows(_QUERIES["brief_links"], {"id": summary_id})
        links = tuple((brief, ordinal, role, at) for brief, ordinal, role, at in briefs)
        return Former(dict(zip(_COLUMNS, row, strict=True)), tuple(messages), tuple(sources), links)

    def write(self, summary_id: str, content: str, tokens: int, model: str, file_ids: Sequence[str]) -> None:
        """Give a summary another text, and our and upstream's index with it; `recount` brings the rest in line."""
        files = json.dumps(list(file_ids), separators=(",", ":"))
        values = {"id": summary_id, "content": content, "tokens": tokens, "model": model, "files": files}
        self._db.run(_QUERIES["set_text"], values)
        if not self._db.changes():
            raise NotFound("summary", summary_id)
        self._index.put_summary(summary_id, content)
        self._index.put_upstream_summary(summary_id, content, replace=True)

    def restore(self, was: Former) -> None:
        """Make a summary what it was, whether its row is still there or not."""
        row = was.row
        if self._db.row(_QUERIES["state"], {"id": was.id}) is not None:
            self.write(was.id, row["content"], row["token_count"], row["model"], json.loads(row["file_ids"]))
            return
        self._db.run(_QUERIES["insert_state"], [row[name] for name in _COLUMNS])
        self._db.run_many(_SUMMARIES["link_message"], [(was.id, id_, n) for n, id_ in enumerate(was.message_ids)])
        self._db.run_many(_SUMMARIES["link_source"], [(was.id, id_, n) for n, id_ in enumerate(was.source_ids)])
        self._db.run_many(_QUERIES["link_brief"], [(was.id, *link) for link in was.briefs])
        self._index.put_summary(was.id, row["content"])
        self._index.put_upstream_summary(was.id, row["content"])

    def recount(self, summary_ids: Iterable[str]) -> None:
        """Work out again the spans and counts of summaries and of everything that was made of them."""
        for id_ in self.above(summary_ids):
            self._db.run(_QUERIES["recount_leaf"], {"id": id_})
            self._db.run(_QUERIES["recount_condensed"], {"id": id_})

    def above(self, summary_ids: Iterable[str]) -> list[str]:
        """Summaries with all that was made of them, shallow ones first."""
        return [row[0] for row in self._db.rows(_QUERIES["above"], {"ids": json.dumps(list(summary_ids))})]

    def below(self, summary_ids: Iterable[str]) -> list[str]:
        """Summaries with all that they were made of, shallow ones first, then by time."""
        return [row[0] for row in self._db.rows(_QUERIES["below"], {"ids": json.dumps(list(summary_ids))})]

    def all_of(self, conversation_id: int) -> list[str]:
        """Every summary of a conversation, shallow ones first, then by time."""
        return [row[0] for row in self._db.rows(_QUERIES["of_conversation"], {"conversation_id": conversation_id})]

    def before(self, summary_id: str, limit: int) -> list[str]:
        """The summaries of the same depth just before one, oldest first."""
        return [row[0] for row in self._db.rows(_QUERIES["before"], {"id": summary_id, "limit": limit})][::-1]

    def source_tokens(self, summary_id: str) -> int:
        """What the sources of a summary weigh in a context."""
        row = self._db.row(_QUERIES["source_tokens"], {"id": summary_id})
        return row[0] if row else 0

    def uses(self, summary_id: str) -> tuple[str, ...]:
        """Who needs a summary: `context`, `hidden`, `brief`, or ids of summaries made of it."""
        return tuple(row[0] for row in self._db.rows(_QUERIES["uses"], {"id": summary_id}))

    def purge(self, summary_id: str) -> Former:
        """Delete a summary that nobody needs; returns what it was. Its sources stay."""
        was = self.state(summary_id)
        if users := self.uses(summary_id):
            raise Stale(f"summary {summary_id!r} is still needed: {', '.join(users)}")
        links = ("drop_index_row", "drop_extras", "drop_message_links", "drop_source_links", "drop_brief_links")
        for query in (*links, "drop_summary"):
            self._db.run(_QUERIES[query], {"id": summary_id})
        for table, suffix in (("summaries_fts", ""), ("summaries_fts_cjk", "_cjk")):
            if table in self._index.upstream:
                self._db.run(_INDEX[f"upstream_drop_summary{suffix}"], {"summary_id": summary_id})
        return was

    # --- the context ----------------------------------------------------------------------------------

    def visible(self, conversation_id: int, items: Sequence[int | str]) -> tuple[int | str, ...]:
        """Those of some items that are not hidden, in their order: what may come back into the context."""
        place = {"conversation_id": conversation_id, "items": json.dumps(list(items))}
        hidden = {row[0] for row in self._db.rows(_QUERIES["hidden_among"], place)}
        return tuple(item for item in items if item not in hidden)

    def exchange(
        self, conversation_id: int, first: int, last: int, items: Sequence[int | str], now: datetime
    ) -> tuple[int, int]:
        """Put items where a run of ordinals stands; what comes later moves up when they need more room.

        Returns from which ordinal on items moved, and by how much.
        """
        self._db.run(_QUERIES["take_out"], {"conversation_id": conversation_id, "first": first, "last": last})
        row = self._db.row(_QUERIES["next_after"], {"conversation_id": conversation_id, "ordinal": first})
        following: int | None = row[0] if row else None
        shift = 0 if following is None else max(0, first + len(items) - following)
        if shift and following is not None:
            place = {"conversation_id": conversation_id, "ordinal": following, "by": shift}
            self._db.run(_QUERIES["shift_from"], place)
            self._db.run(_QUERIES["shift_back"], {"conversation_id": conversation_id})
        for n, item in enumerate(items):
            self._put(conversation_id, first + n, item, now)
        self._db.run(_QUERIES["forget_tokens"], {"conversation_id": conversation_id})
        return (following or 0, shift)

    def _put(self, conversation_id: int, ordinal: int, item: int | str, now: datetime) -> None:
        values = {"conversation_id": conversation_id, "ordinal": ordinal, "now": row_time(now)}
        if isinstance(item, int):
            self._db.run(_CONTEXT["put_message"], values | {"message_id": item})
        else:
            self._db.run(_CONTEXT["put_summary"], values | {"summary_id": item})


def _entry(row: Row) -> LogEntry:
    id_, at, actor, action, cause, removed, added, ordinal, before, after, detail = row
    return LogEntry(
        id_, moment(at), actor, action, cause, tuple(json.loads(removed)), tuple(json.loads(added)), ordinal,
        before, after, json.loads(detail) if detail else {},
    )  # fmt: skip


def _as_json(was: Former) -> str:
    kept = {"row": was.row, "messages": was.message_ids, "sources": was.source_ids, "briefs": was.briefs}
    return json.dumps(kept, separators=(",", ":"))


def _from_json(text: str) -> Former:
    kept = json.loads(text)
    briefs = tuple((brief, ordinal, role, at) for brief, ordinal, role, at in kept.get("briefs", ()))
    return Former(kept["row"], tuple(kept["messages"]), tuple(kept["sources"]), briefs)
