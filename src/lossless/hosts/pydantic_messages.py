"""Pydantic AI's messages as chat messages, each of which carries what it came from; and back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import (
    BinaryContent,
    FilePart,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from lossless.hosts.adapter import chat_content, media_block, mention_block, text_block

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pydantic_ai.messages import ModelMessage

    from lossless.hosts.adapter import Raw, WindowSync
    from lossless.model.messages import Message


def from_pydantic(windows: WindowSync, messages: Iterable[ModelMessage]) -> Iterator[Raw]:
    """Chat messages: one for each part of a request, one for a response; each carries what it came from."""
    for message in messages:
        if isinstance(message, ModelResponse):
            yield windows.carrying(_response(message), _dumped(message))
            continue
        for part in message.parts:
            yield windows.carrying(_request_part(part), _dumped(replace(message, parts=[part])))


def _dumped(message: ModelMessage) -> Any:
    return ModelMessagesTypeAdapter.dump_python([message], mode="json", fallback=str)[0]


def _response(message: ModelResponse) -> Raw:
    calls = [
        {
            "id": part.tool_call_id,
            "type": "function",
            "function": {"name": part.tool_name, "arguments": part.args_as_json_str()},
        }
        for part in message.parts
        if isinstance(part, ToolCallPart)
    ]
    files = [_block(part.content) for part in message.parts if isinstance(part, FilePart)]
    content = chat_content([*([text_block(message.text)] if message.text else []), *files])
    return {"role": "assistant", "content": content or (None if calls else "")} | (
        {"tool_calls": calls} if calls else {}
    )


def _request_part(part: Any) -> Raw:
    if isinstance(part, SystemPromptPart):
        return {"role": "system", "content": part.content}
    if isinstance(part, RetryPromptPart) and part.tool_name is None:
        return {"role": "user", "content": part.model_response()}
    if isinstance(part, ToolReturnPart | RetryPromptPart):
        content = part.model_response_str() if isinstance(part, ToolReturnPart) else part.model_response()
        return {"role": "tool", "tool_call_id": part.tool_call_id, "name": part.tool_name, "content": content}
    given = getattr(part, "content", "")
    return {"role": "user", "content": given if isinstance(given, str) else chat_content(map(_block, given))}


def _block(piece: Any) -> Raw:
    """A piece of what a user or a model shows."""
    if isinstance(piece, str):
        return text_block(piece)
    if isinstance(piece, BinaryContent):
        return media_block(piece.media_type, piece.data, piece.identifier)
    if isinstance(text := getattr(piece, "content", None), str):
        return text_block(text)
    known = (getattr(piece, name, None) for name in ("url", "file_id"))
    return mention_block(str(getattr(piece, "kind", "block")), *known)


def to_pydantic(windows: WindowSync, messages: Iterable[Message]) -> list[ModelMessage]:
    """The run's own messages where they stand for themselves, new ones for what we wrote or came another way."""
    made: list[ModelMessage] = []
    for message in messages:
        own = windows.own(message)
        if own is None and message.role == "system":
            continue  # a system prompt that came another way
        one = ModelMessagesTypeAdapter.validate_python([own])[0] if own else _written(message)
        if made and isinstance(one, ModelRequest) and isinstance(made[-1], ModelRequest):
            made[-1] = replace(one, parts=[*made[-1].parts, *one.parts])
        else:
            made.append(one)
    return made


def _written(message: Message) -> ModelMessage:
    if message.tool_results:
        result = message.tool_results[0]
        return ModelRequest([ToolReturnPart(result.name or "tool", message.content, result.call_id or "")])
    if message.role == "assistant":
        calls = [ToolCallPart(call.name, call.input, call.id or "") for call in message.tool_calls]  # type: ignore[arg-type]
        return ModelResponse([*([TextPart(message.content)] if message.content or not calls else []), *calls])
    return ModelRequest([UserPromptPart(message.content)])
