"""What a request to a model says, and how a reply is written, in the words of four providers' interfaces.

Nothing is shared with the package that is measured: a mistake there must not hide here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

Raw: TypeAlias = dict[str, Any]


class Piece(NamedTuple):
    """A text of a prompt; a call of a tool is the role `call`, what a tool said is `tool`."""

    role: str
    text: str


class Use(NamedTuple):
    """A call of a tool."""

    name: str
    arguments: Raw


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model says: words and calls, or an error's status."""

    text: str = ""
    uses: tuple[Use, ...] = ()
    status: int = 200
    error: str = ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request, read: its texts in the order in which a provider's cache sees them."""

    kind: str
    pieces: list[Piece]
    tools: list[str]
    tools_json: str
    model: str = ""
    stream: bool = False
    usage: bool = False
    body: Raw = field(default_factory=dict)

    @property
    def whole(self) -> str:
        """All of it as one text: as long as two of them are the same, a provider's cache has it."""
        return "\n".join([self.tools_json, *(f"{role}:{text}" for role, text in self.pieces)])


def kind_of(path: str) -> str | None:
    """Which interface a path belongs to."""
    path = path.partition("?")[0]
    ends = {"/chat/completions": "chat", "/responses": "responses", "/messages": "messages", "/count_tokens": "count"}
    found = next((kind for end, kind in ends.items() if path.endswith(end)), None)
    return "gemini" if found is None and "enerateContent" in path else found


def read(kind: str, body: Raw, path: str = "") -> Prompt:
    """Read a request."""
    tools = body.get("tools") or []
    reader = {"chat": _chat, "messages": _messages, "responses": _responses, "gemini": _gemini}[kind]
    options = body.get("stream_options") or {}
    return Prompt(
        kind=kind,
        pieces=[piece for piece in reader(body) if piece.text],
        tools=list(_names(tools)),
        tools_json=json.dumps(tools, ensure_ascii=False) if tools else "",
        model=str(body.get("model") or "scripted"),
        stream=bool(body.get("stream")) or "streamGenerateContent" in path,
        usage=bool(options.get("include_usage")),
        body=body,
    )


def _names(tools: list[Raw]) -> Iterator[str]:
    for tool in tools:
        if "functionDeclarations" in tool:
            yield from (one["name"] for one in tool["functionDeclarations"])
        elif tool.get("type") == "namespace":
            yield from (f"{tool['name']}.{one['name']}" for one in tool["tools"])
        else:
            yield str((tool.get("function") or tool).get("name") or tool.get("type"))


