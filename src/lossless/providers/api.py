"""`ProviderAPI`: what each provider's API must offer here (requests, replies, streams), and helpers to read their
JSON safely.
"""

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
    """A tool that a reply asks for."""

    id: str
    name: str
    #: An object, or its JSON text as it came.
    input: Any

    @property
    def arguments(self) -> Any:
        """The arguments as an object; text that is no JSON stays text."""
        if not isinstance(self.input, str):
            return self.input
        try:
            return json.loads(self.input or "{}")
        except (ValueError, RecursionError):
            return self.input


@dataclass(frozen=True, slots=True)
class ReplyUsage:
    """What a provider counted: all prompt tokens, those of them that came from its cache, and the reply's."""

    prompt: int = 0
    cached: int = 0
    output: int = 0


class ReplyEvents(Protocol):
    """A streamed reply: takes events, gives those that the client may see, and puts the reply together."""

    def feed(self, event: Raw) -> list[Raw]:
        """The events to pass on; the very same object when nothing had to change."""

    def reply(self) -> Raw:
        """The reply of this round as if it had come at once, as far as it came."""

    @property
    def is_over(self) -> bool:
        """Whether the reply came to its end; else it was cut off, and its last call may be half of one."""

    def again(self) -> None:
        """Another round begins; the client shall see one reply."""

    def ending(self) -> list[Raw]:
        """The events that were held back because the reply might have gone on."""


class ProviderAPI(Protocol):
    """How one kind of request spells things."""

    #: The name in `lossless.formats`.
    format: str
    #: Whether streamed events carry their name on a line of its own.
    names_events: bool

    def window(self, body: Raw) -> list[Raw]:
        """The conversation as the request has it, system prompt first."""

    def knows_history(self, body: Raw) -> bool:
        """Whether the provider itself keeps what was said before, so that the request only has what is new."""

    def with_window(self, body: Raw, messages: Sequence[Raw], system: str = "") -> Raw:
        """The request with these messages instead of its own; its system prompt stays, if it has one.

        `system` is the conversation's own, where that is not among the messages.
        """

    def with_recall(self, body: Raw, policy: str, tools: Sequence[Raw]) -> Raw:
        """The request with more tools and more to its system prompt."""

    def tools(self) -> list[Raw]:
        """The recall tools, as this dialect declares tools."""

    def tool_names(self, body: Raw) -> set[str]:
        """The tools that the request declares."""

    def may_call(self, body: Raw) -> bool:
        """Whether the request leaves the model free to call tools we would add, and has a place for them."""

    def most_output(self, body: Raw) -> int:
        """How many tokens the request keeps for the reply; 0 when it does not say."""

    def with_most_output(self, body: Raw, tokens: int) -> Raw:
        """The request with a reply of at most so many tokens, where it says how many there may be."""

    def reply_messages(self, reply: Raw) -> list[Raw]:
        """What the reply adds to the conversation, as clients send it back."""

    def calls(self, reply: Raw) -> list[RequestedCall]:
        """The tools that the reply asks for."""

    def without_calls(self, reply: Raw, names: Collection[str]) -> Raw:
        """The reply as if it had never asked for these tools."""

    def answered(self, body: Raw, reply: Raw, answers: Sequence[tuple[RequestedCall, str]]) -> Raw:
        """The next request: what was said, and what the tools answered."""

    def joined(self, first: Raw, second: Raw) -> Raw:
        """Two replies as one: what the first said, then the second."""

    def usage(self, reply: Raw) -> ReplyUsage:
        """What the provider counted."""

    def stream(self, hidden: Collection[str]) -> ReplyEvents:
        """A stream in which calls of the `hidden` tools are not shown."""


def add_usage(first: Any, second: Any) -> Any:
    """Two usage reports as one: numbers are added, the rest is the second's."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first | {key: add_usage(first.get(key), value) for key, value in second.items()}
    if _is_number(first) and _is_number(second):
        return first + second
    return first if second is None else second


def usage_count(usage: Any, *path: str) -> int:
    """A number inside a usage report, or 0."""
    for name in path:
        usage = usage.get(name) if isinstance(usage, dict) else None
    return int(usage) if _is_number(usage) else 0


def dicts_in(value: Any) -> list[Raw]:
    """The objects in a list; nothing for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def dict_or_empty(value: Any) -> Raw:
    """The object that belongs here; an empty one for anything else, which is the provider's to explain."""
    return value if isinstance(value, dict) else {}


def is_dict_list(value: Any) -> bool:
    """Whether a value is a list of objects, or none at all: what belongs behind them can be put there."""
    return value is None or (isinstance(value, list) and len(dicts_in(value)) == len(value))


def text_of(value: Any) -> str:
    """The words of a text or of a list of text blocks."""
    return value if isinstance(value, str) else "\n\n".join(str(block.get("text", "")) for block in dicts_in(value))


def positive_int(value: Any) -> int:
    """A positive number of tokens, else 0."""
    return int(value) if _is_number(value) and value > 0 else 0


def _is_number(value: Any) -> bool:
    return isfinite(value) if isinstance(value, float) else isinstance(value, int) and not isinstance(value, bool)
