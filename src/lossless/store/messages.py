"""Messages on disk: stored once with their search index entries, and restored exactly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING

from lossless.model.budget import message_budget_tokens, summary_budget_tokens
from lossless.model.identity import fingerprint
from lossless.model.js_json import storable_text
from lossless.model.messages import Message, StoredMessage, ToolCall, without_words_digest
from lossless.model.records import TailRow
from lossless.model.search_text import INDEX_VERSION, extra_tokens, index_text_of, passages
from lossless.model.times import row_time
from lossless.store.database import (
    PASSAGE_BASE,
    Database,
    Params,
    Row,
    Sql,
    TableAccess,
    column_text,
    group_rows,
    load_queries,
    only,
    schema_statements,
    time_or_epoch,
)
from lossless.store.rows import (
    PartRow,
    message_digest,
    pack_message,
    part_values,
    unpack_message,
    unreadable_message,
)

if TYPE_CHECKING:
    from lossless.model.conversations import Conversation

_CAUGHT_UP = "indexed_through"
#: The mark up to which all rows are indexed advances in steps of this.
MARK_STEP = 1000
_INDEX_BATCH = 500
_ROWS_A_STATEMENT = 5000
_SALT = str(INDEX_VERSION).encode()


def index_digest(text: str) -> bytes:
    """Eight bytes that change with the indexed text, or with the way it is indexed."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=_SALT).digest()


def indexed_text(content: str, message: Message) -> str:
    return storable_text(index_text_of(content, [part.input for part in message.parts if isinstance(part, ToolCall)]))


def index_pieces(text: str) -> list[tuple[int, str]]:
    """The index rows of a text: starts and contents. A blank text has none."""
    spans = passages(text)
    return [(0, text)] if len(spans) == 1 else [(start, text[start:end]) for start, end in spans]


