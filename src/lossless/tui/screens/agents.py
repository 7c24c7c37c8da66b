"""Session files of a host: agents with their folders, and the files of one with the conversations they belong to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding

from lossless.tui import folders, locating
from lossless.tui.reads import Detail
from lossless.tui.screens.page import Page, TablePage
from lossless.tui.screens.surgery import Operating
from lossless.tui.words import cell, plural, right, size

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.binding import BindingType

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


class Files(TablePage, Operating):
    """The session files of one folder, the last changed first."""

    COLUMNS = ("session", "conv", "size", "changed")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "transcript", "Transcript"),
        Binding("v", "compare", "Compare"),
        Binding("i", "import", "Import"),
        Binding("s,l", "summaries", "Summaries", key_display="s"),
        Binding("c", "context", "Context"),
    ]

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder, self._wanted, self._total = folder, BATCH, 0
        self._found: dict[str, SessionFile] = {}

    def load(self) -> None:
        archive, folder, count = self.room.archive, self._folder, self._wanted
        self.reading(lambda: folders.files(archive, folder, count), self._show)

    def _show(self, read: tuple[list[SessionFile], int]) -> None:
        found, self._total = read
        was = self._chosen
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
        now = self._chosen
        if was is not None and now is not None and was != now:
            self.highlighted(now.path.name)

    def highlighted(self, key: str) -> None:
        file = self._found[key]
        facts = (("size", size(file.size)), ("changed", self.lcm.times.minute(file.changed_at)))
        text = f"It is conversation {file.conversation_id}; Enter opens it, x shows the file, v compares the two."
        if file.conversation_id is None:
            text = "The archive does not have it. Enter shows what it says; i stores it."
        self.pane.show(Detail(str(file.path), facts, text))
        if self.rows.is_at_end and len(self._found) < self._total:
            self._wanted += BATCH
            self.load()

    def selected(self, key: str) -> None:
        from lossless.tui.screens.conversation import Conversation
        from lossless.tui.screens.transcript import Transcript

        file = self._found[key]
        if file.conversation_id is not None:
            self.app.push_screen(Conversation(file.conversation_id))
        else:
            self.app.push_screen(Transcript(file.path))

    # --- keys ---

    @property
    def _chosen(self) -> SessionFile | None:
        return self._found.get(self.rows.chosen or "")

    def _stored(self) -> int | None:
        file = self._chosen
        if file is not None and file.conversation_id is None:
            self.tell("The archive does not have this session yet; i stores it.")
        return None if file is None else file.conversation_id

    def _behind(self, then: Callable[[Path], None]) -> None:
        """Go on with the rollout behind the chosen file, or the file."""
        room, file = self.room, self._chosen
        if file is not None:
            path, id_ = file.path, file.session_id
            self.fetch(lambda: locating.backend_of(room, path, id_), then, "plan")

    def _push(self, screen: Page) -> None:
        self.app.push_screen(screen)

    def action_transcript(self) -> None:
        from lossless.tui.screens.transcript import Transcript

        id_ = None if self._chosen is None else self._chosen.conversation_id
        self._behind(lambda path: self._push(Transcript(path, id_)))

    def action_compare(self) -> None:
        from lossless.tui.screens.compare import Compare

        if (id_ := self._stored()) is not None:
            self._behind(lambda path: self._push(Compare(path, id_)))

    def action_import(self) -> None:
        from lossless.tui import bringing

        room, file = self.room, self._chosen
        if file is not None:
            path = file.path
            self.propose(lambda: bringing.importing(room, path))

    def action_summaries(self) -> None:
        from lossless.tui.screens.dag import Dag

        if (id_ := self._stored()) is not None:
            self.app.push_screen(Dag(id_))

    def action_context(self) -> None:
        from lossless.tui.screens.context import Context

        if (id_ := self._stored()) is not None:
            self.app.push_screen(Context(id_))
