"""What every verb of an engine stands on: the archive, the settings, the clock, and how sessions are looked up."""

from __future__ import annotations

from dataclasses import replace
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from lossless.compaction.loop import Loop, Situation
from lossless.compaction.summariser import Summariser
from lossless.compaction.trigger import Reason
from lossless.errors import BadInput, NotFound
from lossless.files.place import vault_of
from lossless.ingest.payloads import Payloads
from lossless.model.conversations import Conversation, Session, matches_any

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from lossless.llm.base import Prompt
    from lossless.settings import Settings
    from lossless.store.archive import Archive


class Desk:
    """The archive with what is needed to work on it. The verbs are in the classes that are built on this one."""

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
        self.archive, self.settings, self._clock = archive, settings, clock
        self._timezone = ZoneInfo(settings.timezone) if settings.timezone else None
        self.vault = vault_of(archive.path, settings.large_files_dir)
        takes = self.vault if settings.payloads_in_files else None
        self._payloads = Payloads(takes, settings.large_file_threshold_tokens) if takes else None
        self.loop = Loop(archive, settings, summariser or Summariser(settings, complete), clock)

    def _find(self, session: Session | Conversation) -> Conversation | None:
        return session if isinstance(session, Conversation) else self.archive.conversations.find(session)

    def _conversation(self, session: Session | Conversation) -> Conversation:
        found = self._find(session)
        if found is None:
            raise NotFound("conversation of session", session_of(session).name)
        return found

    def _situation(
        self,
        session: Session | Conversation,
        budget: int | None,
        *,
        observed_tokens: int | None = None,
        model: str | None = None,
        context_window: int | None = None,
    ) -> Situation:
        if budget is not None and (not isinstance(budget, int) or isinstance(budget, bool) or budget <= 0):
            raise BadInput(f"a budget must be a positive number of tokens, not {budget!r}")
        situation = Situation(
            self._conversation(session), budget or self.settings.default_token_budget, observed_tokens
        )
        return replace(situation, model=model, window=context_window)

    def _no_writes(self, session: Session | Conversation) -> Reason | None:
        """Why nothing of this session is stored, or None."""
        if not self.settings.enabled:
            return Reason.OFF
        name = session_of(session).name
        if matches_any(name, self.settings.ignore_session_patterns):
            return Reason.EXCLUDED
        stateless = self.settings.skip_stateless_sessions
        if stateless and matches_any(name, self.settings.stateless_session_patterns):
            return Reason.STATELESS
        return None


def session_of(who: Session | Conversation) -> Session:
    """The host's name for a conversation."""
    return who.session if isinstance(who, Conversation) else who
