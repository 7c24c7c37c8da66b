"""OpenAI Agents: a session that keeps every item and gives back a context that fits.

session = LosslessSession("support:42", engine, budget=128_000)
await Runner.run(Agent(name="helper", tools=session.tools()), "hello", session=session)
"""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lossless.errors import NotFound
from lossless.model.conversations import Session
from lossless.recall.tools import TOOLS
from lossless.store.context import Change

if TYPE_CHECKING:
    from agents import FunctionTool, Tool
    from agents.items import TResponseInputItem
    from agents.memory import SessionSettings

    from lossless.engine import Engine
    from lossless.recall.tools import Tool as RecallTool


class LosslessSession:
    """A `Session` of the Agents SDK over an archive. What is popped or cleared leaves the view, never the archive."""

    session_settings: SessionSettings | None = None

    def __init__(self, session_id: str, engine: Engine, *, budget: int | None = None) -> None:
        self.session_id, self.engine, self.budget = session_id, engine, budget
        self.session = Session(key=session_id)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The context that fits: summaries, then the newest items; at most the newest `limit` of them."""
        items = await asyncio.to_thread(self._assembled)
        return items if limit is None else items[len(items) - min(max(limit, 0), len(items)) :]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Keep new items; when the call returns they are on the disk."""
        if items:
            new: Any = [_plain(item) for item in items]
            await asyncio.to_thread(self.engine.after_turn, self.session, new_messages=new, budget=self.budget)

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the newest item out of the view and return it."""
        return await asyncio.to_thread(self._pop)

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
        from agents import FunctionTool

        async def invoke(_: Any, arguments: str) -> str:
            try:
                given = json.loads(arguments or "{}")
            except ValueError:
                given = arguments
            result = await asyncio.to_thread(self.engine.call_tool, tool.name, given, session=self.session)
            return result.text

        return FunctionTool(tool.name, tool.help, tool.schema, invoke, strict_json_schema=False)

    def _assembled(self) -> list[Any]:
        try:
            made = self.engine.assemble(
                self.session, budget=self.budget, format="openai-responses", allow_trailing_assistant=True
            )
        except NotFound:
            return []
        return list(made.messages) if made.receipt.included else []

    def _pop(self) -> Any:
        archive, now = self.engine.archive, datetime.now(UTC)
        with archive.writing():
            found = archive.conversations.find(self.session)
            rows = archive.messages.tail(found.id, 1) if found else []
            if found is None or not rows:
                return None
            stored, before = archive.messages.get(rows[-1].id), archive.context.tokens(found.id)
            archive.context.hide(found.id, [stored.id], "popped", now)
            after = archive.context.tokens(found.id)
            change = Change("hide", "openai-agents", "popped", (stored.id,), (), None, before, after)
            archive.context.log(found.id, change, now)
        return stored.message.original


def _plain(item: Any) -> Any:
    return item.model_dump(mode="json", exclude_unset=True) if hasattr(item, "model_dump") else item
