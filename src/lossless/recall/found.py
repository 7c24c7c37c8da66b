"""What a search found, as values: places that can be opened, and where the rest is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lossless.recall import cursors
from lossless.recall.snippet import ELLIPSIS, SNIPPET_CHARS, best_window
from lossless.store.texts import Place

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lossless.recall.matching import Finder
    from lossless.recall.scope import GrepRequest, HitKind, Scope

#: The hint of a search that found nothing and has no better reason.
NOTHING = "Nothing in scope holds this."
_LARGEST = 1 << 62


@dataclass(frozen=True, slots=True)
class Snippet:
    """A piece of a text on one line, and the matches in it."""

    text: str
    matches: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """A message, a summary or a place in a file."""

    id: int | str
    kind: HitKind
    conversation_id: int
    #: Its place in the conversation; None for what is no message.
    seq: int | None
    #: Comparable within one search only; 0 in searches that do not rank.
    score: float
    snippet: str
    created_at: datetime
    role: str | None = None
    #: 0 for a leaf; None for what is no summary.
    depth: int | None = None
    #: The leaf that covers a message, where there is one.
    summary_id: str | None = None
    #: Where in the snippet the words stand; none when only the messages beside it have them.
    matches: tuple[tuple[int, int], ...] = ()
    #: Of a file: its name, and the line and byte of the match.
    name: str | None = None
    line: int | None = None
    offset: int | None = None
    #: Where the words stand only in a version of the message: `earlier` or `lesser`.
    version: str | None = None

    @property
    def reference(self) -> str:
        """The name under which it can be opened."""
        return f"msg#{self.id}" if self.kind == "message" else str(self.id)


@dataclass(frozen=True, slots=True)
class Start:
    """Where the next page begins: behind so many ranked hits, or behind a place in the order newest first."""

    offset: int = 0
    place: Place | None = None
    #: Whether the letters are looked for as they are, instead of words.
    is_scan: bool = False
    #: Whether one of the words is enough.
    is_any: bool = False
    #: Whether only versions are left, behind so many of them.
    is_version: bool = False

    @property
    def cursor(self) -> str:
        """As an opaque word."""
        at, what, id_ = self.place or (0, "", 0)
        fields = {"o": self.offset, "a": at, "w": what, "i": id_, "s": self.is_scan, "y": self.is_any}
        fields |= {"v": True} if self.is_version else {}
        return cursors.encode("grep", fields)


def start_at(cursor: str) -> Start:
    """The place that a cursor means; `BadInput` when it is none of a search."""
    fields = cursors.decode("grep", cursor, {"o": int, "a": int, "w": str, "s": bool, "y": bool})
    what, id_ = fields["w"], fields.get("i")
    if not 0 <= fields["o"] < _LARGEST or abs(fields["a"]) >= _LARGEST:
        raise cursors.spoilt()
    if not what:
        return Start(fields["o"], None, fields["s"], fields["y"], fields.get("v") is True)
    if what == "message" and type(id_) is int and 0 < id_ < _LARGEST:
        place = Place(fields["a"], "message", id_)
    elif what == "summary" and isinstance(id_, str):
        place = Place(fields["a"], "summary", id_)
    else:
        raise cursors.spoilt()
    return Start(fields["o"], place, fields["s"], fields["y"])


@dataclass(frozen=True, slots=True)
class Findings:
    """What a search found, best or newest first; `str()` of it is the text that an agent reads."""

    request: GrepRequest
    scope: Scope
    hits: tuple[Finding, ...] = ()
    #: How many match, as far as they were counted; what stands beside them is not counted.
    total: int = 0
    #: What the caller should know about how the pattern was read, or what was left out.
    hint: str | None = None
    #: Whether there is more than is shown, or not everything was looked at.
    truncated: bool = False
    next: Start | None = None
    #: The summaries above the hits: when what they cover was said.
    spans: dict[str, tuple[datetime | None, datetime | None]] = field(default_factory=dict)

    @property
    def cursor(self) -> str | None:
        """Where the rest is, when there is a rest."""
        return None if self.next is None else self.next.cursor

    def __str__(self) -> str:
        from lossless.recall.render import rendered

        return rendered(self)


def best_snippet(
    text: str, finder: Finder, weights: Sequence[float] | None = None, size: int = SNIPPET_CHARS
) -> Snippet:
    """The part of a text that shows best why it was found."""
    window = best_window(text, finder, size, weights)
    return on_one_line(text, window.start, window.end, window.matches)


def snippet_around(text: str, start: int, end: int, size: int = SNIPPET_CHARS) -> Snippet:
    """A match with what stands around it; a long match is cut."""
    length = min(end - start, size)
    first = max(0, min(start - (size - length) // 3, len(text) - size))
    last = min(len(text), first + size)
    if 0 < first < start and not text[first - 1].isspace():
        blank = text.find(" ", first, min(start, first + 24))
        first = blank + 1 if blank >= 0 else first
    return on_one_line(text, first, last, ((start, min(end, last)),))


def on_one_line(text: str, first: int, last: int, matches: Sequence[tuple[int, int]]) -> Snippet:
    """A window of a text with white space as single blanks, and an ellipsis where text was left out."""
    before = ELLIPSIS if text[:first].strip() else ""
    after = ELLIPSIS if text[last:].strip() else ""
    shown = " ".join(text[first:last].split())
    spots = []
    for start, end in matches:
        head = " ".join(text[first:start].split())
        at = len(head) + (1 if head and text[start - 1].isspace() else 0)
        length = len(" ".join(text[start:end].split()))
        spots.append((len(before) + at, len(before) + min(at + length, len(shown))))
    return Snippet(f"{before}{shown}{after}", tuple(spots))
