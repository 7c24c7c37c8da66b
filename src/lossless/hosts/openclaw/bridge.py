"""What every call of the plugin needs: the engine, the host's parameters, models, budgets and sub-agents."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lossless.errors import ModelTimeout
from lossless.hosts.openclaw.rpc import MARGIN_SECONDS, CallCancelled, HostError, Peer, PluginCall, current_call
from lossless.llm.response import parse_completion
from lossless.model.conversations import Session, matches_any
from lossless.recall.delegate import DelegateError, DelegateTask

if TYPE_CHECKING:
    from lossless.engine import Engine
    from lossless.llm.completion import Complete, Completion, Prompt
    from lossless.settings import Settings

#: Sessions whose budget and model are remembered; the oldest are forgotten.
_REMEMBERED = 1_000


@dataclass(slots=True)
class SessionState:
    """What the host has said about a session: its model, and how many tokens a prompt may have."""

    #: As `provider/model`; some calls name it, and it holds for the others until another is named.
    model: str | None = None
    context_window: int | None = None
    #: The smallest and the largest budget of this turn.
    smallest: int | None = None
    offered: int | None = None
    #: The largest that holds: that of the turn before until a larger one is named.
    largest: int | None = None
    #: What the first prompt of the turn has by our estimate, until it is over.
    sent: int | None = None
    #: The texts of our own that prompts of this turn have had: the host hands them back in its window.
    rendered: frozenset[str] = frozenset()
    #: What prompts with these summaries leave free for the steps of a turn.
    reserved: int = 0
    epoch: str = ""


@dataclass(frozen=True, slots=True)
class Bridge:
    """The engine behind one plugin, and what the plugin says about the host that it runs in."""

    engine: Engine
    peer: Peer
    version: str = ""
    has_subagents: bool = False
    state_dir: str | None = None
    #: Whether the host lets the plugin add to system prompts; where not, the assembled prompt brings it along.
    adds_policy: bool = True
    sessions: dict[str, SessionState] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin_turn(self, session: Session) -> None:
        with self.state(session) as state:
            state.largest, state.smallest, state.offered = state.offered or state.largest, None, None
            state.rendered = frozenset()

    def limits(self, call: PluginCall) -> dict[str, Any]:
        """The budget and model of a session's turn, as arguments of the engine, now that a call says this about them.

        The host names what is left besides its system prompt when a turn begins, and the model's whole window from
        then on, as `promptBudget`; its `tokenBudget` then lacks what the turn has added so far. The smallest of a turn
        holds for all of it, so that a prompt neither overflows nor changes on the way; what it lacks of the largest is
        the host's frame. While no window is named, the budget counts as one.
        """
        offered, model = call.number("tokenBudget"), call.text("model")
        if offered is not None:
            offered = max(offered, call.number("promptBudget") or 0)
        with self.state(call.session) as state:
            if model not in (None, state.model):
                state.model, state.context_window = model, None
            state.context_window = call.number("contextWindow") or state.context_window
            if offered is not None:
                state.smallest = min(state.smallest or offered, offered)
                state.offered = max(state.offered or 0, offered)
                state.largest = max(state.largest or 0, offered)
            return {
                "budget": state.largest,
                "overhead": None if state.largest is None else state.largest - (state.smallest or state.largest),
                "model": state.model,
                "context_window": state.context_window or call.number("promptBudget"),
            }

    def take_sent(self, session: Session) -> int | None:
        """The estimate of the turn's first prompt, which is then forgotten."""
        with self.state(session) as state:
            sent, state.sent = state.sent, None
            return sent

    @contextmanager
    def state(self, session: Session) -> Iterator[SessionState]:
        """What is known about a session, for this thread alone as long as it looks."""
        with self.lock:
            while len(self.sessions) > _REMEMBERED:
                del self.sessions[next(iter(self.sessions))]
            yield self.sessions.setdefault(session.name, SessionState())


def is_ignored(settings: Settings, session: Session) -> bool:
    """Whether a session is none of our business, so that the host's own ways hold for it."""
    return not settings.enabled or matches_any(session.name, settings.ignore_session_patterns)


#: What the plugin may take beyond the time that it was given, before it is not waited for any more.
_GRACE_SECONDS = 5.0


def host_model(peer: Peer, settings: Settings) -> Complete:
    """Prompts to the host's model: that of the call that is being worked on, else the plugin's own."""

    def ask(prompt: Prompt, /) -> Completion:
        seconds, call = settings.summary_timeout_ms / 1000, current_call.get()
        if call is not None and (remaining := call.left(MARGIN_SECONDS)) is not None:
            seconds = min(seconds, remaining)
        if seconds <= 0:
            raise ModelTimeout("the host's time for the call is over")
        provider, model = {
            "file": (settings.large_file_summary_provider, settings.large_file_summary_model),
            "answer": (settings.expansion_provider, settings.expansion_model),
        }.get(prompt.purpose, (settings.summary_provider, settings.summary_model))
        params: dict[str, Any] = {
            "system": prompt.system,
            "user": prompt.user,
            "maxTokens": prompt.max_tokens,
            "temperature": prompt.temperature,
            "reasoning": prompt.reasoning,
            "purpose": f"lossless {prompt.purpose}",
            "model": qualified_model(provider, model),
            "timeoutMs": int(seconds * 1000),
        }
        try:
            answer = peer.ask("llm.complete", params, seconds)
        except CallCancelled as error:
            raise ModelTimeout(str(error)) from None
        if not isinstance(answer, dict):
            raise HostError("the host has no model to offer", "unavailable")
        return parse_completion(answer, f"{answer.get('provider') or 'host'}/{answer.get('model') or 'model'}")

    return ask


def qualified_model(provider: str, model: str) -> str | None:
    """`provider/model`; a model that names its provider itself stays as it is.

    >>> qualified_model("anthropic", "claude-x"), qualified_model("a", "b/c"), qualified_model("", "")
    ('anthropic/claude-x', 'b/c', None)
    """
    model, provider = model.strip(), provider.strip()
    return None if not model else model if "/" in model or not provider else f"{provider}/{model}"


def run_subagent(bridge: Bridge, task: DelegateTask) -> dict[str, Any]:
    """What the host says about a task that it gave to one of its sub-agents."""
    settings = bridge.engine.settings
    params = {
        "sessionKey": task.session_key,
        "message": task.text,
        "model": qualified_model(settings.expansion_provider, settings.expansion_model),
        "timeoutMs": int(task.seconds * 1000),
    }
    try:
        done: dict[str, Any] = bridge.peer.ask("subagent.run", params, task.seconds + _GRACE_SECONDS)
    except (HostError, CallCancelled) as error:
        raise DelegateError(str(error), "spawn") from None
    return done
