"""What somebody met who used `lcm` for the first time: names that were cut, errors that did not say what to do."""

from __future__ import annotations

import io
import re
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless.cli.screen import Screen

from .conftest import sql

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lcm

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    """A terminal that keeps what it is sent."""

    def isatty(self) -> bool:
        return True


@given(
    st.lists(st.text("abc:-_", min_size=1, max_size=70), min_size=1, max_size=4),
    st.integers(24, 120),
    st.booleans(),
)
def test_a_table_never_cuts_a_name(names: list[str], columns: int, at_terminal: bool) -> None:
    rows = [(n, "a long text " * 9, name, "2026-07-01", 1234) for n, name in enumerate(names)]
    with pytest.MonkeyPatch.context() as patch:
        out: io.StringIO = Terminal() if at_terminal else io.StringIO()
        patch.setattr(sys, "stdout", out)
        patch.setenv("COLUMNS", str(columns))
        patch.setenv("TERM", "xterm")
        table = (("#", "right"), ("text", "rest"), ("session", "key"), "last", ("messages", "right"))
        Screen("UTC").table(table, rows)
    lines = ESCAPE.sub("", out.getvalue()).splitlines()
    if at_terminal:
        assert max(map(len, lines)) <= columns
        start = lines[0].index("session")
        cells = "".join(line[start:].partition("  ")[0].strip() for line in lines[2:])
        assert cells == "".join(names)
    else:
        assert len(lines) == 1 + len(rows)
        for (n, text, name, day, count), line in zip(rows, lines[1:], strict=True):
            assert line.startswith(f"{n}  {text.strip()}")
            assert name in line
            assert line.endswith(f"{day}      {count}")


def test_a_text_of_several_lines_stays_in_its_column(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    Screen("UTC").table((("#", "right"), ("text", "rest"), "last"), [(1, "one\ntwo", "now"), (2, "x", "now")])
    assert out.getvalue().splitlines() == ["#  text  last", "1  one   now", "   two", "2  x     now"]


def test_an_export_of_a_session_that_is_not_there_writes_nothing(lcm: Lcm, archive: Path, tmp_path: Path) -> None:
    for kind in ("archive", "markdown", "lossless-claw", "remnic"):
        answer = lcm("export", kind, "-s", "agent:main:fery", tmp_path / "out")
        assert (answer.code, answer.error["code"]) == (3, "not_found")
        assert "'agent:main:ferry'" in answer.error["details"]["hint"]
        assert not (tmp_path / "out").exists()


def test_a_copy_of_a_damaged_archive_says_so(lcm: Lcm, archive: Path) -> None:
    assert "damage" not in lcm("backup").data
    ((page, size),) = sql(
        archive,
        "PRAGMA wal_checkpoint(TRUNCATE)",
        "SELECT rootpage, page_size FROM sqlite_master, pragma_page_size"
        " WHERE name = 'messages_conv_identity_hash_idx'",
    )
    pages = bytearray(archive.read_bytes())
    pages[(page - 1) * size : page * size] = b"\x55" * size
    archive.write_bytes(pages)
    answer = lcm("backup")
    assert answer.code == 1
    assert answer.envelope["data"]["damage"]
    assert "the copy has the same damage" in lcm("backup", "--format", "table").out
    shown = lcm("verify", "--format", "table")
    assert shown.code == 1
    assert "lcm verify" not in shown.out


def test_an_empty_file_is_no_archive(lcm: Lcm, home: Path) -> None:
    empty = home / "empty.db"
    empty.touch()
    (home / "a.jsonl").write_text('{"role": "user", "content": "good morning"}\n')
    for more in ((), ("--dry-run",)):
        answer = lcm("--db", empty, "append", "-s", "x", home / "a.jsonl", *more)
        assert (answer.code, answer.error["code"]) == (3, "not_found")
        assert "is empty" in answer.error["message"]
        assert "--create" in answer.error["details"]["hint"]
    assert empty.stat().st_size == 0
    assert lcm("--db", empty, "--create", "append", "-s", "x", home / "a.jsonl").data["stored"] == 1


def test_a_config_file_that_is_no_toml(lcm: Lcm, archive: Path, home: Path) -> None:
    file = home / "wrong.toml"
    file.write_text("freshTailCount = 3\nsummaryModel = = 3\n")
    for command in (("status",), ("config", "set", "freshTailCount", "4")):
        answer = lcm("--config", file, *command)
        assert (answer.code, answer.error["code"]) == (4, "bad_setting")
        assert answer.error["message"].startswith(f"the config file {file} cannot be used")
        assert "line 2" in answer.error["message"]
        assert "--config" in answer.error["details"]["hint"]


def test_a_model_is_saved_without_its_key_when_nothing_is_called(
    lcm: Lcm, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    shown = lcm("model", "use", "openai/gpt-5-mini", "--no-call")
    assert shown.code == 0
    assert "OPENAI_API_KEY" in shown.out
    assert "openai/gpt-5-mini" in (home / ".config" / "lossless" / "lossless.toml").read_text()


def test_a_plan_with_nothing_in_it_says_so(lcm: Lcm, archive: Path) -> None:
    assert "No summary is broken" in lcm("summary", "repair", "--dry-run").out
    for _ in range(2):
        planned = lcm("summary", "backfill", "--single-root", "--fresh-tail", "1", "--dry-run").out
        assert " 0 tokens" not in planned
        lcm("summary", "backfill", "--single-root", "--fresh-tail", "1", "--yes")
    assert planned.startswith("There is nothing to fold.")
    assert "--yes" not in planned
    assert "--fixed" in lcm("search", "*", "--limit", "1").out


def test_a_host_that_cannot_be_asked_is_not_ok(lcm: Lcm, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home))
    shown = lcm("connect", "claude-code", "--doctor").out
    assert "?   host          claude is not on the path" in shown
    (home / ".openclaw").mkdir()
    (home / ".openclaw" / "openclaw.json").write_text("{}")
    planned = lcm("connect", "openclaw", "--dry-run").out
    assert "`lcm disconnect`" in planned
    assert "uninstall" not in planned
