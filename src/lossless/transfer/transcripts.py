"""Transcripts of other programs, brought into an archive file by file.

Every file remembers how far it was read, and that all of it was: an import that was stopped goes on, and a second one
changes nothing.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.errors import BadInput, LosslessError
from lossless.ingest.masking import masked_text
from lossless.lifecycle.naming import session_of, session_of_lane
from lossless.lifecycle.stream import said
from lossless.model.conversations import Session
from lossless.transcripts.entries import BadLine
from lossless.transcripts.kinds import KINDS as READERS
from lossless.transcripts.lines import BOM, file_state
from lossless.transcripts.read import open_transcript

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from lossless.engine import Engine
    from lossless.lifecycle.reports import TranscriptReport
    from lossless.settings import Settings
    from lossless.store.archive import Archive
    from lossless.transcripts.entries import FileState
    from lossless.transcripts.read import Transcript

KINDS = ("openclaw", "claude-code", "codex", "pi", "jsonl", "chatgpt")
#: Kinds in whose files several conversations may stand.
_WITH_LANES = frozenset(("claude-code", "jsonl", "chatgpt"))
_SILENT = "nothing was said in it"
#: So many lines that cannot be read are named.
_NAMED = 3
_HEAD = 1 << 16


@dataclass(frozen=True, slots=True)
class Outcome:
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
    #: Messages that were left out because they were deleted for good.
    pruned: int = 0

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to do for it, as long as the file stays as it is."""
        return self.status in ("imported", "up-to-date") or (
            self.status == "skipped" and (self.reason == _SILENT or self.pruned > 0)
        )


def look_at(
    archive: Archive, kind: str, path: Path, settings: Settings | None = None, *, again: bool = False
) -> Iterator[Outcome]:
    """What importing one file would do: it is done, on a copy of the archive. The archive itself is only read."""
    from lossless.transfer.rehearsal import rehearsing

    with rehearsing(archive, settings) as rehearsal:
        yield from rehearsal.look_at(kind, path, again=again)


def bring_in(
    engine: Engine,
    kind: str,
    path: Path,
    *,
    fold: bool = True,
    again: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Outcome]:
    """Import a file; what is wrong with it is its outcome, so that others go on. `progress` hears bytes read.

    What was deleted of it for good comes back only with `again`.
    """
    for file, agent in _files_of(kind, path):
        told = 0

        def advance(offset: int) -> None:
            nonlocal told
            if progress and offset > told:
                progress(offset - told)
                told = offset

        size = 0
        try:
            state = file_state(file)
            size = state.size
            if not again and (read := _read_before(engine.archive, state)):
                yield from read
            else:
                transcript = _opened(kind, file)
                conversations = _conversations(kind, path, transcript, agent)
                yield from _each(engine, transcript, conversations, fold=fold, again=again, progress=advance)
        except (LosslessError, OSError) as error:
            yield Outcome(file, Session(id=file.stem), "error", reason=str(error))
        advance(size)


def _each(
    engine: Engine,
    transcript: Transcript,
    conversations: Iterable[tuple[str | None, Session]],
    *,
    fold: bool,
    again: bool,
    progress: Callable[[int], None],
) -> Iterator[Outcome]:
    """Import the conversations of a file one by one; after the last of them, the file counts as read."""
    is_settled, last = True, None
    for lane, session in conversations:
        outcome = _bring_in(engine, transcript, lane, session, fold=fold, again=again, progress=progress)
        is_settled = is_settled and outcome.is_settled
        last = outcome.conversation_id or last
        yield outcome
    if is_settled and last is not None:
        _note_read(engine.archive, transcript.state, last)


def _files_of(kind: str, path: Path) -> list[tuple[Path, str | None]]:
    """A file and those of its sub-agents, each with the agent's name."""
    sides = [(side, side.stem.removeprefix("agent-")) for side in READERS[kind].side_files(path)]
    return [(path, None), *sides]


