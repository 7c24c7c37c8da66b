"""The proxy: a provider's HTTP API on the loopback address that records conversations and keeps them inside the
window. Recall calls are answered on the way. Connections with incomplete requests are closed after a timeout.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from posixpath import normpath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import anyio
import httpx2
from anyio import to_thread
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from lossless.errors import BadInput, LosslessError
from lossless.providers.chat_completions import ChatCompletions
from lossless.providers.messages_api import MessagesApi
from lossless.providers.responses_api import ResponsesApi
from lossless.providers.turn import History, RecallTools, Turn, TurnRecorder
from lossless.serve.access import (
    ANTHROPIC_URL,
    CLIENT_HEADERS,
    HISTORY_HEADER,
    OPENAI_URL,
    SESSION_HEADER,
    TOKEN_HEADER,
    Access,
    AccessGranted,
)
from lossless.serve.proxy_bodies import COMPRESSED_ENCODINGS, parse_object, read_body, write_body
from lossless.serve.proxy_sessions import IdentifyBy, SessionFinder

if TYPE_CHECKING:
    import asyncio

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from lossless.engine import Engine
    from lossless.providers.api import ProviderAPI, Raw

#: The time limit for the head of a request, and for pauses in its body.
HEAD_SECONDS = 30.0
BODY_SECONDS = 60.0

_Protocol: Any = AutoHTTPProtocol


def http_protocol(seconds: float = HEAD_SECONDS) -> Any:
    """The HTTP protocol for uvicorn that closes a connection when the head of a request is not complete in time."""

    class Patient(_Protocol):  # type: ignore[misc]
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, error: Exception | None) -> None:
            self._stop()
            super().connection_lost(error)

        def _watch(self) -> None:
            """Between requests, the timeout runs from the first byte, however many follow."""
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop()
            elif self._timer is None:
                self._timer = self.loop.call_later(seconds, self._give_up)

        def _stop(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _give_up(self) -> None:
            self._timer = None
            if self.cycle is None or self.cycle.response_complete:
                self.transport.close()

    return Patient


async def read_whole_body(request: Request, seconds: float) -> bytes:
    """The body of a request; `TimeoutError` when a pause is too long."""
    chunks = []
    stream = request.stream()
    while True:
        with anyio.fail_after(seconds):
            try:
                chunks.append(await anext(stream))
            except StopAsyncIteration:
                return b"".join(chunks)


_BLANK = re.compile(rb"\r\n\r\n|\n\n|\r\r")
#: The last bytes of the buffer may be the start of a blank line.
_OPEN = 3


class SSEReader:
    """Bytes in, complete events out, wherever the bytes were split; each byte is searched once."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._searched = 0

    def feed(self, chunk: bytes) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
        """Events: the original bytes of each, and its data when that is a JSON object."""
        return ((raw, _data(raw)) for raw in self._complete(chunk))

    def rest(self) -> bytes:
        rest, self._held, self._searched = bytes(self._held), bytearray(), 0
        return rest

    def _complete(self, chunk: bytes) -> list[bytes]:
        self._held += chunk
        whole, start = [], 0
        while found := _BLANK.search(self._held, max(start, self._searched)):
            whole.append(bytes(self._held[start : found.end()]))
            start = found.end()
        del self._held[:start]
        self._searched = max(0, len(self._held) - _OPEN)
        return whole


def encode_sse(data: dict[str, Any], *, named: bool) -> bytes:
    """An event as bytes; with its type on a separate line where events are `named`."""
    name = f"event: {data.get('type')}\n" if named else ""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"{name}data: {text}\n\n".encode("utf-8", "backslashreplace")


def _data(raw: bytes) -> dict[str, Any] | None:
    lines = [line[5:].lstrip() for line in raw.splitlines() if line.startswith(b"data:")]
    return parse_object(b"\n".join(lines)) if lines else None


#: Says why a request, or its reply, is not stored.
NOT_KEPT_HEADER = "x-lossless-not-kept"
#: Name the messages that the model sees in part, and say by how much a request exceeds its window, and why.
SHORTENED_HEADER, OVER_HEADER = "x-lossless-shortened", "x-lossless-over"
_HOP_BY_HOP = frozenset(("connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade"))


