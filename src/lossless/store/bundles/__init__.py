"""Whole conversations as rows: read from an archive or any lossless-claw file, with foreign values fitted to their
columns, and written into an archive under free ids, indexed, in the caller's transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from lossless.model.budget import message_budget_tokens
from lossless.model.identity import fingerprint, identity_hash, part_id
from lossless.store.database import Database, Sql, TableAccess, column_text, group_dicts, group_rows, load_queries
from lossless.store.messages import index_digest, indexed_text
from lossless.store.migrate import affinity, base_columns, base_tables, own_tables, table_columns
from lossless.store.rows import DIGESTED_PART_COLUMNS, PartRow, digested_part, message_digest, unpack_message
from lossless.store.versions import MessageCopy, StoredWording

if TYPE_CHECKING:
    from lossless.model.messages import Message
    from lossless.store.archive import Archive

#: Larger counts are nonsense, and their sums would overflow.
_MOST = 1 << 40
_LARGEST = 1 << 62
#: Numbers that another program keeps under names of its own.
_FOREIGN_NUMBERS = ("tokens", "turn", "start", "end", "escalation")


def _number(value: Any) -> int:
    if type(value) is int and -_MOST < value < _MOST:  # nearly always
        return value
    if isinstance(value, int | float) and abs(value) < _MOST:
        return int(value)
    return _MOST if isinstance(value, int) and value > 0 else 0


def _count(value: Any) -> int:
    return max(_number(value), 0)


def is_version(value: object) -> bool:
    """Whether a value is valid in a row of versions."""
    if not isinstance(value, dict):
        return False
    numbers = [value.get(name) for name in ("version_id", "lesser", "tokens", "at")]
    numbers += [number for name in ("length", "base_id") if (number := value.get(name)) is not None]
    return (
        all(isinstance(number, int) and abs(number) < _LARGEST for number in numbers)
        and isinstance(value.get("digest"), bytes)
        and isinstance(value.get("body"), bytes | None)
    )


def is_stale_mark(value: object) -> bool:
    """Whether a value names a changed message of a summary, and when it changed."""
    return isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[0], int | str)


def _id(value: Any) -> Any:
    kind = type(value)
    return value if kind is str or (kind is int and abs(value) < _LARGEST) else column_text(value)


def _list(fit: Callable[[Any], Any], accepts: Callable[[object], bool] = lambda _: True) -> Callable[[Any], Any]:
    return lambda value: (
        [None if one is None else fit(one) for one in value if accepts(one)] if isinstance(value, list) else []
    )


@cache
def _fits() -> dict[str, Callable[[Any], Any]]:
    """How a value is fitted to a column that is not of text, in lossless-claw's tables and our own of a message."""
    tables = (*base_tables().values(), own_tables()["message_extras"])
    kinds = {column.name: affinity(column.type) for columns in tables for column in columns.values()}
    by_kind: dict[str, Callable[[Any], Any]] = {
        "INTEGER": _number,
        "BLOB": lambda value: value if type(value) is bytes else None,
        "REAL": lambda value: float(value) if type(value) in (int, float) and abs(value) < _MOST else None,
    }
    fits = {name: by_kind[kind] for name, kind in kinds.items() if kind in by_kind}
    fits |= dict.fromkeys(_FOREIGN_NUMBERS, _number)
    for name in fits:
        if fits[name] is _number and name.endswith(("count", "tokens", "_size")):
            fits[name] = _count
    fits |= dict.fromkeys(("message_id", "conversation_id"), _id)
    fits |= dict.fromkeys(("messages", "sources", "part_ids", "part_sessions"), _list(_id))
    fits["parts"] = _list(lambda part: part)
    return fits | {
        "versions": _list(lambda version: version, is_version),
        "stale": _list(lambda mark: mark, is_stale_mark),
    }


def fit_value(name: str, value: Any) -> Any:
    """A value that is valid in a column of this name."""
    return None if value is None else _fits().get(name, column_text)(value)