def text_of(content: Any) -> str:
    """The words of a content, whatever its shape."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(text_of, content)))
    if isinstance(content, dict):
        return text_of(next((content[key] for key in ("text", "content", "output", "result") if key in content), ""))
    return str(content)


def _chat(body: Raw) -> Iterator[Piece]:
    for message in body.get("messages") or []:
        yield Piece(message["role"], text_of(message.get("content")))
        for call in message.get("tool_calls") or []:
            yield Piece("call", f"{call['id']} {call['function']['name']} {call['function']['arguments']}")


def _messages(body: Raw) -> Iterator[Piece]:
    yield Piece("system", text_of(body.get("system")))
    for message in body.get("messages") or []:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "tool_use":
                yield Piece("call", f"{block['id']} {block['name']} {json.dumps(block['input'], ensure_ascii=False)}")
            else:
                yield Piece("tool" if block["type"] == "tool_result" else message["role"], text_of(block))


def _responses(body: Raw) -> Iterator[Piece]:
    yield Piece("system", text_of(body.get("instructions")))
    items = body.get("input") or []
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
        kind = item.get("type", "message")
        if kind.endswith("_call"):
            yield Piece(
                "call", f"{item.get('call_id')} {item.get('name')} {item.get('arguments') or item.get('input')}"
            )
        elif kind.endswith("_output"):
            yield Piece("tool", text_of(item.get("output")))
        elif "role" in item:
            yield Piece("system" if item["role"] == "developer" else item["role"], text_of(item.get("content")))


def _gemini(body: Raw) -> Iterator[Piece]:
    yield Piece("system", text_of((body.get("systemInstruction") or {}).get("parts")))
    for content in body.get("contents") or []:
        role = "assistant" if content.get("role") == "model" else "user"
        for part in content.get("parts") or []:
            if "functionCall" in part:
                call = part["functionCall"]
                yield Piece("call", f"{call['name']} {json.dumps(call.get('args') or {}, ensure_ascii=False)}")
            elif "functionResponse" in part:
                answer = part["functionResponse"].get("response")
                yield Piece("tool", text_of(answer) or json.dumps(answer, ensure_ascii=False))
            else:
                yield Piece(role, text_of(part))


def refused(kind: str, status: int, error: str) -> Raw:
    """The body of an error, as each provider writes it."""
    if kind == "messages":
        named = {400: "invalid_request_error", 529: "overloaded_error"}.get(status, "api_error")
        return {"type": "error", "error": {"type": named, "message": error}}
    if kind == "gemini":
        return {
            "error": {"code": status, "message": error, "status": "INVALID_ARGUMENT" if status == 400 else "INTERNAL"}
        }
    code = "context_length_exceeded" if status == 400 else None
    return {
        "error": {"message": error, "type": "invalid_request_error" if status == 400 else "server_error", "code": code}
    }


def too_long(kind: str, tokens: int, limit: int) -> str:
    """How a provider says that a prompt is too long."""
    if kind == "messages":
        return f"prompt is too long: {tokens} tokens > {limit} maximum"
    return f"This model's maximum context length is {limit} tokens. However, your messages resulted in {tokens} tokens."


def whole(prompt: Prompt, reply: Reply, number: int, tokens: int, made: int) -> Raw:
    """A reply in one piece; `number` makes its ids, `tokens` were read and `made` written."""
    writer = {"chat": _chat_reply, "messages": _messages_reply, "responses": _responses_reply, "gemini": _gemini_reply}
    return writer[prompt.kind](prompt, reply, number, tokens, made)


def _chat_reply(prompt: Prompt, reply: Reply, number: int, tokens: int, made: int) -> Raw:
    message: Raw = {"role": "assistant", "content": reply.text or None}
    calls = [
        {"id": f"call_{number:06}{n:03}", "type": "function",
         "function": {"name": use.name, "arguments": json.dumps(use.arguments)}}
        for n, use in enumerate(reply.uses)
    ]  # fmt: skip
    choice = {"index": 0, "message": message | ({"tool_calls": calls} if calls else {})}
    return {
        "id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1_770_000_000, "model": prompt.model,
        "choices": [choice | {"finish_reason": "tool_calls" if calls else "stop"}],
        "usage": {"prompt_tokens": tokens, "completion_tokens": made, "total_tokens": tokens + made},
    }  # fmt: skip


def _messages_reply(prompt: Prompt, reply: Reply, number: int, tokens: int, made: int) -> Raw:
    blocks: list[Raw] = [{"type": "text", "text": reply.text}] if reply.text else []
    blocks += [
        {"type": "tool_use", "id": f"toolu_{number:06}{n:03}", "name": use.name, "input": use.arguments}
        for n, use in enumerate(reply.uses)
    ]
    return {
        "id": f"msg_{number:06}", "type": "message", "role": "assistant", "model": prompt.model, "content": blocks,
        "stop_reason": "tool_use" if reply.uses else "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": tokens, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
                  "output_tokens": made},
    }  # fmt: skip


def _responses_reply(prompt: Prompt, reply: Reply, number: int, tokens: int, made: int) -> Raw:
    output: list[Raw] = []
    if reply.text:
        part = {"type": "output_text", "text": reply.text, "annotations": []}
        output.append({"type": "message", "id": f"msg_{number:06}", "role": "assistant", "status": "completed"})
        output[0]["content"] = [part]
    for n, use in enumerate(reply.uses):
        item = {"type": "function_call", "id": f"fc_{number:06}{n:03}", "call_id": f"call_{number:06}{n:03}"}
        space, _, name = use.name.rpartition(".")
        item |= {"name": name, "arguments": json.dumps(use.arguments), "status": "completed"}
        output.append(item | ({"namespace": space} if space else {}))
    usage = {"input_tokens": tokens, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": made}
    return {
        "id": f"resp_{number:06}", "object": "response", "created_at": 1_770_000_000, "status": "completed",
        "model": prompt.model, "output": output, "error": None, "incomplete_details": None, "instructions": None,
        "metadata": {}, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        "usage": usage | {"output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": tokens + made},
    }  # fmt: skip


def _gemini_reply(prompt: Prompt, reply: Reply, number: int, tokens: int, made: int) -> Raw:
    parts: list[Raw] = [{"text": reply.text}] if reply.text else []
    parts += [{"functionCall": {"name": use.name, "args": use.arguments}} for use in reply.uses]
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "index": 0, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": tokens, "candidatesTokenCount": made, "totalTokenCount": tokens + made},
        "modelVersion": prompt.model, "responseId": f"r{number}",
    }  # fmt: skip


def events(prompt: Prompt, made: Raw) -> Iterator[bytes]:
    """A reply as a stream of events."""
    if prompt.kind == "chat":
        yield from (_event(chunk) for chunk in _chat_chunks(made, usage=prompt.usage))
        yield b"data: [DONE]\n\n"
    elif prompt.kind == "gemini":
        yield _event(made)
    elif prompt.kind == "messages":
        yield from (_event(event, event["type"]) for event in _message_events(made))
    else:
        for n, event in enumerate(_response_events(made)):
            yield _event(event | {"sequence_number": n}, event["type"])


def _event(value: Raw, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(value)}\n\n".encode()


def _cut(text: str, size: int = 400) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def _chat_chunks(made: Raw, *, usage: bool) -> Iterator[Raw]:
    head = {key: made[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choice = made["choices"][0]

    def chunk(delta: Raw, reason: str | None = None) -> Raw:
        return head | {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    yield chunk({"role": "assistant", "content": ""})
    yield from (chunk({"content": piece}) for piece in _cut(choice["message"]["content"] or ""))
    yield from (
        chunk({"tool_calls": [{"index": n, **call}]})
        for n, call in enumerate(choice["message"].get("tool_calls") or ())
    )
    yield chunk({}, choice["finish_reason"])
    if usage:
        yield head | {"choices": [], "usage": made["usage"]}


def _message_events(made: Raw) -> Iterator[Raw]:
    begun = made | {"content": [], "stop_reason": None, "usage": made["usage"] | {"output_tokens": 1}}
    yield {"type": "message_start", "message": begun}
    for n, block in enumerate(made["content"]):
        kind, name = ("text_delta", "text") if block["type"] == "text" else ("input_json_delta", "partial_json")
        blank: Raw = {"text": ""} if name == "text" else {"input": {}}
        yield {"type": "content_block_start", "index": n, "content_block": block | blank}
        for piece in _cut(block["text"] if name == "text" else json.dumps(block["input"])):
            delta = {"type": kind, name: piece}
            yield {"type": "content_block_delta", "index": n, "delta": delta}
        yield {"type": "content_block_stop", "index": n}
    end = {"stop_reason": made["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": made["usage"]["output_tokens"]}}
    yield {"type": "message_stop"}


def _response_events(made: Raw) -> Iterator[Raw]:
    yield {"type": "response.created", "response": made | {"status": "in_progress", "output": [], "usage": None}}
    for n, item in enumerate(made["output"]):
        at = {"item_id": item["id"], "output_index": n}
        if item["type"] == "message":
            part, text = item["content"][0], item["content"][0]["text"]
            at |= {"content_index": 0}
            yield {"type": "response.output_item.added", "output_index": n, "item": item | {"content": []}}
            yield {"type": "response.content_part.added", **at, "part": part | {"text": ""}}
            for piece in _cut(text):
                yield {"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []}
            yield {"type": "response.output_text.done", **at, "text": text, "logprobs": []}
            yield {"type": "response.content_part.done", **at, "part": part}
        else:
            yield {"type": "response.output_item.added", "output_index": n, "item": item | {"arguments": ""}}
            arguments = item["arguments"]
            yield {"type": "response.function_call_arguments.delta", **at, "delta": arguments}
            yield {"type": "response.function_call_arguments.done", **at, "arguments": arguments, "name": item["name"]}
        yield {"type": "response.output_item.done", "output_index": n, "item": item}
    yield {"type": "response.completed", "response": made}
