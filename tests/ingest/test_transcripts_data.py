"""Real transcripts, where there are some: `LOSSLESS_DATA` names folders of them, separated like PATH."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lossless.formats import decode, encode
from lossless.ingest.transcripts import BadLine, open_transcript

FOLDERS = [Path(folder) for folder in os.environ.get("LOSSLESS_DATA", "").split(os.pathsep) if folder]
FILES = sorted(
    path
    for folder in FOLDERS
    for path in folder.rglob("*.json*")
    if path.suffix == ".jsonl" or path.parent.name == "transcripts"
)


@pytest.mark.skipif(not FILES, reason="LOSSLESS_DATA names no folder with transcripts")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_message_comes_back_as_it_was(path: Path) -> None:
    found = open_transcript(path)
    count = 0
    for entry in found.appended():
        if isinstance(entry, BadLine) or entry.message is None:
            continue
        message = decode(entry.message)
        assert encode([message], message.format) == [entry.message], entry.line
        count += 1
    assert count
    on_paths = sum(1 for lane in [None, *found.lanes()] for _ in found.path(lane))
    assert on_paths == sum(found.counts().values()) + found.bad_lines