def fit_row(values: dict[str, Any]) -> dict[str, Any]:
    """A row of values that are valid in their columns."""
    fits = _fits()
    return {
        name: value
        if value is None or (type(value) is str and name not in fits)
        else fits.get(name, column_text)(value)
        for name, value in values.items()
    }


def fit_scalars(values: dict[str, Any]) -> dict[str, Any]:
    """A row of one of our own tables, with values that a database can store."""
    return {
        name: value
        if isinstance(value, str | bytes | float | None) or (isinstance(value, int) and -(1 << 63) <= value < 1 << 63)
        else column_text(value)
        for name, value in values.items()
    }


RowValues: TypeAlias = dict[str, Any]
#: A message's id in its file; text in early files of other programs.
MessageId: TypeAlias = int | str
_PAGE = 1000
MESSAGE_COLUMNS = (
    "message_id", "seq", "role", "content", "token_count", "identity_hash", "openclaw_sender_metadata",
    "transcript_entry_id", "created_at", "large_content", "stable_event_key",
)  # fmt: skip
KEY_COLUMNS = (
    "message_id", "seq", "identity_hash", "created_at", "transcript_entry_id", "stable_event_key", "token_count",
    "role", "content",
)  # fmt: skip
_OWNER = "conversation_id"
EXTRA_COLUMNS = ("fingerprint", "claimed", "preamble", "format", "skeleton")
CONVERSATION_COLUMNS = base_columns("conversations")
SUMMARY_COLUMNS = base_columns("summaries", but=_OWNER)
CONTEXT_COLUMNS = base_columns("context_items", but=_OWNER)
#: Other tables of a conversation, and the order of their rows.
SIDE_TABLES = {
    "large_files": "file_id", "focus_briefs": "brief_id", "pins": "pin_id", "hidden_items": "item",
    "context_log": "log_id", "turn_keys": "turn_key", "last_windows": "conversation_id",
    "ingest_state": "conversation_id", "transcript_state": "conversation_id", "transcript_epochs": "epoch_id",
    "transcript_records": "after_seq, record_key", "fork_sources": "source_id",
    "conversation_extras": "conversation_id", "conversation_bootstrap_state": "conversation_id",
    "conversation_compaction_telemetry": "conversation_id", "conversation_compaction_maintenance": "conversation_id",
}  # fmt: skip
#: Tables of rows that belong to rows of the others: these, the column with their key, and the order.
_LINKED_TABLES = {
    "focus_brief_sources": ("focus_briefs", "brief_id", "brief_id, ordinal, summary_id"),
    "former_summaries": ("context_log", "log_id", "log_id, summary_id"),
}
_BY_OWNER = f"{_OWNER} = :{_OWNER}"
#: Our own tables: lossless-claw has none of them, and later versions of ours may add columns.
OWN_TABLES = tuple(table for table in SIDE_TABLES if table in own_tables())
#: Remains of permanently deleted conversations; not part of any conversation.
PRUNED_TABLE = "pruned_histories"


class MessageKey(NamedTuple):
    """What identifies a message in a conversation."""

    id: MessageId
    seq: int
    identity: str
    created_at: str
    entry_id: str | None
    event_key: str | None
    tokens: int
    role: str = ""


def message_key(row: RowValues) -> MessageKey:
    """What identifies the message with these values of `KEY_COLUMNS`."""
    id_, seq, identity, at, entry_id, event_key, tokens, role, content = map(row.__getitem__, KEY_COLUMNS)
    identity = identity or identity_hash(role or "", content or "")
    return MessageKey(id_, seq or 0, identity, at or "", entry_id, event_key, tokens or 0, role or "")


