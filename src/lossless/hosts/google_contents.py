"""Google's contents as chat messages, each of which carries what it came from; and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from google.genai import types

from lossless.hosts import blocks
from lossless.hosts.google_calls import Names, calls_of, result_of
from lossless.hosts.google_relayed import Relayed, Shown

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from lossless.hosts.window import Raw, Windows
    from lossless.model.messages import Message, ToolCall


class View:
    """What one agent's request says, as the session has it: quotes of other agents are what these have said."""

    def __init__(self, windows: Windows, contents: Sequence[Any], events: Iterable[Any] = ()) -> None:
        self._windows, self._contents, names = windows, list(contents), Names()
        self._originals = Relayed(events).originals(contents)
        self.window: list[Raw] = []
        #: The calls of other agents, which this one is only told about.
        self._relayed: set[str] = set()
        for original, content in zip(self._originals, self._contents, strict=True):
            made = _messages(windows, original, names)
            self.window += made
            if original is not content:
                self._relayed |= {call["id"] for one in made for call in one.get("tool_calls", ())}

    def given_back(self, messages: Sequence[Message]) -> list[Any]:
        """The request's contents where they stand for themselves, new ones for what we wrote or came another way."""
        made, shown = [], Shown(self._originals, self._contents)
        for message in reversed(messages):
            own = self._windows.own(message)
            if own:
                made.append(shown.last(own) or types.Content.model_validate(own))
            elif own is None and message.role != "system":
                made.append(_written(message, self._relayed))
        return made[::-1]


def _messages(windows: Windows, content: Any, names: Names) -> list[Raw]:
    """A content as chat messages; several results in one become several, the first of which carries it."""
    own = content.model_dump(mode="json", exclude_none=True, fallback=str)
    parts = content.parts or []
    said = blocks.content(block for part in parts if (block := _block(part)))
    answers = [result_of(part.function_response, names) for part in parts if part.function_response]
    if content.role == "model":
        calls = calls_of([part.function_call for part in parts if part.function_call], names)
        answers = [{"role": "assistant", "content": said or None} | ({"tool_calls": calls} if calls else {})]
    elif said or not answers:
        answers.append({"role": "user", "content": said})
    return [windows.carrying(one, own if n == 0 else {}) for n, one in enumerate(answers)]


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


def _written(message: Message, relayed: Container[str]) -> Any:
    if message.tool_results and message.tool_results[0].call_id in relayed:
        result = message.tool_results[0]
        return _quote([f"`{result.name or 'tool'}` tool returned result:\n{result.text}"])
    if any(call.id in relayed for call in message.tool_calls):
        said = [f"said:\n{message.content}"] if message.content else []
        return _quote([*said, *(f"called tool `{c.name}` with parameters:\n{_args(c)}" for c in message.tool_calls)])
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


def _quote(done: Iterable[str]) -> Any:
    """What another agent did, when ADK's own words for it are too long to be sent."""
    told = ["For context: what another agent did.", *(f"[another agent] {one}" for one in done)]
    return types.Content(role="user", parts=[types.Part(text=text) for text in told])


def _response(text: str) -> Raw:
    """A result as it was written down; one that was cut short is words."""
    try:
        found = json.loads(text)
    except ValueError:
        found = text
    return found if isinstance(found, dict) else {"result": found}


def _asked(call: ToolCall) -> Any:
    return types.FunctionCall(id=call.id, name=call.name, args=_args(call))


def _args(call: ToolCall) -> Any:
    return json.loads(call.input or "{}") if isinstance(call.input, str) else call.input
