"""The SQLite database behind the archive: connections, one writer per process, named queries, copies of databases."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from copy import copy
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from itertools import islice
from pathlib import Path
from types import MethodType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, ParamSpec, Self, TypeAlias, TypeVar
from urllib.parse import unquote
from weakref import WeakSet, WeakValueDictionary

import apsw

from lossless import errors
from lossless.errors import ArchiveError, ArchiveFull
from lossless.model.context import QuoteSpan
from lossless.model.paths import create_private_file, expand_path
from lossless.model.times import parse_time, state_time

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Row: TypeAlias = tuple[Any, ...]
Params: TypeAlias = Mapping[str, object] | Sequence[object]
#: Index rows of further passages have ids above this; below it a row has its message's id.
PASSAGE_BASE = 1 << 40


@cache
def load_queries(*names: str) -> dict[str, str]:
    """The queries of some files, `queries/<name>.sql`, by their names, in the order of the files."""
    queries: dict[str, str] = {}
    for name in names:
        text = files(__package__).joinpath("queries", f"{name}.sql").read_text(encoding="utf-8")
        for title, *lines in map(str.splitlines, text.split("-- name:")[1:]):
            if title.strip() in queries:
                raise ValueError(f"two queries of {names} have the same name: {title.strip()}")
            queries[title.strip()] = "\n".join(line.strip() for line in lines if not line.startswith("--")).strip()
    return queries


@cache
def load_schema(file: str) -> str:
    return files(__package__).joinpath("schema", f"{file}.sql").read_text(encoding="utf-8")


@cache
def schema_statements(file: str) -> tuple[str, ...]:
    bare = "\n".join(line.split("--", 1)[0] for line in load_schema(file).splitlines())
    return tuple(statement.strip() for statement in bare.split(";") if statement.strip())


def conversation_range(conversation_id: int | None) -> dict[str, object]:
    """The range of conversation numbers; None means all. One condition for both keeps to the same indexes.

    >>> conversation_range(7), conversation_range(None)
    ({'first': 7, 'last': 7}, {'first': -9223372036854775808, 'last': 9223372036854775807})
    """
    first, last = (-(2**63), 2**63 - 1) if conversation_id is None else (conversation_id, conversation_id)
    return {"first": first, "last": last}


D = TypeVar("D", bound="DataclassInstance")
T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")


def column_text(raw: object) -> str:
    """A text; invalid UTF-8 is marked."""
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else "" if raw is None else str(raw)


def column_time(raw: object) -> datetime | None:
    """A time; None for an invalid one, which `lcm verify` reports."""
    try:
        return None if raw is None or raw == "" else parse_time(column_text(raw))
    except (ValueError, OverflowError):
        return None


def column_texts(raw: object) -> tuple[str, ...]:
    """The texts of a list, or of its JSON; empty for anything else."""
    if not isinstance(raw, tuple):
        try:
            raw = json.loads(column_text(raw))
        except (ValueError, RecursionError):
            return ()
    return tuple(item for item in raw if isinstance(item, str)) if isinstance(raw, list | tuple) else ()


_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_fields = cache(fields)


def _spans(text: str) -> tuple[QuoteSpan, ...]:
    """The quoted spans; empty when the row is damaged, which `lcm verify` reports."""
    try:
        return tuple(QuoteSpan(*values) for values in json.loads(text))
    except (TypeError, ValueError):
        return ()


_READERS: dict[str, Callable[[Any], Any]] = {
    "str": column_text,
    "str | None": lambda raw: None if raw is None else column_text(raw),
    "bool": bool,
    "datetime": lambda raw: column_time(raw) or _NO_TIME,
    "datetime | None": column_time,
    "tuple[str, ...]": column_texts,
    "tuple[int, ...]": lambda raw: tuple(json.loads(raw)),
    "tuple[QuoteSpan, ...]": _spans,
    "tuple[int | str, ...]": lambda raw: tuple(json.loads(raw)),
    "dict[str, Any]": lambda raw: json.loads(raw or "{}"),
}


def record_from_row(kind: type[D], row: Sequence[object]) -> D:
    """A value whose fields are the columns of a row, in order; each is converted by its type."""
    columns = zip(_fields(kind), row, strict=True)
    return kind(*[_READERS[field.type](raw) if field.type in _READERS else raw for field, raw in columns])


def row_values(record: DataclassInstance) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in _fields(type(record))}


_encode_list = json.JSONEncoder(default=column_text).encode


def _bound(_cursor: object, _number: int, value: Any) -> str:
    """What SQLite gets for a value that it has no type for: times with milliseconds, lists as JSON."""
    return state_time(value) if isinstance(value, datetime) else _encode_list(list(value))


def group_rows(rows: Iterable[Row], make: Callable[..., T]) -> defaultdict[Any, list[T]]:
    """What `make` returns for the further columns of some rows, by the first column."""
    found: defaultdict[Any, list[T]] = defaultdict(list)
    for key, *rest in rows:
        found[key].append(make(*rest))
    return found


def group_dicts(rows: Iterable[dict[str, Any]], key: str) -> defaultdict[Any, list[dict[str, Any]]]:
    """Rows by one of their values, which they no longer have."""
    return group_rows(((row.pop(key), row) for row in rows), dict)


def only(found: Iterable[T], what: str, id_: object) -> T:
    """What was found by an id; `NotFound` without it."""
    for one in found:
        return one
    raise errors.NotFound(what, id_)


def column_count(value: object) -> int:
    """A count from a column; 0 for an invalid one, which `lcm verify` reports."""
    return value if isinstance(value, int) else 0


def time_or_epoch(text: str) -> datetime:
    """A required time; the start of 1970 for an invalid one, which `lcm verify` reports."""
    return column_time(text) or _NO_TIME


_REASON = (
    "archive {!r}: it is open in this process, and Python's sqlite3 is a second SQLite library, which would take away "
    'the locks that protect it; use engine.sql("SELECT …"), or close the engine first, or look from another process'
)


def _spellings(name: str) -> Iterator[str]:
    """What a name can mean to SQLite: a path, or a URI with one.

    >>> list(_spellings("file:///a/b%20c.db?mode=ro"))
    ['file:///a/b%20c.db?mode=ro', '/a/b c.db']
    """
    yield name
    if name[:5] == "file:":
        path = name[5:].partition("#")[0].partition("?")[0]
        if path.startswith("//"):
            path = path[2:][path[2:].find("/") :]
        yield unquote(path)


def _is_file(name: str, path: str) -> bool:
    try:
        return os.path.samefile(name, path)
    except (OSError, ValueError):
        return False


BUSY_TIMEOUT_MS = 30_000
_PRAGMAS = ("foreign_keys = ON", "synchronous = FULL", "cache_size = -65536", "temp_store = MEMORY")
_NO_ACCESS = "it cannot be opened; check that its folder exists and that you may write there"
_REFUSALS: tuple[tuple[type[apsw.Error], type[errors.ArchiveError], str], ...] = (
    (apsw.BusyError, errors.ArchiveLocked, "another process holds it; try again, or stop that process"),
    (apsw.LockedError, errors.ArchiveLocked, "another connection holds it; try again"),
    (apsw.FullError, errors.ArchiveFull, "the disk is full; nothing was written; free some space and try again"),
    (apsw.CorruptError, errors.ArchiveCorrupt, "the file is damaged; restore a backup (see `lcm backup --list`)"),
    (apsw.NotADBError, errors.NotAnArchive, "it is not a SQLite database"),
    (apsw.CantOpenError, errors.ArchiveDenied, _NO_ACCESS),
    (apsw.PermissionsError, errors.ArchiveDenied, "no permission to read or write it"),
    (apsw.ReadOnlyError, errors.ArchiveDenied, "it is read-only; nothing was written"),
    (apsw.AuthError, errors.ArchiveDenied, "the database refused the statement"),
)
_WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE")
#: A search table can be rebuilt from rows: nothing has to be restored.
_INDEX_ADVICE = "its search index is damaged, its rows are not; rebuild the index with `lcm doctor reindex --apply`"


#: One thread of this process writes a file at a time; others wait outside SQLite.
_write_locks: WeakValueDictionary[str, Any] = WeakValueDictionary()
_write_locks_guard = threading.Lock()


def refused(error: apsw.Error, path: str) -> errors.ArchiveError:
    """The driver's error as one of ours."""
    # nothing but a damaged search table rejects a row without naming the constraint
    is_unnamed = isinstance(error, apsw.ConstraintError) and str(error) == "constraint failed"
    if is_unnamed or getattr(error, "extendedresult", 0) == apsw.SQLITE_CORRUPT_VTAB:
        return errors.ArchiveCorrupt(f"archive {path!r}: {_INDEX_ADVICE}")
    for driver, ours, advice in _REFUSALS:
        if isinstance(error, driver):
            return ours(f"archive {path!r}: {advice}")
    return errors.ArchiveError(f"archive {path!r}: {error}")


