"""A new database as lossless-claw 0.15 has it: base tables, its search tables, its record of migrations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lossless.errors import ArchiveCorrupt
from lossless.model.index_text import index_text_of
from lossless.store import migrate
from lossless.store.bundle_writer import lift_numbers
from lossless.store.bundles import (
    BESIDE,
    BRIEF_SOURCE,
    CONTEXT,
    CONVERSATION,
    EXTRAS,
    FORMER_SUMMARY,
    MESSAGE,
    OURS,
    PART,
    PRUNED,
    STALE_SUMMARY,
    SUMMARY,
    VERSION,
    own_columns,
    stale_rows,
)
from lossless.store.sql import load, schema
from lossless.store.sqlite import SqliteDatabase

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from lossless.store.bundles import Bundle, Values

_QUERIES = load("claw")
_INDEX, _MIGRATE, _SUMMARIES = load("index"), load("migrate"), load("summaries")
#: Those of our own statements that make tables of what conversations are; indexes of words are made when it is opened.
_TABLES = ("message_extras", "message_versions", "stale_summaries", "former_summaries", PRUNED, *OURS)
_KEPT = re.compile(rf"(?:EXISTS|ON) (?:{'|'.join(_TABLES)})\b")


class ClawFile:
    """A lossless-claw database that is being written; with `ours`, our tables keep what its own have no room for."""

    def __init__(self, path: Path, *, ours: bool = True) -> None:
        self._db, self._ours = SqliteDatabase(str(path)), ours

    def __enter__(self) -> ClawFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def writing(self) -> AbstractContextManager[None]:
        """All of it, or nothing."""
        return self._db.transaction()

    def create(self) -> None:
        """The empty database."""
        for script in (schema("base"), schema("indexes")):
            for statement in migrate.split_script(script):
                self._db.run(statement)
        for name, sql in _QUERIES.items():
            if name.startswith("create."):
                self._db.run(sql)
        for statement in migrate.split_script(schema("additions")) if self._ours else ():
            if _KEPT.search(statement):
                self._db.run(statement)
        for step, version in migrate.KNOWN_STEPS.items():
            self._db.run(_MIGRATE["record_step"], {"step": step, "version": version})

    def put(self, bundle: Bundle, files: Sequence[Values]) -> int:
        """A conversation under its own ids, with the rows of its files; returns how many parts it has."""
        conversation_id = bundle.conversation["conversation_id"]
        mine = {"conversation_id": conversation_id}
        self._insert("conversations", CONVERSATION, [bundle.conversation])
        parts = 0
        for page in bundle.pages():
            self._insert("messages", ("conversation_id", *MESSAGE), [message | mine for message in page])
            rows = [{"session_id": bundle.session} | part | {"message_id": message["message_id"]}
                    for message in page for part in message["parts"]]  # fmt: skip
            self._insert("message_parts", PART, rows)
            texts = [(message["message_id"], _indexed(message["content"])) for message in page]
            self._db.run_many(_INDEX["upstream_message"], [row for row in texts if row[1].strip()])
            parts += len(rows)
            if self._ours:
                extras = [message for message in page if message["fingerprint"] is not None]
                self._insert("message_extras", ("message_id", *EXTRAS), extras)
                versions = [one | {"message_id": row["message_id"]} for row in page for one in row.get("versions", ())]
                self._insert("message_versions", ("message_id", *VERSION), versions)
        self._put_summaries(bundle, mine)
        items = [item | mine for item in bundle.context]
        self._insert("context_items", ("conversation_id", *CONTEXT), items)
        for table, (columns, _) in BESIDE.items():
            rows = list(files) if table == "large_files" else bundle.tables.get(table, [])
            if table not in OURS:
                self._insert(table, ("conversation_id", *columns), [row | mine for row in rows])
            elif self._ours and rows:
                own = ("conversation_id", *own_columns(self._db, table))
                self._insert(table, own, [row | mine for row in rows])
        self._insert("focus_brief_sources", BRIEF_SOURCE, bundle.tables.get("focus_brief_sources", []))
        if self._ours:
            self._insert("stale_summaries", STALE_SUMMARY, stale_rows(bundle.summaries))
            self._insert("former_summaries", FORMER_SUMMARY, bundle.tables.get("former_summaries", []))
        return parts

    def put_pruned(self, rows: Sequence[Values]) -> None:
        """What is left of deleted conversations, under the numbers that these had."""
        if self._ours and rows:
            self._insert(PRUNED, own_columns(self._db, PRUNED), rows)
            lift_numbers(self._db)

    def _put_summaries(self, bundle: Bundle, mine: Values) -> None:
        self._insert("summaries", ("conversation_id", *SUMMARY), [one | mine for one in bundle.summaries])
        for query, name in (("link_message", "messages"), ("link_source", "sources")):
            links = [(one["summary_id"], id_, n) for one in bundle.summaries for n, id_ in enumerate(one[name])]
            self._db.run_many(_SUMMARIES[query], links)
        for one in bundle.summaries:
            row = {"summary_id": one["summary_id"], "content": one["content"]}
            self._db.run(_INDEX["upstream_summary"], row)
            self._db.run(_INDEX["upstream_summary_cjk"], row)

    def counts(self) -> tuple[int, ...]:
        """Conversations, messages, parts, summaries, context items, counted again; raises when the file is damaged."""
        found = self._db.rows(_QUERIES["integrity"])
        if found != [("ok",)]:
            raise ArchiveCorrupt(f"the new database is not sound: {found[0][0]}")
        row = self._db.row(_QUERIES["counts"])
        assert row is not None
        return tuple(row)

    def _insert(self, table: str, columns: Sequence[str], values: Sequence[Values]) -> None:
        if values:
            sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
            self._db.run_many(sql, [tuple([one.get(name) for name in columns]) for one in values])


def _indexed(content: str) -> str:
    """The text of a message that lossless-claw indexes: a reference to a file without its empty lines."""
    text = index_text_of(content)
    if text == content:
        return text
    head, _, rest = text.partition("\n")
    return f"{head}\n{rest.lstrip()}".rstrip()
