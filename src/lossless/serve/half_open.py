"""Connections whose request never comes whole: they end after a time, so that they cannot be piled up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
from uvicorn.protocols.http.auto import AutoHTTPProtocol

if TYPE_CHECKING:
    import asyncio

    from starlette.requests import Request

#: How long the head of a request may take, and how long its body may pause.
HEAD_SECONDS = 30.0
BODY_SECONDS = 60.0

_Protocol: Any = AutoHTTPProtocol


def protocol(seconds: float = HEAD_SECONDS) -> Any:
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


async def whole_body(request: Request, seconds: float) -> bytes:
    """The body of a request; `TimeoutError` when it pauses for longer."""
    chunks = []
    stream = request.stream()
    while True:
        with anyio.fail_after(seconds):
            try:
                chunks.append(await anext(stream))
            except StopAsyncIteration:
                return b"".join(chunks)
