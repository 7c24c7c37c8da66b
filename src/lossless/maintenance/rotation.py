"""`engine.rotation`: shortens the transcripts that sessions follow, on demand and automatically: at start all large
ones, between turns the current one.

Each decision is one line of the log, `[lcm] auto-rotate: phase=… action=… …`. Only transcripts that an active
conversation follows are considered.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lossless.compaction.run import FAILED_STOPS
from lossless.errors import LosslessError
from lossless.ingest.sessions import imported_from
from lossless.maintenance.rotate import NOTHING_TO_REMOVE
from lossless.model.paths import expand_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lossless.ingest.transcripts.following import TranscriptReport
    from lossless.maintenance.engine_parts import EngineParts
    from lossless.maintenance.rotate import RotateReport
    from lossless.maintenance.surgery.tool_outputs import EntryReplacement, TranscriptGcReport
    from lossless.maintenance.transcripts import HostTranscripts
    from lossless.model.conversations import Conversation, Session, SessionRef
    from lossless.settings.event_log import EventLog, LogLevel

#: How many compactions fold what is outside the tail before a transcript is rewritten.
_SWEEPS = 50
#: Results of a compaction after which no transcript is rewritten.
_REFUSALS = FAILED_STOPS | {"busy", "stale"}


class Rotation:
    """`engine.rotation`: rewrites completely stored transcripts to their tails. Deletes nothing from the archive."""

    def __init__(self, parts: EngineParts, transcripts: HostTranscripts) -> None:
        self._parts, self._transcripts = parts, transcripts
        #: The size from which on a large transcript is logged again.
        self._noted_sizes: dict[str, int] = {}

    def follow(self, session: Session, transcript: str | os.PathLike[str]) -> TranscriptReport:
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
        from lossless.maintenance.backup import ROLLING
        from lossless.maintenance.rotate import (
            RotateReport,
            RotationSteps,
            plan_rotation,
            record_keeper,
            rotate_transcript,
            unstored_finder,
        )

        found = self._parts.find(session)
        found = None if found is None else self._parts.archive.conversations.get(found.id)
        point = None if found is None else self._parts.archive.transcripts.checkpoint(found.id)
        followed = None if point is None or not point.path else Path(point.path)
        place = followed or Path() if path is None else Path(path)
        reason = self._why_not(found, place, place if reconcile else followed)
        if reason is not None or found is None:
            return RotateReport(place, reason=reason)
        conversation = found
        tail_count = self._parts.loop.policy(self._parts.request(conversation, None)).fresh_tail_count
        if dry_run:
            return plan_rotation(place, tail_count)
        steps = RotationSteps(
            unstored_finder(self._parts.archive, conversation.id),
            reconcile or (lambda: self._reconciled(conversation, place)),
            lambda: self._folded(conversation),
            record_keeper(self._parts.archive, conversation.id),
            (lambda: self._parts.copy(ROLLING).path) if backup else lambda: None,
            checkpoint or (lambda: self._checkpointed(conversation, place)),
        )
        return rotate_transcript(place, tail_count, steps)

    def _why_not(self, found: Conversation | None, place: Path, followed: Path | None) -> str | None:
        """Why a transcript of this conversation is not rewritten now, before anything is read."""
        if found is None or not found.active:
            return "no active conversation"
        if (kind := imported_from(found.session)) is not None:
            from lossless.maintenance.rotate import foreign_kind_reason

            return foreign_kind_reason(kind)
        if (reason := self._parts.no_writes(found)) is not None:
            return reason
        if followed is None or os.path.realpath(place) != os.path.realpath(followed):
            return "the conversation does not follow this transcript"
        if (blocked := self._parts.archive.ingest.state(found.id).blocked_reason) is not None:
            return f"input is refused: {blocked}"
        if any(epoch.conversation_id == found.id for epoch in self._parts.archive.transcripts.held()):
            return "a transcript is held and waits for a decision"
        return self._model_rests(found.id)

    def _model_rests(self, conversation_id: int) -> str | None:
        """Why no model would be called now, if one is configured."""
        summariser = self._parts.loop.summariser
        return summariser.gate(self._parts.archive, conversation_id, self._parts.clock).resting(summariser.candidates())

    def _reconciled(self, conversation: Conversation, place: Path) -> str | None:
        """Import the transcript into the archive; returns why that failed, or None."""
        report = self._transcripts.bootstrap(conversation.session, place)
        if report.conversation_id != conversation.id:
            return "the session continues in another conversation"
        if report.status in ("stored", "up to date") and not report.bad_lines:
            return None
        return f"the transcript is not in the archive: {report.reason or report.status}"

    def _checkpointed(self, conversation: Conversation, place: Path) -> int | None:
        from lossless.ingest.transcripts.following import renumber_lines
        from lossless.ingest.transcripts.reading import open_transcript

        renumber_lines(self._parts.archive, conversation.id, open_transcript(place).path())
        self._transcripts.bootstrap(conversation.session, place)
        point = self._parts.archive.transcripts.checkpoint(conversation.id)
        return None if point is None else point.size

    def _folded(self, conversation: Conversation) -> str | None:
        """Fold everything outside the tail into leaves; returns why that failed, or None."""
        from lossless.compaction.plan import threshold_rounds
        from lossless.compaction.run import CompactionJob, compact

        situation = self._parts.request(conversation, None)
        policy = self._parts.loop.policy(situation)
        for _ in range(_SWEEPS):
            decision = self._parts.loop.evaluate(situation)
            job = CompactionJob(
                archive=self._parts.archive,
                conversation_id=conversation.id,
                policy=policy,
                decision=decision,
                summariser=self._parts.loop.summariser,
                clock=self._parts.clock,
                actor="rotate",
                on_failure="raise",
                leaf_only=True,
                manual=True,
                is_forced=True,
            )
            report = compact(job, threshold_rounds(decision, policy, time.monotonic()))
            if report.stop in _REFUSALS:
                return report.stop
            if not report.summary_ids or report.stop == "nothing left":
                return None
        return None

    # --- automatic rotation ---

    def at_start(self, state_dir: str | os.PathLike[str]) -> StartRotationReport:
        """Shorten large transcripts below a host's state folder, by the settings."""

        limits = self._limits(self._parts.settings.auto_rotate_session_files_startup)
        if limits.mode == "off":
            return StartRotationReport()
        indexed = indexed_sessions(Path(state_dir))
        followed = {
            os.path.realpath(path): self._parts.archive.conversations.get(id_)
            for id_, path, *_ in self._parts.archive.transcripts.tracked()
        }
        found = find_candidates(indexed, followed, lambda item: self._parts.no_writes(item) is not None)
        return rotate_at_start(found, len(indexed), limits, self._tools("auto-rotate"))

    def between_turns(
        self, session: SessionRef, path: str | os.PathLike[str], *, unsafe: str | None = None
    ) -> RotationAction:
        """Check the transcript's size after a turn; `unsafe` says why it must not be rewritten now."""

        limits, found = self._limits(self._parts.settings.auto_rotate_session_files_runtime), self._parts.find(session)
        size = file_size(Path(path))
        if found is None or not found.active or size is None or self._parts.no_writes(found) is not None:
            return "off"
        item = RotationCandidate(found, Path(path), size)
        blocked = self._parts.archive.ingest.state(found.id).blocked_reason
        return rotate_between_turns(item, limits, self._tools("rotate-latest"), unsafe or blocked)

    def _limits(self, mode: RotationMode) -> RotationLimits:

        enabled = self._parts.settings.auto_rotate_session_files_enabled
        return RotationLimits(self._parts.settings.auto_rotate_session_files_size_bytes, mode if enabled else "off")

    def _tools(self, label: str) -> RotationTools:

        wants = self._parts.settings.auto_rotate_session_files_create_backups

        def copy() -> Path | None:
            return self._parts.copy(label).path if wants else None

        return RotationTools(lambda who, path: self.rotate(who, path, backup=False), copy, self._parts.log)

    def collect(
        self,
        session: SessionRef,
        path: str | os.PathLike[str],
        rewrite_entries: Callable[[Sequence[EntryReplacement]], int],
        *,
        approved: bool,
    ) -> TranscriptGcReport:
        """Ask the host to replace old tool results in its transcript by short forms, if settings and host allow it."""
        from lossless.maintenance.rotate import UnsafeTranscript, leaf_path_of, messages_in, parse_records
        from lossless.maintenance.surgery import tool_outputs

        enabled = self._parts.settings.transcript_gc_enabled
        try:
            data = Path(path).read_bytes() if enabled and approved else b""
            messages = list(messages_in(data, leaf_path_of(parse_records(data)))) if data else []
        except (OSError, UnsafeTranscript) as error:
            return tool_outputs.TranscriptGcReport(reason=f"the transcript cannot be read: {error}")
        id_ = self._parts.conversation(session).id
        return tool_outputs.replace_tool_outputs(
            self._parts.archive, id_, messages, rewrite_entries, enabled=enabled, approved=approved
        )


