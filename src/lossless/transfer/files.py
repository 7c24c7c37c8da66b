"""Files that a transfer writes: atomic new files and folders, payloads copied between archives, rows as JSON."""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossless.errors import ArchiveCorrupt, ArchiveDenied, ArchiveError, ArchiveFull, BadInput, NotFound
from lossless.files.vault import Vault
from lossless.model.messages import StoredFile
from lossless.model.paths import create_private_file, expand_path, fsync_path, is_same_file, make_private_folder
from lossless.model.times import parse_time
from lossless.store.bundles import OWN_TABLES, PRUNED_TABLE, RowValues, fit_row, fit_scalars
from lossless.store.files import payload_digest

if TYPE_CHECKING:
    from lossless.store.archive import Archive
    from lossless.transfer.lossless_claw import ExportReport
    from lossless.transfer.merge_plan import ImportReport

_NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_CHUNK = 1 << 20
_SQLITE_FILES = ("-journal", "-wal", "-shm")


@contextmanager
def writing_file(
    target: str | Path, *, overwrite: bool = False, source: str | Path | None = None, is_private: bool = True
) -> Iterator[Path]:
    """A path next to `target` to write to; when the block succeeds it replaces `target`, durably.

    Private files are for the owner only, like archives. `source`, which is being read, is never replaced.
    """
    place = resolve_target(target)
    check_free(place, overwrite=overwrite, source=source)
    with _refusing(place):
        make_private_folder(place.parent)
        temporary = place.with_name(f".{place.name}.{secrets.token_hex(6)}.tmp")
        if is_private:
            create_private_file(temporary)
        else:
            os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    try:
        with _refusing(place):
            yield temporary
            fsync_path(temporary)
            os.replace(temporary, place)
            _flush_names(place.parent)
    except ArchiveError as error:  # readers know the requested name
        raise type(error)(str(error).replace(str(temporary), str(place))) from error
    finally:
        for ending in ("", *_SQLITE_FILES):
            Path(f"{temporary}{ending}").unlink(missing_ok=True)


