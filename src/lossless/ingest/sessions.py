"""Sessions of conversations: naming, clearing, ending, resetting, and deciding about quarantined ones."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from lossless.errors import NotFound
from lossless.model.context import MessageItem, SummaryItem, token_sum
from lossless.model.conversations import Conversation, Session
from lossless.model.records import ContextChange
from lossless.store.context import item_id

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from lossless.model.records import QuarantinedConversation
    from lossless.store.archive import Archive


@dataclass(frozen=True, slots=True)
class NewReport:
    """What left the context; everything stays in the archive and in search."""

    conversation_id: int
    messages: int
    summaries: int
    tokens_before: int
    tokens_after: int


def clear_context(archive: Archive, conversation: Conversation, retain_depth: int, now: datetime) -> NewReport:
    """Empty the context except for summaries of at least `retain_depth` (-1 keeps everything)."""
    with archive.writing():
        items = archive.context.items(conversation.id)
        gone = [
            item for item in items if retain_depth >= 0 and (isinstance(item, MessageItem) or item.depth < retain_depth)
        ]
        before, after = token_sum(items), token_sum(items) - token_sum(gone)
        ids = tuple(item_id(item) for item in gone)
        if gone:
            archive.context.hide(conversation.id, ids, "new", now)
            change = ContextChange("new", "new", f"depth {retain_depth}", ids, (), gone[0].ordinal, before, after)
            archive.context.log(conversation.id, change, now)
            archive.context.close_gaps(conversation.id)
        archive.transcripts.set_soft_reset(conversation.id, now)
    summaries = sum(isinstance(item, SummaryItem) for item in gone)
    return NewReport(conversation.id, len(gone) - summaries, summaries, before, after)


#: Ends of a run after which the conversation continues when the host is back.
_PASSING = frozenset(("new", "unknown", "restart", "shutdown", "compaction"))


def end_session(archive: Archive, session: Session, reason: str, now: datetime) -> Conversation | None:
    """The host says that a session has ended, and why. Returns the conversation that is active from then on.

    A passing end changes nothing; `deleted` closes the conversation permanently; `reset_session` and everything else
    close it and open a new one under the same key.
    """
    found = archive.conversations.find(session)
    if reason in _PASSING or found is None:
        return found
    if reason == "deleted":
        with archive.writing():
            archive.conversations.archive(found.id, "session-deleted", now)
        return None
    return reset_session(archive, found, "manual-reset" if reason == "reset" else "session-end", now)


def reset_session(archive: Archive, who: Session | Conversation, cause: str, now: datetime) -> Conversation:
    """Archive the active conversation and open a new one under the same key; an empty one stays."""
    with archive.writing():
        session = who.session if isinstance(who, Conversation) else who
        found = who if isinstance(who, Conversation) else archive.conversations.find(who)
        if found is None:
            raise NotFound("conversation of session", session.name)
        if archive.messages.newest_id(found.id) is None:
            return found
        archive.conversations.archive(found.id, cause, now)
        run = session.id if session.id != found.session_id else None
        return archive.conversations.open(
            Session(key=found.session_key or session.key, id=run or found.session_id), now
        )


def accept_quarantined(archive: Archive, conversation_id: int, now: datetime) -> Conversation:
    """Make a quarantined conversation its session's active one; the former one is closed and stays in recall."""
    with archive.writing():
        found = _get_quarantined(archive, conversation_id)
        if found.beside is not None:
            archive.conversations.archive(found.beside, "quarantine-accepted", now)
        archive.conversations.reopen(conversation_id, now)
        return archive.conversations.get(conversation_id)


def refuse_quarantined(archive: Archive, conversation_id: int, now: datetime) -> QuarantinedConversation:
    """Keep a quarantined conversation out of every prompt; it stays in the archive, and can be accepted later."""
    with archive.writing():
        _get_quarantined(archive, conversation_id)
        archive.conversations.set_cause(conversation_id, "refused", now)
        return _get_quarantined(archive, conversation_id)


