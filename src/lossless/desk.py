"""What `Engine` and its groups share: archive, settings, clock, compactor, and how sessions are looked up."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from functools import cached_property
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from lossless.compaction.history import learn, replied
from lossless.compaction.loop import Loop, Situation
from lossless.compaction.summariser import Summariser
from lossless.compaction.trigger import Reason
from lossless.errors import BadInput, NotFound
from lossless.files.place import vault_of
from lossless.ingest.payloads import Payloads
from lossless.logbook import Logbook
from lossless.model.conversations import Conversation, SessionRef, as_session, matches_any
from lossless.model.messages import ModelIdentity
from lossless.recall.redacting import redactor

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from lossless.compaction.run import CompactionReport
    from lossless.lifecycle.backup import Backup
    from lossless.llm.base import Prompt
    from lossless.settings import Settings
    from lossless.store.archive import Archive
    from lossless.store.debts import Observation


class EngineParts:
    """The archive and everything that works on it: what `Engine` and its groups share."""

    def __init__(
        self,
        archive: Archive,
        settings: Settings,
        complete: Callable[[Prompt], object] | None,
        clock: Callable[[], datetime],
        summariser: Summariser | None = None,
    ) -> None:
        if complete is not None and (not callable(complete) or iscoroutinefunction(complete)):
            raise BadInput("complete is a plain function: it takes a prompt and returns the answer, not a coroutine")
        self.archive, self.settings, self.clock = archive, settings, clock
        archive.redact = redactor(settings)
        self.timezone = ZoneInfo(settings.timezone) if settings.timezone else None
        self.vault = vault_of(archive.path, settings.large_files_dir)
        takes = self.vault if settings.payloads_in_files else None
        self.payloads = Payloads(takes, settings.large_file_threshold_tokens) if takes else None
        self.loop = Loop(archive, settings, summariser or Summariser(settings, complete), clock)
        #: Estimated tokens of the prompt that each conversation assembled last, to hold a provider's report against.
        self.sent: dict[int, int] = {}

    def find(self, session: SessionRef) -> Conversation | None:
        return session if isinstance(session, Conversation) else self.archive.conversations.find(as_session(session))

    def conversation(self, session: SessionRef) -> Conversation:
        found = self.find(session)
        if found is None:
            raise NotFound("conversation of session", as_session(session).name)
        return found

    def request(
        self,
        session: SessionRef,
        budget: int | None,
        *,
        observed_tokens: int | None = None,
        model: str | None = None,
        context_window: int | None = None,
    ) -> Situation:
        if budget is not None and (not isinstance(budget, int) or isinstance(budget, bool) or budget <= 0):
            raise BadInput(f"a budget must be a positive number of tokens, not {budget!r}")
        situation = Situation(self.conversation(session), budget or self.settings.default_token_budget, observed_tokens)
        return replace(situation, model=model, window=context_window)

    def learn_usage(self, situation: Situation, seen: Observation, sent: int | None = None) -> None:
        """Record what the provider reported, and what it says about its tokenizer."""
        id_, now = situation.conversation.id, self.clock()
        assembled = self.sent.pop(id_, None)
        sent = assembled if sent is None else sent
        with self.archive.writing():
            self.archive.debts.observe(id_, seen, self.archive.context_tokens(id_), now)
            if seen.prompt_tokens:
                learn(self.archive, situation, seen.prompt_tokens, sent, now)
            if seen.output_tokens:
                replied(self.archive, id_, seen.output_tokens, now)

    def no_writes(self, session: SessionRef) -> Reason | None:
        """Why nothing of this session is stored, or None."""
        if not self.settings.enabled:
            return Reason.OFF
        name = as_session(session).name
        if matches_any(name, self.settings.ignore_session_patterns):
            return Reason.EXCLUDED
        stateless = self.settings.skip_stateless_sessions
        if stateless and matches_any(name, self.settings.stateless_session_patterns):
            return Reason.STATELESS
        return None

    @cached_property
    def log(self) -> Logbook:
        """Where this engine writes down what it decided and did; see `lossless.logbook`."""
        return Logbook.of(self.settings)

    def logged(self, event: str, conversation_id: int, report: CompactionReport) -> CompactionReport:
        """Write down what a compaction came to."""
        self.log.log(
            event,
            "info" if report.ok else "warning",
            conversationId=conversation_id,
            reason=report.reason,
            stop=report.stop,
            summaries=len(report.summary_ids),
            calls=report.calls,
            tokensBefore=report.tokens_before,
            tokensAfter=report.tokens_after,
            historyBudget=None if report.history is None else report.history.tokens,
        )
        return report

    def copy(self, label: str) -> Backup:
        """A backup beside the archive under a label, as it is made before something is changed; with its payloads."""
        from lossless.lifecycle.backup import make_beside

        return make_beside(self.archive, label, self.clock(), vault=self.vault)

    def extract_stale(self, conversation_id: int) -> None:
        """Write summaries anew that were extracted from what has changed by now."""
        if self.archive.summaries.stale(conversation_id):
            from lossless.revising.stale import extract_stale

            extract_stale(self.archive, conversation_id, self.loop.summariser, self.clock())

    def write_stale(self, conversation_id: int) -> None:
        """Before a sweep, write all summaries anew below which something changed."""
        if self.archive.summaries.stale(conversation_id):
            from lossless.revising.stale import write_stale

            write_stale(self.archive, conversation_id, self.loop.summariser, self.clock)

    def backups(self) -> Callable[[str], Path] | None:
        """How to copy the archive before it is changed; None where there is no file to copy."""
        return None if self.archive.path == ":memory:" else lambda label: self.copy(label).path

    def here(self) -> datetime:
        """Now, in the time zone of the settings."""
        return self.clock().astimezone(self.timezone or UTC)


def name_of(model: ModelIdentity | str | None) -> str | None:
    """A model by its name."""
    return f"{model.provider}/{model.model}" if isinstance(model, ModelIdentity) else model
