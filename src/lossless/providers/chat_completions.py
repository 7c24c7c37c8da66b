"""OpenAI's chat completions, and compatible APIs."""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from lossless.model.messages import ToolCall
from lossless.providers import api
from lossless.recall.tools import openai_tools


class ChatStream(api.ReplyEvents):
    """Chunks: the first choice is assembled."""

    def __init__(self, hidden: Collection[str]) -> None:
        self._id: Any = None
        self._usage: Any = None
        super().__init__(hidden)

    def again(self) -> None:
        """Another round: its chunks have the first one's id."""
        super().again()
        self._head: api.Raw = {}
        self._message: api.Raw = {"role": "assistant", "content": None}
        self._calls: dict[int, api.Raw] = {}
        self._finish: Any = None
        self._round_usage: Any = None

    def feed(self, event: api.Raw) -> list[api.Raw]:
        """A chunk for the client; the end of the reply is held back."""
        if self._id is None:
            self._id = event.get("id")
        self._head = self._head or {key: event[key] for key in ("id", "model", "created") if key in event}
        if event.get("usage"):
            self._round_usage = event["usage"]
            self._usage = api.add_usage(self._usage, event["usage"])
        choice = next((choice for choice in api.dicts_in(event.get("choices")) if not choice.get("index")), None)
        if choice is None:
            if api.dicts_in(event.get("choices")):
                return [event]
            self._held.append(event)
            return []
        delta = api.dict_or_empty(choice.get("delta"))
        self._take(delta)
        shown = self._seen(event, choice, delta)
        if choice.get("finish_reason"):
            self._finish = choice["finish_reason"]
            self._held += shown
            return []
        return shown

    def reply(self) -> api.Raw:
        message = dict(self._message)
        if self._calls:
            message["tool_calls"] = [self._calls[index] for index in sorted(self._calls)]
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        return {"object": "chat.completion", **self._head, "choices": [choice], "usage": self._round_usage}

    @property
    def is_over(self) -> bool:
        """Whether there is a finish reason; some servers send none, so complete calls suffice."""
        return self._finish is not None or all(_is_json(call["function"]["arguments"]) for call in self._calls.values())

    def ending(self) -> list[api.Raw]:
        """The last chunks, with the usage of all rounds."""
        return [
            chunk | {"usage": self._usage} if chunk.get("usage") and chunk["usage"] != self._usage else chunk
            for chunk in self._held
        ]

    def _take(self, delta: api.Raw) -> None:
        for key, value in delta.items():
            if key == "tool_calls":
                for piece in api.dicts_in(value):
                    self._take_call(piece)
            elif value is not None:
                self._message[key] = value if key == "role" else _grown(self._message.get(key), value)

    def _take_call(self, piece: api.Raw) -> None:
        index = api.positive_int(piece.get("index"))
        empty = {"id": None, "type": "function", "function": {"name": "", "arguments": ""}}
        call = self._calls.setdefault(index, empty)
        call |= {key: value for key, value in piece.items() if key not in ("index", "function") and value is not None}
        function = api.dict_or_empty(piece.get("function"))
        for name in ("name", "arguments"):
            call["function"][name] = _grown(call["function"][name], str(function.get(name) or ""))
        if index not in self._places and call["function"]["name"]:
            self._add_item(index, call["function"]["name"])

    def _seen(self, event: api.Raw, choice: api.Raw, delta: api.Raw) -> list[api.Raw]:
        """The chunk without parts of hidden calls; None when nothing is left."""
        pieces = api.dicts_in(delta.get("tool_calls"))
        kept = [one for piece in pieces for one in self._renumbered(piece, "index")]
        unchanged = len(kept) == len(pieces) and all(a is b for a, b in zip(kept, pieces, strict=True))
        if unchanged and event.get("id") == self._id:
            return [event]
        rest = {key: value for key, value in delta.items() if key != "tool_calls"}
        rest |= {"tool_calls": kept} if kept else {}
        if not choice.get("finish_reason") and not any(value for key, value in rest.items() if key != "role"):
            return []
        return [event | {"id": self._id, "choices": [choice | {"delta": rest}]}]


