"""A model for end-to-end runs: speaks OpenAI's chat completions on this machine, and does what the last words say.

`CALL tool {…}` in the newest user message makes it call that tool; a summariser gets a short note; whoever asks for
`citedIds` gets an answer in JSON; everybody else gets a canned reply.
"""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    from types import TracebackType

_CALL = re.compile(r"CALL (\w+) (\{.*?\})(?:\s|$)", re.DOTALL)
#: How a note begins that newer hosts put behind everything else.
_HOSTS_OWN = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>"
ANSWER = "The answer is in the archive."


@dataclass
class FakeModel:
    """The server; `requests` are the bodies that it got, in order."""

    requests: list[dict[str, Any]] = field(default_factory=list)

    def __enter__(self) -> FakeModel:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._send({"object": "list", "data": [{"id": "fake-1", "object": "model"}]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                fake.requests.append(body)
                message = reply(body)
                if body.get("stream"):
                    data = b"".join(f"data: {json.dumps(one)}\n\n".encode() for one in chunks(body, message))
                    self._write(data + b"data: [DONE]\n\n", "text/event-stream")
                else:
                    self._send(completion(body, message))

            def _send(self, value: dict[str, Any]) -> None:
                self._write(json.dumps(value).encode(), "application/json")

            def _write(self, data: bytes, kind: str) -> None:
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                """Nothing is printed."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/v1"

    @property
    def chats(self) -> list[dict[str, Any]]:
        """Requests of the agent itself: those that offer tools."""
        return [body for body in self.requests if body.get("tools")]

    @property
    def others(self) -> list[dict[str, Any]]:
        """Requests of summarisers."""
        return [body for body in self.requests if not body.get("tools")]


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "".join(str(block.get("text") or "") for block in content or [])


def reply(body: dict[str, Any]) -> dict[str, Any]:
    """What the model says."""
    messages = [message for message in body["messages"] if not text_of(message).startswith(_HOSTS_OWN)]
    tools = [tool["function"]["name"] for tool in body.get("tools") or []]
    last = messages[-1]
    if last["role"] == "tool":
        return {"content": f"Tool said: {text_of(last)[:1500]}"}
    newest = []
    for message in reversed(messages):
        if message["role"] != "user":
            break
        newest.append(text_of(message))
    if any("citedIds" in text for text in newest):
        return {"content": json.dumps({"answer": ANSWER, "citedIds": [], "expandedSummaryCount": 1})}
    if not tools:
        return {"content": "Note: things were said and done. Expand for details about: the exact words."}
    for text in newest:
        if (found := _CALL.search(text)) and found[1] in tools:
            call = {"id": f"call_{uuid4().hex[:12]}", "type": "function"}
            return {"content": None, "tool_calls": [call | {"function": {"name": found[1], "arguments": found[2]}}]}
    return {"content": f"Canned reply {uuid4().hex[:8]}. " + "lorem ipsum dolor " * 15}


def _envelope(body: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{uuid4().hex}", "object": kind, "created": 1, "model": body.get("model") or "fake-1"}


def _usage(body: dict[str, Any], message: dict[str, Any]) -> dict[str, int]:
    sent, made = len(json.dumps(body)) // 4, len(json.dumps(message)) // 4
    return {"prompt_tokens": sent, "completion_tokens": made, "total_tokens": sent + made}


def completion(body: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    """The answer in one piece."""
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
    return _envelope(body, "chat.completion") | {"choices": [choice], "usage": _usage(body, message)}


def chunks(body: dict[str, Any], message: dict[str, Any]) -> list[dict[str, Any]]:
    """The answer in pieces."""
    head = _envelope(body, "chat.completion.chunk")
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    if message.get("tool_calls"):
        deltas.append({"tool_calls": [{"index": n, **call} for n, call in enumerate(message["tool_calls"])]})
    else:
        deltas += [{"content": piece} for piece in re.findall(r".{1,80}", message["content"], re.DOTALL)]
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    made = [head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    made.append(head | {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    return [*made, head | {"choices": [], "usage": _usage(body, message)}]
