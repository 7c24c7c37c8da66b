"""Hermes Agent: a context engine, found through the entry point `hermes_agent.plugins`.

plugins: {enabled: [lcm]} and context: {engine: lcm} in Hermes' configuration switch it on.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from agent.context_engine import ContextEngine

from lossless.engine import Engine, open_engine
from lossless.model.conversations import Session
from lossless.model.tokens import estimate_tokens
from lossless.recall.tools import openai_tools

if TYPE_CHECKING:
    from pathlib import Path

Raw = dict[str, Any]


class LosslessEngine(ContextEngine):
    """Compresses by folding: what leaves the window stays in the archive, and the tools bring it back."""

    def __init__(self, archive: str | Path | Engine | None = None) -> None:
        self._archive = archive
        self._engine = archive if isinstance(archive, Engine) else None
        self._session = Session(key="hermes")

    @property
    def name(self) -> str:
        return "lcm"

    @property
    def engine(self) -> Engine:
        """The engine, opened at first use."""
        if self._engine is None:
            assert not isinstance(self._archive, Engine)
            self._engine = open_engine(self._archive)
        return self._engine

    def __deepcopy__(self, memo: dict[int, Any]) -> LosslessEngine:
        """The host copies an engine for each agent: a session of its own on the same archive."""
        made = type(self)(self._engine or self._archive)
        made.__dict__ |= {key: value for key, value in vars(self).items() if key not in ("_engine", "_archive")}
        memo[id(self)] = made
        return made

    def on_session_start(self, session_id: str, **details: Any) -> None:
        """Turns are kept under the conversation's id, else the session's."""
        self._session = Session(key=f"hermes:{details.get('conversation_id') or session_id}", id=session_id)
        if details.get("context_length"):
            self.update_model(str(details.get("model") or ""), int(details["context_length"]))

    def on_session_end(self, session_id: str, messages: list[Raw]) -> None:  # noqa: ARG002
        """Keep what was said since the last look."""
        if messages:
            self._keep(messages)

    def update_from_response(self, usage: Raw) -> None:
        """What the provider counted."""
        self.last_prompt_tokens = int(usage.get("prompt_tokens") or 0)
        self.last_completion_tokens = int(usage.get("completion_tokens") or 0)
        self.last_total_tokens = int(usage.get("total_tokens") or 0)

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Whether the prompt has grown over the threshold."""
        tokens = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        return bool(self.threshold_tokens) and tokens >= self.threshold_tokens

    def should_compress_preflight(self, messages: list[Raw]) -> bool:
        """The same by an estimate, before a request."""
        return self.should_compress(estimate_tokens(json.dumps(messages, ensure_ascii=False, default=str)))

    def compress(
        self,
        messages: list[Raw],
        current_tokens: int | None = None,  # noqa: ARG002
        focus_topic: str | None = None,
        force: bool = False,
        memory_context: str = "",  # noqa: ARG002
    ) -> list[Raw]:
        """Keep the messages, fold what is old, and give back what fits."""
        self._keep(messages)
        budget = self.threshold_tokens or None
        self.engine.compact(self._session, budget=budget, force=force)
        made = self.engine.assemble(self._session, budget=budget, prompt=focus_topic, allow_trailing_assistant=True)
        self.compression_count += 1
        return made.messages

    def get_tool_schemas(self) -> list[Raw]:
        """The recall tools."""
        return [tool["function"] for tool in openai_tools()]

    def handle_tool_call(self, name: str, args: Raw, **details: Any) -> str:
        """Answer a recall tool, as JSON; what is new in the window can be found by it."""
        if details.get("messages"):
            self._keep(details["messages"])
        result = self.engine.call_tool(name, args, session=self._session)
        return result.text if result.is_error else json.dumps({"result": result.text}, ensure_ascii=False)

    def update_model(self, model: str, context_length: int, *_: Any, **__: Any) -> None:  # noqa: ARG002
        """Another model, another window."""
        self.context_length = context_length
        self.threshold_tokens = int(context_length * self.threshold_percent)

    def _keep(self, messages: list[Raw]) -> None:
        budget, tokens = self.context_length or None, self.last_prompt_tokens or None
        self.engine.after_turn(self._session, window=messages, budget=budget, observed_tokens=tokens)


def register(ctx: Any) -> None:
    """What Hermes calls when the plugin is enabled."""
    ctx.register_context_engine(LosslessEngine())
