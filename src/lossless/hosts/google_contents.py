"""Google's contents as chat messages, each of which carries what it came from; and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from google.genai import types

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lossless.hosts.window import Raw, Windows
    from lossless.model.messages import Message, ToolCall


def window(windows: Windows, contents: Iterable[Any]) -> list[Raw]:
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
        made += [windows.carrying(one, own if n == 0 else {}) for n, one in enumerate(answers)]
    return made


def _call(call: Any) -> Raw:
    function = {"name": call.name, "arguments": json.dumps(call.args or {}, default=str)}
    return {"id": call.id or call.name, "type": "function", "function": function}


def given_back(windows: Windows, messages: Iterable[Message]) -> list[Any]:
    """The session's own contents where they stand for themselves, new ones for what we wrote or came another way."""
    made = []
    for message in messages:
        own = windows.own(message)
        if own:
            made.append(types.Content.model_validate(own))
        elif own is None and message.role != "system":
            made.append(_written(message))
    return made


def _written(message: Message) -> Any:
    if message.role == "assistant":
        text = [types.Part(text=message.content)] if message.content or not message.tool_calls else []
        calls = [types.Part(function_call=_asked(call)) for call in message.tool_calls]
        return types.Content(role="model", parts=[*text, *calls])
    if message.tool_results:
        result = message.tool_results[0]
        answer = types.FunctionResponse(id=result.call_id, name=result.name or "tool", response={"result": result.text})
        return types.Content(role="user", parts=[types.Part(function_response=answer)])
    return types.Content(role="user", parts=[types.Part(text=message.content)])


def _asked(call: ToolCall) -> Any:
    given = json.loads(call.input or "{}") if isinstance(call.input, str) else call.input
    return types.FunctionCall(id=call.id, name=call.name, args=given)
