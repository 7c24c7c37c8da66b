"""OpenAI's Responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.providers.api import (
    Raw,
    ReplyUsage,
    RequestedCall,
    add_usage,
    dict_or_empty,
    dicts_in,
    is_dict_list,
    positive_int,
    usage_count,
)
from lossless.recall.tools import TOOLS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_BEGINNINGS = frozenset(("response.created", "response.queued", "response.in_progress"))
_ENDINGS = frozenset(("response.completed", "response.incomplete", "response.failed"))


class ResponsesApi:
    """`POST /v1/responses`."""

    format = "openai-responses"
    names_events = True

    def window(self, body: Raw) -> list[Raw]:
        """The instructions as a message, then the items; a string is a user message."""
        system, given = body.get("instructions"), body.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else dicts_in(given)
        return [*([{"role": "system", "content": system}] if system else []), *items]

    def knows_history(self, body: Raw) -> bool:
        """Whether the request continues from history that the provider stores."""
        return bool(body.get("previous_response_id") or body.get("conversation"))

    def with_window(self, body: Raw, messages: Sequence[Raw], system: str = "") -> Raw:  # noqa: ARG002
        """The request with these items; the separate instructions stay."""
        apart = {"role": "system", "content": body.get("instructions")}
        items = list(messages)
        if items and items[0] == apart:
            items = items[1:]
        return body | {"input": items}

    def with_recall(self, body: Raw, policy: str, tools: Sequence[Raw]) -> Raw:
        """The policy follows the instructions."""
        system = body.get("instructions")
        both = f"{system}\n\n{policy}" if isinstance(system, str) and system else policy
        return body | {"instructions": both, "tools": [*(body.get("tools") or []), *tools]}

    def tools(self) -> list[Raw]:
        """The recall tools as functions, flat."""
        return [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.help,
                "parameters": tool.schema,
                "strict": False,
            }
            for tool in TOOLS
        ]

    def tool_names(self, body: Raw) -> set[str]:
        return {str(tool.get("name")) for tool in dicts_in(body.get("tools"))}

    def may_call(self, body: Raw) -> bool:
        """Not when tools are off or one is forced, and not in the background."""
        is_free = body.get("tool_choice") in (None, "auto") and not body.get("background")
        given = body.get("input")
        has_place = is_dict_list(body.get("tools")) and (isinstance(given, str) or is_dict_list(given))
        return is_free and has_place and isinstance(body.get("instructions") or "", str)

    def most_output(self, body: Raw) -> int:
        return positive_int(body.get("max_output_tokens"))

    def with_most_output(self, body: Raw, tokens: int) -> Raw:
        return body | {"max_output_tokens": tokens}

    def reply_messages(self, reply: Raw) -> list[Raw]:
        return dicts_in(reply.get("output"))

    def calls(self, reply: Raw) -> list[RequestedCall]:
        return [
            RequestedCall(str(item.get("call_id")), str(item.get("name")), item.get("arguments"))
            for item in dicts_in(reply.get("output"))
            if item.get("type") == "function_call"
        ]

    def without_calls(self, reply: Raw, names: Collection[str]) -> Raw:
        output = dicts_in(reply.get("output"))
        kept = [item for item in output if item.get("type") != "function_call" or str(item.get("name")) not in names]
        return reply if len(kept) == len(output) else reply | {"output": kept}

    def answered(self, body: Raw, reply: Raw, answers: Sequence[tuple[RequestedCall, str]]) -> Raw:
        """The output, then the output of each function."""
        given = body.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else list(given or [])
        results = [{"type": "function_call_output", "call_id": call.id, "output": text} for call, text in answers]
        return body | {"input": [*items, *self.reply_messages(reply), *results]}

    def joined(self, first: Raw, second: Raw) -> Raw:
        """The items of both; id and status of the second."""
        output = [*dicts_in(first.get("output")), *dicts_in(second.get("output"))]
        return second | {"output": output, "usage": add_usage(first.get("usage"), second.get("usage"))}

    def usage(self, reply: Raw) -> ReplyUsage:
        """Input tokens include the cached ones."""
        usage = reply.get("usage")
        cached = usage_count(usage, "input_tokens_details", "cached_tokens")
        return ReplyUsage(usage_count(usage, "input_tokens"), cached, usage_count(usage, "output_tokens"))

    def stream(self, hidden: Collection[str]) -> ResponseStream:
        return ResponseStream(hidden)


class ResponseStream:
    """Events: items are assembled, hidden calls are removed, the end is held back until the reply is complete."""

    def __init__(self, hidden: Collection[str]) -> None:
        self._hidden, self._rounds, self._shown = frozenset(hidden), 0, 0
        self._number: int | None = None
        self._before: Raw | None = None
        self._response: Raw = {}
        self._items: dict[int, Raw] = {}
        self._texts: dict[int, str] = {}
        self.again()

    def again(self) -> None:
        """Another round: item numbers continue, its start is not shown."""
        if self._rounds:
            self._before = self._whole()
        self._rounds += 1
        self._response = {}
        self._items = {}
        self._texts = {}
        self._places: dict[int, int | None] = {}
        self._held: list[Raw] = []

    def feed(self, event: Raw) -> list[Raw]:
        kind = str(event.get("type"))
        if kind in _BEGINNINGS:
            self._response = dict(dict_or_empty(event.get("response")))
            return self._numbered(event) if self._rounds == 1 else []
        if kind in _ENDINGS:
            self._response = dict(dict_or_empty(event.get("response")) or self._response)
            self._held.append(event)
            return []
        if "output_index" not in event:
            return self._numbered(event)
        index = positive_int(event["output_index"])
        if kind in ("response.output_item.added", "response.output_item.done"):
            self._take(index, event.get("item"))
        elif kind == "response.output_text.delta":
            self._texts[index] = self._texts.get(index, "") + str(event.get("delta") or "")
        place = self._places.get(index)
        if place is None:
            return []
        return self._numbered(event if place == index else event | {"output_index": place})

    def reply(self) -> Raw:
        if self._response.get("output"):
            return self._response
        return self._response | {"output": [self._item(index) for index in sorted(self._items)]}

    @property
    def is_over(self) -> bool:
        """Whether the last event has come."""
        return bool(self._held)

    def ending(self) -> list[Raw]:
        """The last event, with everything that was shown."""
        unchanged = self._before is None and self._whole() is self._response
        return [
            numbered
            for event in self._held
            for numbered in self._numbered(event if unchanged else event | {"response": self._whole()})
        ]

    def _whole(self) -> Raw:
        """Everything that was shown, under the id that the client knows."""
        api = ResponsesApi()
        shown = api.without_calls(self.reply(), self._hidden)
        if self._before is None:
            return shown
        return api.joined(self._before, shown) | {"id": self._before.get("id")}

    def _take(self, index: int, item: object) -> None:
        made = dict(item) if isinstance(item, dict) else {}
        self._items[index] = made
        if index not in self._places:
            is_hidden = made.get("type") == "function_call" and str(made.get("name")) in self._hidden
            self._places[index] = None if is_hidden else self._shown
            self._shown += not is_hidden

    def _item(self, index: int) -> Raw:
        """An item; the text of one that was cut off is what was received of it."""
        item, text = self._items[index], self._texts.get(index)
        if item.get("content") or not text:
            return item
        return item | {"content": [{"type": "output_text", "text": text, "annotations": []}]}

    def _numbered(self, event: Raw) -> list[Raw]:
        """The event with the next sequence number, where events are numbered."""
        if "sequence_number" not in event:
            return [event]
        number = positive_int(event["sequence_number"]) if self._number is None else self._number
        self._number = number + 1
        return [event if event["sequence_number"] == number else event | {"sequence_number": number}]
