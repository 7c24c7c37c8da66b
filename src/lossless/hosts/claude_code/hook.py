"""`lcm-hook`: the command that a host's hooks call. It reads one event, hands the work to another process, and
answers.

A host waits for its hooks, and loading the engine takes longer than a hook may. So nothing heavy is imported
here: another process reads the transcript, whose answer is waited for only a moment; it goes on when the wait is
over. What a host needs at once was written down before (see `session_cache`). Whatever goes wrong is said on
standard error; the exit code is always 0.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress

from lossless.hosts.claude_code import session_cache

#: What a worker needs to know of an event; the rest, a prompt above all, stays here.
_FIELDS = (
    "hook_event_name", "session_id", "transcript_path", "cwd", "source", "trigger", "reason", "agent_id",
    "agent_transcript_path", "type", "thread-id",
)  # fmt: skip
#: Events after which something new is in the transcript for sure.
_TURNS = frozenset(("Stop", "SubagentStop", "SessionEnd", "PreCompact", "agent-turn-complete"))
#: How long an event waits for its worker, in seconds. The worker itself goes on.
_WAIT = 1.0
_WAIT_FOR_REFERENCE = 8.0
#: A reference that was written just before a compaction is good for so many seconds.
_FRESH = 900.0
_MOST_INPUT = 32 << 20
#: Whether a pipe can be waited for no longer than one likes.
_CAN_SELECT = os.name == "posix"


def main(arguments: list[str] | None = None) -> int:
    """Answer one event; always 0, because a hook that fails must not stop its host."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        rest = list(given)
        while rest and rest[0] in ("--db", "--config"):
            if len(rest) < 2:
                raise ValueError(f"{rest[0]} needs a path")
            os.environ["LCM_DATABASE_PATH" if rest[0] == "--db" else session_cache.CONFIG_VARIABLE] = rest[1]
            del rest[:2]
        text = rest[-1] if rest else None
        event = _event(_input() if text is None else text)
        answer = None if os.environ.get("LCM_WRITING_SUMMARY") else respond(event)
        if answer:
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
    except Exception as error:  # noqa: BLE001 - the host goes on, whatever happens here
        _complain(f"{type(error).__name__}: {error}")
    return 0


def respond(event: dict[str, object]) -> dict[str, object] | None:
    """What the host gets to read, or None; the transcript is on its way into the archive."""
    name = str(event.get("hook_event_name") or event.get("type") or "")
    if name == "SessionStart" and event.get("source") == "compact":
        return _context(name, _reference(event))
    if session_cache.needs_reference(event, session_cache.load(event)):
        return _context(name, _new_reference(event))
    if name == "UserPromptSubmit":
        known = session_cache.load(event)
        text = known.get("reference")
        is_owed = known.get("told") is False and known.get("compacted") and isinstance(text, str)
        if is_owed:  # the reference of a compaction after which it was not ready in time
            _set_told(event, True)
        if not session_cache.is_current(known, event):
            _start(event)
        return _context(name, str(text) if is_owed and text else _quotations(event, known))
    if name in _TURNS:
        wait, before = _wait_seconds(), session_cache.load(event).get("problem")
        answer = _await(_start(event, answers=wait > 0), wait)
        return _warning(answer or {"problem": before})
    if not session_cache.is_current(session_cache.load(event), event):
        _start(event)
    return None


def _input() -> bytes:
    """What the host says, all of it: one that is not read to the end may take that badly."""
    text = sys.stdin.buffer.read(_MOST_INPUT)
    if len(text) == _MOST_INPUT:
        while sys.stdin.buffer.read(_MOST_INPUT):
            pass
        raise ValueError(f"an event has less than {_MOST_INPUT >> 20} MB; the next one reads the transcript")
    return text


def _event(text: str | bytes) -> dict[str, object]:
    event = json.loads(text)
    if not isinstance(event, dict):
        raise ValueError("an event is a JSON object")
    return event


def _reference(event: dict[str, object]) -> str:
    """What stands for the compacted part: as it was written down before, else as a worker writes it now."""
    known = session_cache.load(event)
    made = known.get("referenceAt")
    text = known.get("reference")
    if isinstance(text, str) and isinstance(made, int | float) and time.time() - made < _FRESH:
        _set_told(event, True)  # before the worker reads it
        _start(event)
        return text
    found = _new_reference(event)
    if not found and isinstance(text, str):
        found = text
        _set_told(event, True)
    return found


def _set_told(event: dict[str, object], is_told: bool) -> None:
    session_cache.save(event, session_cache.load(event) | {"told": is_told})


