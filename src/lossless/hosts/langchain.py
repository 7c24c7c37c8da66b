"""LangChain and LangGraph: a middleware that keeps a thread's messages and fits what each model call sees.

agent = create_agent(model, tools, middleware=[LosslessMiddleware(engine)], checkpointer=InMemorySaver())
agent.invoke({"messages": [...]}, {"configurable": {"thread_id": "support:42"}})
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import (
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_openai_messages,
    messages_from_dict,
    messages_to_dict,
)
from langchain_core.tools import StructuredTool
from langgraph.config import get_config

from lossless.assembly.policy_text import RECALL_POLICY
from lossless.hosts.window import CARRIED, Raw, Windows, carried
from lossless.model.conversations import Session

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from lossless.engine import Engine
    from lossless.model.messages import Message


class LosslessMiddleware(AgentMiddleware):
    """Keeps threads in an archive, by their `thread_id`, and gives the model the recall tools.

    Only what goes on the wire changes. The state, and with it the checkpointer, keeps every message.
    """

    def __init__(self, engine: Engine, *, budget: int | None = None) -> None:
        super().__init__()
        self._windows = Windows(engine, budget)
        self.tools = [self._tool(tool.name, tool.help, tool.schema) for tool in self._windows.tools]

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Keep the messages, fit the request, keep the reply."""
        session = _session()
        response = handler(self._fitted(session, request))
        self._keep(session, request, response)
        return response

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """The same for async agents."""
        session = _session()
        response = await handler(await asyncio.to_thread(self._fitted, session, request))
        await asyncio.to_thread(self._keep, session, request, response)
        return response

    def _fitted(self, session: Session, request: Any) -> Any:
        window = _window(request)
        fitting = self._windows.fit(session, window)
        system = request.system_message.text if request.system_message else ""
        policy = SystemMessage(f"{system}\n\n{RECALL_POLICY}".strip())
        if fitting is None:
            return request.override(system_message=policy)
        return request.override(system_message=policy, messages=_given_back(fitting))

    def _keep(self, session: Session, request: Any, response: Any) -> None:
        replies = list(getattr(response, "result", None) or [response])
        counted = getattr(replies[0], "usage_metadata", None) or {}
        self._windows.turn(session, [*_window(request), *_chat(replies)], counted.get("input_tokens"))

    def _tool(self, name: str, help: str, schema: Raw) -> StructuredTool:
        def call(**arguments: Any) -> str:
            return self._windows.call(_session(), name, arguments)

        async def acall(**arguments: Any) -> str:
            return await asyncio.to_thread(self._windows.call, _session(), name, arguments)

        return StructuredTool(name=name, description=help, args_schema=schema, func=call, coroutine=acall)


def _session() -> Session:
    configurable = get_config().get("configurable") or {}
    return Session(key=str(configurable.get("thread_id") or "langchain"))


def _window(request: Any) -> list[Raw]:
    head = [request.system_message] if request.system_message else []
    return _chat([*head, *request.messages])


def _chat(messages: Iterable[Any]) -> list[Raw]:
    """Chat messages, each with what it came from."""
    made = []
    for message in messages:
        (own,) = messages_to_dict([message])
        chat: Raw = convert_to_openai_messages(message)
        made.append(chat | {CARRIED: own})
    return made


def _given_back(messages: Iterable[Message]) -> list[Any]:
    """The thread's own messages where they stand for themselves, new ones for what we wrote."""
    made: list[Any] = []
    for message in messages:
        own = carried(message)
        if own is not None:
            made += [one for one in messages_from_dict([own]) if not isinstance(one, SystemMessage)]
        elif message.tool_results:
            made.append(ToolMessage(message.content, tool_call_id=message.tool_results[0].call_id or ""))
        else:
            made.append(HumanMessage(message.content))
    return made
