"""The bytes of large files on their way from one archive's folder into another's."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.errors import ArchiveDenied, ArchiveError, NotFound
from lossless.files.vault import Vault
from lossless.model.files import StoredFile
from lossless.model.times import parse_time
from lossless.store.row_digests import payload_digest

if TYPE_CHECKING:
    from lossless.store.bundles import Values
    from lossless.transfer.reports import ImportReport

_NAME = re.compile(r"file_[0-9a-f]{16}\.([a-z0-9]{1,10})")
_EPOCH = "1970-01-01 00:00:00"


class Payloads:
    """Finds the bytes of files and puts them into a vault.

    They are looked for in `folders`, then at the place that their row names; only under the name of a payload, so
    that no row can make another file of this machine be read.
    """

    def __init__(self, vault: Vault | None, folders: tuple[Path, ...] = ()) -> None:
        self._vault, self._folders = vault, folders
        #: Digests of what was brought, by file id: ids of other programs say nothing about the bytes.
        self.brought: dict[str, bytes] = {}

    @property
    def vault(self) -> Vault | None:
        return self._vault

    def look(self, file: Values, report: ImportReport) -> None:
        """Count what `bring` would do."""
        is_there = self._vault is not None and self.read(file) is not None
        report.files_copied += is_there
        report.files_missing += not is_there

    def lacks(self, file: StoredFile) -> bool:
        """Whether the vault should have a file and does not."""
        if self._vault is None:
            return False
        try:
            self._vault.read(file, 0, 1)
        except (NotFound, ArchiveError):
            return True
        return False

    def has(self, file: Values) -> bool:
        """Whether the bytes of a row can be brought."""
        return _NAME.fullmatch(Path(file["storage_uri"]).name) is not None and self.read(file) is not None

    def bring(self, file: Values, conversation_id: int, report: ImportReport) -> Values:
        """The row of a file that now lies in the vault; without its bytes the row stays as it was."""
        row = {name: value for name, value in file.items() if name not in ("data", "source_conversation")}
        named = _NAME.fullmatch(Path(file["storage_uri"]).name)
        data = None if self._vault is None or named is None else self.read(file)
        if data is None or named is None or self._vault is None:
            report.files_missing += 1
            report.warnings.append(f"the bytes of file {file['file_id']!r} were not found: only its row is kept")
            return row
        place = self._vault.write(conversation_id, file["file_id"], named[1], data)
        report.files_copied += 1
        self.brought[file["file_id"]] = payload_digest(data)
        return row | {"storage_uri": str(place)}

    def read(self, file: Values) -> bytes | None:
        """The bytes of a file, None when they are nowhere."""
        if file.get("data") is not None:
            try:
                return base64.b64decode(file["data"], validate=True)
            except ValueError:
                return None
        place = Path(file["storage_uri"])
        if _NAME.fullmatch(place.name) is None:
            return None
        parent = place.parent.name
        conversation_id = int(parent) if parent.isascii() and parent.isdigit() else 0
        stored = StoredFile(
            file["file_id"], conversation_id, None, None, None, None, file["storage_uri"], None, parse_time(_EPOCH)
        )
        for folder in (*self._folders, place.parent.parent):
            try:
                return Vault(folder).read(stored).data
            except (NotFound, ArchiveDenied, ArchiveError, OSError):
                continue
        return None