RotationMode = Literal["rotate", "warn", "off"]
RotationAction = Literal["rotate", "warn", "skip", "defer", "off"]
AUTO_ROTATE_EVENT = "auto-rotate"


@dataclass(frozen=True, slots=True)
class IndexedSession:
    key: str
    session_id: str
    path: Path


@dataclass(frozen=True, slots=True)
class RotationCandidate:
    """A transcript that an active conversation follows, and its size."""

    conversation: Conversation
    path: Path
    size: int


@dataclass(frozen=True, slots=True)
class RotationLimits:
    """From which size on, and what happens then."""

    size_bytes: int
    mode: RotationMode


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


@dataclass(frozen=True, slots=True)
class RotationTools:
    """The parts of an engine that rotation needs."""

    rotate: Callable[[Conversation, Path], RotateReport]
    #: Copies the archive once before the first rewriting, if enabled.
    backup: Callable[[], Path | None]
    log: EventLog


# --- which transcripts -------------------------------------------------------------------------------------


def indexed_sessions(state_dir: Path) -> list[IndexedSession]:
    """The sessions in the indexes of all agents below OpenClaw's state folder; unreadable ones are skipped."""
    found: list[IndexedSession] = []
    for index in sorted(state_dir.glob("agents/*/sessions/sessions.json")):
        try:
            entries = json.loads(index.read_bytes())
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(entries, dict):
            found += [session for key, entry in entries.items() if (session := _indexed(key, entry, index.parent))]
    return found


