"""What may come over the wire besides good replies: packed bodies, halves, silence, pages, images."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import httpx2
import openai
import pytest

import lossless
from lossless.testing.provider import Provider, Request, Say, Status
from tests.compaction.loop_kit import settings
from tests.serve.proxy_kit import TOKEN, post, proxied
from tests.serve.test_proxy import said

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Raw = dict[str, Any]
CHAT = "/v1/chat/completions"
GOOD = {"x-lossless-token": TOKEN}
BODY: Raw = {"model": "m", "messages": [{"role": "user", "content": "Where is the ferry?"}]}
REPLY: Raw = {
    "id": "c1",
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "At sea."}, "finish_reason": "stop"}],
}
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"


@pytest.fixture
def engine(path: Path) -> Iterator[lossless.Engine]:
    with lossless.open(path, settings(), background=False) as opened:
        yield opened


@contextmanager
def bare_provider(answer: bytes, *, silent: bool = False) -> Iterator[str]:
    """A provider that answers every request with these bytes and hangs up, or is silent to the end."""
    over = threading.Event()

    def answer_one(connection: socket.socket) -> None:
        with connection:
            with connection.makefile("rb") as reading:
                lines = list(takewhile(lambda line: line.strip(), iter(reading.readline, b"")))
                length = next((int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-l")), 0)
                reading.read(length)
            connection.sendall(answer)
            if silent:
                over.wait()

    def serve() -> None:
        while not over.is_set():
            try:
                connection = listening.accept()[0]
            except TimeoutError:
                continue
            except OSError:
                return
            connection.settimeout(None)
            threading.Thread(target=answer_one, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.2)
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        over.set()
    thread.join(60)


def http(body: bytes, kind: str = "application/json", *headers: str, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    lines = ["HTTP/1.1 200 OK", f"content-type: {kind}", *headers, f"content-length: {size}", "connection: close"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def chunk(delta: Raw, finish: str | None = None) -> bytes:
    data = {"id": "c1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return f"data: {json.dumps(data)}\n\n".encode()


def call(name: str, arguments: str) -> Raw:
    return {"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": name, "arguments": arguments}}]}


# --- packed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress], ids=["gzip", "deflate"])
def test_a_packed_request_is_kept_and_goes_on_as_it_came(engine: lossless.Engine, pack: Any) -> None:
    name = "gzip" if pack is gzip.compress else "deflate"
    packed = pack(json.dumps(BODY).encode())
    with Provider(lambda _: Status(200, REPLY)) as provider, proxied(engine, provider) as url:
        answer = post(url + CHAT, content=packed, headers=GOOD | {"content-encoding": name})
        assert answer.json() == REPLY
        assert provider.requests[0].content == packed
        assert provider.requests[0].headers["content-encoding"] == name
    assert said(engine) == ["Where is the ferry?", "At sea."]


def test_a_packed_request_that_changes_is_sent_unpacked(engine: lossless.Engine) -> None:
    packed = gzip.compress(json.dumps(BODY).encode())
    with Provider(lambda _: Status(200, REPLY)) as provider, proxied(engine, provider, tools="always") as url:
        post(url + CHAT, content=packed, headers=GOOD | {"content-encoding": "gzip"})
        assert "lcm_recall" in json.dumps(provider.requests[0].body["tools"])
        assert "content-encoding" not in provider.requests[0].headers


def test_what_cannot_be_read_passes_and_says_so(engine: lossless.Engine) -> None:
    with Provider(lambda _: Status(400, {"error": {}})) as provider, proxied(engine, provider) as url:
        for content, encoding in ((b"{broken", ""), (b"no gzip", "gzip"), (b"\x0b\x02\x80", "br")):
            answer = post(url + CHAT, content=content, headers=GOOD | {"content-encoding": encoding})
            assert answer.headers["x-lossless-not-kept"] == "it is not a JSON object"
        nobody = {"model": "m", "messages": [{"content": "x"}]}
        answer = post(url + CHAT, json=nobody, headers=GOOD)
        assert "role" in answer.headers["x-lossless-not-kept"]
        assert "x-lossless-not-kept" not in post(url + CHAT, json=BODY, headers=GOOD).headers
        assert "x-lossless-not-kept" not in httpx2.get(f"{url}/v1/models", headers=GOOD, timeout=60).headers


@pytest.mark.parametrize("stream", [False, True], ids=["at once", "streamed"])
def test_a_packed_reply_is_kept(engine: lossless.Engine, stream: bool) -> None:
    events = chunk({"content": "At "}) + chunk({"content": "sea."}) + chunk({}, "stop") + b"data: [DONE]\n\n"
    plain = events if stream else json.dumps(REPLY).encode()
    kind = "text/event-stream" if stream else "application/json"
    with (
        bare_provider(http(gzip.compress(plain), kind, "content-encoding: gzip")) as provider,
        proxied(engine, provider) as url,
    ):
        answer = post(url + CHAT, json=BODY | {"stream": stream}, headers=GOOD)
    assert answer.content == plain
    assert said(engine) == ["Where is the ferry?", "At sea."]


def test_a_reply_in_a_packing_nobody_asked_for_passes_as_it_is(engine: lossless.Engine) -> None:
    with bare_provider(http(b"\x01\x02", "application/json", "content-encoding: x-odd")) as provider:
        with proxied(engine, provider) as url:
            answer = post(url + CHAT, json=BODY, headers=GOOD)
        assert (answer.content, answer.headers["content-encoding"]) == (b"\x01\x02", "x-odd")
        assert "compression" in answer.headers["x-lossless-not-kept"]
    assert said(engine) == ["Where is the ferry?"]


# --- large -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "key"), [(CHAT, "messages"), ("/v1/responses", "input"), ("/v1/messages", "messages")]
)
def test_pastes_beyond_the_window_are_sent_as_references(engine: lossless.Engine, where: str, key: str) -> None:
    paste = " ".join(f"w{n}" for n in range(30_000))
    messages = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": paste},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "and now?"},
    ]
    with Provider() as provider, proxied(engine, provider, window=8_000) as url:
        post(url + where, json={"model": "m", "max_tokens": 99, key: messages}, headers=GOOD)
        sent = provider.requests[0]
    assert len(sent.content) < 32_000
    assert b"[LCM Raw Payload: file_" in sent.content
    assert b"lcm_describe" in json.dumps(sent.body["tools"]).encode()
    assert sent.body[key][-1]["content"] == "and now?"


# --- halves and silence ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "silent", "status", "reason"),
    [
        pytest.param(b"", False, 502, "cut off", id="hangs up"),
        pytest.param(b"SSH-2.0-x\r\n\r\n", False, 502, "cut off", id="is no provider"),
        pytest.param(http(b"{", length=99), False, 502, "cut off", id="ends too early"),
        pytest.param(b"", True, 504, "did not respond in time", id="says nothing"),
    ],
)
def test_a_provider_that_does_not_answer(
    engine: lossless.Engine, answer: bytes, silent: bool, status: int, reason: str
) -> None:
    patience = 0.5 if silent else 60
    with bare_provider(answer, silent=silent) as provider, proxied(engine, provider, timeout=patience) as url:
        got = post(url + CHAT, json=BODY, headers=GOOD)
    assert (got.status_code, got.headers["x-lossless-error"]) == (status, "1")
    assert reason in got.json()["error"]["message"]
    assert said(engine) == ["Where is the ferry?"]


@pytest.mark.parametrize(
    ("where", "content", "why"),
    [
        pytest.param(
            "/v1/embeddings", b'{"model": "m", "input": "x"}', "it is not a conversation", id="no conversation"
        ),
        pytest.param(CHAT, b"{broken", "it is not a JSON object", id="no JSON"),
        pytest.param(CHAT, b'{"model": "m", "messages": [{"content": "x"}]}', "role", id="no message"),
    ],
)
def test_what_is_not_kept_is_not_said_to_be(engine: lossless.Engine, where: str, content: bytes, why: str) -> None:
    with bare_provider(b"") as provider, proxied(engine, provider) as url:
        got = post(url + where, content=content, headers=GOOD)
        kept = post(url + CHAT, json=BODY, headers=GOOD)
    assert got.status_code == 502
    assert why in got.headers["x-lossless-not-kept"]
    assert got.json()["error"]["message"] == "the provider's response was cut off; nothing of it is stored"
    assert kept.json()["error"]["message"] == "the provider's response was cut off; the messages are stored"
    assert "x-lossless-not-kept" not in kept.headers
    assert said(engine) == ["Where is the ferry?"]


def test_a_stream_that_falls_silent(engine: lossless.Engine) -> None:
    half = http(chunk({"content": "At "}), "text/event-stream", length=9999)
    with bare_provider(half, silent=True) as provider, proxied(engine, provider, timeout=5) as url:
        got = post(url + CHAT, json=BODY | {"stream": True}, headers=GOOD)
    assert "did not respond in time" in got.text
    assert said(engine) == ["Where is the ferry?", "At "]


@pytest.mark.parametrize("content", [b"{oops", b"", b"[]", b"<html>", pytest.param(b"[" * 100_000, id="deep")])
def test_a_reply_that_is_none(engine: lossless.Engine, content: bytes) -> None:
    with bare_provider(http(content)) as provider, proxied(engine, provider) as url:
        got = post(url + CHAT, json=BODY, headers=GOOD)
    assert (got.status_code, got.content) == (200, content)
    assert said(engine) == ["Where is the ferry?"]


@pytest.mark.parametrize("name", ["lcm_grep", "ls"], ids=["one of ours", "one of the client's"])
def test_half_a_call_is_no_call(engine: lossless.Engine, name: str) -> None:
    events = chunk({"content": "Let me look. "}) + chunk(call(name, '{"patt'))
    with bare_provider(http(events, "text/event-stream")) as provider, proxied(engine, provider, tools="always") as url:
        got = post(url + CHAT, json=BODY | {"stream": True}, headers=GOOD)
    assert "Let me look." in got.text
    assert ("patt" in got.text) == (name == "ls")
    assert said(engine) == ["Where is the ferry?", "Let me look. "]
    assert engine.verify().ok


def test_an_end_without_a_reason_is_an_end(engine: lossless.Engine) -> None:
    """Some who speak like OpenAI never say why a reply is over."""
    events = chunk({"content": "Done. "}) + chunk(call("ls", '{"path": "."}'))
    with bare_provider(http(events, "text/event-stream")) as provider, proxied(engine, provider) as url:
        post(url + CHAT, json=BODY | {"stream": True}, headers=GOOD)
    calls = engine.archive.database.rows("SELECT part_type FROM message_parts WHERE part_type = 'tool'", ())
    assert len(calls) == 1


# --- tools of both at once ------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True], ids=["at once", "streamed"])
def test_several_calls_of_ours_are_answered_together(engine: lossless.Engine, stream: bool) -> None:
    def script(request: Request) -> Say:
        results = [message for message in request.body["messages"] if message["role"] == "tool"]
        if results:
            return Say(f"Found {len(results)}.")
        return Say(
            "",
            (
                ("lcm_grep", {"pattern": "ferry"}),
                ("lcm_describe", {"id": "msg#1"}),
                ("lcm_recall", {"question": "ferry"}),
            ),
        )

    with Provider(script) as provider, proxied(engine, provider, tools="always") as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key=TOKEN, max_retries=0)
        ask: Any = BODY["messages"]
        if stream:
            with client.chat.completions.stream(model="m", messages=ask) as events:
                made: Any = events.get_final_completion()
        else:
            made = client.chat.completions.create(model="m", messages=ask)
        client.close()
        results = [message for message in provider.requests[1].body["messages"] if message["role"] == "tool"]
    assert made.choices[0].message.content == "Found 3."
    assert "Where is the ferry?" in results[1]["content"]
    assert said(engine) == ["Where is the ferry?", "Found 3."]


# --- many at once ---------------------------------------------------------------------------------


def test_conversations_that_begin_alike_at_once_stay_apart(engine: lossless.Engine) -> None:
    numbers, all_of_them = iter(range(99)), threading.Barrier(8)

    def script(request: Request) -> Say:
        all_of_them.wait(60)
        turn = sum(message["role"] == "user" for message in request.body["messages"])
        return Say(f"reply {next(numbers)}" if turn == 1 else request.body["messages"][1]["content"])

    def talk(_: int) -> list[str]:
        messages: list[Raw] = []
        for text in ("hello", "more", "and more"):
            messages.append({"role": "user", "content": text})
            answer = post(url + CHAT, json={"model": "m", "messages": messages}, headers=GOOD)
            messages.append(answer.json()["choices"][0]["message"])
        return [message["content"] for message in messages]

    with Provider(script) as provider, proxied(engine, provider) as url, ThreadPoolExecutor(8) as pool:
        talks = sorted(pool.map(talk, range(8)))
    rows = engine.archive.database.rows("SELECT conversation_id, content FROM messages ORDER BY message_id", ())
    kept: dict[object, list[str]] = {}
    for conversation, content in rows:
        kept.setdefault(conversation, []).append(str(content))
    assert sorted(kept.values()) == talks
    assert engine.verify().ok


@pytest.mark.parametrize("odd", [7, [], {"no": "id"}, True])
def test_a_name_of_a_conversation_that_is_none(engine: lossless.Engine, odd: object) -> None:
    body = {"model": "m", "input": "hello", "conversation": odd}
    with Provider(lambda _: Status(400, {"error": {}})) as provider, proxied(engine, provider) as url:
        assert post(f"{url}/v1/responses", json=body, headers=GOOD).status_code == 400


# --- pages ----------------------------------------------------------------------------------------


def test_a_page_that_is_let_in_can_read_its_answer(engine: lossless.Engine) -> None:
    page = "http://app.local"
    asks = {
        "origin": page,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    with (
        Provider(lambda _: Status(200, REPLY)) as provider,
        proxied(engine, provider, origins=frozenset({page})) as url,
    ):
        before = httpx2.options(url + CHAT, headers=asks, timeout=60)
        assert (before.status_code, before.headers["access-control-allow-origin"]) == (200, page)
        assert "authorization" in before.headers["access-control-allow-headers"]
        answer = post(url + CHAT, json=BODY, headers=GOOD | {"origin": page})
        assert answer.headers["access-control-allow-origin"] == page
        assert "x-lossless-session" in answer.headers["access-control-expose-headers"]
        other = httpx2.options(url + CHAT, headers=asks | {"origin": "https://evil.example"}, timeout=60)
        assert "access-control-allow-origin" not in other.headers
        assert len(provider.requests) == 1


# --- images ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ["chat", "messages", "responses"])
def test_images_come_through_byte_for_byte(engine: lossless.Engine, dialect: str) -> None:
    parts: dict[str, tuple[str, Raw]] = {
        "chat": (CHAT, {"type": "image_url", "image_url": {"url": PIXEL}}),
        "messages": (
            "/v1/messages",
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL.split(",")[1]}},
        ),
        "responses": ("/v1/responses", {"type": "input_image", "image_url": PIXEL}),
    }
    path, image = parts[dialect]
    text = {"type": "input_text" if dialect == "responses" else "text", "text": "What is this?"}
    body: Raw = {"model": "m", "max_tokens": 100}
    body["input" if dialect == "responses" else "messages"] = [{"role": "user", "content": [text, image]}]
    sent = json.dumps(body).encode()
    with Provider(lambda _: Say("A pixel.")) as provider, proxied(engine, provider) as url:
        answer = post(url + path, content=sent, headers=GOOD)
        assert answer.status_code == 200
        assert provider.requests[0].content == sent
    (key,) = (row[0] for row in engine.archive.database.rows("SELECT session_key FROM conversations", ()))
    made = engine.assemble(lossless.Session(key=str(key)), format="openai-chat")
    assert PIXEL.split(",")[1] in json.dumps(made.messages)
