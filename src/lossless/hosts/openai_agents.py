"""OpenAI Agents: a session that keeps every item and gives back a context that fits.

session = LosslessSession("support:42", engine, budget=128_000)
config = RunConfig(call_model_input_filter=session.fit)
await Runner.run(Agent(name="helper", tools=session.tools()), "hello", session=session, run_config=config)
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

from lossless.exchange.fitting import whole, with_newest_whole
from lossless.hosts.extras import extra
from lossless.hosts.view import newest, pop
from lossless.hosts.window import checked_budget, named, tokens_of
from lossless.recall.tools import TOOLS

with extra("openai-agents"):
    from agents import FunctionTool
    from agents.run_config import ModelInputData

if TYPE_CHECKING:
    from agents import Tool
    from agents.items import TResponseInputItem
    from agents.memory import SessionSettings
    from agents.run_config import CallModelData

    from lossless.assembly.run import Assembled
    from lossless.engine import Engine
    from lossless.model.messages import StoredMessage
    from lossless.recall.tools import Tool as RecallTool

_FORMAT = "openai-responses"


class LosslessSession:
    """A `Session` of the Agents SDK over an archive. What is popped or cleared leaves the view, never the archive."""

    session_settings: SessionSettings | None = None

    def __init__(self, session_id: str, engine: Engine, *, budget: int | None = None) -> None:
        self.session_id, self.engine, self.budget = session_id, engine, checked_budget(budget)
        self.session = named(session_id, "a session id")

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The context that fits: summaries, then the newest items; at most the newest `limit` of them."""
        items = await asyncio.to_thread(self._assembled)
        return items if limit is None else items[len(items) - min(max(limit, 0), len(items)) :]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Keep new items; when the call returns they are on the disk."""
        if items:
            new: Any = [_plain(item) for item in items]
            await asyncio.to_thread(self.engine.after_turn, self.session, new_messages=new, budget=self.budget)

    async def fit(self, data: CallModelData[Any]) -> ModelInputData:
        """For `RunConfig(call_model_input_filter=…)`: each model call of a run, however long, is within the budget."""
        given = data.model_data
        return ModelInputData(await asyncio.to_thread(self._fitted, given.input), given.instructions)

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the newest item out of the view and return it."""
        popped = await asyncio.to_thread(pop, self.engine, self.session, "openai-agents")
        return None if popped is None else cast("TResponseInputItem", self._item(popped))

    async def clear_session(self) -> None:
        """Begin afresh; the conversation so far stays in the archive and in search."""
        if self.engine.archive.conversations.find(self.session) is not None:
            await asyncio.to_thread(self.engine.reset, self.session, cause="cleared")

    async def run_compaction(self, args: Any = None) -> None:
        """Fold when the SDK insists; else it is done beside the turns."""
        if args and args.get("force"):
            await asyncio.to_thread(self.engine.compact, self.session, budget=self.budget)

    def tools(self) -> list[Tool]:
        """The recall tools for this session's agents."""
        return [self._tool(tool) for tool in TOOLS]

    def _tool(self, tool: RecallTool) -> FunctionTool:
        async def invoke(_: Any, arguments: str) -> str:
            try:
                given = json.loads(arguments or "{}")
            except ValueError:
                given = arguments
            result = await asyncio.to_thread(self.engine.call_tool, tool.name, given, session=self.session)
            return result.text

        return FunctionTool(tool.name, tool.help, tool.schema, invoke, strict_json_schema=False)

    def _fitted(self, items: list[Any]) -> list[Any]:
        """The input while it fits; else what fits of the stored items, and then those that are not stored yet."""
        budget = self.budget or self.engine.settings.default_token_budget
        if tokens_of(items) <= budget:
            return items
        last = newest(self.engine, self.session)
        stored = None if last is None else self._item(last)
        place = next((n for n in range(len(items), 0, -1) if last and _plain(items[n - 1]) == stored), 0)
        return [*self._assembled(max(budget - tokens_of(items[place:]), 1)), *items[place:]] if place else items

    def _item(self, stored: StoredMessage) -> Any:
        """A stored item as it came, also when what it holds lies in a file."""
        return (whole(self.engine, stored) or stored.message).original

    def _assembled(self, budget: int | None = None) -> list[Any]:
        found = self.engine.archive.conversations.find(self.session)
        if found is None:
            return []
        made = self._made(budget or self.budget)
        made = with_newest_whole(self.engine, found.id, made, _FORMAT, self._made).made
        return list(made.messages) if made.receipt.included else []

    def _made(self, budget: int | None) -> Assembled:
        return self.engine.assemble(self.session, budget=budget, format=_FORMAT, allow_trailing_assistant=True)


def _plain(item: Any) -> Any:
    return item.model_dump(mode="json", exclude_unset=True) if hasattr(item, "model_dump") else item
