"""A model provider that plays a part: OpenAI's and Anthropic's interfaces on a local port, without a model."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

Raw: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    content: bytes

    @property
    def body(self) -> Raw:
        body: Raw = json.loads(self.content)
        return body


@dataclass(frozen=True, slots=True)
class Say:
    """A reply: words, then calls of tools as (name, arguments)."""

    text: str = ""
    calls: tuple[tuple[str, Raw], ...] = ()
    #: Of a streamed reply, stop after so many words and wait, or break the connection.
    words: int | None = None
    then: str = "wait"


@dataclass(frozen=True, slots=True)
class Status:
    """An answer that is no reply: an error, or anything a provider serves besides conversations."""

    code: int
    body: Raw
    headers: dict[str, str] = field(default_factory=dict)


Script: TypeAlias = "Callable[[Request], Say | Status]"


def echo(request: Request) -> Say | Status:
    """Says what was said last."""
    return Say(f"You said: {last_text(request.body)}") if request.method == "POST" else Status(200, {"data": []})


def last_text(body: Raw) -> str:
    """The words of the last message of a request."""
    items = body.get("messages") or body.get("input") or []
    last = {"content": items} if isinstance(items, str) else items[-1] if items else {}
    content = last.get("content", last.get("output"))
    if isinstance(content, str) or content is None:
        return content or ""
    return " ".join(str(block.get("text") or block.get("content") or "") for block in content)


class Provider:
    """Serves on a port of its own as long as it is open; `requests` are all that came."""

    def __init__(self, script: Script = echo) -> None:
        self.script = script
        self.requests: list[Request] = []
        self.let_go = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """Where it is, without a path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Provider:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.let_go.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, provider: Provider, *args: Any) -> None:
        self.provider = provider
        super().__init__(*args)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _serve(self) -> None:
        content = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, self.path, headers, content)
        self.provider.requests.append(request)
        answer = self.provider.script(request)
        if isinstance(answer, Status):
            self._whole(answer.code, answer.body, answer.headers)
        elif request.body.get("stream"):
            self._stream(request, answer)
        else:
            self._whole(200, whole(request.path, answer, request.body), {})

    do_GET = do_POST = do_DELETE = _serve  # noqa: N815

    def _whole(self, code: int, body: Raw, headers: dict[str, str]) -> None:
        content = json.dumps(body).encode()
        self.send_response(code)
        for name, value in {"content-type": "application/json", **headers, "content-length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, request: Request, answer: Say) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            for number, data in enumerate(streamed(request.path, answer, request.body)):
                if answer.words is not None and number > answer.words:
                    if answer.then == "break":
                        self.close_connection = True
                        return
                    self.provider.let_go.wait(20)
                self._chunk(data)
            self._chunk(b"")
        except OSError:  # the client has gone
            self.close_connection = True

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


def whole(path: str, say: Say, body: Raw) -> Raw:
    tokens = len(json.dumps(body)) // 4
    if path.endswith("/messages"):
        text = [{"type": "text", "text": say.text}] if say.text else []
        uses = [
            {"type": "tool_use", "id": _call_id(n, name), "name": name, "input": arguments}
            for n, (name, arguments) in enumerate(say.calls)
        ]
        return {
            "id": f"msg_{tokens}", "type": "message", "role": "assistant", "model": body.get("model"),
            "content": [*text, *uses], "stop_reason": "tool_use" if say.calls else "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": tokens, "output_tokens": 7},
        }  # fmt: skip
    if path.endswith("/responses"):
        return {
            "id": f"resp_{tokens}", "object": "response", "created_at": 1, "status": "completed",
            "model": body.get("model"), "output": _items(say, tokens), "tool_choice": "auto",
            "parallel_tool_calls": True, "tools": [],
            "usage": {"input_tokens": tokens, "output_tokens": 7, "total_tokens": tokens + 7},
        }  # fmt: skip
    message: Raw = {"role": "assistant", "content": say.text or None, "refusal": None}
    if say.calls:
        message["tool_calls"] = _calls(say)
    finish = "tool_calls" if say.calls else "stop"
    return {
        "id": f"chatcmpl-{tokens}", "object": "chat.completion", "created": 1, "model": body.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": {"prompt_tokens": tokens, "completion_tokens": 7, "total_tokens": tokens + 7},
    }  # fmt: skip


