"""What screens over a transcript file share: a window of its messages at a time, read anew when the file grows."""

from __future__ import annotations

import os
import time
from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from textual.binding import Binding

from lossless.tui.screens.page import TablePage
from lossless.tui.scrolls import Scroll
from lossless.tui.words import number, shortened

if TYPE_CHECKING:
    from pathlib import Path

    from textual.binding import BindingType

W = TypeVar("W")

#: A file that grows is read from its beginning: this takes no more than one part in so many of the time.
_PATIENCE = 10
_NAME_CHARS = 32


class Scrolled(TablePage, Generic[W]):
    """A window of a file; the newest first, which follows the file while it is written."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "older", "Older", key_display="["),
        Binding("right_square_bracket", "newer", "Newer", key_display="]"),
    ]

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self._scroll: Scroll | None = None
        #: Where the window begins; None is where the newest one does.
        self._first: int | None = None
        self._most = 0

    @abstractmethod
    def read_window(self, scroll: Scroll, first: int, size: int) -> W:
        """Read a window; not on the UI's thread."""

    @abstractmethod
    def show_window(self, found: W, choose: str | None) -> None:
        """Show a window; `choose` is `first`, `last`, or None for the row that was chosen."""

    @property
    def name_of_file(self) -> str:
        return shortened(self.path.name, _NAME_CHARS)

    @property
    def mark(self) -> object:
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return (super().mark, found.st_size, found.st_mtime_ns)

    def tick(self) -> None:
        if time.monotonic() - self._loaded_at >= _PATIENCE * self._seconds:
            super().tick()

    def complain(self, message: str) -> None:
        super().complain(message)
        if self._scroll is None and self.is_attached:
            self.where(self.name_of_file, "it cannot be read")

    # --- windows ---

    def load(self) -> None:
        if self._scroll is None:
            self.where(self.name_of_file, "reading …")
            self._turn(None, "last")
        elif self._is_newest and self.rows.is_at_end:
            self._turn(None, "last")
        else:
            self._turn(self._first, None)

    @property
    def _is_newest(self) -> bool:
        return self._scroll is None or self._first is None or self._first + self._most >= len(self._scroll)

    def _turn(self, first: int | None, choose: str | None) -> None:
        known, path, size = self._scroll, self.path, self.room.settings.tui_conversation_window_size

        def read() -> tuple[Scroll, int, W]:
            scroll = known if known is not None and known.is_current else Scroll(path)
            place = max(0, len(scroll) - size if first is None else min(first, len(scroll) - 1))
            return scroll, place, self.read_window(scroll, place, size)

        def shown(found: tuple[Scroll, int, W]) -> None:
            self._scroll, self._first, window = found
            self._most = size
            self.show_window(window, choose)

        self.reading(read, shown)

    def span(self) -> str:
        """Which messages are shown, of how many, and which way there are more."""
        if self._scroll is None or self._first is None or not len(self._scroll):
            return "no messages"
        last = min(len(self._scroll), self._first + self._most)
        older, newer = "[ older  " if self._first else "", "" if self._is_newest else "  newer ]"
        return f"{older}{number(self._first + 1)} … {number(last)} of {number(len(self._scroll))}{newer}"

    # --- keys ---

    def action_older(self) -> None:
        if self._first:
            self._turn(self._first - self._most, "last")

    def action_newer(self) -> None:
        if self._first is not None and not self._is_newest:
            self._turn(self._first + self._most, "first")

    def action_top(self) -> None:
        """The first row; from there, the first message."""
        if self.rows.cursor_row == 0 and self._first:
            self._turn(0, "first")
        else:
            self.rows.choose(0)

    def action_bottom(self) -> None:
        """The last row; from there, the last message."""
        if self.rows.is_at_end and not self._is_newest:
            self._turn(None, "last")
        else:
            self.rows.choose(-1)
