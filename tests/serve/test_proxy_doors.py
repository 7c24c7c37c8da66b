"""Who gets in, what happens when something breaks, and what never leaves the proxy."""

from __future__ import annotations

import base64
import json
import socket
import stat
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import anthropic
import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers
from starlette.requests import Request as HttpRequest

import lossless
from lossless.errors import BadInput
from lossless.serve.access import Access, AccessGranted, load_proxy_token
from lossless.serve.proxy import Proxy, ProxyOptions, SSEReader, encode_sse
from lossless.testing.provider import Provider, Request, Say, Status
from tests.serve.proxy_kit import TOKEN, post, proxied, streamed
from tests.serve.test_proxy import said
from tests.waiting import wait_for

CHAT = "/v1/chat/completions"
BODY = {"model": "m", "messages": [{"role": "user", "content": "SECRET-WORDS"}]}
GOOD = {"x-lossless-token": TOKEN}
BYTES = {name.encode(): value.encode() for name, value in GOOD.items()}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({}, 401, id="no token"),
        pytest.param({"x-lossless-token": "wrong"}, 401, id="a wrong token"),
        pytest.param({"x-lossless-token": "wrong", "authorization": f"Bearer {TOKEN}"}, 401, id="a wrong one wins"),
        pytest.param({"authorization": "Bearer sk-1"}, 401, id="a key alone"),
        pytest.param({"authorization": f"Bearer {TOKEN}x:sk-1"}, 401, id="a longer token"),
        pytest.param({"authorization": f"Bearer sk-1:{TOKEN}"}, 401, id="the token last"),
        pytest.param(GOOD | {"host": "evil.example"}, 403, id="another host"),
        pytest.param(GOOD | {"host": "127.0.0.1.evil.example:80"}, 403, id="a host that looks like ours"),
        pytest.param(GOOD | {"origin": "https://evil.example"}, 403, id="a web page"),
        pytest.param(GOOD | {"origin": "null"}, 403, id="a page without an origin"),
        pytest.param(GOOD, 200, id="its own header"),
        pytest.param({"authorization": f"Bearer {TOKEN}"}, 200, id="as the key"),
        pytest.param({"x-api-key": f"{TOKEN}:k"}, 200, id="before the key"),
        pytest.param(GOOD | {"host": "localhost:1"}, 200, id="localhost"),
        pytest.param(GOOD | {"origin": "http://app.local"}, 200, id="a page that is let in"),
    ],
)
def test_who_gets_in(engine: lossless.Engine, headers: dict[str, str], status: int) -> None:
    with Provider() as provider, proxied(engine, provider, origins=frozenset({"http://app.local"})) as url:
        answer = post(url + CHAT, json=BODY, headers=headers)
        assert answer.status_code == status, answer.text
        assert len(provider.requests) == (status == 200)
        assert TOKEN not in json.dumps([request.headers for request in provider.requests])
    assert said(engine)[:1] == (["SECRET-WORDS"] if status == 200 else [])


def test_whose_key_is_used() -> None:
    access = Access(TOKEN)

    def keys(**headers: str) -> dict[str, str]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        granted = access.check({"host": "localhost", **named})
        assert isinstance(granted, AccessGranted)
        return granted.key_headers

    assert keys(authorization=f"Bearer {TOKEN}:sk-1:x") == {"authorization": "Bearer sk-1:x"}
    assert keys(x_api_key=TOKEN) == {}
    assert keys(x_api_key=TOKEN, authorization="Bearer other") == {"authorization": "Bearer other"}
    assert keys(x_lossless_token=TOKEN, authorization="Bearer sk") == {"authorization": "Bearer sk"}
    assert keys(x_lossless_token=TOKEN, authorization=f"Bearer {TOKEN}:sk") == {"authorization": "Bearer sk"}
    assert keys(x_api_key=TOKEN, authorization=f"Bearer\t{TOKEN}:sk") == {"authorization": "Bearer sk"}
    assert isinstance(access.check({"host": "[", "x-lossless-token": TOKEN}), tuple)


