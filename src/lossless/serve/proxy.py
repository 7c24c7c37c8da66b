"""The proxy: a provider's HTTP interface on the loopback address that records what passes and keeps it inside the
window. Connections whose request never arrives whole are closed after a time.
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
    AccessDenied,
)
from lossless.serve.proxy_bodies import JsonListCache, read_body, rewrite_body
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

#: How long the head of a request may take, and how long its body may pause.
HEAD_SECONDS = 30.0
BODY_SECONDS = 60.0

_Protocol: Any = AutoHTTPProtocol


def http_protocol(seconds: float = HEAD_SECONDS) -> Any:
    """The HTTP protocol for uvicorn, which closes a connection when the head of a request is not whole in time."""

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
            """While no request is served, time runs from the first byte, however many follow."""
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
    """The body of a request; `TimeoutError` when it pauses for longer."""
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
#: Headers that belong to one connection, or that we write ourselves.
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
#: What a page may read of an answer's head.
_SHOWN = ["x-lossless-session", NOT_KEPT_HEADER, SHORTENED_HEADER, OVER_HEADER, "x-lossless-error"]
_SHOWN += ["retry-after", "x-request-id", "request-id"]


@dataclass(frozen=True, slots=True)
class ProxyOptions:
    """How the proxy works: where the providers are, whose keys it has, how conversations are kept."""

    openai_url: str = OPENAI_URL
    anthropic_url: str = ANTHROPIC_URL
    #: Keys for clients that bring none, by provider.
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    by: IdentifyBy = "prefix"
    window: int | None = None
    tools: RecallTools = "auto"
    #: Seconds to wait for a provider to say anything.
    timeout: float = 600.0
    #: Seconds that the body of a request may pause.
    body_seconds: float = BODY_SECONDS
    #: What requests bring whose session is named and that do not say it themselves.
    history: History = "window"


@dataclass(frozen=True, slots=True)
class _ProviderTarget:
    """Where a request goes."""

    provider: str
    url: str
    dialect: ProviderAPI | None


class Proxy:
    """Serves requests over one engine."""

    def __init__(self, engine: Engine, access: Access, options: ProxyOptions) -> None:
        self._engine, self._access, self._options = engine, access, options
        self._sessions, self._lists = SessionFinder(engine, options.by), JsonListCache()
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(options.timeout, connect=15.0),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
            follow_redirects=False,
        )

    async def close(self) -> None:
        """Let go of the connections to providers."""
        await self._client.aclose()

    async def serve(self, request: Request) -> Response:
        """One request: kept and made to fit when it is a conversation, passed on as it is when not."""
        provider = _provider(request)
        granted = self._access.check(request.headers, str(request.url))
        if isinstance(granted, AccessDenied):
            return error_response(provider, granted.status, granted.reason)
        target = self._target(request, provider)
        try:
            content = await read_whole_body(request, self._options.body_seconds)
        except TimeoutError:
            answer = error_response(provider, 408, f"the request paused for more than {self._options.body_seconds:g} s")
            answer.headers["connection"] = "close"
            return answer
        if target.dialect is None or request.method != "POST":
            return self._passed(request, target, granted, content)
        try:
            body = read_body(content, request.headers.get("content-encoding", ""), self._lists)
            if body is None:
                return self._passed(request, target, granted, content, "it is no JSON object")
            turn = await to_thread.run_sync(self._turn, target, body, granted, request.headers)
        except BadInput as error:
            return error_response(provider, 400, str(error))
        except LosslessError as error:  # what cannot be kept is refused: it would be lost without a word
            return error_response(provider, 503, f"the archive cannot keep this: {error}")
        is_same = turn.body is body.raw
        sent = self._request(request, target, granted, content if is_same else rewrite_body(body, turn.body), is_same)
        return RelayResponse(self._client, provider, sent, turn, self._sessions, body, turn.not_kept)

    def _passed(
        self,
        request: Request,
        target: _ProviderTarget,
        granted: AccessGranted,
        content: bytes,
        not_kept: str | None = None,
    ) -> Response:
        """A request that goes on as it is, and of which nothing is kept."""
        sent = self._request(request, target, granted, content)
        return RelayResponse(self._client, target.provider, sent, None, self._sessions, not_kept=not_kept)

    def _turn(
        self, target: _ProviderTarget, given: RequestBody, granted: AccessGranted, headers: Mapping[str, str]
    ) -> Turn:
        assert target.dialect is not None
        header = headers.get(SESSION_HEADER) or _told_by_client(headers, granted.key_name)
        body = given.raw
        stored = body.get("previous_response_id") or body.get("conversation")
        named = stored.get("id") if isinstance(stored, dict) else stored
        goes_on = str(named) if named else None
        options = self._options
        history = _history(headers.get(HISTORY_HEADER), options, is_named=bool(header or goes_on))
        alone = history == "append"
        session = self._sessions.of(target.dialect.window(body), granted.key_name, header, goes_on, as_named=alone)
        if isinstance(stored, str) and (real := self._sessions.real_id(stored)) != stored:
            body = body | {"previous_response_id": real}
        keeping = TurnRecorder(
            self._engine, session, target.dialect, target.provider, options.window, options.tools, history
        )
        try:
            return keeping.turn(body, given.most_tokens)
        except LosslessError:
            self._sessions.release(session)
            raise

    def _target(self, request: Request, provider: str) -> _ProviderTarget:
        base = self._options.openai_url if provider == "openai" else self._options.anthropic_url
        query = f"?{request.url.query}" if request.url.query else ""
        path = _at_provider(_plain(_path(request)), provider)
        dialect = _DIALECTS.get((provider, path.rstrip("/")))
        if dialect is None:
            path = _at_provider(_path(request), provider)
        return _ProviderTarget(provider, f"{base.rstrip('/')}{path}{query}", dialect)

    def _request(
        self, request: Request, target: _ProviderTarget, granted: AccessGranted, content: bytes, is_same: bool = True
    ) -> httpx2.Request:
        """The request as the provider gets it: the client's headers, without what is meant for us."""
        gone = _OURS if is_same else _OURS | {"content-encoding"}
        kept = [(name, value) for name, value in granted.headers if name not in gone]
        own = self._options.keys.get(target.provider)
        if not granted.key_headers and own:
            kept.append(("authorization", f"Bearer {own}") if target.provider == "openai" else ("x-api-key", own))
        headers = [*kept, ("accept-encoding", "identity")]
        return self._client.build_request(request.method, target.url, headers=headers, content=content)


