"""What the owner of an archive does with it as a whole: examine, measure, prune, forget, run what is pending."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.compaction.describing import FILES_A_ROUND
from lossless.model.conversations import as_session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lossless.compaction.describing import Describing
    from lossless.compaction.run import CompactionReport
    from lossless.desk import EngineParts
    from lossless.doctor.examine import Examination
    from lossless.files.improve import Described
    from lossless.lifecycle.backup import Backup
    from lossless.lifecycle.forget import ForgetReport
    from lossless.lifecycle.forgetting import Tools as ForgetTools
    from lossless.lifecycle.forgetting import Wanted
    from lossless.lifecycle.prune import Choice, PrunePlan, PruneReport
    from lossless.lifecycle.size import SizeReport
    from lossless.logbook import Logbook
    from lossless.model.conversations import SessionRef
    from lossless.model.files import StoredFile


class Admin:
    """`engine.admin`: looks after an archive as a whole. Nothing is deleted unless somebody says so."""

    def __init__(self, parts: EngineParts, describing: Describing) -> None:
        self._parts, self._describing = parts, describing

    @property
    def log(self) -> Logbook:
        """Where this engine writes down what it decided and did; see `lossless.logbook`."""
        return self._parts.log

    def copy(self, label: str) -> Backup:
        """A backup beside the archive under a label, as it is made before something is changed; with its payloads."""
        return self._parts.copy(label)

    def examine(self, *, ask_models: bool = False) -> Examination:
        """Everything that can be wrong with the archive, each with what helps; reads only."""
        from lossless.doctor.examine import examine

        summariser = self._parts.loop.summariser if ask_models else None
        return examine(self._parts.archive, self._parts.clock(), vault=self._parts.vault, summariser=summariser)

    def size(self) -> SizeReport:
        """What takes the room, and what of it could go."""
        from lossless.lifecycle.size import survey

        return survey(self._parts.archive, self._parts.vault, self._parts.clock())

    def prune_plan(self, choice: Choice) -> PrunePlan:
        """Which conversations a choice would delete, and how much that is; changes nothing."""
        from lossless.lifecycle import prune

        return prune.plan(self._parts.archive, choice, self._parts.clock())

    def prune(
        self, work: PrunePlan, *, backup: bool = True, progress: Callable[[int], None] | None = None
    ) -> PruneReport:
        """Delete what a plan chose, for good, with its files; by default a backup is made first."""
        from lossless.lifecycle import prune

        now = self._parts.clock()
        if backup and work.chosen:
            self._parts.copy("prune")
        report = prune.apply(self._parts.archive, self._parts.vault, work, now, progress)
        self._parts.log.log("prune", conversations=report.conversations, messages=report.messages, files=report.files)
        return report

    def forget_plan(
        self,
        phrases: Sequence[str] = (),
        *,
        message_ids: Sequence[int] = (),
        sessions: Sequence[SessionRef] = (),
    ) -> ForgetReport:
        """What `forget` would change, in the archive and its backups; changes nothing."""
        from lossless.lifecycle import forget

        return forget.forget(self._forgetting(), self._wanted(phrases, message_ids, sessions), dry_run=True)

    def forget(
        self,
        phrases: Sequence[str] = (),
        *,
        message_ids: Sequence[int] = (),
        sessions: Sequence[SessionRef] = (),
        progress: Callable[[int], None] | None = None,
    ) -> ForgetReport:
        """Remove phrases, messages or sessions for good, from the archive, its files and its backups.

        A phrase leaves `[forgotten]` where it stood, a message keeps nothing but that. A tombstone without words keeps
        hosts from bringing it back. `.left` of the report names what could not be reached.
        """
        from lossless.lifecycle import forget

        report = forget.forget(self._forgetting(progress), self._wanted(phrases, message_ids, sessions))
        self._parts.log.log("forget", messages=len(report.archive.message_ids), backups=len(report.backups))
        return report

    def _wanted(self, phrases: Sequence[str], message_ids: Sequence[int], sessions: Sequence[SessionRef]) -> Wanted:
        from lossless.lifecycle.forget import wanted

        return wanted(self._parts.archive, phrases, message_ids, [as_session(one).name for one in sessions])

    def _forgetting(self, progress: Callable[[int], None] | None = None) -> ForgetTools:
        from lossless.lifecycle.forgetting import Tools

        settings, now = self._parts.settings, self._parts.clock()
        threshold = settings.large_file_threshold_tokens
        return Tools(self._parts.archive, self._parts.vault, self._parts.loop.summariser, threshold, now, progress)

    # --- pending work ---

    def pay_later(self, conversation_id: int) -> None:
        """What the background does for a conversation: its debt or what it will owe, then words about its files."""
        if self.pay(conversation_id) is None:
            self._parts.loop.prepare(self._parts.request(self._parts.archive.conversations.get(conversation_id), None))
        self._describing.run(conversation_id)

    def pay(
        self, conversation_id: int, *, may_ask_model: bool = True, seconds: float | None = None
    ) -> CompactionReport | None:
        asked = self._parts.loop.debt(conversation_id).token_budget
        situation = self._parts.request(self._parts.archive.conversations.get(conversation_id), asked or None)
        if may_ask_model and self._parts.loop.is_due(situation):
            self._parts.write_stale(conversation_id)
        report = self._parts.loop.drain(situation, may_ask_model=may_ask_model, seconds=seconds)
        return None if report is None else self._parts.logged("drain", conversation_id, report)

    def run_pending(
        self,
        *,
        may_ask_model: bool = True,
        progress: Callable[[int, CompactionReport | None], None] | None = None,
    ) -> list[tuple[int, CompactionReport | None]]:
        """Pay what is due in all conversations; what `lcm worker` does. `progress` hears of each one."""
        done = []
        for conversation_id in self._parts.archive.debts.pending(now=self._parts.clock()):
            report = self.pay(conversation_id, may_ask_model=may_ask_model)
            done.append((conversation_id, report))
            if progress:
                progress(conversation_id, report)
        if may_ask_model:
            self._describing.run()
        return done

    def prepare_summaries(self) -> int:
        """Write what the next sweeps will need in all active conversations, if the setting `prepareSummaries` is on.

        Returns how many summaries were written; what `lcm worker` does besides paying debts.
        """
        if not self._parts.settings.prepare_summaries:
            return 0
        ids = self._parts.archive.guards.active_histories()
        return sum(
            self._parts.loop.prepare(self._parts.request(self._parts.archive.conversations.get(id_), None))
            for id_ in ids
        )

    def describe_files(
        self,
        session: SessionRef | None = None,
        *,
        limit: int = FILES_A_ROUND,
        progress: Callable[[StoredFile], None] | None = None,
    ) -> Described:
        """Have the configured model describe stored prose, of a session or of all; without one nothing is asked."""
        return self._describing.run(None if session is None else self._parts.conversation(session).id, limit, progress)