@dataclass(slots=True, weakref_slot=True, eq=False)
class _Handle:
    """A connection; None once it was closed for its thread."""

    connection: apsw.Connection | None
    #: Whether a transaction or a snapshot is in progress.
    is_open: bool = False


class Database:
    """One SQLite file. Each thread has its own connection; a fork gets new ones; a database in memory has one."""

    def __init__(self, path: str, *, read_only: bool = False, busy_timeout_ms: int = BUSY_TIMEOUT_MS) -> None:
        self.path = path if path == ":memory:" else str(expand_path(path).absolute())
        self.read_only, self.busy_timeout_ms, self._is_memory = read_only, busy_timeout_ms, path == ":memory:"
        self._local = threading.local()
        self._shared: _Handle | None = None
        self._handles: WeakSet[_Handle] = WeakSet()
        self._handles_guard = threading.Lock()
        self._closed = False
        #: The last process that used it; a fork that never does holds no lock of it.
        self._pid = 0
        #: The columns of queries that were run.
        self._names: dict[str, list[str]] = {}
        #: Run on each new connection, e.g. to emulate tables that a read-only file lacks.
        self.prepare: list[str] = []
        #: Whether invalid UTF-8 is refused instead of replaced.
        self.is_strict = False
        #: Run at the end of each transaction that noted rows, inside it.
        self.before_commit: Callable[[], None] | None = None
        #: The rows that triggers noted in this transaction, by the SQL function `note`: table and key.
        self.noted: dict[tuple[str, Any], None] = {}
        self._set_locks()
        if not self._is_memory:
            _keep_second_library_out()
        self.connection()
        _databases.add(self)

    def _set_locks(self) -> None:
        """One writer per file; an in-memory database has one connection, used in turns."""
        with _write_locks_guard:
            shared = _write_locks.setdefault(self.path, threading.RLock())
        self._writer = threading.RLock() if self._is_memory else shared
        #: The scope of several steps of one query: threads share the connection to an in-memory database.
        self._turns: AbstractContextManager[Any] = self._writer if self._is_memory else nullcontext()

    def connection(self) -> apsw.Connection:
        handle: _Handle | None = getattr(self._local, "handle", None)  # for files only
        if handle is not None and handle.connection is not None and not self._closed:
            return handle.connection
        return self._open()[1]

    def _open(self) -> tuple[_Handle, apsw.Connection]:
        if self._closed:
            raise errors.ArchiveError(f"archive {self.path!r}: it was closed")
        handle = self._shared if self._is_memory else getattr(self._local, "handle", None)
        if handle is not None and handle.connection is not None:
            return handle, handle.connection
        connection = self._connect()
        handle = _Handle(connection)
        with self._handles_guard:
            self._handles.add(handle)
        if self._is_memory:
            self._shared = handle
        else:
            self._local.handle = handle
        return handle, connection

    def _connect(self) -> apsw.Connection:
        self._pid = os.getpid()
        flags = apsw.SQLITE_OPEN_READONLY if self.read_only else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        try:
            connection = self._open_file(flags)
            connection.convert_binding = _bound
            # Without this, a query over a table with partial indexes is prepared again for every binding.
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            for pragma in _PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
            noted = self.noted  # a reference to `self` from here would keep it alive
            connection.create_scalar_function("note", lambda *row: noted.setdefault(row), 2)
            for statement in self.prepare:
                connection.execute(statement)
            if self.read_only:
                connection.execute("PRAGMA query_only = ON")
        except apsw.Error as error:
            raise refused(error, self.path) from error
        return connection

    def _open_file(self, flags: int) -> apsw.Connection:
        """Opens the file; one to be read in a folder that is not writable is opened as immutable."""
        if flags & apsw.SQLITE_OPEN_CREATE and not self._is_memory:
            with suppress(OSError):  # it exists, or SQLite reports the error; the log next to it gets the same mode
                create_private_file(self.path)
        connection = apsw.Connection(self.path, flags=flags, statementcachesize=256)
        connection.set_busy_timeout(self.busy_timeout_ms)  # the last process that closes it holds it for a moment
        if self.read_only and not self._is_memory:
            try:
                connection.execute("PRAGMA schema_version").fetchall()
            except (apsw.CantOpenError, apsw.ReadOnlyError):
                if Path(f"{self.path}-wal").exists():
                    raise
                connection.close()
                place = f"{Path(self.path).as_uri()}?immutable=1"
                connection = apsw.Connection(place, flags=flags | apsw.SQLITE_OPEN_URI, statementcachesize=256)
                connection.set_busy_timeout(self.busy_timeout_ms)
        return connection

    @contextmanager
    def aside(self) -> Iterator[apsw.Connection]:
        """A separate connection for a single query, with its own limits; an in-memory database has only one."""
        if self._is_memory:
            with self._turns:
                yield self.connection()
            return
        try:
            connection = self._open_file(apsw.SQLITE_OPEN_READONLY)
        except apsw.Error as error:
            raise refused(error, self.path) from error
        try:
            yield connection
        finally:
            connection.close()

    @property
    def is_in_use(self) -> bool:
        return not self._closed and not self._is_memory and self._pid == os.getpid()

    def reconnect(self) -> None:
        """Reopen this thread's connection, so that `prepare` takes effect."""
        if self._is_memory:
            for statement in self.prepare:
                self.connection().execute(statement)
        else:
            self._local.handle = None
            self.connection()

    def _execute(self, sql: str, params: Params = ()) -> apsw.Cursor:
        try:
            return self.connection().execute(sql, params or None)
        except apsw.ConnectionClosedError:  # another thread has just forked the process
            return self.connection().execute(sql, params or None)

    def rows(self, sql: str, params: Params = ()) -> list[Row]:
        try:
            if self._is_memory:
                with self._writer:
                    return self._execute(sql, params).fetchall()
            return self._execute(sql, params).fetchall()
        except UnicodeDecodeError:
            return list(self._lenient(sql, params))
        except apsw.Error as error:
            raise refused(error, self.path) from error

    def row(self, sql: str, params: Params = ()) -> Row | None:
        try:
            if self._is_memory:
                with self._writer:
                    return self._execute(sql, params).fetchone()
            return self._execute(sql, params).fetchone()
        except UnicodeDecodeError:
            return next(self._lenient(sql, params), None)
        except apsw.Error as error:
            raise refused(error, self.path) from error

    def column(self, sql: str, params: Params = ()) -> list[Any]:
        return [row[0] for row in self.rows(sql, params)]

    def dicts(self, sql: str, params: Params = ()) -> list[dict[str, Any]]:
        """The rows of a query, each as values by the names of its columns."""
        rows = self.rows(sql, params)
        if rows and sql not in self._names:
            self._names[sql] = [name for name, _ in self._execute(sql, params).get_description()]
        return [dict(zip(self._names[sql], row, strict=True)) for row in rows]

    def value(self, sql: str, params: Params = ()) -> Any | None:
        """The first column of the first row; None without a row."""
        row = self.row(sql, params)
        return row[0] if row else None

    def count(self, sql: str, params: Params = ()) -> int:
        """The number in the first column of the first row; 0 without one."""
        return self.value(sql, params) or 0

    def stream(self, sql: str, params: Params = ()) -> Iterator[Row]:
        """The rows of a query one by one, for scans that must not fill the memory."""
        try:
            with self._turns:
                given = 0
                for row in self._execute(sql, params):
                    yield row
                    given += 1
        except UnicodeDecodeError:
            yield from islice(self._lenient(sql, params), given, None)
        except apsw.Error as error:
            raise refused(error, self.path) from error

    def _lenient(self, sql: str, params: Params) -> Iterator[Row]:
        """The rows of a query with invalid UTF-8 replaced by U+FFFD; digests will show it."""
        if self.is_strict:
            raise errors.ArchiveCorrupt(f"archive {self.path!r} holds text that is not valid UTF-8")
        from apsw.ext import query_info

        try:
            with self._turns:
                names = [f"c{n}" for n in range(len(query_info(self.connection(), sql, params or None).description))]
                columns = ", ".join(
                    f"iif(typeof({c}) = 'text', CAST({c} AS BLOB), {c}), typeof({c}) = 'text'" for c in names
                )
                inner = sql.rstrip().rstrip(";")
                whole = f"WITH lenient ({', '.join(names)}) AS ({inner}\n) SELECT {columns} FROM lenient"
                for row in self._execute(whole, params):
                    pairs = zip(row[::2], row[1::2], strict=True)
                    yield tuple(raw.decode("utf-8", "replace") if is_text else raw for raw, is_text in pairs)
        except apsw.SQLError as error:  # not a query
            raise errors.ArchiveCorrupt(f"archive {self.path!r}: it contains text that is not valid UTF-8") from error
        except apsw.Error as error:
            raise refused(error, self.path) from error

    def run(self, sql: str, params: Params = ()) -> None:
        try:
            with self._alone(sql):
                self._execute(sql, params)
        except apsw.Error as error:
            raise refused(error, self.path) from error

    def run_many(self, sql: str, params: Iterable[Params]) -> None:
        try:
            with self._alone(sql):
                self.connection().executemany(sql, params)
        except apsw.Error as error:
            raise refused(error, self.path) from error

    def _alone(self, sql: str) -> AbstractContextManager[object]:
        """The scope of a statement: a write outside of a transaction gets its own."""
        is_alone = self.before_commit is not None and not self.connection().in_transaction
        return self.transaction() if is_alone and sql.startswith(_WRITES) else self._turns

    def changed(self, sql: str, params: Params = ()) -> bool:
        self.run(sql, params)
        return self.connection().changes() > 0

    def added(self, sql: str, params: Params = ()) -> int:
        self.run(sql, params)
        return self.last_id()

    def last_id(self) -> int:
        return self.connection().last_insert_rowid()

    def transaction(self, *, exclusive: bool = False) -> AbstractContextManager[None]:
        if self.read_only:
            raise errors.ArchiveDenied(f"archive {self.path!r}: it was opened read-only")
        handle: _Handle | None = getattr(self._local, "handle", None)  # for files only
        if handle and handle.is_open and handle.connection and handle.connection.in_transaction:
            return self._turns  # it joins the outer one
        return self._scope("BEGIN EXCLUSIVE" if exclusive else "BEGIN IMMEDIATE", self._writer)

    def snapshot(self) -> AbstractContextManager[None]:
        return self._scope("BEGIN", self._turns)

    @contextmanager
    def _scope(self, begin: str, lock: AbstractContextManager[object]) -> Iterator[None]:
        """BEGIN … COMMIT, rolled back when anything raises; a nested one joins the outer.

        One that an interrupt keeps from ending is rolled back when it is collected: what follows must not join it.
        """
        with lock:
            handle, connection = self._open()
            if handle.is_open and connection.in_transaction:
                yield
                return
            _roll_back(connection)  # an interrupt may have left the last one open
            handle.is_open, is_write = True, begin != "BEGIN"
            try:
                connection.execute(begin)
                yield
                if is_write and self.noted and self.before_commit:
                    self.before_commit()
                connection.execute("COMMIT")
            except BaseException as error:
                _roll_back(connection)
                if is_write:
                    self.noted.clear()
                if isinstance(error, apsw.Error):
                    raise refused(error, self.path) from error
                raise
            finally:
                handle.is_open = False

    def close(self) -> None:
        with self._writer:  # an open transaction ends first
            self._closed = True
            self.let_go()
        self._local.handle = self._shared = None

    def let_go(self) -> list[_Handle]:
        """Close the connections of all threads; returns those that are in use."""
        with self._handles_guard:
            return [handle for handle in self._handles if not _close(handle)]


