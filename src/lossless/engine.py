"""`Engine`: the single entry point to an archive, for hosts, commands, screens and servers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossless.errors import ArchiveError, BadInput, LosslessError, NotFound
from lossless.maintenance.browse import Browse, SessionStatus
from lossless.maintenance.engine_parts import (
    BackgroundWorker,
    EngineParts,
    HostSupport,
    check_arguments,
    check_methods,
    forward,
    model_name,
)
from lossless.maintenance.transcripts import HostTranscripts
from lossless.model.conversations import Conversation, Session, SessionRef, as_session
from lossless.model.js_json import is_encodable
from lossless.model.messages import MessageLike, ModelIdentity
from lossless.settings import Settings
from lossless.settings.load import load
from lossless.store.archive import Archive

if TYPE_CHECKING:
    import os

    from lossless.compaction.compactor import Compactor, TurnOutcome
    from lossless.compaction.plan import Pass
    from lossless.compaction.run import CompactionReport
    from lossless.compaction.summarise import WrittenSummary
    from lossless.compaction.summariser import Summariser
    from lossless.context.run import Assembled, AssembleRequest
    from lossless.files.vault import Vault
    from lossless.ingest.run import AppendReport
    from lossless.ingest.sessions import NewReport
    from lossless.ingest.transcripts.following import TranscriptReport
    from lossless.llm.completion import Complete, Prompt
    from lossless.maintenance.admin import Admin
    from lossless.maintenance.backup import Backup
    from lossless.maintenance.prompts import EvidenceMemory
    from lossless.maintenance.rotate import RotateReport, Rotation
    from lossless.maintenance.surgery.common import OperationReport
    from lossless.maintenance.surgery.group import Surgery
    from lossless.maintenance.verify import Verification
    from lossless.model.records import PromptRecord
    from lossless.recall.describe import Description
    from lossless.recall.evidence import RecallResult, RecentResult
    from lossless.recall.expand import Expansion
    from lossless.recall.results import SearchResult
    from lossless.recall.scope import GrepMode, Scope, SearchIn, SortOrder
    from lossless.recall.tools import Toolbox, ToolCallResult
    from lossless.transfer.group import Transfer

#: Time limit for pending compactions on close, with extractive summaries.
_CLOSING_SECONDS = 0.25


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class TurnReport:
    """What a turn stored, and the compaction that followed."""

    append: AppendReport
    outcome: TurnOutcome | None = None
    #: The result of reading the host's transcript, if one was given.
    transcript: TranscriptReport | None = None

    @property
    def compaction(self) -> CompactionReport | None:
        """The compaction that ran on this turn, if one did."""
        return None if self.outcome is None else self.outcome.report


@check_methods
class Engine:
    """Keeps conversations in an archive. Safe to share between threads; a returned call is durable."""

    def __init__(
        self,
        archive: Archive,
        settings: Settings,
        complete: Callable[[Prompt], object] | None = None,
        *,
        clock: Callable[[], datetime] = _now,
        background: bool = True,
        summariser: Summariser | None = None,
    ) -> None:
        self._parts = parts = EngineParts(archive, settings, complete, clock, summariser)
        self.archive, self.settings, self.clock = archive, settings, clock
        if not archive.read_only:
            parts.load()
        self.transcripts = HostTranscripts(parts)
        self.host = HostSupport(parts)
        self.browse = Browse(parts)
        self._background = BackgroundWorker(parts.run_later) if background and not archive.read_only else None

    @cached_property
    def vault(self) -> Vault | None:
        """Where the bytes of stored files are; None for an archive in memory."""
        return self._parts.vault

    @cached_property
    def loop(self) -> Compactor:
        """Decides when to compact, and compacts."""
        return self._parts.loop

    @cached_property
    def admin(self) -> Admin:
        """Maintenance of the whole archive: examine, measure, prune, forget, repair, run pending compactions."""
        from lossless.maintenance.admin import Admin

        return Admin(self._parts)

    @cached_property
    def surgery(self) -> Surgery:
        """Changes summaries: dissolve, rewrite, repair, transplant, merge, focus."""
        from lossless.maintenance.surgery.group import Surgery

        return Surgery(self._parts)

    @cached_property
    def rotation(self) -> Rotation:
        """Shortens hosts' transcripts that are completely stored."""
        from lossless.maintenance.rotate import Rotation

        return Rotation(self._parts, self.transcripts)

    # --- ingest ---

    def append(
        self, session: Session | str, messages: Iterable[MessageLike], *, key: str | None = None
    ) -> AppendReport:
        """Store messages that are new.

        A message is skipped when its entry id, event key or batch `key` is already stored.
        """
        from lossless.ingest.run import append

        return self._stored(session, messages, partial(append, key=key))

    def sync(
        self, session: Session | str, window: Iterable[MessageLike], *, key: str | None = None, whole: bool = False
    ) -> AppendReport:
        """Store what is new in the host's whole current list; idempotent.

        With `whole`, messages that are missing from the list leave the context.
        """
        from lossless.ingest.sync import sync

        return self._stored(session, window, partial(sync, key=key, timezone=self._parts.timezone, whole=whole))

    def _stored(
        self, session: Session | str, messages: Iterable[MessageLike], write: Callable[..., AppendReport]
    ) -> AppendReport:
        """What `write` stores of some messages; summaries of messages that changed are extracted again."""
        session, items, now = as_session(session), list(messages), self.clock()
        if (reason := self._parts.no_writes(session)) is not None:
            from lossless.ingest.events import Skip
            from lossless.ingest.run import AppendReport

            return AppendReport(None, skipped=tuple(Skip(n, reason) for n in range(len(items))))
        payloads = self._parts.payloads
        with self.archive.writing():
            report = write(self.archive, session, items, now=now, payloads=payloads)
            if report.changes_past and report.conversation_id is not None:
                self._parts.extract_stale(report.quarantine_id or report.conversation_id)
        return report

    bootstrap = forward(HostTranscripts, HostTranscripts.bootstrap)

    def after_turn(
        self,
        session: Session | str,
        *,
        new_messages: Iterable[MessageLike] | None = None,
        window: Iterable[MessageLike] | None = None,
        transcript: str | os.PathLike[str] | None = None,
        budget: int | None = None,
        observed_tokens: int | None = None,
        usage: Mapping[str, object] | None = None,
        model: str | None = None,
        context_window: int | None = None,
        overhead: int | None = None,
        reply: int | None = None,
        sent: int | None = None,
        key: str | None = None,
        heartbeat: bool = False,
        whole: bool = False,
    ) -> TurnReport:
        """Store a turn, then check whether the context exceeds its threshold.

        Pass `new_messages` (appended) or the whole `window` (synced), or the `transcript` that the host has written the
        turn to, or both: the transcript is read first, and its messages are not stored twice. One that cannot be read
        is reported and read again after the next turn. Below the budget no model is called here: compaction is deferred
        to the background. A `heartbeat` turn leaves the context when it had nothing to report. `whole` is as for
        `sync`; `overhead` and `reply` are as for `assemble`. `sent` is our estimate of the messages that the provider
        has counted, if they differ from those assembled last.
        """
        from lossless.compaction.compactor import parse_usage
        from lossless.ingest.run import AppendReport

        if (new_messages is None) == (window is None) and (new_messages is not None or transcript is None):
            raise BadInput("pass either new_messages or window, or a transcript")
        session = as_session(session)
        before = self.transcripts.newest(session) if heartbeat else None
        read = None if transcript is None else self.rotation.follow(session, transcript)
        if new_messages is not None:
            report = self.append(session, new_messages, key=key)
        elif window is not None:
            report = self.sync(session, window, key=key, whole=whole)
        else:
            report = AppendReport(None if read is None else read.conversation_id)
            report = report if read is None else replace(report, conversation=read.conversation)
        if report.conversation_id is None:
            return TurnReport(report, transcript=read)
        if before is not None:
            self.transcripts.hide_heartbeat(report.conversation_id, before)
        seen = parse_usage(usage, model)
        observed = observed_tokens if observed_tokens is not None else seen.prompt_tokens
        request = self._parts.request(
            report.conversation or session, budget, observed_tokens=observed, model=seen.model,
            window=context_window, overhead=overhead, reply=reply,
        )  # fmt: skip
        if usage or (observed and (sent or request.conversation.id in self._parts.sent)):
            self._parts.learn_usage(request, replace(seen, prompt_tokens=observed or None), sent)
        outcome = self.loop.after_turn(request)
        if outcome.report is not None:
            self._parts.logged("turn", request.conversation.id, outcome.report)
        self._work_later(request.conversation.id, has_work=outcome.owes or outcome.prepares)
        return TurnReport(report, outcome, read)

    def _work_later(self, conversation_id: int, *, has_work: bool) -> None:
        """Schedules background work: deferred compaction, summaries in advance, file descriptions."""
        describing = self._parts.describing
        has_work = has_work or self.archive.embedder is not None
        if self._background is not None and (
            has_work or (describing.is_wanted and describing.has_work(conversation_id))
        ):
            self._background.enqueue(conversation_id)

    # --- assemble ---

    def assemble(
        self,
        session: SessionRef,
        *,
        budget: int | None = None,
        prompt: str | None = None,
        format: str = "openai-chat",
        model: ModelIdentity | str | None = None,
        context_window: int | None = None,
        overhead: int | None = None,
        reply: int | None = None,
        allow_trailing_assistant: bool = False,
        recall: bool = True,
        fold: bool = False,
        record: bool = True,
    ) -> Assembled:
        """The messages for the next turn, within the budget, in a form that strict providers accept.

        A model name selects the rules that apply; with a model identity, other models' thinking is dropped. `overhead`
        tokens of the budget are sent in addition to the messages and `reply` tokens are reserved for the answer; the
        defaults are the last values, or 0. Without `recall` tools, no text suggests calling one. With `fold`, history
        that would be omitted without a summary is folded first, without a model. Evidence and receipt are recorded
        unless `record` is false.
        """
        from lossless.context import run as assembly

        request = self._parts.request(
            session, budget, model=model_name(model), window=context_window, overhead=overhead, reply=reply
        )
        conversation, policy = request.conversation, self.loop.policy(request)
        history = self.loop.history(request, policy)
        prompt_request = assembly.AssembleRequest(
            history.tokens,
            format,
            prompt,
            policy.fresh_tail_count,
            policy.within(history.tokens).fresh_tail_max_tokens,
            self.settings.prompt_aware_eviction,
            self.settings.stub_large_tool_payloads,
            timezone=self._parts.timezone,
            model=model if isinstance(model, ModelIdentity) else None,
            allow_trailing_assistant=allow_trailing_assistant,
            recall=recall,
            history=history,
            evidence_tokens=self.settings.evidence_tokens,
        )
        made, evidence = self._assembled(conversation, prompt_request)
        if fold and made.receipt.unstated and not self._parts.no_writes(session):
            report = self._parts.logged("assemble", conversation.id, self.loop.make_room(request))
            if report.compacted:
                made, evidence = self._assembled(conversation, prompt_request)
        self._parts.sent[conversation.id] = made.tokens
        if record and not self.archive.read_only and not self._parts.no_writes(session):
            # a failure to write does not fail the prompt
            with suppress(ArchiveError), self.archive.writing():
                if evidence is not None:
                    evidence.save(made.evidence)
                detail, size = assembly.receipt_detail(made.receipt), (made.tokens, made.receipt.capacity)
                self.archive.prompts.add_receipt(conversation.id, *size, detail, self.clock())
        return made

    def _assembled(
        self, conversation: Conversation, request: AssembleRequest
    ) -> tuple[Assembled, EvidenceMemory | None]:
        """A prompt, with evidence if requested."""
        from lossless.context.run import assemble

        evidence = None
        if self.settings.evidence:
            from lossless.maintenance.prompts import EvidenceMemory

            evidence = EvidenceMemory(self._parts, conversation, request.prompt)

        def search(term: str) -> list[tuple[str, str]]:
            """Messages of users and assistants about a term, oldest first."""
            found = self.archive.search.quotes(conversation.id, term, 32)
            return [(f"msg#{id_}, {role}, {at}", content) for id_, role, at, content in found]

        source = None if evidence is None else (evidence.known, evidence.choose)
        return assemble(self.archive, conversation.id, request, search, self.vault, source), evidence

    def receipts(self, session: SessionRef, *, limit: int = 100) -> list[PromptRecord]:
        """How the last prompts of a session were assembled, oldest first: sizes, ids and reasons, never text."""
        if limit < 1:
            raise BadInput(f"a limit must be a positive number, not {limit!r}")
        return self.archive.prompts.receipts(self._parts.conversation_id(session), limit)

    # --- search ---

    def grep(
        self,
        pattern: str,
        *,
        mode: GrepMode = "full_text",
        sort: SortOrder = "relevance",
        session: SessionRef | None = None,
        conversation_id: int | None = None,
        all_conversations: bool = False,
        scope: SearchIn = "both",
        since: datetime | str | None = None,
        before: datetime | str | None = None,
        limit: int = 50,
        file_ids: Iterable[str] = (),
        cursor: str | None = None,
    ) -> SearchResult:
        """Search one conversation, a session's family, or, without either, everything.

        Any text is a valid query; only a regular expression can be invalid (`BadPattern`). `since` is inclusive,
        `before` exclusive.
        """
        from lossless.recall.scope import GrepRequest
        from lossless.recall.search import SearchLimits, grep, parse_moment

        times = parse_moment("since", since), parse_moment("before", before)
        request = GrepRequest(pattern, mode, scope, tuple(file_ids), *times, limit, sort)
        where = self._scope(session, conversation_id, everything=all_conversations)
        limits = SearchLimits.of(self.settings, self.vault)
        return grep(self.archive, where, request, self._parts.here(), cursor=cursor, means=limits)

    def recall(
        self,
        question: str,
        *,
        session: SessionRef | None = None,
        conversation_id: int | None = None,
        all_conversations: bool = False,
        max_tokens: int | None = None,
    ) -> RecallResult:
        """Evidence for a question in plain words, without a model; `str()` of it is for agents."""
        from lossless.recall.evidence import recall

        limit = self.settings.recall_max_tokens if max_tokens is None else max_tokens
        where = self._scope(session, conversation_id, everything=all_conversations)
        return recall(self.archive, where, question, limit, self._parts.here())

    def recent(
        self,
        when: str = "since yesterday",
        *,
        session: SessionRef | None = None,
        conversation_id: int | None = None,
        all_conversations: bool = False,
        max_tokens: int | None = None,
    ) -> RecentResult:
        """The messages of the time that `when` names ("last week", "3 March"), by day and topic, without a model.

        Days are those of the setting `timezone`. `BadInput` when no time is named.
        """
        from lossless.recall.evidence import recent

        limit = self.settings.recall_max_tokens if max_tokens is None else max_tokens
        where = self._scope(session, conversation_id, everything=all_conversations)
        return recent(self.archive, where, when, limit, self._parts.here())

    def sql(
        self,
        query: str,
        params: Sequence[object] | Mapping[str, object] = (),
        *,
        limit: int = 1000,
        seconds: float = 5.0,
    ) -> list[dict[str, Any]]:
        """The rows of a read-only `SELECT` over the archive's tables, for inspection.

        Raises `BadInput` for a query with more rows, or that takes longer.
        """
        from lossless.store.views import run_owner_query

        return run_owner_query(self.archive.database, query, params, limit, seconds)

    def describe(
        self,
        id: str,
        *,
        session: SessionRef | None = None,
        conversation_id: int | None = None,
        token_cap: int | None = None,
        start_line: int | None = None,
        end_line: int | None = None,
        cursor: str | None = None,
    ) -> Description:
        """Open one thing by its id: a summary (`sum_…`), a message (`msg#…`), a stored file (`file_…`)."""
        from lossless.recall.describe import DescribeRequest, describe

        request = DescribeRequest(
            token_cap, self.settings.max_expand_tokens, start_line=start_line, end_line=end_line, cursor=cursor
        )
        where = self._scope(session, conversation_id, everything=False)
        return describe(self.archive, id, where, self._parts.here(), request, self.vault)

    def expand(
        self,
        ids: str | Iterable[str],
        *,
        session: SessionRef | None = None,
        conversation_id: int | None = None,
        max_depth: int = 1,
        token_cap: int | None = None,
        include_messages: bool = True,
        around: int | None = None,
        cursor: str | None = None,
    ) -> Expansion:
        """The messages under summaries, in order and within a budget; a cursor continues where it stopped."""
        from lossless.recall.expand import ExpandRequest, expand
        from lossless.recall.results import parse_references

        listed = [ids] if isinstance(ids, str) else list(ids)
        if wrong := [one for one in listed if not isinstance(one, str)]:
            raise BadInput(f"ids are texts such as sum_… or msg#12, not {wrong[0]!r}")
        named = parse_references(listed, kinds=("summary", "message"))
        cap = token_cap or self.settings.max_expand_tokens
        request = ExpandRequest(named, max_depth, cap, include_messages, around)
        where = self._scope(session, conversation_id, everything=False)
        return expand(self.archive, request, where, self._parts.here(), cursor)

    def answer(
        self,
        prompt: str,
        *,
        query: str | None = None,
        ids: Iterable[str] = (),
        session: Session | str | None = None,
        conversation_id: int | None = None,
        all_conversations: bool = False,
        max_tokens: int = 2_000,
        timeout_seconds: float | None = None,
    ) -> ToolCallResult:
        """One answer to a question across summaries, with citations; without a model, the evidence itself."""
        from lossless.recall.scope import Caller

        args: dict[str, object] = {
            "prompt": prompt,
            "query": query or ("" if ids else prompt),
            "summaryIds": list(ids),
            "maxTokens": max_tokens,
            "allConversations": all_conversations or (session is None and conversation_id is None),
        }
        if conversation_id is not None:
            args["conversationId"] = conversation_id
        if timeout_seconds is not None:
            args["timeoutMs"] = int(timeout_seconds * 1000)
        who = None if session is None else as_session(session)
        return self.tools.call("lcm_expand_query", args, Caller(who, in_turn=False, is_owner=True))

    def _scope(self, who: SessionRef | None, conversation_id: int | None, *, everything: bool) -> Scope:
        """The scope of a search; empty for a session without a conversation."""
        from lossless.recall.scope import Caller, Scope, resolve_scope

        if isinstance(who, Conversation):
            conversation_id, who = conversation_id or who.id, who.session
        everything = everything or (who is None and conversation_id is None)
        caller, now = Caller(None if who is None else as_session(who)), self.clock()
        try:
            return resolve_scope(
                self.archive, caller, now, conversation_id=conversation_id, all_conversations=everything
            )
        except BadInput as error:
            return Scope("family", (), str(error))

    @property
    def tools(self) -> Toolbox:
        """The tools for agents over this archive."""
        from lossless.recall.tools import Toolbox

        parts = self._parts
        readers: Sequence[tuple[str, Complete]] = ()
        if not self.archive.read_only:  # calls are recorded, with the same breaker and a separate spend window
            gate = parts.loop.summariser.gate(self.archive, 0, self.clock)
            gate = replace(gate, scope="answer", purpose="answer", conversation_id=None)
            readers = parts.loop.summariser.readers(gate)
        return Toolbox(parts.archive, parts.settings, parts.here, parts.vault, tuple(readers))

    @property
    def transfer(self) -> Transfer:
        """Imports and exports of whole archives, and imports of transcripts."""
        from lossless.transfer.group import Transfer

        return Transfer(self._parts)

    # --- compaction ---

    def compact(
        self,
        session: SessionRef,
        *,
        budget: int | None = None,
        force: bool = False,
        until: int | None = None,
        observed_tokens: int | None = None,
        model: str | None = None,
        context_window: int | None = None,
        overhead: int | None = None,
        instructions: str | None = None,
        seconds: float | None = None,
        progress: Callable[[Pass, WrittenSummary | None], None] | None = None,
    ) -> CompactionReport:
        """Fold older history now: when over the threshold, when forced, or until a number of tokens is left.

        `instructions` apply to this call only; after `seconds` no further summary is started.
        """
        from lossless.compaction.compactor import parse_usage
        from lossless.compaction.plan import CompactionReason
        from lossless.compaction.run import unchanged_report

        if (reason := self._parts.no_writes(session)) is not None:
            return unchanged_report(reason)
        if self._parts.find(session) is None:
            return unchanged_report(CompactionReason.NO_CONVERSATION, ok=False)
        request = self._parts.request(
            session, budget, observed_tokens=observed_tokens, model=model, window=context_window, overhead=overhead
        )
        if observed_tokens and request.conversation.id in self._parts.sent:
            self._parts.learn_usage(request, parse_usage({"prompt_tokens": observed_tokens}, model))
        if force or until is not None or self.loop.evaluate(request).should_compact:
            self._parts.write_stale(request.conversation.id)
        loop = replace(self.loop, summariser=self.loop.summariser.instructed(instructions))
        report = loop.compact(request, force=force, until=until, seconds=seconds, progress=progress)
        return self._parts.logged("compact", request.conversation.id, report)

    def maintain(
        self,
        session: SessionRef,
        *,
        budget: int | None = None,
        allow: bool | None = None,
        seconds: float | None = None,
        transcript: str | os.PathLike[str] | None = None,
    ) -> CompactionReport | None:
        """Run the session's pending compaction, if the host opted in (`allow`, else the setting
        `hostMaintainCompacts`).

        Naming the `transcript` means that no turn is in progress: it is then rotated if it is too large.
        """
        allowed = self.settings.host_maintain_compacts if allow is None else allow
        found = self._parts.find(session)
        if not allowed or self._parts.no_writes(session) or found is None:
            return None
        request = self._parts.request(session, budget or self.loop.debt(found.id).token_budget or None)
        if self.loop.is_due(request):
            self._parts.write_stale(found.id)
        report = self.loop.drain(request, seconds=seconds)
        if report is None:
            self.loop.prepare(request)
        self._parts.describing.run(found.id)
        if transcript is not None:
            self.rotation.between_turns(found, transcript)
        return None if report is None else self._parts.logged("maintain", found.id, report)

    def settle(self, seconds: float = 60.0) -> bool:
        """Wait for pending background work; False on timeout."""
        return self._background is None or self._background.wait(seconds)

    # --- sessions ---

    def new(self, session: SessionRef, *, retain_depth: int | None = None) -> NewReport:
        """Start over in the same conversation: the context keeps only summaries of at least `retain_depth`."""
        from lossless.ingest import sessions

        depth = self.settings.new_session_retain_depth if retain_depth is None else retain_depth
        return sessions.clear_context(self.archive, self._parts.conversation(session), depth, self.clock())

    def reset(self, session: SessionRef, *, cause: str = "manual-reset") -> Conversation:
        """Close the conversation with a cause and start a new one under its key; recall still finds the old one."""
        from lossless.ingest import sessions

        return sessions.reset_session(
            self.archive, session if isinstance(session, Conversation) else as_session(session), cause, self.clock()
        )

    def status(self, session: SessionRef) -> SessionStatus:
        """The state of a session: stored and seen messages, pending compaction, refusals and reasons."""
        from lossless.maintenance.browse import session_status

        conversation = self._parts.conversation(session)
        return session_status(self.archive, conversation, self.loop.debt(conversation.id))

    def undo(self, session: SessionRef) -> OperationReport:
        """Undo the last fold, surgery or focus of a conversation; repeated calls go further back."""
        return self.surgery.apply(self.surgery.plan_undo(session))

    def backup(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        rolling: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Backup:
        """Copy the archive while it is in use: to `path`, else next to it; the rolling copy replaces the last one."""
        from lossless.maintenance import backup

        if path is not None and rolling:
            raise BadInput("the rolling backup has a fixed path; pass a path or ask for the rolling one")
        if path is not None:
            return backup.make_backup(self.archive, Path(path), progress=progress, vault=self.vault)
        return self._parts.copy(backup.ROLLING if rolling else "backup", progress)

    def rotate(
        self,
        session: SessionRef,
        path: str | os.PathLike[str] | None = None,
        *,
        reconcile: Callable[[], str | None] | None = None,
        checkpoint: Callable[[], int | None] | None = None,
        backup: bool = True,
        dry_run: bool = False,
    ) -> RotateReport:
        """Rewrite a session's transcript to its tail, once all of it is stored; `.reason` says why not.

        For a host that reads its transcripts itself, `reconcile` imports this one first, and `checkpoint` imports it
        again afterwards.
        """
        return self.rotation.rotate(
            session, path, reconcile=reconcile, checkpoint=checkpoint, backup=backup, dry_run=dry_run
        )

    # --- pins ---

    def pin(self, session: SessionRef, what: str | int) -> int:
        """Pin a text or a message: it is never summarised and is in every prompt verbatim; returns the pin's id."""
        with self.archive.writing():
            conversation = self._parts.conversation(session)
            if isinstance(what, str):
                if not what.strip():
                    raise BadInput("there is nothing to pin in an empty text")
                if not is_encodable(what):
                    raise BadInput("the text to pin contains a lone surrogate, which is not valid text")
                return self.archive.prompts.pin(conversation.id, self.clock(), text=what)
            stored = self.archive.messages.get(what)
            if stored.conversation_id != conversation.id:
                raise NotFound("message of this session", what)
            return self.archive.prompts.pin(conversation.id, self.clock(), message_id=what)

    def unpin(self, session: SessionRef, pin_id: int) -> None:
        """Remove a pin."""
        with self.archive.writing():
            self.archive.prompts.unpin(self._parts.conversation_id(session), pin_id)

    # --- maintenance ---

    def verify(self, progress: Callable[[int], None] | None = None) -> Verification:
        """Check the archive; see `.ok` and `.problems`."""
        from lossless.maintenance.verify import verify_archive

        return verify_archive(self.archive, progress, self.vault)

    def close(self) -> None:
        """Close the archive; pending compactions get a quarter of a second, without a model; the rest stay stored."""
        until = time.monotonic() + _CLOSING_SECONDS
        waiting = [] if self._background is None else self._background.close(_CLOSING_SECONDS)
        for conversation_id in waiting:
            if (seconds := until - time.monotonic()) > 0:
                with suppress(LosslessError):
                    self._parts.run_pending_of(conversation_id, may_ask_model=False, seconds=seconds)
        self.archive.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@check_arguments
def open_engine(
    path: str | Path | None = None,
    settings: Settings | None = None,
    complete: Callable[[Prompt], object] | None = None,
    *,
    clock: Callable[[], datetime] = _now,
    background: bool = True,
    read_only: bool = False,
    busy_timeout_ms: int = 30_000,
    summariser: Summariser | None = None,
) -> Engine:
    """Open an archive; without a path, the one in the settings, else the default place.

    Missing settings are the defaults; with neither path nor settings, this machine's are loaded. `complete` is the
    host's model; without it a configured one is called, or summaries are extracted. With `read_only`, the archive must
    exist and its bytes do not change. Raises ArchiveLocked when another writer holds the archive for longer than
    `busy_timeout_ms`.
    """
    if settings is not None and not isinstance(settings, Settings):
        raise BadInput(f"settings must be lossless.Settings(…), not {type(settings).__name__}")
    place = path if path is not None or settings is None else settings.database_path
    if place is None:
        loaded = load().settings
        settings, place = settings or loaded, loaded.database_path or "lcm.db"
    archive, how = Archive.open(place, read_only=read_only, busy_timeout_ms=busy_timeout_ms), settings or Settings()
    return Engine(archive, how, complete, clock=clock, background=background, summariser=summariser)
