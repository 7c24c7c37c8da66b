"""Who may write: the host's model, a configured one or none; the breaker and the spend limit that are asked before
each call; the lease of one worker a conversation; file descriptions.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless.compaction.summarise import (
    AskForSummary,
    OnFailure,
    SummaryPrompt,
    SummarySource,
    SummaryStyle,
    WrittenSummary,
    summarise,
)
from lossless.errors import ArchiveError, GuardOpen, LosslessError, ModelError, NotFound, Stale
from lossless.files.explore import TEXT_HEADING, Ask
from lossless.files.explore import summarise as summarise_file
from lossless.llm.chain import BREAKER_GUARD, CallEnding, Gate, ModelChain
from lossless.llm.completion import NO_USAGE, Complete, Completion, Prompt, Usage, read_prices
from lossless.llm.credentials import CredentialSources
from lossless.llm.providers import ModelConnector, host_model
from lossless.model.paths import expand_path
from lossless.model.times import state_time
from lossless.settings.load import ProcessEnvironment
from lossless.settings.model_rules import ModelCandidate, candidate_order
from lossless.store.state import LedgerRow, new_holder

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.files.vault import Vault
    from lossless.model.messages import StoredFile
    from lossless.settings import Settings
    from lossless.store.archive import Archive

SPEND_GUARD = "spend"
BREAKER_OPEN_TEXT = "summary provider circuit breaker is open"
#: How far the clocks of two programs may be apart. What is later was written before the clock went back.
_SKEW = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class GuardLimits:
    """When a model or a scope rests."""

    #: After how many refusals in a row a breaker opens, and for how long.
    threshold: int = 5
    cooldown: timedelta = timedelta(minutes=30)
    #: How many calls a scope may make in a window, and how long it rests when it wants more.
    window: timedelta = timedelta(minutes=10)
    max_calls: int = 24
    backoff: timedelta = timedelta(minutes=30)
    #: How long a reserved slot may stay unsettled before its caller counts as gone.
    slot: timedelta = timedelta(minutes=5)


#: A breaker: how many times in a row credentials were refused, and until when it is open. Any success resets it.
BreakerState: TypeAlias = "tuple[int, datetime | None]"
CLOSED_BREAKER: BreakerState = (0, None)


def breaker_key(provider: str, model: str) -> str:
    """The name of a model's breaker.

    >>> breaker_key("anthropic", "claude-haiku")
    'provider:anthropic;model:claude-haiku'
    """
    return f"provider:{provider};model:{model}"


def breaker_after_failure(state: BreakerState, now: datetime, limits: GuardLimits) -> BreakerState:
    """Count one refusal. The breaker opens at the threshold; after its pause, one more opens it again."""
    failures = state[0] + 1
    return failures, now + limits.cooldown if failures >= limits.threshold else None


def breaker_needs_notice(state: BreakerState, limits: GuardLimits) -> bool:
    """Whether a person should hear of a refusal that led here: half way to the threshold, and when it opens."""
    failures, open_until = state
    return open_until is not None or failures == -(-limits.threshold // 2)


def breaker_allows(open_until: datetime | None, now: datetime, limits: GuardLimits) -> bool:
    """Whether the model may be asked now. A pause that is too long was written before the clock went back."""
    if open_until is None or now >= open_until:
        return True
    return open_until > now + limits.cooldown + _SKEW


def breaker_refusal(key: str, open_until: datetime | None) -> GuardOpen:
    """The error for a call that an open breaker forbids."""
    until = "" if open_until is None else state_time(open_until)
    return GuardOpen(BREAKER_GUARD, f"{BREAKER_OPEN_TEXT} ({key})", until)


def compaction_scope(queue_key: str) -> str:
    """The spend scope of a conversation's summaries."""
    return f"compaction:{queue_key}"


def entries_since(now: datetime, limits: GuardLimits) -> datetime:
    """How far back a decision looks: older ledger entries change nothing."""
    return now - max(limits.window, limits.backoff)