def _indexed(key: str, entry: object, folder: Path) -> IndexedSession | None:
    session_id = entry.get("sessionId") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(session_id, str) or not session_id.strip():
        return None
    file = entry.get("sessionFile")
    name = file if isinstance(file, str) and file.strip() else f"{session_id}.jsonl"
    return None if "\0" in name else IndexedSession(key, session_id, folder / expand_path(name))


def find_candidates(
    indexed: Iterable[IndexedSession], followed: Mapping[str, Conversation], is_excluded: Callable[[Conversation], bool]
) -> list[RotationCandidate]:
    """The indexed transcripts that active conversations follow; `followed` is by real path."""
    found: dict[Path, RotationCandidate] = {}
    for session in indexed:
        conversation = followed.get(os.path.realpath(session.path))
        if conversation is None or not conversation.active or is_excluded(conversation):
            continue
        if session.session_id != conversation.session_id and session.key != conversation.session_key:
            continue
        size = file_size(session.path)
        if size is not None:
            found.setdefault(session.path, RotationCandidate(conversation, session.path, size))
    return list(found.values())


def file_size(path: Path) -> int | None:
    """The size of a file; None when it does not exist."""
    try:
        return path.stat().st_size
    except OSError:
        return None


def decide_rotation(size: int, limits: RotationLimits, unsafe: str | None = None) -> RotationAction:
    """What to do with a transcript of this size; `unsafe` says why it must not be rewritten now."""
    if limits.mode == "off":
        return "off"
    if size <= limits.size_bytes:
        return "skip"
    if limits.mode == "warn":
        return "warn"
    return "defer" if unsafe else "rotate"


# --- at start ----------------------------------------------------------------------------------------------


