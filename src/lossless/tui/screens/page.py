"""What all screens share: a list with a detail pane, keys that work everywhere, and reading in a background thread."""

from __future__ import annotations

import asyncio
import time
import tomllib
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, ParamSpec, TypeAlias, TypeVar, cast

from rich.console import Group, RenderableType
from rich.text import Text
from textual import work
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, VerticalScroll
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import DataTable, Footer, Static
from textual.worker import Worker, WorkerState

from lossless.errors import LosslessError
from lossless.tui import reads, screens
from lossless.tui.reading import markdown, parts_view
from lossless.tui.session_files import find_transcript
from lossless.tui.text import clip_text, make_visible, one_line, text_cell

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from lossless.tui.app import TerminalApp
    from lossless.tui.archive import ArchiveAccess
    from lossless.tui.reads import DetailView

#: What stands in a table: a text on one line, plain or drawn, or a time, which may be unknown.
Cell: TypeAlias = "Text | str | datetime | None"
_NAME_WIDTH = 9
_LEAST_WIDTH = 12
#: A pane shows so much of a text with its Markdown; `z` shows all of it.
_PANE_CHARS = 8_000
#: So many rows are read at first where there may be many; more of them when the cursor comes to the last.
BATCH = 50


_KEYS = tomllib.loads(Path(__file__).parents[1].joinpath("keys.toml").read_text("utf-8"))


def bindings(name: str) -> list[BindingType]:
    """The keys of a screen, a list or a dialog, from `keys.toml`."""
    return [
        Binding(key, action, about, bool(shown), "".join(shown) or None, priority=key.startswith("ctrl+"))
        for key, (action, about, *shown) in _KEYS.get(name, {}).items()
    ]


class RowTable(DataTable[Text]):
    """Rows with keys; filling it again keeps the chosen row chosen."""

    BINDINGS = bindings("list")

    def __init__(self, *columns: str, wide: str = "") -> None:
        super().__init__(classes="list", cursor_type="row", show_row_labels=False, cell_padding=1)
        self._names = columns
        #: The column that takes the room that the others leave; the last one unless it is named.
        self._wide = columns.index(wide) if wide else len(columns) - 1
        self._filled: tuple[tuple[str, tuple[Text, ...]], ...] = ()

    def on_mount(self) -> None:
        self.add_columns(*self._names)

    def on_resize(self) -> None:
        self._share_width()

    def _share_width(self) -> None:
        """Give the wide column what the others leave, so that long texts end with an ellipsis."""
        columns = self.ordered_columns
        if not columns or not self.size.width:
            return
        taken = 0
        for place, column in enumerate(columns):
            cells = [cells[place].cell_len for _, cells in self._filled]
            if place != self._wide:
                column.auto_width, column.width = False, max([len(self._names[place]), *cells])
                taken += column.get_render_width(self)
        wide = columns[self._wide]
        space_left = self.scrollable_content_region.width - taken - 2 * self.cell_padding
        wide.auto_width, wide.width = False, max(_LEAST_WIDTH, space_left)
        self._require_update_dimensions = True
        self._clear_caches()
        self.refresh()

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
        self._share_width()
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
    detail: DetailView | None = None

    def show(self, detail: DetailView | None) -> None:
        """Show a thing from its beginning, or nothing."""
        self.detail = detail
        view = Text() if detail is None else detail_view(detail, is_dark=self.app.current_theme.dark)
        self.query_one("#detail", Static).update(view)
        self.scroll_home(animate=False)


def detail_view(detail: DetailView, *, is_dark: bool) -> RenderableType:
    """A thing as it is read: what is known about it, then its text; nothing in it can steer the terminal."""
    head = Text().append(one_line(detail.title), "bold")
    if not detail.text:
        return head.append_text(facts_text(detail))
    if facts := [Text(f"{name} ", "dim").append(one_line(value), "not dim") for name, value in detail.known]:
        head.append("\n").append_text(Text("   ").join(facts))
    if detail.parts:
        return Group(head, Text(), parts_view(detail.parts, is_dark=is_dark, limit=_PANE_CHARS))
    if detail.is_markdown:
        return Group(head, Text(), markdown(detail.text, is_dark=is_dark, limit=_PANE_CHARS))
    return head.append("\n\n" + clip_text(detail.text))