def error_response(provider: str, status: int, reason: str, not_kept: str | None = None) -> JSONResponse:
    """An error of the proxy in the shape that the provider's clients expect."""
    header = {} if not_kept is None else {NOT_KEPT_HEADER: _word(not_kept).decode()}
    return JSONResponse(_error(provider, reason), status, {"x-lossless-error": "1"} | header)


class RelayResponse(Response):
    """Sends a request to its provider and streams the response to the client."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        provider: str,
        request: httpx2.Request,
        sessions: SessionFinder,
        turn: Turn | None = None,
        not_kept: str | None = None,
    ) -> None:
        super().__init__()
        self._not_kept = not_kept
        self._client, self._provider, self._request = client, provider, request
        self._turn, self._sessions = turn, sessions
        self._session = None if turn is None else turn.keeping.session
        self._begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Relay; when the client disconnects, the provider's response is ended, and what was received is stored."""
        async with anyio.create_task_group() as group:

            async def watch() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                group.cancel_scope.cancel()

            group.start_soon(watch)
            try:
                await self._relay(send)
            except httpx2.HTTPError as error:
                await self._broken(error, scope, receive, send)
            except anyio.get_cancelled_exc_class():
                await self._keep_rest()
                raise
            finally:
                self._sessions.release(self._session)
            group.cancel_scope.cancel()

    async def _relay(self, send: Send) -> None:
        while True:
            answer = await self._client.send(self._request, stream=True)
            try:
                is_stream = answer.headers.get("content-type", "").startswith("text/event-stream")
                encoding = answer.headers.get("content-encoding", "identity").strip().lower()
                if encoding not in ("", "identity", *COMPRESSED_ENCODINGS):
                    await self._keep_rest("the provider's response has an unknown compression")
                if self._turn is not None and await self._is_too_long(self._turn, answer):
                    self._request = self._again(self._turn)
                    continue
                if self._turn is None or answer.status_code != 200:
                    await self._pass(answer, send, is_stream=is_stream)
                    return
                if await (self._stream if is_stream else self._whole)(self._turn, answer, send):
                    return
            finally:
                with anyio.CancelScope(shield=True):
                    await answer.aclose()
            self._request = self._again(self._turn)

    async def _is_too_long(self, turn: Turn, answer: httpx2.Response) -> bool:
        """Whether the request was refused as too long and is sent again with less history."""
        is_packed = answer.headers.get("content-encoding", "identity") not in ("", "identity")
        if self._begun or is_packed or not 400 <= answer.status_code < 500:
            return False
        text = (await answer.aread()).decode("utf-8", "replace")
        try:
            return await to_thread.run_sync(turn.refused, answer.status_code, text)
        except LosslessError:
            return False

    async def _pass(self, answer: httpx2.Response, send: Send, *, is_stream: bool) -> None:
        """Forwards the response unchanged; an error in mid-stream becomes an event."""
        if self._begun:
            await answer.aread()
            await self._keep_rest()
            await self._send_error(
                send, f"the provider answered {answer.status_code} while recall was read; what was received is stored"
            )
            return
        await self._start(answer, send)
        if answer.is_stream_consumed:
            await _body(send, answer.content)
        else:
            async for chunk in answer.aiter_raw():
                await _body(send, chunk)
        await _body(send, b"", more=False)
        if is_stream:
            await self._keep_rest()

    async def _whole(self, turn: Turn, answer: httpx2.Response, send: Send) -> bool:
        """A non-streamed reply; false when there is another round."""
        content = await answer.aread()
        if (reply := parse_object(content)) is not None:
            final = await to_thread.run_sync(_taken, turn, reply)
            if final is None:
                return False
            self._sessions.remember(final.get("id"), turn.keeping.session, final.get("id"))
            if final is not reply:
                content = write_body(final)
        await self._start(answer, send, is_read=True, length=len(content))
        await _body(send, content, more=False)
        return True

    async def _stream(self, turn: Turn, answer: httpx2.Response, send: Send) -> bool:
        """A streamed reply; false when there is another round, which continues in the same response."""
        await self._start(answer, send, is_read=True)
        reader, done, named = SSEReader(), b"", turn.keeping.dialect.names_events
        held: dict[int, tuple[bytes, dict[str, Any]]] = {}
        async for chunk in answer.aiter_bytes():
            shown = b""
            for raw, data in reader.feed(chunk):
                if data is None:
                    done, shown = (raw, shown) if b"[DONE]" in raw else (done, shown + raw)
                    continue
                held[id(data)] = raw, data
                seen = turn.stream.feed(data)
                shown += b"".join(_bytes(one, held, named=named) for one in seen)
                if seen:
                    del held[id(data)]
            await _body(send, shown)
        last = await to_thread.run_sync(_ended, turn)
        if last is None:
            return False
        shown_id = next((data["response"].get("id") for data in last if isinstance(data.get("response"), dict)), None)
        self._sessions.remember(shown_id, turn.keeping.session, turn.stream.reply().get("id"))
        ending = b"".join(_bytes(data, held, named=named) for data in last)
        await _body(send, ending + reader.rest() + done, more=False)
        self._turn = None
        return True

    async def _start(
        self, answer: httpx2.Response, send: Send, *, is_read: bool = False, length: int | None = None
    ) -> None:
        """Forwards the response head, once; the body is forwarded uncompressed."""
        if self._begun:
            return
        self._begun = True
        gone = _HOP_BY_HOP | {"proxy-authenticate"}
        headers = [(name.lower(), value) for name, value in answer.headers.raw if name.lower().decode() not in gone]
        if self._turn is not None:
            changed = (b"content-length", b"content-encoding") if is_read else (b"content-length",)
            headers = [(name, value) for name, value in headers if name not in changed]
            headers.append((b"x-lossless-session", _word(self._turn.keeping.session.name)))
            if self._turn.shortened:
                headers.append((SHORTENED_HEADER.encode(), _word(" ".join(self._turn.shortened))))
            if self._turn.over:
                headers.append((OVER_HEADER.encode(), _word(f"{self._turn.over} {self._turn.why_over}")))
            headers += [] if length is None else [(b"content-length", b"%d" % length)]
        if self._not_kept is not None:
            headers.append((NOT_KEPT_HEADER.encode(), _word(self._not_kept)))
        await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})

    async def _broken(self, error: httpx2.HTTPError, scope: Scope, receive: Receive, send: Send) -> None:
        """The provider failed: report it, and store what was received, if this turn is stored at all."""
        not_kept = self._not_kept or ("it is not a conversation" if self._session is None else None)
        await self._keep_rest()
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.UnsupportedProtocol):
            status, reason = 502, f"the provider cannot be reached at {self._request.url.host}"
        elif isinstance(error, httpx2.TimeoutException):
            status, reason = 504, "the provider did not respond in time"
        else:
            status, reason = 502, "the provider's response was cut off"
        if not self._begun:
            fate = "nothing of it is stored" if not_kept else "the messages are stored"
            await error_response(self._provider, status, f"{reason}; {fate}", not_kept)(scope, receive, send)
            return
        await self._send_error(send, reason if not_kept else f"{reason}; what was received is stored")

    async def _send_error(self, send: Send, reason: str) -> None:
        named = self._provider == "anthropic"
        await _body(send, encode_sse(_error(self._provider, reason), named=named), more=False)

    async def _keep_rest(self, not_kept: str | None = None) -> None:
        turn, self._turn = self._turn, None
        self._not_kept = self._not_kept or not_kept
        if turn is not None:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(turn.broken)

    def _again(self, turn: Turn) -> httpx2.Request:
        old = ("content-length", "content-encoding")
        headers = [(name, value) for name, value in self._request.headers.items() if name not in old]
        content, request = write_body(turn.body), self._request
        return self._client.build_request(request.method, request.url, headers=headers, content=content)


