"""The process behind a hook: it reads a transcript into the archive, answers the hook, and compacts what has grown
long.

`python -m lossless.hosts.claude_code.worker '{"transcript_path": …}'`. One runs for a transcript and one more
waits; it sees all that was written meanwhile, so others may leave that have nothing else to do.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from lossless.errors import LosslessError
from lossless.hosts.claude_code import session_cache
from lossless.ingest import sessions
from lossless.ingest.transcripts.entries import message_entries
from lossless.ingest.transcripts.following import TranscriptReport
from lossless.ingest.transcripts.reading import KINDS, Transcript, open_transcript
from lossless.ingest.transcripts.records import file_state
from lossless.model.conversations import Session

if TYPE_CHECKING:
    from lossless.engine import Engine


def session_of(transcript: Transcript) -> Session:
    """The session of a main transcript, by the host's own names."""
    header = transcript.header
    return sessions.transcript_session(transcript.kind, transcript.state.path, header.id, header.cwd)


def has_no_messages(transcript: Transcript, lane: str | None = None) -> bool:
    """Whether nothing was said on a line yet."""
    return next(message_entries(transcript.path(lane)), None) is None


#: How much of a host's context a reference may take.
REFERENCE_TOKENS = 1_800
#: What one event may spend on postponed sweeps; the rest stays a debt for `lcm worker`.
_DRAIN_SECONDS = 0.25
#: More messages than this at once are an import, whose older part is folded at once.
_IMPORT = 500
#: How long a worker waits for the one before it.
_QUEUE_SECONDS = 600.0


def main(arguments: list[str]) -> int:
    event: dict[str, Any] = json.loads(arguments[0])
    path = event_transcript(event)
    if path is None or not path.is_file() or not path.stat().st_size:
        _answer({})
        return 0
    with _turn(event) as is_ours:
        if not is_ours:
            _answer({"busy": True})
            return 0
        try:
            with _open() as engine:
                handle_event(engine, event, path)
        except (LosslessError, OSError) as error:
            _fail(event, str(error))
            return 1
        except Exception as error:
            _fail(event, f"unexpected {type(error).__name__}")
            raise
    session_cache.forget_old()
    return 0


def _fail(event: dict[str, Any], problem: str) -> None:
    """Tell the hook what went wrong; the next one tells it, too, if this one has gone."""
    session_cache.save(event, session_cache.load(event) | {"problem": problem})
    _answer({"problem": problem})


def handle_event(engine: Engine, event: dict[str, Any], path: Path) -> None:
    """Store what is new, answer, then fold; what the next hook needs is written down before and after folding."""
    from lossless.compaction.compactor import CompactionRequest

    read = session_cache.transcript_stamp(path)
    session, id_, stored, problems = sync(engine, event, path)
    known = session_cache.load(event) | {"read": read, "conversationId": id_}
    forgets = _forgets(event)
    if (forgets or session_cache.needs_reference(event, known)) and id_ is not None:
        known |= reference_entry(engine, id_) | {
            "compacted": known.get("compacted") or _has_forgotten(event),
            "quoted": [] if _has_forgotten(event) else known.get("quoted"),
        }
    settings = engine.settings
    known["evidenceTokens"] = settings.evidence_tokens if settings.hook_evidence else 0
    known["timezone"] = settings.timezone
    known["problem"] = "; ".join(problems)
    session_cache.save(event, known)
    _answer({"stored": stored, "reference": known.get("reference"), "problem": known["problem"]})
    if id_ is None:
        return
    conversation = engine.browse.get(id_)
    if forgets or stored > _IMPORT:  # without a model: an import, or what a host is about to forget
        report = engine.transcripts.fold_import(conversation)
    else:  # what is due, for a quarter second
        engine.after_turn(session, transcript=path.absolute())
        request = CompactionRequest(conversation, engine.settings.default_token_budget)
        report = engine.loop.drain(request, may_ask_model=False, seconds=_DRAIN_SECONDS)
    if report is not None and report.compacted and forgets:
        found = reference_entry(engine, id_)
        session_cache.save(event, session_cache.load(event) | found)  # a hook has said meanwhile what it told


def _forgets(event: dict[str, Any]) -> bool:
    return event.get("hook_event_name") == "PreCompact" or _has_forgotten(event)


def _has_forgotten(event: dict[str, Any]) -> bool:
    return event.get("hook_event_name") == "SessionStart" and event.get("source") == "compact"


def reference_entry(engine: Engine, conversation_id: int) -> dict[str, object]:
    """What the host is told about a conversation whose context it compacts."""
    from lossless.hosts.claude_code.reference import read_state, reference_text

    return {
        "reference": reference_text(read_state(engine.browse, conversation_id), REFERENCE_TOKENS),
        "referenceAt": time.time(),
        "archive": engine.browse.path,
        "through": engine.browse.newest_message_id(conversation_id),
    }