def _bring_in(
    engine: Engine,
    transcript: Transcript,
    lane: str | None,
    session: Session,
    *,
    fold: bool,
    again: bool,
    progress: Callable[[int], None],
) -> Outcome:
    path = transcript.state.path
    if _is_silent(transcript, lane):
        return Outcome(path, session, "skipped", reason=_SILENT)
    with _as_copy(engine.archive, transcript, lane, session):
        report = engine.bootstrap(session, transcript, lane=lane, fold=fold, again=again, progress=progress)
    if fold and _is_unfolded(engine.archive, transcript.state, report):
        engine.transcripts.fold_import(engine.archive.conversations.get(report.conversation_id or 0))
    title = transcript.lane_header(lane).title
    if report.conversation_id is not None and title:
        with engine.archive.writing():
            engine.archive.conversations.give_title(report.conversation_id, masked_text(engine.archive, title))
    return Outcome(
        path,
        session,
        _status(report),
        report.stored,
        report.reason,
        report.conversation_id,
        title,
        report.problems,
        report.pruned,
    )


def _status(report: TranscriptReport) -> str:
    if report.status in ("stored", "up to date"):
        return "imported" if report.stored or report.revised else "up-to-date"
    return {"excluded": "skipped", "failed": "error"}.get(report.status, report.status)


def _as_copy(
    archive: Archive, transcript: Transcript, lane: str | None, session: Session
) -> AbstractContextManager[None]:
    """Import a copy of a transcript that a conversation follows without following the copy from now on."""
    found = archive.conversations.find(session)
    point = None if found is None else archive.transcripts.checkpoint(found.id)
    if found is None or point is None or not point.path or point.path == str(transcript.state.path):
        return nullcontext()
    is_same = point.header_id is not None and (point.header_id, point.lane) == (transcript.header.id, lane)
    if not is_same or not Path(point.path).is_file():
        return nullcontext()

    @contextmanager
    def keeping() -> Iterator[None]:
        with archive.writing():
            yield
            archive.transcripts.set_checkpoint(found.id, point, datetime.now(UTC))

    return keeping()


def _is_unfolded(archive: Archive, state: FileState, report: TranscriptReport) -> bool:
    """Whether a first import of this very file may have ended before its older part was folded."""
    if report.conversation_id is None or report.stored or report.status != "up to date":
        return False
    last = archive.transcripts.last_decision(report.conversation_id, str(state.path))
    return last is not None and (last.decision, last.size, last.mtime_ms) == ("first", state.size, state.mtime_ms)


def _read_before(archive: Archive, state: FileState) -> list[Outcome]:
    """The conversations of a file of which all was read when it was exactly as it is now; none when it was not.

    A file of which something was deleted for good is read, so that it can be told how much is left out.
    """
    if archive.histories.pruned(None, str(state.path), None):
        return []
    seen = archive.transcripts.seen(str(state.path))
    if any(size_and_time != (state.size, state.mtime_ms) for size_and_time in seen.values()):
        return []
    mark = _mark_of(state)
    if not any(archive.ingest.has_key(id_, mark) for id_ in seen):
        return []
    found = [archive.conversations.get(id_) for id_ in seen]
    return [Outcome(state.path, c.session, "up-to-date", conversation_id=c.id, title=c.title) for c in found]


def _note_read(archive: Archive, state: FileState, conversation_id: int) -> None:
    """Remember with one of its conversations that all of a file was read."""
    mark = _mark_of(state)
    with archive.writing():
        if not archive.ingest.has_key(conversation_id, mark):
            conversation = archive.conversations.get(conversation_id)
            archive.ingest.remember_key(conversation, mark, [], 0, "", datetime.now(UTC))


def _mark_of(state: FileState) -> str:
    """The key under which the import of a file, as it is now, is remembered."""
    about = f"{state.path}\0{state.size}\0{state.mtime_ms}".encode("utf-8", "surrogateescape")
    return f"import:{blake2b(about, digest_size=16).hexdigest()}"


def _is_silent(transcript: Transcript, lane: str | None) -> bool:
    return next(said(transcript.path(lane)), None) is None


def _opened(kind: str, path: Path) -> Transcript:
    """The transcript; BadInput for a file in which something stands, and nothing that can be read."""
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
    """The lanes of a file, each with its session; all that a sub-agent's file holds is the agent's."""
    main = session_of(kind, main_path, transcript.header.id, transcript.header.cwd)
    lanes = transcript.lanes() if kind in _WITH_LANES else []
    if not lanes or not _is_silent(transcript, None):
        yield None, main if agent is None else session_of_lane(kind, main, agent)
    for lane in lanes:
        yield lane, session_of_lane(kind, main, agent or lane)