def _word(text: str) -> bytes:
    return " ".join(text.split()).encode("ascii", "backslashreplace")


def _taken(turn: Turn, reply: dict[str, Any]) -> dict[str, Any] | None:
    """The reply for the client. It has been paid for, so it is delivered even when the archive cannot store it."""
    try:
        return turn.take(reply)
    except LosslessError:
        return turn.keeping.dialect.without_calls(reply, turn.hidden)


def _ended(turn: Turn) -> list[dict[str, Any]] | None:
    try:
        return turn.end()
    except LosslessError:
        return turn.stream.ending()


def _bytes(data: dict[str, Any], held: dict[int, tuple[bytes, dict[str, Any]]], *, named: bool) -> bytes:
    """An event's original bytes when nothing changed, else new ones."""
    event = held.get(id(data))
    return encode_sse(data, named=named) if event is None else event[0]


def _error(provider: str, reason: str) -> dict[str, Any]:
    error: dict[str, Any] = {"type": "lossless_proxy", "message": reason}
    return {"type": "error", "error": error} if provider == "anthropic" else {"error": error | {"code": None}}


async def _body(send: Send, content: bytes, *, more: bool = True) -> None:
    if content or not more:
        await send({"type": "http.response.body", "body": content, "more_body": more})


_DIALECTS: dict[tuple[str, str], ProviderAPI] = {
    ("openai", "/chat/completions"): ChatCompletions(),
    ("openai", "/responses"): ResponsesApi(),
    ("anthropic", "/v1/messages"): MessagesApi(),
}
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]
#: Request headers that are not forwarded: hop by hop, and those that we write ourselves.
_OURS = _HOP_BY_HOP | {"host", "content-length", "origin", "proxy-authorization", "proxy-connection", "expect"}
_OURS |= {"accept-encoding", TOKEN_HEADER, SESSION_HEADER, HISTORY_HEADER}
#: Response headers that web pages may read.
_SHOWN = ["x-lossless-session", NOT_KEPT_HEADER, SHORTENED_HEADER, OVER_HEADER, "x-lossless-error"]
_SHOWN += ["retry-after", "x-request-id", "request-id"]