class SearchIndex(TableAccess):
    """Keeps our full-text tables, and upstream's where a file has them, in sync with the base rows."""

    queries = load_queries("index", "migrate")

    @cached_property
    def upstream(self) -> frozenset[str]:
        """Upstream's search tables in this file; a live upstream may read them."""
        return frozenset(self._column("upstream_tables"))

    def add_messages(self, first: int, texts: Sequence[str], contents: Sequence[str]) -> None:
        """Index messages that were just stored under consecutive ids."""
        self.add_texts((first + n, text) for n, text in enumerate(texts))
        if first // MARK_STEP != (first + len(texts)) // MARK_STEP:
            self.mark_if_caught_up(first - 1)
        self.add_upstream((first + n, content) for n, content in enumerate(contents))

    def add_texts(self, texts: Iterable[tuple[int, str]]) -> None:
        """Index new texts, each under its message's id."""
        heads: list[tuple[int, str, str]] = []
        rest: list[tuple[int, int, str]] = []
        for message_id, text in texts:
            if pieces := index_pieces(text):
                heads.append((message_id, pieces[0][1], extra_tokens(pieces[0][1])))
                rest.extend((message_id, start, body) for start, body in pieces[1:])
        self._insert(heads)
        if not rest:
            return
        first: int = self._value("next_passage") or 1
        self._run_many(
            "add_passage",
            [(first + n, message_id, start, len(text)) for n, (message_id, start, text) in enumerate(rest)],
        )
        self._insert([(PASSAGE_BASE + first + n, text, extra_tokens(text)) for n, (_, _, text) in enumerate(rest)])

    def _insert(self, rows: list[tuple[int, str, str]]) -> None:
        """Insert many index rows per statement: FTS5 writes a segment for each statement."""
        for start in range(0, len(rows), _ROWS_A_STATEMENT):
            some = rows[start : start + _ROWS_A_STATEMENT]
            sql = self.queries["add_messages"] + ", (?, ?, ?)" * (len(some) - 1)
            self._db.run(sql, [value for row in some for value in row])

    def add_upstream(self, contents: Iterable[tuple[int, str]]) -> None:
        """Write messages into upstream's search table, if the file has it.

        Upstream indexes content unchanged, file references as header and exploration summary.
        """
        if "messages_fts" not in self.upstream:
            return
        indexed = [(id_, index_text_of(content)) for id_, content in contents]
        self._run_many("add.messages_fts", [row for row in indexed if row[1].strip()])

    def replace_upstream(self, message_id: int, content: str) -> None:
        """Update a message in upstream's search table, if the file has it."""
        if "messages_fts" in self.upstream:
            self._run("drop.messages_fts", (message_id,))
            self.add_upstream([(message_id, content)])

    def drop_message(self, message_id: int) -> None:
        self._run("drop_rows_of", message_id=message_id, base=PASSAGE_BASE)
        self._run("drop_passages", message_id=message_id)

    def reindex_message(self, message_id: int, content: str, message: Message) -> None:
        """Reindex a row, or index it for the first time when another program wrote it."""
        text = indexed_text(content, message)
        self.refill([(message_id, text)])
        self._run("set_extras", (message_id, fingerprint(message), index_digest(text), message_budget_tokens(message)))
        self._db.noted["messages", message_id] = None

    def lost(self, after: int, *, passages: bool = False, limit: int = _INDEX_BATCH) -> list[int]:
        """The next messages after `after` that have lost an index row."""
        place = {"after": after, "limit": limit, "base": PASSAGE_BASE, "blank": index_digest("")}
        return self._column("lost_passages" if passages else "lost_messages", place)

    def refill(self, texts: Sequence[tuple[int, str]]) -> None:
        """Write the index rows of messages again; needs a transaction."""
        for message_id, _ in texts:
            self.drop_message(message_id)
        self.add_texts(texts)

    @property
    def has_stray_passages(self) -> bool:
        return self._any("stray_passages", base=PASSAGE_BASE)

    def drop_gone(self, limit: int = _INDEX_BATCH) -> int:
        """Remove about so many rows whose message or summary is gone; returns how many. Needs a transaction."""
        gone = self._rows("gone_rows", base=PASSAGE_BASE, limit=limit)
        self._run_many("drop_row", gone)
        gone_summaries = self._rows("gone_summary_rows", limit=limit)
        self._run_many("drop_summary_row", gone_summaries)
        return len(gone) + len(gone_summaries)

    def empty(self) -> None:
        """Recreate our full-text tables, empty; needs a transaction."""
        self._run_all("empty.")
        for statement in schema_statements("additions"):
            if statement.startswith("CREATE VIRTUAL TABLE "):
                self._db.run(statement)

    def put_summary(self, summary_id: str, content: str) -> None:
        """Index a summary, again when it is already indexed."""
        self._run("drop_row_of_summary", summary_id=summary_id)
        digest, estimate = index_digest(content), summary_budget_tokens(content)
        values = {"summary_id": summary_id, "digest": digest, "budget_tokens": estimate}
        self._run("add_summary", (self._rows("add_summary_extras", values)[0][0], content, extra_tokens(content)))
        self._run("forget_context_tokens", summary_id=summary_id)

    def write_summary(self, summary_id: str, content: str) -> None:
        """Index a summary that we have just written, also in upstream's search tables, if the file has them."""
        self.put_summary(summary_id, content)
        self.drop_upstream_summary(summary_id)
        for table in self._upstream_of_summaries:
            self._run(f"add.{table}", (summary_id, content))

    def drop_upstream_summary(self, summary_id: str) -> None:
        for table in self._upstream_of_summaries:
            self._run(f"drop.{table}", (summary_id,))

    @property
    def _upstream_of_summaries(self) -> list[str]:
        return sorted(self.upstream - {"messages_fts"})

    def upstream_lost(self, limit: int = _INDEX_BATCH, summaries: int = -1) -> Iterator[tuple[str, list[Row]]]:
        """Rows that upstream's search tables lack, if the file has them: messages with words in batches; summaries."""
        for page in self._pages("lost.messages_fts", limit) if "messages_fts" in self.upstream else ():
            lost = [(id_, text) for id_, content in page if (text := index_text_of(content)).strip()]
            if lost:
                yield "messages_fts", lost
        for table in self._upstream_of_summaries:
            if found := self._rows(f"lost.{table}", limit=summaries):
                yield table, found

    def emptied_upstream(self) -> tuple[str, ...]:
        """Upstream's search tables that are empty although they should not be."""
        empty = [table for table in self.upstream if not self._any(f"{table}_any")]
        lacking = dict.fromkeys(table for table, _ in self.upstream_lost(summaries=1)) if empty else ()
        return tuple(table for table in lacking if table in empty)

    def refill_upstream(self, limit: int = _INDEX_BATCH) -> int:
        """Add some missing rows to one of upstream's search tables; returns how many. Needs a transaction."""
        for table, rows in self.upstream_lost(limit, limit):
            self._run_many(f"add.{table}", rows)
            return len(rows)
        return 0

    def renew_upstream(self) -> None:
        """Recreate upstream's damaged search tables, empty. Needs a transaction."""
        for table in sorted(self.upstream):
            if self._column(f"{table}_integrity") != ["ok"]:
                definition = self._column("table_definition", name=table)[0]
                self._run(f"drop_{table}")
                self._db.run(definition)

    def unindexed(self, limit: int = _INDEX_BATCH) -> tuple[list[int], list[tuple[str, str]]]:
        """Rows of other programs that are not indexed yet: message ids, and summaries with their text."""
        after = self._count("state", name=_CAUGHT_UP)
        summaries = self._rows("unindexed_summaries", limit=limit)
        messages = self._column("unindexed_messages", after=after, limit=limit)
        return messages, [(row[0], column_text(row[1])) for row in summaries]

    def mark_if_caught_up(self, through: int) -> None:
        """Record that all messages up to one are indexed, if they are; needs a transaction."""
        after = self._count("state", name=_CAUGHT_UP)
        if after < through and not self._any("gap", after=after, through=through):
            self.mark_caught_up(through)

    def mark_caught_up(self, through: int) -> None:
        """Record up to which message all are indexed; 0 has all messages checked. Needs a transaction."""
        self._run("set_state", name=_CAUGHT_UP, value=through)


