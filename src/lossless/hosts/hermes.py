"""Hermes Agent: a context engine, found through the entry point `hermes_agent.plugins`.

plugins: {enabled: [lcm]} and context: {engine: lcm} in Hermes' configuration switch it on.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lossless.engine import Engine, open_engine
from lossless.hosts import adapter
from lossless.model.conversations import Session
from lossless.providers.token_limits import recall_result, recall_tool_tokens, window_tokens
from lossless.recall.tools import openai_tools

with adapter.extra("hermes"):
    from agent.context_engine import ContextEngine

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.hosts.adapter import Raw


class LosslessEngine(ContextEngine):
    """Compresses by folding: what leaves the window stays in the archive, and the tools bring it back."""

    def __init__(self, archive: str | Path | Engine | None = None) -> None:
        self._archive = None if isinstance(archive, Engine) else archive
        self._engine = archive if isinstance(archive, Engine) else None
        self._session, self._model = Session(key="hermes"), ""
        #: The sizes of the session's last prompt, by our estimate and by the provider's count.
        self._last_prompt: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        return "lcm"

    @property
    def engine(self) -> Engine:
        """The engine, opened at first use."""
        if self._engine is None:
            self._engine = open_engine(self._archive)
        return self._engine

    def __deepcopy__(self, memo: dict[int, Any]) -> LosslessEngine:
        """The host copies an engine for each agent: a session of its own on the same archive."""
        made = type(self)(self._engine or self._archive)
        made.__dict__ |= {key: value for key, value in vars(self).items() if key not in ("_engine", "_archive")}
        memo[id(self)] = made
        return made

    def on_session_start(self, session_id: str, **details: Any) -> None:
        """Turns are kept under the conversation's id, else the session's; one that goes on keeps its name."""
        before, named = self._session, details.get("conversation_id")
        goes_on = not named and before.id is not None and before.id in (session_id, details.get("old_session_id"))
        self._session = Session(key=before.key if goes_on else f"hermes:{named or session_id}", id=session_id)
        self._last_prompt = self._last_prompt if goes_on else None
        if details.get("context_length"):
            self.update_model(str(details.get("model") or ""), int(details["context_length"]))

    def on_session_reset(self) -> None:
        """Start a new conversation; the conversation so far stays in the archive and in search."""
        super().on_session_reset()
        if self.engine.browse.find(self._session) is not None:
            self.engine.reset(self._session, cause="reset")

    def on_session_end(self, session_id: str, messages: list[Raw]) -> None:  # noqa: ARG002
        """Keep what was said since the last look."""
        self._keep(messages)

    def update_from_response(self, usage: Raw) -> None:
        for kind in ("prompt", "completion", "total"):
            setattr(self, f"last_{kind}_tokens", int(usage.get(f"{kind}_tokens") or 0))

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Whether the prompt has grown over the threshold."""
        return 0 < self.threshold_tokens <= (self.last_prompt_tokens if prompt_tokens is None else prompt_tokens)

    def should_compress_preflight(self, messages: list[Raw]) -> bool:
        """The same by an estimate, before a request."""
        return self.should_compress(window_tokens(messages))

    def compress(
        self, messages: list[Raw], current_tokens: int | None = None, focus_topic: str | None = None,
        force: bool = False, memory_context: str = "",  # noqa: ARG002
    ) -> list[Raw]:  # fmt: skip
        """Keep the messages, fold what is old, and give back what fits besides the host's own prompt and tools."""
        self._keep(messages)
        limit, frame = self.threshold_tokens, recall_tool_tokens(policy=False)
        if current_tokens is not None:  # a whole prompt was counted
            frame = max(current_tokens - window_tokens(messages), 0)
        budget = max(limit - frame, limit // 4) or None
        self.engine.compact(self._session, budget=budget, force=force)
        asked: Raw = {"prompt": focus_topic, "model": self._model or None, "allow_trailing_assistant": True}
        made = self.engine.assemble(self._session, budget=budget, **asked)
        self.compression_count += 1
        adapter.warn_over_budget(made.receipt.over, made.receipt.why_over)
        return made.messages

    def get_tool_schemas(self) -> list[Raw]:
        return [tool["function"] for tool in openai_tools()]

    def handle_tool_call(self, name: str, args: Raw, **details: Any) -> str:
        """Answer a recall tool, as JSON, and leave room for more; what is new in the window can be found by it."""
        self._keep(details.get("messages"))
        size = self.context_length or self.engine.settings.default_token_budget
        found = recall_result(self.engine, self._session, name, args, size // adapter.ANSWER_SHARE)
        return found.text if found.is_error else json.dumps({"result": found.text}, ensure_ascii=False)

    def update_model(self, model: str, context_length: int, *_: Any, **__: Any) -> None:
        self._model, self.context_length, self._last_prompt = model, context_length, None
        self.threshold_tokens = int(context_length * self.threshold_percent)

    def _keep(self, messages: list[Raw] | None) -> None:
        if messages:
            budget, tokens = self.context_length or None, self.last_prompt_tokens or None
            window, model = adapter.split_joined(self.engine, self._session, messages), self._model or None
            self.engine.after_turn(self._session, window=window, budget=budget, observed_tokens=tokens, model=model)
            if model and tokens:
                sizes = window_tokens(messages), tokens, self._last_prompt
                self._last_prompt = adapter.learn_growth(self.engine, self._session, model, *sizes)


def register(ctx: Any) -> None:
    """What Hermes calls when the plugin is enabled."""
    ctx.register_context_engine(LosslessEngine())
