"""Streams of a client's events, passed on as they come and kept as far as they came."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from lossless.hosts.replies import Events, plain

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator

    from lossless.exchange.turn import Turn
    from lossless.hosts.chat import Chat


class Replies:
    """A stream of a client's events. Like the client's own it can be iterated once, closed, and used in `with`."""

    def __init__(self, chat: Chat, turn: Turn, stream: Any, again: Callable[[], Any]) -> None:
        self._kept, self._stream, self._again = Events(turn), stream, again
        chat.streams.add(self._kept)
        self._events = self._iterate()

    def __iter__(self) -> Iterator[Any]:
        return self._events

    def __next__(self) -> Any:
        return next(self._events)

    def __enter__(self) -> Replies:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def close(self) -> None:
        """Let go of the connection; what had come is kept."""
        self._events.close()
        self._stream.close()

    def _iterate(self) -> Generator[Any, None, None]:
        try:
            while True:
                for event in self._stream:
                    yield from self._kept.feed(event)
                if (last := self._kept.end()) is not None:
                    yield from last
                    return
                self._stream = self._again()
        finally:
            self._kept.broken()


class AsyncReplies:
    """The same for `async for`."""

    def __init__(self, chat: Chat, turn: Turn, stream: Any, again: Callable[[], Awaitable[Any]]) -> None:
        self._kept, self._stream, self._again = Events(turn), stream, again
        chat.streams.add(self._kept)
        self._events = self._iterate()

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._events

    async def __anext__(self) -> Any:
        return await anext(self._events)

    async def __aenter__(self) -> AsyncReplies:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def close(self) -> None:
        """Let go of the connection; what had come is kept."""
        await self._events.aclose()
        await self._stream.close()

    async def _iterate(self) -> AsyncGenerator[Any, None]:
        try:
            while True:
                async for event in self._stream:
                    for shown in self._kept.feed(event):
                        yield shown
                if (last := await asyncio.to_thread(self._kept.end)) is not None:
                    for shown in last:
                        yield shown
                    return
                self._stream = await self._again()
        finally:
            self._kept.broken()


class Managed:
    """What Anthropic's `messages.stream()` returns: the message is kept when the `with` ends, as far as it came."""

    def __init__(self, keep: Callable[[], Turn], start: Callable[[Turn], Any]) -> None:
        self._keep, self._start = keep, start

    def __enter__(self) -> Any:
        self._turn = self._keep()
        self._manager = self._start(self._turn)
        self._stream = self._manager.__enter__()
        return self._stream

    def __exit__(self, *error: Any) -> Any:
        try:
            _keep(self._turn, self._stream)
        finally:
            self._manager.__exit__(*error)


class AsyncManaged:
    """The same for `async with`."""

    def __init__(self, keep: Callable[[], Turn], start: Callable[[Turn], Any]) -> None:
        self._keep, self._start = keep, start

    async def __aenter__(self) -> Any:
        self._turn = await asyncio.to_thread(self._keep)
        self._manager = self._start(self._turn)
        self._stream = await self._manager.__aenter__()
        return self._stream

    async def __aexit__(self, *error: Any) -> Any:
        try:
            await asyncio.to_thread(_keep, self._turn, self._stream)
        finally:
            await self._manager.__aexit__(*error)


def _keep(turn: Turn, stream: Any) -> None:
    """Keep the message that a stream has so far; calls that were cut off are not."""
    try:
        reply = plain(stream.current_message_snapshot)
    except AssertionError:  # nothing came
        return
    dialect = turn.keeping.dialect
    if not reply.get("stop_reason"):
        reply = dialect.without_calls(reply, {call.name for call in dialect.calls(reply)})
    turn.take(reply)
