"""Opens files of any version: missing parts are added, unsupported files are refused, nothing is removed."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from functools import cache
from typing import NamedTuple, TypeAlias

from lossless import errors
from lossless.model.identity import identity_hash
from lossless.store.database import Database, load_queries, load_schema, schema_statements
from lossless.store.rows import COMPLETE_KEY

#: Incremented when `schema/additions.sql` changes in a way that older versions cannot write.
SCHEMA_VERSION = 1
#: One-time steps that upstream records; a later step or version means tables we do not know.
KNOWN_STEPS = {
    "backfillSummaryDepths": 1,
    "backfillSummaryMetadata": 1,
    "backfillToolCallColumns": 1,
    "repairOpenClawMetadataIdentityState": 2,
}
#: Seconds between two tries to open a file that another process is creating.
_PAUSE = 0.01
_QUERIES = load_queries("migrate")


class Column(NamedTuple):
    """A column as a table declares it."""

    name: str
    type: str
    not_null: int
    default: str | None
    is_key: int

    @property
    def ddl(self) -> str:
        """The column for ALTER TABLE, which accepts only constant defaults."""
        constant = self.default is not None and "(" not in self.default
        rule = f" NOT NULL DEFAULT {self.default}" if self.not_null and constant else ""
        return f'"{self.name}" {self.type}{rule}'


#: The columns of tables, by their names.
TableColumns: TypeAlias = dict[str, dict[str, Column]]


@cache
def _declared(file: str) -> tuple[TableColumns, dict[str, str]]:
    """The tables that a script declares, except virtual ones: their columns, and their definitions."""
    with closing(Database(":memory:")) as database:
        for statement in schema_statements(file):
            if statement.startswith("CREATE TABLE"):
                database.run(statement)
        definitions = _definitions(database)
        return _columns(database, definitions), definitions


def base_tables() -> TableColumns:
    return _declared("base")[0]


def own_tables() -> TableColumns:
    return _declared("additions")[0]


def base_columns(table: str, but: str = "") -> tuple[str, ...]:
    return tuple(name for name in base_tables()[table] if name != but)


def table_columns(database: Database, table: str) -> list[str]:
    """The columns of a table of a file, or of a temporary one in its place."""
    return database.column(_QUERIES["columns"], {"table": table})


#: The columns of each table and definition that was read: the same text declares the same columns in every file.
_READ: dict[tuple[str, str], dict[str, Column]] = {}


def _columns(database: Database, definitions: dict[str, str]) -> TableColumns:
    for name, sql in definitions.items():
        if (name, sql) not in _READ:
            rows = database.rows(_QUERIES["file_columns"], {"table": name})
            _READ[name, sql] = {row[0]: Column(*row) for row in rows}
    return {name: _READ[name, sql] for name, sql in definitions.items()}


def _definitions(database: Database) -> dict[str, str]:
    return dict(database.rows(_QUERIES["tables"]))


@cache
def _checks(sql: str) -> frozenset[str]:
    """Each `CHECK (…)` of a table's DDL without white space and quotes around names."""
    found = set()
    for match in re.finditer(r"\bCHECK\s*\(", sql, re.IGNORECASE):
        depth, end = 1, match.end()
        while depth and end < len(sql):
            depth += {"(": 1, ")": -1}.get(sql[end], 0)
            end += 1
        found.add(re.sub(r"[\s\"]+", "", sql[match.end() : end - 1]).lower())
    return frozenset(found)


def why_refused(database: Database) -> str | None:
    """Why this file must not be written, or None. Extra tables and nullable columns are accepted."""
    expected, base = _declared("base")
    definitions = _definitions(database)
    shape = _columns(database, {name: sql for name, sql in definitions.items() if name in expected})
    if reason := _other_ids(database.path, shape):
        return reason
    for table, columns in shape.items():
        for column in columns.values():
            unknown = column.name not in expected[table]
            if unknown and column.not_null and column.default is None and not column.is_key:
                return f"table {table!r} has an unknown column {column.name!r} that must be filled"
        if changed := _checks(definitions[table]) - _checks(base[table]):
            return f"table {table!r} has an unknown rule: CHECK ({sorted(changed)[0]})"
    if "lcm_migration_state" in shape:
        for step, version in database.rows(_QUERIES["steps"]):
            if not isinstance(version, int) or version > KNOWN_STEPS.get(step, 0):
                return f"migration step {step!r} version {version} is newer than this version knows"
    if "archive_state" in definitions:
        version_row = database.row(_QUERIES["state"], {"name": "schema"})
        if version_row and (not isinstance(version_row[0], int) or version_row[0] > SCHEMA_VERSION):
            return f"schema version {version_row[0]} is newer than {SCHEMA_VERSION}; upgrade lossless"
    return None


def _other_ids(path: str, shape: TableColumns) -> str | None:
    """Text ids: we cannot store next to them, but they can be imported into an archive."""
    for table, columns in base_tables().items():
        for name, column in columns.items():
            there = shape.get(table, {}).get(name)
            if there and column.type == "INTEGER" and name.endswith("_id") and "INT" not in there.type.upper():
                return (
                    f"{name!r} of table {table!r} is {there.type or 'of no type'}, where lossless-claw has numbers; "
                    f"`lcm import lossless-claw {shlex.quote(path)}` copies what it holds into an archive"
                )
    return None


