"""`engine.admin`: examine, measure, prune, forget, run pending compaction; and the status of a session."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless.errors import BadInput, ModelError
from lossless.maintenance.engine_parts import EngineGroup, EngineParts, LazyModule, forward
from lossless.model.conversations import as_session
from lossless.model.records import CompactionDebt
from lossless.store.archive import Archive
from lossless.store.maintenance.integrity import VerifyReads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from pathlib import Path

    from lossless.compaction import run as compaction_run
    from lossless.compaction import summariser as summarisers
    from lossless.compaction.run import CompactionReport
    from lossless.compaction.summariser import DescribeReport
    from lossless.files.document import StubPlan
    from lossless.files.vault import OrphanFile, Vault
    from lossless.maintenance import doctor, forget, prune, repair
    from lossless.maintenance.doctor import Examination
    from lossless.maintenance.forget import ForgetReport
    from lossless.maintenance.prune import PruneFilter, PrunePlan, PruneReport, SizeReport, VacuumReport
    from lossless.maintenance.repair import CleanPlan, CleanReport, RebuildPlan, ReindexReport
    from lossless.maintenance.surgery import tool_outputs
    from lossless.maintenance.surgery.tool_outputs import StubReport
    from lossless.model.budget import HistoryBudget
    from lossless.model.conversations import Conversation, SessionRef
    from lossless.model.messages import StoredFile
    from lossless.model.records import TranscriptDecision
    from lossless.settings.event_log import EventLog
    from lossless.store import search as store_search
    from lossless.store.bundles import other_programs
    from lossless.store.bundles.other_programs import ReclaimableTables
    from lossless.store.conversations import Checkpoint
    from lossless.store.maintenance.integrity import IndexDrift, PendingCompactionRow
    from lossless.store.state import IngestState
else:
    compaction_run = LazyModule("lossless.compaction.run")
    doctor = LazyModule("lossless.maintenance.doctor")
    forget = LazyModule("lossless.maintenance.forget")
    other_programs = LazyModule("lossless.store.bundles.other_programs")
    prune = LazyModule("lossless.maintenance.prune")
    repair = LazyModule("lossless.maintenance.repair")
    store_search = LazyModule("lossless.store.search")
    summarisers = LazyModule("lossless.compaction.summariser")
    tool_outputs = LazyModule("lossless.maintenance.surgery.tool_outputs")

_log = logging.getLogger("lossless.maintenance.admin")
DebtState: TypeAlias = Literal["running", "closed", "due", "waiting"]


class Admin(EngineGroup):
    """`engine.admin`: maintenance of a whole archive. Nothing is deleted without an explicit call."""

    copy = forward(lambda parts: parts, EngineParts.copy)
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

    def size(self) -> SizeReport:
        """The size of the archive's parts, and what could be freed."""
        return prune.measure_archive(self._archive, self._parts.vault, self._parts.clock())

    def prune_plan(self, choice: PruneFilter) -> PrunePlan:
        """Which conversations a filter would delete, and their size; changes nothing."""
        return prune.plan_prune(self._archive, choice, self._parts.clock())

    def prune(
        self,
        plan: PrunePlan,
        *,
        backup: bool = True,
        with_files: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> PruneReport:
        """Permanently delete what a plan chose, with its files (`with_files`); by default a backup is made first."""
        now = self._parts.clock()
        if backup and plan.chosen:
            self._parts.copy("prune", with_files=with_files)
        vault = self._parts.vault if with_files else None
        report = prune.apply_prune(self._archive, vault, plan, now, progress)
        self._parts.log.log("prune", conversations=report.conversations, messages=report.messages, files=report.files)
        return report

    def vacuum(self, *, always: bool = False) -> VacuumReport:
        """Vacuum the file, when that is worthwhile or requested."""
        return prune.vacuum_archive(self._archive, always=always)

    def forget_plan(
        self, phrases: Sequence[str] = (), *, message_ids: Sequence[int] = (), sessions: Sequence[SessionRef] = ()
    ) -> ForgetReport:
        """What `forget` would change, in the archive and its backups; changes nothing."""
        return self._forget(phrases, message_ids, sessions, dry_run=True)

    def forget(
        self,
        phrases: Sequence[str] = (),
        *,
        message_ids: Sequence[int] = (),
        sessions: Sequence[SessionRef] = (),
        progress: Callable[[int], None] | None = None,
    ) -> ForgetReport:
        """Permanently remove phrases, messages or sessions from the archive, its files and its backups.

        A phrase is replaced by `[forgotten]`, a message keeps nothing else. A tombstone without words prevents hosts
        from restoring it. `.left` of the report names what could not be removed.
        """
        report = self._forget(phrases, message_ids, sessions, progress)
        self._parts.log.log("forget", messages=len(report.archive.message_ids), backups=len(report.backups))
        return report

    def _forget(
        self,
        phrases: Sequence[str],
        message_ids: Sequence[int],
        sessions: Sequence[SessionRef],
        progress: Callable[[int], None] | None = None,
        *,
        dry_run: bool = False,
    ) -> ForgetReport:
        archive, parts, now = self._archive, self._parts, self._parts.clock()
        wanted = forget.forget_request(archive, phrases, message_ids, [as_session(one).name for one in sessions])
        threshold, summariser = parts.settings.large_file_threshold_tokens, parts.loop.summariser
        tools = forget.ForgetTools(archive, parts.vault, summariser, threshold, now, progress)
        return forget.forget_everywhere(tools, wanted, dry_run=dry_run)

    # --- repairs ---

    def reindex_plan(self) -> tuple[IndexDrift, tuple[str, ...]]:
        """Differences between the search index and the rows, and damaged full-text tables."""
        return repair.plan_reindex(self._archive), self._archive.checks.damaged_indexes()

    def reindex(self, *, anew: bool = False, progress: Callable[[int], None] | None = None) -> ReindexReport:
        """Rebuild the search index where it is wrong, or all of it (`anew`), from the rows."""
        return repair.apply_reindex(self._archive, progress, again=anew, vault=self._parts.vault)

    def rebuild_plan(self) -> RebuildPlan:
        """Wrong values that can be derived from messages and summaries."""
        return repair.plan_rebuild(self._archive)

    def rebuild(self) -> RebuildPlan:
        """Rebuild them after a backup; returns what was rebuilt."""
        return repair.apply_rebuild(self._archive, self._parts.clock(), self._parts.backups())

    def clean_plans(self, filter_id: str | None = None) -> list[CleanPlan]:
        """Which conversations a filter, or each filter, would delete."""
        ids = repair.CLEAN_FILTERS if filter_id is None else (filter_id,)
        return [repair.plan_clean(self._archive, id_, self._parts.clock()) for id_ in ids]

    def clean(self, plan: CleanPlan, *, vacuum: bool = False) -> CleanReport:
        """Delete what a filter selects, after a backup."""
        return repair.apply_clean(self._archive, plan, self._parts.backups(), vacuum=vacuum)

    def open_debts(self) -> list[PendingCompactionRow]:
        """Compactions that are pending or marked as running, those of closed conversations first."""
        return self._archive.checks.debts(self._parts.clock())

    def close_debt_plan(self, session: SessionRef | int) -> PendingCompactionRow:
        """The pending compaction of a closed conversation; BadInput when it will still run or there is none."""
        return repair.plan_close_debt(self._archive, self._parts.conversation_id(session), self._parts.clock())

    def close_debt(self, debt: PendingCompactionRow) -> Path | None:
        """Close a pending compaction without running it; returns the backup made before."""
        return repair.apply_close_debt(self._archive, debt, self._parts.clock(), self._parts.backups())

    def reclaimable(self) -> ReclaimableTables:
        """The search tables that only lossless-claw reads, and their bytes; see `prune.adopt_archive`."""
        return other_programs.find_reclaimable(self._archive.database)

    # --- files ---

    def orphan_files(self) -> list[OrphanFile]:
        """Files on disk that no row refers to, of this archive and of others in the same folder."""
        return prune.find_orphans(self._archive, self._vault)

    def delete_orphan_files(self, orphans: Sequence[OrphanFile]) -> list[OrphanFile]:
        """Delete those that still have no row; returns them."""
        return prune.remove_orphans(self._archive, self._vault, orphans)

    def stub_plan(
        self, minimum_bytes: int, session: SessionRef | int | None = None, limit: int | None = None
    ) -> StubPlan:
        """Which large tool results would get a file."""
        id_ = None if session is None else self._parts.conversation_id(session)
        return tool_outputs.plan_backfilled_stubs(
            self._archive, threshold_bytes=minimum_bytes, conversation_id=id_, limit=limit
        )

    def stub(self, plan: StubPlan, progress: Callable[[int], None] | None = None) -> StubReport:
        """Move them to files; idempotent."""
        now = self._parts.clock()
        return tool_outputs.apply_backfilled_stubs(self._archive, self._vault, plan, now, progress)

    def stub_revert_plan(self, session: SessionRef | int | None = None) -> dict[int, str]:
        """The messages, of a session or of all, whose text is also in a file, with the file's id."""
        return self._archive.files.stubs(None if session is None else self._parts.conversation_id(session))

    def stub_revert(self, marks: dict[int, str]) -> tuple[int, int]:
        """Remove the marks of messages, and rows of files without other references; returns how many of each."""
        return tool_outputs.revert_stubs(self._archive, marks)

    @property
    def _vault(self) -> Vault:
        if self._parts.vault is None:
            raise BadInput("an archive in memory keeps no files: name a folder for them with largeFilesDir")
        return self._parts.vault

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
        if archive.guards.is_leased(summarisers.lease_name(found.id), now):
            return debt, "running"
        if not found.active:
            return debt, "closed"
        return debt, "due" if compaction_run.is_debt_due(debt, now) else "waiting"

    def run_later(self, session: SessionRef | int) -> None:
        """Background work for a conversation: pending or upcoming compaction, then descriptions of its files."""
        found = self._parts.conversation(session)
        if self.run_pending_of(found) is None:
            self._parts.loop.prepare(self._parts.request(self._archive.conversations.get(found.id), None))
        self._parts.describing.run(found.id)
        self.embed_messages()

    def embed_messages(self, seconds: float = 60.0) -> int:
        """Make the vectors of messages that have none, for so long; returns how many. A failure is tried again."""
        try:
            return store_search.build_vectors(self._archive, seconds)
        except ModelError as error:
            _log.warning("embedder: %s", error)
            return 0

    def run_pending_of(
        self, session: SessionRef | int, *, may_ask_model: bool = True, seconds: float | None = None
    ) -> CompactionReport | None:
        """Run the pending compaction of a session; None when there is none or it is not due."""
        found = self._parts.conversation(session)
        request = self._parts.request(found, self._parts.loop.debt(found.id).token_budget or None)
        if may_ask_model and self._parts.loop.is_due(request):
            self._parts.write_stale(found.id)
        report = self._parts.loop.drain(request, may_ask_model=may_ask_model, seconds=seconds)
        return None if report is None else self._parts.logged("drain", found.id, report)

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
        """Write summaries in advance for all active conversations, if the setting `prepareSummaries` is on.

        Returns how many were written; `lcm worker` does this besides pending compactions.
        """
        if not self._parts.settings.prepare_summaries:
            return 0
        ids = self._archive.guards.active_histories()
        return sum(
            self._parts.loop.prepare(self._parts.request(self._archive.conversations.get(id_), None)) for id_ in ids
        )

    def describe_files(
        self,
        session: SessionRef | None = None,
        *,
        limit: int | None = None,
        progress: Callable[[StoredFile], None] | None = None,
    ) -> DescribeReport:
        """Have the configured model describe stored prose, of a session or of all; by default, one round."""
        id_ = None if session is None else self._parts.conversation_id(session)
        return self._parts.describing.run(id_, limit or summarisers.FILES_PER_ROUND, progress)


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """A session's state: what is stored, what its model sees, pending compaction, and refusals with reasons."""

    conversation: Conversation
    messages: int
    context_items: int
    context_tokens: int
    #: Seen, stored, replayed, skipped, ambiguous; last stored; blocked since when and why.
    ingest: IngestState
    debt: CompactionDebt
    last_compacted_at: datetime | None
    transcript: Checkpoint | None
    #: Transcripts that wait for a decision.
    held: tuple[TranscriptDecision, ...]
    refused: tuple[TranscriptDecision, ...] = ()
    #: Quarantined conversations that wait for a decision.
    quarantined: tuple[int, ...] = ()
    #: The conversation's share of the window, as of its last turn; None before there was one.
    history: HistoryBudget | None = None

    @property
    def is_healthy(self) -> bool:
        """Whether all input is stored, and no compaction has failed."""
        waits = self.held or self.quarantined
        return self.ingest.blocked_reason is None and not waits and self.debt.last_failure_summary is None


def session_status(archive: Archive, conversation: Conversation, debt: CompactionDebt) -> SessionStatus:
    kept = archive.guards.history(conversation.id)
    held = [epoch for epoch in archive.transcripts.held() if epoch.conversation_id == conversation.id]
    refused = [epoch for epoch in archive.transcripts.refused() if epoch.conversation_id == conversation.id]
    quarantined = archive.conversations.quarantined_of(conversation)
    return SessionStatus(
        conversation,
        archive.messages.last_seq(conversation.id),
        len(archive.context.items(conversation.id)),
        archive.context_tokens(conversation.id),
        archive.ingest.state(conversation.id),
        debt,
        archive.context.last_fold_at(conversation.id),
        archive.transcripts.checkpoint(conversation.id),
        tuple(held),
        tuple(refused),
        tuple(one.id for one in quarantined if one.archive_cause == "quarantined"),
        None if kept is None else kept.budget,
    )
