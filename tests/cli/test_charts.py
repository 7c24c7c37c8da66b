"""`lcm graph` and `lcm tui`, and the charts of `lcm context` and `lcm cost`."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

import lossless
from tests.maintenance.surgery_kit import BUDGET, HERE, settings, talk

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Lcm


def test_a_graph_is_drawn_as_svg_and_as_dot(lcm: Lcm, archive: Path, tmp_path: Path) -> None:
    file = tmp_path / "graph.svg"
    data = lcm("graph", file, "--conversation-id", 1).data
    assert (data["language"], data["summaries"], data["edges"]) == ("svg", 3, 2)
    assert data["depths"][0] == {"depth": 1, "summaries": 1, "tokens": 3, "inContext": 1, "tokensInContext": 3}
    assert "sum_root" in file.read_text()
    ElementTree.parse(file)
    assert lcm("graph", tmp_path / "graph.dot", "--conversation-id", 1).data["language"] == "dot"
    assert '"sum_root" -> "sum_leaf0";' in (tmp_path / "graph.dot").read_text()
    printed = lcm("graph", "-", "--as", "dot", "--conversation-id", 1)
    assert printed.out == (tmp_path / "graph.dot").read_text()
    seen = lcm("graph", file, "--overwrite", "--conversation-id", 1, "--format", "table").out
    assert "3 summaries drawn" in seen
    assert "depth  summaries  tokens" in seen


def test_a_graph_needs_a_conversation_and_a_place(lcm: Lcm, archive: Path, tmp_path: Path) -> None:
    assert lcm("graph", tmp_path / "g.svg").code == 2
    assert lcm("graph", tmp_path / "g.svg", "--conversation-id", 9).code == 3
    assert lcm("graph", tmp_path / "none" / "g.svg", "--conversation-id", 1).error["code"] == "not_written"


@pytest.mark.parametrize("name", ["g.png", "g.PDF", "g.svgz", "a.b"])
def test_a_graph_is_not_written_under_the_name_of_something_else(
    lcm: Lcm, archive: Path, tmp_path: Path, name: str
) -> None:
    refused = lcm("graph", tmp_path / name, "--conversation-id", 1)
    assert refused.code == 2
    assert ".svg, .dot, .gv" in refused.error["message"]
    assert not (tmp_path / name).exists()
    assert lcm("graph", tmp_path / name, "--conversation-id", 1, "--as", "svg").data["language"] == "svg"
    assert lcm("graph", tmp_path / "bare", "--conversation-id", 1).data["language"] == "svg"


def test_a_graph_is_whole_or_not_there(lcm: Lcm, archive: Path, tmp_path: Path) -> None:
    file, link = tmp_path / "g.svg", tmp_path / "link.svg"
    file.write_text("an older picture")
    link.symlink_to(file)
    assert "already exists" in lcm("graph", link, "--conversation-id", 1).error["message"]
    assert file.read_text() == "an older picture"
    assert lcm("graph", link, "--overwrite", "--conversation-id", 1).code == 0
    assert link.is_symlink()
    ElementTree.parse(file)
    assert file.stat().st_mode & 0o077 == 0o044 & ~_umask()
    assert lcm("graph", "/dev/full", "--conversation-id", 1, "--as", "svg").error["code"] == "not_written"
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".tmp"]


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("command", [("graph",), ("tui", "--screenshot")])
def test_no_picture_takes_the_place_of_the_archive(
    lcm: Lcm, archive: Path, tmp_path: Path, command: tuple[str, ...], ending: str
) -> None:
    options = ("--as", "svg", "--conversation-id", 1) if command == ("graph",) else ()
    with lossless.open(archive, background=False):
        place = archive.with_name(archive.name + ending)
        before = place.stat().st_ino if place.exists() else None
        link = tmp_path / "link.svg"
        link.symlink_to(place)
        for name in (place, link):
            refused = lcm("--db", archive, *command, name, "--overwrite", *options)
            assert (refused.code, refused.error["code"]) == (2, "bad_input")
            assert "choose another name" in refused.error["message"]
        assert (place.stat().st_ino if place.exists() else None) == before


def test_a_screenshot_says_where_it_is_and_replaces_nothing_unasked(lcm: Lcm, archive: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.svg"
    assert lcm("tui", "--screenshot", file, "--json").data == {"path": str(file)}
    file.write_text("mine")
    assert "already exists" in lcm("tui", "--screenshot", file).error["message"]
    assert file.read_text() == "mine"
    assert str(file) in lcm("tui", "--screenshot", file, "--overwrite", "--format", "table").out.replace("\n", "")
    ElementTree.parse(file)
    assert lcm("tui", "--overwrite").code == 2


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def test_one_change_is_no_chart_and_models_keep_their_names(lcm: Lcm, archive: Path) -> None:
    from .conftest import sql

    call = (
        "INSERT INTO spend_ledger (scope, kind, at, result, conversation_id, purpose, model, input_tokens, "
        "output_tokens, cost) VALUES ('x', 'call', '{}T10:00:00.000Z', 'done', 1, 'leaf', 'claude-sonnet', 900, 90, {})"
    )
    sql(archive, *(call.format(day, cost) for day, cost in (("2026-02-01", "'0.01'"), ("2026-02-03", "NULL"))))
    seen = lcm("cost", "--format", "table").out
    assert "claude-sonnet" in seen
    assert "at least $0.0100" in seen
    assert "Tokens read and written by models, by day, at most 990 tokens" in seen
    assert all(len(line) <= 80 for line in seen.splitlines())
    assert "Context before and after" not in lcm("context", "--conversation-id", 1, "--format", "table").out


def test_contexts_and_costs_are_charts_over_time(lcm: Lcm, tmp_path: Path) -> None:
    path = tmp_path / "lcm.db"
    with lossless.open(path, settings(), background=False) as engine:
        for n in range(3):
            engine.append(HERE, talk(30, first=30 * n))
            engine.compact(HERE, budget=BUDGET, force=True)
    history = lcm("--db", path, "context", "--conversation-id", 1).data["history"]
    assert {"at", "action", "tokensBefore", "tokensAfter"} == set(history[0])
    seen = lcm("--db", path, "context", "--conversation-id", 1, "--format", "table").out
    assert "Context before and after" in seen
    assert "▁" in seen or "█" in seen
    days = lcm("--db", path, "cost").data["days"]
    assert sum(day["savedTokens"] for day in days) > 0
    assert lcm("--db", path, "cost", "--format", "table").code == 0


def test_days_without_anything_are_part_of_the_axis(lcm: Lcm, tmp_path: Path) -> None:
    from lossless.testing import VirtualClock

    path, clock = tmp_path / "lcm.db", VirtualClock()
    with lossless.open(path, settings(), clock=clock, background=False) as engine:
        for n in range(2):
            engine.append(HERE, talk(30, first=30 * n))
            engine.compact(HERE, budget=BUDGET, force=True)
            clock.advance(days=3)
    days = lcm("--db", path, "cost").data["days"]
    assert [day["day"] for day in days] == [f"2026-01-0{n}" for n in range(5, 9)]
    assert days[1]["folds"] == 0
    assert "Tokens that folds took out" in lcm("--db", path, "cost", "--format", "table").out


def test_a_screenshot_needs_no_terminal(lcm: Lcm, archive: Path, tmp_path: Path) -> None:
    assert lcm("tui", "--screenshot", tmp_path / "a.svg", "--press", "down,s").code == 0
    assert "Summaries" in (tmp_path / "a.svg").read_text()
    assert lcm("tui", "--press", "s").code == 2
    assert lcm("tui", "--screenshot", tmp_path / "none" / "a.svg").error["code"] == "not_written"


def test_without_a_terminal_it_says_so(lcm: Lcm, archive: Path) -> None:
    assert lcm("tui").error["code"] == "no_terminal"
    assert lcm("--db", archive.parent / "none.db", "tui").code == 3


def test_without_the_extra_it_says_how_to_get_it(lcm: Lcm, archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "textual", None)
    error = lcm("tui").error
    assert error["code"] == "missing_extra"
    assert "lossless[tui]" in error["details"]["hint"]


@pytest.mark.skipif(not hasattr(pty, "openpty"), reason="needs a pseudo-terminal")
def test_at_a_real_terminal_it_opens_and_quits(archive: Path, tmp_path: Path) -> None:
    """The whole command in a terminal of its own: it draws, it leaves, it says nothing on the way out."""
    main, far = pty.openpty()
    environment = os.environ | {
        "TERM": "xterm-256color",
        "COLUMNS": "80",
        "LINES": "24",
        "LCM_DATABASE_PATH": str(archive),
    }
    command = [sys.executable, "-m", "lossless.cli.main", "tui"]
    process = subprocess.Popen(command, stdin=far, stdout=far, stderr=far, env=environment, close_fds=True)
    os.close(far)
    seen = b""

    def read_until(wanted: bytes, seconds: float = 60.0) -> bytes:
        nonlocal seen
        until = time.monotonic() + seconds
        while wanted not in seen and time.monotonic() < until:
            if select.select([main], [], [], 0.1)[0]:
                try:
                    seen += os.read(main, 65_536)
                except OSError:  # the other end is closed
                    break
        return seen

    try:
        assert b"Conversations" in read_until(b"Conversations")
        os.write(main, b"q")
        read_until(b"never written")
        assert process.wait(60) == 0
        assert b"Traceback" not in seen
    finally:
        process.kill()
        process.wait()
        os.close(main)