@dataclass(slots=True)  # one is made for every message, and a frozen one would take three times as long
class NewMessage:
    """A message to be stored, with all derived values."""

    message: Message
    identity: str
    fingerprint: bytes
    created_at: datetime
    entry_id: str | None = None
    event_key: str | None = None
    sender: str | None = None
    #: `file_…` id of the payload that the content refers to.
    file_id: str | None = None
    #: A system prompt or a notice at the start of a window: it has no position in the order of messages.
    is_preamble: bool = False


@dataclass(frozen=True, slots=True)
class Appended:
    """Messages that were just stored: their ids, the seq of the last one, the tokens of all."""

    ids: tuple[int, ...] = ()
    last_seq: int | None = None
    tokens: int = 0
    #: By how much their budget estimates exceed their tokens.
    extra: int = 0

    def __add__(self, later: Appended) -> Appended:
        last_seq = later.last_seq or self.last_seq
        return Appended(self.ids + later.ids, last_seq, self.tokens + later.tokens, self.extra + later.extra)


class Messages(TableAccess):
    """Reads and writes of messages, parts and their places in the context."""

    queries = load_queries("messages")
    #: The seq of the newest message; 0 without messages.
    last_seq: Sql[[int], int] = Sql("count", "conversation_id")
    #: The newest message except leading system prompts and notices.
    newest_said_id: Sql[[int], int | None] = Sql("value", "conversation_id", "newest_said")
    #: How many messages are visible and not left on a branch; at most `limit`.
    visible: Sql[[int, int], int] = Sql("count", "conversation_id limit")
    #: The messages from a seq on whose text may refer to a file, newest first.
    referring: Sql[[int, int, int], list[int]] = Sql("column", "conversation_id first limit")
    #: The seqs of messages with these identities that are in the context themselves, oldest first.
    seqs_in_context: Sql[[int, Sequence[str]], list[int]] = Sql("column", "conversation_id identities")
    #: The same leading system prompt or notice from an earlier window.
    preamble_id: Sql[[int, str, bytes], int | None] = Sql("value", "conversation_id identity fingerprint", "preamble")

    #: The newest visible messages, oldest first.
    tail: Sql[[int, int], list[TailRow]] = Sql("tail_list", "conversation_id limit")
    #: All visible messages from a position on, oldest first.
    run_from: Sql[[int, int], list[TailRow]] = Sql("tail_list", "conversation_id seq")
    #: Messages that left the context on a branch, from a position on, oldest first.
    abandoned_from: Sql[[int, int], list[TailRow]] = Sql("tail_list", "conversation_id seq")
    #: The messages from one seq to another that are in the context themselves.
    context_run: Sql[[int, int, int], list[TailRow]] = Sql("tail_list", "conversation_id first last")
    #: The visible ones of these messages, in the given order.
    tail_rows: Sql[[int, Sequence[int]], list[TailRow]] = Sql("tail_list", "conversation_id ids")
    #: Record that a producer without entry ids has also sent these rows.
    claim: Sql[[Iterable[int]], None] = Sql("run", "ids")
    #: The newest user message of each conversation that has one.
    newest_users: Sql[[Iterable[int]], dict[int, int]] = Sql("pairs", "ids")
    #: Rows with a generated entry id, including hidden ones.
    made_up: Sql[[int], list[tuple[int, str]]] = Sql("rows", "conversation_id")
    entry_ids: Sql[[Sequence[int]], dict[int, str]] = Sql("pairs", "ids")

    def __init__(self, database: Database, index: SearchIndex) -> None:
        super().__init__(database)
        self._index = index

    def append(
        self, conversation: Conversation, new: Sequence[NewMessage], now: datetime, *, in_context: bool = True
    ) -> Appended:
        """Append messages to a conversation: rows, parts, context and index, in the caller's transaction."""
        if not new:
            return Appended()
        first, seq, ordinal = self._rows("next_places", conversation_id=conversation.id)[0]
        contents, part_rows, skeletons = zip(*[pack_message(item.message) for item in new], strict=True)
        at = row_time(now)
        times = [at if item.created_at is now else row_time(item.created_at) for item in new]
        parts = [part_values(first + n, rows) if rows else [] for n, rows in enumerate(part_rows)]
        self._run_many(
            "insert",
            [
                (first + n, conversation.id, seq + n, item.message.role, contents[n], item.message.tokens,
                 item.identity, item.sender, item.entry_id, times[n], item.event_key, item.file_id)
                for n, item in enumerate(new)
            ],
        )  # fmt: skip
        # Only now: the driver has left the UTF-8 form in each text, which all of this needs.
        texts = [indexed_text(content, item.message) for item, content in zip(new, contents, strict=True)]
        extras: list[tuple[object, ...]] = []
        tokens = extra = 0
        for n, (item, skeleton) in enumerate(zip(new, skeletons, strict=True)):
            message, id_ = item.message, first + n
            estimate = message_budget_tokens(message)
            form = None if message.format == "plain" else message.format
            row = (
                message.role, contents[n], message.tokens, item.identity, item.sender, times[n], item.file_id,
                item.fingerprint, int(item.is_preamble), form, skeleton, estimate,
            )  # fmt: skip
            digest = index_digest(texts[n]) + message_digest(row, [(part[0], *part[2:]) for part in parts[n]])
            is_claimed = item.entry_id is None
            extras.append((id_, item.fingerprint, digest, is_claimed, item.is_preamble, form, skeleton, estimate))
            tokens += message.tokens
            extra += max(0, estimate - message.tokens)
        self._run_many("insert_extras", extras)
        if any(parts):
            self._run_many("insert_part", [row for some in parts for row in some])
        if in_context:
            self._run("insert_context", (ordinal - seq, at, conversation.id, seq))
        self._index.add_messages(first, texts, contents)
        return Appended(tuple(range(first, first + len(new))), seq + len(new) - 1, tokens, extra)

    def known_entries(self, conversation_id: int, entry_ids: Sequence[str]) -> dict[str, TailRow]:
        """Which of a host's entry ids are stored, and where, including hidden rows.

        An id generated for a line whose words must not be kept is stored as that line only.
        """
        if not entry_ids:
            return {}
        lines = {id_: line for id_ in entry_ids if (line := without_words_digest(id_)) != id_}
        found = self._known("known_entries", conversation_id, [*entry_ids, *lines.values()])
        return {id_: row for id_ in entry_ids if (row := found.get(id_) or found.get(lines.get(id_, id_))) is not None}

    def known_events(self, conversation_id: int, event_keys: Sequence[str]) -> dict[str, TailRow]:
        """Which of the providers' event keys are stored, and where, including hidden rows."""
        return self._known("known_events", conversation_id, event_keys)

    def called_after(self, conversation_id: int, results: Mapping[str, int]) -> frozenset[str]:
        """Which of these calls were repeated after the row of their result was stored."""
        place = {"conversation_id": conversation_id, "results": results.items()}
        return self._set("called_after", place) if results else frozenset()

    def _known(self, query: str, conversation_id: int, ids: Sequence[str]) -> dict[str, TailRow]:
        if not ids:
            return {}
        found = self._rows(query, conversation_id=conversation_id, ids=ids)
        return {row[0]: known for row, known in zip(found, self._tail_rows([row[1:] for row in found]), strict=True)}

    def twins(self, conversation_id: int, pairs: Sequence[tuple[str, datetime]]) -> list[int]:
        """Rows with a host's entry id and one of these identities and seconds."""
        asked = [(identity, row_time(at)) for identity, at in pairs]
        return self._column("twins", conversation_id=conversation_id, pairs=asked)

    def newest_id(self, conversation_id: int) -> int | None:
        return self._value("newest", conversation_id=conversation_id)

    def _tail_list(self, query: str, params: Params) -> list[TailRow]:
        return self._tail_rows(self._rows(query, params))

    def _tail_rows(self, found: Sequence[Row]) -> list[TailRow]:
        """Rows for alignment; missing fingerprints of other programs' rows are computed here."""
        foreign = self.many([row[0] for row in found if row[1] is None])
        prints = {stored.id: fingerprint(stored.message) for stored in foreign}
        return [
            TailRow(id_, known or prints[id_], entry_id, bool(claimed), role, seq, *map(bool, more))
            for id_, known, entry_id, claimed, role, seq, *more in found
        ]

    def seqs_of_identity(self, conversation_id: int, identity: str, limit: int) -> list[int]:
        """The seqs of messages with this identity, newest first, including hidden ones."""
        return self._column("seqs_of_identity", conversation_id=conversation_id, identity=identity, limit=limit)

    def stamp(self, stamps: Sequence[tuple[int, str]]) -> None:
        """Set the host's entry ids of rows; ids that move between rows are freed first."""
        self._run("clear_entries", ids=[id_ for id_, _ in stamps])
        self._run_many("stamp_entry", stamps)

    def get(self, message_id: int) -> StoredMessage:
        """One message; raises `NotFound`."""
        return only(self.many([message_id]), "message", message_id)

    def many(self, message_ids: Sequence[int], *, exact: bool = True) -> list[StoredMessage]:
        """Messages by id, in the given order; unknown ids are skipped.

        Without `exact` their originals are not rebuilt: enough to read and count them, and faster.
        """
        if not message_ids:
            return []
        ids = self._seen(message_ids)
        parts = group_rows(self._rows("parts_by_ids", ids), PartRow)
        found: dict[int, StoredMessage] = {}
        for row in self._rows("by_ids", ids):
            id_, owner, seq, created, entry_id, file_id, sender, *columns = row
            role, content, tokens, event_key, format_, skeleton = columns
            body = skeleton if exact else None
            try:
                message = unpack_message(role, content, tokens, parts[id_], body, format_, event_key)
                at = time_or_epoch(created)
                found[id_] = StoredMessage(id_, owner, seq, message, at, entry_id, file_id, sender)
            except ValueError as error:
                raise unreadable_message(row[0], error) from error
        return [found[id_] for id_ in message_ids if id_ in found]

    def each(self, conversation_id: int, page: int = 500) -> Iterator[StoredMessage]:
        """All messages of a conversation, oldest first, read in batches."""
        seq = 0
        while stored := self.in_order(conversation_id, seq, page):
            yield from stored
            seq = stored[-1].seq

    def in_order(self, conversation_id: int, after_seq: int = 0, limit: int = 500) -> list[StoredMessage]:
        """A page of a conversation, oldest first."""
        return self.many(self._column("ids_in_order", conversation_id=conversation_id, after=after_seq, limit=limit))