@contextmanager
def writing_folder(target: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A folder to write files to; when the block succeeds all of them are moved to `target`, else none.

    A new folder appears atomically. Into an existing one the files are moved one by one, at the end.
    """
    folder = resolve_target(target)
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{str(folder)!r} is a file; name a folder")
    with _refusing(folder):
        is_new = not folder.exists()
        if not is_new and not overwrite and any(folder.iterdir()):
            raise BadInput(f"folder {str(folder)!r} is not empty; choose another, or allow overwriting (--overwrite)")
        make_private_folder(folder.parent)
        temporary = (folder.parent if is_new else folder) / f".{folder.name}.{secrets.token_hex(6)}.tmp"
        make_private_folder(temporary)
    try:
        with _refusing(folder):
            yield temporary
            files = sorted(temporary.iterdir())
            for file in files:
                fsync_path(file)
            if is_new:
                _flush_names(temporary)
                os.rename(temporary, folder)
            else:
                for file in files:
                    os.replace(file, folder / file.name)
            _flush_names(folder.parent if is_new else folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def resolve_target(target: str | Path) -> Path:
    """The absolute path of a target, with links resolved."""
    return Path(os.path.realpath(expand_path(target)))


def check_not_archive(source: str | Path, place: str | Path, archive: Archive) -> None:
    """Raises when the source of an import is the target archive."""
    if is_same_file(place, archive.path):
        raise BadInput(f"source {str(source)!r} is the archive itself")


def check_apart(place: str | Path, archive: str | Path) -> None:
    """Raises when a name is an archive's, or that of one of SQLite's files next to it."""
    if is_same_file(place, archive):
        raise BadInput(f"{str(place)!r} is the archive itself; choose another name")
    if any(is_same_file(place, f"{resolve_target(archive)}{ending}") for ending in _SQLITE_FILES):
        raise BadInput(f"{str(place)!r} is a part of the archive; choose another name")


def check_free(place: Path, *, overwrite: bool, source: str | Path | None = None) -> None:
    """Raises when something exists that may not be replaced."""
    if place.is_dir():
        raise BadInput(f"{str(place)!r} is a folder; name a file")
    if source is not None:
        check_apart(place, source)
    if place.exists() and not place.is_file():
        raise BadInput(f"{str(place)!r} is not a file that can be replaced; choose another name")
    if place.exists() and not overwrite:
        raise BadInput(f"{str(place)!r} already exists; choose another name, or allow overwriting (--overwrite)")


def check_written(path: Path, digest: str) -> None:
    """Read a new file back; raises when it differs from what was written."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    if found.hexdigest() != digest:
        raise ArchiveCorrupt(f"{path.name!r}, read back, is not what was written; nothing was replaced")


@contextmanager
def _refusing(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind: type[ArchiveError] = ArchiveFull if error.errno in _NO_ROOM else ArchiveDenied
        raise kind(f"{str(place)!r} cannot be written: {error.strerror}; nothing was written") from error


def _flush_names(folder: Path) -> None:
    with suppress(OSError):
        fsync_path(folder)


_NAME = re.compile(r"file_[0-9a-f]{16}\.([a-z0-9]{1,10})")
_EPOCH = "1970-01-01 00:00:00"


class PayloadCopier:
    """Finds the bytes of files and copies them into a vault.

    They are searched in `folders`, then at the path in their row; only under the name of a payload, so that no row can
    make us read another file.
    """

    def __init__(self, vault: Vault | None, folders: tuple[Path, ...] = ()) -> None:
        self.vault, self._folders = vault, folders
        #: Digests of copied files, by file id: ids of other programs say nothing about the bytes.
        self.brought: dict[str, bytes] = {}

    def look(self, file: RowValues, report: ImportReport) -> None:
        """Count what `bring` would do."""
        is_there = self.vault is not None and self.read(file) is not None
        report.files_copied += is_there
        report.files_missing += not is_there

    def lacks(self, file: StoredFile) -> bool:
        """Whether the vault should have a file and does not."""
        if self.vault is None:
            return False
        try:
            self.vault.read(file, 0, 1)
        except (NotFound, ArchiveError):
            return True
        return False

    def has(self, file: RowValues) -> bool:
        """Whether the bytes of a row can be copied."""
        return _NAME.fullmatch(Path(file["storage_uri"]).name) is not None and self.read(file) is not None

    def bring(self, file: RowValues, conversation_id: int, report: ImportReport | ExportReport) -> RowValues:
        """The row of a file that is now in the vault; unchanged without its bytes."""
        row = {name: value for name, value in file.items() if name not in ("data", "source_conversation")}
        named = _NAME.fullmatch(Path(file["storage_uri"]).name)
        data = self.read(file) if self.vault and named else None
        if data is None or named is None or self.vault is None:
            report.files_missing += 1
            report.warnings.append(f"the bytes of file {file['file_id']!r} were not found: only its row is kept")
            return row
        place = self.vault.write(conversation_id, file["file_id"], named[1], data)
        report.files_copied += 1
        self.brought[file["file_id"]] = payload_digest(data)
        return row | {"storage_uri": str(place)}

    def read(self, file: RowValues) -> bytes | None:
        """The bytes of a file; None when they are not found."""
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
        unknown = (None, None, None, None, file["storage_uri"], None, parse_time(_EPOCH))
        stored = StoredFile(file["file_id"], conversation_id, *unknown)
        for folder in (*self._folders, place.parent.parent):
            try:
                return Vault(folder).read(stored).data
            except (NotFound, ArchiveDenied, ArchiveError, OSError):
                continue
        return None


_BYTES = "base64"
_NESTED = (dict, list)


def dump_row(values: object) -> str:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"), default=_encode)


def restore_row(values: dict[str, Any]) -> dict[str, Any]:
    """Values with bytes decoded."""
    return {name: _decode(value) if type(value) in _NESTED else value for name, value in values.items()}


def extra_row(table: str, values: dict[str, Any]) -> dict[str, Any]:
    """A row of an additional table, with values that its columns can hold."""
    row = restore_row(values)
    return fit_scalars(row) if table in (*OWN_TABLES, PRUNED_TABLE) else fit_row(row)


def _encode(value: object) -> object:
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    raise TypeError(f"{type(value).__name__} has no place in JSON")


def _decode(value: dict[str, Any] | list[Any]) -> Any:
    if isinstance(value, list):
        return [restore_row(item) if isinstance(item, dict) else item for item in value]
    if list(value) == [_BYTES]:
        return base64.b64decode(value[_BYTES]) if isinstance(value[_BYTES], str) else None
    return value
