"""What Claude Code wrote down since it compacted a session last: the end of its transcript, read backwards."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

_REFERENCE, _BOUNDARY = b"<lossless_reference ", b"compact_boundary"
_PIECE = 1 << 20


def holds_reference(path: str) -> bool:
    """Whether a resumed session reads our reference in its transcript, because no compaction came after it."""
    try:
        with open(path, "rb") as stream:
            for line in _from_the_end(stream):
                if _REFERENCE in line and _is_told(_record(line)):
                    return True
                if _BOUNDARY in line and _record(line).get("subtype") == "compact_boundary":
                    return False
    except OSError:
        pass
    return False


def _is_told(record: dict[str, object]) -> bool:
    """Whether a line is what a hook has told the model; others may quote it."""
    attachment = record.get("attachment")
    return isinstance(attachment, dict) and attachment.get("type") == "hook_additional_context"


def _record(line: bytes) -> dict[str, object]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _from_the_end(stream: IO[bytes]) -> Iterator[bytes]:
    at, rest = stream.seek(0, 2), b""
    while at > 0:
        size = min(_PIECE, at)
        at = stream.seek(at - size)
        first, *lines = (stream.read(size) + rest).split(b"\n")
        yield from reversed(lines)
        rest = first
    yield rest
