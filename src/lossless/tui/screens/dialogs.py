"""Windows over a screen: a question with its preview, a text to read, a conversation to choose, the keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar

from rich.text import Text
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from lossless.tui.screens.page import Fetching
from lossless.tui.widgets import Rows
from lossless.tui.words import cell, clipped, line

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.widget import Widget

    from lossless.store.listings import ConversationRow

T = TypeVar("T")

_STYLES = {"+": "green", "-": "red", "!": "yellow", "~": "cyan", "@": "cyan"}
_MOST_CONVERSATIONS = 200


def coloured(text: str) -> Text:
    """A plan or a diff: lines that come are green, lines that go are red."""
    drawn = Text(end="")
    for row in clipped(text).splitlines(keepends=True):
        drawn.append(row, _STYLES.get(row[:1], ""))
    return drawn


class Dialog(Fetching, ModalScreen[T]):
    """A window with a title, something to scroll, and a line that says which keys work."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "scroll(1)", "Down", show=False),
        Binding("k,up", "scroll(-1)", "Up", show=False),
        Binding("pagedown,J", "scroll(10)", "Page down", show=False),
        Binding("pageup,K", "scroll(-10)", "Page up", show=False),
    ]

    def __init__(self, title: str, text: Text, keys: str) -> None:
        super().__init__()
        self._title, self._text, self._keys = title, text, keys

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text(line(self._title)), markup=False, classes="title")
            yield self.body()
            yield Static(Text(self._keys), markup=False, classes="keys")

    def body(self) -> Widget:
        """What is scrolled."""
        return VerticalScroll(Static(self._text, markup=False, classes="text"), can_focus=False)

    def draw(self, title: str, text: Text, keys: str) -> None:
        """Show something else."""
        self.query_one(".title", Static).update(Text(line(title)))
        self.query_one(".text", Static).update(text)
        self.query_one(".keys", Static).update(Text(keys))
        self.query_one(VerticalScroll).scroll_home(animate=False)

    def action_scroll(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)


class Ask(Dialog[str]):
    """A plan and a question: `yes`, `no`, or `other` when there is another choice."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "say('yes')", "Yes"),
        Binding("n,escape,q", "say('no')", "No"),
        Binding("x", "other", "Other", show=False),
    ]

    def __init__(self, title: str, text: str, question: str, other: str = "") -> None:
        self._other = other
        more = f"   x {other}" if other else ""
        super().__init__(title, coloured(text), f"{question}   y/Enter yes   n/Esc no{more}")

    def action_say(self, word: str) -> None:
        self.dismiss(word)

    def action_other(self) -> None:
        if self._other:
            self.dismiss("other")


class Read(Dialog[None]):
    """A text to read."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,escape,enter,p", "close", "Close")]

    def __init__(self, title: str, text: Text) -> None:
        super().__init__(title, text, "j/k scroll   q/Esc close")

    def action_close(self) -> None:
        self.dismiss(None)


class Choose(Dialog[int | None]):
    """A conversation to choose; None when none was."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,escape", "close", "Close")]

    def __init__(self, title: str, but: int) -> None:
        super().__init__(title, Text(), "Enter choose   q/Esc cancel")
        self._but = but

    def body(self) -> Widget:
        return Rows("id", "session", "messages", "title")

    def on_mount(self) -> None:
        archive = self.room.archive
        self.fetch(lambda: archive.listings.conversations(_MOST_CONVERSATIONS).rows, self._fill)

    def _fill(self, found: tuple[ConversationRow, ...]) -> None:
        rows = [
            (
                str(row.conversation_id),
                (
                    cell(str(row.conversation_id)),
                    cell(row.session_key or row.session_id),
                    cell(f"{row.message_count:,}"),
                    cell(row.title or ""),
                ),
            )
            for row in found
            if row.conversation_id != self._but and row.active
        ]
        self.query_one(Rows).fill(rows)
        self.query_one(Rows).focus()

    def on_data_table_row_selected(self) -> None:
        chosen = self.query_one(Rows).chosen
        self.dismiss(None if chosen is None else int(chosen))

    def action_scroll(self, lines: int) -> None:
        rows = self.query_one(Rows)
        rows.move_cursor(row=max(0, rows.cursor_row + lines), animate=False)

    def action_close(self) -> None:
        self.dismiss(None)
