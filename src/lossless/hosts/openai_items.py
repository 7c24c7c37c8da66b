"""Items and tools of the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from agents import FunctionTool

from lossless.hosts.adapter import tool_definitions

if TYPE_CHECKING:
    from collections.abc import Callable

    from agents import Agent
    from agents.mcp import MCPServer

    from lossless.recall.tools import Tool


def item_as_json(item: Any) -> Any:
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


def agent_tool_definitions(agent: Agent[Any]) -> list[dict[str, Any]]:
    """What is sent of an agent's tools; those of its MCP servers as the SDK has just listed them."""
    return tool_definitions([*agent.tools, *(tool for server in agent.mcp_servers for tool in _listed(server))])


def _listed(server: MCPServer) -> list[Any]:
    """A server's tools without those that names rule out; what a function would rule out is counted."""
    names: Any = getattr(server, "tool_filter", None)
    names = names if isinstance(names, dict) else {}
    blocked = names.get("blocked_tool_names", ())
    listed = [tool for tool in server.cached_tools or () if tool.name not in blocked]
    return [tool for tool in listed if tool.name in names.get("allowed_tool_names", (tool.name,))]
