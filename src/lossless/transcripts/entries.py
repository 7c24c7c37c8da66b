"""What every transcript is read into: a header, entries in file order, and lines that could not be read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path
    from typing import Any, Protocol, TypeAlias

    from lossless.model.messages import JsonObject, Message

    #: A record that could be read, or what stands in its place.
    Record: TypeAlias = "tuple[Line, dict[str, Any]] | BadLine"

    class Reader(Protocol):
        """One kind of transcript; a module with these names."""

        #: What `lcm import` calls it: `openclaw`, `claude-code`, `codex`, `pi`, `jsonl`, `chatgpt`.
        @property
        def KIND(self) -> str: ...  # noqa: N802

        def recognises(self, records: list[dict[str, Any]]) -> bool:
            """Whether a file whose first records are these is of this kind."""
            ...

        def header(self, records: list[dict[str, Any]]) -> Header:
            """What the first records say about the whole transcript."""
            ...

        def entries(self, record: dict[str, Any], line: Line) -> list[Entry]:
            """One record as entries: one, or those of a whole conversation, the end of its path last."""
            ...

        def lane_header(self, record: dict[str, Any], lane: str) -> Header:
            """What the first record of a side line says about it."""
            ...

        def title(self, record: dict[str, Any]) -> str | None:
            """The title of the whole transcript, when the record gives one."""
            ...

        def opening(self, record: dict[str, Any]) -> str | None:
            """What a person asked in this record, as a title for a line of talk that has no other."""
            ...

        def side_files(self, path: Path) -> list[Path]:
            """Other transcripts that belong to the one at `path`: its sub-agents'."""
            ...


#: The tie of a tool's answer: it is said whenever its call is.
ANSWER = "*"


@dataclass(frozen=True, slots=True)
class Line:
    """Where a record stands: its number from 1, and its bytes from `start` to `end` (after the line feed)."""

    number: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Header:
    """What a transcript says about itself."""

    id: str | None = None
    version: int | None = None
    #: The transcript that this one was forked from.
    parent: str | None = None
    started_at: datetime | None = None
    cwd: str | None = None
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of a transcript. `message` is set for what was said; everything else is opaque and kept as it is."""

    line: Line
    #: The record's own type; `message` for a bare message.
    kind: str
    id: str | None = None
    parent_id: str | None = None
    created_at: datetime | None = None
    #: None on the main line; else the side line (a sub-agent's) that it belongs to.
    lane: str | None = None
    message: JsonObject | Message | None = None
    #: The whole record of an opaque entry.
    record: JsonObject = field(default_factory=dict)
    #: It stands outside the tree of ids (a header, a title, a snapshot), and so on every path.
    is_loose: bool = False
    #: On the path whenever its parent is, and the parent's tie is the same; `ANSWER` holds to any parent.
    tie: str | None = None
    #: Its record holds other entries, too.
    shares_line: bool = False


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no record, and why it was skipped."""

    line: Line
    reason: str


@dataclass(frozen=True, slots=True)
class FileState:
    """What the file system says of a transcript; read before its bytes are."""

    path: Path
    size: int
    mtime_ms: int