@dataclass(frozen=True, slots=True)
class Bundle:
    """One conversation with everything that belongs to it, under the ids of its file.

    `pages` yields its messages in batches, each with its `parts`; a summary has its `messages` and `sources`, and, when
    its messages changed since it was written, these as `stale`.
    """

    conversation: RowValues
    keys: list[MessageKey]
    pages: Callable[[], Iterable[list[RowValues]]]
    summaries: list[RowValues] = field(default_factory=list)
    context: list[RowValues] = field(default_factory=list)
    tables: dict[str, list[RowValues]] = field(default_factory=dict)

    @property
    def session(self) -> str:
        """The run's id, or the conversation's number without one."""
        return str(self.conversation["session_id"] or "").strip() or str(self.conversation["conversation_id"])


class BundleReader(TableAccess):
    """Reads whole conversations from an open database."""

    queries = load_queries("bundles")
    #: The messages that an archive of ours has in a context before older ones, and whether the reason is logged.
    moved: Sql[[MessageId], dict[int, bool]] = Sql("pairs", "conversation_id")

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        tables = set(self._column("tables"))
        self._part_columns = set(self._column("part_columns")) or set(base_columns("message_parts"))
        #: Whether the file records contexts at all, and whether it has a context log, like our archives.
        self.has_contexts, self.has_log = "context_items" in tables, "context_log" in tables

    def conversations(self) -> list[RowValues]:
        return list(map(fit_row, self._dicts("conversations")))

    def bundle(self, conversation: RowValues) -> Bundle:
        """A whole conversation; its messages are read on demand."""
        place = {"conversation_id": conversation["conversation_id"]}
        tables = {table: self._table(table, order, place) for table, order in SIDE_TABLES.items()}
        for table, (owner, key, order) in _LINKED_TABLES.items():
            where = f"{key} IN (SELECT {key} FROM {owner} WHERE {_BY_OWNER})"
            tables[table] = self._table(table, order, place, where)
        # without gaps: lossless-claw 1.0 cannot compact across one
        context = [item | {"ordinal": n} for n, item in enumerate(self._table("context_items", "ordinal", place))]
        id_ = conversation["conversation_id"]
        return Bundle(conversation, self.keys(id_), lambda: self.messages(id_), self.summaries(id_), context, tables)

    def _table(self, table: str, order: str, place: RowValues, where: str = _BY_OWNER) -> list[RowValues]:
        """The rows of one of the other tables, without the conversation's number."""
        columns = base_columns(table) if table in base_tables() else table_columns(self._db, table)
        shown = ", ".join(name for name in columns if name != _OWNER)
        rows = self._db.dicts(f"SELECT {shown} FROM {table} WHERE {where} ORDER BY {order}", place)
        return rows if table in OWN_TABLES else list(map(fit_row, rows))

    def pruned(self, sessions: Collection[str] = ()) -> list[RowValues]:
        """Remains of deleted conversations; optionally only those with one of these keys or ids."""
        return select_pruned(self._dicts("pruned"), sessions)

    def keys(self, conversation_id: MessageId) -> list[MessageKey]:
        return [message_key(fit_row(row)) for row in self._dicts("keys", conversation_id=conversation_id)]

    def messages(self, conversation_id: MessageId) -> Iterator[list[RowValues]]:
        """The messages of a conversation in order, in batches, with their parts."""
        rows = self._stream("messages", conversation_id=conversation_id)
        names = (*MESSAGE_COLUMNS, *EXTRA_COLUMNS)
        while page := [fit_row(dict(zip(names, row, strict=True))) for row in islice(rows, _PAGE)]:
            ids = [message["message_id"] for message in page]
            parts, versions = self._parts(ids), group_dicts(self._dicts("versions", ids=ids), "message_id")
            for message in page:
                message["content"] = message["content"] or ""
                message["parts"] = parts.get(message["message_id"], [])
                if message["message_id"] in versions:
                    message["versions"] = versions[message["message_id"]]
            yield page

    def _parts(self, ids: list[MessageId]) -> dict[MessageId, list[RowValues]]:
        found: defaultdict[MessageId, list[RowValues]] = defaultdict(list)
        names = (*base_columns("message_parts"), "kind", "payload", "file_path", "created_at")
        columns = [name for name in names if name in self._part_columns]
        sql = (
            f"SELECT {', '.join(columns)} FROM message_parts WHERE message_id IN (SELECT value FROM json_each(:ids))"
            f" ORDER BY message_id, {'ordinal' if 'ordinal' in columns else 'rowid'}"
        )
        for row in self._db.rows(sql, {"ids": ids}):
            part = fit_row({name: value for name, value in zip(columns, row, strict=True) if value is not None})
            siblings = found[part.pop("message_id")]
            part.setdefault("ordinal", len(siblings))
            siblings.append(part)
        return found

    def summaries(self, conversation_id: MessageId) -> list[RowValues]:
        """The summaries of a conversation, shallowest first, each with the ids of its messages and sources."""
        return self._linked(self._dicts("summaries", conversation_id=conversation_id))

    def all_summaries(self) -> list[RowValues]:
        """The summaries of all conversations, and those without one."""
        return self._linked(self._dicts("all_summaries"))

    def _linked(self, rows: Iterable[RowValues]) -> list[RowValues]:
        found = list(map(fit_row, rows))
        ids = {"ids": [summary["summary_id"] for summary in found]}
        links = (self._rows(query, ids) for query in ("message_links", "source_links"))
        messages, sources = (group_rows(rows, lambda linked: fit_value("message_id", linked)) for rows in links)
        stale = group_rows(self._rows("stale", ids), lambda message_id, at: [message_id, at])
        for summary in found:
            if marks := stale.get(summary["summary_id"]):
                summary["stale"] = marks
            summary["content"] = summary["content"] or ""
            summary["token_count"] = summary["token_count"] or 0
            summary["messages"] = messages[summary["summary_id"]]
            summary["sources"] = sources[summary["summary_id"]]
        return found


