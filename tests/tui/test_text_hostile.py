"""Whatever was said, drawing it is safe: no control character, no markup, no turned letters, no endless line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

import lossless
from lossless.model.messages import File, Opaque, Reasoning, Text, ToolCall, ToolResult
from lossless.tui.reading import draw_lines
from lossless.tui.reads import DetailView
from lossless.tui.screens.dialogs import diff_text
from lossless.tui.screens.page import detail_view
from lossless.tui.text import LINE_CHARS, MAX_CHARS, clip_text, make_visible, one_line, share_bar, text_cell
from tests.maintenance.surgery_kit import HERE
from tests.tui.kit import HOSTILE, STEERING, Person, at, room_of
from tests.tui.rollouts import session_file

if TYPE_CHECKING:
    from pathlib import Path

ANY_TEXT = st.text(st.characters(), max_size=200) | st.sampled_from(
    [HOSTILE, "[" * 100, "\\[/]", "\r\n\t\x85\u2028", "&#27;[31m &#x202e; [a](&#27; '&#7;')", "> " * 99 + "deep"]
)


@given(ANY_TEXT)
def test_no_text_steers_the_terminal(text: str) -> None:
    assert not STEERING.search(make_visible(text))
    assert not STEERING.search(one_line(text))
    assert "\n" not in one_line(text)
    shown = DetailView(text, (("name", text),), text)
    call, result = ToolCall("c", text, {text: text}), ToolResult("c", text, text, is_error=True)
    parts = (Text(text), Reasoning(text), call, result, File({}, text, text), Opaque({}, text))
    for view in (shown, replace(shown, is_markdown=True), replace(shown, parts=parts)):
        lines = draw_lines(detail_view(view, is_dark=True), 40)
        assert not any(STEERING.search(line.text) or line.cell_length > 40 for line in lines)
    assert not STEERING.search(diff_text(text).plain)


@given(ANY_TEXT)
def test_brackets_are_no_markup(text: str) -> None:
    assert text_cell(text).plain == one_line(text)
    assert text_cell(text).spans == []


def test_long_texts_are_cut() -> None:
    assert len(one_line("x" * 10**6)) == LINE_CHARS
    shown = clip_text("y" * 10**6)
    assert len(shown) < MAX_CHARS + 100
    assert "980,000 more characters" in shown


@given(st.floats(0, 10), st.integers(1, 40))
def test_bars_are_as_wide_as_they_are(share: float, width: int) -> None:
    drawn_bar = share_bar(share, width).plain
    assert len(drawn_bar) == width
    assert ("━" in drawn_bar) == (share > 0)


def test_hostile_messages_are_shown_on_every_screen(archive: Path) -> None:
    with lossless.open(archive, background=False) as engine:
        text = HOSTILE.replace("\ud800", "")
        tool: Any = {"id": "c", "type": "function", "function": {"name": "[red]x", "arguments": '{"a": "[/]\\u001b"}'}}
        engine.append(
            HERE,
            [
                {"role": "user", "content": text + "A" * 50_000},
                {"role": "assistant", "content": text, "tool_calls": [tool]},
                {"role": "tool", "tool_call_id": "c", "content": text},
                {"role": "assistant", "content": text},
            ],
        )
        engine.surgery.focus(HERE, f"hostile {text}")

    async def do(person: Person) -> None:
        for keys in (("enter",), ("k",), ("k",), ("f",), ("q", "o"), ("q", "c", "G"), ("s",)):
            await person.press(*keys)
            assert not STEERING.search(person.seen.replace("\n", ""))
        await person.press("q", "q", "slash", *"brackets", "enter")
        assert "[bold]brackets[/bold]" in person.seen
        assert not STEERING.search(person.seen.replace("\n", ""))

    at(room_of(archive), do)


def test_hostile_transcripts_are_shown_as_well(archive: Path, tmp_path: Path) -> None:
    text = HOSTILE.replace("\ud800", "")
    session_file(tmp_path / "files", "run-here", [text, "A" * 50_000 + text])
    session_file(tmp_path / "files", "run [red]\x1b[31m", [text])

    async def do(person: Person) -> None:
        for keys in (("j", "x"), ("z",), ("q", "v"), ("z",), ("q", "q", "q", "a", "enter"), ("j", "x"), ("i",)):
            await person.press(*keys)
            assert not STEERING.search(person.seen.replace("\n", ""))
        assert person.screen == "ConfirmDialog"

    at(room_of(archive, folders=(tmp_path / "files",)), do)
