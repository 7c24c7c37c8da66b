"""What all surgeries share: who makes the backup, what they report, how their previews read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from lossless.errors import Stale
from lossless.model.context import MessageItem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.model.context import ContextItem
    from lossless.store.archive import Archive

#: Makes a copy of the archive under a label and says where; None where there is nothing to copy (in memory).
Backup: TypeAlias = Callable[[str], Path] | None

_PREVIEW_CHARS = 100


@dataclass(frozen=True, slots=True)
class Operated:
    """What a surgery did; `log_id` is the line of the log that undoing it goes by."""

    action: str
    conversation_id: int
    log_id: int
    tokens_before: int
    tokens_after: int
    summary_ids: tuple[str, ...] = ()
    backup: Path | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """A message or a summary as a preview shows it."""

    id: int | str
    what: str
    tokens: int
    text: str

    @property
    def name(self) -> str:
        return f"msg#{self.id}" if isinstance(self.id, int) else self.id

    def __str__(self) -> str:
        return f"{self.name} {self.what}, {self.tokens} tokens: {self.text}"


def backed_up(backup: Backup, label: str) -> Path | None:
    """Make the copy, before anything is written."""
    return None if backup is None else backup(label)


def shown(archive: Archive, ids: Sequence[int | str]) -> tuple[Shown, ...]:
    """Messages and summaries in the order asked for; what is gone says so."""
    messages = archive.messages.many([id_ for id_ in ids if isinstance(id_, int)], exact=False)
    summaries = archive.summaries.many([id_ for id_ in ids if isinstance(id_, str)])
    known: dict[int | str, Shown] = {
        stored.id: Shown(stored.id, stored.message.role, stored.message.tokens, one_line(stored.message.content))
        for stored in messages
    }
    known |= {
        summary.id: Shown(summary.id, f"depth {summary.depth}", summary.tokens, one_line(summary.content))
        for summary in summaries
    }
    return tuple(known.get(id_) or Shown(id_, "gone", 0, "no longer in the archive") for id_ in ids)


def one_line(text: str) -> str:
    """The beginning of a text, on one line.

    >>> one_line("a\\n  b")
    'a b'
    """
    words = " ".join(text[: 4 * _PREVIEW_CHARS].split())
    return words if len(words) <= _PREVIEW_CHARS else words[: _PREVIEW_CHARS - 1] + "…"


def text_diff(before: str, after: str, name: str) -> str:
    """A unified diff of two texts; empty when they are the same."""
    lines = unified_diff(before.splitlines(), after.splitlines(), f"{name} (now)", f"{name} (new)", lineterm="")
    return "\n".join(lines)


def place_of(context: Sequence[ContextItem], ids: Sequence[int | str]) -> int | None:
    """The index at which a run of items stands in a context, None when it does not stand there as one piece."""
    there = [item.message_id if isinstance(item, MessageItem) else item.summary_id for item in context]
    try:
        start = there.index(ids[0])
    except (ValueError, IndexError):
        return None
    return start if there[start : start + len(ids)] == list(ids) else None


def same(planned: object, now: object) -> None:
    """Raise `Stale` when a plan is no longer the one that would be made."""
    if planned != now:
        raise Stale("the archive changed since this was planned; plan again")