@dataclass(frozen=True, slots=True)
class ProxyOptions:
    """Proxy options: provider addresses, keys, and how conversations are stored."""

    openai_url: str = OPENAI_URL
    anthropic_url: str = ANTHROPIC_URL
    #: Keys for clients without one, by provider.
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    by: IdentifyBy = "prefix"
    window: int | None = None
    tools: RecallTools = "auto"
    #: Seconds to wait for a provider's response.
    timeout: float = 600.0
    #: Maximum pause in the body of a request, in seconds.
    body_seconds: float = BODY_SECONDS
    #: The default history mode for requests of a named session.
    history: History = "window"


class Proxy:
    """Serves requests over one engine."""

    def __init__(self, engine: Engine, access: Access, options: ProxyOptions) -> None:
        self._engine, self._access, self._options = engine, access, options
        self._sessions = SessionFinder(engine, options.by)
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(options.timeout, connect=15.0),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
            follow_redirects=False,
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def serve(self, request: Request) -> Response:
        """Handles one request: a conversation is stored and fitted, anything else is forwarded unchanged."""
        provider = _provider(request)
        granted = self._access.check(request.headers, str(request.url))
        if isinstance(granted, tuple):
            return error_response(provider, *granted)
        url, dialect = self._target(request, provider)

        def relayed(sent_body: bytes, *, is_same: bool = True, **turn: Any) -> Response:
            gone = _OURS if is_same else _OURS | {"content-encoding"}
            kept = [(name, value) for name, value in granted.headers if name not in gone]
            own = self._options.keys.get(provider)
            if not granted.key_headers and own:
                kept.append(("authorization", f"Bearer {own}") if provider == "openai" else ("x-api-key", own))
            headers = [*kept, ("accept-encoding", "identity")]
            sent = self._client.build_request(request.method, url, headers=headers, content=sent_body)
            return RelayResponse(self._client, provider, sent, sessions=self._sessions, **turn)

        try:
            content = await read_whole_body(request, self._options.body_seconds)
        except TimeoutError:
            answer = error_response(provider, 408, f"the request paused for more than {self._options.body_seconds:g} s")
            answer.headers["connection"] = "close"
            return answer
        if dialect is None or request.method != "POST":
            return relayed(content)
        try:
            body = read_body(content, request.headers.get("content-encoding", ""))
            if body is None:
                return relayed(content, not_kept="it is not a JSON object")
            turn = await to_thread.run_sync(self._turn, provider, dialect, body, granted, request.headers)
        except BadInput as error:
            return error_response(provider, 400, str(error))
        except LosslessError as error:  # a message that cannot be stored is refused: it would be lost silently
            return error_response(provider, 503, f"the archive cannot store this: {error}")
        is_same = turn.body is body
        sent = content if is_same else write_body(turn.body)
        return relayed(sent, is_same=is_same, turn=turn, not_kept=turn.not_kept)

    def _turn(
        self,
        provider: str,
        dialect: ProviderAPI,
        body: Raw,
        granted: AccessGranted,
        headers: Mapping[str, str],
    ) -> Turn:
        given_ids = ((client, headers.get(name, "").strip()) for name, client in CLIENT_HEADERS.items())
        own = next((f"proxy:{granted.key_name}:{client}:{id_}" for client, id_ in given_ids if id_), None)
        header = headers.get(SESSION_HEADER) or own
        stored = body.get("previous_response_id") or body.get("conversation")
        named = stored.get("id") if isinstance(stored, dict) else stored
        goes_on = str(named) if named else None
        options = self._options
        history = _history(headers.get(HISTORY_HEADER), options, is_named=bool(header or goes_on))
        alone = history == "append"
        session = self._sessions.of(dialect.window(body), granted.key_name, header, goes_on, as_named=alone)
        if isinstance(stored, str) and (real := self._sessions.real_id(stored)) != stored:
            body = body | {"previous_response_id": real}
        keeping = TurnRecorder(self._engine, session, dialect, provider, options.window, options.tools, history)
        try:
            return keeping.turn(body)
        except LosslessError:
            self._sessions.release(session)
            raise

    def _target(self, request: Request, provider: str) -> tuple[str, ProviderAPI | None]:
        """Where a request goes, and the API if it is a conversation."""
        base = self._options.openai_url if provider == "openai" else self._options.anthropic_url
        query = f"?{request.url.query}" if request.url.query else ""
        path = _at_provider(_plain(_path(request)), provider)
        dialect = _DIALECTS.get((provider, path.rstrip("/")))
        if dialect is None:
            path = _at_provider(_path(request), provider)
        return f"{base.rstrip('/')}{path}{query}", dialect


