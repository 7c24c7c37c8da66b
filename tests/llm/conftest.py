"""A model server on the loopback: answers from a script, keeps what it was asked."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

Body = dict[str, Any] | str


@dataclass(frozen=True)
class Reply:
    """One answer: `hang` sends nothing until the server stops."""

    body: Body
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    hang: bool = False


@dataclass(frozen=True)
class Request:
    """One question as it arrived."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class ModelServer:
    """Speaks OpenAI chat, OpenAI Responses and Anthropic messages, in the words it was given."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.stopping = threading.Event()
        self._replies: list[Reply] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def v1(self) -> str:
        return f"{self.root}/v1"

    def answers(self, *replies: Body | Reply) -> None:
        """What comes next, in order; the last one again and again."""
        self._replies = [reply if isinstance(reply, Reply) else Reply(reply) for reply in replies]

    def close(self) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def take(self, request: Request) -> Reply:
        self.requests.append(request)
        return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", 0))
                asked = json.loads(self.rfile.read(length))
                headers = {name.lower(): value for name, value in self.headers.items()}
                reply = server.take(Request(self.path, headers, asked))
                if reply.hang:
                    server.stopping.wait()
                    return
                payload = (reply.body if isinstance(reply.body, str) else json.dumps(reply.body)).encode()
                kind = "text/plain" if isinstance(reply.body, str) else "application/json"
                self.send_response(reply.status)
                for name, value in {"content-type": kind, **reply.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, format: str, *args: object) -> None:
                """Quiet."""

        return Handler

    @staticmethod
    def chat(content: Any, finish: str = "stop", **message: Any) -> dict[str, Any]:
        """An OpenAI chat completion."""
        said = {"role": "assistant", "content": content, **message}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": "small-1",
            "choices": [{"index": 0, "message": said, "finish_reason": finish}],
            "usage": {
                "prompt_tokens": 120,
                "completion_tokens": 30,
                "total_tokens": 150,
                "prompt_tokens_details": {"cached_tokens": 100},
            },
        }

    @staticmethod
    def responses(text: str, status: str = "completed") -> dict[str, Any]:
        """An OpenAI Responses object with thinking before the text."""
        part = {"type": "output_text", "text": text, "annotations": []}
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 1_700_000_000,
            "model": "small-1",
            "status": status,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "error": None,
            "instructions": None,
            "metadata": {},
            "parallel_tool_calls": True,
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "output": [
                {
                    "id": "rs_1",
                    "type": "reasoning",
                    "summary": [{"type": "summary_text", "text": "weighing"}],
                },
                {
                    "id": "msg_1",
                    "type": "message",
                    "role": "assistant",
                    "status": "completed",
                    "content": [part],
                },
            ],
            "usage": {
                "input_tokens": 50,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": 7,
                "output_tokens_details": {"reasoning_tokens": 3},
                "total_tokens": 57,
            },
        }

    @staticmethod
    def messages(*blocks: dict[str, Any], stop: str = "end_turn") -> dict[str, Any]:
        """An Anthropic message."""
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-haiku-4-5",
            "content": list(blocks),
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": {
                "input_tokens": 20,
                "output_tokens": 9,
                "cache_read_input_tokens": 80,
                "cache_creation_input_tokens": 5,
            },
        }

    @staticmethod
    def text(words: str) -> dict[str, Any]:
        """A text block of an Anthropic message."""
        return {"type": "text", "text": words}

    @staticmethod
    def error(status: int, message: str = "no", **headers: str) -> Reply:
        """A refusal in the shape that both providers use."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return Reply({"type": "error", "error": {"type": "api_error", "message": message}}, status, named)

    @staticmethod
    def hang() -> Reply:
        """No answer at all."""
        return Reply({}, hang=True)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    running = ModelServer()
    yield running
    running.close()
