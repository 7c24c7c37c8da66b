"""What providers say about a prompt: a checker that knows nothing of the package, and the types of their own SDKs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from anthropic.types import MessageParam
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter

from tests.context.strict_checker import check_anthropic, check_openai_chat, check_openai_responses

Raw = dict[str, Any]
FORMATS = ("openai-chat", "openai-responses", "anthropic")


def complaints(messages: list[Raw], format: str) -> list[str]:
    """What a strict provider refuses in these messages; a request to Anthropic has its system prompts apart."""
    if format == "openai-chat":
        return check_openai_chat(messages)
    if format == "openai-responses":
        return check_openai_responses([_one_text(item) for item in messages])
    start = next((n for n, message in enumerate(messages) if message["role"] != "system"), len(messages))
    talk = [message | {"content": _blocks(message["content"])} for message in messages[start:]]
    return check_anthropic({"messages": talk})


def _one_text(item: Raw) -> Raw:
    content = item.get("content")
    if not isinstance(content, list):
        return item
    return item | {"content": " ".join(str(part.get("text", part)) for part in content)}


def _blocks(content: Any) -> list[Raw]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


@cache
def _adapter(format: str) -> TypeAdapter[Any]:
    types: dict[str, Any] = {
        "openai-chat": list[ChatCompletionMessageParam],
        "openai-responses": list[ResponseInputItemParam],
        "anthropic": list[MessageParam],
    }
    return TypeAdapter(types[format])


def accepted_by_sdk(messages: list[Raw], format: str) -> None:
    """Raises pydantic's error where the SDK's own types do not fit."""
    start = 0
    if format == "anthropic":
        start = next((n for n, message in enumerate(messages) if message["role"] != "system"), len(messages))
    _consume(_adapter(format).validate_python(messages[start:]))


def _consume(value: Any) -> None:
    """Iterables are checked only when somebody takes their items."""
    if isinstance(value, Mapping):
        for item in value.values():
            _consume(item)
    elif isinstance(value, list | tuple | Iterator) or type(value).__name__ == "ValidatorIterator":
        for item in value:
            _consume(item)