#: A table and a column that some versions of lossless-claw do not have.
OPTIONAL = frozenset({"conversation_bootstrap_state", "openclaw_sender_metadata"})


def damage(database: Database) -> list[tuple[str, str]]:
    """What is wrong with the declarations of a file that lossless has written: the tables, and what each lacks.

    Other files may be of any version, and a later version may differ. Columns that our own tables got over time may be
    missing, unless there is an unknown one.
    """
    definitions = _definitions(database)
    if not _is_written(database, definitions):
        return []
    shapes = _columns(database, dict(sorted(definitions.items())))
    base, own = base_tables(), own_tables()
    strange = {name: columns for name, columns in shapes.items() if name not in base and name not in added_tables()}
    found = []
    for table, declared in (base | own).items():
        if not (there := shapes.get(table)):
            renamed = next((name for name, columns in strange.items() if columns.keys() == declared.keys()), None)
            if renamed is not None or table in shapes:
                other = f"{renamed!r} has its columns" if renamed else "its declaration names another one"
                found.append((table, f"it is missing, and {other}"))
        elif there != declared:
            may_lack = declared.keys() if table in _GROWN else OPTIONAL
            found += [(table, detail) for detail in _wrong_columns(table, declared, there, may_lack)]
    return found


def missing_tables(database: Database) -> tuple[list[str], list[str]]:
    """Tables that one of our files lacks: base tables, and those that lossless adds."""
    there = _definitions(database)
    if not _is_written(database, there):
        return [], []
    return sorted(base_tables().keys() - there.keys() - OPTIONAL), sorted(added_tables() - there.keys())


def _is_written(database: Database, definitions: dict[str, str]) -> bool:
    """Whether lossless has written a file, in a version up to this one."""
    if len(added_tables() & definitions.keys()) * 2 < len(added_tables()):
        return False
    state = _columns(database, {"archive_state": definitions.get("archive_state", "")})["archive_state"]
    row = database.row(_QUERIES["state"], {"name": "schema"}) if {"name", "value"} <= state.keys() else None
    return row is None or not isinstance(row[0], int) or row[0] <= SCHEMA_VERSION


def _wrong_columns(
    table: str, declared: dict[str, Column], there: dict[str, Column], may_lack: Collection[str]
) -> Iterator[str]:
    missing = [name for name in declared if name not in there]
    unknown = [name for name in there if name not in declared]
    if len(missing) == len(unknown) == 1:
        statement = f'ALTER TABLE "{table}" RENAME COLUMN "{unknown[0]}" TO "{missing[0]}"'
        advice = f"if it is the same under another name, `{statement}` in a copy of the file fixes it"
        yield f"column {missing[0]!r} is missing, and {unknown[0]!r} is unknown; {advice}"
    else:
        yield from (f"column {name!r} is missing" for name in missing if unknown or name not in may_lack)
    kind = str if table in added_tables() else affinity  # lossless-claw's versions may spell types differently
    for name, column in declared.items():
        if name in there and kind(there[name].type) != kind(column.type):
            yield f"column {name!r} is of type {there[name].type!r}, not {column.type!r}"


#: SQLite's type affinities, by the first of these substrings in a declared type.
_AFFINITIES = {"INT": "INTEGER", "CHAR": "TEXT", "CLOB": "TEXT", "TEXT": "TEXT", "BLOB": "BLOB", "REAL": "REAL"}


def affinity(declared: str) -> str:
    if not declared:
        return "BLOB"
    return next((kind for word, kind in _AFFINITIES.items() if word in declared.upper()), "NUMERIC")


def check_is_archive(database: Database) -> bool:
    """True for an archive, False for an empty file; raises for any other database."""
    tables = _definitions(database).keys()
    if {"conversations", "messages"} <= tables:
        return True
    if tables:
        raise errors.NotAnArchive(
            f"archive {database.path!r}: it is a database of another program "
            f"(tables {', '.join(sorted(tables)[:5])}); choose another path"
        )
    return False


def migrate(database: Database) -> None:
    """Upgrade a file in one exclusive transaction; idempotent.

    Raises `SchemaUnknown` for a file that a newer program has changed in unknown ways. While another process switches a
    new file to WAL, SQLite refuses without waiting: this waits instead.
    """
    until = time.monotonic() + database.busy_timeout_ms / 1000
    while True:
        try:
            return _migrate(database)
        except errors.ArchiveLocked:
            if time.monotonic() >= until:
                raise
            time.sleep(_PAUSE)


