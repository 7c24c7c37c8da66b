"""LangChain: a middleware that keeps a thread's messages and fits what each model call sees.

agent = create_agent(model, tools, middleware=[LosslessMiddleware(engine)], checkpointer=InMemorySaver())
agent.invoke({"messages": [...]}, {"configurable": {"thread_id": "support:42"}})
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from lossless.context.render import RECALL_POLICY
from lossless.hosts.adapter import Raw, WindowSync, extra
from lossless.providers.token_limits import overhead_tokens

with extra("langchain"):
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.messages import SystemMessage
    from langchain_core.tools import StructuredTool

    from lossless.hosts.langchain_messages import current_session, from_langchain, sent_tools, to_langchain

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lossless.engine import Engine
    from lossless.model.conversations import Session


class LosslessMiddleware(AgentMiddleware):
    """Keeps threads in an archive, by their `thread_id`, and gives the model the recall tools.

    Only what goes on the wire changes. The state, and with it the checkpointer, keeps every message.
    """

    def __init__(self, engine: Engine, *, budget: int | None = None) -> None:
        super().__init__()
        self._windows = WindowSync(engine, "langchain", budget)
        self.tools = recall_tools(self._windows)

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Keep the messages, fit the request, keep the reply."""
        session = current_session()
        fitted = self._fitted(session, request)
        try:
            response = handler(fitted)
        except Exception as error:
            self._refused(session, request, error)
            raise
        self._keep(session, request, response)
        return response

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """The same for async agents."""
        session = current_session()
        fitted = await asyncio.to_thread(self._fitted, session, request)
        try:
            response = await handler(fitted)
        except Exception as error:
            await asyncio.to_thread(self._refused, session, request, error)
            raise
        await asyncio.to_thread(self._keep, session, request, response)
        return response

    def _fitted(self, session: Session, request: Any) -> Any:
        fitting = self._windows.fit(session, self._window(request), _overhead_tokens(request), _model(request))
        system = request.system_message.text if request.system_message else ""
        policy = SystemMessage(f"{system}\n\n{RECALL_POLICY}".strip())
        if fitting is None:
            return request.override(system_message=policy)
        return request.override(system_message=policy, messages=to_langchain(self._windows, fitting))

    def _keep(self, session: Session, request: Any, response: Any) -> None:
        replies = list(getattr(response, "result", None) or [response])
        counted = getattr(replies[0], "usage_metadata", None) or {}
        messages = [*self._window(request), *from_langchain(self._windows, replies)]
        self._windows.turn(session, messages, counted.get("input_tokens"), _overhead_tokens(request), _model(request))

    def _refused(self, session: Session, request: Any, error: Exception) -> None:
        self._windows.refused(session, error, _overhead_tokens(request), _model(request))

    def _window(self, request: Any) -> list[Raw]:
        head = [request.system_message] if request.system_message else []
        return from_langchain(self._windows, [*head, *request.messages])


def _model(request: Any) -> str | None:
    """The name of the model, as far as it has one."""
    names = (getattr(request.model, name, None) for name in ("model_name", "model", "model_id"))
    return next((name for name in names if isinstance(name, str) and name), None)


def _overhead_tokens(request: Any) -> int:
    """What is sent besides the thread's messages: the policy that we add, and the tools."""
    return overhead_tokens(RECALL_POLICY, sent_tools(request.tools or ()))


def recall_tools(windows: WindowSync) -> list[StructuredTool]:
    """The recall tools; they look into the thread that calls them."""
    return [_tool(windows, tool.name, tool.help, tool.schema) for tool in windows.tools]


def _tool(windows: WindowSync, name: str, help: str, schema: Raw) -> StructuredTool:
    def call(**arguments: Any) -> str:
        return windows.call(current_session(), name, arguments)

    async def acall(**arguments: Any) -> str:
        return await asyncio.to_thread(windows.call, current_session(), name, arguments)

    return StructuredTool(name=name, description=help, args_schema=schema, func=call, coroutine=acall)
