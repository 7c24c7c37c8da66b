"""Evidence: quotations that can be cited and opened, and the text that shows them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.model.tokens import cut_to_tokens
from lossless.recall.dates import spoken_times

if TYPE_CHECKING:
    from datetime import datetime

    from lossless.recall.scope import Scope

#: Words that make a time relative to the day on which they were said.
_RELATIVE = re.compile(
    r"\b(?:last|past|previous|ago|yesterday|letzte\w*|vergangene\w*|vorige\w*|gestern|vorgestern|vor|hier|avant-hier"
    r"|il y a|derni\w+|pass\w+|ayer|anteayer|hace|pasad\w+)\b",
    re.IGNORECASE,
)
_MOST_DATES = 2
_OPENING = "Open one with lcm_describe (id: msg#… or sum_…); lcm_expand_query reads around it."


@dataclass(frozen=True, slots=True)
class Evidence:
    """A quotation from a message, with what is needed to cite it."""

    id: int
    conversation_id: int
    seq: int
    #: Comparable within one recall only.
    score: float
    role: str
    created_at: datetime
    #: The message, or a piece of it, on one line; an ellipsis shows where something was left out.
    text: str
    #: The leaf that covers it, where there is one.
    summary_id: str | None = None
    #: The sender as the host reported it.
    sender: str = ""
    #: What words such as "last Friday" in it meant on the day it was said.
    days: str = ""

    @property
    def reference(self) -> str:
        """The name under which it can be opened."""
        return f"msg#{self.id}"

    @property
    def place(self) -> tuple[int, str, str]:
        """What it is shown under: its conversation, its day, its summary."""
        return self.conversation_id, f"{self.created_at:%Y-%m-%d}", self.summary_id or ""


@dataclass(frozen=True, slots=True)
class Recalled:
    """Evidence for a question, best first; `str()` of it is the text that an agent reads."""

    question: str
    scope: Scope
    evidence: tuple[Evidence, ...] = ()
    #: What the caller should know.
    note: str = ""
    #: How long the text may be.
    max_tokens: int = 2000

    def __str__(self) -> str:
        return cut_to_tokens("\n".join(self.lines), self.max_tokens)

    @property
    def lines(self) -> list[str]:
        """The evidence under the day and the summary that it belongs to; the best of them first."""
        groups: dict[tuple[int, str, str], list[Evidence]] = {}
        for item in self.evidence:
            groups.setdefault(item.place, []).append(item)
        lines = opening_lines(self.question, self.note)
        for place, items in groups.items():
            lines.append(heading(place, self.scope))
            lines += [line_of(item) for item in sorted(items, key=lambda item: item.seq)]
        return [*lines, _OPENING] if self.evidence else lines


def opening_lines(question: str, note: str) -> list[str]:
    """What stands above the evidence."""
    asked = " ".join(question.split())
    return [f"Evidence for: {asked if len(asked) <= 200 else asked[:199] + '…'}", *([note] if note else [])]


def closing_line() -> str:
    """What stands below the evidence."""
    return _OPENING


def heading(place: tuple[int, str, str], scope: Scope) -> str:
    """The line above evidence of one day."""
    conversation_id, day, summary_id = place
    where = "" if scope.is_single else f", conversation {conversation_id}"
    return f"[{day}{where}{f', {summary_id}' if summary_id else ''}]"


def line_of(item: Evidence) -> str:
    """A quotation with its id, its speaker, and the days that it speaks of."""
    who = f"{item.role} ({item.sender})" if item.sender else item.role
    return f"{item.reference} {who}: {item.text}{f' [{item.days}]' if item.days else ''}"


def days_of(text: str, said_at: datetime) -> str:
    """What words such as "yesterday" and "two weeks ago" meant on the day they were said.

    >>> from datetime import UTC, datetime
    >>> days_of("I went there last Friday", datetime(2023, 5, 8, tzinfo=UTC))
    'last Friday = 2023-05-05'
    """
    if not _RELATIVE.search(text):
        return ""
    known: list[str] = []
    for spoken in spoken_times(text, said_at):
        words = text[spoken.start : spoken.end]
        if _RELATIVE.search(words) and len(known) < _MOST_DATES:
            last = spoken.before.toordinal() - 1
            first = f"{spoken.since:%Y-%m-%d}"
            is_day = last <= spoken.since.toordinal()
            until = "" if is_day else f"..{type(said_at).fromordinal(last):%Y-%m-%d}"
            known.append(f"{' '.join(words.split())} = {first}{until}")
    return "; ".join(known)
