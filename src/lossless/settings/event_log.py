"""The event log: one JSON object per line, in a file that only its owner can read.

It records ids, counts, paths, reasons and durations, never message text; its own errors never reach the caller.
"""

from __future__ import annotations

import json
import logging
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lossless.model.paths import expand_path, make_private_folder
from lossless.model.times import state_time
from lossless.settings.setting import mask_passwords

if TYPE_CHECKING:
    from lossless.settings import Settings

LogLevel = Literal["info", "warning", "error"]

#: How many full files are kept, and for how many days dated ones are.
KEPT_FILES, KEPT_DAYS = 5, 3
#: Field names that may be logged, by type of value. Any other field is dropped and counted.
_COUNTS = frozenset({
    "abandoned", "ambiguous", "attempts", "bytes", "bytesRemoved", "calls", "changed", "checkpointSize",
    "conversationId", "conversations", "count", "depth", "durationMs", "eligible", "files", "index", "messages",
    "pending", "pid", "preservedTailMessageCount", "replaced", "replayed", "rotated", "scanned", "sizeBytes", "skipped",
    "stored", "summaries", "thresholdBytes", "tokensAfter", "tokensBefore", "version", "warned",
})  # fmt: skip
_WORDS = frozenset({
    "action", "actor", "backupPath", "cause", "code", "entryId", "error", "fileId", "kind", "messageId", "mode",
    "model", "path", "phase", "provider", "reason", "sessionFile", "sessionId", "sessionKey", "status", "stop",
    "summaryId", "until",
})  # fmt: skip
_LONGEST = 400
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_STEERING = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
#: Anything that looks like a key or a token is masked, in any field.
_SECRET = re.compile(r"(?i)\b(?:sk|pk|rk|ghp|gho|xox[abp]|AIza)[-_][\w-]{8,}|\bBearer\s+\S+|\beyJ[\w-]{10,}\.[\w.-]+")
_OPEN = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_console = logging.getLogger("lossless")


def _now() -> datetime:
    return datetime.now(UTC)


class EventLog:
    """Writes an engine's events. Several processes may write to one file."""

    def __init__(
        self, file: str | None, max_bytes: int, *, enabled: bool = True, clock: Callable[[], datetime] = _now
    ) -> None:
        self.enabled = enabled
        self._file, self._max_bytes, self._clock = file, max_bytes, clock
        self._day: date | None = None

    @staticmethod
    def of(settings: Settings, clock: Callable[[], datetime] = _now) -> EventLog:
        file, max_bytes = settings.independent_log_file_file, settings.independent_log_file_max_file_bytes
        return EventLog(file, max_bytes, enabled=settings.independent_log_file_enabled, clock=clock)

    def log(self, event: str, level: LogLevel = "info", **fields: object) -> None:
        """Write a line; fields that are not on the allow list are dropped."""
        self._write({"event": event}, level, fields)

    def say(self, event: str, level: LogLevel = "info", **fields: object) -> str:
        """Write a line, pass its text form to Python's logging, and return that text."""
        text = format_line(event, fields)
        _console.log(logging.INFO if level == "info" else logging.WARNING, "%s", text)
        self._write({"event": event, "message": text}, level, fields)
        return text

    @property
    def path(self) -> Path:
        return self._path(self._clock().astimezone(UTC).date())

    def _path(self, day: date) -> Path:
        if self._file is None:
            return Path(tempfile.gettempdir()) / "lossless" / f"lossless-{day.isoformat()}.log"
        place = expand_path(self._file)
        return place.with_name(_DATE.sub(day.isoformat(), place.name))

    def _write(self, head: dict[str, object], level: LogLevel, fields: Mapping[str, object]) -> None:
        if not self.enabled:
            return
        now = self._clock()
        kept = loggable_fields(fields)
        unknown = sum(value is not None and name not in kept for name, value in fields.items())
        left_out = {"leftOut": unknown} if unknown else {}
        line = {"time": state_time(now), "level": level, **head, "pid": os.getpid(), **kept, **left_out}
        with suppress(OSError, ValueError):
            self._append(json.dumps(line, ensure_ascii=True).encode() + b"\n", now.astimezone(UTC).date())

    def _append(self, line: bytes, day: date) -> None:
        path = self._path(day)
        _make_folder(path.parent, is_ours=self._file is None)
        if day != self._day:
            self._day = day
            _prune(path, day)
        with suppress(FileNotFoundError):
            if path.stat().st_size + len(line) > self._max_bytes:
                with _process_lock(path.with_name(f".{path.name}.lock")):
                    if path.stat().st_size + len(line) > self._max_bytes:  # else another process was faster
                        _rotate(path)
        handle = os.open(path, _OPEN, 0o600)
        try:
            os.write(handle, line)  # one call: lines of several processes do not mix
        finally:
            os.close(handle)


def loggable_fields(fields: Mapping[str, object]) -> dict[str, object]:
    """The fields that may be logged, in order: counts and short identifiers."""
    kept: dict[str, object] = {}
    for name, value in fields.items():
        if name in _COUNTS | _WORDS and isinstance(value, int | float):
            kept[name] = value
        elif name in _WORDS and isinstance(value, str | os.PathLike):
            kept[name] = clean_text(str(os.fspath(value)))
        elif name in _WORDS and isinstance(value, BaseException):
            kept[name] = clean_text(str(getattr(value, "code", type(value).__name__)))
    return kept


def clean_text(text: str) -> str:
    """A text on one line, of bounded length, without passwords and keys."""
    text = _SECRET.sub("[secret]", mask_passwords(_STEERING.sub(" ", text)))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def format_line(event: str, fields: Mapping[str, object]) -> str:
    """The text form of a line."""
    shown = f"[lcm] {event}:"
    for name, value in loggable_fields(fields).items():
        text = json.dumps(value) if isinstance(value, bool) else str(value)
        is_plain = re.fullmatch(r"[^\s\"=]+", text)
        shown += f" {name}={text if is_plain else json.dumps(text, ensure_ascii=False)}"
    return shown


def _make_folder(folder: Path, *, is_ours: bool) -> None:
    """Create the folder for the owner only; refuses another user's folder in the shared temporary folder."""
    if not folder.is_dir():
        make_private_folder(folder)
    if is_ours and hasattr(os, "getuid"):
        status = os.lstat(folder)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            raise PermissionError(f"{folder} is not ours")
        if status.st_mode & 0o077:
            os.chmod(folder, 0o700)


def _rotate(path: Path) -> None:
    names = [path, *(path.with_name(f"{path.stem}.{n}{path.suffix or '.log'}") for n in range(1, KEPT_FILES + 1))]
    for older, newer in reversed(list(pairwise(names))):
        with suppress(FileNotFoundError):
            os.replace(older, newer)


@contextmanager
def _process_lock(lock: Path) -> Iterator[None]:
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        with suppress(ImportError):
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _prune(path: Path, today: date) -> None:
    found = _DATE.search(path.name)
    if found is None:
        return
    before, after = path.name[: found.start()], Path(path.name[found.end() :]).suffix or ".log"
    oldest = today - timedelta(days=KEPT_DAYS)
    for entry in path.parent.iterdir():
        name = entry.name.removeprefix(".").removesuffix(".lock")
        dated = _DATE.match(name[len(before) :]) if name.startswith(before) else None
        with suppress(OSError, ValueError):  # digits that are no date are not ours
            if dated and name.endswith(after) and date.fromisoformat(dated[0]) < oldest:
                entry.unlink()