def spend_state(
    scope: str, entries: Iterable[LedgerRow], now: datetime, limits: GuardLimits
) -> tuple[datetime | None, int, datetime | None]:
    """Where `scope` stands by its ledger, oldest entry first: the running window, its calls, the end of a back-off.

    All before its last reset is forgiven. Entries of the future, from before the clock went back, count for nothing.
    Refused credentials use up nothing; a slot that was never settled does: its caller may have died after the call.
    """
    since_reset: list[LedgerRow] = []
    for entry in entries:
        if entry.scope != scope or entry.at > now + _SKEW:
            continue
        if entry.kind == "reset":
            since_reset.clear()
        else:
            since_reset.append(entry)
    ends = [entry.until for entry in since_reset if entry.kind == "backoff" and entry.until is not None]
    backoff_until = max((end for end in ends if end > now), default=None)
    calls = [entry for entry in since_reset if entry.kind == "call" and entry.window_at is not None]
    window_at = max((entry.window_at for entry in calls if entry.window_at is not None), default=None)
    if window_at is None or now >= window_at + limits.window or any(window_at < end <= now for end in ends):
        return None, 0, backoff_until
    return window_at, sum(entry.result != "auth" and entry.window_at == window_at for entry in calls), backoff_until


def reserve_call(
    scope: str, entries: Sequence[LedgerRow], now: datetime, limits: GuardLimits
) -> tuple[LedgerRow | None, GuardOpen | None]:
    """What to write into the ledger before one more call of `scope`, and why the call must not be made.

    A window is fixed: it begins with its first call and ends after `limits.window`. The call past the limit
    opens the back-off. Read, decide and write in one transaction, so that processes share the limit.
    """
    window_at, calls, backoff_until = spend_state(scope, entries, now, limits)
    if backoff_until is not None:
        return None, _spend_refusal(scope, "summary spend backoff open", backoff_until)
    if calls >= limits.max_calls:
        reason = f"{calls} model calls within {limits.window.total_seconds() / 60:g} min"
        return backoff_entry(scope, now, limits), _spend_refusal(scope, reason, now + limits.backoff)
    return LedgerRow(0, scope, "call", now, now + limits.slot, window_at or now, "reserved"), None


def backoff_entry(scope: str, now: datetime, limits: GuardLimits) -> LedgerRow:
    """The ledger entry that makes a scope rest: past the limit, or after a sweep that got nowhere."""
    return LedgerRow(0, scope, "backoff", now, now + limits.backoff, None, "reserved")


def reset_entry(scope: str, now: datetime) -> LedgerRow:
    """The ledger entry of a person's order to go on: ends the back-off and begins a new window."""
    return LedgerRow(0, scope, "reset", now, None, None, "reserved")


def _spend_refusal(scope: str, reason: str, until: datetime) -> GuardOpen:
    return GuardOpen(SPEND_GUARD, f"{reason} ({scope})", state_time(until))


_log = logging.getLogger("lossless.compaction")


#: Leave for one call: the ledger line to settle, the breaker to tell, the model.
GateTicket: TypeAlias = tuple[int, str, str]


@dataclass(frozen=True, slots=True)
class ArchiveGate(Gate):
    """The gate in front of the models of one scope; every process that shares the archive sees it."""

    archive: Archive
    scope: str
    conversation_id: int | None
    clock: Callable[[], datetime]
    limits: GuardLimits
    purpose: str = "summary"
    #: Says, before each call, whether its answer is still wanted.
    is_wanted: Callable[[], bool] = lambda: True
    #: The calls that were let through.
    tickets: list[GateTicket] = field(default_factory=list)

    def enter(self, candidate: ModelCandidate) -> GateTicket:
        """Reserve a call; raises `GuardOpen` when the breaker is open or the window is spent.

        Raises `Stale` when the answer is no longer wanted.
        """
        key, now = breaker_key(candidate.provider, candidate.model), self.clock()
        with self.archive.writing():
            if not self.is_wanted():
                raise Stale("another worker took this conversation over")
            _, open_until = self.archive.guards.breaker(key)
            if not breaker_allows(open_until, now, self.limits):
                raise breaker_refusal(key, open_until)
            entry, refusal = reserve_call(self.scope, self._entries(now), now, self.limits)
            id_ = 0 if entry is None else self._write(entry, candidate.name if refusal is None else None)
        if refusal is not None:
            raise refusal
        self.tickets.append((id_, key, candidate.name))
        return self.tickets[-1]

    def resting(self, candidates: Sequence[ModelCandidate]) -> Literal["breaker open", "spend backoff"] | None:
        """Why none of these models would be let through now; None when one would, or there is none. Writes nothing."""
        if not candidates:
            return None
        now = self.clock()
        states = [self.archive.guards.breaker(breaker_key(one.provider, one.model)) for one in candidates]
        if not any(breaker_allows(open_until, now, self.limits) for _, open_until in states):
            return "breaker open"
        backoff_until = spend_state(self.scope, self._entries(now), now, self.limits)[2]
        return None if backoff_until is None else "spend backoff"

    def leave(self, ticket: GateTicket, ending: CallEnding, usage: Usage = NO_USAGE) -> None:
        """Settle the call, and open or close the breaker."""
        entry_id, key, model = ticket
        now = self.clock()
        with self.archive.writing():
            self.archive.guards.settle(
                entry_id,
                ending,
                model=model,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cost=usage.cost,
            )
            state = self.archive.guards.breaker(key)
            if ending == "auth":
                state = breaker_after_failure(state, now, self.limits)
            elif ending == "done" and state[0]:
                state = CLOSED_BREAKER
            else:
                return
            failures, open_until = state
            self.archive.guards.set_breaker(key, *state, now)
        if ending == "auth" and breaker_needs_notice(state, self.limits):
            rest = f", it rests until {state_time(open_until)}" if open_until else ""
            _log.warning("%s refused its credentials %d times in a row%s", model, failures, rest)

    def reset(self) -> None:
        """A person asked for it: a new window begins and a back-off ends."""
        with self.archive.writing():
            self._write(reset_entry(self.scope, self.clock()), None)

    def _entries(self, now: datetime) -> list[LedgerRow]:
        return self.archive.guards.ledger(self.scope, entries_since(now, self.limits))

    def _write(self, entry: LedgerRow, model: str | None) -> int:
        return self.archive.guards.add_entry(
            entry, conversation_id=self.conversation_id, purpose=self.purpose, model=model
        )


