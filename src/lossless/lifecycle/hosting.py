"""What hosts need besides the verbs of an engine: budgets, what providers report, sub-agents, ended sessions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lossless.compaction.history import learn, reply_reserve, teach
from lossless.desk import name_of
from lossless.lifecycle import sessions
from lossless.model.conversations import as_session

if TYPE_CHECKING:
    from lossless.desk import EngineParts
    from lossless.model.conversations import Conversation, Session, SessionRef
    from lossless.model.history import HistoryBudget
    from lossless.model.messages import ModelIdentity
    from lossless.store.grants import Grant


class HostSupport:
    """`engine.host`: how much room a prompt has, what providers said of it, and how sessions and sub-agents end."""

    def __init__(self, parts: EngineParts) -> None:
        self._parts = parts

    def history_budget(
        self,
        session: SessionRef,
        *,
        budget: int | None = None,
        model: ModelIdentity | str | None = None,
        beside: int | None = None,
        reply: int | None = None,
    ) -> HistoryBudget:
        """How much of a prompt is the conversation's: `.tokens`, by our estimate, and what it was computed from."""
        situation = self._parts.request(session, budget, model=name_of(model))
        return self._parts.loop.history(replace(situation, beside=beside, reply=reply))

    def refused(
        self,
        session: SessionRef,
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
        situation = self._parts.request(session, budget, model=name_of(model))
        situation = replace(situation, beside=beside)
        assembled = self._parts.sent.pop(situation.conversation.id, None)
        sent = assembled if sent is None else sent
        with self._parts.archive.writing():
            learn(self._parts.archive, situation, prompt_tokens, sent, self._parts.clock(), was_refused=True)

    def reply_reserve(self, session: SessionRef, window: int, most_output: int = 0) -> int:
        """What of a window is kept for the reply, by what the replies of the session have taken."""
        found = self._parts.find(session)
        kept = None if found is None else self._parts.archive.guards.history(found.id)
        return reply_reserve(kept, window, most_output)

    def capacity(
        self, session: SessionRef, *, budget: int | None = None, model: ModelIdentity | str | None = None
    ) -> int:
        """How many tokens, by our estimate, a prompt may have: `history_budget(…).tokens`."""
        return self.history_budget(session, budget=budget, model=model).tokens

    def learn(self, model: str, estimated: int, reported: int, *, refused: bool = False) -> None:
        """Record how many tokens a model's provider counted in a prompt of so many by our estimate, or refused."""
        with self._parts.archive.writing():
            teach(self._parts.archive, model, estimated, reported, self._parts.clock(), refused=refused)

    def end(self, session: Session | str, reason: str) -> Conversation | None:
        """A host says that a session has ended: restarts change nothing, `deleted` closes it, others begin afresh."""
        if self._parts.no_writes(session) is not None:
            return None
        return sessions.end(self._parts.archive, as_session(session), reason, self._parts.clock())

    def subagent_starts(self, parent: Session | str, child: str) -> Grant | None:
        """Let a sub-agent read what its parent may read, until it ends; None when there is nothing to read."""
        from lossless.recall.grants import issue_for_child

        parent = as_session(parent)
        family = [] if self._parts.no_writes(parent) else self._parts.archive.conversations.family(parent)
        if not family:
            return None
        ids = [conversation.id for conversation in family]
        limit = self._parts.settings.max_expand_tokens
        return issue_for_child(self._parts.archive, parent.name, child, ids, limit, self._parts.clock())

    def subagent_ended(self, child: str, *, deleted: bool = False) -> None:
        """A sub-agent has ended, and with it what it may read."""
        from lossless.recall.grants import end_child

        end_child(self._parts.archive, child, self._parts.clock(), deleted=deleted)
