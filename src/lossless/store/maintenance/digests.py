"""Digests of rows, which show a change that no program of ours made."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from lossless.store.database import load_queries

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from lossless.store.database import Database, Row

_QUERIES = load_queries("row_digests")
_PAGE = 500
#: Bytes of each half of `message_extras.digest`: that of the indexed text, then that of all that is rebuilt.
DIGEST_BYTES = 8
#: The state that says that all rows of our own tables have digests.
COMPLETE_KEY = "row_digests"
#: Where the digests of the bytes of payloads are kept.
PAYLOADS_KEY = "payloads"
_MESSAGES = "messages"


@dataclass(frozen=True, slots=True)
class DigestedTable:
    """A table whose rows have digests; rows of one key have one together."""

    table: str
    key: tuple[str, ...]
    #: Whether no other program writes it: a row without a digest was not written by us.
    is_ours: bool
    #: Columns that a program may change at any time.
    free: tuple[str, ...] = ()
    #: If anything, only these columns.
    only: tuple[str, ...] = ()

    def columns(self, database: Database) -> tuple[str, ...]:
        found = [str(row[0]) for row in database.rows(_QUERIES["columns"], {"table": self.table})]
        return tuple(name for name in found if (name in self.only if self.only else name not in self.free))

    def key_of(self, row: str) -> str:
        return f"json_array({', '.join(f'{row}.{name}' for name in self.key)})"


#: lossless-claw moves rows to another conversation, and supersedes briefs.
_BRIEF_STATE = (
    "conversation_id", "session_key", "status", "updated_at", "superseded_at", "covered_message_seq", "raw_result_json",
)  # fmt: skip
DIGESTED_TABLES = {
    one.table: one
    for one in (
        DigestedTable("conversations", ("conversation_id",), False, only=("conversation_id", "created_at")),
        DigestedTable("summaries", ("summary_id",), False, free=("conversation_id",)),
        DigestedTable("large_files", ("file_id",), False, free=("conversation_id",)),
        DigestedTable("focus_briefs", ("brief_id",), False, free=_BRIEF_STATE),
        DigestedTable("focus_brief_sources", ("brief_id", "summary_id", "role"), False),
        DigestedTable("pins", ("pin_id",), True),
        DigestedTable("hidden_items", ("conversation_id", "item"), True),
        DigestedTable("context_log", ("log_id",), True),
        DigestedTable("former_summaries", ("log_id", "summary_id"), True),
        DigestedTable("transcript_records", ("conversation_id", "record_key"), True),
        DigestedTable("message_versions", ("message_id",), True),
        DigestedTable("stale_summaries", ("summary_id", "message_id"), True),
        DigestedTable("fork_sources", ("conversation_id", "source_id"), True),
        DigestedTable("pruned_histories", ("number",), True),
        DigestedTable("tombstones", ("round",), True),
    )
}
#: Columns whose change makes the digest of a message another.
_OF_MESSAGES = {
    "messages": (
        "role", "content", "token_count", "identity_hash", "openclaw_sender_metadata", "created_at", "large_content",
    ),
    "message_extras": ("fingerprint", "preamble", "format", "skeleton", "budget_tokens"),
}  # fmt: skip
DIGESTED_PART_COLUMNS = (
    "part_id", "session_id", "part_type", "ordinal", "text_content", "tool_call_id", "tool_name", "tool_input",
    "tool_output", "metadata",
)  # fmt: skip
_SOURCE_TABLES = ("summary_messages", "summary_parents")


def _hex(value: object) -> str:
    if isinstance(value, bytes):
        return f"x{value.hex()}"
    raise TypeError(f"{type(value).__name__} is in no column")


_encode = json.JSONEncoder(default=_hex, separators=(",", ":"), check_circular=False).encode


def digest_of(values: object) -> bytes:
    """Eight bytes that change when any of these values does."""
    return blake2b(_encode(values).encode(), digest_size=DIGEST_BYTES).digest()


def message_digest(row: Sequence[object], parts: Sequence[Sequence[object]]) -> bytes:
    """The digest of a message: role, content, tokens, identity, sender, time, file, fingerprint, whether it is a
    preamble, format, skeleton, estimate for budgets; and of each part the columns of `DIGESTED_PART_COLUMNS`, with
    others only where they are filled.
    """
    return digest_of([row, parts])


def digest_triggers() -> Iterator[str]:
    """What a connection of ours needs to note which rows are written."""
    # A row may be noted more than once: in a trigger, what the outer statement says about conflicts wins.
    yield "CREATE TEMP TABLE undigested (note_id INTEGER PRIMARY KEY, name TEXT, row_key TEXT)"
    for one in DIGESTED_TABLES.values():
        changed = f" OF {', '.join(one.only)}" if one.only else ""
        yield _trigger(one.table, "INSERT", one.table, one.key_of("new"))
        yield _trigger(one.table, f"UPDATE{changed}", one.table, one.key_of("old"), one.key_of("new"))
        yield _trigger(one.table, "DELETE", one.table, one.key_of("old"))
    for table in _SOURCE_TABLES:
        for verb, row in (("INSERT", "new"), ("UPDATE", "new"), ("DELETE", "old")):
            yield _trigger(table, verb, "summaries", f"json_array({row}.summary_id)")
    for verb in ("INSERT", "UPDATE OF digest, budget_tokens"):
        yield _trigger("summary_extras", verb, "summaries", "json_array(new.summary_id)")
    for table, columns in _OF_MESSAGES.items():
        yield _trigger(table, f"UPDATE OF {', '.join(columns)}", _MESSAGES, "new.message_id")
    for verb, row in (("UPDATE", "new"), ("DELETE", "old")):
        yield _trigger("message_parts", verb, _MESSAGES, f"{row}.message_id")
    for verb in ("INSERT", "UPDATE OF digest"):
        yield _trigger("message_extras", verb, _MESSAGES, "new.message_id", when=f"length(new.digest) = {DIGEST_BYTES}")


def _trigger(table: str, verb: str, name: str, *keys: str, when: str = "") -> str:
    notes = " ".join(f"INSERT INTO undigested (name, row_key) VALUES ('{name}', {key});" for key in keys)
    label = f"note_{table}_{verb.partition(' ')[0]}_{'when' if when else 'all'}".lower()
    return (
        f"CREATE TEMP TRIGGER {label} AFTER {verb} ON main.{table}{f' WHEN {when}' if when else ''} BEGIN {notes} END"
    )


class RowDigests:
    """Writes and checks the digests of rows."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._columns: dict[str, tuple[str, ...]] = {}

    # --- writing ---

    def settle(self) -> None:
        """Give digests to all rows that were written in this transaction."""
        while found := self._db.rows(_QUERIES["undigested"], {"limit": _PAGE}):
            keys: dict[str, list[str]] = {}
            for name, key in dict.fromkeys(row[1:] for row in found):
                keys.setdefault(name, []).append(key)
            for name, some in keys.items():
                if name == _MESSAGES:
                    self._put_messages([int(key) for key in some])
                else:
                    self._put(DIGESTED_TABLES[name], some)
            self._db.run(_QUERIES["digested"], {"last": found[-1][0]})

    def note_message(self, message_id: int) -> None:
        """Note that a part was added to a message that has a digest."""
        self._db.run(_QUERIES["note"], {"name": _MESSAGES, "key": str(message_id)})

    def forget_note(self, name: str, key: str) -> None:
        """Leave the digest of a row as it is, though the row was written in this transaction."""
        self._db.run(_QUERIES["forget_note"], {"name": name, "key": key})

    def put_payloads(self, digests: Mapping[str, bytes]) -> None:
        """Remember what the bytes of files are, by file id; needs a transaction."""
        self._write(PAYLOADS_KEY, digests.items())

    def fill(self) -> int:
        """Give digests to all rows that have none; returns how many. Needs a transaction."""
        done = 0
        while ids := [
            row[0] for row in self._db.rows(_QUERIES["messages_without"], {"limit": _PAGE, "half": DIGEST_BYTES})
        ]:
            self._put_messages(ids)
            done += len(ids)
        for one in DIGESTED_TABLES.values():
            known = {row[0] for row in self._db.rows(_QUERIES["known"], {"name": one.table})}
            lacking = [key for key, _ in self._digests(one) if key not in known]
            self._put(one, lacking)
            done += len(lacking)
        self._db.run(_QUERIES["set_complete"], {"name": COMPLETE_KEY})
        return done

    def _put_messages(self, ids: Sequence[int]) -> None:
        found = [
            (known[:DIGEST_BYTES] + digest, id_) for id_, known, digest in self._messages(ids) if known is not None
        ]
        self._db.run_many(_QUERIES["set_message"], found)

    def _put(self, one: DigestedTable, keys: Sequence[str]) -> None:
        found = dict(self._digests(one, keys))
        self._write(one.table, list(found.items()))
        gone = [{"name": one.table, "key": key} for key in keys if key not in found]
        self._db.run_many(_QUERIES["drop"], gone)

    def _write(self, name: str, digests: Iterable[tuple[str, bytes]]) -> None:
        self._db.run_many(_QUERIES["put"], [(name, key, digest) for key, digest in digests])

    # --- reading ---

    @property
    def is_complete(self) -> bool:
        """Whether every row of our own tables has a digest, because the archive was new, or they were filled in."""
        row = self._db.row(_QUERIES["complete"], {"name": COMPLETE_KEY})
        return row is not None and row[0] == 1

    def count_lacking(self) -> int:
        """How many messages have a digest of their indexed text only, as older versions wrote it."""
        row = self._db.row(_QUERIES["count_lacking"], {"half": DIGEST_BYTES})
        return row[0] if row else 0

    def changed_messages(self) -> Iterator[int]:
        """Messages of which something is not as it was written."""
        after = 0
        while ids := [
            row[0] for row in self._db.rows(_QUERIES["page"], {"after": after, "limit": _PAGE, "half": DIGEST_BYTES})
        ]:
            for id_, known, digest in self._messages(ids):
                if known is not None and known[DIGEST_BYTES:] != digest:
                    yield id_
            after = ids[-1]

    def changed_rows(self, tables: Collection[str] = DIGESTED_TABLES) -> Iterator[tuple[str, str, str]]:
        """Rows of other tables that are not as they were written: table, key, what is wrong."""
        is_complete = self.is_complete
        for one in (DIGESTED_TABLES[name] for name in tables):
            known: dict[str, bytes] = dict(self._db.rows(_QUERIES["all_known"], {"name": one.table}))
            for key, digest in self._digests(one):
                written = known.pop(key, None)
                if written is None and one.is_ours and is_complete:
                    yield one.table, key, "no program of ours has written it"
                elif written is not None and written != digest:
                    yield one.table, key, "it is not as it was written"
            if one.table != "summaries":  # lossless-claw's tools dissolve summaries, and reachability tells of the rest
                yield from ((one.table, key, "it is gone") for key in known)

    def payloads(self) -> tuple[dict[str, bytes], frozenset[str]]:
        """The digests of the bytes of files, by file id, and the keys of the rows that we have written."""
        ours = frozenset(row[0] for row in self._db.rows(_QUERIES["known"], {"name": "large_files"}))
        return dict(self._db.rows(_QUERIES["all_known"], {"name": PAYLOADS_KEY})), ours

    def _messages(self, ids: Sequence[int]) -> Iterator[tuple[int, bytes | None, bytes]]:
        """Messages with the digest that they have and the one that they should have."""
        wanted = {"ids": json.dumps(list(ids))}
        parts: dict[int, list[list[object]]] = {}
        for row in self._db.rows(_QUERIES["parts"], wanted):
            parts.setdefault(row[0], []).append(_part(row[1:]))
        for row in self._db.rows(_QUERIES["messages"], wanted):
            yield row[0], row[1], message_digest(row[2:], parts.get(row[0], ()))

    def _digests(self, one: DigestedTable, keys: Sequence[str] | None = None) -> Iterator[tuple[str, bytes]]:
        """Rows of a table, all of them or some: their keys and the digests that they should have."""
        if one.table not in self._columns:
            self._columns[one.table] = one.columns(self._db)
        names = self._columns[one.table]
        columns = ", ".join(f't."{name}"' for name in names)
        sql = f"SELECT {_safe_key(one)}, {columns} FROM {one.table} t"
        order = f"ORDER BY {', '.join(f't.{name}' for name in (*one.key, names[0]))}"
        if keys is None:
            found = self._db.rows(f"{sql} {order}")
        else:
            where = f"{sql} WHERE {_where(one)} {order}"
            found = [row for key in keys for row in self._db.rows(where, json.loads(key))]
        sources = self._sources([row[0] for row in found]) if one.table == "summaries" else {}
        for key, rows in groupby(found, key=itemgetter(0)):
            values = [{n: value for n, value in zip(names, row[1:], strict=True) if value is not None} for row in rows]
            yield key, digest_of([*values, *sources.get(key, ())])

    def _sources(self, keys: Sequence[str]) -> Mapping[str, list[Row]]:
        """What summaries were made of, in order, and their estimates for budgets."""
        found: dict[str, list[Row]] = {}
        wanted = {"keys": json.dumps(list(keys))}
        for key, *source in self._db.rows(_QUERIES["sources"], wanted):
            found.setdefault(key, []).append(tuple(source))
        return found


def payload_digest(data: bytes) -> bytes:
    """Eight bytes for the bytes of a file."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def _safe_key(one: DigestedTable) -> str:
    """The key of a row as the triggers write it; of bytes, which JSON has none of, as hex."""
    parts = ", ".join(f"iif(typeof(t.{name}) = 'blob', hex(t.{name}), t.{name})" for name in one.key)
    return f"json_array({parts})"


def _where(one: DigestedTable) -> str:
    return " AND ".join(f"t.{name} IS ?" for name in one.key)


def _part(row: Sequence[Any]) -> list[object]:
    """A part for a digest: what we write, and what else is filled."""
    written, more = (
        list(row[: len(DIGESTED_PART_COLUMNS)]),
        [value for value in row[len(DIGESTED_PART_COLUMNS) :] if value is not None],
    )
    return [*written, more] if more else written
