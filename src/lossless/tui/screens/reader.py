"""The pane to read a conversation in: one message below the other. Only what is on the screen is read and drawn."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from lossless.model.messages import ToolCall
from lossless.tui.reading import draw_lines, parts_view, speaker
from lossless.tui.reads import readable_parts
from lossless.tui.screens.page import BackgroundReader, in_background
from lossless.tui.text import ROLES, LocalTimes

if TYPE_CHECKING:
    from textual.events import Resize

    from lossless.maintenance.browse import Browse
    from lossless.model.records import MessageRow

_GUTTER, _MARGIN = 2, 1
_LEAST_WIDTH = 20
_STEP = 3

#: What a message is drawn for: a width, a dark or a light ground, and with its tool calls open or not.
_Look: TypeAlias = tuple[int, bool, bool]


@dataclass(slots=True)
class _Block:
    row: MessageRow
    #: The day that begins with it, and whether it goes on with the turn of the message before.
    day: str
    is_continued: bool
    lines: list[Strip] = field(default_factory=list)
    #: How many of its lines stand above what was said.
    lead: int = 0
    look: _Look | None = None

    @property
    def key(self) -> str:
        return str(self.row.message_id)

    def height(self, width: int) -> int:
        """Its lines, or about as many as it will have."""
        if self.lines:
            return len(self.lines)
        text = self.row.content
        return 2 + 2 * bool(self.day) + (0 if self.row.role == "tool" else text.count("\n") + len(text) // width)


class ReadingPane(ScrollView, BackgroundReader, inherit_bindings=False):
    """Messages to read. One of them is chosen; moving goes through a long one before it goes to the next."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"reading--chosen"}

    class Moved(Message):
        """Another message was chosen here; without one, there is nothing further in this direction."""

        def __init__(self, key: str | None, way: int = 0) -> None:
            super().__init__()
            self.key, self.way = key, way

    def __init__(self) -> None:
        super().__init__()
        self._blocks: list[_Block] = []
        self._tops: list[int] = []
        self._chosen = 0
        self._open: set[str] = set()
        self._is_all_open = False
        #: The chosen message is kept in sight until the user scrolls; the way says from where it was reached.
        self.is_following, self._way = True, 1
        self._is_reading = False
        #: The names of tools by the ids of their calls, as far as these were drawn.
        self._tools: dict[str, str] = {}

    @property
    def chosen(self) -> str | None:
        """The id of the message that is chosen."""
        return self._blocks[self._chosen].key if self._blocks else None

    @property
    def width_of_text(self) -> int:
        return max(_LEAST_WIDTH, self.scrollable_content_region.width - _GUTTER - _MARGIN)

    def show(self, rows: Sequence[MessageRow], choose: str | None) -> None:
        """Show messages; the one with the id `choose` is chosen. What was drawn before is not drawn again."""
        known = {block.key: block for block in self._blocks}
        made: list[_Block] = []
        was_day, was_role = "", ""
        for row in rows:
            day = self.lcm.times.day(row.created_at) or was_day
            is_quiet = row.role == "tool" or (row.role == "assistant" and not row.content.strip())
            is_continued = is_quiet and day == was_day and was_role in ("assistant", "tool")
            block = _Block(row, day if day != was_day else "", is_continued)
            old = known.get(block.key, block)
            is_same = (old.row, old.day, old.is_continued) == (row, block.day, is_continued)
            made.append(old if is_same else block)
            was_day, was_role = day, row.role
        self._blocks = made
        keys = [block.key for block in made]
        self._chosen = keys.index(choose) if choose in keys else max(0, len(keys) - 1)
        self._way = 1
        self._lay_out()

    def choose(self, key: str) -> None:
        """Choose a message and bring it into sight."""
        places = [place for place, block in enumerate(self._blocks) if block.key == key]
        if places and places[0] != self._chosen:
            self._go(places[0])

    def fold(self, *, everything: bool = False) -> None:
        """Unfold the tool calls of the chosen message, or of all messages; or fold them again."""
        if everything:
            self._is_all_open = not self._is_all_open
            self._open.clear()
        elif self._blocks:
            self._open ^= {self._blocks[self._chosen].key}
            self.is_following, self._way = True, 1
        self._read()

    def scroll_lines(self, count: int) -> None:
        """Scroll, and leave the chosen message as it is."""
        self.is_following = False
        self.scroll_to(y=self.scroll_y + count, animate=False, immediate=True)

    def _read(self) -> None:
        """Read and draw what is in sight and does not look as it should; what is there stays until then."""
        height = self.scrollable_content_region.height
        if self._is_reading or not height or not self._blocks:
            return
        top = round(self.scroll_y)
        places = range(self._at(top - height // 2), self._at(top + height + height // 2) + 1)
        width, is_dark = self.width_of_text, self.app.current_theme.dark
        looks = [(self._blocks[place], (width, is_dark, self._is_open(self._blocks[place]))) for place in places]
        if wanted := [(block, look) for block, look in looks if block.look != look]:
            self._is_reading = True
            self._draw(wanted)

    def _is_open(self, block: _Block) -> bool:
        return self._is_all_open != (block.key in self._open)

    @in_background("texts")
    async def _draw(self, wanted: list[tuple[_Block, _Look]]) -> None:
        browse, times, tools = self.access.browse, self.lcm.times, self._tools
        try:
            for block, look, lines, lead in await self.read(lambda: _draw_blocks(browse, wanted, times, tools)):
                block.look, block.lines, block.lead = look, lines, lead
        finally:
            self._is_reading = False
        self._lay_out()

    def _at(self, line: int) -> int:
        return max(0, min(len(self._blocks), bisect_right(self._tops, line)) - 1)

    def _lay_out(self) -> None:
        """Say how high everything is; what is in sight stays where it is."""
        y = round(self.scroll_y)
        anchor = self._chosen if self.is_following else self._at(y)
        before = self._tops[anchor] if anchor < len(self._tops) else y
        self._tops, total = [], 0
        for block in self._blocks:
            self._tops.append(total)
            total += block.height(self.width_of_text)
        self.virtual_size = Size(self.scrollable_content_region.width, total)
        if self._blocks:
            y += self._tops[min(anchor, len(self._tops) - 1)] - before
            self._scroll(self._in_sight(y) if self.is_following else y)
        self.refresh()
        self._read()

    def _scroll(self, y: int) -> None:
        self.scroll_to(y=max(0, y), animate=False, immediate=True, force=True)

    def _span(self, place: int) -> tuple[int, int]:
        return self._tops[place], self._tops[place] + self._blocks[place].height(self.width_of_text)

    def _in_sight(self, y: int) -> int:
        """Where to scroll so that the chosen message is in sight; of a long one, the end that was reached first."""
        height = self.scrollable_content_region.height
        top, end = self._span(self._chosen)
        if end - top > height:
            return top if self._way > 0 else end - height
        return min(max(y, end - height), top)

    def _go(self, place: int, *, moved: bool = False) -> None:
        self._way = 1 if place >= self._chosen else -1
        self._chosen, self.is_following = place, True
        self._scroll(self._in_sight(round(self.scroll_y)))
        self.refresh()
        self._read()
        if moved:
            self.post_message(self.Moved(self._blocks[place].key))

    def action_move(self, way: int) -> None:
        """Scroll while the chosen message goes on; then choose the next one."""
        if not self._blocks:
            return
        y, height = round(self.scroll_y), self.scrollable_content_region.height
        top, end = self._span(self._chosen)
        is_near = top < y + height and end > y
        remaining = end - (y + height) if way > 0 else y - top
        if is_near and remaining > 0:
            self.scroll_lines(way * min(_STEP, remaining))
        elif 0 <= self._chosen + way < len(self._blocks):
            self._go(self._chosen + way, moved=True)
        else:
            self.post_message(self.Moved(None, way))

    def action_page(self, way: int) -> None:
        """Scroll by a screen; a message that is in sight is chosen."""
        if not self._blocks:
            return
        was, height = round(self.scroll_y), self.scrollable_content_region.height
        self.scroll_lines(way * max(1, height - 2))
        y = round(self.scroll_y)
        edge = len(self._blocks) - 1 if way > 0 else 0
        if y == was and self._chosen == edge:
            self.post_message(self.Moved(None, way))
            return
        place = edge if y == was else self._at(y if way < 0 else y + height - 1)
        if place != self._chosen:
            self._chosen = place
            self.post_message(self.Moved(self._blocks[place].key))
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._read()

    def on_mouse_scroll_down(self) -> None:
        self.is_following = False

    def on_mouse_scroll_up(self) -> None:
        self.is_following = False

    def on_resize(self, _event: Resize) -> None:
        self._lay_out()

    def notify_style_update(self) -> None:
        """Draw again when the ground turns light or dark."""
        super().notify_style_update()
        if self.is_attached:
            self._read()

    def render_line(self, y: int) -> Strip:
        width, base = self.scrollable_content_region.width, self.rich_style
        line = y + round(self.scroll_y)
        place = self._at(line) if self._blocks else 0
        if not self._blocks or line >= self._span(place)[1]:
            return Strip.blank(width, base)
        block, inside = self._blocks[place], line - self._tops[place]
        drawn = block.lines[inside] if inside < len(block.lines) else Strip.blank(0)
        is_chosen = place == self._chosen
        if inside < block.lead:
            return drawn.extend_cell_length(width).crop(0, width).apply_style(base)
        style = base + self.get_component_rich_style("reading--chosen", partial=True) if is_chosen else base
        bar = Segment("▌ " if is_chosen else "▏ ", Style.parse(ROLES.get(block.row.role, "none")))
        return Strip([bar, *drawn]).extend_cell_length(width).crop(0, width).apply_style(style)


def _draw_blocks(
    browse: Browse, jobs: Sequence[tuple[_Block, _Look]], times: LocalTimes, tools: dict[str, str]
) -> list[tuple[_Block, _Look, list[Strip], int]]:
    """Read messages whole and draw them; notes the names of the tools that they call."""
    found = {message.id: message for message in browse.stored_messages([block.row.message_id for block, _ in jobs])}
    parts = (part for stored in found.values() for part in stored.message.parts)
    tools.update({part.id: part.name for part in parts if isinstance(part, ToolCall) and part.id})
    made = []
    for block, look in jobs:
        (width, is_dark, is_open), row, above = look, block.row, list[Strip]()
        stored = found.get(row.message_id)
        if block.day:
            rule = Text(f"── {block.day} ", "dim", no_wrap=True).append("─" * width)
            above = [*([Strip.blank(0)] if row.seq > 1 else []), *draw_lines(rule, width + _GUTTER)]
        if not block.is_continued:
            above.append(Strip.blank(0))
        shown_parts = () if stored is None else readable_parts(stored.message)
        view = parts_view(shown_parts, is_dark=is_dark, is_open=is_open, tools=tools)
        body = draw_lines(view, width)
        if not any(strip.text.strip() for strip in body):
            body = draw_lines(Text("(no text)" if stored else "It is no longer in the archive.", "dim"), width)
        head = [] if block.is_continued else draw_lines(speaker(row.role, times.clock_time(row.created_at)), width)
        made.append((block, look, [*above, *head, *body], len(above)))
    return made
