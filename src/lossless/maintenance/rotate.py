"""`engine.rotation`: a host's transcript is rewritten to its tail, once everything in it is in the archive; on demand
and automatically: at start all large ones that sessions follow, between turns the current one.

The order makes it safe: reconcile, fold, back up, read the file again, verify that every message is stored, write a new
file, replace the old one, read it again. A crash leaves the complete old or new transcript. Each automatic decision is
one line of the log, `[lcm] auto-rotate: phase=… action=… …`.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from lossless import formats
from lossless.compaction.run import FAILED_STOPS
from lossless.errors import LosslessError
from lossless.ingest import events as host_filters
from lossless.ingest.events import mask_items, mask_records
from lossless.ingest.sessions import PROGRAM_NAMES, imported_from, kind_by_folder
from lossless.ingest.transcripts import openclaw
from lossless.ingest.transcripts.entries import BadLine, RecordPosition, entry_id_of, message_body
from lossless.ingest.transcripts.following import TranscriptReport, newest_generation, renumber_lines, with_generation
from lossless.ingest.transcripts.reading import EntryTree, first_records, kind_of_head, open_transcript
from lossless.ingest.transcripts.records import read_lines_of
from lossless.maintenance.backup import ROLLING, sweep_leftovers
from lossless.maintenance.engine_parts import EngineGroup, EngineParts
from lossless.maintenance.surgery.tool_outputs import EntryReplacement, TranscriptGcReport, plan_replacements
from lossless.model.context import MessageItem, fresh_tail_start
from lossless.model.identity import fingerprint, identity_hash
from lossless.model.js_json import compact_json
from lossless.model.messages import GENERATED_ID_PREFIX, JsonObject, Message, Role
from lossless.model.paths import expand_path, file_size, fsync_path, replacing
from lossless.store.maintenance.deletion import ArchiveRemover

if TYPE_CHECKING:
    from lossless.maintenance.transcripts import HostTranscripts
    from lossless.model.conversations import Conversation, SessionRef
    from lossless.settings.event_log import LogLevel
    from lossless.store.archive import Archive

#: Records with the session's state; the latest of each kind stays.
STATE_KINDS = ("session_info", "model_change", "thinking_level_change")
_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "toolResult": "tool", "tool": "tool"}


class UnsafeTranscript(ValueError):
    """A transcript that must not be rewritten; the message says why."""


@dataclass(frozen=True, slots=True)
class TranscriptRecord:
    """One line of a transcript: its position, and the fields that decide about it."""

    place: RecordPosition
    kind: str
    id: str | None
    parent: str | None
    #: The role of a message; None for other records.
    role: str | None

    def text(self, data: bytes) -> bytes:
        return data[self.place.start : self.place.end]


#: A message of a transcript with the id of its entry.
RecordedMessage: TypeAlias = "tuple[str | None, JsonObject]"


def parse_records(data: bytes) -> list[TranscriptRecord]:
    """The records of a transcript after its header; raises `UnsafeTranscript` for one that cannot be rewritten."""
    if not data.endswith(b"\n"):
        raise UnsafeTranscript("its last line is not finished")
    found: list[TranscriptRecord] = []
    for line in read_lines_of(BytesIO(data), len(data), 0, 1):
        if isinstance(line, BadLine):
            raise UnsafeTranscript(f"line {line.line.number} cannot be read: it is {line.reason}")
        place, value = line
        kind = value.get("type", "message")
        message = value.get("message") if kind == "message" and "type" in value else None if "type" in value else value
        names = (value.get("id"), value.get("parentId"), message.get("role") if isinstance(message, dict) else None)
        id_, parent, role = (name if isinstance(name, str) and name else None for name in names)
        found.append(TranscriptRecord(place, str(kind), id_, parent, role))
    if not found or found[0].kind != "session":
        raise UnsafeTranscript("it has no header")
    if any(record.kind == "session" for record in found[1:]):
        raise UnsafeTranscript("it has more than one header")
    return found


def leaf_path_of(records: Sequence[TranscriptRecord]) -> list[TranscriptRecord]:
    """The records of the current path, from first to last: without abandoned branches."""
    tree = EntryTree()
    for record in records[1:]:
        tree.add(record.id, record.parent)
    path, behind = tree.leaf_path(), records[1:]
    if path is None:
        return list(behind)
    kept, order = path
    places = order if order is not None else [n for n, is_kept in enumerate(kept) if is_kept]
    return [behind[place] for place in places]


def messages_in(data: bytes, records: Sequence[TranscriptRecord]) -> Iterator[RecordedMessage]:
    """The messages among some records, parsed one by one."""
    for record in records:
        if record.role is not None:
            value = json.loads(record.text(data))
            yield record.id, value["message"] if value.get("type") == "message" else value


def _stored_forms(data: bytes, records: Sequence[TranscriptRecord]) -> Iterator[tuple[str | None, str, JsonObject]]:
    """The ids, kinds and bodies under which records are stored, as messages or otherwise."""
    for record in records:
        value = json.loads(record.text(data))
        (entry,) = openclaw.entries(value, record.place)
        if record.id is not None or entry.message is None:
            yield record.id, record.kind, value
        else:
            yield entry_id_of(entry), record.kind, message_body(entry)


def shorten_transcript(data: bytes, tail_count: int) -> tuple[bytes, int, list[TranscriptRecord]]:
    """A transcript with its newest messages only, how many these are, and all dropped records in order."""
    records = parse_records(data)
    path = leaf_path_of(records)
    start = _tail_start(path, tail_count)
    latest = {record.kind: record for record in path[:start] if record.kind in STATE_KINDS}
    tail = [record for record in path[start:] if record.role is not None or record.kind in STATE_KINDS]
    while tail and tail[-1].role is None:  # it ends with a message
        tail.pop()
    kept = [*sorted(latest.values(), key=lambda record: record.place.start), *tail]
    lines = [records[0].text(data), *_link_records(data, kept)]
    stays = {record.place for record in kept}
    dropped = [record for record in records[1:] if record.place not in stays]
    return b"".join(lines), _count_messages(kept), dropped


def _count_messages(records: Sequence[TranscriptRecord]) -> int:
    return sum(record.role is not None for record in records)


def _tail_start(path: Sequence[TranscriptRecord], count: int) -> int:
    """Where the tail begins: by the rule of the fresh tail, and never with a result whose call is cut off."""
    places = [n for n, record in enumerate(path) if record.role is not None]
    items = [MessageItem(n, n, _ROLES.get(path[n].role or "", "system"), 0, n) for n in places]
    first = fresh_tail_start(items, max(1, count))
    while 0 < first < len(items) and items[first].role == "tool":
        first -= 1
    return places[first] if first < len(places) else len(path)


def _link_records(data: bytes, kept: Sequence[TranscriptRecord]) -> Iterator[bytes]:
    before: str | None = None
    for record in kept:
        raw = record.text(data)
        if record.id is None or record.parent == before:
            yield raw
        else:
            yield compact_json(json.loads(raw) | {"parentId": before}).encode() + b"\n"
        before = record.id or before


_PAGE = 500
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class RotateReport:
    """The result of a rotation; `reason` says why nothing was rewritten."""

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


#: Not a refusal: the transcript is already as short as possible.
NOTHING_TO_REMOVE = "nothing to remove"


def plan_rotation(path: Path, tail_count: int) -> RotateReport:
    """What a rotation would keep and drop; changes nothing."""
    try:
        with _open_transcript(path) as (_, _, data):
            shorter, kept, dropped = shorten_transcript(data, tail_count)
    except UnsafeTranscript as error:
        return RotateReport(path, reason=str(error))
    gone = _count_messages(dropped)
    return RotateReport(path, False, None if gone else NOTHING_TO_REMOVE, len(data), len(shorter), kept, gone)


def rotate_transcript(
    path: Path,
    tail_count: int,
    unstored: Callable[[Iterable[RecordedMessage]], str | None],
    *,
    reconcile: Callable[[], str | None] | None = None,
    compact: Callable[[], str | None] | None = None,
    keep: Callable[[Iterable[tuple[str | None, str, JsonObject]]], None] | None = None,
    backup: Callable[[], Path | None] | None = None,
    checkpoint: Callable[[], int | None] | None = None,
) -> RotateReport:
    """Rewrite a transcript to its tail, or say why not; the archive keeps everything either way.

    `reconcile` imports it, `compact` folds what is outside the tail, `unstored` names what is not safely stored: each
    may return a reason for a refusal. `keep` stores what leaves the file and is no message of the archive.
    """
    look = plan_rotation(path, tail_count)
    if look.reason is not None:
        return look
    for step in (reconcile, compact):
        if step is not None and (reason := step()) is not None:
            return replace(look, reason=reason)
    look = replace(look, backup=None if backup is None else backup())
    try:
        with _open_transcript(path) as (handle, status, data):
            shorter, kept, dropped = shorten_transcript(data, tail_count)
            if not (gone := _count_messages(dropped)):
                return replace(look, reason=NOTHING_TO_REMOVE)
            if (reason := unstored(messages_in(data, leaf_path_of(parse_records(data))))) is not None:
                return replace(look, reason=reason)
            if keep is not None:
                keep(_stored_forms(data, dropped))
            _replace(path, handle, status, shorter)
    except UnsafeTranscript as error:
        return replace(look, reason=str(error))
    size, read = path.stat().st_size, None if checkpoint is None else checkpoint()
    return RotateReport(path, True, None, len(data), size, kept, gone, look.backup, read)


@contextmanager
def _open_transcript(path: Path) -> Iterator[tuple[int, os.stat_result, bytes]]:
    """A transcript that may be replaced, kept open to detect later changes: its handle, status and bytes."""
    if path.is_symlink():
        raise UnsafeTranscript("it is a link")
    try:
        handle = os.open(path, _READ)
    except OSError as error:
        raise UnsafeTranscript(f"it cannot be read: {error.strerror}") from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise UnsafeTranscript("it is not a file")
        if not status.st_mode & stat.S_IWUSR:  # even for a process that may ignore that
            raise UnsafeTranscript("it is read-only")
        if status.st_nlink > 1:
            raise UnsafeTranscript("it has another name (a hard link), which would keep the old content")
        with os.fdopen(os.dup(handle), "rb") as file:
            data = file.read()
        if len(data) != status.st_size:
            raise UnsafeTranscript("it is being written")
        head = first_records(data)
        if head and head[0].get("type") == "session":
            kind = openclaw.PI if openclaw.is_pi_header(head[0]) else None
        else:
            kind = kind_of_head(head)
            kind = None if kind in (openclaw.KIND, openclaw.PI) else kind
        if (kind := kind or kind_by_folder(path)) is not None:
            raise UnsafeTranscript(foreign_kind_reason(kind))
        yield handle, status, data
    finally:
        os.close(handle)


def foreign_kind_reason(kind: str) -> str:
    """Why a transcript of this kind is not rewritten."""
    return f"it belongs to {PROGRAM_NAMES[kind]} (a transcript of kind {kind}); only OpenClaw's are rewritten"


def _replace(path: Path, old: int, status: os.stat_result, data: bytes) -> None:
    """Replace a file atomically by `data`; `UnsafeTranscript` when it has changed since it was read."""
    sweep_leftovers(path)
    try:
        with replacing(path, stat.S_IMODE(status.st_mode)) as temporary:
            temporary.write_bytes(data)
            with suppress(PermissionError):
                os.chown(temporary, status.st_uid, status.st_gid)
            fsync_path(temporary)
            if _file_mark(os.lstat(path)) != _file_mark(status):
                raise UnsafeTranscript("it changed meanwhile")
        with os.fdopen(os.dup(old), "rb") as before, path.open("ab") as after:
            before.seek(status.st_size)
            after.write(before.read())  # what a host wrote to the old file at the moment of its replacement
        fsync_path(path)
    except OSError as error:
        raise UnsafeTranscript(f"it cannot be replaced: {error.strerror}") from error


def _file_mark(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def keep_records(archive: Archive, conversation_id: int, records: Iterable[tuple[str | None, str, JsonObject]]) -> None:
    """Store records that are not messages; one that differs from the stored one with its id without an id."""
    retention, age = ArchiveRemover(archive), newest_generation(archive, conversation_id)
    kept: set[bytes] | None = None
    rest = ((with_generation(id_, age), kind, record) for id_, kind, record in records)
    while page := list(islice(rest, _PAGE)):
        ids = [id_ for id_, _, _ in page if id_ is not None]
        rows = archive.messages.known_entries(conversation_id, ids)
        others = retention.kept_records(conversation_id, ids)
        if others and kept is None:
            kept = {_digest(record) for _, _, record in archive.transcripts.records(conversation_id)}
        new: list[tuple[str | None, str, JsonObject]] = []
        for id_, kind, record in page:
            if id_ is None or (id_ not in rows and id_ not in others):
                is_generated = id_ is not None and id_.startswith(GENERATED_ID_PREFIX)
                new.append((None if is_generated else id_, kind, record))
                continue
            found = _identity(archive, conversation_id, _message_in(record)) if id_ in rows else None
            is_row = found is not None and found[0] == rows[id_].fingerprint
            if not is_row and (kept is None or kept.isdisjoint(map(_digest, (record, _message_in(record))))):
                new.append((None, kind, record))
        with archive.writing():
            archive.transcripts.keep_records(conversation_id, mask_records(archive, new))


def _message_in(record: JsonObject) -> JsonObject:
    message = record.get("message") if record.get("type") == "message" else None
    return message if isinstance(message, dict) else record


def _digest(record: JsonObject) -> bytes:
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def why_unstored(archive: Archive, conversation_id: int, messages: Iterable[RecordedMessage]) -> str | None:
    """Names a message of a transcript that a conversation does not have, by entry id, else by text.

    What ingest never stores does not count. A conversation that came from another program refuses as a whole.
    """
    if (kind := imported_from(archive.conversations.get(conversation_id).session)) is not None:
        return foreign_kind_reason(kind)
    known: Counter[bytes] = Counter()
    unknown: Counter[bytes] = Counter()
    identities: dict[bytes, tuple[str, str | None]] = {}
    retention, rest = ArchiveRemover(archive), iter(messages)
    while page := list(islice(rest, _PAGE)):
        ids = [entry_id for entry_id, _ in page if entry_id is not None]
        rows = archive.messages.known_entries(conversation_id, ids)
        known.update(row.fingerprint for row in rows.values())
        kept = {*rows, *retention.kept_records(conversation_id, ids)}
        for entry_id, message in page:
            found = None if entry_id in kept else _identity(archive, conversation_id, message)
            if found is not None:
                unknown[found[0]] += 1
                identities.setdefault(found[0], (found[1], entry_id))
    for mark, count in unknown.items():
        identity, entry_id = identities[mark]
        wanted = known[mark] + count
        if len(archive.messages.seqs_of_identity(conversation_id, identity, wanted)) < wanted:
            return f"entry {entry_id or '(without an id)'} is not in the archive"
    return None


def _identity(archive: Archive, conversation_id: int, body: JsonObject) -> tuple[bytes, str] | None:
    try:
        (kept,) = mask_items(archive, conversation_id, [formats.decode(body, "openclaw")])
        message = cast("Message", kept)
    except LosslessError:
        return b"unreadable", ""
    if host_filters.why_skipped(message) is not None or host_filters.may_be_note(message):
        return None
    return fingerprint(message), identity_hash(message.role, message.content)


RotationMode = Literal["rotate", "warn", "off"]
RotationAction = Literal["rotate", "warn", "skip", "defer", "off"]
#: A session of a host's index: its key, its id and its transcript.
IndexedSession: TypeAlias = "tuple[str, str, Path]"
#: A transcript that an active conversation follows, and its size.
RotationCandidate: TypeAlias = "tuple[Conversation, Path, int]"
AUTO_ROTATE_EVENT = "auto-rotate"
#: How many compactions fold what is outside the tail before a transcript is rewritten.
_SWEEPS = 50
#: Results of a compaction after which no transcript is rewritten.
_REFUSALS = FAILED_STOPS | {"busy", "stale"}


class Rotation(EngineGroup):
    """`engine.rotation`: rewrites completely stored transcripts to their tails. Deletes nothing from the archive."""

    def __init__(self, parts: EngineParts, transcripts: HostTranscripts) -> None:
        super().__init__(parts)
        self._transcripts = transcripts
        #: The size from which on a large transcript is logged again.
        self._noted_sizes: dict[str, int] = {}

    def follow(self, session: SessionRef, transcript: str | os.PathLike[str]) -> TranscriptReport:
        """Read a transcript during a turn, log why it could not be stored, and check its size."""
        report = self._transcripts.reconcile(session, transcript)
        if report.status in ("failed", "held"):
            fields = {"conversationId": report.conversation_id, "status": report.status, "reason": report.reason}
            self._parts.log.log("transcript", "warning", path=str(transcript), **fields)
        size, name = report.size or 0, str(transcript)
        if size > self._noted_sizes.get(name, self._parts.settings.auto_rotate_session_files_size_bytes):
            self._noted_sizes[name] = size + size // 4
            self.between_turns(session, transcript, unsafe="a turn is in progress")
        return report

    def rotate(
        self,
        session: SessionRef,
        path: str | os.PathLike[str] | None = None,
        *,
        reconcile: Callable[[], str | None] | None = None,
        checkpoint: Callable[[], int | None] | None = None,
        backup: bool = True,
        dry_run: bool = False,
    ) -> RotateReport:
        """Rewrite a session's transcript to its tail, once all of it is stored; see `Engine.rotate`."""
        found = self._parts.find(session)
        found = None if found is None else self._archive.conversations.get(found.id)
        point = None if found is None else self._archive.transcripts.checkpoint(found.id)
        followed = None if point is None or not point.path else Path(point.path)
        place = followed or Path() if path is None else Path(path)
        reason = self._why_not(found, place, place if reconcile else followed)
        if reason is not None or found is None:
            return RotateReport(place, reason=reason)
        conversation = found

        def import_it() -> str | None:
            """Import the transcript into the archive; returns why that failed, or None."""
            report = self._transcripts.bootstrap(conversation.session, place)
            if report.conversation_id != conversation.id:
                return "the session continues in another conversation"
            if report.status in ("stored", "up to date") and not report.bad_lines:
                return None
            return f"the transcript is not in the archive: {report.reason or report.status}"

        def import_again() -> int | None:
            renumber_lines(self._archive, conversation.id, open_transcript(place).path())
            self._transcripts.bootstrap(conversation.session, place)
            point = self._archive.transcripts.checkpoint(conversation.id)
            return None if point is None else point.size

        tail_count = self._parts.loop.policy(self._parts.request(conversation, None)).fresh_tail_count
        if dry_run:
            return plan_rotation(place, tail_count)
        return rotate_transcript(
            place,
            tail_count,
            partial(why_unstored, self._archive, conversation.id),
            reconcile=reconcile or import_it,
            compact=lambda: self._folded(conversation),
            keep=partial(keep_records, self._archive, conversation.id),
            backup=(lambda: self._parts.copy(ROLLING).path) if backup else None,
            checkpoint=checkpoint or import_again,
        )

    def _why_not(self, found: Conversation | None, place: Path, followed: Path | None) -> str | None:
        """Why a transcript of this conversation is not rewritten now, before anything is read."""
        if found is None or not found.active:
            return "no active conversation"
        if (kind := imported_from(found.session)) is not None:
            return foreign_kind_reason(kind)
        if (reason := self._parts.no_writes(found)) is not None:
            return reason
        if followed is None or os.path.realpath(place) != os.path.realpath(followed):
            return "the conversation does not follow this transcript"
        if (blocked := self._archive.ingest.state(found.id).blocked_reason) is not None:
            return f"input is refused: {blocked}"
        if any(epoch.conversation_id == found.id for epoch in self._archive.transcripts.held()):
            return "a transcript is held and waits for a decision"
        summariser = self._parts.loop.summariser
        return summariser.gate(self._archive, found.id, self._parts.clock).resting(summariser.candidates())

    def _folded(self, conversation: Conversation) -> str | None:
        """Fold everything outside the tail into leaves; returns why that failed, or None."""
        request = self._parts.request(conversation, None)
        for _ in range(_SWEEPS):
            report = self._parts.loop.fold_leaves(request)
            if report.stop in _REFUSALS:
                return report.stop
            if not report.summary_ids or report.stop == "nothing left":
                return None
        return None

    def at_start(self, state_dir: str | os.PathLike[str]) -> StartRotationReport:
        """Shorten large transcripts below a host's state folder, by the settings."""
        limit, mode = self._limits(self._parts.settings.auto_rotate_session_files_startup)
        if mode == "off":
            return StartRotationReport()
        began, indexed = time.monotonic(), indexed_sessions(Path(state_dir))
        large = [item for item in self._candidates(indexed) if decide_rotation(item[2], limit, mode) != "skip"]
        backup, failed = self._backup("auto-rotate") if large and mode == "rotate" else (None, None)
        actions = [self._rotate_one("startup", item, mode, backup, failed) for item in large]
        counts, removed = Counter(action for action, _ in actions), sum(size for _, size in actions)
        skipped = len(indexed) - len(large) + counts["skip"]
        self._parts.log.say(
            AUTO_ROTATE_EVENT, phase="startup", action="summary", scanned=len(indexed), eligible=len(large),
            rotated=counts["rotate"], warned=counts["warn"], skipped=skipped, durationMs=_since(began),
            bytesRemoved=removed, backupPath=backup,
        )  # fmt: skip
        return StartRotationReport(len(indexed), len(large), counts["rotate"], counts["warn"], skipped, removed, backup)

    def between_turns(
        self, session: SessionRef, path: str | os.PathLike[str], *, unsafe: str | None = None
    ) -> RotationAction:
        """Check the transcript's size after a turn; `unsafe` says why it must not be rewritten now."""
        limit, mode = self._limits(self._parts.settings.auto_rotate_session_files_runtime)
        found, size = self._parts.find(session), file_size(Path(path))
        if found is None or not found.active or not size or self._parts.no_writes(found) is not None:
            return "off"
        item = (found, Path(path), size)
        unsafe = unsafe or self._archive.ingest.state(found.id).blocked_reason
        action = decide_rotation(size, limit, mode, unsafe)
        if action == "defer":
            self._log("info", "runtime", action, item, reason=unsafe)
        if action not in ("rotate", "warn"):
            return action
        backup, failed = self._backup("rotate-latest") if action == "rotate" else (None, None)
        return self._rotate_one("runtime", item, mode, backup, failed)[0]

    def _limits(self, mode: RotationMode) -> tuple[int, RotationMode]:
        settings = self._parts.settings
        enabled = settings.auto_rotate_session_files_enabled
        return settings.auto_rotate_session_files_size_bytes, mode if enabled else "off"

    def _candidates(self, indexed: Iterable[IndexedSession]) -> list[RotationCandidate]:
        tracked = self._archive.transcripts.tracked()
        followed = {os.path.realpath(path): self._archive.conversations.get(id_) for id_, path, *_ in tracked}
        found: dict[Path, RotationCandidate] = {}
        for key, session_id, path in indexed:
            conversation = followed.get(os.path.realpath(path))
            if conversation is None or not conversation.active or self._parts.no_writes(conversation) is not None:
                continue
            if session_id != conversation.session_id and key != conversation.session_key:
                continue
            if size := file_size(path):
                found.setdefault(path, (conversation, path, size))
        return list(found.values())

    def _backup(self, label: str) -> tuple[Path | None, str | None]:
        """A copy of the archive before the first rewriting, if enabled; or why there is none."""
        if not self._parts.settings.auto_rotate_session_files_create_backups:
            return None, None
        try:
            return self._parts.copy(label).path, None
        except LosslessError as error:
            return None, f"no backup could be made ({error.code})"

    def _rotate_one(
        self, phase: str, item: RotationCandidate, mode: RotationMode, backup: Path | None, failed: str | None
    ) -> tuple[RotationAction, int]:
        """Rotate one transcript or warn about it, and log it; returns the action and the bytes removed."""
        began = time.monotonic()
        if mode == "warn" or failed is not None:
            self._log("warning", phase, "warn", item, reason=failed or "transcript is larger than the threshold")
            return "warn", 0
        try:
            done = self.rotate(item[0], item[1], backup=False)
        except LosslessError as error:
            self._log("warning", phase, "warn", item, durationMs=_since(began), backupPath=backup, error=error)
            return "warn", 0
        about: dict[str, object] = {"durationMs": _since(began), "backupPath": done.backup or backup}
        if done.rotated:
            about |= {"bytesRemoved": done.bytes_removed, "preservedTailMessageCount": done.kept_messages}
            self._log("info", phase, "rotate", item, **about, checkpointSize=done.checkpoint_size)
            return "rotate", done.bytes_removed
        action: RotationAction = "skip" if done.reason == NOTHING_TO_REMOVE else "warn"
        self._log("info" if action == "skip" else "warning", phase, action, item, **about, reason=done.reason)
        return action, 0

    def _log(
        self, level: LogLevel, phase: str, action: RotationAction, item: RotationCandidate, **fields: object
    ) -> None:
        conversation, path, size = item
        limit = self._parts.settings.auto_rotate_session_files_size_bytes
        self._parts.log.say(
            AUTO_ROTATE_EVENT, level, phase=phase, action=action, sessionId=conversation.session_id,
            sessionKey=conversation.session_key, sessionFile=path, sizeBytes=size, thresholdBytes=limit, **fields,
        )  # fmt: skip

    def collect(
        self,
        session: SessionRef,
        path: str | os.PathLike[str],
        rewrite_entries: Callable[[Sequence[EntryReplacement]], int],
        *,
        approved: bool,
    ) -> TranscriptGcReport:
        """Ask the host to replace old tool results in its transcript by short forms, if settings and host allow it."""
        if not self._parts.settings.transcript_gc_enabled:
            return TranscriptGcReport(reason="transcriptGcEnabled is off")
        if not approved:
            return TranscriptGcReport(reason="the host did not agree")
        try:
            data = Path(path).read_bytes()
            messages = list(messages_in(data, leaf_path_of(parse_records(data))))
        except (OSError, UnsafeTranscript) as error:
            return TranscriptGcReport(reason=f"the transcript cannot be read: {error}")
        work = plan_replacements(self._archive, self._parts.conversation_id(session), messages)
        if not work:
            return TranscriptGcReport(reason="nothing to replace")
        changed = rewrite_entries(work)
        freed = sum(item.bytes_freed for item in work) if changed == len(work) else 0
        return TranscriptGcReport(len(work), changed, freed)


