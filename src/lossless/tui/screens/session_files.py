"""Session files of a host: agents with their folders, and the files of one agent with their conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.tui import actions, screens, session_files
from lossless.tui.reads import DetailView
from lossless.tui.screens.page import Cell, PaneScreen, in_background, screen_class
from lossless.tui.screens.surgery import SurgeryScreen
from lossless.tui.text import format_bytes, home_path, plural, right_cell, text_cell

if TYPE_CHECKING:
    from pathlib import Path

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

    def detail(self, one: tuple[str, Path, int]) -> DetailView:
        return DetailView(home_path(str(one[1])), text="Press Enter to list its session files.")

    def selected(self, one: tuple[str, Path, int]) -> None:
        self.app.push_screen(SessionFilesScreen(one[1]))


class SessionFilesScreen(SurgeryScreen):
    """The session files of one folder, the last changed first."""

    COLUMNS = ("session", "conv", "size", "changed")
    WIDE_COLUMN = "session"
    LIST_TITLE = "Session files"
    PANE_TITLE = "About"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    @in_background("read")
    async def load(self) -> None:
        browse, count, was = self.access.browse, self.wanted, self.chosen
        found, total = await self.read_list(lambda: session_files.list_session_files(browse, self._folder, count))
        self.has_more = len(found) < total
        self.where("Session files", home_path(str(self._folder)), f"{len(found)} of {total}")
        self.show_rows({file.path.name: file for file in found})
        if was is not None and self.chosen not in (None, was):
            self.highlighted(self.chosen)

    def cells(self, file: SessionFile) -> tuple[Cell, ...]:
        conversation = "–" if file.conversation_id is None else str(file.conversation_id)
        return file.session_id, conversation, right_cell(format_bytes(file.size), 9), file.changed_at

    def detail(self, one: SessionFile) -> DetailView:
        facts = (("size", format_bytes(one.size)), ("changed", self.lcm.times.minute(one.changed_at)))
        text = f"It is conversation {one.conversation_id}. Press Enter to open it, x for the file, v to compare them."
        if one.conversation_id is None:
            text = "The archive does not have it. Press Enter to read it, i to import it."
        return DetailView(str(one.path), facts, text)

    def selected(self, one: SessionFile) -> None:
        if one.conversation_id is not None:
            self.app.push_screen(screens.conversations.ConversationScreen(one.conversation_id))
        else:
            self.app.push_screen(screens.transcript.TranscriptScreen(one.path))

    def meant_conversation(self) -> int | None:
        if self.chosen is not None and self.chosen.conversation_id is None:
            self.tell("The archive does not have this session yet. Press i to import it.")
        return None if self.chosen is None else self.chosen.conversation_id

    @in_background("plan")
    async def action_transcript(self, module: str, screen: str) -> None:
        file = self.chosen
        if file is None or (module == "compare" and self.meant_conversation() is None):
            return
        path = await self.read(lambda: session_files.backend_session_id(self.access, file.path, file.session_id))
        self.app.push_screen(screen_class(module, screen)(path, file.conversation_id))

    def action_import(self) -> None:
        if (file := self.chosen) is not None:
            self.propose(lambda: actions.plan_import(self.access, file.path))
