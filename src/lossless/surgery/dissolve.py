"""Dissolving: what a summary was made of goes back into the context, at its place."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.errors import BadInput
from lossless.model.context import token_sum
from lossless.store.context import Change, item_id
from lossless.store.operations import Operations
from lossless.surgery.outcome import Operated, Shown, backed_up, same, shown

if TYPE_CHECKING:
    from datetime import datetime

    from lossless.store.archive import Archive
    from lossless.surgery.outcome import Backup


@dataclass(frozen=True, slots=True)
class DissolvePlan:
    """What would come back, and what would move; nothing is written yet."""

    conversation_id: int
    summary: Shown
    ordinal: int
    items: tuple[Shown, ...]
    tokens_before: int
    tokens_after: int
    #: Items of the context from this ordinal on move up by `shift`.
    shift_from: int
    shift: int
    #: Whether the summary itself is deleted afterwards.
    purge: bool
    #: Who else needs the summary: ids of summaries made of it, `brief`.
    used_by: tuple[str, ...] = ()
    #: How many of its sources do not come back, as they are hidden.
    hidden: int = 0

    @property
    def essence(self) -> tuple[object, ...]:
        """What was decided; messages that were only appended since do not matter."""
        return self.summary, self.ordinal, self.items, self.purge, self.used_by, self.hidden

    @property
    def text(self) -> str:
        """The plan for a person's eyes."""
        moved = f"items from {self.shift_from} on move up by {self.shift}" if self.shift else "no item moves"
        return "\n".join(
            [
                f"- [{self.ordinal}] {self.summary}",
                *(f"+ [{self.ordinal + n}] {item}" for n, item in enumerate(self.items)),
                *([f"{self.hidden} of its sources are hidden and stay so"] if self.hidden else []),
                f"context: {self.tokens_before} → {self.tokens_after} tokens; {moved}",
                f"the summary is {'deleted' if self.purge else 'kept in the archive'}",
            ]
        )


def plan(archive: Archive, summary_id: str, *, purge: bool = False) -> DissolvePlan:
    """What dissolving a summary that stands in its context would do; what is hidden stays hidden.

    Raises BadInput when it does not stand there, when all that it was made of is hidden, or when it is to be
    deleted and something else needs it.
    """
    with archive.reading():
        summary = archive.summaries.get(summary_id)
        context = archive.context.items(summary.conversation_id)
        at = next((n for n, item in enumerate(context) if item_id(item) == summary_id), None)
        if at is None:
            above = _standing(archive, summary_id, {item_id(item) for item in context})
            first = f"; it is below {above!r}: dissolve that one first" if above else ""
            raise BadInput(
                f"summary {summary_id!r} is not in the context; only what stands there can be dissolved{first}"
            )
        sources = _sources(archive, summary_id, summary.source_ids)
        ids = Operations(archive).visible(summary.conversation_id, sources)
        if not ids:
            raise BadInput(f"summary {summary_id!r}: all that it was made of is hidden; there is nothing to put back")
        there = {item_id(item) for item in context}
        if twice := [id_ for id_ in ids if id_ in there]:
            raise BadInput(f"summary {summary_id!r}: {twice[0]!r} stands in the context already")
        users = tuple(user for user in Operations(archive).uses(summary_id) if user != "context")
        items, own = shown(archive, ids), shown(archive, [summary_id])[0]
    if purge and users:
        raise BadInput(f"summary {summary_id!r} cannot be deleted: it is needed by {', '.join(users)}")
    ordinal = context[at].ordinal
    following = context[at + 1].ordinal if at + 1 < len(context) else None
    shift = 0 if following is None else max(0, ordinal + len(ids) - following)
    before = token_sum(context)
    after = before - context[at].tokens + sum(item.tokens for item in items)
    return DissolvePlan(
        summary.conversation_id, own, ordinal, items, before, after, following or ordinal, shift, purge, users,
        len(sources) - len(ids),
    )  # fmt: skip


def apply(archive: Archive, work: DissolvePlan, now: datetime, backup: Backup, *, actor: str = "dissolve") -> Operated:
    """Carry a plan out, all or nothing; raises `Stale` when it is no longer what would be planned."""
    copy = backed_up(backup, "dissolve")
    summary_id = str(work.summary.id)
    with archive.writing():
        planned, work = work, plan(archive, summary_id, purge=work.purge)
        same(planned.essence, work.essence)
        operations = Operations(archive)
        ids = tuple(item.id for item in work.items)
        operations.exchange(work.conversation_id, work.ordinal, work.ordinal, ids, now)
        archive.summaries.mark_pending_stale(work.conversation_id, work.ordinal, 2**62)
        former = [operations.purge(summary_id)] if work.purge else []
        change = Change(
            "dissolve", actor, None, (summary_id,), ids, work.ordinal, work.tokens_before, work.tokens_after
        )
        log_id = operations.log(work.conversation_id, change, now, former)
    return Operated(
        "dissolve", work.conversation_id, log_id, work.tokens_before, work.tokens_after, (summary_id,), copy
    )


def _standing(archive: Archive, summary_id: str, there: set[int | str]) -> str | None:
    """A summary of the context that was made of this one, by whatever steps; None when there is none."""
    seen, waiting = {summary_id}, deque([summary_id])
    while waiting:
        for user in archive.summaries.used_in(waiting.popleft()):
            if user in there:
                return user
            if user not in seen:
                seen.add(user)
                waiting.append(user)
    return None


def _sources(archive: Archive, summary_id: str, source_ids: tuple[str, ...]) -> list[int | str]:
    """What a summary was made of."""
    ids: list[int | str] = [*(source_ids or archive.summaries.message_ids(summary_id))]
    if not ids:
        raise BadInput(f"summary {summary_id!r} has no sources; there is nothing to put back")
    return ids
