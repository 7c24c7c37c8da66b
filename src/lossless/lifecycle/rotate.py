"""Rotation: the host's transcript is rewritten to its tail, once everything in it is in the archive.

The order is what makes it safe: reconcile, fold, back up, look at the file again, prove that every message is stored,
write beside it, replace it, read it anew. Whoever dies on the way leaves the old transcript or the new one, whole.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, cast

from lossless import formats, recognise
from lossless.errors import LosslessError
from lossless.files.durable import flush
from lossless.ingest.masking import masked, masked_records
from lossless.lifecycle.ages import aged, newest
from lossless.lifecycle.backup import sweep_leftovers
from lossless.lifecycle.naming import OTHERS, imported_from, kept_by
from lossless.lifecycle.tail import (
    Said,
    Unsafe,
    kept_as,
    messages_of,
    owner_of,
    parsed_of,
    path_of,
    records_of,
    shortened,
)
from lossless.model.identity import fingerprint, identity_hash
from lossless.model.messages import MADE_UP
from lossless.store.retention import Retention

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from lossless.lifecycle.tail import Shortened
    from lossless.model.messages import JsonObject, Message
    from lossless.store.archive import Archive
    from lossless.store.messages import TailRow

_PAGE = 500
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def _nothing() -> None:
    return None


def _forget(_: object) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Steps:
    """What is done around the rewriting of a transcript; each that returns a text refuses with it."""

    #: Why a message of the transcript is not safe in the archive.
    unstored: Callable[[Iterable[Said]], str | None]
    #: Bring what the transcript has into the archive.
    reconcile: Callable[[], str | None] = _nothing
    #: Fold what is outside the tail.
    compact: Callable[[], str | None] = _nothing
    #: Keep what leaves the file and is no message of the archive: records of the host, branches that it left.
    keep: Callable[[Iterable[tuple[str | None, str, JsonObject]]], None] = _forget
    #: Copy the archive; returns where to.
    backup: Callable[[], Path | None] = _nothing
    #: Remember the new file as read; returns its size.
    checkpoint: Callable[[], int | None] = _nothing


@dataclass(frozen=True, slots=True)
class RotateReport:
    """What a rotation did; `reason` says why nothing was rewritten."""

    path: Path
    rotated: bool = False
    reason: str | None = None
    size_before: int = 0
    size_after: int = 0
    kept_messages: int = 0
    dropped_messages: int = 0
    backup: Path | None = None
    checkpoint_size: int | None = None

    @property
    def bytes_removed(self) -> int:
        return self.size_before - self.size_after if self.rotated else 0


#: Not a refusal: the transcript is as short as it may be.
NOTHING = "nothing to remove"


def plan(path: Path, tail_count: int) -> RotateReport:
    """What a rotation would keep and drop; changes nothing."""
    try:
        with _opened(path) as file:
            shorter = shortened(file.data, tail_count)
    except Unsafe as error:
        return RotateReport(path, reason=str(error))
    return _planned(path, len(file.data), shorter)


def _planned(path: Path, size: int, shorter: Shortened) -> RotateReport:
    dropped = shorter.dropped_messages + shorter.abandoned
    reason = None if shorter.is_shorter else NOTHING
    return RotateReport(path, False, reason, size, len(shorter.data), shorter.kept_messages, dropped)


def rotate(path: Path, tail_count: int, steps: Steps) -> RotateReport:
    """Rewrite a transcript to its tail, or say why not; the archive keeps everything either way."""
    look = plan(path, tail_count)
    if look.reason is not None:
        return look
    for step in (steps.reconcile, steps.compact):
        if (reason := step()) is not None:
            return _refused(look, reason)
    backup = steps.backup()
    try:
        with _opened(path) as file:
            shorter = shortened(file.data, tail_count)
            if not shorter.is_shorter:
                return _refused(look, NOTHING, backup)
            if (reason := steps.unstored(messages_of(file.data, path_of(records_of(file.data))))) is not None:
                return _refused(look, reason, backup)
            leaving = parsed_of(file.data, shorter.dropped)
            steps.keep(kept_as(record, value) for record, value in leaving)
            _replace(path, file, shorter.data)
    except Unsafe as error:
        return _refused(look, str(error), backup)
    dropped = shorter.dropped_messages + shorter.abandoned
    size = path.stat().st_size
    return RotateReport(
        path, True, None, len(file.data), size, shorter.kept_messages, dropped, backup, steps.checkpoint()
    )


def _refused(look: RotateReport, reason: str, backup: Path | None = None) -> RotateReport:
    return RotateReport(
        look.path, False, reason, look.size_before, look.size_after, look.kept_messages, look.dropped_messages, backup
    )


# --- the file ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _File:
    """A transcript as it was read, held open to see what becomes of it."""

    handle: int
    status: os.stat_result
    data: bytes = field(repr=False)


@contextmanager
def _opened(path: Path) -> Iterator[_File]:
    """The bytes of a transcript that may be replaced; `Unsafe` for one that is not ours to replace."""
    if path.is_symlink():
        raise Unsafe("it is a link")
    try:
        handle = os.open(path, _READ)
    except OSError as error:
        raise Unsafe(f"it cannot be read: {error.strerror}") from error
    try:
        status = os.fstat(handle)
        _refuse_by(status)
        with os.fdopen(os.dup(handle), "rb") as file:
            data = file.read()
        if len(data) != status.st_size:
            raise Unsafe("it is being written")
        if (kind := owner_of(data) or kept_by(path)) is not None:
            raise Unsafe(foreign(kind))
        yield _File(handle, status, data)
    finally:
        os.close(handle)


def _refuse_by(status: os.stat_result) -> None:
    """Raise `Unsafe` for what the file system says: the bits count, even where the one who asks may pass them."""
    if not stat.S_ISREG(status.st_mode):
        raise Unsafe("it is not a file")
    if not status.st_mode & stat.S_IWUSR:
        raise Unsafe("it is read-only")
    if status.st_nlink > 1:
        raise Unsafe("it has another name (a hard link), under which it would stay as it is")


def foreign(kind: str) -> str:
    """Why a transcript of this kind is not rewritten."""
    return f"it belongs to {OTHERS[kind]} (a transcript of kind {kind}); only OpenClaw's are rewritten"


def _replace(path: Path, file: _File, data: bytes) -> None:
    """Put `data` in the place of a file, whole or not at all; `Unsafe` when the file is no longer what was read."""
    sweep_leftovers(path)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    mode = stat.S_IMODE(file.status.st_mode)
    try:
        new = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), mode)
        try:
            with suppress(PermissionError):
                os.fchown(new, file.status.st_uid, file.status.st_gid)
            os.fchmod(new, mode)
            _write(new, data)
            os.fsync(new)
            if _mark(os.lstat(path)) != _mark(file.status):
                raise Unsafe("it changed meanwhile")
            os.replace(beside, path)
            _carry_over(file, new)
        finally:
            os.close(new)
        flush(path.parent)
    except OSError as error:
        raise Unsafe(f"it cannot be replaced: {error.strerror}") from error
    finally:
        with suppress(OSError):
            beside.unlink()


def _carry_over(file: _File, new: int) -> None:
    """What a host wrote to the old file in the very moment of its replacement is added to the new one."""
    more = os.fstat(file.handle).st_size - file.status.st_size
    if more > 0:
        os.lseek(file.handle, file.status.st_size, os.SEEK_SET)
        os.lseek(new, 0, os.SEEK_END)
        _write(new, os.read(file.handle, more))
        os.fsync(new)


def _mark(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _write(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


# --- keeping the rest ---------------------------------------------------------------------------------------


def keep_in(archive: Archive, conversation_id: int) -> Callable[[Iterable[tuple[str | None, str, JsonObject]]], None]:
    """Keeps records of a transcript beside the messages, but for those that are stored already, word for word.

    One that says something else than what is stored under its id is kept under no id.
    """
    retention = Retention(archive.database)
    kept: set[bytes] | None = None

    def keep(records: Iterable[tuple[str | None, str, JsonObject]]) -> None:
        nonlocal kept
        age = newest(archive, conversation_id)
        rest = ((aged(id_, age), kind, record) for id_, kind, record in records)
        while page := list(islice(rest, _PAGE)):
            ids = [id_ for id_, _, _ in page if id_ is not None]
            rows = archive.messages.known_entries(conversation_id, ids)
            others = retention.kept_records(conversation_id, ids)
            if others and kept is None:
                kept = {_digest(record) for _, _, record in archive.transcripts.records(conversation_id)}
            new: list[tuple[str | None, str, JsonObject]] = []
            for id_, kind, record in page:
                if id_ is None or (id_ not in rows and id_ not in others):
                    new.append((None if _is_made_up(id_) else id_, kind, record))
                    continue
                is_row = id_ in rows and _is_same(archive, conversation_id, rows[id_], id_, record)
                if not is_row and not _is_among(record, kept):
                    new.append((None, kind, record))
            with archive.writing():
                archive.transcripts.keep_records(conversation_id, masked_records(archive, new))

    return keep


def _is_same(archive: Archive, conversation_id: int, row: TailRow, id_: str, record: JsonObject) -> bool:
    """Whether a row says what a record says."""
    found = _identity(archive, conversation_id, Said(id_, _said_in(record)))
    return found is not None and found[0] == row.fingerprint


def _is_among(record: JsonObject, kept: set[bytes] | None) -> bool:
    """Whether a record, or the message in it, is kept beside the messages."""
    return kept is not None and not kept.isdisjoint((_digest(record), _digest(_said_in(record))))


def _said_in(record: JsonObject) -> JsonObject:
    message = record.get("message") if record.get("type") == "message" else None
    return message if isinstance(message, dict) else record


def _digest(record: JsonObject) -> bytes:
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _is_made_up(id_: str | None) -> bool:
    return id_ is not None and id_.startswith(MADE_UP)


# --- is it all stored? --------------------------------------------------------------------------------------


def unstored_in(archive: Archive, conversation_id: int) -> Callable[[Iterable[Said]], str | None]:
    """Says which message of a transcript a conversation does not hold, by entry id, else by its words.

    What ingest never stores as a message, such as a host's own notes, need not be there. A conversation that was
    imported from another program refuses as a whole.
    """
    retention = Retention(archive.database)
    kind = imported_from(archive.conversations.get(conversation_id).session)

    def first_unstored(messages: Iterable[Said]) -> str | None:
        if kind is not None:
            return foreign(kind)
        known: Counter[bytes] = Counter()
        unknown: Counter[bytes] = Counter()
        identities: dict[bytes, tuple[str, str | None]] = {}
        rest = iter(messages)
        while page := list(islice(rest, _PAGE)):
            ids = [said.entry_id for said in page if said.entry_id is not None]
            rows = archive.messages.known_entries(conversation_id, ids)
            known.update(row.fingerprint for row in rows.values())
            kept = {*rows, *retention.kept_records(conversation_id, ids)}
            for said in page:
                found = None if said.entry_id in kept else _identity(archive, conversation_id, said)
                if found is not None:
                    unknown[found[0]] += 1
                    identities.setdefault(found[0], (found[1], said.entry_id))
        for mark, count in unknown.items():
            identity, entry_id = identities[mark]
            wanted = known[mark] + count
            if len(archive.messages.seqs_of_identity(conversation_id, identity, wanted)) < wanted:
                return f"entry {entry_id or '(without an id)'} is not in the archive"
        return None

    return first_unstored


def _identity(archive: Archive, conversation_id: int, said: Said) -> tuple[bytes, str] | None:
    """What makes a message the same; None for one that is never stored."""
    try:
        (kept,) = masked(archive, conversation_id, [formats.decode(said.message, "openclaw")])
        message = cast("Message", kept)
    except LosslessError:
        return b"unreadable", ""
    if recognise.why_skipped(message) is not None or recognise.may_be_note(message):
        return None
    return fingerprint(message), identity_hash(message.role, message.content)
