"""The front desk: one object through which hosts and commands use an archive."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lossless.assembly import run as assembly
from lossless.background import Background
from lossless.compaction.describing import FILES_A_ROUND, Describing
from lossless.compaction.observed import observation
from lossless.compaction.run import unchanged
from lossless.compaction.trigger import Reason
from lossless.desk import Desk, name_of
from lossless.doctor.operating import Operating
from lossless.errors import BadInput, LosslessError, NotFound
from lossless.ingest import run as ingest
from lossless.ingest.events import Skip, is_encodable
from lossless.ingest.run import AppendReport
from lossless.lifecycle.transcribing import Transcribing
from lossless.lifecycle.upkeep import Upkeep
from lossless.model.messages import ModelIdentity
from lossless.recall.asking import Asking
from lossless.recall.delegate import Model
from lossless.settings import Settings
from lossless.settings.load import load
from lossless.store.archive import Archive
from lossless.verify import Verification
from lossless.verify import verify as verify_archive

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from types import TracebackType

    from lossless.assembly.run import Assembled
    from lossless.compaction.escalate import Written
    from lossless.compaction.loop import Paid
    from lossless.compaction.plan import Pass
    from lossless.compaction.run import CompactionReport
    from lossless.compaction.summariser import Summariser
    from lossless.files.improve import Described
    from lossless.lifecycle.reports import TranscriptReport
    from lossless.llm.base import Prompt
    from lossless.model.conversations import Conversation, Session
    from lossless.model.files import StoredFile
    from lossless.model.messages import Incoming, JsonObject, Message

#: What closing an engine may spend on debts, extractively.
_CLOSING_SECONDS = 0.25


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class TurnReport:
    """What a turn stored, and what was done about the size of its context."""

    append: AppendReport
    paid: Paid | None = None
    #: What was read of the host's transcript, if one was named.
    transcript: TranscriptReport | None = None

    @property
    def compaction(self) -> CompactionReport | None:
        """The compaction that ran on this turn, if one did."""
        return None if self.paid is None else self.paid.report


class Engine(Operating, Upkeep, Transcribing, Asking, Desk):
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
        super().__init__(archive, settings, complete, clock, summariser)
        self._describing = Describing(archive, self.vault, self.loop.summariser, clock)
        self._background = Background(self._pay_later) if background and not archive.read_only else None

    # --- what comes in ---

    def append(
        self,
        session: Session,
        messages: Iterable[Message | Incoming | JsonObject],
        *,
        key: str | None = None,
    ) -> AppendReport:
        """Store messages that are new.

        What carries an entry id, an event key or a batch `key` that is stored already is not stored again.
        """
        items = list(messages)
        if (reason := self._no_writes(session)) is not None:
            return _excluded(reason, len(items))
        now, payloads = self._clock(), self._payloads
        with self.archive.writing():
            return self._settled(ingest.append(self.archive, session, items, key=key, now=now, payloads=payloads))

    def sync(
        self,
        session: Session,
        window: Iterable[Message | Incoming | JsonObject],
        *,
        key: str | None = None,
        whole: bool = False,
    ) -> AppendReport:
        """Store what the host's whole current list adds; showing the same list again changes nothing.

        A list that is `whole` shows all that the model shall know of: what it leaves out leaves the context.
        """
        items, now = list(window), self._clock()
        if (reason := self._no_writes(session)) is not None:
            return _excluded(reason, len(items))
        zone, payloads = self._timezone, self._payloads
        with self.archive.writing():
            report = ingest.sync(
                self.archive, session, items, key=key, now=now, timezone=zone, payloads=payloads, whole=whole
            )
            return self._settled(report)

    def _settled(self, report: AppendReport) -> AppendReport:
        """See to what follows from what was stored: summaries of changed messages are extracted anew."""
        if report.changes_past and report.conversation_id is not None:
            self._extract_stale(report.quarantine_id or report.conversation_id)
        return report

    def after_turn(
        self,
        session: Session,
        *,
        new_messages: Iterable[Message | Incoming | JsonObject] | None = None,
        window: Iterable[Message | Incoming | JsonObject] | None = None,
        transcript: str | os.PathLike[str] | None = None,
        budget: int | None = None,
        observed_tokens: int | None = None,
        usage: Mapping[str, object] | None = None,
        model: str | None = None,
        context_window: int | None = None,
        beside: int | None = None,
        reply: int | None = None,
        sent: int | None = None,
        key: str | None = None,
        heartbeat: bool = False,
        whole: bool = False,
    ) -> TurnReport:
        """Store a turn, then see whether the context has grown over its threshold.

        Pass `new_messages` (they are appended) or the whole `window` (it is synced), or the `transcript` that the
        host has written the turn to, or both: it is read first, and what it brought is not stored again. One that
        cannot be read is reported and read again after the next turn. Below the budget no model is asked here: a
        sweep is put off and paid in the background. A turn that the host calls a `heartbeat` leaves the context when
        it had nothing to say. `whole` is what it is for `sync`; `beside` and `reply` are what they are for `assemble`.
        `sent` is our estimate of the messages that the provider has counted, if others than were assembled last.
        """
        if (new_messages is None) == (window is None) and (new_messages is not None or transcript is None):
            raise BadInput("pass either new_messages or window, or a transcript")
        before = self._newest(session) if heartbeat else None
        read = None if transcript is None else self._follow(session, transcript)
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
            self._hide_heartbeat(report.conversation_id, before)
        seen = observation(usage, model)
        observed = observed_tokens if observed_tokens is not None else seen.prompt_tokens
        who = report.conversation or session
        situation = self._situation(
            who, budget, observed_tokens=observed, model=seen.model, context_window=context_window
        )
        situation = replace(situation, beside=beside, reply=reply)
        if usage or (observed and (sent or situation.conversation.id in self._sent)):
            self._learn(situation, replace(seen, prompt_tokens=observed or None), sent)
        paid = self.loop.after_turn(situation)
        if paid.report is not None:
            self._logged("turn", situation.conversation.id, paid.report)
        has_work = paid.owes or paid.prepares
        if self._background is not None and (has_work or self._describing.has_work(situation.conversation.id)):
            self._background.owe(situation.conversation.id)
        return TurnReport(report, paid, read)

    # --- what the model sees ---

    def assemble(
        self,
        session: Session | Conversation,
        *,
        budget: int | None = None,
        prompt: str | None = None,
        format: str = "openai-chat",
        model: ModelIdentity | str | None = None,
        context_window: int | None = None,
        beside: int | None = None,
        reply: int | None = None,
        allow_trailing_assistant: bool = False,
        recall: bool = True,
        fold: bool = False,
    ) -> Assembled:
        """The messages for the next turn, within the budget, in a form that strict providers take.

        A model that is only named chooses the rules that hold; one with an identity gets no other model's thinking.
        Of the budget, `beside` tokens are sent beside the messages and `reply` tokens are kept for the answer; what
        is not given is as it was last, or 0. Without `recall` tools, no text says to call one. Nothing is written, but
        with `fold`: then history that would be left out with nothing standing for it is folded first, without a model.
        """
        situation = self._situation(session, budget, model=name_of(model), context_window=context_window)
        situation = replace(situation, beside=beside, reply=reply)
        conversation, policy = situation.conversation, self.loop.policy(situation)
        history = self.loop.history(situation, policy)
        request = assembly.Request(
            history.tokens,
            format,
            prompt,
            policy.fresh_tail_count,
            policy.within(history.tokens).fresh_tail_max_tokens,
            self.settings.prompt_aware_eviction,
            self.settings.stub_large_tool_payloads,
            timezone=self._timezone,
            model=model if isinstance(model, ModelIdentity) else None,
            allow_trailing_assistant=allow_trailing_assistant,
            recall=recall,
            history=history,
        )
        search = self._quotes(conversation.id)
        made = assembly.assemble(self.archive, conversation.id, request, search, self.vault)
        if fold and made.receipt.unstated and not self._no_writes(session):
            report = self._logged("assemble", conversation.id, self.loop.make_room(situation))
            if report.compacted:
                made = assembly.assemble(self.archive, conversation.id, request, search, self.vault)
        self._sent[conversation.id] = made.tokens
        return made

    def _quotes(self, conversation_id: int) -> Callable[[str], list[tuple[str, str]]]:
        """A search for the recall cue: what users and assistants said about a term, oldest first."""

        def search(term: str) -> list[tuple[str, str]]:
            found = self.archive.search.quotes(conversation_id, term, 32)
            return [(f"msg#{id_}, {role}, {at}", content) for id_, role, at, content in found]

        return search

    def _readers(self) -> tuple[Model, ...]:
        """The models that answer questions, behind the same breaker and a spend window of their own."""
        gate = replace(self.loop.summariser.gate(self.archive, 0, self._clock), scope="answer", purpose="answer")
        gate = replace(gate, conversation_id=None)
        return tuple(Model(name, chain) for name, chain in self.loop.summariser.readers(gate))

    # --- folding ---

    def compact(
        self,
        session: Session | Conversation,
        *,
        budget: int | None = None,
        force: bool = False,
        until: int | None = None,
        observed_tokens: int | None = None,
        model: str | None = None,
        context_window: int | None = None,
        beside: int | None = None,
        instructions: str | None = None,
        seconds: float | None = None,
        progress: Callable[[Pass, Written | None], None] | None = None,
    ) -> CompactionReport:
        """Fold older history now: when over the threshold, when forced, or until so many tokens are left.

        `instructions` are for this time only; after `seconds` no further summary is begun.
        """
        if (reason := self._no_writes(session)) is not None:
            return unchanged(reason)
        if self._find(session) is None:
            return unchanged(Reason.NO_CONVERSATION, ok=False)
        situation = self._situation(
            session, budget, observed_tokens=observed_tokens, model=model, context_window=context_window
        )
        situation = replace(situation, beside=beside)
        if observed_tokens and situation.conversation.id in self._sent:
            self._learn(situation, observation({"prompt_tokens": observed_tokens}, model))
        if force or until is not None or self.loop.evaluate(situation).should_compact:
            self._write_stale(situation.conversation.id)
        loop = replace(self.loop, summariser=self.loop.summariser.instructed(instructions))
        report = loop.compact(situation, force=force, until=until, seconds=seconds, progress=progress)
        return self._logged("compact", situation.conversation.id, report)

    def maintain(
        self,
        session: Session | Conversation,
        *,
        budget: int | None = None,
        allow: bool | None = None,
        seconds: float | None = None,
        transcript: str | os.PathLike[str] | None = None,
    ) -> CompactionReport | None:
        """Pay the session's debt, if the host opted in (`allow`, else the setting `hostMaintainCompacts`).

        A host that names its transcript says that no turn is going on: one that grew too large is rotated then.
        """
        allowed = self.settings.host_maintain_compacts if allow is None else allow
        found = self._find(session)
        if not allowed or self._no_writes(session) or found is None:
            return None
        situation = self._situation(session, budget or self.loop.debt(found.id).token_budget or None)
        if self.loop.is_due(situation):
            self._write_stale(found.id)
        report = self.loop.drain(situation, seconds=seconds)
        if report is None:
            self.loop.prepare(situation)
        self._describing.run(found.id)
        if transcript is not None:
            self.rotate_between_turns(found, transcript)
        return None if report is None else self._logged("maintain", found.id, report)

    def _pay_later(self, conversation_id: int) -> None:
        """What the background does for a conversation: its debt or what it will owe, then words about its files."""
        if self._pay(conversation_id) is None:
            self.loop.prepare(self._situation(self.archive.conversations.get(conversation_id), None))
        self._describing.run(conversation_id)

    def _pay(
        self, conversation_id: int, *, may_ask_model: bool = True, seconds: float | None = None
    ) -> CompactionReport | None:
        asked = self.loop.debt(conversation_id).token_budget
        situation = self._situation(self.archive.conversations.get(conversation_id), asked or None)
        if may_ask_model and self.loop.is_due(situation):
            self._write_stale(conversation_id)
        report = self.loop.drain(situation, may_ask_model=may_ask_model, seconds=seconds)
        return None if report is None else self._logged("drain", conversation_id, report)

    def pay_debts(
        self,
        *,
        may_ask_model: bool = True,
        progress: Callable[[int, CompactionReport | None], None] | None = None,
    ) -> list[tuple[int, CompactionReport | None]]:
        """Pay what is due in all conversations; what `lcm worker` does. `progress` hears of each one."""
        done = []
        for conversation_id in self.archive.debts.pending(now=self._clock()):
            report = self._pay(conversation_id, may_ask_model=may_ask_model)
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
        if not self.settings.prepare_summaries:
            return 0
        ids = self.archive.guards.active_histories()
        return sum(self.loop.prepare(self._situation(self.archive.conversations.get(id_), None)) for id_ in ids)

    def describe_files(
        self,
        session: Session | Conversation | None = None,
        *,
        limit: int = FILES_A_ROUND,
        progress: Callable[[StoredFile], None] | None = None,
    ) -> Described:
        """Have the configured model describe stored prose, of a session or of all; without one nothing is asked."""
        return self._describing.run(None if session is None else self._conversation(session).id, limit, progress)

    def settle(self, seconds: float = 60.0) -> bool:
        """Wait until the background has paid what it was asked to; False when that takes longer."""
        return self._background is None or self._background.wait(seconds)

    # --- pins ---

    def pin(self, session: Session | Conversation, what: str | int) -> int:
        """Never summarise this text, or this message, and show it verbatim in every prompt; returns the pin's id."""
        with self.archive.writing():
            conversation = self._conversation(session)
            if isinstance(what, str):
                if not what.strip():
                    raise BadInput("there is nothing to pin in an empty text")
                if not is_encodable(what):
                    raise BadInput("the text to pin holds half a surrogate pair, which is no text")
                return self.archive.beside.pin(conversation.id, self._clock(), text=what)
            stored = self.archive.messages.get(what)
            if stored.conversation_id != conversation.id:
                raise NotFound("message of this session", what)
            return self.archive.beside.pin(conversation.id, self._clock(), message_id=what)

    def unpin(self, session: Session | Conversation, pin_id: int) -> None:
        """Take a pin away."""
        with self.archive.writing():
            self.archive.beside.unpin(self._conversation(session).id, pin_id)

    # --- care ---

    def _backups(self) -> Callable[[str], Path] | None:
        return None if self.archive.path == ":memory:" else lambda label: self.copy(label).path

    def verify(self, progress: Callable[[int], None] | None = None) -> Verification:
        """Prove the archive; `.ok` and `.problems`."""
        return verify_archive(self.archive, progress, self.vault)

    def close(self) -> None:
        """Let go of the archive; debts get a quarter of a second, without a model; the rest stay rows."""
        until = time.monotonic() + _CLOSING_SECONDS
        waiting = [] if self._background is None else self._background.close(_CLOSING_SECONDS)
        for conversation_id in waiting:
            if (left := until - time.monotonic()) > 0:
                with suppress(LosslessError):
                    self._pay(conversation_id, may_ask_model=False, seconds=left)
        self.archive.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _excluded(reason: str, count: int) -> AppendReport:
    return AppendReport(None, skipped=tuple(Skip(n, reason) for n in range(count)))


def open_engine(
    path: str | Path | None = None,
    settings: Settings | None = None,
    complete: Callable[[Prompt], object] | None = None,
    *,
    clock: Callable[[], datetime] = _now,
    background: bool = True,
) -> Engine:
    """Open an archive for use; without a path, the one that the settings name, else the usual place.

    Settings that are not passed are the defaults; with neither path nor settings, those of this machine.
    `complete` is the host's model; without it a configured one is asked, or summaries are extracted.
    """
    place = path if path is not None or settings is None else settings.database_path
    if place is None:
        loaded = load().settings
        settings, place = settings or loaded, loaded.database_path or "lcm.db"
    return Engine(Archive.open(place), settings or Settings(), complete, clock=clock, background=background)
