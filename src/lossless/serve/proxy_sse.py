"""Server-sent events on the wire: taken apart without changing a byte, and written."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLANK = re.compile(rb"\r\n\r\n|\n\n|\r\r")


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
    """Bytes in, whole events out, wherever the bytes were cut."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that are complete now."""
        self._rest += chunk
        while found := _BLANK.search(self._rest):
            raw, self._rest = self._rest[: found.end()], self._rest[found.end() :]
            yield Event(raw, _data(raw))

    def rest(self) -> bytes:
        """What came after the last whole event."""
        rest, self._rest = self._rest, b""
        return rest


def written(data: dict[str, Any], *, named: bool) -> bytes:
    """An event as bytes; where events are `named`, with its type on a line before."""
    name = f"event: {data.get('type')}\n" if named else ""
    return f"{name}data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n".encode()


def _data(raw: bytes) -> dict[str, Any] | None:
    lines = [line[5:].lstrip() for line in raw.splitlines() if line.startswith(b"data:")]
    if not lines:
        return None
    try:
        data = json.loads(b"\n".join(lines))
    except ValueError:
        return None
    return data if isinstance(data, dict) else None
