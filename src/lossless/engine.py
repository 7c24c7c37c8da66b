"""The front desk: one object through which hosts and commands use an archive."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4
from zoneinfo import ZoneInfo

from lossless import lifecycle
from lossless.assembly import run as assembly
from lossless.background import Background
from lossless.compaction.loop import Loop, Paid, Situation
from lossless.compaction.run import CompactionReport
from lossless.compaction.summariser import Summariser
from lossless.compaction.trigger import Reason
from lossless.errors import BadInput, LosslessError, NotFound
from lossless.files.place import vault_of
from lossless.ingest import run as ingest
from lossless.ingest.events import Skip
from lossless.ingest.payloads import Payloads
from lossless.ingest.run import AppendReport
from lossless.llm.calibration import Calibration, factor, observe
from lossless.model.conversations import Conversation, Session, matches_any
from lossless.recall.asking import Asking
from lossless.recall.delegate import Model
from lossless.settings import Settings
from lossless.settings.load import load
from lossless.store.archive import Archive
from lossless.store.debts import Observation
from lossless.verify import Verification
from lossless.verify import verify as verify_archive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from types import TracebackType

    from lossless.assembly.run import Assembled
    from lossless.compaction.escalate import Written
    from lossless.compaction.plan import Pass
    from lossless.llm.base import Prompt
    from lossless.model.messages import Incoming, JsonObject, Message, ModelIdentity

#: What closing an engine may spend on debts, extractively.
_CLOSING_SECONDS = 0.25


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class TurnReport:
    """What a turn stored, and what was done about the size of its context."""

    append: AppendReport
    paid: Paid | None = None

    @property
    def compaction(self) -> CompactionReport | None:
        """The compaction that ran on this turn, if one did."""
        return None if self.paid is None else self.paid.report


class Engine(Asking):
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
        self.archive, self.settings, self._clock = archive, settings, clock
        self._timezone = ZoneInfo(settings.timezone) if settings.timezone else None
        self.vault = vault_of(archive.path, settings.large_files_dir)
        takes = self.vault if settings.payloads_in_files else None
        self._payloads = Payloads(takes, settings.large_file_threshold_tokens) if takes else None
        owner = f"{os.getpid()}-{uuid4().hex[:8]}"
        self.loop = Loop(archive, settings, summariser or Summariser(settings, complete), clock, owner)
        self._background = Background(self._pay) if background and not archive.read_only else None
        #: Estimated tokens of the prompt that each conversation assembled last, to hold a provider's report against.
        self._sent: dict[int, int] = {}

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
        return ingest.append(self.archive, session, items, key=key, now=self._clock(), payloads=self._payloads)

    def sync(
        self, session: Session, window: Iterable[Message | Incoming | JsonObject], *, key: str | None = None
    ) -> AppendReport:
        """Store what the host's whole current list adds; showing the same list again changes nothing."""
        items = list(window)
        if (reason := self._no_writes(session)) is not None:
            return _excluded(reason, len(items))
        return ingest.sync(
            self.archive, session, items, key=key, now=self._clock(), timezone=self._timezone, payloads=self._payloads
        )

    def after_turn(
        self,
        session: Session,
        *,
        new_messages: Iterable[Message | Incoming | JsonObject] | None = None,
        window: Iterable[Message | Incoming | JsonObject] | None = None,
        budget: int | None = None,
        observed_tokens: int | None = None,
        usage: Mapping[str, object] | None = None,
        model: str | None = None,
        key: str | None = None,
    ) -> TurnReport:
        """Store a turn, then see whether the context has grown over its threshold.

        Pass `new_messages` (they are appended) or the whole `window` (it is synced). Below the budget no model
        is asked here: a sweep is put off and paid in the background.
        """
        if (new_messages is None) == (window is None):
            raise BadInput("pass either new_messages or window")
        if new_messages is not None:
            report = self.append(session, new_messages, key=key)
        else:
            report = self.sync(session, window or (), key=key)
        if report.conversation_id is None:
            return TurnReport(report)
        seen = _observation(usage, model)
        observed = observed_tokens if observed_tokens is not None else seen.prompt_tokens
        situation = self._situation(session, budget, observed_tokens=observed, model=seen.model)
        if seen.prompt_tokens is not None or usage:
            self._learn(situation, seen)
        paid = self.loop.after_turn(situation)
        if paid.owes and self._background is not None:
            self._background.owe(situation.conversation.id)
        return TurnReport(report, paid)

    def _learn(self, situation: Situation, seen: Observation) -> None:
        """Record what the provider reported, and what it says about its tokenizer."""
        id_, now = situation.conversation.id, self._clock()
        with self.archive.writing():
            tokens = self.archive.context_tokens(id_)
            self.archive.debts.observe(id_, seen, tokens, now)
            sent = self._sent.pop(id_, tokens if tokens <= situation.budget else 0)
            if seen.model and seen.prompt_tokens:
                known = self._calibration(seen.model)
                after = observe(known, sent, seen.prompt_tokens)
                if after is not known:
                    guards = self.archive.guards
                    guards.set_factor(after.model, after.ratio, after.spread, after.observations, now)

    def _calibration(self, model: str) -> Calibration:
        known = self.archive.guards.factor(model)
        return Calibration(model) if known is None else Calibration(model, *known)

    # --- what the model sees ---

    def assemble(
        self,
        session: Session | Conversation,
        *,
        budget: int | None = None,
        prompt: str | None = None,
        format: str = "openai-chat",
        model: ModelIdentity | None = None,
        allow_trailing_assistant: bool = False,
    ) -> Assembled:
        """The messages for the next turn, within the budget, in a form that strict providers take."""
        name = None if model is None else f"{model.provider}/{model.model}"
        situation = self._situation(session, budget, model=name)
        conversation, policy = situation.conversation, self.loop.policy(situation)
        request = assembly.Request(
            policy.capped(situation.budget),
            format,
            prompt,
            policy.fresh_tail_count,
            policy.fresh_tail_max_tokens,
            self.settings.prompt_aware_eviction,
            self.settings.stub_large_tool_payloads,
            1.0 if name is None else factor(self._calibration(name)),
            self._timezone,
            model,
            allow_trailing_assistant,
        )
        search = self._quotes(conversation.id)
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
        progress: Callable[[Pass, Written | None], None] | None = None,
    ) -> CompactionReport:
        """Fold older history now: when over the threshold, when forced, or until so many tokens are left."""
        if (reason := self._no_writes(session)) is not None:
            return CompactionReport(True, False, reason)
        if self._find(session) is None:
            return CompactionReport(False, False, Reason.NO_CONVERSATION.value)
        return self.loop.compact(self._situation(session, budget), force=force, until=until, progress=progress)

    def maintain(
        self, session: Session | Conversation, *, budget: int | None = None, allow: bool | None = None
    ) -> CompactionReport | None:
        """Pay the session's debt, if the host opted in (`allow`, else the setting `hostMaintainCompacts`)."""
        allowed = self.settings.host_maintain_compacts if allow is None else allow
        found = self._find(session)
        if not allowed or self._no_writes(session) or found is None:
            return None
        return self.loop.drain(self._situation(session, budget or self.loop.debt(found.id).token_budget or None))

    def _pay(
        self, conversation_id: int, *, may_ask_model: bool = True, seconds: float | None = None
    ) -> CompactionReport | None:
        asked = self.loop.debt(conversation_id).token_budget
        situation = self._situation(self.archive.conversations.get(conversation_id), asked or None)
        return self.loop.drain(situation, may_ask_model=may_ask_model, seconds=seconds)

    def pay_debts(
        self,
        *,
        may_ask_model: bool = True,
        progress: Callable[[int, CompactionReport | None], None] | None = None,
    ) -> list[tuple[int, CompactionReport | None]]:
        """Pay what is due in all conversations; what `lcm worker` does. `progress` hears of each one."""
        done = []
        for conversation_id in self.archive.debts.pending():
            report = self._pay(conversation_id, may_ask_model=may_ask_model)
            done.append((conversation_id, report))
            if progress:
                progress(conversation_id, report)
        return done

    def settle(self, seconds: float = 60.0) -> bool:
        """Wait until the background has paid what it was asked to; False when that takes longer."""
        return self._background is None or self._background.wait(seconds)

    # --- sessions ---

    def new(self, session: Session | Conversation, *, retain_depth: int | None = None) -> lifecycle.NewReport:
        """Begin afresh in the same conversation: the context keeps only summaries of at least `retain_depth`."""
        depth = self.settings.new_session_retain_depth if retain_depth is None else retain_depth
        return lifecycle.new(self.archive, self._conversation(session), depth, self._clock())

    def reset(self, session: Session | Conversation, *, cause: str = "manual-reset") -> Conversation:
        """Close the conversation with a cause and begin another under the same key; recall still finds the old one."""
        return lifecycle.reset(self.archive, session, cause, self._clock())

    def pin(self, session: Session | Conversation, what: str | int) -> int:
        """Never summarise this text, or this message, and show it verbatim in every prompt; returns the pin's id."""
        with self.archive.writing():
            conversation = self._conversation(session)
            if isinstance(what, str):
                if not what.strip():
                    raise BadInput("there is nothing to pin in an empty text")
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

    def _find(self, session: Session | Conversation) -> Conversation | None:
        return session if isinstance(session, Conversation) else self.archive.conversations.find(session)

    def _conversation(self, session: Session | Conversation) -> Conversation:
        found = self._find(session)
        if found is None:
            raise NotFound("conversation of session", _session(session).name)
        return found

    def _situation(
        self,
        session: Session | Conversation,
        budget: int | None,
        *,
        observed_tokens: int | None = None,
        model: str | None = None,
    ) -> Situation:
        if budget is not None and budget <= 0:
            raise BadInput(f"a budget must be a positive number of tokens, not {budget!r}")
        situation = Situation(
            self._conversation(session), budget or self.settings.default_token_budget, observed_tokens
        )
        return replace(situation, model=model)

    def _no_writes(self, session: Session | Conversation) -> str | None:
        """Why nothing of this session is stored, or None."""
        if not self.settings.enabled:
            return "lossless is switched off"
        name = _session(session).name
        if matches_any(name, self.settings.ignore_session_patterns):
            return "session excluded"
        stateless = self.settings.skip_stateless_sessions
        if stateless and matches_any(name, self.settings.stateless_session_patterns):
            return "stateless session"
        return None


def _session(who: Session | Conversation) -> Session:
    return who.session if isinstance(who, Conversation) else who


def _excluded(reason: str, count: int) -> AppendReport:
    return AppendReport(None, skipped=tuple(Skip(n, reason) for n in range(count)))


def _observation(usage: Mapping[str, object] | None, model: str | None) -> Observation:
    """A provider's usage report in any of the common spellings."""

    def number(*names: str) -> int:
        values = [(usage or {}).get(name) for name in names]
        return next((int(value) for value in values if isinstance(value, int | float)), 0)

    read = number("cacheRead", "cache_read_input_tokens", "cached_tokens", "cache_read")
    write = number("cacheWrite", "cache_creation_input_tokens", "cache_write")
    plain = number("input", "input_tokens", "prompt_tokens")
    apart = usage is not None and ("cacheRead" in usage or "cache_read_input_tokens" in usage)
    prompt = plain + read + write if apart else plain
    return Observation(prompt or None, read, write, None, model)


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
