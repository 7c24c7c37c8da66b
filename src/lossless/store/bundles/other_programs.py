"""Databases of other programs: opening read-only, adopting lossless-claw files, writing lossless-claw and Remnic
files.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from lossless.errors import ArchiveCorrupt, ArchiveDenied, ArchiveLocked, BadInput, NotAnArchive
from lossless.model.paths import expand_path, make_private_folder
from lossless.model.search_text import index_text_of
from lossless.store import bundles, migrate
from lossless.store.archive import Archive
from lossless.store.database import (
    Database,
    Sql,
    TableAccess,
    column_text,
    group_dicts,
    group_rows,
    load_queries,
    schema_statements,
)

if TYPE_CHECKING:
    from pathlib import Path


_TABLES = load_queries("migrate")["tables"]
CLAW_TABLES = ("conversations", "messages", "summaries", "summary_messages", "summary_parents")
REMNIC_TABLES = ("lcm_messages", "lcm_summary_nodes")


def open_claw(path: str | Path) -> Archive:
    """Open a lossless-claw database, or one of our archives; an error lists every missing table."""
    archive = Archive.open(_checked(path, CLAW_TABLES, "lossless-claw"), read_only=True)
    archive.database.is_strict = True  # text is imported exactly, or not at all
    return archive


def check_remnic(path: str | Path) -> Path:
    """The path of a Remnic database; an error lists every missing table."""
    return _checked(path, REMNIC_TABLES, "Remnic")


@contextmanager
def explain_bad_text(source: str | Path) -> Iterator[None]:
    """Report that a database contains invalid text."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise ArchiveCorrupt(f"source {str(source)!r} holds text that is not valid UTF-8 ({error.reason})") from error


def _checked(path: str | Path, wanted: tuple[str, ...], program: str) -> Path:
    """The path of a database with the tables of a program."""
    place = expand_path(path)
    if place.is_dir():
        raise BadInput(f"source {str(path)!r} is a folder, not a file")
    if not place.exists():
        raise BadInput(f"there is no source database at {str(path)!r}")
    with _foreign_file(place) as database:
        there = set(database.column(_TABLES))
    if missing := [table for table in wanted if table not in there]:
        raise NotAnArchive(f"Source database is missing {program} tables: {', '.join(missing)}")
    return place


_OPENCODE_QUERIES = load_queries("opencode")


def is_opencode(path: Path) -> bool:
    with _foreign_file(path) as database:
        return {"session", "message", "part"} <= set(database.column(_TABLES))


def opencode_sessions(path: Path) -> list[tuple[str, int, int]]:
    """The sessions in OpenCode's database: each as JSON, how many rows it has, and when the newest changed (ms)."""
    with _foreign_file(path) as database:
        return [(info, rows, changed) for info, rows, changed in database.rows(_OPENCODE_QUERIES["sessions"])]


def opencode_messages(path: Path, session_id: str) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """The messages of a session as id and JSON, each with its parts, oldest first."""
    with _foreign_file(path) as database, database.snapshot():
        queries = (_OPENCODE_QUERIES[name] for name in ("parts", "messages"))
        found = (database.rows(query, {"session_id": session_id}) for query in queries)
        rows, messages = ([tuple(map(column_text, row)) for row in some] for some in found)  # of any type
        parts = group_rows(rows, lambda id_, data: (id_, data))
        return [(id_, data, parts[id_]) for id_, data in messages]


def _foreign_file(path: Path) -> closing[Database]:
    """Another program's database, opened only to read: a program that writes to it does not wait for us."""
    return closing(Database(str(path), read_only=True))


_ADOPT_QUERIES = load_queries("adopt")


@dataclass(frozen=True, slots=True)
class ReclaimableTables:
    """Upstream's search tables in a file, and their size in bytes."""

    tables: tuple[str, ...]
    bytes: int


def find_reclaimable(database: Database) -> ReclaimableTables:
    """What adopting the file would drop; read-only."""
    tables = tuple(database.column(_ADOPT_QUERIES["tables"]))
    return ReclaimableTables(tables, database.count(_ADOPT_QUERIES["bytes"]) if tables else 0)