@dataclass(frozen=True, slots=True)
class StartRotationReport:
    """The result of the rotation at start."""

    scanned: int = 0
    eligible: int = 0
    rotated: int = 0
    warned: int = 0
    skipped: int = 0
    bytes_removed: int = 0
    backup: Path | None = None


def indexed_sessions(state_dir: Path) -> list[IndexedSession]:
    """The sessions in the indexes of all agents below OpenClaw's state folder; unreadable ones are skipped."""
    found: list[IndexedSession] = []
    for index in sorted(state_dir.glob("agents/*/sessions/sessions.json")):
        try:
            entries = json.loads(index.read_bytes())
        except (OSError, ValueError, RecursionError):
            continue
        for key, entry in entries.items() if isinstance(entries, dict) else ():
            session_id = entry.get("sessionId") if isinstance(entry, dict) else None
            if isinstance(session_id, str) and session_id.strip():
                file = entry.get("sessionFile")
                name = file if isinstance(file, str) and file.strip() else f"{session_id}.jsonl"
                if "\0" not in name:
                    found.append((key, session_id, index.parent / expand_path(name)))
    return found


def decide_rotation(size: int, limit: int, mode: RotationMode, unsafe: str | None = None) -> RotationAction:
    """What to do with a transcript of this size; `unsafe` says why it must not be rewritten now."""
    if mode == "off":
        return "off"
    if size <= limit:
        return "skip"
    if mode == "warn":
        return "warn"
    return "defer" if unsafe else "rotate"


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
