"""The terminal interface as a whole: its screens, its keys, and a regular check for changes."""

from __future__ import annotations

import asyncio
import os
import re
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text
from textual import work
from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.keys import format_key
from textual.theme import Theme
from textual.worker import Worker, WorkerState

from lossless.tui import screens
from lossless.tui.reads import DetailView
from lossless.tui.screens.conversations import SessionsScreen
from lossless.tui.screens.dialogs import DetailDialog
from lossless.tui.screens.page import PaneScreen, bindings, error_text
from lossless.tui.text import WIDE_COLUMNS, LocalTimes, make_visible

if TYPE_CHECKING:
    from textual.pilot import Pilot
    from textual.screen import Screen

    from lossless.tui.archive import ArchiveAccess

_LOOK_SECONDS = 0.5
_ESTIMATE_SECONDS = 8
#: Each has a connection with a cache of its own; one may wait for a person.
_THREADS = 3
_PICTURE_SIZE = (120, 34)
_QUIET_ROUNDS, _QUIET_SECONDS = 3, 0.02
#: A picture fetches nothing when it is looked at.
_FONTS_ELSEWHERE = re.compile(r',\s*url\("https:[^"]*"\) format\("\w+"\)')
#: Groups of workers that may wait for a person's answer.
MAY_ASK = ("work", "brief")
_DEBUG_HINT = "Run it again with LCM_DEBUG=1 to see where, and please report it."
_LIGHT_BACKGROUNDS = ("7", "15")
DARK, LIGHT = (
    Theme(name, **colours)
    for name, colours in tomllib.loads(Path(__file__).with_name("themes.toml").read_text("utf-8")).items()
)


class TerminalApp(App[None]):
    """Looks through one archive."""

    TITLE = "lcm"
    CSS_PATH = "style.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE_COLUMNS, "-wide")]  # noqa: RUF012
    BINDINGS = [Binding("ctrl+q", "quit", "Quit", show=False)]  # noqa: RUF012

    #: How much is being read in threads.
    reads = 0

    def __init__(self, access: ArchiveAccess, folder: Path | None = None) -> None:
        super().__init__()
        self.access, self.times = access, LocalTimes(access.settings.timezone, access.clock)
        self._folder = folder
        self.animation_level = "none"

    def on_mount(self) -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS, "lcm"))
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        self.theme = (LIGHT if is_light(os.environ.get("COLORFGBG", "")) else DARK).name
        self.push_screen(SessionsScreen())
        if self._folder is not None:
            self.push_screen(screens.session_files.SessionFilesScreen(self._folder))
        self.set_interval(_LOOK_SECONDS, self._look)
        if not self.is_headless:
            self.tell_estimate()

    @work(thread=True)
    def tell_estimate(self) -> None:
        """Say what a model would have cost, when none is configured; once, at the start."""
        if (estimate := self.access.model_estimate()) and estimate.costs:
            model, cost = estimate.costs[0]
            text = f"No model is configured. {model} would have cost ${cost:,.2f} so far: see `lcm model`."
            self.call_from_thread(self.notify, text, timeout=_ESTIMATE_SECONDS, markup=False)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """What goes wrong in work that outlives its screen is a message, too."""
        if event.state is WorkerState.ERROR and event.worker.error is not None and event.worker.node is self:
            self.notify(make_visible(error_text(event.worker.error)), severity="error", markup=False)

    def _look(self) -> None:
        for screen in self.screen_stack[-1:]:
            if isinstance(screen, PaneScreen):
                screen.tick()

    def _fatal_error(self) -> None:
        """An unexpected error ends with one line; with LCM_DEBUG=1 with the whole story."""
        if os.environ.get("LCM_DEBUG"):
            super()._fatal_error()
        else:
            self.panic(Text(f"Unexpected error. {_DEBUG_HINT}"))

    def action_go_back(self) -> None:
        """To the screen before; from the first one, out."""
        if len(self.screen_stack) > 2:
            self.pop_screen()
        else:
            self.exit()

    def pictured(self, keys: Sequence[str]) -> str:
        """The screen after some keys, as an SVG document; needs no terminal."""
        pictures = []

        async def press(pilot: Pilot[object]) -> None:
            await self.settled(pilot)
            for key in keys:
                await pilot.press(key)
                await self.settled(pilot)
            pictures.append(self.export_screenshot())
            self.exit()

        self.run(headless=True, size=_PICTURE_SIZE, auto_pilot=press)
        return _FONTS_ELSEWHERE.sub("", "".join(pictures))

    async def settled(self, pilot: Pilot[object]) -> None:
        """Wait until everything that is being read is shown; what is read may lead to more being read."""
        rounds = 0
        while rounds < _QUIET_ROUNDS:
            await pilot.pause(_QUIET_SECONDS)
            is_busy = self.reads or any(worker.group not in MAY_ASK for worker in self.workers)
            rounds = 0 if is_busy else rounds + 1

    def action_show_help(self) -> None:
        always = [("↑ ↓ k j PgUp PgDn", "Move"), ("^p", "All commands by name, and colours")]
        text = Text()
        ours = [(" ".join(keys), about) for keys, about in own_actions(type(self.screen)).values()]
        for keys, about in [*ours, *always]:
            text.append(f"{keys:<20} ", "bold").append(f"{about}\n")
        self.push_screen(DetailDialog(DetailView("Keys"), text))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Everything that a key does here, by name, then what the framework offers."""
        for action, (names, about) in own_actions(type(screen)).items():
            run = partial(self.call_later, self.run_action, action, screen)
            yield SystemCommand(about, f"key {names[0]}", run)
        yield SystemCommand("Theme", "Colours for a dark or a light terminal", self.action_change_theme)
        yield SystemCommand("Quit", "Leave lcm", self.action_quit)


def own_actions(screen: type) -> dict[str, tuple[list[str], str]]:
    """What a screen's keys do: how they are shown and what it is. Its own keys go before those of all screens."""
    by_key: dict[str, Binding] = {}
    for kind in screen.__mro__:
        for binding in Binding.make_bindings(bindings(kind.__name__)):
            by_key.setdefault(binding.key, binding)
    found: dict[str, tuple[list[str], str]] = {}
    for key, binding in by_key.items():
        keys, _ = found.setdefault(binding.action, ([], binding.description))
        name = format_key(key).replace("ctrl+", "^")
        keys.append(name if len(name) == 1 or name[0] == "^" else name.capitalize())
    return found


def is_light(colours: str) -> bool:
    """Whether a terminal says, in COLORFGBG, that its background is light.

    >>> is_light("0;15"), is_light("15;0"), is_light("")
    (True, False, False)
    """
    return colours.rpartition(";")[2] in _LIGHT_BACKGROUNDS
