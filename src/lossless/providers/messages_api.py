"""Anthropic's messages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

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
from lossless.recall.tools import anthropic_tools

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

#: Delta types, and the fields that they extend.
_PIECES = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class MessagesApi:
    """`POST /v1/messages`."""

    format = "anthropic"
    names_events = True

    def window(self, body: Raw) -> list[Raw]:
        """The system prompt as a message, then the messages."""
        system = body.get("system")
        return [*([{"role": "system", "content": system}] if system else []), *dicts_in(body.get("messages"))]

    def knows_history(self, body: Raw) -> bool:  # noqa: ARG002
        """Never: every request has the whole history."""
        return False

    def with_window(self, body: Raw, messages: Sequence[Raw], system: str = "") -> Raw:
        """The request with these messages; the separate system prompt stays."""
        prompt = {"system": system} if system and not body.get("system") else {}
        return body | prompt | {"messages": list(messages)}

    def with_recall(self, body: Raw, policy: str, tools: Sequence[Raw]) -> Raw:
        """The policy follows the system prompt."""
        system = body.get("system") or []
        blocks = [{"type": "text", "text": system}] if isinstance(system, str) else list(system)
        blocks.append({"type": "text", "text": policy})
        return body | {"system": blocks, "tools": [*(body.get("tools") or []), *tools]}

    def tools(self) -> list[Raw]:
        """The recall tools with their input schemas."""
        return anthropic_tools()

    def tool_names(self, body: Raw) -> set[str]:
        return {str(tool.get("name")) for tool in dicts_in(body.get("tools"))}

    def may_call(self, body: Raw) -> bool:
        """Not when tools are off or one is forced."""
        choice, system = body.get("tool_choice"), body.get("system")
        has_place = isinstance(system, str) or is_dict_list(system)
        if (
            not has_place
            or not body.get("messages")
            or not all(is_dict_list(body.get(n)) for n in ("messages", "tools"))
        ):
            return False
        return choice is None or (isinstance(choice, dict) and choice.get("type") == "auto")

    def most_output(self, body: Raw) -> int:
        """`max_tokens`, which is required."""
        return positive_int(body.get("max_tokens"))

    def with_most_output(self, body: Raw, tokens: int) -> Raw:
        """With another `max_tokens`, which must exceed the thinking budget."""
        thinking = positive_int(dict_or_empty(body.get("thinking")).get("budget_tokens"))
        return body if tokens <= thinking else body | {"max_tokens": tokens}

    def reply_messages(self, reply: Raw) -> list[Raw]:
        content = dicts_in(reply.get("content"))
        return [{"role": "assistant", "content": content}] if content else []

    def calls(self, reply: Raw) -> list[RequestedCall]:
        """The blocks that call a tool of the client."""
        return [
            RequestedCall(str(block.get("id")), str(block.get("name")), block.get("input"))
            for block in dicts_in(reply.get("content"))
            if block.get("type") == "tool_use"
        ]

    def without_calls(self, reply: Raw, names: Collection[str]) -> Raw:
        blocks = dicts_in(reply.get("content"))
        kept = [block for block in blocks if block.get("type") != "tool_use" or str(block.get("name")) not in names]
        return reply if len(kept) == len(blocks) else reply | {"content": kept}

    def answered(self, body: Raw, reply: Raw, answers: Sequence[tuple[RequestedCall, str]]) -> Raw:
        """The reply's message, then one of results."""
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": text} for call, text in answers]
        return body | {
            "messages": [*body["messages"], *self.reply_messages(reply), {"role": "user", "content": results}]
        }

    def joined(self, first: Raw, second: Raw) -> Raw:
        """The blocks of both, the stop reason of the second."""
        content = [*dicts_in(first.get("content")), *dicts_in(second.get("content"))]
        return second | {"content": content, "usage": add_usage(first.get("usage"), second.get("usage"))}

    def usage(self, reply: Raw) -> ReplyUsage:
        """Cached tokens are reported separately, and added here."""
        usage = reply.get("usage")
        read, written = usage_count(usage, "cache_read_input_tokens"), usage_count(usage, "cache_creation_input_tokens")
        return ReplyUsage(
            usage_count(usage, "input_tokens") + read + written, read, usage_count(usage, "output_tokens")
        )

    def stream(self, hidden: Collection[str]) -> MessageStream:
        return MessageStream(hidden)


class MessageStream:
    """Events: blocks are assembled, hidden calls are removed, the end is held back until the reply is complete."""

    def __init__(self, hidden: Collection[str]) -> None:
        self._hidden, self._rounds, self._shown, self._output = frozenset(hidden), 0, 0, 0
        self.again()

    def again(self) -> None:
        """Another round: block numbers continue, its start is not shown."""
        self._rounds += 1
        self._message: Raw = {"type": "message", "role": "assistant", "content": []}
        self._blocks: dict[int, Raw] = {}
        self._json: dict[int, str] = {}
        self._places: dict[int, int | None] = {}
        self._held: list[Raw] = []

    def feed(self, event: Raw) -> list[Raw]:
        kind = event.get("type")
        if kind == "message_start":
            self._message = dict(dict_or_empty(event.get("message")) or self._message)
            return [event] if self._rounds == 1 else []
        if kind in ("message_delta", "message_stop"):
            self._end(event)
            self._held.append(event)
            return []
        if not str(kind).startswith("content_block_"):
            return [event]
        index = positive_int(event.get("index"))
        if kind == "content_block_start":
            self._start(index, event.get("content_block"))
        elif kind == "content_block_delta":
            self._take(index, dict_or_empty(event.get("delta")))
        place = self._places.get(index)
        if place is None:
            return []
        return [event] if place == index else [event | {"index": place}]

    def reply(self) -> Raw:
        return self._message | {"content": [self._block(index) for index in sorted(self._blocks)]}

    @property
    def is_over(self) -> bool:
        return bool(self._message.get("stop_reason"))

    def ending(self) -> list[Raw]:
        """The last events, with the output tokens of all rounds."""
        return [self._with_output(event) for event in self._held]

    def _start(self, index: int, block: Any) -> None:
        self._blocks[index] = dict(block) if isinstance(block, dict) else {}
        made = self._blocks[index]
        is_hidden = made.get("type") == "tool_use" and str(made.get("name")) in self._hidden
        self._places[index] = None if is_hidden else self._shown
        self._shown += not is_hidden

    def _take(self, index: int, delta: Raw) -> None:
        block, kind = self._blocks.setdefault(index, {}), str(delta.get("type"))
        if kind == "input_json_delta":
            self._json[index] = self._json.get(index, "") + str(delta.get("partial_json") or "")
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta.get("citation")]
        elif (name := _PIECES.get(kind)) is not None:
            block[name] = str(block.get(name) or "") + str(delta.get(name) or "")

    def _block(self, index: int) -> Raw:
        text = self._json.get(index)
        if not text:
            return self._blocks[index]
        try:
            return self._blocks[index] | {"input": json.loads(text)}
        except (ValueError, RecursionError):  # cut off, or unreadable
            return self._blocks[index] | {"input": {"partial": text}}

    def _end(self, event: Raw) -> None:
        self._message |= dict_or_empty(event.get("delta"))
        if usage := dict_or_empty(event.get("usage")):
            self._message["usage"] = dict_or_empty(self._message.get("usage")) | usage
            self._output += usage_count(usage, "output_tokens")

    def _with_output(self, event: Raw) -> Raw:
        usage = dict_or_empty(event.get("usage"))
        if self._rounds == 1 or not usage:
            return event
        return event | {"usage": usage | {"output_tokens": self._output}}
