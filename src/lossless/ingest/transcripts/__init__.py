"""Transcripts that hosts write: read as streams of entries, and followed so that each entry is stored once."""

from __future__ import annotations

from lossless.ingest.transcripts.entries import BadLine, FileState, RecordPosition, TranscriptEntry, TranscriptHeader
from lossless.ingest.transcripts.reading import KINDS, Transcript, entries_from_objects, open_transcript

__all__ = [
    "KINDS",
    "BadLine",
    "FileState",
    "RecordPosition",
    "Transcript",
    "TranscriptEntry",
    "TranscriptHeader",
    "entries_from_objects",
    "open_transcript",
]
