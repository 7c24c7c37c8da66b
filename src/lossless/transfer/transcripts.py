"""Imports transcripts of other programs: finds the files, previews the import on a copy, and stores them."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from hashlib import blake2b
from itertools import groupby, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from lossless.errors import BadInput, LosslessError
from lossless.ingest.events import mask_text
from lossless.ingest.sessions import lane_session, transcript_session
from lossless.ingest.transcripts.entries import BadLine, FileState, message_entries
from lossless.ingest.transcripts.reading import KINDS as READERS
from lossless.ingest.transcripts.reading import (
    WHOLE_KINDS,
    ListedTranscript,
    Transcript,
    open_transcript,
    open_whole_transcripts,
)
from lossless.ingest.transcripts.records import BOM, file_state
from lossless.maintenance.engine_parts import EngineParts
from lossless.maintenance.transcripts import HostTranscripts
from lossless.model.conversations import Conversation, Session
from lossless.model.paths import file_size
from lossless.store.archive import Archive
from lossless.store.database import copy_database

if TYPE_CHECKING:
    from lossless.ingest.transcripts.following import TranscriptReport
    from lossless.settings import Settings
    from lossless.settings.load import ProcessEnvironment

TRANSCRIPT_KINDS = ("openclaw", "claude-code", "codex", "pi", "opencode", "gemini", "jsonl", "chatgpt")
#: Kinds whose files may have several conversations.
_WITH_LANES = frozenset(("claude-code", "jsonl", "chatgpt"))
_SILENT = "it has no messages"
#: How many unreadable lines are listed.
_NAMED = 3
_HEAD = 1 << 16
#: Files of at most so many bytes are stored together, so many per transaction. They have no history to fold.
_SMALL, _TOGETHER = 12_000, 50


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """What an import did with one conversation of a file, or would do."""

    path: Path
    session: Session
    #: `would-import`, `imported`, `up-to-date`, `held`, `skipped`, or `error`.
    status: str
    messages: int = 0
    reason: str | None = None
    conversation_id: int | None = None
    title: str | None = None
    problems: tuple[str, ...] = ()
    #: Messages that were omitted because they were permanently deleted.
    pruned: int = 0

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to do for it while the file is unchanged."""
        has_nothing = self.reason == _SILENT or self.pruned > 0
        return self.status in ("imported", "up-to-date") or (self.status == "skipped" and has_nothing)


