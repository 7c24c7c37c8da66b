"""Session files of a host: agents with their folders, and the files of one agent with their conversations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding

from lossless.tui import session_files
from lossless.tui.reads import DetailView
from lossless.tui.screens.page import PaneScreen, TableScreen
from lossless.tui.screens.surgery import SurgeryScreen
from lossless.tui.text import format_bytes, plural, right_cell, text_cell, time_cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.binding import BindingType

    from lossless.tui.session_files import SessionFile

BATCH = 50


class AgentsScreen(TableScreen):
    """Folders with session files."""

    COLUMNS = ("agent", "files", "folder")
    LIST_TITLE = "Folders"
    PANE_TITLE = "About"

    def load(self) -> None:
        places = self.access.folders
        self.reading(lambda: session_files.list_agents(places), self._show)

    def _show(self, found: list[tuple[str, Path, int]]) -> None:
        self.where("Session files", plural(len(found), "folder"))
        rows = [
            (str(folder), (text_cell(name, "bold"), right_cell(count, 6), text_cell(str(folder))))
            for name, folder, count in found
        ]
        self.rows.fill(rows)
        if not rows:
            hint = "No session folder was found. Name one with `lcm tui --sessions DIR`, or OpenClaw's state folder."
            self.pane.show(DetailView("Session files", text=hint))

    def highlighted(self, key: str) -> None:
        self.pane.show(DetailView(key, text="Press Enter to list its session files."))

    def selected(self, key: str) -> None:
        self.app.push_screen(SessionFilesScreen(Path(key)))


class SessionFilesScreen(TableScreen, SurgeryScreen):
    """The session files of one folder, the last changed first."""

    COLUMNS = ("session", "conv", "size", "changed")
    WIDE_COLUMN = "session"
    LIST_TITLE = "Session files"
    PANE_TITLE = "About"
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
        browse, folder, count = self.access.browse, self._folder, self._wanted
        self.reading(lambda: session_files.list_session_files(browse, folder, count), self._show)

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
                        text_cell(file.session_id),
                        text_cell("–" if file.conversation_id is None else str(file.conversation_id)),
                        right_cell(format_bytes(file.size), 9),
                        time_cell(self.lcm.times, file.changed_at),
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
        facts = (("size", format_bytes(file.size)), ("changed", self.lcm.times.minute(file.changed_at)))
        text = f"It is conversation {file.conversation_id}. Press Enter to open it, x for the file, v to compare them."
        if file.conversation_id is None:
            text = "The archive does not have it. Press Enter to read it, i to import it."
        self.pane.show(DetailView(str(file.path), facts, text))
        if self.rows.is_at_end and len(self._found) < self._total:
            self._wanted += BATCH
            self.load()

    def selected(self, key: str) -> None:
        from lossless.tui.screens.conversations import ConversationScreen
        from lossless.tui.screens.transcript import TranscriptScreen

        file = self._found[key]
        if file.conversation_id is not None:
            self.app.push_screen(ConversationScreen(file.conversation_id))
        else:
            self.app.push_screen(TranscriptScreen(file.path))

    # --- keys ---

    @property
    def _chosen(self) -> SessionFile | None:
        return self._found.get(self.rows.chosen or "")

    def meant_conversation(self) -> int | None:
        file = self._chosen
        if file is not None and file.conversation_id is None:
            self.tell("The archive does not have this session yet. Press i to import it.")
        return None if file is None else file.conversation_id

    def _behind(self, then: Callable[[Path], None]) -> None:
        """Go on with the rollout behind the chosen file, or the file."""
        room, file = self.access, self._chosen
        if file is not None:
            path, id_ = file.path, file.session_id
            self.fetch(lambda: session_files.backend_session_id(room, path, id_), then, "plan")

    def _push(self, screen: PaneScreen) -> None:
        self.app.push_screen(screen)

    def action_transcript(self) -> None:
        from lossless.tui.screens.transcript import TranscriptScreen

        id_ = None if self._chosen is None else self._chosen.conversation_id
        self._behind(lambda path: self._push(TranscriptScreen(path, id_)))

    def action_compare(self) -> None:
        from lossless.tui.screens.compare import CompareScreen

        if (id_ := self.meant_conversation()) is not None:
            self._behind(lambda path: self._push(CompareScreen(path, id_)))

    def action_import(self) -> None:
        from lossless.tui import actions

        room, file = self.access, self._chosen
        if file is not None:
            path = file.path
            self.propose(lambda: actions.plan_import(room, path))
