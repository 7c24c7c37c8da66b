"""Anthropic's messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lossless.providers import api
from lossless.recall.tools import anthropic_tools

if TYPE_CHECKING:
    from lossless.model.messages import ToolCall

#: Delta types, and the fields that they extend.
_PIECES = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class MessageStream(api.ReplyEvents):
    """Events: blocks are assembled."""

    #: Output tokens of all rounds.
    _output = 0

    def again(self) -> None:
        """Another round: its start is not shown."""
        super().again()
        self._message: api.Raw = {"type": "message", "role": "assistant", "content": []}
        self._blocks: dict[int, api.Raw] = {}
        self._json: dict[int, str] = {}

    def feed(self, event: api.Raw) -> list[api.Raw]:
        kind = event.get("type")
        if kind == "message_start":
            self._message = dict(api.dict_or_empty(event.get("message")) or self._message)
            return [event] if self._rounds == 1 else []
        if kind in ("message_delta", "message_stop"):
            self._message |= api.dict_or_empty(event.get("delta"))
            if usage := api.dict_or_empty(event.get("usage")):
                self._message["usage"] = api.dict_or_empty(self._message.get("usage")) | usage
                self._output += api.positive_int(usage.get("output_tokens"))
            self._held.append(event)
            return []
        if not str(kind).startswith("content_block_"):
            return [event]
        index = api.positive_int(event.get("index"))
        if kind == "content_block_start":
            self._blocks[index] = made = dict(api.dict_or_empty(event.get("content_block")))
            self._add_item(index, str(made.get("name")) if made.get("type") == "tool_use" else None)
        elif kind == "content_block_delta":
            delta, block = api.dict_or_empty(event.get("delta")), self._blocks.setdefault(index, {})
            if delta.get("type") == "input_json_delta":
                self._json[index] = self._json.get(index, "") + str(delta.get("partial_json") or "")
            elif delta.get("type") == "citations_delta":
                block["citations"] = [*(block.get("citations") or []), delta.get("citation")]
            elif (name := _PIECES.get(str(delta.get("type")))) is not None:
                block[name] = str(block.get(name) or "") + str(delta.get(name) or "")
        return self._renumbered(event, "index")

    def reply(self) -> api.Raw:
        content = []
        for index in sorted(self._blocks):
            block = self._blocks[index]
            if text := self._json.get(index):
                try:
                    block = block | {"input": json.loads(text)}
                except (ValueError, RecursionError):  # cut off, or unreadable
                    block = block | {"input": {"partial": text}}
            content.append(block)
        return self._message | {"content": content}

    @property
    def is_over(self) -> bool:
        return bool(self._message.get("stop_reason"))

    def ending(self) -> list[api.Raw]:
        """The last events, with the output tokens of all rounds."""
        usages = [api.dict_or_empty(event.get("usage")) for event in self._held]
        return [
            event | {"usage": usage | {"output_tokens": self._output}} if self._rounds > 1 and usage else event
            for event, usage in zip(self._held, usages, strict=True)
        ]


class MessagesApi(api.ProviderAPI):
    """`POST /v1/messages`."""

    format = "anthropic"
    system_field = "system"
    output_limits = ("max_tokens",)
    items_field = "content"
    call_fields = ("tool_use", "id", "input")
    result_fields = ({"type": "tool_result"}, "tool_use_id", "content")
    stream = MessageStream

    def with_window(self, body: api.Raw, messages: Sequence[api.Raw], system: str = "") -> api.Raw:
        """The request with these messages; the separate system prompt stays."""
        prompt = {"system": system} if system and not body.get("system") else {}
        return body | prompt | {"messages": list(messages)}

    def policy_fields(self, body: api.Raw, policy: str) -> api.Raw:
        """The policy follows the system prompt."""
        system = body.get("system") or []
        blocks = [{"type": "text", "text": system}] if isinstance(system, str) else list(system)
        return {"system": [*blocks, {"type": "text", "text": policy}]}

    def tools(self) -> list[api.Raw]:
        return anthropic_tools()

    def may_call(self, body: api.Raw) -> bool:
        """Not when tools are off or one is forced."""
        choice, system = body.get("tool_choice"), body.get("system")
        has_place = isinstance(system, str) or api.is_dict_list(system)
        has_lists = bool(body.get("messages")) and all(api.is_dict_list(body.get(n)) for n in ("messages", "tools"))
        is_free = choice is None or (isinstance(choice, dict) and choice.get("type") == "auto")
        return has_place and has_lists and is_free

    def with_most_output(self, body: api.Raw, tokens: int) -> api.Raw:
        """With another `max_tokens`, which must exceed the thinking budget."""
        thinking = api.positive_int(api.dict_or_empty(body.get("thinking")).get("budget_tokens"))
        return body if tokens <= thinking else body | {"max_tokens": tokens}

    def reply_messages(self, reply: api.Raw) -> list[api.Raw]:
        content = api.dicts_in(reply.get("content"))
        return [{"role": "assistant", "content": content}] if content else []

    def results(self, answers: Sequence[tuple[ToolCall, str]]) -> list[api.Raw]:
        return [{"role": "user", "content": super().results(answers)}]