@dataclass(frozen=True, slots=True)
class TranscriptImporter:
    """Imports transcripts of one kind; a problem with a file is its outcome, so that others continue."""

    parts: EngineParts
    kind: str
    #: Fold the older part of each new conversation.
    fold: bool = True
    #: Import permanently deleted messages, too.
    again: bool = False

    def import_files(self, files: Iterable[Path], progress: Callable[[int], None] | None = None) -> list[ImportOutcome]:
        """Import files one after the other, small ones together in one transaction. `progress` gets bytes read."""
        return [item for group in _group_files(self.kind, files) for item in self._import_group(group, progress)]

    def _import_group(self, files: list[Path], progress: Callable[[int], None] | None) -> list[ImportOutcome]:
        """Import files in one transaction; one by one when any of them fails, so that nothing is stored partially."""
        if len(files) > 1:
            try:
                with self.parts.archive.writing():
                    found = [item for file in files for item in self.import_file(file)]
                    if any(item.status == "error" for item in found):
                        raise BadInput("a file of the group could not be stored")
            except LosslessError:
                pass
            else:
                if progress:
                    progress(sum(map(file_size, files)))
                return found
        return [item for file in files for item in self.import_file(file, progress)]

    def import_file(self, path: Path, progress: Callable[[int], None] | None = None) -> Iterator[ImportOutcome]:
        """Import a file and those of its sub-agents."""
        for file, agent in _files_of(self.kind, path):
            seen = size = 0

            def advance(offset: int) -> None:
                nonlocal seen
                if progress and offset > seen:
                    progress(offset - seen)
                    seen = offset

            try:
                state = file_state(file)
                size = state.size
                if not self.again and (read := _read_before(self.parts.archive, state)):
                    yield from read
                elif self.kind in WHOLE_KINDS:
                    for whole in open_whole_transcripts(file, self.kind):
                        session, found = _whole_session(self.parts.archive, whole)
                        if found is None or self.again:
                            yield from self._import_each(whole, [(None, session)], advance)
                        else:
                            place, id_, title = whole.state.path, found.id, found.title
                            yield ImportOutcome(place, session, "up-to-date", conversation_id=id_, title=title)
                else:
                    transcript = _opened(self.kind, file)
                    lanes = _conversations(self.kind, path, transcript, agent)
                    yield from self._import_each(transcript, lanes, advance)
            except (LosslessError, OSError) as error:
                yield ImportOutcome(file, Session(id=file.stem), "error", reason=str(error))
            except UnicodeEncodeError:
                reason = "an id or a name in it is no valid text: it has half of a surrogate pair"
                yield ImportOutcome(file, Session(id=file.stem), "error", reason=reason)
            advance(size)

    def _import_each(
        self, transcript: Transcript, lanes: Iterable[tuple[str | None, Session]], progress: Callable[[int], None]
    ) -> Iterator[ImportOutcome]:
        """Import the conversations of a file one by one; after the last, the file counts as read."""
        archive, state, is_settled, last = self.parts.archive, transcript.state, True, None
        for lane, session in lanes:
            outcome = self._import_lane(transcript, lane, session, progress)
            is_settled = is_settled and outcome.is_settled
            last = outcome.conversation_id or last
            yield outcome
        if is_settled and last is not None:
            with archive.writing():
                if not archive.ingest.has_key(last, mark := _mark_of(state)):
                    conversation = archive.conversations.get(last)
                    archive.ingest.remember_key(conversation, mark, [], 0, "", datetime.now(UTC))

    def _import_lane(
        self, transcript: Transcript, lane: str | None, session: Session, progress: Callable[[int], None]
    ) -> ImportOutcome:
        path, archive, transcripts = transcript.state.path, self.parts.archive, HostTranscripts(self.parts)
        if _is_silent(transcript, lane):
            return ImportOutcome(path, session, "skipped", reason=_SILENT)
        with _as_copy(archive, transcript, lane, session):
            report = transcripts.bootstrap(
                session, transcript, lane=lane, fold=self.fold, again=self.again, progress=progress
            )
        if self.fold and _is_unfolded(archive, transcript.state, report):
            transcripts.fold_import(archive.conversations.get(report.conversation_id or 0))
        title = transcript.lane_header(lane).title
        if report.conversation_id is not None and title:
            with archive.writing():
                archive.conversations.give_title(report.conversation_id, mask_text(archive, title))
        status = {"excluded": "skipped", "failed": "error"}.get(report.status, report.status)
        if report.status in ("stored", "up to date"):
            status = "imported" if report.stored or report.revised else "up-to-date"
        counts, id_ = (report.stored, report.reason), report.conversation_id
        return ImportOutcome(path, session, status, *counts, id_, title, report.problems, report.pruned)


def _group_files(kind: str, files: Iterable[Path]) -> Iterator[list[Path]]:
    """The files in order: small ones in groups, each larger one alone."""

    def is_small(file: Path) -> bool:
        return sum(file_size(part) for part, _ in _files_of(kind, file)) <= _SMALL

    for are_small, some in groupby(files, is_small):
        while group := list(islice(some, _TOGETHER if are_small else 1)):
            yield group


def _files_of(kind: str, path: Path) -> list[tuple[Path, str | None]]:
    sides = READERS[kind].side_files(path) if kind in READERS else []
    return [(path, None), *((side, side.stem.removeprefix("agent-")) for side in sides)]


