"""`ProviderAPI`: what the providers' APIs have in common (requests, replies, streams), and helpers to read JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from math import isfinite
from typing import Any, ClassVar, TypeAlias

from lossless.model.messages import ToolCall

Raw: TypeAlias = dict[str, Any]


class ReplyEvents(ABC):
    """A streamed reply: takes events, returns those for the client, and assembles the reply.

    Calls of hidden tools are left out, and the end is held back in case the reply continues.
    """

    def __init__(self, hidden: Collection[str]) -> None:
        self._hidden, self._rounds, self._shown = frozenset(hidden), 0, 0
        self.again()

    def again(self) -> None:
        """Another round begins; the client sees a single reply, whose items are numbered on."""
        self._rounds += 1
        #: The number that each item of this round has for the client; None for a hidden call.
        self._places: dict[int, int | None] = {}
        self._held: list[Raw] = []

    @abstractmethod
    def feed(self, event: Raw) -> list[Raw]:
        """The events to forward; the same object when nothing changed."""

    @abstractmethod
    def reply(self) -> Raw:
        """The reply of this round as a non-streamed one, as far as it was received."""

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Whether the reply is complete; else it was cut off, and its last call may be partial."""

    @abstractmethod
    def ending(self) -> list[Raw]:
        """The events that were held back."""

    def _add_item(self, index: int, tool: str | None) -> None:
        is_hidden = tool in self._hidden
        self._places[index] = None if is_hidden else self._shown
        self._shown += not is_hidden

    def _renumbered(self, event: Raw, field: str) -> list[Raw]:
        """The event with the number that the client knows its item by; nothing of a hidden call."""
        place = self._places.get(positive_int(event.get(field)))
        return [] if place is None else [event if event.get(field) == place else event | {field: place}]


class ProviderAPI(ABC):
    """The API of one provider. A reply's content is a list of items here, some of them tool calls."""

    #: The name in `lossless.formats`.
    format: ClassVar[str]
    #: Whether streamed events have their type on a separate line.
    names_events: ClassVar[bool] = True
    #: Where a request has its system prompt, messages and output limit.
    system_field: ClassVar[str] = ""
    messages_field: ClassVar[str] = "messages"
    output_limits: ClassVar[tuple[str, ...]]
    #: Where a reply has its items, the type of those that are calls, and where these have their id and arguments.
    items_field: ClassVar[str] = ""
    call_fields: ClassVar[tuple[str, str, str]] = ("", "", "")
    #: A tool's result: its fixed fields, where it names its call, and where it has its text.
    result_fields: ClassVar[tuple[Raw, str, str]]
    #: How its streamed replies are read.
    stream: ClassVar[type[ReplyEvents]]

    def window(self, body: Raw) -> list[Raw]:
        """The conversation in the request, system prompt first."""
        system = body.get(self.system_field)
        return [*([{"role": "system", "content": system}] if system else []), *self.messages(body)]

    def messages(self, body: Raw) -> list[Raw]:
        """The request's messages; a text is a user message."""
        given = body.get(self.messages_field)
        return [{"role": "user", "content": given}] if isinstance(given, str) else dicts_in(given)

    def knows_history(self, body: Raw) -> bool:  # noqa: ARG002
        """Whether the provider stores the history, so that the request only has new messages."""
        return False

    def with_window(self, body: Raw, messages: Sequence[Raw], system: str = "") -> Raw:  # noqa: ARG002
        """The request with these messages instead of its own; its own system prompt stays.

        `system` is the conversation's, when it is not among the messages.
        """
        return body | {self.messages_field: list(messages)}

    def with_recall(self, body: Raw, policy: str, tools: Sequence[Raw]) -> Raw:
        """The request with additional tools and system prompt text."""
        return body | self.policy_fields(body, policy) | {"tools": [*(body.get("tools") or []), *tools]}

    @abstractmethod
    def policy_fields(self, body: Raw, policy: str) -> Raw:
        """The fields of the request that change when a text is added to its system prompt."""

    @abstractmethod
    def tools(self) -> list[Raw]:
        """The recall tools in this API's format."""

    def tool_names(self, body: Raw) -> set[str]:
        """The tools that the request declares."""
        return {str(tool.get("name")) for tool in dicts_in(body.get("tools"))}

    @abstractmethod
    def may_call(self, body: Raw) -> bool:
        """Whether the request lets the model call tools that we add, and can hold them."""

    def most_output(self, body: Raw) -> int:
        """The request's output token limit; 0 when it has none."""
        return next(filter(None, (positive_int(body.get(name)) for name in self.output_limits)), 0)

    def with_most_output(self, body: Raw, tokens: int) -> Raw:
        """The request with a lower output token limit, in its own spelling."""
        names = (name for name in self.output_limits if positive_int(body.get(name)))
        return body | {next(names, self.output_limits[-1]): tokens}

    @abstractmethod
    def reply_messages(self, reply: Raw) -> list[Raw]:
        """The messages that the reply adds to the conversation, as clients send them back."""

    def calls(self, reply: Raw) -> list[ToolCall]:
        """The tool calls in the reply."""
        kind, id_, arguments = self.call_fields
        return [
            ToolCall(str(item.get(id_)), str(item.get("name")), item.get(arguments))
            for item in dicts_in(reply.get(self.items_field))
            if item.get("type") == kind
        ]

    def without_calls(self, reply: Raw, names: Collection[str]) -> Raw:
        """The reply without these calls."""
        items, kind = dicts_in(reply.get(self.items_field)), self.call_fields[0]
        kept = [item for item in items if item.get("type") != kind or str(item.get("name")) not in names]
        return reply if len(kept) == len(items) else reply | {self.items_field: kept}

    def answered(self, body: Raw, reply: Raw, answers: Sequence[tuple[ToolCall, str]]) -> Raw:
        """The next request: the reply, and the tool results."""
        messages = [*self.messages(body), *self.reply_messages(reply), *self.results(answers)]
        return body | {self.messages_field: messages}

    def results(self, answers: Sequence[tuple[ToolCall, str]]) -> list[Raw]:
        """The tool results as messages."""
        fixed, id_, content = self.result_fields
        return [fixed | {id_: call.id, content: text} for call, text in answers]

    def joined(self, first: Raw, second: Raw) -> Raw:
        """Two replies as one: the items of both, everything else is the second's."""
        items = [*dicts_in(first.get(self.items_field)), *dicts_in(second.get(self.items_field))]
        return second | {self.items_field: items, "usage": add_usage(first.get("usage"), second.get("usage"))}


def add_usage(first: Any, second: Any) -> Any:
    """The sum of two usage reports: numbers are added, other fields are the second's."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first | {key: add_usage(first.get(key), value) for key, value in second.items()}
    if _is_number(first) and _is_number(second):
        return first + second
    return first if second is None else second


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
