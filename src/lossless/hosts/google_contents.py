"""Google's contents as chat messages, each of which carries what it came from; and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from google.genai import types

from lossless.hosts import blocks
from lossless.hosts.google_calls import Names, calls_of, result_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lossless.hosts.window import Raw, Windows
    from lossless.model.messages import Message, ToolCall


def window(windows: Windows, contents: Iterable[Any]) -> list[Raw]:
    """Chat messages; several results in one content become several, the first of which carries it."""
    made: list[Raw] = []
    names = Names()
    for content in contents:
        own = content.model_dump(mode="json", exclude_none=True, fallback=str)
        parts = content.parts or []
        said = blocks.content(block for part in parts if (block := _block(part)))
        answers = [result_of(part.function_response, names) for part in parts if part.function_response]
        if content.role == "model":
            calls = calls_of([part.function_call for part in parts if part.function_call], names)
            answers = [{"role": "assistant", "content": said or None} | ({"tool_calls": calls} if calls else {})]
        elif said or not answers:
            answers.append({"role": "user", "content": said})
        made += [windows.carrying(one, own if n == 0 else {}) for n, one in enumerate(answers)]
    return made


def _block(part: Any) -> Raw | None:
    """What a part says or shows; nothing for thoughts, calls and results."""
    if part.text and not part.thought:
        return blocks.words(part.text)
    if part.inline_data and part.inline_data.data:
        return blocks.media(part.inline_data.mime_type, part.inline_data.data, part.inline_data.display_name)
    if part.file_data:
        return blocks.mentioned("file", part.file_data.file_uri, part.file_data.mime_type)
    if part.executable_code:
        return blocks.words(part.executable_code.code or "")
    if part.code_execution_result:
        return blocks.words(part.code_execution_result.output or "")
    return None


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
        response = _response(result.text)
        answer = types.FunctionResponse(id=result.call_id, name=result.name or "tool", response=response)
        return types.Content(role="user", parts=[types.Part(function_response=answer)])
    return types.Content(role="user", parts=[types.Part(text=message.content)])


def _response(text: str) -> Raw:
    """A result as it was written down; one that was cut short is words."""
    try:
        found = json.loads(text)
    except ValueError:
        found = text
    return found if isinstance(found, dict) else {"result": found}


def _asked(call: ToolCall) -> Any:
    given = json.loads(call.input or "{}") if isinstance(call.input, str) else call.input
    return types.FunctionCall(id=call.id, name=call.name, args=given)
