"""Messages on disk, stored once and rebuilt exactly, and the rows of large payloads that left them."""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from lossless.errors import NotFound
from lossless.model.budget import message_budget_tokens
from lossless.model.identity import file_ids_in, fingerprint
from lossless.model.messages import GENERATED_ID_PREFIX, StoredFile, without_words_digest
from lossless.model.records import Page, PageStart, TailRow
from lossless.model.times import from_epoch, parse_time, row_time, state_time
from lossless.store import rows
from lossless.store.database import Database, conversation_range, load_queries
from lossless.store.maintenance.digests import RowDigests, message_digest
from lossless.store.rows import PackedMessage, PartRow, column_text, decompress_residual, storable_json
from lossless.store.search.find import SearchScope
from lossless.store.search.index import index_digest, indexed_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from lossless.model.conversations import Conversation
    from lossless.model.messages import Json, Message, Role, StoredMessage
    from lossless.store.database import Params, Row
    from lossless.store.search.index import SearchIndex

_MESSAGE_QUERIES = load_queries("messages")
_INSERT, _INSERT_EXTRAS = _MESSAGE_QUERIES["insert"], _MESSAGE_QUERIES["insert_extras"]
_INSERT_PART, _INSERT_CONTEXT = _MESSAGE_QUERIES["insert_part"], _MESSAGE_QUERIES["insert_context"]
_NEXT_PLACES = _MESSAGE_QUERIES["next_places"]


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message that is about to be stored, with everything worked out about it."""

    message: Message
    identity: str
    fingerprint: bytes
    created_at: datetime
    entry_id: str | None = None
    event_key: str | None = None
    sender: str | None = None
    #: `file_…` id of the payload that the content refers to.
    file_id: str | None = None
    #: A system prompt or a notice at the head of a window: it has no place in the order of what was said.
    is_preamble: bool = False


@dataclass(frozen=True, slots=True)
class Appended:
    """Messages that were just stored: their ids, the seq of the last one, the tokens of all."""

    ids: tuple[int, ...] = ()
    last_seq: int | None = None
    tokens: int = 0
    #: By how much their estimates for budgets are above their tokens.
    extra: int = 0

    def __add__(self, later: Appended) -> Appended:
        last_seq = later.last_seq or self.last_seq
        return Appended(self.ids + later.ids, last_seq, self.tokens + later.tokens, self.extra + later.extra)


class Messages:
    """Reads and writes of messages, parts and their places in the context."""

    def __init__(self, database: Database, index: SearchIndex) -> None:
        self._db, self._index = database, index

    def append(
        self, conversation: Conversation, new: Sequence[NewMessage], now: datetime, *, in_context: bool = True
    ) -> Appended:
        """Store messages at the end of a conversation: rows, parts, context and index, in the caller's transaction."""
        if not new:
            return Appended()
        places = self._db.row(_NEXT_PLACES, {"conversation_id": conversation.id})
        assert places is not None
        first, seq, ordinal = places
        packed = [rows.pack_message(item.message) for item in new]
        texts = [indexed_text(pack.content, item.message) for item, pack in zip(new, packed, strict=True)]
        at = row_time(now)
        times = [at if item.created_at is now else row_time(item.created_at) for item in new]
        parts = [rows.part_values(first + n, pack.parts) for n, pack in enumerate(packed)]
        estimates = [message_budget_tokens(item.message) for item in new]
        self._db.run_many(
            _INSERT,
            [
                (first + n, conversation.id, seq + n, item.message.role, pack.content, item.message.tokens,
                 item.identity, item.sender, item.entry_id, times[n], item.event_key, item.file_id)
                for n, (item, pack) in enumerate(zip(new, packed, strict=True))
            ],
        )  # fmt: skip
        self._db.run_many(
            _INSERT_EXTRAS,
            [
                (first + n, item.fingerprint, index_digest(text) + _whole(item, pack, parts[n], times[n], estimates[n]),
                 item.entry_id is None, item.is_preamble,
                 None if item.message.format == "plain" else item.message.format, pack.skeleton, estimates[n])
                for n, (item, pack, text) in enumerate(zip(new, packed, texts, strict=True))
            ],
        )  # fmt: skip
        if part_rows := [row for some in parts for row in some]:
            self._db.run_many(_INSERT_PART, part_rows)
        if in_context:
            self._db.run_many(_INSERT_CONTEXT, [(conversation.id, ordinal + n, first + n, at) for n in range(len(new))])
        self._index.add_messages(first, texts, [pack.content for pack in packed])
        tokens = sum(item.message.tokens for item in new)
        extra = sum(max(0, most - item.message.tokens) for most, item in zip(estimates, new, strict=True))
        return Appended(tuple(range(first, first + len(new))), seq + len(new) - 1, tokens, extra)

    def known_entries(self, conversation_id: int, entry_ids: Sequence[str]) -> dict[str, TailRow]:
        """Which of a host's entry ids are stored, and where, hidden rows too.

        One that was made up for a line whose words must not be kept is stored as that line alone.
        """
        lines = {id_: line for id_ in entry_ids if (line := without_words_digest(id_)) != id_}
        found = self._known("known_entries", conversation_id, [*entry_ids, *lines.values()])
        return {id_: row for id_ in entry_ids if (row := found.get(id_) or found.get(lines.get(id_, id_))) is not None}

    def known_events(self, conversation_id: int, event_keys: Sequence[str]) -> dict[str, TailRow]:
        """Which of the providers' event keys are stored, and where, hidden rows too."""
        return self._known("known_events", conversation_id, event_keys)

    def called_after(self, conversation_id: int, results: Mapping[str, int]) -> frozenset[str]:
        """Which of these calls were made again after the row of their result was stored."""
        if not results:
            return frozenset()
        place = {"conversation_id": conversation_id, "results": json.dumps(list(results.items()))}
        return frozenset(row[0] for row in self._db.rows(_MESSAGE_QUERIES["called_after"], place))

    def _known(self, query: str, conversation_id: int, ids: Sequence[str]) -> dict[str, TailRow]:
        if not ids:
            return {}
        found = self._db.rows(_MESSAGE_QUERIES[query], {"conversation_id": conversation_id, "ids": json.dumps(ids)})
        rows_ = self._tail_rows([row[1:] for row in found])
        return {row[0]: known for row, known in zip(found, rows_, strict=True)}

    def made_up(self, conversation_id: int) -> list[tuple[int, str]]:
        """Rows with an entry id that was made up, hidden ones too."""
        place = {
            "conversation_id": conversation_id,
            "first": GENERATED_ID_PREFIX,
            "end": chr(ord(GENERATED_ID_PREFIX) + 1),
        }
        return [(id_, entry) for id_, entry in self._db.rows(_MESSAGE_QUERIES["made_up"], place)]

    def twins(self, conversation_id: int, pairs: Sequence[tuple[str, datetime]]) -> list[int]:
        """Rows with a host's entry id that have one of these identities, and its second."""
        asked = json.dumps([(identity, row_time(at)) for identity, at in pairs])
        found = self._db.rows(_MESSAGE_QUERIES["twins"], {"conversation_id": conversation_id, "pairs": asked})
        return [row[0] for row in found]

    def newest_id(self, conversation_id: int) -> int | None:
        return _id(self._db.row(_MESSAGE_QUERIES["newest"], {"conversation_id": conversation_id}))

    def newest_said_id(self, conversation_id: int) -> int | None:
        """The newest message that is no system prompt or notice at the head of a window."""
        return _id(self._db.row(_MESSAGE_QUERIES["newest_said"], {"conversation_id": conversation_id}))

    def newest_users(self, conversation_ids: Iterable[int]) -> dict[int, int]:
        """The newest user message of each conversation that has one."""
        found = self._db.rows(_MESSAGE_QUERIES["newest_users"], {"ids": json.dumps(list(conversation_ids))})
        return {conversation_id: id_ for conversation_id, id_ in found if id_ is not None}

    def tail(self, conversation_id: int, limit: int) -> list[TailRow]:
        """The newest visible messages, oldest first."""
        found = self._db.rows(_MESSAGE_QUERIES["tail"], {"conversation_id": conversation_id, "limit": limit})
        return self._tail_rows(found[::-1])

    def entry_ids(self, message_ids: Sequence[int]) -> dict[int, str]:
        """The entry ids of those of some messages that have one."""
        found = (
            self._db.rows(_MESSAGE_QUERIES["entry_ids"], {"ids": json.dumps(list(message_ids))}) if message_ids else []
        )
        return dict(found)

    def tail_rows(self, conversation_id: int, message_ids: Sequence[int]) -> list[TailRow]:
        """Those of some messages that are visible, in the order asked for."""
        place = {"conversation_id": conversation_id, "ids": json.dumps(list(message_ids))}
        found = {row.id: row for row in self._tail_rows(self._db.rows(_MESSAGE_QUERIES["tail_rows"], place))}
        return [found[id_] for id_ in message_ids if id_ in found]

    def visible(self, conversation_id: int, limit: int) -> int:
        """How many messages were said and not left on a branch; at most `limit`."""
        row = self._db.row(_MESSAGE_QUERIES["visible"], {"conversation_id": conversation_id, "limit": limit})
        return row[0] if row else 0

    def run_from(self, conversation_id: int, seq: int) -> list[TailRow]:
        """All visible messages from a place on, oldest first."""
        place = {"conversation_id": conversation_id, "seq": seq}
        return self._tail_rows(self._db.rows(_MESSAGE_QUERIES["run_from"], place))

    def abandoned_from(self, conversation_id: int, seq: int) -> list[TailRow]:
        """Messages that left the context on a branch, from a place on, oldest first."""
        place = {"conversation_id": conversation_id, "seq": seq}
        return self._tail_rows(self._db.rows(_MESSAGE_QUERIES["abandoned_from"], place))

    def _tail_rows(self, found: Sequence[Row]) -> list[TailRow]:
        """Rows as alignment sees them; the fingerprint of one that another program wrote is worked out here."""
        foreign = self.many([row[0] for row in found if row[1] is None])
        prints = {stored.id: fingerprint(stored.message) for stored in foreign}
        return [
            TailRow(id_, known or prints[id_], entry_id, bool(claimed), role, seq, *map(bool, more))
            for id_, known, entry_id, claimed, role, seq, *more in found
        ]

    def seqs_of_identity(self, conversation_id: int, identity: str, limit: int) -> list[int]:
        """Where messages with this identity stand, newest first, hidden ones too."""
        place = {"conversation_id": conversation_id, "identity": identity, "limit": limit}
        return [row[0] for row in self._db.rows(_MESSAGE_QUERIES["seqs_of_identity"], place)]

    def referring(self, conversation_id: int, first: int, limit: int) -> list[int]:
        """The messages from a seq on whose words may refer to a file, newest first."""
        place = {"conversation_id": conversation_id, "first": first, "limit": limit}
        return [row[0] for row in self._db.rows(_MESSAGE_QUERIES["referring"], place)]

    def seqs_in_context(self, conversation_id: int, identities: Sequence[str]) -> list[int]:
        """Where messages with these identities stand that are in the context as they are, oldest first."""
        place = {"conversation_id": conversation_id, "identities": json.dumps(list(identities))}
        return [row[0] for row in self._db.rows(_MESSAGE_QUERIES["seqs_in_context"], place)]

    def context_run(self, conversation_id: int, first: int, last: int) -> list[TailRow]:
        """The messages from one seq to another that are in the context as they are."""
        place = {"conversation_id": conversation_id, "first": first, "last": last}
        return self._tail_rows(self._db.rows(_MESSAGE_QUERIES["context_run"], place))

    def preamble_id(self, conversation_id: int, identity: str, fingerprint: bytes) -> int | None:
        """The system prompt or notice at the head of an earlier window that says the same."""
        place = {"conversation_id": conversation_id, "identity": identity, "fingerprint": fingerprint}
        return _id(self._db.row(_MESSAGE_QUERIES["preamble"], place))

    def stamp(self, stamps: Sequence[tuple[int, str]]) -> None:
        """Give rows the host's entry ids; ids that move from row to row are freed first."""
        self._db.run_many(_MESSAGE_QUERIES["clear_entry"], [{"message_id": id_} for id_, _ in stamps])
        self._db.run_many(
            _MESSAGE_QUERIES["stamp_entry"], [{"message_id": id_, "entry_id": entry} for id_, entry in stamps]
        )

    def claim(self, message_ids: Iterable[int]) -> None:
        """Note that a producer without entry ids has brought these rows, too."""
        self._db.run_many(_MESSAGE_QUERIES["claim"], [{"message_id": id_} for id_ in message_ids])

    def get(self, message_id: int) -> StoredMessage:
        """One message, or `NotFound`."""
        found = self.many([message_id])
        if not found:
            raise NotFound("message", message_id)
        return found[0]

    def many(self, message_ids: Sequence[int], *, exact: bool = True) -> list[StoredMessage]:
        """Messages by id, in the order asked for; unknown ids are left out.

        Without `exact` their originals are not rebuilt: enough to read and count them, and faster.
        """
        if not message_ids:
            return []
        ids = {"ids": json.dumps(list(message_ids))}
        parts: defaultdict[int, list[PartRow]] = defaultdict(list)
        for message_id, ordinal, type_, text, call_id, name, input_, output, metadata in self._db.rows(
            _MESSAGE_QUERIES["parts_by_ids"], ids
        ):
            parts[message_id].append(PartRow(ordinal, type_, text, call_id, name, input_, output, metadata or "{}"))
        found: dict[int, StoredMessage] = {}
        for row in self._db.rows(_MESSAGE_QUERIES["by_ids"], ids):
            role, content, tokens, event_key, format_, skeleton = row[7:]
            body = skeleton if exact else None
            try:
                message = rows.unpack_message(role, content, tokens, parts[row[0]], body, format_, event_key)
                found[row[0]] = rows.stored_message_from_row(row[:7], message)
            except ValueError as error:
                raise rows.unreadable_message(row[0], error) from error
        return [found[id_] for id_ in message_ids if id_ in found]

    def in_order(self, conversation_id: int, after_seq: int = 0, limit: int = 500) -> list[StoredMessage]:
        """A page of a conversation, oldest first."""
        place = {"conversation_id": conversation_id, "after": after_seq, "limit": limit}
        return self.many([row[0] for row in self._db.rows(_MESSAGE_QUERIES["ids_in_order"], place)])