_PLACES = ["authorization", "x-api-key", "api-key", "x-lossless-token", "x-goog-api-key", "cookie", "user-agent"]
_PLACES += ["proxy-authorization", "x-custom", "referer"]
_WORDS = [TOKEN, f"Bearer {TOKEN}", f"{TOKEN}:sk-1", f"Bearer {TOKEN}:{TOKEN}", f"sk-1:{TOKEN}", f"a={TOKEN}; b=1"]
_WORDS += [f"Basic {base64.b64encode(f'me:{TOKEN}'.encode()).decode()}", f"Bearer sk-1, Bearer {TOKEN}", "Bearer sk-1"]
_WORDS += [TOKEN.replace("-", "%2D"), "sk-1", "", f"bearer\t{TOKEN}", f"{TOKEN}{TOKEN}", f"  {TOKEN}  "]


@given(st.lists(st.tuples(st.sampled_from(_PLACES), st.sampled_from(_WORDS)), min_size=1, max_size=6))
def test_the_token_is_passed_on_in_no_combination_of_headers(pairs: list[tuple[str, str]]) -> None:
    raw = [(b"host", b"localhost"), *((name.encode(), value.encode()) for name, value in pairs)]
    granted = Access(TOKEN).check(Headers(raw=raw))
    if isinstance(granted, tuple):
        return
    for name, value in granted.headers:
        packed = base64.b64decode(value.removeprefix("Basic ") + "===") if value.startswith("Basic ") else b""
        assert TOKEN not in unquote(value) + packed.decode("latin-1"), (name, value)
    own = {value for name, value in pairs if name in ("authorization", "x-api-key", "api-key")}
    assert all(value in own | {"sk-1", "Bearer sk-1"} for value in granted.key_headers.values())


@pytest.mark.parametrize("address", [f"/v1/models?key={TOKEN}", f"/v1/{TOKEN.replace('-', '%2d')}"])
def test_the_token_in_the_address_is_refused(engine: lossless.Engine, address: str) -> None:
    with Provider() as provider, proxied(engine, provider) as url:
        answer = post(url + address, json=BODY, headers=GOOD)
        assert answer.status_code == 400
        assert "in the URL" in answer.text
        assert not provider.requests


def test_the_token_reaches_no_provider_however_it_is_sent(engine: lossless.Engine) -> None:
    with Provider() as provider, proxied(engine, provider) as url:
        for extra in ({"authorization": f"Bearer {TOKEN}:sk"}, {"x-api-key": TOKEN}, {"cookie": f"t={TOKEN}"}):
            assert post(url + CHAT, json=BODY, headers=GOOD | extra).status_code == 200
        assert len(provider.requests) == 3
        assert TOKEN not in json.dumps([request.headers for request in provider.requests])


def test_a_key_of_the_proxys_own(engine: lossless.Engine) -> None:
    with Provider() as provider, proxied(engine, provider, keys={"openai": "sk-own", "anthropic": "ak-own"}) as url:
        post(url + CHAT, json=BODY, headers=GOOD)
        post(f"{url}/anthropic/v1/messages", json=BODY | {"max_tokens": 9}, headers=GOOD)
        post(f"{url}/openai{CHAT}", json=BODY, headers=GOOD | {"authorization": "Bearer sk-mine"})
        first, second, third = (request.headers for request in provider.requests)
    assert first["authorization"] == "Bearer sk-own"
    assert second["x-api-key"] == "ak-own"
    assert third["authorization"] == "Bearer sk-mine"


def test_a_token_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    place = tmp_path / "new" / "proxy-token"
    token, where = load_proxy_token(place)
    assert (len(token) >= 32, where) == (True, str(place))
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert load_proxy_token(place) == (token, where)
    assert load_proxy_token(None, {"XDG_STATE_HOME": str(tmp_path)})[1] == str(tmp_path / "lossless" / "proxy-token")
    assert load_proxy_token(None, {"LCM_PROXY_TOKEN": TOKEN}) == (TOKEN, "$LCM_PROXY_TOKEN")
    with pytest.raises(BadInput, match=r"the token in \$LCM_PROXY_TOKEN must have"):
        load_proxy_token(None, {"LCM_PROXY_TOKEN": "short"})
    with pytest.raises(BadInput, match="colon"):
        load_proxy_token(None, {"LCM_PROXY_TOKEN": f"{TOKEN}:x"})
    place.chmod(0o644)
    with pytest.raises(BadInput, match="others can read"):
        load_proxy_token(place)


