"""What left a context and what entered it between two points of its log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.errors import BadInput
from lossless.store.operations import Operations
from lossless.surgery.outcome import Shown, shown

if TYPE_CHECKING:
    from datetime import datetime

    from lossless.store.archive import Archive
    from lossless.store.operations import LogEntry


@dataclass(frozen=True, slots=True)
class ContextDiff:
    """The changes between two points, and what they come to: an item that left and came back is in neither list."""

    conversation_id: int
    after: int
    through: int
    entries: tuple[LogEntry, ...]
    left: tuple[Shown, ...]
    entered: tuple[Shown, ...]
    tokens_before: int | None
    tokens_after: int | None

    @property
    def text(self) -> str:
        """A diff for a person's eyes."""
        lines = [f"--- change {self.after}", f"+++ change {self.through}"]
        lines += [f"- {item}" for item in self.left]
        lines += [f"+ {item}" for item in self.entered]
        if self.entries:
            lines.append(f"context: {self.tokens_before} → {self.tokens_after} tokens")
        return "\n".join(lines)


def between(
    archive: Archive, conversation_id: int, after: int | datetime | None = None, through: int | datetime | None = None
) -> ContextDiff:
    """What the changes behind `after` and up to `through` did; a point is a line of the log or a moment.

    Without `after` it is the last change alone that counts. Messages that were only appended are no changes.
    """
    with archive.reading():
        operations = Operations(archive)
        _check_points(operations, conversation_id, after, through)
        last = _point(operations, conversation_id, through)
        entries = operations.entries(conversation_id, 0, last)
        newest = entries[-1].id if entries else 0
        before = _previous(entries) if after is None else _point(operations, conversation_id, after) or 0
        if last is not None and before > last:
            raise BadInput(f"the first point ({before}) lies behind the second ({last})")
        chosen = tuple(entry for entry in entries if entry.id > before)
        left, entered = _net(chosen)
        return ContextDiff(
            conversation_id,
            before,
            newest,
            chosen,
            shown(archive, left),
            shown(archive, entered),
            chosen[0].tokens_before if chosen else None,
            chosen[-1].tokens_after if chosen else None,
        )


def _point(operations: Operations, conversation_id: int, point: int | datetime | None) -> int | None:
    if point is None or isinstance(point, int):
        return point
    return operations.entry_at(conversation_id, point)


def _check_points(operations: Operations, conversation_id: int, *points: int | datetime | None) -> None:
    """A number beyond the last change is no point; one of another conversation's changes is a moment like any other."""
    numbers = [point for point in points if isinstance(point, int)]
    newest = max((entry.id for entry in operations.entries(conversation_id)), default=0) if numbers else 0
    for point in numbers:
        if point > newest:
            last = f"its last one is {newest}" if newest else "there is none yet"
            raise BadInput(f"conversation {conversation_id} has no change {point}; {last}")


def _previous(entries: list[LogEntry]) -> int:
    return entries[-2].id if len(entries) > 1 else 0


def _net(entries: tuple[LogEntry, ...]) -> tuple[list[int | str], list[int | str]]:
    """Items that are out and were in, and items that are in and were out."""
    left: dict[int | str, None] = {}
    entered: dict[int | str, None] = {}
    for entry in entries:
        for item in entry.removed:
            if item in entered:
                del entered[item]
            else:
                left[item] = None
        for item in entry.added:
            if item in left:
                del left[item]
            else:
                entered[item] = None
    return list(left), list(entered)
