"""Messages whose parts were changed, and what a message still says."""

from __future__ import annotations

import json
from dataclasses import replace
from operator import is_
from typing import TYPE_CHECKING

from lossless.formats.synthetic import escape_ours, looks_like_ours
from lossless.model.budget import message_budget_tokens
from lossless.model.messages import File, Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from lossless.model.tokens import estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lossless.model.messages import Json, Part, Role


def with_parts(message: Message, parts: Iterable[Part], *, role: Role | None = None) -> Message:
    """The message with other parts; its foreign `body` no longer holds, so a codec writes it anew."""
    kept = tuple(parts)
    return replace(
        message,
        role=role or message.role,
        content="\n".join(part.text for part in kept if isinstance(part, (Text, ToolResult))),
        parts=kept,
        body=None,
        tokens=sum(map(part_tokens, kept)),
    )


def unlike_ours(message: Message) -> Message:
    """The message, with what looks like a block of ours escaped; the same when there is nothing like it."""
    if not (message.parts or looks_like_ours(message.content)):
        return message
    if not message.parts:
        return replace(message, content=escape_ours(message.content), body=None, tokens=-1)
    parts = tuple(
        replace(part, text=escape_ours(part.text))
        if isinstance(part, Text | ToolResult) and looks_like_ours(part.text) else part
        for part in message.parts
    )  # fmt: skip
    return message if all(map(is_, parts, message.parts)) else with_parts(message, parts)


def part_tokens(part: Part) -> int:
    """What a part is reckoned to take once it is serialised."""
    match part:
        case ToolCall():
            return estimate_tokens(part.name) + estimate_tokens(_json(part.input))
        case File() | Opaque():
            return estimate_tokens(_json(part.raw))
        case _:
            return estimate_tokens(part.text)


def _json(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def is_blank(part: Part) -> bool:
    """Whether a part is text without a visible character."""
    return isinstance(part, Text) and not part.text.strip()


def says_something(message: Message) -> bool:
    """Whether anything but blanks and thinking is in it. A tool result says something even when empty."""
    if not message.parts:
        return bool(message.content.strip())
    return any(not isinstance(part, Reasoning) and not is_blank(part) for part in message.parts)


def is_thinking_only(message: Message) -> bool:
    """Whether an assistant's message holds thinking and nothing else that counts."""
    return (
        message.role == "assistant"
        and any(isinstance(part, Reasoning) for part in message.parts)
        and not says_something(message)
    )


def is_user_turn(message: Message) -> bool:
    """Whether a person speaks in it: results that travel under the user's role are not a turn."""
    return message.role == "user" and (
        says_something(message)
        if not message.tool_results
        else any(not isinstance(part, ToolResult) and not is_blank(part) for part in message.parts)
    )


def newest_user(messages: tuple[Message, ...]) -> int | None:
    """The index of the newest message in which a person speaks."""
    return next((i for i in range(len(messages) - 1, -1, -1) if is_user_turn(messages[i])), None)


def open_calls(message: Message) -> tuple[ToolCall, ...]:
    """The calls of an assistant that another message must answer (a provider's own tools answer inside)."""
    if message.role != "assistant" or not message.parts:
        return ()
    inside = {part.call_id for part in message.tool_results}
    return tuple(call for call in message.tool_calls if call.id is None or call.id not in inside)


def answers(message: Message) -> tuple[ToolResult, ...]:
    """The results in a message that answer a call of another message."""
    results = message.tool_results
    if not results or message.role != "assistant":
        return results
    inside = {call.id for call in message.tool_calls}
    return tuple(result for result in results if result.call_id not in inside)


def same_or_new(messages: tuple[Message, ...], made: Iterable[Message]) -> tuple[Message, ...]:
    """`messages` itself when `made` holds the same objects, so that callers see that nothing changed."""
    new = tuple(made)
    same = len(new) == len(messages) and all(a is b for a, b in zip(new, messages, strict=True))
    return messages if same else new


def estimated(message: Message) -> int:
    """What the words of a message take, by the estimate for budgets; never less than by their length."""
    return max(message.tokens, message_budget_tokens(message))
