"""LangChain's messages as chat messages, each of which carries what it came from; and back."""

from __future__ import annotations

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
from lossless.hosts.window import Raw, Windows, named

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lossless.model.conversations import Session
    from lossless.model.messages import Message

THREAD = 'a config with {"configurable": {"thread_id": …}}'


def current_session() -> Session:
    """The thread that a graph is running for."""
    return named((get_config().get("configurable") or {}).get("thread_id"), THREAD)


def definitions(tools: Iterable[Any]) -> list[Raw]:
    """Tools as they are sent."""
    return [tool if isinstance(tool, dict) else convert_to_openai_tool(tool) for tool in tools]


def chat(windows: Windows, messages: Iterable[Any]) -> list[Raw]:
    """Chat messages, each with what it came from."""
    made = []
    for message in messages:
        (own,) = messages_to_dict([message])
        made.append(windows.carrying(dict(convert_to_openai_messages(message)), own))
    return made


def given_back(windows: Windows, messages: Iterable[Message]) -> list[Any]:
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
