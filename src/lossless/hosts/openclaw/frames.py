"""One JSON value a line, in bytes: what goes through the pipes between the plugin and this process."""

from __future__ import annotations

import json
import threading
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMPACT = (",", ":")


def encode(frame: object) -> bytes:
    """A frame as one line of UTF-8. Half a surrogate pair, which UTF-8 cannot carry, is written as an escape."""
    try:
        return json.dumps(frame, ensure_ascii=False, separators=_COMPACT).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(frame, separators=_COMPACT).encode() + b"\n"


def decode(line: bytes) -> Any:
    """What a line holds; raises ValueError when it is no JSON."""
    return json.loads(line.decode("utf-8", "surrogatepass"))


def lines(stream: IO[bytes]) -> Iterator[bytes]:
    """The lines that are not blank, until the other side hangs up."""
    for line in stream:
        if not line.isspace():
            yield line


class Writer:
    """Writes frames, each as a whole, from any thread."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._lock = stream, threading.Lock()

    def send(self, frame: object) -> None:
        """Write one frame; when nobody reads any more, nothing happens."""
        data = encode(frame)
        try:
            with self._lock:
                self._stream.write(data)
                self._stream.flush()
        except (BrokenPipeError, ValueError):  # the plugin is gone; the reader of its lines ends this process
            pass