def _told_by_client(headers: Mapping[str, str], key_name: str) -> str | None:
    """The name of the session that a client tells without being asked to; None when it tells none."""
    told = ((client, headers.get(name, "").strip()) for name, client in CLIENT_HEADERS.items())
    return next((f"proxy:{key_name}:{client}:{id_}" for client, id_ in told if id_), None)


def _history(given: str | None, options: ProxyOptions, *, is_named: bool) -> History:
    """What a request brings, by its header, else as the proxy was told."""
    history = options.history if given is None else given.strip().lower()
    if history == "window":
        return "window"
    if history != "append":
        raise BadInput(f"{HISTORY_HEADER} is window or append, not {given!r:.40}")
    if not is_named and options.by != "key":
        ways = f"name the session in {SESSION_HEADER}, or start the proxy with --session-by key"
        raise BadInput(f"with the history append it has to be known whose past it is: {ways}")
    return "append"


def _path(request: Request) -> str:
    """The path as the client wrote it."""
    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
    return raw.decode("ascii", "replace").partition("?")[0]


def _plain(path: str) -> str:
    """The path as servers understand it: one slash where there are several, dots followed, escapes read.

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
    """The path without whole segments at its start: what is left begins with a slash, so it never names a host."""
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
    """The proxy as an ASGI application over an open engine, which stays the caller's to close.

    Pages that are let in get what browsers ask for before they let a page read an answer.
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
