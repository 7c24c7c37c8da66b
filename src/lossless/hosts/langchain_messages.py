"""LangChain's messages as chat messages, each of which carries what it came from; and back."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from langchain_core.messages import (
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
    convert_to_openai_messages,
    messages_from_dict,
    messages_to_dict,
)
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.config import get_config

from lossless import formats
from lossless.hosts.adapter import Raw, WindowSync, media_block, mention_block, required_session, text_block

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lossless.model.conversations import Session
    from lossless.model.messages import Message

#: Who speaks in OpenAI's API.
_ROLES = ("system", "developer", "user", "assistant", "tool")
#: Blocks that are shown as they are, where they can be.
_MEDIA = ("image", "image_url", "audio", "input_audio", "file")
#: Blocks that are not speech: thoughts, and calls, which a message has elsewhere.
_UNSAID = (
    "thinking", "redacted_thinking", "reasoning", "tool_use", "tool_call", "tool_call_chunk", "function_call"
)  # fmt: skip
_TOLD = ("title", "filename", "name", "url", "file_id", "mime_type")
THREAD_HINT = 'a config with {"configurable": {"thread_id": …}}'


def current_session() -> Session:
    """The thread that a graph is running for."""
    return required_session((get_config().get("configurable") or {}).get("thread_id"), THREAD_HINT)


def sent_tools(tools: Iterable[Any]) -> list[Raw]:
    """Tools as they are sent."""
    return [tool if isinstance(tool, dict) else convert_to_openai_tool(tool) for tool in tools]


def from_langchain(windows: WindowSync, messages: Iterable[Any]) -> list[Raw]:
    """Chat messages, each with what it came from."""
    return [windows.carrying(_plain(message), _own(message)) for message in messages]


def _own(message: Any) -> Raw:
    """A message as LangChain writes it down, without its artifact: that is the program's, and never sent."""
    (own,) = messages_to_dict([message])
    return {"type": own["type"], "data": {name: own["data"][name] for name in own["data"] if name != "artifact"}}


def _plain(message: Any) -> Raw:
    """A message in words, pictures and calls; what else there is comes back with what it carries."""
    if isinstance(message.content, list):
        shown = [block for block in map(_block, message.content) if block]
        message = message.model_copy(update={"content": shown})
    made = dict(convert_to_openai_messages(message))
    return made if made["role"] in _ROLES else made | {"role": "user"}


def _block(block: Any) -> Raw | None:
    """A block as OpenAI's API has it; words for what it has no name for, nothing for thoughts and calls."""
    if not isinstance(block, dict):
        return text_block(str(block))
    kind = block.get("type")
    if kind in _UNSAID:
        return None
    if kind in _MEDIA:
        with suppress(ValueError, KeyError, TypeError):
            convert_to_openai_messages(HumanMessage([block]))
            return block
    return text_block(block["text"]) if isinstance(block.get("text"), str) else _named(block)


def _named(block: Raw) -> Raw:
    """A block for one that OpenAI's API has no name for: its words or its bytes, else what is known about it."""
    source, below = block.get("source"), block.get("content")
    source = source if isinstance(source, dict) else block
    kind, data = source.get("media_type") or source.get("mime_type"), source.get("base64") or source.get("data")
    if isinstance(data, str) and source.get("type") == "text":
        return text_block(data)
    if isinstance(data, str | bytes) and kind:
        return media_block(kind, data, block.get("title"))
    if isinstance(below, list):
        return text_block("\n".join(found["text"] for found in map(_block, below) if found and "text" in found))
    return mention_block(str(block.get("type") or "block"), *(block.get(name) for name in _TOLD))


def to_langchain(windows: WindowSync, messages: Iterable[Message]) -> list[Any]:
    """The thread's own messages where they stand for themselves, new ones for what we wrote or came another way."""
    made: list[Any] = []
    for message in messages:
        own = windows.own(message)
        if own is not None:
            made += messages_from_dict([own])
        elif message.tool_results:
            made.append(ToolMessage(message.content, tool_call_id=message.tool_results[0].call_id or ""))
        elif message.role == "assistant":
            made += convert_to_messages(formats.encode([message], "openai-chat"))
        elif message.role != "system":
            made.append(HumanMessage(message.content))
    return [message for message in made if not isinstance(message, SystemMessage)]
