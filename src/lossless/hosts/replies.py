"""What clients hand out: replies and streams of objects, seen as plain JSON and given back as they came."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator

    from lossless.exchange.turn import Turn


def plain(value: Any) -> Any:
    """JSON values for whatever a client takes or gives; what is no JSON (a sentinel, a handle) is left out."""
    if isinstance(value, dict):
        made = {str(key): plain(item) for key, item in value.items()}
        return {key: item for key, item in made.items() if item is not _NOTHING}
    if isinstance(value, list | tuple):
        return [item for item in map(plain, value) if item is not _NOTHING]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json", exclude_unset=True, warnings=False)
    return _NOTHING


_NOTHING = object()


def rebuilt(result: Any, reply: Any, final: Any) -> Any:
    """The client's own object when nothing changed, else one of its kind."""
    return result if final is reply else type(result).construct(**final)


class _Events:
    """A turn's events as the client's objects."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._kinds: dict[object, Any] = {}
        #: Events that are not shown yet, by the identity of their plain form, which each entry keeps alive.
        self._held: dict[int, tuple[Any, Any]] = {}

    def feed(self, event: Any) -> list[Any]:
        """The objects to hand out for one that came."""
        raw = plain(event)
        if not isinstance(raw, dict):
            return [event]
        self._kinds[raw.get("type")] = type(event)
        self._held[id(raw)] = (raw, event)
        shown = [self._object(one) for one in self._turn.feed(raw)]
        if shown:
            del self._held[id(raw)]
        return shown

    def end(self) -> list[Any] | None:
        """The last objects; None when there is another round."""
        last = self._turn.end()
        made = None if last is None else [self._object(raw) for raw in last]
        self._held.clear()
        return made

    def broken(self) -> None:
        """Keep what had come."""
        self._turn.broken()

    def _object(self, raw: Any) -> Any:
        held = self._held.get(id(raw))
        return held[1] if held else self._kinds[raw.get("type")].construct(**raw)


class Replies:
    """A stream of a client's events. Like the client's own it can be iterated once, closed, and used in `with`."""

    def __init__(self, turn: Turn, stream: Any, again: Callable[[], Any]) -> None:
        self._turn, self._stream, self._again = turn, stream, again
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
        events, ended = _Events(self._turn), False
        try:
            while not ended:
                for event in self._stream:
                    yield from events.feed(event)
                last = events.end()
                ended = last is not None
                yield from last or ()
                if not ended:
                    self._stream = self._again()
        finally:
            if not ended:
                events.broken()


class AsyncReplies:
    """The same for `async for`."""

    def __init__(self, turn: Turn, stream: Any, again: Callable[[], Awaitable[Any]]) -> None:
        self._turn, self._stream, self._again = turn, stream, again
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
        events, ended = _Events(self._turn), False
        try:
            while not ended:
                async for event in self._stream:
                    for shown in events.feed(event):
                        yield shown
                last = await asyncio.to_thread(events.end)
                ended = last is not None
                for shown in last or ():
                    yield shown
                if not ended:
                    self._stream = await self._again()
        finally:
            if not ended:
                events.broken()


class Managed:
    """What Anthropic's `messages.stream()` returns: the message is kept when the `with` ends, as far as it came."""

    def __init__(self, turn: Turn, manager: Any) -> None:
        self._turn, self._manager = turn, manager

    def __enter__(self) -> Any:
        self._stream = self._manager.__enter__()
        return self._stream

    def __exit__(self, *error: Any) -> Any:
        try:
            _keep(self._turn, self._stream)
        finally:
            self._manager.__exit__(*error)


class AsyncManaged:
    """The same for `async with`."""

    def __init__(self, turn: Turn, manager: Any) -> None:
        self._turn, self._manager = turn, manager

    async def __aenter__(self) -> Any:
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