def _migrate(database: Database) -> None:
    is_new = not check_is_archive(database)
    if found := damage(database):
        table, detail = found[0]
        raise errors.ArchiveCorrupt(
            f"archive {database.path!r}: the file is damaged, and is not written: table {table!r}: {detail}; "
            "`lcm restore` restores a backup (`lcm backups` lists them)"
        )
    _refuse_unknown(database)
    database.rows("PRAGMA journal_mode = WAL")  # the file remembers it: only for our own files
    if not _is_current(database):
        with database.transaction(exclusive=True):
            _refuse_unknown(database)
            lacking = _lacking(database)
            for statement in schema_statements("base"):
                database.run(statement)
            for table, columns in lacking.items():
                for column in columns:
                    database.run(f'ALTER TABLE "{table}" ADD COLUMN {column.ddl}')
                    if column.default and "(" in column.default:
                        database.run(f'UPDATE "{table}" SET "{column.name}" = {column.default}')
            database.run(_QUERIES["drop_old_key_index"])
            for statement in (*schema_statements("indexes"), *schema_statements("additions")):
                database.run(statement)
            _backfill(database)
            database.run(_QUERIES["set_state"], {"name": "schema", "value": SCHEMA_VERSION})
            if is_new:  # it is empty, and every new row gets a digest
                database.run(_QUERIES["set_state"], {"name": COMPLETE_KEY, "value": 1})


_CREATED = re.compile(r"CREATE (?:VIRTUAL )?TABLE IF NOT EXISTS (\w+)")


@cache
def added_tables() -> frozenset[str]:
    return frozenset(_CREATED.findall(load_schema("additions")))


#: Our own tables that got new columns since their first version.
_GROWN = ("message_extras", "summary_extras", "ingest_state", "turn_keys", "last_windows")


def _lacking(database: Database) -> dict[str, list[Column]]:
    declared = base_tables() | {table: own_tables()[table] for table in _GROWN}
    known = {name: sql for name, sql in _definitions(database).items() if name in declared}
    lacking = {
        table: [column for name, column in declared[table].items() if name not in there]
        for table, there in _columns(database, known).items()
        if there
    }
    return {table: missing for table, missing in lacking.items() if missing}


def _is_current(database: Database) -> bool:
    if not added_tables() | base_tables().keys() <= _definitions(database).keys():
        return False
    version = database.row(_QUERIES["state"], {"name": "schema"})
    steps: dict[str, int] = dict(database.rows(_QUERIES["steps"]))
    return (
        version is not None
        and version[0] == SCHEMA_VERSION
        and database.row(_QUERIES["old_key_index"]) is None
        and not _lacking(database)
        and all(steps.get(step, 0) >= known for step, known in KNOWN_STEPS.items())
    )


def _refuse_unknown(database: Database) -> None:
    if reason := why_refused(database):
        raise errors.SchemaUnknown(
            f"archive {database.path!r}: {reason}; it can be read (open it read-only) but not written"
        )


def _backfill(database: Database) -> None:
    """Fill values that rows of older versions lack; each step runs once per file and is recorded as upstream does."""
    done: dict[str, int] = dict(database.rows(_QUERIES["steps"]))
    _fill_identities(database, "without_identity")
    if done.get("repairOpenClawMetadataIdentityState", 0) < 2:
        _fill_identities(database, "framed_users")
    if "backfillSummaryDepths" not in done:
        database.run(_QUERIES["fill_depths"])
    if "backfillSummaryMetadata" not in done:
        database.run(_QUERIES["fill_leaf_spans"])
        for depth in range(1, database.count(_QUERIES["deepest"]) + 1):
            database.run(_QUERIES["fill_condensed_spans"], {"depth": depth})
    if "backfillToolCallColumns" not in done:
        database.run(_QUERIES["fill_tool_columns"])
        database.run(_QUERIES["fill_result_columns"])
    for step, version in KNOWN_STEPS.items():
        database.run(_QUERIES["record_step"], {"step": step, "version": version})


def _fill_identities(database: Database, query: str) -> None:
    after = 0
    while rows := database.rows(_QUERIES[query], {"after": after}):
        database.run_many(
            _QUERIES["set_identity"],
            [{"identity": identity_hash(role, content), "message_id": id_} for id_, role, content in rows],
        )
        after = rows[-1][0]


def temporary_views(database: Database) -> list[str]:
    """Temporary tables and views that make an older file readable without changing it."""
    tables = _definitions(database).keys()
    statements = []
    for table in sorted(base_tables().keys() - tables):
        names = ", ".join(f'"{name}"' for name in base_tables()[table])
        statements.append(f'CREATE TEMP TABLE "{table}" ({names})')
    for table, missing in _lacking(database).items():
        filled = ", ".join(f'{column.default or "NULL"} AS "{column.name}"' for column in missing)
        statements.append(f'CREATE TEMP VIEW "{table}" AS SELECT rowid, *, {filled} FROM main."{table}"')
    return statements + temporary_tables(schema_statements("additions"), tables)


def temporary_tables(statements: Iterable[str], tables: Collection[str]) -> list[str]:
    """The tables that some statements create and a file does not have, as temporary ones."""
    created = ((found[1], sql) for sql in statements if (found := _CREATED.match(sql)))
    return [sql.replace(f"IF NOT EXISTS {name}", f"temp.{name}", 1) for name, sql in created if name not in tables]
