"""What every verb of an engine stands on: the archive, the settings, the clock, and how sessions are looked up."""

from __future__ import annotations

from dataclasses import replace
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from lossless.compaction.history import learn, replied, reply_reserve, teach
from lossless.compaction.loop import Loop, Situation
from lossless.compaction.summariser import Summariser
from lossless.compaction.trigger import Reason
from lossless.errors import BadInput, NotFound
from lossless.files.place import vault_of
from lossless.ingest.payloads import Payloads
from lossless.model.conversations import Conversation, Session, matches_any
from lossless.model.messages import ModelIdentity
from lossless.recall.redacting import redactor

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from lossless.llm.base import Prompt
    from lossless.model.history import HistoryBudget
    from lossless.settings import Settings
    from lossless.store.archive import Archive
    from lossless.store.debts import Observation


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
        archive.redact = redactor(settings)
        self._timezone = ZoneInfo(settings.timezone) if settings.timezone else None
        self.vault = vault_of(archive.path, settings.large_files_dir)
        takes = self.vault if settings.payloads_in_files else None
        self._payloads = Payloads(takes, settings.large_file_threshold_tokens) if takes else None
        self.loop = Loop(archive, settings, summariser or Summariser(settings, complete), clock)
        #: Estimated tokens of the prompt that each conversation assembled last, to hold a provider's report against.
        self._sent: dict[int, int] = {}

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

    def history_budget(
        self,
        session: Session | Conversation,
        *,
        budget: int | None = None,
        model: ModelIdentity | str | None = None,
        beside: int | None = None,
        reply: int | None = None,
    ) -> HistoryBudget:
        """How much of a prompt is the conversation's: `.tokens`, by our estimate, and what it was computed from."""
        situation = self._situation(session, budget, model=name_of(model))
        return self.loop.history(replace(situation, beside=beside, reply=reply))

    def refused(
        self,
        session: Session | Conversation,
        *,
        prompt_tokens: int,
        sent: int | None = None,
        budget: int | None = None,
        model: ModelIdentity | str | None = None,
        beside: int | None = None,
    ) -> None:
        """Learn that a provider refused a prompt as too long, by its own count of it.

        `sent` is our estimate of its messages; without it, of the prompt that was assembled last.
        """
        situation = self._situation(session, budget, model=name_of(model))
        situation = replace(situation, beside=beside)
        assembled = self._sent.pop(situation.conversation.id, None)
        sent = assembled if sent is None else sent
        with self.archive.writing():
            learn(self.archive, situation, prompt_tokens, sent, self._clock(), was_refused=True)

    def reply_reserve(self, session: Session | Conversation, window: int, most_output: int = 0) -> int:
        """What of a window is kept for the reply, by what the replies of the session have taken."""
        found = self._find(session)
        kept = None if found is None else self.archive.guards.history(found.id)
        return reply_reserve(kept, window, most_output)

    def capacity(
        self, session: Session | Conversation, *, budget: int | None = None, model: ModelIdentity | str | None = None
    ) -> int:
        """How many tokens, by our estimate, a prompt may have: `history_budget(…).tokens`."""
        return self.history_budget(session, budget=budget, model=model).tokens

    def learn(self, model: str, estimated: int, reported: int, *, refused: bool = False) -> None:
        """Record how many tokens a model's provider counted in a prompt of so many by our estimate, or refused."""
        with self.archive.writing():
            teach(self.archive, model, estimated, reported, self._clock(), refused=refused)

    def _learn(self, situation: Situation, seen: Observation, sent: int | None = None) -> None:
        """Record what the provider reported, and what it says about its tokenizer."""
        id_, now = situation.conversation.id, self._clock()
        assembled = self._sent.pop(id_, None)
        sent = assembled if sent is None else sent
        with self.archive.writing():
            self.archive.debts.observe(id_, seen, self.archive.context_tokens(id_), now)
            if seen.prompt_tokens:
                learn(self.archive, situation, seen.prompt_tokens, sent, now)
            if seen.output_tokens:
                replied(self.archive, id_, seen.output_tokens, now)

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


def name_of(model: ModelIdentity | str | None) -> str | None:
    """A model by its name."""
    return f"{model.provider}/{model.model}" if isinstance(model, ModelIdentity) else model


def session_of(who: Session | Conversation) -> Session:
    """The host's name for a conversation."""
    return who.session if isinstance(who, Conversation) else who
