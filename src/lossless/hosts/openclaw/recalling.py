"""The tools, as an agent of the host uses them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lossless.errors import BadInput
from lossless.hosts.openclaw.model import SubAgents
from lossless.hosts.openclaw.reading import session_of, words
from lossless.recall.scope import Caller

if TYPE_CHECKING:
    from lossless.hosts.openclaw.bridge import Bridge
    from lossless.hosts.openclaw.calls import Call


def call_tool(bridge: Bridge, call: Call) -> dict[str, Any]:
    """Use a tool. A question goes to a sub-agent where the host has some, else to a model."""
    params = call.params
    name = words(params, "name")
    if name is None:
        raise BadInput("name must be a text")
    is_known = words(params, "sessionKey") or words(params, "sessionId")
    caller = Caller(session_of(params) if is_known else None, host_has_subagents=bridge.host.has_subagents)
    toolbox, agents = bridge.engine.tools, SubAgents(bridge.peer, bridge.engine.settings)
    if bridge.host.has_subagents:
        toolbox = replace(toolbox, delegate=agents)
    result = toolbox.call(name, params.get("args"), caller)
    if agents.is_missing:
        result = replace(toolbox, delegate=None).call(name, params.get("args"), caller)
    return {"content": result.content, "details": result.details, "isError": result.is_error}
