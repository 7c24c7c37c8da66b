"""A person at a terminal: an archive with a graph of three depths, and keys to press."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual._compositor import Compositor
from textual._context import visible_screen_stack
from textual.widgets import Input

import lossless
from lossless.testing import VirtualClock
from lossless.tui.app import MAY_ASK, TerminalApp
from lossless.tui.archive import ArchiveAccess
from lossless.tui.screens.page import DetailPane, RowTable
from lossless.tui.screens.reader import ReadingPane
from tests.maintenance.surgery_kit import BUDGET, HERE, THERE, settings, talk

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from textual.pilot import Pilot
    from textual.widget import Widget

HOSTILE = "\x1b[31mred\x1b]0;title\x07 [bold]brackets[/bold] [link=x]y[/] \u202eturned \x00\x9b \ud800 [/nope] \\["
#: What steers a terminal.
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_STEP = 20
#: What is read may lead to something else being read.
_QUIET_ROUNDS = 2


def build(path: Path, messages: int = 120, **changed: Any) -> Path:
    """Two conversations: one of some messages that is folded while time passes, and a short one."""
    clock = VirtualClock()
    with lossless.open(path, settings(**changed), clock=clock, background=False) as engine:
        for first in range(0, messages, _STEP):
            engine.append(HERE, talk(min(_STEP, messages - first), first=first))
            clock.advance(minutes=30)
            engine.compact(HERE, budget=BUDGET, force=True)
        engine.append(THERE, talk(6, seed=1))
    return path


def room_of(path: Path, **more: Any) -> ArchiveAccess:
    """The archive as the terminal interface opens it; its clock stands still."""
    changed = more.pop("changed", {})
    return ArchiveAccess(path, settings(timezone="UTC", **changed), clock=VirtualClock(), **more)


class Listening(TerminalApp):
    """Remembers every message that it shows, however long it stands there."""

    CSS_PATH = str(Path(sys.modules[TerminalApp.__module__].__file__ or "").with_name("style.tcss"))

    def __init__(self, room: ArchiveAccess, folder: Path | None) -> None:
        super().__init__(room, folder)
        self.told: list[str] = []

    def notify(self, message: str, **how: Any) -> None:
        self.told.append(message)
        super().notify(message, **how)


class Person:
    """Presses keys and looks at the screen."""

    def __init__(self, app: Listening, pilot: Pilot[Any]) -> None:
        self.app, self.pilot = app, pilot

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
            if len(key) > 1 or not isinstance(self.app.focused, Input):  # a letter of a text leads nowhere
                await self.settled()

    async def settled(self) -> None:
        """Wait until nothing is being read or written; a question to the person ends the wait, too."""
        rounds = 0
        while rounds < _QUIET_ROUNDS and self.app.screen_stack:
            await self.pilot._wait_for_screen()
            await asyncio.sleep(0.002)
            is_busy = self.app.reads or any(worker.group not in MAY_ASK for worker in self.app.workers)
            rounds = 0 if is_busy else rounds + 1
        if self.app.screen_stack:
            await self.pilot.pause()

    async def resize(self, width: int, height: int) -> None:
        await self.pilot.resize_terminal(width, height)
        await self.until(lambda: tuple(self.app.screen._compositor.size) == (width, height))
        await self.settled()

    async def until(self, holds: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait for something to be seen."""
        for _ in range(round(seconds / 0.02)):
            await self.pilot.pause()
            if holds():
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"not seen in {seconds} seconds:\n{self.seen}")

    @property
    def screen(self) -> str:
        return type(self.app.screen).__name__

    def one(self, selector: str) -> Widget:
        return self.app.screen.query_one(selector)

    @property
    def rows(self) -> RowTable:
        return self.app.screen.query_one(RowTable)

    @property
    def where(self) -> str:
        return str(self.one("#where").render())

    @property
    def detail(self) -> str:
        """What the pane says about the chosen thing."""
        shown = self.app.screen.query_one(DetailPane).detail
        if shown is None:
            return ""
        return "\n".join([shown.title, *(f"{name} {value}" for name, value in shown.facts), shown.text])

    @property
    def reading(self) -> str:
        """What the chosen message says in the reading pane, as it is drawn."""
        pane = self.app.screen.query_one(ReadingPane)
        block = pane._blocks[pane._chosen]
        assert str(block.row.message_id) == self.rows.chosen
        return "\n".join(strip.text.rstrip() for strip in block.lines[block.lead :])

    @property
    def seen(self) -> str:
        """Every character on the screen, which is drawn for this: see `at`."""
        visible_screen_stack.set(self.app._background_screens)
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)

    @property
    def text(self) -> str:
        """What a window has to scroll, whole."""
        return str(self.one(".text").render()) if self.app.screen.query(".text") else ""

    @property
    def told(self) -> list[str]:
        """The messages that were shown."""
        return self.app.told


def at(
    room: ArchiveAccess,
    do: Callable[[Person], Awaitable[None]],
    size: tuple[int, int] = (80, 24),
    folder: Path | None = None,
) -> None:
    """Let a person do something at a terminal of a size.

    Nothing is drawn for a terminal that is not there, which is half of the work: `Person.seen` draws the screen, and at
    the end it is drawn once more.
    """

    async def main() -> None:
        app = Listening(room, folder)
        async with app.run_test(size=size, notifications=True) as pilot:
            person = Person(app, pilot)
            await person.settled()
            await do(person)
            assert not app.screen_stack or person.seen

    draw = Compositor.render_update
    Compositor.render_update = _without_drawing  # type: ignore[method-assign, assignment]
    try:
        asyncio.run(main())
    finally:
        Compositor.render_update = draw  # type: ignore[method-assign]
        room.close()


def _without_drawing(compositor: Compositor, *_: object, **__: object) -> None:
    compositor._dirty_regions.clear()