#: Room for a model to think before it writes.
_THINKING_TOKENS = 2048
_FILE = "file"
_DESCRIBE = "You describe stored files for people and agents who have not read them."
#: Room for the 300 words that are asked for.
_WORDS = 600
_TRIAL = Prompt("Answer with one word.", "Say: ready", max_tokens=512, temperature=0.0, purpose="test", reasoning="low")
_HOST = ModelCandidate("host", "model", "settings")


@dataclass(frozen=True, slots=True)
class Summariser:
    """How summaries are written here. Without a model `ask` is None and they are extracted."""

    settings: Settings
    complete: Callable[[Prompt], object] | None = None
    prompt_folder: Path | None = None
    #: Makes a candidate's callable; another one in tests.
    connect: Callable[[ModelCandidate], Complete] | None = None

    def instructed(self, instructions: str | None) -> Summariser:
        """One that is told this besides what the settings say; itself when there is nothing to add."""
        if not instructions or not instructions.strip():
            return self
        both = "\n\n".join(filter(None, (self.settings.custom_instructions.strip(), instructions.strip())))
        return replace(self, settings=replace(self.settings, custom_instructions=both))

    @property
    def style(self) -> SummaryStyle:
        settings = self.settings
        return SummaryStyle(
            settings.leaf_target_tokens,
            settings.condensed_target_tokens,
            settings.summary_max_overage_factor,
            settings.fallback_max_tokens,
            settings.custom_instructions,
            self.prompt_folder or (expand_path(settings.prompt_dir) if settings.prompt_dir else None),
            settings.timezone or "UTC",
        )

    def write(
        self, source: SummarySource, ask: AskForSummary | None = None, on_failure: OnFailure = "extractive"
    ) -> WrittenSummary | None:
        """`summarise` in the style of the settings."""
        return summarise(source, ask, self.style, on_failure)

    def lease(
        self, archive: Archive, conversation_id: int, clock: Callable[[], datetime], *, takes_over: bool = False
    ) -> AbstractContextManager[Callable[[], bool]]:
        """The lease of the worker that summarises a conversation, as `lease` gives it."""
        longest = self.settings.summary_timeout_ms
        return lease(archive, lease_name(conversation_id), clock, longest, takes_over=takes_over)

    def candidates(self) -> Sequence[ModelCandidate]:
        """The models that would be asked, in order; the host's own goes alone, and its denial is final."""
        if self.complete is not None:
            return (_HOST,)
        fallbacks = tuple((route.provider, route.model) for route in self.settings.fallback_providers)
        return candidate_order(self.settings.summary_model, self.settings.summary_provider, fallbacks)

    @property
    def has_model(self) -> bool:
        return bool(self.candidates())

    def gate(self, archive: Archive, conversation_id: int, clock: Callable[[], datetime]) -> ArchiveGate:
        """Breaker and spend limit of a conversation's summaries."""
        limits = self.settings
        return ArchiveGate(
            archive,
            compaction_scope(str(conversation_id)),
            conversation_id,
            clock,
            GuardLimits(
                limits.circuit_breaker_threshold,
                timedelta(milliseconds=limits.circuit_breaker_cooldown_ms),
                timedelta(milliseconds=limits.summary_call_window_ms),
                limits.summary_max_calls_per_window,
                timedelta(milliseconds=limits.summary_spend_backoff_ms),
            ),
        )

    def chain(self, gate: Gate) -> ModelChain:
        """The models as one callable behind a gate."""
        seconds = self.settings.summary_timeout_ms / 1000
        return ModelChain(self.candidates(), self._connect, seconds, gate)

    def trial(
        self, candidate: ModelCandidate, prompt: Prompt | None = None, seconds: float | None = None
    ) -> tuple[Completion | LosslessError, float]:
        """What came of asking one model once, by default for one word; and how many seconds it took."""
        limit = self.settings.summary_timeout_ms / 1000 if seconds is None else seconds
        started = time.monotonic()
        try:
            answer: Completion | LosslessError = ModelChain((candidate,), self._connect, limit, Gate())(
                prompt or _TRIAL
            )
        except LosslessError as error:
            answer = error
        return answer, round(time.monotonic() - started, 3)

    def readers(self, gate: Gate) -> list[tuple[str, ModelChain]]:
        """Models that answer questions, by name: the one that was named for it, then the one that summarises."""
        settings = self.settings
        provider = settings.expansion_provider or settings.summary_provider
        named = candidate_order(settings.expansion_model, provider) if self.complete is None else ()
        seconds = settings.delegation_timeout_ms / 1000
        orders = [order for order in (named, self.candidates()) if order]
        return [(order[0].name, ModelChain(order, self._connect, seconds, gate)) for order in orders]

    def ask(self, gate: ArchiveGate) -> AskForSummary:
        """One summary prompt to the chain."""
        chain, thinking = self.chain(gate), self.settings.enable_summary_thinking

        def ask(prompt: SummaryPrompt, /) -> Completion:
            target, most = prompt.target_tokens, prompt.target_tokens + (_THINKING_TOKENS if thinking else 0)
            asked = Prompt(prompt.system, prompt.user, most, prompt.temperature, target_tokens=target)
            return chain(replace(asked, reasoning="low") if thinking else asked)

        return ask

    @property
    def describers(self) -> Sequence[ModelCandidate]:
        """The model that describes stored files: only when both settings name one. A host's own goes in its place."""
        model, provider = self.settings.large_file_summary_model, self.settings.large_file_summary_provider
        if not model.strip() or not provider.strip():
            return ()
        return (_HOST,) if self.complete is not None else candidate_order(model, provider)

    def describe_with(self, gate: ArchiveGate) -> Callable[[str], str]:
        """Asks the describing model about a file, behind breaker and spend limit of files."""
        own = replace(gate, scope=_FILE, purpose=_FILE, conversation_id=None, tickets=[])
        chain = ModelChain(self.describers, self._connect, self.settings.summary_timeout_ms / 1000, own)
        return lambda question: chain(Prompt(_DESCRIBE, question, 2 * _WORDS, 0.2, _FILE, target_tokens=_WORDS)).text

    def _connect(self, candidate: ModelCandidate) -> Complete:
        if candidate is _HOST and self.complete is not None:
            return host_model(self.complete, timeout_seconds=self.settings.summary_timeout_ms / 1000)
        if self.connect is not None:
            return self.connect(candidate)
        return self.connector()(candidate)

    def connector(self) -> ModelConnector:
        """What knows the addresses and keys of configured candidates; `summaryBaseUrl` is the first one's alone."""
        url = self.settings.summary_base_url
        urls = {first.provider: url for first in self.candidates()[:1] if url and first.source == "settings"}
        sources = CredentialSources(state_dir=ProcessEnvironment.of().state_dir)
        prices = read_prices(self.settings.model_prices)
        return ModelConnector(sources, urls, self.settings.summary_timeout_ms / 1000, prices)


