"""Pydantic AI: a capability that keeps every message of a run and fits what each model request sees.

agent = Agent(model, capabilities=[Lossless(engine, budget=128_000)])
agent.run_sync("hello", conversation_id="support:42")
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lossless.context.render import RECALL_POLICY
from lossless.hosts.adapter import Raw, WindowSync, extra, required_session, tool_definitions
from lossless.providers.token_limits import overhead_tokens

with extra("pydantic-ai"):
    from pydantic_ai import Tool
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import ModelRequest
    from pydantic_ai.toolsets import FunctionToolset

    from lossless.hosts.pydantic_messages import from_pydantic, to_pydantic

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import ModelRequestContext

    from lossless.engine import Engine
    from lossless.model.conversations import Session


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
        """The recall tools."""
        return FunctionToolset([self._tool(tool.name, tool.help, tool.schema) for tool in self.windows.tools])

    async def prepare_model_request(self, ctx: RunContext[Any], request_context: ModelRequestContext) -> Any:
        """What the model sees: all of it while it fits; the history of the run stays as it is."""
        window = list(from_pydantic(self.windows, request_context.messages))
        given = window, _overhead_tokens(request_context), _model(request_context)
        fitting = await asyncio.to_thread(self.windows.fit, _session(ctx), *given)
        if fitting is None:
            return request_context
        return replace(request_context, messages=to_pydantic(self.windows, fitting))

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Keep the reply."""
        window = list(from_pydantic(self.windows, [*ctx.messages, response]))
        counted, overhead = response.usage.input_tokens, _overhead_tokens(request_context)
        model = _model(request_context)
        await asyncio.to_thread(self.windows.turn, _session(ctx), window, counted, overhead, model)
        return response

    async def on_model_request_error(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, error: Exception
    ) -> ModelResponse:
        """Learn from a request that was too long; the error stays what it is."""
        overhead, model = _overhead_tokens(request_context), _model(request_context)
        await asyncio.to_thread(self.windows.refused, _session(ctx), error, overhead, model)
        raise error

    def _tool(self, name: str, help: str, schema: Raw) -> Tool[Any]:
        async def call(ctx: RunContext[Any], **arguments: Any) -> str:
            return await asyncio.to_thread(self.windows.call, _session(ctx), name, arguments)

        return Tool.from_schema(call, name, help, schema, takes_ctx=True)


def _session(ctx: RunContext[Any]) -> Session:
    return required_session(ctx.conversation_id, "conversation_id=… to the run")


def _model(request: ModelRequestContext) -> str | None:
    return getattr(request.model, "model_name", None) or None


def _overhead_tokens(request: ModelRequestContext) -> int:
    """What is sent besides the messages: instructions, ours among them, and tools."""
    given = request.model_request_parameters
    words = next((one.instructions for one in reversed(request.messages) if isinstance(one, ModelRequest)), None)
    return overhead_tokens(words, tool_definitions([*given.function_tools, *given.output_tools]))
