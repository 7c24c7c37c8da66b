"""Repairing: summaries that fallbacks left behind are found by their marks and written anew from their sources."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossless.errors import BadInput
from lossless.revising.markers import MEANING, marker_of
from lossless.revising.order import by_time, subtree_by_subtree
from lossless.revising.rewriting import RewritePlan, of_conversation, target_of
from lossless.store.symptoms import Symptoms

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lossless.revising.markers import Marker
    from lossless.store.archive import Archive

#: More summaries than this, or more to read than this share of a budget, want a person's word first.
MOST_TARGETS = 25
MOST_OF_BUDGET = 0.75


@dataclass(frozen=True, slots=True)
class Broken:
    """A summary that should be written anew, and by which mark it is known."""

    summary_id: str
    conversation_id: int
    marker: Marker

    @property
    def meaning(self) -> str:
        return MEANING[self.marker]


@dataclass(frozen=True, slots=True)
class Repair:
    """What a repair would do, and what speaks against doing it now."""

    plan: RewritePlan
    kinds: dict[str, int]
    #: Why it waits for a person's confirmation; empty when nothing speaks against it.
    blocked: tuple[str, ...]

    @property
    def text(self) -> str:
        """The plan for a person's eyes."""
        return "\n".join([self.plan.text, *(f"! {reason}" for reason in self.blocked)])


def broken(archive: Archive, conversation_id: int | None = None) -> list[Broken]:
    """Broken summaries of a conversation, or of all, shallow ones first."""
    found = []
    for suspect in Symptoms(archive.database).suspects(conversation_id):
        marker = marker_of(suspect.content, suspect.model)
        if marker is not None:
            found.append(Broken(suspect.id, suspect.conversation_id, marker))
    return found


def plan(archive: Archive, conversation_id: int, budget: int, *, summary_ids: Iterable[str] = ()) -> Repair:
    """Which broken summaries of a conversation would be written anew: subtree by subtree, as the context
    has them, from the bottom up.

    With `summary_ids` only those of them; one that is not broken is BadInput. What was made of them is written anew as
    well where it would no longer be smaller than its sources.
    """
    with archive.reading():
        marks = {one.summary_id: one.marker for one in broken(archive, conversation_id)}
        wanted = list(summary_ids) or list(marks)
        if sound := [id_ for id_ in wanted if id_ not in marks]:
            of_conversation(archive, sound[0], conversation_id)
            raise BadInput(
                f"summary {sound[0]!r} of conversation {conversation_id} is not broken; `rewrite` writes any anew"
            )
        place = {id_: n for n, id_ in enumerate(Symptoms(archive.database).context_order(conversation_id))}
        found = sorted(by_time(archive.summaries.many(wanted)), key=lambda one: place.get(one.id, len(place)))
        found = subtree_by_subtree(found)
        targets = tuple(target_of(archive, summary, marks[summary.id]) for summary in found)
        work = RewritePlan(conversation_id, targets, "repair", is_upward=True)
        blocked = tuple(_preflight(archive, work, budget))
    return Repair(work, dict(Counter(str(marks[target.id]) for target in targets)), blocked)


def _preflight(archive: Archive, work: RewritePlan, budget: int) -> Iterable[str]:
    if len(work.targets) > MOST_TARGETS:
        yield f"{len(work.targets)} summaries are more than {MOST_TARGETS}"
    if work.input_tokens > MOST_OF_BUDGET * budget:
        yield f"{work.input_tokens} tokens to read are more than {MOST_OF_BUDGET:.0%} of the budget of {budget}"
    debt = archive.debts.get(work.conversation_id)
    if debt and (debt["pending"] or debt["running"]):
        yield f"a sweep of conversation {work.conversation_id} is {'running' if debt['running'] else 'pending'}"
