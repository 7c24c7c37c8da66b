"""Small files for the tests of transcripts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from lossless.ingest.transcripts import BadLine, TranscriptEntry, open_transcript

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from lossless.ingest.transcripts import Transcript

#: Ids with their parents, in the order of a file.
Nodes: TypeAlias = list[tuple[str | None, str | None]]


def written(folder: Path, records: Iterable[Any], name: str = "transcript.jsonl") -> Path:
    """A file with these records, one a line; bytes are written as they are."""
    path = folder / name
    lines = [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def transcript(folder: Path, records: Iterable[Any], kind: str | None = None) -> Transcript:
    return open_transcript(written(folder, records), kind)


def entries(found: Iterator[TranscriptEntry | BadLine]) -> list[TranscriptEntry]:
    """The entries; a line that cannot be read is an error here."""
    listed = list(found)
    assert not [line for line in listed if isinstance(line, BadLine)]
    return [entry for entry in listed if isinstance(entry, TranscriptEntry)]


def only(found: Iterator[TranscriptEntry | BadLine]) -> TranscriptEntry:
    (entry,) = entries(found)
    return entry


def ids(found: Iterator[TranscriptEntry | BadLine]) -> str:
    """The ids of the entries, one letter each; `!` for a bad line, `-` for an entry without an id."""
    return "".join("!" if isinstance(entry, BadLine) else entry.id or "-" for entry in found)


def plain_walk(nodes: Nodes) -> list[int]:
    """The rule as it is said, without a thought for memory."""
    in_file_order = list(range(len(nodes)))
    last = {id: place for place, (id, _) in enumerate(nodes)}
    if not nodes or any(not id for id, _ in nodes) or not any(parent in last for _, parent in nodes if parent):
        return in_file_order
    path = [len(nodes) - 1]
    while parent := nodes[path[-1]][1]:
        if parent not in last or last[parent] in path:
            return in_file_order
        path.append(last[parent])
    return path[::-1]
