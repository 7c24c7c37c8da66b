"""What every call of the plugin needs: the engine, the host's parameters, models, budgets and sub-agents."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput, ModelTimeout
from lossless.hosts.openclaw.rpc import MARGIN_SECONDS, CallCancelled, HostError, current_call
from lossless.llm.response import parse_completion
from lossless.model.conversations import Session, matches_any
from lossless.recall.delegate import DelegateError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lossless.engine import Engine
    from lossless.hosts.openclaw.rpc import Peer
    from lossless.llm.completion import Completion, Prompt
    from lossless.recall.delegate import DelegateTask
    from lossless.settings import Settings

#: Sessions whose budget and model are remembered; the oldest are forgotten.
_REMEMBERED = 1_000


@dataclass(frozen=True, slots=True)
class HostInfo:
    """What the plugin says about the host that it runs in."""

    version: str = ""
    #: Whether there is a model that can be asked at any time.
    has_model: bool = False
    has_subagents: bool = False
    state_dir: str | None = None
    #: Whether the host lets the plugin add to system prompts; where not, the assembled prompt brings it along.
    adds_policy: bool = True


@dataclass(frozen=True, slots=True)
class Bridge:
    """The engine behind one plugin."""

    engine: Engine
    peer: Peer
    host: HostInfo = field(default_factory=HostInfo)
    budgets: TurnBudgets = field(default_factory=lambda: TurnBudgets())
    models: SessionModels = field(default_factory=lambda: SessionModels())
    #: What the first prompt of each session's turn has by our estimate, until it is over.
    sent: dict[str, int] = field(default_factory=dict)

    def sending(self, session: Session, estimated: int) -> None:
        """A prompt is about to be sent."""
        self.sent.setdefault(session.name, estimated)
        _forget_oldest(self.sent)


@dataclass(frozen=True, slots=True)
class SessionModel:
    """The model of a session's turns: its name as `provider/model`, and how large its window is."""

    name: str | None = None
    window: int | None = None
    #: What counts as its window for as long as the host has named none: the budget of its prompts.
    budget: int | None = None


class SessionModels:
    """The model of each session. Hosts name it in some calls; it holds for the others until they name another."""

    def __init__(self) -> None:
        self._known: dict[str, SessionModel] = {}
        self._lock = threading.Lock()

    def of(self, session: Session, told: SessionModel) -> SessionModel:
        """The session's model, now that the host tells this about it."""
        with self._lock:
            known = self._known.get(session.name, SessionModel())
            same = told.name in (None, known.name)
            found = SessionModel(told.name or known.name, told.window or (known.window if same else None))
            self._known[session.name] = found
            _forget_oldest(self._known)
            return SessionModel(found.name, found.window or told.budget)


def _forget_oldest(remembered: dict[str, Any]) -> None:
    while len(remembered) > _REMEMBERED:
        del remembered[next(iter(remembered))]


@dataclass(frozen=True, slots=True)
class TurnBudget:
    """What a host gives to prompts, and what of it is taken by the frame that it puts around them."""

    window: int | None = None
    beside: int | None = None


class TurnBudgets:
    """The budget of each session's turn.

    The host names what is left beside its system prompt when a turn begins, and the model's whole window from
    then on. The smallest of a turn holds for all of it, so that a prompt neither overflows nor changes on the way;
    what it lacks of the largest is the host's frame.
    """

    def __init__(self) -> None:
        self._smallest: dict[str, int] = {}
        #: The largest of this turn, and the one that holds: that of the turn before until a larger one is named.
        self._offered: dict[str, int] = {}
        self._largest: dict[str, int] = {}
        self._lock = threading.Lock()

    def begin(self, session: Session) -> None:
        """A turn begins."""
        with self._lock:
            self._smallest.pop(session.name, None)
            if (offered := self._offered.pop(session.name, None)) is not None:
                self._largest[session.name] = offered

    def of(self, session: Session, offered: int | None) -> TurnBudget:
        """The budget of the turn, now that the host offers this."""
        with self._lock:
            if offered is not None:
                name = session.name
                self._smallest[name] = min(self._smallest.get(name, offered), offered)
                self._offered[name] = max(self._offered.get(name, offered), offered)
                self._largest[name] = max(self._largest.get(name, offered), offered)
                for remembered in (self._smallest, self._offered, self._largest):
                    _forget_oldest(remembered)
            window = self._largest.get(session.name)
            left = self._smallest.get(session.name, window)
            return TurnBudget(window, None if window is None or left is None else window - left)


def session_param(params: Mapping[str, Any]) -> Session:
    """The session that a call is about."""
    return Session(key=text_param(params, "sessionKey"), id=text_param(params, "sessionId"))


def lane_name(params: Mapping[str, Any]) -> str:
    """The name by which a session's calls are kept in order; the key, which outlives runs, goes before the id."""
    return text_param(params, "sessionKey") or text_param(params, "sessionId") or ""


def text_param(params: Mapping[str, Any], name: str) -> str | None:
    """A text that is not blank, else None."""
    value = params.get(name)
    return value if isinstance(value, str) and value.strip() else None