@contextmanager
def exclusive_access(database: Database) -> Iterator[None]:
    """Hold the file exclusively; `ArchiveLocked` when another connection has it open, busy or idle."""
    database.run(_ADOPT_QUERIES["hold"])
    try:
        try:
            mode = database.row(_ADOPT_QUERIES["leave_wal"])
        except ArchiveLocked as error:
            raise _held(database) from error
        if mode is None or mode[0] != "delete":
            raise _held(database)
        with database.transaction(exclusive=True):
            pass
        yield
    finally:
        database.run(_ADOPT_QUERIES["let_go"])
        database.row(_ADOPT_QUERIES["read_once"])
        database.row(_ADOPT_QUERIES["enter_wal"])


def drop_upstream_search(database: Database) -> None:
    """Drop upstream's search tables and shrink the file; needs `exclusive_access`."""
    with database.transaction(exclusive=True):
        for name, sql in _ADOPT_QUERIES.items():
            if name.startswith("drop_"):
                database.run(sql)
    database.run(_ADOPT_QUERIES["spill_to_disk"])
    database.run(_ADOPT_QUERIES["vacuum"])
    found = database.row(_ADOPT_QUERIES["check"])
    if found is None or found[0] != "ok":
        raise ArchiveCorrupt(f"archive {database.path!r}: {found[0] if found else 'it cannot be checked'}")


def _held(database: Database) -> ArchiveLocked:
    return ArchiveLocked(f"archive {database.path!r}: another process has it open; stop that process first")


_CLAW_QUERIES = load_queries("claw")
_MIGRATE = load_queries("migrate")
#: Our own tables that are part of conversations; search indexes are created when the file is opened.
_CLAW_TABLES = ("message_extras", "message_versions", "stale_summaries", "former_summaries", bundles.PRUNED_TABLE)
_KEPT = re.compile(rf"(?:EXISTS|ON) (?:{'|'.join((*_CLAW_TABLES, *bundles.OWN_TABLES))})\b")


class ClawFile(TableAccess):
    """A lossless-claw database being written; with `ours`, our tables hold what its own cannot."""

    queries = load_queries("index")

    def __init__(self, path: Path, *, ours: bool = True) -> None:
        self._db, self._ours = Database(str(path)), ours

    def create(self) -> None:
        statements = [*schema_statements("base"), *schema_statements("indexes")]
        statements += [sql for name, sql in _CLAW_QUERIES.items() if name.startswith("create.")]
        additions = schema_statements("additions") if self._ours else []
        for statement in [*statements, *filter(_KEPT.search, additions)]:
            self._db.run(statement)
        for step, version in migrate.KNOWN_STEPS.items():
            self._db.run(_MIGRATE["record_step"], {"step": step, "version": version})

    def put(self, bundle: bundles.Bundle, files: Sequence[bundles.RowValues]) -> int:
        """Write a conversation under its own ids, with the rows of its files; returns how many parts it has."""
        mine = {"conversation_id": bundle.conversation["conversation_id"]}
        bundles.insert_rows(self._db, "conversations", [bundle.conversation])
        parts = 0
        for page in bundle.pages():
            bundles.insert_rows(self._db, "messages", [message | mine for message in page])
            rows = [{"session_id": bundle.session} | part | {"message_id": message["message_id"]}
                    for message in page for part in message["parts"]]  # fmt: skip
            bundles.insert_rows(self._db, "message_parts", rows)
            texts = [(message["message_id"], _indexed(message["content"])) for message in page]
            self._run_many("add.messages_fts", [row for row in texts if row[1].strip()])
            parts += len(rows)
            if self._ours:
                extras = [message for message in page if message["fingerprint"] is not None]
                bundles.insert_rows(self._db, "message_extras", extras)
                versions = [one | {"message_id": row["message_id"]} for row in page for one in row.get("versions", ())]
                bundles.insert_rows(self._db, "message_versions", versions)
        bundles.insert_summaries(self._db, mine["conversation_id"], bundle.summaries)
        for table in ("summaries_fts", "summaries_fts_cjk"):
            self._run_many(f"add.{table}", [(one["summary_id"], one["content"]) for one in bundle.summaries])
        tables = {"context_items": bundle.context} | bundle.tables | {"large_files": list(files)}
        tables["stale_summaries"] = bundles.stale_rows(bundle.summaries)
        for table in ("context_items", *bundles.SIDE_TABLES):
            tables[table] = [row | mine for row in tables.get(table, [])]
        for table, some in tables.items():
            if self._ours or table not in (*bundles.OWN_TABLES, "stale_summaries", "former_summaries"):
                bundles.insert_rows(self._db, table, some)
        return parts

    def put_pruned(self, rows: Sequence[bundles.RowValues]) -> None:
        """Write the remains of deleted conversations, under their old numbers."""
        if self._ours and rows:
            bundles.insert_rows(self._db, bundles.PRUNED_TABLE, rows)
            bundles.reserve_conversation_ids(self._db)

    def check(self) -> None:
        """Raises when the file is damaged."""
        found = self._db.rows(_CLAW_QUERIES["integrity"])
        if found != [("ok",)]:
            raise ArchiveCorrupt(f"the new database is damaged: {found[0][0]}")


