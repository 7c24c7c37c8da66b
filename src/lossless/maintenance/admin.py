"""`engine.admin`: examine, measure, prune, forget, run pending compaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless.compaction.run import CompactionReport, is_debt_due
from lossless.compaction.summariser import FILES_PER_ROUND, DescribeReport, lease_name
from lossless.maintenance import doctor, repair
from lossless.maintenance import forget as forgetting
from lossless.maintenance import prune as pruning
from lossless.maintenance.engine_parts import EngineGroup, EngineParts, forward, of_parts
from lossless.maintenance.surgery import tool_outputs
from lossless.model.records import CompactionDebt
from lossless.store.archive import Archive
from lossless.store.bundles import other_programs
from lossless.store.maintenance.integrity import IndexDrift, PendingCompactionRow, VerifyReads

if TYPE_CHECKING:
    from lossless.maintenance.doctor import Examination
    from lossless.maintenance.repair import ReindexReport
    from lossless.model.conversations import SessionRef
    from lossless.model.messages import StoredFile
    from lossless.settings.event_log import EventLog

DebtState: TypeAlias = Literal["running", "closed", "due", "waiting"]


class Admin(EngineGroup):
    """`engine.admin`: maintenance of a whole archive. Nothing is deleted without an explicit call."""

    copy = of_parts(EngineParts.copy)
    transaction = forward(lambda parts: parts.archive, Archive.writing)
    damage = forward(lambda parts: parts.archive.checks, VerifyReads.damage)

    def pending(self, *, archived: bool = False) -> list[int]:
        """Conversations with a pending or unfinished compaction, longest waiting first; with `archived` closed ones."""
        return self._archive.guards.pending_debts(archived=archived, now=self._parts.clock())

    def catch_up(self, progress: Callable[[int], None] | None = None) -> int:
        """Index rows that another program wrote; returns how many."""
        return self._archive.catch_up(progress=progress)

    @property
    def log(self) -> EventLog:
        """The event log of this engine; see `lossless.settings.event_log`."""
        return self._parts.log

    def examine(self, *, ask_models: bool = False) -> Examination:
        """Everything that can be wrong with the archive, each with a remedy; read-only."""
        summariser = self._parts.loop.summariser if ask_models else None
        return doctor.examine(self._archive, self._parts.clock(), vault=self._parts.vault, summariser=summariser)

    size = of_parts(pruning.measure_archive)
    prune_plan = of_parts(pruning.plan_prune)
    prune = of_parts(pruning.apply_prune)
    vacuum = forward(lambda parts: parts.archive, pruning.vacuum_archive)
    forget_plan = of_parts(forgetting.plan_forget)
    forget = of_parts(forgetting.forget)

    # --- repairs ---

    def reindex_plan(self) -> tuple[IndexDrift, tuple[str, ...]]:
        """Differences between the search index and the rows, and damaged full-text tables."""
        return repair.plan_reindex(self._archive), self._archive.checks.damaged_indexes()

    def reindex(self, *, anew: bool = False, progress: Callable[[int], None] | None = None) -> ReindexReport:
        """Rebuild the search index where it is wrong, or all of it (`anew`), from the rows."""
        return repair.apply_reindex(self._archive, progress, again=anew, vault=self._parts.vault)

    rebuild_plan = forward(lambda parts: parts.archive, repair.plan_rebuild)
    rebuild = of_parts(repair.apply_rebuild)
    clean_plans = of_parts(repair.plan_cleans)
    clean = of_parts(repair.apply_clean)

    def open_debts(self) -> list[PendingCompactionRow]:
        """Compactions that are pending or marked as running, those of closed conversations first."""
        return self._archive.checks.debts(self._parts.clock())

    close_debt_plan = of_parts(repair.plan_close_debt)
    close_debt = of_parts(repair.apply_close_debt)
    reclaimable = forward(lambda parts: parts.archive.database, other_programs.find_reclaimable)

    # --- files ---

    orphan_files = of_parts(pruning.find_orphans)
    delete_orphan_files = of_parts(pruning.remove_orphans)
    stub_plan = of_parts(tool_outputs.plan_stubs)
    stub = of_parts(tool_outputs.apply_stubs)
    stub_revert_plan = of_parts(tool_outputs.plan_revert)
    stub_revert = forward(lambda parts: parts.archive, tool_outputs.revert_stubs)

    # --- pending work ---

    def set_title(self, session: SessionRef | int, title: str) -> None:
        """Set the title of a conversation."""
        with self._archive.writing():
            self._archive.conversations.give_title(self._parts.conversation_id(session), title)

    @property
    def is_behind(self) -> bool:
        """Whether another program wrote rows, or the whole file, so that opening for writing would update it."""
        archive = self._archive
        return any(archive.index.unindexed(1)) or archive.checks.schema() is None

    def debt(self, session: SessionRef | int) -> tuple[CompactionDebt, DebtState]:
        """The recorded compaction: `running` while leased, `closed` when it never will run, else `due` or `waiting`."""
        archive, now, found = self._archive, self._parts.clock(), self._parts.conversation(session)
        debt = archive.guards.debt(found.id) or CompactionDebt(found.id)
        if archive.guards.is_leased(lease_name(found.id), now):
            return debt, "running"
        if not found.active:
            return debt, "closed"
        return debt, "due" if is_debt_due(debt, now) else "waiting"

    run_later = of_parts(EngineParts.run_later)
    embed_messages = of_parts(EngineParts.embed_messages)
    run_pending_of = of_parts(EngineParts.run_pending_of)

    def run_pending(
        self, *, may_ask_model: bool = True, progress: Callable[[int, CompactionReport | None], None] | None = None
    ) -> list[tuple[int, CompactionReport | None]]:
        """Run all due compactions, as `lcm worker` does. `progress` is called for each one."""
        done = []
        for conversation_id in self.pending():
            report = self.run_pending_of(conversation_id, may_ask_model=may_ask_model)
            done.append((conversation_id, report))
            if progress:
                progress(conversation_id, report)
        if may_ask_model:
            self._parts.describing.run()
            self.embed_messages()
        return done

    def prepare_summaries(self) -> int:
        """Write summaries in advance for active conversations, if `prepareSummaries` is on; returns how many."""
        if not self._parts.settings.prepare_summaries:
            return 0
        ids = self._archive.guards.active_histories()
        requests = (self._parts.request(self._archive.conversations.get(id_), None) for id_ in ids)
        return sum(map(self._parts.loop.prepare, requests))

    def describe_files(
        self,
        session: SessionRef | None = None,
        *,
        limit: int | None = None,
        progress: Callable[[StoredFile], None] | None = None,
    ) -> DescribeReport:
        """Have the configured model describe stored prose, of a session or of all; by default, one round."""
        id_ = None if session is None else self._parts.conversation_id(session)
        return self._parts.describing.run(id_, limit or FILES_PER_ROUND, progress)
