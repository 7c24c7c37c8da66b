"""Items and tools of the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from agents import FunctionTool

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.recall.tools import Tool


def plain_item(item: Any) -> Any:
    """An item as an object of JSON; the SDK has some of its own."""
    return item.model_dump(mode="json", exclude_unset=True) if hasattr(item, "model_dump") else item


def recall_tool(tool: Tool, answer: Callable[[str, Any], str]) -> FunctionTool:
    """One of the recall tools, as the SDK declares tools."""

    async def invoke(_: Any, arguments: str) -> str:
        try:
            given = json.loads(arguments or "{}")
        except ValueError:
            given = arguments
        return await asyncio.to_thread(answer, tool.name, given)

    return FunctionTool(tool.name, tool.help, tool.schema, invoke, strict_json_schema=False)
