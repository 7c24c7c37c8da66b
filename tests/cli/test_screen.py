"""What a person sees at a terminal, and that no message can steer it."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

import pytest

import lossless
from lossless.cli.failures import printable
from lossless.cli.main import main
from lossless.tui.text import format_bytes, plural
from tests.forking import Fork

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lcm

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
NASTY = "\x1b[2J\x1b]0;owned\x07 [red]markup[/red] :smile: \u202eevil \x9b31m"


@pytest.fixture
def nasty(archive: Path) -> Path:
    with lossless.open(archive, background=False) as engine:
        engine.append(lossless.Session(key="nasty\x1b[31m"), [{"role": "user", "content": NASTY}])
    return archive


def at_a_terminal(*arguments: str, input: bytes = b"") -> str:
    """The output of a run on a terminal of 80 columns."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()

    def child() -> None:
        os.close(ours)
        for stream in (1, 2):
            os.dup2(theirs, stream)
        os.close(theirs)
        sys.argv = ["lcm", *arguments]
        main()

    try:
        env = os.environ | {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "40", "NO_COLOR": ""}
        with Fork(child, env) as run:
            os.close(theirs)
            run.stdin.write(input)
            run.stdin.close()
            return read_all(ours)
    finally:
        os.close(ours)


def read_all(handle: int) -> str:
    pieces = []
    while True:
        try:
            piece = os.read(handle, 65536)
        except OSError:  # how a terminal says that nobody writes any more
            break
        if not piece:
            break
        pieces.append(piece)
    return b"".join(pieces).decode()


@pytest.mark.parametrize(
    "command",
    [
        ("status",),
        ("conversations", "list"),
        ("conversations", "show", "--conversation-id", "3"),
        ("messages", "list", "--conversation-id", "3", "--include-content"),
        ("messages", "tail", "--conversation-id", "3"),
        ("messages", "show", "15"),
        ("summaries", "list", "--include-content"),
        ("summaries", "show", "sum_leaf0"),
        ("grep", "markup"),
        ("verify",),
        ("config", "show"),
    ],
    ids=" ".join,
)
def test_views_fit_and_nothing_steers_the_terminal(lcm: Lcm, nasty: Path, command: tuple[str, ...]) -> None:
    answer = lcm(*command, "--format", "table")
    assert (answer.code, answer.err) == (0, "")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", answer.out)
    in_tables = "list" in command or "config" in command  # a pipe gets all of a table
    for line in answer.out.splitlines():
        assert in_tables or len(line.rstrip()) <= 80
    if "markup" in answer.out:
        assert "[red]markup" in " ".join(answer.out.split())


def test_colour_and_tables_at_a_terminal(archive: Path) -> None:
    shown = at_a_terminal("messages", "list", "--conversation-id", "1", "--limit", "3")
    assert "\x1b[" in shown
    plain = ESCAPE.sub("", shown)
    assert "assistant says the 11th" in plain
    assert "3 shown; for more: --cursor " in plain
    assert not plain.lstrip().startswith("{")


def test_what_was_found_is_marked(archive: Path) -> None:
    shown = at_a_terminal("grep", "3th thing")
    assert re.search(r"\x1b\[[0-9;]*43m3th thing\x1b\[0m", shown)


def test_json_at_a_terminal_when_asked_for(archive: Path) -> None:
    assert at_a_terminal("status", "--format", "json").startswith('{"ok": true')


def test_an_error_at_a_terminal_is_a_sentence(archive: Path) -> None:
    plain = ESCAPE.sub("", at_a_terminal("messages", "show", "99"))
    assert plain.strip() == "Error: No message has number 99."


def test_a_long_error_is_broken_between_words(archive: Path) -> None:
    plain = ESCAPE.sub("", at_a_terminal("backup", "list"))
    assert plain.split()[:5] == ["Error:", "`lcm", "backup", "--list`", "lists"]
    assert all(len(line) <= 80 for line in plain.splitlines())
    assert "`lcm backup --help`" in plain


def test_a_list_has_titles_and_dates_beside_long_keys(archive: Path) -> None:
    with lossless.open(archive, background=False) as engine:
        session = lossless.Session(key=f"claude-code:-home-me-billing:{'1f6c7bde-' * 5}")
        engine.append(session, [{"role": "user", "content": "Why is the invoice empty?"}])
    lines = ESCAPE.sub("", at_a_terminal("list")).splitlines()
    assert lines[0].split() == ["#", "conversation", "session", "messages", "last"]
    assert any("Why is the invoice empty?" in line and "claude-co…-billing:…" in line for line in lines)


def test_long_work_shows_progress_and_clears_it(archive: Path) -> None:
    line = b'{"role": "user", "content": "hello"}\n'
    shown = at_a_terminal("append", "--session-key", "progress", input=line * 50)
    assert "50 messages stored" in shown
    assert "Storing" in shown
    checked = at_a_terminal("verify")
    assert "Checking messages" in checked
    assert ESCAPE.sub("", checked).rstrip().endswith("All is there. 64 messages, 3 summaries checked.")


def test_empty_lists_say_so(lcm: Lcm, archive: Path) -> None:
    for command in (("summaries", "list", "--conversation-id", "2"), ("grep", "nowhere to be found")):
        assert lcm(*command, "--format", "table").out == "Nothing found.\n"


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 kB"),
        (1_023_999, "1000.0 kB"),
        (1_024_000, "1.0 MB"),
        (5 << 40, "5120.0 GB"),
    ],
)
def test_sizes(size: int, shown: str) -> None:
    assert format_bytes(size) == shown


def test_nouns_are_counted() -> None:
    assert [plural(count, noun) for count, noun in ((1, "day"), (2, "day"), (2, "summary"))] == [
        "1 day", "2 days", "2 summaries",
    ]  # fmt: skip


def test_printable_keeps_what_is_harmless() -> None:
    assert printable("tab\tline\nÄ 長 👩‍👧") == "tab\tline\nÄ 長 👩‍👧"
    assert printable("\r\x1b\x7f\x85\ud800") == "␍␛␡��"
