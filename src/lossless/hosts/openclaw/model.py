"""The host's model and the host's sub-agents, as the engine asks them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lossless.errors import ModelTimeout
from lossless.hosts.openclaw.calls import MARGIN_SECONDS, Cancelled, current
from lossless.hosts.openclaw.peer import HostError
from lossless.llm.normalise import completion
from lossless.recall.delegate import DelegateError

if TYPE_CHECKING:
    from lossless.hosts.openclaw.peer import Peer
    from lossless.llm.base import Completion, Prompt
    from lossless.recall.delegate import Task
    from lossless.settings import Settings

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
        seconds, call = self.settings.summary_timeout_ms / 1000, current.get()
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
        except Cancelled as error:
            raise ModelTimeout(str(error)) from None
        if not isinstance(answer, dict):
            raise ModelRefused("the host has no model to offer", "unavailable")
        return completion(answer, f"{answer.get('provider') or 'host'}/{answer.get('model') or 'model'}")

    def _named(self, purpose: str) -> str | None:
        """The model that the settings name for a purpose, as `provider/model`; None leaves it to the host."""
        of = self.settings
        provider, model = {
            "file": (of.large_file_summary_provider, of.large_file_summary_model),
            "answer": (of.expansion_provider, of.expansion_model),
        }.get(purpose, (of.summary_provider, of.summary_model))
        return full_name(provider, model)


def full_name(provider: str, model: str) -> str | None:
    """`provider/model`; a model that names its provider itself stays as it is.

    >>> full_name("anthropic", "claude-x"), full_name("a", "b/c"), full_name("", "")
    ('anthropic/claude-x', 'b/c', None)
    """
    model, provider = model.strip(), provider.strip()
    return None if not model else model if "/" in model or not provider else f"{provider}/{model}"


class SubAgents:
    """Has a task done by one of the host's sub-agents."""

    def __init__(self, peer: Peer, settings: Settings) -> None:
        self._peer = peer
        self._model = full_name(settings.expansion_provider, settings.expansion_model)
        #: Set when the host cannot send sub-agents from here, so that a model should read instead.
        self.is_missing = False

    def __call__(self, task: Task, /) -> str | None:
        params = {
            "sessionKey": task.session_key,
            "message": task.text,
            "model": self._model,
            "timeoutMs": int(task.seconds * 1000),
        }
        try:
            done = self._peer.ask("subagent.run", params, task.seconds + _GRACE_SECONDS)
        except (HostError, Cancelled) as error:
            raise DelegateError(str(error), "spawn") from None
        if done.get("missing"):
            self.is_missing = True
        if done.get("error"):
            raise DelegateError(str(done["error"]), done.get("phase") or "wait")
        text = done.get("text")
        return text if isinstance(text, str) else None