class ChatCompletions(api.ProviderAPI):
    """`POST /v1/chat/completions`."""

    format = "openai-chat"
    names_events = False
    output_limits = ("max_completion_tokens", "max_tokens")
    result_fields = ({"role": "tool"}, "tool_call_id", "content")
    stream = ChatStream

    def policy_fields(self, body: api.Raw, policy: str) -> api.Raw:
        """The policy becomes the last of the leading system messages."""
        messages = list(body["messages"])
        talk = next((n for n, m in enumerate(messages) if m.get("role") not in ("system", "developer")), len(messages))
        messages.insert(talk, {"role": "system", "content": policy})
        return {"messages": messages}

    def tools(self) -> list[api.Raw]:
        return openai_tools()

    def tool_names(self, body: api.Raw) -> set[str]:
        tools = api.dicts_in(body.get("tools"))
        return {str(one.get("name")) for one in api.dicts_in([tool.get("function") or tool for tool in tools])}

    def may_call(self, body: api.Raw) -> bool:
        """Not when tools are off or one is forced, and not with several choices."""
        has_place = (
            bool(body.get("messages")) and api.is_dict_list(body["messages"]) and api.is_dict_list(body.get("tools"))
        )
        return has_place and body.get("tool_choice") in (None, "auto") and api.positive_int(body.get("n")) <= 1

    def reply_messages(self, reply: api.Raw) -> list[api.Raw]:
        message = _message(reply)
        spoken = any(message.get(key) for key in ("content", "tool_calls", "refusal", "reasoning_content"))
        return [message] if spoken else []

    def calls(self, reply: api.Raw) -> list[ToolCall]:
        calls = [
            (call, api.dict_or_empty(call.get("function"))) for call in api.dicts_in(_message(reply).get("tool_calls"))
        ]
        return [ToolCall(str(call.get("id")), str(of.get("name")), of.get("arguments")) for call, of in calls]

    def without_calls(self, reply: api.Raw, names: Collection[str]) -> api.Raw:
        """The message without these calls; an empty list is removed."""
        message = _message(reply)
        calls = api.dicts_in(message.get("tool_calls"))
        kept = [call for call in calls if str(api.dict_or_empty(call.get("function")).get("name")) not in names]
        if len(kept) == len(calls):
            return reply
        rest = {key: value for key, value in message.items() if key != "tool_calls"}
        return _with_message(reply, rest | ({"tool_calls": kept} if kept else {}))

    def joined(self, first: api.Raw, second: api.Raw) -> api.Raw:
        """The text of both in one message, the calls and the finish reason of the second."""
        before, after = _message(first).get("content"), _message(second)
        text = after.get("content")
        both = before + text if isinstance(before, str) and isinstance(text, str) else text or before
        usage = api.add_usage(first.get("usage"), second.get("usage"))
        return _with_message(second, after | {"content": both}) | {"usage": usage}


def _message(reply: api.Raw) -> api.Raw:
    choices = api.dicts_in(reply.get("choices"))
    return api.dict_or_empty(choices[0].get("message")) if choices else {}


def _with_message(reply: api.Raw, message: api.Raw) -> api.Raw:
    choices = api.dicts_in(reply.get("choices"))
    return reply | {"choices": [choices[0] | {"message": message}, *choices[1:]]} if choices else reply


def _is_json(text: str) -> bool:
    with suppress(ValueError, RecursionError):
        json.loads(text or "{}")
        return True
    return False


def _grown(before: Any, piece: Any) -> Any:
    """The accumulated value with one more delta: strings and lists grow, and a string in a list is a block of it."""
    if isinstance(before, list) or isinstance(piece, list):
        return [*_blocks(before), *_blocks(piece)]
    return before + piece if isinstance(before, str) and isinstance(piece, str) else piece


def _blocks(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return [{"type": "text", "text": value}] if value else []