def _whole_session(archive: Archive, transcript: ListedTranscript) -> tuple[Session, Conversation | None]:
    """A session of a file that changes in place, and its conversation if all of it is stored."""
    kind, state, header, parent = transcript.kind, transcript.state, transcript.header, transcript.source.agent_of
    session = transcript_session(kind, state.path, parent or header.id, header.cwd)
    if parent is not None and header.id is not None:
        session = lane_session(kind, session, header.id)
    found = archive.conversations.find(session)
    point = None if found is None else archive.transcripts.checkpoint(found.id)
    seen = None if point is None else (point.path, point.size, point.mtime_ms)
    return session, found if seen == (str(state.path), state.size, state.mtime_ms) else None


@contextmanager
def _as_copy(archive: Archive, transcript: Transcript, lane: str | None, session: Session) -> Iterator[None]:
    """Import a copy of a transcript that a conversation follows without following the copy."""
    found = archive.conversations.find(session)
    point = None if found is None else archive.transcripts.checkpoint(found.id)
    is_other = point is not None and point.header_id is not None and point.path not in ("", str(transcript.state.path))
    is_same = point is not None and (point.header_id, point.lane) == (transcript.header.id, lane)
    if found is None or point is None or not is_other or not is_same or not Path(point.path).is_file():
        yield
        return
    with archive.writing():
        yield
        archive.transcripts.set_checkpoint(found.id, point, datetime.now(UTC))


def _is_unfolded(archive: Archive, state: FileState, report: TranscriptReport) -> bool:
    """Whether a first import of this file may have ended before its older part was folded."""
    if report.conversation_id is None or report.stored or report.status != "up to date":
        return False
    last = archive.transcripts.last_decision(report.conversation_id, str(state.path))
    return last is not None and (last.decision, last.size, last.mtime_ms) == ("first", state.size, state.mtime_ms)


def _read_before(archive: Archive, state: FileState) -> list[ImportOutcome]:
    """The conversations of a file that was fully read in its current state, if it has no deleted messages."""
    if archive.transcripts.pruned(None, str(state.path), None):
        return []
    seen = archive.transcripts.seen(str(state.path))
    if any(size_and_time != (state.size, state.mtime_ms) for size_and_time in seen.values()):
        return []
    mark = _mark_of(state)
    if not any(archive.ingest.has_key(id_, mark) for id_ in seen):
        return []
    found = [archive.conversations.get(id_) for id_ in seen]
    return [ImportOutcome(state.path, c.session, "up-to-date", conversation_id=c.id, title=c.title) for c in found]


def unread_files(archive: Archive, kind: str, files: Iterable[Path]) -> list[Path]:
    """The files that were not fully read in their current state."""

    def is_read(file: Path) -> bool:
        try:
            if kind in WHOLE_KINDS:
                return all(_whole_session(archive, one)[1] for one in open_whole_transcripts(file, kind))
            return bool(_read_before(archive, file_state(file)))
        except (LosslessError, OSError):  # reading it will report that
            return False

    return [file for file in files if not is_read(file)]


def _mark_of(state: FileState) -> str:
    about = f"{state.path}\0{state.size}\0{state.mtime_ms}".encode("utf-8", "surrogateescape")
    return f"import:{blake2b(about, digest_size=16).hexdigest()}"


def _is_silent(transcript: Transcript, lane: str | None) -> bool:
    return next(message_entries(transcript.path(lane)), None) is None


def _opened(kind: str, path: Path) -> Transcript:
    """The transcript; BadInput for a non-empty file without readable content."""
    transcript = open_transcript(path, kind)
    if transcript.counts():
        return transcript
    if transcript.bad_lines:
        bad = [line for line in islice(transcript.appended(), _NAMED + 1) if isinstance(line, BadLine)]
        named = ", ".join(f"line {line.line.number}: {line.reason}" for line in bad[:_NAMED])
        more = ", …" if len(bad) > _NAMED else ""
        raise BadInput(f"no line of it can be read ({named}{more})")
    with path.open("rb") as file:
        begun = file.read(_HEAD).removeprefix(BOM).lstrip()
    if begun and not begun.startswith((b"{", b"[")):  # else a first line that is still being written
        raise BadInput("no line of it can be read (line 1: not JSON)")
    return transcript