def insert_rows(database: Database, table: str, rows: Sequence[RowValues]) -> None:
    """Insert rows by the names of their columns: other values are ignored, and missing ones get their defaults."""
    if not rows:
        return
    given = set[str]().union(*rows)
    used = [name for name in table_columns(database, table) if name in given]
    sql = f"INSERT INTO {table} ({', '.join(used)}) VALUES ({', '.join('?' * len(used))})"
    database.run_many(sql, [tuple(map(one.get, used)) for one in rows])


def select_pruned(rows: Iterable[RowValues], sessions: Collection[str]) -> list[RowValues]:
    """Deleted messages of sessions, by their keys or ids; of all without sessions."""
    return [row for row in rows if not sessions or {row.get("session_key"), row.get("header_id")} & set(sessions)]


def stale_rows(summaries: Iterable[RowValues]) -> list[RowValues]:
    """The rows that record changes to summarised messages since the summaries were written."""
    marks = [(one["summary_id"], *mark) for one in summaries for mark in one.get("stale", ())]
    return [{"summary_id": id_, "message_id": message_id, "at": at} for id_, message_id, at in marks]


def insert_summaries(database: Database, conversation_id: object, summaries: Sequence[RowValues]) -> None:
    """Insert summaries and the links to their messages and sources."""
    insert_rows(database, "summaries", [one | {"conversation_id": conversation_id} for one in summaries])
    for query, name in (("link_message", "messages"), ("link_source", "sources")):
        links = [(one["summary_id"], id_, n) for one in summaries for n, id_ in enumerate(one[name])]
        database.run_many(load_queries("summaries")[query], links)


_QUERIES = load_queries("bundles")
_MESSAGES = load_queries("messages")
#: The columns of a new message in the order of its query.
_ROW = itemgetter(
    "message_id", "conversation_id", "seq", "role", "content", "token_count", "identity_hash",
    "openclaw_sender_metadata", "transcript_entry_id", "created_at", "stable_event_key", "large_content",
)  # fmt: skip
_DIGESTED = itemgetter(
    "role", "content", "token_count", "identity_hash", "openclaw_sender_metadata", "created_at", "large_content"
)
_PART = (
    *DIGESTED_PART_COLUMNS,
    *(name for name in base_columns("message_parts") if name not in (*DIGESTED_PART_COLUMNS, "message_id")),
)
#: Larger numbers would leave none for new conversations.
_LAST = 1 << 40