def _get_quarantined(archive: Archive, conversation_id: int) -> QuarantinedConversation:
    for found in archive.conversations.quarantined():
        if found.conversation_id == conversation_id:
            return found
    raise NotFound("quarantined conversation", conversation_id)


#: The programs that write the transcripts of each kind, except OpenClaw.
PROGRAM_NAMES = {
    "claude-code": "Claude Code",
    "codex": "Codex",
    "pi": "pi",
    "opencode": "OpenCode",
    "gemini": "Gemini CLI",
    "chatgpt": "ChatGPT",
    "jsonl": "a program that is not known",
}
#: Where some of them keep their transcripts, below the home folder.
_FOLDERS = {".claude": "claude-code", ".codex": "codex", ".pi": "pi", "opencode": "opencode", ".gemini": "gemini"}
#: How many OpenClaw indexes are cached: one per folder.
_INDEXES = 16


def transcript_session(kind: str, path: Path, header_id: str | None, cwd: str | None) -> Session:
    """The host's own names if it has any, else names that say where a conversation comes from.

    A file without an id gets one that is unique to its resolved path.
    """
    path = Path(os.path.abspath(path))
    if kind == "claude-code":
        return Session(key=":".join(filter(None, (kind, path.parent.name, path.stem))), id=path.stem, project=cwd)
    if kind == "openclaw":
        key = _openclaw_key(path, header_id or path.stem)
        return Session(key=key, id=header_id or (place_name(path) if key is None else path.stem))
    run = header_id or place_name(path)
    return Session(key=":".join(filter(None, (kind, Path(cwd).name if cwd else None, run))), id=run, project=cwd)


def lane_session(kind: str, main: Session, lane: str) -> Session:
    """The session of a lane, below the one that it belongs to."""
    if kind in ("claude-code", "opencode", "gemini"):
        return Session(key=f"{main.key}:subagent:{lane}", id=lane, project=main.project)
    if kind == "chatgpt" and not lane.isdecimal():  # a number is only its place in the file
        return Session(key=f"{kind}:{lane}", id=lane, project=main.project)
    return Session(key=f"{main.name}:{lane}", id=f"{main.id}:{lane}", project=main.project)


def imported_from(session: Session) -> str | None:
    """The kind of transcripts whose conversations have such names; None for OpenClaw's, and for any other name."""
    kind = (session.key or "").partition(":")[0]
    return kind if kind in PROGRAM_NAMES else None


def kind_by_folder(path: Path) -> str | None:
    """The kind of transcripts in another program's folder; None for any other folder."""
    return next((_FOLDERS[part] for part in Path(os.path.realpath(path)).parts if part in _FOLDERS), None)


def place_name(path: Path) -> str:
    """A name for a file by its location: its folder, its stem, and a digest of its whole path."""
    place = Path(os.path.realpath(path))
    mark = blake2b(os.fsencode(place), digest_size=4).hexdigest()
    words = "/".join(filter(None, (place.parent.name, place.stem)))
    return f"{os.fsencode(words).decode(errors='replace').replace(':', '-')}-{mark}"


def _openclaw_key(path: Path, run: str) -> str | None:
    """The key of a run in OpenClaw's own index; None when it is not listed."""
    index = path.parent / "sessions.json"
    try:
        status = index.stat()
    except OSError:
        return None
    return _keys_by_run(index, status.st_size, status.st_mtime_ns, status.st_ino).get(run)


@lru_cache(maxsize=_INDEXES)
def _keys_by_run(index: Path, _size: int, _changed: int, _file: int) -> Mapping[str, str]:
    """The keys of all runs in an index, cached until the file changes; the first key of a run counts."""
    try:
        entries = json.loads(index.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    keys: dict[str, str] = {}
    for key, about in entries.items() if isinstance(entries, dict) else ():
        run = about.get("sessionId") if isinstance(about, dict) else None
        if isinstance(run, str):
            keys.setdefault(run, key)
    return keys