def _by_name(method: Callable[[Database, str, Params], R]) -> Callable[..., R]:
    """A method of the database, for a query by its name, with its values as one argument or by their names."""

    def call(table: TableAccess, query: str, params: Params = (), /, **values: object) -> R:
        return method(table._db, table.queries[query], params or values)

    return call


class TableAccess:
    """Reads and writes some tables of one database, by the queries of some files."""

    queries: ClassVar[Mapping[str, str]]
    #: JSON: the only conversations whose rows are read by id; None for all.
    within: str | None = None

    def __init__(self, database: Database) -> None:
        self._db = database

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the database, which only these reads and writes use."""
        self._db.close()

    def writing(self) -> AbstractContextManager[None]:
        return self._db.transaction()

    def reading(self) -> AbstractContextManager[None]:
        """Several reads in one snapshot."""
        return self._db.snapshot()

    def limited(self, within: str) -> Self:
        """The same reads, limited to these conversations."""
        found = copy(self)
        found.within = within
        return found

    def _seen(self, ids: Iterable[object]) -> dict[str, object]:
        """The ids that a query takes, and the conversations that it may read."""
        return {"ids": _encode_list(list(ids)), "within": self.within}

    _rows = _by_name(Database.rows)
    _row = _by_name(Database.row)
    _column = _by_name(Database.column)
    _dicts = _by_name(Database.dicts)
    _count = _by_name(Database.count)
    _value = _by_name(Database.value)
    _stream = _by_name(Database.stream)
    _run = _by_name(Database.run)
    _changed = _by_name(Database.changed)
    _added = _by_name(Database.added)

    def _any(self, query: str, params: Params = (), /, **values: object) -> bool:
        """Whether a query has a row."""
        return self._row(query, params, **values) is not None

    def _set(self, query: str, params: Params) -> frozenset[Any]:
        return frozenset(self._column(query, params))

    def _pairs(self, query: str, params: Params = (), /, **values: object) -> dict[Any, Any]:
        """The second column of each row by the first."""
        return dict(self._rows(query, params, **values))

    def _lists(self, query: str, params: Params = (), /, **values: object) -> defaultdict[Any, list[Any]]:
        """The second column of the rows by the first."""
        return group_rows(self._rows(query, params, **values), lambda value: value)

    def _records(self, kind: type[D], query: str, params: Params = (), /, **values: object) -> list[D]:
        return [record_from_row(kind, row) for row in self._rows(query, params, **values)]

    def _record(self, kind: type[D], query: str, params: Params = (), /, **values: object) -> D | None:
        row = self._row(query, params, **values)
        return None if row is None else record_from_row(kind, row)

    def _pages(self, query: str, limit: int, after: Any = 0, **values: object) -> Iterator[list[Any]]:
        """The rows of a query, page by page: each page comes after the first column of the row before."""
        while page := self._rows(query, **values, after=after, limit=limit):
            yield page
            after = page[-1][0]

    def _run_all(self, beginning: str, **values: object) -> None:
        """Run the queries whose names begin so, in the order of their file."""
        for query in [name for name in self.queries if name.startswith(beginning)]:
            self._run(query, values)

    def _run_many(self, query: str, params: Iterable[Params]) -> None:
        self._db.run_many(self.queries[query], params)


#: What a query returns; see the methods of `TableAccess`, or of its subclass, with these names.
SqlKind = Literal[
    "run", "changed", "added", "rows", "row", "column", "set", "pairs", "lists", "count", "value", "any", "dicts",
    "record", "records", "tail_list",
]  # fmt: skip


class Sql(Generic[P, R]):
    """A query as a method: it takes the values of its parameters in order. It has the method's name, or its own."""

    def __init__(self, kind: SqlKind, parameters: str = "", name: str = "", of: type | None = None) -> None:
        self._kind, self._parameters, self._name = f"_{kind}", parameters.split(), name
        self._of = () if of is None else (of,)

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = self._name or name

    def __get__(self, table: TableAccess, owner: type) -> Callable[P, R]:
        return MethodType(self._call, table)

    def _call(self, table: TableAccess, *values: object) -> R:
        params: dict[str, Any] = dict(zip(self._parameters, values, strict=True))
        if "where" in params:  # a scope, which is several parameters
            params |= params.pop("where").values
        elif "ids" in params:
            params["within"] = table.within
        found: R = getattr(table, self._kind)(*self._of, self._name, params)
        return found