def facts_text(detail: DetailView) -> Text:
    """What is known of a thing, a line each."""
    text = Text(end="")
    for name, value in detail.known:
        text.append(f"\n{name:<{_NAME_WIDTH}} ", "dim").append(one_line(value))
    return text


T = TypeVar("T")
P = ParamSpec("P")

#: While others write, reading again takes about this share of the time, between these pauses.
_SHARE = 0.2
_LEAST_SECONDS, _MOST_SECONDS = 1.0, 5.0
SCROLL_LINES = 5
_SECONDS_SHOWN = 5
#: What takes longer than this is said to be loading.
_MARK_SECONDS = 0.1


def in_background(
    group: str, *, exclusive: bool = True
) -> Callable[[Callable[P, Coroutine[Any, Any, None]]], Callable[P, Worker[None]]]:
    """For methods that wait: a newer call of the same group takes the place of one that is `exclusive`."""
    return work(group=group, description=group, exclusive=exclusive, exit_on_error=False)


class BackgroundReader(Widget):
    """Reads in a thread and shows on the UI's; what goes wrong becomes a message. Its keys are those of `keys.toml`."""

    #: The last thing that went wrong, and when.
    _complaint = ("", 0.0)

    def __init_subclass__(cls, **options: Any) -> None:
        cls.BINDINGS = bindings(cls.__name__)
        super().__init_subclass__(**options)

    @property
    def lcm(self) -> TerminalApp:
        return cast("TerminalApp", self.app)

    @property
    def access(self) -> ArchiveAccess:
        return self.lcm.access

    async def read(self, call: Callable[[], T]) -> T:
        """What a call returns, made in a thread; one that takes long is said to be loading."""
        self.lcm.reads += 1
        self.set_timer(_MARK_SECONDS, self._mark_loading)
        try:
            return await asyncio.to_thread(call)
        finally:
            self.lcm.reads -= 1
            self._mark_loading()

    def _mark_loading(self) -> None:
        if self.is_attached:
            self.screen.query("#loading").set_class(self.lcm.reads > 0, "-on")

    def complain(self, message: str) -> None:
        """Say what went wrong; not again while it still stands there."""
        if message != self._complaint[0] or time.monotonic() - self._complaint[1] > _SECONDS_SHOWN:
            self._complaint = (message, time.monotonic())
            self.app.notify(make_visible(message), severity="error", timeout=_SECONDS_SHOWN, markup=False)

    def tell(self, message: str) -> None:
        """Say what was done."""
        self.app.notify(make_visible(message), timeout=_SECONDS_SHOWN, markup=False)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR and event.worker.error is not None:
            self.complain(error_text(event.worker.error))


def message_number(id_: str | int) -> int | None:
    """The number in `msg#12`; None for the id of a summary."""
    number = str(id_).removeprefix("msg#")
    return int(number) if number.isdigit() else None


def error_text(error: BaseException) -> str:
    """What is said of an error; one that was not foreseen is a mistake of ours."""
    if isinstance(error, LosslessError | OSError):
        return str(error)
    return f"Unexpected {type(error).__name__}. Press r or F5 to try again."


def screen_class(module: str, name: str) -> Callable[..., Screen[None]]:
    """A screen by its names in `keys.toml`."""
    found: Callable[..., Screen[None]] = getattr(getattr(screens, module), name)
    return found


