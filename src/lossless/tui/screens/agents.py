"""Session files of a host: agents with their folders, and the files of one with the conversations they belong to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lossless.tui import folders
from lossless.tui.reads import Detail
from lossless.tui.screens.page import TablePage
from lossless.tui.words import cell, plural, right, size

if TYPE_CHECKING:
    from lossless.tui.folders import Agent, SessionFile

BATCH = 50


class Agents(TablePage):
    """Folders with session files."""

    COLUMNS = ("agent", "files", "folder")

    def load(self) -> None:
        places = self.room.folders
        self.reading(lambda: folders.agents(places), self._show)

    def _show(self, found: list[Agent]) -> None:
        self.where("Session files", plural(len(found), "folder"))
        rows = [
            (str(agent.folder), (cell(agent.name, "bold"), right(agent.count, 6), cell(str(agent.folder))))
            for agent in found
        ]
        self.rows.fill(rows)
        if not rows:
            hint = "No session folder was found. Name one with `lcm tui --sessions DIR`, or OpenClaw's state folder."
            self.pane.show(Detail("Session files", text=hint))

    def highlighted(self, key: str) -> None:
        self.pane.show(Detail(key, text="Enter lists its session files."))

    def selected(self, key: str) -> None:
        self.app.push_screen(Files(Path(key)))


class Files(TablePage):
    """The session files of one folder, the last changed first."""

    COLUMNS = ("session", "conv", "size", "changed")

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder, self._wanted, self._total = folder, BATCH, 0
        self._found: dict[str, SessionFile] = {}

    def load(self) -> None:
        archive, folder, count = self.room.archive, self._folder, self._wanted
        self.reading(lambda: folders.files(archive, folder, count), self._show)

    def _show(self, read: tuple[list[SessionFile], int]) -> None:
        found, self._total = read
        self._found = {file.path.name: file for file in found}
        self.where("Session files", str(self._folder), f"{len(found)} of {self._total}")
        self.rows.fill(
            [
                (
                    name,
                    (
                        cell(file.session_id),
                        cell("–" if file.conversation_id is None else str(file.conversation_id)),
                        right(size(file.size), 9),
                        cell(self.lcm.times.short(file.changed_at)),
                    ),
                )
                for name, file in self._found.items()
            ]
        )

    def highlighted(self, key: str) -> None:
        file = self._found[key]
        facts = (("size", size(file.size)), ("changed", self.lcm.times.minute(file.changed_at)))
        text = f"It is conversation {file.conversation_id}; Enter opens it."
        if file.conversation_id is None:
            text = f"The archive does not have it. To store it:\n\nlcm bootstrap '{file.path}' --session-key KEY"
        self.pane.show(Detail(str(file.path), facts, text))
        if self.rows.is_at_end and len(self._found) < self._total:
            self._wanted += BATCH
            self.load()

    def selected(self, key: str) -> None:
        from lossless.tui.screens.conversation import Conversation

        if (id_ := self._found[key].conversation_id) is not None:
            self.app.push_screen(Conversation(id_))
        else:
            self.tell("The archive does not have this session yet.")