def rotate_at_start(
    found: Sequence[RotationCandidate], scanned: int, limits: RotationLimits, tools: RotationTools
) -> StartRotationReport:
    """Rotate, or warn about, every large transcript; one summary line at the end."""
    if limits.mode == "off":
        return StartRotationReport()
    began = time.monotonic()
    large = [item for item in found if decide_rotation(item.size, limits) in ("rotate", "warn")]
    backup: Path | None = None
    failed: str | None = None
    if large and limits.mode == "rotate":
        try:
            backup = tools.backup()
        except LosslessError as error:
            failed = f"no backup could be made ({error.code})"
    actions = [_rotate_one("startup", item, limits, tools, backup, failed) for item in large]
    report = StartRotationReport(
        scanned,
        len(large),
        sum(action == "rotate" for action, _ in actions),
        sum(action == "warn" for action, _ in actions),
        scanned - len(large) + sum(action == "skip" for action, _ in actions),
        sum(removed for _, removed in actions),
        backup,
    )
    tools.log.say(
        AUTO_ROTATE_EVENT,
        phase="startup",
        action="summary",
        scanned=report.scanned,
        eligible=report.eligible,
        rotated=report.rotated,
        warned=report.warned,
        skipped=report.skipped,
        durationMs=_since(began),
        bytesRemoved=report.bytes_removed,
        backupPath=backup,
    )
    return report


# --- between turns -----------------------------------------------------------------------------------------


def rotate_between_turns(
    item: RotationCandidate, limits: RotationLimits, tools: RotationTools, unsafe: str | None = None
) -> RotationAction:
    """Check the current transcript after a turn; rewrite it only when that is safe now."""
    action = decide_rotation(item.size, limits, unsafe)
    if action in ("off", "skip"):
        return action
    if action == "defer":
        tools.log.say(
            AUTO_ROTATE_EVENT, "info", phase="runtime", action="defer", **_log_fields(item, limits), reason=unsafe
        )
        return action
    backup: Path | None = None
    if action == "rotate":
        try:
            backup = tools.backup()
        except LosslessError as error:
            return _rotate_one("runtime", item, limits, tools, None, f"no backup could be made ({error.code})")[0]
    return _rotate_one("runtime", item, limits, tools, backup)[0]


def _rotate_one(
    phase: str,
    item: RotationCandidate,
    limits: RotationLimits,
    tools: RotationTools,
    backup: Path | None,
    failed: str | None = None,
) -> tuple[RotationAction, int]:
    """Rotate one transcript or warn about it, and log it; returns the action and the bytes removed."""
    began = time.monotonic()
    about = _log_fields(item, limits)
    if limits.mode == "warn" or failed is not None:
        reason = failed or "transcript is larger than the threshold"
        tools.log.say(AUTO_ROTATE_EVENT, "warning", phase=phase, action="warn", **about, reason=reason)
        return "warn", 0
    try:
        done = tools.rotate(item.conversation, item.path)
    except LosslessError as error:
        about |= {"durationMs": _since(began), "backupPath": backup, "error": error}
        tools.log.say(AUTO_ROTATE_EVENT, "warning", phase=phase, action="warn", **about)
        return "warn", 0
    about |= {"durationMs": _since(began), "backupPath": done.backup or backup}
    if done.rotated:
        about |= {"bytesRemoved": done.bytes_removed, "preservedTailMessageCount": done.kept_messages}
        tools.log.say(
            AUTO_ROTATE_EVENT, "info", phase=phase, action="rotate", **about, checkpointSize=done.checkpoint_size
        )
        return "rotate", done.bytes_removed
    is_short = done.reason == NOTHING_TO_REMOVE
    level, action = _LEVELS[is_short]
    tools.log.say(AUTO_ROTATE_EVENT, level, phase=phase, action=action, **about, reason=done.reason)
    return action, 0


#: The log level and action for a transcript that is unchanged: refused, or already as short as possible.
_LEVELS: dict[bool, tuple[LogLevel, RotationAction]] = {False: ("warning", "warn"), True: ("info", "skip")}


def _log_fields(item: RotationCandidate, limits: RotationLimits) -> dict[str, object]:
    return {
        "sessionId": item.conversation.session_id,
        "sessionKey": item.conversation.session_key,
        "sessionFile": item.path,
        "sizeBytes": item.size,
        "thresholdBytes": limits.size_bytes,
    }


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
