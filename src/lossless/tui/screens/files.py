"""Large payloads of a conversation that lie outside of its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.tui.reads import DetailView
from lossless.tui.screens.dialogs import DetailDialog
from lossless.tui.screens.page import TableScreen
from lossless.tui.text import format_bytes, plural, right_cell, text_cell, time_cell

if TYPE_CHECKING:
    from lossless.model.messages import StoredFile
    from lossless.model.records import Page
    from lossless.tui.archive import ArchiveAccess
    from lossless.tui.text import LocalTimes

BATCH = 50
#: So many bytes of a file stand in the pane, and so many can be read here.
_BEGINNING, _MOST = 16_384, 512_000


class LargeFilesScreen(TableScreen):
    """Stored files, newest first; the pane has what is known of one, and how it begins."""

    COLUMNS = ("file", "kind", "size", "stored", "name")
    LIST_TITLE = "Large files"

    def __init__(self, conversation_id: int) -> None:
        super().__init__()
        self.conversation_id: int = conversation_id
        self._wanted, self._has_more = BATCH, False
        self._found: dict[str, StoredFile] = {}

    def load(self) -> None:
        browse, id_, count = self.access.browse, self.conversation_id, self._wanted
        self.reading(lambda: browse.files(count, conversation_id=id_), self._show)

    def _show(self, read: tuple[Page[StoredFile], int, int]) -> None:
        page, count, total = read
        self._found, self._has_more = {file.id: file for file in page.rows}, page.next is not None
        self.where(
            f"Large files of conversation {self.conversation_id}", f"{plural(count, 'file')}, {format_bytes(total)}"
        )
        times = self.lcm.times
        self.rows.fill(
            [
                (
                    file.id,
                    (
                        text_cell(file.id),
                        text_cell(file.mime or "–"),
                        right_cell(format_bytes(file.byte_size), 9),
                        time_cell(times, file.created_at),
                        text_cell(file.name or ""),
                    ),
                )
                for file in page.rows
            ]
        )
        if not page.rows:
            self.pane.show(DetailView("There are no large files in this conversation."))

    def highlighted(self, key: str) -> None:
        room, file, times = self.access, self._found[key], self.lcm.times
        self.open_detail(lambda: _read_file(room, file, times))
        if self._has_more and self.rows.is_at_end:
            self._wanted += BATCH
            self.load()

    def selected(self, key: str) -> None:
        room, file, times = self.access, self._found[key], self.lcm.times
        self.fetch(lambda: _read_whole_file(room, file, times), self._open, "plan")

    def _open(self, detail: DetailView) -> None:
        self.app.push_screen(DetailDialog(detail))


def _read_file(room: ArchiveAccess, file: StoredFile, times: LocalTimes) -> DetailView:
    """What is known of a file, and the beginning of its content."""
    found = room.browse.describe_file(file.id, _BEGINNING)
    return DetailView(f"{file.id}  {file.name or ''}", _facts(file, times), str(found))


def _read_whole_file(room: ArchiveAccess, file: StoredFile, times: LocalTimes) -> DetailView:
    """A file's own text, without what is known about it; of bytes that are no text, only that."""
    from lossless.recall.describe import is_binary

    piece = room.browse.file_text(file, _MOST)
    if piece is None or is_binary(piece.data[:_BEGINNING]):
        return _read_file(room, file, times)
    rest = f"\n\n… the rest of {format_bytes(file.byte_size)} is in the file" if piece.is_cut else ""
    return DetailView(f"{file.id}  {file.name or ''}", _facts(file, times), piece.text + rest)


def _facts(file: StoredFile, times: LocalTimes) -> tuple[tuple[str, str], ...]:
    return (
        ("kind", file.mime or "–"),
        ("size", f"{format_bytes(file.byte_size)}, {plural(file.line_count or 0, 'line')}"),
        ("stored", times.minute(file.created_at)),
    )
