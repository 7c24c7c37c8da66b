"""Pydantic AI: a capability that keeps every message of a run and fits what each model request sees.

agent = Agent(model, capabilities=[Lossless(engine, budget=128_000)])
agent.run_sync("hello", conversation_id="support:42")
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lossless.context.render import RECALL_POLICY
from lossless.hosts import adapter
from lossless.hosts.adapter import Raw, WindowSync
from lossless.providers.token_limits import overhead_tokens
from lossless.recall.tools import TOOLS

with adapter.extra("pydantic-ai"):
    from pydantic_ai import Tool, messages
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest, ModelResponse
    from pydantic_ai.toolsets import FunctionToolset

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import ModelRequestContext

    from lossless.engine import Engine
    from lossless.model.conversations import Session
    from lossless.model.messages import Message


@dataclass
class Lossless(AbstractCapability[Any]):
    """Keeps runs in an archive, by their `conversation_id`, and gives the model the recall tools."""

    engine: Engine
    budget: int | None = None
    windows: WindowSync = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.windows = WindowSync(self.engine, "pydantic-ai", self.budget)

    def get_instructions(self) -> str:
        """How to read summaries, and when to use the tools."""
        return RECALL_POLICY

    def get_toolset(self) -> FunctionToolset[Any]:
        return FunctionToolset([self._tool(tool.name, tool.help, tool.schema) for tool in TOOLS])

    async def prepare_model_request(self, ctx: RunContext[Any], request_context: ModelRequestContext) -> Any:
        """What the model sees: all of it while it fits; the history of the run stays as it is."""
        window = list(from_pydantic(self.windows, request_context.messages))
        sent = _overhead_and_model(request_context)
        fitting = await asyncio.to_thread(self.windows.fit, _session(ctx), window, *sent)
        if fitting is None:
            return request_context
        return replace(request_context, messages=to_pydantic(self.windows, fitting))

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        window = list(from_pydantic(self.windows, [*ctx.messages, response]))
        counted, sent = response.usage.input_tokens, _overhead_and_model(request_context)
        await asyncio.to_thread(self.windows.turn, _session(ctx), window, counted, *sent)
        return response

    async def on_model_request_error(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, error: Exception
    ) -> ModelResponse:
        """Learn from a request that was too long; the error stays what it is."""
        await asyncio.to_thread(self.windows.refused, _session(ctx), error, *_overhead_and_model(request_context))
        raise error

    def _tool(self, name: str, help: str, schema: Raw) -> Tool[Any]:
        async def call(ctx: RunContext[Any], **arguments: Any) -> str:
            return await asyncio.to_thread(self.windows.call, _session(ctx), name, arguments)

        return Tool.from_schema(call, name, help, schema, takes_ctx=True)


def _session(ctx: RunContext[Any]) -> Session:
    return adapter.required_session(ctx.conversation_id, "conversation_id=… to the run")


def _overhead_and_model(request: ModelRequestContext) -> tuple[int, str | None]:
    """The tokens sent besides the messages (instructions, ours among them, and tools), and the model's name."""
    given = request.model_request_parameters
    words = next((one.instructions for one in reversed(request.messages) if isinstance(one, ModelRequest)), None)
    tools = adapter.tool_definitions([*given.function_tools, *given.output_tools])
    return overhead_tokens(words, tools), getattr(request.model, "model_name", None) or None


def from_pydantic(windows: WindowSync, history: Iterable[ModelMessage]) -> Iterator[Raw]:
    """Chat messages: one for each part of a request, one for a response; each carries what it came from."""
    for message in history:
        if isinstance(message, ModelResponse):
            yield windows.carrying(_response(message), _dumped(message))
            continue
        for part in message.parts:
            yield windows.carrying(_request_part(part), _dumped(replace(message, parts=[part])))


def _dumped(message: ModelMessage) -> Any:
    return ModelMessagesTypeAdapter.dump_python([message], mode="json", fallback=str)[0]


def _response(message: ModelResponse) -> Raw:
    calls = []
    for part in message.parts:
        if isinstance(part, messages.ToolCallPart):
            function = {"name": part.tool_name, "arguments": part.args_as_json_str()}
            calls.append({"id": part.tool_call_id, "type": "function", "function": function})
    files = [_block(part.content) for part in message.parts if isinstance(part, messages.FilePart)]
    content = adapter.chat_content([*([adapter.text_block(message.text)] if message.text else []), *files])
    made = {"role": "assistant", "content": content or (None if calls else "")}
    return made | ({"tool_calls": calls} if calls else {})


def _request_part(part: Any) -> Raw:
    if isinstance(part, messages.SystemPromptPart):
        return {"role": "system", "content": part.content}
    if isinstance(part, messages.RetryPromptPart) and part.tool_name is None:
        return {"role": "user", "content": part.model_response()}
    if isinstance(part, messages.ToolReturnPart | messages.RetryPromptPart):
        content = part.model_response_str() if isinstance(part, messages.ToolReturnPart) else part.model_response()
        return {"role": "tool", "tool_call_id": part.tool_call_id, "name": part.tool_name, "content": content}
    given = getattr(part, "content", "")
    return {"role": "user", "content": given if isinstance(given, str) else adapter.chat_content(map(_block, given))}


def _block(piece: Any) -> Raw:
    if isinstance(piece, str):
        return adapter.text_block(piece)
    if isinstance(piece, messages.BinaryContent):
        return adapter.media_block(piece.media_type, piece.data, piece.identifier)
    if isinstance(text := getattr(piece, "content", None), str):
        return adapter.text_block(text)
    known = (getattr(piece, name, None) for name in ("url", "file_id"))
    return adapter.mention_block(str(getattr(piece, "kind", "block")), *known)


def to_pydantic(windows: WindowSync, fitting: Iterable[Message]) -> list[ModelMessage]:
    """The run's own messages where they stand for themselves, new ones for what we wrote or came another way."""
    made: list[ModelMessage] = []
    for message in fitting:
        own = windows.own(message)
        if own is None and message.role == "system":
            continue  # a system prompt that came another way
        one = ModelMessagesTypeAdapter.validate_python([own])[0] if own else _written(message)
        if made and isinstance(one, ModelRequest) and isinstance(made[-1], ModelRequest):
            made[-1] = replace(one, parts=[*made[-1].parts, *one.parts])
        else:
            made.append(one)
    return made


def _written(message: Message) -> ModelMessage:
    if message.tool_results:
        result = message.tool_results[0]
        return ModelRequest([messages.ToolReturnPart(result.name or "tool", message.content, result.call_id or "")])
    if message.role == "assistant":
        calls = [messages.ToolCallPart(call.name, call.input, call.id or "") for call in message.tool_calls]  # type: ignore[arg-type]
        text = [messages.TextPart(message.content)] if message.content or not calls else []
        return ModelResponse([*text, *calls])
    return ModelRequest([messages.UserPromptPart(message.content)])