def _conversations(
    kind: str, main_path: Path, transcript: Transcript, agent: str | None
) -> Iterator[tuple[str | None, Session]]:
    """The lanes of a file, each with its session; everything in a sub-agent's file is the agent's."""
    main = transcript_session(kind, main_path, transcript.header.id, transcript.header.cwd)
    lanes = transcript.lanes() if kind in _WITH_LANES else []
    if not lanes or not _is_silent(transcript, None):
        yield None, main if agent is None else lane_session(kind, main, agent)
    for lane in lanes:
        yield lane, lane_session(kind, main, agent or lane)


#: The names of the files of each kind; one with a slash is compared with the whole path.
_PATTERNS = {
    "chatgpt": ("conversations*.json",),
    "gemini": ("session-*.json", "session-*.jsonl", "*/chats/*.jsonl"),
    "jsonl": ("*.jsonl", "*.json"),
    "opencode": ("opencode*.db", "ses_*.json"),
}
_EVERY_JSONL = ("*.jsonl",)
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def find_files(
    kind: str, paths: Iterable[Path], *, since: datetime | None = None
) -> tuple[list[Path], list[tuple[Path, str]]]:
    """The selected files, those named and those in a folder, oldest first; and unreadable places, each with its reason.

    Raises BadInput for a path that does not exist or is neither a file nor a folder. Unreadable places below a folder
    are reported. A sub-agent's file comes with its session.
    """
    unseen: dict[Path, str] = {}
    found = _stat_files(kind, paths, unseen)
    times = {file: changed for file, (changed, _) in found.items() if since is None or changed >= since.timestamp()}
    return sorted(times, key=lambda file: (times[file], str(file))), list(unseen.items())


def _stat_files(kind: str, paths: Iterable[Path], unseen: dict[Path, str]) -> dict[Path, tuple[float, int]]:
    """When each of the named files, and of those in the named folders, changed, and its size."""
    found: dict[Path, tuple[float, int]] = {}
    for path in paths:
        named = stat_named(path)
        for file in [path] if stat.S_ISREG(named.st_mode) else _in_folder(kind, path, unseen):
            try:
                status = file.stat()
            except OSError as error:
                if error.errno not in _NOT_THERE:  # a broken link is not a file
                    unseen[file.absolute()] = _why(error)
                continue
            changed = status.st_mtime
            with suppress(OSError):  # what a database has not yet moved into its file
                changed = max(changed, os.stat(f"{file}-wal").st_mtime)
            if stat.S_ISREG(status.st_mode):
                found[file.absolute()] = changed, status.st_size
    return found


def stat_named(path: Path) -> os.stat_result:
    """The metadata of a named file or folder; BadInput for anything else."""
    try:
        status = path.stat()
    except OSError as error:
        if error.errno in _NOT_THERE:
            raise BadInput(f"there is no file or folder {str(path)!r}") from error
        raise BadInput(f"cannot read {str(path)!r}: {_why(error)}") from error
    if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
        return status
    hint = "a pipe cannot be resumed: write it to a file and import that"
    raise BadInput(f"{str(path)!r} is neither a file nor a folder; {hint}")


def _in_folder(kind: str, folder: Path, unseen: dict[Path, str]) -> Iterator[Path]:
    """The files below a folder whose names fit a kind; folders that cannot be listed are noted."""
    patterns = _PATTERNS.get(kind, _EVERY_JSONL)

    def note(error: OSError) -> None:
        unseen[Path(error.filename).absolute()] = _why(error)

    for place, folders, names in os.walk(folder, onerror=note):
        if os.path.basename(place) == "subagents":
            continue
        if os.path.basename(place) == "storage" and "session" in folders:  # OpenCode's: read with their session
            folders[:] = [name for name in folders if name not in ("message", "part")]
        for name in names:
            path = os.path.join(place, name)
            if any(fnmatchcase(path if "/" in pattern else name, pattern) for pattern in patterns):
                yield Path(path)


