"""Transcripts of other programs, found in folders and brought into an archive, file by file.

Every file remembers how far it was read, so an import that was stopped goes on, and a second one changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.errors import BadInput, LosslessError
from lossless.lifecycle.naming import session_of, session_of_lane
from lossless.lifecycle.stream import said
from lossless.lifecycle.survey import survey
from lossless.model.conversations import Session
from lossless.transcripts.kinds import KINDS as READERS
from lossless.transcripts.lines import file_state
from lossless.transcripts.read import open_transcript

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime
    from pathlib import Path

    from lossless.engine import Engine
    from lossless.store.archive import Archive
    from lossless.transcripts.entries import FileState
    from lossless.transcripts.read import Transcript

KINDS = ("openclaw", "claude-code", "codex", "pi", "jsonl", "chatgpt")
#: Kinds in whose files several conversations may stand.
_WITH_LANES = frozenset(("claude-code", "jsonl", "chatgpt"))
_PATTERNS = {"chatgpt": ("**/conversations*.json",), "jsonl": ("**/*.jsonl", "**/*.json")}
_EVERY_JSONL = ("**/*.jsonl",)


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


def find_files(kind: str, paths: Iterable[Path], *, since: datetime | None = None) -> list[Path]:
    """The files that are meant: those named, and those that a folder holds, oldest first.

    Raises BadInput for a path that is not there. A sub-agent's file comes with the session that it belongs to.
    """
    found: dict[Path, float] = {}
    for path in paths:
        if not path.exists():
            raise BadInput(f"{str(path)!r} is not there")
        for file in [path] if path.is_file() else _in_folder(kind, path):
            changed = file.stat().st_mtime
            if since is None or changed >= since.timestamp():
                found[file.absolute()] = changed
    return sorted(found, key=lambda file: (found[file], str(file)))


def _in_folder(kind: str, folder: Path) -> list[Path]:
    patterns = _PATTERNS.get(kind, _EVERY_JSONL)
    files = {file for pattern in patterns for file in folder.glob(pattern) if file.is_file()}
    return [file for file in files if file.parent.name != "subagents"]


def look_at(archive: Archive, kind: str, path: Path) -> Iterator[Outcome]:
    """What importing a file would do; nothing is written."""
    for file, agent in _files_of(kind, path):
        try:
            if read := _read_before(archive, file_state(file)):
                yield from read
                continue
            for transcript, lane, session in _conversations(kind, path, file, agent):
                yield _outlook(archive, transcript, lane, session)
        except (LosslessError, OSError) as error:
            yield Outcome(file, Session(id=file.stem), "error", reason=str(error))


def bring_in(
    engine: Engine, kind: str, path: Path, *, fold: bool = True, progress: Callable[[int], None] | None = None
) -> Iterator[Outcome]:
    """Import a file; what is wrong with it is its outcome, so that others go on. `progress` hears bytes read."""
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
            if read := _read_before(engine.archive, state):
                yield from read
            else:
                for transcript, lane, session in _conversations(kind, path, file, agent):
                    yield _bring_in(engine, transcript, lane, session, fold=fold, progress=advance)
        except (LosslessError, OSError) as error:
            yield Outcome(file, Session(id=file.stem), "error", reason=str(error))
        advance(size)


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
    progress: Callable[[int], None],
) -> Outcome:
    path = transcript.state.path
    if _is_silent(transcript, lane):
        return Outcome(path, session, "skipped", reason="nothing was said in it")
    report = engine.bootstrap(session, transcript, lane=lane, fold=fold, progress=progress)
    status = {"stored": "imported" if report.stored else "up-to-date", "up to date": "up-to-date"}.get(
        report.status, "skipped" if report.status == "excluded" else report.status
    )
    title = transcript.lane_header(lane).title
    if report.conversation_id is not None and title:
        with engine.archive.writing():
            engine.archive.conversations.give_title(report.conversation_id, title)
    return Outcome(path, session, status, report.stored, report.reason, report.conversation_id, title, report.problems)


def _outlook(archive: Archive, transcript: Transcript, lane: str | None, session: Session) -> Outcome:
    path, title = transcript.state.path, transcript.lane_header(lane).title
    found = archive.conversations.find(session)
    looked = survey(archive, 0 if found is None else found.id, transcript.path(lane))
    if not looked.messages:
        return Outcome(path, session, "skipped", reason="nothing was said in it", title=title)
    new = looked.messages - looked.known
    if found is not None and not looked.known:  # without ids, only the number tells
        newest = archive.messages.tail(found.id, 1)
        new = max(0, new - (newest[-1].seq if newest else 0))
    status = "would-import" if new else "up-to-date"
    return Outcome(path, session, status, new, None, None if found is None else found.id, title)


def _read_before(archive: Archive, state: FileState) -> list[Outcome]:
    """The conversations of a file that was read when it was exactly as it is now; none when it has changed."""
    seen = archive.transcripts.seen(str(state.path))
    if any(size_and_time != (state.size, state.mtime_ms) for size_and_time in seen.values()):
        return []
    found = [archive.conversations.get(id_) for id_ in seen]
    return [Outcome(state.path, c.session, "up-to-date", conversation_id=c.id, title=c.title) for c in found]


def _is_silent(transcript: Transcript, lane: str | None) -> bool:
    return next(said(transcript.path(lane)), None) is None


def _conversations(
    kind: str, main_path: Path, path: Path, agent: str | None
) -> Iterator[tuple[Transcript, str | None, Session]]:
    """The conversations of a file; all that a sub-agent's file holds is the agent's."""
    transcript = open_transcript(path, kind)
    main = session_of(kind, main_path, transcript.header.id, transcript.header.cwd)
    lanes = transcript.lanes() if kind in _WITH_LANES else []
    if not lanes or not _is_silent(transcript, None):
        yield transcript, None, main if agent is None else session_of_lane(kind, main, agent)
    for lane in lanes:
        yield transcript, lane, session_of_lane(kind, main, agent or lane)
