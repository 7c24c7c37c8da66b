"""Restores the sources of summaries, of one or of all in a context; and undoes the last fold or surgery."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING

from lossless.errors import BadInput
from lossless.maintenance.surgery import common, merge
from lossless.maintenance.surgery.common import BackupMaker, OperationReport, PreviewItem, applying, preview_items
from lossless.model.context import ContextItem, MessageItem, SummaryItem, token_sum
from lossless.model.records import ContextChange
from lossless.model.tokens import one_line
from lossless.store.context import item_id
from lossless.store.maintenance.surgery import FormerSummary, LogEntry, SurgeryWrites

if TYPE_CHECKING:
    from lossless.maintenance.engine_parts import EngineParts
    from lossless.model.conversations import SessionRef
    from lossless.store.archive import Archive


@dataclass(frozen=True, slots=True)
class DissolvePlan:
    """What would be restored, and what would move; plans are equal if only messages were appended meanwhile."""

    conversation_id: int
    summary: PreviewItem
    ordinal: int
    items: tuple[PreviewItem, ...]
    tokens_before: int = field(compare=False)
    tokens_after: int = field(compare=False)
    #: Context items from this ordinal on move up by `shift`.
    shift_from: int = field(compare=False)
    shift: int = field(compare=False)
    purge: bool
    #: What else uses the summary: ids of summaries made of it, `brief`.
    used_by: tuple[str, ...] = ()
    #: How many of its sources are not restored because they are hidden.
    hidden: int = 0

    @property
    def text(self) -> str:
        moved = f"items from {self.shift_from} on move up by {self.shift}" if self.shift else "no item moves"
        return "\n".join(
            [
                f"- [{self.ordinal}] {self.summary}",
                *(f"+ [{self.ordinal + n}] {item}" for n, item in enumerate(self.items)),
                *([f"{self.hidden} of its sources stay hidden"] if self.hidden else []),
                f"context: {self.tokens_before} → {self.tokens_after} tokens; {moved}",
                f"the summary is {'deleted' if self.purge else 'kept in the archive'}",
            ]
        )


def plan_dissolve(archive: Archive, summary_id: str, *, purge: bool = False) -> DissolvePlan:
    """What dissolving a summary would do; BadInput when it is not in the context, hidden, or needed."""
    with archive.reading():
        summary = archive.summaries.get(summary_id)
        context = archive.context.items(summary.conversation_id)
        places = [item_id(item) for item in context]
        there = set(places)
        if summary_id not in there:
            above = next((id_ for id_ in SurgeryWrites(archive).above([summary_id]) if id_ in there), None)
            first = f"; it is below {above!r}: dissolve that one first" if above else ""
            rule = "only summaries in the context can be dissolved"
            raise BadInput(f"summary {summary_id!r} is not in the context; {rule}{first}")
        sources: list[int | str] = [*(summary.source_ids or archive.summaries.message_ids(summary_id))]
        if not sources:
            raise BadInput(f"summary {summary_id!r} has no sources; there is nothing to restore")
        ids = SurgeryWrites(archive).visible(summary.conversation_id, sources)
        if not ids:
            raise BadInput(f"summary {summary_id!r}: all its sources are hidden; there is nothing to restore")
        if twice := [id_ for id_ in ids if id_ in there]:
            raise BadInput(f"summary {summary_id!r}: {twice[0]!r} is already in the context")
        users = tuple(user for user in SurgeryWrites(archive).uses(summary_id) if user != "context")
        items, own = preview_items(archive, ids), preview_items(archive, [summary_id])[0]
    if purge and users:
        raise BadInput(f"summary {summary_id!r} cannot be deleted: it is needed by {', '.join(users)}")
    at = places.index(summary_id)
    ordinal = context[at].ordinal
    following = context[at + 1].ordinal if at + 1 < len(context) else None
    shift = 0 if following is None else max(0, ordinal + len(ids) - following)
    before = token_sum(context)
    after = before - context[at].tokens + sum(item.tokens for item in items)
    moved, hidden = (following or ordinal, shift), len(sources) - len(ids)
    return DissolvePlan(summary.conversation_id, own, ordinal, items, before, after, *moved, purge, users, hidden)


def apply_dissolve(parts: EngineParts, planned: DissolvePlan, backup: BackupMaker = None) -> OperationReport:
    """Carry a plan out in one transaction; raises `Stale` when it is no longer current."""
    archive, summary_id = parts.archive, str(planned.summary.id)
    with applying(parts, "dissolve", backup) as step:
        work = step.check(planned, plan_dissolve(archive, summary_id, purge=planned.purge))
        operations = SurgeryWrites(archive)
        ids = tuple(item.id for item in work.items)
        archive.context.replace_run(work.conversation_id, work.ordinal, work.ordinal, ids, step.now)
        archive.summaries.mark_pending_stale(work.conversation_id, work.ordinal, 2**62)
        former = [operations.purge(summary_id)] if work.purge else []
        change = ContextChange("dissolve", "dissolve", None, (summary_id,), ids, work.ordinal)
        return step.log(work.conversation_id, change, work.tokens_before, summary_ids=(summary_id,), former=former)


@dataclass(frozen=True, slots=True)
class UnfoldPlan:
    """What would be restored; nothing is written yet."""

    conversation_id: int
    #: The ordinals of the first and the last summary to be replaced.
    first: int = field(compare=False)
    last: int = field(compare=False)
    #: The current items between these, and the new ones: messages, and summaries whose messages are unknown or hidden.
    removed: tuple[int | str, ...]
    added: tuple[int | str, ...]
    #: The summaries to be removed, including nested ones, shallowest first.
    summary_ids: tuple[str, ...]
    tokens_before: int = field(compare=False)
    #: The whole context afterwards.
    context: tuple[ContextItem, ...] = field(repr=False, default=(), compare=False)
    #: How many messages are not restored because they are hidden.
    hidden: int = field(default=0, compare=False)

    @property
    def tokens_after(self) -> int:
        return token_sum(self.context)

    @property
    def text(self) -> str:
        back = sum(isinstance(id_, int) for id_ in self.added) - sum(isinstance(id_, int) for id_ in self.removed)
        rows = [f"- {len(self.summary_ids)} summaries are replaced by the {back} messages under them"]
        rows += [f"{self.hidden} messages stay hidden"] if self.hidden else []
        return "\n".join([*rows, f"context: {self.tokens_before} → {self.tokens_after} tokens before it is folded"])


def plan_unfold(archive: Archive, conversation_id: int) -> UnfoldPlan | None:
    """What unfolding a context would restore, without hidden messages; None when there is nothing to unfold."""
    with archive.reading():
        context = archive.context.items(conversation_id)
        ids = [item.summary_id for item in context if isinstance(item, SummaryItem)]
        below = {id_: _messages(archive, id_) for id_ in ids}
        all_ = [id_ for ids in below.values() for id_ in ids]
        visible = set(SurgeryWrites(archive).visible(conversation_id, all_))
        back = {id_: kept for id_, ids in below.items() if (kept := [one for one in ids if one in visible])}
        if not back:
            return None
        known = {one.id: one for one in archive.messages.many([*chain(*back.values())], exact=False)}
        restored: list[ContextItem] = []
        for item in context:  # the context with messages in place of their summaries
            if isinstance(item, SummaryItem) and item.summary_id in back:
                messages = [known[id_] for id_ in back[item.summary_id]]
                restored += [MessageItem(0, one.id, one.message.role, one.message.tokens, one.seq) for one in messages]
            else:
                restored.append(item)
        whole = [replace(item, ordinal=n) for n, item in enumerate(restored)]
        gone = SurgeryWrites(archive).below(back)
    counts = Counter(item.message_id for item in whole if isinstance(item, MessageItem))
    if twice := [id_ for id_, count in counts.items() if count > 1]:
        raise BadInput(f"conversation {conversation_id} cannot be folded again: msg#{twice[0]} is in its context twice")
    places = [n for n, item in enumerate(context) if item_id(item) in back]
    first, last = places[0], places[-1]
    behind = len(context) - 1 - last
    removed = tuple(item_id(item) for item in context[first : last + 1])
    added = tuple(item_id(item) for item in whole[first : len(whole) - behind])
    return UnfoldPlan(
        conversation_id, context[first].ordinal, context[last].ordinal, removed, added, tuple(gone),
        token_sum(context), tuple(whole), sum(len(below[id_]) - len(kept) for id_, kept in back.items()),
    )  # fmt: skip


def apply_unfold(archive: Archive, planned: UnfoldPlan, now: datetime) -> OperationReport:
    """Carry a plan out, or raise `Stale`; unused summaries are deleted, and undo restores them."""
    id_, step, operations = planned.conversation_id, common.Operation(archive, now), SurgeryWrites(archive)
    with archive.writing():
        again = step.check(planned, plan_unfold(archive, id_))
        archive.context.replace_run(id_, again.first, again.last, again.added, now)
        archive.summaries.mark_pending_stale(id_, again.first, 2**62)
        # parents first; those that a brief or another summary uses stay
        former = [operations.purge(one) for one in reversed(again.summary_ids) if not operations.uses(one)]
        change = ContextChange("dissolve", "recompact", None, again.removed, again.added, again.first)
        ids = tuple(was.id for was in former)
        return step.log(id_, change, again.tokens_before, summary_ids=ids, former=former)


def _messages(archive: Archive, summary_id: str) -> list[int]:
    """The messages under a summary, in source order; empty when some of them are unknown."""
    found: list[int] = []
    waiting = [summary_id]
    while waiting:
        id_ = waiting.pop()
        sources = archive.summaries.get(id_).source_ids
        messages = [] if sources else archive.summaries.message_ids(id_)
        if not sources and not messages:
            return []
        waiting += reversed(sources)
        found += messages
    return list(dict.fromkeys(found))


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


def plan_undo(parts: EngineParts, session: SessionRef | int) -> UndoPlan:
    """The newest step that was not undone yet; BadInput when there is none or it cannot be undone."""
    archive, conversation_id = parts.archive, parts.conversation_id(session)
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


def apply_undo(parts: EngineParts, work: UndoPlan, backup: BackupMaker = None) -> OperationReport:
    """Undo the step in one transaction; raises `Stale` when there is a newer one."""
    archive, id_, entry = parts.archive, work.conversation_id, work.entry
    with applying(parts, "undo", backup) as step:
        step.check(entry, plan_undo(parts, id_).entry)
        before = archive.context.tokens(id_)
        former = _undo_entry(archive, id_, entry, step.now)
        change = ContextChange("undo", "undo", entry.action, entry.added, entry.removed, entry.ordinal)
        ids = work.restored or tuple(_summaries((*entry.added, *entry.removed)))
        return step.log(id_, change, before, summary_ids=ids, former=former, detail={"undoes": entry.id})


def _undo_entry(archive: Archive, conversation_id: int, entry: LogEntry, now: datetime) -> list[FormerSummary]:
    """Undo one entry; returns the former state of the summaries that it removes."""
    operations = SurgeryWrites(archive)
    match entry.action:
        case "fold":
            first, last = _place(archive, conversation_id, entry)
            archive.context.replace_run(conversation_id, first, last, entry.removed, now)
            id_ = str(entry.added[0])
            return [] if operations.uses(id_) else [operations.purge(id_)]
        case "dissolve":
            for was in sorted(operations.former(entry.id), key=lambda one: int(one.row["depth"])):
                operations.restore(was)
                archive.summaries.mark_older(was.id, entry.id, now)
            first, last = _place(archive, conversation_id, entry)
            archive.context.replace_run(conversation_id, first, last, entry.removed, now)
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
