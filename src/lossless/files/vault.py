"""Payload bytes on disk, `<root>/<conversation_id>/<file_id>.<ext>`, stored before their row; and search in them."""

from __future__ import annotations

import codecs
import errno
import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from lossless.errors import ArchiveDenied, ArchiveError, ArchiveFull, BadInput, NotFound
from lossless.files.media_types import storage_extension
from lossless.model.messages import StoredFile
from lossless.model.paths import expand_path, fsync_path, make_private_folder, payload_folder, replacing

if TYPE_CHECKING:
    from lossless.files.document import Payload


_FOLDER = "archives"
_ALL = "all"


def vault_users(root: Path) -> tuple[list[Path], bool]:
    """The archives that are known to keep payloads in a folder, and whether the list is complete."""
    folder = root / _FOLDER
    found: list[Path] = []
    are_all = False
    for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
        if entry.name == _ALL:
            are_all = True
        elif entry.is_file() and not entry.name.startswith("."):
            name = entry.read_text("utf-8", "surrogateescape")
            found.append(Path(os.path.normpath(os.path.join(os.path.realpath(root), name))))
    return found, are_all


def set_users(root: Path, archives: Iterable[str]) -> None:
    """Record the user's complete list of the archives that keep payloads in a folder."""
    make_private_folder(root / _FOLDER)
    wanted = {_note(root, archive) for archive in archives}
    for entry in list((root / _FOLDER).iterdir()):
        if entry.name not in wanted | {_ALL}:
            entry.unlink(missing_ok=True)
    _put(root / _FOLDER / _ALL, "")


def _note(root: Path, archive: str) -> str:
    """Record an archive; returns the name of its entry. Its path is relative: both may be moved together."""
    try:
        path = os.path.relpath(os.path.realpath(archive), os.path.realpath(root))
    except ValueError:  # another drive
        path = os.path.realpath(archive)
    name = hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    if not (root / _FOLDER / name).is_file():
        _put(root / _FOLDER / name, path)
    return name


def _put(place: Path, text: str) -> None:
    with replacing(place) as new:
        new.write_text(text, "utf-8", "surrogateescape")


