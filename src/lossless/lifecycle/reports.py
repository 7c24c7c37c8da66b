"""What reading a transcript did."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lossless.ingest.run import AppendReport
    from lossless.model.conversations import Conversation

#: Lines that could not be read and are named in a report; the others are counted.
_NAMED = 20


@dataclass(frozen=True, slots=True)
class TranscriptReport:
    """What one reading of a transcript did."""

    conversation_id: int | None
    #: `stored`, `up to date`, `held`, `refused`, `excluded`, or `failed`.
    status: str
    #: What happened to the transcript since the last reading: `first`, `same`, `new path`, `shrunk`, `new header`.
    change: str | None = None
    reason: str | None = None
    #: Bytes of the file when it was read.
    size: int | None = None
    stored: int = 0
    replayed: int = 0
    #: Rows that took over an entry id, from none or from one that is gone.
    stamped: int = 0
    abandoned: int = 0
    #: Rows that have other words now, decisions by likeness, and repeats that may be missing.
    revised: int = 0
    likely: int = 0
    ambiguous: int = 0
    #: Messages that were left out because they were deleted for good.
    pruned: int = 0
    #: Records that are no messages.
    opaque: int = 0
    bad_lines: int = 0
    #: The first of them, with their numbers.
    problems: tuple[str, ...] = field(default=(), repr=False)
    #: The conversation itself, where it is at hand.
    conversation: Conversation | None = field(default=None, repr=False, compare=False)

    def plus(self, report: AppendReport, opaque: int) -> TranscriptReport:
        """With what one more chunk did, and how many records of it are no messages."""
        return replace(
            self,
            status="stored",
            opaque=self.opaque + opaque,
            stored=self.stored + report.stored,
            replayed=self.replayed + report.replayed,
            stamped=self.stamped + report.stamped,
            abandoned=self.abandoned + report.abandoned,
            revised=self.revised + report.revised,
            likely=self.likely + report.likely,
            ambiguous=self.ambiguous + report.ambiguous,
        )

    def noting(self, line: int, problem: str) -> TranscriptReport:
        """With one more line that could not be read."""
        named = (*self.problems, f"line {line}: {problem}") if self.bad_lines < _NAMED else self.problems
        return replace(self, bad_lines=self.bad_lines + 1, problems=named)
