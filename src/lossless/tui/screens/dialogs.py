"""Windows over a screen: a question with its preview, a text to read, a conversation to choose, the keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rich.text import Text
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from lossless.tui.screens.page import BackgroundReader, RowTable, facts_text, in_background
from lossless.tui.text import BLUE, GREEN, NOTICE, RED, clip_text, one_line, text_cell

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.events import Resize
    from textual.widget import Widget

    from lossless.tui.reads import DetailView

T = TypeVar("T")

_STYLES = {"+": GREEN, "-": RED, "!": NOTICE, "~": BLUE, "@": BLUE}
_MAX_CONVERSATIONS = 200
_FRAME_LINES, _LEAST_LINES = 6, 3
#: A longer text takes seconds to wrap.
_MAX_CHARS = 1_000_000


def diff_text(text: str) -> Text:
    """A plan or a diff: lines that come are green, lines that go are red."""
    drawn = Text(end="")
    for row in clip_text(text).splitlines(keepends=True):
        drawn.append(row, _STYLES.get(row[:1], ""))
    return drawn


class Dialog(BackgroundReader, ModalScreen[T]):
    """A window with a title, something to scroll, and a line that says which keys work."""

    def __init__(self, title: str, text: Text, keys: str) -> None:
        super().__init__()
        self._title, self._text, self._keys = title, text, keys

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text(one_line(self._title)), markup=False, classes="title")
            body = self.body()
            body.add_class("body")
            yield body
            yield Static(Text(self._keys), markup=False, classes="keys")

    def body(self) -> Widget:
        """What is scrolled."""
        return VerticalScroll(Static(self._text, markup=False, classes="text"), can_focus=False)

    def on_resize(self, event: Resize) -> None:
        """What is scrolled leaves room for the title, the keys and the border."""
        for body in self.query(".body"):
            body.styles.max_height = max(_LEAST_LINES, event.size.height - _FRAME_LINES)

    def draw(self, title: str, text: Text, keys: str) -> None:
        """Show something else."""
        self.query_one(".title", Static).update(Text(one_line(title)))
        self.query_one(".text", Static).update(text)
        self.query_one(".keys", Static).update(Text(keys))
        self.query_one(VerticalScroll).scroll_home(animate=False)

    def action_scroll(self, lines: int) -> None:
        for body in self.query(VerticalScroll):
            body.scroll_relative(y=lines, animate=False)


class ConfirmDialog(Dialog[str]):
    """A plan and a question: `yes`, `no`, or `other` when there is another choice."""

    def __init__(self, title: str, text: str, question: str, other: str = "") -> None:
        self._other = other
        more = f"   x {other}" if other else ""
        super().__init__(title, diff_text(text), f"{question}   y/Enter yes   n/Esc no{more}")

    def action_other(self) -> None:
        if self._other:
            self.dismiss("other")


class DetailDialog(Dialog[None]):
    """One thing as large as the screen; or a text with its own colours."""

    def __init__(self, detail: DetailView, coloured: Text | None = None) -> None:
        known, text = facts_text(detail)[1:], clip_text(detail.text, _MAX_CHARS)
        shown = coloured or known.append(f"\n\n{text}" if known else text)
        super().__init__(detail.title, shown, "j/k scroll   g/G ends   q/Esc close")

    def action_end(self, way: int) -> None:
        scroll = self.query_one(VerticalScroll)
        (scroll.scroll_end if way > 0 else scroll.scroll_home)(animate=False)


class InputDialog(Dialog[str | None]):
    """A line to write; None when nothing was."""

    def __init__(self, title: str, placeholder: str) -> None:
        super().__init__(title, Text(), "Enter go on   Esc cancel")
        self._placeholder = placeholder

    def body(self) -> Widget:
        return Input(placeholder=self._placeholder, select_on_focus=False)

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def on_input_submitted(self) -> None:
        self.dismiss(self.query_one(Input).value.strip() or None)


class ConversationDialog(Dialog[int | None]):
    """A conversation to choose; None when none was."""

    def __init__(self, title: str, but: int) -> None:
        super().__init__(title, Text(), "Enter choose   q/Esc cancel")
        self._but = but

    def body(self) -> Widget:
        return RowTable("id", "session", "messages", "title")

    @in_background("read")
    async def on_mount(self) -> None:
        browse, rows = self.access.browse, self.query_one(RowTable)
        found = []
        for row in (await self.read(lambda: browse.conversations(_MAX_CONVERSATIONS, by_message=True))).rows:
            if row.conversation_id != self._but and row.active:
                id_, name = str(row.conversation_id), row.session_key or row.session_id
                cells = (id_, name, f"{row.message_count:,}", row.title or "")
                found.append((id_, tuple(map(text_cell, cells))))
        rows.fill(found)
        rows.focus()

    def action_scroll(self, lines: int) -> None:
        rows = self.query_one(RowTable)
        rows.move_cursor(row=max(0, rows.cursor_row + lines), animate=False)

    def on_data_table_row_selected(self) -> None:
        chosen = self.query_one(RowTable).chosen
        self.dismiss(None if chosen is None else int(chosen))
