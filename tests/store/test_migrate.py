"""Files of every age open in place: no row is lost, what is missing is added, a second opening changes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest

from lossless import Session
from lossless.maintenance.verify import verify_archive
from lossless.model.identity import identity_hash
from lossless.model.messages import ToolCall, ToolResult
from lossless.store import migrate
from lossless.store.archive import Archive
from lossless.store.database import Database
from tests.faults import Fault, dump, failing_at, open_engine, problems, statements_of
from tests.store import older

FIXTURES = Path(os.environ.get("LOSSLESS_FIXTURES", "no folder"))
#: Columns that upstream's own one-time steps fill in.
FILLED = frozenset(("depth", "earliest_at", "latest_at", "descendant_count", "descendant_token_count")) | {
    "source_message_token_count",
    "identity_hash",
    "tool_call_id",
    "tool_name",
    "tool_input",
}


def query(path: Path, sql: str) -> list[tuple[Any, ...]]:
    connection = apsw.Connection(str(path))
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def schema(path: Path) -> list[tuple[Any, ...]]:
    return query(path, "SELECT type, name, sql FROM sqlite_master ORDER BY name")


def shape(path: Path) -> dict[str, list[str]]:
    """The columns of each table."""
    found: dict[str, list[str]] = {}
    for table, column in query(path, "SELECT t.name, c.name FROM pragma_table_list t, pragma_table_info(t.name) c"):
        found.setdefault(table, []).append(column)
    return {table: columns for table, columns in found.items() if not table.startswith("sqlite_")}


def kept(path: Path, columns: dict[str, list[str]]) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of some columns, but for what FTS5 and SQLite keep for themselves."""
    own = ("_data", "_idx", "_docsize", "_config", "sqlite_sequence", "lcm_migration_state")
    return {
        table: sorted(query(path, f'SELECT {", ".join(some)} FROM "{table}"'), key=repr)
        for table, some in columns.items()
        if not table.endswith(own)
    }


def digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


@pytest.fixture(params=list(older.AGES))
def old(request: pytest.FixtureRequest, path: Path) -> Path:
    """A file of each age."""
    older.make(path, older.AGES[request.param])
    return path


def test_an_old_file_opens_without_losing_a_row(old: Path) -> None:
    columns = {table: [name for name in names if name not in FILLED] for table, names in shape(old).items()}
    before = kept(old, columns)
    with Archive.open(old) as archive:
        assert [str(problem) for problem in verify_archive(archive).problems] == []
    assert kept(old, columns) == before
    expected = migrate.base_tables()
    assert {name: set(shape(old)[name]) for name in expected} == {name: set(expected[name]) for name in expected}


def test_what_older_shapes_lack_is_filled(old: Path) -> None:
    with Archive.open(old) as archive:
        stored = archive.messages.in_order(1)
        top = archive.summaries.get("sum_top")
    assert stored[1].message.tool_calls == (ToolCall("exec:1", "read", {"path": "config/prod.yaml"}),)
    assert stored[2].message.tool_results == (ToolResult("exec:1", "read", older.TEXTS[2]),)
    assert (top.depth, top.descendant_count, top.descendant_tokens, top.source_message_tokens) == (1, 2, 6, 37)
    assert query(old, "SELECT role, identity_hash FROM messages") == [
        (role, identity_hash(role, text)) for role, text in zip(older.ROLES, older.TEXTS, strict=True)
    ]


def test_opening_twice_changes_nothing(old: Path) -> None:
    Archive.open(old).close()
    rows, tables = dump(old), schema(old)
    with Archive.open(old) as archive:
        assert archive.database.connection().total_changes() == 0
        again = statements_of(archive.database, lambda: migrate.migrate(archive.database))
        assert archive.catch_up() == 0
    assert not [statement for statement in again if not statement.startswith(("SELECT", "PRAGMA journal_mode"))]
    assert (dump(old), schema(old)) == (rows, tables)


def test_an_old_conversation_goes_on(old: Path) -> None:
    """A host that shows the whole old conversation and one more message adds one row, to every search table."""
    window: list[dict[str, Any]] = [
        {"role": "user", "content": older.TEXTS[0]},
        {"role": "assistant", "content": [older.CALL]},
        {"role": "toolResult", "toolCallId": "exec:1", "toolName": "read", "content": older.TEXTS[2]},
        *({"role": role, "content": text} for role, text in zip(older.ROLES[3:], older.TEXTS[3:], strict=True)),
        {"role": "user", "content": "and the gateway?"},
    ]
    has_keys = "session_key" in shape(old)["conversations"]
    session = Session(key="agent:main:main" if has_keys else None, id="run-1")
    with open_engine(old) as engine:
        assert engine.sync(session, window).stored == 1
        assert engine.sync(session, window).stored == 0
        assert problems(engine) == []
    assert query(old, "SELECT rowid FROM messages_fts WHERE messages_fts MATCH 'gateway'") == [(7,)]
    ours = "SELECT rowid FROM message_index WHERE message_index MATCH 'gateway OR proxy_port'"
    assert query(old, ours) == [(3,), (7,)]