def _new_reference(event: dict[str, object]) -> str:
    """What stands for the compacted part now; nothing when that takes too long: then the next prompt brings it."""
    _set_told(event, False)
    answer = _await(_start(event, answers=True), _WAIT_FOR_REFERENCE)
    _warning(answer)
    new = answer.get("reference")
    if not isinstance(new, str) or not new:
        return ""
    _set_told(event, True)
    return new


def _quotations(event: dict[str, object], known: dict[str, object]) -> str:
    """What was compacted away that the prompt is about: quoted, where that is switched on, else named."""
    if not known.get("compacted"):
        return ""
    from lossless.hosts.claude_code.cues import prompt_cue, prompt_evidence

    prompt, text, message_ids = str(event.get("prompt") or ""), "", list[int]()
    if known.get("evidenceTokens"):
        text, message_ids = prompt_evidence(prompt, known)
    if message_ids:
        now = session_cache.load(event)
        quoted = now.get("quoted")
        earlier = quoted if isinstance(quoted, list) else []
        session_cache.save(event, now | {"quoted": [*earlier, *message_ids]})
    return text or prompt_cue(prompt, known)


def _context(name: str, text: str) -> dict[str, object] | None:
    return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}} if text else None


def _wait_seconds() -> float:
    if not _CAN_SELECT:
        return 0.0
    try:
        return max(0.0, int(os.environ["LCM_HOOK_WAIT_MS"]) / 1000)
    except (KeyError, ValueError):
        return _WAIT


def _warning(answer: dict[str, object]) -> dict[str, object] | None:
    """What the user gets to read when a turn could not be stored: silence would be the worst answer."""
    problem = answer.get("problem")
    if not problem:
        return None
    _complain(str(problem))
    return {"systemMessage": f"lossless: not everything was stored: {problem}"}


def _complain(problem: str) -> None:
    with suppress(OSError, ValueError, AttributeError):  # closed by the host
        sys.stderr.write(f"lcm-hook: {problem}\n")
        sys.stderr.flush()


# --- the process that does the work ---------------------------------------------------------------


def _start(event: dict[str, object], *, answers: bool = False) -> int | None:
    """Start a worker of its own session on an event; the end of a pipe to read its answer from, if it answers."""
    if not event.get("transcript_path") and not event.get("thread-id"):
        return None
    fields = {name: event[name] for name in _FIELDS if event.get(name) is not None}
    # -P: what lies in the folder that the host works in is never imported.
    command = [sys.executable, "-P", "-m", "lossless.hosts.claude_code.worker", json.dumps(fields)]
    if not answers:
        _spawn(command, None)
        return None
    reading, writing = os.pipe()
    try:
        _spawn(command, writing)
    finally:
        os.close(writing)
    return reading


def _spawn(command: list[str], answer: int | None) -> None:
    """Run a command detached: neither its output nor its life is tied to the host's hook."""
    if not hasattr(os, "posix_spawn"):
        import subprocess

        flags = getattr(subprocess, "DETACHED_PROCESS", 0) | getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
        nothing = subprocess.DEVNULL
        subprocess.Popen(command, stdin=nothing, stdout=answer or nothing, stderr=nothing, creationflags=flags)
        return
    # Only the three streams are passed on: a host reads until the last process that holds its pipe is gone.
    numbers: list[str] = []
    with suppress(OSError):
        numbers = os.listdir("/dev/fd")
    for number in map(int, filter(str.isdigit, numbers)):
        if number > 2:
            with suppress(OSError):  # the one that the folder was read with
                os.set_inheritable(number, False)
    nowhere = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        nowhere if answer is None else (os.POSIX_SPAWN_DUP2, answer, 1),
    ]
    try:
        os.posix_spawn(command[0], command, os.environ, file_actions=actions, setsid=True)
    except RuntimeError:  # a system on which a new session cannot be asked for
        os.posix_spawn(command[0], command, os.environ, file_actions=actions, setpgroup=0)


def _await(reading: int | None, seconds: float) -> dict[str, object]:
    if reading is None:
        return {}
    import select

    until, text = time.monotonic() + seconds, b""
    try:
        while not text.endswith(b"\n"):
            remaining = until - time.monotonic()
            if remaining <= 0 or (_CAN_SELECT and not select.select([reading], [], [], remaining)[0]):
                return {}
            piece = os.read(reading, 1 << 16)
            if not piece:
                break
            text += piece
    finally:
        os.close(reading)
    return _event(text) if text.strip() else {"problem": "the process that reads the transcript ended without a word"}


if __name__ == "__main__":
    sys.exit(main())
