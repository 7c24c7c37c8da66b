"""Large payloads of a conversation that lie outside of its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.tui.reads import DetailView
from lossless.tui.screens.page import Cell, PaneScreen, in_background
from lossless.tui.text import format_bytes, plural, right_cell

if TYPE_CHECKING:
    from lossless.model.messages import StoredFile

#: So many bytes of a file stand in the pane, and so many can be read here.
_BEGINNING, _MAX_BYTES = 16_384, 512_000


class LargeFilesScreen(PaneScreen):
    """Stored files, newest first; the pane has what is known of one, and how it begins."""

    COLUMNS = ("file", "kind", "size", "stored", "name")
    LIST_TITLE = "Large files"

    conversation_id: int

    @in_background("read")
    async def load(self) -> None:
        count, id_ = self.wanted, self.conversation_id
        page, count, total = await self.read_list(lambda: self.access.browse.files(count, conversation_id=id_))
        self.has_more = page.next is not None
        self.where(
            f"Large files of conversation {self.conversation_id}", f"{plural(count, 'file')}, {format_bytes(total)}"
        )
        self.show_rows({file.id: file for file in page.rows}, "There are no large files in this conversation.")

    def cells(self, file: StoredFile) -> tuple[Cell, ...]:
        return file.id, file.mime or "–", right_cell(format_bytes(file.byte_size), 9), file.created_at, file.name or ""

    def selected(self, one: StoredFile) -> None:
        self.open_dialog(lambda: self.detail(one, whole=True))

    def detail(self, one: StoredFile, *, whole: bool = False) -> DetailView:
        """What is known of a file and the beginning of its content, or its own text if it is one and `whole`."""
        from lossless.recall.describe import is_binary

        facts = (
            ("kind", one.mime or "–"),
            ("size", f"{format_bytes(one.byte_size)}, {plural(one.line_count or 0, 'line')}"),
            ("stored", self.lcm.times.minute(one.created_at)),
        )
        piece = self.access.browse.file_text(one, _MAX_BYTES) if whole else None
        if piece is None or is_binary(piece.data[:_BEGINNING]):
            text = str(self.access.browse.describe_file(one.id, _BEGINNING))
        else:
            text = piece.text
            text += f"\n\n… the rest of {format_bytes(one.byte_size)} is in the file" if piece.is_cut else ""
        return DetailView(f"{one.id}  {one.name or ''}", facts, text)
