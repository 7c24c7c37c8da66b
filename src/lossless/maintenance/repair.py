"""Repairs of the doctor: of the index, derived rows, broken summaries, abandoned conversations, pending compactions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from lossless.compaction.run import OPERATOR_IGNORED
from lossless.errors import ArchiveCorrupt, BadInput, Stale
from lossless.files.vault import Vault, locate_payload
from lossless.maintenance.prune import not_in_use
from lossless.maintenance.surgery import rewriting
from lossless.maintenance.surgery.common import applying
from lossless.maintenance.surgery.rewriting import BrokenMarker, RewritePlan, find_marker
from lossless.store.files import payload_digest
from lossless.store.maintenance.deletion import ArchiveRemover, ConversationSize
from lossless.store.maintenance.surgery import SurgeryWrites
from lossless.store.messages import indexed_text

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.maintenance.engine_parts import EngineParts
    from lossless.model.conversations import SessionRef
    from lossless.store.archive import Archive
    from lossless.store.maintenance.integrity import IndexDrift, PendingCompactionRow

#: More summaries than this, or more input than this share of a budget, need confirmation.
MAX_TARGETS = 25
MAX_BUDGET_SHARE = 0.75


def find_broken(archive: Archive, conversation_id: int | None = None) -> list[tuple[int, str, BrokenMarker]]:
    """Broken summaries of a conversation, or of all, shallowest first: their conversations, ids and markers."""
    return [
        (owner, id_, marker)
        for id_, owner, content, model in archive.checks.suspects(conversation_id)
        if (marker := find_marker(content, model)) is not None
    ]


def plan_repair(
    parts: EngineParts, session: SessionRef | int, budget: int | None = None, *, summary_ids: Sequence[str] = ()
) -> tuple[RewritePlan, list[str]]:
    """Which broken summaries would be rewritten, and why that needs confirmation.

    Subtree by subtree, in context order, bottom-up. With `summary_ids` only those; one that is not broken is BadInput.
    Summaries made of them are rewritten as well when they would no longer be smaller than their sources.
    """
    archive, conversation_id = parts.archive, parts.conversation_id(session)
    budget = budget or parts.settings.default_token_budget
    with archive.reading():
        marks = {id_: marker for _, id_, marker in find_broken(archive, conversation_id)}
        wanted = list(summary_ids) or list(marks)
        if sound := [id_ for id_ in wanted if id_ not in marks]:
            rewriting.check_summary(archive, sound[0], conversation_id)
            what = f"summary {sound[0]!r} of conversation {conversation_id}"
            raise BadInput(f"{what} is not broken; `rewrite` can rewrite any")
        place = {id_: n for n, id_ in enumerate(archive.checks.context_order(conversation_id))}
        found = rewriting.sort_by_time(archive.summaries.many(wanted))
        found.sort(key=lambda one: place.get(one.id, len(place)))
        ordered = rewriting.subtree_by_subtree(found)
        targets = tuple(rewriting.rewrite_target(archive, one, marks[one.id]) for one in ordered)
        work = RewritePlan(conversation_id, targets, "repair", is_upward=True)
        debt = archive.guards.debt(conversation_id)
    doubts = []
    if len(targets) > MAX_TARGETS:
        doubts.append(f"{len(targets)} summaries are more than {MAX_TARGETS}")
    if (tokens := work.input_tokens) > MAX_BUDGET_SHARE * budget:
        doubts.append(f"{tokens} tokens to read are more than {MAX_BUDGET_SHARE:.0%} of the budget of {budget}")
    if debt and (debt.pending or debt.running):
        doubts.append(f"a compaction of conversation {conversation_id} is {'running' if debt.running else 'pending'}")
    return work, doubts


REINDEX_BATCH = 500


@dataclass(frozen=True, slots=True)
class ReindexReport:
    """What was rebuilt, and what could not be because it is unreadable."""

    messages: int
    summaries: int
    #: Index rows without a message that were removed.
    dropped: int
    unreadable: tuple[str, ...]


def plan_reindex(archive: Archive) -> IndexDrift:
    """Differences between the index and the rows; read-only."""
    with archive.reading():
        return archive.checks.index_drift()


def apply_reindex(
    archive: Archive, progress: Callable[[int], None] | None = None, *, again: bool = False, vault: Vault | None = None
) -> ReindexReport:
    """Correct the index, or rebuild all of it (`again`, or when it is damaged), in steps that the next run continues.

    lossless-claw's own search tables are completed, too; rows and payloads of other programs get their digests.
    """
    advance, batch = progress or (lambda _: None), REINDEX_BATCH
    unreadable: set[int] = set()

    def stepwise(step: Callable[[int], int]) -> int:
        """Repeat a step in separate transactions until nothing is left; returns how much it did."""
        done = 0
        while True:
            with archive.writing():
                some = step(batch)
            if not some:
                return done
            done += some
            advance(some)

    with archive.writing():
        if again or archive.index.has_stray_passages or archive.checks.damaged_indexes():
            archive.index.empty()
        archive.index.renew_upstream()
    dropped = stepwise(archive.index.drop_gone) + stepwise(archive.versions.drop_gone)
    stepwise(archive.versions.refill)
    messages = sum(_fill(archive, advance, unreadable, passages=passages) for passages in (False, True))
    stale = plan_reindex(archive).stale_summaries
    for start in range(0, len(stale), batch):
        with archive.writing():
            for summary in archive.summaries.many(stale[start : start + batch]):
                archive.index.put_summary(summary.id, summary.content)
        advance(len(stale[start : start + batch]))
    behind = plan_reindex(archive)
    if behind.unindexed_messages or behind.unindexed_summaries:  # at any position, not only at the end
        with archive.writing():
            archive.index.mark_caught_up(0)
        known = len(unreadable)
        archive.catch_up(progress=advance, unreadable=unreadable)
        messages += behind.unindexed_messages - (len(unreadable) - known)
    stepwise(archive.index.refill_upstream)
    with archive.writing():
        archive.row_digests.fill()
        for file in archive.checks.file_places():  # some ids do not contain a digest, such as those of other programs
            with suppress(OSError, ValueError):
                data = locate_payload(file.place, vault).read_bytes()
                if file.digest is None and not file.has_id_of(data):
                    archive.row_digests.put_payloads({file.id: payload_digest(data)})
    ids = tuple(f"msg#{id_}" for id_ in sorted(unreadable))
    return ReindexReport(messages, len(stale) + behind.unindexed_summaries, dropped, ids)


def _fill(archive: Archive, advance: Callable[[int], None], unreadable: set[int], *, passages: bool) -> int:
    filled = after = 0
    while True:
        with archive.writing():
            ids = archive.index.lost(after, passages=passages, limit=REINDEX_BATCH)
            if not ids:
                return filled
            found = archive.readable(ids)
            archive.index.refill([(one.id, indexed_text(one.message.content, one.message)) for one in found])
        unreadable.update(set(ids).difference(one.id for one in found))
        filled += len(found)
        after = ids[-1]
        advance(len(ids))


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    #: Conversations whose context is rebuilt.
    contexts: tuple[int, ...]
    #: Summaries whose sources are restored from the log.
    without_sources: tuple[str, ...]
    #: Summaries whose counts and times are recomputed.
    miscounted: tuple[str, ...]
    #: Conversations whose counters are recomputed.
    counters: tuple[int, ...]

    @property
    def is_none(self) -> bool:
        return not (self.contexts or self.without_sources or self.miscounted or self.counters)


def plan_rebuild(archive: Archive) -> RebuildPlan:
    """Wrong values that can be derived from messages and summaries."""
    with archive.reading():
        work = SurgeryWrites(archive)
        sources, miscounted = tuple(work.summaries_without_sources()), tuple(work.miscounted_summaries())
        return RebuildPlan(tuple(work.wrong_contexts()), sources, miscounted, tuple(work.wrong_counters()))


def apply_rebuild(parts: EngineParts) -> RebuildPlan:
    """Rebuild them after a backup; returns what was rebuilt."""
    if (found := plan_rebuild(parts.archive)).is_none:
        return found
    with applying(parts, "rebuild") as step:  # what one step repairs, the next ones build on
        work, now = SurgeryWrites(parts.archive), step.now
        for summary_id in (sources := work.summaries_without_sources()):
            work.restore_sources(summary_id)
        work.recount_derived(miscounted := work.miscounted_summaries())
        for conversation_id in (contexts := work.wrong_contexts()):
            work.rebuild_context(conversation_id, now)
        for conversation_id in (counters := work.wrong_counters()):
            work.count_conversation(conversation_id)
    return RebuildPlan(tuple(contexts), tuple(sources), tuple(miscounted), tuple(counters))


CLEAN_FILTERS = {
    "archived_subagents": "closed conversations of sub-agents",
    "cron_sessions": "runs of cron jobs, closed or inactive for a day",
    "null_subagent_context": "conversations without a key that begin like a sub-agent's, closed or inactive for a day",
}
ALL_FILTERS = "all"
#: An open conversation that was inactive for so long, and is not leased, will not continue.
SILENCE = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class CleanPlan:
    """Which conversations would be deleted; nothing is written yet."""

    filter_id: str
    conversations: tuple[ConversationSize, ...]
    #: The reference time for inactivity.
    at: datetime

    @property
    def bytes(self) -> int:
        return sum(held.text_bytes for held in self.conversations)

    @property
    def meaning(self) -> str:
        return CLEAN_FILTERS.get(self.filter_id, "all filters")

    @property
    def text(self) -> str:
        head = f"{self.filter_id}: {len(self.conversations)} conversations ({self.meaning})"
        rows = [f"- {held.id} {held.name}: {held.messages} messages" for held in self.conversations]
        return "\n".join([head, *rows])


@dataclass(frozen=True, slots=True)
class CleanReport:
    """What was deleted, where its copy is, and why the file was not vacuumed, if that was requested."""

    conversations: int
    messages: int
    backup: Path | None
    vacuumed: bool = False
    refusal: str | None = None


def plan_cleans(parts: EngineParts, filter_id: str | None = None) -> list[CleanPlan]:
    """Which conversations a filter, or each filter, would delete."""
    ids = CLEAN_FILTERS if filter_id is None else (filter_id,)
    return [plan_clean(parts.archive, id_, parts.clock()) for id_ in ids]


def plan_clean(archive: Archive, filter_id: str, now: datetime) -> CleanPlan:
    """What a filter, or all of them, selects now; conversations whose rows others need stay."""
    if filter_id not in (*CLEAN_FILTERS, ALL_FILTERS):
        raise BadInput(f"no filter {filter_id!r}; there are {', '.join(CLEAN_FILTERS)} and {ALL_FILTERS}")
    with archive.reading():
        ids = deletable(archive, filter_id, now)
        held = ArchiveRemover(archive).held() if ids else []
        return CleanPlan(filter_id, tuple(one for one in held if one.id in ids), now)


def deletable(archive: Archive, filter_id: str, now: datetime) -> set[int]:
    """The conversations that a filter, or any, selects, without those whose rows another remaining one needs."""
    names = [name for name in CLEAN_FILTERS if filter_id in (name, ALL_FILTERS)]
    ids = {id_ for name in names for id_ in archive.checks.matching(name, now, SILENCE)}
    return not_in_use(ids, ArchiveRemover(archive).borrowed()) if ids else ids


def apply_clean(parts: EngineParts, plan: CleanPlan, *, vacuum: bool = False) -> CleanReport:
    """Delete what a filter selects, after a backup; no broken reference may be left. Files stay for `lcm files gc`."""
    archive, copy = parts.archive, None
    if plan.conversations:
        with applying(parts, "doctor-clean") as step:
            copy = step.backup
            step.check(plan, plan_clean(archive, plan.filter_id, plan.at))
            ArchiveRemover(archive).delete([held.id for held in plan.conversations], plan.at)
            if hanging := archive.checks.broken_references():
                raise ArchiveCorrupt(f"deleting would leave rows of {hanging[0][0]!r} without their {hanging[0][1]!r}")
    refusal = ArchiveRemover(archive).give_back() if vacuum else None
    messages = sum(held.messages for held in plan.conversations)
    return CleanReport(len(plan.conversations), messages, copy, vacuum and refusal is None, refusal)


def describe_close(debt: PendingCompactionRow) -> str:
    """What closing a pending compaction by the user's decision does."""
    since = f" since {debt.requested_at:%Y-%m-%d %H:%M} UTC" if debt.requested_at else ""
    what = f"the pending compaction{since} ({debt.reason})"
    return f"conversation {debt.conversation_id}: {what} is closed without running"


