"""Restores the sources of summaries: of one summary, or the messages of all summaries in a context."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lossless.errors import BadInput
from lossless.maintenance.surgery.common import OperationReport, PreviewItem, applying, preview_items
from lossless.model.context import MessageItem, SummaryItem, token_sum
from lossless.model.records import ContextChange
from lossless.store.context import item_id
from lossless.store.maintenance.surgery import SurgeryWrites

if TYPE_CHECKING:
    from datetime import datetime

    from lossless.maintenance.surgery.common import BackupMaker
    from lossless.model.context import ContextItem
    from lossless.store.archive import Archive


@dataclass(frozen=True, slots=True)
class DissolvePlan:
    """What would be restored, and what would move; nothing is written yet."""

    conversation_id: int
    summary: PreviewItem
    ordinal: int
    items: tuple[PreviewItem, ...]
    tokens_before: int
    tokens_after: int
    #: Context items from this ordinal on move up by `shift`.
    shift_from: int
    shift: int
    #: Whether the summary itself is deleted afterwards.
    purge: bool
    #: What else uses the summary: ids of summaries made of it, `brief`.
    used_by: tuple[str, ...] = ()
    #: How many of its sources are not restored because they are hidden.
    hidden: int = 0

    @property
    def essence(self) -> tuple[object, ...]:
        """The decision, regardless of messages appended since."""
        return self.summary, self.ordinal, self.items, self.purge, self.used_by, self.hidden

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
            raise BadInput(
                f"summary {summary_id!r} is not in the context; only summaries in the context can be dissolved{first}"
            )
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
    return DissolvePlan(
        summary.conversation_id, own, ordinal, items, before, after, following or ordinal, shift, purge, users,
        len(sources) - len(ids),
    )  # fmt: skip


def apply_dissolve(archive: Archive, work: DissolvePlan, now: datetime, backup: BackupMaker) -> OperationReport:
    """Carry a plan out in one transaction; raises `Stale` when it is no longer current."""
    summary_id = str(work.summary.id)
    with applying(archive, now, backup, "dissolve") as step:
        planned, work = work, plan_dissolve(archive, summary_id, purge=work.purge)
        step.check(planned.essence, work.essence)
        operations = SurgeryWrites(archive)
        ids = tuple(item.id for item in work.items)
        operations.replace_run(work.conversation_id, work.ordinal, work.ordinal, ids, now)
        archive.summaries.mark_pending_stale(work.conversation_id, work.ordinal, 2**62)
        former = [operations.purge(summary_id)] if work.purge else []
        change = ContextChange(
            "dissolve", "dissolve", None, (summary_id,), ids, work.ordinal, work.tokens_before, work.tokens_after
        )
        return step.log(work.conversation_id, change, (summary_id,), former)


@dataclass(frozen=True, slots=True)
class UnfoldPlan:
    """What would be restored; nothing is written yet."""

    conversation_id: int
    #: The ordinals of the first and the last summary to be replaced.
    first: int
    last: int
    #: The current items between these, and the new ones: messages, and summaries whose messages are unknown or hidden.
    removed: tuple[int | str, ...]
    added: tuple[int | str, ...]
    #: The summaries to be removed, including nested ones, shallowest first.
    summary_ids: tuple[str, ...]
    tokens_before: int
    #: The whole context afterwards.
    context: tuple[ContextItem, ...] = field(repr=False, default=())
    #: How many messages are not restored because they are hidden.
    hidden: int = 0

    @property
    def tokens_after(self) -> int:
        return token_sum(self.context)

    @property
    def essence(self) -> tuple[object, ...]:
        """The decision, regardless of messages appended since."""
        return self.removed, self.added, self.summary_ids

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
        known = {
            one.id: one for one in archive.messages.many([id_ for ids in back.values() for id_ in ids], exact=False)
        }
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


def apply_unfold(archive: Archive, work: UnfoldPlan, now: datetime, backup: BackupMaker) -> OperationReport:
    """Carry a plan out, or raise `Stale`; unused summaries are deleted, and undo restores them."""
    id_ = work.conversation_id
    with applying(archive, now, backup, "recompact") as step:
        again = plan_unfold(archive, id_)
        step.check(work.essence, None if again is None else again.essence)
        assert again is not None
        operations = SurgeryWrites(archive)
        operations.replace_run(id_, again.first, again.last, again.added, now)
        archive.summaries.mark_pending_stale(id_, again.first, 2**62)
        # parents first; those that a brief or another summary uses stay
        former = [operations.purge(one) for one in reversed(again.summary_ids) if not operations.uses(one)]
        tokens = again.tokens_before, again.tokens_after
        change = ContextChange("dissolve", "recompact", None, again.removed, again.added, again.first, *tokens)
        return step.log(id_, change, tuple(was.id for was in former), former)


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
