"""Python's own sqlite3 is a second SQLite library: it is kept away from archives that are open in this process."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import lossless
from lossless.errors import ArchiveDenied, BadInput
from lossless.store.archive import Archive

if TYPE_CHECKING:
    from pathlib import Path

SESSION = lossless.Session(key="k")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "with blank.db"


def test_an_open_archive_is_refused_by_every_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link, hard = path.with_name("link.db"), path.with_name("hard.db")
    with lossless.open(path, background=False) as engine:
        engine.append(SESSION, [{"role": "user", "content": "Hello."}])
        link.symlink_to(path)
        hard.hardlink_to(path)
        monkeypatch.chdir(path.parent)
        names: list[str | bytes | Path] = [path, str(path), os.fsencode(path), path.name, f"./{path.name}", link, hard]
        for name in names:
            with pytest.raises(ArchiveDenied, match=r"engine\.sql"):
                sqlite3.connect(name)
        for uri in (f"{path.as_uri()}?mode=ro", f"file:{path}", "file:with%20blank.db?mode=ro&cache=private"):
            with pytest.raises(ArchiveDenied, match="second SQLite library"):
                sqlite3.connect(uri, uri=True)
        with closing(sqlite3.connect(path.with_name("other.db"))), closing(sqlite3.connect(":memory:")):
            pass
    with closing(sqlite3.connect(path)) as closed:
        assert closed.execute("SELECT content FROM messages").fetchall() == [("Hello.",)]


def test_another_process_may_look(path: Path) -> None:
    with lossless.open(path, background=False) as engine:
        engine.append(SESSION, [{"role": "user", "content": "Hello."}])
        look = "import sqlite3 as s, sys; print(*s.connect(sys.argv[1]).execute('SELECT content FROM messages'))"
        done = subprocess.run([sys.executable, "-c", look, str(path)], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "('Hello.',)"


def test_an_archive_that_is_only_read_is_refused_too(path: Path) -> None:
    lossless.open(path, background=False).close()
    with Archive.open(path, read_only=True), pytest.raises(ArchiveDenied):
        sqlite3.connect(path)


@pytest.mark.parametrize("place", [":memory:", "sql.db"])
def test_a_query_gives_rows_as_dicts(place: str, tmp_path: Path) -> None:
    with lossless.open(place if place == ":memory:" else tmp_path / place, background=False) as engine:
        engine.append(SESSION, [{"role": "user", "content": f"Number {n}."} for n in range(5)])
        found = engine.sql("SELECT seq, content FROM messages WHERE seq > :seq ORDER BY seq", {"seq": 3})
        assert found == [{"seq": 4, "content": "Number 3."}, {"seq": 5, "content": "Number 4."}]
        assert engine.sql("SELECT 1 AS a, 2 AS a, 3 AS b") == [{"a": 1, "a:1": 2, "b": 3}]
        assert engine.sql("SELECT 1 WHERE 0") == []
        assert {row["name"] for row in engine.sql("SELECT name FROM pragma_table_info('messages')")} >= {"seq", "role"}
        for wrong in (
            "DELETE FROM messages",
            "INSERT INTO messages DEFAULT VALUES",
            "ATTACH 'elsewhere.db' AS other",
            "PRAGMA journal_mode = DELETE",
            "VACUUM INTO 'copy.db'",
            "SELECT 1; DELETE FROM messages",
            "CREATE TEMP TABLE t (a)",
            "BEGIN",
        ):
            with pytest.raises(BadInput, match="only read"):
                engine.sql(wrong)
        for wrong in ("SELECT nothing FROM nowhere", "SELECT load_extension('x')", "SELECT zeroblob(1000000000)"):
            with pytest.raises(BadInput, match="cannot be run"):
                engine.sql(wrong)
        with pytest.raises(BadInput, match="more than 4 rows"):
            engine.sql("SELECT * FROM messages", limit=4)
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
        with pytest.raises(BadInput, match=r"longer than 0\.05 s"):
            engine.sql(endless, seconds=0.05)
        with pytest.raises(BadInput, match="limit must"):
            engine.sql("SELECT 1", limit=0)
        assert engine.append(SESSION, [{"role": "user", "content": "Still written."}]).stored
        assert len(engine.sql("SELECT * FROM messages")) == 6