@pytest.mark.parametrize(("code", "kind"), [(429, openai.RateLimitError), (401, openai.AuthenticationError)])
def test_errors_of_the_provider_are_passed_on(
    engine: lossless.Engine, code: int, kind: type[openai.APIStatusError]
) -> None:
    error = {"error": {"message": "as it came", "type": "x", "code": "y"}}
    answer = Status(code, error, {"retry-after": "7"})
    with Provider(lambda _: answer) as provider, proxied(engine, provider) as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key=f"{TOKEN}:k", max_retries=0)
        ask: Any = BODY["messages"]
        with pytest.raises(kind) as caught:
            client.chat.completions.create(model="m", messages=ask)
        with pytest.raises(kind):
            client.chat.completions.create(model="m", messages=ask, stream=True)
        client.close()
    assert caught.value.response.json() == error
    assert caught.value.response.headers["retry-after"] == "7"
    assert said(engine) == ["SECRET-WORDS"]


def test_a_provider_that_is_not_there(engine: lossless.Engine) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{unused.getsockname()[1]}"
    with proxied(engine, nowhere) as url:
        client = anthropic.Anthropic(base_url=url, api_key=f"{TOKEN}:k", max_retries=0)
        ask: Any = BODY["messages"]
        with pytest.raises(anthropic.InternalServerError, match="cannot be reached") as caught:
            client.messages.create(model="m", max_tokens=9, messages=ask)
        client.close()
        assert caught.value.status_code == 502
    assert said(engine) == ["SECRET-WORDS"]
    with Provider() as provider, proxied(engine, provider) as url:  # tried again when it is back
        post(f"{url}/v1/messages", json=BODY | {"max_tokens": 9}, headers=GOOD | {"authorization": "Bearer k"})
    assert said(engine) == ["SECRET-WORDS", "You said: SECRET-WORDS"]


def test_a_provider_that_breaks_off(engine: lossless.Engine) -> None:
    with (
        Provider(lambda _: Say("one two three four", words=3, then="break")) as provider,
        proxied(engine, provider) as url,
        streamed("POST", url + CHAT, json=BODY | {"stream": True}, headers=GOOD) as answer,
    ):
        text = "".join(answer.iter_text())
    assert "cut off" in text
    assert said(engine) == ["SECRET-WORDS", "one two three "]
    assert engine.verify().ok


def test_a_client_that_goes_away(engine: lossless.Engine) -> None:
    with Provider(lambda _: Say("one two three four", words=2)) as provider, proxied(engine, provider) as url:
        with streamed("POST", url + CHAT, json=BODY | {"stream": True}, headers=GOOD) as answer:
            seen = ""
            for text in answer.iter_text():
                seen += text
                if "two" in seen:
                    break
        wait_for(lambda: len(said(engine)) == 2)
    assert said(engine) == ["SECRET-WORDS", "one two "]
    assert engine.verify().ok


def test_the_first_word_does_not_wait_for_the_last(engine: lossless.Engine) -> None:
    with (
        Provider(lambda _: Say("one two three", words=2)) as provider,
        proxied(engine, provider, tools="always") as url,
    ):
        with streamed("POST", url + CHAT, json=BODY | {"stream": True}, headers=GOOD) as answer:
            for text in answer.iter_text():
                if "one" in text:
                    provider.let_go.set()
        assert said(engine) == ["SECRET-WORDS", "one two three"]