def _close(handle: _Handle) -> bool:
    """Close an idle connection; False when it is in use."""
    connection, handle.connection = handle.connection, None
    if connection is None:
        return True
    try:
        if not connection.in_transaction and connection.txn_state("main") == apsw.SQLITE_TXN_NONE:
            connection.close()
            return True
    except apsw.ThreadingViolationError:
        pass
    handle.connection = connection
    return False


def _roll_back(connection: Any) -> None:
    """Roll back the open transaction, unless a full disk already has."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


# SQLite keeps the locks of a file per process and in memory. A child would inherit the memory but not the locks, and
# its writes would be lost once the parent closes the file: so no connection is open in a fork.

_databases: WeakSet[Database] = WeakSet()


@cache
def _keep_second_library_out() -> None:
    """Refuse `sqlite3.connect` for open files from now on; audit hooks cannot be removed."""

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event == "sqlite3.connect" and arguments and isinstance(arguments[0], str | bytes | os.PathLike):
            for path in [database.path for database in list(_databases) if database.is_in_use]:
                if any(_is_file(name, path) for name in _spellings(os.fsdecode(arguments[0]))):
                    raise errors.ArchiveDenied(_REASON.format(path))

    sys.addaudithook(hook)


#: In use during a fork. The parent keeps them; the child must not even close them.
_left_open: list[_Handle] = []


def _before_fork() -> None:
    for database in list(_databases):
        if database.path != ":memory:":
            _left_open.extend(database.let_go())


def _after_fork_in_child() -> None:
    global _write_locks_guard
    _write_locks_guard = threading.Lock()
    _write_locks.clear()
    for database in list(_databases):
        database._handles, database._handles_guard = WeakSet(), threading.Lock()
        database._local = threading.local()
        database._set_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_left_open.clear, after_in_child=_after_fork_in_child)


#: Pages between two progress reports.
_STEP = 4096


def open_any_database(path: str, busy_timeout_ms: int) -> Database:
    """Open any SQLite database unchanged; `NotAnArchive` for other files."""
    database = Database(path, busy_timeout_ms=busy_timeout_ms)
    try:
        database.row("PRAGMA schema_version")
    except BaseException:
        database.close()
        raise
    return database


def copy_database(
    database: Database, target: str, progress: Callable[[int], None] | None = None, *, name: str | None = None
) -> None:
    """Copy one state of a live database, which others may write meanwhile, into `target`, a file without a log.

    `progress` gets the bytes copied since its last call. Errors mention `name` where the file will be renamed.
    """
    shown = name or target
    try:
        with closing(apsw.Connection(target)) as copy:
            with database.snapshot():
                size = database.row("PRAGMA page_size") or (0,)
                database.row("SELECT count(*) FROM sqlite_master")
                try:
                    _copy(copy, database.connection(), size[0], progress)
                except apsw.Error as error:
                    raise _no_copy(error, shown) from error
            copy.execute("PRAGMA journal_mode = DELETE").fetchall()
    except apsw.Error as error:
        raise _no_copy(error, shown) from error


def drop_wal(database: Database) -> None:
    """Switch a file to a mode without a write-ahead log."""
    database.row("PRAGMA journal_mode = DELETE")


def _no_copy(error: apsw.Error, target: str) -> ArchiveError:
    """Why a copy could not be written, as one of our errors."""
    if isinstance(error, apsw.FullError):
        return ArchiveFull(f"no copy can be made at {target!r}: the disk is full; free some space and try again")
    if isinstance(error, apsw.IOError):
        return ArchiveError(
            f"no copy can be made at {target!r}: it could not be written; "
            "is there enough space, and are files of that size allowed?"
        )
    return refused(error, target)


def replace_database(database: Database, source: str, progress: Callable[[int], None] | None = None) -> None:
    """Make a database equal to the one in `source`, in one transaction. The caller holds the file exclusively."""
    with closing(apsw.Connection(source, flags=apsw.SQLITE_OPEN_READONLY)) as original:
        try:
            _copy(database.connection(), original, int(str(original.pragma("page_size"))), progress)
        except apsw.Error as error:
            raise refused(error, database.path) from error


def _copy(
    target: apsw.Connection, source: apsw.Connection, page_size: int, progress: Callable[[int], None] | None
) -> None:
    with target.backup("main", source, "main") as copy:
        remaining: int | None = None
        while not copy.done:
            copy.step(_STEP)
            if progress:
                progress(((copy.page_count if remaining is None else remaining) - copy.remaining) * page_size)
            remaining = copy.remaining
