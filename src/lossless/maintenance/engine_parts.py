"""What `Engine` and its groups share, the background thread for pending compaction, and `engine.host` for hosts."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property, update_wrapper, wraps
from importlib import import_module
from inspect import iscoroutinefunction, isfunction, signature
from os import PathLike
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from zoneinfo import ZoneInfo

from lossless.errors import BadInput, LosslessError, ModelError, NotFound
from lossless.model.context import MessageItem
from lossless.model.conversations import Conversation, Session, SessionRef, as_session, matches_any
from lossless.model.messages import Json, Message, ModelIdentity, StoredMessage
from lossless.model.records import ContextChange

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from lossless.compaction import compactor
    from lossless.compaction import summariser as summarisers
    from lossless.compaction.compactor import CompactionRequest, Compactor
    from lossless.compaction.plan import CompactionReason
    from lossless.compaction.run import CompactionReport
    from lossless.files.vault import Vault
    from lossless.ingest import requests
    from lossless.ingest.requests import HistoryMatch, RequestHistory, ResentRequest, StoredHistory
    from lossless.ingest.run import PayloadPolicy
    from lossless.llm.completion import Prompt
    from lossless.maintenance.backup import Backup
    from lossless.maintenance.surgery import rewriting
    from lossless.model.budget import HistoryBudget
    from lossless.recall import scope
    from lossless.settings import Settings
    from lossless.settings.event_log import EventLog, LogLevel
    from lossless.store.archive import Archive
    from lossless.store.state import CacheObservation, Grant


T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")


class LazyModule:
    """A module that is imported when one of its names is first used, so that small reads start fast."""

    def __init__(self, name: str) -> None:
        self._name = name

    @cached_property
    def _module(self) -> ModuleType:
        return import_module(self._name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


if not TYPE_CHECKING:
    compactor = LazyModule("lossless.compaction.compactor")
    requests = LazyModule("lossless.ingest.requests")
    rewriting = LazyModule("lossless.maintenance.surgery.rewriting")
    scope = LazyModule("lossless.recall.scope")
    summarisers = LazyModule("lossless.compaction.summariser")


class EngineGroup:
    """A group of an engine's methods, such as `engine.browse`."""

    def __init__(self, parts: EngineParts) -> None:
        self._parts, self._archive = parts, parts.archive


def forward(
    first: Callable[[EngineParts], T], function: Callable[Concatenate[T, P], R]
) -> Callable[Concatenate[Any, P], R]:
    """A function as a method of `Engine` or a group; its first argument is taken from the parts of the engine."""

    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return function(first(self._parts), *args, **kwargs)

    return update_wrapper(call, function)


