"""`ProviderAPI`: the interface of each provider's API (requests, replies, streams), and helpers to read JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

Raw: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """A tool call in a reply."""

    id: str
    name: str
    #: An object, or the original JSON text.
    input: Any

    @property
    def arguments(self) -> Any:
        """The arguments as an object; text that is not JSON stays text."""
        if not isinstance(self.input, str):
            return self.input
        try:
            return json.loads(self.input or "{}")
        except (ValueError, RecursionError):
            return self.input


@dataclass(frozen=True, slots=True)
class ReplyUsage:
    """A provider's token counts: the prompt, the cached part of it, and the reply."""

    prompt: int = 0
    cached: int = 0
    output: int = 0


class ReplyEvents(Protocol):
    """A streamed reply: takes events, returns those for the client, and assembles the reply."""

    def feed(self, event: Raw) -> list[Raw]:
        """The events to forward; the same object when nothing changed."""

    def reply(self) -> Raw:
        """The reply of this round as a non-streamed one, as far as it was received."""

    @property
    def is_over(self) -> bool:
        """Whether the reply is complete; else it was cut off, and its last call may be partial."""

    def again(self) -> None:
        """Another round begins; the client sees a single reply."""

    def ending(self) -> list[Raw]:
        """The events that were held back in case the reply continues."""


class ProviderAPI(Protocol):
    """The API of one provider."""

    #: The name in `lossless.formats`.
    format: str
    #: Whether streamed events have their type on a separate line.
    names_events: bool

    def window(self, body: Raw) -> list[Raw]:
        """The conversation in the request, system prompt first."""

    def knows_history(self, body: Raw) -> bool:
        """Whether the provider stores the history, so that the request only has new messages."""

    def with_window(self, body: Raw, messages: Sequence[Raw], system: str = "") -> Raw:
        """The request with these messages instead of its own; its own system prompt stays.

        `system` is the conversation's, when it is not among the messages.
        """

    def with_recall(self, body: Raw, policy: str, tools: Sequence[Raw]) -> Raw:
        """The request with additional tools and system prompt text."""

    def tools(self) -> list[Raw]:
        """The recall tools in this API's format."""

    def tool_names(self, body: Raw) -> set[str]:
        """The tools that the request declares."""

    def may_call(self, body: Raw) -> bool:
        """Whether the request lets the model call tools that we add, and can hold them."""

    def most_output(self, body: Raw) -> int:
        """The request's output token limit; 0 when it has none."""

    def with_most_output(self, body: Raw, tokens: int) -> Raw:
        """The request with a lower output token limit, if it has one."""

    def reply_messages(self, reply: Raw) -> list[Raw]:
        """The messages that the reply adds to the conversation, as clients send them back."""

    def calls(self, reply: Raw) -> list[RequestedCall]:
        """The tool calls in the reply."""

    def without_calls(self, reply: Raw, names: Collection[str]) -> Raw:
        """The reply without these calls."""

    def answered(self, body: Raw, reply: Raw, answers: Sequence[tuple[RequestedCall, str]]) -> Raw:
        """The next request: the reply, and the tool results."""

    def joined(self, first: Raw, second: Raw) -> Raw:
        """Two replies as one."""

    def usage(self, reply: Raw) -> ReplyUsage:
        """What the provider counted."""

    def stream(self, hidden: Collection[str]) -> ReplyEvents:
        """A stream that omits calls of the `hidden` tools."""


def add_usage(first: Any, second: Any) -> Any:
    """The sum of two usage reports: numbers are added, other fields are the second's."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first | {key: add_usage(first.get(key), value) for key, value in second.items()}
    if _is_number(first) and _is_number(second):
        return first + second
    return first if second is None else second


def usage_count(usage: Any, *path: str) -> int:
    """A number in a usage report, or 0."""
    for name in path:
        usage = usage.get(name) if isinstance(usage, dict) else None
    return int(usage) if _is_number(usage) else 0


def dicts_in(value: Any) -> list[Raw]:
    """The objects in a list; empty for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def dict_or_empty(value: Any) -> Raw:
    """The value if it is an object, else an empty one; the provider reports the error."""
    return value if isinstance(value, dict) else {}


def is_dict_list(value: Any) -> bool:
    """Whether a value is a list of objects, or None, so that items can be appended."""
    return value is None or (isinstance(value, list) and len(dicts_in(value)) == len(value))


def text_of(value: Any) -> str:
    """The text of a string or of a list of text blocks."""
    return value if isinstance(value, str) else "\n\n".join(str(block.get("text", "")) for block in dicts_in(value))


def positive_int(value: Any) -> int:
    """A positive number of tokens, else 0."""
    return int(value) if _is_number(value) and value > 0 else 0


def _is_number(value: Any) -> bool:
    return isfinite(value) if isinstance(value, float) else isinstance(value, int) and not isinstance(value, bool)
