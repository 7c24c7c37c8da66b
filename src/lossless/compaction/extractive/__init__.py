"""Summaries without a model: the source's own sentences, picked so that they cover what it says."""

from __future__ import annotations

from lossless.compaction.extractive.condensed import condense
from lossless.compaction.extractive.draft import EXPAND, NOTHING_ELSE
from lossless.compaction.extractive.leaf import extract

__all__ = ["EXPAND", "NOTHING_ELSE", "condense", "extract"]
