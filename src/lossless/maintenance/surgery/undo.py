"""Undo the last fold or surgery of a context, one step at a time."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lossless.errors import BadInput
from lossless.maintenance.surgery import common, merge
from lossless.maintenance.surgery.common import OperationReport, PreviewItem, applying, one_line, preview_items
from lossless.model.context import token_sum
from lossless.model.records import ContextChange
from lossless.store.context import item_id
from lossless.store.maintenance.surgery import SurgeryWrites

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lossless.maintenance.surgery.common import BackupMaker
    from lossless.store.archive import Archive
    from lossless.store.maintenance.surgery import FormerSummary, LogEntry

#: Steps that move or delete rows can be undone only while they are the last change.
_ONLY_LAST = frozenset({"transplant", "merge"})


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """The step that would be undone; nothing is written yet."""

    conversation_id: int
    entry: LogEntry
    #: What leaves the context, and what returns to it.
    leaves: tuple[PreviewItem, ...]
    returns: tuple[PreviewItem, ...]
    #: Summaries whose former text is restored.
    restored: tuple[str, ...] = ()
    #: How many items do not return, because they were hidden since.
    hidden: int = 0

    @property
    def text(self) -> str:
        head = f"undo {self.entry.action} of {self.entry.at:%Y-%m-%d %H:%M:%S} UTC (change {self.entry.id})"
        rows = [*(f"- {item}" for item in self.leaves), *(f"+ {item}" for item in self.returns)]
        rows += [f"~ {id_} gets its former text back" for id_ in self.restored]
        rows += [f"{self.hidden} items stay hidden"] if self.hidden else []
        return "\n".join([head, *rows])


def plan_undo(archive: Archive, conversation_id: int) -> UndoPlan:
    """The newest step that was not undone yet; BadInput when there is none or it cannot be undone."""
    with archive.reading():
        operations = SurgeryWrites(archive)
        open_ = common.undoable_steps(operations.entries(conversation_id))
        entry = next((entry for entry in reversed(open_) if entry.action in common.UNDOABLE), None)
        if entry is None:
            raise BadInput(f"conversation {conversation_id} has no fold and no surgery to undo")
        if entry.action in _ONLY_LAST and entry is not open_[-1]:
            raise BadInput(f"the {entry.action} cannot be undone: the context changed since ({open_[-1].action})")
        former = operations.former(entry.id)
        common.check_undoable(archive, conversation_id, entry, former)
        if entry.action in ("fold", "dissolve"):
            _place(archive, conversation_id, entry)
        if entry.action == "dissolve":
            _refuse_returned(archive, conversation_id, entry, former)
        visible = operations.visible(conversation_id, entry.removed)
        hidden, entry = len(entry.removed) - len(visible), replace(entry, removed=visible)
        restored = tuple(was.id for was in former) if entry.action in ("rewrite", "repair") else ()
        deleted = {was.id: was.row for was in former}
        returns = tuple(
            PreviewItem(item.id, f"depth {row['depth']}", row["token_count"], one_line(row["content"]))
            if (row := deleted.get(str(item.id))) is not None
            else item
            for item in preview_items(archive, entry.removed)
        )
        return UndoPlan(conversation_id, entry, preview_items(archive, entry.added), returns, restored, hidden)


def apply_undo(archive: Archive, work: UndoPlan, now: datetime, backup: BackupMaker) -> OperationReport:
    """Undo the step in one transaction; raises `Stale` when there is a newer one."""
    id_, entry = work.conversation_id, work.entry
    with applying(archive, now, backup, "undo") as step:
        step.check(entry, plan_undo(archive, id_).entry)
        before = token_sum(archive.context.items(id_))
        former = _undo_entry(archive, id_, entry, now)
        after = token_sum(archive.context.items(id_))
        detail = json.dumps({"undoes": entry.id})
        change = ContextChange(
            "undo", "undo", entry.action, entry.added, entry.removed, entry.ordinal, before, after, detail
        )
        return step.log(id_, change, work.restored or tuple(_summaries((*entry.added, *entry.removed))), former)


def _undo_entry(archive: Archive, conversation_id: int, entry: LogEntry, now: datetime) -> list[FormerSummary]:
    """Undo one entry; returns the former state of the summaries that it removes."""
    operations = SurgeryWrites(archive)
    match entry.action:
        case "fold":
            first, last = _place(archive, conversation_id, entry)
            operations.replace_run(conversation_id, first, last, entry.removed, now)
            id_ = str(entry.added[0])
            return [] if operations.uses(id_) else [operations.purge(id_)]
        case "dissolve":
            for was in sorted(operations.former(entry.id), key=lambda one: int(one.row["depth"])):
                operations.restore(was)
                archive.summaries.mark_older(was.id, entry.id, now)
            first, last = _place(archive, conversation_id, entry)
            operations.replace_run(conversation_id, first, last, entry.removed, now)
            operations.recount(_summaries(entry.removed))
        case "rewrite" | "repair":
            former = operations.former(entry.id)
            now_are = [operations.state(was.id) for was in former]
            for was in former:
                operations.restore(was)
                archive.summaries.mark_older(was.id, entry.id, now)
            operations.recount([was.id for was in former])
            return now_are
        case "transplant":
            merge.undo_transplant(archive, conversation_id, entry)
        case "merge":
            merge.undo_merge(archive, conversation_id, entry, now)
        case _:
            archive.prompts.deactivate_brief(conversation_id, now)
            if previous := entry.detail.get("previous"):
                archive.prompts.set_brief_status(previous, "active", now)
    return []


def _place(archive: Archive, conversation_id: int, entry: LogEntry) -> tuple[int, int]:
    """The ordinals of what was inserted, if it is still in one piece."""
    context, count = archive.context.items(conversation_id), len(entry.added)
    there = [item_id(item) for item in context]
    at = there.index(entry.added[0]) if count and entry.added[0] in there else None
    if at is None or there[at : at + count] != list(entry.added):
        raise BadInput(f"the {entry.action} cannot be undone: what it put into the context is no longer there")
    return context[at].ordinal, context[at + count - 1].ordinal


def _refuse_returned(archive: Archive, conversation_id: int, entry: LogEntry, former: Sequence[FormerSummary]) -> None:
    """A source that was hidden when its summary was dissolved and is visible now would be there twice."""
    kept = {was.id: was for was in former}
    there = {item_id(item) for item in archive.context.items(conversation_id)} - set(entry.added)
    for id_ in _summaries(entry.removed):
        waiting = [id_]
        while waiting:
            below = waiting.pop()
            was = kept.get(below) or SurgeryWrites(archive).state(below)
            if back := there.intersection((*was.message_ids, *was.source_ids)):
                what = f"{min(back, key=str)!r}, a source of {id_!r}"
                raise BadInput(f"the dissolve cannot be undone: {what}, is back in the context")
            waiting += was.source_ids if below in kept else ()


def _summaries(ids: Sequence[int | str]) -> list[str]:
    return [id_ for id_ in ids if isinstance(id_, str)]