def test_nothing_private_is_logged(engine: lossless.Engine, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def script(request: Request) -> Say | Status:
        return Status(500, {"error": {"message": "SECRET-WORDS"}})

    with Provider(script) as provider, proxied(engine, provider) as url:
        post(url + CHAT, json=BODY, headers=GOOD | {"authorization": "Bearer sk-SECRET"})
        post(url + CHAT, content=b"{broken", headers=GOOD)
        post(url + CHAT, json={"messages": [{"role": "wizard", "content": "SECRET-WORDS"}]}, headers=GOOD)
    out, err = capfd.readouterr()
    logs = "".join(path.read_text() for path in Path(tmp_path).glob("*.log"))
    assert "SECRET" not in out + err + logs
    assert TOKEN not in out + err + logs


def test_odd_requests_pass(engine: lossless.Engine) -> None:
    bodies: list[bytes] = [b"", b"[]", b"{broken", b'{"messages": 7}', b'{"messages": [{"role": "wizard"}]}']
    with Provider(lambda _: Status(400, {"error": {}})) as provider, proxied(engine, provider) as url:
        for body in bodies:
            assert post(url + CHAT, content=body, headers=GOOD).status_code == 400
        assert [request.content for request in provider.requests] == bodies


@pytest.mark.parametrize(
    "where", ["/v1.evil.example/x", "/openai.evil.example/x", "/v1@evil.example", "//evil.example/x"]
)
def test_a_path_never_names_a_host(engine: lossless.Engine, where: str) -> None:
    with Provider(lambda _: Status(404, {})) as provider:
        app = Proxy(engine, Access(TOKEN), ProxyOptions(openai_url=provider.url))
        scope = {"type": "http", "path": where, "raw_path": where.encode(), "headers": [], "query_string": b"a=%20"}
        url, _ = app._target(HttpRequest(scope), "openai")
    assert url == f"{provider.url}{where}?a=%20"
    assert httpx2.URL(url).host == "127.0.0.1"


@pytest.mark.parametrize("stream", [False, True], ids=["at once", "streamed"])
def test_an_archive_that_is_gone_costs_no_reply(path: Path, stream: bool) -> None:
    with lossless.open(path, background=False) as engine:

        def script(_: Request) -> Say:
            engine.archive.close()
            return Say("paid for")

        with Provider(script) as provider, proxied(engine, provider) as url:
            answer = post(url + CHAT, json=BODY | {"stream": stream}, headers=GOOD)
            assert answer.status_code == 200
            assert "paid" in answer.text
            assert ("[DONE]" in answer.text) == stream
            again = post(url + CHAT, json=BODY, headers=GOOD)
            assert (again.status_code, len(provider.requests)) == (503, 1)
    with lossless.open(path, background=False) as engine:
        assert said(engine) == ["SECRET-WORDS"]


def test_a_session_without_a_name(engine: lossless.Engine) -> None:
    with Provider() as provider, proxied(engine, provider) as url:
        answer = post(url + CHAT, json=BODY, headers={**BYTES, b"x-lossless-session": b"\xa0"})
        assert answer.status_code == 400
        assert provider.requests == []


def test_events_are_read_wherever_they_are_cut() -> None:
    whole = (
        encode_sse({"type": "a", "text": "ä€😀"}, named=True)
        + b": note\r\n\r\n"
        + b'data: {"b":\ndata: 1}\n\ndata: [DONE]\n\nrest'
    )
    for size in range(1, 12):
        reader = SSEReader()
        events = [e for at in range(0, len(whole), size) for e in reader.feed(whole[at : at + size])]
        assert [data for _, data in events] == [{"type": "a", "text": "ä€😀"}, None, {"b": 1}, None]
        assert b"".join(raw for raw, _ in events) + reader.rest() == whole


HEAD = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nx-lossless-token: {TOKEN}\r\n"


@pytest.mark.parametrize("sent", ["", "POST /v1", HEAD, f"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n{HEAD}"])
def test_a_request_whose_head_never_ends_is_closed(engine: lossless.Engine, sent: str) -> None:
    with Provider() as provider, proxied(engine, provider, head_seconds=0.2) as url, _connected(url) as client:
        client.sendall(sent.encode())
        assert _until_closed(client).count(b"HTTP/1.1") == sent.startswith("GET")


def test_a_request_whose_body_never_ends_is_answered_and_closed(engine: lossless.Engine) -> None:
    with Provider() as provider, proxied(engine, provider, body_seconds=0.2) as url, _connected(url) as client:
        client.sendall(f"{HEAD}content-length: 100\r\n\r\n{{".encode())
        answer = _until_closed(client)
        assert b" 408 " in answer
        assert b"paused" in answer
        assert not provider.requests
    assert said(engine) == []


def test_a_slow_request_that_comes_is_served(engine: lossless.Engine) -> None:
    body = json.dumps(BODY).encode()
    with Provider() as provider, proxied(engine, provider, head_seconds=20.0) as url, _connected(url) as client:
        for piece in (
            HEAD.encode()[:9],
            HEAD.encode()[9:],
            b"connection: close\r\n",
            b"content-length: %d\r\n\r\n" % len(body),
        ):
            client.sendall(piece)
        client.sendall(body[:5])
        client.sendall(body[5:])
        assert b" 200 " in _until_closed(client)
        assert len(provider.requests) == 1


def _connected(url: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])), timeout=30)


def _until_closed(client: socket.socket) -> bytes:
    received = b""
    while chunk := client.recv(65536):
        received += chunk
    return received
