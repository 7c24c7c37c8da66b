"""OpenAI's Responses."""

from __future__ import annotations

from collections.abc import Sequence

from lossless.providers.api import ProviderAPI, Raw, ReplyEvents, dict_or_empty, dicts_in, is_dict_list, positive_int
from lossless.recall.tools import TOOLS

_BEGINNINGS = frozenset(("response.created", "response.queued", "response.in_progress"))
_ENDINGS = frozenset(("response.completed", "response.incomplete", "response.failed"))


class ResponseStream(ReplyEvents):
    """Events: items are assembled."""

    #: The next sequence number, where events are numbered; and all that was shown in the rounds before.
    _number: int | None = None
    _before: Raw | None = None

    def again(self) -> None:
        """Another round: its start is not shown."""
        if self._rounds:
            self._before = self._whole()
        super().again()
        self._response: Raw = {}
        self._items: dict[int, Raw] = {}
        self._texts: dict[int, str] = {}

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
            self._items[index] = made = dict(dict_or_empty(event.get("item")))
            if index not in self._places:
                self._add_item(index, str(made.get("name")) if made.get("type") == "function_call" else None)
        elif kind == "response.output_text.delta":
            self._texts[index] = self._texts.get(index, "") + str(event.get("delta") or "")
        return [one for moved in self._renumbered(event, "output_index") for one in self._numbered(moved)]

    def reply(self) -> Raw:
        if self._response.get("output"):
            return self._response
        output = []
        for index in sorted(self._items):
            item, text = self._items[index], self._texts.get(index)
            if text and not item.get("content"):  # it was cut off: what was received of it
                item = item | {"content": [{"type": "output_text", "text": text, "annotations": []}]}
            output.append(item)
        return self._response | {"output": output}

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

    def _numbered(self, event: Raw) -> list[Raw]:
        """The event with the next sequence number, where events are numbered."""
        if "sequence_number" not in event:
            return [event]
        number = positive_int(event["sequence_number"]) if self._number is None else self._number
        self._number = number + 1
        return [event if event["sequence_number"] == number else event | {"sequence_number": number}]


class ResponsesApi(ProviderAPI):
    """`POST /v1/responses`."""

    format = "openai-responses"
    system_field = "instructions"
    messages_field = "input"
    output_limits = ("max_output_tokens",)
    items_field = "output"
    call_fields = ("function_call", "call_id", "arguments")
    result_fields = ({"type": "function_call_output"}, "call_id", "output")
    stream = ResponseStream

    def knows_history(self, body: Raw) -> bool:
        """Whether the request continues from history that the provider stores."""
        return bool(body.get("previous_response_id") or body.get("conversation"))

    def with_window(self, body: Raw, messages: Sequence[Raw], system: str = "") -> Raw:  # noqa: ARG002
        """The request with these items; the separate instructions stay."""
        instructions = {"role": "system", "content": body.get("instructions")}
        return body | {"input": list(messages[1:] if messages and messages[0] == instructions else messages)}

    def policy_fields(self, body: Raw, policy: str) -> Raw:
        """The policy follows the instructions."""
        system = body.get("instructions")
        return {"instructions": f"{system}\n\n{policy}" if isinstance(system, str) and system else policy}

    def tools(self) -> list[Raw]:
        """The recall tools as functions, flat."""
        return [
            {"type": "function", "name": one.name, "description": one.help, "parameters": one.schema, "strict": False}
            for one in TOOLS
        ]

    def may_call(self, body: Raw) -> bool:
        """Not when tools are off or one is forced, and not in the background."""
        is_free = body.get("tool_choice") in (None, "auto") and not body.get("background")
        given = body.get("input")
        has_place = is_dict_list(body.get("tools")) and (isinstance(given, str) or is_dict_list(given))
        return is_free and has_place and isinstance(body.get("instructions") or "", str)

    def reply_messages(self, reply: Raw) -> list[Raw]:
        return dicts_in(reply.get("output"))
