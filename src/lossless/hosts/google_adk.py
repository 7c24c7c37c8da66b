"""Google ADK: a plugin that keeps a session's contents and fits what each model request sees.

app = App(name="port", root_agent=agent, plugins=[LosslessPlugin(engine, budget=128_000)])
runner = InMemoryRunner(app=app)
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from lossless.context.render import RECALL_POLICY
from lossless.hosts.adapter import WindowSync, extra
from lossless.model.conversations import Session
from lossless.providers.token_limits import overhead_tokens

with extra("google-adk"):
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools.base_tool import BaseTool
    from google.genai import types

    from lossless.hosts.google_messages import AgentView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.engine import Engine
    from lossless.recall.tools import Tool

#: So many requests are remembered at once.
_MOST_SENT = 1_000


class LosslessPlugin(BasePlugin):
    """Keeps sessions in an archive, by app, user and session id, and gives the model the recall tools.

    All agents of a session have one history. One that is shown only a part of it (it runs in parallel, on a task of
    its own, or without earlier turns) has a session of its own, named after it.
    """

    def __init__(self, engine: Engine, *, budget: int | None = None, name: str = "lossless") -> None:
        super().__init__(name=name)
        self._windows = WindowSync(engine, "google-adk", budget)
        #: What the last request of each agent in a run said.
        self._sent: dict[tuple[str, str], list[Any]] = {}
        #: What is sent besides the contents, by agent, in tokens.
        self._overhead: dict[str, int] = {}
        #: The model of each agent.
        self._model: dict[str, str | None] = {}

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """Keep what the request says, and fit it; the session's events stay as they are."""
        view = self._view(callback_context, llm_request.contents)
        self._sent[callback_context.invocation_id, callback_context.agent_name] = list(llm_request.contents)
        if len(self._sent) > _MOST_SENT:  # a run that was cancelled never ends
            del self._sent[next(iter(self._sent))]
        llm_request.append_instructions([RECALL_POLICY])
        llm_request.append_tools([RecallTool(self, tool) for tool in self._windows.tools])
        overhead = _overhead_tokens(llm_request.config)
        self._overhead[callback_context.agent_name] = overhead
        self._model[callback_context.agent_name] = model = llm_request.model or None
        fitting = await asyncio.to_thread(self._windows.fit, _session(callback_context), view.window, overhead, model)
        if fitting is not None:
            llm_request.contents = view.given_back(fitting)

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        """Keep the reply, once it is whole."""
        sent = self._sent.get((callback_context.invocation_id, callback_context.agent_name))
        if sent is None or llm_response.partial or llm_response.content is None:
            return
        sent.append(llm_response.content)
        counted = llm_response.usage_metadata
        tokens = counted.prompt_token_count if counted else None
        overhead = self._overhead.get(callback_context.agent_name, 0)
        view, model = self._view(callback_context, sent), self._model.get(callback_context.agent_name)
        await asyncio.to_thread(self._windows.turn, _session(callback_context), view.window, tokens, overhead, model)

    async def on_model_error_callback(self, *, callback_context: Any, llm_request: Any, error: Exception) -> None:
        """Learn from a request that was too long; the error stays what it is."""
        overhead = self._overhead.get(callback_context.agent_name, 0)
        session, model = _session(callback_context), llm_request.model or None
        await asyncio.to_thread(self._windows.refused, session, error, overhead, model)

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        """Forget the run's requests."""
        for key in [key for key in self._sent if key[0] == invocation_context.invocation_id]:
            del self._sent[key]

    def _view(self, context: Any, contents: Sequence[Any]) -> AgentView:
        return AgentView(self._windows, contents, context.session.events)

    def answer(self, context: Any, name: str, args: dict[str, Any]) -> str:
        """What a recall tool finds in the session of the agent that asks."""
        return self._windows.call(_session(context), name, args)


class RecallTool(BaseTool):
    """One of the recall tools."""

    def __init__(self, plugin: LosslessPlugin, tool: Tool) -> None:
        super().__init__(name=tool.name, description=tool.help)
        self._plugin, self._schema = plugin, tool.schema

    def _get_declaration(self) -> Any:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self._schema
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        """Answer as an agent of the session would get it."""
        return {"result": await asyncio.to_thread(self._plugin.answer, tool_context, self.name, args)}


def _overhead_tokens(config: Any) -> int:
    """What is sent besides the contents: instructions and tools, ours among them."""
    system = config.system_instruction
    system = system if isinstance(system, str) or system is None else str(system)
    return overhead_tokens(system, [tool.model_dump(mode="json", exclude_none=True) for tool in config.tools or ()])


def _session(context: Any) -> Session:
    known, running = context.session, context.get_invocation_context()
    below = f":{running.agent.name}" if _is_apart(running) else ""
    return Session(key=f"adk:{known.app_name}:{known.user_id}:{known.id}{below}")


def _is_apart(running: Any) -> bool:
    """Whether an agent is shown only a part of the session, so that others' words are not missing there."""
    agent = running.agent
    is_scoped = running.branch or getattr(running, "isolation_scope", None)
    return bool(is_scoped) or getattr(agent, "include_contents", "default") == "none"
