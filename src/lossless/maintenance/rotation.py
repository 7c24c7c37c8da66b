"""`engine.rotation`: shortens the transcripts that sessions follow, on demand and automatically: at start all large
ones, between turns the current one.

Each decision is one line of the log, `[lcm] auto-rotate: phase=… action=… …`. Only transcripts that an active
conversation follows are considered.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless.compaction.plan import threshold_rounds
from lossless.compaction.run import FAILED_STOPS, CompactionJob, compact
from lossless.errors import LosslessError
from lossless.ingest.sessions import imported_from
from lossless.ingest.transcripts.following import renumber_lines
from lossless.ingest.transcripts.reading import open_transcript
from lossless.maintenance.backup import ROLLING
from lossless.maintenance.engine_parts import EngineGroup
from lossless.maintenance.rotate import (
    NOTHING_TO_REMOVE,
    RotateReport,
    UnsafeTranscript,
    foreign_kind_reason,
    leaf_path_of,
    messages_in,
    parse_records,
    plan_rotation,
    record_keeper,
    rotate_transcript,
    unstored_finder,
)
from lossless.maintenance.surgery import tool_outputs
from lossless.model.paths import expand_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lossless.ingest.transcripts.following import TranscriptReport
    from lossless.maintenance.engine_parts import EngineParts
    from lossless.maintenance.surgery.tool_outputs import EntryReplacement, TranscriptGcReport
    from lossless.maintenance.transcripts import HostTranscripts
    from lossless.model.conversations import Conversation, SessionRef
    from lossless.settings.event_log import LogLevel

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
        """Rewrite a session's transcript to its tail, once all of it is stored; `.reason` says why not.

        For a host that reads its transcripts itself, `reconcile` imports this one first, and `checkpoint` imports it
        again afterwards.
        """
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
            unstored_finder(self._archive, conversation.id),
            reconcile=reconcile or import_it,
            compact=lambda: self._folded(conversation),
            keep=record_keeper(self._archive, conversation.id),
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
        policy = self._parts.loop.policy(request)
        for _ in range(_SWEEPS):
            decision = self._parts.loop.evaluate(request)
            job = CompactionJob(
                archive=self._archive, conversation_id=conversation.id, policy=policy, decision=decision,
                summariser=self._parts.loop.summariser, clock=self._parts.clock, actor="rotate",
                on_failure="raise", leaf_only=True, manual=True, is_forced=True,
            )  # fmt: skip
            report = compact(job, threshold_rounds(decision, policy, time.monotonic()))
            if report.stop in _REFUSALS:
                return report.stop
            if not report.summary_ids or report.stop == "nothing left":
                return None
        return None

    # --- automatic rotation ---

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
        if found is None or not found.active or size is None or self._parts.no_writes(found) is not None:
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
        """From which size on a transcript is large, and what happens then."""
        settings = self._parts.settings
        enabled = settings.auto_rotate_session_files_enabled
        return settings.auto_rotate_session_files_size_bytes, mode if enabled else "off"

    def _candidates(self, indexed: Iterable[IndexedSession]) -> list[RotationCandidate]:
        """The indexed transcripts that active conversations follow, with their sizes."""
        followed = {
            os.path.realpath(path): self._archive.conversations.get(id_)
            for id_, path, *_ in self._archive.transcripts.tracked()
        }
        found: dict[Path, RotationCandidate] = {}
        for key, session_id, path in indexed:
            conversation = followed.get(os.path.realpath(path))
            if conversation is None or not conversation.active or self._parts.no_writes(conversation) is not None:
                continue
            if session_id != conversation.session_id and key != conversation.session_key:
                continue
            if (size := file_size(path)) is not None:
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
        enabled = self._parts.settings.transcript_gc_enabled
        try:
            data = Path(path).read_bytes() if enabled and approved else b""
            messages = list(messages_in(data, leaf_path_of(parse_records(data)))) if data else []
        except (OSError, UnsafeTranscript) as error:
            return tool_outputs.TranscriptGcReport(reason=f"the transcript cannot be read: {error}")
        id_ = self._parts.conversation_id(session)
        return tool_outputs.replace_tool_outputs(
            self._archive, id_, messages, rewrite_entries, enabled=enabled, approved=approved
        )


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


def file_size(path: Path) -> int | None:
    """The size of a file; None when it does not exist."""
    try:
        return path.stat().st_size
    except OSError:
        return None


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