def of_parts(function: Callable[Concatenate[EngineParts, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A function of the parts of an engine as a method of a group."""
    return forward(lambda parts: parts, function)


_NUMBER, _PATH = ((int, float), "a number"), ((str, PathLike), "the path of a file")
_MESSAGES = (list, Iterable), "a list of messages"
#: What an argument must be, by its annotation; others are checked where they are used.
_ARGUMENT_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "a text"),
    "int": _NUMBER,
    "float": _NUMBER,
    "str | os.PathLike[str]": _PATH,
    "str | Path": _PATH,
    "Iterable[MessageLike]": _MESSAGES,
    "ModelIdentity | str": ((str, ModelIdentity), "the name of a model, or a ModelIdentity"),
    "Mapping[str, object]": ((Mapping,), "an object with token counts"),
    "str | Iterable[str]": ((Iterable,), "an id or a list of ids"),
    "Iterable[str]": ((Iterable,), "a list of ids"),
}


def check_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """A function that raises `BadInput` for arguments of a wrong type, before anything is done."""
    parameters = signature(function).parameters
    kinds = {name: str(one.annotation).removesuffix(" | None") for name, one in parameters.items()}
    names, checked = tuple(parameters), {name: _ARGUMENT_TYPES[k] for name, k in kinds.items() if k in _ARGUMENT_TYPES}

    def check(name: str, value: object) -> None:
        types, what = checked[name]
        if type(value) is types[0] or (value is None and parameters[name].default is None):
            return
        is_single = types == _MESSAGES[0] and isinstance(value, str | bytes | Mapping)
        if is_single or not isinstance(value, types):
            raise BadInput(f"{name} must be {what}, not {type(value).__name__}")

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            if name in checked:
                check(name, value)
        return function(*args, **kwargs)

    return call


def check_methods(kind: type[T]) -> type[T]:
    """A class whose public methods check the types of their arguments."""
    for name, member in list(vars(kind).items()):
        if isfunction(member) and not name.startswith("_"):
            setattr(kind, name, check_arguments(member))
    return kind


class EngineParts:
    """The archive and everything that works on it; parts that only some calls need are loaded on first use."""

    def __init__(
        self,
        archive: Archive,
        settings: Settings,
        complete: Callable[[Prompt], object] | None,
        clock: Callable[[], datetime],
        summariser: summarisers.Summariser | None = None,
    ) -> None:
        if complete is not None and (not callable(complete) or iscoroutinefunction(complete)):
            raise BadInput("complete is a plain function: it takes a prompt and returns the answer, not a coroutine")
        self.archive, self.settings, self.clock = archive, settings, clock
        if settings.redact_patterns or settings.redact_secrets:
            from lossless.recall.scan import make_redactor

            archive.redact = make_redactor(settings)
        if settings.embedder:
            from lossless.llm.embedder import connect_embedder

            archive.embedder = connect_embedder(settings)
        self.timezone = ZoneInfo(settings.timezone) if settings.timezone else None
        self._complete, self._summariser = complete, summariser
        #: Estimated tokens of each conversation's last assembled prompt, to compare with a provider's report.
        self.sent: dict[int, int] = {}

    @cached_property
    def vault(self) -> Vault | None:
        from lossless.files.vault import open_vault

        return open_vault(self.archive.path, self.settings.large_files_dir)

    @property
    def files(self) -> Vault:
        """The same; BadInput for an archive in memory."""
        if self.vault is None:
            raise BadInput("an archive in memory keeps no files: name a folder for them with largeFilesDir")
        return self.vault

    @cached_property
    def payloads(self) -> PayloadPolicy | None:
        """Which payloads are moved to files."""
        from lossless.ingest.run import PayloadPolicy

        takes = self.vault if self.settings.payloads_in_files else None
        return PayloadPolicy(takes, self.settings.large_file_threshold_tokens) if takes else None

    @cached_property
    def loop(self) -> Compactor:
        """Decides when to compact, and compacts."""
        summariser = self._summariser or summarisers.Summariser(self.settings, self._complete)
        return compactor.Compactor(self.archive, self.settings, summariser, self.clock)

    @cached_property
    def describing(self) -> summarisers.DescriptionWorker:
        return summarisers.DescriptionWorker(self.archive, self.vault, self.loop.summariser, self.clock)

    def load(self) -> None:
        """Load what writing needs, before threads share it."""
        _ = self.payloads, self.loop, self.describing

    def find(self, session: SessionRef) -> Conversation | None:
        """The active conversation of a session."""
        return session if isinstance(session, Conversation) else self.archive.conversations.find(as_session(session))

    def conversation(self, session: SessionRef | int) -> Conversation:
        if isinstance(session, int):
            return self.archive.conversations.get(session)
        found = self.find(session)
        if found is None:
            raise NotFound("conversation of session", as_session(session).name)
        return found

    def conversation_id(self, session: SessionRef | int) -> int:
        return session if isinstance(session, int) else self.conversation(session).id

    def request(self, session: SessionRef, budget: int | None, **sizes: Any) -> CompactionRequest:
        """A request for a conversation of the archive; `sizes` are further fields of it."""
        if budget is not None and (not isinstance(budget, int) or isinstance(budget, bool) or budget <= 0):
            raise BadInput(f"a budget must be a positive number of tokens, not {budget!r}")
        tokens = budget or self.settings.default_token_budget
        return compactor.CompactionRequest(self.conversation(session), tokens, **sizes)

    def learn_usage(self, request: CompactionRequest, seen: CacheObservation, sent: int | None = None) -> None:
        """Record a provider's reported usage, and calibrate its tokenizer."""
        id_, now = request.conversation.id, self.clock()
        assembled = self.sent.pop(id_, None)
        sent = assembled if sent is None else sent
        with self.archive.writing():
            self.archive.guards.observe_cache(id_, seen, self.archive.context_tokens(id_), now)
            if seen.prompt_tokens:
                compactor.learn_from_usage(self.archive, request, seen.prompt_tokens, sent, now)
            if seen.output_tokens:
                compactor.record_reply_length(self.archive, id_, seen.output_tokens, now)

    def no_writes(self, session: SessionRef) -> CompactionReason | None:
        """Why nothing of this session is stored, or None."""
        settings, name = self.settings, as_session(session).name
        is_excluded = matches_any(name, settings.ignore_session_patterns)
        is_stateless = settings.skip_stateless_sessions and matches_any(name, settings.stateless_session_patterns)
        if settings.enabled and not is_excluded and not is_stateless:
            return None
        from lossless.compaction.plan import CompactionReason

        if not settings.enabled:
            return CompactionReason.OFF
        return CompactionReason.EXCLUDED if is_excluded else CompactionReason.STATELESS

    @cached_property
    def log(self) -> EventLog:
        """The event log of this engine; see `lossless.settings.event_log`."""
        from lossless.settings.event_log import EventLog

        return EventLog.of(self.settings)

    def logged(self, event: str, conversation_id: int, report: CompactionReport) -> CompactionReport:
        """Log the result of a compaction."""
        made = {"reason": report.reason, "stop": report.stop, "summaries": len(report.summary_ids)}
        sizes: dict[str, object] = {"tokensBefore": report.tokens_before, "tokensAfter": report.tokens_after}
        sizes["historyBudget"] = None if report.history is None else report.history.tokens
        level: LogLevel = "info" if report.ok else "warning"
        self.log.log(event, level, conversationId=conversation_id, **made, calls=report.calls, **sizes)
        return report

    def copy(self, label: str, progress: Callable[[int], None] | None = None, *, with_files: bool = True) -> Backup:
        """A backup next to the archive under a label, as made before a change; with its payloads."""
        from lossless.maintenance.backup import make_backup_beside

        vault = self.vault if with_files else None
        return make_backup_beside(self.archive, label, self.clock(), progress, vault=vault)

    def extract_stale(self, conversation_id: int) -> None:
        """Extract summaries again whose messages have changed."""
        if self.archive.summaries.stale(conversation_id):
            rewriting.extract_stale(self.archive, conversation_id, self.loop.summariser, self.clock())

    def write_stale(self, conversation_id: int) -> None:
        """Before a compaction, rewrite all summaries whose messages have changed."""
        if self.archive.summaries.stale(conversation_id):
            rewriting.write_stale(self.archive, conversation_id, self.loop.summariser, self.clock)

    def backups(self) -> Callable[[str], Path] | None:
        """How to copy the archive before it is changed; None without a file."""
        return None if self.archive.path == ":memory:" else lambda label: self.copy(label).path

    def run_later(self, session: SessionRef | int) -> None:
        """Background work for a conversation: pending or upcoming compaction, then descriptions of its files."""
        found = self.conversation(session)
        if self.run_pending_of(found) is None:
            self.loop.prepare(self.request(self.archive.conversations.get(found.id), None))
        self.describing.run(found.id)
        self.embed_messages()

    def embed_messages(self, seconds: float = 60.0) -> int:
        """Make the vectors of messages that have none, for so long; returns how many. A failure is tried again."""
        from lossless.store.search import build_vectors

        try:
            return build_vectors(self.archive, seconds)
        except ModelError as error:
            _log.warning("embedder: %s", error)
            return 0

    def run_pending_of(
        self, session: SessionRef | int, *, may_ask_model: bool = True, seconds: float | None = None
    ) -> CompactionReport | None:
        """Run the pending compaction of a session; None when there is none or it is not due."""
        found = self.conversation(session)
        request = self.request(found, self.loop.debt(found.id).token_budget or None)
        if may_ask_model and self.loop.is_due(request):
            self.write_stale(found.id)
        report = self.loop.drain(request, may_ask_model=may_ask_model, seconds=seconds)
        return None if report is None else self.logged("drain", found.id, report)

    def here(self) -> datetime:
        """Now, in the time zone of the settings."""
        return self.clock().astimezone(self.timezone or UTC)


_log = logging.getLogger("lossless.maintenance.engine_parts")


def with_payloads(archive: Archive, vault: Vault | None, message: Message, recipe: Json) -> Message:
    """A message with its payloads restored; as stored when it has none, or a file is missing."""
    from lossless.context import read

    restored = None if recipe is None or vault is None else read.with_payloads(archive, vault, message, recipe)
    return message if restored is None else restored


def model_name(model: ModelIdentity | str | None) -> str | None:
    return f"{model.provider}/{model.model}" if isinstance(model, ModelIdentity) else model


class BackgroundWorker:
    """Runs `work(conversation_id)` in its own thread, one conversation at a time."""

    def __init__(self, work: Callable[[int], object]) -> None:
        self._run = work
        #: Waiting conversations, in order; the first one is in progress.
        self._waiting: dict[int, None] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def enqueue(self, conversation_id: int) -> None:
        """Run this conversation's pending compaction soon; duplicates are ignored."""
        with self._changed:
            if self._closed:
                return
            self._waiting[conversation_id] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="lossless-background", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _work(self) -> None:
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._waiting or self._closed)
                    if self._closed:
                        return
                    conversation_id = next(iter(self._waiting))
                try:
                    self._run(conversation_id)
                except LosslessError as error:  # the pending row stays; the next turn or `lcm worker` runs it
                    if not self._closed:
                        _log.warning("conversation %d: %s", conversation_id, error.code)
                with self._changed:
                    self._waiting.pop(conversation_id, None)
                    self._changed.notify_all()
        finally:  # whatever ends the thread, nothing waits for it, and the next request starts another one
            with self._changed:
                self._waiting.clear()
                self._thread = None
                self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait until the queue is empty; False on timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting or self._closed, seconds)

    def close(self, seconds: float) -> list[int]:
        """Stop after the current conversation, or after `seconds`; returns the waiting ones, the current one first."""
        with self._changed:
            self._closed = True
            thread, waiting = self._thread, list(self._waiting)
            self._changed.notify_all()
        if thread is not None:
            thread.join(seconds)
        return waiting


_LAST_PROMPT = "last_prompt:"


class HostSupport(EngineGroup):
    """`engine.host`: the space in a prompt, providers' feedback, and the end of sessions and sub-agents."""

    def history_budget(
        self,
        session: SessionRef,
        *,
        budget: int | None = None,
        model: ModelIdentity | str | None = None,
        overhead: int | None = None,
        reply: int | None = None,
    ) -> HistoryBudget:
        """The conversation's share of a prompt: `.tokens`, by our estimate, and what it was computed from."""
        request = self._parts.request(session, budget, model=model_name(model), overhead=overhead, reply=reply)
        return self._parts.loop.history(request)

    def refused(
        self,
        session: SessionRef,
        *,
        prompt_tokens: int,
        sent: int | None = None,
        budget: int | None = None,
        model: ModelIdentity | str | None = None,
        overhead: int | None = None,
    ) -> None:
        """Record that a provider refused a prompt as too long, with its own count.

        `sent` is our estimate of its messages; the default is the last assembled prompt.
        """
        request = self._parts.request(session, budget, model=model_name(model), overhead=overhead)
        assembled = self._parts.sent.pop(request.conversation.id, None)
        sent = assembled if sent is None else sent
        with self._archive.writing():
            now = self._parts.clock()
            compactor.learn_from_usage(self._archive, request, prompt_tokens, sent, now, was_refused=True)

    def reply_reserve(self, session: SessionRef, window: int, max_output: int = 0) -> int:
        """The tokens of a window reserved for the reply, based on the session's replies so far."""
        found = self._parts.find(session)
        kept = None if found is None else self._archive.guards.history(found.id)
        return compactor.reply_reserve(kept, window, max_output)

    def capacity(
        self, session: SessionRef, *, budget: int | None = None, model: ModelIdentity | str | None = None
    ) -> int:
        """The maximum tokens of a prompt, by our estimate: `history_budget(…).tokens`."""
        return self.history_budget(session, budget=budget, model=model).tokens

    def learn(self, model: str, estimated: int, reported: int, *, refused: bool = False) -> None:
        """Record the estimated tokens of a prompt, and what the model's provider counted or refused."""
        with self._archive.writing():
            now = self._parts.clock()
            compactor.record_token_count(self._archive, model, estimated, reported, now, refused=refused)

    def last_prompt(self, model: str) -> str:
        """The sizes of a model's last prompt, as `keep_last_prompt` kept them; empty when there is none."""
        return self._archive.guards.remembered(_LAST_PROMPT + model) or ""

    def keep_last_prompt(self, model: str, sizes: str) -> None:
        """Keep the sizes of a prompt for the host's next process."""
        with self._archive.writing():
            self._archive.guards.remember(_LAST_PROMPT + model, sizes)

    def end(self, session: Session | str, reason: str) -> Conversation | None:
        """The host says that a session has ended: restarts change nothing, `deleted` closes it, others reset it."""
        from lossless.ingest import sessions

        if self._parts.no_writes(session) is not None:
            return None
        return sessions.end_session(self._archive, as_session(session), reason, self._parts.clock())

    def subagent_starts(self, parent: Session | str, child: str) -> Grant | None:
        """Let a sub-agent read what its parent may read, until it ends; None when there is nothing to read."""
        parent = as_session(parent)
        family = [] if self._parts.no_writes(parent) else self._archive.conversations.family(parent)
        if not family:
            return None
        ids = [conversation.id for conversation in family]
        limit = self._parts.settings.max_expand_tokens
        return scope.issue_for_child(self._archive, parent.name, child, ids, limit, self._parts.clock())

    def subagent_ended(self, child: str, *, deleted: bool = False) -> None:
        """A sub-agent has ended, and so has its read permission."""
        scope.end_child_grants(self._archive, child, self._parts.clock(), deleted=deleted)

    # --- stored sessions ---

    def context_counts(self, session: SessionRef | int) -> tuple[int, int]:
        """How many messages and how many summaries a context has."""
        return self._archive.context.counts(self._parts.conversation_id(session))

    def shows_all(self, session: SessionRef | int, count: int, prompts: int | None) -> bool:
        """Whether a window with this number of messages is complete: nothing older, no pins, no focus.

        So many of them are system prompts; without a number, its system prompts must be complete, too.
        """
        archive = self._archive
        with archive.reading():
            id_ = self._parts.conversation_id(session)
            if archive.prompts.pins(id_) or archive.prompts.active_brief(id_) is not None:
                return False
            if archive.context.counts(id_) == (count, 0):
                return True
            if prompts is None:
                return False
            return archive.messages.visible(id_, count - prompts + 1) <= count - prompts

    def has_key(self, session: SessionRef, key: str) -> bool:
        """Whether a batch with this key is stored in a session."""
        found = self._parts.find(session)
        return found is not None and self._archive.ingest.has_key(found.id, key)

    def known_entries(self, session: SessionRef, entry_ids: Sequence[str]) -> set[str]:
        """Which of these entries of the host are stored in a session."""
        found = self._parts.find(session)
        return set() if found is None else set(self._archive.messages.known_entries(found.id, entry_ids))

    def messages(self, session: SessionRef, page: int = 500) -> Iterator[StoredMessage]:
        """All messages of a session in order, in batches."""
        if (found := self._parts.find(session)) is not None:
            yield from self._archive.messages.each(found.id, page)

    def newest_visible(self, session: SessionRef) -> StoredMessage | None:
        """The newest message that is in the context; None when a summary is newest, or it is empty."""
        archive, found = self._archive, self._parts.find(session)
        items = archive.context.items(found.id) if found else []
        last = items[-1] if items else None
        return archive.messages.get(last.message_id) if isinstance(last, MessageItem) else None

    def hide_newest(self, session: SessionRef, actor: str) -> StoredMessage | None:
        """Hide the newest message from the context; the archive keeps it."""
        archive, now = self._archive, self._parts.clock()
        with archive.writing():
            stored = self.newest_visible(session)
            if stored is None:
                return None
            id_ = stored.conversation_id
            before = archive.context.tokens(id_)
            archive.context.hide(id_, [stored.id], "popped", now)
            change = ContextChange("hide", actor, "popped", (stored.id,), (), None, before, archive.context.tokens(id_))
            archive.context.log(id_, change, now)
        return stored

    def abandon(self, session: SessionRef | int, message_ids: Sequence[int]) -> None:
        """Hide messages that the host has gone back from; the archive keeps them."""
        from lossless.ingest.plan import IngestPlan
        from lossless.ingest.run import ConversationWriter

        plan = IngestPlan(abandoned=tuple(message_ids), cause="branch")
        ConversationWriter(self._archive, self._parts.conversation(session), self._parts.clock()).write(plan)

    def in_files(self, message_ids: Sequence[int]) -> list[StoredMessage]:
        """The messages among these that have references to files in place of payloads."""
        archive = self._archive
        with archive.reading():
            return archive.messages.many(list(archive.context.recipes(message_ids)), exact=False)

    def with_payloads(self, stored: StoredMessage) -> Message:
        """A message with its payloads restored; as stored when it has none, or a file is missing."""
        recipe = self._archive.context.recipes([stored.id]).get(stored.id)
        return with_payloads(self._archive, self._parts.vault, stored.message, recipe)

    def identify_synthetic(self, session: SessionRef | int, message: Message) -> str | None:
        """What a message is if we wrote it into a prompt; None for all others."""
        from lossless.ingest.synthetic import identify_synthetic

        id_ = self._parts.conversation_id(session)
        return identify_synthetic(self._archive, id_, message, timezone=self._parts.timezone)

    # --- the conversation of a request ---

    def request_history(self, window: Sequence[dict[str, Any]]) -> RequestHistory:
        """The history in a request, without what must not be kept."""
        from lossless.ingest.events import mask_bodies

        return requests.RequestHistory(mask_bodies(self._archive, window))

    def stored_history(self, session: SessionRef) -> StoredHistory | None:
        """What a session's conversation shows now, for comparison with requests; None when there is none."""
        found = self._parts.find(session)
        return None if found is None else requests.StoredHistory(self._archive, found.id)

    def matching_sessions(self, request: RequestHistory, prefix: str) -> list[tuple[HistoryMatch, Session]]:
        """Recently used sessions with this prefix that a request belongs to, newest first."""
        return requests.matching_sessions(self._archive, request, prefix, self._parts.clock())

    def find_resent(self, session: SessionRef, window: Sequence[dict[str, Any]]) -> ResentRequest:
        """What of a request with new messages is already stored, because it was sent before."""
        found = self._parts.find(session)
        return requests.ResentRequest() if found is None else requests.find_resent(self._archive, found.id, window)