class BundleWriter(BundleReader):
    """Finds what an archive already has, and writes the rest. Ids in the values are the archive's own."""

    hidden: Sql[[int], dict[int | str, str]] = Sql("pairs", "conversation_id")
    turn_keys: Sql[[int], frozenset[str]] = Sql("set", "conversation_id")
    #: Conversations that a key and a run id may refer to.
    candidates: Sql[[str | None, str], list[RowValues]] = Sql("dicts", "session_key session_id")
    has_active: Sql[[str | None], bool] = Sql("any", "session_key", "is_active")
    #: What is pinned: a message, or a text.
    pinned: Sql[[int], list[tuple[int | None, str | None]]] = Sql("rows", "conversation_id")
    next_places: Sql[[int], tuple[int, int]] = Sql("row", "conversation_id", "next_message")
    #: Remove messages from log entries whose message numbers are wrong here; the entries keep the reason.
    forget_messages: Sql[[int, str], None] = Sql("run", "conversation_id reason")

    def __init__(self, archive: Archive) -> None:
        super().__init__(archive.database)
        self._archive = archive

    def is_free(self, conversation_id: object, message_ids: Sequence[object]) -> bool:
        """Whether a conversation can have these numbers here."""
        if not all(isinstance(id_, int) for id_ in (conversation_id, *message_ids)):
            return False
        return not self._any("taken_numbers", conversation_id=conversation_id, ids=message_ids)

    def taken(self, what: str, ids: Iterable[str]) -> dict[str, int]:
        """Which `summaries`, `files` or `briefs` exist, and in which conversation."""
        return dict(self._rows(f"taken_{what}", ids=ids))

    def numbers(self, table: str, given: Sequence[Any]) -> list[int]:
        """Numbers for new rows of `pins` or `context_log`: their own when all are free, else the next ones."""
        is_usable = all(type(number) is int and number > 0 for number in given) and len(set(given)) == len(given)
        if is_usable and not self._count(f"taken_{table}", ids=given):
            return list(given)
        first = self._count("next_number", table=table)
        return list(range(first, first + len(given)))

    def put_conversation(self, values: RowValues) -> int:
        """Add a conversation; without a number it gets the next one."""
        insert_rows(self._db, "conversations", [values])
        return self._db.last_id()

    def put_messages(self, session_id: str, messages: Sequence[RowValues]) -> None:
        """Add messages of a conversation with their parts, indexed, but not in a context."""
        read = [
            unpack_message(
                message["role"], message["content"], message["token_count"], part_rows(message), None,
                message["format"], message["stable_event_key"],
            )
            for message in messages
        ]  # fmt: skip
        texts = [indexed_text(decoded.content, decoded) for decoded in read]
        parts = self._name_parts(session_id, messages)
        self._db.run_many(_MESSAGES["insert"], list(map(_ROW, messages)))
        extras = [
            _extras(message, decoded, text, some)
            for message, decoded, text, some in zip(messages, read, texts, parts, strict=True)
        ]
        self._db.run_many(_MESSAGES["insert_extras"], extras)
        insert_rows(self._db, "message_parts", list(chain(*parts)))
        for message in messages:
            if versions := message.get("versions"):
                self._archive.versions.put(message["message_id"], versions)
        self._archive.index.add_texts(zip([message["message_id"] for message in messages], texts, strict=True))
        self._archive.index.add_upstream((message["message_id"], message["content"]) for message in messages)

    def _name_parts(self, session_id: str, messages: Sequence[RowValues]) -> list[list[RowValues]]:
        """The parts of each message under ids that are free here."""
        given = [part.get("part_id") for message in messages for part in message["parts"]]
        ours = {id_ for id_ in given if not isinstance(id_, str) or id_.replace(".", "", 1).isdigit()}
        taken = set(self._column("taken_parts", ids=[id_ for id_ in given if id_ not in ours]))

        def named(message_id: int, part: RowValues) -> RowValues:
            id_ = part.get("part_id")
            if id_ in ours:
                id_ = f"{message_id}.{part['ordinal']}"
            elif id_ in taken:
                id_ = part_id(f"{message_id}\0{id_}", part["ordinal"])
            return {"session_id": session_id} | part | {"message_id": message_id, "part_id": id_}

        return [[named(message["message_id"], part) for part in message["parts"]] for message in messages]

    def put_summaries(self, conversation_id: int, summaries: Sequence[RowValues]) -> None:
        """Add summaries with links to their messages and sources, sources first, indexed."""
        insert_summaries(self._db, conversation_id, summaries)
        insert_rows(self._db, "stale_summaries", stale_rows(summaries))
        for one in summaries:
            self._archive.index.write_summary(one["summary_id"], one["content"])

    def set_context(self, conversation_id: int, items: Sequence[RowValues]) -> None:
        self._run("clear_context", conversation_id=conversation_id)
        self.put_beside("context_items", conversation_id, items)

    def put_beside(self, table: str, conversation_id: int, values: Sequence[RowValues]) -> None:
        """Add rows to one of the other tables."""
        rows = values if table in _LINKED_TABLES else [one | {"conversation_id": conversation_id} for one in values]
        insert_rows(self._db, table, rows)

    def lacks_pruned(self, row: RowValues) -> bool:
        return not self._any("pruned_there", row)

    def put_pruned(self, rows: Sequence[RowValues]) -> None:
        """Add the remains of deleted conversations, under their numbers where these are free."""
        homeless = []
        for row in rows:
            if abs(row["number"]) < _LAST and self.is_free(row["number"], ()):
                insert_rows(self._db, PRUNED_TABLE, [row])
            else:
                homeless.append(row)
        first = self._count("pruned_before") - len(homeless)
        numbered = [row | {"number": first + n} for n, row in enumerate(homeless)]
        insert_rows(self._db, PRUNED_TABLE, numbered)
        if rows:
            reserve_conversation_ids(self._db)

    def rely(self, forks: Sequence[tuple[int, int]]) -> None:
        """Record that forks depend on other conversations for their older history."""
        self._run_many("rely", forks)