def is_stuck(debt: PendingCompactionRow) -> bool:
    """Whether it will not run by itself: its conversation is closed, or its worker died."""
    return (debt.pending and not debt.active) or (debt.running and not debt.leased)


def plan_close_debt(parts: EngineParts, session: SessionRef | int) -> PendingCompactionRow:
    """The pending compaction of a closed conversation; BadInput when it will still run or there is none."""
    id_ = parts.conversation_id(session)
    parts.archive.conversations.get(id_)
    debts = parts.archive.checks.debts(parts.clock())
    found = next((debt for debt in debts if debt.conversation_id == id_), None)
    if found is None or not found.pending:
        raise BadInput(f"conversation {id_} has no pending compaction")
    if found.active:
        raise BadInput(f"conversation {id_} is active: `lcm worker` runs its compaction")
    return found


def apply_close_debt(parts: EngineParts, debt: PendingCompactionRow) -> Path | None:
    """Close a pending compaction without running it; returns the backup made before."""
    with applying(parts, "maintenance") as step:
        if not parts.archive.checks.close_debt(debt.conversation_id, debt.revision, OPERATOR_IGNORED, step.now):
            what = f"the pending compaction of conversation {debt.conversation_id}"
            raise Stale(f"{what} changed since it was listed; list again")
        return step.backup