_NAME = re.compile(r"(file_[0-9a-f]{16})\.[a-z0-9]{1,10}")
_TEMPORARY = re.compile(r"\.(file_[0-9a-f]{16})(?:\.[a-z0-9]{1,10})?\.[0-9a-f]+\.tmp")
_ID = re.compile(r"file_[0-9a-f]{16}")
_EXTENSION = re.compile(r"[a-z0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class FilePiece:
    """A part of a file: the bytes `[start, end)` of `total`."""

    data: bytes
    start: int
    end: int
    total: int

    @property
    def text(self) -> str:
        """The bytes as text; invalid UTF-8 becomes U+FFFD."""
        return self.data.decode("utf-8", "replace")

    @property
    def is_cut(self) -> bool:
        """Whether the file continues after this piece."""
        return self.end < self.total


@dataclass(frozen=True, slots=True)
class OrphanFile:
    """A file without a row: left by a crash between the file and its row, or by a deleted conversation."""

    path: Path
    file_id: str
    size: int


class Vault:
    """A folder of payloads; safe for several processes."""

    def __init__(
        self, root: str | os.PathLike[str], *, archive: str | None = None, older: Sequence[str | os.PathLike[str]] = ()
    ) -> None:
        """`archive` owns the folder; payloads are also read from `older` folders when rows name them."""
        self.root = Path(os.path.abspath(expand_path(root)))
        self.archive = archive
        #: Folders that payloads are read from: this one, and older ones.
        self.roots = (self.root, *(Path(os.path.abspath(expand_path(place))) for place in older))
        self._is_registered = archive is None

    def path(self, conversation_id: int, file_id: str, extension: str) -> Path:
        """The path of a payload; BadInput for an invalid id or extension."""
        if not _ID.fullmatch(file_id) or not _EXTENSION.fullmatch(extension):
            raise BadInput(f"{file_id!r} with the extension {extension!r} is not the name of a payload")
        return self.root / str(int(conversation_id)) / f"{file_id}.{extension}"

    def write(self, conversation_id: int, file_id: str, extension: str, data: bytes) -> Path:
        """Write bytes, durable on return; writing the same bytes again only updates the file's time."""
        path = self.path(conversation_id, file_id, extension)
        with _as_errors(file_id):
            self.claim()
            if not path.parent.is_dir():
                make_private_folder(path.parent)
                if os.name == "posix":
                    fsync_path(self.root)
            place = _without_links(self.root, (path.parent.name, path.name))
            if not place.is_file() or place.stat().st_size != len(data) or place.read_bytes() != data:
                with replacing(place) as new:
                    new.write_bytes(data)
            else:
                with suppress(PermissionError):  # its time only shows its age
                    os.utime(place)
        return path

    def claim(self) -> None:
        """Record in the folder that the archive is about to keep payloads there."""
        if not self._is_registered and self.archive is not None:
            is_new = not self.root.is_dir() or not any(self.root.iterdir())
            make_private_folder(self.root / _FOLDER)
            if is_new:  # the list is complete from now on
                _put(self.root / _FOLDER / _ALL, "")
            _note(self.root, self.archive)
            self._is_registered = True

    def read(self, file: StoredFile, start: int = 0, length: int | None = None) -> FilePiece:
        """Up to `length` bytes of a payload from `start` on; NotFound when they are not on disk."""
        if start < 0 or (length is not None and length < 0):
            raise BadInput("a range of a file begins at 0 and has a length of at least 0")
        with self._opened(file) as opened:
            total = os.fstat(opened.fileno()).st_size
            begin = opened.seek(min(start, total))
            data = opened.read(total - begin if length is None else min(length, total - begin))
        return FilePiece(data, begin, begin + len(data), total)

    def read_text(self, file: StoredFile, start: int = 0, max_bytes: int | None = None) -> FilePiece:
        """Like `read`, but never splits a character: the piece is a little shorter instead."""
        return _whole_characters(self.read(file, start, max_bytes))

    def place_of(self, file: StoredFile) -> Path:
        """The path of a file's bytes below the root."""
        root, names = self._inside(file)
        return root.joinpath(*names)

    @contextmanager
    def _opened(self, file: StoredFile) -> Iterator[BinaryIO]:
        with _as_errors(file.id, missing=True):
            place = _without_links(*self._inside(file))
            if not stat.S_ISREG(place.stat().st_mode):
                raise ArchiveDenied(f"file {file.id}: it is not a regular file")
            with open(place, "rb") as opened:
                yield opened

    def _inside(self, file: StoredFile) -> tuple[Path, Sequence[str]]:
        """The path of a file from the root, or from an older root that still has it.

        A stored path elsewhere is looked up in the same subfolder of this root.
        """
        place = os.path.normpath(file.storage_uri)
        for folder in self.roots:
            for spelled in (str, os.path.realpath):
                root = spelled(folder)
                if "\0" in place or not place.startswith(root + os.sep):
                    continue
                if folder == self.root or os.path.lexists(place):
                    return folder, place[len(root) + 1 :].split(os.sep)
        name = re.split(r"[/\\]", file.storage_uri)[-1]
        if not _NAME.fullmatch(name):
            raise ArchiveDenied(f"file {file.id}: it is outside of {self.root}")
        return self.root, (str(file.conversation_id), name)

    def orphans(self, known: Container[str], min_age_seconds: float = 3600) -> list[OrphanFile]:
        """Payloads and unfinished writes without a row in `known`; recent ones may still get a row and are skipped."""
        before = time.time() - min_age_seconds
        found: list[OrphanFile] = []
        for path in sorted(self.root.glob("[0-9]*/*")):
            named, status = _NAME.fullmatch(path.name) or _TEMPORARY.fullmatch(path.name), path.lstat()
            is_ours = path.parent.name.isdigit() and not path.parent.is_symlink() and stat.S_ISREG(status.st_mode)
            if named is None or not is_ours:
                continue
            is_known = named.re is _NAME and named[1] in known
            if not is_known and status.st_mtime <= before:
                found.append(OrphanFile(path, named[1], status.st_size))
        return found

    def remove(self, orphan: OrphanFile) -> None:
        """Delete an orphan; one that is already gone is no error."""
        if not (_NAME.fullmatch(orphan.path.name) or _TEMPORARY.fullmatch(orphan.path.name)):
            raise BadInput(f"{orphan.path.name!r} is not the name of a payload")
        _without_links(self.root, (orphan.path.parent.name, orphan.path.name)).unlink(missing_ok=True)


def _without_links(root: Path, names: Sequence[str]) -> Path:
    """The path below a root; OSError when something on the way is a link."""
    path = os.path.join(os.path.realpath(root), *names)
    if os.path.realpath(path) != path:
        raise OSError(errno.ELOOP, "a link", path)
    return Path(path)


@contextmanager
def _as_errors(file_id: str, *, missing: bool = False) -> Iterator[None]:
    """Converts errors of the system to ours: missing, full or forbidden."""
    try:
        yield
    except FileNotFoundError as error:
        if missing:
            raise NotFound("stored bytes of file", file_id) from error
        raise ArchiveError(f"file {file_id}: its folder is gone") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ArchiveFull(f"file {file_id}: the disk is full") from error
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
            reason = "its place is a link or not a folder; links are not followed"
            raise ArchiveDenied(f"file {file_id}: {reason}") from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENXIO):
            raise ArchiveDenied(f"file {file_id}: {error.strerror}") from error
        raise ArchiveError(f"file {file_id}: {error.strerror}") from error


