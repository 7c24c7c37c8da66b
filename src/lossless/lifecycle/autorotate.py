"""Rotation without being asked: at start for all transcripts that grew too large, between turns for the current one.

Each decision is one line of the log, `[lcm] auto-rotate: phase=… action=… …`. Only transcripts that an active
conversation follows are looked at.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lossless.errors import LosslessError
from lossless.lifecycle.rotate import NOTHING
from lossless.paths import expanded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from lossless.lifecycle.rotate import RotateReport
    from lossless.logbook import Level, Logbook
    from lossless.model.conversations import Conversation

Mode = Literal["rotate", "warn", "off"]
Action = Literal["rotate", "warn", "skip", "defer", "off"]
EVENT = "auto-rotate"


@dataclass(frozen=True, slots=True)
class Indexed:
    """A session as a host's index has it."""

    key: str
    session_id: str
    path: Path


@dataclass(frozen=True, slots=True)
class Candidate:
    """A transcript that an active conversation follows, and its size."""

    conversation: Conversation
    path: Path
    size: int


@dataclass(frozen=True, slots=True)
class Limits:
    """From which size on, and what happens then."""

    size_bytes: int
    mode: Mode


@dataclass(frozen=True, slots=True)
class StartReport:
    """What the rotation at start came to."""

    scanned: int = 0
    eligible: int = 0
    rotated: int = 0
    warned: int = 0
    skipped: int = 0
    bytes_removed: int = 0
    backup: Path | None = None


@dataclass(frozen=True, slots=True)
class Tools:
    """What rotating needs of an engine."""

    rotate: Callable[[Conversation, Path], RotateReport]
    #: One copy of the archive before the first rewriting, when that is wanted.
    backup: Callable[[], Path | None]
    log: Logbook


# --- which transcripts -------------------------------------------------------------------------------------


def indexed_sessions(state_dir: Path) -> list[Indexed]:
    """The sessions in the indexes of all agents below OpenClaw's state folder; what cannot be read is left out."""
    found: list[Indexed] = []
    for index in sorted(state_dir.glob("agents/*/sessions/sessions.json")):
        try:
            entries = json.loads(index.read_bytes())
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(entries, dict):
            found += [session for key, entry in entries.items() if (session := _indexed(key, entry, index.parent))]
    return found


def _indexed(key: str, entry: object, folder: Path) -> Indexed | None:
    session_id = entry.get("sessionId") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(session_id, str) or not session_id.strip():
        return None
    file = entry.get("sessionFile")
    name = file if isinstance(file, str) and file.strip() else f"{session_id}.jsonl"
    return None if "\0" in name else Indexed(key, session_id, folder / expanded(name))


def candidates(
    indexed: Iterable[Indexed], followed: Mapping[str, Conversation], is_excluded: Callable[[Conversation], bool]
) -> list[Candidate]:
    """The indexed transcripts that active conversations follow; `followed` is by real path."""
    found: dict[Path, Candidate] = {}
    for session in indexed:
        conversation = followed.get(os.path.realpath(session.path))
        if conversation is None or not conversation.active or is_excluded(conversation):
            continue
        if session.session_id != conversation.session_id and session.key != conversation.session_key:
            continue
        size = size_of(session.path)
        if size is not None:
            found.setdefault(session.path, Candidate(conversation, session.path, size))
    return list(found.values())


def size_of(path: Path) -> int | None:
    """The size of a file; None when it is not there."""
    try:
        return path.stat().st_size
    except OSError:
        return None


def decide(size: int, limits: Limits, unsafe: str | None = None) -> Action:
    """What happens to a transcript of this size; `unsafe` says why this is not the moment to rewrite it."""
    if limits.mode == "off":
        return "off"
    if size <= limits.size_bytes:
        return "skip"
    if limits.mode == "warn":
        return "warn"
    return "defer" if unsafe else "rotate"


# --- at start ----------------------------------------------------------------------------------------------


def at_start(found: Sequence[Candidate], scanned: int, limits: Limits, tools: Tools) -> StartReport:
    """Rotate, or warn of, every transcript that is too large; one summary line at the end."""
    if limits.mode == "off":
        return StartReport()
    began = time.monotonic()
    large = [item for item in found if decide(item.size, limits) in ("rotate", "warn")]
    backup: Path | None = None
    failed: str | None = None
    if large and limits.mode == "rotate":
        try:
            backup = tools.backup()
        except LosslessError as error:
            failed = f"no backup could be made ({error.code})"
    actions = [_one("startup", item, limits, tools, backup, failed) for item in large]
    report = StartReport(
        scanned,
        len(large),
        sum(action == "rotate" for action, _ in actions),
        sum(action == "warn" for action, _ in actions),
        scanned - len(large) + sum(action == "skip" for action, _ in actions),
        sum(removed for _, removed in actions),
        backup,
    )
    tools.log.say(
        EVENT,
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


def between_turns(item: Candidate, limits: Limits, tools: Tools, unsafe: str | None = None) -> Action:
    """Look at the current transcript after a turn; rewrite it only when nothing speaks against this moment."""
    action = decide(item.size, limits, unsafe)
    if action in ("off", "skip"):
        return action
    if action == "defer":
        tools.log.say(EVENT, "info", phase="runtime", action="defer", **_about(item, limits), reason=unsafe)
        return action
    backup: Path | None = None
    if action == "rotate":
        try:
            backup = tools.backup()
        except LosslessError as error:
            return _one("runtime", item, limits, tools, None, f"no backup could be made ({error.code})")[0]
    return _one("runtime", item, limits, tools, backup)[0]


def _one(
    phase: str, item: Candidate, limits: Limits, tools: Tools, backup: Path | None, failed: str | None = None
) -> tuple[Action, int]:
    """Rotate one transcript or warn of it, and say so; returns what was done and how many bytes that removed."""
    began = time.monotonic()
    about = _about(item, limits)
    if limits.mode == "warn" or failed is not None:
        reason = failed or "transcript is larger than the threshold"
        tools.log.say(EVENT, "warning", phase=phase, action="warn", **about, reason=reason)
        return "warn", 0
    try:
        done = tools.rotate(item.conversation, item.path)
    except LosslessError as error:
        about |= {"durationMs": _since(began), "backupPath": backup, "error": error}
        tools.log.say(EVENT, "warning", phase=phase, action="warn", **about)
        return "warn", 0
    about |= {"durationMs": _since(began), "backupPath": done.backup or backup}
    if done.rotated:
        about |= {"bytesRemoved": done.bytes_removed, "preservedTailMessageCount": done.kept_messages}
        tools.log.say(EVENT, "info", phase=phase, action="rotate", **about, checkpointSize=done.checkpoint_size)
        return "rotate", done.bytes_removed
    is_short = done.reason == NOTHING
    level, action = _LEVELS[is_short]
    tools.log.say(EVENT, level, phase=phase, action=action, **about, reason=done.reason)
    return action, 0


#: How a transcript that stays as it is is told of: refused, or as short as it may be.
_LEVELS: dict[bool, tuple[Level, Action]] = {False: ("warning", "warn"), True: ("info", "skip")}


def _about(item: Candidate, limits: Limits) -> dict[str, object]:
    return {
        "sessionId": item.conversation.session_id,
        "sessionKey": item.conversation.session_key,
        "sessionFile": item.path,
        "sizeBytes": item.size,
        "thresholdBytes": limits.size_bytes,
    }


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