def _whole(item: NewMessage, pack: PackedMessage, parts: Sequence[tuple[object, ...]], at: str, estimate: int) -> bytes:
    """The digest of all that is rebuilt of a message, as its rows will hold it."""
    message = item.message
    row = (
        message.role, pack.content, message.tokens, item.identity, item.sender, at, item.file_id,
        item.fingerprint, int(item.is_preamble), None if message.format == "plain" else message.format, pack.skeleton,
        estimate,
    )  # fmt: skip
    return message_digest(row, [(part[0], *part[2:]) for part in parts])


def _id(row: Row | None) -> int | None:
    return None if row is None else row[0]


_FILE_QUERIES = load_queries("files")
#: How far back a call is looked for from its answer.
_CALL_DISTANCE = 200
#: A part with this mark has its text in `messages.content`.
_IN_CONTENT = "topLevelReasoningOnly"


class StreamingDatabase(Database, Protocol):
    """A database that also gives the rows of a query one by one."""

    def stream(self, sql: str, params: Params = ()) -> Iterator[Row]:
        """The rows of a query, never all of them in memory."""
        ...


@dataclass(frozen=True, slots=True)
class LargeOutput:
    """A large answer of a tool whose text lies in its message only."""

    message_id: int
    conversation_id: int
    byte_size: int
    head: str
    seq: int
    tool: str | None
    call_id: str | None


