"""OpenAI Agents: a session that keeps every item and gives back a context that fits.

session = LosslessSession("support:42", engine, budget=128_000)
config = RunConfig(call_model_input_filter=session.fit)
agent = Agent(name="helper", tools=session.tools())
await Runner.run(agent, "hello", session=session, run_config=config, hooks=session.hooks)
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from lossless.hosts import adapter
from lossless.model.messages import StoredMessage, ToolCall
from lossless.providers import token_limits
from lossless.recall.tools import TOOLS

with adapter.extra("openai-agents"):
    from agents import FunctionTool, RunHooks
    from agents.run_config import ModelInputData

if TYPE_CHECKING:
    from agents import Tool
    from agents.items import TResponseInputItem
    from agents.mcp import MCPServer
    from agents.memory import SessionSettings
    from agents.run_config import CallModelData

    from lossless.engine import Engine

_FORMAT = "openai-responses"


class LosslessSession:
    """A `Session` of the Agents SDK over an archive. What is popped or cleared leaves the view, never the archive."""

    session_settings: SessionSettings | None = None

    def __init__(self, session_id: str, engine: Engine, *, budget: int | None = None) -> None:
        self.session_id, self.engine = session_id, engine
        self._windows = adapter.WindowSync(engine, "openai-agents", budget)
        self.session = adapter.required_session(session_id, "a session id")
        #: What is sent besides the items, in tokens, and to which model, as far as this session knows.
        self._overhead = 0
        self._model: str | None = None
        #: What the last request had, by our estimate, until its reply is there.
        self._sent: int | None = None

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The context that fits: summaries, then the newest items; at most the newest `limit` of them."""
        items = await asyncio.to_thread(self._assembled)
        return items if limit is None else items[len(items) - min(max(limit, 0), len(items)) :]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Keep new items; when the call returns they are on the disk."""
        if items:
            new: Any = [_item_json(item) for item in items]
            await asyncio.to_thread(self._limits.store, self.session, new_messages=new)

    async def fit(self, data: CallModelData[Any]) -> ModelInputData:
        """For `RunConfig(call_model_input_filter=…)`: each model call of a run, however long, is within the budget."""
        given = data.model_data
        # those of its MCP servers as the SDK has just listed them
        tools = [*data.agent.tools, *(tool for server in data.agent.mcp_servers for tool in _listed(server))]
        self._overhead = token_limits.overhead_tokens(given.instructions, adapter.tool_definitions(tools))
        name = getattr(data.agent.model, "model", data.agent.model)
        self._model = name if isinstance(name, str) and name else None
        return ModelInputData(await asyncio.to_thread(self._fitted, given.input), given.instructions)

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the newest item out of the view and return it."""
        popped = await asyncio.to_thread(self.engine.host.hide_newest, self.session, "openai-agents")
        return None if popped is None else cast("TResponseInputItem", self._item(popped))

    async def clear_session(self) -> None:
        """Start a new conversation; the conversation so far stays in the archive and in search."""
        if self.engine.browse.find(self.session) is not None:
            await asyncio.to_thread(self.engine.reset, self.session, cause="cleared")

    async def run_compaction(self, args: Any = None) -> None:
        """Fold when the SDK insists; else it is done in the background."""
        if args and args.get("force"):
            known: dict[str, Any] = {"budget": self._windows.size, "overhead": self._overhead, "model": self._model}
            await asyncio.to_thread(self.engine.compact, self.session, **known)

    def tools(self) -> list[Tool]:
        self._overhead = self._overhead or token_limits.recall_tool_tokens(policy=False)
        return [self._tool(tool.name, tool.help, tool.schema) for tool in TOOLS]

    def _tool(self, name: str, help: str, schema: dict[str, Any]) -> FunctionTool:
        async def invoke(_: Any, arguments: str) -> str:
            given = ToolCall(None, name, arguments).arguments
            return await asyncio.to_thread(self._windows.call, self.session, name, given)

        return FunctionTool(name, help, schema, invoke, strict_json_schema=False)

    def _fitted(self, items: list[Any]) -> list[Any]:
        """The input while it fits; else what fits of the stored items, and then those that are not stored yet."""
        budget, items = self._limits.capacity(self.session), [_item_json(item) for item in items]
        self._sent = token_limits.window_tokens(items)
        if self._sent <= budget:
            return items
        last = self.engine.host.newest_visible(self.session)
        stored = None if last is None else self._item(last)
        place = next((n for n in range(len(items), 0, -1) if last and items[n - 1] == stored), 0)
        new = token_limits.shorten_unstored(items[place:], budget if not place else budget - budget // 4, _FORMAT)
        made = [*(self._assembled(token_limits.window_tokens(new)) if place else ()), *new]
        self._sent = token_limits.window_tokens(made)
        adapter.warn_over_budget(self._sent - budget, "items that are not stored yet do not fit")
        return made

    @property
    def _limits(self) -> token_limits.PromptLimits:
        return self._windows.limits(self._overhead, self._model)

    @property
    def hooks(self) -> RunHooks[Any]:
        """For `Runner.run(…, hooks=session.hooks)`: what the provider counts is learned from every reply."""
        return _Counting(self)

    def counted(self, tokens: int) -> None:
        """Learn from a reply whose prompt the provider has counted."""
        sent, self._sent = self._sent, None
        if sent is not None and tokens > 0 and self.engine.browse.find(self.session) is not None:
            self._limits.store(self.session, new_messages=(), observed_tokens=tokens, sent=sent)

    def _item(self, stored: StoredMessage) -> Any:
        """A stored item as it came, also when what it holds lies in a file."""
        return self.engine.host.with_payloads(stored).original

    def _assembled(self, more: int = 0) -> list[Any]:
        """What fits of the stored items besides so many tokens of others."""
        made = self._limits.assemble(self.session, more, format=_FORMAT, allow_trailing_assistant=True)
        return list(made.messages) if made is not None and made.receipt.included else []


class _Counting(RunHooks[Any]):
    def __init__(self, session: LosslessSession) -> None:
        self._session = session

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:  # noqa: ARG002
        await asyncio.to_thread(self._session.counted, response.usage.input_tokens)


def _item_json(item: Any) -> Any:
    """An item as an object of JSON; the SDK has some of its own."""
    return item.model_dump(mode="json", exclude_unset=True) if hasattr(item, "model_dump") else item


def _listed(server: MCPServer) -> list[Any]:
    """A server's tools without those that names rule out; what a function would rule out is counted."""
    names: Any = getattr(server, "tool_filter", None)
    names = names if isinstance(names, dict) else {}
    blocked = names.get("blocked_tool_names", ())
    listed = [tool for tool in server.cached_tools or () if tool.name not in blocked]
    return [tool for tool in listed if tool.name in names.get("allowed_tool_names", (tool.name,))]