def _indexed(content: str) -> str:
    """The text of a message that lossless-claw indexes: a file reference without its empty lines."""
    text = index_text_of(content)
    if text == content:
        return text
    head, _, rest = text.partition("\n")
    return f"{head}\n{rest.lstrip()}".rstrip()


_REMNIC_QUERIES = load_queries("remnic")
REMNIC_SCHEMA_VERSION = "2"
_BOUNDARY = "import_boundary:"
_PAGE = 1000


#: A session of a Remnic database: its newest turn (-1 without one), `conversation|seq` → id and turn of the messages
#: that came from lossless-claw, and whether the boundary of an import is marked.
RemnicSession: TypeAlias = tuple[int, dict[str, tuple[int, int]], bool]


class RemnicFile(TableAccess):
    """A Remnic database. When it does not exist and is only read, an empty one in memory is used."""

    queries = load_queries("remnic")
    #: The tables of the file that are Remnic's, or ours next to them.
    tables: Sql[[], frozenset[str]] = Sql("set")
    next_message: Sql[[], int] = Sql("count")
    #: How many messages each session has, in the order of the sessions.
    sessions: Sql[[], dict[str, int]] = Sql("pairs")
    #: How many real compactions of these sessions are recorded; import boundaries do not count.
    events: Sql[[Iterable[str]], int] = Sql("count", "sessions")

    def __init__(self, path: str | Path, *, read_only: bool = False) -> None:
        place = expand_path(path).absolute()
        try:
            if not read_only:
                make_private_folder(place.parent)
        except OSError as error:
            raise ArchiveDenied(f"{str(place.parent)!r} cannot be used: {error.strerror}") from error
        if read_only and not place.exists():
            self._db = Database(":memory:")
            self.create(with_ours=True)
            return
        self._db = Database(str(place), read_only=read_only)
        if read_only:
            self._db.prepare = migrate.temporary_tables(_REMNIC_QUERIES.values(), self.tables())
            self._db.reconnect()

    def create(self, *, with_ours: bool) -> None:
        """Create missing tables, and ours next to Remnic's if requested; else ours are there, but not in the file."""
        for name, sql in _REMNIC_QUERIES.items():
            if name.startswith(("create.", "beside.") if with_ours else "create."):
                self._db.run(sql)
        for sql in migrate.temporary_tables(_REMNIC_QUERIES.values(), self.tables()):
            self._db.run(sql)
        self._run("set_meta", key="schema_version", value=REMNIC_SCHEMA_VERSION)

    def check(self) -> None:
        """Raises when the file is a database of another program."""
        there = set(self._db.column(_TABLES))
        if there and not there & {"lcm_messages", "lcm_meta"}:
            raise NotAnArchive(f"{self._db.path!r} is a database of another program, not Remnic's; nothing was written")

    def session_progress(self, session_id: str) -> RemnicSession:
        """How far a session has been imported."""
        place = {"session_id": session_id, "key": f"{_BOUNDARY}{session_id}"}
        known = {f"{conversation}|{seq}": (id_, turn) for conversation, seq, id_, turn in self._rows("imported", place)}
        return self._rows("extent", place)[0][0], known, self._any("has_boundary", place)

    def nodes_there(self, ids: Iterable[str]) -> dict[str, tuple[str, str | None]]:
        """Summaries by id: their session, and their parent."""
        return {id_: (session, parent) for id_, session, parent in self._rows("nodes_there", ids=ids)}

    def parts_there(self, message_ids: Iterable[int]) -> set[tuple[int, int]]:
        return set(self._rows("parts_there", ids=message_ids))

    def add_messages(self, rows: Sequence[tuple[object, ...]], parts: Sequence[tuple[object, ...]]) -> None:
        """Add messages and parts; the caller updates the index at the end."""
        self._run_many("add_message", rows)
        self._run_many("add_part", parts)

    def marks(self) -> tuple[int, int]:
        """The newest message and summary, for `index_since`."""
        return self._count("newest_message"), self._count("newest_node")

    def index_since(self, marks: tuple[int, int]) -> None:
        self._run("index_messages", after=marks[0])
        self._run("index_nodes", after=marks[1])

    def add_nodes(self, nodes: Iterable[bundles.RowValues], adopted: Iterable[tuple[str, str]]) -> None:
        """Add summaries, parents first; then existing ones without a parent get theirs."""
        self._run_many("add_node", nodes)
        self._run_many("adopt_node", [{"id": id_, "parent_id": above} for id_, above in adopted])

    def add_boundary(self, session_id: str, at: str) -> None:
        """Record that a session was imported up to here."""
        newest, tokens = self._rows("extent", session_id=session_id)[0]
        self._run("add_event", session_id=session_id, fired_at=at, msg_before=newest + 1, tokens=tokens)
        self._run("set_meta", key=f"{_BOUNDARY}{session_id}", value=str(newest + 1))

    def put_beside(
        self, conversation_id: str, rows: Iterable[tuple[str, str, str]], edges: Iterable[tuple[str, str, int]],
        messages: Iterable[tuple[str, int, int]],
    ) -> None:  # fmt: skip
        """Store what Remnic's tables cannot hold: kind, id and JSON of rows; exact edges of the graph."""
        self._run("clear_source_rows", conversation_id=conversation_id)
        self._run_many("put_source_row", [(kind, conversation_id, id_, row) for kind, id_, row in rows])
        self._run_many("put_edge", edges)
        self._run_many("put_summary_message", messages)

    def rows(self, session_id: str) -> list[bundles.RowValues]:
        """Id, turn, role, tokens, time and metadata of the messages of a session, in order."""
        return [_row(row) for row in self._dicts("session_rows", session_id=session_id)]

    def texts_and_parts(self, ids: Sequence[int]) -> Iterator[list[tuple[int, str, list[bundles.RowValues]]]]:
        """Text and parts of messages, in batches, in the given order."""
        for start in range(0, len(ids), _PAGE):
            some = ids[start : start + _PAGE]
            contents = {id_: column_text(content) for id_, content in self._rows("contents", ids=some)}
            parts = group_dicts(map(_row, self._dicts("parts_of", ids=some)), "message_id")
            yield [(id_, contents[id_], parts[id_]) for id_ in some]

    def nodes(self, session_id: str) -> list[bundles.RowValues]:
        """The summaries of a session, shallowest first, with exact sources and messages where known."""
        found = [_row(row) for row in self._dicts("session_nodes", session_id=session_id)]
        ids = [node["id"] for node in found]
        edges, messages = self._lists("edges", ids=ids), self._lists("summary_messages", ids=ids)
        for node in found:
            node["sources"], node["messages"] = edges.get(node["id"]), messages.get(node["id"])
        return found

    def source_rows(self, conversation_id: str) -> dict[str, list[tuple[str, bundles.RowValues]]]:
        """The additional rows of a conversation, by kind, each with its id."""
        found: defaultdict[str, list[tuple[str, bundles.RowValues]]] = defaultdict(list)
        for kind, id_, value in self._rows("source_rows", conversation_id=conversation_id):
            try:
                row = json.loads(value)
            except (ValueError, TypeError, RecursionError) as error:
                raise ArchiveCorrupt(f"a row of lcm_x_source_rows ({kind} {id_}) is not JSON") from error
            if isinstance(row, dict):
                found[kind].append((str(id_), row))
        return dict(found)


def _row(values: dict[str, Any]) -> bundles.RowValues:
    """A Remnic row; its id is unchanged."""
    return bundles.fit_row(values) | {name: values[name] for name in ("id",) if name in values}
