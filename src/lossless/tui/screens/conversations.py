"""The list of all conversations, and one conversation to read, a window of messages at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal

from rich.text import Text
from textual.containers import Vertical

from lossless.tui import reads, screens
from lossless.tui.reads import DetailView, MessageWindow
from lossless.tui.screens.page import SCROLL_LINES, Cell, PaneScreen, WindowScreen, in_background
from lossless.tui.screens.reader import ReadingPane
from lossless.tui.text import (
    WIDE_COLUMNS,
    home_path,
    one_line,
    plural,
    right_cell,
    role_cell,
    shorten_middle,
    text_cell,
)

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.events import Resize

    from lossless.maintenance.browse import Browse
    from lossless.model.records import ConversationRow, MessageRow, Page


_LAST = 2**62
_NAME_CHARS = 44
#: So many of the newest messages of a conversation can be read next to the list.
_PREVIEW = 30


class SessionsScreen(PaneScreen):
    """Conversations, in batches of fifty; the next batch comes when the cursor reaches the end.

    Where there is room, the newest messages of the chosen one stand next to the list.
    """

    COLUMNS = ("#", "title", "messages", "last")
    WIDE_COLUMN = "title"
    LIST_TITLE = "Conversations"
    PANE_TITLE = "About"

    def __init__(self) -> None:
        super().__init__()
        self._titles: dict[int, str] = {}

    def side_panes(self) -> ComposeResult:
        with Vertical(id="side"):
            yield from super().side_panes()
            yield ReadingPane()

    @property
    def reader(self) -> ReadingPane:
        return self.query_one(ReadingPane)

    def meant_conversation(self) -> int | None:
        return None if self.rows.chosen is None else int(self.rows.chosen)

    @in_background("read")
    async def load(self) -> None:
        browse, wanted, known = self.access.browse, self.wanted, self._titles

        def read() -> tuple[Page[ConversationRow], dict[int, str]]:
            page = browse.conversations(wanted, by_message=True)
            new = [row for row in page.rows if row.title or not known.get(row.conversation_id)]
            return page, reads.titles(browse, new)

        page, titles = await self.read_list(read)
        self._titles |= titles
        self.has_more = page.next is not None
        counted = plural(len(page.rows), "conversation") + (" and more" if self.has_more else "")
        self.where("lcm", home_path(self.access.path), counted)
        rows = {str(row.conversation_id): row for row in page.rows}
        self.show_rows(rows, "The archive is empty.", "Press a to list session files to import.")
        if self._shown is not None and self._shown == self.rows.chosen:
            self._preview(rows[self._shown])

    def cells(self, row: ConversationRow) -> tuple[Cell, ...]:
        title = text_cell(self._titles.get(row.conversation_id) or "(no messages)", "" if row.active else "dim")
        number, count = right_cell(str(row.conversation_id), 3), right_cell(row.message_count, 8)
        return number, title, count, row.latest_message_at or row.updated_at

    def highlighted(self, one: ConversationRow) -> None:
        self.pane.show(self.detail(one))
        self._preview(one)

    def detail(self, one: ConversationRow) -> DetailView:
        row, times = one, self.lcm.times
        sums = f"{row.summary_count:,}, {row.summary_tokens:,} tokens, depth {row.max_summary_depth}"
        facts = (
            ("session", shorten_middle(row.session_key or "", _NAME_CHARS)),
            ("run", row.session_id),
            ("messages", f"{row.message_count:,}, {row.message_tokens:,} tokens"),
            ("from", f"{times.minute(row.earliest_message_at)} to {times.minute(row.latest_message_at)}"),
            ("summaries", sums if row.summary_count else ""),
            ("context", f"{plural(row.context_items, 'item')}, {row.context_tokens:,} tokens"),
            ("state", "active" if row.active else f"closed: {row.archive_cause or 'archived'}"),
        )
        title = f"Conversation {row.conversation_id}"
        if not self.reader.display:
            title += f"  {self._titles.get(row.conversation_id, '')}"
        return DetailView(title, facts)

    @in_background("preview")
    async def _preview(self, row: ConversationRow) -> None:
        """Show the end of a conversation, where there is room for it."""
        if self.app.size.width < WIDE_COLUMNS:
            return
        browse, id_ = self.access.browse, row.conversation_id
        window = await self.read(lambda: reads.older_messages(browse, id_, _PREVIEW))
        self.reader.border_title = Text(one_line(self._titles.get(id_, "")))
        self.reader.show(window.rows, None)

    def on_resize(self) -> None:
        if self.chosen is not None:
            self._preview(self.chosen)

    def action_scroll_detail(self, way: int) -> None:
        if self.reader.display:
            self.reader.scroll_lines(way * SCROLL_LINES)
        else:
            super().action_scroll_detail(way)

    @in_background("plan")
    async def action_copy(self) -> None:
        if self.chosen is not None:
            self.copy(self.chosen.session_key or self.chosen.session_id)

    def selected(self, one: ConversationRow) -> None:
        self.app.push_screen(ConversationScreen(one.conversation_id))

    def action_agents(self) -> None:
        self.app.push_screen(screens.session_files.AgentsScreen())


class ConversationScreen(WindowScreen):
    """A conversation to read; the newest window first, which follows the conversation while it goes on.

    Where there is room, a list of the messages stands next to their texts.
    """

    AUTO_FOCUS = ""
    conversation_id: int
    COLUMNS = ("time", "role", "text")
    LIST_TITLE = "Messages"

    def __init__(self, conversation_id: int, message_id: int | None = None) -> None:
        super().__init__(conversation_id)
        self._window = reads.MessageWindow((), has_older=False, has_newer=False)
        self._aim = message_id

    def side_panes(self) -> ComposeResult:
        yield ReadingPane()

    @property
    def reader(self) -> ReadingPane:
        return self.query_one(ReadingPane)

    def on_mount(self) -> None:
        super().on_mount()
        self._name_it()

    @in_background("title")
    async def _name_it(self) -> None:
        browse, id_ = self.access.browse, self.conversation_id

        def read() -> str:
            row = browse.conversation(id_)
            return "" if row is None else reads.titles(browse, [row])[id_]

        self.reader.border_title = Text(one_line(await self.read(read)))

    def on_resize(self, event: Resize) -> None:
        """Keys go to the list, and to the text where there is no list."""
        self.rows.display = event.size.width >= WIDE_COLUMNS

        def focus() -> None:
            if self.focused is None or not self.focused.display:
                (self.rows if self.rows.display else self.reader).focus()

        self.call_after_refresh(focus)

    def load(self) -> None:
        if (aim := self._aim) is not None:
            self._turn(partial(reads.messages_around, message_id=aim), f"{aim}")
            self._aim = None
        elif not self._window.rows:
            self.turn("last")
        elif not self.has_newer:
            follows = self.rows.is_at_end and self.reader.is_following
            self._turn(reads.older_messages, _LAST if follows else None)
        else:
            self._turn(partial(reads.newer_messages, seq=self._window.rows[0].seq - 1), None)

    def turn(self, way: Literal["first", "older", "newer", "last"]) -> None:
        first, last = (self._window.rows[0].seq, self._window.rows[-1].seq) if self._window.rows else (0, 0)
        turns: dict[str, tuple[Callable[[Browse, int, int], MessageWindow], int]] = {
            "first": (reads.newer_messages, 0),
            "older": (partial(reads.older_messages, seq=first), first),
            "newer": (partial(reads.newer_messages, seq=last), 0),
            "last": (reads.older_messages, _LAST),
        }
        self._turn(*turns[way])

    @in_background("read")
    async def _turn(self, read: Callable[[Browse, int, int], MessageWindow], choose: str | int | None) -> None:
        """Show another window, and choose a key, the last row before a seq (else the first), or the one that was."""
        browse, id_, size = self.access.browse, self.conversation_id, self.access.settings.tui_conversation_window_size
        window = await self.read_list(lambda: read(browse, id_, size))
        was, self._window = self._window, window
        self.has_older, self.has_newer = window.has_older, window.has_newer
        if isinstance(choose, int):
            rows = [row for row in window.rows if row.seq < choose] or window.rows[:1]
            choose = str(rows[-1].message_id) if rows else None
        if window.rows != was.rows or choose is not None:
            self.show_rows({str(row.message_id): row for row in window.rows}, choose=choose)
            self.reader.show(window.rows, self.rows.chosen)
        ends = [f"{row.seq:,}" for row in (*window.rows[:1], *window.rows[-1:])]
        span = f"messages {' … '.join(ends)}" if ends else "no messages"
        more = [key for key, has in (("[ older", window.has_older), ("] newer", window.has_newer)) if has]
        self.where(f"Conversation {self.conversation_id}", span, *more)

    def cells(self, row: MessageRow) -> tuple[Cell, ...]:
        tools = f"⚙ {', '.join(row.tools)} " if row.tools else ""
        at = text_cell(self.lcm.times.clock_time(row.created_at), "dim")
        return at, role_cell(row.role), tools + reads.without_marks(row.content)

    def highlighted(self, one: MessageRow) -> None:
        self.reader.choose(str(one.message_id))

    def on_reading_pane_moved(self, event: ReadingPane.Moved) -> None:
        if event.key is None:
            self.action_newer() if event.way > 0 else self.action_older()
        elif event.key in self.rows.keys:
            self.rows.choose(self.rows.keys.index(event.key))

    def _read_chosen(self) -> DetailView:
        return reads.message_detail(self.access.browse, int(self.rows.chosen or 0), self.lcm.times)

    def action_whole(self) -> None:
        if self.rows.chosen is not None:
            self.open_dialog(self._read_chosen)

    @in_background("plan")
    async def action_copy(self) -> None:
        if self.rows.chosen is not None:
            self.copy((await self.read(self._read_chosen)).text)

    def action_fold(self, everything: bool) -> None:
        self.reader.fold(everything=everything)

    def action_scroll_detail(self, way: int) -> None:
        self.reader.scroll_lines(way * SCROLL_LINES)