def _whole_characters(piece: FilePiece) -> FilePiece:
    """The piece without partial characters at either end; bytes that are not text stay."""
    data, head = piece.data, 0
    if piece.start:  # bytes of a character that began before
        head = next((n for n, byte in enumerate(data[:3]) if byte & 0xC0 != 0x80), min(3, len(data)))
    end = len(data)
    if piece.is_cut:  # the last character may be incomplete
        end = head + codecs.utf_8_decode(data[head:], "replace", False)[1]
    if head >= end:
        return piece
    return FilePiece(data[head:end], piece.start + head, piece.start + end, piece.total)


#: The folder that all archives of a directory shared in earlier versions; still read.
_SHARED = "lcm-files"


def open_vault(archive_path: str, large_files_dir: str | None) -> Vault | None:
    """The folder in the settings, else one next to the archive with its name; none for an archive in memory."""
    if archive_path == ":memory:":
        return Vault(large_files_dir) if large_files_dir else None
    shared = Path(archive_path).parent / _SHARED
    return Vault(large_files_dir or payload_folder(archive_path), archive=archive_path, older=(shared,))


def locate_payload(place: str, vault: Vault | None) -> Path:
    """The path of a payload: as in its row, or, when the folder was moved, the same subpath of the vault."""
    path = Path(place)
    moved = path if vault is None else vault.root / path.parent.name / path.name
    return moved if moved.is_file() and not path.is_file() else path


def find_damage(
    file_id: str, place: str, size: int | None, is_proven_by: Callable[[bytes], bool], vault: Vault | None
) -> str | None:
    """What is wrong with a payload's bytes, by what its row says of them; None when nothing is."""
    try:
        path = locate_payload(place, vault)
        if not path.is_file():
            return f"its bytes are not at {place}"
        if size is not None and path.stat().st_size != size:
            return f"{path} does not have the stored size"
        # a row cannot make us read another file
        is_proven = path.stem != file_id or is_proven_by(path.read_bytes())
    except (OSError, ValueError):
        return f"its bytes cannot be read at {place}"
    return None if is_proven else f"{path} does not contain the stored bytes"


#: The rows of some large files: `archive.files.many`.
FindFiles: TypeAlias = "Callable[[Iterable[str]], Mapping[str, StoredFile]]"


def write_payloads(
    find: FindFiles, vault: Vault, conversation_id: int, payloads: Iterable[Payload], now: datetime
) -> list[StoredFile]:
    """Write the bytes of payloads; returns the rows to add in the caller's transaction. Existing ones stay.

    Called while the archive is locked for writing, so that `delete_orphans` cannot delete a file before its row exists.
    """
    wanted = {payload.file_id: payload for payload in payloads}
    known = find(wanted) if wanted else {}
    new: list[StoredFile] = []
    for payload in wanted.values():
        there = known.get(payload.file_id)
        ending = storage_extension(there.name, there.mime) if there else storage_extension(payload.name, payload.mime)
        place = vault.write(conversation_id, payload.file_id, ending, payload.data)
        if there is None:
            lines, size = payload.line_count, len(payload.data)
            row = (payload.file_id, conversation_id, payload.name, payload.mime, size, lines, str(place))
            new.append(StoredFile(*row, payload.summary, now))
    return new


def payload_reader(find: FindFiles, vault: Vault) -> Callable[[str], bytes]:
    """Returns a function from file id to bytes, as recipes need it; NotFound for an unknown id or missing bytes."""

    def read(file_id: str) -> bytes:
        row = find([file_id]).get(file_id)
        if row is None:
            raise NotFound("file", file_id)
        return vault.read(row).data

    return read


def delete_orphans(vault: Vault, orphans: Iterable[OrphanFile], known: AbstractSet[str]) -> list[OrphanFile]:
    """Delete files that still have no row; returns the deleted ones. Only on the user's command.

    Called in the archive's write transaction, so that no row can appear in between. `known` are the files with a row,
    here or in another archive in the same folder.
    """
    gone = [orphan for orphan in orphans if orphan.path.name.startswith(".") or orphan.file_id not in known]
    for orphan in gone:
        vault.remove(orphan)
    return gone
