"""Transcripts that hosts write, read as streams of entries."""

from __future__ import annotations

from lossless.transcripts.entries import BadLine, Entry, FileState, Header, Line
from lossless.transcripts.kinds import KINDS
from lossless.transcripts.pages import entries_of
from lossless.transcripts.read import Transcript, open_transcript

__all__ = [
    "KINDS",
    "BadLine",
    "Entry",
    "FileState",
    "Header",
    "Line",
    "Transcript",
    "entries_of",
    "open_transcript",
]
