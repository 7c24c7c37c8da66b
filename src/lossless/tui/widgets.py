"""The pieces that screens are made of: rows to choose from, and a pane for the one that is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.widgets import DataTable, Static

from lossless.tui.words import clipped, line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from lossless.tui.reads import Detail

_NAME_WIDTH = 8


class Rows(DataTable[Text]):
    """Rows with keys; filling it again keeps the chosen row chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", "Down", show=False),
        Binding("k", "cursor_up", "Up", show=False),
    ]

    def __init__(self, *columns: str, id: str | None = None) -> None:
        super().__init__(id=id, classes="list", cursor_type="row", show_row_labels=False, cell_padding=1)
        self._names = columns
        self._filled: tuple[tuple[str, tuple[Text, ...]], ...] = ()

    def on_mount(self) -> None:
        self.add_columns(*self._names)

    @property
    def keys(self) -> list[str]:
        return [key for key, _ in self._filled]

    @property
    def chosen(self) -> str | None:
        """The key of the row under the cursor."""
        return self._filled[self.cursor_row][0] if 0 <= self.cursor_row < len(self._filled) else None

    @property
    def is_at_end(self) -> bool:
        return self.cursor_row >= len(self._filled) - 1

    def fill(self, rows: Sequence[tuple[str, tuple[Text, ...]]], choose: str | None = None) -> None:
        """Show rows; the one with the key `choose` is chosen, else the one that was, else the first."""
        if tuple(rows) == self._filled and choose is None:
            return
        wanted, top = choose or self.chosen, self.scroll_y
        is_same_start = bool(self._filled) and bool(rows) and self._filled[0][0] == rows[0][0]
        self._filled = tuple(rows)
        self.clear()
        for key, cells in rows:
            self.add_row(*cells, key=key)
        place = self.keys.index(wanted) if wanted in self.keys else 0
        self.move_cursor(row=place, animate=False, scroll=choose is not None or not is_same_start)
        if is_same_start and choose is None:
            self.scroll_to(y=top, animate=False)

    def choose(self, row: int) -> None:
        """Put the cursor on a row; -1 is the last."""
        self.move_cursor(row=row if row >= 0 else len(self._filled) + row, animate=False)


class DetailPane(VerticalScroll):
    """One thing, whole, with what is known about it."""

    can_focus = False

    def compose(self) -> ComposeResult:
        yield Static(markup=False, id="detail")

    #: What is shown.
    detail: Detail | None = None

    def show(self, detail: Detail | None) -> None:
        """Show a thing from its beginning, or nothing."""
        self.detail = detail
        self.query_one("#detail", Static).update(Text() if detail is None else drawn(detail))
        self.scroll_home(animate=False)

    def move(self, lines: int) -> None:
        """Scroll by some lines."""
        self.scroll_relative(y=lines, animate=False)


def drawn(detail: Detail) -> Text:
    """A thing as coloured text that cannot steer the terminal."""
    text = Text(end="").append(line(detail.title), "bold").append_text(facts(detail))
    if detail.text:
        text.append("\n\n" + clipped(detail.text))
    return text


def facts(detail: Detail) -> Text:
    """What is known of a thing, a line each."""
    text = Text(end="")
    for name, value in detail.facts:
        text.append(f"\n{name:<{_NAME_WIDTH}} ", "dim").append(line(value))
    return text
