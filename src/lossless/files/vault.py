"""The bytes of payloads on disk: `<root>/<conversation_id>/<file_id>.<ext>`.

A file is whole or absent: it is written beside its place, flushed, and moved there. Reading never leaves the root,
follows no link below it, and opens each file once.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.errors import ArchiveDenied, ArchiveError, ArchiveFull, BadInput, NotFound
from lossless.files.users import register, users_of
from lossless.paths import expanded, private_folder

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from lossless.files.users import Users
    from lossless.model.files import StoredFile

_NAME = re.compile(r"(file_[0-9a-f]{16})\.[a-z0-9]{1,10}")
_TEMPORARY = re.compile(r"\.(file_[0-9a-f]{16})\.[0-9a-f]+\.tmp")
_ID = re.compile(r"file_[0-9a-f]{16}")
_EXTENSION = re.compile(r"[a-z0-9]{1,10}")
_CHUNK = 1 << 20
#: Flags that not every system has.
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | _NO_LINKS
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_LINKS
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | _NO_LINKS
_HAS_FOLDERS = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY")


@dataclass(frozen=True, slots=True)
class Piece:
    """Some of a file: the bytes `[start, end)` of `total`."""

    data: bytes
    start: int
    end: int
    total: int

    @property
    def text(self) -> str:
        """The bytes as text; what is not UTF-8 shows as U+FFFD."""
        return self.data.decode("utf-8", "replace")

    @property
    def is_cut(self) -> bool:
        """Whether the file goes on behind this piece."""
        return self.end < self.total


@dataclass(frozen=True, slots=True)
class Orphan:
    """A file that no row knows: left by a crash between the file and its row, or by a deleted conversation."""

    path: Path
    file_id: str
    size: int


class Vault:
    """A folder of payloads. Several processes may use it at once."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        archive: str | None = None,
        older: Sequence[str | os.PathLike[str]] = (),
    ) -> None:
        """`archive` is whose folder it is; payloads are also read in `older` folders, where rows name them there."""
        self.root = Path(os.path.abspath(expanded(root)))
        self.archive = archive
        #: Where payloads are read: here, and where they may lie since before.
        self.roots = (self.root, *(Path(os.path.abspath(expanded(place))) for place in older))
        self._is_registered = archive is None

    def path(self, conversation_id: int, file_id: str, extension: str) -> Path:
        """Where a payload lies; BadInput for an id or an extension that is none."""
        if not _ID.fullmatch(file_id) or not _EXTENSION.fullmatch(extension):
            raise BadInput(f"{file_id!r} with the extension {extension!r} is not the name of a payload")
        return self.root / str(int(conversation_id)) / f"{file_id}.{extension}"

    # --- writing ------------------------------------------------------------------------------------

    def write(self, conversation_id: int, file_id: str, extension: str, data: bytes) -> Path:
        """Put bytes in their place, durable when this returns; the same bytes again change only the file's time."""
        path = self.path(conversation_id, file_id, extension)
        with _as_errors(file_id):
            self.claim()
            self._make_folder(path.parent)
            with self._folder(self.root, (path.parent.name,)) as folder:
                if not self._is_there(folder, path.name, data):
                    self._put(folder, path.name, file_id, data)
        return path

    def claim(self) -> None:
        """Note in the folder that the archive keeps payloads there, before it does."""
        if not self._is_registered and self.archive is not None:
            register(self.root, self.archive)
            self._is_registered = True

    def _make_folder(self, folder: Path) -> None:
        if folder.is_dir():
            return
        private_folder(folder)
        _flush_folder(self.root)

    def _is_there(self, folder: _Folder, name: str, data: bytes) -> bool:
        try:
            handle = folder.open(name, _READ)
        except FileNotFoundError:
            return False
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_size != len(data) or _all(handle) != data:
                return False
            with suppress(PermissionError):  # its time only tells how young it is
                os.utime(handle if os.utime in os.supports_fd else folder.place(name))
            return True
        finally:
            os.close(handle)

    def _put(self, folder: _Folder, name: str, file_id: str, data: bytes) -> None:
        beside = f".{file_id}.{secrets.token_hex(8)}.tmp"
        handle = folder.open(beside, _CREATE)
        try:
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(handle, view[:_CHUNK]) :]
                os.fsync(handle)
            finally:
                os.close(handle)
            folder.move(beside, name)
        except BaseException:
            with suppress(OSError):
                folder.remove(beside)
            raise
        folder.flush()

    # --- reading ------------------------------------------------------------------------------------

    def read(self, file: StoredFile, start: int = 0, length: int | None = None) -> Piece:
        """Bytes of a payload from `start` on, at most `length`; NotFound when they are not on the disk."""
        _check_range(start, length)
        with self._opened(file) as handle:
            return _piece(handle, start, length)

    def read_text(self, file: StoredFile, start: int = 0, max_bytes: int | None = None) -> Piece:
        """As `read`, but no character is cut in two: the piece is a little shorter instead."""
        return _whole_characters(self.read(file, start, max_bytes))

    def read_lines(self, file: StoredFile, first: int, last: int | None = None, max_bytes: int | None = None) -> Piece:
        """The lines `first` to `last`, counted from 1, both included; cut between characters at `max_bytes`."""
        if first < 1 or (last is not None and last < first):
            raise BadInput(f"lines are counted from 1, and the last is not before the first: {first} to {last}")
        _check_range(0, max_bytes)
        with self._opened(file) as handle:
            begin = _line_start(handle, first - 1)
            end = os.fstat(handle).st_size if last is None else _line_start(handle, last - first + 1, begin)
            length = end - begin if max_bytes is None else min(max_bytes, end - begin)
            return _whole_characters(_piece(handle, begin, length))

    def place_of(self, file: StoredFile) -> Path:
        """Where the bytes of a file lie below the root."""
        root, names = self._inside(file)
        return root.joinpath(*names)

    @contextmanager
    def _opened(self, file: StoredFile) -> Iterator[int]:
        """A descriptor of a regular file below the root."""
        root, (*folders, name) = self._inside(file)
        with _as_errors(file.id, missing=True):
            with self._folder(root, tuple(folders)) as folder:
                handle = folder.open(name, _READ)
            try:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise ArchiveDenied(f"file {file.id}: it is not a regular file")
                yield handle
            finally:
                os.close(handle)

    def _inside(self, file: StoredFile) -> tuple[Path, Sequence[str]]:
        """The way to a file from the root, or from an older one where it still lies.

        A stored place elsewhere is looked for in the same folder of this root.
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
            raise ArchiveDenied(f"file {file.id}: it lies outside of {self.root}")
        return self.root, (str(file.conversation_id), name)

    @contextmanager
    def _folder(self, root: Path, names: tuple[str, ...]) -> Iterator[_Folder]:
        """A folder below a root, opened step by step without following links."""
        folder = _Folder.root(root)
        try:
            for name in names:
                folder = folder.enter(name)
            yield folder
        finally:
            folder.close()

    # --- what nobody refers to ------------------------------------------------------------------------

    def orphans(self, known: Container[str], min_age_seconds: float = 3600) -> list[Orphan]:
        """Payloads and unfinished writes without a row in `known`; young ones may still get theirs and are left out."""
        before = time.time() - min_age_seconds
        found: list[Orphan] = []
        for folder in sorted(_entries(self.root), key=lambda entry: entry.name):
            if not folder.name.isascii() or not folder.name.isdigit() or not folder.is_dir(follow_symlinks=False):
                continue
            for entry in sorted(_entries(folder.path), key=lambda entry: entry.name):
                named = _NAME.fullmatch(entry.name) or _TEMPORARY.fullmatch(entry.name)
                if named is None or not entry.is_file(follow_symlinks=False):
                    continue
                status = entry.stat(follow_symlinks=False)
                is_known = named.re is _NAME and named[1] in known
                if not is_known and status.st_mtime <= before:
                    found.append(Orphan(Path(entry.path), named[1], status.st_size))
        return found

    def users(self) -> Users:
        """The archives that are known to keep payloads in this folder."""
        return users_of(self.root)

    def remove(self, orphan: Orphan) -> None:
        """Delete an orphan; one that is gone already is no error."""
        if not (_NAME.fullmatch(orphan.path.name) or _TEMPORARY.fullmatch(orphan.path.name)):
            raise BadInput(f"{orphan.path.name!r} is not the name of a payload")
        with suppress(FileNotFoundError), self._folder(self.root, (orphan.path.parent.name,)) as folder:
            folder.remove(orphan.path.name)


class _Folder:
    """An open folder; on systems without such descriptors, its path, with links refused one by one."""

    def __init__(self, path: str, handle: int | None) -> None:
        self._path, self._handle = path, handle

    @classmethod
    def root(cls, path: Path) -> _Folder:
        real = os.path.realpath(path)
        flags = _FOLDER & ~getattr(os, "O_NOFOLLOW", 0)
        return cls(real, os.open(real, flags) if _HAS_FOLDERS else None)

    def enter(self, name: str) -> _Folder:
        path = os.path.join(self._path, name)
        if self._handle is None:
            if os.path.islink(path):
                raise OSError(errno.ELOOP, "a link", path)
            return _Folder(path, None)
        handle = os.open(name, _FOLDER, dir_fd=self._handle)
        self.close()
        return _Folder(path, handle)

    def place(self, name: str) -> str:
        return os.path.join(self._path, name)

    def open(self, name: str, flags: int) -> int:
        if self._handle is not None:
            return os.open(name, flags, 0o600, dir_fd=self._handle)
        if os.path.islink(self.place(name)):
            raise OSError(errno.ELOOP, "a link", name)
        return os.open(self.place(name), flags, 0o600)

    def move(self, source: str, target: str) -> None:
        if self._handle is None:
            os.replace(self.place(source), self.place(target))
        else:
            os.replace(source, target, src_dir_fd=self._handle, dst_dir_fd=self._handle)

    def remove(self, name: str) -> None:
        if self._handle is None:
            os.unlink(self.place(name))
        else:
            os.unlink(name, dir_fd=self._handle)

    def flush(self) -> None:
        if self._handle is not None:
            os.fsync(self._handle)

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


@contextmanager
def _as_errors(file_id: str, *, missing: bool = False) -> Iterator[None]:
    """Errors of the system as ours: what is missing, full or forbidden."""
    try:
        yield
    except FileNotFoundError as error:
        if missing:
            raise NotFound("stored bytes of file", file_id) from error
        raise ArchiveError(f"file {file_id}: its folder went away") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ArchiveFull(f"file {file_id}: no room left on the disk") from error
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
            raise ArchiveDenied(
                f"file {file_id}: its place is a link or not a folder; links are not followed"
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENXIO):
            raise ArchiveDenied(f"file {file_id}: {error.strerror}") from error
        raise ArchiveError(f"file {file_id}: {error.strerror}") from error


def _all(handle: int, length: int | None = None) -> bytes:
    """Bytes from a descriptor: `length` of them, or to the end."""
    chunks: list[bytes] = []
    left = length
    while left is None or left > 0:
        chunk = os.read(handle, _CHUNK if left is None else min(_CHUNK, left))
        if not chunk:
            break
        chunks.append(chunk)
        left = None if left is None else left - len(chunk)
    return b"".join(chunks)


def _line_start(handle: int, breaks: int, start: int = 0) -> int:
    """Where the line behind so many line breaks from `start` on begins; the end of the file when there are fewer."""
    os.lseek(handle, start, os.SEEK_SET)
    at = start
    while breaks > 0 and (chunk := os.read(handle, _CHUNK)):
        count = chunk.count(b"\n")
        if count < breaks:
            breaks -= count
            at += len(chunk)
            continue
        place = -1
        for _ in range(breaks):
            place = chunk.index(b"\n", place + 1)
        return at + place + 1
    return at


def _check_range(start: int, length: int | None) -> None:
    if start < 0 or (length is not None and length < 0):
        raise BadInput("a range of a file begins at 0 and has a length of at least 0")


def _piece(handle: int, start: int, length: int | None) -> Piece:
    total = os.fstat(handle).st_size
    start = min(start, total)
    os.lseek(handle, start, os.SEEK_SET)
    data = _all(handle, total - start if length is None else min(length, total - start))
    return Piece(data, start, start + len(data), total)


def _whole_characters(piece: Piece) -> Piece:
    """The piece without what is left of a character at either end; bytes that are no text stay."""
    head = _continuation_bytes(piece.data) if piece.start else 0
    tail = _unfinished_bytes(piece.data[head:]) if piece.is_cut else 0
    if head + tail >= len(piece.data):
        return piece
    data = piece.data[head : len(piece.data) - tail]
    return Piece(data, piece.start + head, piece.start + head + len(data), piece.total)


def _continuation_bytes(data: bytes) -> int:
    """How many bytes at the beginning belong to a character that began before."""
    return next((n for n in range(min(3, len(data))) if data[n] & 0xC0 != 0x80), min(3, len(data)))


def _unfinished_bytes(data: bytes) -> int:
    """How many bytes at the end are the beginning of a character that goes on."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        size = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return back if size > back else 0
    return 0


def _flush_folder(path: Path) -> None:
    if _HAS_FOLDERS:
        handle = os.open(path, _FOLDER & ~getattr(os, "O_NOFOLLOW", 0))
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _entries(path: str | os.PathLike[str]) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