#: How long a lease outlives the longest call.
_LONGER = timedelta(minutes=1)


def lease_name(conversation_id: int) -> str:
    """The name of the lease that the worker that summarises a conversation holds."""
    return f"compact:{conversation_id}"


def lease_length(call_ms: int) -> timedelta:
    """How long a lease is held when calls may take so long: a worker that died blocks others no longer."""
    return _LONGER + timedelta(milliseconds=call_ms)


@contextmanager
def lease(
    archive: Archive, name: str, clock: Callable[[], datetime], call_ms: int, *, takes_over: bool = False
) -> Iterator[Callable[[], bool]]:
    """Yields what takes a lease, and prolongs it for one more call: False while another worker has it.

    One that `takes_over` gets it at once; the other worker finds out when it wants to write. What is held at the end
    is released. Asked within a transaction, it belongs to it.
    """
    owner, length, is_taken = new_holder(), lease_length(call_ms), False

    def prolong() -> bool:
        nonlocal is_taken
        with archive.writing():
            if takes_over and not is_taken:
                archive.guards.break_lease(name)
            is_ours = archive.guards.take_lease(name, owner, clock(), length)
        is_taken = is_taken or is_ours
        return is_ours

    try:
        yield prolong
    finally:
        if is_taken:
            with archive.writing():
                archive.guards.drop_lease(name, owner)


