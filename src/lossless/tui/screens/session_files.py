"""Session files of a host: agents with their folders, and the files of one agent with their conversations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lossless.tui import actions, screens, session_files
from lossless.tui.reads import DetailView
from lossless.tui.screens.page import Cell, PaneScreen, bindings, in_background
from lossless.tui.screens.surgery import SurgeryScreen
from lossless.tui.text import format_bytes, home_path, plural, right_cell, text_cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.tui.session_files import SessionFile


class AgentsScreen(PaneScreen):
    """Folders with session files."""

    COLUMNS = ("agent", "files", "folder")
    LIST_TITLE = "Folders"
    PANE_TITLE = "About"

    @in_background("read")
    async def load(self) -> None:
        found = await self.read_list(lambda: session_files.list_agents(self.access.folders))
        self.where("Session files", plural(len(found), "folder"))
        hint = "No session folder was found. Name one with `lcm tui --sessions DIR`, or OpenClaw's state folder."
        self.show_rows({str(agent[1]): agent for agent in found}, "Session files", hint)

    def cells(self, agent: tuple[str, Path, int]) -> tuple[Cell, ...]:
        name, folder, count = agent
        return text_cell(name, "bold"), right_cell(count, 6), home_path(str(folder))

    def highlighted(self, key: str) -> None:
        self.pane.show(DetailView(home_path(key), text="Press Enter to list its session files."))

    def selected(self, key: str) -> None:
        self.app.push_screen(SessionFilesScreen(Path(key)))


class SessionFilesScreen(SurgeryScreen):
    """The session files of one folder, the last changed first."""

    COLUMNS = ("session", "conv", "size", "changed")
    WIDE_COLUMN = "session"
    LIST_TITLE = "Session files"
    PANE_TITLE = "About"
    BINDINGS = bindings("SessionFilesScreen")

    listed: dict[str, SessionFile]

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    @in_background("read")
    async def load(self) -> None:
        browse, count, was = self.access.browse, self.wanted, self._chosen
        found, total = await self.read_list(lambda: session_files.list_session_files(browse, self._folder, count))
        self.has_more = len(found) < total
        self.where("Session files", home_path(str(self._folder)), f"{len(found)} of {total}")
        self.show_rows({file.path.name: file for file in found})
        now = self._chosen
        if was is not None and now is not None and was != now:
            self.highlighted(now.path.name)

    def cells(self, file: SessionFile) -> tuple[Cell, ...]:
        conversation = "–" if file.conversation_id is None else str(file.conversation_id)
        return file.session_id, conversation, right_cell(format_bytes(file.size), 9), file.changed_at

    def highlighted(self, key: str) -> None:
        file = self.listed[key]
        facts = (("size", format_bytes(file.size)), ("changed", self.lcm.times.minute(file.changed_at)))
        text = f"It is conversation {file.conversation_id}. Press Enter to open it, x for the file, v to compare them."
        if file.conversation_id is None:
            text = "The archive does not have it. Press Enter to read it, i to import it."
        self.pane.show(DetailView(str(file.path), facts, text))

    def selected(self, key: str) -> None:
        file = self.listed[key]
        if file.conversation_id is not None:
            self.app.push_screen(screens.conversations.ConversationScreen(file.conversation_id))
        else:
            self.app.push_screen(screens.transcript.TranscriptScreen(file.path))

    @property
    def _chosen(self) -> SessionFile | None:
        return self.listed.get(self.rows.chosen or "")

    def meant_conversation(self) -> int | None:
        file = self._chosen
        if file is not None and file.conversation_id is None:
            self.tell("The archive does not have this session yet. Press i to import it.")
        return None if file is None else file.conversation_id

    @in_background("plan")
    async def _behind(self, open_screen: Callable[[Path, int | None], PaneScreen]) -> None:
        if (file := self._chosen) is not None:
            path = await self.read(lambda: session_files.backend_session_id(self.access, file.path, file.session_id))
            self.app.push_screen(open_screen(path, file.conversation_id))

    def action_transcript(self) -> None:
        self._behind(screens.transcript.TranscriptScreen)

    def action_compare(self) -> None:
        if (id_ := self.meant_conversation()) is not None:
            self._behind(lambda path, _: screens.compare.CompareScreen(path, id_))

    def action_import(self) -> None:
        if (file := self._chosen) is not None:
            self.propose(lambda: actions.plan_import(self.access, file.path))
