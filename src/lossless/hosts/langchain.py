"""LangChain: a middleware that keeps a thread's messages and fits what each model call sees.

agent = create_agent(model, tools, middleware=[LosslessMiddleware(engine)], checkpointer=InMemorySaver())
agent.invoke({"messages": [...]}, {"configurable": {"thread_id": "support:42"}})
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lossless import formats
from lossless.context.render import RECALL_POLICY
from lossless.hosts import adapter
from lossless.hosts.adapter import Raw, WindowSync
from lossless.providers.token_limits import overhead_tokens
from lossless.recall.tools import TOOLS

with adapter.extra("langchain"):
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core import messages as lc_messages
    from langchain_core.tools import StructuredTool
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langgraph.config import get_config

if TYPE_CHECKING:
    from lossless.engine import Engine
    from lossless.model.conversations import Session
    from lossless.model.messages import Message


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
            self._windows.refused(session, error, *_overhead_and_model(request))
            raise
        self._keep(session, request, response)
        return response

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        session = current_session()
        fitted = await asyncio.to_thread(self._fitted, session, request)
        try:
            response = await handler(fitted)
        except Exception as error:
            await asyncio.to_thread(self._windows.refused, session, error, *_overhead_and_model(request))
            raise
        await asyncio.to_thread(self._keep, session, request, response)
        return response

    def _fitted(self, session: Session, request: Any) -> Any:
        fitting = self._windows.fit(session, self._window(request), *_overhead_and_model(request))
        system = request.system_message.text if request.system_message else ""
        policy = lc_messages.SystemMessage(f"{system}\n\n{RECALL_POLICY}".strip())
        if fitting is None:
            return request.override(system_message=policy)
        return request.override(system_message=policy, messages=to_langchain(self._windows, fitting))

    def _keep(self, session: Session, request: Any, response: Any) -> None:
        replies = list(getattr(response, "result", None) or [response])
        counted = getattr(replies[0], "usage_metadata", None) or {}
        messages = [*self._window(request), *from_langchain(self._windows, replies)]
        self._windows.turn(session, messages, counted.get("input_tokens"), *_overhead_and_model(request))

    def _window(self, request: Any) -> list[Raw]:
        head = [request.system_message] if request.system_message else []
        return from_langchain(self._windows, [*head, *request.messages])


def _overhead_and_model(request: Any) -> tuple[int, str | None]:
    """The tokens sent besides the thread's messages (the policy that we add, and the tools), and the model's name."""
    names = (getattr(request.model, name, None) for name in ("model_name", "model", "model_id"))
    model = next((name for name in names if isinstance(name, str) and name), None)
    return overhead_tokens(RECALL_POLICY, sent_tools(request.tools or ())), model


def recall_tools(windows: WindowSync) -> list[StructuredTool]:
    """The recall tools; they look into the thread that calls them."""
    return [_tool(windows, tool.name, tool.help, tool.schema) for tool in TOOLS]


def _tool(windows: WindowSync, name: str, help: str, schema: Raw) -> StructuredTool:
    def call(**arguments: Any) -> str:
        return windows.call(current_session(), name, arguments)

    async def acall(**arguments: Any) -> str:
        return await asyncio.to_thread(windows.call, current_session(), name, arguments)

    return StructuredTool(name=name, description=help, args_schema=schema, func=call, coroutine=acall)


#: Who speaks in OpenAI's API.
_ROLES = ("system", "developer", "user", "assistant", "tool")
#: Blocks that are shown as they are, where they can be.
_MEDIA = ("image", "image_url", "audio", "input_audio", "file")
#: Blocks that are not speech: thoughts, and calls, which a message has elsewhere.
_UNSAID = (
    "thinking", "redacted_thinking", "reasoning", "tool_use", "tool_call", "tool_call_chunk", "function_call"
)  # fmt: skip
_TOLD = ("title", "filename", "name", "url", "file_id", "mime_type")
THREAD_HINT = 'a config with {"configurable": {"thread_id": …}}'


def current_session() -> Session:
    """The thread that a graph is running for."""
    return adapter.required_session((get_config().get("configurable") or {}).get("thread_id"), THREAD_HINT)


def sent_tools(tools: Iterable[Any]) -> list[Raw]:
    return [tool if isinstance(tool, dict) else convert_to_openai_tool(tool) for tool in tools]


def from_langchain(windows: WindowSync, messages: Iterable[Any]) -> list[Raw]:
    """Chat messages, each with what it came from."""
    return [windows.carrying(_plain(message), _own(message)) for message in messages]


def _own(message: Any) -> Raw:
    """A message as LangChain writes it down, without its artifact: that is the program's, and never sent."""
    (own,) = lc_messages.messages_to_dict([message])
    return {"type": own["type"], "data": {name: own["data"][name] for name in own["data"] if name != "artifact"}}


def _plain(message: Any) -> Raw:
    """A message in words, pictures and calls; what else there is comes back with what it carries."""
    if isinstance(message.content, list):
        shown = [block for block in map(_block, message.content) if block]
        message = message.model_copy(update={"content": shown})
    made = dict(lc_messages.convert_to_openai_messages(message))
    return made if made["role"] in _ROLES else made | {"role": "user"}


def _block(block: Any) -> Raw | None:
    """A block as OpenAI's API has it; words for what it has no name for, nothing for thoughts and calls."""
    if not isinstance(block, dict):
        return adapter.text_block(str(block))
    kind = block.get("type")
    if kind in _UNSAID:
        return None
    if kind in _MEDIA:
        with suppress(ValueError, KeyError, TypeError):
            lc_messages.convert_to_openai_messages(lc_messages.HumanMessage([block]))
            return block
    return adapter.text_block(block["text"]) if isinstance(block.get("text"), str) else _named(block)


def _named(block: Raw) -> Raw:
    """A block for one that OpenAI's API has no name for: its words or its bytes, else what is known about it."""
    source, below = block.get("source"), block.get("content")
    source = source if isinstance(source, dict) else block
    kind, data = source.get("media_type") or source.get("mime_type"), source.get("base64") or source.get("data")
    if isinstance(data, str) and source.get("type") == "text":
        return adapter.text_block(data)
    if isinstance(data, str | bytes) and kind:
        return adapter.media_block(kind, data, block.get("title"))
    if isinstance(below, list):
        return adapter.text_block("\n".join(found["text"] for found in map(_block, below) if found and "text" in found))
    return adapter.mention_block(str(block.get("type") or "block"), *(block.get(name) for name in _TOLD))


def to_langchain(windows: WindowSync, messages: Iterable[Message]) -> list[Any]:
    """The thread's own messages where they stand for themselves, new ones for what we wrote or came another way."""
    made: list[Any] = []
    for message in messages:
        own = windows.own(message)
        if own is not None:
            made += lc_messages.messages_from_dict([own])
        elif message.tool_results or message.role == "assistant":
            made += lc_messages.convert_to_messages(formats.encode([message], "openai-chat"))
        elif message.role != "system":
            made.append(lc_messages.HumanMessage(message.content))
    return [message for message in made if not isinstance(message, lc_messages.SystemMessage)]
