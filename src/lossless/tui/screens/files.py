"""Large payloads of a conversation that lie outside of its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.store.texts import Where
from lossless.tui.reads import Detail
from lossless.tui.screens.dialogs import Whole
from lossless.tui.screens.page import TablePage
from lossless.tui.words import cell, plural, right, size

if TYPE_CHECKING:
    from lossless.model.files import StoredFile
    from lossless.store.listings import Page
    from lossless.tui.room import Room
    from lossless.tui.words import Times

BATCH = 50
#: So many bytes of a file stand in the pane, and so many can be read here.
_BEGINNING, _MOST = 16_384, 512_000


class LargeFiles(TablePage):
    """Stored files, newest first; the pane has what is known of one, and how it begins."""

    COLUMNS = ("file", "kind", "size", "stored", "name")

    def __init__(self, conversation_id: int) -> None:
        super().__init__()
        self.conversation_id: int = conversation_id
        self._wanted, self._has_more = BATCH, False
        self._found: dict[str, StoredFile] = {}

    def load(self) -> None:
        archive, where, count = self.room.archive, Where((self.conversation_id,)), self._wanted
        self.reading(lambda: (archive.files.page(where, count), archive.files.totals(where)), self._show)

    def _show(self, read: tuple[Page[StoredFile], tuple[int, int]]) -> None:
        page, (count, total) = read
        self._found, self._has_more = {file.id: file for file in page.rows}, page.next is not None
        self.where(f"Large files of conversation {self.conversation_id}", f"{plural(count, 'file')}, {size(total)}")
        times = self.lcm.times
        self.rows.fill(
            [
                (
                    file.id,
                    (
                        cell(file.id),
                        cell(file.mime or "–"),
                        right(size(file.byte_size), 9),
                        cell(times.short(file.created_at), "dim"),
                        cell(file.name or ""),
                    ),
                )
                for file in page.rows
            ]
        )
        if not page.rows:
            self.pane.show(Detail("There are no large files in this conversation."))

    def highlighted(self, key: str) -> None:
        room, file, times = self.room, self._found[key], self.lcm.times
        self.open_detail(lambda: _opened(room, file, times))
        if self._has_more and self.rows.is_at_end:
            self._wanted += BATCH
            self.load()

    def selected(self, key: str) -> None:
        room, file, times = self.room, self._found[key], self.lcm.times
        self.fetch(lambda: _whole(room, file, times), self._open, "plan")

    def _open(self, detail: Detail) -> None:
        self.app.push_screen(Whole(detail))


def _opened(room: Room, file: StoredFile, times: Times) -> Detail:
    """What is known of a file, and the beginning of its content."""
    from lossless.files.place import vault_of
    from lossless.recall.describe import DescribeRequest, describe
    from lossless.recall.file_page import from_vault
    from lossless.recall.scope import everything

    vault = vault_of(room.path, room.settings.large_files_dir)
    opener = from_vault(vault) if vault else None
    found = describe(room.archive, file.id, everything(), room.clock(), DescribeRequest(max_bytes=_BEGINNING), opener)
    return Detail(f"{file.id}  {file.name or ''}", _facts(file, times), str(found))


def _whole(room: Room, file: StoredFile, times: Times) -> Detail:
    """A file's own text, without what is known about it; of bytes that are no text, only that."""
    from lossless.files.place import vault_of
    from lossless.recall.file_page import is_binary

    vault = vault_of(room.path, room.settings.large_files_dir)
    piece = None if vault is None else vault.read_text(file, 0, _MOST)
    if piece is None or is_binary(piece.data[:_BEGINNING]):
        return _opened(room, file, times)
    rest = f"\n\n… the rest of {size(file.byte_size)} is in the file" if piece.is_cut else ""
    return Detail(f"{file.id}  {file.name or ''}", _facts(file, times), piece.text + rest)


def _facts(file: StoredFile, times: Times) -> tuple[tuple[str, str], ...]:
    return (
        ("kind", file.mime or "–"),
        ("size", f"{size(file.byte_size)}, {plural(file.line_count or 0, 'line')}"),
        ("stored", times.minute(file.created_at)),
    )
