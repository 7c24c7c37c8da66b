"""Reading a conversation: Markdown, days, folded tool calls, two panes, copying and recalling."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lossless
from lossless.testing import VirtualClock
from lossless.tui.reading import draw_lines, markdown
from lossless.tui.screens.reader import ReadingPane
from lossless.tui.text import LocalTimes
from tests.tui.kit import Person, at, room_of

if TYPE_CHECKING:
    from pathlib import Path

NOW = VirtualClock()()
ANSWER = "## Why it fails\n\nThe worker **polls** the queue.\n\n```python\nwakeup.set()\n```\n\n<b>Not</b> hidden."
MARKS = (
    "",
    "# ",
    "*",
    "**",
    "_",
    "~~",
    "> ",
    "- ",
    "1. ",
    "[",
    "](",
    ")",
    "<",
    ">",
    "!",
    "\\\\",
    "\n",
    "\n\n",
    "    ",
    "===",
)


def call(id_: str, name: str, **arguments: str) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


@pytest.fixture
def flaky(tmp_path: Path) -> Path:
    """A question of last year, and an answer of today that needed a tool."""
    path = tmp_path / "lcm.db"
    said: list[tuple[dict[str, Any], datetime]] = [
        ({"role": "user", "content": "# Why is the checkout test flaky?"}, NOW - timedelta(days=400)),
        ({"role": "assistant", "content": "", "tool_calls": [call("c1", "Bash", command="pytest -x")]}, NOW),
        ({"role": "tool", "tool_call_id": "c1", "content": "order 8812 timed out\n3 failed"}, NOW),
        ({"role": "assistant", "content": ANSWER}, NOW),
    ]
    with lossless.open(path, clock=VirtualClock(), background=False) as engine:
        engine.append(
            lossless.Session(key="agent:main:flaky"),
            [lossless.Incoming(message, f"e{n}", when) for n, (message, when) in enumerate(said)],
        )
    return path


@given(st.lists(st.tuples(st.sampled_from(MARKS), st.text("abcdefgh", min_size=1, max_size=8)), max_size=25))
def test_markdown_leaves_no_word_out(pieces: list[tuple[str, str]]) -> None:
    text = "".join(f"{mark}{word}{' ' if n % 2 else mark.strip()}" for n, (mark, word) in enumerate(pieces))
    drawn = draw_lines(markdown(text, is_dark=True), 60)
    letters = "".join(letter for line in drawn for letter in line.text if letter in "abcdefgh")
    assert [word for _, word in pieces if word not in letters] == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<p>hidden</p>", "<p>hidden</p>"),
        ("&lt;kept&gt;", "&lt;kept&gt;"),
        ("[ref]: https://a.example", "[ref]: https://a.example"),
        ("![alt](b.png)", "!alt (b.png)"),
        ("one\\ntwo", "one\\ntwo"),
        ("> " * 40 + "deep", "> " * 40 + "deep"),
    ],
)
def test_what_other_renderers_hide_is_shown(text: str, shown: str) -> None:
    assert "\\n".join(line.text.rstrip() for line in draw_lines(markdown(text, is_dark=False), 100)) == shown


def test_a_conversation_is_read_copied_and_asked(flaky: Path) -> None:
    """Tool calls are folded until they are asked for; a day has its year where it is not this one."""

    async def do(person: Person) -> None:
        await person.press("y")
        assert person.app.clipboard == "agent:main:flaky"
        await person.press("enter", "y")
        assert person.app.clipboard == ANSWER
        assert f"Copied {len(ANSWER)} characters." in person.told
        assert "Why is the checkout test flaky?" in person.seen
        assert ("▸ Bash  pytest -x" in person.seen, "▸ Bash result  2 lines" in person.seen) == (True, True)
        assert "3 failed" in person.seen.split("Bash result")[1].split("\n")[0]
        assert "**" not in person.reading
        assert "##" not in person.reading
        assert "<b>Not</b> hidden." in person.reading
        await person.press("k", "space")
        assert person.reading.startswith("▾ Bash result")
        assert "3 failed" in person.reading.splitlines()[2]
        await person.press("space", "k")
        assert "▸ Bash result" in person.seen
        await person.press("t")
        assert "▾ Bash" in person.reading
        assert '"command": "pytest -x"' in person.reading
        assert "▾ Bash result" in person.seen
        await person.press("t", "g")
        times = LocalTimes("UTC", VirtualClock())
        old, new = times.day(NOW - timedelta(days=400)), times.day(NOW)
        assert (f"── {old} ─" in person.seen, f"── {new} ─" in person.seen) == (True, True)
        assert (old[-4:].isdigit(), new[-4:].isdigit()) == (True, False)
        await person.press("q", "e", *"what polls the queue", "enter")
        assert "question in all conversations" in person.where
        assert "The worker **polls** the queue." in person.detail
        await person.press("enter")
        assert (person.screen, "polls" in person.reading) == ("ConversationScreen", True)

    at(room_of(flaky), do)
    times = LocalTimes("UTC", lambda: datetime(2026, 11, 16, tzinfo=UTC))
    assert times.short(datetime(2026, 3, 5, 8, 12, tzinfo=UTC)) == " 5 Mar 08:12"
    assert times.short(datetime(2024, 5, 30, 8, 12, tzinfo=UTC)) == "30 May  2024"


def test_wide_terminals_have_two_panes(flaky: Path) -> None:
    async def do(person: Person) -> None:
        assert "Why it fails" in person.seen.replace("## Why it fails", "")
        await person.press("enter", "k")
        line = next(line for line in person.seen.split("\n") if "▸ Bash result" in line)
        assert "Bash result" in line[line.index("││") :]
        await person.press("tab", "k")
        assert isinstance(person.app.focused, ReadingPane)
        assert "▸ Bash  pytest -x" in person.reading
        await person.resize(80, 24)
        assert not person.rows.display
        await person.press("k")
        assert person.rows.chosen == "1"
        await person.press("q")
        assert not person.one("ReadingPane").display
        await person.resize(120, 40)
        assert "Why it fails" in person.seen.replace("## Why it fails", "")

    at(room_of(flaky), do, (120, 40))
