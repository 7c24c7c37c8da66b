"""Writes of surgery and repair, with undo data: summaries, context runs, merges, copies, rebuilt values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

from lossless.errors import NotFound, Stale
from lossless.model.identity import file_ids_in
from lossless.model.records import ContextChange
from lossless.store.context import item_id
from lossless.store.database import Row, Sql, TableAccess, load_queries, only
from lossless.store.migrate import base_columns
from lossless.store.search import TrigramIndex

if TYPE_CHECKING:
    from lossless.store.archive import Archive

_SUMMARIES = load_queries("summaries")


#: Why a merged conversation has a pending compaction.
MERGE_REASON = "doctor-rollover-split-repair"
_PAGE = 500


#: An archived conversation with messages, under the key of an active one: the key, the active one's id, its own id, why
#: it was closed, its messages, and whether it continues after the active one began.
SplitRow: TypeAlias = tuple[str, int, int, str | None, int, int]


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
class FormerSummary:
    """An earlier state of a summary: its columns, the ids of its sources, and its references in briefs."""

    row: dict[str, Any]
    message_ids: tuple[int, ...] = ()
    source_ids: tuple[str, ...] = ()
    #: The brief, the ordinal, the role and the time of each.
    briefs: tuple[tuple[str, int, str, str], ...] = ()

    @property
    def id(self) -> str:
        return str(self.row["summary_id"])


class SurgeryWrites(TableAccess):
    """Writes of surgery; they need a transaction."""

    queries = load_queries("operations", "belonging", "rebuilding", "moving")
    #: Move transcript records together with the messages before them.
    move_records: Sql[[Sequence[str], int, int, int], None] = Sql("run", "keys from to by")
    #: Add the batch keys of a source to the target.
    move_keys: Sql[[int, int], None] = Sql("run", "from conversation_id")
    #: The texts of a conversation's summaries by id.
    summary_texts: Sql[[int], dict[str, str]] = Sql("pairs", "conversation_id", "summary_digests")
    take_out_summaries: Sql[[int, Sequence[str]], None] = Sql("run", "conversation_id ids", "delete_context_summaries")
    #: The id of the newest change up to a moment; 0 when there was none.
    entry_at: Sql[[int, datetime], int] = Sql("count", "conversation_id at", "entry_before")
    #: Summaries with everything made of them, shallowest first.
    above: Sql[[Iterable[str]], list[str]] = Sql("column", "ids")
    #: Summaries with everything under them, shallowest first, then by time.
    below: Sql[[Iterable[str]], list[str]] = Sql("column", "ids")
    #: Every summary of a conversation, shallowest first, then by time.
    all_of: Sql[[int], list[str]] = Sql("column", "conversation_id", "of_conversation")
    #: The summaries of the same depth just before one, oldest first.
    before: Sql[[str, int], list[str]] = Sql("column", "id limit")
    #: The conversation of a brief.
    brief_owner: Sql[[str], int | None] = Sql("value", "id")
    #: The tokens of a summary's sources in a context.
    source_tokens: Sql[[str], int] = Sql("count", "id")
    #: Log entry and target of each merge of a conversation, newest first.
    merges_of: Sql[[int], list[tuple[int, int]]] = Sql("rows", "conversation_id")
    #: Summaries that have lost their sources, which the log still names.
    summaries_without_sources: Sql[[], list[str]] = Sql("column", "", "without_sources")
    #: Conversations with wrong counters.
    wrong_counters: Sql[[], list[int]] = Sql("column")
    #: Correct the counters of a conversation; its size is recomputed later.
    count_conversation: Sql[[int], None] = Sql("run", "conversation_id", "count")
    #: Deactivate briefs.
    retire_briefs: Sql[[Sequence[str]], None] = Sql("run", "ids")
    #: Request a compaction, with its reason.
    request_sweep: Sql[[int, datetime, str], None] = Sql("run", "conversation_id now reason")
    #: What uses a summary: `context`, `hidden`, `brief`, or ids of summaries made of it.
    uses: Sql[[str], list[str]] = Sql("column", "id")
    #: One of some copies that something outside of them and the conversation's context uses, and its user.
    needed: Sql[[int, Sequence[str], Sequence[int]], tuple[str, str] | None] = Sql(
        "row", "conversation_id summaries messages"
    )
    #: Archived conversations with the key of an active one, or of any, oldest first.
    splits: Sql[[str | None], list[SplitRow]] = Sql("rows", "key", "split_keys")

    def __init__(self, archive: Archive) -> None:
        self._archive, self._db, self._index = archive, archive.database, archive.index

    def entries(self, conversation_id: int, after: int = 0, through: int | None = None) -> list[LogEntry]:
        """Changes of a context after one entry, up to another, oldest first."""
        place = {"conversation_id": conversation_id, "after": after, "through": 2**62 if through is None else through}
        return self._records(LogEntry, "entries", place)

    def log(
        self, conversation_id: int, change: ContextChange, now: datetime, former: Sequence[FormerSummary] = ()
    ) -> int:
        """Add a log entry with the earlier state of summaries; returns its id."""
        self._archive.context.log(conversation_id, change, now)
        log_id: int = self._rows("newest_entry", conversation_id=conversation_id)[0][0]
        for was in former:
            kept = {"row": was.row, "messages": was.message_ids, "sources": was.source_ids, "briefs": was.briefs}
            self._run("keep_former", (log_id, was.id, json.dumps(kept, separators=(",", ":"))))
        return log_id

    def former(self, log_id: int) -> list[FormerSummary]:
        found = []
        for kept in map(json.loads, self._column("former", log_id=log_id)):
            briefs = tuple(map(tuple, kept.get("briefs", ())))
            found.append(FormerSummary(kept["row"], tuple(kept["messages"]), tuple(kept["sources"]), briefs))
        return found

    def state(self, summary_id: str) -> FormerSummary:
        row: Row = only(self._rows("state", id=summary_id), "summary", summary_id)
        messages = self._archive.summaries.message_ids(summary_id)
        sources = [source for _, source in self._db.rows(_SUMMARIES["sources_of"], {"ids": [summary_id]})]
        columns, briefs = base_columns("summaries"), self._rows("brief_links", id=summary_id)
        return FormerSummary(dict(zip(columns, row, strict=True)), tuple(messages), tuple(sources), tuple(briefs))

    def write(self, summary_id: str, content: str, tokens: int, model: str, file_ids: Sequence[str]) -> None:
        """Change the text of a summary and its index entries, ours and upstream's; `recount` updates the rest."""
        files = json.dumps(list(file_ids), separators=(",", ":"))
        if not self._changed("set_text", id=summary_id, content=content, tokens=tokens, model=model, files=files):
            raise NotFound("summary", summary_id)
        self._index.write_summary(summary_id, content)

    def restore(self, was: FormerSummary) -> None:
        """Restore the earlier state of a summary, whether its row still exists or not."""
        row = was.row
        if self._row("state", id=was.id) is not None:
            self.write(was.id, row["content"], row["token_count"], row["model"], json.loads(row["file_ids"]))
            return
        self._run("insert_state", [row[name] for name in base_columns("summaries")])
        self._db.run_many(_SUMMARIES["link_message"], [(was.id, id_, n) for n, id_ in enumerate(was.message_ids)])
        self._db.run_many(_SUMMARIES["link_source"], [(was.id, id_, n) for n, id_ in enumerate(was.source_ids)])
        self._run_many("link_brief", [(was.id, *link) for link in was.briefs])
        self._index.write_summary(was.id, row["content"])

    def recount(self, summary_ids: Iterable[str]) -> None:
        """Recompute the spans and counts of summaries and of everything made of them."""
        for id_ in self.above(summary_ids):
            self._run("recount_leaf", id=id_)
            self._run("recount_condensed", id=id_)

    def purge(self, summary_id: str) -> FormerSummary:
        """Delete an unused summary; returns its state. Its sources stay."""
        was = self.state(summary_id)
        if users := self.uses(summary_id):
            raise Stale(f"summary {summary_id!r} is still needed: {', '.join(users)}")
        self._run_all("purge.", id=summary_id)
        self._index.drop_upstream_summary(summary_id)
        return was

    def visible(self, conversation_id: int, items: Sequence[int | str]) -> tuple[int | str, ...]:
        """The items among these that are not hidden, in order: they may return to the context."""
        return tuple(self._column("visible", conversation_id=conversation_id, items=items))

    def wrong_contexts(self) -> list[int]:
        """Conversations whose context has wrong content or order."""
        checks = self._archive.checks
        found = set(self._column("wrong_contexts"))
        found |= {int(one.id.partition(":")[0]) for one in checks.out_of_order() if one.severity == "error"}

        def is_wrong(id_: int) -> bool:
            lost = checks.unreachable(id_)
            return id_ in found or bool(lost and not self._archive.context.was_cleared(id_, lost))

        return list(filter(is_wrong, checks.conversation_ids()))

    def miscounted_summaries(self) -> list[str]:
        return list(dict.fromkeys(one.id for name in COUNT_RULES for one in self._archive.checks.rule(name)))

    def restore_sources(self, summary_id: str) -> None:
        """Restore a summary's sources from the log of its fold."""
        self._run("link_messages", summary_id=summary_id)
        self._run("link_summaries", summary_id=summary_id)
        self._keep_digest([summary_id])

    def recount_derived(self, summary_ids: list[str]) -> None:
        self.recount(summary_ids)
        self._keep_digest(self.above(summary_ids))

    def _keep_digest(self, summary_ids: list[str]) -> None:
        """Keeps the digest when only derived values changed; a digest that still differs shows other damage."""
        for id_ in summary_ids:
            self._archive.row_digests.forget_note("summaries", json.dumps([id_]))

    def rebuild_context(self, conversation_id: int, now: datetime) -> None:
        """Rebuild the items of a context: existing ones without duplicates, and those that nothing covers."""
        context, checks = self._archive.context, self._archive.checks
        before, size = context.items(conversation_id), context.tokens(conversation_id)
        kept = self._rows("kept", conversation_id=conversation_id)
        if any(one.id.startswith(f"{conversation_id}:") for one in checks.out_of_order() if one.severity == "error"):
            kept.sort(key=lambda row: (not row[3], row[2] if not row[3] else 0))

        def add(rows: Iterable[Row]) -> None:
            """Each before the first that begins later."""
            for new in rows:
                at = next((n for n, row in enumerate(kept) if not row[3] and row[2] > new[2]), len(kept))
                kept.insert(at, new)
            context.set_items(conversation_id, ((n, row[0]) for n, row in enumerate(kept)), now)

        add(())
        add(self._rows("lost_summaries", conversation_id=conversation_id))
        add(self._rows("message", message_id=id_)[0] for id_ in checks.unreachable(conversation_id))
        ids = tuple(map(item_id, before))
        after = tuple(id_ for id_, *_ in kept)
        change = ContextChange("rebuild", "doctor", None, ids, after, 0, size, context.tokens(conversation_id))
        context.log(conversation_id, change, now)
        self.count_conversation(conversation_id)

    def snapshot(self, conversation_id: int, offset: int, others: Sequence[int]) -> dict[str, Any]:
        """What of a conversation moves, and by how much its messages are renumbered, as JSON: enough to undo it."""
        place = {"conversation_id": conversation_id, "offset": offset, "others": others}
        found: dict[str, Any] = json.loads(self._rows("snapshot", place)[0][0])
        return found

    def clear_ids(self, source_id: int, other_ids: Sequence[int]) -> list[list[Any]]:
        """Remove the host's ids from messages where others have the same; returns them."""
        values = {"source": source_id, "others": other_ids}
        clashing = [list(row) for row in self._rows("clashing_ids", values)]
        self.set_ids([(row[0], None, None) for row in clashing])
        return clashing

    def set_ids(self, rows: Iterable[Sequence[Any]]) -> None:
        self._run_many("set_ids", rows)

    def shift(self, conversation_id: int, by: int) -> None:
        """Increase the seqs of a conversation's messages by `by`, and all references to them."""
        self.move_messages(conversation_id, conversation_id, by)
        for query in ("shift_briefs", "shift_records"):
            self._run(query, conversation_id=conversation_id, by=by)

    def move_messages(self, source: int, to: int, by: int, first: int = 1, last: int = 2**62) -> None:
        """Move a range of messages to another conversation, with seqs increased by `by`."""
        self._run("move_messages", {"from": source, "to": to, "by": by, "first": first, "last": last})
        self._run("right_places", conversation_id=to)

    def move(self, things: dict[str, Any], to: int, source: int) -> None:
        """Move summaries, files, briefs, pins and hidden items of a snapshot to another conversation."""
        for thing in ("summaries", "files", "briefs", "pins", "hidden"):
            ids = [item[0] if thing == "briefs" else item for item in things[thing]]
            self._run(f"move_{thing}", {"conversation_id": to, "from": source, "ids": ids})

    def revive_briefs(self, things: dict[str, Any]) -> None:
        self._run_many("set_brief_status", [(status, id_) for id_, status in things["briefs"]])

    def drop_states(self, conversation_id: int) -> None:
        """Delete state that was kept for the next turn of a conversation."""
        self._run_all("state.", conversation_id=conversation_id)

    def files_of(self, message_ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
        """The files of messages: payloads that were moved out, or copies of their text."""
        return {id_: file_ids_in(*texts) for id_, texts in self._lists("files_of_messages", ids=message_ids).items()}

    def copy_messages(self, conversation_id: int, message_ids: Sequence[int]) -> dict[int, int]:
        """Copy messages with their parts to free seqs from 1 on; not in a context yet. Hidden ones stay hidden."""
        first: int = self._value("next_id") or 1
        places = [(old, first + n, 1 + n) for n, old in enumerate(message_ids)]
        self._run_all("copy_", places=places, conversation_id=conversation_id)
        return {old: new for old, new, _ in places}

    def index_copies(self, message_ids: Sequence[int]) -> None:
        for start in range(0, len(message_ids), _PAGE):
            for stored in self._archive.messages.many(message_ids[start : start + _PAGE]):
                self._index.reindex_message(stored.id, stored.message.content, stored.message)
                self._index.replace_upstream(stored.id, stored.message.content)

    def rename_files(self, message_id: int, names: Mapping[str, str]) -> None:
        """Make a copied message refer to copied files: in its mark, and in text and recipe."""

        def renamed(text: str | None) -> str | None:
            return text and reduce(lambda whole, name: whole.replace(name, names[name]), names, text)

        content, file_id = self._rows("file_texts", message_id=message_id)[0]
        parts = self._rows("part_texts", message_id=message_id)
        is_intercepted = any('"restore":' in (metadata or "") for *_, metadata in parts)
        content = renamed(content) if is_intercepted else content
        self._run("set_file_texts", message_id=message_id, content=content, file_id=renamed(file_id))
        for part_id, text, output, metadata in parts if is_intercepted else ():
            texts = {"text": renamed(text), "output": renamed(output), "metadata": renamed(metadata)}
            self._run("set_part_texts", texts | {"part_id": part_id})

    def remove_messages(self, conversation_id: int, message_ids: Sequence[int]) -> None:
        """Delete copied messages that are no longer referenced."""
        for query in ("delete_context_messages", "delete_hidden"):
            self._run(query, conversation_id=conversation_id, ids=message_ids)
        for id_ in message_ids:
            self._index.drop_message(id_)
        if "messages_fts" in self._index.upstream:
            self._run("delete_upstream_messages", ids=message_ids)
        if TrigramIndex(self._db).is_there:
            self._run("delete_trigrams", ids=message_ids)
        self._run("lend_index")
        self._run("delete_messages", ids=message_ids)
        self._run("return_index")
        while self._archive.versions.drop_gone():
            pass


#: Rules of `verify.sql` about numbers derived from the sources of a summary.
COUNT_RULES = tuple(f"summaries.{kind}_{what}" for what in ("counts", "times") for kind in ("leaf", "condensed"))