def int_param(params: Mapping[str, Any], name: str) -> int | None:
    """A positive whole number, else None."""
    value = params.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value >= 1 else None


def model_param(params: Mapping[str, Any]) -> SessionModel:
    """What a call says about the model of the turn."""
    return SessionModel(
        text_param(params, "model"), int_param(params, "contextWindow"), int_param(params, "promptBudget")
    )


def observed_tokens_param(params: Mapping[str, Any]) -> int | None:
    """How many tokens the host counts in its whole prompt, frame and tools included; None when it does not say."""
    return int_param(params, "currentTokenCount")


def messages_param(params: Mapping[str, Any], name: str = "messages") -> list[dict[str, Any]]:
    """The messages of a call; BadInput when it has none to offer."""
    found = params.get(name)
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise BadInput(f"{name} must be a list of messages")
    return found


def transcript_file(params: Mapping[str, Any]) -> Path | None:
    """The transcript when it is a file, as in OpenClaw up to 2026.7.1; later ones give a marker that is no path."""
    name = text_param(params, "sessionFile")
    return Path(name) if name is not None and os.path.isabs(name) else None


def transcript_target(params: Mapping[str, Any]) -> dict[str, str] | None:
    """Where the host keeps the transcript when it is no file: what its reader wants to know."""
    found = params.get("sessionTarget")
    if not isinstance(found, dict):
        return None
    named = {
        name: text_param(found, name) or text_param(params, name) for name in ("agentId", "sessionKey", "sessionId")
    }
    return {name: value for name, value in named.items() if value}


def is_ignored(settings: Settings, session: Session) -> bool:
    """Whether a session is none of our business, so that the host's own ways hold for it."""
    return not settings.enabled or matches_any(session.name, settings.ignore_session_patterns)


#: What the plugin may take beyond the time that it was given, before it is not waited for any more.
_GRACE_SECONDS = 5.0


class ModelRefused(Exception):
    """The host did not answer; `kind` is the name of its error, the text its reason."""

    def __init__(self, text: str, kind: str = "") -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class AskModel:
    """One prompt to the host's model: that of the call that is being worked on, else the plugin's own."""

    peer: Peer
    settings: Settings

    def __call__(self, prompt: Prompt, /) -> Completion:
        seconds, call = self.settings.summary_timeout_ms / 1000, current_call.get()
        if call is not None and (left := call.left(MARGIN_SECONDS)) is not None:
            seconds = min(seconds, left)
        if seconds <= 0:
            raise ModelTimeout("the host's time for the call is over")
        params: dict[str, Any] = {
            "system": prompt.system,
            "user": prompt.user,
            "maxTokens": prompt.max_tokens,
            "temperature": prompt.temperature,
            "reasoning": prompt.reasoning,
            "purpose": f"lossless {prompt.purpose}",
            "model": self._named(prompt.purpose),
            "timeoutMs": int(seconds * 1000),
        }
        try:
            answer = self.peer.ask("llm.complete", params, seconds)
        except HostError as error:
            raise ModelRefused(str(error), error.name) from None
        except CallCancelled as error:
            raise ModelTimeout(str(error)) from None
        if not isinstance(answer, dict):
            raise ModelRefused("the host has no model to offer", "unavailable")
        return parse_completion(answer, f"{answer.get('provider') or 'host'}/{answer.get('model') or 'model'}")

    def _named(self, purpose: str) -> str | None:
        """The model that the settings name for a purpose, as `provider/model`; None leaves it to the host."""
        of = self.settings
        provider, model = {
            "file": (of.large_file_summary_provider, of.large_file_summary_model),
            "answer": (of.expansion_provider, of.expansion_model),
        }.get(purpose, (of.summary_provider, of.summary_model))
        return qualified_model(provider, model)


def qualified_model(provider: str, model: str) -> str | None:
    """`provider/model`; a model that names its provider itself stays as it is.

    >>> qualified_model("anthropic", "claude-x"), qualified_model("a", "b/c"), qualified_model("", "")
    ('anthropic/claude-x', 'b/c', None)
    """
    model, provider = model.strip(), provider.strip()
    return None if not model else model if "/" in model or not provider else f"{provider}/{model}"


class SubAgents:
    """Has a task done by one of the host's sub-agents."""

    def __init__(self, peer: Peer, settings: Settings) -> None:
        self._peer = peer
        self._model = qualified_model(settings.expansion_provider, settings.expansion_model)
        #: Set when the host cannot send sub-agents from here, so that a model should read instead.
        self.is_missing = False

    def __call__(self, task: DelegateTask, /) -> str | None:
        params = {
            "sessionKey": task.session_key,
            "message": task.text,
            "model": self._model,
            "timeoutMs": int(task.seconds * 1000),
        }
        try:
            done = self._peer.ask("subagent.run", params, task.seconds + _GRACE_SECONDS)
        except (HostError, CallCancelled) as error:
            raise DelegateError(str(error), "spawn") from None
        if done.get("missing"):
            self.is_missing = True
        if done.get("error"):
            raise DelegateError(str(done["error"]), done.get("phase") or "wait")
        text = done.get("text")
        return text if isinstance(text, str) else None