@dataclass(frozen=True, slots=True)
class CallRow:
    """A stored call of a tool."""

    tool: str | None
    input: str | None


class LargeFileRows:
    """Reads and writes of `large_files`, and of the marks that messages carry for them."""

    def __init__(self, database: StreamingDatabase) -> None:
        self._db = database

    # --- rows ---------------------------------------------------------------------------------------

    def add(self, files: Sequence[StoredFile]) -> None:
        """Write rows; one that is there stays as it is."""
        self._db.run_many(_FILE_QUERIES["insert"], [_values(file) for file in files])

    def get(self, file_id: str) -> StoredFile:
        """One file, or `NotFound`."""
        found = self.many([file_id])
        if file_id not in found:
            raise NotFound("file", file_id)
        return found[file_id]

    def many(self, file_ids: Iterable[str]) -> dict[str, StoredFile]:
        """Files by id; unknown ids are left out."""
        found = self._db.rows(_FILE_QUERIES["by_ids"], {"ids": json.dumps(list(file_ids))})
        return {row[0]: _file(row) for row in found}

    def listed(self, where: SearchScope | None = None, file_ids: Sequence[str] = ()) -> list[StoredFile]:
        """Files of a scope, newest first; only some when ids are given."""
        return self._newest(where or SearchScope(), -1, None, file_ids)

    def page(self, where: SearchScope, limit: int, start: PageStart | None = None) -> Page[StoredFile]:
        """Some files of a scope, newest first, behind a place."""
        found = self._newest(where, limit + 1, start)
        rows = tuple(found[:limit])
        more = len(found) > limit
        return Page(rows, PageStart(state_time(rows[-1].created_at), rows[-1].id) if more else None)

    def _newest(
        self, where: SearchScope, limit: int, start: PageStart | None, file_ids: Sequence[str] = ()
    ) -> list[StoredFile]:
        values = where.values | {
            "ids": json.dumps(list(file_ids)) if file_ids else None,
            "from_at": None if start is None else round(parse_time(start.at).timestamp() * 1000),
            "from_id": None if start is None else start.id,
            "limit": limit,
        }
        ids = [row[0] for row in self._db.rows(_FILE_QUERIES["newest"], values)]
        found = self.many(ids)
        return [found[id_] for id_ in ids]

    def totals(self, where: SearchScope) -> tuple[int, int]:
        """How many files a scope has, and their bytes."""
        row = self._db.row(_FILE_QUERIES["totals"], where.values)
        return (row[0], row[1]) if row else (0, 0)

    def ids(self) -> frozenset[str]:
        """The ids of all rows."""
        return frozenset(row[0] for row in self._db.rows(_FILE_QUERIES["ids"]))

    def remove(self, file_ids: Iterable[str]) -> None:
        """Delete rows; on a person's command only."""
        self._db.run_many(_FILE_QUERIES["delete"], [{"id": id_} for id_ in file_ids])

    # --- what is said about them ----------------------------------------------------------------------

    def plain(self, limit: int, conversation_id: int | None = None, but: Iterable[str] = ()) -> list[StoredFile]:
        """Files of prose that no model has described yet, oldest first."""
        values = conversation_range(conversation_id) | {"limit": limit, "but": json.dumps(list(but))}
        ids = [row[0] for row in self._db.rows(_FILE_QUERIES["plain"], values)]
        found = self.many(ids)
        return [found[id_] for id_ in ids]

    def count_plain(self, conversation_id: int | None = None) -> int:
        """How many files of prose no model has described yet."""
        row = self._db.row(_FILE_QUERIES["count_plain"], conversation_range(conversation_id))
        return row[0] if row else 0

    def set_summary(self, file: StoredFile, summary: str) -> bool:
        """Say something better about a file; False when its summary is another one by now. Needs a transaction."""
        values = {"id": file.id, "known": file.exploration_summary, "summary": summary}
        self._db.run(_FILE_QUERIES["set_summary"], values)
        return self._db.changes() > 0

    # --- who refers to them ---------------------------------------------------------------------------

    def referenced_ids(self) -> frozenset[str]:
        """Every file id that a message, a part, a summary, a pin or a brief names; reads all of them."""
        found: set[str] = set()
        for (said,) in self._db.stream(_FILE_QUERIES["mentions"]):
            found.update(file_ids_in(said if isinstance(said, str) else ""))
        for (body,) in self._db.stream(_FILE_QUERIES["version_bodies"]):
            with suppress(ValueError):
                found.update(file_ids_in(decompress_residual(body)))
        return frozenset(found)

    def orphans(self) -> list[StoredFile]:
        """Files with a row that nothing refers to."""
        referenced = self.referenced_ids()
        return [file for file in self.listed() if file.id not in referenced]

    # --- what messages remember -----------------------------------------------------------------------

    def note(self, message_id: int, role: Role, notes: Mapping[int, Mapping[str, Json]]) -> None:
        """Add to the metadata of a message's parts, by ordinal; a message without part rows gets one for it."""
        rows: dict[int, str | None] = dict(self._db.rows(_FILE_QUERIES["part_metadata"], {"message_id": message_id}))
        if not rows:
            together: dict[str, Any] = {"originalRole": "toolResult" if role == "tool" else role, _IN_CONTENT: True}
            for more in notes.values():
                together |= more
            row = {"part_id": f"{message_id}.0", "message_id": message_id, "metadata": storable_json(together)}
            self._db.run(_FILE_QUERIES["add_part"], row)
            RowDigests(self._db).note_message(message_id)
            return
        for ordinal, more in notes.items():
            at = ordinal if ordinal in rows else min(rows)
            metadata = json.loads(rows[at] or "{}") | dict(more)
            rows[at] = storable_json(metadata)
            place = {"message_id": message_id, "ordinal": at, "metadata": rows[at]}
            self._db.run(_FILE_QUERIES["set_part_metadata"], place)

    def recipes(self, message_ids: Sequence[int]) -> dict[int, Json]:
        """How the originals of intercepted messages are made again, by message id."""
        found: dict[int, Json] = {}
        for message_id, metadata in self._db.rows(_FILE_QUERIES["notes"], {"ids": json.dumps(list(message_ids))}):
            try:
                recipe = json.loads(metadata).get("restore")
            except ValueError:  # damaged, as its digest tells
                continue
            if recipe is not None:
                found.setdefault(message_id, recipe)
        return found

    def text_of(self, file: StoredFile) -> str | None:
        """The text of the message whose payload a file holds, when there is such a message."""
        row = self._db.row(_FILE_QUERIES["text_of"], {"id": file.id, "conversation_id": file.conversation_id})
        return None if row is None else column_text(row[0])

    def call(self, conversation_id: int, call_id: str, before_seq: int | None = None) -> CallRow | None:
        """The newest call with this id among the messages shortly before a place, or before the end."""
        if before_seq is None:
            row = self._db.row(_FILE_QUERIES["newest_seq"], {"conversation_id": conversation_id})
            before_seq = (row[0] if row else 0) + 1
        place = {"conversation_id": conversation_id, "call_id": call_id, "seq": before_seq}
        found = self._db.row(_FILE_QUERIES["tool_of_call"], place | {"from_seq": before_seq - _CALL_DISTANCE})
        return None if found is None else CallRow(found[0], _input_text(found[1]))

    # --- stubs ----------------------------------------------------------------------------------------

    def large_outputs(self, least_bytes: int, conversation_id: int | None = None) -> list[LargeOutput]:
        """Answers of tools of at least so many bytes that lie in no file yet, oldest first."""
        values = {"least": least_bytes, "conversation_id": conversation_id}
        return [LargeOutput(*row) for row in self._db.rows(_FILE_QUERIES["large_tool_outputs"], values)]

    def set_stub(self, message_id: int, file_id: str) -> None:
        """Say that a message's text also lies in a file; its text stays."""
        self._db.run(_FILE_QUERIES["set_stub"], {"message_id": message_id, "file_id": file_id})

    def stubs(self, conversation_id: int | None = None) -> dict[int, str]:
        """The messages whose text also lies in a file, with the file's id."""
        return dict(self._db.rows(_FILE_QUERIES["stubs"], {"conversation_id": conversation_id}))

    def clear_stubs(self, message_ids: Iterable[int]) -> None:
        """Take these marks away again."""
        self._db.run_many(_FILE_QUERIES["clear_stub"], [{"message_id": id_} for id_ in message_ids])


def _input_text(tool_input: str | None) -> str | None:
    """An input as the model wrote it: JSON text that was stored as a string is that text."""
    try:
        value = json.loads(tool_input or "null")
    except ValueError:
        return tool_input
    return value if isinstance(value, str) else tool_input


def _values(file: StoredFile) -> dict[str, object]:
    return {
        "id": file.id, "conversation_id": file.conversation_id, "name": file.name, "mime": file.mime,
        "size": file.byte_size, "lines": file.line_count, "place": file.storage_uri,
        "summary": file.exploration_summary, "created_at": row_time(file.created_at),
    }  # fmt: skip


def _file(row: Row) -> StoredFile:
    id_, conversation_id, name, mime, size, lines, place, summary, at = row
    name, mime, summary = (None if raw is None else column_text(raw) for raw in (name, mime, summary))
    return StoredFile(id_, conversation_id, name, mime, size, lines, column_text(place), summary, from_epoch(at / 1000))
