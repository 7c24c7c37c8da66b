"""One conversation, a window of messages at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding

from lossless.tui import reads
from lossless.tui.screens.located import Located
from lossless.tui.words import cell, number, right, role

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.text import Text
    from textual.binding import BindingType

    from lossless.store.archive import Archive
    from lossless.store.listings import MessageRow
    from lossless.tui.reads import Window


class Conversation(Located):
    """The newest window first, which follows the conversation while it goes on."""

    COLUMNS = ("seq", "role", "said", "tokens", "text")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "older", "Older", key_display="["),
        Binding("right_square_bracket", "newer", "Newer", key_display="]"),
        Binding("l,s", "summaries", "Summaries", key_display="s"),
        Binding("c", "context", "Context"),
        Binding("f", "files", "Files"),
        Binding("o", "focus_briefs", "Focus"),
    ]

    def __init__(self, conversation_id: int, message_id: int | None = None) -> None:
        super().__init__()
        self.conversation_id: int = conversation_id
        self._window = reads.Window((), has_older=False, has_newer=False)
        self._aim = message_id

    @property
    def _window_size(self) -> int:
        return self.room.settings.tui_conversation_window_size

    # --- windows ---

    def load(self) -> None:
        id_, size, aim = self.conversation_id, self._window_size, self._aim
        if aim is not None:
            self._turn(lambda archive: reads.around(archive, id_, aim, size), choose=f"{aim}")
            self._aim = None
        elif not self._window.rows:
            self._turn(lambda archive: reads.newest(archive, id_, size), choose="last")
        elif not self._window.has_newer:
            follows = self.rows.is_at_end
            self._turn(lambda archive: reads.newest(archive, id_, size), choose="last" if follows else None)
        else:
            seq = self._window.rows[0].seq
            self._turn(lambda archive: reads.newer(archive, id_, seq - 1, size), choose=None)

    def _turn(self, read: Callable[[Archive], Window], choose: str | None) -> None:
        """Show another window; `choose` is a key, `first`, `last`, `before 7`, or None for the row that was chosen."""
        archive = self.room.archive
        self.reading(lambda: read(archive), lambda window: self._show(window, choose))

    def _show(self, window: Window, choose: str | None) -> None:
        was, self._window = self._window, window
        if window.rows and choose is not None and not choose.isdigit():
            choose = _key(window, choose)
        if window.rows != was.rows or choose is not None:
            self.rows.fill([(str(row.message_id), self._cells(row)) for row in window.rows], choose)
        older = "[ older  " if window.has_older else ""
        newer = "  newer ]" if window.has_newer else ""
        span = f"{number(window.rows[0].seq)} … {number(window.rows[-1].seq)}" if window.rows else "no messages"
        self.where(f"Conversation {self.conversation_id}", f"{older}{span}{newer}")

    def _cells(self, row: MessageRow) -> tuple[Text, ...]:
        tools = f"⚙ {', '.join(row.tools)} " if row.tools else ""
        return (
            right(str(row.seq), 5),
            role(row.role),
            cell(self.lcm.times.short(row.created_at), "dim"),
            right(row.token_count, 6),
            cell(f"{tools}{row.content}"),
        )

    def highlighted(self, key: str) -> None:
        archive, times = self.room.archive, self.lcm.times
        self.open_detail(lambda: reads.message(archive, int(key), times))

    # --- keys ---

    def action_older(self) -> None:
        if self._window.has_older:
            id_, size, seq = self.conversation_id, self._window_size, self._window.rows[0].seq
            self._turn(lambda archive: reads.older(archive, id_, seq, size), choose=f"before {seq}")

    def action_newer(self) -> None:
        if self._window.has_newer:
            id_, size, seq = self.conversation_id, self._window_size, self._window.rows[-1].seq
            self._turn(lambda archive: reads.newer(archive, id_, seq, size), choose="first")

    def action_top(self) -> None:
        """The first row; from there, the first message."""
        id_, size = self.conversation_id, self._window_size
        if self.rows.cursor_row == 0 and self._window.has_older:
            self._turn(lambda archive: reads.oldest(archive, id_, size), choose="first")
        else:
            self.rows.choose(0)

    def action_bottom(self) -> None:
        """The last row; from there, the last message."""
        id_, size = self.conversation_id, self._window_size
        if self.rows.is_at_end and self._window.has_newer:
            self._turn(lambda archive: reads.newest(archive, id_, size), choose="last")
        else:
            self.rows.choose(-1)

    def action_summaries(self) -> None:
        from lossless.tui.screens.dag import Dag

        self.app.push_screen(Dag(self.conversation_id))

    def action_context(self) -> None:
        from lossless.tui.screens.context import Context

        self.app.push_screen(Context(self.conversation_id))

    def action_files(self) -> None:
        from lossless.tui.screens.files import LargeFiles

        self.app.push_screen(LargeFiles(self.conversation_id))

    def action_focus_briefs(self) -> None:
        from lossless.tui.screens.focus import FocusBriefs

        self.app.push_screen(FocusBriefs(self.conversation_id))


def _key(window: Window, place: str) -> str:
    """The row that is meant by `first`, `last` or `before 7`."""
    if place == "first":
        return str(window.rows[0].message_id)
    seq = 2**62 if place == "last" else int(place.removeprefix("before "))
    earlier = [row for row in window.rows if row.seq < seq]
    return str((earlier or window.rows)[-1].message_id)
