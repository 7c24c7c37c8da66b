"""A proxy on a port, in front of a provider that plays a part."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx2
import uvicorn

from lossless.serve.access import Access
from lossless.serve.proxy import ProxyOptions, http_protocol, proxy_app
from tests.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    import lossless
    from lossless.testing.provider import Provider

TOKEN = "proxy-token-for-tests-0001"
#: As those of httpx, with the patience that a busy machine needs.
post, streamed = partial(httpx2.post, timeout=60), partial(httpx2.stream, timeout=60)


@contextmanager
def proxied(engine: lossless.Engine, provider: Provider | str, **options: Any) -> Iterator[str]:
    """The address of a proxy over `engine` whose providers are both `provider`."""
    url = provider if isinstance(provider, str) else provider.url
    origins, head_seconds = options.pop("origins", frozenset()), options.pop("head_seconds", 30.0)
    chosen = ProxyOptions(openai_url=f"{url}/v1", anthropic_url=url, **options)
    app = proxy_app(engine, Access(TOKEN, origins), chosen)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        config = uvicorn.Config(app, http=http_protocol(head_seconds), log_level="error", access_log=False, ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        wait_for(lambda: server.started, every=0.002)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join(60)
