"""Adopting a file of lossless-claw: nothing is lost, and nobody's work is pulled away."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import lossless
from tests.built import built

from .conftest import said, sql

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .conftest import Lcm

TABLES = ["messages_fts", "summaries_fts", "summaries_fts_cjk"]
#: Another process that has the file open, does what it is told, and waits.
OTHER = """
import sys
import apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("SELECT count(*) FROM messages").fetchall()
if sys.argv[2] == "writes":
    connection.execute("BEGIN IMMEDIATE; UPDATE conversations SET title = 'mine'")
elif sys.argv[2] == "reads":
    cursor = connection.execute("SELECT content FROM messages")
    next(cursor)
print("ready", flush=True)
sys.stdin.readline()
if sys.argv[2] == "writes":
    connection.execute("COMMIT")
connection.execute("INSERT INTO messages_fts (rowid, content) VALUES (900, 'still here')")
print("done", flush=True)
"""


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive with lossless-claw's search tables."""
    path = tmp_path / "theirs.db"
    monkeypatch.setenv("LCM_DATABASE_PATH", str(path))
    return built(path, _build_theirs)


def _build_theirs(path: Path) -> None:
    with lossless.open(path, background=False):
        pass
    sql(
        path,
        "CREATE VIRTUAL TABLE messages_fts USING fts5 (content, tokenize='porter unicode61')",
        "CREATE VIRTUAL TABLE summaries_fts USING fts5 (summary_id UNINDEXED, content, tokenize='porter unicode61')",
        "CREATE VIRTUAL TABLE summaries_fts_cjk USING fts5 (summary_id UNINDEXED, content, tokenize='trigram')",
    )
    with lossless.open(path, background=False) as engine:
        for n in range(400):
            engine.append(lossless.Session(key="k"), [said(n) | {"content": f"{n} " + "wind and weather " * 30}])
    path.chmod(0o640)


@contextmanager
def held(path: Path, how: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", OTHER, str(path), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        yield other
        assert other.communicate("go\n", timeout=60)[0] == "done\n"


def tables(path: Path) -> set[str]:
    return {row[0] for row in sql(path, "SELECT name FROM sqlite_master")}


def backups(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}.adopt-*.bak"))


def test_without_apply_nothing_changes(lcm: Lcm, theirs: Path) -> None:
    before = hashlib.sha256(theirs.read_bytes()).digest()
    data = lcm("adopt").data
    assert (data["applied"], data["tables"]) == (False, TABLES)
    assert 100_000 < data["bytesToFree"] < data["databaseSizeBytes"]
    assert "Bytes to free" in " ".join(lcm("adopt", "--format", "table").out.split())
    assert hashlib.sha256(theirs.read_bytes()).digest() == before
    assert backups(theirs) == []


def test_apply_frees_the_room_and_keeps_everything(lcm: Lcm, theirs: Path) -> None:
    before, promised = lcm("messages", "list", "--session-key", "k").data, lcm("adopt").data["bytesToFree"]
    size = theirs.stat().st_size
    data = lcm("adopt", "--apply").data
    assert data["applied"] is True
    assert data["counts"] == {"conversations": 1, "active": 1, "messages": 400, "summaries": 0, "files": 0}
    assert data["databaseSizeBytes"] == theirs.stat().st_size
    assert size - theirs.stat().st_size == data["bytesFreed"] >= promised * 0.9
    assert not tables(theirs) & set(TABLES)
    (backup,) = backups(theirs)
    assert data["backupPath"] == str(backup)
    assert set(TABLES) <= tables(backup)
    if os.name == "posix":
        assert backup.stat().st_mode & 0o777 == 0o600
    assert lcm("messages", "list", "--session-key", "k").data == before
    assert lcm("verify").data["ok"] is True
    again = lcm("adopt", "--apply").data
    assert (again["applied"], again["tables"], again["bytesToFree"]) == (False, [], 0)
    assert backups(theirs) == [backup]
    with lossless.open(theirs, background=False) as engine:
        assert engine.append(lossless.Session(key="k"), [said(1)]).stored == 1


def test_what_lossless_claw_stored_is_indexed_before_its_tables_go(lcm: Lcm, theirs: Path) -> None:
    sql(
        theirs,
        "INSERT INTO messages (conversation_id, seq, role, content, token_count) VALUES (1, 401, 'user', 'late', 1)",
        "INSERT INTO context_items (conversation_id, ordinal, item_type, message_id)"
        " SELECT 1, 9999, 'message', max(message_id) FROM messages",
    )
    assert lcm("adopt", "--apply").data["counts"]["messages"] == 401
    data = lcm("verify").data
    assert (data["ok"], data["warnings"]) == (True, 0)


@pytest.mark.parametrize("how", ["waits", "reads", "writes"])
def test_a_file_that_another_process_has_open_is_left_alone(lcm: Lcm, theirs: Path, how: str) -> None:
    with held(theirs, how):
        answer = lcm("adopt", "--apply")
        assert (answer.code, answer.error["code"]) == (5, "locked")
    assert set(TABLES) <= tables(theirs)
    assert backups(theirs) == []
    assert sql(theirs, "SELECT content FROM messages_fts WHERE rowid = 900") == [("still here",)]
    assert lcm("adopt", "--apply").data["applied"] is True


def test_a_backup_that_cannot_be_made_stops_the_work(lcm: Lcm, theirs: Path, tmp_path: Path) -> None:
    long = theirs.with_name("d" * 230 + ".db")
    theirs.rename(long)
    answer = lcm("adopt", "--apply", "--db", long)
    assert (answer.code, answer.error["code"]) == (5, "denied")
    assert set(TABLES) <= tables(long)
    assert lcm("verify", "--db", long).data["ok"] is True


@pytest.mark.parametrize("arguments", [("--yes",), ("now",), ("--apply", "--limit", "1")])
def test_things_done_wrong(lcm: Lcm, theirs: Path, arguments: tuple[str, ...]) -> None:
    assert lcm("adopt", *arguments).code == 2
    assert backups(theirs) == []