def test_a_key_may_come_again_after_its_conversation_was_archived(old: Path) -> None:
    """Older files allowed a key once for all; cron jobs and resets need it again."""
    key = "agent:main:cron:nightly"
    with open_engine(old) as engine:
        for run in ("a", "b", "c"):
            engine.append(Session(key=key, id=run), [{"role": "user", "content": run}])
    found = query(old, f"SELECT session_id, active, archive_cause FROM conversations WHERE session_key = '{key}'")
    assert found == [("a", 0, "cron-rotation"), ("b", 0, "cron-rotation"), ("c", 1, None)]


def test_reading_only_leaves_the_bytes_as_they_are(old: Path) -> None:
    before = digest(old)
    with Archive.open(old, read_only=True) as archive:
        assert [stored.message.content for stored in archive.messages.in_order(1)] == list(older.TEXTS)
        assert len(archive.context.items(1)) == 3
        assert not [problem for problem in verify_archive(archive).problems if problem.severity == "error"]
    assert digest(old) == before


def test_a_migration_that_fails_leaves_the_file_as_it_was(old: Path, tmp_path: Path) -> None:
    rows, tables = dump(old), schema(old)
    probe = tmp_path / "probe.db"
    shutil.copy(old, probe)
    database = Database(str(probe))
    total = len(statements_of(database, lambda: migrate.migrate(database)))
    database.close()
    for number in range(0, total, 9):
        database = Database(str(old))
        with pytest.raises(Fault), failing_at(database, number):
            migrate.migrate(database)
        database.close()
        assert (dump(old), schema(old)) == (rows, tables), number
    with Archive.open(old) as archive:
        assert verify_archive(archive).ok


def test_several_openings_at_once_migrate_once(old: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        for archive in pool.map(lambda _: Archive.open(old), range(8)):
            archive.close()
    with Archive.open(old) as archive:
        assert verify_archive(archive).ok


@pytest.mark.skipif(not FIXTURES.is_dir(), reason="LOSSLESS_FIXTURES names no folder with databases of lossless-claw")
@pytest.mark.parametrize("source", sorted(FIXTURES.rglob("*.db")), ids=lambda source: source.name)
def test_real_files_open_without_losing_a_row(source: Path, path: Path) -> None:
    shutil.copy(source, path)
    columns = shape(path)
    before = kept(path, columns)
    with Archive.open(path) as archive:
        found = [problem for problem in verify_archive(archive).problems if problem.severity == "error"]
    # texts that somebody has edited since, and files that did not come along with the databases
    assert {problem.check for problem in found} <= {"identity", "files"}
    assert kept(path, columns) == before
    rows, tables = dump(path), schema(path)
    Archive.open(path).close()
    assert (dump(path), schema(path)) == (rows, tables)
    shutil.copy(source, path)
    before_bytes = digest(path)
    with Archive.open(path, read_only=True) as archive:
        assert archive.listings.counts().messages == len(before["messages"])
    assert digest(path) == before_bytes


@pytest.mark.skipif(not FIXTURES.is_dir(), reason="LOSSLESS_FIXTURES names no folder with databases of lossless-claw")
@pytest.mark.parametrize("source", sorted(FIXTURES.glob("small-*.db")), ids=lambda source: source.name)
def test_a_host_goes_on_with_a_real_file(source: Path, path: Path) -> None:
    """Payloads that upstream has put into files are recognised in the host's window, which still has them."""
    shutil.copy(source, path)
    sessions = [
        Session(key=key, id=id_) for id_, key in query(path, "SELECT session_id, session_key FROM conversations")
    ]
    for session, name in zip(sessions, "ABC", strict=True):
        lines = (FIXTURES / f"small.input.{name}.jsonl").read_text(encoding="utf-8").splitlines()
        window = [json.loads(line) for line in lines]
        with open_engine(path) as engine:
            assert engine.sync(session, window).stored == 0
            assert engine.sync(session, window[len(window) // 2 :]).stored == 0
            assert engine.sync(session, [*window, {"role": "user", "content": "and now?"}]).stored == 1