def _history(given: str | None, options: ProxyOptions, *, is_named: bool) -> History:
    history = options.history if given is None else given.strip().lower()
    if history == "window":
        return "window"
    if history != "append":
        raise BadInput(f"{HISTORY_HEADER} is window or append, not {given!r:.40}")
    if not is_named and options.by != "key":
        ways = f"name the session in {SESSION_HEADER}, or start the proxy with --session-by key"
        raise BadInput(f"the history `append` needs to know the session: {ways}")
    return "append"


def _path(request: Request) -> str:
    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
    return raw.decode("ascii", "replace").partition("?")[0]


def _plain(path: str) -> str:
    """The normalised path: single slashes, dots resolved, escapes decoded.

    >>> _plain("//v1/./x/..//chat%2Fcompletions/")
    '/v1/chat/completions/'
    """
    plain = normpath("/" + unquote(path).lstrip("/"))
    return f"{plain}/" if path.endswith("/") and plain != "/" else plain


def _at_provider(path: str, provider: str) -> str:
    path = _below(path, f"/{provider}")
    return _below(path, "/v1") if provider == "openai" else path


def _below(path: str, start: str) -> str:
    """The path without some leading segments: the rest begins with a slash, so it never names a host."""
    return path[len(start) :] or "/" if path == start or path.startswith(f"{start}/") else path


def _provider(request: Request) -> str:
    path = _plain(_path(request))
    is_anthropic = path.startswith(("/anthropic/", "/v1/messages")) or "anthropic-version" in request.headers
    return "anthropic" if is_anthropic and not path.startswith("/openai/") else "openai"


def proxy_app(engine: Engine, access: Access, options: ProxyOptions | None = None) -> Starlette:
    """The proxy as an ASGI application over an open engine, which the caller closes.

    Allowed origins get CORS headers.
    """
    proxy = Proxy(engine, access, options or ProxyOptions())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await proxy.close()

    routes = [Route("/{path:path}", proxy.serve, methods=_METHODS)]
    pages = sorted(access.origins)
    cors = Middleware(
        CORSMiddleware, allow_origins=pages, allow_methods=["*"], allow_headers=["*"], expose_headers=_SHOWN
    )
    return Starlette(routes=routes, middleware=[cors] if pages else [], lifespan=lifespan)
