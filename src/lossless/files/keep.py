"""Payloads into the vault, their rows into the archive, in the order that a crash cannot hurt: file, then row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lossless.errors import NotFound
from lossless.files.kinds import extension
from lossless.model.files import StoredFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from lossless.files.draft import Payload
    from lossless.files.vault import Orphan, Vault


class FileRows(Protocol):
    """The rows of large files: `archive.files`."""

    def add(self, files: Sequence[StoredFile]) -> None:
        """Write rows; one that is there stays as it is."""
        ...

    def many(self, file_ids: Iterable[str]) -> dict[str, StoredFile]:
        """Rows by id; unknown ids are left out."""
        ...

    def ids(self) -> frozenset[str]:
        """The ids of all rows."""
        ...


def keep(rows: FileRows, vault: Vault, conversation_id: int, payloads: Iterable[Payload], now: datetime) -> None:
    """Store payloads inside the caller's transaction: bytes first, then rows. What is stored already stays.

    Called while the archive is locked for writing, so that `collect` cannot take a file away before its row is there.
    """
    wanted = {payload.file_id: payload for payload in payloads}
    if not wanted:
        return
    known = rows.many(wanted)
    new: list[StoredFile] = []
    for payload in wanted.values():
        there = known.get(payload.file_id)
        ending = extension(there.name, there.mime) if there else extension(payload.name, payload.mime)
        place = vault.write(conversation_id, payload.file_id, ending, payload.data)
        if there is None:
            new.append(_row(payload, conversation_id, str(place), now))
    rows.add(new)


def _row(payload: Payload, conversation_id: int, place: str, now: datetime) -> StoredFile:
    return StoredFile(
        payload.file_id,
        conversation_id,
        payload.name,
        payload.mime,
        len(payload.data),
        payload.line_count,
        place,
        payload.summary,
        now,
    )


def reader(rows: FileRows, vault: Vault) -> Callable[[str], bytes]:
    """Gives the bytes of a file by its id, as recipes need them; NotFound for an unknown id or missing bytes."""

    def read(file_id: str) -> bytes:
        row = rows.many([file_id]).get(file_id)
        if row is None:
            raise NotFound("file", file_id)
        return vault.read(row).data

    return read


def collect(
    rows: FileRows, vault: Vault, orphans: Iterable[Orphan], others: frozenset[str] = frozenset()
) -> list[Orphan]:
    """Delete files that still have no row; returns those that were deleted. Only on a person's command.

    Called inside the archive's write transaction, where no row can appear in between. `others` are the files of other
    archives that keep theirs in the same folder.
    """
    known = rows.ids() | others
    gone = [orphan for orphan in orphans if orphan.path.name.startswith(".") or orphan.file_id not in known]
    for orphan in gone:
        vault.remove(orphan)
    return gone