#: How many files one round describes: others wait behind it.
FILES_PER_ROUND = 20
_LEASE_NAME = "describe files"


_TOOL_INPUT = "Tool input: "
#: After one of these, calls for further files would fail, too; `Stale` means that another process is at work.
_REFUSALS = (ModelError, GuardOpen, Stale)


@dataclass(frozen=True, slots=True)
class DescribeReport:
    """The result of describing files."""

    #: The files with improved descriptions.
    file_ids: tuple[str, ...] = ()
    #: How many are unchanged.
    left: int = 0
    failure: LosslessError | None = None


@dataclass(frozen=True, slots=True)
class DescriptionWorker:
    """Has the configured model describe stored prose; without one nothing is asked and nothing changes."""

    archive: Archive
    vault: Vault | None
    summariser: Summariser
    clock: Callable[[], datetime]
    #: Files that the model had nothing to say about, or that cannot be read.
    passed_over: set[str] = field(default_factory=set)

    @property
    def is_wanted(self) -> bool:
        return self.vault is not None and not self.archive.read_only and bool(self.summariser.describers)

    def has_work(self, conversation_id: int) -> bool:
        """Whether a file of a conversation waits for a better description; asks no model."""
        return self.is_wanted and bool(self.archive.files.plain(1, conversation_id, self.passed_over))

    def run(
        self,
        conversation_id: int | None = None,
        limit: int = FILES_PER_ROUND,
        progress: Callable[[StoredFile], None] | None = None,
    ) -> DescribeReport:
        """Describe up to so many files of a conversation, or of all, oldest first; one without a usable answer is tried
        once only. Stops when the model fails or must not be called.
        """
        has_work = self.is_wanted and self.archive.files.plain(1, conversation_id, self.passed_over)
        if self.vault is None or not has_work:
            return DescribeReport(left=self.archive.files.count_plain(conversation_id))
        with lease(self.archive, _LEASE_NAME, self.clock, self.summariser.settings.summary_timeout_ms) as prolong:
            gate = replace(self.summariser.gate(self.archive, 0, self.clock), is_wanted=prolong)
            return self.improve(self.summariser.describe_with(gate), limit, conversation_id, progress)

    def improve(
        self,
        ask: Ask,
        limit: int,
        conversation_id: int | None = None,
        progress: Callable[[StoredFile], None] | None = None,
    ) -> DescribeReport:
        """The same, asking no other than `ask`."""
        files, done, refusals = self.archive.files, list[str](), list[LosslessError]()

        def asking(prompt: str) -> str:
            try:
                return ask(prompt)
            except _REFUSALS as error:
                refusals.append(error)
                raise

        for file in files.plain(limit, conversation_id, self.passed_over):
            text = TEXT_HEADING  # the description without a model
            with suppress(NotFound, ArchiveError):
                data = self.vault.read(file).data if self.vault else b""
                text = summarise_file(data, file.name, file.mime, ask=asking)
            if refusals:
                break
            known, is_better = file.exploration_summary or "", False
            if not text.startswith(TEXT_HEADING):
                asked = f"{known.partition(chr(10))[0]}\n" if known.startswith(_TOOL_INPUT) else ""
                with self.archive.writing():
                    is_better = files.set_summary(file, asked + text)
            if is_better:
                done.append(file.id)
            else:
                self.passed_over.add(file.id)
            if progress:
                progress(file)
        return DescribeReport(tuple(done), files.count_plain(conversation_id), next(iter(refusals), None))
