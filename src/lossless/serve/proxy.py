"""The proxy: a provider's HTTP API on the loopback address that records conversations and keeps them inside the
window. Connections with incomplete requests are closed after a timeout.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import anyio
import httpx2
from anyio import to_thread
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from lossless.errors import BadInput, LosslessError
from lossless.providers.chat_completions import ChatCompletions
from lossless.providers.messages_api import MessagesApi
from lossless.providers.responses_api import ResponsesApi
from lossless.providers.turn import TurnRecorder
from lossless.serve.access import (
    ANTHROPIC_URL,
    CLIENT_HEADERS,
    HISTORY_HEADER,
    OPENAI_URL,
    SESSION_HEADER,
    TOKEN_HEADER,
)
from lossless.serve.proxy_bodies import JsonLists, read_body, rewrite_body
from lossless.serve.proxy_relay import NOT_KEPT_HEADER, OVER_HEADER, SHORTENED_HEADER, RelayResponse, error_response
from lossless.serve.proxy_sessions import SessionFinder

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from lossless.engine import Engine
    from lossless.providers.api import ProviderAPI
    from lossless.providers.turn import History, RecallTools, Turn
    from lossless.serve.access import Access, AccessGranted
    from lossless.serve.proxy_bodies import RequestBody
    from lossless.serve.proxy_sessions import IdentifyBy

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


_DIALECTS: dict[tuple[str, str], ProviderAPI] = {
    ("openai", "/chat/completions"): ChatCompletions(),
    ("openai", "/responses"): ResponsesApi(),
    ("anthropic", "/v1/messages"): MessagesApi(),
}
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]
#: Hop-by-hop headers, and those that we write ourselves.
_OURS = frozenset(
    ("host", "content-length", "connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "origin")
) | {
    "proxy-authorization",
    "proxy-connection",
    "expect",
    "accept-encoding",
    TOKEN_HEADER,
    SESSION_HEADER,
    HISTORY_HEADER,
}
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
        self._lists: JsonLists = []
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
            body = read_body(content, request.headers.get("content-encoding", ""), self._lists)
            if body is None:
                return relayed(content, not_kept="it is not a JSON object")
            turn = await to_thread.run_sync(self._turn, provider, dialect, body, granted, request.headers)
        except BadInput as error:
            return error_response(provider, 400, str(error))
        except LosslessError as error:  # a message that cannot be stored is refused: it would be lost silently
            return error_response(provider, 503, f"the archive cannot store this: {error}")
        is_same = turn.body is body.raw
        sent = content if is_same else rewrite_body(body, turn.body)
        return relayed(sent, is_same=is_same, turn=turn, body=body, not_kept=turn.not_kept)

    def _turn(
        self,
        provider: str,
        dialect: ProviderAPI,
        given: RequestBody,
        granted: AccessGranted,
        headers: Mapping[str, str],
    ) -> Turn:
        given_ids = ((client, headers.get(name, "").strip()) for name, client in CLIENT_HEADERS.items())
        own = next((f"proxy:{granted.key_name}:{client}:{id_}" for client, id_ in given_ids if id_), None)
        header = headers.get(SESSION_HEADER) or own
        body = given.raw
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
            return keeping.turn(body, given.most_tokens)
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
    """The history mode of a request: from its header, else the default."""
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
    parts: list[str] = []
    for part in unquote(path).split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(["", *parts, ""]) if parts and path.endswith("/") else "/" + "/".join(parts)


def _at_provider(path: str, provider: str) -> str:
    """The path below the provider's base URL."""
    path = _below(path, f"/{provider}")
    return _below(path, "/v1") if provider == "openai" else path


def _below(path: str, start: str) -> str:
    """The path without some leading segments: the rest begins with a slash, so it never names a host."""
    return path[len(start) :] or "/" if path == start or path.startswith(f"{start}/") else path


def _provider(request: Request) -> str:
    path = _plain(_path(request))
    if path.startswith("/anthropic/"):
        return "anthropic"
    if path.startswith("/openai/"):
        return "openai"
    is_anthropic = "anthropic-version" in request.headers or path.startswith("/v1/messages")
    return "anthropic" if is_anthropic else "openai"


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
