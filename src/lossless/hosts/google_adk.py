"""Google ADK: a plugin that keeps a session's contents and fits what each model request sees.

runner = InMemoryRunner(agent, plugins=[LosslessPlugin(engine, budget=128_000)])
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.genai import types

from lossless.assembly.policy_text import RECALL_POLICY
from lossless.hosts.window import CARRIED, Raw, Windows, carried
from lossless.model.conversations import Session

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lossless.engine import Engine
    from lossless.model.messages import Message
    from lossless.recall.tools import Tool


class LosslessPlugin(BasePlugin):
    """Keeps sessions in an archive, by app, user and session id, and gives the model the recall tools."""

    def __init__(self, engine: Engine, *, budget: int | None = None, name: str = "lossless") -> None:
        super().__init__(name=name)
        self._windows = Windows(engine, budget)
        self._sent: dict[str, list[Raw]] = {}

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """Keep what the request says, and fit it; the session's events stay as they are."""
        session, window = _session(callback_context), _window(llm_request.contents)
        self._sent[callback_context.invocation_id] = window
        fitting = await asyncio.to_thread(self._windows.fit, session, window)
        llm_request.append_instructions([RECALL_POLICY])
        llm_request.append_tools([RecallTool(self._windows, tool) for tool in self._windows.tools])
        if fitting is not None:
            llm_request.contents = _given_back(fitting)

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        """Keep the reply, once it is whole."""
        window = self._sent.get(callback_context.invocation_id)
        if window is None or llm_response.partial or llm_response.content is None:
            return
        counted = llm_response.usage_metadata
        whole, tokens = [*window, *_window([llm_response.content])], counted.prompt_token_count if counted else None
        await asyncio.to_thread(self._windows.turn, _session(callback_context), whole, tokens)

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        """Forget the run's last request."""
        self._sent.pop(invocation_context.invocation_id, None)


class RecallTool(BaseTool):
    """One of the recall tools."""

    def __init__(self, windows: Windows, tool: Tool) -> None:
        super().__init__(name=tool.name, description=tool.help)
        self._windows, self._schema = windows, tool.schema

    def _get_declaration(self) -> Any:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self._schema
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        """Answer as an agent of the session would get it."""
        return {"result": await asyncio.to_thread(self._windows.call, _session(tool_context), self.name, args)}


def _session(context: Any) -> Session:
    known = context.session
    return Session(key=f"adk:{known.app_name}:{known.user_id}:{known.id}")


def _window(contents: Iterable[Any]) -> list[Raw]:
    """Chat messages; several results in one content become several, the first of which carries it."""
    made: list[Raw] = []
    for content in contents:
        own = content.model_dump(mode="json", exclude_none=True)
        parts = content.parts or []
        text = "\n".join(part.text for part in parts if part.text and not part.thought)
        results = [part.function_response for part in parts if part.function_response]
        calls = [_call(part.function_call) for part in parts if part.function_call]
        answers: list[Raw] = [
            {"role": "tool", "tool_call_id": one.id or one.name, "content": json.dumps(one.response, default=str)}
            for one in results
        ]
        if content.role == "model":
            answers = [{"role": "assistant", "content": text or None} | ({"tool_calls": calls} if calls else {})]
        elif text or not results:
            answers.append({"role": "user", "content": text})
        made += [one | {CARRIED: own if n == 0 else {}} for n, one in enumerate(answers)]
    return made


def _call(call: Any) -> Raw:
    function = {"name": call.name, "arguments": json.dumps(call.args or {}, default=str)}
    return {"id": call.id or call.name, "type": "function", "function": function}


def _given_back(messages: Iterable[Message]) -> list[Any]:
    """The session's own contents where they stand for themselves, user contents for what we wrote."""
    made = []
    for message in messages:
        own = carried(message)
        if own:
            made.append(types.Content.model_validate(own))
        elif own is None and message.role != "system":
            made.append(types.Content(role="user", parts=[types.Part(text=message.content)]))
    return made