def sync(engine: Engine, event: dict[str, Any], path: Path) -> tuple[Session, int | None, int, list[str]]:
    """Store what a transcript and those of its sub-agents have that the archive does not; no folding yet.

    The session, its conversation, how many messages are new, and what was not stored, and why.
    """
    transcript = open_transcript(path.absolute())
    session = session_of(transcript)
    report = _sync_main(engine, session, transcript)
    is_kept_out, reason = report.status in ("held", "refused"), report.reason or "it is held back"
    problems = [f"{path.name} was not stored: {reason}"] if is_kept_out else []
    stored, named = report.stored, event.get("agent_transcript_path")
    files = KINDS[transcript.kind].side_files(transcript.state.path)
    also = Path(named).absolute() if isinstance(named, str) else None  # a sub-agent's that the host has named
    if also is not None and also not in files and also.is_file():
        files.append(also)
    for file in files:
        try:
            stored += _sync_agent(engine, session, file, file.stem.removeprefix("agent-"))
        except (LosslessError, OSError) as error:
            problems.append(f"{file.name} was not stored: {error}")
    if event.get("hook_event_name") == "SessionEnd" and transcript.kind == "claude-code":
        stored += sum(_sync_lane(engine, session, transcript, lane, lane) for lane in transcript.lanes())
    return session, report.conversation_id, stored, problems


def _sync_main(engine: Engine, session: Session, transcript: Transcript) -> TranscriptReport:
    """Go on with a transcript that is known; one in which nothing was said yet makes no conversation."""
    if engine.browse.find(session) is not None:
        return engine.bootstrap(session, transcript.state.path, fold=False)
    if has_no_messages(transcript):
        return TranscriptReport(None, "up to date")
    return engine.bootstrap(session, transcript, fold=False)


def _sync_agent(engine: Engine, session: Session, file: Path, agent: str) -> int:
    """Store what a sub-agent's file adds; in other hosts than Claude Code it is a transcript like all others."""
    seen = engine.transcripts.seen(file)
    state = file_state(file)
    if seen and all(known == (state.size, state.mtime_ms) for known in seen.values()):
        return 0
    transcript = open_transcript(file.absolute())
    if transcript.kind != "claude-code":
        return _sync_main(engine, session_of(transcript), transcript).stored
    return sum(_sync_lane(engine, session, transcript, lane, agent) for lane in (None, *transcript.lanes()))


def _sync_lane(engine: Engine, session: Session, transcript: Transcript, lane: str | None, agent: str) -> int:
    if has_no_messages(transcript, lane):
        return 0
    own = Session(key=f"{session.key}:subagent:{agent}", id=agent, project=session.project)
    return engine.bootstrap(own, transcript, lane=lane, fold=False).stored


def event_transcript(event: dict[str, Any]) -> Path | None:
    """The transcript that an event is about; Codex's notification names a thread, whose newest file is meant."""
    named = event.get("transcript_path")
    if isinstance(named, str) and named:
        return Path(named)
    home = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")
    thread = str(event.get("thread-id") or "")
    if not thread or not all(letter.isalnum() or letter in "-_" for letter in thread):
        return None
    return max((home / "sessions").glob(f"*/*/*/rollout-*-{thread}.jsonl"), default=None)


def _open() -> Engine:
    """The person's archive; settings that lie in the folder that the host works in are not theirs, and not read."""
    from lossless.engine import open_engine
    from lossless.settings.load import load

    loaded = load(os.environ.get(session_cache.CONFIG_VARIABLE) or None, cwd=Path.home())
    return open_engine(settings=loaded.settings, background=False)


def _answer(answer: dict[str, object]) -> None:
    """Tell the hook, if it still waits; afterwards no process reads it."""
    with suppress(OSError, ValueError):
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _locked(file: IO[str], until: float) -> bool:
    """Get a lock, at once or as soon as it is free; False when that takes too long."""
    import fcntl

    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.05)


@contextmanager
def _turn(event: dict[str, Any]) -> Iterator[bool]:
    """Wait for the worker before this one; False when another one waits already and does all that there is to do.

    Where there is nothing to wait at, they do not wait: the archive itself keeps writers apart.
    """
    place = session_cache.cache_file(event)
    if place is None:
        yield True
        return
    with ExitStack() as stack:
        try:
            import fcntl

            os.makedirs(session_cache.cache_folder(), mode=0o700, exist_ok=True)
            following, running = (stack.enter_context(open(f"{place}.{name}", "w")) for name in ("next", "now"))
        except (ImportError, OSError):
            yield True
            return
        until = time.monotonic() + _QUEUE_SECONDS
        # Whether there is more to do than to read the transcript, which the worker that waits does as well.
        is_end = event.get("hook_event_name") == "SessionEnd" or bool(event.get("agent_transcript_path"))
        has_more = is_end or _forgets(event) or session_cache.needs_reference(event, session_cache.load(event))
        if not _locked(following, until if has_more else 0) or not _locked(running, until):
            yield False
            return
        fcntl.flock(following, fcntl.LOCK_UN)
        yield True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
