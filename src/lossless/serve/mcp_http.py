"""MCP over HTTP for programs on this machine: loopback only, behind a token, for known hosts and origins."""

from __future__ import annotations

import hmac
import socket
from typing import TYPE_CHECKING

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from lossless.errors import BadInput
from lossless.serve.mcp import make_server

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from lossless.serve.archive_tools import ArchiveTools

HOST = "127.0.0.1"
PORT = 4878
PATH = "/mcp"
#: How much of a request is read that is refused.
_READ_BYTES = 1 << 20


def require_token(app: ASGIApp, token: str) -> ASGIApp:
    """The application for requests with the token; all others get 401."""
    expected = f"Bearer {token}".encode()

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        is_http = scope["type"] == "http"
        given = [value for name, value in scope["headers"] if name == b"authorization"] if is_http else []
        if scope["type"] == "lifespan" or (len(given) == 1 and hmac.compare_digest(given[0], expected)):
            await app(scope, receive, send)
        elif is_http:
            size = 0  # what is sent and not read would reset the connection before the answer is read
            while size < _READ_BYTES and (part := await receive()).get("more_body"):
                size += len(part["body"])
            headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain"), (b"connection", b"close")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": b"A bearer token is needed.\n"})

    return checked


def make_app(archive: ArchiveTools, token: str, port: int) -> ASGIApp:
    """The application: `/mcp` for requests with the token and one of this machine's loopback names."""
    names = [f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")]
    security = TransportSecuritySettings(allowed_hosts=names, allowed_origins=[f"http://{name}" for name in names])
    app = make_server(archive).streamable_http_app(streamable_http_path=PATH, transport_security=security)
    return require_token(app, token)


def serve_http(archive: ArchiveTools, token: str, port: int = PORT, *, ready: Callable[[str], None]) -> None:
    """Serve until interrupted; port 0 takes a free one. `ready` gets the address."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(64)
    except OSError as error:
        listener.close()
        raise BadInput(f"port {port} cannot be used: {error.strerror}; choose another with --port") from error
    number = int(listener.getsockname()[1])
    config = uvicorn.Config(make_app(archive, token, number), log_level="warning", access_log=False, ws="none")
    ready(f"http://{HOST}:{number}{PATH}")
    try:
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        listener.close()
        archive.close()