def streamed(path: str, say: Say, body: Raw) -> list[bytes]:
    """A reply in events, a word each."""
    reply = whole(path, say, body)
    if path.endswith("/messages"):
        return [_named(event) for event in _message_events(reply)]
    if path.endswith("/responses"):
        events = [event | {"sequence_number": n} for n, event in enumerate(_response_events(reply))]
        return [_named(event) for event in events]
    return [*(f"data: {json.dumps(chunk)}\n\n".encode() for chunk in _chunks(reply)), b"data: [DONE]\n\n"]


def _words(text: str) -> list[str]:
    return [word + " " for word in text.split(" ")[:-1]] + text.split(" ")[-1:] if text else []


def _call_id(number: int, name: str) -> str:
    return f"call_{name.replace('_', '')}{number:012d}"


def _calls(say: Say) -> list[Raw]:
    return [
        {"id": _call_id(n, name), "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for n, (name, arguments) in enumerate(say.calls)
    ]


def _items(say: Say, number: int) -> list[Raw]:
    content = [{"type": "output_text", "text": say.text, "annotations": []}]
    text = [{"type": "message", "id": f"msg_{number}", "status": "completed", "role": "assistant", "content": content}]
    calls = [
        {"type": "function_call", "id": f"fc_{number}_{n}", "call_id": _call_id(n, name), "name": name,
         "status": "completed", "arguments": json.dumps(arguments)}
        for n, (name, arguments) in enumerate(say.calls)
    ]  # fmt: skip
    return [*(text if say.text else []), *calls]


def _chunks(reply: Raw) -> list[Raw]:
    def chunk(delta: Raw, finish: str | None = None) -> Raw:
        head = {key: reply[key] for key in ("id", "created", "model")}
        return head | {
            "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }

    message = reply["choices"][0]["message"]
    chunks = [chunk({"role": "assistant", "content": ""})]
    chunks += [chunk({"content": word}) for word in _words(message["content"] or "")]
    for n, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        chunks.append(chunk({"tool_calls": [call | {"index": n, "function": function | {"arguments": ""}}]}))
        chunks += [
            chunk({"tool_calls": [{"index": n, "function": {"arguments": piece}}]})
            for piece in _words(function["arguments"])
        ]
    chunks.append(chunk({}, reply["choices"][0]["finish_reason"]))
    return [*chunks, chunk({}) | {"choices": [], "usage": reply["usage"]}]


def _message_events(reply: Raw) -> list[Raw]:
    start = {**reply, "content": [], "stop_reason": None, "usage": reply["usage"] | {"output_tokens": 1}}
    events: list[Raw] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for n, block in enumerate(reply["content"]):
        is_text = block["type"] == "text"
        blank: Raw = {"text": ""} if is_text else {"input": {}}
        empty = block | blank
        events.append({"type": "content_block_start", "index": n, "content_block": empty})
        for word in _words(block["text"] if is_text else json.dumps(block["input"])):
            delta = (
                {"type": "text_delta", "text": word} if is_text else {"type": "input_json_delta", "partial_json": word}
            )
            events.append({"type": "content_block_delta", "index": n, "delta": delta})
        events.append({"type": "content_block_stop", "index": n})
    end = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": 7}})
    return [*events, {"type": "message_stop"}]


def _response_events(reply: Raw) -> list[Raw]:
    events: list[Raw] = [{"type": "response.created", "response": reply | {"output": [], "status": "in_progress"}}]
    for n, item in enumerate(reply["output"]):
        is_text = item["type"] == "message"
        blank: Raw = {"content": []} if is_text else {"arguments": ""}
        empty = item | blank
        events.append({"type": "response.output_item.added", "output_index": n, "item": empty})
        at: Raw = {"item_id": item["id"], "output_index": n}
        if is_text:
            at |= {"content_index": 0, "logprobs": []}
        kind = "output_text" if is_text else "function_call_arguments"
        text = item["content"][0]["text"] if is_text else item["arguments"]
        if is_text:
            part = {"type": "output_text", "text": "", "annotations": []}
            events.append({"type": "response.content_part.added", **at, "part": part})
        events += [{"type": f"response.{kind}.delta", **at, "delta": word} for word in _words(text)]
        done: Raw = {"text": text} if is_text else {"arguments": text, "name": item["name"]}
        events.append({"type": f"response.{kind}.done", **at, **done})
        events.append({"type": "response.output_item.done", "output_index": n, "item": item})
    return [*events, {"type": "response.completed", "response": reply}]


def _named(event: Raw) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
