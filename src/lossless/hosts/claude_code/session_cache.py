"""What a worker writes down for the next hook of a session: one small file, readable by its owner only.

It saves a hook from opening the archive: how far the transcript was read, and what to say after a compaction. It is a
cache: without it hooks are slower, and nothing is lost.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress

#: How a config file reaches the worker; the engine's own settings have variables of their own.
CONFIG_VARIABLE = "LCM_HOOK_CONFIG"


def cache_folder() -> str:
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "lossless", "hooks")


def cache_file(event: dict[str, object]) -> str | None:
    """The file of an event's session; archives and settings that differ have files of their own."""
    transcript = event.get("transcript_path")
    if not isinstance(transcript, str) or not transcript:
        return None
    from hashlib import blake2b

    names = ("LCM_", "OPENCLAW_", "XDG_DATA_HOME")
    ours = sorted((name, value) for name, value in os.environ.items() if name.startswith(names))
    identity = json.dumps([os.path.abspath(transcript), ours]).encode("utf-8", "surrogateescape")
    return os.path.join(cache_folder(), blake2b(identity, digest_size=12).hexdigest() + ".json")


def load(event: dict[str, object]) -> dict[str, object]:
    """What is known about a session; nothing when there is no note, or none that can be read."""
    if file := cache_file(event):
        with suppress(OSError), open(file, "rb") as stream:
            return _record(stream.read())
    return {}


def save(event: dict[str, object], known: dict[str, object]) -> None:
    """Replace a session's note, at once; where nothing can be written there is none."""
    file = cache_file(event)
    if file is None:
        return
    new = f"{file}.{os.getpid()}"
    with suppress(OSError):
        os.makedirs(cache_folder(), mode=0o700, exist_ok=True)
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(known, stream)
        os.replace(new, file)


def forget_old(days: float = 30.0) -> None:
    """Remove notes that were not written for a month."""
    import time

    with suppress(OSError), os.scandir(cache_folder()) as entries:
        for entry in entries:
            with suppress(OSError):  # another hook may be at it
                if entry.is_file() and time.time() - entry.stat().st_mtime > days * 86_400:
                    os.unlink(entry.path)


def transcript_stamp(path: object) -> list[int]:
    """How a transcript stands: its size and when it was changed; nothing when it is not there."""
    with suppress(OSError, ValueError):
        found = os.stat(str(path))
        return [found.st_size, found.st_mtime_ns]
    return []


def is_current(known: dict[str, object], event: dict[str, object]) -> bool:
    """Whether there is nothing in the transcript that was not read, as far as its size and time tell."""
    now = transcript_stamp(event.get("transcript_path"))
    return not now or not now[0] or known.get("read") == now


def needs_reference(event: dict[str, object], known: dict[str, object]) -> bool:
    """Whether a session goes on whose context was compacted, and which does not know any more what it was told then.

    Codex keeps that with the session, and Claude Code does since it writes it into the transcript.
    """
    is_resumed = event.get("hook_event_name") == "SessionStart" and event.get("source") == "resume"
    path = str(event.get("transcript_path") or "")
    if not is_resumed or not known.get("compacted") or os.path.basename(path).startswith("rollout-"):
        return False
    return not holds_reference(path)


_REFERENCE, _BOUNDARY = b"<lossless_reference ", b"compact_boundary"


def holds_reference(path: str) -> bool:
    """Whether a resumed session reads our reference in its transcript, because no compaction came after it.

    Only what a hook has told the model counts: other lines may quote it.
    """
    with suppress(OSError), open(path, "rb") as stream:
        for line in reversed(stream.readlines()):
            told = _record(line).get("attachment") if _REFERENCE in line else None
            if isinstance(told, dict) and told.get("type") == "hook_additional_context":
                return True
            if _BOUNDARY in line and _record(line).get("subtype") == "compact_boundary":
                return False
    return False


def _record(text: bytes) -> dict[str, object]:
    with suppress(ValueError, RecursionError):
        found = json.loads(text)
        return found if isinstance(found, dict) else {}
    return {}