class PaneScreen(BackgroundReader, Screen[None]):
    """A screen with a list on one side, a table if it is no other, and the chosen thing on the other."""

    COLUMNS: ClassVar[tuple[str, ...]] = ()
    #: The column that takes the room that the others leave, unless it is the last; and what the panes are called.
    WIDE_COLUMN: ClassVar[str] = ""
    LIST_TITLE: ClassVar[str] = ""
    PANE_TITLE: ClassVar[str] = "Text"
    #: Which conversation it is about, if any.
    conversation_id: int | None
    #: How many rows to read, and whether there are more.
    wanted, has_more = BATCH, False

    def __init__(self, conversation_id: int | None = None) -> None:
        super().__init__()
        self.conversation_id = conversation_id
        #: What the rows of the table stand for, by their keys.
        self.listed: dict[str, Any] = {}
        self._mark: object = None
        self._loaded_at = self._seconds = 0.0
        self._shown: str | None = None

    def compose(self) -> ComposeResult:
        with Horizontal(id="head"):
            yield Static(markup=False, id="where")
            yield Static("Loading …", markup=False, id="loading")
        yield from self.top_panes()
        yield Static(markup=False, id="about", classes="-empty")
        with Container(id="both"):
            listing = self.listing()
            listing.border_title = Text(self.LIST_TITLE)
            yield listing
            yield from self.side_panes()
        yield Footer(compact=True, show_command_palette=False)

    def top_panes(self) -> ComposeResult:
        """What stands above the list."""
        return iter(())

    def listing(self) -> Widget:
        """The list."""
        return RowTable(*self.COLUMNS, wide=self.WIDE_COLUMN)

    def side_panes(self) -> ComposeResult:
        """What stands next to the list, or below it."""
        pane = DetailPane()
        pane.border_title = Text(self.PANE_TITLE)
        yield pane

    @property
    def pane(self) -> DetailPane:
        return self.query_one(DetailPane)

    def where(self, *pieces: str) -> None:
        """Say where one is."""
        state = "  (read only)" if self.access.read_only else ""
        self.query_one("#where", Static).update(Text(one_line(" · ".join(filter(None, pieces))) + state))

    def about(self, text: Text | None) -> None:
        """A few lines above the list."""
        self.query_one("#about", Static).set_class(text is None, "-empty").update(text or Text())

    @in_background("detail")
    async def open_detail(self, read: Callable[[], DetailView]) -> None:
        """Show one thing in the pane."""
        self.pane.show(await self.read(read))

    @in_background("plan")
    async def open_dialog(self, read: Callable[[], DetailView]) -> None:
        """Show one thing as large as the screen."""
        self.app.push_screen(screens.dialogs.DetailDialog(await self.read(read)))

    def reference_detail(self, id_: str | int) -> DetailView:
        """A message, by its number or reference, or a summary."""
        browse, times, number = self.access.browse, self.lcm.times, message_number(id_)
        if number is None:
            return reads.summary_detail(browse, str(id_), times)
        return reads.message_detail(browse, number, times)

    def go_to(self, conversation_id: int, id_: str | int) -> None:
        """Open a conversation at a message, or its summaries at one of them."""
        if (number := message_number(id_)) is None:
            self.app.push_screen(screens.summaries.SummariesScreen(conversation_id, str(id_)))
        else:
            self.app.push_screen(screens.conversations.ConversationScreen(conversation_id, number))

    def on_mount(self) -> None:
        self.action_reload()

    def on_screen_resume(self) -> None:
        self.tick()

    @property
    def mark(self) -> object:
        """Changes when what is shown may be another."""
        return self.access.mark

    @abstractmethod
    def load(self) -> object:
        """Read what the list shows, with `read_list`, and show it."""

    async def read_list(self, read: Callable[[], T]) -> T:
        """Read for the list, and note how long that takes."""
        self._mark, started = self.mark, time.monotonic()
        found = await self.read(read)
        self._loaded_at = time.monotonic()
        self._seconds = self._loaded_at - started
        return found

    def tick(self) -> None:
        """Read again when the archive was written, and not too often."""
        pause = min(_MOST_SECONDS, max(_LEAST_SECONDS, self._seconds / _SHARE))
        is_loading = any(worker.node is self and worker.group == "read" for worker in self.workers)
        is_due = self._mark is not None and not is_loading and time.monotonic() - self._loaded_at >= pause
        if is_due and self._mark != self.mark:
            self.load()

    def action_reload(self) -> None:
        self._shown, self.wanted = None, BATCH
        self.load()

    def action_search(self, mode: screens.search.SearchMode) -> None:
        self.app.push_screen(screens.search.SearchScreen(self.conversation_id, mode))

    @in_background("plan")
    async def action_copy(self) -> None:
        if self.pane.detail is not None:
            self.copy(self.pane.detail.text or self.pane.detail.title)

    def copy(self, text: str) -> None:
        """Put a text on the clipboard, as it was written."""
        self.app.copy_to_clipboard(text)
        self.tell(f"Copied {len(text):,} characters.")

    def meant_conversation(self) -> int | None:
        """The conversation that keys are about, if any."""
        return self.conversation_id

    def action_open(self, module: str, screen: str) -> None:
        """Open another screen about the conversation that is meant."""
        if (id_ := self.meant_conversation()) is not None:
            self.app.push_screen(screen_class(module, screen)(id_))

    @in_background("plan")
    async def action_transcript(self, module: str, screen: str) -> None:
        """Open a screen about the file that the conversation was said in."""
        if (id_ := self.meant_conversation()) is None:
            return
        if (path := await self.read(lambda: find_transcript(self.access, id_))) is None:
            self.tell("No transcript of this session was found on this machine.")
        else:
            self.app.push_screen(screen_class(module, screen)(path, id_))

    def action_doctor(self) -> None:
        self.app.push_screen(screens.surgery.DoctorScreen())

    def action_scroll_detail(self, way: int) -> None:
        self.pane.scroll_relative(y=way * SCROLL_LINES, animate=False)

    def action_whole(self) -> None:
        if self.pane.detail is not None:
            self.app.push_screen(screens.dialogs.DetailDialog(self.pane.detail))

    def action_top(self) -> None:
        self.rows.choose(0)

    def action_bottom(self) -> None:
        self.rows.choose(-1)

    @property
    def rows(self) -> RowTable:
        return self.query_one(RowTable)

    @property
    def chosen(self) -> Any:
        """What the row under the cursor stands for; None without rows."""
        return self.listed.get(self.rows.chosen or "")

    def on_data_table_row_highlighted(self, event: RowTable.RowHighlighted) -> None:
        key = self.rows.chosen if event.control is self.rows else None
        if key is not None and key != self._shown:
            self._shown = key
            self.highlighted(self.chosen)
            if self.has_more and self.rows.is_at_end:
                self.wanted += BATCH
                self.load()

    def on_data_table_row_selected(self, event: RowTable.RowSelected) -> None:
        if event.control is self.rows and self.chosen is not None:
            self.selected(self.chosen)

    def show_rows(self, found: dict[str, Any], empty: str = "", hint: str = "", *, choose: str | None = None) -> None:
        """Fill the table; when there is nothing, say so in the pane. `choose` is a key, `first` or `last`."""
        self.listed, keys = found, list(found)
        if choose in ("first", "last"):
            choose = next(iter(keys[:1] if choose == "first" else keys[-1:]), None)
        self.rows.fill([(key, tuple(map(self._cell, self.cells(one)))) for key, one in found.items()], choose)
        if not found and empty:
            self.pane.show(reads.DetailView(empty, text=hint))

    def cells(self, _one: Any) -> tuple[Cell, ...]:
        """The row of one thing."""
        return ()

    def _cell(self, value: Cell) -> Text:
        if isinstance(value, Text):
            return value
        if isinstance(value, str):
            return text_cell(value)
        return Text(self.lcm.times.short(value), "dim", no_wrap=True, end="")

    def highlighted(self, one: Any) -> None:
        """The cursor came to a row."""
        self.open_detail(lambda: self.detail(one))

    def detail(self, _one: Any) -> DetailView:
        """What the pane says of a row; may read the archive."""
        return reads.DetailView("")

    def selected(self, _one: Any) -> None:
        """Enter was pressed on a row: it is shown whole, unless it leads somewhere."""
        self.action_whole()


class WindowScreen(PaneScreen):
    """A list of which a window is shown; what lies before and behind it is turned to."""

    #: Whether there is more before the window, and behind it.
    has_older = has_newer = False

    @abstractmethod
    def turn(self, way: Literal["first", "older", "newer", "last"]) -> None:
        """Show another window."""

    def action_older(self) -> None:
        if self.has_older:
            self.turn("older")

    def action_newer(self) -> None:
        if self.has_newer:
            self.turn("newer")

    def action_top(self) -> None:
        """The first row; from there, the first message."""
        if self.rows.cursor_row == 0 and self.has_older:
            self.turn("first")
        else:
            super().action_top()

    def action_bottom(self) -> None:
        """The last row; from there, the last message."""
        if self.rows.is_at_end and self.has_newer:
            self.turn("last")
        else:
            super().action_bottom()
