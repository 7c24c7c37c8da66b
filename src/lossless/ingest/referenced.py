"""Rows in which lossless-claw has put references to files in the place of pictures, file blocks and large payloads.

Their words are not those that a host shows, which still has the payloads. A row is known by what its references say:
how many bytes each stands for, and the words before the first.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lossless.model.messages import File, Opaque

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lossless.ingest.events import Event
    from lossless.model.messages import Message
    from lossless.store.archive import Archive
    from lossless.store.messages import TailRow

_REFERENCE = re.compile(
    r"\[LCM (?:File|Tool Output|Raw Payload): file_\w+[^\]\n]*?\|\s*([\d,]+) bytes\]"
    r"|\[[^\[\]\n]*?([\d,]+) bytes\)\s*\| LCM file: file_\w+\]"
)
_FILE_BLOCK = re.compile(r"<file\b[^>]*>(.*?)</file>", re.DOTALL)
#: A text that is shorter than this is never put into a file by itself.
_LARGE = 2_048
#: So many rows with references are looked at, the newest first.
_MOST_ROWS = 64


def same_as_shown(
    archive: Archive, conversation_id: int, events: Sequence[Event], rows: Sequence[TailRow]
) -> dict[int, bytes]:
    """Rows that are messages of a window but for their references, each with the fingerprint of that message."""
    there = {row.fingerprint for row in rows}
    large = [
        event for event in reversed(events) if event.fingerprint not in there and _may_be_referenced(event.message)
    ]
    if not large:
        return {}
    ids = {row.id for row in rows}
    found: dict[int, bytes] = {}
    for id_ in archive.messages.referring(conversation_id, rows[0].seq if rows else 0, _MOST_ROWS):
        if id_ not in ids:
            continue
        stored = archive.messages.get(id_).message
        same = next((n for n, event in enumerate(large) if is_referenced(stored, event.message)), None)
        if same is not None:
            found[id_] = large.pop(same).fingerprint
    return found


def is_referenced(stored: Message, shown: Message) -> bool:
    """Whether a message has what a row has, with payloads where the row has references to files of the same size."""
    references = list(_REFERENCE.finditer(stored.content))
    if not references or stored.role != shown.role or not _are_results_of_one(stored, shown):
        return False
    if not shown.content.strip().startswith(stored.content[: references[0].start()].strip()):
        return False
    sizes = set(_sizes(shown))
    return all(int((one[1] or one[2]).replace(",", "")) in sizes for one in references)


def _may_be_referenced(message: Message) -> bool:
    is_large = len(message.content) >= _LARGE or "<file" in message.content
    return is_large or any(isinstance(part, File | Opaque) for part in message.parts)


def _are_results_of_one(stored: Message, shown: Message) -> bool:
    mine, theirs = ({part.call_id for part in one.tool_results} - {None} for one in (stored, shown))
    return not mine or not theirs or bool(mine & theirs)


def _sizes(message: Message) -> Iterator[int]:
    """How many bytes each payload of a message may have: its text, its file blocks, and bytes written as base64."""
    for text in (message.content, *_FILE_BLOCK.findall(message.content)):
        for one in (text, text.strip(), text.removeprefix("\n"), text.removesuffix("\n")):
            yield len(one.encode("utf-8", "replace"))
    for part in message.parts:
        if isinstance(part, File | Opaque):
            for text in _texts(part.raw):
                bare = text.partition(";base64,")[2] or text
                yield len(bare) * 3 // 4 - bare[-2:].count("=")
                yield len(text.encode("utf-8", "replace"))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
