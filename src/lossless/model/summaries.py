"""Summaries: leaves over messages, condensed ones over summaries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from datetime import datetime

SummaryKind = Literal["leaf", "condensed"]

#: `model` of a summary that was not written by a language model and may be rewritten by one.
EXTRACTIVE_MODEL = "lossless-extractive"


@dataclass(frozen=True, slots=True)
class Summary:
    """Replaces older history. Depth 0 is made of messages, deeper ones of summaries."""

    id: str
    conversation_id: int
    depth: int
    content: str
    tokens: int
    earliest_at: datetime | None
    latest_at: datetime | None
    #: Summaries under this one, at any depth.
    descendant_count: int
    descendant_tokens: int
    #: Tokens of all messages under this one.
    source_message_tokens: int
    created_at: datetime
    file_ids: tuple[str, ...] = ()
    model: str = "unknown"
    #: Ids of the summaries it was made of, in order; empty for a leaf.
    source_ids: tuple[str, ...] = ()

    @property
    def kind(self) -> SummaryKind:
        return "leaf" if self.depth == 0 else "condensed"


@dataclass(frozen=True, slots=True)
class NewSummary:
    """A summary to be folded into a context; the archive computes its spans and counts."""

    id: str
    depth: int
    content: str
    tokens: int
    model: str
    file_ids: tuple[str, ...] = ()