def reserve_conversation_ids(database: Database) -> None:
    """Ensure that no new conversation gets the number of a deleted one."""
    if database.row(_QUERIES["numbers_known"]) is None:
        database.run(_QUERIES["begin_numbers"])
    database.run(_QUERIES["lift_numbers"])


def _extras(message: RowValues, decoded: Message, text: str, parts: list[RowValues]) -> tuple[Any, ...]:
    """The additional columns of a new message, its digests included."""
    print_, preamble = message["fingerprint"] or fingerprint(decoded), message["preamble"] or 0
    estimate, form = message_budget_tokens(decoded), message["format"]
    row = (*_DIGESTED(message), print_, preamble, form, message["skeleton"], estimate)
    ordered = sorted(parts, key=lambda part: part["ordinal"]) if len(parts) > 1 else parts
    digest = index_digest(text) + message_digest(row, [digested_part(list(map(part.get, _PART))) for part in ordered])
    claimed = 1 if message["claimed"] is None else message["claimed"]
    return message["message_id"], print_, digest, claimed, preamble, form, message["skeleton"], estimate


def part_rows(message: RowValues) -> tuple[PartRow, ...]:
    """The parts of a message as they are stored."""
    *names, last = PartRow._fields
    return tuple([PartRow._make((*map(part.get, names), part.get(last) or "{}")) for part in message["parts"]])


def message_copy(message: RowValues, *, is_other: bool) -> MessageCopy:
    """An existing message, for comparison with the incoming one."""
    wording = StoredWording(
        message["content"], part_rows(message), message["skeleton"], message["format"],
        message["stable_event_key"], message["token_count"] or 0,
    )  # fmt: skip
    return MessageCopy(wording, message.get("versions", ()), is_other)