@dataclass(frozen=True, slots=True)
class LocalHistory:
    """The transcripts of one program on this machine, newest first."""

    #: The program as people call it, the kind of its transcripts, and where they are: folders or files.
    program: str
    kind: str
    folders: tuple[Path, ...]
    files: tuple[Path, ...]
    bytes: int
    newest_at: datetime | None
    unseen: tuple[tuple[Path, str], ...] = ()


def find_local_histories(places: ProcessEnvironment) -> list[LocalHistory]:
    """The transcripts that programs keep on this machine, by their names, sizes and times alone."""
    found: list[LocalHistory] = []
    for name, kind, chosen_by, home, below in _LOCAL_PROGRAMS:
        root = places.state_dir if kind == "openclaw" else places.home / home
        variable, _, inside = chosen_by.partition("/")
        if chosen := variable and places.variable(variable):
            root = Path(chosen, inside)
        if not root.is_dir():
            continue
        places_below = sorted(place for pattern in below for place in root.glob(pattern))
        folders = tuple(place for place in places_below if place.is_dir() or place.is_file())
        unseen: dict[Path, str] = {}
        there = _stat_files(kind, folders, unseen)
        files = tuple(sorted(there, key=lambda file: (-there[file][0], str(file))))
        newest = datetime.fromtimestamp(there[files[0]][0], UTC) if files else None
        total = sum(size for _, size in there.values())
        found.append(LocalHistory(name, kind, folders, files, total, newest, tuple(unseen.items())))
    return found


#: Where programs keep their transcripts: name, kind, the variable with a folder (and a folder below that one), else the
#: folder below the home folder, and the folders or files below it.
_LOCAL_PROGRAMS: tuple[tuple[str, str, str, str, tuple[str, ...]], ...] = (
    ("Claude Code", "claude-code", "CLAUDE_CONFIG_DIR", ".claude", ("projects",)),
    ("Codex", "codex", "CODEX_HOME", ".codex", ("sessions", "archived_sessions")),
    ("OpenClaw", "openclaw", "", "", ("agents/*/sessions",)),
    ("pi", "pi", "PI_CODING_AGENT_DIR", ".pi/agent", ("sessions",)),
    ("OpenCode", "opencode", "XDG_DATA_HOME/opencode", ".local/share/opencode", ("opencode*.db", "storage/session")),
    ("Gemini CLI", "gemini", "GEMINI_CLI_HOME/.gemini", ".gemini", ("tmp/*/chats",)),
)


def _why(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else type(error).__name__


def preview_transcripts(
    archive: Archive | None,
    settings: Settings,
    kind: str,
    files: Iterable[Path],
    *,
    again: bool = False,
    progress: Callable[[int], None] | None = None,
) -> list[ImportOutcome]:
    """What importing files would do, tried on a temporary copy of the archive, or on an empty one."""
    quiet = replace(settings, payloads_in_files=False, independent_log_file_enabled=False)
    with TemporaryDirectory(prefix="lossless-") as folder:
        place = Path(folder, "copy.db")
        if archive is not None:
            copy_database(archive.database, str(place))
        with Archive.open(place) as copy, copy.writing():
            importer = TranscriptImporter(EngineParts(copy, quiet, None, lambda: datetime.now(UTC)), kind, False, again)
            found = [outcome for file in files for outcome in importer.import_file(file, progress)]
    known = set() if archive is None else set(archive.checks.conversation_ids())
    return [
        replace(
            outcome,
            status="would-import" if outcome.status == "imported" else outcome.status,
            conversation_id=outcome.conversation_id if outcome.conversation_id in known else None,
        )
        for outcome in found
    ]
