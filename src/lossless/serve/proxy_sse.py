"""Server-sent events on the wire: taken apart without changing a byte, and written."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLANK = re.compile(rb"\r\n\r\n|\n\n|\r\r")
#: So many bytes at the end of what came may be the beginning of a blank line.
_OPEN = 3


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its bytes as they came, and its data when that is a JSON object."""

    raw: bytes
    data: dict[str, Any] | None = None

    @property
    def is_done(self) -> bool:
        """Whether it is the mark at the end of OpenAI's streams."""
        return self.data is None and b"[DONE]" in self.raw


class Reader:
    """Bytes in, whole events out, wherever the bytes were cut. No byte is searched or moved again and again."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._searched = 0

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that are complete now."""
        return map(_event, self._complete(chunk))

    def rest(self) -> bytes:
        """What came after the last whole event."""
        rest, self._held, self._searched = bytes(self._held), bytearray(), 0
        return rest

    def _complete(self, chunk: bytes) -> list[bytes]:
        self._held += chunk
        whole, start = [], 0
        while found := _BLANK.search(self._held, max(start, self._searched)):
            whole.append(bytes(self._held[start : found.end()]))
            start = found.end()
        del self._held[:start]
        self._searched = max(0, len(self._held) - _OPEN)
        return whole


def written(data: dict[str, Any], *, named: bool) -> bytes:
    """An event as bytes; where events are `named`, with its type on a line before."""
    name = f"event: {data.get('type')}\n" if named else ""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"{name}data: {text}\n\n".encode("utf-8", "backslashreplace")


def _event(raw: bytes) -> Event:
    return Event(raw, _data(raw))


def _data(raw: bytes) -> dict[str, Any] | None:
    lines = [line[5:].lstrip() for line in raw.splitlines() if line.startswith(b"data:")]
    if not lines:
        return None
    try:
        data = json.loads(b"\n".join(lines))
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None
